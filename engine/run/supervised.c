/* SPDX-License-Identifier: Apache-2.0 */

/* One step of supervised fine-tuning: the warm-up of an online run, or an sft run. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/run-private.h"

#define WARMUP_SHARE 0.1 /* of a warm-up stage, at most WARMUP_UPDATES: rise of its learning rate */
#define WARMUP_UPDATES 50

static gboolean
is_warmup (PlumbRun *run)
{
  return run->algorithm != PLUMB_ALGORITHM_SFT;
}

/* Rows of the cursor as sequences; response tokens count, or all. */
static struct plumb_experience *
take_rows (PlumbRun *run, int n, GError **error)
{
  PlumbDataSet *set = is_warmup (run) ? run->warmup : run->train;
  gboolean all = g_strcmp0 (plumb_spec_get_text (run->spec, "data.train_on"), "all") == 0;
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify) plumb_data_row_free);
  int tokens = 0;
  for (int i = 0; i < n; i++)
    {
      PlumbDataRow *row = plumb_data_set_get (set, plumb_data_cursor_next (run->cursor), error);
      if (!row)
        return NULL;
      g_ptr_array_add (rows, row);
      tokens += (int) row->prompt_ids->len + (row->response_ids ? (int) row->response_ids->len : 0);
    }
  struct plumb_experience *e = plumb_experience_new (n, tokens);
  for (int i = 0; i < n; i++)
    {
      const PlumbDataRow *row = g_ptr_array_index (rows, i);
      guint prompt = row->prompt_ids->len, response = row->response_ids ? row->response_ids->len : 0;
      gint32 *to = e->ids + e->offsets[i];
      memcpy (to, row->prompt_ids->data, prompt * sizeof (gint32));
      if (response)
        memcpy (to + prompt, row->response_ids->data, response * sizeof (gint32));
      e->offsets[i + 1] = e->offsets[i] + (int) (prompt + response);
      for (guint t = all ? 1 : MAX (1, prompt); t < prompt + response; t++)
        e->mask[e->offsets[i] + t] = 1;
    }
  return e;
}

static struct plumb_schedule
rate_schedule (PlumbRun *run)
{
  PlumbSpec *spec = run->spec;
  int updates = (int) MIN (G_MAXINT, run->steps[PLUMB_STAGE_SUPERVISED]);
  struct plumb_schedule schedule = { .floor = 0.1, .updates = updates };
  if (is_warmup (run))
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

gboolean
plumb_run_supervised_step (PlumbRun *run, GError **error)
{
  double start = plumb_telemetry_now (run->telemetry);
  guint batch
      = (guint) plumb_spec_get_integer (run->spec, is_warmup (run) ? "warmup.batch" : "train.batch");
  struct plumb_schedule schedule = rate_schedule (run);
  PlumbLossSpec loss = { .id = PLUMB_LOSS_SFT, .temperature = 1 };
  PlumbUpdateSums sums = { 0 };
  struct plumb_experience *e = take_rows (run, (int) batch, error);
  if (!e)
    return FALSE;
  g_autofree int *all = g_new (int, batch);
  for (guint i = 0; i < batch; i++)
    all[i] = (int) i;
  plumb_run_begin_phase (run, "train");
  run->position.step++;
  run->position.stage_step++;
  run->position.samples += batch;
  gboolean ok = plumb_run_update (run, e, all, (int) batch, &loss, &schedule, &sums, error);
  plumb_run_end_phase (run);
  double seconds = plumb_telemetry_now (run->telemetry) - start;
  if (ok)
    {
      plumb_run_record_updates (run, &sums, "loss/sft");
      plumb_run_point (run, "throughput/train", e->tokens / MAX (1e-9, seconds));
      plumb_run_point (run, "data/epoch", (double) plumb_data_cursor_epoch (run->cursor));
      plumb_run_record_step (run, seconds, e->tokens);
      run->step_seconds = seconds;
    }
  plumb_experience_free (e);
  return ok;
}
