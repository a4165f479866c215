/* SPDX-License-Identifier: Apache-2.0 */
/* Is the response JSON that a schema describes? A keyword that is not known here is refused when the
 * run starts: one that were left out would let wrong responses pass. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/json-tree.h"
#include "engine/reward/functions.h"

#define LARGEST_SCHEMA (1 << 20)

static const char *const keywords[]
    = { "type",      "properties", "required",         "additionalProperties", "items",
        "enum",      "const",      "minimum",          "maximum",              "exclusiveMinimum",
        "minLength", "maxLength",  "exclusiveMaximum", "minItems",             "maxItems",
        "pattern",   "anyOf",      "allOf",            "oneOf",                "not",
        NULL };
static const char *const annotations[]
    = { "title", "description", "$schema", "$id", "$comment", "default", "examples", NULL };

static JsonNode *
member (JsonObject *object, const char *name)
{
  return json_object_has_member (object, name) ? json_object_get_member (object, name) : NULL;
}

/* --- the schema itself; the message is transfer full */

static char *check_schema (JsonNode *schema);

static char *
check_schemas (JsonNode *list)
{
  JsonArray *array = list != NULL ? plumb_json_node_array (list) : NULL;
  char *wrong = NULL;

  if (list != NULL && array == NULL)
    return g_strdup ("anyOf, allOf and oneOf take lists");
  for (guint i = 0; array != NULL && wrong == NULL && i < json_array_get_length (array); i++)
    wrong = check_schema (json_array_get_element (array, i));
  return wrong;
}

static char *
check_properties (JsonNode *properties)
{
  JsonObject *object = properties != NULL ? plumb_json_node_object (properties) : NULL;
  g_autoptr (GList) names = object != NULL ? json_object_get_members (object) : NULL;
  char *wrong = NULL;

  if (properties != NULL && object == NULL)
    return g_strdup ("properties is no object");
  for (GList *l = names; l != NULL && wrong == NULL; l = l->next)
    wrong = check_schema (json_object_get_member (object, l->data));
  return wrong;
}

static char *
check_keywords (JsonObject *object)
{
  g_autoptr (GList) names = json_object_get_members (object);

  for (GList *l = names; l != NULL; l = l->next)
    if (!g_strv_contains (keywords, l->data) && !g_strv_contains (annotations, l->data))
      return g_strdup_printf ("the keyword %s is not known here", (char *)l->data);
  return NULL;
}

static char *
check_pattern (JsonObject *object)
{
  const char *text = member (object, "pattern") != NULL
                         ? plumb_json_node_text (json_object_get_member (object, "pattern"))
                         : NULL;
  g_autoptr (GRegex) regex = NULL;
  g_autoptr (GError) error = NULL;

  if (text != NULL)
    regex = g_regex_new (text, 0, 0, &error);
  return error != NULL ? g_strdup (error->message) : NULL;
}

static char *
check_schema (JsonNode *schema)
{
  JsonObject *object = plumb_json_node_object (schema);
  static const char *const lists[] = { "anyOf", "allOf", "oneOf" };
  static const char *const single[] = { "items", "not", "additionalProperties" };
  char *wrong;

  if (JSON_NODE_HOLDS_VALUE (schema) && json_node_get_value_type (schema) == G_TYPE_BOOLEAN)
    return NULL;
  if (object == NULL)
    return g_strdup ("a schema is an object");
  wrong = check_keywords (object);
  if (wrong == NULL)
    wrong = check_pattern (object);
  if (wrong == NULL)
    wrong = check_properties (member (object, "properties"));
  for (gsize i = 0; i < G_N_ELEMENTS (lists) && wrong == NULL; i++)
    wrong = check_schemas (member (object, lists[i]));
  for (gsize i = 0; i < G_N_ELEMENTS (single) && wrong == NULL; i++)
    if (member (object, single[i]) != NULL)
      wrong = check_schema (member (object, single[i]));
  return wrong;
}

