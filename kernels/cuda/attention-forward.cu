/* SPDX-License-Identifier: Apache-2.0 */

/* Causal attention of whole sequences and chunks of them on tensor cores (Dao 2023, online softmax). A block owns a tile
 * of query rows of one head and walks tiles of keys that start at multiples of their size, so that a row's result does
 * not depend on its neighbours, nor on whether it is the last of its call. A tile that a warp's rows do not see at all
 * is passed over, which changes no bit: its weights are zeros. */

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/soft-cap.cuh"

#include <math.h> // defines: INFINITY

#define THREADS 128
#define WARPS (THREADS / WARP)
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

/* Blocks of 16 rows of a warp, rows of a block, keys of a tile: as many as the registers hold. */
template <int D> struct tiling
{
  static constexpr int blocks = 1;
  static constexpr int rows = WARPS * 16 * blocks;
  static constexpr int keys = D <= 64 ? 64 : 32;
};

/* Keys or values of tile `tile` into shared memory; rows at and beyond `keys` become zeros. */
template <int D, typename K>
__device__ __forceinline__ void
load_keys (bf16 *to, const K *from, const float *scales, const dev_batch &batch, int s, int first, int tile, int keys,
           int groups, int group)
{
  constexpr int chunks = D / 8, BN = tiling<D>::keys;
#pragma unroll
  for (int i = threadIdx.x; i < BN * chunks; i += THREADS)
    {
      int r = i / chunks, c = i % chunks * 8, j = tile * BN + r;
      bool inside = j < keys;
      int64_t row = (inside ? key_row (batch, s, first, j) : 0) * groups + group;
      copy_cached (to + r * tile_row<D>::stride + c, from + row * D + c, scales, row, inside);
    }
}

/* What a warp knows of 16 rows: lanes hold rows r and r + 8. */
template <int D> struct rows
{
  float result[D / 8][4];
  float top[2], sum[2];
};

template <int D> struct scores
{
  float x[tiling<D>::keys / 8][4];
};

