/* SPDX-License-Identifier: Apache-2.0 */

/* The controller's side of generating ahead: which prompts are given out, which are trained next, and what becomes of
 * them where the worker is lost. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/comm/weight-board.h"
#include "engine/core/error.h"
#include "engine/run/ahead-play.h"
#include "engine/run/ahead-score.h"
#include "engine/run/ahead.h"
#include "engine/run/scoring.h"

#define QUEUE_FILE "ahead.bin"
#define MOST_RESTARTS 3 /* of the worker, in one run */
#define WAIT_MS 200
#define SHORT_WAIT_MS 5
#define SHORTEST_SPAN 1e-4 /* seconds: less is not seen in a timeline */

/* What the worker counted since it was started. */
typedef struct
{
  gint64 tokens, passes, rows, prefill, shared;
  double kv_used, idle, sync, busy;
} Counts;

struct _PlumbAhead
{
  PlumbAheadQueue *queue;
  PlumbAheadTable *table;   /* of episodes; NULL: single answers */
  PlumbAheadScorer *scorer; /* NULL: rewards wait until a group is taken */
  PlumbSharedMemory *board;
  GVariant *settings; /* body of OPEN */
  gboolean streaming; /* the worker generates */
  int in_hand;        /* prompts taken and not trained yet */
  gboolean counted;   /* its memory is part of what was planned */
  int restarts;
  gint64 arrived;     /* monotonic: groups came last */
  gint64 renewed;     /* groups that were too old when their turn came, and were generated again */
  double waited;      /* seconds of this step in which the trainers had nothing to do */
  Counts now, before; /* at the last message, and at the last take */
  Counts step;        /* between the takes of the last step */
  GError *bad;        /* a message that does not fit */
};

void
plumb_ahead_free (PlumbAhead *self)
{
  if (!self)
    return;
  plumb_ahead_queue_free (self->queue);
  plumb_ahead_table_free (self->table);
  plumb_ahead_scorer_free (self->scorer);
  plumb_shared_memory_free (self->board);
  g_clear_pointer (&self->settings, g_variant_unref);
  g_clear_error (&self->bad);
  g_free (self);
}

static void
read_counts (Counts *c, GVariant *body)
{
  g_variant_lookup (body, "tokens", "x", &c->tokens);
  g_variant_lookup (body, "passes", "x", &c->passes);
  g_variant_lookup (body, "decode-rows", "x", &c->rows);
  g_variant_lookup (body, "prefill-tokens", "x", &c->prefill);
  g_variant_lookup (body, "shared-tokens", "x", &c->shared);
  g_variant_lookup (body, "kv-used", "d", &c->kv_used);
  g_variant_lookup (body, "seconds-idle", "d", &c->idle);
  g_variant_lookup (body, "seconds-sync", "d", &c->sync);
  g_variant_lookup (body, "seconds-busy", "d", &c->busy);
}

/* What the worker did since it told last, as rows of the timeline. */
static void
record_spans (PlumbRun *run, GVariant *body)
{
  gsize n = 0;
  const guint8 *raw = plumb_body_get_array (body, "spans", sizeof (double), &n);
  g_autofree char *worker = g_strdup_printf ("worker %d", plumb_crew_size (run->crew) + 1);
  double wall = plumb_telemetry_now (run->telemetry) - (double) g_get_monotonic_time () / G_USEC_PER_SEC;
  for (gsize i = 0; raw && i + 3 <= n; i += 3)
    {
      double span[3];
      memcpy (span, raw + i * sizeof (double), sizeof span);
      if (!(span[2] - span[1] >= SHORTEST_SPAN))
        continue;
      plumb_telemetry_phase (run->telemetry, worker, span[0] > 1 ? "sync" : "generate", run->position.step,
                             wall + span[1], wall + span[2]);
    }
}

static void
take_groups (GVariant *body, gpointer data)
{
  PlumbRun *run = data;
  PlumbAhead *self = run->ahead;
  self->arrived = g_get_monotonic_time ();
  run->status->progressed = plumb_telemetry_now (run->telemetry);
  read_counts (&self->now, body);
  record_spans (run, body);
  if (self->bad)
    return;
  if (self->table)
    plumb_ahead_table_accept (self->table, body, &self->bad);
  else
    plumb_ahead_queue_accept (self->queue, body, &self->bad);
}

