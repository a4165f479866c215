/* SPDX-License-Identifier: Apache-2.0 */

#include "kernels/cuda/context.cuh"

#define THREADS 256

template <typename T>
__global__ void
embed_forward (float *x, const T *table, const int32_t *ids, int width)
{
  const T *from = table + (int64_t) ids[blockIdx.x] * width;
  float *to = x + (int64_t) blockIdx.x * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    to[i] = (float) from[i];
}

void
cuda_embed_forward (struct dev_context *context, float *x, const void *table, const int32_t *ids, int t, int width,
                    enum dev_type type)
{
  if (!cuda_enter (context) || t <= 0)
    return;
  WITH_TYPE (type, (embed_forward<T><<<t, THREADS, 0, context->stream>>> (x, (const T *) table, ids, width)));
  CUDA_LAUNCHED (context, "embed_forward");
}

/* The block of a token whose id did not occur before adds the rows of all tokens with that id, in their order: no
 * atomics, equal sums every time. */
__global__ void
embed_backward (float *dtable, const float *dx, const int32_t *ids, int t, int width, int fixed)
{
  __shared__ int found[THREADS / WARP][WARP];
  __shared__ int counts[THREADS / WARP];
  int own = blockIdx.x, id = ids[own], warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  if (id == fixed)
    return;
  for (int first = 0; first < own; first += THREADS)
    {
      int i = first + threadIdx.x;
      if (__syncthreads_or (i < own && ids[i] == id))
        return;
    }
  float *to = dtable + (int64_t) id * width;
  for (int first = own; first < t; first += THREADS)
    {
      int i = first + threadIdx.x;
      bool same = i < t && ids[i] == id;
      unsigned votes = __ballot_sync (FULL_MASK, same);
      if (same)
        found[warp][__popc (votes & ((1u << lane) - 1))] = i;
      if (lane == 0)
        counts[warp] = __popc (votes);
      if (!__syncthreads_or (same))
        continue;
      for (int w = 0; w < THREADS / WARP; w++)
        for (int k = 0; k < counts[w]; k++)
          {
            const float *from = dx + (int64_t) found[w][k] * width;
            for (int c = threadIdx.x; c < width; c += THREADS)
              to[c] += from[c];
          }
      __syncthreads ();
    }
}

void
cuda_embed_backward (struct dev_context *context, float *dtable, const float *dx, const int32_t *ids, int t, int width,
                     int fixed)
{
  if (!cuda_enter (context) || t <= 0)
    return;
  embed_backward<<<t, THREADS, 0, context->stream>>> (dtable, dx, ids, t, width, fixed);
  CUDA_LAUNCHED (context, "embed_backward");
}
