/* SPDX-License-Identifier: Apache-2.0 */
/* tojson: json.dumps of Python, whose spelling models were trained on. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/text/template-private.h"

typedef struct
{
  PlumbEval *e;
  GString *out;
  PlumbValue item, key; /* separators */
  PlumbValue indent;    /* of one level; UNDEFINED: all on one line */
  gboolean ascii, sort;
} Writer;

static void write_value (Writer *w, const PlumbValue *value, guint level);

static void
write_text (Writer *w, const PlumbValue *text)
{
  static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";

  g_string_append_c (w->out, '"');
  for (const char *c = text->s; c < text->s + text->n; c = g_utf8_next_char (c))
    {
      gunichar u = g_utf8_get_char (c);
      const char *known = u < 0x80 && u != 0 ? strchr (from, (int)u) : NULL;

      if (known != NULL)
        g_string_append_printf (w->out, "\\%c", to[known - from]);
      else if (u < 0x20 || (w->ascii && u >= 0x7f && u < 0x10000 && u != 0x7f))
        g_string_append_printf (w->out, "\\u%04x", u);
      else if (w->ascii && u >= 0x10000)
        g_string_append_printf (w->out, "\\u%04x\\u%04x", 0xd800 + ((u - 0x10000) >> 10),
                                0xdc00 + ((u - 0x10000) & 0x3ff));
      else
        g_string_append_unichar (w->out, u);
    }
  g_string_append_c (w->out, '"');
}

static void
write_break (Writer *w, guint level)
{
  if (w->indent.kind != VALUE_STRING)
    return;
  g_string_append_c (w->out, '\n');
  for (guint i = 0; i < level; i++)
    g_string_append_len (w->out, w->indent.s, w->indent.n);
}

static void
write_list (Writer *w, const PlumbList *list, guint level)
{
  g_string_append_c (w->out, '[');
  for (gsize i = 0; i < list->n; i++)
    {
      if (i > 0)
        g_string_append_len (w->out, w->item.s, w->item.n);
      write_break (w, level + 1);
      write_value (w, &list->items[i], level + 1);
    }
  if (list->n > 0)
    write_break (w, level);
  g_string_append_c (w->out, ']');
}

static void
write_key (Writer *w, const PlumbValue *key)
{
  g_autoptr (GString) text = g_string_new (NULL);
  PlumbValue name;

  switch (key->kind)
    {
    case VALUE_STRING:
      write_text (w, key);
      return;
    case VALUE_INT:
    case VALUE_FLOAT:
      plumb_value_print (key, text);
      break;
    case VALUE_BOOL:
      g_string_append (text, key->b ? "true" : "false");
      break;
    case VALUE_NONE:
      g_string_append (text, "null");
      break;
    default:
      plumb_eval_fail (w->e, "keys must be str, int, float, bool or None, not %s", plumb_value_type (key));
    }
  name = PLUMB_TEXT (text->str, text->len);
  write_text (w, &name);
}

static int
compare_keys (gconstpointer a, gconstpointer b, gpointer data)
{
  const PlumbDict *dict = data;
  const PlumbValue *x = &dict->keys[*(const gsize *)a], *y = &dict->keys[*(const gsize *)b];
  int order = x->kind == VALUE_STRING && y->kind == VALUE_STRING ? memcmp (x->s, y->s, MIN (x->n, y->n)) : 0;

  return order != 0 || x->kind != VALUE_STRING || y->kind != VALUE_STRING ? order
                                                                          : (x->n > y->n) - (x->n < y->n);
}

static void
write_dict (Writer *w, const PlumbDict *dict, guint level)
{
  g_autofree gsize *order = g_new (gsize, MAX (dict->n, 1));

  for (gsize i = 0; i < dict->n; i++)
    order[i] = i;
  if (w->sort)
    g_qsort_with_data (order, dict->n, sizeof *order, compare_keys, (gpointer)dict);
  g_string_append_c (w->out, '{');
  for (gsize i = 0; i < dict->n; i++)
    {
      if (i > 0)
        g_string_append_len (w->out, w->item.s, w->item.n);
      write_break (w, level + 1);
      write_key (w, &dict->keys[order[i]]);
      g_string_append_len (w->out, w->key.s, w->key.n);
      write_value (w, &dict->values[order[i]], level + 1);
    }
  if (dict->n > 0)
    write_break (w, level);
  g_string_append_c (w->out, '}');
}

static void
write_value (Writer *w, const PlumbValue *value, guint level)
{
  if (!plumb_eval_spend (w->e, w->out->len / 256))
    return;
  switch (value->kind)
    {
    case VALUE_NONE:
      g_string_append (w->out, "null");
      break;
    case VALUE_BOOL:
      g_string_append (w->out, value->b ? "true" : "false");
      break;
    case VALUE_FLOAT:
      if (!isfinite (value->f))
        g_string_append (w->out, isnan (value->f) ? "NaN" : value->f > 0 ? "Infinity" : "-Infinity");
      else
        plumb_append_float (value->f, w->out);
      break;
    case VALUE_INT:
      plumb_value_print (value, w->out);
      break;
    case VALUE_STRING:
      write_text (w, value);
      break;
    case VALUE_LIST:
    case VALUE_TUPLE:
      write_list (w, value->list, level);
      break;
    case VALUE_DICT:
      write_dict (w, value->dict, level);
      break;
    default:
      plumb_eval_fail (w->e, "Object of type %s is not JSON serializable", plumb_value_type (value));
    }
}

static void
read_indent (Writer *w, const PlumbValue *indent)
{
  static const char blanks[] = "                                ";

  if (indent == NULL || indent->kind == VALUE_NONE)
    return;
  if (indent->kind == VALUE_STRING)
    w->indent = *indent;
  else if (indent->kind == VALUE_INT && indent->i < (gint64)sizeof blanks)
    w->indent = PLUMB_TEXT (blanks, MAX (indent->i, 0));
  else
    plumb_eval_fail (w->e, "the indent of tojson is a number below %u or a text", (guint)sizeof blanks);
}

static void
read_separators (Writer *w, const PlumbValue *separators)
{
  const PlumbList *list = separators != NULL && separators->kind >= VALUE_LIST && separators->kind <= VALUE_TUPLE
                              ? separators->list
                              : NULL;

  w->item = w->indent.kind == VALUE_STRING ? PLUMB_TEXT (",", 1) : PLUMB_TEXT (", ", 2);
  w->key = PLUMB_TEXT (": ", 2);
  if (list != NULL && list->n == 2 && list->items[0].kind == VALUE_STRING && list->items[1].kind == VALUE_STRING)
    {
      w->item = list->items[0];
      w->key = list->items[1];
    }
}

PlumbValue
plumb_filter_tojson (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  g_autoptr (GString) out = g_string_new (NULL);
  Writer writer = { .e = e, .out = out };

  writer.ascii = plumb_arg_bool (args, 0, "ensure_ascii", FALSE);
  read_indent (&writer, plumb_arg (args, 1, "indent"));
  read_separators (&writer, plumb_arg (args, 2, "separators"));
  writer.sort = plumb_arg_bool (args, 3, "sort_keys", FALSE);
  if (e->error == NULL)
    write_value (&writer, self, 0);
  return plumb_eval_text (e, out->str, out->len);
}
