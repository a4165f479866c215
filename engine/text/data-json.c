/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/text/data-chat.h"
#include "engine/text/data-json.h"

#define MOST_KEYS 4096 /* of all rows that are looked at */

void
plumb_data_text_clear (PlumbDataText *text)
{
  GString **strings[] = { &text->prompt, &text->answer, &text->response, &text->rejected,
                          &text->margin, &text->label,  &text->system, &text->row };

  for (gsize i = 0; i < G_N_ELEMENTS (strings); i++)
    {
      if (*strings[i] != NULL)
        g_string_free (*strings[i], TRUE);
      *strings[i] = NULL;
    }
  g_clear_pointer (&text->turns, json_array_unref);
  g_clear_pointer (&text->response_turns, json_array_unref);
  g_clear_pointer (&text->rejected_turns, json_array_unref);
  g_clear_pointer (&text->tools, json_node_unref);
}

gboolean
plumb_data_label (const char *text, gboolean *liked)
{
  static const char *const words[] = { "true", "1", "yes", "false", "0", "no" };

  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_ascii_strcasecmp (text, words[i]) == 0)
      {
        *liked = i < G_N_ELEMENTS (words) / 2;
        return TRUE;
      }
  return FALSE;
}

double
plumb_data_number (const char *text)
{
  char *end;
  double value = g_ascii_strtod (text, &end);

  return end != text && *end == '\0' ? value : NAN;
}

void
plumb_row_fault_clear (PlumbRowFault *fault)
{
  g_clear_pointer (&fault->message, g_free);
  g_clear_pointer (&fault->remedy, g_free);
}

static gboolean
fault_at (PlumbRowFault *fault, char *message, char *remedy)
{
  plumb_row_fault_clear (fault);
  fault->message = message;
  fault->remedy = remedy;
  return FALSE;
}

/* A scalar as it is spelled; anything else is named in `wrong`. */
static GString *
read_scalar (PlumbJsonScan *scan, const char **wrong)
{
  PlumbJsonType type = plumb_json_peek (scan);
  GString *string = NULL;
  const char *number;
  gsize length;
  gboolean yes;

  *wrong = NULL;
  switch (type)
    {
    case PLUMB_JSON_STRING:
      string = g_string_new (NULL);
      plumb_json_get_string (scan, string);
      break;
    case PLUMB_JSON_NUMBER:
      if (plumb_json_get_number (scan, &number, &length))
        string = g_string_new_len (number, length);
      break;
    case PLUMB_JSON_BOOLEAN:
      if (plumb_json_get_boolean (scan, &yes))
        string = g_string_new (yes ? "true" : "false");
      break;
    case PLUMB_JSON_OBJECT:
    case PLUMB_JSON_ARRAY:
    case PLUMB_JSON_NULL:
    case PLUMB_JSON_NOTHING:
      *wrong = plumb_json_type_name (type);
      plumb_json_skip (scan);
      break;
    }
  return string;
}

/* A value as a tree; NULL when the scan stops or a text holds a NUL, which a tree cannot keep. */
static JsonNode *read_tree (PlumbJsonScan *scan);

static JsonNode *
read_object (PlumbJsonScan *scan)
{
  g_autoptr (JsonNode) node = json_node_new (JSON_NODE_OBJECT);
  g_autoptr (GString) key = g_string_new (NULL);
  JsonObject *object = json_object_new ();

  json_node_take_object (node, object);
  if (!plumb_json_enter_object (scan))
    return NULL;
  while (plumb_json_next_member (scan, key))
    {
      JsonNode *value = read_tree (scan);

      if (value == NULL)
        return NULL;
      json_object_set_member (object, key->str, value);
    }
  return scan->message == NULL ? g_steal_pointer (&node) : NULL;
}

static JsonNode *
read_array (PlumbJsonScan *scan)
{
  g_autoptr (JsonNode) node = json_node_new (JSON_NODE_ARRAY);
  JsonArray *array = json_array_new ();

  json_node_take_array (node, array);
  if (!plumb_json_enter_array (scan))
    return NULL;
  while (plumb_json_next_element (scan))
    {
      JsonNode *value = read_tree (scan);

      if (value == NULL)
        return NULL;
      json_array_add_element (array, value);
    }
  return scan->message == NULL ? g_steal_pointer (&node) : NULL;
}

