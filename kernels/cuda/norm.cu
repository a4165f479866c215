/* SPDX-License-Identifier: Apache-2.0 */

/* Residual addition with RMS norm (Zhang and Sennrich 2019), and its gradient. A row lies in the registers of one
 * block: each thread holds up to PER packs of N elements. */

#include "kernels/cuda/codes.cuh"

/* With CODED the codes of what is written to out, too. */
template <typename T, int N, int PER, bool CODED>
__global__ void
add_norm_forward (float *sum, T *out, float *rstd, const float *x, const T *delta, const T *weight, float eps,
                  int width, uint8_t *codes, float *scales)
{
  __shared__ float shared[WARP];
  int64_t row = (int64_t) blockIdx.x * width;
  float value[PER][N], squares = 0;
  wait_for_inputs ();
#pragma unroll
  for (int p = 0; p < PER; p++)
    {
      int c = (threadIdx.x + p * blockDim.x) * N;
      if (c >= width)
        break;
      load_pack (value[p], x + row + c);
      if (delta)
        {
          float more[N];
          load_pack (more, delta + row + c);
#pragma unroll
          for (int i = 0; i < N; i++)
            value[p][i] += more[i];
        }
#pragma unroll
      for (int i = 0; i < N; i++)
        squares += value[p][i] * value[p][i];
    }
  squares = block_sum (squares, shared);
  float r = 1.0f / sqrtf (squares / width + eps), most = 0;
  if (threadIdx.x == 0 && rstd)
    rstd[blockIdx.x] = r;
#pragma unroll
  for (int p = 0; p < PER; p++)
    {
      int c = (threadIdx.x + p * blockDim.x) * N;
      if (c >= width)
        break;
      float w[N];
      load_pack (w, weight + c);
#pragma unroll
      for (int i = 0; i < N; i++)
        w[i] *= value[p][i] * r;
      store_pack (out + row + c, w);
      if (delta || sum != x)
        store_pack (sum + row + c, value[p]);
      if constexpr (CODED)
#pragma unroll
        for (int i = 0; i < N; i++)
          {
            value[p][i] = (float) (T) w[i];
            most = fmaxf (most, fabsf (value[p][i]));
          }
    }
  if constexpr (CODED)
    {
      float scale = scale_of_row (block_max (most, shared));
      if (threadIdx.x == 0)
        scales[blockIdx.x] = scale;
#pragma unroll
      for (int p = 0; p < PER; p++)
        {
          int c = (threadIdx.x + p * blockDim.x) * N;
          if (c < width)
            store_codes (codes + row + c, value[p], scale);
        }
    }
}

/* Block b takes rows b, b + grid, ... and leaves its part of dweight in row b of partial. */
template <typename T, int N, int PER>
__device__ __forceinline__ void
take_rows_back (float *dx, T *dx_typed, float *partial, const T *dout, const float *sum, const float *rstd,
                   const T *weight, int t, int width)
{
  __shared__ float shared[WARP];
  float dweight[PER][N];
#pragma unroll
  for (int p = 0; p < PER; p++)
#pragma unroll
    for (int i = 0; i < N; i++)
      dweight[p][i] = 0;
  for (int token = blockIdx.x; token < t; token += gridDim.x)
    {
      int64_t row = (int64_t) token * width;
      float normed[PER][N], d[PER][N], dot = 0, r = rstd[token];
#pragma unroll
      for (int p = 0; p < PER; p++)
        {
          int c = (threadIdx.x + p * blockDim.x) * N;
          if (c >= width)
            break;
          float w[N];
          load_pack (normed[p], sum + row + c);
          load_pack (d[p], dout + row + c);
          load_pack (w, weight + c);
#pragma unroll
          for (int i = 0; i < N; i++)
            {
              normed[p][i] *= r;
              dweight[p][i] += d[p][i] * normed[p][i];
              d[p][i] *= w[i];
              dot += d[p][i] * normed[p][i];
            }
        }
      dot = block_sum (dot, shared) / width;
#pragma unroll
      for (int p = 0; p < PER; p++)
        {
          int c = (threadIdx.x + p * blockDim.x) * N;
          if (c >= width)
            break;
          float gained[N];
          load_pack (gained, dx + row + c);
#pragma unroll
          for (int i = 0; i < N; i++)
            gained[i] += r * (d[p][i] - normed[p][i] * dot);
          store_pack (dx + row + c, gained);
          if (dx_typed)
            store_pack (dx_typed + row + c, gained);
        }
    }
#pragma unroll
  for (int p = 0; p < PER; p++)
    {
      int c = (threadIdx.x + p * blockDim.x) * N;
      if (c < width && partial)
        store_pack (partial + (int64_t) blockIdx.x * width + c, dweight[p]);
    }
}

template <typename T, int N, int PER>
__global__ void
add_norm_backward (float *dx, T *dx_typed, float *partial, const T *dout, const float *sum, const float *rstd,
                   const T *weight, int t, int width)
{
  take_rows_back<T, N, PER> (dx, dx_typed, partial, dout, sum, rstd, weight, t, width);
}

#define WIDE_THREADS 512
#define WIDE_PER 4

