/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* Parses a whole JSON text into a tree, for files from elsewhere: json-glib alone recurses without bound, so the
 * text is scanned first. `name` stands in the message, with the line of the fault. */
JsonParser *plumb_json_parse (const char *name, const char *text, gsize length, GError **error);
/* The same for a file; `most` bounds its size in bytes. */
JsonParser *plumb_json_parse_file (const char *path, gsize most, GError **error);

/* The top as an object; NULL with an error that names it. */
JsonObject *plumb_json_top (JsonParser *parser, const char *name, GError **error);

/* Typed access that a wrong type cannot trip: FALSE or NULL for any other node. */
gboolean plumb_json_node_integer (JsonNode *node, gint64 *value);
const char *plumb_json_node_text (JsonNode *node);
JsonObject *plumb_json_node_object (JsonNode *node);
JsonArray *plumb_json_node_array (JsonNode *node);

G_END_DECLS
