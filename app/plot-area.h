/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/chart-view.h"
#include "app/plot.h"

G_BEGIN_DECLS

/* The drawing surface of a chart. The picture is rastered outside the main thread, at most twice a
 * second where the screen is drawn by the processor and four times elsewhere, and only while it can
 * be seen; crosshair and readout are a layer on top. "drawn" is emitted
 * when a new picture shows. */
#define PLUMB_TYPE_PLOT_AREA (plumb_plot_area_get_type ())
G_DECLARE_FINAL_TYPE (PlumbPlotArea, plumb_plot_area, PLUMB, PLOT_AREA, GtkWidget)

/* Makes what the chart shows now; size, scale, range and style are filled in by the area. */
typedef PlumbPlotSpec *(*PlumbPlotSpecFunc) (gpointer user_data);

GtkWidget *plumb_plot_area_new (PlumbChartView *view, PlumbPlotSpecFunc func, gpointer user_data);

/* New points or another look: draws anew, now or when its turn comes. */
void plumb_plot_area_queue_update (PlumbPlotArea *self);
/* Draws anew as soon as the drawing thread is free. */
void plumb_plot_area_update_now (PlumbPlotArea *self);

void plumb_plot_area_set_log (PlumbPlotArea *self, gboolean log);
gboolean plumb_plot_area_get_log (PlumbPlotArea *self);
/* The same of the horizontal axis. */
void plumb_plot_area_set_log_x (PlumbPlotArea *self, gboolean log_x);
gboolean plumb_plot_area_get_log_x (PlumbPlotArea *self);
void plumb_plot_area_set_band (PlumbPlotArea *self, gboolean band);
gboolean plumb_plot_area_get_band (PlumbPlotArea *self);

/* What was drawn last; NULL before the first time. */
PlumbPlot *plumb_plot_area_get_plot (PlumbPlotArea *self);

/* Names the chart for assistive technology; the description follows the data. */
void plumb_plot_area_set_title (PlumbPlotArea *self, const char *title);

G_END_DECLS
