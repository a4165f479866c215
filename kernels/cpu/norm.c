/* SPDX-License-Identifier: Apache-2.0 */

/* Residual addition fused with RMSNorm (Zhang and Sennrich 2019). */

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"

#include <math.h> // defines: sqrtf
#include <omp.h>  // defines: omp_get_thread_num

CPU_CLONES static float
norm_row (float *sum, float *out, const float *x, const float *delta, const float *weight, float eps,
          int n)
{
  float squares = 0;
  if (delta)
    {
#pragma omp simd reduction(+ : squares)
      for (int i = 0; i < n; i++)
        {
          float value = x[i] + delta[i];
          sum[i] = value;
          squares += value * value;
        }
    }
  else
    {
#pragma omp simd reduction(+ : squares)
      for (int i = 0; i < n; i++)
        {
          sum[i] = x[i];
          squares += x[i] * x[i];
        }
    }
  float rstd = 1.0f / sqrtf (squares / n + eps);
  for (int i = 0; i < n; i++)
    out[i] = sum[i] * rstd * weight[i];
  return rstd;
}

void
cpu_add_norm_forward (struct dev_context *context, float *sum, void *out, float *rstd, const float *x,
                      const void *delta, const void *weight, float eps, int t, int width,
                      enum dev_type type)
{
  size_t stride;
  char *scratch = cpu_thread_scratch (context, 3 * sizeof (float) * width, &stride);
  if (context->status)
    return;
#pragma omp parallel num_threads(context->threads) if ((size_t) t * width > CPU_PARALLEL_ELEMENTS)
  {
    float *row_delta = (float *) (scratch + (size_t) omp_get_thread_num () * stride);
    float *row_out = row_delta + width;
    float *row_weight = row_out + width;
    cpu_row_load (row_weight, weight, width, type);
#pragma omp for schedule(static)
    for (int i = 0; i < t; i++)
      {
        size_t at = (size_t) i * width;
        float *to = type == DEV_F32 ? (float *) out + at : row_out;
        const float *add = NULL;
        if (delta && type == DEV_F32)
          add = (const float *) delta + at;
        else if (delta)
          {
            cpu_row_load (row_delta, typed_at (delta, at, type), width, type);
            add = row_delta;
          }
        float r = norm_row (sum + at, to, x + at, add, row_weight, eps, width);
        if (rstd)
          rstd[i] = r;
        if (type != DEV_F32)
          cpu_row_store (typed_at_mut (out, at, type), to, width, type);
      }
  }
}

/* With n = sum * rstd: dsum += rstd * (w dout - n mean (w dout n)); dweight += dout n. */
CPU_CLONES static void
norm_row_backward (float *dx, float *dweight, const float *dout, const float *sum, float rstd,
                   const float *weight, int n)
{
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int i = 0; i < n; i++)
    dot += dout[i] * weight[i] * sum[i];
  float mean = dot * rstd * rstd / n;
  for (int i = 0; i < n; i++)
    {
      dx[i] += rstd * (dout[i] * weight[i] - sum[i] * mean);
      dweight[i] += dout[i] * sum[i] * rstd;
    }
}

/* Rows are cut into a fixed number of parts, each with its own sum of dweight, added in order: the result
 * does not depend on the number of threads. */
#define PARTS 8

void
cpu_add_norm_backward (struct dev_context *context, float *dx, void *dx_typed, float *dweight,
                       const void *dout, const float *sum, const float *rstd, const void *weight, int t,
                       int width, enum dev_type type)
{
  size_t stride;
  size_t bytes = (2 + PARTS) * sizeof (float) * width;
  char *scratch = cpu_thread_scratch (context, bytes, &stride);
  if (context->status)
    return;
  /* The partial sums lie in the slice of thread 0, after its two rows. */
  float *partial = (float *) scratch + 2 * (size_t) width;
  memset (partial, 0, sizeof (float) * PARTS * width);
#pragma omp parallel for num_threads(context->threads) schedule(static) \
    if ((size_t) t * width > CPU_PARALLEL_ELEMENTS)
  for (int part = 0; part < PARTS; part++)
    {
      float *row_dout = (float *) (scratch + (size_t) omp_get_thread_num () * stride);
      float *row_weight = row_dout + width;
      cpu_row_load (row_weight, weight, width, type);
      int first = (int) ((int64_t) t * part / PARTS), last = (int) ((int64_t) t * (part + 1) / PARTS);
      for (int i = first; i < last; i++)
        {
          size_t at = (size_t) i * width;
          cpu_row_load (row_dout, typed_at (dout, at, type), width, type);
          norm_row_backward (dx + at, partial + (size_t) part * width, row_dout, sum + at, rstd[i],
                             row_weight, width);
          if (dx_typed)
            cpu_row_store (typed_at_mut (dx_typed, at, type), dx + at, width, type);
        }
    }
  for (int part = 0; part < PARTS; part++)
    cpu_row_add (dweight, partial + (size_t) part * width, width);
}
