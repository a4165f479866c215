/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/experience.h"

#include <glib.h>

G_BEGIN_DECLS

/* Cuts n sequences, in their order, into `parts` stretches of nearly equal numbers of tokens; units of so many sequences
 * stay together. ends (parts): where each stretch ends; an empty one ends where it begins. It follows from the lengths
 * alone. */
void plumb_split_sequences (const gint32 *offsets, int n, int unit, int parts, int *ends);

/* Sequences first .. last-1 as an experience of their own. */
struct plumb_experience *plumb_experience_part (const struct plumb_experience *experience, int first, int last);

G_END_DECLS
