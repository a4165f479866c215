/* SPDX-License-Identifier: Apache-2.0 */

/* Rows as e4m3 codes with a scale each, as e4m3.h makes them on the host. */

#pragma once

#include "kernels/cuda/context.cuh"

/* Greatest over the block, given to every thread. `shared` holds one float per warp, and is read when others have passed. */
__device__ __forceinline__ float
block_max (float x, float *shared)
{
  int warps = (blockDim.x + WARP - 1) / WARP, lane = threadIdx.x % WARP;
  x = warp_max (x);
  if (lane == 0)
    shared[threadIdx.x / WARP] = x;
  __syncthreads ();
  return warp_max (lane < warps ? shared[lane] : 0);
}

/* Scale of a row whose greatest size is `most`. */
__device__ __forceinline__ float
scale_of_row (float most)
{
  float scale = __fdiv_rn (most, 448.0f);
  return scale > 0 ? scale : 1.0f;
}

/* N elements as codes, moved as one. */
template <int N>
__device__ __forceinline__ void
store_codes (uint8_t *to, const float (&x)[N], float scale)
{
  pack<uint8_t, N> p;
#pragma unroll
  for (int i = 0; i < N; i += 2)
    {
      float2 two = { __fdiv_rn (x[i], scale), i + 1 < N ? __fdiv_rn (x[i + 1 < N ? i + 1 : i], scale) : 0.0f };
      __nv_fp8x2_storage_t pair = __nv_cvt_float2_to_fp8x2 (two, __NV_SATFINITE, __NV_E4M3);
      p.x[i] = (uint8_t) pair;
      if (i + 1 < N)
        p.x[i + 1 < N ? i + 1 : i] = (uint8_t) (pair >> 8);
    }
  *reinterpret_cast<pack<uint8_t, N> *> (to) = p;
}

/* Threads of a block that holds a row of `chunks` pieces in registers, and pieces of a thread (1, 2 or 4); false where the
 * row is too long. */
static inline bool
cuda_share_row (int chunks, int *threads, int *per)
{
  *per = chunks <= 256 ? 1 : chunks <= 512 ? 2 : 4;
  *threads = ceil_div (ceil_div (chunks, *per), WARP) * WARP;
  return *threads <= 1024;
}

#define WITH_PER(per, body) \
  do                        \
    {                       \
      if ((per) == 1)       \
        {                   \
          constexpr int PER = 1; \
          body;             \
        }                   \
      else if ((per) == 2)  \
        {                   \
          constexpr int PER = 2; \
          body;             \
        }                   \
      else                  \
        {                   \
          constexpr int PER = 4; \
          body;             \
        }                   \
    }                       \
  while (0)
