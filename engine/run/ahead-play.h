/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/ahead-queue.h"

G_BEGIN_DECLS

/* Episodes with an environment that are played ahead of the training: an answer comes from the worker that generates, the
 * environment hears it in a thread of its own, and the episode goes back to the worker, until all samples of its group are
 * over. */
typedef struct _PlumbAheadTable PlumbAheadTable;

PlumbAheadTable *plumb_ahead_table_new (PlumbRun *run, PlumbAheadQueue *queue, GError **error);
void plumb_ahead_table_free (PlumbAheadTable *table);

/* A group's prompt was submitted: its episodes begin. */
gboolean plumb_ahead_table_begin (PlumbAheadTable *table, PlumbAheadGroup *group, GError **error);
/* Takes the answers of a message; what does not fit to episodes that wait for one is an error. */
gboolean plumb_ahead_table_accept (PlumbAheadTable *table, GVariant *body, GError **error);
/* Takes what the environment said: episodes that go on are added to `next`, groups that are over are finished. */
gboolean plumb_ahead_table_attend (PlumbAheadTable *table, PlumbPrompts *next, GError **error);
/* Answers that the worker owes; lines that the environment does. */
guint plumb_ahead_table_owed (const PlumbAheadTable *table);
guint plumb_ahead_table_asked (const PlumbAheadTable *table);

G_END_DECLS
