/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/model/weights.h"
#include "kernels/philox.h"

#define ALIGN_ELEMENTS (DEV_ALIGN / 2) /* of the smallest type */
#define PIECE (1 << 20)                /* elements converted at a time */

/* Fuse groups of one block; global rows have none. */
enum
{
  FUSE_QKV,
  FUSE_QKV_BIAS,
  FUSE_GATE_UP,
};

static void
weight_clear (gpointer data)
{
  g_free (((PlumbWeight *) data)->name);
}

static void
add (PlumbWeightTable *table, const char *name, PlumbWeightRole role, int block, int fuse, int axis,
     gint64 rows, gint64 columns)
{
  PlumbWeight weight = { 0 };
  weight.name = block < 0 ? g_strdup (name) : g_strdup_printf ("model.layers.%d.%s", block, name);
  weight.role = role;
  weight.block = block;
  weight.fuse = fuse;
  weight.tensor_axis = axis;
  weight.dimensions = columns ? 2 : 1;
  weight.shape[0] = rows;
  weight.shape[1] = columns;
  weight.count = (gsize) rows * (gsize) MAX (columns, 1);
  weight.decay = columns > 0;
  weight.trainable = TRUE;
  const PlumbWeight *last
      = table->rows->len ? plumb_weight_table_row (table, table->rows->len - 1) : NULL;
  gboolean joined = last && fuse >= 0 && last->fuse == fuse && last->block == block;
  if (!joined)
    table->elements = (table->elements + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
  weight.first = table->elements;
  table->elements += weight.count;
  g_array_append_val (table->rows, weight);
}

static void
add_block (PlumbWeightTable *table, const PlumbModelConfig *c, int i)
{
  gint64 q = (gint64) c->heads * c->head_size, kv = (gint64) c->groups * c->head_size;
  add (table, "input_layernorm.weight", PLUMB_WEIGHT_INPUT_NORM, i, -1, -1, c->width, 0);
  add (table, "self_attn.q_proj.weight", PLUMB_WEIGHT_Q, i, FUSE_QKV, 0, q, c->width);
  add (table, "self_attn.k_proj.weight", PLUMB_WEIGHT_K, i, FUSE_QKV, 0, kv, c->width);
  add (table, "self_attn.v_proj.weight", PLUMB_WEIGHT_V, i, FUSE_QKV, 0, kv, c->width);
  if (c->qkv_bias)
    {
      add (table, "self_attn.q_proj.bias", PLUMB_WEIGHT_Q_BIAS, i, FUSE_QKV_BIAS, 0, q, 0);
      add (table, "self_attn.k_proj.bias", PLUMB_WEIGHT_K_BIAS, i, FUSE_QKV_BIAS, 0, kv, 0);
      add (table, "self_attn.v_proj.bias", PLUMB_WEIGHT_V_BIAS, i, FUSE_QKV_BIAS, 0, kv, 0);
    }
  if (c->qk_norm)
    {
      add (table, "self_attn.q_norm.weight", PLUMB_WEIGHT_Q_NORM, i, -1, -1, c->head_size, 0);
      add (table, "self_attn.k_norm.weight", PLUMB_WEIGHT_K_NORM, i, -1, -1, c->head_size, 0);
    }
  add (table, "self_attn.o_proj.weight", PLUMB_WEIGHT_O, i, -1, 1, c->width, q);
  add (table, "post_attention_layernorm.weight", PLUMB_WEIGHT_POST_NORM, i, -1, -1, c->width, 0);
  add (table, "mlp.gate_proj.weight", PLUMB_WEIGHT_GATE, i, FUSE_GATE_UP, 0, c->mlp, c->width);
  add (table, "mlp.up_proj.weight", PLUMB_WEIGHT_UP, i, FUSE_GATE_UP, 0, c->mlp, c->width);
  add (table, "mlp.down_proj.weight", PLUMB_WEIGHT_DOWN, i, -1, 1, c->width, c->mlp);
}

PlumbWeightTable *
plumb_weight_table_new (const PlumbModelConfig *config)
{
  PlumbWeightTable *table = g_new0 (PlumbWeightTable, 1);
  table->rows = g_array_new (FALSE, FALSE, sizeof (PlumbWeight));
  g_array_set_clear_func (table->rows, weight_clear);
  add (table, "model.embed_tokens.weight", PLUMB_WEIGHT_EMBED, -1, -1, 0, config->vocabulary,
       config->width);
  for (int i = 0; i < config->layers; i++)
    add_block (table, config, i);
  add (table, "model.norm.weight", PLUMB_WEIGHT_FINAL_NORM, -1, -1, -1, config->width, 0);
  if (config->score)
    add (table, "score.weight", PLUMB_WEIGHT_SCORE, -1, -1, -1, 1, config->width);
  else if (!config->tied)
    add (table, "lm_head.weight", PLUMB_WEIGHT_HEAD, -1, -1, 0, config->vocabulary, config->width);
  table->elements = (table->elements + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
  return table;
}

void
plumb_weight_table_free (PlumbWeightTable *table)
{
  if (!table)
    return;
  g_array_unref (table->rows);
  g_free (table);
}

const PlumbWeight *
plumb_weight_table_find (const PlumbWeightTable *table, PlumbWeightRole role, int block)
{
  for (guint i = 0; i < table->rows->len; i++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, i);
      if (row->role == role && row->block == block)
        return row;
    }
  return NULL;
}

static char *
shape_text (int dimensions, const gint64 *shape)
{
  GString *text = g_string_new ("(");
  for (int i = 0; i < dimensions; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i ? ", " : "", shape[i]);
  g_string_append_c (text, ')');
  return g_string_free (text, FALSE);
}

static gboolean
same_shape (const PlumbWeight *row, const PlumbTensor *tensor)
{
  if (tensor->dimensions != row->dimensions)
    return FALSE;
  for (int i = 0; i < row->dimensions; i++)
    if (tensor->shape[i] != row->shape[i])
      return FALSE;
  return TRUE;
}

static gboolean
check_row (const PlumbWeight *row, const PlumbTensor *tensor, GError **error)
{
  if (!same_shape (row, tensor))
    {
      g_autofree char *found = shape_text (tensor->dimensions, tensor->shape);
      g_autofree char *wanted = shape_text (row->dimensions, row->shape);
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: tensor %s has shape %s where config.json means %s", tensor->file, row->name, found,
                   wanted);
      return FALSE;
    }
  if (tensor->type == PLUMB_TENSOR_I32 || tensor->type == PLUMB_TENSOR_I64)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: tensor %s holds integers (%s)",
                   tensor->file, row->name, plumb_tensor_type_name (tensor->type));
      return FALSE;
    }
  return TRUE;
}

