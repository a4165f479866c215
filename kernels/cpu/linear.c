/* SPDX-License-Identifier: Apache-2.0 */

#include "kernels/cpu/product.h"

void
cpu_linear_forward (struct dev_context *context, void *y, const void *x, const struct dev_matrix *w,
                    int t, enum dev_type type)
{
  struct cpu_product p = { .m = t, .n = w->rows, .k = w->cols, .type = type, .c_type = type };
  p.b_transposed = true;
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
