/* SPDX-License-Identifier: Apache-2.0 */

/* Every op of a backend against the plain reference, on random and odd shapes in both types; gradients against
 * finite differences; rows against the number of rows. Outputs are poisoned with NaN first. */

#include "config.h"

#include <glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/algo/sampling.h"
#include "engine/model/device.h"
#include "kernels/cpu/vector.h"
#include "kernels/e4m3.h"
#include "tests/unit/mirror.h"

#define WORKSPACE (64 << 20)
#define TILE DEV_KEY_TILE

/* What is tested: the CPU's ops, or a GPU's in one of its modes. Without `exact`, a row may depend on how many rows its
 * call has. */
typedef struct
{
  const char *name;
  gboolean gpu, exact;
} Backend;

static const Backend backends[] = {
  { "cpu", FALSE, TRUE },
  { "cuda-deterministic", TRUE, TRUE },
  { "cuda-fast", TRUE, FALSE },
};

static const Backend *backend = &backends[0];

typedef struct
{
  const struct dev_ops *ops, *reference;
  struct dev_context *context;
  GRand *random;
  GPtrArray *memory;
  enum dev_type type;
} Fixture;

static void
fixture_init (Fixture *f, guint32 seed, enum dev_type type)
{
  char message[256];
  f->reference = dev_reference ();
  if (backend->gpu)
    {
      const struct dev_ops *cuda = plumb_device_backend ("cuda", NULL);
      f->ops = mirror_open (cuda, WORKSPACE, backend->exact, &f->context, message, sizeof message);
      g_assert_nonnull (f->ops);
    }
  else
    {
      f->ops = dev_cpu ();
      g_assert_cmpint (f->ops->open (0, WORKSPACE, &f->context, message, sizeof message), ==, DEV_OK);
    }
  f->random = g_rand_new_with_seed (seed);
  f->memory = g_ptr_array_new_with_free_func (free);
  f->type = type;
}

static void
fixture_clear (Fixture *f)
{
  char message[256] = "";
  int status = f->ops->status (f->context, message, sizeof message);
  g_assert_cmpstr (message, ==, "");
  g_assert_cmpint (status, ==, DEV_OK);
  if (backend->gpu)
    mirror_close (f->context);
  else
    f->ops->close (f->context);
  g_rand_free (f->random);
  g_ptr_array_unref (f->memory);
}

static void *
take (Fixture *f, size_t bytes)
{
  if (backend->gpu)
    return memset (mirror_take (bytes), 0xff, bytes);
  void *memory = aligned_alloc (64, (bytes + 63) / 64 * 64 + 64);
  memset (memory, 0xff, (bytes + 63) / 64 * 64 + 64); /* NaN in both types */
  g_ptr_array_add (f->memory, memory);
  return memory;
}

static void *
output (Fixture *f, size_t n)
{
  return take (f, n * dev_type_size (f->type));
}

static float *
zeros (Fixture *f, size_t n)
{
  float *x = take (f, n * sizeof *x);
  memset (x, 0, n * sizeof *x);
  return x;
}

static float *
random_floats (Fixture *f, size_t n, double scale)
{
  float *x = take (f, n * sizeof *x);
  for (size_t i = 0; i < n; i++)
    x[i] = (float) g_rand_double_range (f->random, -scale, scale);
  return x;
}

static void *
random_typed (Fixture *f, size_t n, double scale)
{
  void *x = output (f, n);
  cpu_row_store (x, random_floats (f, n, scale), n, f->type);
  return x;
}

static double
at (const void *x, size_t i, enum dev_type type)
{
  return type == DEV_BF16 ? bf16_to_float (((const bf16 *) x)[i]) : ((const float *) x)[i];
}

static double
bound (const Fixture *f)
{
  return f->type == DEV_BF16 ? 8e-3 : 2e-6;
}

/* Relative L2 distance of n elements; a NaN fails. */
static void
assert_near (const char *what, const void *have, const void *want, size_t n, enum dev_type type, double limit)
{
  double difference = 0, size = 0;
  for (size_t i = 0; i < n; i++)
    {
      double a = at (have, i, type), b = at (want, i, type);
      difference += (a - b) * (a - b);
      size += b * b;
    }
  double distance = sqrt (difference / (size > 0 ? size : 1));
  if (!(distance <= limit))
    g_error ("%s: relative distance %g exceeds %g", what, distance, limit);
}

/* Equal bits, or near values where the backend does not promise equal bits. */
static void
assert_same (Fixture *f, const char *what, const void *have, const void *want, size_t n)
{
  if (!backend->exact)
    assert_near (what, have, want, n, f->type, bound (f));
  else if (memcmp (have, want, n * dev_type_size (f->type)) != 0)
    {
      size_t i = 0;
      while (at (have, i, f->type) == at (want, i, f->type))
        i++;
      g_error ("%s: element %zu of %zu is %.9g where %.9g is wanted", what, i, n, at (have, i, f->type),
               at (want, i, f->type));
    }
}

static int
pick (Fixture *f, int low, int high)
{
  return g_rand_int_range (f->random, low, high + 1);
}

static void
check_linear (Fixture *f)
{
  int t = pick (f, 1, 90), rows = pick (f, 1, 150), cols = pick (f, 1, 150);
  struct dev_matrix w = { random_typed (f, (size_t) rows * cols, 1), NULL, rows, cols };
  void *x = random_typed (f, (size_t) t * cols, 1), *dy = random_typed (f, (size_t) t * rows, 1);
  void *y = output (f, (size_t) t * rows), *want_y = output (f, (size_t) t * rows);
  void *dx = output (f, (size_t) t * cols), *want_dx = output (f, (size_t) t * cols);
  float *dw = take (f, (size_t) rows * cols * 4), *want_dw = take (f, (size_t) rows * cols * 4);
  f->ops->linear_forward (f->context, y, x, &w, t, f->type);
  f->reference->linear_forward (f->context, want_y, x, &w, t, f->type);
  assert_near ("linear_forward", y, want_y, (size_t) t * rows, f->type, bound (f));
  for (int twice = 0; twice < 2; twice++)
    {
      f->ops->linear_backward (f->context, dx, dw, twice, dy, x, &w, t, f->type);
      f->reference->linear_backward (f->context, want_dx, want_dw, twice, dy, x, &w, t, f->type);
    }
  assert_near ("linear_backward dx", dx, want_dx, (size_t) t * cols, f->type, bound (f));
  assert_near ("linear_backward dw", dw, want_dw, (size_t) rows * cols, DEV_F32, bound (f));
  size_t bytes = f->ops->pack_size (f->context, rows, cols, f->type);
  if (bytes == 0)
    return;
  void *packed = take (f, bytes), *again = output (f, (size_t) t * rows);
  f->ops->pack (f->context, packed, w.data, rows, cols, f->type);
  w.packed = packed;
  f->ops->linear_forward (f->context, again, x, &w, t, f->type);
  assert_same (f, "linear_forward packed", again, y, (size_t) t * rows);
}

static void
check_norm (Fixture *f)
{
  int t = pick (f, 1, 40), width = pick (f, 1, 200);
  size_t n = (size_t) t * width;
  float *x = random_floats (f, n, 2), *sum = take (f, n * 4), *want_sum = take (f, n * 4);
  float *rstd = take (f, t * 4), *want_rstd = take (f, t * 4);
  void *delta = pick (f, 0, 1) ? random_typed (f, n, 1) : NULL, *weight = random_typed (f, width, 1);
  void *out = output (f, n), *want = output (f, n);
  f->ops->add_norm_forward (f->context, sum, out, rstd, x, delta, weight, 1e-5f, t, width, f->type);
  f->reference->add_norm_forward (f->context, want_sum, want, want_rstd, x, delta, weight, 1e-5f, t, width,
                                  f->type);
  assert_near ("add_norm sum", sum, want_sum, n, DEV_F32, 1e-6);
  assert_near ("add_norm rstd", rstd, want_rstd, t, DEV_F32, 1e-6);
  assert_near ("add_norm out", out, want, n, f->type, bound (f));
  float *dx = random_floats (f, n, 1), *want_dx = take (f, n * 4);
  float *dw = zeros (f, width), *want_dw = zeros (f, width);
  void *typed = output (f, n), *want_typed = output (f, n), *dout = random_typed (f, n, 1);
  memcpy (want_dx, dx, n * 4);
  f->ops->add_norm_backward (f->context, dx, typed, dw, dout, sum, rstd, weight, t, width, f->type);
  f->reference->add_norm_backward (f->context, want_dx, want_typed, want_dw, dout, sum, rstd, weight, t,
                                   width, f->type);
  assert_near ("add_norm dx", dx, want_dx, n, DEV_F32, 2e-6);
  assert_near ("add_norm dx typed", typed, want_typed, n, f->type, bound (f));
  assert_near ("add_norm dweight", dw, want_dw, width, DEV_F32, 5e-6);
}

static void
check_swiglu (Fixture *f)
{
  int t = pick (f, 1, 40), width = pick (f, 1, 200);
  size_t n = (size_t) t * width;
  void *gate_up = random_typed (f, 2 * n, 9), *dact = random_typed (f, n, 1);
  void *act = output (f, n), *want = output (f, n), *d = output (f, 2 * n), *want_d = output (f, 2 * n);
  f->ops->swiglu_forward (f->context, act, gate_up, t, width, f->type);
  f->reference->swiglu_forward (f->context, want, gate_up, t, width, f->type);
  assert_near ("swiglu_forward", act, want, n, f->type, bound (f));
  f->ops->swiglu_backward (f->context, d, dact, gate_up, t, width, f->type);
  f->reference->swiglu_backward (f->context, want_d, dact, gate_up, t, width, f->type);
  assert_near ("swiglu_backward", d, want_d, 2 * n, f->type, bound (f));
}

