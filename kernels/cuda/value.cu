/* SPDX-License-Identifier: Apache-2.0 */

/* The score head of reward models and critics. */

#include "kernels/cuda/context.cuh"

#define THREADS 128
#define PARTS 64

template <typename T>
__global__ void
value_forward (float *values, const T *h, const T *weight, int width)
{
  __shared__ float shared[WARP];
  const T *row = h + (int64_t) blockIdx.x * width;
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += THREADS)
    sum += (float) row[i] * (float) weight[i];
  sum = block_sum (sum, shared);
  if (threadIdx.x == 0)
    values[blockIdx.x] = sum;
}

/* Block (column, part): dh of its rows, and their part of dweight. */
template <typename T>
__global__ void
value_backward (T *dh, float *partial, const float *dvalues, const T *h, const T *weight, int n, int width)
{
  int column = blockIdx.x * THREADS + threadIdx.x;
  if (column >= width)
    return;
  float w = (float) weight[column], sum = 0;
  int first = (int) ((int64_t) n * blockIdx.y / PARTS), last = (int) ((int64_t) n * (blockIdx.y + 1) / PARTS);
  for (int i = first; i < last; i++)
    {
      int64_t at = (int64_t) i * width + column;
      sum += dvalues[i] * (float) h[at];
      dh[at] = (T) (dvalues[i] * w);
    }
  partial[(int64_t) blockIdx.y * width + column] = sum;
}

void
cuda_value_forward (struct dev_context *context, float *values, const void *h, const void *weight, int n, int width,
                    enum dev_type type)
{
  if (!cuda_enter (context) || n <= 0)
    return;
  WITH_TYPE (type, (value_forward<T><<<n, THREADS, 0, context->stream>>> (values, (const T *) h, (const T *) weight,
                                                                           width)));
  CUDA_LAUNCHED (context, "value_forward");
}

void
cuda_value_backward (struct dev_context *context, void *dh, float *dweight, const float *dvalues, const void *h,
                     const void *weight, int n, int width, enum dev_type type)
{
  if (!cuda_enter (context) || n <= 0)
    return;
  float *partial = (float *) cuda_scratch (context, (size_t) PARTS * width * sizeof (float), "value_backward");
  if (!partial)
    return;
  dim3 grid (ceil_div (width, THREADS), PARTS);
  WITH_TYPE (type, (value_backward<T><<<grid, THREADS, 0, context->stream>>> ((T *) dh, partial, dvalues, (const T *) h,
                                                                               (const T *) weight, n, width)));
  if (CUDA_LAUNCHED (context, "value_backward") && dweight)
    cuda_add_partials (context, dweight, partial, PARTS, width, width);
}
