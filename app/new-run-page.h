/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "engine/core/spec-import.h"

G_BEGIN_DECLS

/* The page for a new run: a preset or a spec to start from, its settings, what is wrong with them,
 * and the command that Start runs. "started" is emitted with the path of the new run. */
#define PLUMB_TYPE_NEW_RUN_PAGE (plumb_new_run_page_get_type ())
G_DECLARE_FINAL_TYPE (PlumbNewRunPage, plumb_new_run_page, PLUMB, NEW_RUN_PAGE, GtkBox)

/* Starts from a preset. FALSE: there is no such preset. */
gboolean plumb_new_run_page_load_preset (PlumbNewRunPage *self, const char *name);
/* Starts from a spec file, shown under this title; what is wrong with it stands at the rows. */
gboolean plumb_new_run_page_load_file (PlumbNewRunPage *self,
                                       const char *path,
                                       const char *title,
                                       GError **error);
/* Starts from what was made of another trainer's file; `notes` (PlumbImportNote) say what was left.
 */
void plumb_new_run_page_load_import (PlumbNewRunPage *self,
                                     PlumbSpec *spec,
                                     GPtrArray *notes,
                                     const char *path);
/* Enters "group.key=value" as the user would. */
gboolean plumb_new_run_page_enter (PlumbNewRunPage *self, const char *assignment);

/* Opens a window with the data of the settings as they are. */
void plumb_new_run_page_preview (PlumbNewRunPage *self);
void plumb_new_run_page_start (PlumbNewRunPage *self);
/* FALSE while the engine is being started. */
gboolean plumb_new_run_page_can_start (PlumbNewRunPage *self);

G_END_DECLS