static void
check_embed (Fixture *f)
{
  int t = pick (f, 1, 60), width = pick (f, 1, 90), vocabulary = pick (f, 1, 30);
  void *table = random_typed (f, (size_t) vocabulary * width, 1);
  float *x = take (f, (size_t) t * width * 4), *want = take (f, (size_t) t * width * 4);
  float *d = zeros (f, (size_t) vocabulary * width), *want_d = zeros (f, (size_t) vocabulary * width);
  int32_t *ids = take (f, t * 4);
  for (int i = 0; i < t; i++)
    ids[i] = pick (f, 0, vocabulary - 1);
  f->ops->embed_forward (f->context, x, table, ids, t, width, f->type);
  f->reference->embed_forward (f->context, want, table, ids, t, width, f->type);
  g_assert_cmpmem (x, (size_t) t * width * 4, want, (size_t) t * width * 4);
  int fixed = pick (f, -1, 0);
  f->ops->embed_backward (f->context, d, x, ids, t, width, fixed);
  f->reference->embed_backward (f->context, want_d, x, ids, t, width, fixed);
  assert_near ("embed_backward", d, want_d, (size_t) vocabulary * width, DEV_F32, 1e-6);
}

/* A ragged batch with its attention layer: contiguous, or with pages dealt out at random. */
typedef struct
{
  struct dev_attention shape;
  struct dev_qkv qkv;
  struct dev_batch batch;
  struct dev_kv kv;
  void *raw, *q;
  size_t q_count, kv_count, raw_count;
} Layer;

static void
make_rope (Fixture *f, Layer *layer, int positions)
{
  int half = layer->shape.head_size / 2;
  float *cosine = take (f, (size_t) positions * half * 4), *sine = take (f, (size_t) positions * half * 4);
  for (int p = 0; p < positions; p++)
    for (int i = 0; i < half; i++)
      {
        double angle = p * pow (10000, -2.0 * i / layer->shape.head_size);
        cosine[p * half + i] = (float) cos (angle);
        sine[p * half + i] = (float) sin (angle);
      }
  layer->qkv.rope_cos = cosine;
  layer->qkv.rope_sin = sine;
}

static void
make_layer_of (Fixture *f, Layer *layer, int size, int longest)
{
  int groups = pick (f, 1, 3), heads = groups * pick (f, 1, 3);
  int sequences = pick (f, 1, 5), tokens = 0;
  memset (layer, 0, sizeof *layer);
  layer->shape = (struct dev_attention){ heads, groups, size, pick (f, 0, 1) ? pick (f, 1, longest * 2 / 5) : 0,
                                         1.0f / sqrtf ((float) size), pick (f, 0, 3) ? 0 : 1.5f };
  int32_t *offsets = take (f, (sequences + 1) * 4), *contexts = take (f, sequences * 4);
  offsets[0] = 0;
  for (int s = 0; s < sequences; s++)
    {
      contexts[s] = pick (f, 1, longest);
      tokens += contexts[s];
      offsets[s + 1] = tokens;
      layer->batch.max_context = MAX (layer->batch.max_context, contexts[s]);
    }
  int32_t *positions = take (f, tokens * 4);
  for (int s = 0; s < sequences; s++)
    for (int i = 0; i < contexts[s]; i++)
      positions[offsets[s] + i] = i;
  layer->batch.tokens = tokens;
  layer->batch.sequences = sequences;
  layer->batch.positions = positions;
  layer->batch.query_offsets = offsets;
  layer->batch.contexts = contexts;
  layer->q_count = (size_t) tokens * heads * size;
  layer->kv_count = (size_t) tokens * groups * size;
  layer->raw_count = layer->q_count + 2 * layer->kv_count;
  layer->qkv.eps = 1e-5f;
  if (pick (f, 0, 1))
    layer->qkv.bias = random_typed (f, (size_t) (heads + 2 * groups) * size, 1);
  if (pick (f, 0, 1))
    {
      layer->qkv.q_norm = random_typed (f, size, 1);
      layer->qkv.k_norm = random_typed (f, size, 1);
    }
  make_rope (f, layer, layer->batch.max_context);
  layer->raw = random_typed (f, layer->raw_count, 1);
  layer->q = output (f, layer->q_count);
  layer->kv.k = output (f, layer->kv_count);
  layer->kv.v = output (f, layer->kv_count);
}

static void
make_layer (Fixture *f, Layer *layer)
{
  static const int sizes[] = { 2, 8, 10, 16, 64, 80, 128 };
  make_layer_of (f, layer, sizes[pick (f, 0, 6)], 50);
}

static void
check_qkv (Fixture *f)
{
  Layer l;
  make_layer (f, &l);
  struct dev_kv want = { output (f, l.kv_count), output (f, l.kv_count) };
  void *want_q = output (f, l.q_count);
  f->ops->qkv_forward (f->context, l.q, &l.kv, l.raw, &l.qkv, &l.shape, &l.batch, f->type);
  f->reference->qkv_forward (f->context, want_q, &want, l.raw, &l.qkv, &l.shape, &l.batch, f->type);
  assert_near ("qkv q", l.q, want_q, l.q_count, f->type, bound (f));
  assert_near ("qkv k", l.kv.k, want.k, l.kv_count, f->type, bound (f));
  assert_near ("qkv v", l.kv.v, want.v, l.kv_count, f->type, bound (f));
  int width = (l.shape.heads + 2 * l.shape.groups) * l.shape.head_size, size = l.shape.head_size;
  void *dq = random_typed (f, l.q_count, 1), *dk = random_typed (f, l.kv_count, 1);
  void *dv = random_typed (f, l.kv_count, 1), *d = output (f, l.raw_count), *want_d = output (f, l.raw_count);
  float *sums = zeros (f, width + 2 * size), *want_sums = zeros (f, width + 2 * size);
  f->ops->qkv_backward (f->context, d, sums, sums + width, sums + width + size, dq, dk, dv, l.raw, &l.qkv,
                        &l.shape, &l.batch, f->type);
  f->reference->qkv_backward (f->context, want_d, want_sums, want_sums + width, want_sums + width + size, dq,
                              dk, dv, l.raw, &l.qkv, &l.shape, &l.batch, f->type);
  assert_near ("qkv_backward", d, want_d, l.raw_count, f->type, bound (f));
  assert_near ("qkv_backward weights", sums, want_sums, width + 2 * size, DEV_F32, 1e-5);
}

/* A cache of codes: poisoned, for `rows` rows. */
static struct dev_kv
coded_cache (Fixture *f, const Layer *l, int rows)
{
  size_t heads = (size_t) rows * l->shape.groups;
  return (struct dev_kv){ take (f, heads * l->shape.head_size), take (f, heads * l->shape.head_size),
                          take (f, heads * sizeof (float)), take (f, heads * sizeof (float)) };
}

/* The same keys in pages: equal bits, whatever the page size. */
static void
check_paged (Fixture *f, const Layer *l, const void *contiguous)
{
  int page_tokens = DEV_KEY_TILE * pick (f, 1, 4);
  int stride = (l->batch.max_context + page_tokens - 1) / page_tokens, sequences = l->batch.sequences;
  int pages = sequences * stride;
  size_t row = (size_t) l->shape.groups * l->shape.head_size;
  int32_t *table = take (f, pages * 4), *slots = take (f, l->batch.tokens * 4);
  struct dev_kv kv = l->kv.k_scales ? coded_cache (f, l, pages * page_tokens)
                                    : (struct dev_kv){ output (f, (size_t) pages * page_tokens * row),
                                                       output (f, (size_t) pages * page_tokens * row) };
  void *q = output (f, l->q_count), *out = output (f, l->q_count);
  for (int i = 0; i < pages; i++)
    table[i] = pages - 1 - i;
  for (int s = 0; s < sequences; s++)
    for (int i = l->batch.query_offsets[s]; i < l->batch.query_offsets[s + 1]; i++)
      {
        int j = i - l->batch.query_offsets[s];
        slots[i] = table[s * stride + j / page_tokens] * page_tokens + j % page_tokens;
      }
  struct dev_batch batch = l->batch;
  batch.slots = slots;
  batch.block_table = table;
  batch.table_stride = stride;
  batch.page_tokens = page_tokens;
  f->ops->qkv_forward (f->context, q, &kv, l->raw, &l->qkv, &l->shape, &batch, f->type);
  f->ops->attention_forward (f->context, out, NULL, q, &kv, &l->shape, &batch, f->type);
  assert_same (f, "attention over pages", out, contiguous, l->q_count);
}

/* `rows` rows of cache, the first n those of the layer from `first` on. */
static struct dev_kv
copied_cache (Fixture *f, const Layer *l, int rows, int first, int n)
{
  size_t row = (size_t) l->shape.groups * l->shape.head_size, size = l->kv.k_scales ? 1 : dev_type_size (f->type);
  size_t scales = l->shape.groups * sizeof (float);
  struct dev_kv kv = l->kv.k_scales ? coded_cache (f, l, rows)
                                    : (struct dev_kv){ output (f, rows * row), output (f, rows * row) };
  memcpy (kv.k, (char *) l->kv.k + first * row * size, n * row * size);
  memcpy (kv.v, (char *) l->kv.v + first * row * size, n * row * size);
  if (kv.k_scales)
    {
      memcpy (kv.k_scales, (char *) l->kv.k_scales + first * scales, n * scales);
      memcpy (kv.v_scales, (char *) l->kv.v_scales + first * scales, n * scales);
    }
  return kv;
}

