/* SPDX-License-Identifier: Apache-2.0 */

/* From raw projections to queries, keys and values: bias, norm per head, rotary position (Su et al. 2021, halves
 * layout), and the write into the rows of the KV cache. In the general kernels a warp works on one head: each lane holds
 * elements i and i + D/2 for its i. In the wide ones, for sizes of 16 times a power of two, a thread holds eight
 * elements i.. and their partners, and D/16 neighbouring threads are a head. */

#include "kernels/cuda/context.cuh"

#define WARPS 4
#define MOST_SIZE 256
#define PAIRS (MOST_SIZE / 2 / WARP) // packs of a lane, of one element each
#define MOST_PARTS 64

/* The head's elements in pairs: first[j][k] is element (lane + WARP j) N + k, second[j][k] that plus D/2. */
template <int N> struct pairs
{
  float first[PAIRS / N][N], second[PAIRS / N][N];
};

template <typename T, int N>
__device__ __forceinline__ void
load_head (pairs<N> &head, const T *from, int half)
{
#pragma unroll
  for (int j = 0; j < PAIRS / N; j++)
    {
      int i = (threadIdx.x % WARP + WARP * j) * N;
#pragma unroll
      for (int k = 0; k < N; k++)
        head.first[j][k] = head.second[j][k] = 0;
      if (i >= half)
        continue;
      load_pack (head.first[j], from + i);
      load_pack (head.second[j], from + half + i);
    }
}

template <typename T, int N>
__device__ __forceinline__ void
store_head (T *to, const pairs<N> &head, int half)
{
#pragma unroll
  for (int j = 0; j < PAIRS / N; j++)
    {
      int i = (threadIdx.x % WARP + WARP * j) * N;
      if (i >= half)
        continue;
      store_pack (to + i, head.first[j]);
      store_pack (to + half + i, head.second[j]);
    }
}

template <int N>
__device__ __forceinline__ void
add_head (pairs<N> &head, const pairs<N> &other)
{
#pragma unroll
  for (int j = 0; j < PAIRS / N; j++)
#pragma unroll
    for (int k = 0; k < N; k++)
      {
        head.first[j][k] += other.first[j][k];
        head.second[j][k] += other.second[j][k];
      }
}

template <int N>
__device__ __forceinline__ float
dot_heads (const pairs<N> &a, const pairs<N> &b)
{
  float sum = 0;
#pragma unroll
  for (int j = 0; j < PAIRS / N; j++)
#pragma unroll
    for (int k = 0; k < N; k++)
      sum += a.first[j][k] * b.first[j][k] + a.second[j][k] * b.second[j][k];
  return warp_sum (sum);
}

/* a = a * b * factor, element by element. */
template <int N>
__device__ __forceinline__ void
scale_head (pairs<N> &a, const pairs<N> &b, float factor)
{
#pragma unroll
  for (int j = 0; j < PAIRS / N; j++)
#pragma unroll
    for (int k = 0; k < N; k++)
      {
        a.first[j][k] *= b.first[j][k] * factor;
        a.second[j][k] *= b.second[j][k] * factor;
      }
}

template <int N>
__device__ __forceinline__ void
rotate_head (pairs<N> &head, const float *cosine, const float *sine, float sign, int half)
{
#pragma unroll
  for (int j = 0; j < PAIRS / N; j++)
    {
      int i = (threadIdx.x % WARP + WARP * j) * N;
      if (i >= half)
        continue;
#pragma unroll
      for (int k = 0; k < N; k++)
        {
          float a = head.first[j][k], b = head.second[j][k], c = cosine[i + k], s = sine[i + k] * sign;
          head.first[j][k] = a * c - b * s;
          head.second[j][k] = b * c + a * s;
        }
    }
}

/* The factor of a head's codes from the greatest of its elements (as bits, so that a NaN counts as the greatest); `leader`
 * writes their scale. */
__device__ __forceinline__ float
write_scale (float *scale, uint32_t most_bits, bool leader)
{
  const float greatest = 448.0f;
  float most = __uint_as_float (most_bits);
  if (leader)
    *scale = most / greatest;
  return most > 0 ? greatest / most : 0.0f;
}

