/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/policy-loss.h"

#include <math.h> // defines: exp, fmax, fmin

#define LOG_RATIO_LIMIT 20.0
#define SAPO_TEMPERATURE_GAIN 1.0 // of positive advantages
#define SAPO_TEMPERATURE_LOSS 1.05

static double
clamp (double value, double low, double high)
{
  return value < low ? low : value > high ? high : value;
}

/* What the tokens of one sequence share. */
struct sequence
{
  int first, last, length;
  double weight;        // per token in the policy loss
  double other_weight;  // per token in the KL and entropy terms: always by the aggregate that was asked for
  double log_ratio;     // mean of new minus old
  double mean_advantage;
  double geometric;     // exp of the mean of old minus rollout
  double held;          // GMPO: mean of the log-ratios, held back
};

/* One token's share: the loss, its derivative by the log-ratio, and what the clip did. */
struct surrogate
{
  double loss, slope;
  double ratio;
  int low, high;
};

/* The behaviour that GSPO measures against under a correction is the sampler's. */
static const double *
behaviour (const struct plumb_policy_options *o, const struct plumb_loss_batch *b)
{
  int corrected = o->correction != PLUMB_CORRECTION_OFF && b->rollout_logp;
  return o->surrogate == PLUMB_SURROGATE_GSPO && corrected ? b->rollout_logp : b->old_logp;
}

/* GMPO's log-ratio, clipped on the side that the advantage favours. */
static double
held_back (const struct plumb_policy_options *o, double d, double advantage)
{
  double sign = advantage < 0 ? -1 : 1;
  return sign * fmin (sign * d, sign * clamp (d, -o->clip_low, o->clip_high));
}

static struct sequence
measure (const struct plumb_policy_options *o, const struct plumb_denominators *d,
         const struct plumb_loss_batch *b, int s)
{
  int whole = o->surrogate == PLUMB_SURROGATE_GSPO || o->surrogate == PLUMB_SURROGATE_GMPO;
  struct sequence q = { .first = b->offsets[s], .last = b->offsets[s + 1], .length = plumb_loss_length (b, s) };
  const double *old = behaviour (o, b);
  double apart = 0;
  q.other_weight = plumb_loss_weight (o->aggregate, d, b, s);
  q.weight = whole ? plumb_loss_weight (PLUMB_AGGREGATE_SEQUENCE, d, b, s) : q.other_weight;
  for (int t = q.first; t < q.last; t++)
    if (b->mask[t])
      {
        q.log_ratio += b->logp[t] - old[t];
        q.mean_advantage += b->advantage[t];
        apart += b->rollout_logp ? b->old_logp[t] - b->rollout_logp[t] : 0;
      }
  if (q.length)
    {
      q.log_ratio /= q.length;
      q.mean_advantage /= q.length;
      apart /= q.length;
    }
  q.geometric = exp (apart);
  for (int t = q.first; t < q.last && o->surrogate == PLUMB_SURROGATE_GMPO && q.length; t++)
    if (b->mask[t])
      q.held += held_back (o, b->logp[t] - b->old_logp[t], q.mean_advantage) / q.length;
  return q;
}

