/* SPDX-License-Identifier: Apache-2.0 */

/* Training against plain products: bench-train SHAPE [SEQUENCES LENGTH]. The limit is the time that oneDNN's
 * matrix product takes for the products of one step, alone and on the same shapes: forward, gradient by
 * inputs, gradient by weights. The head's recomputation, attention, elementwise work and AdamW are the
 * engine's own cost. */

#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/train/trainer.h"
#include "tests/bench/shapes.h"

#define ROUNDS 7

typedef struct
{
  dnnl_engine_t engine;
  dnnl_stream_t stream;
} Library;

/* Seconds of one plain product (m, k) x (k, n), median of ROUNDS. */
static double
time_product (Library *lib, int m, int n, int k, enum dev_type type, gboolean a_transposed,
              gboolean b_transposed, gboolean float_result)
{
  dnnl_data_type_t data = type == DEV_BF16 ? dnnl_bf16 : dnnl_f32;
  dnnl_data_type_t result = float_result ? dnnl_f32 : data;
  dnnl_dims_t a_dims = { m, k }, b_dims = { k, n }, c_dims = { m, n };
  dnnl_dims_t a_strides = { a_transposed ? 1 : k, a_transposed ? m : 1 };
  dnnl_dims_t b_strides = { b_transposed ? 1 : n, b_transposed ? k : 1 }, c_strides = { n, 1 };
  dnnl_memory_desc_t a, b, c;
  dnnl_matmul_desc_t op;
  dnnl_primitive_desc_t pd = NULL;
  dnnl_primitive_t primitive = NULL;
  dnnl_memory_t memory[3];
  dnnl_memory_desc_init_by_strides (&a, 2, a_dims, data, a_strides);
  dnnl_memory_desc_init_by_strides (&b, 2, b_dims, data, b_strides);
  dnnl_memory_desc_init_by_strides (&c, 2, c_dims, result, c_strides);
  dnnl_matmul_desc_init (&op, &a, &b, NULL, &c);
  if (dnnl_primitive_desc_create (&pd, &op, NULL, lib->engine, NULL)
      || dnnl_primitive_create (&primitive, pd))
    return 0;
  dnnl_memory_create (&memory[0], &a, lib->engine, DNNL_MEMORY_ALLOCATE);
  dnnl_memory_create (&memory[1], &b, lib->engine, DNNL_MEMORY_ALLOCATE);
  dnnl_memory_create (&memory[2], &c, lib->engine, DNNL_MEMORY_ALLOCATE);
  dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, memory[0] }, { DNNL_ARG_WEIGHTS, memory[1] },
                             { DNNL_ARG_DST, memory[2] } };
  double seconds[ROUNDS];
  for (int round = -1; round < ROUNDS; round++)
    {
      double start = now_seconds ();
      dnnl_primitive_execute (primitive, lib->stream, 3, args);
      dnnl_stream_wait (lib->stream);
      if (round >= 0)
        seconds[round] = now_seconds () - start;
    }
  for (int i = 0; i < 3; i++)
    dnnl_memory_destroy (memory[i]);
  dnnl_primitive_destroy (primitive);
  dnnl_primitive_desc_destroy (pd);
  return median (seconds, ROUNDS);
}

/* Forward, dx and dw of a linear layer over t tokens. */
static double
time_layer (Library *lib, const Shape *s, int t, int rows, int cols)
{
  return time_product (lib, t, rows, cols, s->type, FALSE, TRUE, FALSE)
         + time_product (lib, t, cols, rows, s->type, FALSE, FALSE, FALSE)
         + time_product (lib, rows, cols, t, s->type, TRUE, FALSE, TRUE);
}

