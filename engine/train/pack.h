/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Cuts `sequences` (indices) into micro-batches of at most `budget` tokens, in order; `unit` neighbours stay
 * together (2: pairs), and those longer than the budget are alone. Returns the end index of each micro-batch (GArray of int). `offsets` are
 * those of the whole batch. */
GArray *plumb_pack_in_order (const gint32 *offsets, const int *sequences, int n, int unit, int budget);

G_END_DECLS
