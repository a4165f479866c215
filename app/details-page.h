/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/run.h"

G_BEGIN_DECLS

/* Log, events and settings of a run. */
#define PLUMB_TYPE_DETAILS_PAGE (plumb_details_page_get_type ())
G_DECLARE_FINAL_TYPE (PlumbDetailsPage, plumb_details_page, PLUMB, DETAILS_PAGE, GtkBox)

void plumb_details_page_set_run (PlumbDetailsPage *self, PlumbRun *run);
void plumb_details_page_find (PlumbDetailsPage *self);

G_END_DECLS
