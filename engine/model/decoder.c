/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/model/decoder.h"

static int
qkv_rows (const PlumbModelConfig *config)
{
  return (config->heads + 2 * config->groups) * config->head_size;
}

static const void *
weight_at (const PlumbModel *model, PlumbWeightRole role, int block)
{
  const PlumbWeight *row = plumb_weight_table_find (model->table, role, block);
  char *base = model->device->ops->arena_base (model->weights);
  return row ? base + row->first * dev_type_size (model->type) : NULL;
}

static struct dev_matrix
matrix_at (const PlumbModel *model, PlumbWeightRole role, int block, int rows, int cols)
{
  return (struct dev_matrix){ weight_at (model, role, block), NULL, rows, cols };
}

static void
bind_weights (PlumbModel *model)
{
  const PlumbModelConfig *c = model->config;
  model->blocks = g_new0 (PlumbBlock, c->layers);
  for (int i = 0; i < c->layers; i++)
    {
      PlumbBlock *block = &model->blocks[i];
      block->input_norm = weight_at (model, PLUMB_WEIGHT_INPUT_NORM, i);
      block->post_norm = weight_at (model, PLUMB_WEIGHT_POST_NORM, i);
      block->qkv_bias = weight_at (model, PLUMB_WEIGHT_Q_BIAS, i);
      block->q_norm = weight_at (model, PLUMB_WEIGHT_Q_NORM, i);
      block->k_norm = weight_at (model, PLUMB_WEIGHT_K_NORM, i);
      block->qkv = matrix_at (model, PLUMB_WEIGHT_Q, i, qkv_rows (c), c->width);
      block->o = matrix_at (model, PLUMB_WEIGHT_O, i, c->width, c->heads * c->head_size);
      block->gate_up = matrix_at (model, PLUMB_WEIGHT_GATE, i, 2 * c->mlp, c->width);
      block->down = matrix_at (model, PLUMB_WEIGHT_DOWN, i, c->width, c->mlp);
    }
  model->embed = weight_at (model, PLUMB_WEIGHT_EMBED, -1);
  model->final_norm = weight_at (model, PLUMB_WEIGHT_FINAL_NORM, -1);
  model->score = weight_at (model, PLUMB_WEIGHT_SCORE, -1);
  model->head = matrix_at (model, c->tied ? PLUMB_WEIGHT_EMBED : PLUMB_WEIGHT_HEAD, -1, c->vocabulary,
                           c->width);
}

/* Angles as transformers computes them: float frequency times float position, then cosine and sine. */
void
plumb_model_set_rope (PlumbModel *model, const double *frequencies)
{
  int half = model->config->head_size / 2;
  gsize count = (gsize) model->positions * half;
  g_autofree float *values = g_new (float, 2 * count);
  for (int position = 0; position < model->positions; position++)
    for (int i = 0; i < half; i++)
      {
        float angle = (float) position * (float) frequencies[i];
        values[(gsize) position * half + i] = (float) cos ((double) angle);
        values[count + (gsize) position * half + i] = (float) sin ((double) angle);
      }
  float *base = model->device->ops->arena_base (model->rope);
  model->device->ops->upload (model->device->context, base, values, 2 * count * sizeof (float));
  model->rope_cos = base;
  model->rope_sin = base + count;
}

static gboolean
make_rope (PlumbModel *model, GError **error)
{
  gsize bytes = (gsize) model->positions * model->config->head_size * sizeof (float);
  g_autofree double *frequencies = g_new (double, model->config->head_size / 2);
  model->rope = plumb_device_allocate (model->device, bytes, "rope tables", error);
  if (!model->rope)
    return FALSE;
  plumb_rope_frequencies (&model->config->rope, model->config->head_size, frequencies);
  plumb_model_set_rope (model, frequencies);
  return TRUE;
}