static gboolean
open_worker (PlumbRun *run, GError **error)
{
  g_autoptr (GVariant) answer
      = plumb_crew_ask_ahead (run->crew, PLUMB_MESSAGE_OPEN, run->ahead->settings, error);
  guint64 planned = 0;
  if (answer && g_variant_lookup (answer, "planned", "t", &planned) && !run->ahead->counted)
    run->memory_planned += planned;
  run->ahead->counted = TRUE;
  plumb_run_note_workers (run, NULL);
  return answer != NULL;
}

gboolean
plumb_run_ahead_open (PlumbRun *run, const PlumbWorkerSettings *settings, guint64 weight_bytes, GError **error)
{
  PlumbAhead *self = run->ahead = g_new0 (PlumbAhead, 1);
  PlumbWorkerSettings own;
  plumb_worker_settings_for (&own, settings, PLUMB_ROLE_ROLLOUT);
  self->settings = g_variant_ref_sink (plumb_worker_settings_to_body (&own));
  self->queue = plumb_ahead_queue_new ((int) plumb_spec_get_integer (run->spec, "rollout.samples"),
                                       (int) plumb_tokenizer_vocab_size (run->tokenizer));
  self->board = plumb_weight_board_memory_new (weight_bytes, error);
  if (!self->board
      || (run->environment && !(self->table = plumb_ahead_table_new (run, self->queue, error))))
    return FALSE;
  self->scorer = plumb_ahead_scorer_new (run);
  plumb_crew_set_groups (run->crew, take_groups, run);
  return open_worker (run, error);
}

static PlumbAsk
ask_of (PlumbRun *run)
{
  return (PlumbAsk){
    .set = run->train,
    .samples = (int) plumb_spec_get_integer (run->spec, "rollout.samples"),
    .temperature = plumb_spec_get_real (run->spec, "rollout.temperature"),
    .purpose = PLUMB_RANDOM_ROLLOUT,
  };
}

/* The policy's weights go up under the number of steps that made them. */
static gboolean
publish (PlumbRun *run, GError **error)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_variant_dict_insert (body, "board", "s", plumb_shared_memory_path (run->ahead->board));
  g_variant_dict_insert (body, "version", "t", (guint64) run->position.step);
  g_autoptr (GVariant) answer = plumb_crew_ask (run->crew, PLUMB_MESSAGE_PUBLISH, g_variant_dict_end (body), error);
  return answer != NULL;
}

static gboolean
begin_stream (PlumbRun *run, GError **error)
{
  g_auto (PlumbPrompts) none = { 0 };
  PlumbAsk ask = ask_of (run);
  /* Of an episode each answer is told by itself. */
  plumb_prompts_init (&none, run->ahead->table ? 1 : ask.samples);
  g_autoptr (GVariant) sampling = g_variant_ref_sink (plumb_prompts_to_body (run, &none, &ask, 0, 0));
  g_autoptr (GVariantDict) body = g_variant_dict_new (sampling);
  g_variant_dict_insert (body, "board", "s", plumb_shared_memory_path (run->ahead->board));
  g_variant_dict_insert (body, "partial", "b", plumb_spec_get_boolean (run->spec, "rollout.partial"));
  g_autoptr (GVariant) answer
      = plumb_crew_ask_ahead (run->crew, PLUMB_MESSAGE_STREAM, g_variant_dict_end (body), error);
  run->ahead->streaming = answer != NULL;
  run->ahead->now = run->ahead->before = (Counts){ 0 };
  return answer != NULL;
}

/* Sends every prompt that waits to be submitted. */
static gboolean
submit (PlumbRun *run, GError **error)
{
  PlumbAheadQueue *queue = run->ahead->queue;
  g_auto (PlumbPrompts) prompts = { 0 };
  PlumbAsk ask = ask_of (run);
  plumb_prompts_init (&prompts, ask.samples);
  for (guint i = 0; i < queue->groups->len; i++)
    {
      PlumbAheadGroup *group = plumb_ahead_queue_get (queue, i);
      if (group->since > 0 || group->completions.n > 0)
        continue;
      PlumbDataRow *row = plumb_data_set_get (run->train, group->row, error);
      if (!row)
        return FALSE;
      plumb_prompts_add (&prompts, (gpointer) row->prompt_ids->data, row->prompt_ids->len, group->ordinal, 0);
      plumb_data_row_free (row);
      group->since = g_get_monotonic_time ();
      if (run->ahead->table && !plumb_ahead_table_begin (run->ahead->table, group, error))
        return FALSE;
    }
  if (prompts.ordinals->len > 0)
    plumb_crew_tell_ahead (run->crew, PLUMB_MESSAGE_SUBMIT,
                           plumb_prompts_to_body (run, &prompts, &ask, 0, prompts.ordinals->len));
  return TRUE;
}

