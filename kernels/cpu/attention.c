/* SPDX-License-Identifier: Apache-2.0 */

/* Causal attention with grouped queries over ragged, paged or contiguous keys: online softmax over tiles
 * of 16 keys (Dao 2023). The arithmetic of a query depends on its keys alone, never on the batch, on the
 * page size, or on the other queries of the call. */

#include "kernels/cpu/attention.h"

#include <math.h> // defines: logf, INFINITY
#include <omp.h>  // defines: omp_get_thread_num

/* Keys, values and their transposes for the backward pass, which needs most: six (context, size) arrays
 * beside the rows of one query. */
size_t
cpu_attention_scratch (int max_context, int head_size)
{
  size_t keys = (size_t) tile_count (max_context) * TILE;
  return (6 * keys * head_size + 4 * keys + 8 * (size_t) head_size + 256) * sizeof (float);
}

CPU_CLONES static void
transpose_tile (float *to, const float *from, int rows, int size)
{
  for (int d = 0; d < size; d++)
    for (int j = 0; j < TILE; j++)
      to[(size_t) d * TILE + j] = j < rows ? from[(size_t) j * size + d] : 0.0f;
}

/* KV row of key j of sequence s. */
static size_t
key_row (const struct dev_batch *batch, int s, int j)
{
  if (!batch->block_table)
    return (size_t) batch->query_offsets[s] + j;
  int page = batch->block_table[(size_t) s * batch->table_stride + j / batch->page_tokens];
  return (size_t) page * batch->page_tokens + j % batch->page_tokens;
}

void
cpu_gather_keys (float *rows, float *transposed, const void *from, const struct dev_attention *shape,
                 const struct dev_batch *batch, int s, int g, int first_tile, int keys,
                 enum dev_type type)
{
  int size = shape->head_size;
  size_t row_width = (size_t) shape->groups * size;
  float local[TILE * 256];
  for (int i = first_tile; i < tile_count (keys); i++)
    {
      int first = i * TILE;
      int count = keys - first < TILE ? keys - first : TILE;
      float *to = rows ? rows + (size_t) first * size : local;
      size_t start = key_row (batch, s, first);
      for (int j = 0; j < count; j++)
        cpu_row_load (to + (size_t) j * size,
                      typed_at (from, (start + j) * row_width + (size_t) g * size, type), size, type);
      if (transposed)
        transpose_tile (transposed + (size_t) first * size, to, count, size);
    }
}

/* One query over keys lo..hi-1. acc (size) is scratch for the output. Returns the log of the sum of
 * exponentials. */
CPU_CLONES static float
attend (float *out, const float *q, const float *transposed, const float *values, int lo, int hi, int size)
{
  float scores[TILE];
  float top = -INFINITY, sum = 0;
  for (int d = 0; d < size; d++)
    out[d] = 0;
  for (int i = lo / TILE; i < tile_count (hi); i++)
    {
      int first = i * TILE;
      tile_scores (scores, q, transposed + (size_t) first * size, size);
      int from = lo > first ? lo - first : 0;
      int to = hi - first < TILE ? hi - first : TILE;
      float tile_top = top;
      for (int j = from; j < to; j++)
        tile_top = scores[j] > tile_top ? scores[j] : tile_top;
      float part = 0, keep = top == -INFINITY ? 0.0f : vector_exp (top - tile_top);
      for (int j = 0; j < TILE; j++)
        scores[j] = j >= from && j < to ? vector_exp (scores[j] - tile_top) : 0.0f;
#pragma omp simd reduction(+ : part)
      for (int j = 0; j < TILE; j++)
        part += scores[j];
      sum = sum * keep + part;
      top = tile_top;
      for (int d = 0; d < size; d++)
        out[d] *= keep;
      for (int j = from; j < to; j++)
        {
          const float *value = values + (size_t) (first + j) * size;
          float p = scores[j];
          for (int d = 0; d < size; d++)
            out[d] += p * value[d];
        }
    }
  float inverse = 1.0f / sum;
  for (int d = 0; d < size; d++)
    out[d] *= inverse;
  return top + logf (sum);
}

CPU_CLONES static void
scale_row (float *x, float factor, int n)
{
  for (int i = 0; i < n; i++)
    x[i] *= factor;
}

void
cpu_attention_forward (struct dev_context *context, void *out, float *lse, const void *q,
                       const struct dev_kv *kv, const struct dev_attention *shape,
                       const struct dev_batch *batch, enum dev_type type)
{
  int heads = shape->heads, groups = shape->groups, size = shape->head_size;
  int per_group = heads / groups;
  size_t stride;
  if (size > 256)
    cpu_fail (context, DEV_UNSUPPORTED, "head size %d: the CPU backend goes to 256", size);
  char *scratch
      = cpu_thread_scratch (context, cpu_attention_scratch (batch->max_context, size), &stride);
  if (context->status)
    return;
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
  for (int task = 0; task < batch->sequences * groups; task++)
    {
      int s = task / groups, g = task % groups;
      int first = batch->query_offsets[s], last = batch->query_offsets[s + 1];
      int context_length = batch->contexts[s], start = context_length - (last - first);
      int oldest = shape->window && start + 1 > shape->window ? start + 1 - shape->window : 0;
      size_t keys = (size_t) tile_count (context_length) * TILE;
      float *transposed = (float *) (scratch + (size_t) omp_get_thread_num () * stride);
      float *values = transposed + keys * size;
      float *row = values + keys * size;
      cpu_gather_keys (NULL, transposed, kv->k, shape, batch, s, g, oldest / TILE, context_length, type);
      cpu_gather_keys (values, NULL, kv->v, shape, batch, s, g, oldest / TILE, context_length, type);
      for (int t = first; t < last; t++)
        for (int h = g * per_group; h < (g + 1) * per_group; h++)
          {
            int hi = start + t - first + 1;
            int lo = shape->window && hi > shape->window ? hi - shape->window : 0;
            size_t at = ((size_t) t * heads + h) * size;
            cpu_row_load (row, typed_at (q, at, type), size, type);
            scale_row (row, shape->scale, size);
            float total = attend (row + size, row, transposed, values, lo, hi, size);
            cpu_row_store (typed_at_mut (out, at, type), row + size, size, type);
            if (lse)
              lse[(size_t) t * heads + h] = total;
          }
    }
}
