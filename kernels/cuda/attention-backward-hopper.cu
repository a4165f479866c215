/* SPDX-License-Identifier: Apache-2.0 */

/* The gradient of causal attention on Hopper, as attention-backward.cu divides it, with products of a warpgroup: a block
 * owns 64 keys, or 64 queries, whose tiles stay in shared memory while 64 rows of the other kind pass by. The weights are
 * computed with the own rows as rows, so that they leave the one product in the registers in which the next one takes
 * them. While a block turns scores into weights the other one of its multiprocessor multiplies. */

#include "kernels/cuda/wgmma.cuh"

#define OWN 64
#define ROWS 64 // of a tile that passes by
#define STAGES 2
#define THREADS WARPGROUP
#define LOG2E 1.4426950408889634f

template <int D> struct layout
{
  static constexpr int tile = 64 * D; // elements; own and passing tiles have 64 rows
  static constexpr int bytes
      = (2 + STAGES * 2) * tile * (int) sizeof (bf16) + STAGES * 2 * ROWS * (int) sizeof (float) + 1024;
};

struct inputs
{
  const bf16 *dout, *q, *keys, *values;
  const float *lse, *delta; // (T, H)
};

/* Rows first..first+count-1 of x (rows, heads, D), head `head`, into a tile; the others become zeros. */
template <int D>
__device__ __forceinline__ void
load_tile (bf16 *to, const bf16 *x, int64_t first, int count, int heads, int head)
{
  load_swizzled<D, 64, THREADS> (to, x + (first * heads + head) * D, (int64_t) heads * D, count);
}

/* c (own rows x passing rows) = own rows times passing rows; queued as one group. */
template <int D>
__device__ __forceinline__ void
multiply_rows (float (&c)[8][4], const bf16 *own, const bf16 *passing)
{
  uint64_t a = describe<64> (own), b = describe<64> (passing);
#pragma unroll
  for (int k = 0; k < D; k += 16)
    wgmma_shared (c, columns_from<64> (a, k), columns_from<64> (b, k), k > 0);
  wgmma_commit ();
}

/* sum (own rows x D) += weights (own rows x passing rows) times the passing rows; queued as one group. */
template <int D>
__device__ __forceinline__ void
add_rows (float (&sum)[D / 8][4], const uint32_t (&weights)[4][4], const bf16 *passing)
{
  uint64_t b = describe<64> (passing);
#pragma unroll
  for (int k = 0; k < 4; k++)
    wgmma_registers (sum, weights[k], rows_from (b, k * 16));
  wgmma_commit ();
}

__device__ __forceinline__ void
pack_weights (uint32_t (&to)[4][4], const float (&weights)[8][4])
{
#pragma unroll
  for (int k = 0; k < 4; k++)
    c_to_a (to[k], weights[2 * k], weights[2 * k + 1]);
}

template <int N>
__device__ __forceinline__ void
clear (float (&sum)[N][4])
{
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      sum[n][i] = 0;
}

/* The warp's 16 rows, scaled, to x (rows, heads, D) of T. */
template <int D, typename T>
__device__ __forceinline__ void
store_sum (T *x, const float (&sum)[D / 8][4], float scale, int64_t first, int valid, int heads, int head)
{
  int r = threadIdx.x % WARP / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      if (r + half * 8 < valid)
        {
          float pair[2] = { sum[n][2 * half] * scale, sum[n][2 * half + 1] * scale };
          store_pack (x + ((first + r + half * 8) * heads + head) * D + n * 8 + c, pair);
        }
}

__device__ __forceinline__ bf16 *
aligned (bf16 *shared)
{
  return (bf16 *) (((uintptr_t) shared + 1023) & ~(uintptr_t) 1023);
}

/* Block (tile of keys, group, part of the group's heads): dk and dv, with several parts as partial sums. Rows of the products
 * are keys, columns are queries. */