static double
time_products (const Shape *s, int t)
{
  Library lib;
  dnnl_engine_create (&lib.engine, dnnl_cpu, 0);
  dnnl_stream_create (&lib.stream, lib.engine, dnnl_stream_default_flags);
  int head_size = s->width / s->heads, qkv = (s->heads + 2 * s->groups) * head_size, chunk = MIN (t, 1024);
  double layer = time_layer (&lib, s, t, qkv, s->width) + time_layer (&lib, s, t, s->width, s->width)
                 + time_layer (&lib, s, t, 2 * s->mlp, s->width) + time_layer (&lib, s, t, s->width, s->mlp);
  double head = time_layer (&lib, s, chunk, s->vocabulary, s->width) * t / chunk;
  dnnl_stream_destroy (lib.stream);
  dnnl_engine_destroy (lib.engine);
  return s->layers * layer + head;
}

static double
step_operations (const Shape *s, int t)
{
  int head_size = s->width / s->heads, qkv = (s->heads + 2 * s->groups) * head_size;
  double layer = (double) s->width * (qkv + s->width + 3.0 * s->mlp);
  return 6.0 * t * (s->layers * layer + (double) s->vocabulary * s->width);
}

static struct plumb_experience *
make_batch (const Shape *s, int sequences, int length)
{
  struct plumb_experience *e = plumb_experience_new (sequences, sequences * length);
  GRand *random = g_rand_new_with_seed (1);
  for (int i = 0; i < sequences; i++)
    {
      e->offsets[i + 1] = (i + 1) * length;
      for (int t = 0; t < length; t++)
        {
          e->ids[i * length + t] = g_rand_int_range (random, 0, s->vocabulary);
          e->mask[i * length + t] = t > 0;
        }
    }
  g_rand_free (random);
  return e;
}

int
main (int argc, char **argv)
{
  const Shape *s = shape_find (argc > 1 ? argv[1] : "1.5M");
  int sequences = argc > 2 ? atoi (argv[2]) : s->type == DEV_BF16 ? 4 : 64;
  int length = argc > 3 ? atoi (argv[3]) : s->type == DEV_BF16 ? 256 : 64;
  int t = sequences * length, rounds = s->type == DEV_BF16 ? 3 : 15;
  PlumbDevice *device;
  g_autoptr (GError) error = NULL;
  PlumbModel *model = shape_open (s, &device);
  PlumbTrainerOptions options = { 0.9, 0.95, 1e-8, 0.01, 1.0 };
  PlumbTrainer *trainer = plumb_trainer_new (model, &options, t, &error);
  struct plumb_experience *e = make_batch (s, sequences, length);
  PlumbLossSpec loss = { .id = PLUMB_LOSS_SFT, .temperature = 1 };
  double seconds[16], update[16];
  g_autofree int *all = g_new (int, sequences);
  for (int i = 0; i < sequences; i++)
    all[i] = i;
  plumb_denominators_add (&loss.denominators, e->sequences, e->offsets, e->mask);
  for (int round = -1; round < rounds; round++)
    {
      struct plumb_loss_statistics statistics = { 0 };
      PlumbStepResult result;
      double norm, start = now_seconds (), middle;
      if (!trainer || !plumb_trainer_accumulate (trainer, e, all, sequences, &loss, &statistics, &error))
        g_error ("%s", error->message);
      middle = now_seconds ();
      if (!plumb_trainer_step (trainer, 1e-4, &result, &norm, &error))
        g_error ("%s", error->message);
      if (round < 0)
        continue;
      seconds[round] = now_seconds () - start;
      update[round] = now_seconds () - middle;
    }
  double step = median (seconds, rounds), products = time_products (s, t), ops = step_operations (s, t);
  printf ("train %s %s, %d sequences of %d: %.1f ms a step (update %.1f ms), %.0f tokens/s\n", s->name,
          s->type == DEV_BF16 ? "bf16" : "fp32", sequences, length, step * 1e3, median (update, rounds) * 1e3,
          t / step);
  printf ("  %.1f GFLOP/s; plain products alone %.1f ms, %.1f GFLOP/s: %.0f %% of the limit\n", ops / step / 1e9,
          products * 1e3, ops / products / 1e9, 100 * products / step);
  plumb_experience_free (e);
  plumb_trainer_free (trainer);
  plumb_model_free (model);
  plumb_device_close (device);
  return 0;
}
