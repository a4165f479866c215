/* SPDX-License-Identifier: Apache-2.0 */

/* Attention: chooses the kernels, and holds the plain ones for float and for head sizes that the tensor-core kernels do
 * not serve. In the plain kernels a warp owns a query (or a key, backward): its result does not depend
 * on the rest of the batch, and nothing is added by atomics. */

#include "kernels/cuda/context.cuh"
#include "kernels/cuda/soft-cap.cuh"

#include <math.h> // defines: INFINITY

#define WARPS 4
#define MOST_SIZE 256
#define PER_LANE (MOST_SIZE / WARP)

/* Which sequence owns query row t. */
__device__ __forceinline__ int
sequence_of (const dev_batch &batch, int t)
{
  int low = 0, high = batch.sequences - 1;
  while (low < high)
    {
      int middle = (low + high + 1) / 2;
      if (batch.query_offsets[middle] <= t)
        low = middle;
      else
        high = middle - 1;
    }
  return low;
}

template <typename T>
__device__ __forceinline__ float
dot (const float *a, const T *b, int size)
{
  float sum = 0;
  for (int d = 0; d < size; d++)
    sum += a[d] * (float) b[d];
  return sum;
}

/* A warp per (query row, head). Keys come 32 at a time, one a lane. */
template <typename T, typename K>
__global__ void
plain_forward (T *out, float *lse, const T *q, const K *keys, const K *values, const float *key_scales,
               const float *value_scales, dev_attention shape, dev_batch batch)
{
  __shared__ float queries[WARPS][MOST_SIZE];
  int size = shape.head_size, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  int64_t task = (int64_t) blockIdx.x * WARPS + warp;
  if (task >= (int64_t) batch.tokens * shape.heads)
    return;
  int t = (int) (task / shape.heads), head = (int) (task % shape.heads);
  int group = head / (shape.heads / shape.groups), s = sequence_of (batch, t);
  int first = batch.query_offsets[s], end = batch.query_offsets[s + 1];
  int hi = batch.contexts[s] - (end - t) + 1;
  int lo = shape.window && hi > shape.window ? hi - shape.window : 0;
  for (int d = lane; d < size; d += WARP)
    queries[warp][d] = (float) q[task * size + d] * shape.scale;
  __syncwarp ();
  float top = -INFINITY, sum = 0, result[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++)
    result[i] = 0;
  for (int tile = lo / WARP * WARP; tile < hi; tile += WARP)
    {
      int j = tile + lane;
      bool seen = j >= lo && j < hi;
      int64_t row = (seen ? key_row (batch, s, first, j) : 0) * shape.groups + group;
      float score = seen ? dot (queries[warp], keys + row * size, size) * cache_scale<K> (key_scales, row) : -INFINITY;
      score = seen ? capped (score, shape.soft_cap) : score;
      float greatest = fmaxf (top, warp_max (score));
      float p = expf (score - greatest), rescale = expf (top - greatest);
      sum = sum * rescale + warp_sum (p);
      top = greatest;
#pragma unroll
      for (int i = 0; i < PER_LANE; i++)
        result[i] *= rescale;
      for (int k = 0; k < WARP; k++)
        {
          float weight = __shfl_sync (FULL_MASK, p, k);
          int64_t from = __shfl_sync (FULL_MASK, row, k);
          if (tile + k < lo || tile + k >= hi)
            continue;
          weight *= cache_scale<K> (value_scales, from);
#pragma unroll
          for (int i = 0; i < PER_LANE; i++)
            if (lane + i * WARP < size)
              result[i] += weight * (float) values[from * size + lane + i * WARP];
        }
    }
#pragma unroll
  for (int i = 0; i < PER_LANE; i++)
    if (lane + i * WARP < size)
      out[task * size + lane + i * WARP] = (T) (result[i] / sum);
  if (lse && lane == 0)
    lse[task] = top + logf (sum);
}

/* delta (T, H) = dout . out, a warp per row. */
template <typename T>
__global__ void
row_deltas (float *delta, const T *dout, const T *out, int64_t rows, int size)
{
  int64_t row = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / WARP;
  if (row >= rows)
    return;
  float sum = 0;
  for (int d = threadIdx.x % WARP; d < size; d += WARP)
    sum += (float) dout[row * size + d] * (float) out[row * size + d];
  sum = warp_sum (sum);
  if (threadIdx.x % WARP == 0)
    delta[row] = sum;
}

