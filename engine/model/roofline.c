/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/model/roofline.h"

#define PATTERN ((gsize) 1 << 18) /* random elements, repeated */
#define ATTEMPTS 3

/* Dense bf16 operations per second as the makers state them, by a part of the device's name; the longer name first. */
static const struct
{
  const char *name;
  double peak;
} peaks[] = {
  { "H200", 989e12 }, { "H100 PCIe", 756e12 }, { "H100", 989e12 }, { "H800", 989e12 }, { "H20", 148e12 },
  { "A100", 312e12 }, { "A800", 312e12 },      { "L40S", 362e12 }, { "L40", 181e12 },  { "RTX 4090", 165e12 },
};

static double
peak_of (const char *device)
{
  for (gsize i = 0; i < G_N_ELEMENTS (peaks); i++)
    if (strstr (device, peaks[i].name))
      return peaks[i].peak;
  return 0;
}

static double
now (void)
{
  return g_get_monotonic_time () / (double) G_USEC_PER_SEC;
}

/* Random numbers: devices are faster on zeros. */
static void
fill (PlumbDevice *device, char *to, float *scratch, gsize elements, enum dev_type type)
{
  const struct dev_ops *ops = device->ops;
  g_autofree float *values = g_new (float, PATTERN);
  GRand *random = g_rand_new_with_seed (2);
  for (gsize i = 0; i < PATTERN; i++)
    values[i] = (float) g_rand_double_range (random, -1, 1);
  g_rand_free (random);
  ops->upload (device->context, scratch, values, PATTERN * sizeof (float));
  for (gsize done = 0; done < elements; done += PATTERN)
    ops->convert (device->context, to + done * dev_type_size (type), type, scratch, DEV_F32, MIN (PATTERN, elements - done));
}

/* What is measured: products of n x n, copies of so many bytes, `rounds` of each; again, for the best, while less than
 * `seconds` have passed. */
typedef struct
{
  int n, rounds;
  gsize copied;
  double seconds;
} Size;

static void
measure (PlumbDevice *device, enum dev_type type, const Size *size, char *a, char *b, char *c, PlumbLimits *limits)
{
  const struct dev_ops *ops = device->ops;
  struct dev_context *context = device->context;
  struct dev_matrix w = { .data = b, .rows = size->n, .cols = size->n };
  double began = now ();
  for (int attempt = 0; attempt < ATTEMPTS && (attempt == 0 || now () - began < size->seconds); attempt++)
    {
      double start = now ();
      for (int i = 0; i < size->rounds; i++)
        ops->linear_forward (context, c, a, &w, size->n, type);
      ops->status (context, NULL, 0);
      double middle = now ();
      for (int i = 0; i < size->rounds; i++)
        ops->copy (context, c, a, size->copied);
      ops->status (context, NULL, 0);
      double end = now (), n = size->n;
      limits->products = MAX (limits->products, 2 * n * n * n * size->rounds / MAX (1e-9, middle - start));
      limits->bandwidth = MAX (limits->bandwidth, 2.0 * size->copied * size->rounds / MAX (1e-9, end - middle));
    }
}

static Size
choose_size (const PlumbDevice *device, enum dev_type type, gsize memory)
{
  const gsize least = (gsize) 4 << 20, most = (gsize) 128 << 20;
  if (device->asynchronous)
    return (Size){ 8192, type == DEV_BF16 ? 20 : 3, most, 10 };
  if (memory == 0)
    return (Size){ 2048, 2, most, 10 };
  return (Size){ 512, 1, CLAMP (memory / 2, least, most / 4), 0.1 };
}

gboolean
plumb_limits_measure (PlumbDevice *device, enum dev_type type, gsize memory, PlumbLimits *limits, GError **error)
{
  const Size size = choose_size (device, type, memory);
  gsize elements = (gsize) size.n * size.n, product = dev_align (elements * dev_type_size (type));
  gsize each = MAX (product, size.copied);
  struct dev_info info;
  struct dev_arena *arena
      = plumb_device_allocate (device, 2 * each + product + dev_align (PATTERN * sizeof (float)), "measuring the limits", error);
  if (!arena)
    return FALSE;
  char *a = device->ops->arena_base (arena), *c = a + each, *b = c + each;
  float *scratch = (float *) (gpointer) (b + product);
  memset (limits, 0, sizeof *limits);
  fill (device, a, scratch, each / dev_type_size (type), type); /* pages that nothing was written to are read from a cache */
  fill (device, b, scratch, elements, type);
  measure (device, type, &size, a, b, c, limits);
  device->ops->info (device->context, &info);
  limits->peak = peak_of (info.name);
  device->ops->arena_free (arena);
  return plumb_device_check (device, error);
}

