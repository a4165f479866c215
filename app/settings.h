/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* The settings of the window, shared; NULL where their schema is not installed, as in a build
 * folder, and then nothing is remembered. (transfer none) */
GSettings *plumb_settings_get (void);

G_END_DECLS
