/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <adwaita.h>

#include "app/plot.h"

G_BEGIN_DECLS

/* A window with the points of a chart as a table, for exact reading, copying and screen readers. */
#define PLUMB_TYPE_CHART_TABLE (plumb_chart_table_get_type ())
G_DECLARE_FINAL_TYPE (PlumbChartTable, plumb_chart_table, PLUMB, CHART_TABLE, AdwWindow)

GtkWidget *plumb_chart_table_new (PlumbPlot *plot, const char *title);

G_END_DECLS
