/* SPDX-License-Identifier: Apache-2.0 */

/* One optimizer update: the batch, its loss and rate go to the worker. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/loss-message.h"
#include "engine/run/run-private.h"

static GVariant *
train_body (const struct plumb_experience *part, const PlumbLossSpec *loss, double rate)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, part, TRUE);
  g_variant_dict_insert (body, "learning-rate", "d", rate);
  plumb_body_add_loss (body, loss);
  return g_variant_dict_end (body);
}

/* A gradient that is not finite changes nothing; too many in a row end the run. */
static gboolean
count_bad_step (PlumbRun *run, gint64 *bad_steps, gboolean finite, GError **error)
{
  gint64 limit = plumb_spec_get_integer (run->spec, "train.nan_limit");
  *bad_steps = finite ? 0 : *bad_steps + 1;
  if (finite)
    return TRUE;
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "not-finite", run->position.step,
                         "the gradient of step %" G_GINT64_FORMAT " is not finite; the update was left out",
                         run->position.step);
  if (*bad_steps <= limit)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "%" G_GINT64_FORMAT " updates in a row had a gradient that is not finite (train.nan_limit); lower "
               "train.learning_rate and continue from the last checkpoint",
               *bad_steps);
  return FALSE;
}

gboolean
plumb_run_update (PlumbRun *run, const struct plumb_experience *experience, const int *sequences, int n,
                  const PlumbLossSpec *loss, const struct plumb_schedule *schedule, PlumbUpdateSums *sums,
                  GError **error)
{
  struct plumb_experience *part = plumb_experience_select (experience, sequences, n);
  PlumbLossSpec whole = *loss;
  whole.denominators.tokens = whole.denominators.sequences = 0;
  plumb_denominators_add (&whole.denominators, part->sequences, part->offsets, part->mask);
  gint64 *updates = loss->id == PLUMB_LOSS_VALUE ? &run->position.critic_updates : &run->position.updates;
  double rate = plumb_schedule_rate (schedule, (int) *updates);
  g_autoptr (GVariant) body
      = plumb_crew_ask (run->crew, PLUMB_MESSAGE_TRAIN, train_body (part, &whole, rate), error);
  plumb_experience_free (part);
  if (!body)
    return FALSE;
  gboolean finite = FALSE;
  double norm = 0;
  gsize numbers = 0;
  struct plumb_loss_statistics statistics = { 0 };
  g_autoptr (GVariant) array = g_variant_lookup_value (body, "statistics", G_VARIANT_TYPE ("ad"));
  g_variant_lookup (body, "finite", "b", &finite);
  g_variant_lookup (body, "gradient-norm", "d", &norm);
  const double *values = array ? g_variant_get_fixed_array (array, &numbers, sizeof (double)) : NULL;
  if (numbers * sizeof (double) == sizeof statistics)
    memcpy (&statistics, values, sizeof statistics);
  plumb_loss_statistics_add (&sums->statistics, &statistics);
  sums->gradient_norm += norm;
  sums->learning_rate = rate;
  sums->updates++;
  (*updates)++;
  return count_bad_step (run, loss->id == PLUMB_LOSS_VALUE ? &run->position.critic_bad_steps : &run->position.bad_steps,
                         finite, error);
}
