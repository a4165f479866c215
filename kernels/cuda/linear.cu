/* SPDX-License-Identifier: Apache-2.0 */

/* Linear layers. Weights need no layout of their own here. */

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

void
cuda_linear_forward (struct dev_context *context, void *y, const void *x, const struct dev_matrix *w, int t,
                     enum dev_type type)
{
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
