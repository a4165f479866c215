/* SPDX-License-Identifier: Apache-2.0 */

/* The product for processors on which oneDNN's rows change with the number of rows. */

#include "kernels/cpu/product.h"
#include "kernels/cpu/vector.h"

#include <omp.h> // defines: omp_get_thread_num

#define PANEL 16 // columns of c computed together
#define ROWS 4   // rows of c computed together

typedef float lanes __attribute__ ((vector_size (PANEL * sizeof (float)), aligned (4)));

/* c (rows, columns) of one panel. `step_k` and `step_m` are the strides of a. */
CPU_CLONES static void
multiply_panel (float *c, int ldc, const float *a, size_t step_m, size_t step_k, const float *panel, int m,
                int columns, int k, bool accumulate)
{
  for (int row = 0; row < m; row += ROWS)
    {
      int rows = m - row < ROWS ? m - row : ROWS;
      lanes sum[ROWS] = { 0 };
      const float *from[ROWS];
      for (int i = 0; i < ROWS; i++)
        from[i] = a + (size_t) (row + (i < rows ? i : 0)) * step_m;
      for (int p = 0; p < k; p++)
        {
          lanes b = *(const lanes *) (panel + (size_t) p * PANEL);
          for (int i = 0; i < ROWS; i++)
            sum[i] += from[i][p * step_k] * b;
        }
      for (int i = 0; i < rows; i++)
        {
          float *to = c + (size_t) (row + i) * ldc;
          for (int j = 0; j < columns; j++)
            to[j] = accumulate ? to[j] + sum[i][j] : sum[i][j];
        }
    }
}

static void
fill_panel (float *panel, const float *b, const struct cpu_product *p, int column, int columns)
{
  size_t step_k = p->b_transposed ? 1 : p->n;
  size_t step_n = p->b_transposed ? p->k : 1;
  for (int row = 0; row < p->k; row++)
    for (int j = 0; j < PANEL; j++)
      panel[(size_t) row * PANEL + j]
        = j < columns ? b[row * step_k + (size_t) (column + j) * step_n] : 0.0f;
}

void
cpu_portable_multiply (const struct cpu_product *p, float *c, const float *a, const float *b,
                       float *panels, int threads)
{
  size_t step_m = p->a_transposed ? 1 : p->k;
  size_t step_k = p->a_transposed ? p->m : 1;
  int count = (p->n + PANEL - 1) / PANEL;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int i = 0; i < count; i++)
    {
      float *panel = panels + (size_t) omp_get_thread_num () * p->k * PANEL;
      int columns = p->n - i * PANEL < PANEL ? p->n - i * PANEL : PANEL;
      fill_panel (panel, b, p, i * PANEL, columns);
      multiply_panel (c + i * PANEL, p->n, a, step_m, step_k, panel, p->m, columns, p->k, p->accumulate);
    }
}
