/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* One or more servers that do the same, asked by POST with JSON. A call that fails is repeated after
 * a pause, with the next server; a server that keeps failing is left alone for a while. May be used
 * from several threads, whose calls are in flight at the same time. */
typedef struct _PlumbRemote PlumbRemote;

/* From the options url (several with commas) and key_env (a variable with a key that is sent as
 * bearer token) of [reward NAME], and reward.timeout and reward.retries. */
PlumbRemote *plumb_remote_new (PlumbSpec *spec, const char *name, GError **error);
void plumb_remote_free (PlumbRemote *remote);
/* From any thread: calls end at once, and fail from then on. */
void plumb_remote_cancel (PlumbRemote *remote);

/* Reads an answer. NULL, or what is wrong with it (transfer full): then the call has failed. */
typedef char *(*PlumbRemoteReader) (const char *text, gsize length, gpointer data);

/* NULL after a good answer; otherwise why every try has failed. (transfer full) */
char *plumb_remote_call (PlumbRemote *remote,
                         const char *body,
                         PlumbRemoteReader reader,
                         gpointer data);

/* The reward of OpenRLHF's answer {"rewards": [number], ...} to a question about one response. */
char *plumb_http_read_reward (const char *text, gsize length, gpointer reward);

/* Of an OpenAI-compatible chat answer: the number behind the last "SCORE:". */
char *plumb_judge_read_score (const char *text, gsize length, gpointer score);

G_END_DECLS
