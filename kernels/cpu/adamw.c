/* SPDX-License-Identifier: Apache-2.0 */

/* AdamW (Loshchilov and Hutter 2019) and the sum of squares that clipping needs. */

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"

#include <math.h> // defines: sqrtf

#define BLOCK 16384 // elements per piece of work; also fixes the order of sums

CPU_CLONES static void
adamw_block (float *param, const float *grad, float *m, float *v, size_t n, const struct dev_adamw *a)
{
  float b1 = a->beta1, b2 = a->beta2, scale = a->gradient_scale;
  float step = a->learning_rate / a->correction1;
  float root = 1.0f / sqrtf (a->correction2);
  float keep = 1.0f - a->learning_rate * a->weight_decay;
  float epsilon = a->epsilon;
  for (size_t i = 0; i < n; i++)
    {
      float g = grad[i] * scale;
      m[i] = b1 * m[i] + (1.0f - b1) * g;
      v[i] = b2 * v[i] + (1.0f - b2) * g * g;
      param[i] = keep * param[i] - step * m[i] / (sqrtf (v[i]) * root + epsilon);
    }
}

void
cpu_adamw (struct dev_context *context, void *param, float *master, const float *grad, float *m, float *v,
           size_t n, const struct dev_adamw *a, enum dev_type type)
{
  if (context->status)
    return;
  size_t blocks = (n + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(context->threads) schedule(static) if (blocks > 1)
  for (size_t b = 0; b < blocks; b++)
    {
      size_t start = b * BLOCK;
      size_t count = n - start < BLOCK ? n - start : BLOCK;
      float *values = master ? master : param;
      adamw_block (values + start, grad + start, m + start, v + start, count, a);
      if (master)
        cpu_row_store (typed_at_mut (param, start, type), master + start, count, type);
    }
}

CPU_CLONES static double
square_block (const float *x, size_t n)
{
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < n; i++)
    sum += (double) x[i] * x[i];
  return sum;
}

void
cpu_square_sum (struct dev_context *context, double *out, const float *x, size_t n)
{
  if (context->status)
    return;
  size_t blocks = (n + BLOCK - 1) / BLOCK;
  size_t capacity = context->workspace_size / sizeof (double);
  double *sums = (double *) context->workspace;
  double total = 0;
  for (size_t first = 0; first < blocks; first += capacity)
    {
      size_t count = blocks - first < capacity ? blocks - first : capacity;
#pragma omp parallel for num_threads(context->threads) schedule(static)
      for (size_t b = 0; b < count; b++)
        {
          size_t start = (first + b) * BLOCK;
          sums[b] = square_block (x + start, n - start < BLOCK ? n - start : BLOCK);
        }
      for (size_t b = 0; b < count; b++)
        total += sums[b];
    }
  *out = total;
}
