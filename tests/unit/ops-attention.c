/* SPDX-License-Identifier: Apache-2.0 */

/* Attention and what stands before it: bias, rope and the cache, contiguous, paged, decoded and coded. */

#include "config.h"

#include "kernels/e4m3.h"
#include "tests/unit/ops-checks.h"

#define TILE DEV_KEY_TILE

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

void
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

void
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

/* The larger head sizes, windows and contexts, which the tensor-core kernels serve: forward, backward, pages, decode. */
void
check_large_attention (Fixture *f)
{
  static const int sizes[] = { 64, 96, 128, 256 };
  check_attention_of (f, sizes[pick (f, 0, 3)], backend->gpu ? 160 : 70);
}

/* The op's cache against the reference's, and attention over it, whole and in pages, against the reference over the same. */
void
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

/* One key alone: what comes out are its values, code by code, in whichever way they are read. */
void
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

void
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

void
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

void
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
