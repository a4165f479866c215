/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/run.h"

G_BEGIN_DECLS

/* The end of a run's log, read again every second while it can be seen. It keeps to the end unless
 * the user has scrolled up. */
#define PLUMB_TYPE_LOG_VIEW (plumb_log_view_get_type ())
G_DECLARE_FINAL_TYPE (PlumbLogView, plumb_log_view, PLUMB, LOG_VIEW, GtkWidget)

/* Its property "limit" is the most bytes that are shown. */
void plumb_log_view_set_run (PlumbLogView *self, PlumbRun *run);
/* Shows only lines that hold this text, without regard to case; empty: all. */
void plumb_log_view_set_filter (PlumbLogView *self, const char *filter);
/* Scrolls to the first line that speaks of an error. FALSE: there is none. */
gboolean plumb_log_view_jump_to_error (PlumbLogView *self);

G_END_DECLS
