/* SPDX-License-Identifier: Apache-2.0 */

/* The update of a trainer's weights, and its state on disk. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/comm/checksum.h"
#include "engine/core/error.h"
#include "engine/train/trainer-private.h"

#define CHECKSUM_PIECE (1 << 22) /* bytes */

static void
update_range (PlumbTrainer *self, gsize first, gsize count, gboolean decay, struct dev_adamw adamw)
{
  const struct dev_ops *ops = self->device->ops;
  enum dev_type type = self->model->type;
  char *weights = plumb_model_weights (self->model);
  adamw.weight_decay = decay ? adamw.weight_decay : 0;
  ops->adamw (self->device->context, weights + first * dev_type_size (type), self->master ? self->master + first : NULL,
              self->gradients + first, self->m + first, self->v + first, count, &adamw, type);
}

/* Rows that lie side by side and decay alike are updated in one go. */
static void
update_rows (PlumbTrainer *self, const struct dev_adamw *adamw)
{
  const PlumbWeightTable *table = self->model->table;
  gsize start = 0, end = 0;
  gboolean decay = FALSE;
  for (guint i = 0; i <= table->rows->len; i++)
    {
      const PlumbWeight *row = i < table->rows->len ? plumb_weight_table_row (table, i) : NULL;
      if (row && row->trainable && row->first == end && row->decay == decay && end > start)
        {
          end += row->count;
          continue;
        }
      if (end > start)
        update_range (self, start, end - start, decay, *adamw);
      start = row ? row->first : 0;
      end = row && row->trainable ? row->first + row->count : start;
      decay = row ? row->decay : FALSE;
    }
}

/* Clears what the next backward pass adds to; what it overwrites stays as it is. */
static void
clear_gradients (PlumbTrainer *self)
{
  const PlumbWeightTable *table = self->model->table;
  gsize start = 0, end = 0; /* of rows to be cleared, side by side */
  for (guint i = 0; i <= table->rows->len; i++)
    {
      const PlumbWeight *row = i < table->rows->len ? plumb_weight_table_row (table, i) : NULL;
      if (row && plumb_model_overwrites (self->model, row))
        continue;
      if (row && row->first == end)
        {
          end += row->count;
          continue;
        }
      if (end > start)
        self->device->ops->zero (self->device->context, self->gradients + start, (end - start) * sizeof (float));
      start = row ? row->first : 0;
      end = row ? row->first + row->count : 0;
    }
  self->stale = TRUE;
}

void
plumb_trainer_settle (PlumbTrainer *self)
{
  if (self->stale)
    self->device->ops->zero (self->device->context, self->gradients, self->model->table->elements * sizeof (float));
  self->stale = FALSE;
}

gboolean
plumb_trainer_step (PlumbTrainer *self, double learning_rate, PlumbStepResult *result,
                    double *gradient_norm, GError **error)
{
  const struct dev_ops *ops = self->device->ops;
  struct dev_context *context = self->device->context;
  const PlumbWeightTable *table = self->model->table;
  double squares = 0;
  plumb_trainer_settle (self);
  if (self->comm && !plumb_comm_sum (self->comm, self->device, self->gradients, table->elements, "gradients", error))
    return FALSE;
  ops->square_sum (context, self->square_sum, self->gradients, table->elements);
  ops->download (context, &squares, self->square_sum, sizeof squares);
  if (!plumb_device_check (self->device, error))
    return FALSE;
  *gradient_norm = sqrt (squares);
  *result = isfinite (squares) ? PLUMB_STEP_DONE : PLUMB_STEP_NOT_FINITE;
  if (*result == PLUMB_STEP_DONE)
    {
      double most = self->options.max_grad_norm;
      gint64 t = ++self->updates;
      struct dev_adamw adamw = {
        .learning_rate = (float) learning_rate,
        .beta1 = (float) self->options.beta1,
        .beta2 = (float) self->options.beta2,
        .epsilon = (float) self->options.epsilon,
        .weight_decay = (float) self->options.weight_decay,
        .correction1 = (float) (1 - pow (self->options.beta1, (double) t)),
        .correction2 = (float) (1 - pow (self->options.beta2, (double) t)),
        .gradient_scale = most > 0 && *gradient_norm > most ? (float) (most / (*gradient_norm + 1e-6)) : 1,
      };
      update_rows (self, &adamw);
      plumb_model_touch (self->model);
    }
  clear_gradients (self);
  return plumb_device_check (self->device, error);
}

gboolean
plumb_trainer_gradients (PlumbTrainer *self, float *host, GError **error)
{
  plumb_trainer_settle (self);
  self->device->ops->download (self->device->context, host, self->gradients,
                               self->model->table->elements * sizeof (float));
  return plumb_device_check (self->device, error);
}

