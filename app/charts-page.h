/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/run.h"

G_BEGIN_DECLS

/* All metrics of a run, grouped by the prefix of their names, with a filter, the x axis and the
 * smoothing for all of them. */
#define PLUMB_TYPE_CHARTS_PAGE (plumb_charts_page_get_type ())
G_DECLARE_FINAL_TYPE (PlumbChartsPage, plumb_charts_page, PLUMB, CHARTS_PAGE, GtkBox)

void plumb_charts_page_set_run (PlumbChartsPage *self, PlumbRun *run);
/* Puts the focus into the filter. */
void plumb_charts_page_find (PlumbChartsPage *self);

G_END_DECLS
