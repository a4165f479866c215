/* SPDX-License-Identifier: Apache-2.0 */

/* Gradient of causal attention on tensor cores, in two kernels that each recompute the weights: one owns 64 keys and sums
 * over queries, one owns 64 queries and sums over keys. Nothing is added by atomics, so that equal inputs give equal
 * bits. Contiguous batches only. */

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/soft-cap.cuh"

#define OWN 64
#define THREADS 128
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

/* Rows of a tile that passes by, and how many are in flight. */
template <int D> struct passing
{
  static constexpr int rows = D <= 128 ? 32 : 16;
  static constexpr int stages = D <= 128 ? 2 : 1;
  static constexpr int tile = rows * tile_row<D>::stride;
  static constexpr bool kept = D <= 64; // the own rows' fragments stay in registers
};

/* Fragments of a warp's 16 rows of a tile, kept in registers or read again. */
template <int D> struct own_rows
{
  uint32_t a[passing<D>::kept ? D / 16 : 1][4];
  const bf16 *tile;
  int row;

  __device__ __forceinline__ void
  take (const bf16 *from, int first)
  {
    tile = from;
    row = first;
    if constexpr (passing<D>::kept)
      {
#pragma unroll
        for (int k = 0; k < D / 16; k++)
          load_a<D> (a[k], tile, row, k * 16);
      }
  }

  __device__ __forceinline__ void
  fragment (uint32_t (&to)[4], int k) const
  {
    if constexpr (passing<D>::kept)
      {
#pragma unroll
        for (int i = 0; i < 4; i++)
          to[i] = a[k][i];
      }
    else
      load_a<D> (to, tile, row, k * 16);
  }
};

/* Rows first..first+count-1 of x (rows, heads, D), head `head`, into a tile of ROWS rows; the others become zeros. */
template <int D, int ROWS>
__device__ __forceinline__ void
load_rows (bf16 *to, const bf16 *x, int64_t first, int count, int heads, int head)
{
  constexpr int chunks = D / 8;
#pragma unroll
  for (int i = threadIdx.x; i < ROWS * chunks; i += THREADS)
    {
      int r = i / chunks, c = i % chunks * 8;
      bool inside = r < count;
      copy_16 (to + r * tile_row<D>::stride + c, x + ((first + (inside ? r : 0)) * heads + head) * D + c, inside);
    }
}

/* c (16 x ROWS) = the own rows times the rows of `right`, transposed. */
template <int D, int ROWS>
__device__ __forceinline__ void
multiply_rows (float (&c)[ROWS / 8][4], const own_rows<D> &left, const bf16 *right)
{
#pragma unroll
  for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      c[n][i] = 0;
#pragma unroll
  for (int k = 0; k < D; k += 16)
    {
      uint32_t a[4], b[4];
      left.fragment (a, k / 16);
#pragma unroll
      for (int n = 0; n < ROWS / 8; n += 2)
        {
          load_b<D> (b, right, n * 8, k);
          mma (c[n], a, b[0], b[1]);
          mma (c[n + 1], a, b[2], b[3]);
        }
    }
}

/* sum (16 x D) += weights (16 x ROWS) times the rows of `right`. */
template <int D, int ROWS>
__device__ __forceinline__ void
add_rows (float (&sum)[D / 8][4], const float (&weights)[ROWS / 8][4], const bf16 *right)
{
#pragma unroll
  for (int k = 0; k < ROWS / 16; k++)
    {
      uint32_t a[4], b[4];
      c_to_a (a, weights[2 * k], weights[2 * k + 1]);
#pragma unroll
      for (int n = 0; n < D / 8; n += 2)
        {
          load_b_transposed<D> (b, right, k * 16, n * 8);
          mma (sum[n], a, b[0], b[1]);
          mma (sum[n + 1], a, b[2], b[3]);
        }
    }
}

/* The warp's 16 rows, scaled, through its own rows of a tile to x (rows, heads, D). */
template <int D>
__device__ __forceinline__ void
store_sum (bf16 *x, const float (&sum)[D / 8][4], bf16 *stage, float scale, int64_t first, int valid, int heads,
           int head)
{
  int lane = threadIdx.x % WARP, r = lane / 4, c = lane % 4 * 2;
  __syncwarp ();
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      *(uint32_t *) (stage + (r + half * 8) * tile_row<D>::stride + n * 8 + c)
          = pack_bf16 (sum[n][2 * half] * scale, sum[n][2 * half + 1] * scale);
  __syncwarp ();
  for (int i = lane; i < 16 * (D / 8); i += WARP)
    {
      int row = i / (D / 8), column = i % (D / 8) * 8;
      if (row < valid)
        *(uint4 *) (x + ((first + row) * heads + head) * D + column)
            = *(const uint4 *) (stage + row * tile_row<D>::stride + column);
    }
}

