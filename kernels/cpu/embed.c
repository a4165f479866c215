/* SPDX-License-Identifier: Apache-2.0 */

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"

void
cpu_embed_forward (struct dev_context *context, float *x, const void *table, const int32_t *ids, int t,
                   int width, enum dev_type type)
{
  if (context->status)
    return;
#pragma omp parallel for num_threads(context->threads) schedule(static) \
    if ((size_t) t * width > CPU_PARALLEL_ELEMENTS)
  for (int i = 0; i < t; i++)
    cpu_row_load (x + (size_t) i * width, typed_at (table, (size_t) ids[i] * width, type), width, type);
}

/* Each thread owns a range of the vocabulary and walks all tokens in order, so equal ids add up in the
 * same order whatever the number of threads. */
void
cpu_embed_backward (struct dev_context *context, float *dtable, const float *dx, const int32_t *ids, int t,
                    int width, int fixed)
{
  if (context->status)
    return;
  int parts = context->threads;
#pragma omp parallel for num_threads(context->threads) schedule(static)
  for (int part = 0; part < parts; part++)
    for (int i = 0; i < t; i++)
      if (ids[i] % parts == part && ids[i] != fixed)
        cpu_row_add (dtable + (size_t) ids[i] * width, dx + (size_t) i * width, width);
}
