/* SPDX-License-Identifier: Apache-2.0 */
/* Filters on single values, and tests. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/text/template-private.h"

/* --- texts: a value that is none is spelled out first */

static PlumbValue
as_text (PlumbEval *e, const PlumbValue *self)
{
  GString *text;

  if (self->kind == VALUE_STRING)
    return *self;
  text = g_string_new (NULL);
  plumb_value_print (self, text);
  return plumb_eval_take (e, text);
}

static PlumbValue
filter_string (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return as_text (e, self);
}

static PlumbValue
filter_trim (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);
  const PlumbValue *chars = plumb_arg (args, 0, "chars");

  return plumb_text_strip (&text, chars != NULL && chars->kind == VALUE_STRING ? chars : NULL, TRUE, TRUE);
}

static PlumbValue
filter_upper (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);

  return plumb_text_case (e, &text, 'u');
}

static PlumbValue
filter_lower (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);

  return plumb_text_case (e, &text, 'l');
}

static PlumbValue
filter_capitalize (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);

  return plumb_text_case (e, &text, 'c');
}

/* A word starts behind a blank, a hyphen or an opening bracket. */
static PlumbValue
filter_title (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);
  GString *result = g_string_new (NULL);
  gboolean inside = FALSE;

  for (const char *c = text.s; c < text.s + text.n; c = g_utf8_next_char (c))
    {
      gunichar u = g_utf8_get_char (c);

      g_string_append_unichar (result, inside ? g_unichar_tolower (u) : g_unichar_toupper (u));
      inside = !(g_unichar_isspace (u) || (u < 0x80 && strchr ("-({[<", (int)u) != NULL));
    }
  return plumb_eval_take (e, result);
}

static PlumbValue
filter_replace (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);
  PlumbValue old = plumb_arg_text (e, args, 0, "old", NULL);
  PlumbValue content = plumb_arg_text (e, args, 1, "new", NULL);

  return e->error == NULL
             ? plumb_text_replace (e, &text, &old, &content, plumb_arg_int (e, args, 2, "count", -1))
             : PLUMB_UNDEFINED;
}

static PlumbValue
filter_escape (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);
  GString *result = g_string_new (NULL);

  for (gsize i = 0; i < text.n; i++)
    switch (text.s[i])
      {
      case '&':
        g_string_append (result, "&amp;");
        break;
      case '<':
        g_string_append (result, "&lt;");
        break;
      case '>':
        g_string_append (result, "&gt;");
        break;
      case '\'':
        g_string_append (result, "&#39;");
        break;
      case '"':
        g_string_append (result, "&#34;");
        break;
      default:
        g_string_append_c (result, text.s[i]);
      }
  return plumb_eval_take (e, result);
}

static PlumbValue
filter_safe (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return *self; /* nothing is escaped by itself */
}

/* Blanks in front of each line but the first, and of empty ones, unless asked for. */
static PlumbValue
filter_indent (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);
  const PlumbValue *width = plumb_arg (args, 0, "width");
  gboolean first = plumb_arg_bool (args, 1, "first", FALSE);
  gboolean blank = plumb_arg_bool (args, 2, "blank", FALSE);
  gint64 n = width != NULL && width->kind == VALUE_STRING ? 0 : plumb_arg_int (e, args, 0, "width", 4);
  g_autoptr (GString) indent = g_string_new (NULL);
  GString *result;

  if (n > 1000)
    return plumb_eval_fail (e, "the width of indent is out of range");
  if (width != NULL && width->kind == VALUE_STRING)
    g_string_append_len (indent, width->s, width->n);
  for (gint64 i = 0; i < n; i++)
    g_string_append_c (indent, ' ');
  if (!plumb_eval_spend (e, text.n * MIN (indent->len + 1, 1 << 20)))
    return PLUMB_UNDEFINED;
  result = g_string_new (first ? indent->str : NULL);
  for (gsize i = 0; i < text.n; i++)
    {
      g_string_append_c (result, text.s[i]);
      if (text.s[i] == '\n' && (blank || (i + 1 < text.n && text.s[i + 1] != '\n')))
        g_string_append_len (result, indent->str, indent->len);
    }
  return plumb_eval_take (e, result);
}

static PlumbValue
filter_center (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self), width = PLUMB_INT (plumb_arg_int (e, args, 0, "width", 80));
  PlumbArgs one = { &width, 1 };

  return plumb_string_method_find ("center")->call (e, &text, &one);
}

