/* SPDX-License-Identifier: Apache-2.0 */

/* Products of very few rows, where reading the weights is all the work: a warp multiplies one row of weights, 16 bytes a
 * lane with several reads in flight, by all rows of x. */

#include "kernels/cuda/context.cuh"

#define WARPS 8
#define AHEAD 4 // reads in flight of a lane

__device__ __forceinline__ void
add_products (float &sum, const uint4 &w, const uint4 &x)
{
  const uint32_t *left = &w.x, *right = &x.x;
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      __nv_bfloat162 a = *reinterpret_cast<const __nv_bfloat162 *> (left + i);
      __nv_bfloat162 b = *reinterpret_cast<const __nv_bfloat162 *> (right + i);
      float2 fa = __bfloat1622float2 (a), fb = __bfloat1622float2 (b);
      sum = fmaf (fa.x, fb.x, sum);
      sum = fmaf (fa.y, fb.y, sum);
    }
}

template <int M, typename C>
__global__ void __launch_bounds__ (WARPS * WARP)
few_rows (C *y, const bf16 *x, const bf16 *w, int m, int rows, int cols)
{
  int row = blockIdx.x * WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP, chunks = cols / 8;
  if (row >= rows)
    return; // before it waits: a block that ends counts as one that let the next kernel start
  const uint4 *weights = (const uint4 *) (w + (int64_t) row * cols), *inputs = (const uint4 *) x;
  float sum[M];
#pragma unroll
  for (int i = 0; i < M; i++)
    sum[i] = 0;
  /* The first weights are on their way before the inputs are there. */
  uint4 ahead[AHEAD];
#pragma unroll
  for (int k = 0; k < AHEAD; k++)
    if (lane + k * WARP < chunks)
      ahead[k] = __ldcs (weights + lane + k * WARP);
  wait_for_inputs ();
  for (int first = lane; first < chunks; first += WARP * AHEAD)
    {
#pragma unroll
      for (int k = 0; k < AHEAD; k++)
        if (first > lane && first + k * WARP < chunks)
          ahead[k] = __ldcs (weights + first + k * WARP);
#pragma unroll
      for (int k = 0; k < AHEAD; k++)
        if (first + k * WARP < chunks)
#pragma unroll
          for (int i = 0; i < M; i++)
            if (i < m)
              add_products (sum[i], ahead[k], __ldg (inputs + (int64_t) i * chunks + first + k * WARP));
    }
#pragma unroll
  for (int i = 0; i < M; i++)
    {
      float total = warp_sum (sum[i]);
      if (lane == 0 && i < m)
        y[(int64_t) i * rows + row] = (C) total;
    }
}

template <int M>
static void
launch (struct dev_context *context, void *y, enum dev_type y_type, const void *x, const void *w, int m, int rows,
        int cols)
{
  int blocks = ceil_div (rows, WARPS);
  if (y_type == DEV_F32)
    cuda_launch (context, few_rows<M, float>, blocks, WARPS * WARP, 0, (float *) y, (const bf16 *) x, (const bf16 *) w, m,
                 rows, cols);
  else
    cuda_launch (context, few_rows<M, bf16>, blocks, WARPS * WARP, 0, (bf16 *) y, (const bf16 *) x, (const bf16 *) w, m,
                 rows, cols);
  CUDA_LAUNCHED (context, "a product of few rows");
}

bool
cuda_multiply_few_rows (struct dev_context *context, void *y, enum dev_type y_type, const void *x, const void *w, int m,
                        int rows, int cols)
{
  if (m > 4 || cols % 8 || ((uintptr_t) x | (uintptr_t) w) % 16)
    return false;
  if (m == 1)
    launch<1> (context, y, y_type, x, w, m, rows, cols);
  else if (m == 2)
    launch<2> (context, y, y_type, x, w, m, rows, cols);
  else
    launch<4> (context, y, y_type, x, w, m, rows, cols);
  return true;
}
