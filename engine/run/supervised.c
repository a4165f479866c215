/* SPDX-License-Identifier: Apache-2.0 */

/* One step on rows of the data: the warm-up of an online run, or a run of SFT, reward models, DPO, KTO, ORPO or
 * SimPO. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/run/run-private.h"
#include "engine/train/micro-batch.h"

#define WARMUP_SHARE 0.1 /* of a warm-up stage, at most WARMUP_UPDATES: rise of its learning rate */
#define WARMUP_UPDATES 50
#define SCORED_ROWS 512 /* whose scores a reward model is normalised by */

static gsize
length_of (const GArray *ids)
{
  return ids ? ids->len : 0;
}

static gboolean
trains_on_pairs (PlumbRun *run)
{
  return run->recipe->pairs && !run->recipe->online;
}

/* Appends a prompt with an answer to an experience whose arrays have room; those tokens of the answer count that
 * are trained (NULL: each), or all. */
static void
append_sequence (struct plumb_experience *e, int s, const PlumbDataRow *row, const GArray *answer,
                 const GArray *trained, gboolean all)
{
  gsize prompt = row->prompt_ids->len, response = length_of (answer);
  gint32 *to = e->ids + e->offsets[s];
  memcpy (to, row->prompt_ids->data, prompt * sizeof (gint32));
  if (response)
    memcpy (to + prompt, answer->data, response * sizeof (gint32));
  e->offsets[s + 1] = e->offsets[s] + (int) (prompt + response);
  for (gsize t = all ? 1 : MAX (1, prompt); t < prompt + response; t++)
    e->mask[e->offsets[s] + t] = all || !trained || g_array_index (trained, guint8, t - prompt);
  e->margin[s] = row->margin;
  e->desirable[s] = row->liked;
  e->scored[s] = 1;
  e->group[s] = s;
}

/* Sequences of a row, and their tokens. */
static int
count_sequences (const PlumbDataRow *row, gboolean pairs, int *tokens)
{
  int n = 0;
  for (; row; row = row->next)
    {
      *tokens += (int) (row->prompt_ids->len + length_of (row->response_ids));
      *tokens += pairs ? (int) (row->prompt_ids->len + length_of (row->rejected_ids)) : 0;
      n += pairs ? 2 : 1;
    }
  return n;
}

/* Rows as sequences: one each, or one per turn where the template rewrites history, or the chosen and the rejected
 * answer. */
static struct plumb_experience *
experience_of_rows (PlumbRun *run, GPtrArray *rows)
{
  gboolean pairs = trains_on_pairs (run);
  gboolean all = g_strcmp0 (plumb_spec_get_text (run->spec, "data.train_on"), "all") == 0
                 && run->recipe->loss == PLUMB_LOSS_SFT;
  int tokens = 0, n = 0, s = 0;
  for (guint i = 0; i < rows->len; i++)
    n += count_sequences (g_ptr_array_index (rows, i), pairs, &tokens);
  struct plumb_experience *e = plumb_experience_new (n, tokens);
  for (guint i = 0; i < rows->len; i++)
    for (const PlumbDataRow *row = g_ptr_array_index (rows, i); row; row = row->next)
      {
        append_sequence (e, s++, row, row->response_ids, row->response_trained, all);
        if (pairs)
          append_sequence (e, s++, row, row->rejected_ids, row->rejected_trained, FALSE);
      }
  return e;
}

static gboolean
add_row (GPtrArray *rows, PlumbDataSet *set, gsize index, GError **error)
{
  PlumbDataRow *row = plumb_data_set_get (set, index, error);
  if (row)
    g_ptr_array_add (rows, row);
  return row != NULL;
}

static struct plumb_experience *
take_rows (PlumbRun *run, int n, GError **error)
{
  PlumbDataSet *set = plumb_run_is_warmup (run) ? run->warmup : run->train;
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify) plumb_data_row_free);
  for (int i = 0; i < n; i++)
    if (!add_row (rows, set, plumb_data_cursor_next (run->cursor), error))
      return NULL;
  return experience_of_rows (run, rows);
}

