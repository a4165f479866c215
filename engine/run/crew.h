/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/message.h"

G_BEGIN_DECLS

/* The workers as the controller sees them: requests go out, answers come back. */
typedef struct _PlumbCrew PlumbCrew;

/* Called while an answer is awaited, at least four times a second; `done` of `of` samples are ready where the
 * worker said so. FALSE gives up the wait. */
typedef gboolean (*PlumbCrewTick) (gint64 done, gint64 of, gpointer data);

/* Starts one worker in this process and waits for its greeting. */
PlumbCrew *plumb_crew_start (gint64 attempt, GError **error);
void plumb_crew_stop (PlumbCrew *crew);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbCrew, plumb_crew_stop)

void plumb_crew_set_tick (PlumbCrew *crew, PlumbCrewTick tick, gpointer data);

/* Sends a request (a floating body is taken over) and waits for its answer's body (transfer full). A failure of
 * the worker comes back as its error. */
GVariant *plumb_crew_ask (PlumbCrew *crew, PlumbMessageKind kind, GVariant *body, GError **error);

/* Seconds since the worker was last heard. */
double plumb_crew_silence (PlumbCrew *crew);
/* Version of the weights that the last answer told. */
guint64 plumb_crew_version (PlumbCrew *crew);

G_END_DECLS