static JsonNode *
read_number (PlumbJsonScan *scan)
{
  JsonNode *node = json_node_new (JSON_NODE_VALUE);
  g_autofree char *digits = NULL;
  const char *text;
  gsize length;
  gint64 whole;

  if (!plumb_json_get_number (scan, &text, &length))
    {
      json_node_unref (node);
      return NULL;
    }
  digits = g_strndup (text, length);
  if (g_ascii_string_to_signed (digits, 10, G_MININT64, G_MAXINT64, &whole, NULL))
    json_node_set_int (node, whole);
  else
    json_node_set_double (node, g_ascii_strtod (digits, NULL));
  return node;
}

static JsonNode *
read_text (PlumbJsonScan *scan)
{
  g_autoptr (GString) text = g_string_new (NULL);
  JsonNode *node;

  if (!plumb_json_get_string (scan, text) || strlen (text->str) != text->len)
    return NULL;
  node = json_node_new (JSON_NODE_VALUE);
  json_node_set_string (node, text->str);
  return node;
}

static JsonNode *
read_tree (PlumbJsonScan *scan)
{
  gboolean yes;
  JsonNode *node;

  switch (plumb_json_peek (scan))
    {
    case PLUMB_JSON_OBJECT:
      return read_object (scan);
    case PLUMB_JSON_ARRAY:
      return read_array (scan);
    case PLUMB_JSON_STRING:
      return read_text (scan);
    case PLUMB_JSON_NUMBER:
      return read_number (scan);
    case PLUMB_JSON_BOOLEAN:
      if (!plumb_json_get_boolean (scan, &yes))
        return NULL;
      node = json_node_new (JSON_NODE_VALUE);
      json_node_set_boolean (node, yes);
      return node;
    case PLUMB_JSON_NULL:
      return plumb_json_skip (scan) ? json_node_new (JSON_NODE_NULL) : NULL;
    case PLUMB_JSON_NOTHING:
      break;
    }
  return NULL;
}

typedef struct
{
  const char *key; /* NULL: not asked for */
  GString **string;
  JsonArray **turns; /* takes messages; NULL: only texts are meant */
  JsonNode **node;   /* takes anything; NULL: no */
  gboolean needed;
  gboolean may_be_empty;
  gboolean list;     /* a list of scalars is a text too */
  const char *wrong; /* type that was found instead of a scalar */
  char *fault;       /* what is wrong with messages */
} Wanted;

static void
clear_wanted (Wanted *wanted)
{
  if (wanted->string != NULL && *wanted->string != NULL)
    {
      g_string_free (*wanted->string, TRUE);
      *wanted->string = NULL;
    }
  if (wanted->turns != NULL)
    g_clear_pointer (wanted->turns, json_array_unref);
  g_clear_pointer (&wanted->fault, g_free);
}

/* [61, 58, 79] as "61, 58, 79"; NULL if there is more than scalars. */
static GString *
join_list (PlumbJsonScan *scan)
{
  GString *text = g_string_new (NULL);
  gboolean sound = plumb_json_enter_array (scan);

  while (sound && plumb_json_next_element (scan))
    {
      const char *wrong;
      GString *item = read_scalar (scan, &wrong);

      if (item == NULL)
        {
          g_string_free (text, TRUE);
          return NULL;
        }
      if (text->len > 0)
        g_string_append (text, ", ");
      g_string_append_len (text, item->str, item->len);
      g_string_free (item, TRUE);
    }
  return text;
}

static void
take_tree (Wanted *wanted, PlumbJsonScan *scan)
{
  g_autoptr (JsonNode) tree = read_tree (scan);

  if (tree == NULL)
    wanted->fault = g_strdup ("it holds a NUL character");
  else if (wanted->node != NULL)
    *wanted->node = g_steal_pointer (&tree);
  else if (plumb_chat_is_messages (tree))
    *wanted->turns = plumb_chat_messages (tree, &wanted->fault);
  else
    wanted->wrong = plumb_json_type_name (JSON_NODE_HOLDS_ARRAY (tree) ? PLUMB_JSON_ARRAY : PLUMB_JSON_OBJECT);
}

