/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <gio/gio.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-scan.h"
#include "engine/core/json-tree.h"

static guint
line_of (const char *text, gsize at)
{
  guint line = 1;
  for (gsize i = 0; i < at; i++)
    line += text[i] == '\n';
  return line;
}

JsonParser *
plumb_json_parse (const char *name, const char *text, gsize length, GError **error)
{
  PlumbJsonScan scan;
  plumb_json_scan_init (&scan, text, length);
  plumb_json_skip (&scan);
  if (!plumb_json_finish (&scan))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s:%u: not valid JSON: %s", name,
                   line_of (text, scan.at), scan.message);
      return NULL;
    }
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) local = NULL;
  if (json_parser_load_from_data (parser, text, (gssize) length, &local))
    return g_steal_pointer (&parser);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: not valid JSON: %s", name, local->message);
  return NULL;
}

JsonParser *
plumb_json_parse_file (const char *path, gsize most, GError **error)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, error);
  if (!file)
    return NULL;
  gsize length = g_mapped_file_get_length (file);
  if (length == 0 || length > most)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: %s", path,
                   length ? "too large for what it should hold" : "the file is empty");
      return NULL;
    }
  return plumb_json_parse (path, g_mapped_file_get_contents (file), length, error);
}

JsonObject *
plumb_json_top (JsonParser *parser, const char *name, GError **error)
{
  JsonObject *object = plumb_json_node_object (json_parser_get_root (parser));
  if (!object)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: the top is not an object", name);
  return object;
}

gboolean
plumb_json_node_integer (JsonNode *node, gint64 *value)
{
  if (!node || !JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64)
    return FALSE;
  *value = json_node_get_int (node);
  return TRUE;
}

const char *
plumb_json_node_text (JsonNode *node)
{
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

JsonObject *
plumb_json_node_object (JsonNode *node)
{
  return node && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

JsonArray *
plumb_json_node_array (JsonNode *node)
{
  return node && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}
