/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A checksum of bytes that tells apart weights which differ in a single bit; `start` chains parts (the first: 0). The
 * length belongs to it. Not for anything that somebody might forge. */
guint64 plumb_checksum (const void *data, gsize bytes, guint64 start);

G_END_DECLS
