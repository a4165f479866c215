/* SPDX-License-Identifier: Apache-2.0 */

/* Linear layers. Weights need no layout of their own here; codes of them are read as they are where rows are few, else turned
 * into the type in the workspace. */

#include "kernels/cuda/context.cuh"

size_t
cuda_pack_size (struct dev_context *context, int rows, int cols, enum dev_type type)
{
  return 0;
}

void
cuda_pack (struct dev_context *context, void *packed, const void *data, int rows, int cols, enum dev_type type)
{
}

#define THREADS 128

template <typename T>
__global__ void
encode_row (uint8_t *codes, float *scales, const T *data, int cols)
{
  __shared__ float shared[THREADS / WARP];
  int64_t first = (int64_t) blockIdx.x * cols;
  float most = 0;
  for (int c = threadIdx.x; c < cols; c += THREADS)
    most = fmaxf (most, fabsf ((float) data[first + c]));
  most = warp_max (most);
  if (threadIdx.x % WARP == 0)
    shared[threadIdx.x / WARP] = most;
  __syncthreads ();
  for (int i = 0; i < THREADS / WARP; i++)
    most = fmaxf (most, shared[i]);
  float scale = __fdiv_rn (most, 448.0f);
  scale = scale > 0 ? scale : 1.0f;
  if (threadIdx.x == 0)
    scales[blockIdx.x] = scale;
  for (int c = threadIdx.x; c < cols; c += THREADS)
    codes[first + c] = __nv_cvt_float_to_fp8 (__fdiv_rn ((float) data[first + c], scale), __NV_SATFINITE, __NV_E4M3);
}

void
cuda_encode (struct dev_context *context, uint8_t *codes, float *scales, const void *data, int rows, int cols,
             enum dev_type type)
{
  if (!cuda_enter (context) || rows <= 0)
    return;
  WITH_TYPE (type, (encode_row<<<rows, THREADS, 0, context->stream>>> (codes, scales, (const T *) data, cols)));
  CUDA_LAUNCHED (context, "codes of weights");
}

/* N codes a thread and turn. */
template <typename T, int N>
__global__ void
decode_row (T *to, const uint8_t *codes, const float *scales, int cols)
{
  float scale = scales[blockIdx.x];
  int64_t first = (int64_t) blockIdx.x * cols;
  for (int c = threadIdx.x * N; c < cols; c += THREADS * N)
    {
      float value[N];
      load_pack (value, (const e4m3 *) codes + first + c);
#pragma unroll
      for (int i = 0; i < N; i++)
        value[i] *= scale;
      store_pack (to + first + c, value);
    }
}

/* What the codes of w stand for, in the type, in the workspace; NULL after an error. It is launched without overlap, as whatever
 * writes weights. */
static const void *
decode_matrix (struct dev_context *context, const struct dev_matrix *w, enum dev_type type)
{
  void *to = cuda_scratch (context, (size_t) w->rows * w->cols * dev_type_size (type), "a matrix of codes");
  if (!to || w->rows <= 0)
    return NULL;
  if (w->cols % 8 == 0 && (uintptr_t) w->codes % 8 == 0)
    WITH_TYPE (type, (decode_row<T, 8><<<w->rows, THREADS, 0, context->stream>>> ((T *) to, w->codes, w->code_scales,
                                                                                   w->cols)));
  else
    WITH_TYPE (type, (decode_row<T, 1><<<w->rows, THREADS, 0, context->stream>>> ((T *) to, w->codes, w->code_scales,
                                                                                   w->cols)));
  return CUDA_LAUNCHED (context, "weights of codes") ? to : NULL;
}

void
cuda_linear_forward (struct dev_context *context, void *y, const void *x, const struct dev_matrix *w, int t,
                     enum dev_type type)
{
  if (w->codes)
    {
      if (!cuda_enter (context) || t <= 0
          || (type == DEV_BF16 && !context->deterministic && cuda_multiply_few_rows_coded (context, y, x, w, t)))
        return;
      const void *decoded = decode_matrix (context, w, type);
      if (decoded)
        cuda_multiply (context, PRODUCT_FORWARD, y, type, x, decoded, type, t, w->rows, w->cols);
      return;
    }
  cuda_multiply (context, PRODUCT_FORWARD, y, type, x, w->data, type, t, w->rows, w->cols);
}

void
cuda_linear_backward (struct dev_context *context, void *dx, float *dw, bool add, const void *dy, const void *x,
                      const struct dev_matrix *w, int t, enum dev_type type)
{
  if (dx)
    cuda_multiply (context, PRODUCT_INPUT, dx, type, dy, w->data, type, t, w->cols, w->rows);
  if (dw)
    cuda_multiply (context, add ? PRODUCT_WEIGHT_ADD : PRODUCT_WEIGHT, dw, DEV_F32, dy, x, type, w->rows, w->cols, t);
}
