/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The soft cap of attention scores, s = cap tanh (s / cap), and its slope 1 - (s / cap)^2. */

#include "kernels/cuda/context.cuh"

__device__ __forceinline__ float
capped (float score, float cap)
{
  return cap > 0 ? cap * tanhf (score / cap) : score;
}

/* By the capped score. */
__device__ __forceinline__ float
cap_slope (float score, float cap)
{
  float part = score / cap;
  return cap > 0 ? 1 - part * part : 1;
}

/* By the weight exp (score - lse); weights that vanish have no gradient. */
__device__ __forceinline__ float
weight_slope (float weight, float lse, float cap)
{
  return weight > 0 ? cap_slope (logf (weight) + lse, cap) : 0;
}

/* Scores that are still to be multiplied by the scale. */
template <int N>
__device__ __forceinline__ void
cap_scores (float (&x)[N][4], const dev_attention &shape)
{
  float cap = shape.soft_cap / shape.scale;
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      x[n][i] = capped (x[n][i], cap);
}
