/* SPDX-License-Identifier: Apache-2.0 */

/* Causal attention of whole sequences and chunks of them on tensor cores (Dao 2023, online softmax). A block owns 64
 * query rows of one head and walks tiles of 64 keys that start at multiples of 64, so that a row's result does not
 * depend on its neighbours, nor on whether it is the last of its call. */

#include "kernels/cuda/mma.cuh"

#include <math.h> // defines: INFINITY

#define BM 64
#define BN 64
#define THREADS 128
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

/* Keys or values of tile `tile` into shared memory; rows at and beyond `keys` become zeros. */
template <int D>
__device__ __forceinline__ void
load_keys (bf16 *to, const bf16 *from, const dev_batch &batch, int s, int first, int tile, int keys, int groups,
           int group)
{
  constexpr int chunks = D / 8;
#pragma unroll
  for (int i = threadIdx.x; i < BN * chunks; i += THREADS)
    {
      int r = i / chunks, c = i % chunks * 8, j = tile * BN + r;
      bool inside = j < keys;
      int64_t row = inside ? key_row (batch, s, first, j) : 0;
      copy_16 (to + r * tile_row<D>::stride + c, from + (row * groups + group) * D + c, inside);
    }
}

/* What a warp knows of its 16 rows: lanes hold rows r and r + 8. */
template <int D> struct rows
{
  float result[D / 8][4];
  float top[2], sum[2];
};

