/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/run.h"

G_BEGIN_DECLS

/* A run in the sidebar: name, state, how far it is. */
#define PLUMB_TYPE_RUN_ROW (plumb_run_row_get_type ())
G_DECLARE_FINAL_TYPE (PlumbRunRow, plumb_run_row, PLUMB, RUN_ROW, GtkListBoxRow)

GtkWidget *plumb_run_row_new (PlumbRun *run);
PlumbRun *plumb_run_row_get_run (PlumbRunRow *self);

/* The style class of a state: "success", "warning", "error", "accent" or "dim-label". */
const char *plumb_run_state_style (PlumbRunState state);
const char *plumb_run_state_icon (PlumbRunState state);

G_END_DECLS
