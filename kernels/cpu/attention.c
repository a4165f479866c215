/* SPDX-License-Identifier: Apache-2.0 */

/* Causal attention with grouped queries over ragged, paged or contiguous keys: online softmax over tiles
 * of 16 keys (Dao 2023). The arithmetic of a query depends on its keys alone, never on the batch, on the
 * page size, or on the other queries of the call. */

#include "kernels/cpu/attention.h"
#include "kernels/e4m3.h"

#include <math.h> // defines: logf, INFINITY
#include <omp.h>  // defines: omp_get_thread_num

/* Six (context, padded head size) arrays, which the backward pass needs, and the rows of a block. */
size_t
cpu_attention_scratch (int max_context, int head_size)
{
  size_t keys = (size_t) tile_count (max_context) * TILE, padded = (size_t) padded_size (head_size);
  return (6 * keys * padded + 8 * QUERIES * padded + 1024) * sizeof (float);
}

struct queries
cpu_queries (const struct dev_attention *shape, const struct dev_batch *batch, int s, int g)
{
  int first = batch->query_offsets[s], rows = batch->query_offsets[s + 1] - first;
  return (struct queries){ shape, batch, s, g, first, rows * (shape->heads / shape->groups),
                           batch->contexts[s] - rows };
}

CPU_CLONES static void
load_row (float *to, const void *from, size_t at, int size, int padded, float factor, enum dev_type type)
{
  if (type == DEV_F32)
    for (int d = 0; d < size; d++)
      to[d] = ((const float *) from)[at + d] * factor;
  else
    for (int d = 0; d < size; d++)
      to[d] = bf16_to_float (((const bf16 *) from)[at + d]) * factor;
  for (int d = size; d < padded; d++)
    to[d] = 0;
}

void
cpu_load_queries (float *to, const void *from, const struct queries *q, int index, int n, float factor,
                  enum dev_type type)
{
  int size = q->shape->head_size, padded = padded_size (size);
  for (int i = 0; i < n; i++)
    {
      struct query query = query_at (q, index + i);
      load_row (to + (size_t) i * padded, from,
                ((size_t) query.row * q->shape->heads + query.head) * size, size, padded, factor, type);
    }
}

CPU_CLONES static void
load_codes (float *to, const uint8_t *from, int size, int padded, float scale)
{
  for (int d = 0; d < size; d++)
    to[d] = e4m3_to_float (from[d]) * scale;
  for (int d = size; d < padded; d++)
    to[d] = 0;
}

CPU_CLONES static void
transpose_tile (float *to, const float *from, int rows, int size, int padded)
{
  for (int d = 0; d < size; d++)
    for (int j = 0; j < TILE; j++)
      to[(size_t) d * TILE + j] = j < rows ? from[(size_t) j * padded + d] : 0.0f;
}

/* KV row of key j of a sequence. */
static size_t
key_row (const struct dev_batch *batch, int s, int j)
{
  if (!batch->block_table)
    return (size_t) batch->query_offsets[s] + j;
  int page = batch->block_table[(size_t) s * batch->table_stride + j / batch->page_tokens];
  return (size_t) page * batch->page_tokens + j % batch->page_tokens;
}

void
cpu_gather_keys (float *rows, float *transposed, const void *from, const float *scales, const struct queries *q,
                 int oldest, int keys, enum dev_type type)
{
  int size = q->shape->head_size, padded = padded_size (size);
  size_t row_width = (size_t) q->shape->groups * size;
  float local[TILE * 256];
  for (int i = oldest / TILE; i < tile_count (keys); i++)
    {
      int first = i * TILE, count = keys - first < TILE ? keys - first : TILE;
      float *to = rows ? rows + (size_t) first * padded : local;
      size_t start = key_row (q->batch, q->s, first);
      for (int j = 0; j < count; j++)
        {
          size_t at = (start + j) * row_width + (size_t) q->g * size;
          if (scales)
            load_codes (to + (size_t) j * padded, (const uint8_t *) from + at, size, padded, scales[at / size]);
          else
            load_row (to + (size_t) j * padded, from, at, size, padded, 1.0f, type);
        }
      if (rows)
        memset (to + (size_t) count * padded, 0, (size_t) (TILE - count) * padded * sizeof (float));
      if (transposed)
        transpose_tile (transposed + (size_t) first * size, to, count, size, padded);
    }
}

/* Running maximum and sum of a query. */
struct softmax
{
  float top, sum;
};

/* Scores of a tile become probabilities relative to the new maximum; returns the factor of what was summed
 * before. Lanes outside from .. to-1 become 0, and a tile without lanes changes nothing. */
CPU_INLINE float
softmax_tile (struct softmax *state, tile *scores, int from, int to)
{
  float s[TILE], peak = state->top, part = 0;
  if (from >= to)
    {
      *scores = (tile){ 0 };
      return 1.0f;
    }
  STORE_TILE (s, *scores);
  for (int j = 0; j < TILE; j++)
    s[j] = j >= from && j < to ? s[j] : -INFINITY;
  for (int j = 0; j < TILE; j++)
    peak = s[j] > peak ? s[j] : peak;
  for (int j = 0; j < TILE; j++)
    {
      float p = vector_exp (s[j] - peak);
      s[j] = j >= from && j < to ? p : 0.0f;
    }
#pragma omp simd reduction(+ : part)
  for (int j = 0; j < TILE; j++)
    part += s[j];
  float keep = vector_exp (state->top - peak);
  state->sum = state->sum * keep + part;
  state->top = peak;
  *scores = LOAD_TILE (s);
  return keep;
}