/* Bytes that a reader of another format found to be no text stand in its rows as an object of one known key. */
static gboolean
is_no_text (const PlumbJsonScan *scan, guint64 *bytes)
{
  static const char key[] = PLUMB_DATA_NO_TEXT_START;
  gsize n = sizeof key - 1;

  return (gsize)(scan->end - scan->next) > n && memcmp (scan->next, key, n) == 0
         && (*bytes = g_ascii_strtoull (scan->next + n, NULL, 10), TRUE);
}

static void
take_value (Wanted *wanted, PlumbJsonScan *scan)
{
  guint64 bytes;
  PlumbJsonType type = plumb_json_peek (scan);
  gboolean tree = type == PLUMB_JSON_OBJECT || type == PLUMB_JSON_ARRAY;

  clear_wanted (wanted);
  wanted->wrong = NULL;
  if (type == PLUMB_JSON_OBJECT && is_no_text (scan, &bytes))
    {
      g_free (wanted->fault);
      wanted->fault = g_strdup_printf ("its %" G_GUINT64_FORMAT " bytes are no valid UTF-8 text", bytes);
      plumb_json_skip (scan);
    }
  else if (type == PLUMB_JSON_ARRAY && wanted->list && wanted->string != NULL)
    *wanted->string = join_list (scan);
  else if (tree && (wanted->turns != NULL || wanted->node != NULL))
    take_tree (wanted, scan);
  else if (wanted->string != NULL)
    *wanted->string = read_scalar (scan, &wanted->wrong);
  else if (type != PLUMB_JSON_NULL)
    wanted->wrong = plumb_json_type_name (type);
}

/* Goes down a path such as "0.output"; FALSE if it leads nowhere. */
static gboolean
descend (PlumbJsonScan *scan, const char *path)
{
  while (*path != '\0')
    {
      gsize n = strcspn (path, ".");
      g_autofree char *step = g_strndup (path, n);
      g_autoptr (GString) key = g_string_new (NULL);
      guint64 place;
      gboolean found = FALSE;

      if (plumb_json_peek (scan) == PLUMB_JSON_OBJECT && plumb_json_enter_object (scan))
        while (!found && plumb_json_next_member (scan, key))
          if (!(found = g_str_equal (key->str, step)))
            plumb_json_skip (scan);
      if (!found && plumb_json_peek (scan) == PLUMB_JSON_ARRAY
          && g_ascii_string_to_unsigned (step, 10, 0, G_MAXUINT32, &place, NULL) && plumb_json_enter_array (scan))
        while (!found && plumb_json_next_element (scan))
          if (!(found = place-- == 0))
            plumb_json_skip (scan);
      if (!found)
        return FALSE;
      path += n + (path[n] == '.');
    }
  return TRUE;
}

static void
take_member (Wanted *wanted, gsize n, const char *key, PlumbJsonScan *scan)
{
  const char *start = scan->next;
  gsize length = strlen (key);

  for (gsize i = 0; i < n; i++)
    {
      PlumbJsonScan again = *scan;
      const char *path = wanted[i].key;

      if (path == NULL || strncmp (path, key, length) != 0 || (path[length] != '\0' && path[length] != '.'))
        continue;
      /* One key may serve two purposes (an answer that is also the response). */
      again.next = start;
      if (path[length] == '\0' || descend (&again, path + length + 1))
        take_value (&wanted[i], &again);
    }
  plumb_json_skip (scan);
}

static gboolean
is_there (const Wanted *wanted)
{
  return (wanted->string != NULL && *wanted->string != NULL) || (wanted->turns != NULL && *wanted->turns != NULL)
         || (wanted->node != NULL && *wanted->node != NULL);
}

