/* SPDX-License-Identifier: Apache-2.0 */

/* Each op of a block at the sizes of training (8 x 1024 tokens) and of decoding, against the limit of its kind:
 * products and attention against the rate of products, the rest against the bandwidth. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>

#include "engine/bench/bench.h"
#include "kernels/cpu/vector.h"

#define ROUNDS 10
#define PAGE 64

/* Memory cut from one arena that random values filled before, and what the ops need beside. */
typedef struct
{
  PlumbBench *bench;
  const struct dev_ops *ops;
  struct dev_context *context;
  enum dev_type type;
  PlumbCutter cutter;
  gsize capacity;
} Bench;

/* A part of the arena; the parts of one op do not overlap, those of the next start again. */
static void *
part (Bench *b, gsize bytes)
{
  if (b->cutter.used + dev_align (bytes) > b->capacity)
    g_error ("the memory of bench ops is too small");
  return plumb_cut (&b->cutter, bytes);
}

static void *
typed_part (Bench *b, gsize elements)
{
  return part (b, elements * dev_type_size (b->type));
}

/* Prints one line from the time of ROUNDS calls. */
static void
report (Bench *b, const char *name, double seconds, double operations, double bytes)
{
  double each = seconds / ROUNDS;
  if (operations > 0)
    g_print ("  %-34s %9.1f us %8.1f TFLOP/s %5.0f %%\n", name, each * 1e6, operations / each / 1e12,
             100 * operations / each / b->bench->limits.products);
  else
    g_print ("  %-34s %9.1f us %8.1f GB/s    %5.0f %%\n", name, each * 1e6, bytes / each / 1e9,
             100 * bytes / each / b->bench->limits.bandwidth);
}

/* Times a call that ends with a semicolon. */
#define TIME(b, name, operations, bytes, call)                                       \
  do                                                                                 \
    {                                                                                \
      call;                                                                          \
      (b)->ops->status ((b)->context, NULL, 0);                                      \
      double started = plumb_bench_now ();                                           \
      for (int round = 0; round < ROUNDS; round++)                                   \
        call;                                                                        \
      (b)->ops->status ((b)->context, NULL, 0);                                      \
      report (b, name, plumb_bench_now () - started, operations, bytes);             \
      (b)->cutter.used = 0;                                                          \
    }                                                                                \
  while (0)

static void
bench_products (Bench *b, int t, gboolean backward)
{
  const PlumbModelConfig *c = b->bench->model->config;
  int qkv = (c->heads + 2 * c->groups) * c->head_size;
  struct
  {
    const char *name;
    int rows, cols;
  } layers[] = { { "qkv", qkv, c->width },
                 { "o", c->width, c->heads * c->head_size },
                 { "gate-up", 2 * c->mlp, c->width },
                 { "down", c->width, c->mlp } };
  for (gsize i = 0; i < G_N_ELEMENTS (layers); i++)
    {
      int rows = layers[i].rows, cols = layers[i].cols;
      double operations = 2.0 * t * rows * cols, bytes = (double) rows * cols * dev_type_size (b->type);
      gboolean by_bytes = t < 64;
      g_autofree char *name = g_strdup_printf ("%s, %d rows", layers[i].name, t);
      struct dev_matrix w = { typed_part (b, (gsize) rows * cols), NULL, rows, cols };
      void *x = typed_part (b, (gsize) t * cols), *y = typed_part (b, (gsize) t * rows);
      TIME (b, name, by_bytes ? 0 : operations, bytes, b->ops->linear_forward (b->context, y, x, &w, t, b->type));
      if (!backward)
        continue;
      g_autofree char *dx_name = g_strdup_printf ("%s, dx", layers[i].name);
      g_autofree char *dw_name = g_strdup_printf ("%s, dw", layers[i].name);
      w.data = typed_part (b, (gsize) rows * cols);
      x = typed_part (b, (gsize) t * cols);
      y = typed_part (b, (gsize) t * rows);
      void *dx = typed_part (b, (gsize) t * cols);
      TIME (b, dx_name, operations, 0, b->ops->linear_backward (b->context, dx, NULL, TRUE, y, x, &w, t, b->type));
      x = typed_part (b, (gsize) t * cols);
      y = typed_part (b, (gsize) t * rows);
      float *dw = part (b, (gsize) rows * cols * sizeof (float));
      TIME (b, dw_name, operations, 0, b->ops->linear_backward (b->context, NULL, dw, FALSE, y, x, &w, t, b->type));
    }
}