__device__ __forceinline__ uint32_t
size_bits (float x)
{
  return __float_as_uint (x) & 0x7fffffffu;
}

/* The warp's head into a row of the cache, which is `row` of the scales. */
template <typename K, int N>
__device__ __forceinline__ void
store_cached (K *to, float *scales, int64_t row, pairs<N> &head, int half)
{
  if constexpr (is_coded<K>::value)
    {
      uint32_t most = 0;
#pragma unroll
      for (int j = 0; j < PAIRS / N; j++)
#pragma unroll
        for (int k = 0; k < N; k++)
          most = max (most, max (size_bits (head.first[j][k]), size_bits (head.second[j][k])));
      float factor = write_scale (scales + row, __reduce_max_sync (FULL_MASK, most), threadIdx.x % WARP == 0);
#pragma unroll
      for (int j = 0; j < PAIRS / N; j++)
#pragma unroll
        for (int k = 0; k < N; k++)
          {
            head.first[j][k] *= factor;
            head.second[j][k] *= factor;
          }
    }
  store_head (to + row * 2 * half, head, half);
}

template <typename T, typename K, int N>
__global__ void
qkv_forward (T *q, K *keys, K *values, float *key_scales, float *value_scales, const T *raw, dev_qkv qkv,
             dev_attention shape, dev_batch batch)
{
  int heads = shape.heads, groups = shape.groups, size = shape.head_size, half = size / 2;
  int all = heads + 2 * groups;
  int64_t task = (int64_t) blockIdx.x * WARPS + threadIdx.x / WARP;
  if (task >= (int64_t) batch.tokens * all)
    return;
  int t = (int) (task / all), index = (int) (task % all);
  pairs<N> head, other;
  load_head (head, raw + task * size, half);
  if (qkv.bias)
    {
      load_head (other, (const T *) qkv.bias + (int64_t) index * size, half);
      add_head (head, other);
    }
  const T *norm = (const T *) (index < heads ? qkv.q_norm : index < heads + groups ? qkv.k_norm : NULL);
  if (norm)
    {
      load_head (other, norm, half);
      scale_head (head, other, 1.0f / sqrtf (dot_heads (head, head) / size + qkv.eps));
    }
  if (index < heads + groups)
    {
      int64_t position = batch.positions[t];
      rotate_head (head, qkv.rope_cos + position * half, qkv.rope_sin + position * half, 1.0f, half);
    }
  int64_t slot = batch.slots ? batch.slots[t] : t;
  if (index < heads)
    store_head (q + ((int64_t) t * heads + index) * size, head, half);
  else if (index < heads + groups)
    store_cached (keys, key_scales, slot * groups + index - heads, head, half);
  else
    store_cached (values, value_scales, slot * groups + index - heads - groups, head, half);
}

/* Sums of the warps of a block, in their order; warp 0 gets them. */
template <int N>
__device__ __forceinline__ void
sum_warps (pairs<N> &head, float *shared, int half)
{
  int warp = threadIdx.x / WARP;
  __syncthreads ();
  store_head (shared + warp * 2 * half, head, half);
  __syncthreads ();
  for (int w = 1; w < WARPS && warp == 0; w++)
    {
      pairs<N> other;
      load_head (other, shared + w * 2 * half, half);
      add_head (head, other);
    }
}

/* Block (part, index): the tokens of a part for one head. Partial sums: of the bias (part, all D), of the q norm
 * (part, H, D), of the k norm (part, G, D); any may be NULL. */