static struct plumb_schedule
rate_schedule (PlumbRun *run)
{
  PlumbSpec *spec = run->spec;
  int updates = (int) MIN (G_MAXINT, run->steps[PLUMB_STAGE_SUPERVISED]);
  struct plumb_schedule schedule = { .floor = 0.1, .updates = updates };
  if (plumb_run_is_warmup (run))
    {
      schedule.kind = PLUMB_SCHEDULE_COSINE_FLOOR;
      schedule.rate = plumb_spec_get_real (spec, "warmup.learning_rate");
      schedule.warmup = MIN (WARMUP_UPDATES, plumb_schedule_warmup (WARMUP_SHARE, updates));
      return schedule;
    }
  schedule.kind = plumb_spec_get_choice (spec, "train.schedule");
  schedule.rate = plumb_spec_get_real (spec, "train.learning_rate");
  schedule.warmup = plumb_schedule_warmup (plumb_spec_get_real (spec, "train.warmup"), updates);
  return schedule;
}

static PlumbLossSpec
loss_of (PlumbRun *run)
{
  if (plumb_run_is_warmup (run))
    return (PlumbLossSpec){ .id = PLUMB_LOSS_SFT, .temperature = 1 };
  return plumb_recipe_loss (run->spec, 0);
}

static void
record (PlumbRun *run, const PlumbUpdateSums *sums, const PlumbLossSpec *loss, gint64 tokens, double seconds)
{
  plumb_run_record_updates (run, sums, loss, plumb_run_is_warmup (run) ? "loss/sft" : run->recipe->metric);
  plumb_run_point (run, "throughput/train", tokens / MAX (1e-9, seconds));
  plumb_run_point (run, "data/epoch", (double) plumb_data_cursor_epoch (run->cursor));
  plumb_run_record_shares (run, 0, seconds, seconds);
  plumb_run_record_step (run, seconds, tokens);
  run->step_seconds = seconds;
}

/* The scores of a reward model in training, at the last tokens. */
static gboolean
score_rows (PlumbRun *run, const struct plumb_experience *e, double *values, GError **error)
{
  const PlumbProbe probe = { PLUMB_PROBE_SCORES, 1, NULL, NULL, values };
  return plumb_run_probe (run, e, &probe, 1, error);
}

gboolean
plumb_run_supervised_step (PlumbRun *run, GError **error)
{
  double start = plumb_telemetry_now (run->telemetry);
  guint batch = (guint) plumb_spec_get_integer (run->spec,
                                                plumb_run_is_warmup (run) ? "warmup.batch" : "train.batch");
  struct plumb_schedule schedule = rate_schedule (run);
  PlumbLossSpec loss = loss_of (run);
  PlumbUpdateSums sums = { 0 };
  plumb_run_forget_work (run);
  struct plumb_experience *e = take_rows (run, (int) batch, error);
  if (!e)
    return FALSE;
  g_autofree int *all = g_new (int, e->sequences);
  for (int i = 0; i < e->sequences; i++)
    all[i] = i;
  run->position.step++;
  run->position.stage_step++;
  run->position.samples += batch;
  gboolean ok = plumb_run_is_warmup (run) || plumb_run_prepare_preferences (run, e, &loss, error);
  plumb_run_begin_phase (run, "train");
  PlumbUpdate update = { &loss, &schedule, &sums };
  ok = ok && plumb_run_update (run, e, all, e->sequences, &update, 1, error);
  plumb_run_end_phase (run);
  if (ok)
    record (run, &sums, &loss, e->tokens, plumb_telemetry_now (run->telemetry) - start);
  plumb_experience_free (e);
  return ok;
}