static gboolean
open_json_schema (PlumbSpec *spec, gpointer *state, GError **error)
{
  const char *schema = plumb_spec_get_reward_option (spec, "json_schema", "schema");
  g_autoptr (GError) local = NULL;
  g_autofree char *wrong = NULL;

  if (schema == NULL)
    return plumb_reward_bad_option (spec, "json_schema", "schema",
                                    "name the file with the schema, or write the schema", error);
  *state = *schema == '{' ? plumb_json_parse ("the schema", schema, strlen (schema), &local)
                          : plumb_json_parse_file (schema, LARGEST_SCHEMA, &local);
  if (*state == NULL)
    return plumb_reward_bad_option (spec, "json_schema", "schema", local->message, error);
  wrong = check_schema (json_parser_get_root (*state));
  return wrong == NULL || plumb_reward_bad_option (spec, "json_schema", "schema", wrong, error);
}

/* --- values against it */

static gboolean matches (JsonNode *schema, JsonNode *value);

static gboolean
is_number (JsonNode *value)
{
  GType type = JSON_NODE_HOLDS_VALUE (value) ? json_node_get_value_type (value) : G_TYPE_INVALID;

  return type == G_TYPE_INT64 || type == G_TYPE_DOUBLE;
}

static gboolean
has_type (JsonNode *value, const char *type)
{
  if (g_strcmp0 (type, "object") == 0)
    return JSON_NODE_HOLDS_OBJECT (value);
  if (g_strcmp0 (type, "array") == 0)
    return JSON_NODE_HOLDS_ARRAY (value);
  if (g_strcmp0 (type, "null") == 0)
    return JSON_NODE_HOLDS_NULL (value);
  if (g_strcmp0 (type, "string") == 0)
    return plumb_json_node_text (value) != NULL;
  if (g_strcmp0 (type, "boolean") == 0)
    return JSON_NODE_HOLDS_VALUE (value) && json_node_get_value_type (value) == G_TYPE_BOOLEAN;
  if (!is_number (value))
    return FALSE;
  return g_strcmp0 (type, "number") == 0
         || (g_strcmp0 (type, "integer") == 0
             && json_node_get_double (value) == floor (json_node_get_double (value)));
}

static gboolean
matches_type (JsonNode *type, JsonNode *value)
{
  JsonArray *types = plumb_json_node_array (type);

  if (types == NULL)
    return has_type (value, plumb_json_node_text (type));
  for (guint i = 0; i < json_array_get_length (types); i++)
    if (has_type (value, plumb_json_node_text (json_array_get_element (types, i))))
      return TRUE;
  return FALSE;
}

static gboolean
same_value (JsonNode *a, JsonNode *b)
{
  if (is_number (a) && is_number (b))
    return json_node_get_double (a) == json_node_get_double (b);
  return json_node_equal (a, b);
}

static gboolean
is_listed (JsonArray *list, JsonNode *value)
{
  for (guint i = 0; list != NULL && i < json_array_get_length (list); i++)
    if (same_value (json_array_get_element (list, i), value))
      return TRUE;
  return FALSE;
}

static double
bound (JsonObject *schema, const char *name, double otherwise)
{
  JsonNode *node = member (schema, name);

  return node != NULL && is_number (node) ? json_node_get_double (node) : otherwise;
}

static gboolean
within (JsonObject *schema, const char *least, const char *most, double value)
{
  return value >= bound (schema, least, -INFINITY) && value <= bound (schema, most, INFINITY);
}

static gboolean
matches_scalar (JsonObject *schema, JsonNode *value)
{
  const char *text = plumb_json_node_text (value);
  JsonNode *pattern = member (schema, "pattern");

  if (is_number (value))
    {
      double number = json_node_get_double (value);

      return within (schema, "minimum", "maximum", number)
             && number > bound (schema, "exclusiveMinimum", -INFINITY)
             && number < bound (schema, "exclusiveMaximum", INFINITY);
    }
  if (text == NULL)
    return TRUE;
  if (!within (schema, "minLength", "maxLength", g_utf8_strlen (text, -1)))
    return FALSE;
  return pattern == NULL || plumb_json_node_text (pattern) == NULL
         || g_regex_match_simple (plumb_json_node_text (pattern), text, 0, 0);
}