template <int D>
__device__ __forceinline__ void
clear (float (&sum)[D / 8][4])
{
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      sum[n][i] = 0;
}

struct inputs
{
  const bf16 *dout, *q, *keys, *values;
  const float *lse, *delta; // (T, H)
};

/* The warp's 16 rows, as float, to their place among partial sums (rows, heads, D). */
template <int D>
__device__ __forceinline__ void
store_partial (float *x, const float (&sum)[D / 8][4], int64_t first, int valid, int heads, int head)
{
  int r = threadIdx.x % WARP / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      if (r + half * 8 < valid)
        *(float2 *) (x + ((first + r + half * 8) * heads + head) * D + n * 8 + c)
            = make_float2 (sum[n][2 * half], sum[n][2 * half + 1]);
}

/* Sums of the heads of a group, in their order: dk and dv from partial (parts, T, G, D), of k and then of v. */
__global__ void
merge_heads (bf16 *dk, bf16 *dv, const float *partial, int parts, int64_t count, float scale)
{
  int64_t i = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i >= count)
    return;
  for (int which = 0; which < 2; which++)
    {
      float sum[4] = { 0, 0, 0, 0 };
      for (int part = 0; part < parts; part++)
        {
          float more[4];
          load_pack (more, partial + ((int64_t) which * parts + part) * count + i);
          for (int k = 0; k < 4; k++)
            sum[k] += more[k];
        }
      for (int k = 0; k < 4; k++)
        sum[k] *= which ? 1.0f : scale;
      store_pack ((which ? dv : dk) + i, sum);
    }
}

/* Block (tile of keys, group, part of the group's heads): dk and dv, one of them where the registers hold only one; with
 * several parts as partial sums. Rows of the products are keys, columns are queries. */
