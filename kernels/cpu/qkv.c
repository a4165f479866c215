/* SPDX-License-Identifier: Apache-2.0 */

/* From raw projections to queries, keys and values: bias, norm per head, rotary position (Su et al. 2021,
 * the halves layout of Hugging Face), and the write into the rows of the KV cache. */

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"
#include "kernels/e4m3.h"

#include <math.h> // defines: sqrtf
#include <omp.h>  // defines: omp_get_thread_num

/* Normalises one head in place and returns rstd. */
CPU_CLONES static float
norm_head (float *x, const float *weight, float eps, int n)
{
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int i = 0; i < n; i++)
    squares += x[i] * x[i];
  float rstd = 1.0f / sqrtf (squares / n + eps);
  for (int i = 0; i < n; i++)
    x[i] *= rstd * weight[i];
  return rstd;
}

/* Turns one head by the angle of its position; `sign` -1 turns back. */
CPU_CLONES static void
rotate_head (float *x, const float *cosine, const float *sine, float sign, int n)
{
  int half = n / 2;
  for (int i = 0; i < half; i++)
    {
      float a = x[i], b = x[i + half], s = sine[i] * sign;
      x[i] = a * cosine[i] - b * s;
      x[i + half] = b * cosine[i] + a * s;
    }
}

/* The raw row with its bias, as float. */
static void
load_raw (float *row, const void *raw, const struct dev_qkv *qkv, float *scratch, size_t t, int width,
          enum dev_type type)
{
  cpu_row_load (row, typed_at (raw, t * width, type), width, type);
  if (!qkv->bias)
    return;
  cpu_row_load (scratch, qkv->bias, width, type);
  cpu_row_add (row, scratch, width);
}

/* Groups of a row as e4m3 codes from row `first` of the scales on. */
CPU_CLONES static void
store_codes (void *codes, float *scales, const float *x, size_t first, int groups, int size)
{
  for (int g = 0; g < groups; g++)
    scales[first + g] = e4m3_store ((uint8_t *) codes + (first + g) * size, x + (size_t) g * size, size);
}

void
cpu_qkv_forward (struct dev_context *context, void *q, const struct dev_kv *kv, const void *raw,
                 const struct dev_qkv *qkv, const struct dev_attention *shape,
                 const struct dev_batch *batch, enum dev_type type)
{
  int heads = shape->heads, groups = shape->groups, size = shape->head_size;
  int width = (heads + 2 * groups) * size;
  size_t stride;
  char *scratch = cpu_thread_scratch (context, (2 * (size_t) width + 2 * size) * sizeof (float), &stride);
  if (context->status)
    return;
#pragma omp parallel for num_threads(context->threads) schedule(static) \
    if ((size_t) batch->tokens * width > CPU_PARALLEL_ELEMENTS)
  for (int t = 0; t < batch->tokens; t++)
    {
      float *row = (float *) (scratch + (size_t) omp_get_thread_num () * stride);
      float *norm = row + 2 * (size_t) width;
      load_raw (row, raw, qkv, row + width, t, width, type);
      size_t position = batch->positions[t];
      const float *cosine = qkv->rope_cos + position * (size / 2);
      const float *sine = qkv->rope_sin + position * (size / 2);
      if (qkv->q_norm)
        {
          cpu_row_load (norm, qkv->q_norm, size, type);
          cpu_row_load (norm + size, qkv->k_norm, size, type);
        }
      for (int head = 0; head < heads + groups; head++)
        {
          float *x = row + (size_t) head * size;
          if (qkv->q_norm)
            norm_head (x, head < heads ? norm : norm + size, qkv->eps, size);
          rotate_head (x, cosine, sine, 1.0f, size);
        }
      size_t slot = batch->slots ? (size_t) batch->slots[t] : (size_t) t;
      size_t kv_width = (size_t) groups * size;
      cpu_row_store (typed_at_mut (q, (size_t) t * heads * size, type), row, (size_t) heads * size, type);
      if (kv->k_scales)
        {
          store_codes (kv->k, kv->k_scales, row + (size_t) heads * size, slot * groups, groups, size);
          store_codes (kv->v, kv->v_scales, row + (size_t) (heads + groups) * size, slot * groups, groups, size);
          continue;
        }
      cpu_row_store (typed_at_mut (kv->k, slot * kv_width, type), row + heads * size, kv_width, type);
      cpu_row_store (typed_at_mut (kv->v, slot * kv_width, type), row + (heads + groups) * size, kv_width,
                     type);
    }
}