/* A warp per (query row, head): dq = scale sum dS k. */
template <typename T>
__global__ void
plain_backward_queries (T *dq, const T *dout, const T *q, const T *keys, const T *values, const float *lse,
                        const float *delta, dev_attention shape, dev_batch batch)
{
  __shared__ float queries[WARPS][MOST_SIZE], douts[WARPS][MOST_SIZE];
  int size = shape.head_size, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  int64_t task = (int64_t) blockIdx.x * WARPS + warp;
  if (task >= (int64_t) batch.tokens * shape.heads)
    return;
  int t = (int) (task / shape.heads), head = (int) (task % shape.heads);
  int group = head / (shape.heads / shape.groups), s = sequence_of (batch, t), first = batch.query_offsets[s];
  int hi = t - first + 1, lo = shape.window && hi > shape.window ? hi - shape.window : 0;
  for (int d = lane; d < size; d += WARP)
    {
      queries[warp][d] = (float) q[task * size + d] * shape.scale;
      douts[warp][d] = (float) dout[task * size + d];
    }
  __syncwarp ();
  float result[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++)
    result[i] = 0;
  for (int tile = lo / WARP * WARP; tile < hi; tile += WARP)
    {
      int j = tile + lane;
      float ds = 0;
      if (j >= lo && j < hi)
        {
          int64_t at = ((int64_t) (first + j) * shape.groups + group) * size;
          float score = capped (dot (queries[warp], keys + at, size), shape.soft_cap), p = expf (score - lse[task]);
          ds = p * (dot (douts[warp], values + at, size) - delta[task]) * cap_slope (score, shape.soft_cap);
        }
      for (int k = 0; k < WARP; k++)
        {
          float weight = __shfl_sync (FULL_MASK, ds, k);
          int64_t at = ((int64_t) (first + tile + k) * shape.groups + group) * size;
          if (tile + k < lo || tile + k >= hi)
            continue;
#pragma unroll
          for (int i = 0; i < PER_LANE; i++)
            if (lane + i * WARP < size)
              result[i] += weight * (float) keys[at + lane + i * WARP];
        }
    }
#pragma unroll
  for (int i = 0; i < PER_LANE; i++)
    if (lane + i * WARP < size)
      dq[task * size + lane + i * WARP] = (T) (result[i] * shape.scale);
}

/* A warp per (key row, group): dk and dv over the queries that see the key, in their order. */
template <typename T>
__global__ void
plain_backward_keys (T *dk, T *dv, const T *dout, const T *q, const T *keys, const T *values, const float *lse,
                     const float *delta, dev_attention shape, dev_batch batch)
{
  __shared__ float own_key[WARPS][MOST_SIZE], own_value[WARPS][MOST_SIZE];
  int size = shape.head_size, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  int64_t task = (int64_t) blockIdx.x * WARPS + warp;
  if (task >= (int64_t) batch.tokens * shape.groups)
    return;
  int row = (int) (task / shape.groups), group = (int) (task % shape.groups), per_group = shape.heads / shape.groups;
  int s = sequence_of (batch, row), end = batch.query_offsets[s + 1];
  int last = shape.window && row + shape.window < end ? row + shape.window : end;
  for (int d = lane; d < size; d += WARP)
    {
      own_key[warp][d] = (float) keys[task * size + d] * shape.scale;
      own_value[warp][d] = (float) values[task * size + d];
    }
  __syncwarp ();
  float key_sum[PER_LANE], value_sum[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++)
    key_sum[i] = value_sum[i] = 0;
  for (int head = group * per_group; head < (group + 1) * per_group; head++)
    for (int tile = row; tile < last; tile += WARP)
      {
        float p = 0, ds = 0;
        if (tile + lane < last)
          {
            int64_t query = (int64_t) (tile + lane) * shape.heads + head;
            float score = capped (dot (own_key[warp], q + query * size, size), shape.soft_cap);
            p = expf (score - lse[query]);
            ds = p * (dot (own_value[warp], dout + query * size, size) - delta[query]) * cap_slope (score, shape.soft_cap);
          }
        for (int k = 0; k < WARP && tile + k < last; k++)
          {
            float weight_p = __shfl_sync (FULL_MASK, p, k), weight_ds = __shfl_sync (FULL_MASK, ds, k);
            int64_t at = ((int64_t) (tile + k) * shape.heads + head) * size;
#pragma unroll
            for (int i = 0; i < PER_LANE; i++)
              if (lane + i * WARP < size)
                {
                  key_sum[i] += weight_ds * (float) q[at + lane + i * WARP];
                  value_sum[i] += weight_p * (float) dout[at + lane + i * WARP];
                }
          }
      }
#pragma unroll
  for (int i = 0; i < PER_LANE; i++)
    if (lane + i * WARP < size)
      {
        dk[task * size + lane + i * WARP] = (T) (key_sum[i] * shape.scale);
        dv[task * size + lane + i * WARP] = (T) value_sum[i];
      }
}

