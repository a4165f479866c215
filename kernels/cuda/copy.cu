/* SPDX-License-Identifier: Apache-2.0 */

/* Copies that change type or order, and sums of partial sums. */

#include "kernels/cuda/context.cuh"

template <typename To, typename From>
__global__ void
convert (To *to, const From *from, size_t n)
{
  size_t stride = (size_t) gridDim.x * blockDim.x * 8;
  for (size_t i = ((size_t) blockIdx.x * blockDim.x + threadIdx.x) * 8; i < n; i += stride)
    {
      if (i + 8 <= n)
        {
          float x[8];
          load_pack (x, from + i);
          store_pack (to + i, x);
          continue;
        }
      for (size_t j = i; j < n; j++)
        to[j] = (To) (float) from[j];
    }
}

template <typename To, typename From>
static void
launch_convert (struct dev_context *context, void *to, const void *from, size_t n)
{
  size_t blocks = (n + 2047) / 2048;
  size_t most = (size_t) context->multiprocessors * 16;
  convert<To, From><<<(unsigned) (blocks < most ? blocks : most), 256, 0, context->stream>>> ((To *) to,
                                                                                           (const From *) from, n);
  CUDA_LAUNCHED (context, "convert");
}

void
cuda_convert (struct dev_context *context, void *to, enum dev_type to_type, const void *from, enum dev_type from_type,
              size_t n)
{
  if (!cuda_enter (context) || n == 0)
    return;
  if (to_type == from_type)
    cuda_copy (context, to, from, n * dev_type_size (to_type));
  else if (to_type == DEV_BF16)
    launch_convert<bf16, float> (context, to, from, n);
  else
    launch_convert<float, bf16> (context, to, from, n);
}

/* One block a row. Unit is the type of the moved words. */
template <typename Unit>
__global__ void
move_rows (Unit *to, const Unit *from, const int32_t *rows, int width, bool scatter)
{
  int64_t other = (int64_t) rows[blockIdx.x] * width, own = (int64_t) blockIdx.x * width;
  int64_t source = scatter ? own : other, target = scatter ? other : own;
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    to[target + i] = from[source + i];
}

static void
launch_move (struct dev_context *context, void *to, const void *from, const int32_t *rows, int n, int width,
             enum dev_type type, bool scatter)
{
  size_t bytes = (size_t) width * dev_type_size (type);
  if (!cuda_enter (context) || n <= 0 || width <= 0)
    return;
  if (bytes % 16 == 0 && ((uintptr_t) to | (uintptr_t) from) % 16 == 0)
    move_rows<uint4><<<n, 128, 0, context->stream>>> ((uint4 *) to, (const uint4 *) from, rows, (int) (bytes / 16),
                                                      scatter);
  else
    move_rows<uint16_t><<<n, 128, 0, context->stream>>> ((uint16_t *) to, (const uint16_t *) from, rows,
                                                         (int) (bytes / 2), scatter);
  CUDA_LAUNCHED (context, "moving rows");
}

void
cuda_gather_rows (struct dev_context *context, void *to, const void *from, const int32_t *rows, int n, int width,
                  enum dev_type type)
{
  launch_move (context, to, from, rows, n, width, type, false);
}

void
cuda_scatter_rows (struct dev_context *context, void *to, const void *from, const int32_t *rows, int n, int width,
                   enum dev_type type)
{
  launch_move (context, to, from, rows, n, width, type, true);
}

__global__ void
take_tokens (int32_t *ids, const int32_t *tokens, const int32_t *source, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && source[i] >= 0)
    ids[i] = tokens[source[i]];
}

void
cuda_take_tokens (struct dev_context *context, int32_t *ids, const int32_t *tokens, const int32_t *source, int n)
{
  if (!cuda_enter (context) || n <= 0)
    return;
  take_tokens<<<ceil_div (n, 256), 256, 0, context->stream>>> (ids, tokens, source, n);
  CUDA_LAUNCHED (context, "take_tokens");
}

#define PART_LANES 32

/* A block sums 32 columns; each of its rows of threads takes every 32nd part, and their sums are added in order. */
__global__ void
add_partials (float *to, const float *partial, int parts, int width, int stride)
{
  __shared__ float sums[PART_LANES][WARP];
  int column = blockIdx.x * WARP + threadIdx.x;
  float sum = 0;
  for (int part = threadIdx.y; column < width && part < parts; part += PART_LANES)
    sum += partial[(int64_t) part * stride + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads ();
  if (threadIdx.y > 0 || column >= width)
    return;
  for (int i = 1; i < PART_LANES; i++)
    sum += sums[i][threadIdx.x];
  to[column] += sum;
}

void
cuda_add_partials (struct dev_context *context, float *to, const float *partial, int parts, int width, int stride)
{
  add_partials<<<ceil_div (width, WARP), dim3 (WARP, PART_LANES), 0, context->stream>>> (to, partial, parts, width, stride);
  CUDA_LAUNCHED (context, "adding partial sums");
}