template <typename T, int N>
__global__ void
qkv_backward (T *draw, float *bias_sums, float *q_sums, float *k_sums, const T *dq, const T *dk, const T *dv,
              const T *raw, dev_qkv qkv, dev_attention shape, dev_batch batch)
{
  __shared__ __align__ (16) float shared[WARPS * MOST_SIZE];
  int heads = shape.heads, groups = shape.groups, size = shape.head_size, half = size / 2;
  int all = heads + 2 * groups, index = blockIdx.y, part = blockIdx.x, warp = threadIdx.x / WARP;
  int first = (int) ((int64_t) batch.tokens * part / gridDim.x);
  int last = (int) ((int64_t) batch.tokens * (part + 1) / gridDim.x);
  const T *norm = (const T *) (index < heads ? qkv.q_norm : index < heads + groups ? qkv.k_norm : NULL);
  pairs<N> dbias, dnorm, weight, bias;
#pragma unroll
  for (int j = 0; j < PAIRS / N; j++)
#pragma unroll
    for (int k = 0; k < N; k++)
      dbias.first[j][k] = dbias.second[j][k] = dnorm.first[j][k] = dnorm.second[j][k] = 0;
  if (norm)
    load_head (weight, norm, half);
  if (norm && qkv.bias)
    load_head (bias, (const T *) qkv.bias + (int64_t) index * size, half);
  for (int t = first + warp; t < last; t += WARPS)
    {
      pairs<N> d;
      if (index < heads)
        load_head (d, dq + ((int64_t) t * heads + index) * size, half);
      else if (index < heads + groups)
        load_head (d, dk + ((int64_t) t * groups + index - heads) * size, half);
      else
        load_head (d, dv + ((int64_t) t * groups + index - heads - groups) * size, half);
      int64_t position = batch.positions[t];
      if (index < heads + groups)
        rotate_head (d, qkv.rope_cos + position * half, qkv.rope_sin + position * half, -1.0f, half);
      if (norm)
        {
          pairs<N> x, part_of_norm;
          load_head (x, raw + ((int64_t) t * all + index) * size, half);
          if (qkv.bias)
            add_head (x, bias);
          float r = 1.0f / sqrtf (dot_heads (x, x) / size + qkv.eps);
          part_of_norm = d;
          scale_head (part_of_norm, x, r);
          add_head (dnorm, part_of_norm);
          scale_head (d, weight, 1.0f);
          float mean = dot_heads (d, x) * r * r / size;
#pragma unroll
          for (int j = 0; j < PAIRS / N; j++)
#pragma unroll
            for (int k = 0; k < N; k++)
              {
                d.first[j][k] = r * (d.first[j][k] - x.first[j][k] * mean);
                d.second[j][k] = r * (d.second[j][k] - x.second[j][k] * mean);
              }
        }
      add_head (dbias, d);
      store_head (draw + ((int64_t) t * all + index) * size, d, half);
    }
  if (bias_sums)
    {
      sum_warps (dbias, shared, half);
      if (warp == 0)
        store_head (bias_sums + ((int64_t) part * all + index) * size, dbias, half);
    }
  float *norm_sums = index < heads ? q_sums : index < heads + groups ? k_sums : NULL;
  if (norm_sums)
    {
      int own = index < heads ? index : index - heads, of = index < heads ? heads : groups;
      sum_warps (dnorm, shared, half);
      if (warp == 0)
        store_head (norm_sums + ((int64_t) part * of + own) * size, dnorm, half);
    }
}

/* Eight elements of a head and their partners. */
struct wide
{
  float first[8], second[8];
};

template <typename T>
__device__ __forceinline__ void
load_wide (wide &x, const T *from, int half)
{
  load_pack (x.first, from);
  load_pack (x.second, from + half);
}

template <typename T>
__device__ __forceinline__ void
store_wide (T *to, const wide &x, int half)
{
  store_pack (to, x.first);
  store_pack (to + half, x.second);
}

/* Sum over the `lanes` neighbouring threads of a head. */
__device__ __forceinline__ float
dot_wide (const wide &a, const wide &b, int lanes)
{
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; k++)
    sum += a.first[k] * b.first[k] + a.second[k] * b.second[k];
  for (int offset = lanes / 2; offset; offset /= 2)
    sum += __shfl_xor_sync (FULL_MASK, sum, offset);
  return sum;
}

__device__ __forceinline__ void
rotate_wide (wide &x, const float *cosine, const float *sine, float sign)
{
  float c[8], s[8];
  load_pack (c, cosine);
  load_pack (s, sine);
#pragma unroll
  for (int k = 0; k < 8; k++)
    {
      float a = x.first[k], b = x.second[k], turned = s[k] * sign;
      x.first[k] = a * c[k] - b * turned;
      x.second[k] = b * c[k] + a * turned;
    }
}

