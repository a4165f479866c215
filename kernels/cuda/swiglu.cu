/* SPDX-License-Identifier: Apache-2.0 */

/* Shazeer 2020: silu (gate) * up, and its gradient. */

#include "kernels/cuda/codes.cuh"

#define THREADS 256

__device__ __forceinline__ float
sigmoid (float x)
{
  return 1.0f / (1.0f + __expf (-x));
}

template <typename T, int N>
__global__ void
swiglu_forward (T *act, const T *gate_up, int64_t chunks, int width)
{
  int64_t i = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x);
  wait_for_inputs ();
  if (i >= chunks)
    return;
  int64_t row = i * N / width, column = i * N % width;
  float gate[N], up[N], out[N];
  load_pack (gate, gate_up + 2 * row * width + column);
  load_pack (up, gate_up + (2 * row + 1) * width + column);
#pragma unroll
  for (int k = 0; k < N; k++)
    out[k] = gate[k] * sigmoid (gate[k]) * up[k];
  store_pack (act + row * width + column, out);
}

/* A row a block, with its codes. */
template <int PER>
__global__ void
swiglu_codes (bf16 *act, const bf16 *gate_up, uint8_t *codes, float *scales, int width)
{
  __shared__ float shared[WARP];
  int64_t row = blockIdx.x;
  float value[PER][8], most = 0;
  wait_for_inputs ();
#pragma unroll
  for (int p = 0; p < PER; p++)
    {
      int c = (threadIdx.x + p * blockDim.x) * 8;
      if (c >= width)
        break;
      float gate[8], up[8];
      load_pack (gate, gate_up + 2 * row * width + c);
      load_pack (up, gate_up + (2 * row + 1) * width + c);
#pragma unroll
      for (int i = 0; i < 8; i++)
        {
          value[p][i] = (float) (bf16) (gate[i] * sigmoid (gate[i]) * up[i]);
          most = fmaxf (most, fabsf (value[p][i]));
        }
      store_pack (act + row * width + c, value[p]);
    }
  float scale = scale_of_row (block_max (most, shared));
  if (threadIdx.x == 0)
    scales[row] = scale;
#pragma unroll
  for (int p = 0; p < PER; p++)
    {
      int c = (threadIdx.x + p * blockDim.x) * 8;
      if (c < width)
        store_codes (codes + row * width + c, value[p], scale);
    }
}

bool
cuda_swiglu_codes (struct dev_context *context, void *act, const void *gate_up, uint8_t *codes, float *scales, int t,
                   int width)
{
  int threads, per;
  if (!cuda_in_eights (width, act, gate_up, NULL) || !cuda_share_row (width / 8, &threads, &per))
    return false;
  WITH_PER (per, (cuda_launch (context, swiglu_codes<PER>, t, threads, 0, (bf16 *) act, (const bf16 *) gate_up, codes,
                               scales, width)));
  return CUDA_LAUNCHED (context, "swiglu with codes");
}

template <typename T, int N>
__global__ void
swiglu_backward (T *dgate_up, const T *dact, const T *gate_up, int64_t chunks, int width)
{
  int64_t i = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= chunks)
    return;
  int64_t row = i * N / width, column = i * N % width;
  float gate[N], up[N], d[N], dgate[N], dup[N];
  load_pack (gate, gate_up + 2 * row * width + column);
  load_pack (up, gate_up + (2 * row + 1) * width + column);
  load_pack (d, dact + row * width + column);
#pragma unroll
  for (int k = 0; k < N; k++)
    {
      float s = sigmoid (gate[k]);
      dgate[k] = d[k] * up[k] * s * (1.0f + gate[k] * (1.0f - s));
      dup[k] = d[k] * gate[k] * s;
    }
  store_pack (dgate_up + 2 * row * width + column, dgate);
  store_pack (dgate_up + (2 * row + 1) * width + column, dup);
}

void
cuda_swiglu_forward (struct dev_context *context, void *act, const void *gate_up, int t, int width,
                     enum dev_type type)
{
  int64_t n = (int64_t) t * width;
  if (!cuda_enter (context) || n <= 0)
    return;
  if (cuda_in_eights (width, act, gate_up, NULL))
    WITH_TYPE (type, (cuda_launch (context, swiglu_forward<T, 8>, ceil_div (n / 8, THREADS), THREADS, 0, (T *) act,
                                  (const T *) gate_up, n / 8, width)));
  else
    WITH_TYPE (type, (swiglu_forward<T, 1><<<ceil_div (n, THREADS), THREADS, 0, context->stream>>> (
                         (T *) act, (const T *) gate_up, n, width)));
  CUDA_LAUNCHED (context, "swiglu_forward");
}

void
cuda_swiglu_backward (struct dev_context *context, void *dgate_up, const void *dact, const void *gate_up, int t,
                      int width, enum dev_type type)
{
  int64_t n = (int64_t) t * width;
  if (!cuda_enter (context) || n <= 0)
    return;
  if (cuda_in_eights (width, dgate_up, dact, gate_up))
    WITH_TYPE (type, (swiglu_backward<T, 8><<<ceil_div (n / 8, THREADS), THREADS, 0, context->stream>>> (
                         (T *) dgate_up, (const T *) dact, (const T *) gate_up, n / 8, width)));
  else
    WITH_TYPE (type, (swiglu_backward<T, 1><<<ceil_div (n, THREADS), THREADS, 0, context->stream>>> (
                         (T *) dgate_up, (const T *) dact, (const T *) gate_up, n, width)));
  CUDA_LAUNCHED (context, "swiglu_backward");
}