/* Scores under a soft cap. */
CPU_INLINE void
cap_tile (tile *scores, float cap)
{
  float s[TILE];
  STORE_TILE (s, *scores);
  for (int j = 0; j < TILE; j++)
    s[j] = cap * tanhf (s[j] / cap);
  *scores = LOAD_TILE (s);
}

/* A block of n queries over all of its tiles; out (n, padded) must be 0. */
CPU_INLINE void
attend (float *out, struct softmax *state, const struct query *query, const float *q, const float *keys,
        const float *values, int n, int size, float cap)
{
  int padded = padded_size (size);
  tile p[QUERIES];
  float keep[QUERIES];
  for (int i = query[0].lo / TILE; i < tile_count (query[n - 1].hi); i++)
    {
      int first = i * TILE;
      tile_products (p, q, keys + (size_t) first * size, n, size, padded);
      for (int k = 0; k < n && cap > 0; k++)
        cap_tile (&p[k], cap);
      for (int k = 0; k < n; k++)
        {
          int from = query[k].lo > first ? query[k].lo - first : 0;
          int to = query[k].hi - first < TILE ? query[k].hi - first : TILE;
          keep[k] = softmax_tile (&state[k], &p[k], from, to);
        }
      /* Its own pass, closed off from the next: beside the first product below, the compiler could contract
       * either of the two into the sum, and did so differently for different n. */
      for (int k = 0; k < n; k++)
        for (int d = 0; d < padded; d += TILE)
          STORE_TILE (out + (size_t) k * padded + d, LOAD_TILE (out + (size_t) k * padded + d) * keep[k]);
      __asm__ volatile ("" ::: "memory");
      for (int d = 0; d < padded; d += TILE)
        {
          tile sum[QUERIES];
          for (int k = 0; k < n; k++)
            sum[k] = LOAD_TILE (out + (size_t) k * padded + d);
          for (int j = 0; j < TILE; j++)
            {
              tile value = LOAD_TILE (values + (size_t) (first + j) * padded + d);
              for (int k = 0; k < n; k++)
                sum[k] += p[k][j] * value;
            }
          for (int k = 0; k < n; k++)
            STORE_TILE (out + (size_t) k * padded + d, sum[k]);
        }
    }
}

CPU_CLONES static void
attend_block (float *out, float *lse, const struct query *query, const float *q, const float *keys,
              const float *values, int n, int size, float cap)
{
  int padded = padded_size (size);
  struct softmax state[QUERIES];
  for (int k = 0; k < n; k++)
    state[k] = (struct softmax){ -INFINITY, 0 };
  memset (out, 0, (size_t) n * padded * sizeof (float));
#define BODY(constant) attend (out, state, query, q, keys, values, constant, size, cap)
  WITH_CONSTANT_QUERIES (n, BODY);
#undef BODY
  for (int k = 0; k < n; k++)
    {
      float inverse = 1.0f / state[k].sum;
      for (int d = 0; d < size; d++)
        out[(size_t) k * padded + d] *= inverse;
      lse[k] = state[k].top + logf (state[k].sum);
    }
}

/* All queries of a group of a sequence. */
static void
attend_group (void *out, float *lse, const void *q, const struct dev_kv *kv, const struct queries *queries,
              float *scratch, enum dev_type type)
{
  const struct dev_attention *shape = queries->shape;
  int size = shape->head_size, padded = padded_size (size), heads = shape->heads;
  int context = queries->batch->contexts[queries->s], oldest = query_at (queries, 0).lo;
  size_t keys = (size_t) tile_count (context) * TILE;
  float *transposed = scratch, *values = transposed + keys * padded, *rows = values + keys * padded;
  float *results = rows + QUERIES * padded, totals[QUERIES];
  struct query query[QUERIES];
  cpu_gather_keys (NULL, transposed, kv->k, kv->k_scales, queries, oldest, context, type);
  cpu_gather_keys (values, NULL, kv->v, kv->v_scales, queries, oldest, context, type);
  for (int index = 0, n; index < queries->count; index += n)
    {
      n = block_size (queries->count - index);
      for (int k = 0; k < n; k++)
        query[k] = query_at (queries, index + k);
      cpu_load_queries (rows, q, queries, index, n, shape->scale, type);
      attend_block (results, totals, query, rows, transposed, values, n, size, shape->soft_cap);
      for (int k = 0; k < n; k++)
        {
          size_t at = (size_t) query[k].row * heads + query[k].head;
          cpu_row_store (typed_at_mut (out, at * size, type), results + (size_t) k * padded, size, type);
          if (lse)
            lse[at] = totals[k];
        }
    }
}

void
cpu_attention_forward (struct dev_context *context, void *out, float *lse, const void *q,
                       const struct dev_kv *kv, const struct dev_attention *shape,
                       const struct dev_batch *batch, enum dev_type type)
{
  size_t stride;
  if (shape->head_size > 256)
    cpu_fail (context, DEV_UNSUPPORTED, "head size %d: the CPU backend goes to 256", shape->head_size);
  char *scratch = cpu_thread_scratch (
      context, cpu_attention_scratch (batch->max_context, shape->head_size), &stride);
  if (context->status)
    return;
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)                                \
    if ((size_t) batch->tokens * batch->max_context * shape->heads > CPU_PARALLEL_ELEMENTS)
  for (int task = 0; task < batch->sequences * shape->groups; task++)
    {
      struct queries queries = cpu_queries (shape, batch, task / shape->groups, task % shape->groups);
      attend_group (out, lse, q, kv, &queries,
                    (float *) (scratch + (size_t) omp_get_thread_num () * stride), type);
    }
}
