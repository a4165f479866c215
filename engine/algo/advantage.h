/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/experience.h"
#include "engine/algo/kl.h"

/* What is taken from a reward before it becomes an advantage. */
enum plumb_baseline
{
  PLUMB_BASELINE_NONE,          // PPO, REINFORCE++
  PLUMB_BASELINE_GROUP_MEAN,    // GRPO, Dr.GRPO, REINFORCE++-baseline: the group's mean
  PLUMB_BASELINE_LEAVE_ONE_OUT, // RLOO (Ahmadian et al. 2024): the mean of the others
  PLUMB_BASELINE_LENGTH,        // OPO (Hao et al. 2025): the group's mean weighted by response length
  PLUMB_BASELINE_GREEDY,        // ReMax (Li et al. 2023): the reward of the greedy answer, in `baseline`
};

/* How much of a normalisation is done. */
enum plumb_normalize
{
  PLUMB_NORMALIZE_NONE,
  PLUMB_NORMALIZE_MEAN,
  PLUMB_NORMALIZE_MEAN_STD,
};

/* How rewards become advantages. */
struct plumb_advantage_options
{
  enum plumb_baseline baseline;
  int scale_by_deviation;        // divide by the group's unbiased deviation + 1e-9 (GRPO)
  int critic;                    // generalised advantage estimation from `value`; else discounted returns
  enum plumb_normalize whiten;   // over all tokens of the batch, biased variance
  double gamma, lambda;          // discount; GAE's decay
  double clip_low, clip_high;    // of the reward after the baseline
  double kl_coefficient;         // 0: none
  enum plumb_kl_estimator kl_estimator;
  int kl_in_reward;              // else it is part of the loss
};

/* What the groups of a batch looked like. */
struct plumb_group_statistics
{
  int groups;         // with at least two scored samples
  int flat;           // of these, without any spread: they teach nothing
  int dropped;        // samples that left the loss: failed, or alone in their group
  double mean_std;    // mean over groups of the unbiased deviation
  double mean_return; // mean over the samples kept of the reward with its KL terms, before the baseline
};

/* Fills `advantage` and `returns` (gamma-discounted, with the critic: advantage + value). A sample that is not
 * scored, and with a group baseline one alone in its group, gets mask 0 and leaves the denominators. Masked tokens
 * are skipped: credit is carried over them. */
void plumb_advantages (struct plumb_experience *, const struct plumb_advantage_options *,
                       struct plumb_group_statistics *);

/* Generalised advantage estimation (Schulman et al. 2015) over n tokens; masked ones are skipped, and get 0. The
 * returns are advantage + value. */
void plumb_gae (int n, const uint8_t *mask, const double *rewards, const double *values, double gamma,
                double lambda, double *advantages, double *returns);
/* G_t = r_t + gamma G_{t+1} over the unmasked tokens. */
void plumb_discounted_returns (int n, const uint8_t *mask, const double *rewards, double gamma, double *returns);
