/* SPDX-License-Identifier: Apache-2.0 */

/* Models of known shapes with random weights, and what the device can do at most. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>

#include "engine/bench/bench.h"
#include "engine/core/error.h"
#include "kernels/cpu/vector.h"

typedef struct
{
  int width, layers, heads, groups, mlp, vocabulary;
  gboolean tied, bias;
} Shape;

static const char *const names[] = { "1.5M", "135M", "qwen2.5-0.5b", "qwen2.5-1.5b", "7b", NULL };

static const Shape shapes[] = {
  { 128, 7, 4, 4, 384, 260, TRUE, FALSE },
  { 576, 30, 9, 3, 1536, 49152, TRUE, FALSE },
  { 896, 24, 14, 2, 4864, 151936, TRUE, TRUE },
  { 1536, 28, 12, 2, 8960, 151936, TRUE, TRUE },
  { 3584, 28, 28, 4, 18944, 152064, FALSE, TRUE },
};

const char *const *
plumb_bench_shapes (void)
{
  return names;
}

double
plumb_bench_now (void)
{
  return (double) g_get_monotonic_time () / G_USEC_PER_SEC;
}

static const Shape *
find_shape (const char *name, GError **error)
{
  for (gsize i = 0; names[i]; i++)
    if (g_strcmp0 (names[i], name) == 0)
      return &shapes[i];
  g_autofree char *list = g_strjoinv (", ", (char **) names);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "there is no shape %s; there are %s", name, list);
  return NULL;
}

#define PATTERN (1 << 20) /* elements of the random block that weights repeat */

/* Fills weights with a repeated random block of deviation 0.02, norms with ones. */
static void
fill_weights (PlumbModel *model)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  gsize size = dev_type_size (model->type);
  g_autofree float *values = g_new (float, PATTERN), *ones = g_new (float, PATTERN);
  g_autofree char *typed = g_malloc (PATTERN * size), *typed_ones = g_malloc (PATTERN * size);
  GRand *random = g_rand_new_with_seed (1);
  for (int i = 0; i < PATTERN; i++)
    {
      double sum = 0;
      for (int k = 0; k < 4; k++)
        sum += g_rand_double_range (random, -1, 1);
      values[i] = (float) (sum * 0.02 * sqrt (0.75));
      ones[i] = 1;
    }
  g_rand_free (random);
  cpu_row_store (typed, values, PATTERN, model->type);
  cpu_row_store (typed_ones, ones, PATTERN, model->type);
  for (guint r = 0; r < model->table->rows->len; r++)
    {
      const PlumbWeight *row = plumb_weight_table_row (model->table, r);
      gboolean norm = row->dimensions == 1 && row->role != PLUMB_WEIGHT_Q_BIAS && row->role != PLUMB_WEIGHT_K_BIAS
                      && row->role != PLUMB_WEIGHT_V_BIAS;
      for (gsize done = 0; done < row->count; done += PATTERN)
        ops->upload (context, (char *) plumb_model_weights (model) + (row->first + done) * size,
                     norm ? typed_ones : typed, MIN (row->count - done, (gsize) PATTERN) * size);
    }
}

gboolean
plumb_bench_open (PlumbBench *bench, const PlumbBenchOptions *o, int positions, GError **error)
{
  const Shape *s = find_shape (o->shape, error);
  if (!s)
    return FALSE;
  PlumbModelConfig *config = plumb_model_config_new (s->width, s->layers, s->heads, s->groups, s->mlp,
                                                     s->vocabulary, positions, error);
  g_autofree char *name = plumb_device_choose (o->device, NULL);
  const struct dev_ops *ops = config ? plumb_device_backend (name, error) : NULL;
  if (!ops)
    {
      plumb_model_config_free (config);
      return FALSE;
    }
  config->tied = s->tied;
  config->qkv_bias = s->bias;
  bench->blocks = plumb_config_block_parameters (config);
  bench->head = plumb_config_head_parameters (config);
  gsize workspace = ops->workspace_size (s->vocabulary, positions, config->head_size, 2 * s->mlp);
  if (o->weight_codes)
    workspace = MAX (workspace, plumb_model_code_workspace (config, o->type));
  bench->device = plumb_device_open (name, workspace, error);
  if (!bench->device || !plumb_limits_measure (bench->device, o->type, 0, &bench->limits, error)
      || (o->weight_codes && !plumb_limits_measure_codes (bench->device, o->type, &bench->limits, error)))
    {
      plumb_model_config_free (config);
      return FALSE;
    }
  ops->set_deterministic (bench->device->context, o->deterministic);
  bench->model = plumb_model_new_empty (bench->device, config, o->type, positions, error);
  if (!bench->model)
    return FALSE;
  fill_weights (bench->model);
  struct dev_info info;
  ops->info (bench->device->context, &info);
  g_print ("%s on %s (%s): products %.1f TFLOP/s, copies %.1f GB/s\n", o->shape, info.name, info.matmul_path,
           bench->limits.products / 1e12, bench->limits.bandwidth / 1e9);
  if (bench->limits.codes > 0)
    g_print ("products with fp8 weights %.1f TFLOP/s\n", bench->limits.codes / 1e12);
  return plumb_device_check (bench->device, error);
}

void
plumb_bench_clear (PlumbBench *bench)
{
  g_clear_pointer (&bench->model, plumb_model_free);
  g_clear_pointer (&bench->device, plumb_device_close);
}
