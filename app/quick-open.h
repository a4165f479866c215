/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <adwaita.h>

G_BEGIN_DECLS

/* A list of everything one can go to, narrowed by typing. What is chosen activates its action on
 * the window that it was opened from. */
#define PLUMB_TYPE_QUICK_OPEN (plumb_quick_open_get_type ())
G_DECLARE_FINAL_TYPE (PlumbQuickOpen, plumb_quick_open, PLUMB, QUICK_OPEN, AdwWindow)

PlumbQuickOpen *plumb_quick_open_new (GtkWindow *parent);

/* One more entry, at the end. The target may be NULL; a floating one is taken over. */
void plumb_quick_open_add (PlumbQuickOpen *self,
                           const char *title,
                           const char *subtitle,
                           const char *action,
                           GVariant *target);

G_END_DECLS
