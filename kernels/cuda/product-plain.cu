/* SPDX-License-Identifier: Apache-2.0 */

/* Products by a plain kernel, for what the library does not have. */

#include "kernels/cuda/context.cuh"

#define PORTABLE_TILE 32

/* c (m, n) by tiles, sums over k in order; strides of the three kinds. */
template <typename T, typename C>
__global__ void
portable_product (C *c, const T *a, const T *b, int m, int n, int k, int64_t a_row, int64_t a_k, int64_t b_row,
                  int64_t b_k, bool accumulate)
{
  __shared__ float left[PORTABLE_TILE][PORTABLE_TILE + 1], right[PORTABLE_TILE][PORTABLE_TILE + 1];
  int x = threadIdx.x, y = threadIdx.y;
  int64_t row = (int64_t) blockIdx.y * PORTABLE_TILE, column = (int64_t) blockIdx.x * PORTABLE_TILE;
  float sum[4] = { 0, 0, 0, 0 };
  for (int first = 0; first < k; first += PORTABLE_TILE)
    {
      for (int i = y; i < PORTABLE_TILE; i += 8)
        {
          bool inside = first + x < k;
          left[i][x] = inside && row + i < m ? (float) a[(row + i) * a_row + (first + x) * a_k] : 0.0f;
          right[i][x] = inside && column + i < n ? (float) b[(column + i) * b_row + (first + x) * b_k] : 0.0f;
        }
      __syncthreads ();
      for (int l = 0; l < PORTABLE_TILE; l++)
        for (int i = 0; i < 4; i++)
          sum[i] += left[y + 8 * i][l] * right[x][l];
      __syncthreads ();
    }
  for (int i = 0; i < 4; i++)
    if (row + y + 8 * i < m && column + x < n)
      {
        C *to = &c[(row + y + 8 * i) * n + column + x];
        *to = (C) (accumulate ? (float) *to + sum[i] : sum[i]);
      }
}

template <typename T, typename C>
static void
launch_portable (struct dev_context *context, enum cuda_product kind, void *c, const void *a, const void *b, int m,
                 int n, int k)
{
  bool weight = kind == PRODUCT_WEIGHT || kind == PRODUCT_WEIGHT_ADD;
  int64_t a_row = weight ? 1 : k, a_k = weight ? m : 1;
  int64_t b_row = kind == PRODUCT_FORWARD ? k : 1, b_k = kind == PRODUCT_FORWARD ? 1 : n;
  int most = 65535 * PORTABLE_TILE;
  for (int first = 0; first < m; first += most)
    {
      int rows = m - first < most ? m - first : most;
      dim3 grid (ceil_div (n, PORTABLE_TILE), ceil_div (rows, PORTABLE_TILE));
      portable_product<T, C><<<grid, dim3 (PORTABLE_TILE, 8), 0, context->stream>>> (
          (C *) c + (int64_t) first * n, (const T *) a + first * a_row, (const T *) b, rows, n, k, a_row, a_k, b_row,
          b_k, kind == PRODUCT_WEIGHT_ADD);
    }
  CUDA_LAUNCHED (context, "plain product");
}

void
cuda_multiply_plain (struct dev_context *context, enum cuda_product kind, void *c, enum dev_type c_type, const void *a,
                     const void *b, enum dev_type type, int m, int n, int k)
{
  if (type == DEV_F32)
    launch_portable<float, float> (context, kind, c, a, b, m, n, k);
  else if (c_type == DEV_F32)
    launch_portable<bf16, float> (context, kind, c, a, b, m, n, k);
  else
    launch_portable<bf16, bf16> (context, kind, c, a, b, m, n, k);
}