static gboolean
check_wanted (const Wanted *wanted, GHashTable *seen, PlumbRowFault *fault)
{
  g_autofree const char **names = NULL;
  const char *nearest;
  guint n;

  if (wanted->key == NULL)
    return TRUE;
  if (wanted->fault != NULL)
    return fault_at (fault, g_strdup_printf ("%s: %s", wanted->key, wanted->fault), NULL);
  if (!wanted->needed)
    return TRUE;
  if (wanted->wrong != NULL)
    return fault_at (fault,
                     g_strdup_printf ("%s is %s, not %s", wanted->key, wanted->wrong,
                                      wanted->string == NULL  ? "a list of messages"
                                      : wanted->turns == NULL ? "a text or number"
                                                              : "a text, number or list of messages"),
                     NULL);
  if (!is_there (wanted))
    {
      names = (const char **)g_hash_table_get_keys_as_array (seen, &n);
      nearest = plumb_nearest_word (wanted->key, names, n);
      return fault_at (
          fault, g_strdup_printf ("%s is missing", wanted->key),
          nearest != NULL ? g_strdup_printf ("the nearest key of the row is %s", nearest) : NULL);
    }
  if (!wanted->may_be_empty && wanted->string != NULL && *wanted->string != NULL && (*wanted->string)->len == 0)
    return fault_at (fault, g_strdup_printf ("%s is empty", wanted->key), NULL);
  return TRUE;
}

static gboolean
malformed (PlumbJsonScan *scan, gsize offset, PlumbRowFault *fault)
{
  gboolean early = scan->at == (gsize)(scan->end - scan->data);

  return fault_at (fault,
                   g_strdup_printf ("this is no sound JSON: %s (at byte %" G_GSIZE_FORMAT
                                    " of the line, %" G_GSIZE_FORMAT " of the file)",
                                    early ? "it is incomplete" : scan->message, scan->at,
                                    offset + scan->at),
                   NULL);
}

/* A label that says nothing and a margin that is no number are faults of the row. */
static gboolean
check_numbers (const PlumbDataKeys *keys, const PlumbDataText *text, PlumbRowFault *fault)
{
  gboolean liked;

  if (keys->need_label && !plumb_data_label (text->label->str, &liked))
    return fault_at (fault,
                     g_strdup_printf ("%s is \"%.40s\", not a label", keys->label, text->label->str),
                     g_strdup ("write true or false, 1 or 0"));
  if (text->margin != NULL && !isfinite (plumb_data_number (text->margin->str)))
    return fault_at (
        fault, g_strdup_printf ("%s is \"%.40s\", not a number", keys->margin, text->margin->str),
        NULL);
  return TRUE;
}

static gboolean
read_members (Wanted *wanted, gsize n, PlumbJsonScan *scan, gsize offset, GHashTable *seen, PlumbRowFault *fault)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autofree char *twice = NULL;
  PlumbJsonType type = plumb_json_peek (scan);

  if (type != PLUMB_JSON_OBJECT)
    {
      plumb_json_skip (scan);
      if (!plumb_json_finish (scan))
        return malformed (scan, offset, fault);
      return fault_at (
          fault, g_strdup_printf ("the row is %s, not an object", plumb_json_type_name (type)),
          NULL);
    }
  plumb_json_enter_object (scan);
  while (plumb_json_next_member (scan, key))
    {
      if (!g_hash_table_add (seen, g_strdup (key->str)) && twice == NULL)
        twice = g_strdup (key->str);
      take_member (wanted, n, key->str, scan);
    }
  if (!plumb_json_finish (scan))
    return malformed (scan, offset, fault);
  if (twice != NULL)
    return fault_at (fault, g_strdup_printf ("%s stands twice in the row", twice), NULL);
  for (gsize i = 0; i < n; i++)
    if (!check_wanted (&wanted[i], seen, fault))
      return FALSE;
  return TRUE;
}

/* Puts both parts of a prompt into their form. An empty second part leaves the first alone. */
static void
join_prompt (const PlumbDataKeys *keys, PlumbDataText *text, GString *context)
{
  GString *prompt;

  if (context == NULL || context->len == 0 || text->prompt == NULL)
    return;
  prompt = g_string_new (NULL);
  for (const char *next = keys->form; *next != '\0'; next++)
    {
      const GString *part = g_str_has_prefix (next, "{1}")   ? text->prompt
                            : g_str_has_prefix (next, "{2}") ? context
                                                             : NULL;

      if (part != NULL)
        g_string_append_len (prompt, part->str, part->len);
      else
        g_string_append_c (prompt, *next);
      next += part != NULL ? 2 : 0;
    }
  g_string_free (text->prompt, TRUE);
  text->prompt = prompt;
}

