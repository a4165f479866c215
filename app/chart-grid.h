/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

/* Charts in as many equal columns as fit. A flow box would measure each of them for every number of
 * columns whenever a label changes, which costs more than drawing the charts. */
#define PLUMB_TYPE_CHART_GRID (plumb_chart_grid_get_type ())
G_DECLARE_FINAL_TYPE (PlumbChartGrid, plumb_chart_grid, PLUMB, CHART_GRID, GtkWidget)

GtkWidget *plumb_chart_grid_new (void);

/* Puts a widget after `sibling`; NULL: first. */
void plumb_chart_grid_insert_after (PlumbChartGrid *self, GtkWidget *child, GtkWidget *sibling);
void plumb_chart_grid_append (PlumbChartGrid *self, GtkWidget *child);
void plumb_chart_grid_clear (PlumbChartGrid *self);

G_END_DECLS
