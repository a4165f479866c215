/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

/* The metrics whose charts stand on top of the charts of every run, kept in the settings. "changed"
 * is emitted when one comes or goes. */
#define PLUMB_TYPE_PINS (plumb_pins_get_type ())
G_DECLARE_FINAL_TYPE (PlumbPins, plumb_pins, PLUMB, PINS, GObject)

/* (transfer none) */
PlumbPins *plumb_pins_get_default (void);

gboolean plumb_pins_contain (PlumbPins *self, const char *metric);
void plumb_pins_set (PlumbPins *self, const char *metric, gboolean pinned);
/* Names in the order in which they were pinned; (transfer none), until the next change. */
const char *const *plumb_pins_list (PlumbPins *self);

G_END_DECLS
