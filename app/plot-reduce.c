/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "app/plot-reduce.h"

gsize
plumb_lower_bound (const double *x, gsize n, double value)
{
  gsize low = 0, high = n;

  while (low < high)
    {
      gsize middle = low + (high - low) / 2;

      if (x[middle] < value)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

gsize
plumb_upper_bound (const double *x, gsize n, double value)
{
  gsize low = 0, high = n;

  while (low < high)
    {
      gsize middle = low + (high - low) / 2;

      if (x[middle] <= value)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static void
column_add (PlumbColumn *column, double y)
{
  if (column->n == 0)
    {
      column->first = column->min = column->max = y;
      column->sum = 0;
    }
  column->min = MIN (column->min, y);
  column->max = MAX (column->max, y);
  column->last = y;
  column->sum += y;
  column->n++;
}

void
plumb_reduce_m4 (const double *x,
                 const double *y,
                 gsize n,
                 double x_min,
                 double x_max,
                 PlumbColumn *columns,
                 guint n_columns)
{
  double per_unit = x_max > x_min ? n_columns / (x_max - x_min) : 0;
  gsize end = plumb_upper_bound (x, n, x_max);

  memset (columns, 0, n_columns * sizeof *columns);
  for (gsize i = plumb_lower_bound (x, n, x_min); i < end; i++)
    {
      guint column = MIN ((guint)((x[i] - x_min) * per_unit), n_columns - 1);

      if (isfinite (y[i]))
        column_add (&columns[column], y[i]);
    }
}