void
plumb_trainer_reset_state (PlumbTrainer *self)
{
  gsize bytes = self->model->table->elements * sizeof (float);
  const struct dev_ops *ops = self->device->ops;
  self->stale = TRUE;
  plumb_trainer_settle (self);
  ops->zero (self->device->context, self->m, bytes);
  ops->zero (self->device->context, self->v, bytes);
  self->updates = 0;
}

/* The arrays of the state, by the prefix of their tensors' names. */
typedef struct
{
  const char *prefix;
  float *data;
} StateArray;

static guint
state_arrays (PlumbTrainer *self, StateArray arrays[3])
{
  arrays[0] = (StateArray){ "m", self->m };
  arrays[1] = (StateArray){ "v", self->v };
  arrays[2] = (StateArray){ "master", self->master };
  return self->master ? 3 : 2;
}

/* Chains the checksum of memory on the device, piece by piece. */
static void
add_checksum (PlumbTrainer *self, const void *data, gsize bytes, guint64 *sum)
{
  g_autofree char *piece = g_malloc (CHECKSUM_PIECE);
  for (gsize at = 0; at < bytes; at += CHECKSUM_PIECE)
    {
      gsize n = MIN (bytes - at, CHECKSUM_PIECE);
      self->device->ops->download (self->device->context, piece, (const char *) data + at, n);
      *sum = plumb_checksum (piece, n, *sum);
    }
}

gboolean
plumb_trainer_checksum (PlumbTrainer *self, guint64 *sum, GError **error)
{
  gsize elements = self->model->table->elements;
  StateArray arrays[3];
  guint n = state_arrays (self, arrays);
  *sum = (guint64) self->updates;
  add_checksum (self, plumb_model_weights (self->model), elements * dev_type_size (self->model->type), sum);
  for (guint a = 0; a < n; a++)
    add_checksum (self, arrays[a].data, elements * sizeof (float), sum);
  return plumb_device_check (self->device, error);
}

gboolean
plumb_trainer_save_state (PlumbTrainer *self, const char *path, GError **error)
{
  const PlumbWeightTable *table = self->model->table;
  StateArray arrays[3];
  guint n = state_arrays (self, arrays), rows = table->rows->len;
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) copies = g_ptr_array_new_with_free_func (g_free);
  g_autofree PlumbTensorOut *out = g_new0 (PlumbTensorOut, n * rows);
  for (guint a = 0; a < n; a++)
    {
      float *copy = g_new (float, table->elements);
      g_ptr_array_add (copies, copy);
      self->device->ops->download (self->device->context, copy, arrays[a].data,
                                   table->elements * sizeof (float));
      for (guint i = 0; i < rows; i++)
        {
          const PlumbWeight *row = plumb_weight_table_row (table, i);
          char *name = g_strdup_printf ("%s.%s", arrays[a].prefix, row->name);
          g_ptr_array_add (names, name);
          PlumbTensorOut *tensor = &out[a * rows + i];
          tensor->name = name;
          tensor->dimensions = row->dimensions;
          memcpy (tensor->shape, row->shape, sizeof row->shape);
          tensor->data = copy + row->first;
        }
    }
  g_autofree char *updates = g_strdup_printf ("%" G_GINT64_FORMAT, self->updates);
  const char *metadata[] = { "updates", updates, NULL };
  return plumb_device_check (self->device, error)
         && plumb_safetensors_write (path, out, n * rows, metadata, error);
}

static gboolean
load_array (PlumbTrainer *self, PlumbSafetensors *tensors, const StateArray *array, const char *path,
            GError **error)
{
  const PlumbWeightTable *table = self->model->table;
  for (guint i = 0; i < table->rows->len; i++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, i);
      g_autofree char *name = g_strdup_printf ("%s.%s", array->prefix, row->name);
      const PlumbTensor *tensor = plumb_safetensors_find (tensors, name);
      if (!tensor || tensor->count != row->count || tensor->type != PLUMB_TENSOR_F32)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "%s: tensor %s is missing or does not fit this model: the checkpoint is of another "
                       "model or precision", path, name);
          return FALSE;
        }
      g_autofree float *values = g_new (float, row->count);
      plumb_tensor_to_floats (tensor, 0, row->count, values);
      self->device->ops->upload (self->device->context, array->data + row->first, values,
                                 row->count * sizeof (float));
    }
  return plumb_device_check (self->device, error);
}

gboolean
plumb_trainer_load_state (PlumbTrainer *self, const char *path, GError **error)
{
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open (path, error);
  if (!tensors)
    return FALSE;
  const char *updates = plumb_safetensors_metadata (tensors, "updates");
  if (!updates || !g_ascii_string_to_signed (updates, 10, 0, G_MAXINT64, &self->updates, NULL))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: its metadata has no number of updates",
                   path);
      return FALSE;
    }
  StateArray arrays[3];
  guint n = state_arrays (self, arrays);
  for (guint a = 0; a < n; a++)
    if (!load_array (self, tensors, &arrays[a], path, error))
      return FALSE;
  self->stale = TRUE;
  plumb_trainer_settle (self);
  return plumb_device_check (self->device, error);
}
