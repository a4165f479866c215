/* SPDX-License-Identifier: Apache-2.0 */

/* Causal attention of whole sequences and chunks of them on Hopper, as attention-forward.cu divides it: the same order of
 * keys, tiles that begin at multiples of their size, rows that do not depend on their neighbours. Two warpgroups own 64
 * query rows each of one head and share the tiles of keys; the scores of the next tile are multiplied while those of this
 * one become weights. */

#include "kernels/cuda/wgmma.cuh"

#include <math.h> // defines: INFINITY

#define GROUPS 2
#define THREADS (GROUPS * WARPGROUP)
#define BM (GROUPS * 64)
#define BN 64
#define STAGES 3
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

template <int D> struct layout
{
  static constexpr int pair = 2 * BN * D; // elements of a tile of keys and values
  static constexpr int bytes = (BM * D + STAGES * pair) * (int) sizeof (bf16) + 1024;
};

/* What a warp knows of 16 rows: lanes hold rows r and r + 8. */
template <int D> struct rows
{
  float result[D / 8][4];
  float top[2], sum[2];
};

/* Keys and values of a tile. */
template <int D, typename K>
__device__ __forceinline__ void
load_keys (bf16 *to, const K *keys, const K *values, const float *key_scales, const float *value_scales,
           const dev_batch &batch, int s, int first, int tile, int context, int groups, int group)
{
  constexpr int pieces = D / 8, together = THREADS / pieces;
  int count = context - tile * BN;
  if constexpr (!is_coded<K>::value)
    if (!batch.block_table)
      {
        int64_t at = (((int64_t) first + tile * BN) * groups + group) * D;
        load_swizzled<D, BN, THREADS> (to, keys + at, groups * D, count);
        load_swizzled<D, BN, THREADS> (to + BN * D, values + at, groups * D, count);
        copy_commit ();
        return;
      }
  int piece = threadIdx.x % pieces, r = threadIdx.x / pieces;
  bf16 *place = to + swizzled<BN> (r, piece);
#pragma unroll
  for (int k = 0; k < BN / together; k++)
    {
      bool inside = r + k * together < count;
      int64_t row = (inside ? key_row (batch, s, first, tile * BN + r + k * together) : 0) * groups + group;
      copy_cached (place + k * together * 64, keys + row * D + piece * 8, key_scales, row, inside);
      copy_cached (place + k * together * 64 + BN * D, values + row * D + piece * 8, value_scales, row, inside);
    }
  copy_commit ();
}

/* Scores outside of position - window + 1 .. position become -inf. */
__device__ __forceinline__ void
mask_scores (float (&x)[8][4], int tile, int position, int window)
{
  int c = tile * BN + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      {
        int j = c + n * 8 + i % 2, p = position + i / 2 * 8;
        if (j > p || (window && j <= p - window))
          x[n][i] = -INFINITY;
      }
}

/* Turns scores into weights, and rescales what was summed before. */
template <int D>
__device__ __forceinline__ void
soften (float (&x)[8][4], rows<D> &own, float scale)
{
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      float top = own.top[half], sum = 0;
#pragma unroll
      for (int n = 0; n < 8; n++)
        top = fmaxf (top, fmaxf (x[n][2 * half], x[n][2 * half + 1]));
      top = quad_max (top);
      float base = top == -INFINITY ? 0.0f : top * scale;
      float rescale = exp2_fast (fmaf (own.top[half], scale, -base));
      own.top[half] = top;
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++)
          {
            x[n][i] = exp2_fast (fmaf (x[n][i], scale, -base));
            sum += x[n][i];
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
multiply_keys (float (&x)[8][4], const bf16 *queries, const bf16 *keys)
{
  uint64_t a = describe<BM> (queries), b = describe<BN> (keys);
#pragma unroll
  for (int k = 0; k < D; k += 16)
    wgmma_shared (x, columns_from<BM> (a, k), columns_from<BN> (b, k), k > 0);
  wgmma_commit ();
}

template <int D>
__device__ __forceinline__ void
multiply_values (rows<D> &own, const uint32_t (&weights)[4][4], const bf16 *values)
{
  uint64_t b = describe<BN> (values);
#pragma unroll
  for (int k = 0; k < 4; k++)
    wgmma_registers (own.result, weights[k], rows_from (b, k * 16));
  wgmma_commit ();
}

template <int D>
__device__ __forceinline__ void
store_rows (bf16 *out, float *lse, const rows<D> &own, int64_t first_row, int heads, int head, int valid, float scale)
{
  int lane = threadIdx.x % WARP, r = lane / 4, c = lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      float sum = quad_sum (own.sum[half]), inverse = 1.0f / sum;
      int64_t row = (first_row + r + half * 8) * heads + head;
      if (r + half * 8 >= valid)
        continue;
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        *(uint32_t *) (out + row * D + n * 8 + c)
            = pack_bf16 (own.result[n][2 * half] * inverse, own.result[n][2 * half + 1] * inverse);
      if (lse && c == 0)
        lse[row] = (own.top[half] * scale + log2f (sum)) * LN2;
    }
}