/* The last tokens of each sequence as a call of their own, as a decode step sees them: equal bits. */
static void
check_decode (Fixture *f, const Layer *l, const void *whole)
{
  int heads = l->shape.heads * l->shape.head_size, sequences = l->batch.sequences;
  size_t size = dev_type_size (f->type);
  for (int s = 0; s < sequences; s++)
    for (int last = 1; last <= MIN (3, l->batch.contexts[s]); last++)
      {
        int first = l->batch.query_offsets[s + 1] - last;
        int32_t pages = (l->batch.contexts[s] + TILE - 1) / TILE, *offsets = take (f, 8), *table = take (f, pages * 4);
        void *out = output (f, (size_t) last * heads);
        struct dev_kv kv = copied_cache (f, l, pages * TILE, l->batch.query_offsets[s], l->batch.contexts[s]);
        offsets[0] = 0;
        offsets[1] = last;
        for (int i = 0; i < pages; i++)
          table[i] = i;
        struct dev_batch batch = { .tokens = last,
                                   .sequences = 1,
                                   .max_context = l->batch.contexts[s],
                                   .positions = l->batch.positions + first,
                                   .query_offsets = offsets,
                                   .contexts = l->batch.contexts + s,
                                   .block_table = table,
                                   .table_stride = pages,
                                   .page_tokens = TILE };
        f->ops->attention_forward (f->context, out, NULL, (char *) l->q + (size_t) first * heads * size, &kv,
                                   &l->shape, &batch, f->type);
        assert_same (f, "attention of the last tokens", out, (const char *) whole + (size_t) first * heads * size,
                     (size_t) last * heads);
      }
}

static void
check_attention_layer (Fixture *f, Layer l)
{
  size_t rows = (size_t) l.batch.tokens * l.shape.heads;
  float *lse = take (f, rows * 4), *want_lse = take (f, rows * 4);
  void *out = output (f, l.q_count), *want = output (f, l.q_count);
  f->ops->qkv_forward (f->context, l.q, &l.kv, l.raw, &l.qkv, &l.shape, &l.batch, f->type);
  f->ops->attention_forward (f->context, out, lse, l.q, &l.kv, &l.shape, &l.batch, f->type);
  f->reference->attention_forward (f->context, want, want_lse, l.q, &l.kv, &l.shape, &l.batch, f->type);
  assert_near ("attention_forward", out, want, l.q_count, f->type, bound (f));
  assert_near ("attention lse", lse, want_lse, rows, DEV_F32, backend->gpu ? 1e-5 : 2e-6);
  check_paged (f, &l, out);
  check_decode (f, &l, out);
  void *dout = random_typed (f, l.q_count, 1);
  void *d[] = { output (f, l.q_count), output (f, l.kv_count), output (f, l.kv_count) };
  void *want_d[] = { output (f, l.q_count), output (f, l.kv_count), output (f, l.kv_count) };
  f->ops->attention_backward (f->context, d[0], d[1], d[2], dout, out, lse, l.q, &l.kv, &l.shape, &l.batch,
                              f->type);
  f->reference->attention_backward (f->context, want_d[0], want_d[1], want_d[2], dout, out, lse, l.q, &l.kv,
                                    &l.shape, &l.batch, f->type);
  double limit = f->type == DEV_BF16 ? 1.5e-2 : 2e-5;
  assert_near ("attention dq", d[0], want_d[0], l.q_count, f->type, limit);
  assert_near ("attention dk", d[1], want_d[1], l.kv_count, f->type, limit);
  assert_near ("attention dv", d[2], want_d[2], l.kv_count, f->type, limit);
}

static void
check_attention (Fixture *f)
{
  Layer layer;
  make_layer (f, &layer);
  check_attention_layer (f, layer);
}

static void
check_attention_of (Fixture *f, int size, int longest)
{
  Layer layer;
  make_layer_of (f, &layer, size, longest);
  check_attention_layer (f, layer);
}

/* A norm whose outputs are poisoned, twice: for the backend and for the reference. */
static void
make_norms (Fixture *f, struct dev_norm norms[2], int t, int width)
{
  size_t n = (size_t) t * width;
  const float *x = random_floats (f, n, 2);
  const void *delta = pick (f, 0, 2) ? random_typed (f, n, 1) : NULL, *weight = random_typed (f, width, 1);
  for (int i = 0; i < 2; i++)
    norms[i] = (struct dev_norm){ take (f, n * 4), output (f, n), take (f, t * 4), x, delta, weight, 1e-5f };
}

static void
assert_norms (Fixture *f, const struct dev_norm norms[2], int t, int width)
{
  size_t n = (size_t) t * width;
  assert_near ("fused norm, sum", norms[0].sum, norms[1].sum, n, DEV_F32, 1e-6);
  assert_near ("fused norm, out", norms[0].out, norms[1].out, n, f->type, bound (f));
  assert_near ("fused norm, rstd", norms[0].rstd, norms[1].rstd, t, DEV_F32, 2e-6);
}

/* A norm, a product and what follows it in one call. */
static void
check_norm_product (Fixture *f)
{
  int t = pick (f, 1, 6), width = pick (f, 0, 3) ? 8 * pick (f, 1, 90) : pick (f, 1, 90), mlp = pick (f, 1, 300);
  double limit = 2 * bound (f);
  struct dev_norm norms[2];
  struct dev_matrix w = { random_typed (f, (size_t) 2 * mlp * width, 1), NULL, 2 * mlp, width };
  void *gate_up[2], *act[2];
  make_norms (f, norms, t, width);
  for (int i = 0; i < 2; i++)
    {
      gate_up[i] = output (f, (size_t) t * 2 * mlp);
      act[i] = output (f, (size_t) t * mlp);
      (i ? f->reference : f->ops)->norm_swiglu_forward (f->context, &norms[i], act[i], gate_up[i], &w, t, f->type);
    }
  assert_norms (f, norms, t, width);
  assert_near ("fused gate and up", gate_up[0], gate_up[1], (size_t) t * 2 * mlp, f->type, limit);
  assert_near ("fused swiglu", act[0], act[1], (size_t) t * mlp, f->type, limit);
}

static void
check_norm_qkv (Fixture *f)
{
  static const int sizes[] = { 2, 10, 16, 64, 128 };
  int width = pick (f, 0, 3) ? 8 * pick (f, 1, 60) : pick (f, 1, 60);
  struct dev_norm norms[2];
  Layer l;
  make_layer_of (f, &l, sizes[pick (f, 0, 4)], 3);
  if (pick (f, 0, 2)) /* most models have none, and the fused kernels want none */
    l.qkv.q_norm = l.qkv.k_norm = NULL;
  int t = l.batch.tokens, rows = (l.shape.heads + 2 * l.shape.groups) * l.shape.head_size;
  struct dev_matrix w = { random_typed (f, (size_t) rows * width, 0.3), NULL, rows, width };
  void *raw[2], *q[2];
  struct dev_kv kv[2];
  make_norms (f, norms, t, width);
  for (int i = 0; i < 2; i++)
    {
      raw[i] = output (f, l.raw_count);
      q[i] = output (f, l.q_count);
      kv[i] = (struct dev_kv){ output (f, l.kv_count), output (f, l.kv_count) };
      (i ? f->reference : f->ops)
          ->norm_qkv_forward (f->context, &norms[i], raw[i], q[i], &kv[i], &w, &l.qkv, &l.shape, &l.batch, f->type);
    }
  double limit = 3 * bound (f);
  assert_norms (f, norms, t, width);
  assert_near ("fused raw", raw[0], raw[1], l.raw_count, f->type, limit);
  assert_near ("fused q", q[0], q[1], l.q_count, f->type, limit);
  assert_near ("fused k", kv[0].k, kv[1].k, l.kv_count, f->type, limit);
  assert_near ("fused v", kv[0].v, kv[1].v, l.kv_count, f->type, limit);
}

/* Few rows by matrices of a size at which they are divided among several warps and blocks. */
static void
check_few_rows (Fixture *f)
{
  int t = pick (f, 1, 5), rows = pick (f, 1, 900), cols = 8 * pick (f, 1, 700);
  struct dev_matrix w = { random_typed (f, (size_t) rows * cols, 1), NULL, rows, cols };
  void *x = random_typed (f, (size_t) t * cols, 1);
  void *y = output (f, (size_t) t * rows), *want = output (f, (size_t) t * rows);
  float *logits = take (f, (size_t) t * rows * 4), *want_logits = take (f, (size_t) t * rows * 4);
  f->ops->linear_forward (f->context, y, x, &w, t, f->type);
  f->reference->linear_forward (f->context, want, x, &w, t, f->type);
  assert_near ("few rows", y, want, (size_t) t * rows, f->type, bound (f));
  f->ops->head_logits (f->context, logits, x, &w, t, f->type);
  f->reference->head_logits (f->context, want_logits, x, &w, t, f->type);
  assert_near ("few rows of logits", logits, want_logits, (size_t) t * rows, DEV_F32, 1e-5);
}