/* Scores of the warp's rows with the keys in shared memory. */
template <int D>
__device__ __forceinline__ void
multiply_keys (float (&scores)[BN / 8][4], const bf16 *queries, const bf16 *keys, int warp)
{
#pragma unroll
  for (int n = 0; n < BN / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      scores[n][i] = 0;
#pragma unroll
  for (int k = 0; k < D; k += 16)
    {
      uint32_t a[4], b[4];
      load_a<D> (a, queries, warp * 16, k);
#pragma unroll
      for (int n = 0; n < BN / 8; n += 2)
        {
          load_b<D> (b, keys, n * 8, k);
          mma (scores[n], a, b[0], b[1]);
          mma (scores[n + 1], a, b[2], b[3]);
        }
    }
}

/* Scores outside of position - window + 1 .. position become -inf. */
__device__ __forceinline__ void
mask_scores (float (&scores)[BN / 8][4], int tile, int position, int window)
{
  int c = tile * BN + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < BN / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      {
        int j = c + n * 8 + i % 2, p = position + i / 2 * 8;
        if (j > p || (window && j <= p - window))
          scores[n][i] = -INFINITY;
      }
}

/* Turns scores into weights, and rescales what was summed before. */
template <int D>
__device__ __forceinline__ void
soften (float (&scores)[BN / 8][4], rows<D> &own, float scale)
{
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      float top = own.top[half], sum = 0;
#pragma unroll
      for (int n = 0; n < BN / 8; n++)
        top = fmaxf (top, fmaxf (scores[n][2 * half], scores[n][2 * half + 1]));
      top = quad_max (top);
      float base = top == -INFINITY ? 0.0f : top * scale;
      float rescale = exp2_fast (fmaf (own.top[half], scale, -base));
      own.top[half] = top;
#pragma unroll
      for (int n = 0; n < BN / 8; n++)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++)
          {
            scores[n][i] = exp2_fast (fmaf (scores[n][i], scale, -base));
            sum += scores[n][i];
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
multiply_values (rows<D> &own, const float (&weights)[BN / 8][4], const bf16 *values)
{
#pragma unroll
  for (int k = 0; k < BN / 16; k++)
    {
      uint32_t a[4], b[4];
      c_to_a (a, weights[2 * k], weights[2 * k + 1]);
#pragma unroll
      for (int n = 0; n < D / 8; n += 2)
        {
          load_b_transposed<D> (b, values, k * 16, n * 8);
          mma (own.result[n], a, b[0], b[1]);
          mma (own.result[n + 1], a, b[2], b[3]);
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

template <int D>
__global__ void __launch_bounds__ (THREADS)
tensor_forward (bf16 *out, float *lse, const bf16 *q, const bf16 *keys, const bf16 *values, dev_attention shape,
                dev_batch batch, bool skip_decode)
{
  extern __shared__ __align__ (16) bf16 shared[];
  bf16 *query_tile = shared, *key_tile = query_tile + BM * tile_row<D>::stride;
  bf16 *value_tile = key_tile + BN * tile_row<D>::stride;
  int s, tile, head = blockIdx.y, group = head / (shape.heads / shape.groups), warp = threadIdx.x / WARP;
  if (!find_tile<BM> (batch, blockIdx.x, &s, &tile))
    return;
  int first = batch.query_offsets[s], length = batch.query_offsets[s + 1] - first;
  if (skip_decode && length == 1)
    return;
  int context = batch.contexts[s], position = context - length + tile * BM;
  int valid = min (BM, length - tile * BM), keys_end = position + valid;
  int from = shape.window ? max (0, position - shape.window + 1) / BN : 0, to = (keys_end + BN - 1) / BN;
  float scale = shape.scale * LOG2E;
  rows<D> own;
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      own.result[n][i] = 0;
  own.top[0] = own.top[1] = -INFINITY;
  own.sum[0] = own.sum[1] = 0;
  for (int i = threadIdx.x; i < BM * (D / 8); i += THREADS)
    {
      int r = i / (D / 8), c = i % (D / 8) * 8;
      int64_t row = first + tile * BM + (r < valid ? r : 0);
      copy_16 (query_tile + r * tile_row<D>::stride + c, q + (row * shape.heads + head) * D + c, r < valid);
    }
  load_keys<D> (key_tile, keys, batch, s, first, from, context, shape.groups, group);
  copy_commit ();
  for (int t = from; t < to; t++)
    {
      float scores[BN / 8][4];
      load_keys<D> (value_tile, values, batch, s, first, t, context, shape.groups, group);
      copy_commit ();
      copy_wait<1> ();
      __syncthreads ();
      multiply_keys<D> (scores, query_tile, key_tile, warp);
      __syncthreads ();
      if (t + 1 < to)
        load_keys<D> (key_tile, keys, batch, s, first, t + 1, context, shape.groups, group);
      copy_commit ();
      int own_position = position + warp * 16;
      if (t * BN + BN - 1 > own_position || (shape.window && t * BN <= own_position + 15 - shape.window))
        mask_scores (scores, t, own_position + threadIdx.x % WARP / 4, shape.window);
      soften (scores, own, scale);
      copy_wait<1> ();
      __syncthreads ();
      multiply_values (own, scores, value_tile);
      __syncthreads ();
    }
  copy_wait<0> ();
  store_rows (out, lse, own, query_tile + warp * 16 * tile_row<D>::stride, (int64_t) first + tile * BM + warp * 16,
              shape.heads, head, valid - warp * 16, scale);
}

template <int D>
static bool
launch (struct dev_context *context, void *out, float *lse, const void *q, const struct dev_kv *kv,
        const struct dev_attention *shape, const struct dev_batch *batch, bool skip_decode)
{
  int bytes = (BM + 2 * BN) * tile_row<D>::stride * (int) sizeof (bf16);
  if (bytes > context->shared_limit
      || cudaFuncSetAttribute (tensor_forward<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
    return false;
  dim3 grid (ceil_div (batch->tokens, BM) + batch->sequences, shape->heads);
  tensor_forward<D><<<grid, THREADS, bytes, context->stream>>> ((bf16 *) out, lse, (const bf16 *) q,
                                                                (const bf16 *) kv->k, (const bf16 *) kv->v, *shape,
                                                                *batch, skip_decode);
  CUDA_LAUNCHED (context, "attention_forward");
  return true;
}

bool
cuda_attention_tensor_forward (struct dev_context *context, void *out, float *lse, const void *q,
                               const struct dev_kv *kv, const struct dev_attention *shape,
                               const struct dev_batch *batch, bool skip_decode)
{
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
