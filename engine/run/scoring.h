/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/run-private.h"

G_BEGIN_DECLS

/* Asks for the rewards of a filled batch, and waits for them: scores, parts and the experience's rewards are filled. */
gboolean plumb_batch_score (PlumbRun *run, PlumbBatch *batch, GError **error);

/* Its parts, for scoring beside other work: room for the scores; what is scored (n; the strings are the batch's), with the
 * scores of the reward model (NaN: none); what follows from the scores; and a line of the log for each kind of failure. */
void plumb_batch_prepare_scores (PlumbRun *run, PlumbBatch *batch);
PlumbRewardInput *plumb_batch_reward_inputs (PlumbRun *run, PlumbBatch *batch, const double *model_scores, GError **error);
void plumb_batch_take_scores (PlumbRun *run, PlumbBatch *batch);
void plumb_batch_tell_failures (PlumbRun *run, const PlumbBatch *batch);

/* A score of the reward model as reward.normalize asks for it. */
double plumb_run_normal_score (PlumbRun *run, double score);

G_END_DECLS
