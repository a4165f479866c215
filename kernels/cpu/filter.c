/* SPDX-License-Identifier: Apache-2.0 */

/* What is done to a row of logits before a token is drawn: repetition penalty (Keskar et al. 2019), temperature, top-k,
 * top-p (Holtzman et al. 2020) and min-p (Nguyen et al. 2024), in this order. Nothing is sorted: where the row is cut is
 * found digit by digit of the values' order, from the greatest on. Probabilities are integers of 2^-40, so that their
 * sums do not depend on an order. */

#include "kernels/cpu/context.h"

#include <math.h>   // defines: ceil, exp, INFINITY
#include <string.h> // defines: memset

#define LEVELS 3
#define BINS 2048

static const int level_shift[LEVELS] = { 21, 10, 0 };
static const int level_bits[LEVELS] = { 11, 11, 10 };

/* Unsigned numbers in the order of the floats. */
static uint32_t
order_of (float z)
{
  union
  {
    float real;
    uint32_t bits;
  } both = { .real = z };
  return both.bits & 0x80000000u ? ~both.bits : both.bits | 0x80000000u;
}

static uint64_t
mass_of (float z, float top)
{
  return (uint64_t) (exp ((double) z - top) * 0x1p40);
}

struct row
{
  float *z;
  int n;
  float top;
};

/* The greatest key at which the values of at least this key, and at least `floor`, reach `target`, in number or in mass;
 * 0 where all together do not. *above is what lies above the key. */
static uint32_t
find_cut (const struct row *row, uint32_t floor, bool by_mass, uint64_t target, uint64_t *above)
{
  uint64_t bins[BINS];
  uint32_t prefix = 0;
  *above = 0;
  for (int level = 0; level < LEVELS; level++)
    {
      int shift = level_shift[level], bits = level_bits[level], digit;
      memset (bins, 0, sizeof bins);
      for (int i = 0; i < row->n; i++)
        {
          uint32_t key = order_of (row->z[i]);
          if (key < floor || (level > 0 && key >> (shift + bits) != prefix))
            continue;
          bins[key >> shift & ((1u << bits) - 1)] += by_mass ? mass_of (row->z[i], row->top) : 1;
        }
      for (digit = (1 << bits) - 1; digit >= 0 && *above + bins[digit] < target; digit--)
        *above += bins[digit];
      if (digit < 0)
        return 0;
      prefix = prefix << bits | (uint32_t) digit;
    }
  return prefix;
}

/* Where top-p cuts: values above `key` stay, and those that equal it up to and with index `last`. */
struct cut
{
  uint32_t key;
  int last;
};

static struct cut
cut_by_mass (const struct row *row, uint32_t floor, double top_p)
{
  struct cut cut = { floor, row->n };
  uint64_t whole = 0, above;
  for (int i = 0; i < row->n; i++)
    if (order_of (row->z[i]) >= floor)
      whole += mass_of (row->z[i], row->top);
  uint64_t target = (uint64_t) ceil (top_p * (double) whole);
  uint32_t key = find_cut (row, floor, true, target > 0 ? target : 1, &above);
  if (key == 0)
    return cut;
  cut.key = key;
  for (int i = 0; i < row->n; i++)
    if (order_of (row->z[i]) == key)
      {
        uint64_t each = mass_of (row->z[i], row->top);
        cut.last = i;
        above += each;
        if (each > 0 && above >= target)
          break;
      }
  return cut;
}

/* Leaves the scaled logits of what may be drawn, -INFINITY elsewhere. */
static void
apply_filters (const struct row *row, const struct dev_sampling *s)
{
  uint64_t above;
  uint32_t floor = 1; /* all */
  struct cut cut = { 0, row->n };
  if (s->top_k > 0 && s->top_k < row->n)
    floor = find_cut (row, 1, false, (uint64_t) s->top_k, &above);
  if (s->top_p > 0 && s->top_p < 1)
    cut = cut_by_mass (row, floor, s->top_p);
  for (int i = 0; i < row->n; i++)
    {
      uint32_t key = order_of (row->z[i]);
      bool kept = key >= floor && (key > cut.key || (key == cut.key && i <= cut.last))
                  && (s->min_p <= 0 || exp ((double) row->z[i] - row->top) >= s->min_p);
      if (!kept)
        row->z[i] = -INFINITY;
    }
}

void
cpu_filter_row (float *z, int n, const struct dev_sampling *s, int index)
{
  bool greedy = s->temperature == 0, banned = s->ban && s->ban[index];
  float inverse = greedy ? 1.0f : 1.0f / s->temperature;
  const uint32_t *seen = s->seen ? s->seen + (size_t) s->seen_rows[index] * s->seen_stride : NULL;
  struct row row = { z, n, -INFINITY };
  for (int i = 0; i < n; i++)
    {
      if (seen && (seen[i / 32] >> i % 32 & 1))
        z[i] = z[i] < 0 ? z[i] * s->repetition_penalty : z[i] / s->repetition_penalty;
      z[i] *= inverse;
    }
  /* What is banned leaves before the filters, else they might leave nothing else. */
  for (int i = 0; i < s->n_forbidden && banned && !greedy; i++)
    if (s->forbidden[i] >= 0 && s->forbidden[i] < n)
      z[s->forbidden[i]] = -INFINITY;
  for (int i = 0; i < n; i++)
    row.top = z[i] > row.top ? z[i] : row.top;
  if (!greedy)
    apply_filters (&row, s);
}

void
cpu_mark_seen (const struct dev_sampling *s, int index, int token)
{
  if (s->seen)
    s->seen[(size_t) s->seen_rows[index] * s->seen_stride + token / 32] |= 1u << token % 32;
}