static PlumbValue
filter_truncate (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self), cut;
  gint64 length = plumb_arg_int (e, args, 0, "length", 255), leeway = plumb_arg_int (e, args, 3, "leeway", 5);
  PlumbValue end = plumb_arg_text (e, args, 2, "end", "...");
  gint64 n = plumb_text_count (&text), kept;
  GString *result;

  if (e->error != NULL || n <= length + leeway)
    return text;
  kept = length - (gint64)plumb_text_count (&end);
  if (kept < 0)
    return plumb_eval_fail (e, "the length of truncate is shorter than its end");
  cut = plumb_text_slice (e, &text, 0, kept, 1);
  if (!plumb_arg_bool (args, 1, "killwords", FALSE))
    {
      const char *blank = g_strrstr_len (cut.s, cut.n, " ");

      if (blank != NULL)
        cut.n = blank - cut.s;
    }
  result = g_string_new_len (cut.s, cut.n);
  g_string_append_len (result, end.s, end.n);
  return plumb_eval_take (e, result);
}

static PlumbValue
filter_wordcount (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);
  gint64 n = 0;
  gboolean inside = FALSE;

  for (const char *c = text.s; c < text.s + text.n; c = g_utf8_next_char (c))
    {
      gunichar u = g_utf8_get_char (c);
      gboolean word = g_unichar_isalnum (u) || u == '_';

      n += word && !inside;
      inside = word;
    }
  return PLUMB_INT (n);
}

static PlumbValue
filter_urlencode (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);
  g_autofree char *plain = g_strndup (text.s, text.n);
  g_autofree char *escaped = g_uri_escape_string (plain, "/", FALSE);

  return plumb_eval_text (e, escaped, strlen (escaped));
}

static PlumbValue
filter_format (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue text = as_text (e, self);

  return plumb_text_format (e, &text, args);
}

/* --- numbers */

static PlumbValue
filter_int (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  gint64 otherwise = plumb_arg_int (e, args, 0, "default", 0), base = plumb_arg_int (e, args, 1, "base", 10);
  PlumbValue text;
  g_autofree char *plain = NULL;
  gint64 number;
  double real;
  char *end;

  if (self->kind == VALUE_INT || self->kind == VALUE_BOOL)
    return PLUMB_INT (self->kind == VALUE_INT ? self->i : self->b);
  if (self->kind == VALUE_FLOAT)
    return isfinite (self->f) && fabs (self->f) < 9e18 ? PLUMB_INT ((gint64)self->f) : PLUMB_INT (otherwise);
  if (self->kind != VALUE_STRING || base < 2 || base > 36)
    return PLUMB_INT (otherwise);
  text = plumb_text_strip (self, NULL, TRUE, TRUE);
  plain = g_strndup (text.s, text.n);
  if (base != 10 && plain[0] == '0' && plain[1] != '\0'
      && g_ascii_tolower (plain[1]) == (base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : 0))
    memset (plain, '0', 2);
  if (*plain != '\0' && g_ascii_string_to_signed (plain, base, G_MININT64, G_MAXINT64, &number, NULL))
    return PLUMB_INT (number);
  real = g_ascii_strtod (plain, &end);
  return *plain != '\0' && *end == '\0' && base == 10 && isfinite (real) && fabs (real) < 9e18
             ? PLUMB_INT ((gint64)real)
             : PLUMB_INT (otherwise);
}

static PlumbValue
filter_float (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbValue *otherwise = plumb_arg (args, 0, "default");
  PlumbValue text;
  g_autofree char *plain = NULL;
  double number;
  char *end;

  if (self->kind == VALUE_FLOAT)
    return *self;
  if (self->kind == VALUE_INT || self->kind == VALUE_BOOL)
    return PLUMB_FLOAT (self->kind == VALUE_INT ? (double)self->i : self->b);
  if (self->kind == VALUE_STRING)
    {
      text = plumb_text_strip (self, NULL, TRUE, TRUE);
      plain = g_strndup (text.s, text.n);
      number = g_ascii_strtod (plain, &end);
      if (*plain != '\0' && *end == '\0')
        return PLUMB_FLOAT (number);
    }
  return otherwise != NULL ? *otherwise : PLUMB_FLOAT (0.0);
}

static PlumbValue
filter_abs (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  if (self->kind == VALUE_INT && self->i > G_MININT64)
    return PLUMB_INT (ABS (self->i));
  return self->kind == VALUE_FLOAT ? PLUMB_FLOAT (fabs (self->f))
                                   : plumb_eval_fail (e, "bad operand type for abs(): '%s'", plumb_value_type (self));
}

