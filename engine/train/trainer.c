/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/train/pack.h"
#include "engine/train/trainer-private.h"

static int
micro_batch_tokens (int positions, int tokens_per_micro_batch)
{
  return MAX (positions, tokens_per_micro_batch);
}

static PlumbBufferPlan
buffer_plan (int positions, int tokens_per_micro_batch)
{
  int tokens = micro_batch_tokens (positions, tokens_per_micro_batch);
  return (PlumbBufferPlan){ .tokens = tokens, .sequences = tokens, .training = TRUE };
}

gsize
plumb_trainer_state_bytes (const PlumbModelConfig *config, enum dev_type type)
{
  g_autoptr (PlumbWeightTable) table = plumb_weight_table_new (config);
  gsize copies = type == DEV_BF16 ? 4 : 3; /* gradients, two moments, master weights */
  return copies * table->elements * sizeof (float) + DEV_ALIGN;
}

gsize
plumb_trainer_activation_bytes (const PlumbModelConfig *config, enum dev_type type, int positions,
                                int tokens_per_micro_batch)
{
  PlumbBufferPlan plan = buffer_plan (positions, tokens_per_micro_batch);
  return plumb_buffers_bytes (config, type, &plan);
}

static void
copy_master (PlumbTrainer *self)
{
  if (self->master)
    self->device->ops->convert (self->device->context, self->master, DEV_F32,
                                plumb_model_weights (self->model), self->model->type,
                                self->model->table->elements);
}

PlumbTrainer *
plumb_trainer_new (PlumbModel *model, const PlumbOptimizerOptions *options, int tokens_per_micro_batch,
                   GError **error)
{
  g_autoptr (PlumbTrainer) self = g_new0 (PlumbTrainer, 1);
  self->model = model;
  self->device = model->device;
  self->options = *options;
  self->budget = micro_batch_tokens (model->positions, tokens_per_micro_batch);
  gsize elements = model->table->elements;
  self->state = plumb_device_allocate (self->device, plumb_trainer_state_bytes (model->config, model->type),
                                       "gradients and optimizer state", error);
  if (!self->state)
    return NULL;
  PlumbCutter cutter = { self->device->ops->arena_base (self->state), 0 };
  self->gradients = plumb_cut (&cutter, elements * sizeof (float));
  self->m = plumb_cut (&cutter, elements * sizeof (float));
  self->v = plumb_cut (&cutter, elements * sizeof (float));
  self->master = model->type == DEV_BF16 ? plumb_cut (&cutter, elements * sizeof (float)) : NULL;
  self->square_sum = plumb_cut (&cutter, sizeof (double));
  copy_master (self);
  PlumbBufferPlan plan = buffer_plan (model->positions, tokens_per_micro_batch);
  self->buffers = plumb_buffers_new (model, &plan, error);
  if (!self->buffers)
    return NULL;
  return g_steal_pointer (&self);
}

void
plumb_trainer_free (PlumbTrainer *self)
{
  if (!self)
    return;
  if (self->device)
    self->device->ops->arena_free (self->state);
  plumb_buffers_free (self->buffers);
  g_free (self);
}

void
plumb_trainer_set_progress (PlumbTrainer *self, PlumbTrainerProgress progress, gpointer data)
{
  self->progress = progress;
  self->progress_data = data;
}

static gboolean
report (PlumbTrainer *self, gint64 done, gint64 of, GError **error)
{
  return !self->progress || self->progress (done, of, self->progress_data, error);
}

gboolean
plumb_trainer_load_master (PlumbTrainer *self, PlumbSafetensors *tensors, GError **error)
{
  if (!self->master)
    return TRUE;
  return plumb_weights_load (self->device, self->model->table, self->model->config, self->master, DEV_F32,
                             tensors, error);
}

/* One micro-batch on the host: its tokens end to end, and which rows predict the tokens that count. */
typedef struct
{
  int tokens, sequences, n;
  gint32 *ids, *offsets;
  gint32 *rows, *targets; /* (n) row of the pass and the token that it predicts */
  int *places;            /* (n) index of that token in the micro-batch */
  int *origins;           /* (tokens) index of each token in the experience */
} MicroBatch;