static void
check_head (Fixture *f)
{
  int n = pick (f, 1, 150), width = pick (f, 1, 80), vocabulary = pick (f, 2, 300);
  float temperature = (float) g_rand_double_range (f->random, 0.3, 2);
  struct dev_matrix w = { random_typed (f, (size_t) vocabulary * width, 1), NULL, vocabulary, width };
  void *h = random_typed (f, (size_t) n * width, 1);
  float *have = take (f, 3 * n * 4), *want = take (f, 3 * n * 4);
  int32_t *targets = take (f, n * 4);
  for (int i = 0; i < n; i++)
    targets[i] = pick (f, 0, vocabulary - 1);
  f->ops->head_forward (f->context, have, have + n, have + 2 * n, h, &w, targets, temperature, n, f->type);
  f->reference->head_forward (f->context, want, want + n, want + 2 * n, h, &w, targets, temperature, n,
                              f->type);
  assert_near ("head log-prob", have, want, n, DEV_F32, 5e-6);
  assert_near ("head entropy", have + n, want + n, n, DEV_F32, 2e-5);
  float *dlogp = random_floats (f, n, 1), *dentropy = random_floats (f, n, 1);
  void *dh = output (f, (size_t) n * width), *want_dh = output (f, (size_t) n * width);
  float *dw = take (f, (size_t) vocabulary * width * 4), *want_dw = zeros (f, (size_t) vocabulary * width);
  f->ops->head_backward (f->context, dh, dw, FALSE, dlogp, dentropy, have + n, have + 2 * n, h, &w, targets,
                         temperature, n, f->type);
  f->reference->head_backward (f->context, want_dh, want_dw, TRUE, dlogp, dentropy, want + n, want + 2 * n, h, &w,
                               targets, temperature, n, f->type);
  double limit = f->type == DEV_BF16 ? 1e-2 : 2e-5;
  assert_near ("head dh", dh, want_dh, (size_t) n * width, f->type, limit);
  assert_near ("head dw", dw, want_dw, (size_t) vocabulary * width, DEV_F32, limit);
  float *both = take (f, 3 * n * 4), *both_dw = zeros (f, (size_t) vocabulary * width);
  memset (dentropy, 0, n * 4);
  memset (want_dw, 0, (size_t) vocabulary * width * 4);
  f->reference->head_backward (f->context, want_dh, want_dw, TRUE, dlogp, dentropy, want + n, want + 2 * n, h, &w,
                               targets, temperature, n, f->type);
  f->ops->head_both (f->context, both, both + n, both + 2 * n, dh, both_dw, TRUE, dlogp, h, &w, targets, temperature, n,
                     f->type);
  assert_near ("head log-prob of both", both, want, n, DEV_F32, 5e-6);
  assert_near ("head dh of both", dh, want_dh, (size_t) n * width, f->type, limit);
  assert_near ("head dw of both", both_dw, want_dw, (size_t) vocabulary * width, DEV_F32, limit);
}

static void
check_sample (Fixture *f)
{
  int n = pick (f, 1, 100), width = pick (f, 1, 40), vocabulary = pick (f, 5, 300);
  float temperature = pick (f, 0, 3) ? (float) g_rand_double_range (f->random, 0.3, 2) : 0;
  struct dev_matrix w = { random_typed (f, (size_t) vocabulary * width, 1), NULL, vocabulary, width };
  void *h = random_typed (f, (size_t) n * width, 1);
  struct dev_random *random = take (f, n * sizeof *random);
  int32_t *tokens = take (f, n * 4), *want = take (f, n * 4), *forbidden = take (f, 8);
  float *logp = take (f, n * 4), *want_logp = take (f, n * 4), *forward = take (f, 3 * n * 4);
  uint8_t *ban = take (f, n);
  forbidden[0] = 1;
  forbidden[1] = 4;
  for (int i = 0; i < n; i++)
    {
      random[i] = (struct dev_random){ { 1u << 24 | (uint32_t) i % 8, (uint32_t) i / 8, (uint32_t) i } };
      ban[i] = i % 2;
    }
  struct dev_sampling sampling = { .temperature = temperature, .seed = 42, .random = random, .forbidden = forbidden,
                                   .n_forbidden = 2, .ban = ban };
  f->ops->head_sample (f->context, tokens, logp, h, &w, &sampling, n, f->type);
  f->reference->head_sample (f->context, want, want_logp, h, &w, &sampling, n, f->type);
  int different = 0;
  for (int i = 0; i < n; i++)
    {
      different += tokens[i] != want[i];
      g_assert_false (ban[i] && (tokens[i] == 1 || tokens[i] == 4));
    }
  g_assert_cmpint (different, <=, n / 50); /* near ties of rounding */
  f->ops->head_forward (f->context, forward, forward + n, forward + 2 * n, h, &w, tokens,
                        temperature > 0 ? temperature : 1, n, f->type);
  g_assert_cmpmem (forward, n * 4, logp, n * 4); /* rollout and trainer agree bit by bit */
}

/* Draws from filtered rows: tokens of the reference, log-probs of the distribution that engine/algo defines, and the drawn
 * ids noted. Half of the rows have equal logits among the greatest. */
static void
check_filters (Fixture *f)
{
  int n = pick (f, 1, 40), width = pick (f, 1, 40), vocabulary = pick (f, 8, 3000), stride = (vocabulary + 31) / 32;
  struct dev_matrix w = { random_typed (f, (size_t) vocabulary * width, 1), NULL, vocabulary, width };
  void *h = random_typed (f, (size_t) n * width, 1);
  size_t row_bytes = width * dev_type_size (f->type);
  for (int v = 2; v < vocabulary && pick (f, 0, 1); v += 2) /* ids of equal logits */
    memcpy ((char *) w.data + v * row_bytes, (char *) w.data, row_bytes);
  struct dev_random *random = take (f, n * sizeof *random);
  int32_t *tokens = take (f, n * 4), *want = take (f, n * 4), *forbidden = take (f, 4), *rows = take (f, n * 4);
  float *logp = take (f, n * 4), *want_logp = take (f, n * 4), *logits = take (f, (size_t) n * vocabulary * 4);
  size_t words = (size_t) (n + 1) * stride;
  uint32_t *seen = take (f, words * 4), *want_seen = take (f, words * 4);
  uint8_t *ban = take (f, n);
  forbidden[0] = 3;
  for (size_t i = 0; i < words; i++)
    want_seen[i] = seen[i] = g_rand_int (f->random) & g_rand_int (f->random) & g_rand_int (f->random);
  for (int i = 0; i < n; i++)
    {
      random[i] = (struct dev_random){ { 3u << 24, (uint32_t) i, (uint32_t) i } };
      rows[i] = n - i;
      ban[i] = i % 3 == 0;
    }
  struct dev_sampling s = { .temperature = pick (f, 0, 5) ? (float) g_rand_double_range (f->random, 0.3, 2) : 0,
                            .top_k = pick (f, 0, 1) ? pick (f, 1, vocabulary + 3) : 0,
                            .top_p = pick (f, 0, 1) ? (float) g_rand_double_range (f->random, 0.05, 1.1) : 0,
                            .min_p = pick (f, 0, 1) ? (float) g_rand_double_range (f->random, 0, 0.5) : 0,
                            .seed = 5, .random = random, .forbidden = forbidden, .n_forbidden = 1, .ban = ban,
                            .repetition_penalty = 1.3f, .seen = seen, .seen_rows = rows, .seen_stride = stride };
  gboolean penalty = pick (f, 0, 1);
  s.seen = penalty ? seen : NULL;
  f->ops->head_logits (f->context, logits, h, &w, n, f->type);
  g_autofree double *p = g_new (double, vocabulary);
  g_autoptr (GArray) context = g_array_new (FALSE, FALSE, 4);
  g_autofree uint32_t *before = g_memdup2 (seen, words * 4);
  f->ops->head_sample (f->context, tokens, logp, h, &w, &s, n, f->type);
  s.seen = penalty ? want_seen : NULL;
  f->reference->head_sample (f->context, want, want_logp, h, &w, &s, n, f->type);
  struct plumb_sampling_options o = { penalty ? s.repetition_penalty : 1, s.temperature > 0 ? s.temperature : 1,
                                      s.temperature > 0 ? s.top_k : 0,
                                      s.temperature > 0 && s.top_p > 0 ? MIN (s.top_p, 1) : 1,
                                      s.temperature > 0 ? s.min_p : 0 };
  int different = 0, wrong = 0;
  for (int i = 0; i < n; i++)
    {
      different += tokens[i] != want[i];
      g_assert_false (ban[i] && tokens[i] == 3);
      g_array_set_size (context, 0);
      for (int v = 0; v < vocabulary; v++)
        if (before[(size_t) rows[i] * stride + v / 32] >> v % 32 & 1)
          g_array_append_val (context, v);
      if (ban[i] && s.temperature > 0 && dev_sampling_is_filtered (&s))
        logits[(size_t) i * vocabulary + 3] = -INFINITY;
      g_assert_cmpint (plumb_sampling_distribution (&o, vocabulary, logits + (size_t) i * vocabulary,
                                                    (int32_t *) (void *) context->data, (int) context->len, p), ==, 0);
      wrong += !(fabs (log (p[tokens[i]]) - logp[i]) < 2e-4);
      if (penalty)
        g_assert_true (seen[(size_t) rows[i] * stride + tokens[i] / 32] >> tokens[i] % 32 & 1);
    }
  g_assert_cmpint (different, <=, 1 + n / 20); /* near ties of rounding, and values at a cut */
  g_assert_cmpint (wrong, <=, n / 20);
}

