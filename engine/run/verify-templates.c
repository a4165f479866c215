/* SPDX-License-Identifier: Apache-2.0 */
/* verify templates: stored renders against this engine's interpreter, errors included. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/run/verify.h"
#include "engine/text/template.h"

#define MOST_BYTES ((gsize) 1 << 30)

typedef struct
{
  const char *dir, *file;
  GHashTable *templates; /* name -> PlumbTemplate */
  gboolean quiet;
  guint rows, failed, texts, errors;
} Check;

static PlumbTemplate *
find_template (Check *c, const char *name, GError **error)
{
  PlumbTemplate *found = g_hash_table_lookup (c->templates, name);
  if (found)
    return found;
  if (!g_file_test (c->dir, G_FILE_TEST_IS_DIR))
    found = plumb_template_load (c->dir, error);
  else
    {
      g_autofree char *base = g_path_get_basename (name);
      g_autofree char *path = g_build_filename (c->dir, base, NULL);
      found = plumb_template_load (g_file_test (path, G_FILE_TEST_EXISTS) ? path : c->dir, error);
    }
  if (found)
    g_hash_table_insert (c->templates, g_strdup (name), found);
  return found;
}

static void
tell (Check *c, const char *name, gboolean good, const char *what)
{
  c->failed += !good;
  if (!good || !c->quiet)
    g_print ("row %-4u %-44s %s%s\n", c->rows, name, what, good ? "ok" : "  FAILED");
}

static void
compare_text (Check *c, const char *name, const char *expected, const char *text, const GError *error)
{
  g_autofree char *what = NULL;
  gsize at = 0;
  c->texts++;
  if (!text)
    what = g_strdup (error->message);
  else if (!g_str_equal (text, expected))
    {
      while (text[at] == expected[at])
        at++;
      what = g_strdup_printf ("byte %" G_GSIZE_FORMAT " differs: %.30s, expected %.30s", at, text + at, expected + at);
    }
  tell (c, name, what == NULL, what ? what : "");
}

/* The stored message is what the template raised; ours has the place in front. */
static void
compare_error (Check *c, const char *name, const char *expected, const char *text, const GError *error)
{
  g_autofree char *what = NULL;
  c->errors++;
  if (text)
    what = g_strdup_printf ("rendered, though it should fail with: %s", expected);
  else if (!g_str_has_suffix (error->message, expected))
    what = g_strdup_printf ("failed with: %s; expected: %s", error->message, expected);
  tell (c, name, what == NULL, what ? what : "");
}

static gboolean
check_row (Check *c, JsonObject *row, GError **error)
{
  const char *name = plumb_json_node_text (json_object_get_member (row, "template"));
  const char *text = plumb_json_node_text (json_object_get_member (row, "text"));
  const char *failure = plumb_json_node_text (json_object_get_member (row, "error"));
  JsonNode *messages = json_object_get_member (row, "messages");
  JsonNode *prompt = json_object_get_member (row, "add_generation_prompt");
  gboolean add = prompt && JSON_NODE_HOLDS_VALUE (prompt) && json_node_get_boolean (prompt);
  g_autoptr (GError) local = NULL;
  c->rows++;
  if (!name || !messages || (!text && !failure))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: row %u lacks \"%s\"", c->file, c->rows,
                   !name ? "template" : !messages ? "messages" : "text");
      return FALSE;
    }
  PlumbTemplate *template = find_template (c, name, &local);
  g_autofree char *rendered = NULL;
  if (template)
    rendered = plumb_template_render (template, messages, add,
                                      plumb_json_node_object (json_object_get_member (row, "variables")), NULL, &local);
  if (failure)
    compare_error (c, name, failure, rendered, local);
  else
    compare_text (c, name, text, rendered, local);
  return TRUE;
}

gboolean
plumb_verify_templates (const char *dir, const char *file, gboolean quiet, gboolean *passed, GError **error)
{
  g_autoptr (JsonParser) parser = plumb_json_parse_file (file, MOST_BYTES, error);
  g_autoptr (GHashTable) templates
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) plumb_template_unref);
  Check c = { dir, file, templates, quiet };
  JsonArray *rows = parser ? plumb_json_node_array (json_parser_get_root (parser)) : NULL;
  if (parser && !rows)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: a list of renders is expected", file);
  for (guint i = 0; rows && i < json_array_get_length (rows); i++)
    {
      JsonObject *row = plumb_json_node_object (json_array_get_element (rows, i));
      if (row && !check_row (&c, row, error))
        return FALSE;
      if (!row)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: row %u is no object", file, i + 1);
          return FALSE;
        }
    }
  if (!rows)
    return FALSE;
  g_print ("compared %u rows: %u texts, %u errors; %u failed\n", c.rows, c.texts, c.errors, c.failed);
  *passed = c.rows > 0 && c.failed == 0;
  return TRUE;
}
