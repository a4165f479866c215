/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/run/experience-message.h"
#include "engine/run/split.h"

void
plumb_split_sequences (const gint32 *offsets, int n, int unit, int parts, int *ends)
{
  gint64 total = offsets[n] - offsets[0];
  int at = 0;
  for (int part = 0; part < parts; part++)
    {
      gint64 wanted = total * (part + 1) / parts;
      /* A unit belongs to the stretch in which its middle lies. */
      while (at < n)
        {
          int next = MIN (n, at + unit);
          gint64 middle = ((gint64) (offsets[at] - offsets[0]) + (offsets[next] - offsets[0])) / 2;
          if (middle >= wanted && part < parts - 1)
            break;
          at = next;
        }
      ends[part] = at;
    }
}

struct plumb_experience *
plumb_experience_part (const struct plumb_experience *e, int first, int last)
{
  g_autofree int *sequences = g_new (int, (gsize) (last - first) + 1);
  for (int s = first; s < last; s++)
    sequences[s - first] = s;
  return plumb_experience_select (e, sequences, last - first);
}
