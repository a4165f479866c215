/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <adwaita.h>

G_BEGIN_DECLS

/* A sidebar beside its content; in a narrow window one of the two. The widgets that do it are
 * replaced by others in later releases of libadwaita, which then concerns this file alone. */
#define PLUMB_TYPE_SPLIT (plumb_split_get_type ())
G_DECLARE_FINAL_TYPE (PlumbSplit, plumb_split, PLUMB, SPLIT, GtkWidget)

void plumb_split_set_show_content (PlumbSplit *self, gboolean show_content);
gboolean plumb_split_get_show_content (PlumbSplit *self);
gboolean plumb_split_get_folded (PlumbSplit *self);
/* Hides the sidebar of a wide window, or shows it again. */
void plumb_split_toggle_sidebar (PlumbSplit *self);

G_END_DECLS
