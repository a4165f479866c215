/* SPDX-License-Identifier: Apache-2.0 */

/* Gradient of causal attention, contiguous batches. One task owns a group of a sequence, so dk and dv add
 * up in the order of the queries: deterministic for any number of threads. */

#include "kernels/cpu/attention.h"

#include <math.h> // defines: tanhf
#include <omp.h>  // defines: omp_get_thread_num

/* Keys and values of a group as float, and the sums of their gradients. */
struct group
{
  const float *k, *k_transposed, *v_transposed; // (keys, padded), tiles, tiles
  float *dk, *dv;                               // (keys, padded)
  int size;
  float soft_cap;
};

/* A block of queries: rows of the padded size. q is scaled, and dq is with respect to the scaled query. */
struct block
{
  const struct query *query;
  const float *q, *dout;
  float *dq;
  float lse[QUERIES], delta[QUERIES];
};

/* Scores of a tile under a soft cap, and what their gradients are multiplied by. */
CPU_INLINE void
cap_tile (tile *scores, tile *slopes, float cap)
{
  float s[TILE], slope[TILE];
  STORE_TILE (s, *scores);
  for (int j = 0; j < TILE; j++)
    {
      float capped = tanhf (s[j] / cap);
      s[j] = cap * capped;
      slope[j] = 1 - capped * capped;
    }
  *scores = LOAD_TILE (s);
  *slopes = LOAD_TILE (slope);
}

/* Probabilities of a tile from lse, and dS = P (dP - delta); lanes that the query does not see are 0. */
CPU_INLINE void
tile_gradient (tile *p, tile *ds, const struct block *b, int k, int first)
{
  int from = b->query[k].lo - first, to = b->query[k].hi - first;
  float lse = b->lse[k], delta = b->delta[k], probability[TILE], gradient[TILE];
  STORE_TILE (probability, p[k]);
  STORE_TILE (gradient, ds[k]);
  for (int j = 0; j < TILE; j++)
    {
      float value = vector_exp (probability[j] - lse);
      probability[j] = j >= from && j < to ? value : 0.0f;
      gradient[j] = probability[j] * (gradient[j] - delta);
    }
  p[k] = LOAD_TILE (probability);
  ds[k] = LOAD_TILE (gradient);
}

/* dq gets sum dS k, dk gains dS q, dv gains P dout, for a block of n queries. */
CPU_INLINE void
block_backward (const struct group *g, const struct block *b, int n)
{
  int size = g->size, padded = padded_size (size);
  tile p[QUERIES], ds[QUERIES], slopes[QUERIES];
  for (int i = b->query[0].lo / TILE; i < tile_count (b->query[n - 1].hi); i++)
    {
      int first = i * TILE;
      tile_products (p, b->q, g->k_transposed + (size_t) first * size, n, size, padded);
      tile_products (ds, b->dout, g->v_transposed + (size_t) first * size, n, size, padded);
      for (int k = 0; k < n && g->soft_cap > 0; k++)
        cap_tile (&p[k], &slopes[k], g->soft_cap);
      for (int k = 0; k < n; k++)
        tile_gradient (p, ds, b, k, first);
      for (int k = 0; k < n && g->soft_cap > 0; k++)
        ds[k] *= slopes[k];
      for (int d = 0; d < padded; d += TILE)
        {
          tile q[QUERIES], dout[QUERIES], dq[QUERIES];
          for (int k = 0; k < n; k++)
            {
              q[k] = LOAD_TILE (b->q + (size_t) k * padded + d);
              dout[k] = LOAD_TILE (b->dout + (size_t) k * padded + d);
              dq[k] = LOAD_TILE (b->dq + (size_t) k * padded + d);
            }
          for (int j = 0; j < TILE; j++)
            {
              size_t at = (size_t) (first + j) * padded + d;
              tile key = LOAD_TILE (g->k + at), dk = LOAD_TILE (g->dk + at), dv = LOAD_TILE (g->dv + at);
              for (int k = 0; k < n; k++)
                {
                  dq[k] += ds[k][j] * key;
                  dk += ds[k][j] * q[k];
                  dv += p[k][j] * dout[k];
                }
              STORE_TILE (g->dk + at, dk);
              STORE_TILE (g->dv + at, dv);
            }
          for (int k = 0; k < n; k++)
            STORE_TILE (b->dq + (size_t) k * padded + d, dq[k]);
        }
    }
}

CPU_CLONES static void
run_block (const struct group *g, const struct block *b, int n)
{
  memset (b->dq, 0, (size_t) n * padded_size (g->size) * sizeof (float));
#define BODY(constant) block_backward (g, b, constant)
  WITH_CONSTANT_QUERIES (n, BODY);
#undef BODY
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
store_keys (const struct backward *b, const struct queries *queries, const struct group *g, int keys)
{
  int padded = padded_size (g->size);
  for (int j = 0; j < keys; j++)
    {
      size_t at = ((size_t) (queries->first + j) * b->shape->groups + queries->g) * g->size;
      cpu_row_store (typed_at_mut (b->dk, at, b->type), g->dk + (size_t) j * padded, g->size, b->type);
      cpu_row_store (typed_at_mut (b->dv, at, b->type), g->dv + (size_t) j * padded, g->size, b->type);
    }
}

static void
group_backward (const struct backward *b, int s, int index_of_group, float *scratch)
{
  struct queries queries = cpu_queries (b->shape, b->batch, s, index_of_group);
  int size = b->shape->head_size, padded = padded_size (size), context = b->batch->contexts[s];
  size_t area = (size_t) tile_count (context) * TILE * padded, rows = (size_t) QUERIES * padded;
  float *k = scratch, *k_transposed = k + area, *v_transposed = k_transposed + area;
  float *dk = v_transposed + area, *dv = dk + area, *q = dv + area, *dout = q + rows, *out = dout + rows;
  struct group group = { k, k_transposed, v_transposed, dk, dv, size, b->shape->soft_cap };
  struct query query[QUERIES];
  struct block block = { query, q, dout, out + rows, { 0 }, { 0 } };
  cpu_gather_keys (k, k_transposed, b->kv->k, NULL, &queries, 0, context, b->type);
  cpu_gather_keys (NULL, v_transposed, b->kv->v, NULL, &queries, 0, context, b->type);
  memset (dk, 0, 2 * area * sizeof (float));
  for (int index = 0, n; index < queries.count; index += n)
    {
      n = block_size (queries.count - index);
      cpu_load_queries (q, b->q, &queries, index, n, b->shape->scale, b->type);
      cpu_load_queries (dout, b->dout, &queries, index, n, 1.0f, b->type);
      cpu_load_queries (out, b->out, &queries, index, n, 1.0f, b->type);
      for (int i = 0; i < n; i++)
        {
          query[i] = query_at (&queries, index + i);
          block.lse[i] = b->lse[(size_t) query[i].row * b->shape->heads + query[i].head];
          block.delta[i] = cpu_row_dot (dout + (size_t) i * padded, out + (size_t) i * padded, size);
        }
      run_block (&group, &block, n);
      cpu_row_scale (block.dq, b->shape->scale, n * padded);
      for (int i = 0; i < n; i++)
        cpu_row_store (typed_at_mut (b->dq, ((size_t) query[i].row * b->shape->heads + query[i].head) * size,
                                     b->type),
                       block.dq + (size_t) i * padded, size, b->type);
    }
  store_keys (b, &queries, &group, context);
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
