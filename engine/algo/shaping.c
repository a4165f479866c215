/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/shaping.h"

/* Tokens from the first that counts to the last. */
static int
span (const struct plumb_experience *e, int s)
{
  int first = -1, last = -1;
  for (int t = e->offsets[s]; t < e->offsets[s + 1]; t++)
    if (e->mask[t])
      {
        first = first < 0 ? t : first;
        last = t;
      }
  return first < 0 ? 0 : last - first + 1;
}

void
plumb_shape_overlong (struct plumb_experience *e, int limit, int buffer, double factor)
{
  for (int s = 0; s < e->sequences; s++)
    {
      int over = span (e, s) - (limit - buffer);
      if (over > buffer)
        over = buffer;
      if (e->scored[s] && over > 0)
        e->reward[s] -= (double) over / buffer * factor;
    }
}

void
plumb_shape_truncated (struct plumb_experience *e, double factor)
{
  for (int s = 0; s < e->sequences; s++)
    if (e->scored[s] && e->truncated[s])
      e->reward[s] = factor < 0 ? factor : e->reward[s] * factor;
}

void
plumb_shape_standardize (struct plumb_experience *e, double mean, double deviation)
{
  for (int s = 0; s < e->sequences; s++)
    if (e->scored[s])
      e->reward[s] = (e->reward[s] - mean) / deviation;
}

int
plumb_group_teaches (const struct plumb_experience *e, int first, int last, double low, double high)
{
  double sum = 0;
  int scored = 0;
  for (int s = first; s < last; s++)
    if (e->scored[s])
      {
        sum += e->reward[s];
        scored++;
      }
  return scored >= 2 && sum / scored > low && sum / scored < high;
}

int
plumb_group_extreme (const struct plumb_experience *e, int first, int last, int sign)
{
  int found = -1;
  for (int s = first; s < last; s++)
    if (e->scored[s] && (found < 0 || sign * e->reward[s] > sign * e->reward[found]))
      found = s;
  return found;
}