template <int D>
__global__ void __launch_bounds__ (THREADS, 2)
hopper_keys (bf16 *dk, bf16 *dv, float *partial, inputs in, dev_attention shape, dev_batch batch)
{
  extern __shared__ bf16 unaligned[];
  bf16 *key_tile = aligned (unaligned), *value_tile = key_tile + layout<D>::tile;
  bf16 *streamed = value_tile + layout<D>::tile;
  float *statistics = (float *) (streamed + STAGES * 2 * layout<D>::tile); // (STAGES, lse and delta, ROWS)
  int s, tile, group = blockIdx.y, own_heads = shape.heads / shape.groups / gridDim.z, warp = threadIdx.x / WARP;
  int first_head = (group * gridDim.z + blockIdx.z) * own_heads;
  if (!find_tile<OWN> (batch, blockIdx.x, &s, &tile))
    return;
  /* Early keys are seen by the most queries, so they come first. */
  int first = batch.query_offsets[s], length = batch.query_offsets[s + 1] - first;
  int start = ((length + OWN - 1) / OWN - 1 - tile) * OWN, valid = min (OWN, length - start);
  int end = shape.window ? min (length, start + valid - 1 + shape.window) : length;
  int tiles = (end - start + ROWS - 1) / ROWS, count = tiles * own_heads;
  float scale = shape.scale * LOG2E, sum_k[D / 8][4], sum_v[D / 8][4];
  clear (sum_k);
  clear (sum_v);
  load_tile<D> (key_tile, in.keys, first + start, valid, shape.groups, group);
  load_tile<D> (value_tile, in.values, first + start, valid, shape.groups, group);
  int next_head = first_head, next_query = start; // of the tile to be loaded next
  auto load = [&] (int i) {
    int head = next_head, query = next_query;
    bf16 *to = streamed + i % STAGES * 2 * layout<D>::tile;
    next_query += ROWS;
    if (next_query >= end)
      {
        next_query = start;
        next_head++;
      }
    load_tile<D> (to, in.q, first + query, length - query, shape.heads, head);
    load_tile<D> (to + layout<D>::tile, in.dout, first + query, length - query, shape.heads, head);
    int r = threadIdx.x % ROWS;
    bool inside = query + r < length;
    const float *from = threadIdx.x < ROWS ? in.lse : in.delta;
    copy_4 (statistics + i % STAGES * 2 * ROWS + threadIdx.x,
            from + (int64_t) (first + query + (inside ? r : 0)) * shape.heads + head, inside);
    copy_commit ();
  };
  load (0);
  int key = start + warp * 16 + threadIdx.x % WARP / 4, c = threadIdx.x % 4 * 2, query = start - ROWS;
  for (int i = 0; i < count; i++)
    {
      query = query + ROWS < end ? query + ROWS : start;
      /* After the barrier this tile is there, and nobody needs the one before it, whose place the next one takes. */
      copy_wait<0> ();
      publish_shared ();
      __syncthreads ();
      if (i + 1 < count)
        load (i + 1);
      const float *lse = statistics + i % STAGES * 2 * ROWS, *delta = lse + ROWS;
      const bf16 *query_tile = streamed + i % STAGES * 2 * layout<D>::tile, *dout_tile = query_tile + layout<D>::tile;
      float weights[8][4], ds[8][4];
      uint32_t packed[4][4], packed_ds[4][4];
      wgmma_begin ();
      multiply_rows<D> (weights, key_tile, query_tile);
      multiply_rows<D> (ds, value_tile, dout_tile);
      bool edge = query < start + OWN - 1 || query + ROWS > length
                  || (shape.window && start <= query + ROWS - 1 - shape.window);
      wgmma_wait<1> ();
      pin (weights);
#pragma unroll
      for (int n = 0; n < 8; n++)
        {
          float2 own_lse = *(const float2 *) (lse + n * 8 + c);
#pragma unroll
          for (int k = 0; k < 4; k++)
            weights[n][k] = exp2_fast (fmaf (weights[n][k], scale, (k % 2 ? own_lse.y : own_lse.x) * -LOG2E));
        }
      if (edge)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
          for (int k = 0; k < 4; k++)
            {
              int p = query + n * 8 + c + k % 2, j = key + k / 2 * 8;
              if (p >= length || j > p || (shape.window && j <= p - shape.window))
                weights[n][k] = 0;
            }
      pack_weights (packed, weights);
      wgmma_begin ();
      add_rows<D> (sum_v, packed, dout_tile);
      wgmma_wait<1> ();
      pin (ds);
#pragma unroll
      for (int n = 0; n < 8; n++)
        {
          float2 own_delta = *(const float2 *) (delta + n * 8 + c);
#pragma unroll
          for (int k = 0; k < 4; k++)
            ds[n][k] = weights[n][k] * (ds[n][k] - (k % 2 ? own_delta.y : own_delta.x));
        }
      pack_weights (packed_ds, ds);
      wgmma_begin ();
      add_rows<D> (sum_k, packed_ds, query_tile);
      wgmma_wait<0> ();
      pin (sum_v);
      pin (sum_k);
    }
  int row = start + warp * 16;
  int64_t all = (int64_t) batch.tokens * shape.groups * D;
  if (partial)
    {
      store_sum<D> (partial + blockIdx.z * all, sum_k, 1.0f, first + row, length - row, shape.groups, group);
      store_sum<D> (partial + (gridDim.z + blockIdx.z) * all, sum_v, 1.0f, first + row, length - row, shape.groups, group);
      return;
    }
  store_sum<D> (dk, sum_k, shape.scale, first + row, length - row, shape.groups, group);
  store_sum<D> (dv, sum_v, 1.0f, first + row, length - row, shape.groups, group);
}