static bool
check_size (struct dev_context *context, const struct dev_attention *shape)
{
  if (shape->head_size <= MOST_SIZE)
    return true;
  cuda_fail (context, DEV_UNSUPPORTED, "heads of %d elements are not supported; up to %d are", shape->head_size,
             MOST_SIZE);
  return false;
}

/* A batch of decoded tokens alone has one query row per sequence. In deterministic mode decoded rows take the kernel of
 * whole sequences, so that rollout and trainer get equal bits. */
void
cuda_attention_own_forward (struct dev_context *context, void *out, float *lse, const void *q, const struct dev_kv *kv,
                            const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  if (type == DEV_BF16)
    {
      bool decode = batch->block_table && !context->deterministic
                    && cuda_attention_tensor_decode (context, out, lse, q, kv, shape, batch);
      if (decode && batch->tokens == batch->sequences)
        return;
      if (cuda_attention_tensor_forward (context, out, lse, q, kv, shape, batch, decode))
        return;
    }
  int blocks = ceil_div ((int64_t) batch->tokens * shape->heads, WARPS);
  WITH_TYPE (type, WITH_CACHE (kv, T, (plain_forward<T, K><<<blocks, WARPS * WARP, 0, context->stream>>> (
                                          (T *) out, lse, (const T *) q, (const K *) kv->k, (const K *) kv->v,
                                          kv->k_scales, kv->v_scales, *shape, *batch))));
  CUDA_LAUNCHED (context, "attention_forward");
}

void
cuda_attention_forward (struct dev_context *context, void *out, float *lse, const void *q, const struct dev_kv *kv,
                        const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  if (!cuda_enter (context) || !check_size (context, shape) || batch->tokens <= 0)
    return;
  if (type == DEV_BF16 && cuda_attention_library_forward (context, out, lse, q, kv, shape, batch))
    return;
  cuda_attention_own_forward (context, out, lse, q, kv, shape, batch, type);
}

void
cuda_attention_own_backward (struct dev_context *context, void *dq, void *dk, void *dv, const void *dout,
                             const void *out, const float *lse, const void *q, const struct dev_kv *kv,
                             const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  int64_t rows = (int64_t) batch->tokens * shape->heads;
  float *delta = (float *) cuda_scratch (context, rows * sizeof (float), "attention_backward");
  if (!delta)
    return;
  WITH_TYPE (type, (row_deltas<T><<<ceil_div (rows, WARPS), WARPS * WARP, 0, context->stream>>> (
                       delta, (const T *) dout, (const T *) out, rows, shape->head_size)));
  if (!CUDA_LAUNCHED (context, "attention_backward"))
    return;
  if (type == DEV_BF16
      && cuda_attention_tensor_backward (context, dq, dk, dv, dout, q, kv, lse, delta, shape, batch))
    return;
  int blocks = ceil_div (rows, WARPS), key_blocks = ceil_div ((int64_t) batch->tokens * shape->groups, WARPS);
  WITH_TYPE (type, (plain_backward_queries<T><<<blocks, WARPS * WARP, 0, context->stream>>> (
                       (T *) dq, (const T *) dout, (const T *) q, (const T *) kv->k, (const T *) kv->v, lse, delta,
                       *shape, *batch)));
  WITH_TYPE (type, (plain_backward_keys<T><<<key_blocks, WARPS * WARP, 0, context->stream>>> (
                       (T *) dk, (T *) dv, (const T *) dout, (const T *) q, (const T *) kv->k, (const T *) kv->v, lse,
                       delta, *shape, *batch)));
  CUDA_LAUNCHED (context, "attention_backward");
}

void
cuda_attention_backward (struct dev_context *context, void *dq, void *dk, void *dv, const void *dout, const void *out,
                         const float *lse, const void *q, const struct dev_kv *kv, const struct dev_attention *shape,
                         const struct dev_batch *batch, enum dev_type type)
{
  if (!cuda_enter (context) || !check_size (context, shape) || batch->tokens <= 0)
    return;
  if (batch->block_table || kv->k_scales)
    {
      cuda_fail (context, DEV_UNSUPPORTED, "attention_backward works on contiguous keys of the type only");
      return;
    }
  if (type == DEV_BF16
      && cuda_attention_library_backward (context, dq, dk, dv, dout, out, lse, q, kv, shape, batch))
    return;
  cuda_attention_own_backward (context, dq, dk, dv, dout, out, lse, q, kv, shape, batch, type);
}
