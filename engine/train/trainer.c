/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/train/micro-batch.h"
#include "engine/train/pack.h"
#include "engine/train/trainer-private.h"

static int
micro_batch_tokens (int positions, int tokens_per_micro_batch)
{
  return MAX (positions, tokens_per_micro_batch);
}

static PlumbBufferPlan
buffer_plan (int positions, int tokens_per_micro_batch, gboolean training, PlumbRecompute recompute)
{
  int tokens = micro_batch_tokens (positions, tokens_per_micro_batch);
  return (PlumbBufferPlan){ .tokens = tokens, .sequences = tokens, .training = training, .recompute = recompute };
}

gsize
plumb_trainer_gradient_bytes (const PlumbModelConfig *config)
{
  g_autoptr (PlumbWeightTable) table = plumb_weight_table_new (config);
  return dev_align (table->elements * sizeof (float)) + DEV_ALIGN; /* and the sum of their squares */
}

gsize
plumb_trainer_state_bytes (const PlumbModelConfig *config, enum dev_type type)
{
  g_autoptr (PlumbWeightTable) table = plumb_weight_table_new (config);
  gsize copies = type == DEV_BF16 ? 3 : 2; /* two moments, master weights */
  return copies * dev_align (table->elements * sizeof (float));
}

gsize
plumb_trainer_activation_bytes (const PlumbModelConfig *config, enum dev_type type, int positions,
                                int tokens_per_micro_batch, gboolean training, PlumbRecompute recompute)
{
  PlumbBufferPlan plan = buffer_plan (positions, tokens_per_micro_batch, training, recompute);
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

static PlumbTrainer *
trainer_open (PlumbModel *model, int tokens_per_micro_batch, gboolean training, PlumbRecompute recompute, GError **error)
{
  g_autoptr (PlumbTrainer) self = g_new0 (PlumbTrainer, 1);
  self->model = model;
  self->device = model->device;
  self->budget = micro_batch_tokens (model->positions, tokens_per_micro_batch);
  PlumbBufferPlan plan = buffer_plan (model->positions, tokens_per_micro_batch, training, recompute);
  self->buffers = plumb_buffers_new (model, &plan, error);
  return self->buffers ? g_steal_pointer (&self) : NULL;
}

PlumbTrainer *
plumb_trainer_new_scorer (PlumbModel *model, int tokens_per_micro_batch, GError **error)
{
  return trainer_open (model, tokens_per_micro_batch, FALSE, PLUMB_RECOMPUTE_NONE, error);
}

/* Gradients, moments and master weights, wherever they are to lie. */
static gboolean
make_state (PlumbTrainer *self, GError **error)
{
  const struct dev_ops *ops = self->device->ops;
  const PlumbModelConfig *config = self->model->config;
  gsize each = self->model->table->elements * sizeof (float);
  gsize state = plumb_trainer_state_bytes (config, self->model->type);
  gboolean offload = self->options.offload;
  self->memory = plumb_device_allocate (self->device, plumb_trainer_gradient_bytes (config) + (offload ? 0 : state),
                                        "gradients and optimizer state", error);
  if (!self->memory)
    return FALSE;
  PlumbCutter cutter = { ops->arena_base (self->memory), 0 };
  self->gradients = plumb_cut (&cutter, each);
  self->square_sum = plumb_cut (&cutter, sizeof (double));
  if (offload)
    {
      self->host_state = plumb_device_allocate_host (self->device, state, "the optimizer state", error);
      if (!self->host_state)
        return FALSE;
      cutter = (PlumbCutter){ (char *) self->host_state, 0 };
    }
  self->m = plumb_cut (&cutter, each);
  self->v = plumb_cut (&cutter, each);
  self->master = self->model->type == DEV_BF16 ? plumb_cut (&cutter, each) : NULL;
  return TRUE;
}

PlumbTrainer *
plumb_trainer_new (PlumbModel *model, const PlumbTrainerOptions *options, int tokens_per_micro_batch,
                   GError **error)
{
  g_autoptr (PlumbTrainer) self = trainer_open (model, tokens_per_micro_batch, TRUE, options->recompute, error);
  if (!self)
    return NULL;
  self->options = *options;
  if (!make_state (self, error))
    return NULL;
  copy_master (self);
  return g_steal_pointer (&self);
}

void
plumb_trainer_take_weights (PlumbTrainer *self)
{
  copy_master (self);
}

void
plumb_trainer_free (PlumbTrainer *self)
{
  if (!self)
    return;
  if (self->device)
    {
      self->device->ops->arena_free (self->memory); /* once the queue is done */
      self->device->ops->host_free (self->device->context, self->host_state);
    }
  plumb_buffers_free (self->buffers);
  g_free (self);
}

void
plumb_trainer_sleep (PlumbTrainer *self)
{
  plumb_buffers_sleep (self->buffers);
}

gboolean
plumb_trainer_wake (PlumbTrainer *self, GError **error)
{
  return plumb_buffers_wake (self->buffers, error);
}

void
plumb_trainer_set_progress (PlumbTrainer *self, PlumbTrainerProgress progress, gpointer data)
{
  self->progress = progress;
  self->progress_data = data;
}

void
plumb_trainer_set_comm (PlumbTrainer *self, PlumbComm *comm)
{
  self->comm = comm;
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

/* Forward pass and head: log-probs and entropies, or values, by row. */
static gboolean
run_micro_batch (PlumbTrainer *self, PlumbModel *model, const PlumbMicroBatch *b, double temperature,
                 float *outputs, float *entropies, GError **error)
{
  PlumbPass pass = { .sequences = b->sequences, .ids = b->ids, .offsets = b->offsets };
  if (!plumb_model_forward (model, self->buffers, &pass, error))
    return FALSE;
  if (!entropies)
    return plumb_model_values (model, self->buffers, b->rows, b->n, outputs, error);
  return plumb_model_log_probs (model, self->buffers, b->rows, b->targets, b->n, temperature, outputs, entropies,
                                error);
}

/* Calls the head on every row of an experience: log-probs with entropies, or values where entropies is NULL; results
 * at the tokens' places. */
static gboolean
run_all (PlumbTrainer *self, PlumbModel *model, const struct plumb_experience *e, double temperature,
         gboolean last_rows, float *outputs, float *entropies, GError **error)
{
  memset (outputs, 0, e->tokens * sizeof (float));
  if (entropies)
    memset (entropies, 0, e->tokens * sizeof (float));
  g_autofree int *all = g_new (int, e->sequences + 1);
  for (int i = 0; i < e->sequences; i++)
    all[i] = i;
  g_autoptr (GArray) ends = plumb_pack_in_order (e->offsets, all, e->sequences, 1, self->budget);
  g_autofree float *row_outputs = g_new (float, self->budget);
  g_autofree float *row_entropies = entropies ? g_new (float, self->budget) : NULL;
  for (guint i = 0, start = 0; i < ends->len; i++)
    {
      int end = g_array_index (ends, int, i);
      g_auto (PlumbMicroBatch) b = { 0 };
      plumb_micro_batch_fill (&b, e, all + start, end - (int) start, last_rows);
      if (b.n > 0 && !run_micro_batch (self, model, &b, temperature, row_outputs, row_entropies, error))
        return FALSE;
      for (int r = 0; r < b.n; r++)
        {
          int origin = b.origins[b.places[r]];
          outputs[origin] = row_outputs[r];
          if (entropies)
            entropies[origin] = row_entropies[r];
        }
      start = (guint) end;
      if (!report (self, e->offsets[end], e->tokens, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
plumb_trainer_log_probs (PlumbTrainer *self, PlumbModel *model, const struct plumb_experience *e,
                         double temperature, float *log_probs, float *entropies, GError **error)
{
  g_autofree float *unused = entropies ? NULL : g_new (float, e->tokens + 1);
  return run_all (self, model, e, temperature, FALSE, log_probs, entropies ? entropies : unused, error);
}

gboolean
plumb_trainer_values (PlumbTrainer *self, PlumbModel *model, const struct plumb_experience *e, gboolean last,
                      float *values, GError **error)
{
  return run_all (self, model, e, 1, last, values, NULL, error);
}

/* The derivative of the supervised loss does not depend on the log-probs, so it is handed over with the forward pass;
 * the loss itself is evaluated afterwards. */
static gboolean
accumulate_supervised (PlumbTrainer *self, const struct plumb_experience *e, const PlumbMicroBatch *b,
                       const PlumbLossSpec *loss, struct plumb_loss_statistics *statistics, GError **error)
{
  g_autofree float *derivatives = g_new0 (float, b->n);
  g_autofree float *log_probs = g_new (float, b->n);
  g_autofree float *entropies = g_new0 (float, b->n);
  struct plumb_loss_statistics none = { 0 };
  PlumbPass pass = { .sequences = b->sequences, .ids = b->ids, .offsets = b->offsets };
  if (!plumb_model_forward (self->model, self->buffers, &pass, error))
    return FALSE;
  plumb_micro_batch_evaluate (b, e, loss, derivatives, entropies, &none);
  gboolean add = !self->stale;
  self->stale = FALSE;
  if (!plumb_model_train (self->model, self->buffers, self->gradients, add, b->rows, b->targets, b->n, loss->temperature,
                             derivatives, log_probs, entropies, error))
    return FALSE;
  plumb_micro_batch_evaluate (b, e, loss, log_probs, entropies, statistics);
  return TRUE;
}

/* The log-probs and entropies of a micro-batch to their places in the experience. */
static void
keep_outputs (const struct plumb_experience *e, const PlumbMicroBatch *b, const float *log_probs, const float *entropies)
{
  for (int r = 0; r < b->n; r++)
    {
      int origin = b->origins[b->places[r]];
      e->old_logp[origin] = log_probs[r];
      e->entropy[origin] = entropies[r];
    }
}

static gboolean
accumulate_one (PlumbTrainer *self, const struct plumb_experience *e, const int *sequences, int n,
                const PlumbLossSpec *loss, struct plumb_loss_statistics *statistics, GError **error)
{
  gboolean scalar = plumb_loss_is_scalar (loss->id);
  g_auto (PlumbMicroBatch) b = { 0 };
  plumb_micro_batch_fill (&b, e, sequences, n, plumb_loss_is_of_last (loss->id));
  if (b.n == 0)
    return TRUE;
  if (loss->id == PLUMB_LOSS_SFT)
    return accumulate_supervised (self, e, &b, loss, statistics, error);
  g_autofree float *outputs = g_new (float, b.n);
  g_autofree float *entropies = scalar ? NULL : g_new (float, b.n);
  if (!run_micro_batch (self, self->model, &b, loss->temperature, outputs, entropies, error))
    return FALSE;
  if (loss->on_policy && entropies)
    keep_outputs (e, &b, outputs, entropies);
  plumb_micro_batch_evaluate (&b, e, loss, outputs, entropies, statistics);
  gboolean add = !self->stale;
  self->stale = FALSE;
  if (scalar)
    return plumb_model_backward_values (self->model, self->buffers, self->gradients, add, outputs, error);
  return plumb_model_backward (self->model, self->buffers, self->gradients, add, outputs, entropies, error);
}

/* Sequences that a loss must see together, and whether they fit. */
static gboolean
unit_of (PlumbTrainer *self, const struct plumb_experience *e, const int *sequences, int n,
         const PlumbLossSpec *loss, int *unit, GError **error)
{
  *unit = loss->id == PLUMB_LOSS_PAIR || loss->id == PLUMB_LOSS_REWARD ? 2 : 1;
  if (n % *unit)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a batch of pairs has an odd number of answers");
      return FALSE;
    }
  for (int i = 0; i < n; i += *unit)
    {
      int tokens = 0;
      for (int k = i; k < i + *unit; k++)
        tokens += e->offsets[sequences[k] + 1] - e->offsets[sequences[k]];
      if (tokens <= self->budget && e->offsets[sequences[i] + 1] > e->offsets[sequences[i]]
          && e->offsets[sequences[i + *unit - 1] + 1] > e->offsets[sequences[i + *unit - 1]])
        continue;
      if (tokens <= self->budget)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a sequence of a batch has no token");
          return FALSE;
        }
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                   "a sequence or pair of %d tokens is longer than the %d of train.tokens_per_micro_batch", tokens,
                   self->budget);
      return FALSE;
    }
  return TRUE;
}

gboolean
plumb_trainer_accumulate (PlumbTrainer *self, const struct plumb_experience *e, const int *sequences, int n,
                          const PlumbLossSpec *loss, struct plumb_loss_statistics *statistics,
                          GError **error)
{
  int unit;
  if (!unit_of (self, e, sequences, n, loss, &unit, error))
    return FALSE;
  g_autoptr (GArray) ends = plumb_pack_in_order (e->offsets, sequences, n, unit, self->budget);
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
