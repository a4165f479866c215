/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include "app/chart-view.h"

struct _PlumbChartView
{
  GObject parent_instance;

  PlumbPlotX x_axis;
  double smoothing;
  double x_min, x_max;
  double cursor;
  gpointer owner; /* compared, never followed */
};

G_DEFINE_FINAL_TYPE (PlumbChartView, plumb_chart_view, G_TYPE_OBJECT)

enum
{
  VIEW_CHANGED,
  CURSOR_CHANGED,
  N_SIGNALS,
};
static guint signals[N_SIGNALS];

static void
plumb_chart_view_class_init (PlumbChartViewClass *klass)
{
  signals[VIEW_CHANGED] = g_signal_new ("view-changed", PLUMB_TYPE_CHART_VIEW, G_SIGNAL_RUN_LAST, 0,
                                        NULL, NULL, NULL, G_TYPE_NONE, 0);
  signals[CURSOR_CHANGED] = g_signal_new ("cursor-changed", PLUMB_TYPE_CHART_VIEW,
                                          G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
}

static void
plumb_chart_view_init (PlumbChartView *self)
{
  self->smoothing = -1;
  self->x_min = NAN;
  self->x_max = NAN;
  self->cursor = NAN;
}

PlumbChartView *
plumb_chart_view_new (void)
{
  return g_object_new (PLUMB_TYPE_CHART_VIEW, NULL);
}

/* NaN equals NaN here: no range is the same as no range. */
static gboolean
same (double a, double b)
{
  return a == b || (isnan (a) && isnan (b));
}

PlumbPlotX
plumb_chart_view_get_x_axis (PlumbChartView *self)
{
  g_return_val_if_fail (PLUMB_IS_CHART_VIEW (self), PLUMB_PLOT_X_STEP);

  return self->x_axis;
}

void
plumb_chart_view_set_x_axis (PlumbChartView *self, PlumbPlotX x_axis)
{
  g_return_if_fail (PLUMB_IS_CHART_VIEW (self));

  if (self->x_axis == x_axis)
    return;
  self->x_axis = x_axis;
  self->x_min = self->x_max = NAN;
  plumb_chart_view_set_cursor (self, NAN, NULL);
  g_signal_emit (self, signals[VIEW_CHANGED], 0);
}

double
plumb_chart_view_get_smoothing (PlumbChartView *self)
{
  g_return_val_if_fail (PLUMB_IS_CHART_VIEW (self), 0);

  return self->smoothing;
}

void
plumb_chart_view_set_smoothing (PlumbChartView *self, double smoothing)
{
  g_return_if_fail (PLUMB_IS_CHART_VIEW (self));

  smoothing = smoothing < 0 ? -1 : MIN (smoothing, 0.99);
  if (self->smoothing == smoothing)
    return;
  self->smoothing = smoothing;
  g_signal_emit (self, signals[VIEW_CHANGED], 0);
}

void
plumb_chart_view_get_range (PlumbChartView *self, double *x_min, double *x_max)
{
  g_return_if_fail (PLUMB_IS_CHART_VIEW (self));

  *x_min = self->x_min;
  *x_max = self->x_max;
}

void
plumb_chart_view_set_range (PlumbChartView *self, double x_min, double x_max)
{
  g_return_if_fail (PLUMB_IS_CHART_VIEW (self));

  if (same (x_min, self->x_min) && same (x_max, self->x_max))
    return;
  if (x_min >= x_max)
    return;
  self->x_min = x_min;
  self->x_max = x_max;
  g_signal_emit (self, signals[VIEW_CHANGED], 0);
}

gboolean
plumb_chart_view_is_zoomed (PlumbChartView *self)
{
  g_return_val_if_fail (PLUMB_IS_CHART_VIEW (self), FALSE);

  return !isnan (self->x_min) || !isnan (self->x_max);
}

double
plumb_chart_view_get_cursor (PlumbChartView *self)
{
  g_return_val_if_fail (PLUMB_IS_CHART_VIEW (self), NAN);

  return self->cursor;
}

gpointer
plumb_chart_view_get_owner (PlumbChartView *self)
{
  g_return_val_if_fail (PLUMB_IS_CHART_VIEW (self), NULL);

  return self->owner;
}

void
plumb_chart_view_set_cursor (PlumbChartView *self, double x, gpointer owner)
{
  g_return_if_fail (PLUMB_IS_CHART_VIEW (self));

  if (same (x, self->cursor) && owner == self->owner)
    return;
  self->cursor = x;
  self->owner = owner;
  g_signal_emit (self, signals[CURSOR_CHANGED], 0);
}
