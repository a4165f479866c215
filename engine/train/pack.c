/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/train/pack.h"

GArray *
plumb_pack_in_order (const gint32 *offsets, const int *sequences, int n, int unit, int budget)
{
  GArray *ends = g_array_new (FALSE, FALSE, sizeof (int));
  int used = 0;
  for (int i = 0; i < n; i += unit)
    {
      int length = 0;
      for (int k = i; k < MIN (n, i + unit); k++)
        length += offsets[sequences[k] + 1] - offsets[sequences[k]];
      if (used > 0 && used + length > budget)
        {
          g_array_append_val (ends, i);
          used = 0;
        }
      used += length;
    }
  if (n > 0)
    g_array_append_val (ends, n);
  return ends;
}
