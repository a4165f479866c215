/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/kl.h"
#include "engine/algo/loss.h"

/* What is done with the ratio of the new to the old policy. */
enum plumb_surrogate
{
  PLUMB_SURROGATE_PPO,   // clipped per token (Schulman et al. 2017)
  PLUMB_SURROGATE_GSPO,  // one ratio per sequence (Zheng et al. 2025)
  PLUMB_SURROGATE_CISPO, // the clipped ratio as a weight (MiniMax 2025)
  PLUMB_SURROGATE_SAPO,  // a soft gate in place of the clip (Qwen 2025)
  PLUMB_SURROGATE_GMPO,  // geometric mean of the clipped ratios (Zhao et al. 2025)
};

/* Weight against the difference between sampler and trainer, w = exp (old - rollout). */
enum plumb_correction
{
  PLUMB_CORRECTION_OFF,
  PLUMB_CORRECTION_TIS,                  // w clamped to low .. high
  PLUMB_CORRECTION_ICEPOP,               // w, or 0 outside low .. high
  PLUMB_CORRECTION_SEQUENCE_MASK,        // w, or 0 where the sequence's geometric mean lies outside
  PLUMB_CORRECTION_SEQUENCE_MASK_CLAMPED, // the same with w clamped
};

struct plumb_policy_options
{
  enum plumb_surrogate surrogate;
  double clip_low, clip_high; // ratio bounds 1 - low .. 1 + high
  double dual_clip;           // > 1: bound of the loss for negative advantages (Ye et al. 2020); 0: off
  enum plumb_correction correction;
  double correction_low, correction_high;
  double kl_coefficient; // of the KL in the loss; 0: none
  enum plumb_kl_estimator kl_estimator;
  int kl_unbiased; // weight the estimator by the ratio, so that its gradient is that of the KL (DeepSeek-AI 2025)
  double entropy;  // coefficient of the bonus
  enum plumb_aggregate aggregate; // of KL and entropy always; GSPO and GMPO take the mean over sequences for the rest
};

/* Policy loss with KL in the loss and an entropy bonus. The slopes by log-prob and entropy are overwritten; the
 * statistics are added to. */
void plumb_policy_loss (const struct plumb_policy_options *, const struct plumb_denominators *,
                        const struct plumb_loss_batch *, const struct plumb_slopes *,
                        struct plumb_loss_statistics *);
