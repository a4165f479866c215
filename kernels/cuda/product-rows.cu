/* SPDX-License-Identifier: Apache-2.0 */

/* The self-test of products: whether rows of a deterministic product depend on how many there are. */

#include "kernels/cuda/context.cuh"

#include <stdlib.h> // defines: free, malloc
#include <string.h> // defines: memcmp

__global__ void
fill_pattern (void *to, int n, bool as_bf16)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  uint32_t bits = (uint32_t) i * 2654435761u;
  bits ^= bits >> 15;
  float value = (float) (bits % 2001u) / 1000.0f - 1.0f;
  if (as_bf16)
    ((bf16 *) to)[i] = (bf16) value;
  else
    ((float *) to)[i] = value;
}

#define TEST_ROWS 300
#define TEST_SIZE 640

/* Whether rows of a product are equal for several numbers of rows, in one type; the scratch holds everything. */
static bool
rows_are_equal (struct dev_context *context, enum dev_type type, char *scratch, char *host)
{
  static const int counts[] = { 1, 2, 15, 17, 64, 130, 299 };
  size_t size = dev_type_size (type), bytes = TEST_ROWS * TEST_SIZE * size;
  char *x = scratch, *w = x + dev_align (bytes), *y = w + dev_align (TEST_SIZE * TEST_SIZE * size);
  int nx = TEST_ROWS * TEST_SIZE, nw = TEST_SIZE * TEST_SIZE;
  bool equal = true;
  fill_pattern<<<ceil_div (nx, 256), 256, 0, context->stream>>> (x, nx, type == DEV_BF16);
  fill_pattern<<<ceil_div (nw, 256), 256, 0, context->stream>>> (w, nw, type == DEV_BF16);
  cuda_multiply (context, PRODUCT_FORWARD, y, type, x, w, type, TEST_ROWS, TEST_SIZE, TEST_SIZE);
  cuda_download (context, host, y, bytes);
  for (size_t i = 0; i < sizeof counts / sizeof counts[0] && equal && !context->status; i++)
    {
      size_t part = counts[i] * TEST_SIZE * size;
      cuda_multiply (context, PRODUCT_FORWARD, y, type, x, w, type, counts[i], TEST_SIZE, TEST_SIZE);
      cuda_download (context, host + bytes, y, part);
      equal = memcmp (host, host + bytes, part) == 0;
    }
  return equal;
}

bool
cuda_rows_are_equal (struct dev_context *context)
{
  bool equal = true;
  size_t bytes = TEST_ROWS * TEST_SIZE * sizeof (float), weights = TEST_SIZE * TEST_SIZE * sizeof (float);
  char *scratch = NULL, *host = (char *) malloc (2 * bytes);
  if (host && cuda_ok (context, cudaMalloc ((void **) &scratch, 2 * bytes + weights + 4 * DEV_ALIGN), "self-test of products"))
    {
      context->deterministic = true;
      equal = rows_are_equal (context, DEV_BF16, scratch, host)
              && rows_are_equal (context, DEV_F32, scratch, host);
      context->deterministic = false;
    }
  cudaFree (scratch);
  free (host);
  return equal;
}
