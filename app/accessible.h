/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

/* What assistive technology is told beyond what GTK tells it by itself. */

/* Names a widget that shows no text of its own, or not enough of it. */
void plumb_accessible_set_label (GtkWidget *widget, const char *label);

/* Only the page of a GtkStack or AdwViewStack that shows is told of; to be called once, when its
 * pages are there. */
void plumb_accessible_follow_pages (GtkWidget *stack);

/* Filters the rows of a list anew; those that are filtered out are not told of. */
void plumb_accessible_filter (GtkListBox *list);

G_END_DECLS
