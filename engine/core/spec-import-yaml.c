/* SPDX-License-Identifier: Apache-2.0 */
/* Settings in YAML, or as KEY=VALUE on a command line, flattened to dotted names; and which trainer they are for. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>
#include <yaml.h>

#include "engine/core/error.h"
#include "engine/core/spec-import-private.h"

#define DEEPEST 32
#define MOST_ITEMS 4096

/* Flattening one document; aliases may name a node again and again, so what comes out is bounded too. */
typedef struct
{
  yaml_document_t *document;
  GArray *items;
  const char *problem;
} Flatten;

static char *
scalar_of (const yaml_node_t *node)
{
  return g_strndup ((const char *)node->data.scalar.value, node->data.scalar.length);
}

static char *
key_under (const char *prefix, const yaml_node_t *key)
{
  g_autofree char *name = scalar_of (key);

  return *prefix != '\0' ? g_strdup_printf ("%s.%s", prefix, name) : g_strdup (name);
}

/* A scalar, or the scalars of a list. */
static void
add_values (Flatten *flatten, const char *name, const yaml_node_t *node)
{
  PlumbImportItem *item = plumb_import_items_add (flatten->items, g_strdup (name), NULL);

  if (node->type == YAML_SCALAR_NODE)
    g_ptr_array_add (item->values, scalar_of (node));
  for (yaml_node_item_t *i = node->data.sequence.items.start;
       node->type == YAML_SEQUENCE_NODE && i < node->data.sequence.items.top; i++)
    {
      const yaml_node_t *value = yaml_document_get_node (flatten->document, *i);

      if (value != NULL && value->type == YAML_SCALAR_NODE)
        g_ptr_array_add (item->values, scalar_of (value));
    }
}

static void
add_node (Flatten *flatten, const char *prefix, const yaml_node_t *node, int depth)
{
  if (depth > DEEPEST || flatten->items->len > MOST_ITEMS)
    flatten->problem = depth > DEEPEST ? "it is nested too deeply" : "it has too many settings";
  if (flatten->problem != NULL || node == NULL)
    return;
  if (node->type != YAML_MAPPING_NODE)
    {
      add_values (flatten, prefix, node);
      return;
    }
  for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
    {
      const yaml_node_t *key = yaml_document_get_node (flatten->document, pair->key);

      if (key != NULL && key->type == YAML_SCALAR_NODE)
        {
          g_autofree char *name = key_under (prefix, key);

          add_node (flatten, name, yaml_document_get_node (flatten->document, pair->value), depth + 1);
        }
    }
}

static gboolean
read_document (yaml_parser_t *parser, GArray *items, GError **error)
{
  yaml_document_t document;
  const yaml_node_t *root;
  Flatten flatten = { &document, items, NULL };

  if (!yaml_parser_load (parser, &document))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "line %zu is no YAML: %s", parser->problem_mark.line + 1,
                   parser->problem != NULL ? parser->problem : "it cannot be read");
      return FALSE;
    }
  root = yaml_document_get_root_node (&document);
  if (root == NULL || root->type != YAML_MAPPING_NODE)
    flatten.problem = "it holds no settings";
  else
    add_node (&flatten, "", root, 0);
  yaml_document_delete (&document);
  if (flatten.problem != NULL)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "this YAML cannot be taken over: %s", flatten.problem);
  return flatten.problem == NULL;
}

static GArray *
read_yaml (const char *text, GError **error)
{
  g_autoptr (GArray) items = plumb_import_items_new ();
  yaml_parser_t parser;
  gboolean ok;

  yaml_parser_initialize (&parser);
  yaml_parser_set_input_string (&parser, (const unsigned char *)text, strlen (text));
  ok = read_document (&parser, items, error);
  yaml_parser_delete (&parser);
  return ok ? g_steal_pointer (&items) : NULL;
}

/* KEY=VALUE after the program's name; a list is written [a,b]. */
static GArray *
read_overrides (const char *text, GError **error)
{
  g_autoptr (GRegex) continued = g_regex_new ("\\\\\\s*\\n", 0, 0, NULL);
  g_autofree char *line = g_regex_replace_literal (continued, text, -1, 0, " ", 0, NULL);
  g_autoptr (GArray) items = plumb_import_items_new ();
  g_auto (GStrv) argv = NULL;
  g_autoptr (GError) local = NULL;

  if (line == NULL || !g_shell_parse_argv (line, NULL, &argv, &local))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "this is no command line: %s",
                   local != NULL ? local->message : "it is not valid UTF-8");
      return NULL;
    }
  for (int i = 0; argv[i] != NULL && items->len < MOST_ITEMS; i++)
    {
      char *equals = strchr (argv[i], '=');
      const char *name = argv[i] + strspn (argv[i], "+");
      PlumbImportItem *item;
      g_auto (GStrv) values = NULL;

      if (equals == NULL || equals <= name || *name == '-')
        continue;
      item = plumb_import_items_add (items, g_strndup (name, equals - name), g_strdup (argv[i]));
      g_strdelimit (equals + 1, "[]'\"", ' ');
      values = g_strsplit (equals + 1, ",", -1);
      for (int v = 0; values[v] != NULL; v++)
        g_ptr_array_add (item->values, g_strdup (g_strstrip (values[v])));
    }
  return g_steal_pointer (&items);
}

/* How a note quotes what YAML had spread over lines. */
static void
quote_items (GArray *items)
{
  for (guint i = 0; i < items->len; i++)
    {
      PlumbImportItem *item = &g_array_index (items, PlumbImportItem, i);
      g_autoptr (GString) text = g_string_new (NULL);

      if (item->text != NULL)
        continue;
      g_string_printf (text, "%s:", item->name);
      for (guint v = 0; v < item->values->len; v++)
        g_string_append_printf (text, "%s %s", v > 0 ? "," : "", (char *)g_ptr_array_index (item->values, v));
      item->text = g_string_free (g_steal_pointer (&text), FALSE);
    }
}

/* Their settings lie in groups of these names. */
static gboolean
is_verl (GArray *items)
{
  static const char *const groups[] = { "actor_rollout_ref.", "data.train_files", "algorithm.adv_estimator" };

  for (guint i = 0; i < items->len; i++)
    for (gsize g = 0; g < G_N_ELEMENTS (groups); g++)
      if (g_str_has_prefix (g_array_index (items, PlumbImportItem, i).name, groups[g]))
        return TRUE;
  return FALSE;
}

PlumbSpec *
plumb_spec_import (const char *text, const char *algorithm, GPtrArray *notes, GError **error)
{
  g_autoptr (GArray) items = NULL;
  gboolean overrides = strstr (text, "verl.") != NULL || strstr (text, "actor_rollout_ref.actor") != NULL;

  if (!overrides && g_regex_match_simple ("(^|\\s)--[A-Za-z]", text, G_REGEX_RAW, 0))
    return plumb_spec_import_openrlhf (text, notes, error);
  items = overrides ? read_overrides (text, error) : read_yaml (text, error);
  if (items == NULL)
    return NULL;
  if (items->len == 0)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "there are no settings in this text");
      return NULL;
    }
  quote_items (items);
  return overrides || is_verl (items) ? plumb_import_verl (items, notes, error)
                                      : plumb_import_trl (items, algorithm, notes, error);
}