static gboolean
load_row (PlumbDevice *device, const PlumbWeight *row, void *arena, enum dev_type type,
          const PlumbTensor *tensor, float *piece, void *typed, GError **error)
{
  for (gsize done = 0; done < row->count; done += PIECE)
    {
      gsize n = MIN (row->count - done, (gsize) PIECE);
      plumb_tensor_to_floats (tensor, done, n, piece);
      for (gsize i = 0; i < n; i++)
        if (!isfinite (piece[i]))
          {
            g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                         "%s: tensor %s holds a value that is not finite at element %" G_GSIZE_FORMAT,
                         tensor->file, row->name, done + i);
            return FALSE;
          }
      gsize size = dev_type_size (type);
      for (gsize i = 0; i < n && type == DEV_BF16; i++)
        ((bf16 *) typed)[i] = bf16_from_float (piece[i]);
      device->ops->upload (device->context, (char *) arena + (row->first + done) * size,
                           type == DEV_BF16 ? typed : (void *) piece, n * size);
    }
  return TRUE;
}

/* Tensors that files carry although the model does not use them: stored rope frequencies, and a copy of a
 * tied head. */
static gboolean
is_ignored (const PlumbModelConfig *config, const char *name)
{
  return g_str_has_suffix (name, ".rotary_emb.inv_freq")
         || ((config->tied || config->score) && g_str_equal (name, "lm_head.weight"));
}

static gboolean
check_unknown (const PlumbWeightTable *table, const PlumbModelConfig *config, PlumbSafetensors *tensors,
               GError **error)
{
  g_autoptr (GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < table->rows->len; i++)
    g_hash_table_add (known, plumb_weight_table_row (table, i)->name);
  GPtrArray *list = plumb_safetensors_list (tensors);
  for (guint i = 0; i < list->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (list, i);
      if (g_hash_table_contains (known, tensor->name) || is_ignored (config, tensor->name))
        continue;
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: tensor %s is not part of a %s model as config.json describes it; leaving it out would "
                   "change the model",
                   tensor->file, tensor->name, config->model_type);
      return FALSE;
    }
  return TRUE;
}

static gboolean
may_be_missing (const PlumbModelConfig *config, const PlumbWeight *row)
{
  return config->fresh_score && row->role == PLUMB_WEIGHT_SCORE;
}