static void
micro_batch_clear (MicroBatch *b)
{
  g_free (b->ids);
  g_free (b->offsets);
  g_free (b->rows);
  g_free (b->targets);
  g_free (b->places);
  g_free (b->origins);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MicroBatch, micro_batch_clear)

static void
micro_batch_fill (MicroBatch *b, const struct plumb_experience *e, const int *sequences, int n)
{
  int tokens = 0;
  for (int i = 0; i < n; i++)
    tokens += e->offsets[sequences[i] + 1] - e->offsets[sequences[i]];
  b->sequences = n;
  b->ids = g_new (gint32, tokens);
  b->rows = g_new (gint32, tokens);
  b->targets = g_new (gint32, tokens);
  b->places = g_new (int, tokens);
  b->origins = g_new (int, tokens);
  b->offsets = g_new0 (gint32, n + 1);
  for (int i = 0; i < n; i++)
    {
      int first = e->offsets[sequences[i]], last = e->offsets[sequences[i] + 1];
      for (int t = first; t < last; t++)
        {
          int at = b->tokens++;
          b->ids[at] = e->ids[t];
          b->origins[at] = t;
          if (t == first || !e->mask[t])
            continue;
          b->rows[b->n] = at - 1;
          b->targets[b->n] = e->ids[t];
          b->places[b->n++] = at;
        }
      b->offsets[i + 1] = b->tokens;
    }
}

/* Forward pass and head; log_probs and entropies by row. */
static gboolean
micro_batch_run (PlumbTrainer *self, PlumbModel *model, const MicroBatch *b, double temperature,
                 float *log_probs, float *entropies, GError **error)
{
  PlumbPass pass = { .sequences = b->sequences, .ids = b->ids, .offsets = b->offsets };
  return plumb_model_forward (model, self->buffers, &pass, error)
         && plumb_model_log_probs (model, self->buffers, b->rows, b->targets, b->n, temperature, log_probs,
                                   entropies, error);
}

gboolean
plumb_trainer_log_probs (PlumbTrainer *self, PlumbModel *model, const struct plumb_experience *e,
                         double temperature, float *log_probs, float *entropies, GError **error)
{
  memset (log_probs, 0, e->tokens * sizeof (float));
  if (entropies)
    memset (entropies, 0, e->tokens * sizeof (float));
  g_autofree int *all = g_new (int, e->sequences);
  for (int i = 0; i < e->sequences; i++)
    all[i] = i;
  g_autoptr (GArray) ends = plumb_pack_in_order (e->offsets, all, e->sequences, self->budget);
  g_autofree float *row_log_probs = g_new (float, self->budget);
  g_autofree float *row_entropies = g_new (float, self->budget);
  for (guint i = 0, start = 0; i < ends->len; i++)
    {
      int end = g_array_index (ends, int, i);
      g_auto (MicroBatch) b = { 0 };
      micro_batch_fill (&b, e, all + start, end - (int) start);
      if (!micro_batch_run (self, model, &b, temperature, row_log_probs, row_entropies, error))
        return FALSE;
      for (int r = 0; r < b.n; r++)
        {
          int origin = b.origins[b.places[r]];
          log_probs[origin] = row_log_probs[r];
          if (entropies)
            entropies[origin] = row_entropies[r];
        }
      start = (guint) end;
      if (!report (self, e->offsets[end], e->tokens, error))
        return FALSE;
    }
  return TRUE;
}

/* The arrays that a loss reads, cut out of the experience for one micro-batch. */
typedef struct
{
  guint8 *mask;
  float *logp, *entropy, *old_logp, *reference;
  double *advantage, *dlogp, *dentropy;
} LossArrays;