template <int D, bool WITH_K, bool WITH_V>
__global__ void __launch_bounds__ (THREADS)
backward_keys (bf16 *dk, bf16 *dv, float *partial, inputs in, dev_attention shape, dev_batch batch)
{
  extern __shared__ __align__ (16) bf16 shared[];
  constexpr int ROWS = passing<D>::rows, STAGES = passing<D>::stages;
  bf16 *key_tile = shared, *value_tile = key_tile + OWN * tile_row<D>::stride;
  bf16 *streamed = value_tile + OWN * tile_row<D>::stride;
  float *statistics = (float *) (streamed + STAGES * 2 * passing<D>::tile); // (STAGES, lse and delta, ROWS)
  int s, tile, group = blockIdx.y, own_heads = shape.heads / shape.groups / gridDim.z, warp = threadIdx.x / WARP;
  int first_head = (group * gridDim.z + blockIdx.z) * own_heads;
  if (!find_tile<OWN> (batch, blockIdx.x, &s, &tile))
    return;
  /* Early keys are seen by the most queries, so they come first. */
  int first = batch.query_offsets[s], length = batch.query_offsets[s + 1] - first;
  int start = ((length + OWN - 1) / OWN - 1 - tile) * OWN;
  int valid = min (OWN, length - start);
  int end = shape.window ? min (length, start + valid - 1 + shape.window) : length;
  int tiles = (end - start + ROWS - 1) / ROWS, count = tiles * own_heads;
  float scale = shape.scale * LOG2E;
  float sum_k[WITH_K ? D / 8 : 1][4], sum_v[WITH_V ? D / 8 : 1][4];
  if constexpr (WITH_K)
    clear<D> (sum_k);
  if constexpr (WITH_V)
    clear<D> (sum_v);
  load_rows<D, OWN> (key_tile, in.keys, first + start, valid, shape.groups, group);
  if (WITH_K)
    load_rows<D, OWN> (value_tile, in.values, first + start, valid, shape.groups, group);
  auto load = [&] (int i) {
    int head = first_head + i / tiles, query = start + i % tiles * ROWS;
    bf16 *to = streamed + i % STAGES * 2 * passing<D>::tile;
    load_rows<D, ROWS> (to, in.q, first + query, length - query, shape.heads, head);
    load_rows<D, ROWS> (to + passing<D>::tile, in.dout, first + query, length - query, shape.heads, head);
    if (threadIdx.x < 2 * ROWS)
      {
        int r = threadIdx.x % ROWS;
        bool inside = query + r < length;
        const float *from = threadIdx.x < ROWS ? in.lse : in.delta;
        copy_4 (statistics + i % STAGES * 2 * ROWS + threadIdx.x,
                from + (int64_t) (first + query + (inside ? r : 0)) * shape.heads + head, inside);
      }
  };
  if (STAGES > 1)
    {
      load (0);
      copy_commit ();
    }
  int lowest = start + warp * 16, key = lowest + threadIdx.x % WARP / 4, c = threadIdx.x % 4 * 2;
  own_rows<D> own_keys, own_values;
  for (int i = 0; i < count; i++)
    {
      /* After the barrier this tile is there, and nobody needs the one before it, whose place the next one takes. */
      if (STAGES == 1)
        {
          load (i);
          copy_commit ();
        }
      copy_wait<0> ();
      __syncthreads ();
      if (STAGES > 1 && i + 1 < count)
        {
          load (i + 1);
          copy_commit ();
        }
      if (i == 0)
        {
          own_keys.take (key_tile, warp * 16);
          if (WITH_K)
            own_values.take (value_tile, warp * 16);
        }
      int query = start + i % tiles * ROWS;
      const float *lse = statistics + i % STAGES * 2 * ROWS, *delta = lse + ROWS;
      const bf16 *query_tile = streamed + i % STAGES * 2 * passing<D>::tile;
      const bf16 *dout_tile = query_tile + passing<D>::tile;
      if (query + ROWS > lowest) // else none of the warp's keys is seen
        {
          bool edge = query < lowest + 15 || query + ROWS > length
                      || (shape.window && lowest <= query + ROWS - 1 - shape.window);
          float weights[ROWS / 8][4];
          multiply_rows<D, ROWS> (weights, own_keys, query_tile);
          if (shape.soft_cap > 0)
            cap_scores (weights, shape);
#pragma unroll
          for (int n = 0; n < ROWS / 8; n++)
            {
              float2 own_lse = *(const float2 *) (lse + n * 8 + c);
#pragma unroll
              for (int k = 0; k < 4; k++)
                weights[n][k] = exp2_fast (fmaf (weights[n][k], scale, (k % 2 ? own_lse.y : own_lse.x) * -LOG2E));
            }
          if (edge)
#pragma unroll
            for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
              for (int k = 0; k < 4; k++)
                {
                  int p = query + n * 8 + c + k % 2, j = key + k / 2 * 8;
                  if (p >= length || j > p || (shape.window && j <= p - shape.window))
                    weights[n][k] = 0;
                }
          if constexpr (WITH_V)
            add_rows<D, ROWS> (sum_v, weights, dout_tile);
          if constexpr (WITH_K)
            {
              float ds[ROWS / 8][4];
              multiply_rows<D, ROWS> (ds, own_values, dout_tile);
#pragma unroll
              for (int n = 0; n < ROWS / 8; n++)
                {
                  float2 own_delta = *(const float2 *) (delta + n * 8 + c);
#pragma unroll
                  for (int k = 0; k < 4; k++)
                    ds[n][k] = weights[n][k] * (ds[n][k] - (k % 2 ? own_delta.y : own_delta.x));
                  float2 own_lse = *(const float2 *) (lse + n * 8 + c);
                  for (int k = 0; shape.soft_cap > 0 && k < 4; k++)
                    ds[n][k] *= weight_slope (weights[n][k], k % 2 ? own_lse.y : own_lse.x, shape.soft_cap);
                }
              add_rows<D, ROWS> (sum_k, ds, query_tile);
            }
        }
      if (STAGES == 1)
        __syncthreads ();
    }
  copy_wait<0> ();
  __syncthreads ();
  int row = start + warp * 16;
  bf16 *stage = key_tile + warp * 16 * tile_row<D>::stride;
  if (partial)
    {
      int64_t count_all = (int64_t) batch.tokens * shape.groups * D;
      if constexpr (WITH_K)
        store_partial<D> (partial + blockIdx.z * count_all, sum_k, first + row, length - row, shape.groups, group);
      if constexpr (WITH_V)
        store_partial<D> (partial + (gridDim.z + blockIdx.z) * count_all, sum_v, first + row, length - row, shape.groups,
                          group);
      return;
    }
  if constexpr (WITH_K)
    store_sum<D> (dk, sum_k, stage, shape.scale, first + row, length - row, shape.groups, group);
  if constexpr (WITH_V)
    store_sum<D> (dv, sum_v, stage, 1.0f, first + row, length - row, shape.groups, group);
}

