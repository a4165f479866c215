/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Permutations that follow from a seed alone. */

/* Mixes numbers to a key: the same numbers give the same key on every machine. */
guint64 plumb_shuffle_key (guint64 seed, guint64 purpose, guint64 number);

/* Shuffles items in place. */
void plumb_shuffle (guint32 *items, gsize n, guint64 key);

G_END_DECLS
