/* SPDX-License-Identifier: Apache-2.0 */

/* Optimizer updates: the batch, its loss and rate go to the workers. */

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

/* Each worker's part of the batch, even where it is empty: all take part in every sum. A critic with a worker of its own
 * gets the whole. */
static void
add_requests (PlumbRun *run, const struct plumb_experience *e, const PlumbLossSpec *loss, double rate, GPtrArray *requests)
{
  guint32 worker = loss->id == PLUMB_LOSS_VALUE ? plumb_crew_worker_of (run->crew, PLUMB_ROLE_CRITIC) : 0;
  int n = worker ? 1 : plumb_crew_size (run->crew), first = 0;
  int unit = loss->id == PLUMB_LOSS_PAIR || loss->id == PLUMB_LOSS_REWARD ? 2 : 1;
  g_autofree int *ends = g_new (int, n);
  plumb_split_sequences (e->offsets, e->sequences, unit, n, ends);
  for (int i = 0; i < n; i++)
    {
      struct plumb_experience *part = plumb_experience_part (e, first, ends[i]);
      g_ptr_array_add (requests, plumb_crew_request_new (worker ? worker : (guint32) i + 1, PLUMB_MESSAGE_TRAIN,
                                                         train_body (part, loss, rate)));
      plumb_experience_free (part);
      first = ends[i];
    }
}

/* What an update did, over all workers. */
typedef struct
{
  gboolean finite;
  double norm;
  double operations; /* of the model, over all workers */
  guint64 used;      /* bytes of their GPUs */
  struct plumb_loss_statistics statistics;
} Outcome;

/* Adds up what the workers saw; their gradients were summed, so all must tell the same norm. */
static gboolean
read_answers (GPtrArray *requests, guint first, guint last, Outcome *outcome, GError **error)
{
  for (guint i = first; i < last; i++)
    {
      GVariant *answer = plumb_crew_request_answer (g_ptr_array_index (requests, i));
      gboolean finite = FALSE;
      double norm = 0, operations = 0;
      guint64 used = 0;
      gsize numbers = 0;
      struct plumb_loss_statistics statistics = { 0 };
      g_autoptr (GVariant) array = g_variant_lookup_value (answer, "statistics", G_VARIANT_TYPE ("ad"));
      g_variant_lookup (answer, "finite", "b", &finite);
      g_variant_lookup (answer, "gradient-norm", "d", &norm);
      g_variant_lookup (answer, "operations", "d", &operations);
      g_variant_lookup (answer, "used", "t", &used);
      outcome->used += used;
      outcome->operations += operations;
      const double *values = array ? g_variant_get_fixed_array (array, &numbers, sizeof (double)) : NULL;
      if (numbers * sizeof (double) == sizeof statistics)
        memcpy (&statistics, values, sizeof statistics);
      plumb_loss_statistics_add (&outcome->statistics, &statistics);
      if (i > first && finite && norm != outcome->norm)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                       "worker %u has another gradient (norm %.17g) than worker 1 (%.17g) after they were added up; "
                       "continue from the last checkpoint, and suspect the memory of this machine", i - first + 1, norm,
                       outcome->norm);
          return FALSE;
        }
      outcome->norm = norm;
      outcome->finite = finite && (i == first || outcome->finite);
    }
  return TRUE;
}

/* An update that is on its way. */
typedef struct
{
  double rate;
  guint first, last; /* of its requests */
  Outcome outcome;
} Sent;

static void
send_update (PlumbRun *run, const struct plumb_experience *part, const PlumbUpdate *update, GPtrArray *requests, Sent *sent)
{
  PlumbLossSpec whole = *update->loss;
  whole.denominators.tokens = whole.denominators.sequences = 0;
  plumb_denominators_add (&whole.denominators, part->sequences, part->offsets, part->mask);
  gint64 done = whole.id == PLUMB_LOSS_VALUE ? run->position.critic_updates : run->position.updates;
  *sent = (Sent){ .rate = plumb_schedule_rate (update->schedule, (int) done), .first = requests->len };
  add_requests (run, part, &whole, sent->rate, requests);
  sent->last = requests->len;
}

/* What the update found before it changed anything, to the places of the sequences; `part` holds them side by side, a range of
 * them a request. */
static gboolean
take_log_probs (const struct plumb_experience *e, const int *sequences, const struct plumb_experience *part,
                GPtrArray *requests, const Sent *sent, GError **error)
{
  int n = (int) (sent->last - sent->first), first = 0;
  g_autofree int *ends = g_new (int, n);
  plumb_split_sequences (part->offsets, part->sequences, 1, n, ends);
  for (int i = 0; i < n; i++)
    {
      GVariant *answer = plumb_crew_request_answer (g_ptr_array_index (requests, sent->first + i));
      int at = part->offsets[first];
      gsize tokens = (gsize) (part->offsets[ends[i]] - at);
      if (!plumb_run_take_floats (answer, "log-probs", tokens, part->old_logp + at, error)
          || !plumb_run_take_floats (answer, "entropies", tokens, part->entropy + at, error))
        return FALSE;
      first = ends[i];
    }
  for (int s = 0; s < part->sequences; s++)
    {
      int from = part->offsets[s], to = e->offsets[sequences[s]], length = part->offsets[s + 1] - from;
      memcpy (e->old_logp + to, part->old_logp + from, length * sizeof *e->old_logp);
      memcpy (e->entropy + to, part->entropy + from, length * sizeof *e->entropy);
    }
  return TRUE;
}

static gboolean
count_update (PlumbRun *run, const PlumbUpdate *update, const Sent *sent, GError **error)
{
  gboolean critic = update->loss->id == PLUMB_LOSS_VALUE;
  PlumbUpdateSums *sums = update->sums;
  plumb_loss_statistics_add (&sums->statistics, &sent->outcome.statistics);
  sums->gradient_norm += sent->outcome.norm;
  run->limits.operations += sent->outcome.operations;
  run->memory_peak = MAX (run->memory_peak, sent->outcome.used);
  sums->learning_rate = sent->rate;
  sums->updates++;
  *(critic ? &run->position.critic_updates : &run->position.updates) += 1;
  return plumb_run_count_update (run, critic ? &run->position.critic_bad_steps : &run->position.bad_steps,
                                 sent->outcome.finite, sent->outcome.norm, critic, error);
}

gboolean
plumb_run_update (PlumbRun *run, const struct plumb_experience *experience, const int *sequences, int n,
                  const PlumbUpdate *updates, int n_updates, GError **error)
{
  struct plumb_experience *part = plumb_experience_select (experience, sequences, n);
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  g_autofree Sent *sent = g_new0 (Sent, n_updates);
  for (int i = 0; i < n_updates; i++)
    send_update (run, part, &updates[i], requests, &sent[i]);
  gboolean ok = plumb_crew_ask_together (run->crew, requests, error);
  run->limits.train += ok ? plumb_crew_requests_limit (requests) : 0;
  for (int i = 0; ok && i < n_updates; i++)
    ok = read_answers (requests, sent[i].first, sent[i].last, &sent[i].outcome, error)
         && (!updates[i].loss->on_policy || take_log_probs (experience, sequences, part, requests, &sent[i], error))
         && count_update (run, &updates[i], &sent[i], error);
  plumb_experience_free (part);
  return ok;
}