/* Block (tile of queries, head): dq. Rows of the products are queries, columns are keys. */
template <int D>
__global__ void __launch_bounds__ (THREADS, 2)
hopper_queries (bf16 *dq, inputs in, dev_attention shape, dev_batch batch)
{
  extern __shared__ bf16 unaligned[];
  bf16 *query_tile = aligned (unaligned), *dout_tile = query_tile + layout<D>::tile;
  bf16 *streamed = dout_tile + layout<D>::tile;
  int s, tile, head = blockIdx.y, group = head / (shape.heads / shape.groups), warp = threadIdx.x / WARP;
  if (!find_tile<OWN> (batch, blockIdx.x, &s, &tile))
    return;
  int first = batch.query_offsets[s], length = batch.query_offsets[s + 1] - first, start = tile * OWN;
  int valid = min (OWN, length - start);
  int from = shape.window ? max (0, start - shape.window + 1) / ROWS : 0, to = (start + valid + ROWS - 1) / ROWS;
  float scale = shape.scale * LOG2E, sum[D / 8][4], lse[2], delta[2];
  clear (sum);
  int position = start + warp * 16 + threadIdx.x % WARP / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      int p = position + half * 8;
      lse[half] = p < length ? in.lse[(int64_t) (first + p) * shape.heads + head] * LOG2E : 0.0f;
      delta[half] = p < length ? in.delta[(int64_t) (first + p) * shape.heads + head] : 0.0f;
    }
  load_tile<D> (query_tile, in.q, first + start, valid, shape.heads, head);
  load_tile<D> (dout_tile, in.dout, first + start, valid, shape.heads, head);
  auto load = [&] (int i) {
    bf16 *place = streamed + i % STAGES * 2 * layout<D>::tile;
    load_tile<D> (place, in.keys, first + i * ROWS, length - i * ROWS, shape.groups, group);
    load_tile<D> (place + layout<D>::tile, in.values, first + i * ROWS, length - i * ROWS, shape.groups, group);
    copy_commit ();
  };
  load (from);
  for (int i = from; i < to; i++)
    {
      copy_wait<0> ();
      publish_shared ();
      __syncthreads ();
      if (i + 1 < to)
        load (i + 1);
      const bf16 *key_tile = streamed + i % STAGES * 2 * layout<D>::tile, *value_tile = key_tile + layout<D>::tile;
      float weights[8][4], ds[8][4];
      uint32_t packed[4][4];
      wgmma_begin ();
      multiply_rows<D> (weights, query_tile, key_tile);
      multiply_rows<D> (ds, dout_tile, value_tile);
      bool edge = i * ROWS + ROWS - 1 > start || (shape.window && i * ROWS <= start + OWN - 1 - shape.window);
      wgmma_wait<1> ();
      pin (weights);
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int k = 0; k < 4; k++)
          weights[n][k] = exp2_fast (fmaf (weights[n][k], scale, -lse[k / 2]));
      wgmma_wait<0> ();
      pin (ds);
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int k = 0; k < 4; k++)
          ds[n][k] = weights[n][k] * (ds[n][k] - delta[k / 2]);
      if (edge)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
          for (int k = 0; k < 4; k++)
            {
              int j = i * ROWS + n * 8 + c + k % 2, p = position + k / 2 * 8;
              if (j > p || (shape.window && j <= p - shape.window))
                ds[n][k] = 0;
            }
      pack_weights (packed, ds);
      wgmma_begin ();
      add_rows<D> (sum, packed, key_tile);
      wgmma_wait<0> ();
      pin (sum);
    }
  int row = start + warp * 16;
  store_sum<D> (dq, sum, shape.scale, first + row, length - row, shape.heads, head);
}