static void
check_value (Fixture *f)
{
  int n = pick (f, 1, 40), width = pick (f, 1, 200);
  void *h = random_typed (f, (size_t) n * width, 1), *weight = random_typed (f, width, 1);
  float *values = take (f, n * 4), *want = take (f, n * 4), *dvalues = random_floats (f, n, 1);
  void *dh = output (f, (size_t) n * width), *want_dh = output (f, (size_t) n * width);
  float *dw = zeros (f, width), *want_dw = zeros (f, width);
  f->ops->value_forward (f->context, values, h, weight, n, width, f->type);
  f->reference->value_forward (f->context, want, h, weight, n, width, f->type);
  assert_near ("value_forward", values, want, n, DEV_F32, 5e-6);
  f->ops->value_backward (f->context, dh, dw, dvalues, h, weight, n, width, f->type);
  f->reference->value_backward (f->context, want_dh, want_dw, dvalues, h, weight, n, width, f->type);
  assert_near ("value dh", dh, want_dh, (size_t) n * width, f->type, bound (f));
  assert_near ("value dw", dw, want_dw, width, DEV_F32, 5e-6);
}

static void
check_adamw (Fixture *f)
{
  size_t n = (size_t) pick (f, 1, 40000);
  float *start = random_floats (f, n, 1), *grad = random_floats (f, n, 1);
  float *state[2][3]; /* master, m, v */
  void *param[2];
  double *have = take (f, sizeof *have), *want = take (f, sizeof *want);
  for (int k = 0; k < 2; k++)
    {
      for (int i = 0; i < 3; i++)
        state[k][i] = zeros (f, n);
      memcpy (state[k][0], start, n * 4);
      param[k] = output (f, n);
      cpu_row_store (param[k], start, n, f->type);
    }
  for (int step = 1; step <= 3; step++)
    {
      struct dev_adamw a = { 1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, (float) (1 - pow (0.9, step)),
                             (float) (1 - pow (0.95, step)), 0.5f };
      for (int k = 0; k < 2; k++)
        (k ? f->reference : f->ops)
            ->adamw (f->context, param[k], f->type == DEV_BF16 ? state[k][0] : NULL, grad, state[k][1],
                     state[k][2], n, &a, f->type);
    }
  assert_near ("adamw", param[0], param[1], n, f->type, f->type == DEV_BF16 ? 2e-3 : 1e-6);
  f->ops->square_sum (f->context, have, grad, n);
  f->reference->square_sum (f->context, want, grad, n);
  g_assert_cmpfloat_with_epsilon (*have, *want, 1e-9 * *want);
}

typedef void (*Check) (Fixture *);

static void
run_rounds (Check check)
{
  /* Fewer under a checker that makes each round a hundred times slower. */
  const char *rounds = g_getenv ("PLUMB_TEST_ROUNDS");
  for (int i = 0; i < (rounds ? atoi (rounds) : 24); i++)
    {
      Fixture f;
      fixture_init (&f, 1000 + i, i % 2 ? DEV_BF16 : DEV_F32);
      check (&f);
      fixture_clear (&f);
    }
}

/* Rows of products, whatever their number: rollout == trainer rests on it. */
static void
test_rows (void)
{
  static const int counts[] = { 1, 2, 3, 15, 16, 17, 63, 64, 65, 130, 300 };
  for (int type = DEV_F32; type <= DEV_BF16; type++)
    {
      Fixture f;
      fixture_init (&f, 7, type);
      int rows = 260, cols = 100, most = 300;
      struct dev_matrix w = { random_typed (&f, (size_t) rows * cols, 1), NULL, rows, cols };
      void *x = random_typed (&f, (size_t) most * cols, 1);
      void *all = output (&f, (size_t) most * rows), *few = output (&f, (size_t) most * rows);
      f.ops->linear_forward (f.context, all, x, &w, most, type);
      for (gsize i = 0; i < G_N_ELEMENTS (counts); i++)
        {
          f.ops->linear_forward (f.context, few, x, &w, counts[i], type);
          assert_same (&f, "rows of a product", few, all, (size_t) counts[i] * rows);
        }
      fixture_clear (&f);
    }
}

/* Derivative of sum (c out) along a random direction, by the op's backward and by differences. */
static void
test_differences_swiglu_norm (void)
{
  for (int round = 0; round < 8; round++)
    {
      Fixture f;
      fixture_init (&f, 50 + round, DEV_F32);
      int t = 3, width = 17;
      size_t n = (size_t) t * width;
      float *x = random_floats (&f, n, 1), *c = random_floats (&f, n, 1), *d = random_floats (&f, n, 1);
      float *w = random_floats (&f, width, 1), *sum = take (&f, n * 4), *rstd = take (&f, t * 4);
      float *out = take (&f, n * 4), *dx = zeros (&f, n), *dw = zeros (&f, width);
      double value[2], slope = 0, step = 1e-2;
      for (int k = 0; k < 2; k++)
        {
          float *moved = take (&f, n * 4);
          for (size_t i = 0; i < n; i++)
            moved[i] = (float) (x[i] + (k ? step : -step) * d[i]);
          f.ops->add_norm_forward (f.context, sum, out, rstd, moved, NULL, w, 1e-5f, t, width, DEV_F32);
          value[k] = 0;
          for (size_t i = 0; i < n; i++)
            value[k] += (double) c[i] * out[i];
        }
      f.ops->add_norm_forward (f.context, sum, out, rstd, x, NULL, w, 1e-5f, t, width, DEV_F32);
      f.ops->add_norm_backward (f.context, dx, NULL, dw, c, sum, rstd, w, t, width, DEV_F32);
      for (size_t i = 0; i < n; i++)
        slope += (double) dx[i] * d[i];
      g_assert_cmpfloat_with_epsilon ((value[1] - value[0]) / (2 * step), slope, 3e-3 * fabs (slope) + 3e-3);
      fixture_clear (&f);
    }
}

static double
attention_value (Fixture *f, Layer *l, const void *raw, const float *c, void *out, float *lse)
{
  double value = 0;
  f->ops->qkv_forward (f->context, l->q, &l->kv, raw, &l->qkv, &l->shape, &l->batch, DEV_F32);
  f->ops->attention_forward (f->context, out, lse, l->q, &l->kv, &l->shape, &l->batch, DEV_F32);
  for (size_t i = 0; i < l->q_count; i++)
    value += (double) c[i] * ((float *) out)[i];
  return value;
}

static void
test_differences_attention (void)
{
  for (int round = 0; round < 12; round++)
    {
      Fixture f;
      Layer l;
      fixture_init (&f, 80 + round, DEV_F32);
      make_layer (&f, &l);
      float *c = random_floats (&f, l.q_count, 1), *d = random_floats (&f, l.raw_count, 1), *x = l.raw;
      float *lse = take (&f, (size_t) l.batch.tokens * l.shape.heads * 4);
      void *out = output (&f, l.q_count);
      double value[2], slope = 0, step = 1e-3;
      for (int k = 0; k < 2; k++)
        {
          float *moved = take (&f, l.raw_count * 4);
          for (size_t i = 0; i < l.raw_count; i++)
            moved[i] = (float) (x[i] + (k ? step : -step) * d[i]);
          value[k] = attention_value (&f, &l, moved, c, out, lse);
        }
      attention_value (&f, &l, x, c, out, lse);
      void *dq = output (&f, l.q_count), *dk = output (&f, l.kv_count), *dv = output (&f, l.kv_count);
      float *draw = output (&f, l.raw_count);
      int width = (l.shape.heads + 2 * l.shape.groups) * l.shape.head_size;
      float *sums = zeros (&f, width + 2 * l.shape.head_size);
      f.ops->attention_backward (f.context, dq, dk, dv, c, out, lse, l.q, &l.kv, &l.shape, &l.batch, DEV_F32);
      f.ops->qkv_backward (f.context, draw, sums, sums + width, sums + width + l.shape.head_size, dq, dk, dv,
                           l.raw, &l.qkv, &l.shape, &l.batch, DEV_F32);
      for (size_t i = 0; i < l.raw_count; i++)
        slope += (double) draw[i] * d[i];
      g_assert_cmpfloat_with_epsilon ((value[1] - value[0]) / (2 * step), slope, 1e-2 * fabs (slope) + 5e-2);
      fixture_clear (&f);
    }
}

/* Every path of the products gives what the reference gives. */
static void
test_paths (void)
{
  static const char *const paths[] = { "direct", "chunked", "portable" };
  for (gsize i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_setenv ("PLUMB_PRODUCT_PATH", paths[i], TRUE);
      run_rounds (check_linear);
      run_rounds (check_head);
    }
  g_unsetenv ("PLUMB_PRODUCT_PATH");
}

