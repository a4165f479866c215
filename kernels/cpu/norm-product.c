/* SPDX-License-Identifier: Apache-2.0 */

/* Ops that a GPU fuses: here one after the other, since a call costs nothing. */

#include "kernels/cpu/context.h"

void
cpu_norm_qkv_forward (struct dev_context *context, const struct dev_norm *norm, void *raw, void *q,
                      const struct dev_kv *kv, const struct dev_matrix *w, const struct dev_qkv *qkv,
                      const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  cpu_add_norm_forward (context, norm->sum, norm->out, norm->rstd, norm->x, norm->delta, norm->weight, norm->eps,
                        batch->tokens, w->cols, type);
  cpu_linear_forward (context, raw, norm->out, w, batch->tokens, type);
  cpu_qkv_forward (context, q, kv, raw, qkv, shape, batch, type);
}

void
cpu_norm_swiglu_forward (struct dev_context *context, const struct dev_norm *norm, void *act, void *gate_up,
                         const struct dev_matrix *w, int t, enum dev_type type)
{
  cpu_add_norm_forward (context, norm->sum, norm->out, norm->rstd, norm->x, norm->delta, norm->weight, norm->eps, t,
                        w->cols, type);
  cpu_linear_forward (context, gate_up, norm->out, w, t, type);
  cpu_swiglu_forward (context, act, gate_up, t, w->rows / 2, type);
}