static void
upload_integers (Bench *b, const gint32 *to, const gint32 *from, int n)
{
  b->ops->upload (b->context, (gint32 *) to, from, (gsize) n * sizeof (gint32));
}

/* Sequences of `length` tokens, whole, or their last token over pages. */
static struct dev_batch
make_batch (Bench *b, int sequences, int length, gboolean decode)
{
  int tokens = decode ? sequences : sequences * length, stride = (length + PAGE - 1) / PAGE;
  g_autofree gint32 *positions = g_new (gint32, tokens), *offsets = g_new (gint32, sequences + 1);
  g_autofree gint32 *contexts = g_new (gint32, sequences), *slots = g_new (gint32, tokens);
  g_autofree gint32 *pages = g_new (gint32, sequences * stride);
  for (int s = 0; s <= sequences; s++)
    offsets[s] = decode ? s : s * length;
  for (int s = 0; s < sequences; s++)
    contexts[s] = length;
  for (int t = 0; t < tokens; t++)
    {
      positions[t] = decode ? length - 1 : t % length;
      slots[t] = decode ? t * stride * PAGE + length - 1 : t;
    }
  for (int i = 0; i < sequences * stride; i++)
    pages[i] = i;
  struct dev_batch batch = { .tokens = tokens, .sequences = sequences, .max_context = length };
  batch.positions = part (b, tokens * sizeof (gint32));
  batch.query_offsets = part (b, (sequences + 1) * sizeof (gint32));
  batch.contexts = part (b, sequences * sizeof (gint32));
  upload_integers (b, batch.positions, positions, tokens);
  upload_integers (b, batch.query_offsets, offsets, sequences + 1);
  upload_integers (b, batch.contexts, contexts, sequences);
  if (!decode)
    return batch;
  batch.slots = part (b, tokens * sizeof (gint32));
  batch.block_table = part (b, (gsize) sequences * stride * sizeof (gint32));
  batch.table_stride = stride;
  batch.page_tokens = PAGE;
  upload_integers (b, batch.slots, slots, tokens);
  upload_integers (b, batch.block_table, pages, sequences * stride);
  return batch;
}

static struct dev_attention
attention_shape (const PlumbModelConfig *c)
{
  return (struct dev_attention){ c->heads, c->groups, c->head_size, 0, 1.0f / sqrtf ((float) c->head_size) };
}

static void
bench_attention (Bench *b, int sequences, int length)
{
  const PlumbModelConfig *c = b->bench->model->config;
  struct dev_attention shape = attention_shape (c);
  gsize t = (gsize) sequences * length, q_count = t * c->heads * c->head_size, kv_count = t * c->groups * c->head_size;
  double operations = 2.0 * c->heads * c->head_size * length * (length + 1.0) * sequences;
  for (int backward = 0; backward < 2; backward++)
    {
      struct dev_batch batch = make_batch (b, sequences, length, FALSE);
      struct dev_kv kv = { typed_part (b, kv_count), typed_part (b, kv_count) };
      void *q = typed_part (b, q_count), *out = typed_part (b, q_count), *dout = typed_part (b, q_count);
      void *dq = typed_part (b, q_count), *dk = typed_part (b, kv_count), *dv = typed_part (b, kv_count);
      float *lse = part (b, t * c->heads * sizeof (float));
      b->ops->attention_forward (b->context, out, lse, q, &kv, &shape, &batch, b->type);
      if (backward)
        TIME (b, "attention backward", 2.5 * operations, 0,
              b->ops->attention_backward (b->context, dq, dk, dv, dout, out, lse, q, &kv, &shape, &batch, b->type));
      else
        TIME (b, "attention forward", operations, 0,
              b->ops->attention_forward (b->context, out, lse, q, &kv, &shape, &batch, b->type));
    }
}

static void
bench_decode_attention (Bench *b, int sequences, int length)
{
  const PlumbModelConfig *c = b->bench->model->config;
  struct dev_attention shape = attention_shape (c);
  struct dev_batch batch = make_batch (b, sequences, length, TRUE);
  gsize rows = (gsize) sequences * batch.table_stride * PAGE, kv_count = rows * c->groups * c->head_size;
  gsize q_count = (gsize) sequences * c->heads * c->head_size;
  struct dev_kv kv = { typed_part (b, kv_count), typed_part (b, kv_count) };
  void *q = typed_part (b, q_count), *out = typed_part (b, q_count);
  double bytes = 2.0 * sequences * length * c->groups * c->head_size * dev_type_size (b->type);
  g_autofree char *name = g_strdup_printf ("attention decode, %d x %d", sequences, length);
  TIME (b, name, 0, bytes, b->ops->attention_forward (b->context, out, NULL, q, &kv, &shape, &batch, b->type));
}

