/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/series.h"

G_BEGIN_DECLS

/* A metric's series that one thread fills while another draws it: every call takes its lock. */
typedef struct _PlumbTrack PlumbTrack;

PlumbTrack *plumb_track_new (void);
PlumbTrack *plumb_track_ref (PlumbTrack *self);
void plumb_track_unref (PlumbTrack *self);
void plumb_track_add_attempt (PlumbTrack *self, gint64 attempt, gint64 from_step);
void plumb_track_add_points (PlumbTrack *self, const PlumbPoint *points, gsize n);

/* The current point of the highest step. FALSE when there is none. */
gboolean plumb_track_get_last (PlumbTrack *self, PlumbPoint *last);

/* Copies for a reader that keeps them: release with g_free. */
PlumbPoint *plumb_track_copy_current (PlumbTrack *self, gsize *n);
PlumbPoint *plumb_track_copy_superseded (PlumbTrack *self, gsize *n);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbTrack, plumb_track_unref)

G_END_DECLS