/* Everything but the values of the weights. */
PlumbModel *
plumb_model_new_empty (PlumbDevice *device, PlumbModelConfig *config, enum dev_type type, int max_length,
                       GError **error)
{
  g_autoptr (PlumbModel) model = g_new0 (PlumbModel, 1);
  model->device = device;
  model->config = config;
  model->type = type;
  model->version = 1;
  model->positions = max_length > 0 ? MIN (max_length, config->positions) : config->positions;
  model->table = plumb_weight_table_new (config);
  model->weights = plumb_device_allocate (device, model->table->elements * dev_type_size (type), "weights",
                                          error);
  if (!model->weights || !make_rope (model, error))
    return NULL;
  bind_weights (model);
  return g_steal_pointer (&model);
}

/* The type that a word of config.json means, in any of its spellings; -1 where it says nothing. */
static int
type_of_word (const char *word)
{
  static const struct
  {
    const char *word;
    PlumbTensorType type;
  } words[] = {
    { "bfloat16", PLUMB_TENSOR_BF16 }, { "bf16", PLUMB_TENSOR_BF16 },  { "float16", PLUMB_TENSOR_F16 },
    { "fp16", PLUMB_TENSOR_F16 },      { "half", PLUMB_TENSOR_F16 },   { "float32", PLUMB_TENSOR_F32 },
    { "fp32", PLUMB_TENSOR_F32 },      { "float", PLUMB_TENSOR_F32 },
  };
  if (word && g_str_has_prefix (word, "torch."))
    word += strlen ("torch.");
  for (gsize i = 0; word && i < G_N_ELEMENTS (words); i++)
    if (g_str_equal (word, words[i].word))
      return (int) words[i].type;
  return -1;
}

/* What is stored is what counts; where the config says otherwise, that is told. */
static void
tell_stored_type (const char *dir, const PlumbModelConfig *config, PlumbSafetensors *tensors)
{
  GPtrArray *list = plumb_safetensors_list (tensors);
  const PlumbTensor *first = list->len ? g_ptr_array_index (list, 0) : NULL;
  int said = type_of_word (config->stored_type);
  if (first && said >= 0 && said != (int) first->type)
    g_message ("%s/config.json: says %s, but the weights are stored as %s", dir, config->stored_type,
               plumb_tensor_type_name (first->type));
}

/* Takes the config over. */
static PlumbModel *
load (PlumbDevice *device, const char *dir, PlumbModelConfig *config, enum dev_type type, int max_length,
      GError **error)
{
  for (guint i = 0; i < config->notices->len; i++)
    g_message ("%s/config.json: %s", dir, (char *) g_ptr_array_index (config->notices, i));
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open_model (dir, error);
  g_autoptr (PlumbWeightTable) table = plumb_weight_table_new (config);
  if (!tensors || !plumb_weights_check (table, config, tensors, error))
    {
      plumb_model_config_free (config);
      return NULL;
    }
  tell_stored_type (dir, config, tensors);
  g_autoptr (PlumbModel) model = plumb_model_new_empty (device, config, type, max_length, error);
  if (!model
      || !plumb_weights_load (device, model->table, config, plumb_model_weights (model), type, tensors,
                              error))
    return NULL;
  return g_steal_pointer (&model);
}

PlumbModel *
plumb_model_load (PlumbDevice *device, const char *dir, enum dev_type type, int max_length, GError **error)
{
  PlumbModelConfig *config = plumb_model_config_load (dir, error);
  return config ? load (device, dir, config, type, max_length, error) : NULL;
}

PlumbModel *
plumb_model_load_scalar (PlumbDevice *device, const char *dir, enum dev_type type, int max_length, guint64 seed,
                         GError **error)
{
  PlumbModelConfig *config = plumb_model_config_load (dir, error);
  if (!config)
    return NULL;
  plumb_model_config_make_scalar (config);
  g_autoptr (PlumbModel) model = load (device, dir, config, type, max_length, error);
  g_autoptr (PlumbSafetensors) tensors = model ? plumb_safetensors_open_model (dir, error) : NULL;
  if (!tensors)
    return NULL;
  const PlumbWeight *score = plumb_weight_table_find (model->table, PLUMB_WEIGHT_SCORE, -1);
  if (!plumb_safetensors_find (tensors, score->name))
    plumb_weights_initialise_score (device, model->table, plumb_model_weights (model), type, seed);
  return g_steal_pointer (&model);
}