/* In how many parts the heads of a group are taken: the fewest that fill the multiprocessors a few times over, for blocks of
 * late keys have less to do; their partial sums lie in the workspace. */
static int
choose_parts (const struct dev_context *context, int64_t blocks, int heads, size_t each)
{
  int best = 1;
  for (int parts = 1; parts <= heads; parts++)
    {
      if (heads % parts || each * parts > context->workspace_size)
        continue;
      best = parts;
      if (blocks * parts >= 6 * context->multiprocessors)
        break;
    }
  return best;
}

template <int D>
static bool
launch (struct dev_context *context, void *dq, void *dk, void *dv, inputs in, const struct dev_attention *shape,
        const struct dev_batch *batch)
{
  int bytes = layout<D>::bytes, tiles = ceil_div (batch->tokens, OWN) + batch->sequences;
  int64_t count = (int64_t) batch->tokens * shape->groups * D;
  size_t before = dev_align ((size_t) batch->tokens * shape->heads * sizeof (float));
  int parts = choose_parts (context, (int64_t) tiles * shape->groups, shape->heads / shape->groups,
                            before + 2 * count * sizeof (float));
  float *partial = parts > 1 ? (float *) (context->workspace + before) : NULL;
  if (bytes > context->shared_limit
      || cudaFuncSetAttribute (hopper_keys<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess
      || cudaFuncSetAttribute (hopper_queries<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
    return false;
  hopper_keys<D><<<dim3 (tiles, shape->groups, parts), THREADS, bytes, context->stream>>> (
      (bf16 *) dk, (bf16 *) dv, partial, in, *shape, *batch);
  if (partial)
    cuda_merge_heads (context, dk, dv, partial, parts, count, shape->scale);
  hopper_queries<D><<<dim3 (tiles, shape->heads), THREADS, bytes, context->stream>>> ((bf16 *) dq, in, *shape, *batch);
  CUDA_LAUNCHED (context, "attention_backward");
  return true;
}

bool
cuda_attention_hopper_backward (struct dev_context *context, void *dq, void *dk, void *dv, const void *dout,
                                const void *q, const struct dev_kv *kv, const float *lse, const float *delta,
                                const struct dev_attention *shape, const struct dev_batch *batch)
{
#ifdef PLUMB_HOPPER
  inputs in = { (const bf16 *) dout, (const bf16 *) q, (const bf16 *) kv->k, (const bf16 *) kv->v, lse, delta };
  if (shape->soft_cap > 0)
    return false;
  if (context->hopper && shape->head_size == 64)
    return launch<64> (context, dq, dk, dv, in, shape, batch);
  if (context->hopper && shape->head_size == 128)
    return launch<128> (context, dq, dk, dv, in, shape, batch);
#endif
  return false;
}