template <int D, typename K>
__global__ void __launch_bounds__ (THREADS, 1)
hopper_forward (bf16 *out, float *lse, const bf16 *q, const K *keys, const K *values, const float *key_scales,
                const float *value_scales, dev_attention shape, dev_batch batch, bool skip_decode)
{
  extern __shared__ bf16 unaligned[];
  bf16 *query_tile = (bf16 *) (((uintptr_t) unaligned + 1023) & ~(uintptr_t) 1023), *pairs = query_tile + BM * D;
  int s, tile, head = blockIdx.y, group = head / (shape.heads / shape.groups);
  if (!find_tile<BM> (batch, blockIdx.x, &s, &tile))
    return;
  int first = batch.query_offsets[s], length = batch.query_offsets[s + 1] - first;
  if (skip_decode && length == 1)
    return;
  int context = batch.contexts[s], position = context - length + tile * BM;
  int valid = min (BM, length - tile * BM), keys_end = position + valid;
  int from = shape.window ? max (0, position - shape.window + 1) / BN : 0, to = (keys_end + BN - 1) / BN;
  int own_group = threadIdx.x / WARPGROUP, row = own_group * 64 + threadIdx.x % WARPGROUP / WARP * 16;
  float scale = shape.scale * LOG2E;
  rows<D> own;
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      own.result[n][i] = 0;
  own.top[0] = own.top[1] = -INFINITY;
  own.sum[0] = own.sum[1] = 0;
  load_swizzled<D, BM, THREADS> (query_tile, q + ((int64_t) (first + tile * BM) * shape.heads + head) * D,
                                 (int64_t) shape.heads * D, valid);
  auto load = [&] (int t) {
    load_keys<D> (pairs + (t - from) % STAGES * layout<D>::pair, keys, values, key_scales, value_scales, batch, s, first, t,
                  context, shape.groups, group);
  };
  load (from);
  if (from + 1 < to)
    load (from + 1);
  else
    copy_commit ();
  /* Positions of the warpgroup's rows; tiles beyond the last of them are of no use to it. */
  int lowest = position + own_group * 64, highest = lowest + 63;
  int end = own_group * 64 < valid ? min (to, highest / BN + 1) : from;
  const bf16 *queries = query_tile + own_group * 64 * 64;
  float scores[8][4], next[8][4];
  copy_wait<1> ();
  publish_shared ();
  __syncthreads ();
  if (from < end)
    {
      wgmma_begin ();
      multiply_keys<D> (scores, queries, pairs);
      wgmma_wait<0> ();
      pin (scores);
    }
  int stage = 0; // of tile t
  for (int t = from; t < to; t++, stage = stage == STAGES - 1 ? 0 : stage + 1)
    {
      /* After the barrier the next tile is there, and nobody needs the one before this, whose place the tile after the next
       * takes. */
      copy_wait<0> ();
      publish_shared ();
      __syncthreads ();
      if (t + 2 < to)
        load (t + 2);
      if (t >= end)
        continue;
      const bf16 *pair = pairs + stage * layout<D>::pair;
      const bf16 *next_pair = pairs + (stage == STAGES - 1 ? 0 : stage + 1) * layout<D>::pair;
      uint32_t weights[4][4];
      if (t + 1 < end)
        {
          wgmma_begin ();
          multiply_keys<D> (next, queries, next_pair);
        }
      if (t * BN + BN - 1 > lowest || (shape.window && t * BN <= highest - shape.window))
        mask_scores (scores, t, position + row + threadIdx.x % WARP / 4, shape.window);
      soften<D> (scores, own, scale);
#pragma unroll
      for (int k = 0; k < 4; k++)
        c_to_a (weights[k], scores[2 * k], scores[2 * k + 1]);
      pin (own.result);
      wgmma_begin ();
      multiply_values<D> (own, weights, pair + BN * D);
      wgmma_wait<0> ();
      pin (own.result);
      pin (next);
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          scores[n][i] = next[n][i];
    }
  if (row < valid)
    store_rows<D> (out, lse, own, (int64_t) first + tile * BM + row, shape.heads, head, valid - row, scale);
}

template <int D, typename K>
static bool
launch_with (struct dev_context *context, void *out, float *lse, const void *q, const struct dev_kv *kv,
        const struct dev_attention *shape, const struct dev_batch *batch, bool skip_decode)
{
  int bytes = layout<D>::bytes;
  if (bytes > context->shared_limit
      || cudaFuncSetAttribute (hopper_forward<D, K>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
    return false;
  dim3 grid (ceil_div (batch->tokens, BM) + batch->sequences, shape->heads);
  hopper_forward<D, K><<<grid, THREADS, bytes, context->stream>>> (
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
cuda_attention_hopper_forward (struct dev_context *context, void *out, float *lse, const void *q,
                               const struct dev_kv *kv, const struct dev_attention *shape,
                               const struct dev_batch *batch, bool skip_decode)
{
#ifdef PLUMB_HOPPER
  if (shape->soft_cap > 0)
    return false;
  if (context->hopper && shape->head_size == 64)
    return launch<64> (context, out, lse, q, kv, shape, batch, skip_decode);
  if (context->hopper && shape->head_size == 128)
    return launch<128> (context, out, lse, q, kv, shape, batch, skip_decode);
#endif
  return false;
}
