/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/train/pack.h"

GArray *
plumb_pack_in_order (const gint32 *offsets, const int *sequences, int n, int budget)
{
  GArray *ends = g_array_new (FALSE, FALSE, sizeof (int));
  int used = 0;
  for (int i = 0; i < n; i++)
    {
      int length = offsets[sequences[i] + 1] - offsets[sequences[i]];
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