gboolean
plumb_limits_measure_codes (PlumbDevice *device, enum dev_type type, PlumbLimits *limits, GError **error)
{
  const struct dev_ops *ops = device->ops;
  const Size size = choose_size (device, type, 0);
  gsize elements = (gsize) size.n * size.n, each = dev_align (elements * dev_type_size (type));
  if (!device->asynchronous || type != DEV_BF16)
    return TRUE;
  struct dev_arena *arena = plumb_device_allocate (
      device, 3 * each + dev_align (elements) + dev_align (PATTERN * sizeof (float)), "measuring the limits", error);
  if (!arena)
    return FALSE;
  PlumbCutter cutter = { ops->arena_base (arena), 0 };
  char *x = plumb_cut (&cutter, each), *data = plumb_cut (&cutter, each), *y = plumb_cut (&cutter, each);
  guint8 *codes = plumb_cut (&cutter, elements);
  float *scratch = plumb_cut (&cutter, PATTERN * sizeof (float));
  struct dev_matrix w = { data, NULL, size.n, size.n, codes, scratch };
  fill (device, x, scratch, elements, type);
  fill (device, data, scratch, elements, type);
  ops->encode (device->context, codes, scratch, data, size.n, size.n, type);
  for (int attempt = 0; attempt < ATTEMPTS; attempt++)
    {
      double start = now (), n = size.n;
      for (int i = 0; i < size.rounds; i++)
        ops->linear_forward (device->context, y, x, &w, size.n, type);
      ops->status (device->context, NULL, 0);
      limits->codes = MAX (limits->codes, 2 * n * n * n * size.rounds / MAX (1e-9, now () - start));
    }
  ops->arena_free (arena);
  return plumb_device_check (device, error);
}

void
plumb_work_add (PlumbWork *work, int length, int rows)
{
  work->tokens += length;
  work->rows += rows;
  work->pairs += length * (length + 1.0) / 2;
}

double
plumb_config_block_parameters (const PlumbModelConfig *c)
{
  return (double) c->layers * c->width * (2.0 * (c->heads + c->groups) * c->head_size + 3.0 * c->mlp);
}

double
plumb_config_head_parameters (const PlumbModelConfig *c)
{
  return (double) c->vocabulary * c->width;
}

/* Of scores and of weighted values. */
static double
attention_operations (const PlumbModelConfig *c, const PlumbWork *work)
{
  return 4.0 * c->layers * c->heads * c->head_size * work->pairs;
}

double
plumb_limit_forward (const PlumbLimits *limits, const PlumbModelConfig *c, const PlumbWork *work)
{
  double products = 2 * (plumb_config_block_parameters (c) * work->tokens + plumb_config_head_parameters (c) * work->rows);
  return (products + 2 * attention_operations (c, work)) / limits->products;
}

double
plumb_limit_train (const PlumbLimits *limits, const PlumbModelConfig *c, enum dev_type type, const PlumbWork *work)
{
  double products = 6 * plumb_config_block_parameters (c) * work->tokens + 8 * plumb_config_head_parameters (c) * work->rows;
  double row = 8.0 * c->width + 2.0 * (c->heads + 2.0 * c->groups) * c->head_size + 3.0 * c->mlp;
  return (products + 7 * attention_operations (c, work)) / limits->products
         + 3.0 * dev_type_size (type) * c->layers * row * work->tokens / limits->bandwidth;
}

double
plumb_limit_update (const PlumbLimits *limits, const PlumbModelConfig *c, enum dev_type type)
{
  double parameters = plumb_config_block_parameters (c) + plumb_config_head_parameters (c) * (c->tied ? 1 : 2);
  double each = type == DEV_BF16 ? 30 : 28; /* bytes: 16 of floats read, 12 written, and the rounded weight */
  return each * parameters / limits->bandwidth;
}

double
plumb_limit_generate (const PlumbLimits *limits, const PlumbModelConfig *c, enum dev_type type, const PlumbGenerated *g)
{
  double size = dev_type_size (type), blocks = plumb_config_block_parameters (c), head = plumb_config_head_parameters (c);
  double weights = blocks * (g->weight_codes ? 1 : size) + head * size;
  double key = 2.0 * c->layers * c->groups * (g->kv_codes ? c->head_size + sizeof (float) : c->head_size * size);
  double rows = g->decode_rows / MAX (1, g->decode_passes);
  double rate = g->weight_codes && limits->codes > 0 ? limits->codes : limits->products; /* of the blocks */
  return 2 * blocks * g->prefill_tokens / rate
         + g->decode_passes * MAX (weights / limits->bandwidth, 2 * (blocks / rate + head / limits->products) * rows)
         + g->context_tokens * key / limits->bandwidth;
}

double
plumb_work_operations (const PlumbModelConfig *c, const PlumbWork *work)
{
  return 6 * (plumb_config_block_parameters (c) * work->tokens + plumb_config_head_parameters (c) * work->rows)
         + 3 * attention_operations (c, work);
}
