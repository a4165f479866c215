/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "app/run.h"

G_BEGIN_DECLS

/* What the model wrote: the prompts of a step, and the group of completions of one of them with
 * their rewards. At the newest step it follows the run. */
#define PLUMB_TYPE_ROLLOUTS_PAGE (plumb_rollouts_page_get_type ())
G_DECLARE_FINAL_TYPE (PlumbRolloutsPage, plumb_rollouts_page, PLUMB, ROLLOUTS_PAGE, GtkWidget)

void plumb_rollouts_page_set_run (PlumbRolloutsPage *self, PlumbRun *run);
void plumb_rollouts_page_find (PlumbRolloutsPage *self);

G_END_DECLS
