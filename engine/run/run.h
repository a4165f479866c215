/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* Runs a spec in the run directory `dir`, which exists and holds run.spec, until it is done, stopped or
 * failed. `resume` continues from the last checkpoint. `detached`: standard output is the log already. Returns
 * the exit code; with an error set it follows from that. */
int plumb_run_execute (PlumbSpec *spec, const char *dir, gboolean resume, gboolean detached, GError **error);

/* Whether a run can go on with the settings of `spec`: compares them with those that it had. `changes` gets a line for
 * each that may differ (transfer full); one that must not is PLUMB_ERROR_INVALID. */
gboolean plumb_run_check_resume (const char *dir, PlumbSpec *spec, GPtrArray *changes, GError **error);

/* Measures a spec's model on its data.eval without training, in the folder `dir`. `results` gets a line
 * "metric value" (transfer full) for each metric that was measured. */
gboolean plumb_run_evaluate_alone (PlumbSpec *spec, const char *dir, GPtrArray *results, GError **error);

/* Opens everything that the run reads, in a scratch folder, and appends what is wrong to `problems`: with the
 * settings' own problems this is the preflight. `left_out` (NULL: not wanted) gets the rows of data that are
 * not used, `notes` (NULL: not wanted) what else a user should know of the data.
 * Returns the exit code: 0, PLUMB_ERROR_INVALID, or PLUMB_ERROR_ENVIRONMENT where the machine lacks something. */
int plumb_run_preflight (PlumbSpec *spec, GPtrArray *problems, GPtrArray *left_out, GPtrArray *notes);

G_END_DECLS
