/* SPDX-License-Identifier: Apache-2.0 */

/* Matrix products whose rows do not depend on the number of rows. */

#pragma once

#include "kernels/cpu/context.h"

/* c (m, n) = a (m, k) b (k, n), or += where `accumulate` (then c is float). */
struct cpu_product
{
  int m, n, k;
  enum dev_type type;   // of a and b
  enum dev_type c_type; // of c
  bool a_transposed;    // a is stored (k, m), and then b (k, n)
  bool b_transposed;    // b is stored (n, k)
  bool accumulate;
  bool packed; // b is a copy made by cpu_pack of an (n, k) matrix
};

struct cpu_products *cpu_products_new (struct dev_context *);
void cpu_products_free (struct cpu_products *);
const char *cpu_products_path (const struct cpu_products *);
bool cpu_products_native_bf16 (const struct cpu_products *);

void cpu_multiply (struct dev_context *, const struct cpu_product *, void *c, const void *a,
                   const void *b);

/* The portable product, in float: each element is one chain of multiply-adds over k in order, so rows
 * cannot depend on m. `panel` is scratch of at least k * 16 floats per thread. */
void cpu_portable_multiply (const struct cpu_product *, float *c, const float *a, const float *b,
                            float *panels, int threads);
