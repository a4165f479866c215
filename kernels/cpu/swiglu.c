/* SPDX-License-Identifier: Apache-2.0 */

/* Gated linear unit with SiLU (Shazeer 2020): act = gate sigmoid (gate) up. */

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"

#include <omp.h> // defines: omp_get_thread_num

CPU_CLONES static void
swiglu_row (float *act, const float *gate, const float *up, int n)
{
  for (int i = 0; i < n; i++)
    act[i] = gate[i] / (1.0f + vector_exp (-gate[i])) * up[i];
}

CPU_CLONES static void
swiglu_row_backward (float *dgate, float *dup, const float *dact, const float *gate, const float *up,
                     int n)
{
  for (int i = 0; i < n; i++)
    {
      float sigmoid = 1.0f / (1.0f + vector_exp (-gate[i]));
      float silu = gate[i] * sigmoid;
      float d = dact[i];
      dup[i] = d * silu;
      dgate[i] = d * up[i] * (sigmoid + silu * (1.0f - sigmoid));
    }
}

void
cpu_swiglu_forward (struct dev_context *context, void *act, const void *gate_up, int t, int width,
                    enum dev_type type)
{
  size_t stride;
  char *scratch = cpu_thread_scratch (context, 3 * sizeof (float) * width, &stride);
  if (context->status)
    return;
#pragma omp parallel for num_threads(context->threads) schedule(static) \
    if ((size_t) t * width > CPU_PARALLEL_ELEMENTS)
  for (int i = 0; i < t; i++)
    {
      size_t at = (size_t) i * width;
      if (type == DEV_F32)
        {
          const float *row = (const float *) gate_up + 2 * at;
          swiglu_row ((float *) act + at, row, row + width, width);
          continue;
        }
      float *row = (float *) (scratch + (size_t) omp_get_thread_num () * stride);
      cpu_row_load (row, typed_at (gate_up, 2 * at, type), 2 * (size_t) width, type);
      swiglu_row (row + 2 * width, row, row + width, width);
      cpu_row_store (typed_at_mut (act, at, type), row + 2 * width, width, type);
    }
}

void
cpu_swiglu_backward (struct dev_context *context, void *dgate_up, const void *dact, const void *gate_up,
                     int t, int width, enum dev_type type)
{
  size_t stride;
  char *scratch = cpu_thread_scratch (context, 5 * sizeof (float) * width, &stride);
  if (context->status)
    return;
#pragma omp parallel for num_threads(context->threads) schedule(static) \
    if ((size_t) t * width > CPU_PARALLEL_ELEMENTS)
  for (int i = 0; i < t; i++)
    {
      size_t at = (size_t) i * width;
      if (type == DEV_F32)
        {
          const float *row = (const float *) gate_up + 2 * at;
          float *to = (float *) dgate_up + 2 * at;
          swiglu_row_backward (to, to + width, (const float *) dact + at, row, row + width, width);
          continue;
        }
      float *row = (float *) (scratch + (size_t) omp_get_thread_num () * stride);
      cpu_row_load (row, typed_at (gate_up, 2 * at, type), 2 * (size_t) width, type);
      cpu_row_load (row + 2 * width, typed_at (dact, at, type), width, type);
      swiglu_row_backward (row + 3 * width, row + 4 * width, row + 2 * width, row, row + width, width);
      cpu_row_store (typed_at_mut (dgate_up, 2 * at, type), row + 3 * width, 2 * (size_t) width, type);
    }
}
