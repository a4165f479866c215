/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/run-private.h"

G_BEGIN_DECLS

/* Generation that runs ahead of the training by a bounded number of versions (rollout.async): a worker of its own
 * generates, while a step is trained, for the next ones. At most (max_staleness + 1) x prompts_per_step prompts are given
 * out and not trained yet, and they are trained in the order in which they were given out; so what a step trains is never
 * older than max_staleness versions. The version of weights is the number of steps that made them. */

/* The worker loads the policy: `settings` as the trainers have them. */
gboolean plumb_run_ahead_open (PlumbRun *run, const PlumbWorkerSettings *settings, guint64 weight_bytes, GError **error);
void plumb_ahead_free (PlumbAhead *ahead);

/* The next prompts with what was generated for them, scored; waits for them. rows (prompts) gets their places in the data,
 * *first_ordinal the number of the first. */
PlumbBatch *plumb_run_ahead_take (PlumbRun *run, int prompts, gsize *rows, gint64 *first_ordinal, GError **error);
/* So many of those that were taken are not trained. */
void plumb_run_ahead_reject (PlumbRun *run, int prompts);
/* Goes on with what does not need the worker; to be called often. */
void plumb_run_ahead_attend (PlumbRun *run);
/* A step was trained on what was taken: its weights are handed over, and further prompts given out. */
gboolean plumb_run_ahead_go_on (PlumbRun *run, GError **error);
/* The weights went back to earlier ones: all that was given out and not trained is generated again by them. */
gboolean plumb_run_ahead_start_over (PlumbRun *run, GError **error);
/* What a step's batch owes to generating ahead; before the step is counted on. */
void plumb_run_ahead_record (PlumbRun *run, const struct plumb_experience *experience);

/* The prompts that are given out, as part of a checkpoint; nothing where the run does not generate ahead. */
gboolean plumb_run_ahead_save (PlumbRun *run, const char *folder, GError **error);
gboolean plumb_run_ahead_load (PlumbRun *run, const char *folder, GError **error);

G_END_DECLS
