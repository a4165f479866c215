/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a template, spelled and compared as Python has them. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/text/template-private.h"

#define BLOCK (64 * 1024)

void
plumb_arena_init (PlumbArena *arena)
{
  *arena = (PlumbArena){ .blocks = g_ptr_array_new_with_free_func (g_free) };
}

void
plumb_arena_clear (PlumbArena *arena)
{
  g_clear_pointer (&arena->blocks, g_ptr_array_unref);
}

gpointer
plumb_arena_alloc (PlumbArena *arena, gsize size)
{
  gpointer place;

  size = (size + 15) & ~(gsize)15;
  arena->used += size;
  if (size > BLOCK / 4)
    {
      place = g_malloc0 (size);
      g_ptr_array_add (arena->blocks, place);
      return place;
    }
  if (size > arena->left)
    {
      arena->next = g_malloc0 (BLOCK);
      arena->left = BLOCK;
      g_ptr_array_add (arena->blocks, arena->next);
    }
  place = arena->next;
  arena->next += size;
  arena->left -= size;
  return place;
}

char *
plumb_arena_copy (PlumbArena *arena, const char *text, gsize length)
{
  char *copy = plumb_arena_alloc (arena, length + 1);

  memcpy (copy, text, length);
  return copy;
}

PlumbValue
plumb_value_list (PlumbArena *arena, PlumbValueKind kind)
{
  return (PlumbValue){ .kind = kind, .list = plumb_arena_alloc (arena, sizeof (PlumbList)) };
}

static gpointer
grow (PlumbArena *arena, gconstpointer old, gsize n, gsize room, gsize size)
{
  gpointer grown = plumb_arena_alloc (arena, room * size);

  if (n > 0)
    memcpy (grown, old, n * size);
  return grown;
}

gsize
plumb_value_weight (const PlumbValue *value)
{
  switch (value->kind)
    {
    case VALUE_STRING:
      return 16 + value->n;
    case VALUE_LIST:
    case VALUE_TUPLE:
      return 16 + value->list->weight;
    case VALUE_DICT:
      return 16 + value->dict->weight;
    default:
      return 16;
    }
}

gsize
plumb_value_size (const PlumbValue *value)
{
  switch (value->kind)
    {
    case VALUE_STRING:
      return value->n;
    case VALUE_LIST:
    case VALUE_TUPLE:
      return 16 * value->list->n;
    case VALUE_DICT:
    case VALUE_NAMESPACE:
      return 16 * value->dict->n;
    default:
      return 0;
    }
}

guint
plumb_value_depth (const PlumbValue *value)
{
  if (value->kind == VALUE_DICT)
    return 1 + value->dict->depth;
  return value->kind == VALUE_LIST || value->kind == VALUE_TUPLE ? 1 + value->list->depth : 0;
}

static gsize
add_weight (gsize weight, const PlumbValue *value)
{
  gsize more = plumb_value_weight (value);

  return weight > G_MAXSIZE / 2 - more ? G_MAXSIZE / 2 : weight + more;
}

void
plumb_list_add (PlumbArena *arena, PlumbList *list, PlumbValue value)
{
  if (list->n == list->room)
    {
      list->room = list->room > 0 ? 2 * list->room : 4;
      list->items = grow (arena, list->items, list->n, list->room, sizeof (PlumbValue));
    }
  list->items[list->n++] = value;
  list->weight = add_weight (list->weight, &value);
  list->depth = MAX (list->depth, plumb_value_depth (&value));
}

PlumbValue
plumb_value_dict (PlumbArena *arena)
{
  return (PlumbValue){ .kind = VALUE_DICT, .dict = plumb_arena_alloc (arena, sizeof (PlumbDict)) };
}

const PlumbValue *
plumb_dict_get (const PlumbDict *dict, const PlumbValue *key)
{
  for (gsize i = 0; i < dict->n; i++)
    if (plumb_value_equal (&dict->keys[i], key))
      return &dict->values[i];
  return NULL;
}

const PlumbValue *
plumb_dict_get_text (const PlumbDict *dict, const char *key)
{
  PlumbValue text = PLUMB_TEXT (key, strlen (key));

  return plumb_dict_get (dict, &text);
}

void
plumb_dict_set (PlumbArena *arena, PlumbDict *dict, PlumbValue key, PlumbValue value)
{
  for (gsize i = 0; i < dict->n; i++)
    if (plumb_value_equal (&dict->keys[i], &key))
      {
        dict->weight = add_weight (dict->weight, &value);
        dict->depth = MAX (dict->depth, plumb_value_depth (&value));
        dict->values[i] = value;
        return;
      }
  plumb_dict_add (arena, dict, key, value);
}

