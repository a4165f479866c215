/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/loss.h"

#include <math.h>   // defines: exp, log1p
#include <stddef.h> // defines: size_t

void
plumb_loss_statistics_add (struct plumb_loss_statistics *sum, const struct plumb_loss_statistics *part)
{
  double *to = (double *) sum, greatest = part->ratio_max > sum->ratio_max ? part->ratio_max : sum->ratio_max;
  const double *from = (const double *) part;
  for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
    to[i] += from[i];
  sum->ratio_max = greatest;
}

void
plumb_denominators_add (struct plumb_denominators *d, int sequences, const int32_t *offsets,
                        const uint8_t *mask)
{
  for (int s = 0; s < sequences; s++)
    {
      int length = 0;
      for (int t = offsets[s]; t < offsets[s + 1]; t++)
        length += mask[t];
      d->tokens += length;
      d->sequences += length > 0;
    }
}

int
plumb_loss_length (const struct plumb_loss_batch *b, int s)
{
  int length = 0;
  for (int t = b->offsets[s]; t < b->offsets[s + 1]; t++)
    length += b->mask[t];
  return length;
}

double
plumb_loss_weight (enum plumb_aggregate aggregate, const struct plumb_denominators *d,
                   const struct plumb_loss_batch *b, int s)
{
  if (aggregate == PLUMB_AGGREGATE_TOKEN)
    return d->tokens > 0 ? 1 / d->tokens : 0;
  if (d->sequences <= 0)
    return 0;
  if (aggregate == PLUMB_AGGREGATE_CONSTANT)
    return 1 / (d->sequences * d->limit);
  int length = plumb_loss_length (b, s);
  return length ? 1 / (d->sequences * length) : 0;
}

double
plumb_softplus_minus (double x)
{
  return x > 0 ? log1p (exp (-x)) : -x + log1p (exp (x));
}

double
plumb_sigmoid (double x)
{
  return x >= 0 ? 1 / (1 + exp (-x)) : exp (x) / (1 + exp (x));
}

void
plumb_sft_loss (enum plumb_aggregate aggregate, const struct plumb_denominators *d,
                const struct plumb_loss_batch *b, const struct plumb_slopes *slopes,
                struct plumb_loss_statistics *st)
{
  for (int s = 0; s < b->sequences; s++)
    {
      double weight = plumb_loss_weight (aggregate, d, b, s);
      for (int t = b->offsets[s]; t < b->offsets[s + 1]; t++)
        {
          slopes->logp[t] = 0;
          if (!b->mask[t])
            continue;
          slopes->logp[t] = -weight;
          st->loss -= weight * b->logp[t];
          st->tokens++;
          if (b->entropy)
            st->entropy += b->entropy[t];
        }
    }
}
