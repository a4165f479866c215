/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include "app/plot-private.h"
#include "app/plot-reduce.h"

/* Series of a stack are measured at the same steps. Where points are fewer than columns the stack
 * has a place for each point of its first series; else one for each column, with the mean of the
 * column's points, since a sum of extremes of different steps never happened. */

static double
value_at (const PlumbCurve *curve, double x)
{
  gsize i = plumb_curve_find (curve, x);

  if (i == curve->n || curve->x[i] != x || !isfinite (curve->smoothed[i]))
    return 0;
  return curve->smoothed[i];
}

static void
fill_points (PlumbStack *self, PlumbPlot *plot, const PlumbCurve *first, gsize begin, gsize end)
{
  self->n = end - begin;
  self->x = g_new (double, MAX (self->n, 1));
  self->top = g_new (double, MAX (self->n * self->n_areas, 1));
  for (gsize i = 0; i < self->n; i++)
    {
      double sum = 0;

      self->x[i] = first->x[begin + i];
      for (guint k = 0; k < self->n_areas; k++)
        {
          sum += MAX (0, value_at (plot->curves->pdata[self->series[k]], self->x[i]));
          self->top[k * self->n + i] = sum;
        }
    }
}

static void
fill_columns (PlumbStack *self, PlumbPlot *plot, double x_min, double x_max, guint n_columns)
{
  g_autofree PlumbColumn *columns = g_new (PlumbColumn, n_columns);

  self->n = n_columns;
  self->x = g_new (double, n_columns);
  self->top = g_new0 (double, (gsize)n_columns * self->n_areas);
  for (guint i = 0; i < n_columns; i++)
    self->x[i] = plot->x.log ? x_min * pow (x_max / x_min, (i + 0.5) / n_columns)
                             : x_min + (i + 0.5) * (x_max - x_min) / n_columns;

  for (guint k = 0; k < self->n_areas; k++)
    {
      const PlumbCurve *curve = plot->curves->pdata[self->series[k]];
      double *top = self->top + (gsize)k * n_columns;
      double value = 0;

      plumb_plot_reduce (plot, curve->x, curve->smoothed, curve->n, columns, n_columns);
      for (guint i = 0; i < n_columns; i++)
        {
          if (columns[i].n > 0)
            value = MAX (0, columns[i].sum / columns[i].n);
          top[i] = value + (k > 0 ? top[(gssize)i - n_columns] : 0);
        }
    }
}

PlumbStack *
plumb_stack_new (PlumbPlot *plot, double x_min, double x_max, guint n_columns)
{
  PlumbStack *self = g_new0 (PlumbStack, 1);
  const PlumbCurve *first = NULL;
  gsize begin, end;

  self->series = g_new (guint, MAX (plot->curves->len, 1));
  for (guint i = 0; i < plot->curves->len; i++)
    {
      const PlumbPlotSeries *series = plot->spec->series->pdata[i];
      const PlumbCurve *curve = plot->curves->pdata[i];

      if (series->role != PLUMB_PLOT_STACK || curve->n == 0)
        continue;
      if (first == NULL)
        first = curve;
      self->series[self->n_areas++] = i;
    }
  if (first == NULL)
    return self;

  begin = plumb_lower_bound (first->x, first->n, x_min);
  end = plumb_upper_bound (first->x, first->n, x_max);
  if (end - begin < n_columns)
    fill_points (self, plot, first, begin, end);
  else
    fill_columns (self, plot, x_min, x_max, n_columns);
  return self;
}

void
plumb_stack_free (PlumbStack *self)
{
  if (self == NULL)
    return;
  g_free (self->series);
  g_free (self->x);
  g_free (self->top);
  g_free (self);
}
