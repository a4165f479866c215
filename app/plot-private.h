/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/plot-reduce.h"
#include "app/plot.h"

G_BEGIN_DECLS

struct _PlumbPlot
{
  gatomicrefcount refs;
  PlumbPlotSpec *spec;
  GPtrArray *curves; /* PlumbCurve, one for each series */
  cairo_rectangle_t area;
  PlumbScale x;
  PlumbScale y;
  PlumbTicks x_ticks;
  PlumbTicks y_ticks;
  gboolean has_points;
  guint label_height;
};

/* Sorts points into columns of equal width on the shown scale, a linear or a logarithmic one. */
void plumb_plot_reduce (PlumbPlot *self,
                        const double *x,
                        const double *y,
                        gsize n,
                        PlumbColumn *columns,
                        guint n_columns);

/* Of a stack: the values of all areas up to and including each one, at n places x. The top of area
 * k at place i is top[k * n + i]. */
typedef struct
{
  gsize n;
  guint n_areas;
  guint *series; /* index of the series of each area */
  double *x;
  double *top;
} PlumbStack;

PlumbStack *plumb_stack_new (PlumbPlot *plot, double x_min, double x_max, guint n_columns);
void plumb_stack_free (PlumbStack *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbStack, plumb_stack_free)

G_END_DECLS