PlumbModel *
plumb_model_new (PlumbDevice *device, PlumbModelConfig *config, enum dev_type type, int max_length,
                 guint64 seed, GError **error)
{
  g_autoptr (PlumbModel) model = plumb_model_new_empty (device, config, type, max_length, error);
  if (!model)
    return NULL;
  plumb_weights_initialise (device, model->table, config, plumb_model_weights (model), type, seed);
  return g_steal_pointer (&model);
}

void
plumb_model_free (PlumbModel *model)
{
  if (!model)
    return;
  const struct dev_ops *ops = model->device->ops;
  ops->arena_free (model->weights);
  ops->arena_free (model->packed);
  ops->arena_free (model->codes);
  ops->arena_free (model->rope);
  g_free (model->blocks);
  g_free (model->coded_blocks);
  plumb_weight_table_free (model->table);
  plumb_model_config_free (model->config);
  g_free (model);
}

void
plumb_model_limit_vocabulary (PlumbModel *model, int vocabulary)
{
  if (vocabulary > 0)
    model->head.rows = MIN (vocabulary, model->config->vocabulary);
}

void *
plumb_model_weights (PlumbModel *model)
{
  return model->device->ops->arena_base (model->weights);
}

/* Calls `visit` on each matrix that is worth packing. */
static void
for_each_matrix (PlumbModel *model, void (*visit) (PlumbModel *, struct dev_matrix *, PlumbCutter *),
                 PlumbCutter *cutter)
{
  for (int i = 0; i < model->config->layers; i++)
    {
      visit (model, &model->blocks[i].qkv, cutter);
      visit (model, &model->blocks[i].o, cutter);
      visit (model, &model->blocks[i].gate_up, cutter);
      visit (model, &model->blocks[i].down, cutter);
    }
  if (!model->config->score)
    visit (model, &model->head, cutter);
}

static void
pack_matrix (PlumbModel *model, struct dev_matrix *matrix, PlumbCutter *cutter)
{
  const struct dev_ops *ops = model->device->ops;
  gsize bytes = ops->pack_size (model->device->context, matrix->rows, matrix->cols, model->type);
  void *to = bytes ? plumb_cut (cutter, bytes) : NULL;
  if (!to)
    return;
  ops->pack (model->device->context, to, matrix->data, matrix->rows, matrix->cols, model->type);
  matrix->packed = to;
}

/* Sizes of the matrices: those of a block, then the head. */
typedef struct
{
  int rows, cols, times;
} Shape;

#define BLOCK_MATRICES 4

static void
list_shapes (const PlumbModelConfig *c, Shape shapes[BLOCK_MATRICES + 1])
{
  shapes[0] = (Shape){ qkv_rows (c), c->width, c->layers };
  shapes[1] = (Shape){ c->width, c->heads * c->head_size, c->layers };
  shapes[2] = (Shape){ 2 * c->mlp, c->width, c->layers };
  shapes[3] = (Shape){ c->width, c->mlp, c->layers };
  shapes[4] = (Shape){ c->vocabulary, c->width, c->score ? 0 : 1 };
}

static gsize
packed_bytes (PlumbDevice *device, const PlumbModelConfig *c, enum dev_type type)
{
  Shape shapes[BLOCK_MATRICES + 1];
  gsize bytes = 0;
  list_shapes (c, shapes);
  for (gsize i = 0; i < G_N_ELEMENTS (shapes); i++)
    bytes += shapes[i].times
             * dev_align (device->ops->pack_size (device->context, shapes[i].rows, shapes[i].cols, type));
  return bytes;
}

