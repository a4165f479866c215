/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/ahead-queue.h"

G_BEGIN_DECLS

/* Rewards of what was generated ahead, while a step is trained: each group is scored as it is finished, by the reward
 * functions in threads of their own and before them by a reward model that has a worker of its own. */
typedef struct _PlumbAheadScorer PlumbAheadScorer;

/* NULL where the rewards must wait for the trainers, which hold the reward model. */
PlumbAheadScorer *plumb_ahead_scorer_new (PlumbRun *run);
/* Ends calls that are under way. */
void plumb_ahead_scorer_free (PlumbAheadScorer *scorer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbAheadScorer, plumb_ahead_scorer_free)

/* The batch of one finished group, without rewards. */
PlumbBatch *plumb_ahead_batch_of (PlumbRun *run, const PlumbAheadGroup *group, int samples, GError **error);

/* Begins with a finished group, or goes on with it; to be called again until it is done. */
gboolean plumb_ahead_score_attend (PlumbAheadScorer *scorer, PlumbAheadGroup *group, int samples, GError **error);
gboolean plumb_ahead_score_is_done (const PlumbAheadScore *score);
/* The scored batch of the group (transfer full). */
PlumbBatch *plumb_ahead_score_take (PlumbAheadScore *score);

G_END_DECLS