void
plumb_dict_add (PlumbArena *arena, PlumbDict *dict, PlumbValue key, PlumbValue value)
{
  if (dict->n == dict->room)
    {
      dict->room = dict->room > 0 ? 2 * dict->room : 4;
      dict->keys = grow (arena, dict->keys, dict->n, dict->room, sizeof (PlumbValue));
      dict->values = grow (arena, dict->values, dict->n, dict->room, sizeof (PlumbValue));
    }
  dict->weight = add_weight (add_weight (dict->weight, &key), &value);
  dict->depth = MAX (dict->depth, plumb_value_depth (&value));
  dict->keys[dict->n] = key;
  dict->values[dict->n++] = value;
}

static PlumbValue
from_scalar (PlumbArena *arena, JsonNode *node)
{
  switch (json_node_get_value_type (node))
    {
    case G_TYPE_BOOLEAN:
      return PLUMB_BOOL (json_node_get_boolean (node));
    case G_TYPE_INT64:
      return PLUMB_INT (json_node_get_int (node));
    case G_TYPE_DOUBLE:
      return PLUMB_FLOAT (json_node_get_double (node));
    case G_TYPE_STRING:
      {
        const char *text = json_node_get_string (node);
        gsize length = strlen (text);

        return PLUMB_TEXT (plumb_arena_copy (arena, text, length), length);
      }
    default:
      return PLUMB_NONE;
    }
}

PlumbValue
plumb_value_from_json (PlumbArena *arena, JsonNode *node)
{
  PlumbValue value = PLUMB_NONE;

  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return value;
  if (JSON_NODE_HOLDS_ARRAY (node))
    {
      JsonArray *array = json_node_get_array (node);

      value = plumb_value_list (arena, VALUE_LIST);
      for (guint i = 0; i < json_array_get_length (array); i++)
        plumb_list_add (arena, value.list,
                        plumb_value_from_json (arena, json_array_get_element (array, i)));
      return value;
    }
  if (JSON_NODE_HOLDS_OBJECT (node))
    {
      JsonObjectIter iter;
      const char *name;
      JsonNode *member;

      value = plumb_value_dict (arena);
      json_object_iter_init_ordered (&iter, json_node_get_object (node));
      while (json_object_iter_next_ordered (&iter, &name, &member))
        {
          gsize length = strlen (name);

          plumb_dict_add (arena, value.dict,
                          PLUMB_TEXT (plumb_arena_copy (arena, name, length), length),
                          plumb_value_from_json (arena, member));
        }
      return value;
    }
  return from_scalar (arena, node);
}

gboolean
plumb_value_is_true (const PlumbValue *value)
{
  switch (value->kind)
    {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
      return FALSE;
    case VALUE_BOOL:
      return value->b;
    case VALUE_INT:
      return value->i != 0;
    case VALUE_FLOAT:
      return value->f != 0;
    case VALUE_STRING:
      return value->n > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
      return value->list->n > 0;
    case VALUE_DICT:
      return value->dict->n > 0;
    case VALUE_NAMESPACE:
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
    case VALUE_METHOD:
      return TRUE;
    }
  return FALSE;
}

static gboolean
is_number (const PlumbValue *value)
{
  return value->kind == VALUE_INT || value->kind == VALUE_FLOAT || value->kind == VALUE_BOOL;
}

static double
to_double (const PlumbValue *value)
{
  return value->kind == VALUE_FLOAT ? value->f
         : value->kind == VALUE_INT ? (double)value->i
                                    : value->b;
}

static gboolean
lists_equal (const PlumbList *a, const PlumbList *b)
{
  if (a->n != b->n)
    return FALSE;
  for (gsize i = 0; i < a->n; i++)
    if (!plumb_value_equal (&a->items[i], &b->items[i]))
      return FALSE;
  return TRUE;
}

static gboolean
dicts_equal (const PlumbDict *a, const PlumbDict *b)
{
  if (a->n != b->n)
    return FALSE;
  for (gsize i = 0; i < a->n; i++)
    {
      const PlumbValue *other = plumb_dict_get (b, &a->keys[i]);

      if (other == NULL || !plumb_value_equal (&a->values[i], other))
        return FALSE;
    }
  return TRUE;
}

gboolean
plumb_value_equal (const PlumbValue *a, const PlumbValue *b)
{
  if (is_number (a) && is_number (b))
    return a->kind == VALUE_INT && b->kind == VALUE_INT ? a->i == b->i
                                                        : to_double (a) == to_double (b);
  if (a->kind != b->kind)
    return FALSE;
  switch (a->kind)
    {
    case VALUE_STRING:
      return a->n == b->n && memcmp (a->s, b->s, a->n) == 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
      return a->list == b->list || lists_equal (a->list, b->list);
    case VALUE_DICT:
      return a->dict == b->dict || dicts_equal (a->dict, b->dict);
    case VALUE_NAMESPACE:
      return a->dict == b->dict;
    case VALUE_LOOP:
      return a->loop == b->loop;
    case VALUE_MACRO:
      return a->macro == b->macro;
    case VALUE_FUNCTION:
      return a->function == b->function;
    case VALUE_METHOD:
      return a->method == b->method;
    case VALUE_UNDEFINED:
    case VALUE_NONE:
    case VALUE_BOOL:
    case VALUE_INT:
    case VALUE_FLOAT:
      break;
    }
  return TRUE;
}