static void
loss_arrays_clear (LossArrays *a)
{
  g_free (a->mask);
  g_free (a->logp);
  g_free (a->entropy);
  g_free (a->old_logp);
  g_free (a->reference);
  g_free (a->advantage);
  g_free (a->dlogp);
  g_free (a->dentropy);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LossArrays, loss_arrays_clear)

static void
loss_arrays_fill (LossArrays *a, const MicroBatch *b, const struct plumb_experience *e,
                  const float *row_log_probs, const float *row_entropies)
{
  a->mask = g_new0 (guint8, b->tokens);
  a->logp = g_new0 (float, b->tokens);
  a->entropy = g_new0 (float, b->tokens);
  a->old_logp = g_new (float, b->tokens);
  a->reference = g_new (float, b->tokens);
  a->advantage = g_new (double, b->tokens);
  a->dlogp = g_new0 (double, b->tokens);
  a->dentropy = g_new0 (double, b->tokens);
  for (int t = 0; t < b->tokens; t++)
    {
      a->old_logp[t] = e->old_logp[b->origins[t]];
      a->reference[t] = e->reference_logp[b->origins[t]];
      a->advantage[t] = e->advantage[b->origins[t]];
    }
  for (int r = 0; r < b->n; r++)
    {
      a->mask[b->places[r]] = 1;
      a->logp[b->places[r]] = row_log_probs[r];
      a->entropy[b->places[r]] = row_entropies[r];
    }
}

static void
evaluate_loss (const PlumbLossSpec *loss, const MicroBatch *b, LossArrays *a,
               struct plumb_policy_statistics *statistics)
{
  struct plumb_loss_batch batch = { b->sequences, b->offsets,  a->mask,      a->logp,
                                    a->entropy,   a->old_logp, a->reference, a->advantage };
  if (loss->id == PLUMB_LOSS_POLICY)
    {
      if (loss->policy.kl_coefficient == 0)
        batch.reference = NULL;
      plumb_policy_loss (&loss->policy, &loss->denominators, &batch, a->dlogp, a->dentropy, statistics);
      return;
    }
  statistics->loss += plumb_sft_loss (loss->policy.aggregate, &loss->denominators, &batch, a->dlogp);
  statistics->tokens += b->n;
  for (int r = 0; r < b->n; r++)
    statistics->entropy += a->entropy[b->places[r]];
}

static gboolean
accumulate_one (PlumbTrainer *self, const struct plumb_experience *e, const int *sequences, int n,
                const PlumbLossSpec *loss, struct plumb_policy_statistics *statistics, GError **error)
{
  g_auto (MicroBatch) b = { 0 };
  micro_batch_fill (&b, e, sequences, n);
  if (b.n == 0)
    return TRUE;
  g_autofree float *log_probs = g_new (float, b.n);
  g_autofree float *entropies = g_new (float, b.n);
  if (!micro_batch_run (self, self->model, &b, loss->temperature, log_probs, entropies, error))
    return FALSE;
  g_auto (LossArrays) arrays = { 0 };
  loss_arrays_fill (&arrays, &b, e, log_probs, entropies);
  evaluate_loss (loss, &b, &arrays, statistics);
  for (int r = 0; r < b.n; r++)
    {
      log_probs[r] = (float) arrays.dlogp[b.places[r]];
      entropies[r] = (float) arrays.dentropy[b.places[r]];
    }
  return plumb_model_backward (self->model, self->buffers, self->gradients, log_probs, entropies, error);
}

gboolean
plumb_trainer_accumulate (PlumbTrainer *self, const struct plumb_experience *e, const int *sequences, int n,
                          const PlumbLossSpec *loss, struct plumb_policy_statistics *statistics,
                          GError **error)
{
  g_autoptr (GArray) ends = plumb_pack_in_order (e->offsets, sequences, n, self->budget);
  for (guint i = 0, start = 0; i < ends->len; i++)
    {
      int end = g_array_index (ends, int, i);
      if (!accumulate_one (self, e, sequences + start, end - (int) start, loss, statistics, error)
          || !report (self, end, n, error))
        return FALSE;
      start = (guint) end;
    }
  return TRUE;
}