/* The loss over a whole experience, from what the worker computes without training. */
static gboolean
measure_loss (PlumbRun *run, struct plumb_experience *e, PlumbLossSpec *loss,
              struct plumb_loss_statistics *statistics, GError **error)
{
  gboolean scalar = plumb_loss_is_scalar (loss->id);
  g_autofree float *outputs = g_new0 (float, e->tokens + 1), *entropies = g_new0 (float, e->tokens + 1);
  g_autofree double *values = g_new0 (double, e->tokens + 1);
  if (!plumb_run_prepare_preferences (run, e, loss, error)
      || !(scalar ? score_rows (run, e, values, error)
                  : plumb_run_log_probs (run, e, FALSE, 1, outputs, entropies, error)))
    return FALSE;
  g_autofree int *all = g_new (int, e->sequences + 1);
  for (int i = 0; i < e->sequences; i++)
    all[i] = i;
  g_auto (PlumbMicroBatch) b = { 0 };
  plumb_micro_batch_fill (&b, e, all, e->sequences, plumb_loss_is_of_last (loss->id));
  g_autofree float *rows = g_new (float, b.n + 1), *row_entropies = g_new (float, b.n + 1);
  for (int r = 0; r < b.n; r++)
    {
      int at = b.origins[b.places[r]];
      rows[r] = scalar ? (float) values[at] : outputs[at];
      row_entropies[r] = entropies[at];
    }
  loss->denominators.tokens = loss->denominators.sequences = 0;
  plumb_denominators_add (&loss->denominators, e->sequences, e->offsets, e->mask);
  plumb_micro_batch_evaluate (&b, e, loss, rows, scalar ? NULL : row_entropies, statistics);
  return TRUE;
}

static void
eval_point (PlumbRun *run, const char *set, const char *what, double value)
{
  g_autofree char *metric = g_strdup_printf ("eval/%s/%s", set, what);
  plumb_run_point (run, metric, value);
}

/* The first rows of a set as sequences. */
static struct plumb_experience *
first_rows (PlumbRun *run, PlumbDataSet *set, gsize n, GError **error)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify) plumb_data_row_free);
  for (gsize i = 0; i < MIN (n, plumb_data_set_n_rows (set)); i++)
    if (!add_row (rows, set, i, error))
      return NULL;
  return experience_of_rows (run, rows);
}

gboolean
plumb_run_measure_scores (PlumbRun *run, double *mean, double *deviation, GError **error)
{
  struct plumb_experience *e = first_rows (run, run->eval ? run->eval : run->train, SCORED_ROWS, error);
  double sum = 0, squares = 0;
  if (!e)
    return FALSE;
  g_autofree double *values = g_new0 (double, e->tokens + 1);
  gboolean ok = score_rows (run, e, values, error);
  int n = e->sequences;
  for (int s = 0; s < n; s++)
    sum += values[e->offsets[s + 1] - 1];
  *mean = sum / n;
  for (int s = 0; s < n; s++)
    squares += pow (values[e->offsets[s + 1] - 1] - *mean, 2);
  *deviation = MAX (1e-8, sqrt (squares / MAX (1, n - 1)));
  plumb_experience_free (e);
  return ok;
}

gboolean
plumb_run_supervised_evaluate (PlumbRun *run, PlumbDataSet *set, const char *name, int n, double *accuracy,
                               GError **error)
{
  struct plumb_loss_statistics st = { 0 };
  PlumbLossSpec loss = plumb_recipe_loss (run->spec, 0);
  struct plumb_experience *e = first_rows (run, set, (gsize) n, error);
  if (!e)
    return FALSE;
  gboolean ok = measure_loss (run, e, &loss, &st, error);
  plumb_experience_free (e);
  if (!ok)
    return FALSE;
  eval_point (run, name, "loss", st.loss);
  if (run->recipe->pairs)
    {
      *accuracy = st.accurate / MAX (1, st.answers);
      eval_point (run, name, "accuracy", *accuracy);
      eval_point (run, name, "margin", st.margin / MAX (1, st.answers));
    }
  else if (st.n_chosen > 0 && st.n_rejected > 0)
    eval_point (run, name, "margin", st.chosen / st.n_chosen - st.rejected / st.n_rejected);
  return TRUE;
}
