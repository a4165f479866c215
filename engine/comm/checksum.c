/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/comm/checksum.h"

#define LANES 4
#define FACTOR G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)

static inline guint64
mix (guint64 state, guint64 word)
{
  state = (state ^ word) * FACTOR;
  return state ^ state >> 29;
}

/* Four chains side by side, since one waits for its multiplications. */
guint64
plumb_checksum (const void *data, gsize bytes, guint64 start)
{
  const char *at = data;
  guint64 lanes[LANES] = { start, start + 1, start + 2, start + 3 }, word, sum = mix (start, bytes);
  gsize whole = bytes / (LANES * sizeof word);
  for (gsize i = 0; i < whole; i++)
    for (int k = 0; k < LANES; k++, at += sizeof word)
      {
        memcpy (&word, at, sizeof word);
        lanes[k] = mix (lanes[k], word);
      }
  for (gsize left = bytes - whole * LANES * sizeof word; left > 0;)
    {
      gsize n = MIN (left, sizeof word);
      word = 0;
      memcpy (&word, at, n);
      sum = mix (sum, word);
      at += n;
      left -= n;
    }
  for (int k = 0; k < LANES; k++)
    sum = mix (sum, lanes[k]);
  return sum;
}
