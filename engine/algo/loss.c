/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/loss.h"

#include <math.h> // defines: exp

#define LOG_RATIO_LIMIT 20.0

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

/* Weight of each token of a sequence in the aggregated loss. */
static double
token_weight (enum plumb_aggregate aggregate, const struct plumb_denominators *d,
              const struct plumb_loss_batch *b, int s)
{
  if (aggregate == PLUMB_AGGREGATE_TOKEN)
    return d->tokens > 0 ? 1 / d->tokens : 0;
  if (d->sequences <= 0)
    return 0;
  if (aggregate == PLUMB_AGGREGATE_CONSTANT)
    return 1 / (d->sequences * d->limit);
  int length = 0;
  for (int t = b->offsets[s]; t < b->offsets[s + 1]; t++)
    length += b->mask[t];
  return length ? 1 / (d->sequences * length) : 0;
}

struct surrogate
{
  double loss, slope; // of the token, and its derivative by logp
  double ratio;
  int low, high; // the clip removed the gradient at this bound
};

static struct surrogate
clipped_surrogate (const struct plumb_policy_options *o, double difference, double advantage)
{
  struct surrogate s = { 0 };
  int held = difference > LOG_RATIO_LIMIT || difference < -LOG_RATIO_LIMIT;
  if (held)
    difference = difference > 0 ? LOG_RATIO_LIMIT : -LOG_RATIO_LIMIT;
  s.ratio = exp (difference);
  double low = 1 - o->clip_low, high = 1 + o->clip_high;
  double bounded = s.ratio < low ? low : s.ratio > high ? high : s.ratio;
  double plain = s.ratio * advantage, clipped = bounded * advantage;
  int cut = clipped < plain;
  s.loss = cut ? -clipped : -plain;
  s.slope = cut || held ? 0 : -plain;
  s.low = cut && s.ratio < low;
  s.high = cut && s.ratio > high;
  if (o->dual_clip > 1 && advantage < 0 && s.loss > -o->dual_clip * advantage)
    {
      s.loss = -o->dual_clip * advantage;
      s.slope = 0;
    }
  return s;
}

static void
count_token (struct plumb_policy_statistics *st, const struct surrogate *s, double difference)
{
  st->tokens++;
  st->clipped_low += s->low;
  st->clipped_high += s->high;
  st->ratio += s->ratio;
  st->ratio_squared += s->ratio * s->ratio;
  if (s->ratio > st->ratio_max)
    st->ratio_max = s->ratio;
  st->kl_update -= difference;
}

void
plumb_policy_loss (const struct plumb_policy_options *o, const struct plumb_denominators *d,
                   const struct plumb_loss_batch *b, double *dlogp, double *dentropy,
                   struct plumb_policy_statistics *st)
{
  for (int s = 0; s < b->sequences; s++)
    {
      double weight = token_weight (o->aggregate, d, b, s);
      for (int t = b->offsets[s]; t < b->offsets[s + 1]; t++)
        {
          dlogp[t] = dentropy[t] = 0;
          if (!b->mask[t])
            continue;
          double difference = (double) b->logp[t] - b->old_logp[t];
          struct surrogate token = clipped_surrogate (o, difference, b->advantage[t]);
          count_token (st, &token, difference);
          st->policy += weight * token.loss;
          dlogp[t] = weight * token.slope;
          if (b->reference)
            {
              double slope, kl = plumb_kl (o->kl_estimator, (double) b->logp[t] - b->reference[t], &slope);
              st->kl_reference += kl;
              st->kl_loss += weight * o->kl_coefficient * kl;
              dlogp[t] += weight * o->kl_coefficient * slope;
            }
          if (b->entropy)
            {
              st->entropy += b->entropy[t];
              st->entropy_loss -= weight * o->entropy * b->entropy[t];
              dentropy[t] = -weight * o->entropy;
            }
        }
    }
  st->loss = st->policy + st->kl_loss + st->entropy_loss;
}

double
plumb_sft_loss (enum plumb_aggregate aggregate, const struct plumb_denominators *d,
                const struct plumb_loss_batch *b, double *dlogp)
{
  double loss = 0;
  for (int s = 0; s < b->sequences; s++)
    {
      double weight = token_weight (aggregate, d, b, s);
      for (int t = b->offsets[s]; t < b->offsets[s + 1]; t++)
        {
          dlogp[t] = b->mask[t] ? -weight : 0;
          loss += dlogp[t] * b->logp[t];
        }
    }
  return loss;
}