/* A shape that the workspace cannot hold is an error that stays, and ops after it do nothing. */
static void
test_sticky_error (void)
{
  const struct dev_ops *ops = backend->gpu ? plumb_device_backend ("cuda", NULL) : dev_cpu ();
  struct dev_context *context = NULL;
  char message[256] = "";
  g_assert_cmpint (ops->open (0, 4096, &context, message, sizeof message), ==, DEV_OK);
  float h[4] = { 1, 2, 3, 4 }, *table = g_new0 (float, 4 * 5000), logits[1] = { 7 };
  struct dev_matrix w = { table, NULL, 5000, 4 };
  ops->head_logits (context, logits, h, &w, 1, DEV_F32);
  g_assert_cmpint (ops->status (context, message, sizeof message), ==, DEV_NO_MEMORY);
  g_assert_nonnull (strstr (message, "workspace"));
  g_assert_cmpfloat (logits[0], ==, 7);
  ops->close (context);
  g_free (table);
}

/* Draws follow the softmax: chi-squared over 8 outcomes. */
static void
test_sampling_distribution (void)
{
  Fixture f;
  fixture_init (&f, 3, DEV_F32);
  enum { V = 8, N = 4096 };
  float *h = take (&f, N * 4), *logp = take (&f, N * 4), *table = take (&f, V * 4);
  int32_t *tokens = take (&f, N * 4);
  struct dev_random *random = take (&f, N * sizeof *random);
  double weight[V], total = 0, chi = 0;
  int counts[V] = { 0 };
  for (int v = 0; v < V; v++)
    {
      table[v] = 0.4f * v - 1;
      total += weight[v] = exp (table[v] / 0.8);
    }
  for (int i = 0; i < N; i++)
    {
      h[i] = 1;
      random[i] = (struct dev_random){ { 1u << 24, (uint32_t) i, 5 } };
    }
  struct dev_matrix w = { table, NULL, V, 1 };
  struct dev_sampling sampling = { .temperature = 0.8f, .seed = 11, .random = random };
  f.ops->head_sample (f.context, tokens, logp, h, &w, &sampling, N, DEV_F32);
  for (int i = 0; i < N; i++)
    counts[tokens[i]]++;
  for (int v = 0; v < V; v++)
    {
      double expected = N * weight[v] / total;
      chi += (counts[v] - expected) * (counts[v] - expected) / expected;
    }
  g_assert_cmpfloat (chi, <, 24.3); /* 7 degrees of freedom, 0.1 % */
  fixture_clear (&f);
}

/* The larger head sizes, windows and contexts, which the tensor-core kernels serve: forward, backward, pages, decode. */
static void
check_large_attention (Fixture *f)
{
  static const int sizes[] = { 64, 96, 128, 256 };
  check_attention_of (f, sizes[pick (f, 0, 3)], backend->gpu ? 160 : 70);
}

/* Every code stands for its value and comes from it; what lies between two goes to the nearer, or to the even one. */
static void
test_codes (void)
{
  for (int code = 0; code < 256; code++)
    {
      int exponent = code >> 3 & 15, mantissa = code & 7;
      double size = exponent ? ldexp (1 + mantissa / 8.0, exponent - 7) : ldexp (mantissa / 8.0, -6);
      float value = e4m3_to_float ((uint8_t) code);
      if ((code & 0x7f) == 0x7f)
        {
          g_assert_true (isnan (value));
          continue;
        }
      g_assert_cmpfloat (value, ==, (float) (code & 0x80 ? -size : size));
      g_assert_cmpint (e4m3_from_float (value), ==, code);
      if ((code & 0x7f) == 0x7e)
        continue;
      float next = e4m3_to_float ((uint8_t) (code + 1)), middle = (value + next) / 2;
      g_assert_cmpint (e4m3_from_float (middle), ==, code & 1 ? code + 1 : code);
      g_assert_cmpint (e4m3_from_float (middle + (value - next) / 64), ==, code);
      g_assert_cmpint (e4m3_from_float (middle + (next - value) / 64), ==, code + 1);
    }
  g_assert_cmpint (e4m3_from_float (1e9f), ==, 0x7e);
  g_assert_cmpint (e4m3_from_float (-INFINITY), ==, 0xfe);
  g_assert_cmpint (e4m3_from_float (NAN) & 0x7f, ==, 0x7f);
}

/* What codes stand for, as floats; NULL scales: all 1. */
static float *
decoded (Fixture *f, const void *codes, const float *scales, size_t heads, int size)
{
  float *x = take (f, heads * size * sizeof (float));
  for (size_t i = 0; i < heads * size; i++)
    x[i] = e4m3_to_float (((const uint8_t *) codes)[i]) * (scales ? scales[i / size] : 1.0f);
  return x;
}

/* The op's cache against the reference's, and attention over it, whole and in pages, against the reference over the same. */
static void
check_coded (Fixture *f)
{
  static const int sizes[] = { 2, 10, 16, 64, 80, 96, 128, 256 };
  Layer l;
  make_layer_of (f, &l, sizes[pick (f, 0, 7)], 70);
  int tokens = l.batch.tokens, size = l.shape.head_size;
  size_t heads = (size_t) tokens * l.shape.groups;
  struct dev_kv want = coded_cache (f, &l, tokens);
  l.kv = coded_cache (f, &l, tokens);
  void *want_q = output (f, l.q_count), *out = output (f, l.q_count), *want_out = output (f, l.q_count);
  f->ops->qkv_forward (f->context, l.q, &l.kv, l.raw, &l.qkv, &l.shape, &l.batch, f->type);
  f->reference->qkv_forward (f->context, want_q, &want, l.raw, &l.qkv, &l.shape, &l.batch, f->type);
  assert_near ("coded q", l.q, want_q, l.q_count, f->type, bound (f));
  assert_near ("scales of keys", l.kv.k_scales, want.k_scales, heads, DEV_F32, 2e-6);
  assert_near ("scales of values", l.kv.v_scales, want.v_scales, heads, DEV_F32, 2e-6);
  assert_near ("coded keys", decoded (f, l.kv.k, l.kv.k_scales, heads, size),
               decoded (f, want.k, want.k_scales, heads, size), l.kv_count, DEV_F32, 5e-3);
  assert_near ("coded values", decoded (f, l.kv.v, l.kv.v_scales, heads, size),
               decoded (f, want.v, want.v_scales, heads, size), l.kv_count, DEV_F32, 5e-3);
  float *lse = take (f, (size_t) tokens * l.shape.heads * 4), *want_lse = take (f, (size_t) tokens * l.shape.heads * 4);
  f->ops->attention_forward (f->context, out, lse, l.q, &l.kv, &l.shape, &l.batch, f->type);
  f->reference->attention_forward (f->context, want_out, want_lse, l.q, &l.kv, &l.shape, &l.batch, f->type);
  assert_near ("attention over codes", out, want_out, l.q_count, f->type, bound (f));
  /* Keys as bf16 carry the rounding of their scaling. */
  assert_near ("lse over codes", lse, want_lse, (size_t) tokens * l.shape.heads, DEV_F32, f->type == DEV_BF16 ? 2e-3 : 1e-5);
  check_paged (f, &l, out);
  check_decode (f, &l, out);
}

static float *
as_floats (Fixture *f, const void *x, size_t n)
{
  float *values = take (f, n * 4);
  for (size_t i = 0; i < n; i++)
    values[i] = (float) at (x, i, f->type);
  return values;
}

/* What the codes of rows stand for, each with a scale of its own, as the software makes them; codes and scales may be NULL. */
static float *
coded_rows (Fixture *f, const void *x, int rows, int cols, uint8_t *codes, float *scales)
{
  float *values = take (f, (size_t) rows * cols * 4);
  for (int r = 0; r < rows; r++)
    {
      float most = 0;
      for (size_t i = (size_t) r * cols; i < (size_t) (r + 1) * cols; i++)
        most = fmaxf (most, fabsf ((float) at (x, i, f->type)));
      float scale = e4m3_row_scale (most);
      if (scales)
        scales[r] = scale;
      for (size_t i = (size_t) r * cols; i < (size_t) (r + 1) * cols; i++)
        {
          uint8_t code = e4m3_from_float ((float) at (x, i, f->type) / scale);
          values[i] = e4m3_to_float (code) * scale;
          if (codes)
            codes[i] = code;
        }
    }
  return values;
}

/* Whether each element of y (t, rows) = x w^T is within its own rounding and `loss` of the sizes that are summed. */
static gboolean
is_product (Fixture *f, const char *what, const void *y, const float *x, const float *w, int t, int rows, int cols,
            double loss)
{
  double rounding = 1.01 * (f->type == DEV_BF16 ? 0x1p-8 : 0x1p-24), worst = 0, squares = 0, all = 0;
  for (int i = 0; i < t; i++)
    for (int r = 0; r < rows; r++)
      {
        const float *left = x + (size_t) i * cols, *right = w + (size_t) r * cols;
        double sum = 0, size = 0, have = at (y, (size_t) i * rows + r, f->type);
        for (int c = 0; c < cols; c++)
          {
            sum += (double) left[c] * right[c];
            size += fabs ((double) left[c] * right[c]);
          }
        if (!isfinite (have))
          return FALSE;
        worst = fmax (worst, (fabs (have - sum) - rounding * fabs (sum)) / (size > 0 ? size : 1e-30));
        squares += (have - sum) * (have - sum);
        all += sum * sum;
      }
  g_test_message ("%s, %d x %d x %d: loss of %.3g of the sizes, distance %.3g", what, t, rows, cols, worst,
                  sqrt (squares / (all > 0 ? all : 1)));
  return worst <= loss;
}