/* Block (tile of queries, head): dq. Rows of the products are queries, columns are keys. */
template <int D>
__global__ void __launch_bounds__ (THREADS)
backward_queries (bf16 *dq, inputs in, dev_attention shape, dev_batch batch)
{
  extern __shared__ __align__ (16) bf16 shared[];
  constexpr int ROWS = passing<D>::rows, STAGES = passing<D>::stages;
  bf16 *query_tile = shared, *dout_tile = query_tile + OWN * tile_row<D>::stride;
  bf16 *streamed = dout_tile + OWN * tile_row<D>::stride;
  int s, tile, head = blockIdx.y, group = head / (shape.heads / shape.groups), warp = threadIdx.x / WARP;
  if (!find_tile<OWN> (batch, blockIdx.x, &s, &tile))
    return;
  int first = batch.query_offsets[s], length = batch.query_offsets[s + 1] - first, start = tile * OWN;
  int valid = min (OWN, length - start);
  int from = shape.window ? max (0, start - shape.window + 1) / ROWS : 0, to = (start + valid + ROWS - 1) / ROWS;
  float scale = shape.scale * LOG2E, sum[D / 8][4], lse[2], delta[2];
  own_rows<D> own_queries, own_douts;
  clear<D> (sum);
  int position = start + warp * 16 + threadIdx.x % WARP / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      int p = position + half * 8;
      lse[half] = p < length ? in.lse[(int64_t) (first + p) * shape.heads + head] * LOG2E : 0.0f;
      delta[half] = p < length ? in.delta[(int64_t) (first + p) * shape.heads + head] : 0.0f;
    }
  load_rows<D, OWN> (query_tile, in.q, first + start, valid, shape.heads, head);
  load_rows<D, OWN> (dout_tile, in.dout, first + start, valid, shape.heads, head);
  auto load = [&] (int i) {
    bf16 *place = streamed + i % STAGES * 2 * passing<D>::tile;
    load_rows<D, ROWS> (place, in.keys, first + i * ROWS, length - i * ROWS, shape.groups, group);
    load_rows<D, ROWS> (place + passing<D>::tile, in.values, first + i * ROWS, length - i * ROWS, shape.groups, group);
  };
  if (STAGES > 1)
    {
      load (from);
      copy_commit ();
    }
  for (int i = from; i < to; i++)
    {
      /* After the barrier this tile is there, and nobody needs the one before it, whose place the next one takes. */
      if (STAGES == 1)
        {
          load (i);
          copy_commit ();
        }
      copy_wait<0> ();
      __syncthreads ();
      if (STAGES > 1 && i + 1 < to)
        {
          load (i + 1);
          copy_commit ();
        }
      const bf16 *key_tile = streamed + i % STAGES * 2 * passing<D>::tile;
      const bf16 *value_tile = key_tile + passing<D>::tile;
      if (i == from)
        {
          own_queries.take (query_tile, warp * 16);
          own_douts.take (dout_tile, warp * 16);
        }
      int lowest = start + warp * 16; // position of the warp's first row
      if (i * ROWS <= lowest + 15)    // else none of its rows sees the keys
        {
          bool edge = i * ROWS + ROWS - 1 > lowest || (shape.window && i * ROWS <= lowest + 15 - shape.window);
          float weights[ROWS / 8][4], ds[ROWS / 8][4];
          multiply_rows<D, ROWS> (weights, own_queries, key_tile);
          if (shape.soft_cap > 0)
            cap_scores (weights, shape);
          multiply_rows<D, ROWS> (ds, own_douts, value_tile);
#pragma unroll
          for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
            for (int k = 0; k < 4; k++)
              {
                float weight = exp2_fast (fmaf (weights[n][k], scale, -lse[k / 2]));
                ds[n][k] = weight * (ds[n][k] - delta[k / 2]);
                if (shape.soft_cap > 0)
                  ds[n][k] *= weight_slope (weight, lse[k / 2] * LN2, shape.soft_cap);
              }
          if (edge)
#pragma unroll
            for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
              for (int k = 0; k < 4; k++)
                {
                  int j = i * ROWS + n * 8 + c + k % 2, p = position + k / 2 * 8;
                  if (j > p || (shape.window && j <= p - shape.window))
                    ds[n][k] = 0;
                }
          add_rows<D, ROWS> (sum, ds, key_tile);
        }
      if (STAGES == 1)
        __syncthreads ();
    }
  copy_wait<0> ();
  __syncthreads ();
  int row = start + warp * 16;
  store_sum<D> (dq, sum, query_tile + warp * 16 * tile_row<D>::stride, shape.scale, first + row, length - row,
                shape.heads, head);
}