/* Rows that are too wide for 256 threads: so many may have 128 registers each. */
template <typename T, int N>
__global__ void __launch_bounds__ (WIDE_THREADS)
wide_norm_backward (float *dx, T *dx_typed, float *partial, const T *dout, const float *sum, const float *rstd,
                    const T *weight, int t, int width)
{
  take_rows_back<T, N, WIDE_PER> (dx, dx_typed, partial, dout, sum, rstd, weight, t, width);
}

/* Threads of a block and packs per thread for a row; false where a row is too wide. */
static bool
choose (struct dev_context *context, int width, int n, int *threads, int *per)
{
  int chunks = ceil_div (width, n);
  *threads = chunks <= 1024 ? (chunks < 256 ? ceil_div (chunks, WARP) * WARP : 256) : 1024;
  *per = ceil_div (chunks, *threads);
  *per = *per == 3 ? 4 : *per;
  if (*per <= 4)
    return true;
  cuda_fail (context, DEV_UNSUPPORTED, "norms of rows of %d elements are not supported; 4096 are, or 32768 in multiples "
             "of 8", width);
  return false;
}

template <typename T, int N>
static void
forward (struct dev_context *context, float *sum, void *out, float *rstd, const float *x, const void *delta,
         const void *weight, float eps, int t, int width)
{
  int threads, per;
  if (!choose (context, width, N, &threads, &per))
    return;
  WITH_PER (per, (cuda_launch (context, add_norm_forward<T, N, PER, false>, t, threads, 0, sum, (T *) out, rstd, x,
                               (const T *) delta, (const T *) weight, eps, width, NULL, NULL)));
  CUDA_LAUNCHED (context, "add_norm_forward");
}

void
cuda_add_norm_forward (struct dev_context *context, float *sum, void *out, float *rstd, const float *x,
                       const void *delta, const void *weight, float eps, int t, int width, enum dev_type type)
{
  if (!cuda_enter (context) || t <= 0)
    return;
  bool eights = cuda_in_eights (width, sum, out, x) && cuda_in_eights (width, delta, weight, NULL);
  if (eights)
    WITH_TYPE (type, (forward<T, 8> (context, sum, out, rstd, x, delta, weight, eps, t, width)));
  else
    WITH_TYPE (type, (forward<T, 1> (context, sum, out, rstd, x, delta, weight, eps, t, width)));
}

bool
cuda_norm_codes (struct dev_context *context, const struct dev_norm *n, uint8_t *codes, float *scales, int t, int width)
{
  int threads, per;
  if (!cuda_in_eights (width, n->sum, n->out, n->x) || !cuda_in_eights (width, n->delta, n->weight, NULL)
      || !cuda_share_row (width / 8, &threads, &per))
    return false;
  WITH_PER (per, (cuda_launch (context, add_norm_forward<bf16, 8, PER, true>, t, threads, 0, n->sum, (bf16 *) n->out,
                               n->rstd, n->x, (const bf16 *) n->delta, (const bf16 *) n->weight, n->eps, width, codes,
                               scales)));
  return CUDA_LAUNCHED (context, "a norm with codes");
}

template <typename T, int N>
static void
backward (struct dev_context *context, float *dx, void *dx_typed, float *dweight, const void *dout, const float *sum,
          const float *rstd, const void *weight, int t, int width)
{
  int threads, per, blocks = 4 * context->multiprocessors;
  if (!choose (context, width, N, &threads, &per))
    return;
  bool wide = N == 8 && threads > WIDE_THREADS;
  if (wide && width > WIDE_THREADS * WIDE_PER * N)
    {
      cuda_fail (context, DEV_UNSUPPORTED, "gradients of norms of rows of %d elements are not supported; %d are, in multiples of 8",
                 width, WIDE_THREADS * WIDE_PER * 8);
      return;
    }
  blocks = t < blocks ? t : blocks;
  float *partial = NULL;
  if (dweight
      && !(partial = (float *) cuda_scratch (context, (size_t) blocks * width * sizeof (float), "add_norm_backward")))
    return;
  if (wide)
    wide_norm_backward<T, N><<<blocks, WIDE_THREADS, 0, context->stream>>> (
        dx, (T *) dx_typed, partial, (const T *) dout, sum, rstd, (const T *) weight, t, width);
  else
    WITH_PER (per, (add_norm_backward<T, N, PER><<<blocks, threads, 0, context->stream>>> (
                       dx, (T *) dx_typed, partial, (const T *) dout, sum, rstd, (const T *) weight, t, width)));
  if (CUDA_LAUNCHED (context, "add_norm_backward") && dweight)
    cuda_add_partials (context, dweight, partial, blocks, width, width);
}

void
cuda_add_norm_backward (struct dev_context *context, float *dx, void *dx_typed, float *dweight, const void *dout,
                        const float *sum, const float *rstd, const void *weight, int t, int width, enum dev_type type)
{
  if (!cuda_enter (context) || t <= 0)
    return;
  bool eights = cuda_in_eights (width, dx, dx_typed, dout) && cuda_in_eights (width, sum, weight, NULL);
  if (eights)
    WITH_TYPE (type, (backward<T, 8> (context, dx, dx_typed, dweight, dout, sum, rstd, weight, t, width)));
  else
    WITH_TYPE (type, (backward<T, 1> (context, dx, dx_typed, dweight, dout, sum, rstd, weight, t, width)));
}
