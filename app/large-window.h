/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

/* Shows something in a window of its own, which Escape closes. Takes the content over. */
void plumb_large_window_present (GtkWidget *content, const char *title, GtkWindow *parent);

G_END_DECLS