/* x (before the norm) and d (gradient after it) give d before it, in place; dweight gains its part. */
CPU_CLONES static void
norm_head_backward (float *d, float *dweight, const float *x, const float *weight, float eps, int n)
{
  float squares = 0, dot = 0;
#pragma omp simd reduction(+ : squares, dot)
  for (int i = 0; i < n; i++)
    {
      squares += x[i] * x[i];
      dot += d[i] * weight[i] * x[i];
    }
  float rstd = 1.0f / sqrtf (squares / n + eps);
  float mean = dot * rstd * rstd / n;
  for (int i = 0; i < n; i++)
    {
      dweight[i] += d[i] * x[i] * rstd;
      d[i] = rstd * (d[i] * weight[i] - x[i] * mean);
    }
}

struct backward
{
  void *draw;
  const void *dq, *dk, *dv, *raw;
  const struct dev_qkv *qkv;
  const struct dev_attention *shape;
  const struct dev_batch *batch;
  enum dev_type type;
  int width;
};

/* Gradient rows first..last; `sums` holds dbias (width), dq_norm and dk_norm (head size each). */
static void
backward_rows (const struct backward *b, float *row, float *sums, int first, int last)
{
  int heads = b->shape->heads, groups = b->shape->groups, size = b->shape->head_size;
  float *raw_row = row + b->width;
  float *norm = raw_row + 2 * (size_t) b->width;
  size_t kv_width = (size_t) groups * size;
  if (b->qkv->q_norm)
    {
      cpu_row_load (norm, b->qkv->q_norm, size, b->type);
      cpu_row_load (norm + size, b->qkv->k_norm, size, b->type);
    }
  for (int t = first; t < last; t++)
    {
      cpu_row_load (row, typed_at (b->dq, (size_t) t * heads * size, b->type), (size_t) heads * size,
                    b->type);
      cpu_row_load (row + heads * size, typed_at (b->dk, t * kv_width, b->type), kv_width, b->type);
      cpu_row_load (row + (heads + groups) * size, typed_at (b->dv, t * kv_width, b->type), kv_width,
                    b->type);
      if (b->qkv->q_norm)
        load_raw (raw_row, b->raw, b->qkv, raw_row + b->width, t, b->width, b->type);
      size_t position = b->batch->positions[t];
      const float *cosine = b->qkv->rope_cos + position * (size / 2);
      const float *sine = b->qkv->rope_sin + position * (size / 2);
      for (int head = 0; head < heads + groups; head++)
        {
          float *d = row + (size_t) head * size;
          int key = head >= heads;
          rotate_head (d, cosine, sine, -1.0f, size);
          if (b->qkv->q_norm)
            norm_head_backward (d, sums + b->width + key * size, raw_row + (size_t) head * size,
                                norm + key * size, b->qkv->eps, size);
        }
      if (b->qkv->bias)
        cpu_row_add (sums, row, b->width);
      cpu_row_store (typed_at_mut (b->draw, (size_t) t * b->width, b->type), row, b->width, b->type);
    }
}

/* A fixed number of parts with sums of their own, added in order: independent of the thread count. */
#define PARTS 4

void
cpu_qkv_backward (struct dev_context *context, void *draw, float *dbias, float *dq_norm, float *dk_norm,
                  const void *dq, const void *dk, const void *dv, const void *raw,
                  const struct dev_qkv *qkv, const struct dev_attention *shape,
                  const struct dev_batch *batch, enum dev_type type)
{
  struct backward b = { draw, dq, dk, dv, raw, qkv, shape, batch, type, 0 };
  b.width = (shape->heads + 2 * shape->groups) * shape->head_size;
  size_t sums = (size_t) b.width + 2 * shape->head_size;
  size_t own = 3 * (size_t) b.width + 2 * shape->head_size;
  size_t stride;
  char *scratch = cpu_thread_scratch (context, (own + PARTS * sums) * sizeof (float), &stride);
  if (context->status)
    return;
  float *partial = (float *) scratch + own; // in the slice of thread 0
  memset (partial, 0, PARTS * sums * sizeof (float));
#pragma omp parallel for num_threads(context->threads) schedule(static)
  for (int part = 0; part < PARTS; part++)
    backward_rows (&b, (float *) (scratch + (size_t) omp_get_thread_num () * stride),
                   partial + part * sums, (int) ((int64_t) batch->tokens * part / PARTS),
                   (int) ((int64_t) batch->tokens * (part + 1) / PARTS));
  for (int part = 0; part < PARTS; part++)
    {
      float *from = partial + part * sums;
      if (qkv->bias && dbias)
        cpu_row_add (dbias, from, b.width);
      if (qkv->q_norm && dq_norm)
        cpu_row_add (dq_norm, from + b.width, shape->head_size);
      if (qkv->k_norm && dk_norm)
        cpu_row_add (dk_norm, from + b.width + shape->head_size, shape->head_size);
    }
}
