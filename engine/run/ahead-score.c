/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>

#include "engine/core/error.h"
#include "engine/reward/batch.h"
#include "engine/run/ahead-score.h"
#include "engine/run/experience-message.h"
#include "engine/run/scoring.h"

typedef enum
{
  SCORE_MODEL,  /* waits for the reward model */
  SCORE_CALLED, /* the functions are called, in another thread */
  SCORE_DONE,
} ScoreState;

struct _PlumbAheadScore
{
  gatomicrefcount references;
  int state;     /* ScoreState, atomic */
  int abandoned; /* atomic: nobody waits for it any more */
  PlumbBatch *batch;
  PlumbCrewRequest *request; /* to the reward model */
  PlumbRewardInput *inputs;
};

struct _PlumbAheadScorer
{
  PlumbRun *run;
  GThreadPool *pool;
  int ending; /* atomic */
};

static void
score_unref (PlumbAheadScore *self)
{
  if (!g_atomic_ref_count_dec (&self->references))
    return;
  g_clear_pointer (&self->batch, plumb_batch_free);
  g_free (self->inputs);
  g_free (self);
}

void
plumb_ahead_score_drop (PlumbAheadScore *self)
{
  if (!self)
    return;
  g_atomic_int_set (&self->abandoned, TRUE);
  /* A request is the main thread's alone. */
  g_clear_pointer (&self->request, plumb_crew_request_unref);
  score_unref (self);
}

static gboolean
go_on (gpointer scorer, gsize done, gsize of)
{
  return !g_atomic_int_get (&((PlumbAheadScorer *) scorer)->ending);
}

/* In a thread of the pool. */
static void
call_functions (gpointer data, gpointer user_data)
{
  PlumbAheadScorer *self = user_data;
  PlumbAheadScore *score = data;
  PlumbBatch *batch = score->batch;
  PlumbRewardBatch work
      = { (gsize) batch->experience->sequences, score->inputs, batch->scores, batch->parts, batch->reward_seconds };
  if (!g_atomic_int_get (&score->abandoned) && go_on (self, 0, 0))
    plumb_reward_score_batch (self->run->reward, &work, go_on, self);
  g_atomic_int_set (&score->state, SCORE_DONE);
  score_unref (score);
}

PlumbAheadScorer *
plumb_ahead_scorer_new (PlumbRun *run)
{
  gboolean model = run->reward && plumb_reward_needs_model (run->reward);
  if (model && !plumb_crew_worker_of (run->crew, PLUMB_ROLE_REWARD))
    return NULL;
  PlumbAheadScorer *self = g_new0 (PlumbAheadScorer, 1);
  gint64 samples = plumb_spec_get_integer (run->spec, "rollout.samples");
  int threads = run->reward ? MAX (1, (int) (plumb_reward_width (run->reward) / samples)) : 1;
  self->run = run;
  self->pool = g_thread_pool_new (call_functions, self, threads, FALSE, NULL);
  return self;
}

void
plumb_ahead_scorer_free (PlumbAheadScorer *self)
{
  if (!self)
    return;
  /* What waits for a thread is taken by one, and left alone. */
  g_atomic_int_set (&self->ending, TRUE);
  g_thread_pool_free (self->pool, FALSE, TRUE);
  g_free (self);
}

PlumbBatch *
plumb_ahead_batch_of (PlumbRun *run, const PlumbAheadGroup *group, int samples, GError **error)
{
  g_autoptr (PlumbBatch) batch = g_new0 (PlumbBatch, 1);
  batch->prompts = 1;
  batch->samples = samples;
  batch->data = g_new0 (PlumbDataRow *, 1);
  batch->ordinals = g_memdup2 (&group->ordinal, sizeof group->ordinal);
  batch->data[0] = plumb_data_set_get (run->train, group->row, error);
  if (!batch->data[0] || !plumb_batch_fill (run, batch, &group->completions, error))
    return NULL;
  batch->episodes = group->episodes ? g_new0 (PlumbRewardScore, samples) : NULL;
  for (int s = 0; group->episodes && s < samples; s++)
    batch->episodes[s] = (PlumbRewardScore){ group->episodes[s].value, group->episodes[s].failed,
                                             g_strdup (group->episodes[s].reason) };
  return g_steal_pointer (&batch);
}

