/* SPDX-License-Identifier: Apache-2.0 */

/* Rows between storage types; gathering and scattering of rows. */

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"

const float cpu_exp_low = -87.0f, cpu_exp_high = 88.0f;

#define CONVERT_BLOCK 16384 // elements per piece of work

CPU_CLONES void
cpu_row_load (float *to, const void *from, size_t n, enum dev_type type)
{
  if (type == DEV_F32)
    {
      memcpy (to, from, n * sizeof (float));
      return;
    }
  const bf16 *values = from;
  for (size_t i = 0; i < n; i++)
    to[i] = bf16_to_float (values[i]);
}

CPU_CLONES void
cpu_row_store (void *to, const float *from, size_t n, enum dev_type type)
{
  if (type == DEV_F32)
    {
      memcpy (to, from, n * sizeof (float));
      return;
    }
  bf16 *values = to;
  for (size_t i = 0; i < n; i++)
    values[i] = bf16_from_float (from[i]);
}

CPU_CLONES void
cpu_row_add (float *to, const float *from, int n)
{
  for (int i = 0; i < n; i++)
    to[i] += from[i];
}

CPU_CLONES void
cpu_row_scale (float *x, float factor, int n)
{
  for (int i = 0; i < n; i++)
    x[i] *= factor;
}

CPU_CLONES float
cpu_row_dot (const float *a, const float *b, int n)
{
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

void
cpu_convert (struct dev_context *context, void *to, enum dev_type to_type, const void *from,
             enum dev_type from_type, size_t n)
{
  if (context->status)
    return;
  size_t blocks = (n + CONVERT_BLOCK - 1) / CONVERT_BLOCK;
#pragma omp parallel for num_threads(context->threads) schedule(static) if (blocks > 1)
  for (size_t b = 0; b < blocks; b++)
    {
      size_t start = b * CONVERT_BLOCK;
      size_t count = n - start < CONVERT_BLOCK ? n - start : CONVERT_BLOCK;
      if (from_type == to_type)
        memcpy (typed_at_mut (to, start, to_type), typed_at (from, start, from_type),
                count * dev_type_size (to_type));
      else if (to_type == DEV_F32)
        cpu_row_load ((float *) to + start, typed_at (from, start, from_type), count, from_type);
      else
        cpu_row_store (typed_at_mut (to, start, to_type), (const float *) from + start, count, to_type);
    }
}

void
cpu_gather_rows (struct dev_context *context, void *to, const void *from, const int32_t *rows, int n,
                 int width, enum dev_type type)
{
  size_t bytes = (size_t) width * dev_type_size (type);
  for (int i = 0; i < n && !context->status; i++)
    memcpy ((char *) to + i * bytes, (const char *) from + (size_t) rows[i] * bytes, bytes);
}

void
cpu_scatter_rows (struct dev_context *context, void *to, const void *from, const int32_t *rows, int n,
                  int width, enum dev_type type)
{
  size_t bytes = (size_t) width * dev_type_size (type);
  for (int i = 0; i < n && !context->status; i++)
    memcpy ((char *) to + (size_t) rows[i] * bytes, (const char *) from + i * bytes, bytes);
}