static void
bench_rows (Bench *b, int t)
{
  const PlumbModelConfig *c = b->bench->model->config;
  PlumbModel *m = b->bench->model;
  gsize size = dev_type_size (b->type), n = (gsize) t * c->width, f = (gsize) t * c->mlp;
  float *sum = part (b, n * 4), *x = part (b, n * 4), *rstd = part (b, t * 4), *dw = part (b, c->width * 4);
  void *out = typed_part (b, n), *delta = typed_part (b, n);
  TIME (b, "add + norm", 0, (double) n * (8 + 2 * size),
        b->ops->add_norm_forward (b->context, sum, out, rstd, x, delta, m->final_norm, 1e-5f, t, c->width, b->type));
  sum = part (b, n * 4);
  x = part (b, n * 4);
  rstd = part (b, t * 4);
  dw = part (b, c->width * 4);
  out = typed_part (b, n);
  delta = typed_part (b, n);
  TIME (b, "add + norm, backward", 0, (double) n * (12 + 2 * size),
        b->ops->add_norm_backward (b->context, x, out, dw, delta, sum, rstd, m->final_norm, t, c->width, b->type));
  void *gate_up = typed_part (b, 2 * f), *act = typed_part (b, f), *dgate_up = typed_part (b, 2 * f);
  TIME (b, "swiglu", 0, 3.0 * f * size, b->ops->swiglu_forward (b->context, act, gate_up, t, c->mlp, b->type));
  gate_up = typed_part (b, 2 * f);
  act = typed_part (b, f);
  dgate_up = typed_part (b, 2 * f);
  TIME (b, "swiglu, backward", 0, 5.0 * f * size,
        b->ops->swiglu_backward (b->context, dgate_up, act, gate_up, t, c->mlp, b->type));
}

static void
bench_qkv (Bench *b, int sequences, int length)
{
  const PlumbModelConfig *c = b->bench->model->config;
  PlumbModel *m = b->bench->model;
  const PlumbBlock *w = &m->blocks[0];
  struct dev_qkv qkv = { w->qkv_bias, w->q_norm, w->k_norm, 1e-6f, m->rope_cos, m->rope_sin };
  struct dev_attention shape = attention_shape (c);
  gsize t = (gsize) sequences * length, q_count = t * c->heads * c->head_size, kv_count = t * c->groups * c->head_size;
  double bytes = 2.0 * (q_count + 2 * kv_count) * dev_type_size (b->type);
  for (int backward = 0; backward < 2; backward++)
    {
      struct dev_batch batch = make_batch (b, sequences, length, FALSE);
      struct dev_kv kv = { typed_part (b, kv_count), typed_part (b, kv_count) };
      void *q = typed_part (b, q_count), *raw = typed_part (b, q_count + 2 * kv_count);
      float *sums = part (b, (q_count + 2 * kv_count) / t * sizeof (float));
      if (backward)
        TIME (b, "qkv, backward", 0, bytes,
              b->ops->qkv_backward (b->context, raw, sums, NULL, NULL, q, kv.k, kv.v, raw, &qkv, &shape, &batch,
                                    b->type));
      else
        TIME (b, "bias, rope, write keys", 0, bytes,
              b->ops->qkv_forward (b->context, q, &kv, raw, &qkv, &shape, &batch, b->type));
    }
}

