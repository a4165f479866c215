/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* What the points of one pixel column amount to: with first, min, max and last a line one pixel
 * wide looks as if all points had been drawn (M4). n counts the finite points. */
typedef struct
{
  double first;
  double min;
  double max;
  double last;
  double sum;
  guint n;
} PlumbColumn;

/* Sorts n points with ascending x into n_columns of equal width over [x_min, x_max]; points
 * outside are left out. */
void plumb_reduce_m4 (const double *x,
                      const double *y,
                      gsize n,
                      double x_min,
                      double x_max,
                      PlumbColumn *columns,
                      guint n_columns);

/* The first index whose x is at least (or above) the value; n if there is none. */
gsize plumb_lower_bound (const double *x, gsize n, double value);
gsize plumb_upper_bound (const double *x, gsize n, double value);

G_END_DECLS