/* Scales the elements for the codes of a head, which `lanes` threads hold; all threads of the warp. */
__device__ __forceinline__ void
scale_wide (wide &x, float *scale, int lanes, bool leader)
{
  uint32_t most = 0;
#pragma unroll
  for (int k = 0; k < 8; k++)
    most = max (most, max (size_bits (x.first[k]), size_bits (x.second[k])));
  for (int offset = lanes / 2; offset; offset /= 2)
    most = max (most, __shfl_xor_sync (FULL_MASK, most, offset));
  float factor = write_scale (scale, most, leader);
#pragma unroll
  for (int k = 0; k < 8; k++)
    {
      x.first[k] *= factor;
      x.second[k] *= factor;
    }
}

template <typename T, typename K>
__global__ void
wide_forward (T *q, K *keys, K *values, float *key_scales, float *value_scales, const T *raw, dev_qkv qkv,
              dev_attention shape, dev_batch batch)
{
  int heads = shape.heads, groups = shape.groups, size = shape.head_size, half = size / 2, lanes = half / 8;
  int all = heads + 2 * groups, i = threadIdx.x % lanes * 8;
  int64_t task = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / lanes;
  wait_for_inputs ();
  /* Threads beyond the last head stay for the sums over lanes. */
  bool inside = task < (int64_t) batch.tokens * all;
  task = inside ? task : 0;
  int t = (int) (task / all), index = (int) (task % all);
  wide x, other;
  load_wide (x, raw + task * size + i, half);
  if (qkv.bias)
    {
      load_wide (other, (const T *) qkv.bias + (int64_t) index * size + i, half);
#pragma unroll
      for (int k = 0; k < 8; k++)
        {
          x.first[k] += other.first[k];
          x.second[k] += other.second[k];
        }
    }
  if (qkv.q_norm)
    {
      const T *norm = (const T *) (index < heads ? qkv.q_norm : qkv.k_norm);
      float r = 1.0f / sqrtf (dot_wide (x, x, lanes) / size + qkv.eps);
      load_wide (other, norm + i, half);
#pragma unroll
      for (int k = 0; k < 8 && index < heads + groups; k++)
        {
          x.first[k] *= other.first[k] * r;
          x.second[k] *= other.second[k] * r;
        }
    }
  if (index < heads + groups)
    {
      int64_t position = batch.positions[t];
      rotate_wide (x, qkv.rope_cos + position * half + i, qkv.rope_sin + position * half + i, 1.0f);
    }
  bool is_value = index >= heads + groups;
  int64_t slot = batch.slots ? batch.slots[t] : t, row = slot * groups + max (index - heads, 0) % groups;
  if (inside && index < heads)
    store_wide (q + ((int64_t) t * heads + index) * size + i, x, half);
  if constexpr (is_coded<K>::value)
    scale_wide (x, (is_value ? value_scales : key_scales) + row, lanes, inside && index >= heads && i == 0);
  if (inside && index >= heads)
    store_wide ((is_value ? values : keys) + row * size + i, x, half);
}

#define WIDE_THREADS 128

/* Adds what the threads that share elements have summed, in the order of the threads, and stores it. */
__device__ __forceinline__ void
store_wide_sums (float *to, const wide &sum, float *shared, int size, int lanes)
{
  int row = threadIdx.x / lanes, rows = WIDE_THREADS / lanes, i = threadIdx.x % lanes * 8;
  __syncthreads ();
  store_wide (shared + row * size + i, sum, size / 2);
  __syncthreads ();
  for (int d = threadIdx.x; d < size; d += WIDE_THREADS)
    {
      float total = 0;
      for (int r = 0; r < rows; r++)
        total += shared[r * size + d];
      to[d] = total;
    }
}