static PlumbValue
filter_round (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  gint64 digits = CLAMP (plumb_arg_int (e, args, 0, "precision", 0), -300, 300);
  PlumbValue method = plumb_arg_text (e, args, 1, "method", "common");
  double number = self->kind == VALUE_FLOAT ? self->f : self->kind == VALUE_INT ? (double)self->i : self->b;
  double scale = pow (10, digits);
  char text[400];

  if (self->kind != VALUE_INT && self->kind != VALUE_FLOAT && self->kind != VALUE_BOOL)
    return plumb_eval_fail (e, "type %s doesn't define __round__ method", plumb_value_type (self));
  if (e->error != NULL)
    return PLUMB_UNDEFINED;
  if (method.n == 4 && memcmp (method.s, "ceil", 4) == 0)
    return PLUMB_FLOAT (ceil (number * scale) / scale);
  if (method.n == 5 && memcmp (method.s, "floor", 5) == 0)
    return PLUMB_FLOAT (floor (number * scale) / scale);
  if (self->kind != VALUE_FLOAT && digits >= 0)
    return *self;
  if (digits < 0 || digits > 20 || !isfinite (number))
    return PLUMB_FLOAT (isfinite (number) && digits < 0 ? rint (number * scale) / scale : number);
  g_snprintf (text, sizeof text, "%.*f", (int)digits, number);
  return PLUMB_FLOAT (g_ascii_strtod (text, NULL));
}

/* --- any value */

static PlumbValue
filter_default (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbValue *otherwise = plumb_arg (args, 0, "default_value");
  gboolean missing = self->kind == VALUE_UNDEFINED
                     || (plumb_arg_bool (args, 1, "boolean", FALSE) && !plumb_value_is_true (self));

  if (!missing)
    return *self;
  return otherwise != NULL ? *otherwise : PLUMB_TEXT ("", 0);
}

static PlumbValue
filter_length (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  switch (self->kind)
    {
    case VALUE_STRING:
      return PLUMB_INT (plumb_text_count (self));
    case VALUE_LIST:
    case VALUE_TUPLE:
      return PLUMB_INT (self->list->n);
    case VALUE_DICT:
      return PLUMB_INT (self->dict->n);
    case VALUE_UNDEFINED:
      return PLUMB_INT (0);
    default:
      return plumb_eval_fail (e, "object of type '%s' has no len()", plumb_value_type (self));
    }
}

/* Attributes only: the items of a dictionary are none. */
static PlumbValue
filter_attr (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue name = plumb_arg_text (e, args, 0, "name", NULL), bare = *self;

  if (e->error != NULL)
    return PLUMB_UNDEFINED;
  if (self->kind == VALUE_DICT)
    bare = plumb_value_dict (e->arena);
  return plumb_eval_attribute (e, &bare, plumb_arena_copy (e->arena, name.s, name.n));
}

static PlumbValue
filter_items (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  if (self->kind == VALUE_UNDEFINED)
    return plumb_value_list (e->arena, VALUE_LIST);
  if (self->kind != VALUE_DICT)
    return plumb_eval_fail (e, "Can only get item pairs from a mapping.");
  return plumb_dict_method_find ("items")->call (e, self, args);
}

const PlumbBuiltin *
plumb_filter_find (const char *name)
{
  static const PlumbBuiltin table[] = {
    { "string", filter_string },       { "trim", filter_trim },
    { "upper", filter_upper },         { "lower", filter_lower },
    { "capitalize", filter_capitalize }, { "title", filter_title },
    { "replace", filter_replace },     { "escape", filter_escape },
    { "e", filter_escape },            { "forceescape", filter_escape },
    { "safe", filter_safe },           { "indent", filter_indent },
    { "center", filter_center },       { "truncate", filter_truncate },
    { "wordcount", filter_wordcount }, { "urlencode", filter_urlencode },
    { "format", filter_format },       { "int", filter_int },
    { "float", filter_float },         { "abs", filter_abs },
    { "round", filter_round },         { "default", filter_default },
    { "d", filter_default },           { "length", filter_length },
    { "count", filter_length },        { "attr", filter_attr },
    { "items", filter_items },         { "tojson", plumb_filter_tojson },
  };

  return plumb_builtin_find (table, G_N_ELEMENTS (table), name);
}

/* --- tests */

