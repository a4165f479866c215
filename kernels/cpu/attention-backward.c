/* SPDX-License-Identifier: Apache-2.0 */

/* Gradient of causal attention, contiguous batches. One task owns a group of a sequence, so dk and dv add
 * up in the order of the queries: deterministic for any number of threads. */

#include "kernels/cpu/attention.h"

#include <omp.h> // defines: omp_get_thread_num

struct group
{
  const float *k, *k_transposed, *v_transposed; // (context, size), tiles, tiles
  float *dk, *dv;                               // (context, size)
  int size;
};

CPU_CLONES static float
dot_row (const float *a, const float *b, int n)
{
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

/* One query: probabilities from lse, dP from dout and V, dS = P (dP - delta); dq gets sum dS k, dk gains
 * dS q, dv gains P dout. q is already scaled; dq is with respect to the scaled query. */
CPU_CLONES static void
query_backward (const struct group *g, float *dq, const float *q, const float *dout, float lse, float delta,
                int lo, int hi)
{
  int size = g->size;
  for (int d = 0; d < size; d++)
    dq[d] = 0;
  for (int i = lo / TILE; i < tile_count (hi); i++)
    {
      int first = i * TILE;
      int from = lo > first ? lo - first : 0;
      int to = hi - first < TILE ? hi - first : TILE;
      float p[TILE], dp[TILE];
      tile_scores (p, q, g->k_transposed + (size_t) first * size, size);
      tile_scores (dp, dout, g->v_transposed + (size_t) first * size, size);
      for (int j = 0; j < TILE; j++)
        {
          p[j] = vector_exp (p[j] - lse);
          dp[j] = p[j] * (dp[j] - delta);
        }
      for (int j = from; j < to; j++)
        {
          size_t row = (size_t) (first + j) * size;
          const float *k = g->k + row;
          float *dk = g->dk + row, *dv = g->dv + row;
          float ds = dp[j], pj = p[j];
          for (int d = 0; d < size; d++)
            {
              dq[d] += ds * k[d];
              dk[d] += ds * q[d];
              dv[d] += pj * dout[d];
            }
        }
    }
}

CPU_CLONES static void
scale_row (float *x, float factor, int n)
{
  for (int i = 0; i < n; i++)
    x[i] *= factor;
}

struct backward
{
  void *dq, *dk, *dv;
  const void *dout, *out, *q;
  const float *lse;
  const struct dev_kv *kv;
  const struct dev_attention *shape;
  const struct dev_batch *batch;
  enum dev_type type;
};

static void
group_backward (const struct backward *b, int s, int index, float *scratch)
{
  const struct dev_attention *shape = b->shape;
  int heads = shape->heads, size = shape->head_size, per_group = heads / shape->groups;
  int first = b->batch->query_offsets[s], last = b->batch->query_offsets[s + 1], length = last - first;
  size_t keys = (size_t) tile_count (length) * TILE;
  float *k = scratch, *k_transposed = k + keys * size, *v_transposed = k_transposed + keys * size;
  float *dk = v_transposed + keys * size, *dv = dk + keys * size, *row = dv + keys * size;
  struct group g = { k, k_transposed, v_transposed, dk, dv, size };
  cpu_gather_keys (k, k_transposed, b->kv->k, shape, b->batch, s, index, 0, length, b->type);
  cpu_gather_keys (NULL, v_transposed, b->kv->v, shape, b->batch, s, index, 0, length, b->type);
  memset (dk, 0, 2 * keys * size * sizeof (float));
  float *q = row, *dout = row + size, *out = row + 2 * size, *dq = row + 3 * size;
  for (int t = first; t < last; t++)
    for (int h = index * per_group; h < (index + 1) * per_group; h++)
      {
        int hi = t - first + 1;
        int lo = shape->window && hi > shape->window ? hi - shape->window : 0;
        size_t at = ((size_t) t * heads + h) * size;
        cpu_row_load (q, typed_at (b->q, at, b->type), size, b->type);
        cpu_row_load (dout, typed_at (b->dout, at, b->type), size, b->type);
        cpu_row_load (out, typed_at (b->out, at, b->type), size, b->type);
        scale_row (q, shape->scale, size);
        query_backward (&g, dq, q, dout, b->lse[(size_t) t * heads + h], dot_row (dout, out, size), lo,
                        hi);
        scale_row (dq, shape->scale, size);
        cpu_row_store (typed_at_mut (b->dq, at, b->type), dq, size, b->type);
      }
  for (int t = 0; t < length; t++)
    {
      size_t at = ((size_t) (first + t) * shape->groups + index) * size;
      cpu_row_store (typed_at_mut (b->dk, at, b->type), dk + (size_t) t * size, size, b->type);
      cpu_row_store (typed_at_mut (b->dv, at, b->type), dv + (size_t) t * size, size, b->type);
    }
}

void
cpu_attention_backward (struct dev_context *context, void *dq, void *dk, void *dv, const void *dout,
                        const void *out, const float *lse, const void *q, const struct dev_kv *kv,
                        const struct dev_attention *shape, const struct dev_batch *batch,
                        enum dev_type type)
{
  if (batch->block_table)
    cpu_fail (context, DEV_UNSUPPORTED, "attention_backward works on contiguous keys only");
  size_t stride;
  char *scratch = cpu_thread_scratch (
      context, cpu_attention_scratch (batch->max_context, shape->head_size), &stride);
  if (context->status)
    return;
  struct backward b = { dq, dk, dv, dout, out, q, lse, kv, shape, batch, type };
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
  for (int task = 0; task < batch->sequences * shape->groups; task++)
    group_backward (&b, task / shape->groups, task % shape->groups,
                    (float *) (scratch + (size_t) omp_get_thread_num () * stride));
}
