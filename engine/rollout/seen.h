/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"

G_BEGIN_DECLS

/* The ids that each sample has seen, as bits on the device: what a repetition penalty asks for. */
typedef struct _PlumbSeen PlumbSeen;

/* Rows for `samples` samples, and one more for rows that nobody wants. The model is borrowed. */
PlumbSeen *plumb_seen_new (PlumbModel *model, int samples, GError **error);
void plumb_seen_free (PlumbSeen *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbSeen, plumb_seen_free)

/* (samples + 1, stride) words. */
guint32 *plumb_seen_base (PlumbSeen *self);
int plumb_seen_stride (PlumbSeen *self);
/* Takes a free row and queues the upload of the prompt's ids (of gint32) into it, behind what still writes to it for the sample
 * before. There is one: no more samples are asked for than may run. */
int plumb_seen_take (PlumbSeen *self, const GArray *prompt);
void plumb_seen_release (PlumbSeen *self, int row);
void plumb_seen_release_all (PlumbSeen *self);

G_END_DECLS