/* Episodes go on, and finished groups get their rewards. */
static gboolean
attend (PlumbRun *run, GError **error)
{
  PlumbAhead *self = run->ahead;
  g_auto (PlumbPrompts) next = { 0 };
  PlumbAsk ask = ask_of (run);
  plumb_prompts_init (&next, 1);
  if (self->table && !plumb_ahead_table_attend (self->table, &next, error))
    return FALSE;
  if (next.ordinals->len > 0)
    {
      plumb_crew_tell_ahead (run->crew, PLUMB_MESSAGE_SUBMIT, plumb_prompts_to_body (run, &next, &ask, 0, next.ordinals->len));
      self->arrived = g_get_monotonic_time ();
    }
  for (guint i = 0; self->scorer && i < self->queue->groups->len; i++)
    {
      PlumbAheadGroup *group = plumb_ahead_queue_get (self->queue, i);
      if (group->completions.n > 0 && !plumb_ahead_score_attend (self->scorer, group, self->queue->samples, error))
        return FALSE;
    }
  return TRUE;
}

void
plumb_run_ahead_attend (PlumbRun *run)
{
  PlumbAhead *self = run->ahead;
  if (self && self->streaming && !self->bad)
    attend (run, &self->bad);
}

/* What went wrong while messages were taken, where nobody could be told. */
static gboolean
report_bad (PlumbAhead *self, GError **error)
{
  if (!self->bad)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&self->bad));
  return FALSE;
}

/* How long to wait for messages, in ms, while threads of this process work. */
static int
pace (const PlumbAhead *self)
{
  return self->table && plumb_ahead_table_asked (self->table) > 0 ? SHORT_WAIT_MS : WAIT_MS;
}

/* Gives out prompts up to the bound; none that the steps which are left will not train. */
static gboolean
fill (PlumbRun *run, GError **error)
{
  PlumbAhead *self = run->ahead;
  gint64 each = plumb_spec_get_integer (run->spec, "rollout.prompts_per_step");
  gint64 most = (plumb_spec_get_integer (run->spec, "rollout.max_staleness") + 1) * each;
  if (!plumb_spec_get_boolean (run->spec, "algorithm.dynamic_sampling"))
    most = MIN (most, (run->steps[PLUMB_STAGE_ONLINE] - run->position.stage_step) * each);
  while ((gint64) self->queue->groups->len + self->in_hand < most)
    plumb_ahead_queue_push (self->queue, run->position.ordinal++, plumb_data_cursor_next (run->cursor));
  return submit (run, error);
}

/* A worker was lost: told, and its prompts wait to be given out again. Too many losses end the run. */
static gboolean
count_loss (PlumbRun *run, const char *loss, GError **error)
{
  PlumbAhead *self = run->ahead;
  PlumbAheadQueue *queue = self->queue;
  guint again = queue->groups->len - plumb_ahead_queue_finished (queue);
  self->streaming = FALSE;
  if (++self->restarts > MOST_RESTARTS)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                   "%s; the worker that generates was lost %d times in this run, which ends it. It can go on from its "
                   "last checkpoint with --resume", loss, self->restarts);
      return FALSE;
    }
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "rollout-lost", run->position.step,
                         "%s; another one takes its place (%d of %d), and %u prompts are generated again", loss,
                         self->restarts, MOST_RESTARTS, again);
  plumb_progress_say (run->progress, "%s; another one takes its place, and %u prompts are generated again", loss,
                      again);
  for (guint i = 0; i < queue->groups->len; i++)
    if (plumb_ahead_queue_get (queue, i)->completions.n == 0)
      plumb_ahead_queue_forget (plumb_ahead_queue_get (queue, i));
  return TRUE;
}

