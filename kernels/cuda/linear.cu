/* SPDX-License-Identifier: Apache-2.0 */

/* Linear layers. Weights need no layout of their own here. Codes of them serve where they save time: for one row against the
 * row as it is, else against rows that became codes, too, in the workspace. In deterministic mode, where the number of rows
 * must not matter, and in fp32 they are turned into the type there. */

#include "kernels/cuda/codes.cuh"

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
  __shared__ float shared[WARP];
  int64_t first = (int64_t) blockIdx.x * cols;
  float most = 0;
  for (int c = threadIdx.x; c < cols; c += THREADS)
    most = fmaxf (most, fabsf ((float) data[first + c]));
  float scale = scale_of_row (block_max (most, shared));
  if (threadIdx.x == 0)
    scales[blockIdx.x] = scale;
  for (int c = threadIdx.x; c < cols; c += THREADS)
    {
      float value[1] = { (float) data[first + c] };
      store_codes (codes + first + c, value, scale);
    }
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

/* A row of inputs a block, kept in registers. */
template <int PER>
__global__ void
encode_inputs (uint8_t *codes, float *scales, const bf16 *x, int cols)
{
  __shared__ float shared[WARP];
  int64_t row = (int64_t) blockIdx.x * cols;
  float value[PER][8], most = 0;
  wait_for_inputs ();
#pragma unroll
  for (int p = 0; p < PER; p++)
    {
      int c = (threadIdx.x + p * blockDim.x) * 8;
      if (c >= cols)
        break;
      load_pack (value[p], x + row + c);
#pragma unroll
      for (int i = 0; i < 8; i++)
        most = fmaxf (most, fabsf (value[p][i]));
    }
  float scale = scale_of_row (block_max (most, shared));
  if (threadIdx.x == 0)
    scales[blockIdx.x] = scale;
#pragma unroll
  for (int p = 0; p < PER; p++)
    {
      int c = (threadIdx.x + p * blockDim.x) * 8;
      if (c < cols)
        store_codes (codes + row + c, value[p], scale);
    }
}

/* As many rows as the workspace holds, at most t. */
static struct cuda_codes
place_codes (const struct dev_context *context, int t, int cols)
{
  struct cuda_codes in;
  int64_t fit = ((int64_t) context->workspace_size - 2 * DEV_ALIGN) / (cols + (int) sizeof (float));
  in.rows = fit < 0 ? 0 : fit < t ? (int) fit : t;
  in.scales = (float *) context->workspace;
  in.codes = (uint8_t *) context->workspace + dev_align (in.rows * sizeof (float));
  in.partial = (float *) (in.codes + dev_align ((size_t) in.rows * cols));
  in.room = (char *) in.partial < context->workspace + context->workspace_size
                ? context->workspace + context->workspace_size - (char *) in.partial
                : 0;
  return in;
}

/* Whether codes of w may multiply t rows as codes: one row has a better way, and a workspace of a few rows gains nothing. */
static bool
may_take_codes (const struct dev_context *context, const struct dev_matrix *w, int t, const struct cuda_codes *in,
                enum dev_type type)
{
  return w->codes && type == DEV_BF16 && !context->deterministic && t > 1 && (in->rows == t || in->rows > 256);
}

/* False where the matrix itself is to multiply. `ready`: the codes are in the workspace; `along`: they might have been. */
static bool
multiply_codes (struct dev_context *context, void *y, const void *x, const struct dev_matrix *w, int t, bool along, bool ready)
{
  struct cuda_codes in = place_codes (context, t, w->cols);
  int threads, per;
  if (!may_take_codes (context, w, t, &in, DEV_BF16) || (uintptr_t) x % 16
      || !cuda_share_row (w->cols / 8, &threads, &per))
    return false;
  for (int first = 0; first < t; first += in.rows)
    {
      int rows = t - first < in.rows ? t - first : in.rows;
      const bf16 *from = (const bf16 *) x + (int64_t) first * w->cols;
      bf16 *to = (bf16 *) y + (int64_t) first * w->rows;
      if (!ready && !cuda_wants_codes (context, to, &in, from, w, rows, along))
        return false;
      if (!ready)
        WITH_PER (per, (cuda_launch (context, encode_inputs<PER>, rows, threads, 0, in.codes, in.scales, from, w->cols)));
      if (!CUDA_LAUNCHED (context, "codes of inputs") || !cuda_multiply_codes (context, to, &in, w, rows))
        return false;
    }
  return true;
}

void
cuda_linear_forward (struct dev_context *context, void *y, const void *x, const struct dev_matrix *w, int t,
                     enum dev_type type)
{
  struct cuda_rows before = context->before;
  bool along = before.x == x && before.rows == t && before.cols == w->cols, coded = w->codes && type == DEV_BF16;
  const void *data = w->data;
  if (!cuda_enter (context) || t <= 0)
    return;
  if (coded && !context->deterministic
      && ((t == 1 && cuda_multiply_row (context, y, type, x, w))
          || multiply_codes (context, y, x, w, t, along, along && before.codes)))
    return;
  if (w->codes && (context->deterministic || type == DEV_F32) && !(data = decode_matrix (context, w, type)))
    return;
  cuda_multiply (context, PRODUCT_FORWARD, y, type, x, data, type, t, w->rows, w->cols);
}

/* The op that follows may be linear_forward of x. */
static void
leave_rows (struct dev_context *context, const void *x, int t, int cols, bool codes)
{
  struct cuda_rows rows = { x, t, cols, codes };
  context->before = rows;
}

void
cuda_norm_linear_forward (struct dev_context *context, const struct dev_norm *norm, void *y, const struct dev_matrix *w,
                          int t, enum dev_type type)
{
  struct cuda_codes in = place_codes (context, t, w->cols);
  if (!cuda_enter (context) || t <= 0)
    return;
  bool codes = may_take_codes (context, w, t, &in, type) && in.rows == t
               && cuda_wants_codes (context, y, &in, norm->out, w, t, true)
               && cuda_norm_codes (context, norm, in.codes, in.scales, t, w->cols);
  if (!codes)
    cuda_add_norm_forward (context, norm->sum, norm->out, norm->rstd, norm->x, norm->delta, norm->weight, norm->eps, t,
                           w->cols, type);
  leave_rows (context, norm->out, t, w->cols, codes);
  cuda_linear_forward (context, y, norm->out, w, t, type);
}

void
cuda_swiglu_before_linear (struct dev_context *context, void *act, const void *gate_up, const struct dev_matrix *w, int t,
                           enum dev_type type)
{
  int width = w->rows / 2;
  struct cuda_codes in = place_codes (context, t, width);
  if (!cuda_enter (context) || t <= 0)
    return;
  bool codes = may_take_codes (context, w, t, &in, type) && in.rows == t && cuda_wants_inputs (context, t, width)
               && cuda_swiglu_codes (context, act, gate_up, in.codes, in.scales, t, width);
  if (!codes)
    cuda_swiglu_forward (context, act, gate_up, t, width, type);
  leave_rows (context, act, t, width, codes);
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