static gboolean
is_number (const PlumbValue *v)
{
  return v->kind == VALUE_INT || v->kind == VALUE_FLOAT || v->kind == VALUE_BOOL;
}

static gboolean
is_sequence (const PlumbValue *v)
{
  return v->kind == VALUE_STRING || v->kind == VALUE_LIST || v->kind == VALUE_TUPLE || v->kind == VALUE_DICT;
}

/* Tests that only look at the kind of a value. */
static int
test_kind (const char *name, const PlumbValue *v)
{
  const struct
  {
    const char *name;
    gboolean result;
  } results[] = {
    { "defined", v->kind != VALUE_UNDEFINED },
    { "undefined", v->kind == VALUE_UNDEFINED },
    { "none", v->kind == VALUE_NONE },
    { "boolean", v->kind == VALUE_BOOL },
    { "true", v->kind == VALUE_BOOL && v->b },
    { "false", v->kind == VALUE_BOOL && !v->b },
    { "integer", v->kind == VALUE_INT },
    { "float", v->kind == VALUE_FLOAT },
    { "number", is_number (v) },
    { "string", v->kind == VALUE_STRING },
    { "mapping", v->kind == VALUE_DICT },
    { "sequence", is_sequence (v) || v->kind == VALUE_UNDEFINED },
    { "iterable", is_sequence (v) || v->kind == VALUE_UNDEFINED || v->kind == VALUE_LOOP },
    { "callable", v->kind >= VALUE_LOOP },
    { "escaped", FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (results); i++)
    if (g_str_equal (results[i].name, name))
      return results[i].result;
  return -1;
}

/* Comparisons by their names and signs. */
static gboolean
find_comparison (const char *name, PlumbOperator *op)
{
  static const struct
  {
    const char *name;
    PlumbOperator op;
  } comparisons[] = {
    { "==", OP_EQUAL },          { "eq", OP_EQUAL },           { "equalto", OP_EQUAL },
    { "!=", OP_NOT_EQUAL },      { "ne", OP_NOT_EQUAL },       { "<", OP_LESS },
    { "lt", OP_LESS },           { "lessthan", OP_LESS },      { "<=", OP_LESS_EQUAL },
    { "le", OP_LESS_EQUAL },     { ">", OP_GREATER },          { "gt", OP_GREATER },
    { "greaterthan", OP_GREATER }, { ">=", OP_GREATER_EQUAL }, { "ge", OP_GREATER_EQUAL },
    { "in", OP_IN },             { "sameas", OP_EQUAL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (comparisons); i++)
    if (g_str_equal (comparisons[i].name, name))
      {
        *op = comparisons[i].op;
        return TRUE;
      }
  return FALSE;
}

static gboolean
test_number (PlumbEval *e, const char *name, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue divisor = PLUMB_INT (2), rest, zero = PLUMB_INT (g_str_equal (name, "odd"));

  if (g_str_equal (name, "divisibleby") && args->n > 0)
    divisor = args->values[0];
  rest = plumb_eval_binary (e, OP_MODULO, self, &divisor);
  return e->error == NULL && plumb_value_equal (&rest, &zero);
}

static gboolean
test_case (const PlumbValue *self, const char *method, PlumbEval *e)
{
  PlumbValue text = as_text (e, self), result;
  PlumbArgs none = { NULL };

  result = plumb_string_method_find (method)->call (e, &text, &none);
  return plumb_value_is_true (&result);
}

gboolean
plumb_eval_test (PlumbEval *e, const char *name, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbOperator op;
  int result = test_kind (name, self);

  if (result >= 0)
    return result;
  if (find_comparison (name, &op))
    {
      if (args->n == 0)
        {
          plumb_eval_fail (e, "the test '%s' needs a value to compare with", name);
          return FALSE;
        }
      return plumb_eval_compare (e, op, self, &args->values[0]);
    }
  if (g_str_equal (name, "even") || g_str_equal (name, "odd") || g_str_equal (name, "divisibleby"))
    return test_number (e, name, self, args);
  if (g_str_equal (name, "upper"))
    return test_case (self, "isupper", e);
  if (g_str_equal (name, "lower"))
    return test_case (self, "islower", e);
  if (g_str_equal (name, "filter"))
    return self->kind == VALUE_STRING
           && (plumb_filter_find (self->s) != NULL || plumb_list_filter_find (self->s) != NULL);
  plumb_eval_fail (e, "No test named '%s'.", name);
  return FALSE;
}