void
cuda_merge_heads (struct dev_context *context, void *dk, void *dv, const float *partial, int parts, int64_t count,
                  float scale)
{
  merge_heads<<<ceil_div (count / 4, 256), 256, 0, context->stream>>> ((bf16 *) dk, (bf16 *) dv, partial, parts, count,
                                                                       scale);
}

template <int D>
static bool
launch (struct dev_context *context, void *dq, void *dk, void *dv, inputs in, const struct dev_attention *shape,
        const struct dev_batch *batch)
{
  int bytes = (2 * OWN * tile_row<D>::stride + passing<D>::stages * 2 * passing<D>::tile) * (int) sizeof (bf16)
              + passing<D>::stages * 2 * passing<D>::rows * (int) sizeof (float);
  int tiles = ceil_div (batch->tokens, OWN) + batch->sequences;
  if (bytes > context->shared_limit)
    return false;
  /* The heads of a group side by side where the workspace holds their sums, one after the other elsewhere. */
  int parts = shape->heads / shape->groups;
  int64_t count = (int64_t) batch->tokens * shape->groups * D;
  size_t before = dev_align ((size_t) batch->tokens * shape->heads * sizeof (float));
  if (parts == 1 || before + 2 * parts * count * sizeof (float) > context->workspace_size)
    parts = 1;
  float *partial = parts > 1 ? (float *) (context->workspace + before) : NULL;
  dim3 key_grid (tiles, shape->groups, parts), query_grid (tiles, shape->heads);
  bf16 *out_q = (bf16 *) dq, *out_k = (bf16 *) dk, *out_v = (bf16 *) dv;
  cudaError_t error
      = cudaFuncSetAttribute (backward_queries<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if constexpr (D <= 128)
    {
      if (!error)
        error = cudaFuncSetAttribute (backward_keys<D, true, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      if (error)
        return false;
      backward_keys<D, true, true><<<key_grid, THREADS, bytes, context->stream>>> (out_k, out_v, partial, in, *shape, *batch);
    }
  else
    {
      if (!error)
        error = cudaFuncSetAttribute (backward_keys<D, true, false>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      if (!error)
        error = cudaFuncSetAttribute (backward_keys<D, false, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      if (error)
        return false;
      backward_keys<D, true, false><<<key_grid, THREADS, bytes, context->stream>>> (out_k, out_v, partial, in, *shape, *batch);
      backward_keys<D, false, true><<<key_grid, THREADS, bytes, context->stream>>> (out_k, out_v, partial, in, *shape, *batch);
    }
  if (partial)
    cuda_merge_heads (context, dk, dv, partial, parts, count, shape->scale);
  backward_queries<D><<<query_grid, THREADS, bytes, context->stream>>> (out_q, in, *shape, *batch);
  CUDA_LAUNCHED (context, "attention_backward");
  return true;
}

bool
cuda_attention_tensor_backward (struct dev_context *context, void *dq, void *dk, void *dv, const void *dout,
                                const void *q, const struct dev_kv *kv, const float *lse, const float *delta,
                                const struct dev_attention *shape, const struct dev_batch *batch)
{
  inputs in = { (const bf16 *) dout, (const bf16 *) q, (const bf16 *) kv->k, (const bf16 *) kv->v, lse, delta };
  if (cuda_attention_hopper_backward (context, dq, dk, dv, dout, q, kv, lse, delta, shape, batch))
    return true;
  switch (shape->head_size)
    {
    case 64:
      return launch<64> (context, dq, dk, dv, in, shape, batch);
    case 96:
      return launch<96> (context, dq, dk, dv, in, shape, batch);
    case 128:
      return launch<128> (context, dq, dk, dv, in, shape, batch);
    case 256:
      return launch<256> (context, dq, dk, dv, in, shape, batch);
    default:
      return false;
    }
}
