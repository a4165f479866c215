/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/run.h"

G_BEGIN_DECLS

/* Where the time of a run goes: the timeline of its workers, and the share of each phase in what
 * the timeline shows. */
#define PLUMB_TYPE_TIMELINE_PAGE (plumb_timeline_page_get_type ())
G_DECLARE_FINAL_TYPE (PlumbTimelinePage, plumb_timeline_page, PLUMB, TIMELINE_PAGE, GtkWidget)

void plumb_timeline_page_set_run (PlumbTimelinePage *self, PlumbRun *run);

G_END_DECLS