gsize
plumb_model_code_bytes (const PlumbModelConfig *config)
{
  Shape shapes[BLOCK_MATRICES + 1];
  gsize bytes = 0;
  list_shapes (config, shapes);
  for (int i = 0; i < BLOCK_MATRICES; i++)
    bytes += shapes[i].times
             * (dev_align ((gsize) shapes[i].rows * shapes[i].cols) + dev_align (shapes[i].rows * sizeof (float)));
  return bytes;
}

gsize
plumb_model_code_workspace (const PlumbModelConfig *config, enum dev_type type)
{
  Shape shapes[BLOCK_MATRICES + 1];
  gsize most = 0;
  list_shapes (config, shapes);
  for (int i = 0; i < BLOCK_MATRICES; i++)
    most = MAX (most, (gsize) shapes[i].rows * shapes[i].cols);
  return dev_align (most * dev_type_size (type));
}

gsize
plumb_model_bytes (PlumbDevice *device, const PlumbModelConfig *config, enum dev_type type, int positions,
                   gboolean packed)
{
  g_autoptr (PlumbWeightTable) table = plumb_weight_table_new (config);
  gsize bytes = table->elements * dev_type_size (type);
  bytes += (gsize) positions * config->head_size * sizeof (float);
  return bytes + (packed ? packed_bytes (device, config, type) : 0);
}

void
plumb_model_make_codes (PlumbModel *model)
{
  if (!model->coded)
    model->packed_version = 0;
  model->coded = TRUE;
}

static void
encode_matrix (PlumbModel *model, struct dev_matrix *matrix, PlumbCutter *cutter)
{
  const struct dev_ops *ops = model->device->ops;
  guint8 *codes = plumb_cut (cutter, (gsize) matrix->rows * matrix->cols);
  float *scales = plumb_cut (cutter, matrix->rows * sizeof (float));
  ops->encode (model->device->context, codes, scales, matrix->data, matrix->rows, matrix->cols, model->type);
  matrix->codes = codes;
  matrix->code_scales = scales;
}

/* At the same places each time: recorded passes hold them. */
static gboolean
encode_blocks (PlumbModel *model, GError **error)
{
  int layers = model->config->layers;
  if (!model->codes)
    model->codes = plumb_device_allocate (model->device, plumb_model_code_bytes (model->config), "fp8 weights", error);
  if (!model->codes)
    return FALSE;
  PlumbCutter cutter = { model->device->ops->arena_base (model->codes), 0 };
  if (!model->coded_blocks)
    model->coded_blocks = g_memdup2 (model->blocks, layers * sizeof *model->blocks);
  for (int i = 0; i < layers; i++)
    {
      encode_matrix (model, &model->coded_blocks[i].qkv, &cutter);
      encode_matrix (model, &model->coded_blocks[i].o, &cutter);
      encode_matrix (model, &model->coded_blocks[i].gate_up, &cutter);
      encode_matrix (model, &model->coded_blocks[i].down, &cutter);
    }
  return TRUE;
}

gboolean
plumb_model_pack (PlumbModel *model, GError **error)
{
  if (model->packed_version == model->version)
    return TRUE;
  if (model->coded && !encode_blocks (model, error))
    return FALSE;
  const struct dev_ops *ops = model->device->ops;
  gsize bytes = packed_bytes (model->device, model->config, model->type);
  if (bytes && !model->packed)
    model->packed = plumb_device_allocate (model->device, bytes, "packed weights", error);
  if (bytes && !model->packed)
    return FALSE;
  PlumbCutter cutter = { bytes ? ops->arena_base (model->packed) : NULL, 0 };
  for_each_matrix (model, pack_matrix, &cutter);
  model->packed_version = model->version;
  return plumb_device_check (model->device, error);
}

static void
unpack_matrix (PlumbModel *model, struct dev_matrix *matrix, PlumbCutter *cutter)
{
  matrix->packed = NULL;
}

void
plumb_model_touch (PlumbModel *model)
{
  model->version++;
  for_each_matrix (model, unpack_matrix, NULL);
}
