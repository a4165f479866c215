/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/experience.h"
#include "engine/algo/kl.h"

/* What is taken from a reward before it becomes an advantage. */
enum plumb_normalize
{
  PLUMB_NORMALIZE_NONE,
  PLUMB_NORMALIZE_MEAN,
  PLUMB_NORMALIZE_MEAN_STD,
};

/* How rewards become advantages. */
struct plumb_advantage_options
{
  double clip_low, clip_high; // of the reward after the baseline
  double kl_coefficient;      // 0: none
  enum plumb_kl_estimator kl_estimator;
  int kl_in_reward;           // else it is part of the loss
  enum plumb_normalize normalize; // within the group
};

/* What the groups of a batch looked like. */
struct plumb_group_statistics
{
  int groups;        // with at least two scored samples
  int flat;          // of these, without any spread: they teach nothing
  int dropped;       // samples that left the loss: failed, or alone in their group
  double mean_std;   // mean over groups of the unbiased deviation
  double mean_return; // mean over the samples kept of the reward with its KL terms, before the baseline
};

/* GRPO (Shao et al. 2024): (R - mean) / (unbiased deviation + 1e-9) within each group (normalize may leave out the
 * division, or both), clipped; with KL
 * in the reward, -beta KL per token is added; the advantage of a token is the sum of the token rewards
 * from it on (gamma 1, masked tokens skipped). Samples that are not scored, and groups with fewer than two
 * scored samples, get mask 0 and leave the denominators. */
void plumb_advantage_group_norm (struct plumb_experience *, const struct plumb_advantage_options *,
                                 struct plumb_group_statistics *);
