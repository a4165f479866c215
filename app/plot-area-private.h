/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/plot-area.h"

G_BEGIN_DECLS

struct _PlumbPlotArea
{
  GtkWidget parent_instance;

  PlumbChartView *view;
  PlumbPlotSpecFunc func; /* cleared by dispose */
  gpointer user_data;
  char *title;

  PlumbPlot *plot;
  PlumbPlotStyle style; /* as it was drawn with */
  GskRenderNode *node;
  GCancellable *cancellable;
  GtkAdjustment *adjustment;
  gint64 last_start;
  guint unseen_timeout; /* until it is described again while it is out of sight */
  guint timeout;
  guint look; /* idle: whether it can be seen now */

  double pointer_x;
  guint series;              /* that the keys chose; read out first */
  double drag_from, drag_to; /* NaN: no drag */
  guint log : 1;
  guint log_x : 1;
  guint band : 1;
  guint stale : 1;
  guint urgent : 1;
  guint in_flight : 1;
  guint unseen_stale : 1;
};

/* plot-area-overlay.c: crosshair, readout and zoom box; what assistive technology is told. */
void plumb_plot_area_snapshot_overlay (PlumbPlotArea *self, GtkSnapshot *snapshot);
void plumb_plot_area_describe (PlumbPlotArea *self);
/* The same for a chart that is out of sight and so not drawn. */
void plumb_plot_area_describe_unseen (PlumbPlotArea *self);

G_END_DECLS
