/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/new-run-page.h"
#include "app/run-page.h"
#include "app/split.h"
#include "app/window.h"

G_BEGIN_DECLS

struct _PlumbWindow
{
  AdwApplicationWindow parent_instance;

  AdwToastOverlay *toasts;
  PlumbSplit *split;
  GtkStack *side;
  GtkListBox *list;
  GtkSearchEntry *search;
  GtkStack *content;
  PlumbNewRunPage *new_run;
  PlumbRunPage *page;

  PlumbRunList *runs;
  PlumbRun *run; /* the one on the page; NULL: none */
};

/* window-actions.c */
void plumb_window_add_actions (PlumbWindow *self);
/* Enables what can be done to the run that is shown. */
void plumb_window_update_actions (PlumbWindow *self);

/* window-import.c */
/* Makes a form of another trainer's settings, or a run of its curves, and shows it. */
void plumb_window_import (PlumbWindow *self, const char *path);

/* window.c */
void plumb_window_show_run (PlumbWindow *self, PlumbRun *run);
void plumb_window_show_new_run (PlumbWindow *self);
void plumb_window_toast (PlumbWindow *self, const char *text);

G_END_DECLS