/* Scores of the warp's rows with the keys in shared memory. */
template <int D>
__device__ __forceinline__ void
multiply_keys (scores<D> (&s)[tiling<D>::blocks], const bf16 *queries, const bf16 *keys, int row)
{
  constexpr int BLOCKS = tiling<D>::blocks, BN = tiling<D>::keys;
#pragma unroll
  for (int m = 0; m < BLOCKS; m++)
#pragma unroll
    for (int n = 0; n < BN / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        s[m].x[n][i] = 0;
#pragma unroll
  for (int k = 0; k < D; k += 16)
    {
      uint32_t a[BLOCKS][4], b[4];
#pragma unroll
      for (int m = 0; m < BLOCKS; m++)
        load_a<D> (a[m], queries, row + m * 16, k);
#pragma unroll
      for (int n = 0; n < BN / 8; n += 2)
        {
          load_b<D> (b, keys, n * 8, k);
#pragma unroll
          for (int m = 0; m < BLOCKS; m++)
            {
              mma (s[m].x[n], a[m], b[0], b[1]);
              mma (s[m].x[n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Scores outside of position - window + 1 .. position become -inf. */
template <int D>
__device__ __forceinline__ void
mask_scores (scores<D> &s, int tile, int position, int window)
{
  constexpr int BN = tiling<D>::keys;
  int c = tile * BN + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < BN / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      {
        int j = c + n * 8 + i % 2, p = position + i / 2 * 8;
        if (j > p || (window && j <= p - window))
          s.x[n][i] = -INFINITY;
      }
}

/* Turns scores into weights, and rescales what was summed before. */
template <int D>
__device__ __forceinline__ void
soften (scores<D> &s, rows<D> &own, float scale)
{
  constexpr int BN = tiling<D>::keys;
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      float top = own.top[half], sum = 0;
#pragma unroll
      for (int n = 0; n < BN / 8; n++)
        top = fmaxf (top, fmaxf (s.x[n][2 * half], s.x[n][2 * half + 1]));
      top = quad_max (top);
      float base = top == -INFINITY ? 0.0f : top * scale;
      float rescale = exp2_fast (fmaf (own.top[half], scale, -base));
      own.top[half] = top;
#pragma unroll
      for (int n = 0; n < BN / 8; n++)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++)
          {
            s.x[n][i] = exp2_fast (fmaf (s.x[n][i], scale, -base));
            sum += s.x[n][i];
          }
      own.sum[half] = own.sum[half] * rescale + sum;
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        {
          own.result[n][2 * half] *= rescale;
          own.result[n][2 * half + 1] *= rescale;
        }
    }
}

template <int D>
__device__ __forceinline__ void
multiply_values (rows<D> (&own)[tiling<D>::blocks], const scores<D> (&weights)[tiling<D>::blocks], const bf16 *values)
{
  constexpr int BLOCKS = tiling<D>::blocks;
#pragma unroll
  for (int k = 0; k < tiling<D>::keys / 16; k++)
    {
      uint32_t a[BLOCKS][4], b[4];
#pragma unroll
      for (int m = 0; m < BLOCKS; m++)
        c_to_a (a[m], weights[m].x[2 * k], weights[m].x[2 * k + 1]);
#pragma unroll
      for (int n = 0; n < D / 8; n += 2)
        {
          load_b_transposed<D> (b, values, k * 16, n * 8);
#pragma unroll
          for (int m = 0; m < BLOCKS; m++)
            {
              mma (own[m].result[n], a[m], b[0], b[1]);
              mma (own[m].result[n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Rows leave through the warp's own rows of the query tile, 16 bytes at a time. */
template <int D>
__device__ __forceinline__ void
store_rows (bf16 *out, float *lse, rows<D> &own, bf16 *stage, int64_t first_row, int heads, int head, int valid,
            float scale)
{
  int lane = threadIdx.x % WARP, r = lane / 4, c = lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      float sum = quad_sum (own.sum[half]), inverse = 1.0f / sum;
      int row = r + half * 8;
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        *(uint32_t *) (stage + row * tile_row<D>::stride + n * 8 + c)
            = pack_bf16 (own.result[n][2 * half] * inverse, own.result[n][2 * half + 1] * inverse);
      if (lse && c == 0 && row < valid)
        lse[(first_row + row) * heads + head] = (own.top[half] * scale + log2f (sum)) * LN2;
    }
  __syncwarp ();
  for (int i = lane; i < 16 * (D / 8); i += WARP)
    {
      int row = i / (D / 8), column = i % (D / 8) * 8;
      if (row < valid)
        *(uint4 *) (out + ((first_row + row) * heads + head) * D + column)
            = *(const uint4 *) (stage + row * tile_row<D>::stride + column);
    }
}

template <int D, typename K>
__global__ void __launch_bounds__ (THREADS, D <= 128 ? 4 : 2)
tensor_forward (bf16 *out, float *lse, const bf16 *q, const K *keys, const K *values, const float *key_scales,
                const float *value_scales, dev_attention shape, dev_batch batch, bool skip_decode)
{
  constexpr int BM = tiling<D>::rows, BN = tiling<D>::keys, BLOCKS = tiling<D>::blocks;
  extern __shared__ __align__ (16) bf16 shared[];
  bf16 *query_tile = shared, *tiles = query_tile + BM * tile_row<D>::stride; // two pairs of keys and values
  int s, tile, head = blockIdx.y, group = head / (shape.heads / shape.groups);
  int row = threadIdx.x / WARP * 16 * BLOCKS; // the warp's first row of the tile
  if (!find_tile<BM> (batch, blockIdx.x, &s, &tile))
    return;
  int first = batch.query_offsets[s], length = batch.query_offsets[s + 1] - first;
  if (skip_decode && length == 1)
    return;
  int context = batch.contexts[s], position = context - length + tile * BM;
  int valid = min (BM, length - tile * BM), keys_end = position + valid;
  int from = shape.window ? max (0, position - shape.window + 1) / BN : 0, to = (keys_end + BN - 1) / BN;
  float scale = shape.scale * LOG2E;
  rows<D> own[BLOCKS];
#pragma unroll
  for (int m = 0; m < BLOCKS; m++)
    {
#pragma unroll
      for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          own[m].result[n][i] = 0;
      own[m].top[0] = own[m].top[1] = -INFINITY;
      own[m].sum[0] = own[m].sum[1] = 0;
    }
  for (int i = threadIdx.x; i < BM * (D / 8); i += THREADS)
    {
      int r = i / (D / 8), c = i % (D / 8) * 8;
      int64_t query = first + tile * BM + (r < valid ? r : 0);
      copy_16 (query_tile + r * tile_row<D>::stride + c, q + (query * shape.heads + head) * D + c, r < valid);
    }
  auto load = [&] (int t) {
    bf16 *to_tile = tiles + (t - from) % 2 * 2 * BN * tile_row<D>::stride;
    load_keys<D> (to_tile, keys, key_scales, batch, s, first, t, context, shape.groups, group);
    load_keys<D> (to_tile + BN * tile_row<D>::stride, values, value_scales, batch, s, first, t, context, shape.groups,
                  group);
    copy_commit ();
  };
  load (from);
  int lowest = position + row, highest = lowest + 16 * BLOCKS - 1; // positions of the warp's rows
  for (int t = from; t < to; t++)
    {
      scores<D> weights[BLOCKS];
      const bf16 *key_tile = tiles + (t - from) % 2 * 2 * BN * tile_row<D>::stride;
      /* After the barrier this tile is there, and nobody needs the one before it, whose place the next one takes. */
      copy_wait<0> ();
      __syncthreads ();
      if (t + 1 < to)
        load (t + 1);
      if (row >= valid || t * BN > highest)
        continue;
      multiply_keys<D> (weights, query_tile, key_tile, row);
      bool edge = t * BN + BN - 1 > lowest || (shape.window && t * BN <= highest - shape.window);
#pragma unroll
      for (int m = 0; m < BLOCKS; m++)
        {
          if (shape.soft_cap > 0)
            cap_scores (weights[m].x, shape);
          if (edge)
            mask_scores<D> (weights[m], t, lowest + m * 16 + threadIdx.x % WARP / 4, shape.window);
          soften<D> (weights[m], own[m], scale);
        }
      multiply_values<D> (own, weights, key_tile + BN * tile_row<D>::stride);
    }
  copy_wait<0> ();
#pragma unroll
  for (int m = 0; m < BLOCKS; m++)
    store_rows (out, lse, own[m], query_tile + (row + m * 16) * tile_row<D>::stride,
                (int64_t) first + tile * BM + row + m * 16, shape.heads, head, valid - row - m * 16, scale);
}

template <int D, typename K>
static bool
launch_with (struct dev_context *context, void *out, float *lse, const void *q, const struct dev_kv *kv,
        const struct dev_attention *shape, const struct dev_batch *batch, bool skip_decode)
{
  constexpr int BM = tiling<D>::rows;
  int bytes = (BM + 4 * tiling<D>::keys) * tile_row<D>::stride * (int) sizeof (bf16);
  if (bytes > context->shared_limit
      || cudaFuncSetAttribute (tensor_forward<D, K>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
    return false;
  dim3 grid (ceil_div (batch->tokens, BM) + batch->sequences, shape->heads);
  tensor_forward<D, K><<<grid, THREADS, bytes, context->stream>>> (
      (bf16 *) out, lse, (const bf16 *) q, (const K *) kv->k, (const K *) kv->v, kv->k_scales, kv->v_scales, *shape, *batch,
      skip_decode);
  CUDA_LAUNCHED (context, "attention_forward");
  return true;
}

template <int D>
static bool
launch (struct dev_context *context, void *out, float *lse, const void *q, const struct dev_kv *kv,
        const struct dev_attention *shape, const struct dev_batch *batch, bool skip_decode)
{
  WITH_CACHE (kv, bf16, return (launch_with<D, K> (context, out, lse, q, kv, shape, batch, skip_decode)));
}

bool
cuda_attention_tensor_forward (struct dev_context *context, void *out, float *lse, const void *q,
                               const struct dev_kv *kv, const struct dev_attention *shape,
                               const struct dev_batch *batch, bool skip_decode)
{
  if (cuda_attention_hopper_forward (context, out, lse, q, kv, shape, batch, skip_decode))
    return true;
  switch (shape->head_size)
    {
    case 64:
      return launch<64> (context, out, lse, q, kv, shape, batch, skip_decode);
    case 96:
      return launch<96> (context, out, lse, q, kv, shape, batch, skip_decode);
    case 128:
      return launch<128> (context, out, lse, q, kv, shape, batch, skip_decode);
    case 256:
      return launch<256> (context, out, lse, q, kv, shape, batch, skip_decode);
    default:
      return false;
    }
}