static gboolean
post_to_model (PlumbAheadScorer *self, PlumbAheadScore *score, GError **error)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, score->batch->experience, FALSE);
  g_variant_dict_insert (body, "of", "i", PLUMB_PROBE_REWARD - PLUMB_PROBE_CRITIC);
  score->request = plumb_crew_request_new (plumb_crew_worker_of (self->run->crew, PLUMB_ROLE_REWARD), PLUMB_MESSAGE_VALUES,
                                           g_variant_dict_end (body));
  return plumb_crew_post (self->run->crew, score->request, error);
}

/* The functions are called with the scores of the model, or none. */
static gboolean
call (PlumbAheadScorer *self, PlumbAheadScore *score, const float *values, GError **error)
{
  struct plumb_experience *e = score->batch->experience;
  g_autofree double *model_scores = g_new (double, e->sequences + 1);
  for (int s = 0; s < e->sequences; s++)
    model_scores[s] = values ? plumb_run_normal_score (self->run, values[e->offsets[s + 1] - 1]) : NAN;
  score->inputs = plumb_batch_reward_inputs (self->run, score->batch, model_scores, error);
  if (!score->inputs)
    return FALSE;
  score->state = self->run->reward ? SCORE_CALLED : SCORE_DONE;
  if (!self->run->reward)
    return TRUE;
  g_atomic_ref_count_inc (&score->references);
  return g_thread_pool_push (self->pool, score, error);
}

static gboolean
take_model (PlumbAheadScorer *self, PlumbAheadScore *score, GError **error)
{
  GVariant *answer = plumb_crew_request_answer (score->request);
  gsize n = 0;
  const void *raw = answer ? plumb_body_get_array (answer, "values", sizeof (float), &n) : NULL;
  if (!raw || n != (gsize) score->batch->experience->tokens)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: %s",
                   plumb_crew_worker_name (self->run->crew, plumb_crew_worker_of (self->run->crew, PLUMB_ROLE_REWARD)),
                   answer ? "it returned no scores" : plumb_crew_request_failure (score->request));
      return FALSE;
    }
  g_autofree float *values = g_memdup2 (raw, n * sizeof (float));
  g_clear_pointer (&score->request, plumb_crew_request_unref);
  return call (self, score, values, error);
}

static gboolean
begin_or_go_on (PlumbAheadScorer *self, PlumbAheadGroup *group, int samples, GError **error)
{
  PlumbAheadScore *score = group->score;
  if (score)
    return g_atomic_int_get (&score->state) != SCORE_MODEL || !plumb_crew_request_is_done (score->request)
           || take_model (self, score, error);
  PlumbBatch *batch = plumb_ahead_batch_of (self->run, group, samples, error);
  if (!batch)
    return FALSE;
  group->score = score = g_new0 (PlumbAheadScore, 1);
  g_atomic_ref_count_init (&score->references);
  score->batch = batch;
  plumb_batch_prepare_scores (self->run, batch);
  return self->run->reward && plumb_reward_needs_model (self->run->reward) ? post_to_model (self, score, error)
                                                                            : call (self, score, NULL, error);
}

gboolean
plumb_ahead_score_attend (PlumbAheadScorer *self, PlumbAheadGroup *group, int samples, GError **error)
{
  if (begin_or_go_on (self, group, samples, error))
    return TRUE;
  g_clear_pointer (&group->score, plumb_ahead_score_drop); /* half of it can be waited for by nobody */
  return FALSE;
}

gboolean
plumb_ahead_score_is_done (const PlumbAheadScore *score)
{
  return score && g_atomic_int_get (&score->state) == SCORE_DONE;
}

PlumbBatch *
plumb_ahead_score_take (PlumbAheadScore *score)
{
  return g_steal_pointer (&score->batch);
}
