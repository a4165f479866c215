/* SPDX-License-Identifier: Apache-2.0 */

/* Completions get their rewards: by the reward model, by the functions, by what an environment gave. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/reward/batch.h"
#include "engine/run/scoring.h"

double
plumb_run_normal_score (PlumbRun *run, double score)
{
  return (score - run->reward_mean) / run->reward_deviation;
}

/* Scores (sequences) of the reward model, normalised where that is asked for; NaN without one. What training needs to know
 * comes at the same time where it may. */
static gboolean
ask_reward_model (PlumbRun *run, PlumbBatch *batch, double *scores, GError **error)
{
  struct plumb_experience *e = batch->experience;
  g_autofree double *values = g_new0 (double, e->tokens + 1);
  gboolean wanted = run->reward && plumb_reward_needs_model (run->reward);
  PlumbProbe probes[1 + PLUMB_TRAINING_PROBES] = { { PLUMB_PROBE_REWARD, 1, NULL, NULL, values } };
  int n = 1 + (batch->early ? plumb_run_training_probes (run, e, TRUE, probes + 1) : 0);
  if (wanted && !plumb_run_probe (run, e, probes, n, error))
    return FALSE;
  batch->probed = wanted && batch->early;
  for (int s = 0; s < e->sequences; s++)
    scores[s] = wanted ? plumb_run_normal_score (run, values[e->offsets[s + 1] - 1]) : NAN;
  return TRUE;
}

/* The text of each response, and what is scored of it; strings stay with the batch. */
PlumbRewardInput *
plumb_batch_reward_inputs (PlumbRun *run, PlumbBatch *batch, const double *model_scores, GError **error)
{
  struct plumb_experience *e = batch->experience;
  g_autofree PlumbRewardInput *inputs = g_new0 (PlumbRewardInput, e->sequences + 1);
  batch->responses = g_new0 (char *, e->sequences + 1);
  for (int s = 0; s < e->sequences; s++)
    {
      const PlumbDataRow *row = batch->data[s / batch->samples];
      int first = e->offsets[s] + (int) row->prompt_ids->len;
      gsize n = (gsize) (e->offsets[s + 1] - first);
      batch->responses[s] = plumb_tokenizer_decode_after (run->tokenizer, e->ids + e->offsets[s], row->prompt_ids->len,
                                                          e->ids + first, n, TRUE, error);
      if (!batch->responses[s])
        return NULL;
      inputs[s] = (PlumbRewardInput) { .prompt = row->prompt, .response = batch->responses[s], .answer = row->answer,
                                       .n_tokens = n, .model_score = model_scores[s], .row = row->row };
    }
  return g_steal_pointer (&inputs);
}

static gboolean
keep_time (gpointer run, gsize done, gsize of)
{
  return plumb_run_tick (run, (gint64) done, (gint64) of);
}

void
plumb_batch_tell_failures (PlumbRun *run, const PlumbBatch *batch)
{
  g_autoptr (GPtrArray) failures
      = plumb_reward_failures (batch->scores, (gsize) batch->experience->sequences);
  for (guint i = 0; i < failures->len; i++)
    {
      const PlumbRewardFailure *failure = g_ptr_array_index (failures, i);
      plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "reward-failed", run->position.step,
                             "%u of %d completions have no reward: %s", failure->count,
                             batch->experience->sequences, failure->example);
    }
}

/* Calls of the reward functions for all sequences. */
static gboolean
call_reward (PlumbRun *run, PlumbBatch *batch, const PlumbRewardInput *inputs, GError **error)
{
  PlumbRewardBatch work
      = { (gsize) batch->experience->sequences, inputs, batch->scores, batch->parts, batch->reward_seconds };
  if (!run->reward || plumb_reward_score_batch (run->reward, &work, keep_time, run))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_EXIT_INTERRUPTED, "interrupted");
  return FALSE;
}

/* What the environment gave comes on top; where it failed, so has the sample. */
static void
add_episode (PlumbBatch *batch, int s)
{
  struct plumb_experience *e = batch->experience;
  if (!batch->episodes)
    return;
  e->reward[s] += batch->episodes[s].value;
  if (!batch->episodes[s].failed)
    return;
  e->scored[s] = 0;
  e->reward[s] = 0;
  if (batch->scores[s].failed)
    return;
  batch->scores[s].failed = TRUE;
  g_free (batch->scores[s].reason);
  batch->scores[s].reason = g_strdup (batch->episodes[s].reason);
}

void
plumb_batch_prepare_scores (PlumbRun *run, PlumbBatch *batch)
{
  gsize n = (gsize) batch->experience->sequences;
  batch->n_parts = run->reward ? plumb_reward_n_parts (run->reward) : 0;
  batch->scores = g_new0 (PlumbRewardScore, n + 1);
  batch->parts = g_new0 (double, n * batch->n_parts + 1);
  batch->reward_seconds = run->reward ? g_new0 (double, n + 1) : NULL;
}

void
plumb_batch_take_scores (PlumbRun *run, PlumbBatch *batch)
{
  struct plumb_experience *e = batch->experience;
  for (int s = 0; s < e->sequences; s++)
    {
      e->scored[s] = !batch->scores[s].failed && isfinite (batch->scores[s].value);
      e->reward[s] = e->scored[s] ? batch->scores[s].value : 0;
      add_episode (batch, s);
    }
  for (int s = 0; batch->episodes && s < e->sequences; s++)
    plumb_reward_score_clear (&batch->episodes[s]);
  g_clear_pointer (&batch->episodes, g_free);
}

gboolean
plumb_batch_score (PlumbRun *run, PlumbBatch *batch, GError **error)
{
  g_autofree double *model_scores = g_new (double, batch->experience->sequences + 1);
  g_autofree PlumbRewardInput *inputs = NULL;
  plumb_batch_prepare_scores (run, batch);
  if (!ask_reward_model (run, batch, model_scores, error)
      || !(inputs = plumb_batch_reward_inputs (run, batch, model_scores, error)) || !call_reward (run, batch, inputs, error))
    return FALSE;
  plumb_batch_take_scores (run, batch);
  plumb_batch_tell_failures (run, batch);
  return TRUE;
}