/* As qkv_backward: block (part, index), places of the partial sums. */
template <typename T>
__global__ void __launch_bounds__ (WIDE_THREADS)
wide_backward (T *draw, float *bias_sums, float *q_sums, float *k_sums, const T *dq, const T *dk, const T *dv,
               const T *raw, dev_qkv qkv, dev_attention shape, dev_batch batch)
{
  __shared__ __align__ (16) float shared[WIDE_THREADS * 16];
  int heads = shape.heads, groups = shape.groups, size = shape.head_size, half = size / 2, lanes = half / 8;
  int all = heads + 2 * groups, index = blockIdx.y, part = blockIdx.x, i = threadIdx.x % lanes * 8;
  int first = (int) ((int64_t) batch.tokens * part / gridDim.x);
  int last = (int) ((int64_t) batch.tokens * (part + 1) / gridDim.x);
  bool is_q = index < heads, is_k = !is_q && index < heads + groups;
  const T *norm = (const T *) (is_q ? qkv.q_norm : is_k ? qkv.k_norm : NULL);
  const T *from = is_q ? dq + (int64_t) index * size : is_k ? dk + (int64_t) (index - heads) * size
                                                            : dv + (int64_t) (index - heads - groups) * size;
  int64_t stride = (int64_t) (is_q ? heads : groups) * size;
  wide dbias = {}, dnorm = {};
  for (int base = first; base < last; base += WIDE_THREADS / lanes)
    {
      int t = base + threadIdx.x / lanes;
      bool inside = t < last;
      t = inside ? t : first;
      wide d;
      load_wide (d, from + t * stride + i, half);
      if (is_q || is_k)
        {
          int64_t position = batch.positions[t];
          rotate_wide (d, qkv.rope_cos + position * half + i, qkv.rope_sin + position * half + i, -1.0f);
        }
      if (norm)
        {
          wide x, weight;
          load_wide (x, raw + ((int64_t) t * all + index) * size + i, half);
          if (qkv.bias)
            {
              load_wide (weight, (const T *) qkv.bias + (int64_t) index * size + i, half);
#pragma unroll
              for (int k = 0; k < 8; k++)
                {
                  x.first[k] += weight.first[k];
                  x.second[k] += weight.second[k];
                }
            }
          load_wide (weight, norm + i, half);
          float r = 1.0f / sqrtf (dot_wide (x, x, lanes) / size + qkv.eps);
#pragma unroll
          for (int k = 0; k < 8; k++)
            {
              dnorm.first[k] += inside ? d.first[k] * x.first[k] * r : 0.0f;
              dnorm.second[k] += inside ? d.second[k] * x.second[k] * r : 0.0f;
              d.first[k] *= weight.first[k];
              d.second[k] *= weight.second[k];
            }
          float mean = dot_wide (d, x, lanes) * r * r / size;
#pragma unroll
          for (int k = 0; k < 8; k++)
            {
              d.first[k] = r * (d.first[k] - x.first[k] * mean);
              d.second[k] = r * (d.second[k] - x.second[k] * mean);
            }
        }
      if (!inside)
        continue;
#pragma unroll
      for (int k = 0; k < 8; k++)
        {
          dbias.first[k] += d.first[k];
          dbias.second[k] += d.second[k];
        }
      store_wide (draw + ((int64_t) t * all + index) * size + i, d, half);
    }
  if (bias_sums)
    store_wide_sums (bias_sums + ((int64_t) part * all + index) * size, dbias, shared, size, lanes);
  float *norm_sums = is_q ? q_sums : is_k ? k_sums : NULL;
  if (norm_sums)
    store_wide_sums (norm_sums + ((int64_t) part * (is_q ? heads : groups) + (is_q ? index : index - heads)) * size, dnorm,
                     shared, size, lanes);
}

static bool
is_wide (const struct dev_attention *shape)
{
  int lanes = shape->head_size / 16;
  return shape->head_size % 16 == 0 && lanes > 0 && lanes <= 16 && (lanes & (lanes - 1)) == 0;
}

static bool
check_size (struct dev_context *context, const struct dev_attention *shape)
{
  if (shape->head_size <= MOST_SIZE && shape->head_size % 2 == 0)
    return true;
  cuda_fail (context, DEV_UNSUPPORTED, "heads of %d elements are not supported; even sizes up to %d are",
             shape->head_size, MOST_SIZE);
  return false;
}