/* Another worker takes the place of a lost one, as often as may be. */
static gboolean
recover (PlumbRun *run, const char *loss, GError **error)
{
  g_autofree char *told = g_strdup (loss);
  for (;;)
    {
      g_autoptr (GError) failure = NULL;
      if (!count_loss (run, told, error))
        return FALSE;
      if (plumb_crew_restart_ahead (run->crew, &failure) && open_worker (run, &failure) && begin_stream (run, &failure))
        return submit (run, error);
      const char *again = plumb_crew_ahead_loss (run->crew, TRUE);
      if (!again)
        {
          g_propagate_error (error, g_steal_pointer (&failure));
          return FALSE;
        }
      g_free (told);
      told = g_strdup (again);
    }
}

/* The worker starts with the weights as they are now, and with what a checkpoint brought. */
static gboolean
start (PlumbRun *run, GError **error)
{
  g_autoptr (GError) failure = NULL;
  if (run->ahead->streaming)
    return TRUE;
  if (!publish (run, error))
    return FALSE;
  if (begin_stream (run, &failure))
    return TRUE;
  const char *loss = plumb_crew_ahead_loss (run->crew, TRUE);
  if (loss)
    return recover (run, loss, error);
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

/* The prompts that the worker has and has not finished: when the first was given out, or 0. */
static gint64
waiting_since (const PlumbAhead *self)
{
  const PlumbAheadQueue *queue = self->queue;
  if (self->table && plumb_ahead_table_owed (self->table) == 0)
    return 0; /* the environment has them all */
  for (guint i = 0; i < queue->groups->len; i++)
    if (plumb_ahead_queue_get (queue, i)->completions.n == 0)
      return plumb_ahead_queue_get (queue, i)->since;
  return 0;
}

static gboolean
check_worker (PlumbRun *run, GError **error)
{
  PlumbAhead *self = run->ahead;
  const char *loss = plumb_crew_ahead_loss (run->crew, waiting_since (self) > 0);
  gint64 since = waiting_since (self);
  double limit = plumb_spec_get_real (run->spec, "rollout.timeout");
  gint64 start = MAX (MAX (since, self->arrived), plumb_crew_excused (run->crew));
  double seconds = since > 0 ? (double) (g_get_monotonic_time () - start) / G_USEC_PER_SEC : 0;
  if (!report_bad (self, error))
    return FALSE;
  if (loss)
    return recover (run, loss, error);
  if (limit <= 0 || seconds <= limit)
    return TRUE;
  g_autofree char *late
      = g_strdup_printf ("no completion has come for %.0f s (rollout.timeout), so the worker that generates is given up",
                         seconds);
  return recover (run, late, error);
}

/* A group whose turn has come but which is too old, since the bound was lowered or the run went back to a checkpoint, is
 * generated again; it is never trained. */
static gboolean
renew_old (PlumbRun *run, int prompts, GError **error)
{
  PlumbAhead *self = run->ahead;
  gint64 bound = plumb_spec_get_integer (run->spec, "rollout.max_staleness"), found = 0;
  for (int i = 0; i < prompts && i < (int) self->queue->groups->len; i++)
    {
      PlumbAheadGroup *group = plumb_ahead_queue_get (self->queue, (guint) i);
      gint64 version = plumb_ahead_group_version (group);
      if (group->completions.n == 0 || (run->position.step - version <= bound && version <= run->position.step))
        continue;
      plumb_ahead_queue_forget (group);
      found++;
    }
  if (found == 0)
    return TRUE;
  self->renewed += found;
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "rollout-old", run->position.step,
                         "%" G_GINT64_FORMAT " prompts are generated again: their completions are older than "
                         "rollout.max_staleness allows", found);
  return submit (run, error);
}

static gboolean
await (PlumbRun *run, int prompts, GError **error)
{
  double begin = plumb_telemetry_now (run->telemetry);
  gboolean ok = TRUE;
  plumb_run_begin_phase (run, "idle");
  do
    {
      while (ok && (int) plumb_ahead_queue_ready (run->ahead->queue) < prompts)
        ok = check_worker (run, error) && plumb_crew_wait (run->crew, pace (run->ahead), error);
      ok = ok && renew_old (run, prompts, error);
    }
  while (ok && (int) plumb_ahead_queue_ready (run->ahead->queue) < prompts);
  plumb_run_end_phase (run);
  run->ahead->waited += plumb_telemetry_now (run->telemetry) - begin;
  return ok;
}

