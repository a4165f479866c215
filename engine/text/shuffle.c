/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/text/shuffle.h"

/* SplitMix64 (public domain): a counter through a mixing function. */
static guint64
next_random (guint64 *state)
{
  guint64 z = *state += G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  z = (z ^ z >> 30) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return z ^ z >> 31;
}

guint64
plumb_shuffle_key (guint64 seed, guint64 purpose, guint64 number)
{
  guint64 state = seed;

  state = next_random (&state) ^ purpose;
  state = next_random (&state) ^ number;
  return next_random (&state);
}

/* Uniform below `bound`: draws that would favour small numbers are thrown away. */
static guint64
random_below (guint64 *state, guint64 bound)
{
  guint64 least = -bound % bound, draw;

  do
    draw = next_random (state);
  while (draw < least);
  return draw % bound;
}

void
plumb_shuffle (guint32 *items, gsize n, guint64 key)
{
  for (gsize i = n; i > 1; i--)
    {
      gsize j = random_below (&key, i);
      guint32 item = items[j];

      items[j] = items[i - 1];
      items[i - 1] = item;
    }
}
