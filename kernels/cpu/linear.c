/* SPDX-License-Identifier: Apache-2.0 */

#include "kernels/cpu/product.h"
#include "kernels/cpu/vector.h"
#include "kernels/e4m3.h"

static float
element (const void *x, size_t i, enum dev_type type)
{
  return type == DEV_BF16 ? bf16_to_float (((const bf16 *) x)[i]) : ((const float *) x)[i];
}

static void
encode_row (uint8_t *codes, float *scale, const void *data, size_t first, int cols, enum dev_type type)
{
  float most = 0;
  for (int c = 0; c < cols; c++)
    {
      float size = fabsf (element (data, first + c, type));
      most = size > most ? size : most;
    }
  *scale = e4m3_row_scale (most);
  for (int c = 0; c < cols; c++)
    codes[first + c] = e4m3_from_float (element (data, first + c, type) / *scale);
}

void
cpu_encode (struct dev_context *context, uint8_t *codes, float *scales, const void *data, int rows, int cols,
            enum dev_type type)
{
  if (context->status)
    return;
#pragma omp parallel for num_threads(context->threads) schedule(static)
  for (int r = 0; r < rows; r++)
    encode_row (codes, &scales[r], data, (size_t) r * cols, cols, type);
}

/* What the codes of w stand for, in the type, in the workspace; NULL after an error. */
static const void *
decode_matrix (struct dev_context *context, const struct dev_matrix *w, enum dev_type type)
{
  size_t bytes = (size_t) w->rows * w->cols * dev_type_size (type);
  if (bytes > context->workspace_size)
    {
      cpu_fail (context, DEV_NO_MEMORY, "coded weights need %zu bytes of workspace, which has %zu", bytes,
                context->workspace_size);
      return NULL;
    }
#pragma omp parallel for num_threads(context->threads) schedule(static)
  for (int r = 0; r < w->rows; r++)
    for (size_t i = (size_t) r * w->cols; i < (size_t) (r + 1) * w->cols; i++)
      {
        float value = e4m3_to_float (w->codes[i]) * w->code_scales[r];
        if (type == DEV_BF16)
          ((bf16 *) context->workspace)[i] = bf16_from_float (value);
        else
          ((float *) context->workspace)[i] = value;
      }
  return context->workspace;
}

void
cpu_linear_forward (struct dev_context *context, void *y, const void *x, const struct dev_matrix *w,
                    int t, enum dev_type type)
{
  struct cpu_product p = { .m = t, .n = w->rows, .k = w->cols, .type = type, .c_type = type };
  p.b_transposed = true;
  if (w->codes)
    {
      const void *decoded = context->status ? NULL : decode_matrix (context, w, type);
      if (decoded)
        cpu_multiply (context, &p, y, x, decoded);
      return;
    }
  p.packed = w->packed != NULL;
  cpu_multiply (context, &p, y, x, w->packed ? w->packed : w->data);
}

void
cpu_linear_backward (struct dev_context *context, void *dx, float *dw, bool add, const void *dy, const void *x,
                     const struct dev_matrix *w, int t, enum dev_type type)
{
  if (dx)
    {
      struct cpu_product p = { .m = t, .n = w->cols, .k = w->rows, .type = type, .c_type = type };
      cpu_multiply (context, &p, dx, dy, w->data);
    }
  if (dw)
    {
      struct cpu_product p = { .m = w->rows, .n = w->cols, .k = t, .type = type, .c_type = DEV_F32 };
      p.a_transposed = true;
      p.accumulate = add;
      cpu_multiply (context, &p, dw, dy, x);
    }
}
