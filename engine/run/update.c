/* SPDX-License-Identifier: Apache-2.0 */

/* One optimizer update: the batch, its loss and rate go to the worker. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/run-private.h"

static GVariant *
train_body (const struct plumb_experience *part, const PlumbLossSpec *loss, double rate)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, part, TRUE);
  g_variant_dict_insert (body, "learning-rate", "d", rate);
  g_variant_dict_insert (body, "loss", "i", loss->id);
  g_variant_dict_insert (body, "temperature", "d", loss->temperature);
  g_variant_dict_insert (body, "clip-low", "d", loss->policy.clip_low);
  g_variant_dict_insert (body, "clip-high", "d", loss->policy.clip_high);
  g_variant_dict_insert (body, "kl-coefficient", "d", loss->policy.kl_coefficient);
  g_variant_dict_insert (body, "kl-estimator", "i", loss->policy.kl_estimator);
  g_variant_dict_insert (body, "entropy", "d", loss->policy.entropy);
  g_variant_dict_insert (body, "aggregate", "i", loss->policy.aggregate);
  g_variant_dict_insert (body, "tokens", "d", loss->denominators.tokens);
  g_variant_dict_insert (body, "sequences", "d", loss->denominators.sequences);
  g_variant_dict_insert (body, "limit", "d", loss->denominators.limit);
  return g_variant_dict_end (body);
}

static void
add_statistics (struct plumb_policy_statistics *sum, const struct plumb_policy_statistics *s)
{
  sum->loss += s->loss;
  sum->policy += s->policy;
  sum->kl_loss += s->kl_loss;
  sum->entropy_loss += s->entropy_loss;
  sum->tokens += s->tokens;
  sum->clipped_low += s->clipped_low;
  sum->clipped_high += s->clipped_high;
  sum->ratio += s->ratio;
  sum->ratio_squared += s->ratio_squared;
  sum->ratio_max = MAX (sum->ratio_max, s->ratio_max);
  sum->kl_update += s->kl_update;
  sum->kl_reference += s->kl_reference;
  sum->entropy += s->entropy;
}

/* A gradient that is not finite changes nothing; too many in a row end the run. */
static gboolean
count_bad_step (PlumbRun *run, gboolean finite, GError **error)
{
  gint64 limit = plumb_spec_get_integer (run->spec, "train.nan_limit");
  run->bad_steps = finite ? 0 : run->bad_steps + 1;
  if (finite)
    return TRUE;
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "not-finite", run->position.step,
                         "the gradient of step %" G_GINT64_FORMAT " is not finite; the update was left out",
                         run->position.step);
  if (run->bad_steps <= limit)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "%" G_GINT64_FORMAT " updates in a row had a gradient that is not finite (train.nan_limit); lower "
               "train.learning_rate and continue from the last checkpoint",
               run->bad_steps);
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
  double rate = plumb_schedule_rate (schedule, (int) run->position.updates);
  g_autoptr (GVariant) body
      = plumb_crew_ask (run->crew, PLUMB_MESSAGE_TRAIN, train_body (part, &whole, rate), error);
  plumb_experience_free (part);
  if (!body)
    return FALSE;
  gboolean finite = FALSE;
  double norm = 0;
  gsize numbers = 0;
  struct plumb_policy_statistics statistics = { 0 };
  g_autoptr (GVariant) array = g_variant_lookup_value (body, "statistics", G_VARIANT_TYPE ("ad"));
  g_variant_lookup (body, "finite", "b", &finite);
  g_variant_lookup (body, "gradient-norm", "d", &norm);
  const double *values = array ? g_variant_get_fixed_array (array, &numbers, sizeof (double)) : NULL;
  if (numbers * sizeof (double) == sizeof statistics)
    memcpy (&statistics, values, sizeof statistics);
  add_statistics (&sums->statistics, &statistics);
  sums->gradient_norm += norm;
  sums->learning_rate = rate;
  sums->updates++;
  run->position.updates++;
  return count_bad_step (run, finite, error);
}
