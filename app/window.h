/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <adwaita.h>

#include "app/application.h"

G_BEGIN_DECLS

/* The window: the runs at the side, and a page for one of them or for a new one. Everything that it
 * does is an action on its map, so that it can be done over D-Bus too: win.new-run,
 * win.open-run(s), win.preview, win.start, win.stop, win.kill, win.continue, win.new-from-run, win.view(s),
 * win.preset(s), win.set(s), win.open-spec(s). */
#define PLUMB_TYPE_WINDOW (plumb_window_get_type ())
G_DECLARE_FINAL_TYPE (PlumbWindow, plumb_window, PLUMB, WINDOW, AdwApplicationWindow)

PlumbWindow *plumb_window_new (PlumbApplication *application, PlumbRunList *runs);

/* Shows the page of a run directory. */
void plumb_window_open_run (PlumbWindow *self, const char *path);
/* Fills the page for a new run from a spec file. */
void plumb_window_open_spec (PlumbWindow *self, const char *path);

G_END_DECLS