/* Ids and other small things that the head takes. */
static void
bench_head (Bench *b, int n, gboolean sample)
{
  const PlumbModelConfig *c = b->bench->model->config;
  const struct dev_matrix *w = &b->bench->model->head;
  void *h = typed_part (b, (gsize) n * c->width), *dh = typed_part (b, (gsize) n * c->width);
  float *statistics = part (b, (gsize) 5 * n * sizeof (float));
  gint32 *targets = part (b, n * sizeof (gint32));
  struct dev_random *random = part (b, n * sizeof *random);
  float *dw = part (b, (gsize) w->rows * w->cols * sizeof (float));
  PlumbCutter kept = b->cutter;
  double operations = 2.0 * n * w->rows * w->cols;
  g_autofree char *name = g_strdup_printf ("head %s, %d rows", sample ? "sample" : "log-probs", n);
  b->ops->zero (b->context, targets, n * sizeof (gint32));
  b->ops->zero (b->context, statistics, (gsize) 5 * n * sizeof (float));
  if (sample)
    {
      struct dev_sampling sampling = { .temperature = 1, .seed = 1, .random = random };
      TIME (b, name, operations, 0,
            b->ops->head_sample (b->context, targets, statistics, h, w, &sampling, n, b->type));
      return;
    }
  TIME (b, name, operations, 0,
        b->ops->head_forward (b->context, statistics, statistics + n, statistics + 2 * n, h, w, targets, 1, n, b->type));
  b->cutter = kept;
  TIME (b, "head, backward", 3 * operations, 0,
        b->ops->head_backward (b->context, dh, dw, FALSE, statistics + 3 * n, statistics + 4 * n, statistics + n,
                               statistics + 2 * n, h, w, targets, 1, n, b->type));
}

static void
bench_update (Bench *b)
{
  gsize n = (gsize) 64 << 20;
  struct dev_adamw a = { 1e-5f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 0.05f, 1 };
  float *state[4];
  void *weights = typed_part (b, n);
  for (int i = 0; i < 4; i++)
    state[i] = part (b, n * sizeof (float));
  for (int i = 1; i < 4; i++)
    b->ops->zero (b->context, state[i], n * sizeof (float));
  gboolean master = b->type == DEV_BF16;
  TIME (b, "adamw, 64 M weights", 0, (double) n * (master ? 30 : 28),
        b->ops->adamw (b->context, weights, master ? state[0] : NULL, state[1], state[2], state[3], n, &a, b->type));
  float *x = part (b, n * sizeof (float));
  double *out = part (b, sizeof *out);
  TIME (b, "sum of squares, 64 M", 0, (double) n * 4, b->ops->square_sum (b->context, out, x, n));
}

/* Fills the arena with random values of the type. */
static void
fill (Bench *b)
{
  gsize piece = (gsize) 1 << 22, size = dev_type_size (b->type);
  g_autofree float *values = g_new (float, piece);
  g_autofree char *typed = g_malloc (piece * size);
  GRand *random = g_rand_new_with_seed (4);
  for (gsize i = 0; i < piece; i++)
    values[i] = (float) g_rand_double_range (random, -1, 1);
  g_rand_free (random);
  cpu_row_store (typed, values, piece, b->type);
  for (gsize done = 0; done < b->capacity; done += piece * size)
    b->ops->upload (b->context, b->cutter.base + done, typed, MIN (piece * size, b->capacity - done));
}

gboolean
plumb_bench_ops (const PlumbBenchOptions *o, GError **error)
{
  g_auto (PlumbBench) bench = { 0 };
  int sequences = o->sequences, length = o->length, t = sequences * length;
  if (!plumb_bench_open (&bench, o, MAX (length, 1024), error))
    return FALSE;
  const PlumbModelConfig *c = bench.model->config;
  gsize capacity = (gsize) 1536 << 20, head = (gsize) c->vocabulary * c->width * 4 + ((gsize) t * c->width * 8);
  capacity = MAX (capacity, head + ((gsize) 64 << 20));
  capacity = MAX (capacity, (gsize) t * c->mlp * 24);
  capacity = MAX (capacity, (gsize) 512 * o->requests * c->groups * c->head_size * 12);
  struct dev_arena *arena = plumb_device_allocate (bench.device, capacity, "bench ops", error);
  if (!arena)
    return FALSE;
  Bench b = { &bench, bench.device->ops, bench.device->context, o->type, { NULL, 0 }, capacity };
  b.cutter.base = b.ops->arena_base (arena);
  fill (&b);
  bench_products (&b, t, TRUE);
  bench_products (&b, o->requests, FALSE);
  bench_products (&b, 1, FALSE);
  bench_attention (&b, sequences, length);
  bench_decode_attention (&b, o->requests, 512);
  bench_decode_attention (&b, 1, 512);
  bench_qkv (&b, sequences, length);
  bench_rows (&b, t);
  bench_rows (&b, o->requests);
  bench_head (&b, t, FALSE);
  bench_head (&b, o->requests, TRUE);
  bench_head (&b, 1, TRUE);
  bench_update (&b);
  b.ops->arena_free (arena);
  return plumb_device_check (bench.device, error);
}
