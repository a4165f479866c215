/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/kl.h"

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

struct plumb_policy_options
{
  double clip_low, clip_high; // ratio bounds 1 - low .. 1 + high
  double dual_clip;           // > 1: bound of the loss for negative advantages (Ye et al. 2020); 0: off
  double kl_coefficient;      // of the KL in the loss; 0: none
  enum plumb_kl_estimator kl_estimator;
  double entropy; // coefficient of the bonus
  enum plumb_aggregate aggregate;
};

/* Part of a batch: sequences end to end, n tokens; entry t concerns token t. */
struct plumb_loss_batch
{
  int sequences;
  const int32_t *offsets; // (sequences + 1)
  const uint8_t *mask;    // (n) 1: counts
  const float *logp;      // (n) by the current policy
  const float *entropy;   // (n) or NULL
  const float *old_logp;  // (n) before the update
  const float *reference; // (n) or NULL
  const double *advantage;
};

/* Sums over the masked-in tokens, to be added over micro-batches; divide by the tokens of the step. */
struct plumb_policy_statistics
{
  double loss, policy, kl_loss, entropy_loss; // already aggregated: add, do not divide
  double tokens;
  double clipped_low, clipped_high; // tokens whose gradient the clip removed
  double ratio, ratio_squared, ratio_max;
  double kl_update;    // sum of old minus new log-prob
  double kl_reference; // sum of the estimator against the reference
  double entropy;      // sum
};

/* PPO's clipped policy loss (Schulman et al. 2017) with KL in the loss and an entropy bonus. dlogp and dentropy
 * (n each) are overwritten; the statistics are added to. */
void plumb_policy_loss (const struct plumb_policy_options *, const struct plumb_denominators *,
                        const struct plumb_loss_batch *, double *dlogp, double *dentropy,
                        struct plumb_policy_statistics *);

/* Cross-entropy of the masked-in tokens: returns the loss, overwrites dlogp (n). */
double plumb_sft_loss (enum plumb_aggregate, const struct plumb_denominators *,
                       const struct plumb_loss_batch *, double *dlogp);

/* Adds the masked-in tokens and sequences of a batch to the denominators. */
void plumb_denominators_add (struct plumb_denominators *, int sequences, const int32_t *offsets,
                             const uint8_t *mask);
