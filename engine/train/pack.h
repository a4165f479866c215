/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Cuts `sequences` (indices) into micro-batches of at most `budget` tokens, in order; a sequence longer
 * than the budget is alone. Returns the end index of each micro-batch (GArray of int). `offsets` are
 * those of the whole batch. */
GArray *plumb_pack_in_order (const gint32 *offsets, const int *sequences, int n, int budget);

G_END_DECLS