/* What the worker did since the last batch. */
static void
take_counts (PlumbAhead *self, PlumbBatch *batch)
{
  const Counts *now = &self->now, *before = &self->before;
  batch->generated = now->tokens - before->tokens;
  batch->prefill = now->prefill - before->prefill;
  batch->shared = now->shared - before->shared;
  batch->kv_used = now->kv_used;
  batch->running = (double) (now->rows - before->rows) / (double) MAX (1, now->passes - before->passes);
  batch->seconds = now->busy - before->busy;
}

/* The first groups scored when they are taken, since the reward model is with those that train. */
static PlumbBatch *
take_and_score (PlumbRun *run, guint prompts, GError **error)
{
  PlumbAhead *self = run->ahead;
  g_auto (PlumbCompletions) completions = { 0 };
  g_autoptr (PlumbBatch) batch = g_new0 (PlumbBatch, 1);
  batch->prompts = (int) prompts;
  batch->samples = self->queue->samples;
  batch->data = g_new0 (PlumbDataRow *, prompts);
  batch->ordinals = g_new (gint64, prompts);
  for (guint p = 0; p < prompts; p++)
    {
      PlumbAheadGroup *group = plumb_ahead_queue_get (self->queue, p);
      batch->ordinals[p] = group->ordinal;
      batch->data[p] = plumb_data_set_get (run->train, group->row, error);
      if (!batch->data[p])
        return NULL;
      plumb_completions_join (&completions, &group->completions);
    }
  if (!plumb_batch_fill (run, batch, &completions, error))
    return NULL;
  batch->episodes = g_new0 (PlumbRewardScore, (gsize) batch->experience->sequences + 1);
  gboolean any = FALSE;
  for (int s = 0; s < batch->experience->sequences; s++)
    {
      const PlumbAheadGroup *group = plumb_ahead_queue_get (self->queue, (guint) (s / batch->samples));
      const PlumbRewardScore *score = group->episodes ? &group->episodes[s % batch->samples] : NULL;
      any = any || score;
      if (score)
        batch->episodes[s] = (PlumbRewardScore){ score->value, score->failed, g_strdup (score->reason) };
    }
  if (!any)
    g_clear_pointer (&batch->episodes, g_free);
  return plumb_batch_score (run, batch, error) ? g_steal_pointer (&batch) : NULL;
}

/* The first groups, whose rewards were begun when they were finished. */
static PlumbBatch *
take_scored (PlumbRun *run, guint prompts, GError **error)
{
  PlumbAheadQueue *queue = run->ahead->queue;
  for (guint p = 0; p < prompts; p++)
    while (!plumb_ahead_score_is_done (plumb_ahead_queue_get (queue, p)->score))
      if (!report_bad (run->ahead, error) || !attend (run, error) || !plumb_crew_wait (run->crew, SHORT_WAIT_MS, error))
        return NULL;
  g_autofree PlumbBatch **groups = g_new0 (PlumbBatch *, prompts);
  for (guint p = 0; p < prompts; p++)
    {
      groups[p] = plumb_ahead_score_take (plumb_ahead_queue_get (queue, p)->score);
      plumb_batch_take_scores (run, groups[p]);
    }
  PlumbBatch *batch = plumb_batch_gather (groups, (int) prompts);
  plumb_batch_tell_failures (run, batch);
  return batch;
}

PlumbBatch *
plumb_run_ahead_take (PlumbRun *run, int prompts, gsize *rows, gint64 *first_ordinal, GError **error)
{
  PlumbAhead *self = run->ahead;
  if (!start (run, error) || !fill (run, error) || !await (run, prompts, error))
    return NULL;
  *first_ordinal = plumb_ahead_queue_get (self->queue, 0)->ordinal;
  for (int p = 0; p < prompts; p++)
    rows[p] = plumb_ahead_queue_get (self->queue, (guint) p)->row;
  plumb_run_begin_phase (run, "score");
  g_autoptr (PlumbBatch) batch
      = self->scorer ? take_scored (run, (guint) prompts, error) : take_and_score (run, (guint) prompts, error);
  plumb_run_end_phase (run);
  if (!batch)
    return NULL;
  take_counts (self, batch);
  self->step.busy += self->now.busy - self->before.busy;
  self->step.idle += self->now.idle - self->before.idle;
  self->before = self->now;
  plumb_ahead_queue_drop (self->queue, (guint) prompts);
  self->in_hand += prompts;
  return g_steal_pointer (&batch);
}

