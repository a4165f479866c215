/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* What a call of plumbline-engine came to. */
typedef struct
{
  int exit_code;
  JsonNode *json;  /* what it printed on stdout; NULL: nothing or no JSON */
  char *complaint; /* what it printed on stderr, without the last line break */
} PlumbEngineReply;

void plumb_engine_reply_free (PlumbEngineReply *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbEngineReply, plumb_engine_reply_free)

/* The engine's program: PLUMBLINE_ENGINE in the environment, then beside this program, then in the
 * build folder next to it, then on PATH. PLUMB_ERROR_ENVIRONMENT when it is nowhere. */
char *plumb_engine_find (GError **error);

/* Runs the engine with these arguments. An engine that ends with an exit code other than 0 is a
 * reply, not an error. */
void plumb_engine_call_async (const char *const *arguments,
                              GCancellable *cancellable,
                              GAsyncReadyCallback callback,
                              gpointer user_data);
PlumbEngineReply *plumb_engine_call_finish (GAsyncResult *result, GError **error);

/* The problems of a reply ({"problems": [...]}): array of PlumbProblem, empty when it has none. */
GPtrArray *plumb_engine_reply_problems (const PlumbEngineReply *self);

/* One sentence for the user on a call that did not succeed. */
char *plumb_engine_reply_summary (const PlumbEngineReply *self);

G_END_DECLS