static void
pick_coded_shape (Fixture *f, int *t, int *rows, int *cols)
{
  gboolean large = backend->gpu && !backend->exact;
  int kind = pick (f, 0, 3);
  *t = kind == 0 ? pick (f, 1, 5) : large && kind == 2 ? pick (f, 5, 700) : pick (f, 5, 70);
  *rows = kind < 2 ? pick (f, 1, 150) : 16 * pick (f, 1, large ? 12 : 6);
  *cols = kind == 1 ? pick (f, 1, 100) : 16 * (large && kind == 3 ? pick (f, 100, 600) : pick (f, 1, kind ? 30 : 100));
}

/* Which operands a backend may take for a product with codes. */
typedef struct
{
  gboolean data, codes, rounded; /* the matrix itself; its codes; its codes and those of the inputs */
} Operands;

static Operands
operands_of (Fixture *f, int t, int rows, int cols)
{
  struct dev_info info;
  const char *path = g_getenv ("PLUMB_CODES_PATH");
  if (!backend->gpu || backend->exact)
    return (Operands){ FALSE, TRUE, FALSE };
  if (f->type == DEV_BF16 && t == 1 && cols % 16 == 0)
    return (Operands){ FALSE, TRUE, FALSE };
  f->ops->info (f->context, &info);
  if (f->type == DEV_BF16 && t > 1 && rows % 16 == 0 && cols % 16 == 0 && strstr (info.matmul_path, "fp8"))
    return (Operands){ !path || g_str_equal (path, "data"), FALSE, !path || g_str_equal (path, "codes") };
  return (Operands){ f->type == DEV_BF16, f->type == DEV_F32, FALSE };
}

/* Sums of the tensor cores: of the 128 products between two additions in float each may lose what lies 13 bits below the
 * greatest, with random signs sqrt (128 / 12) 2^-13 = 4e-4 of it in all; twice that is allowed. */
#define CODES_LOSS 0x1p-10

/* Codes of weights: made as the software makes them, and products with them as with what they stand for. Among the inputs are
 * a row of zeros and one that a single element outweighs. */
static void
check_coded_weights (Fixture *f)
{
  int t, rows, cols;
  pick_coded_shape (f, &t, &rows, &cols);
  size_t n = (size_t) rows * cols, m = (size_t) t * cols;
  uint8_t *codes = take (f, n), *want_codes = take (f, n);
  float *scales = take (f, rows * 4), *want_scales = take (f, rows * 4), *x = random_floats (f, m, 1);
  void *data = random_typed (f, n, 3), *plain = output (f, n), *inputs = output (f, m);
  struct dev_matrix w = { data, NULL, rows, cols, codes, scales }, exact = { plain, NULL, rows, cols };
  void *y = output (f, (size_t) t * rows), *want = output (f, (size_t) t * rows);
  memset ((char *) data + (size_t) pick (f, 0, rows - 1) * cols * dev_type_size (f->type), 0,
          cols * dev_type_size (f->type));
  x[(size_t) pick (f, 0, t - 1) * cols + pick (f, 0, cols - 1)] = 1e4f;
  if (t > 1)
    memset (x + (size_t) pick (f, 0, t - 1) * cols, 0, cols * 4);
  cpu_row_store (inputs, x, m, f->type);
  f->ops->encode (f->context, codes, scales, data, rows, cols, f->type);
  float *values = coded_rows (f, data, rows, cols, want_codes, want_scales);
  g_assert_cmpmem (scales, rows * 4, want_scales, rows * 4);
  g_assert_cmpmem (codes, n, want_codes, n);
  assert_near ("codes of weights", values, decoded (f, codes, scales, rows, cols), n, DEV_F32, 0);
  cpu_row_store (plain, values, n, f->type);
  f->ops->linear_forward (f->context, y, inputs, &w, t, f->type);
  x = as_floats (f, inputs, m);
  Operands may = operands_of (f, t, rows, cols);
  double loss = f->type == DEV_BF16 ? 0x1p-8 : 4e-6;
  gboolean right = (may.codes && is_product (f, "codes", y, x, values, t, rows, cols, loss))
                   || (may.rounded
                       && is_product (f, "codes by codes", y, coded_rows (f, inputs, t, cols, NULL, NULL), values, t, rows,
                                      cols, CODES_LOSS))
                   || (may.data
                       && is_product (f, "the matrix itself", y, x, as_floats (f, data, n), t, rows, cols, loss));
  if (!right)
    g_error ("linear_forward with codes, %d x %d x %d, is not what it may be", t, rows, cols);
  f->reference->linear_forward (f->context, want, inputs, &exact, t, f->type);
  f->reference->linear_forward (f->context, y, inputs, &w, t, f->type);
  assert_near ("reference by codes", y, want, (size_t) t * rows, f->type, 0);
}

/* Both ways of a GPU to multiply many rows, whichever is faster here. */
static void
test_coded_paths (void)
{
  static const char *const paths[] = { "codes", "data" };
  for (gsize i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_setenv ("PLUMB_CODES_PATH", paths[i], TRUE);
      run_rounds (check_coded_weights);
    }
  g_unsetenv ("PLUMB_CODES_PATH");
}

/* What a fused op hands to the product after it, or has of its norm, is what that product makes of the same rows alone. */
static void
test_handed_codes (void)
{
  enum { T = 37, WIDTH = 256, MLP = 320 };
  g_autoptr (GError) error = NULL;
  g_setenv ("PLUMB_CODES_PATH", "codes", TRUE);
  g_autoptr (PlumbDevice) device = plumb_device_open ("cuda:0", 1 << 24, &error);
  g_assert_no_error (error);
  const struct dev_ops *ops = device->ops;
  struct dev_context *context = device->context;
  struct dev_arena *arena = plumb_device_allocate (device, 1 << 24, "a test", &error);
  g_assert_no_error (error);
  GRand *random = g_rand_new_with_seed (5);
  g_autofree float *x = g_new (float, 2 * MLP * WIDTH);
  g_autofree bf16 *typed = g_new (bf16, 2 * MLP * WIDTH);
  struct dev_matrix matrix[] = { { NULL, NULL, 2 * MLP, WIDTH }, { NULL, NULL, WIDTH, MLP } };
  char *base = ops->arena_base (arena), *next = base;
  void *place[14];
  for (gsize i = 0; i < G_N_ELEMENTS (place); i++, next += 1 << 20)
    place[i] = next;
  for (int i = 0; i < 2; i++)
    {
      for (int k = 0; k < 2 * MLP * WIDTH; k++)
        x[k] = (float) g_rand_double_range (random, -1, 1);
      cpu_row_store (typed, x, 2 * MLP * WIDTH, DEV_BF16);
      ops->upload (context, place[i], typed, sizeof (bf16) * 2 * MLP * WIDTH);
      matrix[i].data = place[i];
      matrix[i].codes = place[2 + i];
      matrix[i].code_scales = place[4 + i];
      ops->encode (context, place[2 + i], place[4 + i], place[i], matrix[i].rows, matrix[i].cols, DEV_BF16);
    }
  ops->upload (context, place[6], x, sizeof (float) * T * WIDTH);
  struct dev_norm norm = { place[7], place[8], place[9], place[6], NULL, place[0], 1e-5f };
  char *gate_up = place[10], *act = place[11], *y = place[12], *again = place[13];
  for (int i = 0; i < 2; i++) /* the first time nothing is known about the second product */
    {
      ops->norm_swiglu_forward (context, &norm, act, gate_up, &matrix[0], T, DEV_BF16);
      ops->linear_forward (context, y, act, &matrix[1], T, DEV_BF16);
    }
  ops->linear_forward (context, again, act, &matrix[1], T, DEV_BF16);
  g_autofree bf16 *have = g_new (bf16, T * 2 * MLP), *alone = g_new (bf16, T * 2 * MLP);
  ops->download (context, have, y, sizeof (bf16) * T * WIDTH);
  ops->download (context, alone, again, sizeof (bf16) * T * WIDTH);
  g_assert_cmpmem (have, sizeof (bf16) * T * WIDTH, alone, sizeof (bf16) * T * WIDTH);
  ops->linear_forward (context, again, norm.out, &matrix[0], T, DEV_BF16);
  ops->download (context, have, gate_up, sizeof (bf16) * T * 2 * MLP);
  ops->download (context, alone, again, sizeof (bf16) * T * 2 * MLP);
  g_assert_cmpmem (have, sizeof (bf16) * T * 2 * MLP, alone, sizeof (bf16) * T * 2 * MLP);
  g_assert_true (plumb_device_check (device, &error));
  ops->arena_free (arena);
  g_rand_free (random);
  g_unsetenv ("PLUMB_CODES_PATH");
}