gboolean
plumb_run_ahead_start_over (PlumbRun *run, GError **error)
{
  PlumbAhead *self = run->ahead;
  for (guint i = 0; i < self->queue->groups->len; i++)
    plumb_ahead_queue_forget (plumb_ahead_queue_get (self->queue, i));
  self->in_hand = 0;
  self->streaming = FALSE;
  /* What the old one still says would be of weights that are no more. */
  return plumb_crew_restart_ahead (run->crew, error) && open_worker (run, error);
}

void
plumb_run_ahead_reject (PlumbRun *run, int prompts)
{
  run->ahead->in_hand -= prompts;
}

gboolean
plumb_run_ahead_go_on (PlumbRun *run, GError **error)
{
  PlumbAhead *self = run->ahead;
  double begin = plumb_telemetry_now (run->telemetry);
  self->in_hand = 0;
  plumb_run_begin_phase (run, "sync");
  gboolean ok = check_worker (run, error) && publish (run, error);
  if (ok)
    plumb_crew_tell_ahead (run->crew, PLUMB_MESSAGE_WEIGHTS, NULL);
  ok = ok && fill (run, error);
  plumb_run_end_phase (run);
  plumb_run_point (run, "time/sync", plumb_telemetry_now (run->telemetry) - begin);
  return ok;
}

void
plumb_run_ahead_record (PlumbRun *run, const struct plumb_experience *e)
{
  PlumbAhead *self = run->ahead;
  gint64 trained = run->position.step - 1, tokens = 0, old = 0, most = 0;
  double sum = 0;
  for (int t = 0; t < e->tokens; t++)
    {
      if (!e->mask[t])
        continue;
      gint64 age = trained - e->version[t];
      sum += (double) age;
      most = MAX (most, age);
      old += age > 0;
      tokens++;
    }
  plumb_run_point (run, "rollout/staleness_mean", sum / (double) MAX (1, tokens));
  plumb_run_point (run, "rollout/staleness_max", (double) most);
  plumb_run_point (run, "rollout/old_tokens", (double) old / (double) MAX (1, tokens));
  plumb_run_point (run, "rollout/ready", plumb_ahead_queue_finished (self->queue));
  plumb_run_point (run, "rollout/renewed", (double) self->renewed);
  plumb_run_point (run, "rollout/busy", self->step.busy);
  plumb_run_point (run, "rollout/idle", self->step.idle);
  plumb_run_point (run, "time/idle", self->waited);
  self->waited = 0;
  self->step = (Counts){ 0 };
}

gboolean
plumb_run_ahead_save (PlumbRun *run, const char *folder, GError **error)
{
  if (!run->ahead)
    return TRUE;
  g_autofree char *path = g_build_filename (folder, QUEUE_FILE, NULL);
  g_autoptr (GBytes) bytes = plumb_ahead_queue_to_bytes (run->ahead->queue);
  return g_file_set_contents_full (path, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes),
                                   G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE, 0644, error);
}

/* Prompts of the queue lie in the data, and come before the next one that is given out. */
static gboolean
check_queue (PlumbRun *run, const char *path, GError **error)
{
  const PlumbAheadQueue *queue = run->ahead->queue;
  gsize rows = plumb_data_set_n_rows (run->train);
  guint n = queue->groups->len;
  gboolean ok = n == 0 || plumb_ahead_queue_get (queue, n - 1)->ordinal + 1 == run->position.ordinal;
  for (guint i = 0; i < n && ok; i++)
    ok = plumb_ahead_queue_get (queue, i)->row < rows;
  if (!ok)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "%s: its prompts are not those of this run; continue from an older checkpoint by removing this one", path);
  return ok;
}

gboolean
plumb_run_ahead_load (PlumbRun *run, const char *folder, GError **error)
{
  g_autofree char *path = g_build_filename (folder, QUEUE_FILE, NULL), *data = NULL;
  gsize length = 0;
  if (!run->ahead || run->position.stage != PLUMB_STAGE_ONLINE)
    return TRUE;
  plumb_ahead_queue_drop (run->ahead->queue, run->ahead->queue->groups->len);
  if (!g_file_get_contents (path, &data, &length, error))
    return FALSE;
  g_autoptr (GBytes) bytes = g_bytes_new_take (g_steal_pointer (&data), length);
  if (plumb_ahead_queue_from_bytes (run->ahead->queue, bytes, error))
    return check_queue (run, path, error);
  g_prefix_error (error, "%s: ", path);
  return FALSE;
}
