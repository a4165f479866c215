/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/chart-view.h"
#include "app/run.h"

G_BEGIN_DECLS

/* The first view of a run: the charts of its algorithm in their default order, the latest
 * completions and the end of the log. */
#define PLUMB_TYPE_OVERVIEW (plumb_overview_get_type ())
G_DECLARE_FINAL_TYPE (PlumbOverview, plumb_overview, PLUMB, OVERVIEW, GtkWidget)

void plumb_overview_set_run (PlumbOverview *self, PlumbRun *run);

G_END_DECLS
