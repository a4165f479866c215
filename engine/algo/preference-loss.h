/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/loss.h"

/* Losses over preferences. Pairs: sequences 2i (chosen) and 2i + 1 (rejected) of a batch belong together, and stay
 * together in a micro-batch. x = log-prob of the response under the policy minus under the reference, summed. */
enum plumb_pair_loss
{
  PLUMB_PAIR_SIGMOID,  // DPO (Rafailov et al. 2023), with label smoothing cDPO
  PLUMB_PAIR_IPO,      // Azar et al. 2023, on sums
  PLUMB_PAIR_IPO_MEAN, // the same on means per token
  PLUMB_PAIR_HINGE,    // SLiC (Zhao et al. 2023)
  PLUMB_PAIR_ROBUST,   // Chowdhury et al. 2024
  PLUMB_PAIR_APO_ZERO, // D'Oosterlinck et al. 2024
  PLUMB_PAIR_APO_DOWN,
  PLUMB_PAIR_SPPO,  // Wu et al. 2024, hard labels
  PLUMB_PAIR_ORPO,  // Hong et al. 2024: no reference; nll of the chosen + beta times the odds term
  PLUMB_PAIR_SIMPO, // Meng et al. 2024: no reference; mean log-probs and a margin
};

struct plumb_pair_options
{
  enum plumb_pair_loss loss;
  double beta;
  double label_smoothing;
  double nll;    // coefficient of the mean nll of the chosen answer
  double margin; // SimPO's
};

/* What a pair loss knows of a pair, and its derivative by each log-prob sum. */
struct plumb_pair
{
  double chosen, rejected;                     // sums under the policy
  double reference_chosen, reference_rejected; // under the reference
  double chosen_length, rejected_length;       // tokens
};

/* The loss of one pair; its derivatives by the two sums of the policy. */
double plumb_pair_loss_of (const struct plumb_pair_options *, const struct plumb_pair *, double *by_chosen,
                           double *by_rejected);

/* Mean over the pairs (denominators->sequences / 2) of a batch; the slopes by log-prob are overwritten. */
void plumb_pair_loss (const struct plumb_pair_options *, const struct plumb_denominators *,
                      const struct plumb_loss_batch *, const struct plumb_slopes *,
                      struct plumb_loss_statistics *);

/* KTO (Ethayarajh et al. 2024). `kl` holds the batch's estimates, made before any backward pass: unpaired, the mean
 * of policy minus reference over mismatched answers, at least 0, is in both. Paired, kl_desirable and
 * kl_undesirable are the means of x over the chosen and the rejected, at least 0, and have a gradient. */
struct plumb_kto_options
{
  double beta, desirable, undesirable;
  int paired;
  double kl_desirable, kl_undesirable;
  double by_kl_desirable, by_kl_undesirable; // paired: derivative of the loss by each, over its number of answers
};

/* The estimates of a paired batch from the x of all its answers. */
void plumb_kto_pair_estimates (struct plumb_kto_options *, int n, const double *x, const uint8_t *desirable);

/* Mean over the answers (denominators->sequences) of a batch; the slopes by log-prob are overwritten. */
void plumb_kto_loss (const struct plumb_kto_options *, const struct plumb_denominators *,
                     const struct plumb_loss_batch *, const struct plumb_slopes *, struct plumb_loss_statistics *);

/* Reward models (Bradley and Terry 1952): -log sigmoid (chosen - rejected - margin), or its log-exp form without
 * margin; scores are `value` at the last token of each sequence, mean over the pairs. */
enum plumb_reward_loss
{
  PLUMB_REWARD_SIGMOID,
  PLUMB_REWARD_LOGEXP,
};

void plumb_reward_loss (enum plumb_reward_loss, int with_margin, const struct plumb_denominators *,
                        const struct plumb_loss_batch *, const struct plumb_slopes *,
                        struct plumb_loss_statistics *);
