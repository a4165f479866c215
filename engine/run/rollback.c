/* SPDX-License-Identifier: Apache-2.0 */

/* Training that went wrong goes back to the last good checkpoint, and on with other data. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>

#include "engine/core/error.h"
#include "engine/model/export.h"
#include "engine/run/ahead.h"
#include "engine/run/run-private.h"

#define NORMS_KEPT 50
#define NORMS_NEEDED 10 /* before a median says anything */

static int
compare_doubles (gconstpointer a, gconstpointer b)
{
  double left = *(const double *) a, right = *(const double *) b;
  return (left > right) - (left < right);
}

/* Whether a gradient is longer than the usual ones by more than train.divergence allows; else it is one of them. */
static gboolean
is_divergent (PlumbRun *run, double norm, double *median)
{
  double factor = plumb_spec_get_real (run->spec, "train.divergence");
  guint n = run->norms->len;
  *median = 0;
  if (factor <= 0)
    return FALSE;
  if (n >= NORMS_NEEDED)
    {
      g_autofree double *sorted = g_memdup2 (run->norms->data, n * sizeof (double));
      qsort (sorted, n, sizeof (double), compare_doubles);
      *median = sorted[n / 2];
      if (norm > factor * *median)
        return TRUE;
    }
  if (n >= NORMS_KEPT)
    g_array_remove_index (run->norms, 0);
  g_array_append_val (run->norms, norm);
  return FALSE;
}

gboolean
plumb_run_count_update (PlumbRun *run, gint64 *bad_steps, gboolean finite, double norm, gboolean critic, GError **error)
{
  gint64 limit = plumb_spec_get_integer (run->spec, "train.nan_limit"), step = run->position.step;
  double median = 0;
  gboolean divergent = finite && !critic && is_divergent (run, norm, &median);
  if (finite && !divergent)
    {
      *bad_steps = 0;
      return TRUE;
    }
  if (++*bad_steps == 1)
    run->first_bad_step = step;
  if (divergent)
    plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "divergence", step,
                           "the gradient norm of step %" G_GINT64_FORMAT " is %.4g, %.0f times its median of %.4g", step,
                           norm, norm / MAX (median, G_MINDOUBLE), median);
  else
    plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "not-finite", step,
                           "the gradient of step %" G_GINT64_FORMAT " is not finite; the update was left out", step);
  if (*bad_steps <= limit)
    return TRUE;
  run->diverged = TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "%" G_GINT64_FORMAT " updates in a row had a gradient that is not finite or diverged (train.nan_limit, "
               "train.divergence); lower train.learning_rate and continue from the last checkpoint, or set train.rollback",
               *bad_steps);
  return FALSE;
}

/* Where a run cannot go back, the cause is what ends it. */
static gboolean
give_up (const GError *cause, const char *why, GError **error)
{
  g_set_error (error, cause->domain, cause->code, "%s (%s)", cause->message, why);
  return FALSE;
}

/* The attempt ends as failed and another begins, so that what is recorded again supersedes what went wrong. */
static gboolean
begin_attempt (PlumbRun *run, gint64 from_step, const GError *cause, GError **error)
{
  if (!plumb_telemetry_end_attempt (run->telemetry, PLUMB_OUTCOME_FAILED, PLUMB_ERROR_FAILED, run->position.step,
                                    cause->message, error))
    return FALSE;
  run->status->attempt = plumb_telemetry_begin_attempt (run->telemetry, from_step + 1, error);
  if (run->status->attempt < 1)
    return FALSE;
  plumb_crew_set_attempt (run->crew, run->status->attempt);
  return TRUE;
}

/* Checkpoints of what went wrong go, and the word that one of them was the best. */
static gboolean
drop_later (PlumbRun *run, gint64 step, gint64 best_step, GError **error)
{
  g_autofree char *best = g_build_filename (run->dir, PLUMB_RUN_CHECKPOINTS, "best.json", NULL);
  if (best_step > step)
    g_unlink (best);
  return plumb_run_drop_checkpoints (run->dir, step, error);
}

/* The place in the data stays where it is: all that led here is left out. */
static void
keep_place (PlumbRun *run, const PlumbPosition *failed)
{
  run->position.epoch = plumb_data_cursor_epoch (run->cursor);
  run->position.row = plumb_data_cursor_position (run->cursor);
  run->position.ordinal = failed->ordinal;
  run->position.rollbacks = failed->rollbacks + 1;
  run->position.bad_steps = run->position.critic_bad_steps = 0;
}

gboolean
plumb_run_roll_back (PlumbRun *run, const GError *cause, GError **error)
{
  const PlumbPosition failed = run->position;
  gint64 most = plumb_spec_get_integer (run->spec, "train.rollback");
  gint64 step = plumb_run_checkpoint_before (run->dir, run->first_bad_step);
  g_autofree char *why = NULL;
  run->diverged = FALSE;
  if (failed.rollbacks >= most)
    why = most > 0 ? g_strdup_printf ("after %" G_GINT64_FORMAT " rollbacks: train.rollback", failed.rollbacks) : NULL;
  else if (step < 1)
    why = g_strdup ("there is no checkpoint before it to go back to: checkpoint.every");
  if (most == 0 || why)
    {
      if (why)
        return give_up (cause, why, error);
      g_propagate_error (error, g_error_copy (cause));
      return FALSE;
    }
  plumb_run_end_phase (run);
  if (!begin_attempt (run, step, cause, error))
    return FALSE;
  g_ptr_array_set_size (run->showpieces, 0);
  if (!plumb_run_load_checkpoint (run, step, error))
    return FALSE;
  if (run->position.stage != failed.stage || run->position.reference_step != failed.reference_step)
    return give_up (cause, "the last good checkpoint is of an earlier stage or round", error);
  keep_place (run, &failed);
  g_array_set_size (run->norms, 0);
  if (!drop_later (run, step, failed.best_step, error) || (run->ahead && !plumb_run_ahead_start_over (run, error)))
    return FALSE;
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "rollback", step,
                         "more bad updates in a row than train.nan_limit allows, up to step %" G_GINT64_FORMAT
                         ": the run went back to its checkpoint of step %" G_GINT64_FORMAT " (%" G_GINT64_FORMAT
                         " of %" G_GINT64_FORMAT " times), and leaves out the data of the steps between. Where it comes "
                         "again, lower train.learning_rate", failed.step, step, run->position.rollbacks, most);
  plumb_progress_say (run->progress, "step %" G_GINT64_FORMAT ": too many bad updates; went back to the checkpoint of step %"
                      G_GINT64_FORMAT ", the data between is left out", failed.step, step);
  return plumb_run_write_state (run, error);
}