gboolean
plumb_weights_check (const PlumbWeightTable *table, const PlumbModelConfig *config, PlumbSafetensors *tensors,
                     GError **error)
{
  if (!check_unknown (table, config, tensors, error))
    return FALSE;
  for (guint i = 0; i < table->rows->len; i++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, i);
      const PlumbTensor *tensor = plumb_safetensors_find (tensors, row->name);
      if (!tensor && may_be_missing (config, row))
        continue;
      if (!tensor)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "the model's files have no tensor %s, which config.json (%s, %d layers, %s head) needs",
                       row->name, config->model_type, config->layers, config->tied ? "tied" : "own");
          return FALSE;
        }
      if (!check_row (row, tensor, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
plumb_weights_load (PlumbDevice *device, const PlumbWeightTable *table, const PlumbModelConfig *config,
                    void *arena, enum dev_type type, PlumbSafetensors *tensors, GError **error)
{
  if (!plumb_weights_check (table, config, tensors, error))
    return FALSE;
  g_autofree float *piece = g_new (float, PIECE);
  g_autofree bf16 *typed = g_new (bf16, PIECE);
  for (guint i = 0; i < table->rows->len; i++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, i);
      const PlumbTensor *tensor = plumb_safetensors_find (tensors, row->name);
      if (tensor && !load_row (device, row, arena, type, tensor, piece, typed, error))
        return FALSE;
    }
  return plumb_device_check (device, error);
}

/* Two normal deviates of counter i (Box and Muller 1958). */
static void
normal_pair (guint64 seed, guint32 row, guint64 i, float out[2])
{
  uint32_t counter[4] = { (uint32_t) i, (uint32_t) (i >> 32), row, 0x57454947u };
  uint32_t words[4];
  philox_4x32_10 (words, counter, seed);
  double radius = sqrt (-2.0 * log (((double) words[0] + 0.5) / 4294967296.0));
  double angle = 2.0 * G_PI * ((double) words[1] / 4294967296.0);
  out[0] = (float) (radius * cos (angle));
  out[1] = (float) (radius * sin (angle));
}

/* Normal values of a deviation, or ones where it is 0. */
static void
fill_row (PlumbDevice *device, const PlumbWeight *row, guint index, float deviation, void *arena,
          enum dev_type type, guint64 seed)
{
  g_autofree float *values = g_new (float, PIECE);
  g_autofree bf16 *typed = g_new (bf16, PIECE);
  gsize size = dev_type_size (type);
  for (gsize done = 0; done < row->count; done += PIECE)
    {
      gsize n = MIN (row->count - done, (gsize) PIECE);
      for (gsize i = 0; i < n; i += 2)
        {
          float pair[2] = { 1.0f, 1.0f };
          if (deviation > 0)
            normal_pair (seed, index, (done + i) / 2, pair);
          for (gsize j = 0; j < 2 && i + j < n; j++)
            values[i + j] = deviation > 0 ? pair[j] * deviation : pair[j];
        }
      for (gsize i = 0; i < n && type == DEV_BF16; i++)
        typed[i] = bf16_from_float (values[i]);
      device->ops->upload (device->context, (char *) arena + (row->first + done) * size,
                           type == DEV_BF16 ? (void *) typed : values, n * size);
    }
}

void
plumb_weights_initialise (PlumbDevice *device, const PlumbWeightTable *table,
                          const PlumbModelConfig *config, void *arena, enum dev_type type, guint64 seed)
{
  for (guint r = 0; r < table->rows->len; r++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, r);
      gboolean output = row->role == PLUMB_WEIGHT_O || row->role == PLUMB_WEIGHT_DOWN;
      float deviation = sqrtf (2.0f / (5.0f * config->width));
      if (output)
        deviation /= sqrtf (2.0f * config->layers);
      fill_row (device, row, r, row->dimensions > 1 ? deviation : 0, arena, type, seed);
    }
}

void
plumb_weights_initialise_score (PlumbDevice *device, const PlumbWeightTable *table, void *arena,
                                enum dev_type type, guint64 seed)
{
  for (guint r = 0; r < table->rows->len; r++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, r);
      if (row->role == PLUMB_WEIGHT_SCORE)
        fill_row (device, row, r, 1.0f / (row->count + 1), arena, type, seed);
    }
}

gboolean
plumb_weights_save (PlumbDevice *device, const PlumbWeightTable *table, const void *arena,
                    enum dev_type type, const char *path, GError **error)
{
  static const char *const metadata[] = { "format", "pt", NULL };
  gsize size = dev_type_size (type);
  g_autofree char *copy = g_malloc (table->elements * size);
  device->ops->download (device->context, copy, arena, table->elements * size);
  if (!plumb_device_check (device, error))
    return FALSE;
  g_autofree PlumbTensorOut *out = g_new0 (PlumbTensorOut, table->rows->len);
  for (guint i = 0; i < table->rows->len; i++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, i);
      out[i].name = row->name;
      out[i].type = type == DEV_BF16 ? PLUMB_TENSOR_BF16 : PLUMB_TENSOR_F32;
      out[i].dimensions = row->dimensions;
      memcpy (out[i].shape, row->shape, sizeof row->shape);
      out[i].data = copy + row->first * size;
    }
  return plumb_safetensors_write (path, out, table->rows->len, metadata, error);
}
