/* SPDX-License-Identifier: Apache-2.0 */

/* Shazeer 2020: silu (gate) * up, and its gradient. */

#include "kernels/cuda/context.cuh"

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