const char *
plumb_value_type (const PlumbValue *value)
{
  static const char *const names[]
      = { "Undefined", "NoneType", "bool",        "int",   "float",    "str",     "list",
          "tuple",     "dict",     "Namespace", "LoopContext", "Macro", "function", "method" };

  return names[value->kind];
}

/* The fewest digits that give the number back, as Python writes it. */
void
plumb_append_float (double number, GString *out)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE + 8];
  int exponent = 0;

  if (!isfinite (number))
    {
      g_string_append (out, isnan (number) ? "nan" : number > 0 ? "inf" : "-inf");
      return;
    }
  for (int digits = 1; digits <= 17; digits++)
    {
      char format[8];

      g_snprintf (format, sizeof format, "%%.%de", digits - 1);
      g_ascii_formatd (text, sizeof text, format, number);
      if (g_ascii_strtod (text, NULL) != number)
        continue;
      exponent = atoi (strchr (text, 'e') + 1);
      if (exponent >= -4 && exponent < 16)
        {
          g_snprintf (format, sizeof format, "%%.%df", MAX (digits - 1 - exponent, 1));
          g_ascii_formatd (text, sizeof text, format, number);
        }
      break;
    }
  g_string_append (out, text);
}

static void
repr_text (const PlumbValue *value, GString *out)
{
  char quote = memchr (value->s, '\'', value->n) != NULL && memchr (value->s, '"', value->n) == NULL
                   ? '"'
                   : '\'';

  g_string_append_c (out, quote);
  for (const char *c = value->s; c < value->s + value->n; c = g_utf8_next_char (c))
    {
      gunichar u = (guchar)*c < 0x80 ? (gunichar)*c : g_utf8_get_char (c);

      if (u == (gunichar)quote || u == '\\')
        g_string_append_printf (out, "\\%c", (char)u);
      else if (u == '\n' || u == '\r' || u == '\t')
        g_string_append (out, u == '\n' ? "\\n" : u == '\r' ? "\\r" : "\\t");
      else if (u < 0x20 || u == 0x7f)
        g_string_append_printf (out, "\\x%02x", u);
      else if (u >= 0x80 && u < 0x100 && !g_unichar_isprint (u))
        g_string_append_printf (out, "\\x%02x", u);
      else if (u >= 0x100 && !g_unichar_isprint (u))
        g_string_append_printf (out, u < 0x10000 ? "\\u%04x" : "\\U%08x", u);
      else
        g_string_append_unichar (out, u);
    }
  g_string_append_c (out, quote);
}

static void
repr_list (const PlumbList *list, const char *brackets, GString *out)
{
  g_string_append_c (out, brackets[0]);
  for (gsize i = 0; i < list->n; i++)
    {
      if (i > 0)
        g_string_append (out, ", ");
      plumb_value_repr (&list->items[i], out);
    }
  if (brackets[0] == '(' && list->n == 1)
    g_string_append_c (out, ',');
  g_string_append_c (out, brackets[1]);
}

static void
repr_dict (const PlumbDict *dict, GString *out)
{
  g_string_append_c (out, '{');
  for (gsize i = 0; i < dict->n; i++)
    {
      if (i > 0)
        g_string_append (out, ", ");
      plumb_value_repr (&dict->keys[i], out);
      g_string_append (out, ": ");
      plumb_value_repr (&dict->values[i], out);
    }
  g_string_append_c (out, '}');
}

void
plumb_value_print (const PlumbValue *value, GString *out)
{
  if (value->kind == VALUE_STRING)
    g_string_append_len (out, value->s, value->n);
  else
    plumb_value_repr (value, out);
}

void
plumb_value_repr (const PlumbValue *value, GString *out)
{
  switch (value->kind)
    {
    case VALUE_UNDEFINED:
      return;
    case VALUE_NONE:
      g_string_append (out, "None");
      return;
    case VALUE_BOOL:
      g_string_append (out, value->b ? "True" : "False");
      return;
    case VALUE_INT:
      g_string_append_printf (out, "%" G_GINT64_FORMAT, value->i);
      return;
    case VALUE_FLOAT:
      plumb_append_float (value->f, out);
      return;
    case VALUE_STRING:
      repr_text (value, out);
      return;
    case VALUE_LIST:
      repr_list (value->list, "[]", out);
      return;
    case VALUE_TUPLE:
      repr_list (value->list, "()", out);
      return;
    case VALUE_DICT:
      repr_dict (value->dict, out);
      return;
    case VALUE_NAMESPACE:
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
    case VALUE_METHOD:
      g_string_append_printf (out, "<%s>", plumb_value_type (value));
      return;
    }
}
