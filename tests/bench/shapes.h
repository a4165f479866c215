/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"

/* Models of random weights that the benchmarks run. */
typedef struct
{
  const char *name;
  int width, layers, heads, groups, mlp, vocabulary, positions;
  enum dev_type type;
} Shape;

/* "1.5M" (fp32) and "135M" (bf16, the shape of SmolLM2-135M); exits with a list where the name is not known. */
const Shape *shape_find (const char *name);
PlumbModel *shape_open (const Shape *shape, PlumbDevice **device);

double now_seconds (void);
/* Median of n times, which are sorted. */
double median (double *seconds, int n);
/* Bytes per second that all threads together read from memory. */
double measure_read_bandwidth (void);