void
cuda_qkv_forward (struct dev_context *context, void *q, const struct dev_kv *kv, const void *raw,
                  const struct dev_qkv *qkv, const struct dev_attention *shape, const struct dev_batch *batch,
                  enum dev_type type)
{
  int64_t tasks = (int64_t) batch->tokens * (shape->heads + 2 * shape->groups);
  if (!cuda_enter (context) || !check_size (context, shape) || tasks <= 0)
    return;
  int blocks = ceil_div (tasks, WARPS), threads = WARPS * WARP;
  if (is_wide (shape))
    {
      int lanes = shape->head_size / 16;
      WITH_TYPE (type, WITH_CACHE (kv, T, (cuda_launch (context, wide_forward<T, K>, ceil_div (tasks * lanes, WIDE_THREADS),
                                                        WIDE_THREADS, 0, (T *) q, (K *) kv->k, (K *) kv->v, kv->k_scales,
                                                        kv->v_scales, (const T *) raw, *qkv, *shape, *batch))));
    }
  else if (shape->head_size % 4 == 0)
    WITH_TYPE (type, WITH_CACHE (kv, T, (qkv_forward<T, K, 2><<<blocks, threads, 0, context->stream>>> (
                                            (T *) q, (K *) kv->k, (K *) kv->v, kv->k_scales, kv->v_scales,
                                            (const T *) raw, *qkv, *shape, *batch))));
  else
    WITH_TYPE (type, WITH_CACHE (kv, T, (qkv_forward<T, K, 1><<<blocks, threads, 0, context->stream>>> (
                                            (T *) q, (K *) kv->k, (K *) kv->v, kv->k_scales, kv->v_scales,
                                            (const T *) raw, *qkv, *shape, *batch))));
  CUDA_LAUNCHED (context, "qkv_forward");
}

void
cuda_qkv_backward (struct dev_context *context, void *draw, float *dbias, float *dq_norm, float *dk_norm,
                   const void *dq, const void *dk, const void *dv, const void *raw, const struct dev_qkv *qkv,
                   const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  int heads = shape->heads, groups = shape->groups, size = shape->head_size, all = heads + 2 * groups;
  if (!cuda_enter (context) || !check_size (context, shape) || batch->tokens <= 0)
    return;
  int parts = ceil_div (batch->tokens, 64);
  parts = parts < MOST_PARTS ? parts : MOST_PARTS;
  size_t each = (size_t) (2 * all) * size * sizeof (float);
  float *sums = (float *) cuda_scratch (context, parts * each, "qkv_backward");
  if (!sums)
    return;
  float *bias_sums = qkv->bias && dbias ? sums : NULL;
  float *q_sums = qkv->q_norm && dq_norm ? sums + (size_t) parts * all * size : NULL;
  float *k_sums = qkv->k_norm && dk_norm ? sums + (size_t) parts * (all + heads) * size : NULL;
  dim3 grid (parts, all);
  if (is_wide (shape))
    WITH_TYPE (type, (wide_backward<T><<<grid, WIDE_THREADS, 0, context->stream>>> (
                         (T *) draw, bias_sums, q_sums, k_sums, (const T *) dq, (const T *) dk, (const T *) dv,
                         (const T *) raw, *qkv, *shape, *batch)));
  else if (size % 4 == 0)
    WITH_TYPE (type, (qkv_backward<T, 2><<<grid, WARPS * WARP, 0, context->stream>>> (
                         (T *) draw, bias_sums, q_sums, k_sums, (const T *) dq, (const T *) dk, (const T *) dv,
                         (const T *) raw, *qkv, *shape, *batch)));
  else
    WITH_TYPE (type, (qkv_backward<T, 1><<<grid, WARPS * WARP, 0, context->stream>>> (
                         (T *) draw, bias_sums, q_sums, k_sums, (const T *) dq, (const T *) dk, (const T *) dv,
                         (const T *) raw, *qkv, *shape, *batch)));
  if (!CUDA_LAUNCHED (context, "qkv_backward"))
    return;
  if (bias_sums)
    cuda_add_partials (context, dbias, bias_sums, parts, all * size, all * size);
  if (q_sums)
    cuda_add_partials (context, dq_norm, q_sums, parts * heads, size, size);
  if (k_sums)
    cuda_add_partials (context, dk_norm, k_sums, parts * groups, size, size);
}
