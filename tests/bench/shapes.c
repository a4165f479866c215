/* SPDX-License-Identifier: Apache-2.0 */

#include "kernels/cpu/vector.h"
#include "tests/bench/shapes.h"

#include <stdlib.h>

static const Shape shapes[] = {
  { "1.5M", 128, 7, 4, 4, 384, 260, 512, DEV_F32 },
  { "135M", 576, 30, 9, 3, 1536, 49152, 2048, DEV_BF16 },
};

const Shape *
shape_find (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (shapes); i++)
    if (g_str_equal (shapes[i].name, name))
      return &shapes[i];
  g_printerr ("no shape %s; there are 1.5M and 135M\n", name);
  exit (2);
}

PlumbModel *
shape_open (const Shape *s, PlumbDevice **device)
{
  g_autoptr (GError) error = NULL;
  PlumbModelConfig *config = plumb_model_config_new (s->width, s->layers, s->heads, s->groups, s->mlp,
                                                     s->vocabulary, s->positions, &error);
  if (config)
    *device = plumb_device_open (
        "cpu", dev_cpu ()->workspace_size (s->vocabulary, s->positions, s->width / s->heads, 2 * s->mlp),
        &error);
  PlumbModel *model
      = config && *device ? plumb_model_new (*device, config, s->type, s->positions, 1, &error) : NULL;
  if (model)
    return model;
  g_printerr ("%s\n", error->message);
  exit (1);
}

double
now_seconds (void)
{
  return (double) g_get_monotonic_time () / G_USEC_PER_SEC;
}

static int
compare (const void *a, const void *b)
{
  double left = *(const double *) a, right = *(const double *) b;
  return (left > right) - (left < right);
}

double
median (double *seconds, int n)
{
  qsort (seconds, (size_t) n, sizeof *seconds, compare);
  return seconds[n / 2];
}

/* Reads n floats; vectorised for the processor, so that memory is the limit and not the addition. */
CPU_CLONES static float
read_block (const float *data, gsize n)
{
  float sum[64] = { 0 }, total = 0;
  for (gsize i = 0; i < n; i += 64)
    for (int j = 0; j < 64; j++)
      sum[j] += data[i + j];
  for (int j = 0; j < 64; j++)
    total += sum[j];
  return total;
}

double
measure_read_bandwidth (void)
{
  const gsize block = 1 << 16, blocks = 1 << 12; /* floats: 1 GiB, beyond any cache */
  float *data = g_malloc (block * blocks * sizeof *data), sink = 0;
  double best = 0;
#pragma omp parallel for schedule(static)
  for (gsize i = 0; i < block * blocks; i++)
    data[i] = 1;
  for (int round = 0; round < 5; round++)
    {
      double start = now_seconds ();
#pragma omp parallel for schedule(static) reduction(+ : sink)
      for (gsize i = 0; i < blocks; i++)
        sink += read_block (data + i * block, block);
      best = MAX (best, (double) (block * blocks) * sizeof *data / (now_seconds () - start));
    }
  g_free (data);
  return sink > 0 ? best : 0;
}
