/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/reward/reward.h"

G_BEGIN_DECLS

typedef struct
{
  gsize n;
  const PlumbRewardInput *inputs; /* (n) */
  PlumbRewardScore *scores;       /* (n) */
  double *parts;                  /* (n, parts of the reward); NULL: not wanted */
  double *seconds;                /* (n) each took; NULL: not wanted */
} PlumbRewardBatch;

/* Called about ten times in a second from the thread that scores the batch; FALSE stops it. */
typedef gboolean (*PlumbRewardProgress) (gpointer data, gsize done, gsize of);

/* Scores all inputs, several at once as reward.parallel and the functions allow. Results do not
 * depend on which thread took what. FALSE after a stop: then the reward is cancelled for good. */
gboolean plumb_reward_score_batch (PlumbReward *reward,
                                   PlumbRewardBatch *batch,
                                   PlumbRewardProgress progress,
                                   gpointer data);

/* The value that `share` of n numbers do not exceed; NaN for none. */
double plumb_reward_quantile (const double *seconds, gsize n, double share);

/* Failed calls of one kind: reasons that differ in numbers only. */
typedef struct
{
  char *kind, *example;
  guint count;
} PlumbRewardFailure;

/* The failures among n scores by kind, the most frequent first. (transfer full) */
GPtrArray *plumb_reward_failures (const PlumbRewardScore *scores, gsize n);

G_END_DECLS
