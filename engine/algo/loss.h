/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h> // defines: int32_t, uint8_t

/* Losses as pure functions on host arrays: they return the scalar and its derivative per token. The
 * denominators are global, over micro-batches and workers, so a result does not depend on the split. */

enum plumb_aggregate
{
  PLUMB_AGGREGATE_TOKEN,    // sum / tokens
  PLUMB_AGGREGATE_SEQUENCE, // mean over sequences of the mean over their tokens
  PLUMB_AGGREGATE_CONSTANT, // sum / (sequences * limit)
};

/* Counts over the whole optimizer step, masked-in tokens and sequences with at least one of them. */
struct plumb_denominators
{
  double tokens;
  double sequences;
  double limit; // tokens per sequence that the constant aggregate assumes (rollout.max_new_tokens)
};

/* Part of a batch: sequences end to end, n tokens; entry t concerns token t. What a loss does not read may be
 * NULL. */
struct plumb_loss_batch
{
  int sequences;
  const int32_t *offsets; // (sequences + 1)
  const uint8_t *mask;    // (n) 1: counts
  const double *logp;     // (n) by the current policy
  const double *entropy;  // (n)
  const double *old_logp; // (n) before the update
  const double *rollout_logp; // (n) as the sampler reported it
  const double *reference;    // (n) by the frozen reference
  const double *advantage;    // (n)
  const double *value;        // (n) by the current critic
  const double *old_value;    // (n) before the update
  const double *returns;      // (n)
  const double *margin;       // (sequences) of pairs
  const uint8_t *desirable;   // (sequences)
};

/* Derivatives of the loss by what the device computed; each (n), or NULL where the loss has none. */
struct plumb_slopes
{
  double *logp, *entropy, *value;
};

/* Sums that losses add to; all but ratio_max may be added over micro-batches and workers. Losses are aggregated
 * already: add, do not divide. */
struct plumb_loss_statistics
{
  double loss; // the whole
  double tokens, entropy; // masked-in tokens and the sum of their entropies
  /* policy losses */
  double policy, kl_loss, entropy_loss;
  double clipped_low, clipped_high; // tokens whose gradient the clip removed
  double ratio, ratio_squared, ratio_max;
  double kl_update;    // sum of old minus new log-prob
  double kl_reference; // sum of the estimator against the reference
  double kl_rollout;   // sum of rollout minus old log-prob
  double correction;   // sum of the weights of the correction
  /* value losses */
  double value, value_squared, return_sum, return_squared, residual_squared, value_clipped;
  /* preferences: pairs, or single answers for KTO */
  double answers, accurate, margin, chosen, rejected, n_chosen, n_rejected, nll;
};

void plumb_loss_statistics_add (struct plumb_loss_statistics *sum, const struct plumb_loss_statistics *part);

/* Adds the masked-in tokens and sequences of a batch to the denominators. */
void plumb_denominators_add (struct plumb_denominators *, int sequences, const int32_t *offsets,
                             const uint8_t *mask);

/* Number of masked-in tokens of a sequence, and its weight per token in the aggregated loss. */
int plumb_loss_length (const struct plumb_loss_batch *, int sequence);
double plumb_loss_weight (enum plumb_aggregate, const struct plumb_denominators *,
                          const struct plumb_loss_batch *, int sequence);

/* log (1 + exp (-x)), which is -log sigmoid (x), without overflow; and sigmoid itself. */
double plumb_softplus_minus (double x);
double plumb_sigmoid (double x);

/* Cross-entropy of the masked-in tokens; overwrites the slopes by log-prob. */
void plumb_sft_loss (enum plumb_aggregate, const struct plumb_denominators *, const struct plumb_loss_batch *,
                     const struct plumb_slopes *, struct plumb_loss_statistics *);
