/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/run.h"

G_BEGIN_DECLS

/* What each worker did when: a lane for each, a bar for each phase. The adjustment is the shown
 * part of the run in seconds since its start. */
#define PLUMB_TYPE_TIMELINE (plumb_timeline_get_type ())
G_DECLARE_FINAL_TYPE (PlumbTimeline, plumb_timeline, PLUMB, TIMELINE, GtkWidget)

void plumb_timeline_set_run (PlumbTimeline *self, PlumbRun *run);
GtkAdjustment *plumb_timeline_get_adjustment (PlumbTimeline *self);
/* Factors above 1 show less of the run. */
void plumb_timeline_zoom (PlumbTimeline *self, double factor);

/* The number of the chart colour of a phase. */
guint plumb_phase_color (const char *phase);

G_END_DECLS
