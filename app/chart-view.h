/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib-object.h>

#include "app/plot-curve.h"

G_BEGIN_DECLS

/* What all charts of a page share: the x axis, its range, the smoothing and the cursor. Property
 * changes are notified; charts redraw themselves on "view-changed" and move their crosshair on
 * "cursor-changed". */
#define PLUMB_TYPE_CHART_VIEW (plumb_chart_view_get_type ())
G_DECLARE_FINAL_TYPE (PlumbChartView, plumb_chart_view, PLUMB, CHART_VIEW, GObject)

PlumbChartView *plumb_chart_view_new (void);

PlumbPlotX plumb_chart_view_get_x_axis (PlumbChartView *self);
void plumb_chart_view_set_x_axis (PlumbChartView *self, PlumbPlotX x_axis);

/* Weight of the past in the moving average: 0 (none) to 0.99; below 0: each metric's own. */
double plumb_chart_view_get_smoothing (PlumbChartView *self);
void plumb_chart_view_set_smoothing (PlumbChartView *self, double smoothing);

/* The shown range; NaN where it goes as far as the points do. A range that ends at the newest point
 * keeps following it. */
void plumb_chart_view_get_range (PlumbChartView *self, double *x_min, double *x_max);
void plumb_chart_view_set_range (PlumbChartView *self, double x_min, double x_max);
gboolean plumb_chart_view_is_zoomed (PlumbChartView *self);

/* The cursor's x, NaN: none. The owner is the chart that the pointer or the focus is on. */
double plumb_chart_view_get_cursor (PlumbChartView *self);
gpointer plumb_chart_view_get_owner (PlumbChartView *self);
void plumb_chart_view_set_cursor (PlumbChartView *self, double x, gpointer owner);

G_END_DECLS
