/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-json.h"

G_BEGIN_DECLS

/* Conversations in rows of data: from the forms that data sets use to messages with role and content. Internal to
 * the data sources. */

/* The messages of a list, or of one message: {"role", "content"} as they are, {"from", "value"} translated. NULL
 * with `wrong` (transfer full) when this is something else. */
JsonArray *plumb_chat_messages (JsonNode *value, char **wrong);

/* Could this be messages at all? */
gboolean plumb_chat_is_messages (JsonNode *value);

/* Divides a row's conversation into what leads up to the answers and the answers, as far as the keys ask for them.
 * Pairs without a prompt share the beginning of their answers. FALSE with `fault`. */
gboolean plumb_chat_divide (const PlumbDataKeys *keys, PlumbDataText *text, PlumbRowFault *fault);

gboolean plumb_chat_is_assistant (JsonArray *messages, guint i);

G_END_DECLS