gboolean
plumb_data_json_read (const char *line,
                      gsize length,
                      gsize offset,
                      const PlumbDataKeys *keys,
                      PlumbDataText *text,
                      PlumbRowFault *fault)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GString *context = NULL;
  gboolean answered = keys->need_response || keys->need_pair || keys->need_label, fine;
  PlumbJsonScan scan;
  Wanted wanted[] = {
    { keys->messages, NULL, &text->turns, .needed = TRUE },
    { keys->prompt, &text->prompt, keys->messages == NULL ? &text->turns : NULL, .needed = keys->messages == NULL, .list = keys->context != NULL },
    { keys->answer, &text->answer, .needed = keys->need_answer },
    { keys->response, &text->response, &text->response_turns, .needed = answered, .may_be_empty = keys->scored },
    { keys->rejected, &text->rejected, &text->rejected_turns, .needed = keys->need_pair },
    { keys->margin, &text->margin },
    { keys->label, &text->label, .needed = keys->need_label },
    { keys->system, &text->system },
    { keys->tools, .node = &text->tools },
    { keys->context, &context, .list = TRUE },
  };

  plumb_json_scan_init (&scan, line, length);
  fine = read_members (wanted, G_N_ELEMENTS (wanted), &scan, offset, seen, fault);
  for (gsize i = 0; i < G_N_ELEMENTS (wanted); i++)
    g_free (wanted[i].fault);
  if (fine)
    join_prompt (keys, text, context);
  if (context != NULL)
    g_string_free (context, TRUE);
  return fine && check_numbers (keys, text, fault) && plumb_chat_divide (keys, text, fault);
}

/* Adds the keys below a member: "instances.0.output". */
static void
add_inner_keys (PlumbJsonScan scan, const char *member, GPtrArray *found)
{
  g_autoptr (GString) key = g_string_new (NULL);
  gboolean array = plumb_json_peek (&scan) == PLUMB_JSON_ARRAY;

  if (array && (!plumb_json_enter_array (&scan) || !plumb_json_next_element (&scan)))
    return;
  if (plumb_json_peek (&scan) != PLUMB_JSON_OBJECT || !plumb_json_enter_object (&scan))
    return;
  while (plumb_json_next_member (&scan, key))
    {
      if (plumb_json_peek (&scan) != PLUMB_JSON_NULL)
        g_ptr_array_add (found, g_strconcat (member, array ? ".0." : ".", key->str, NULL));
      plumb_json_skip (&scan);
    }
}

gboolean
plumb_data_json_keys (const char *line, gsize length, GHashTable *seen)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) inner = g_ptr_array_new_with_free_func (g_free);
  PlumbJsonScan scan;

  plumb_json_scan_init (&scan, line, length);
  if (!plumb_json_enter_object (&scan))
    return FALSE;
  while (plumb_json_next_member (&scan, key))
    {
      if (plumb_json_peek (&scan) != PLUMB_JSON_NULL)
        g_ptr_array_add (found, g_strdup (key->str));
      add_inner_keys (scan, key->str, inner);
      plumb_json_skip (&scan);
    }
  if (!plumb_json_finish (&scan))
    return FALSE;
  for (guint i = 0; i < found->len && g_hash_table_size (seen) < MOST_KEYS; i++)
    g_hash_table_insert (seen, g_strdup (g_ptr_array_index (found, i)), GINT_TO_POINTER (OUTER_KEY));
  for (guint i = 0; i < inner->len && g_hash_table_size (seen) < MOST_KEYS; i++)
    if (!g_hash_table_contains (seen, g_ptr_array_index (inner, i)))
      g_hash_table_insert (seen, g_strdup (g_ptr_array_index (inner, i)), GINT_TO_POINTER (INNER_KEY));
  return TRUE;
}