/* PPO's clip on a log-ratio, per token or per sequence. */
static struct surrogate
clipped_surrogate (const struct plumb_policy_options *o, double difference, double advantage)
{
  struct surrogate s = { 0 };
  double held = clamp (difference, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
  s.ratio = exp (held);
  double low = 1 - o->clip_low, high = 1 + o->clip_high;
  double plain = s.ratio * advantage, clipped = clamp (s.ratio, low, high) * advantage;
  int cut = clipped < plain;
  s.loss = cut ? -clipped : -plain;
  s.slope = cut || held != difference ? 0 : -plain;
  s.low = cut && s.ratio < low;
  s.high = cut && s.ratio > high;
  if (o->dual_clip > 1 && advantage < 0 && s.loss > -o->dual_clip * advantage)
    {
      s.loss = -o->dual_clip * advantage;
      s.slope = 0;
    }
  return s;
}

/* The clipped ratio is a weight without gradient, so every token keeps its own. */
static struct surrogate
cispo_surrogate (const struct plumb_policy_options *o, double difference, double advantage, double logp)
{
  struct surrogate s = { .ratio = exp (clamp (difference, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)) };
  double weight = clamp (s.ratio, 1 - o->clip_low, 1 + o->clip_high);
  s.slope = -weight * advantage;
  s.loss = s.slope * logp;
  s.low = s.ratio < weight;
  s.high = s.ratio > weight;
  return s;
}

static struct surrogate
sapo_surrogate (double difference, double advantage)
{
  double temperature = advantage > 0 ? SAPO_TEMPERATURE_GAIN : SAPO_TEMPERATURE_LOSS;
  double held = clamp (difference, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
  struct surrogate s = { .ratio = exp (held) };
  double gate = plumb_sigmoid (temperature * (s.ratio - 1));
  s.loss = -advantage * gate * 4 / temperature;
  s.slope = held == difference ? -advantage * 4 * gate * (1 - gate) * s.ratio : 0;
  return s;
}

/* The sequence's loss -A exp (mean x); the slope is this token's share of it, times the length. */
static struct surrogate
gmpo_surrogate (const struct plumb_policy_options *o, const struct plumb_loss_batch *b,
                const struct sequence *q, int t)
{
  struct surrogate s = { 0 };
  double d = b->logp[t] - b->old_logp[t];
  int cut = held_back (o, d, q->mean_advantage) != d;
  s.ratio = exp (clamp (d, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT));
  s.loss = -q->mean_advantage * exp (q->held);
  s.slope = cut ? 0 : s.loss;
  s.low = cut && d < -o->clip_low;
  s.high = cut && d > o->clip_high;
  return s;
}

static struct surrogate
evaluate_token (const struct plumb_policy_options *o, const struct plumb_loss_batch *b,
                const struct sequence *q, int t)
{
  double difference = b->logp[t] - b->old_logp[t], advantage = b->advantage[t];
  switch (o->surrogate)
    {
    case PLUMB_SURROGATE_GSPO:
      return clipped_surrogate (o, q->log_ratio, advantage);
    case PLUMB_SURROGATE_CISPO:
      return cispo_surrogate (o, difference, advantage, b->logp[t]);
    case PLUMB_SURROGATE_SAPO:
      return sapo_surrogate (difference, advantage);
    case PLUMB_SURROGATE_GMPO:
      return gmpo_surrogate (o, b, q, t);
    case PLUMB_SURROGATE_PPO:
      break;
    }
  return clipped_surrogate (o, difference, advantage);
}

static double
correction_weight (const struct plumb_policy_options *o, const struct plumb_loss_batch *b,
                   const struct sequence *q, int t)
{
  double low = o->correction_low, high = o->correction_high;
  if (o->correction == PLUMB_CORRECTION_OFF || !b->rollout_logp || o->surrogate == PLUMB_SURROGATE_GSPO)
    return 1;
  double weight = exp (b->old_logp[t] - b->rollout_logp[t]);
  int inside = q->geometric >= low && q->geometric <= high;
  switch (o->correction)
    {
    case PLUMB_CORRECTION_TIS:
      return clamp (weight, low, high);
    case PLUMB_CORRECTION_ICEPOP:
      return weight >= low && weight <= high ? weight : 0;
    case PLUMB_CORRECTION_SEQUENCE_MASK:
      return inside ? weight : 0;
    case PLUMB_CORRECTION_SEQUENCE_MASK_CLAMPED:
      return inside ? clamp (weight, low, high) : 0;
    case PLUMB_CORRECTION_OFF:
      break;
    }
  return 1;
}

static void
count_token (struct plumb_loss_statistics *st, const struct plumb_loss_batch *b, const struct surrogate *s, int t)
{
  st->tokens++;
  st->clipped_low += s->low;
  st->clipped_high += s->high;
  st->ratio += s->ratio;
  st->ratio_squared += s->ratio * s->ratio;
  st->ratio_max = fmax (st->ratio_max, s->ratio);
  st->kl_update -= b->logp[t] - b->old_logp[t];
  if (b->rollout_logp)
    st->kl_rollout += b->rollout_logp[t] - b->old_logp[t];
}

/* KL against the reference; returns its derivative by the log-prob, both times the coefficient and weight. */
static double
add_kl (const struct plumb_policy_options *o, const struct plumb_loss_batch *b, int t, double weight,
        struct plumb_loss_statistics *st)
{
  double slope, kl = plumb_kl (o->kl_estimator, b->logp[t] - b->reference[t], &slope), ratio = 1;
  st->kl_reference += kl;
  if (o->kl_unbiased)
    {
      ratio = exp (clamp (b->logp[t] - b->old_logp[t], -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT));
      slope += kl;
    }
  st->kl_loss += weight * o->kl_coefficient * ratio * kl;
  return weight * o->kl_coefficient * ratio * slope;
}

static void
add_token (const struct plumb_policy_options *o, const struct plumb_loss_batch *b, const struct sequence *q, int t,
           const struct plumb_slopes *slopes, double *shared, struct plumb_loss_statistics *st)
{
  struct surrogate token = evaluate_token (o, b, q, t);
  double correction = correction_weight (o, b, q, t), weight = q->weight * correction;
  count_token (st, b, &token, t);
  st->correction += correction;
  st->policy += weight * token.loss;
  if (o->surrogate == PLUMB_SURROGATE_GSPO)
    *shared += weight * token.slope / q->length;
  else
    slopes->logp[t] = weight * token.slope;
  if (b->reference)
    slopes->logp[t] += add_kl (o, b, t, q->other_weight, st);
  if (b->entropy)
    {
      st->entropy += b->entropy[t];
      st->entropy_loss -= q->other_weight * o->entropy * b->entropy[t];
      slopes->entropy[t] = -q->other_weight * o->entropy;
    }
}

void
plumb_policy_loss (const struct plumb_policy_options *o, const struct plumb_denominators *d,
                   const struct plumb_loss_batch *b, const struct plumb_slopes *slopes,
                   struct plumb_loss_statistics *st)
{
  for (int s = 0; s < b->sequences; s++)
    {
      struct sequence q = measure (o, d, b, s);
      double shared = 0; // the slope that a ratio of the whole sequence gives to each of its tokens
      for (int t = q.first; t < q.last; t++)
        {
          slopes->logp[t] = slopes->entropy[t] = 0;
          if (b->mask[t])
            add_token (o, b, &q, t, slopes, &shared, st);
        }
      for (int t = q.first; t < q.last && shared != 0; t++)
        if (b->mask[t])
          slopes->logp[t] += shared;
    }
  st->loss = st->policy + st->kl_loss + st->entropy_loss;
}