/* One key alone: what comes out are its values, code by code, in whichever way they are read. */
static void
test_code_values (void)
{
  for (int round = 0; round < 8; round++)
    {
      Fixture f;
      Layer l;
      int size = round / 4 ? 128 : 64, paged = round / 2 % 2, sequences = 256 / size;
      fixture_init (&f, 3, round % 2 ? DEV_BF16 : DEV_F32);
      memset (&l, 0, sizeof l);
      l.shape = (struct dev_attention){ 1, 1, size, 0, 0.1f };
      int rows = paged ? sequences * TILE : sequences;
      struct dev_kv kv = coded_cache (&f, &l, rows);
      int32_t *offsets = take (&f, (sequences + 1) * 4), *contexts = take (&f, sequences * 4);
      int32_t *table = take (&f, sequences * 4), *positions = take (&f, sequences * 4);
      memset (kv.k, 0, (size_t) rows * size);
      for (int i = 0; i < rows; i++)
        kv.k_scales[i] = kv.v_scales[i] = 1;
      offsets[0] = 0;
      for (int s = 0; s < sequences; s++)
        {
          offsets[s + 1] = s + 1;
          contexts[s] = 1;
          table[s] = s;
          positions[s] = 0;
          for (int d = 0; d < size; d++)
            {
              int code = s * size + d;
              ((uint8_t *) kv.v)[(size_t) s * (paged ? TILE : 1) * size + d] = (uint8_t) ((code & 0x7f) == 0x7f ? 0 : code);
            }
        }
      struct dev_batch batch = { .tokens = sequences, .sequences = sequences, .max_context = 1, .positions = positions,
                                 .query_offsets = offsets, .contexts = contexts };
      if (paged)
        {
          batch.block_table = table;
          batch.table_stride = 1;
          batch.page_tokens = TILE;
        }
      void *q = random_typed (&f, 256, 1), *out = output (&f, 256);
      f.ops->attention_forward (f.context, out, NULL, q, &kv, &l.shape, &batch, f.type);
      for (int code = 0; code < 256; code++)
        g_assert_cmpfloat (at (out, code, f.type), ==, (code & 0x7f) == 0x7f ? 0 : e4m3_to_float ((uint8_t) code));
      fixture_clear (&f);
    }
}

/* Whole sequences by the library whatever the time it takes: right, and nothing written behind the rows. */
static void
check_library_attention (Fixture *f, int size, int longest)
{
  Layer l;
  make_layer_of (f, &l, size, longest);
  l.shape.window = 0;
  l.shape.soft_cap = 0;
  size_t rows = (size_t) l.batch.tokens * l.shape.heads, guard = (size_t) 128 * l.shape.heads * size;
  float *lse = take (f, (rows + 128) * 4), *want_lse = take (f, rows * 4);
  void *out = output (f, l.q_count + guard), *want = output (f, l.q_count), *dout = random_typed (f, l.q_count, 1);
  void *d[] = { output (f, l.q_count + guard), output (f, l.kv_count + guard), output (f, l.kv_count + guard) };
  void *want_d[] = { output (f, l.q_count), output (f, l.kv_count), output (f, l.kv_count) };
  f->ops->qkv_forward (f->context, l.q, &l.kv, l.raw, &l.qkv, &l.shape, &l.batch, f->type);
  for (int kept = 0; kept < 2; kept++)
    {
      f->ops->attention_forward (f->context, out, kept ? lse : NULL, l.q, &l.kv, &l.shape, &l.batch, f->type);
      f->reference->attention_forward (f->context, want, want_lse, l.q, &l.kv, &l.shape, &l.batch, f->type);
      assert_near ("attention_forward by the library", out, want, l.q_count, f->type, bound (f));
    }
  assert_near ("attention lse by the library", lse, want_lse, rows, DEV_F32, 1e-5);
  /* Twice: the workspace then holds the sums of the first time. */
  for (int again = 0; again < 2; again++)
    f->ops->attention_backward (f->context, d[0], d[1], d[2], dout, out, lse, l.q, &l.kv, &l.shape, &l.batch, f->type);
  f->reference->attention_backward (f->context, want_d[0], want_d[1], want_d[2], dout, out, lse, l.q, &l.kv, &l.shape,
                                    &l.batch, f->type);
  for (int i = 0; i < 3; i++)
    {
      size_t n = i ? l.kv_count : l.q_count;
      assert_near ("gradients of attention by the library", d[i], want_d[i], n, f->type, 1.5e-2);
      for (size_t k = n; k < n + guard; k++)
        g_assert_true (isnan (at (d[i], k, f->type)));
    }
  for (size_t k = 0; k < guard; k++)
    g_assert_true (isnan (at (out, l.q_count + k, f->type)));
  for (size_t k = 0; k < 128; k++)
    g_assert_true (isnan (lse[rows + k]));
}

static void
test_library_attention (void)
{
  g_autoptr (GError) error = NULL;
  g_setenv ("PLUMB_ATTENTION_PATH", "cudnn", TRUE);
  g_autoptr (PlumbDevice) device = plumb_device_open ("cuda:0", 1 << 20, &error);
  g_assert_no_error (error);
  const char *path = device->ops->attention_path (device->context);
  if (!g_str_has_prefix (path, "cuDNN"))
    g_test_skip (path);
  else
    for (int i = 0; i < 12; i++)
      {
        Fixture f;
        fixture_init (&f, 500 + i, DEV_BF16);
        check_library_attention (&f, i % 2 ? 64 : 128, i < 8 ? 300 : 129);
        fixture_clear (&f);
      }
  g_unsetenv ("PLUMB_ATTENTION_PATH");
}

/* Ids that the host does not know come from the tokens of the pass before. */
static void
check_take_tokens (Fixture *f)
{
  int n = pick (f, 1, 400);
  int32_t *ids = take (f, n * 4), *tokens = take (f, n * 4), *source = take (f, n * 4);
  for (int i = 0; i < n; i++)
    {
      ids[i] = -i;
      tokens[i] = 1000 + i;
      source[i] = pick (f, -1, n - 1);
    }
  f->ops->take_tokens (f->context, ids, tokens, source, n);
  for (int i = 0; i < n; i++)
    g_assert_cmpint (ids[i], ==, source[i] < 0 ? -i : 1000 + source[i]);
}

static void
check_moves (Fixture *f)
{
  int n = pick (f, 1, 40), rows = n + pick (f, 0, 20), width = pick (f, 1, 100);
  size_t count = (size_t) rows * width, size = dev_type_size (f->type);
  void *from = random_typed (f, count, 1), *to = output (f, (size_t) n * width), *back = output (f, count);
  int32_t *which = take (f, n * 4);
  for (int i = 0; i < n; i++)
    which[i] = rows - 1 - i;
  f->ops->gather_rows (f->context, to, from, which, n, width, f->type);
  f->ops->scatter_rows (f->context, back, to, which, n, width, f->type);
  for (int i = 0; i < n; i++)
    {
      size_t bytes = width * size, offset = which[i] * bytes;
      g_assert_cmpmem ((char *) to + i * bytes, bytes, (char *) from + offset, bytes);
      g_assert_cmpmem ((char *) back + offset, bytes, (char *) from + offset, bytes);
    }
  enum dev_type other = f->type == DEV_BF16 ? DEV_F32 : DEV_BF16;
  void *converted = take (f, count * dev_type_size (other));
  f->ops->convert (f->context, converted, other, from, f->type, count);
  for (size_t i = 0; i < count; i++)
    g_assert_cmpfloat (at (converted, i, other), ==, bf16_to_float (bf16_from_float ((float) at (from, i, f->type))));
}

/* One test of one backend. */
typedef struct
{
  const char *name;
  Check check;           /* in rounds, or */
  void (*whole) (void);  /* once */
  gboolean cpu_only, fast_only;
  const Backend *backend;
} Test;

static void
run_test (gconstpointer data)
{
  const Test *test = data;
  backend = test->backend;
  g_autoptr (GError) error = NULL;
  if (backend->gpu)
    {
      PlumbDevice *device = plumb_device_open ("cuda:0", 1 << 20, &error);
      if (!device)
        {
          g_test_skip (error->message);
          return;
        }
      plumb_device_close (device);
    }
  if (test->check)
    run_rounds (test->check);
  else
    test->whole ();
}

int
main (int argc, char **argv)
{
  static const Test tests[] = {
    { "linear", check_linear },
    { "norm", check_norm },
    { "swiglu", check_swiglu },
    { "embed", check_embed },
    { "moves", check_moves },
    { "take-tokens", check_take_tokens },
    { "qkv", check_qkv },
    { "attention", check_attention },
    { "large-attention", check_large_attention },
    { "coded-cache", check_coded },
    { "coded-weights", check_coded_weights },
    { "coded-paths", NULL, test_coded_paths, .fast_only = TRUE },
    { "handed-codes", NULL, test_handed_codes, .fast_only = TRUE },
    { "codes", NULL, test_codes, .cpu_only = TRUE },
    { "code-values", NULL, test_code_values },
    { "norm-product", check_norm_product },
    { "norm-qkv", check_norm_qkv },
    { "few-rows", check_few_rows },
    { "head", check_head },
    { "sample", check_sample },
    { "filters", check_filters },
    { "value", check_value },
    { "adamw", check_adamw },
    { "rows", NULL, test_rows },
    { "paths", NULL, test_paths, TRUE },
    { "differences/norm", NULL, test_differences_swiglu_norm },
    { "differences/attention", NULL, test_differences_attention },
    { "library-attention", NULL, test_library_attention, .fast_only = TRUE },
    { "sticky-error", NULL, test_sticky_error },
    { "sampling", NULL, test_sampling_distribution },
  };
  static Test all[G_N_ELEMENTS (backends)][G_N_ELEMENTS (tests)];
  g_test_init (&argc, &argv, NULL);
  for (gsize b = 0; b < G_N_ELEMENTS (backends); b++)
    for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
      {
        if ((tests[i].cpu_only && backends[b].gpu) || (tests[i].fast_only && backends[b].exact))
          continue;
        g_autofree char *path = g_strdup_printf ("/ops/%s/%s", backends[b].name, tests[i].name);
        all[b][i] = tests[i];
        all[b][i].backend = &backends[b];
        g_test_add_data_func (path, &all[b][i], run_test);
      }
  return g_test_run ();
}
