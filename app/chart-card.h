/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/chart-view.h"
#include "app/run.h"

G_BEGIN_DECLS

/* A chart with its title, its newest value and its menu. Actions: chart.log,
 * chart.log-x, chart.band, chart.pin (with states), chart.table, chart.full, chart.save, chart.fit.
 */
#define PLUMB_TYPE_CHART_CARD (plumb_chart_card_get_type ())
G_DECLARE_FINAL_TYPE (PlumbChartCard, plumb_chart_card, PLUMB, CHART_CARD, GtkBox)

/* A chart of the default list. */
GtkWidget *plumb_chart_card_new (PlumbRun *run, PlumbChartView *view, const PlumbChart *chart);
/* A chart of one metric. */
GtkWidget *
plumb_chart_card_new_for_metric (PlumbRun *run, PlumbChartView *view, const char *metric);

/* TRUE while none of its metrics has a point. */
gboolean plumb_chart_card_is_empty (PlumbChartCard *self);
const char *plumb_chart_card_get_title (PlumbChartCard *self);

G_END_DECLS
