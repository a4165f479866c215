/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/run.h"

G_BEGIN_DECLS

/* The registered runs, a list model of PlumbRun, newest first. It follows the registry's folder, so
 * that a run started elsewhere appears by itself. Its property "loaded" is TRUE once the registry
 * has been read. */
#define PLUMB_TYPE_RUN_LIST (plumb_run_list_get_type ())
G_DECLARE_FINAL_TYPE (PlumbRunList, plumb_run_list, PLUMB, RUN_LIST, GObject)

PlumbRunList *plumb_run_list_new (void);
gboolean plumb_run_list_is_loaded (PlumbRunList *self);

/* The run of a path, added if it is not there yet. */
PlumbRun *plumb_run_list_ensure (PlumbRunList *self, const char *path);

/* Looks at the registry now. */
void plumb_run_list_refresh (PlumbRunList *self);
/* Ends the reading thread; the list stays as it is. */
void plumb_run_list_stop (PlumbRunList *self);

G_END_DECLS
