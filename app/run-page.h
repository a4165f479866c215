/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/run.h"

G_BEGIN_DECLS

/* The page of one run: its state and five views of it. */
#define PLUMB_TYPE_RUN_PAGE (plumb_run_page_get_type ())
G_DECLARE_FINAL_TYPE (PlumbRunPage, plumb_run_page, PLUMB, RUN_PAGE, GtkBox)

/* Makes this run the visible one; NULL shows none. */
void plumb_run_page_set_run (PlumbRunPage *self, PlumbRun *run);

/* "overview", "charts", "rollouts", "timeline", "details". FALSE: there is no such view. */
gboolean plumb_run_page_set_view (PlumbRunPage *self, const char *name);
const char *plumb_run_page_get_view (PlumbRunPage *self);
/* Puts the focus into the search of the view that shows. */
void plumb_run_page_find (PlumbRunPage *self);

G_END_DECLS