static gboolean
matches_object (JsonObject *schema, JsonObject *value)
{
  JsonNode *properties = member (schema, "properties"), *required = member (schema, "required");
  JsonNode *others = member (schema, "additionalProperties");
  JsonObject *known = properties != NULL ? plumb_json_node_object (properties) : NULL;
  JsonArray *needed = required != NULL ? plumb_json_node_array (required) : NULL;
  g_autoptr (GList) names = json_object_get_members (value);

  for (guint i = 0; needed != NULL && i < json_array_get_length (needed); i++)
    {
      const char *name = plumb_json_node_text (json_array_get_element (needed, i));

      if (name != NULL && !json_object_has_member (value, name))
        return FALSE;
    }
  for (GList *l = names; l != NULL; l = l->next)
    {
      JsonNode *rule = known != NULL ? member (known, l->data) : NULL;

      if (rule == NULL)
        rule = others;
      if (rule != NULL && !matches (rule, json_object_get_member (value, l->data)))
        return FALSE;
    }
  return TRUE;
}

static gboolean
matches_array (JsonObject *schema, JsonArray *value)
{
  JsonNode *items = member (schema, "items");

  if (!within (schema, "minItems", "maxItems", json_array_get_length (value)))
    return FALSE;
  for (guint i = 0; items != NULL && i < json_array_get_length (value); i++)
    if (!matches (items, json_array_get_element (value, i)))
      return FALSE;
  return TRUE;
}

/* How many schemas of a list match; `n` of them there are. */
static guint
count_matches (JsonObject *schema, const char *name, JsonNode *value, guint *n)
{
  JsonArray *list = member (schema, name) != NULL
                        ? plumb_json_node_array (json_object_get_member (schema, name))
                        : NULL;
  guint matching = 0;

  *n = list != NULL ? json_array_get_length (list) : 0;
  for (guint i = 0; i < *n; i++)
    matching += matches (json_array_get_element (list, i), value);
  return matching;
}

static gboolean
matches_combined (JsonObject *schema, JsonNode *value)
{
  guint n, matching = count_matches (schema, "anyOf", value, &n);

  if (n > 0 && matching == 0)
    return FALSE;
  matching = count_matches (schema, "oneOf", value, &n);
  if (n > 0 && matching != 1)
    return FALSE;
  if (count_matches (schema, "allOf", value, &n) != n)
    return FALSE;
  return member (schema, "not") == NULL || !matches (member (schema, "not"), value);
}

static gboolean
matches (JsonNode *node, JsonNode *value)
{
  JsonObject *schema = plumb_json_node_object (node);

  if (schema == NULL)
    return json_node_get_boolean (node);
  if (member (schema, "type") != NULL && !matches_type (member (schema, "type"), value))
    return FALSE;
  if (member (schema, "const") != NULL && !same_value (member (schema, "const"), value))
    return FALSE;
  if (member (schema, "enum") != NULL
      && !is_listed (plumb_json_node_array (member (schema, "enum")), value))
    return FALSE;
  if (JSON_NODE_HOLDS_OBJECT (value) && !matches_object (schema, json_node_get_object (value)))
    return FALSE;
  if (JSON_NODE_HOLDS_ARRAY (value) && !matches_array (schema, json_node_get_array (value)))
    return FALSE;
  return matches_scalar (schema, value) && matches_combined (schema, value);
}

/* Without a fence around the whole. (transfer full) */
static char *
unfenced (const char *response)
{
  char *text = g_strstrip (g_strdup (response));
  gsize length = strlen (text);
  char *line = strchr (text, '\n');

  if (!g_str_has_prefix (text, "```") || line == NULL || length < 7
      || !g_str_equal (text + length - 3, "```"))
    return text;
  text[length - 3] = '\0';
  memmove (text, line + 1, strlen (line + 1) + 1);
  return text;
}

static void
score_json_schema (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  g_autofree char *text = unfenced (input->response);
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonParser) parser = plumb_json_parse ("the response", text, strlen (text), &error);
  JsonNode *root = parser != NULL ? json_parser_get_root (parser) : NULL;

  if (root == NULL)
    score->reason = g_strdup_printf ("json_schema: %s", error != NULL ? error->message : "nothing");
  else if (!matches (json_parser_get_root (state), root))
    score->reason = g_strdup ("json_schema: the response is JSON of another form");
  else
    score->value = 1;
}

static const char *const json_schema_options[] = { "schema", NULL };

const PlumbRewardFunction plumb_reward_json_schema = {
  .name = "json_schema",
  .options = json_schema_options,
  .open = open_json_schema,
  .score = score_json_schema,
  .close = g_object_unref,
};
