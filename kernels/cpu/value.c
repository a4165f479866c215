/* SPDX-License-Identifier: Apache-2.0 */

/* Scalar head of reward models and critics. */

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"

#include <omp.h> // defines: omp_get_thread_num

CPU_CLONES static void
add_scaled_row (float *to, const float *from, float factor, int n)
{
  for (int i = 0; i < n; i++)
    to[i] += factor * from[i];
}

CPU_CLONES static void
scale_row (float *to, const float *from, float factor, int n)
{
  for (int i = 0; i < n; i++)
    to[i] = factor * from[i];
}

void
cpu_value_forward (struct dev_context *context, float *values, const void *h, const void *weight, int n,
                   int width, enum dev_type type)
{
  size_t stride;
  char *scratch = cpu_thread_scratch (context, 2 * sizeof (float) * width, &stride);
  if (context->status)
    return;
#pragma omp parallel for num_threads(context->threads) schedule(static)
  for (int i = 0; i < n; i++)
    {
      float *row = (float *) (scratch + (size_t) omp_get_thread_num () * stride);
      cpu_row_load (row, typed_at (h, (size_t) i * width, type), width, type);
      cpu_row_load (row + width, weight, width, type);
      values[i] = cpu_row_dot (row, row + width, width);
    }
}

void
cpu_value_backward (struct dev_context *context, void *dh, float *dweight, const float *dvalues,
                    const void *h, const void *weight, int n, int width, enum dev_type type)
{
  size_t stride;
  char *scratch = cpu_thread_scratch (context, 2 * sizeof (float) * width, &stride);
  if (context->status)
    return;
  float *row = (float *) scratch;
  float *row_weight = row + width;
  cpu_row_load (row_weight, weight, width, type);
  for (int i = 0; i < n; i++)
    {
      size_t at = (size_t) i * width;
      cpu_row_load (row, typed_at (h, at, type), width, type);
      add_scaled_row (dweight, row, dvalues[i], width);
      scale_row (row, row_weight, dvalues[i], width);
      cpu_row_store (typed_at_mut (dh, at, type), row, width, type);
    }
}
