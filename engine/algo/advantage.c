/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/advantage.h"

#include <math.h>   // defines: fmax, fmin, sqrt
#include <stddef.h> // defines: NULL

#define STD_EPSILON 1e-9

static double
clip (double value, double low, double high)
{
  return value < low ? low : value > high ? high : value;
}

static void
drop_sequence (struct plumb_experience *e, int s)
{
  for (int t = e->offsets[s]; t < e->offsets[s + 1]; t++)
    e->mask[t] = 0;
}

/* Spreads the shaped reward of a sequence over its tokens as returns; gives the whole return. */
static double
set_returns (struct plumb_experience *e, const struct plumb_advantage_options *o, int s, double shaped)
{
  double sum = shaped;
  for (int t = e->offsets[s + 1] - 1; t >= e->offsets[s]; t--)
    {
      if (!e->mask[t])
        continue;
      if (o->kl_in_reward && o->kl_coefficient > 0)
        sum -= o->kl_coefficient
               * plumb_kl (o->kl_estimator, (double) e->old_logp[t] - e->reference_logp[t], NULL);
      e->advantage[t] = sum;
    }
  return sum;
}

/* Mean and unbiased deviation of the scored rewards of sequences first..last-1. */
static int
group_moments (const struct plumb_experience *e, int first, int last, double *mean, double *deviation)
{
  int n = 0;
  double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
  for (int s = first; s < last; s++)
    if (e->scored[s])
      {
        sum += e->reward[s];
        least = fmin (least, e->reward[s]);
        most = fmax (most, e->reward[s]);
        n++;
      }
  /* Equal rewards have no spread, although their mean may round. */
  *mean = least == most ? most : n ? sum / n : 0;
  for (int s = first; s < last; s++)
    if (e->scored[s])
      squares += (e->reward[s] - *mean) * (e->reward[s] - *mean);
  *deviation = n > 1 ? sqrt (squares / (n - 1)) : 0;
  return n;
}

static double
normalized (const struct plumb_advantage_options *o, double reward, double mean, double deviation)
{
  if (o->normalize == PLUMB_NORMALIZE_NONE)
    return reward;
  return (reward - mean) / (o->normalize == PLUMB_NORMALIZE_MEAN ? 1 : deviation + STD_EPSILON);
}

void
plumb_advantage_group_norm (struct plumb_experience *e, const struct plumb_advantage_options *o,
                            struct plumb_group_statistics *statistics)
{
  struct plumb_group_statistics found = { 0 };
  int kept = 0;
  for (int first = 0, last; first < e->sequences; first = last)
    {
      for (last = first + 1; last < e->sequences && e->group[last] == e->group[first]; last++)
        ;
      double mean, deviation;
      int scored = group_moments (e, first, last, &mean, &deviation);
      for (int s = first; s < last; s++)
        {
          if (!e->scored[s] || scored < 2)
            {
              drop_sequence (e, s);
              found.dropped++;
              continue;
            }
          double shaped = clip (normalized (o, e->reward[s], mean, deviation), o->clip_low, o->clip_high);
          found.mean_return += e->reward[s] + set_returns (e, o, s, shaped) - shaped;
          kept++;
        }
      if (scored < 2)
        continue;
      found.groups++;
      found.flat += deviation == 0;
      found.mean_std += deviation;
    }
  if (found.groups)
    found.mean_std /= found.groups;
  if (kept)
    found.mean_return /= kept;
  *statistics = found;
}
