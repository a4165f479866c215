/* SPDX-License-Identifier: Apache-2.0 */

/* One optimizer update: the batch, its loss and rate go to the worker. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/loss-message.h"
#include "engine/run/run-private.h"
#include "engine/run/split.h"

static GVariant *
train_body (const struct plumb_experience *part, const PlumbLossSpec *loss, double rate)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, part, TRUE);
  g_variant_dict_insert (body, "learning-rate", "d", rate);
  plumb_body_add_loss (body, loss);
  return g_variant_dict_end (body);
}

/* Each worker's part of the batch, even where it is empty: all take part in every sum. */
static gboolean
ask_workers (PlumbRun *run, const struct plumb_experience *e, const PlumbLossSpec *loss, double rate,
             GVariant **answers, GError **error)
{
  int n = plumb_crew_size (run->crew), first = 0;
  int unit = loss->id == PLUMB_LOSS_PAIR || loss->id == PLUMB_LOSS_REWARD ? 2 : 1;
  g_autofree GVariant **bodies = g_new0 (GVariant *, n);
  g_autofree int *ends = g_new (int, n);
  plumb_split_sequences (e->offsets, e->sequences, unit, n, ends);
  for (int i = 0; i < n; i++)
    {
      struct plumb_experience *part = plumb_experience_part (e, first, ends[i]);
      bodies[i] = train_body (part, loss, rate);
      plumb_experience_free (part);
      first = ends[i];
    }
  return plumb_crew_ask_each (run->crew, PLUMB_MESSAGE_TRAIN, bodies, answers, error);
}

/* What an update did, over all workers. */
typedef struct
{
  gboolean finite;
  double norm;
  struct plumb_loss_statistics statistics;
} Outcome;

/* Adds up what the workers saw; their gradients were summed, so all must tell the same norm. */
static gboolean
read_answers (PlumbRun *run, GVariant *const *answers, Outcome *outcome, GError **error)
{
  for (int i = 0; i < plumb_crew_size (run->crew); i++)
    {
      gboolean finite = FALSE;
      double norm = 0;
      gsize numbers = 0;
      struct plumb_loss_statistics statistics = { 0 };
      g_autoptr (GVariant) array = g_variant_lookup_value (answers[i], "statistics", G_VARIANT_TYPE ("ad"));
      g_variant_lookup (answers[i], "finite", "b", &finite);
      g_variant_lookup (answers[i], "gradient-norm", "d", &norm);
      const double *values = array ? g_variant_get_fixed_array (array, &numbers, sizeof (double)) : NULL;
      if (numbers * sizeof (double) == sizeof statistics)
        memcpy (&statistics, values, sizeof statistics);
      plumb_loss_statistics_add (&outcome->statistics, &statistics);
      if (i > 0 && finite && norm != outcome->norm)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                       "worker %d has another gradient (norm %.17g) than worker 1 (%.17g) after they were added up; "
                       "continue from the last checkpoint, and suspect the memory of this machine", i + 1, norm,
                       outcome->norm);
          return FALSE;
        }
      outcome->norm = norm;
      outcome->finite = finite && (i == 0 || outcome->finite);
    }
  return TRUE;
}

gboolean
plumb_run_update (PlumbRun *run, const struct plumb_experience *experience, const int *sequences, int n,
                  const PlumbLossSpec *loss, const struct plumb_schedule *schedule, PlumbUpdateSums *sums,
                  GError **error)
{
  struct plumb_experience *part = plumb_experience_select (experience, sequences, n);
  PlumbLossSpec whole = *loss;
  Outcome outcome = { 0 };
  g_autofree GVariant **answers = g_new0 (GVariant *, plumb_crew_size (run->crew));
  whole.denominators.tokens = whole.denominators.sequences = 0;
  plumb_denominators_add (&whole.denominators, part->sequences, part->offsets, part->mask);
  gint64 *updates = loss->id == PLUMB_LOSS_VALUE ? &run->position.critic_updates : &run->position.updates;
  double rate = plumb_schedule_rate (schedule, (int) *updates);
  gboolean ok = ask_workers (run, part, &whole, rate, answers, error) && read_answers (run, answers, &outcome, error);
  plumb_crew_clear_answers (run->crew, answers);
  plumb_experience_free (part);
  if (!ok)
    return FALSE;
  plumb_loss_statistics_add (&sums->statistics, &outcome.statistics);
  sums->gradient_norm += outcome.norm;
  sums->learning_rate = rate;
  sums->updates++;
  (*updates)++;
  gboolean critic = loss->id == PLUMB_LOSS_VALUE;
  return plumb_run_count_update (run, critic ? &run->position.critic_bad_steps : &run->position.bad_steps, outcome.finite,
                                 outcome.norm, critic, error);
}
