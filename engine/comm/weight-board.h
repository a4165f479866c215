/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/comm/shared-memory.h"
#include "engine/model/device.h"

G_BEGIN_DECLS

/* Where a trainer puts up the weights of a version, and where a rollout worker of the same machine takes them from: two
 * places in turn, each with the version's number and a checksum, so that reading one does not hold up the other. */
typedef struct _PlumbWeightBoard PlumbWeightBoard;

/* The memory for weights of so many bytes, held by whoever starts the two. */
PlumbSharedMemory *plumb_weight_board_memory_new (gsize bytes, GError **error);

PlumbWeightBoard *plumb_weight_board_open (const char *path, gsize bytes, GError **error);
void plumb_weight_board_free (PlumbWeightBoard *board);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbWeightBoard, plumb_weight_board_free)

/* Puts up weights (bytes, on the device). One process writes, with versions of any order. */
gboolean plumb_weight_board_write (PlumbWeightBoard *board, PlumbDevice *device, const void *weights, guint64 version,
                                   GError **error);
/* Takes the latest weights: they are checked against their checksum, and refused where it does not fit (another try takes
 * what was put up meanwhile). On failure the weights on the device are not to be used. */
gboolean plumb_weight_board_read (PlumbWeightBoard *board, PlumbDevice *device, void *weights, guint64 *version,
                                  GError **error);

G_END_DECLS
