/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/value-loss.h"

static void
count_value (struct plumb_loss_statistics *st, double value, double target)
{
  st->tokens++;
  st->value += value;
  st->value_squared += value * value;
  st->return_sum += target;
  st->return_squared += target * target;
  st->residual_squared += (target - value) * (target - value);
}

void
plumb_value_loss (const struct plumb_value_options *o, const struct plumb_denominators *d,
                  const struct plumb_loss_batch *b, const struct plumb_slopes *slopes,
                  struct plumb_loss_statistics *st)
{
  for (int s = 0; s < b->sequences; s++)
    {
      double weight = o->weight * plumb_loss_weight (o->aggregate, d, b, s);
      for (int t = b->offsets[s]; t < b->offsets[s + 1]; t++)
        {
          slopes->value[t] = 0;
          if (!b->mask[t])
            continue;
          double moved = b->value[t] - b->old_value[t], clipped = moved;
          if (o->clip > 0)
            clipped = moved < -o->clip ? -o->clip : moved > o->clip ? o->clip : moved;
          double plain = b->value[t] - b->returns[t], held = b->old_value[t] + clipped - b->returns[t];
          int cut = held * held > plain * plain;
          double error = cut ? held : plain;
          st->loss += weight * 0.5 * error * error;
          st->value_clipped += cut;
          slopes->value[t] = cut && clipped != moved ? 0 : weight * error;
          count_value (st, b->value[t], b->returns[t]);
        }
    }
}

double
plumb_explained_variance (const struct plumb_loss_statistics *st)
{
  if (st->tokens <= 0)
    return 0;
  double mean = st->return_sum / st->tokens, residual = (st->return_sum - st->value) / st->tokens;
  double variance = st->return_squared / st->tokens - mean * mean;
  double left = st->residual_squared / st->tokens - residual * residual;
  return variance > 0 ? 1 - left / variance : 0;
}
