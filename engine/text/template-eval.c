/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the expressions of a template. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/text/template-private.h"

#define MOST_STEPS (20 * 1000 * 1000)
#define MOST_BYTES ((gsize)256 << 20)  /* of values */
#define MOST_OUTPUT ((gsize)64 << 20)  /* of one text, and of one value spelled out */

PlumbValue
plumb_eval_fail (PlumbEval *e, const char *format, ...)
{
  va_list arguments;

  if (e->error == NULL)
    {
      g_autofree char *what = NULL;

      va_start (arguments, format);
      what = g_strdup_vprintf (format, arguments);
      va_end (arguments);
      e->error = g_error_new (PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: line %u: %s", e->name, e->line,
                              what);
    }
  return PLUMB_UNDEFINED;
}

gboolean
plumb_eval_spend (PlumbEval *e, gsize bytes)
{
  e->steps += 1 + bytes / 64;
  if (e->error != NULL)
    return FALSE;
  if (e->steps > MOST_STEPS || bytes > MOST_BYTES || e->arena->used > MOST_BYTES - bytes
      || (e->out != NULL && e->out->len > MOST_OUTPUT))
    plumb_eval_fail (e, "the template works without end, or its text grows beyond %u MiB",
                     (guint)(MOST_OUTPUT >> 20));
  return e->error == NULL;
}

PlumbValue
plumb_eval_text (PlumbEval *e, const char *text, gsize length)
{
  if (!plumb_eval_spend (e, length))
    return PLUMB_UNDEFINED;
  return PLUMB_TEXT (plumb_arena_copy (e->arena, text, length), length);
}

PlumbValue
plumb_eval_take (PlumbEval *e, GString *text)
{
  PlumbValue value = plumb_eval_text (e, text->str, text->len);

  g_string_free (text, TRUE);
  return value;
}

/* --- arguments */

const PlumbValue *
plumb_arg (const PlumbArgs *args, gsize index, const char *name)
{
  if (index < args->n)
    return &args->values[index];
  for (gsize i = 0; name != NULL && i < args->n_named; i++)
    if (g_str_equal (args->names[i], name))
      return &args->named[i];
  return NULL;
}

gint64
plumb_arg_int (PlumbEval *e, const PlumbArgs *args, gsize index, const char *name, gint64 otherwise)
{
  const PlumbValue *value = plumb_arg (args, index, name);

  if (value == NULL || value->kind == VALUE_NONE)
    return otherwise;
  if (value->kind == VALUE_INT)
    return value->i;
  if (value->kind == VALUE_BOOL)
    return value->b;
  plumb_eval_fail (e, "'%s' object cannot be interpreted as an integer", plumb_value_type (value));
  return otherwise;
}

gboolean
plumb_arg_bool (const PlumbArgs *args, gsize index, const char *name, gboolean otherwise)
{
  const PlumbValue *value = plumb_arg (args, index, name);

  return value != NULL ? plumb_value_is_true (value) : otherwise;
}

PlumbValue
plumb_arg_text (
    PlumbEval *e, const PlumbArgs *args, gsize index, const char *name, const char *otherwise)
{
  const PlumbValue *value = plumb_arg (args, index, name);

  if (value != NULL && value->kind == VALUE_STRING)
    return *value;
  if (value == NULL && otherwise != NULL)
    return PLUMB_TEXT (otherwise, strlen (otherwise));
  return value == NULL ? plumb_eval_fail (e, "an argument is missing")
                       : plumb_eval_fail (e, "a text is needed here, not '%s'",
                                          plumb_value_type (value));
}

static void
add_star (PlumbEval *e, const PlumbValue *value, PlumbList *list)
{
  const PlumbList *items = plumb_eval_items (e, value);

  for (gsize i = 0; items != NULL && i < items->n; i++)
    plumb_list_add (e->arena, list, items->items[i]);
}

static void
add_stars (PlumbEval *e, const PlumbValue *value, PlumbDict *named)
{
  if (value->kind != VALUE_DICT)
    plumb_eval_fail (e, "argument after ** must be a mapping, not %s", plumb_value_type (value));
  for (gsize i = 0; value->kind == VALUE_DICT && i < value->dict->n; i++)
    if (value->dict->keys[i].kind == VALUE_STRING)
      plumb_dict_set (e->arena, named, value->dict->keys[i], value->dict->values[i]);
}

PlumbArgs
plumb_eval_args (PlumbEval *e, const PlumbNode *argument)
{
  PlumbList list = { NULL };
  PlumbDict named = { NULL };
  const char **names;

  for (; argument != NULL && e->error == NULL; argument = argument->next)
    {
      PlumbValue value = plumb_eval (e, argument->a);

      if (e->error != NULL)
        break;
      if (argument->name != NULL)
        plumb_dict_set (e->arena, &named, PLUMB_TEXT (argument->name, strlen (argument->name)), value);
      else if (argument->op == OP_STAR)
        add_star (e, &value, &list);
      else if (argument->op == OP_STARS)
        add_stars (e, &value, &named);
      else
        plumb_list_add (e->arena, &list, value);
    }
  names = plumb_arena_alloc (e->arena, (named.n + 1) * sizeof (char *));
  for (gsize i = 0; i < named.n; i++)
    names[i] = named.keys[i].s;
  return (PlumbArgs){ list.items, list.n, names, named.values, named.n };
}

/* --- names, attributes, items */

static PlumbValue
undefined (const char *name, const char *owner)
{
  return (PlumbValue){ .kind = VALUE_UNDEFINED, .name = name, .owner = owner };
}

/* An undefined value may be tested and printed, but has no parts. */
static PlumbValue
fail_undefined (PlumbEval *e, const PlumbValue *value)
{
  if (value->owner != NULL && *value->owner == '\0')
    return plumb_eval_fail (e, "%s", value->name);
  if (value->owner != NULL)
    return plumb_eval_fail (e, "'%s object' has no attribute '%s'", value->owner, value->name);
  return plumb_eval_fail (e, "'%s' is undefined", value->name != NULL ? value->name : "a value");
}

static PlumbValue
eval_name (PlumbEval *e, const char *name)
{
  const PlumbBuiltin *function;

  for (PlumbFrame *frame = e->frame; frame != NULL; frame = frame->outer)
    for (gsize i = frame->n; i > 0; i--)
      if (g_str_equal (frame->variables[i - 1].name, name))
        return frame->variables[i - 1].value;
  function = plumb_function_find (name);
  if (function != NULL)
    return (PlumbValue){ .kind = VALUE_FUNCTION, .function = function };
  return undefined (name, NULL);
}

static const PlumbBuiltin *
find_method (const PlumbValue *object, const char *name)
{
  switch (object->kind)
    {
    case VALUE_STRING:
      return plumb_string_method_find (name);
    case VALUE_DICT:
      return plumb_dict_method_find (name);
    case VALUE_LIST:
    case VALUE_TUPLE:
      return plumb_list_method_find (name);
    default:
      return NULL;
    }
}

static PlumbValue
loop_attribute (PlumbEval *e, const PlumbLoop *loop, const char *name)
{
  static const PlumbBuiltin methods[] = { { "cycle" }, { "changed" } };

  if (g_str_equal (name, "index"))
    return PLUMB_INT (loop->index + 1);
  if (g_str_equal (name, "index0"))
    return PLUMB_INT (loop->index);
  if (g_str_equal (name, "revindex"))
    return PLUMB_INT (loop->length - loop->index);
  if (g_str_equal (name, "revindex0"))
    return PLUMB_INT (loop->length - loop->index - 1);
  if (g_str_equal (name, "first"))
    return PLUMB_BOOL (loop->index == 0);
  if (g_str_equal (name, "last"))
    return PLUMB_BOOL (loop->index + 1 == loop->length);
  if (g_str_equal (name, "length"))
    return PLUMB_INT (loop->length);
  if (g_str_equal (name, "depth"))
    return PLUMB_INT (loop->depth);
  if (g_str_equal (name, "depth0"))
    return PLUMB_INT (loop->depth - 1);
  if (g_str_equal (name, "previtem") && loop->index > 0)
    return loop->items->items[loop->index - 1];
  if (g_str_equal (name, "nextitem") && loop->index + 1 < loop->length)
    return loop->items->items[loop->index + 1];
  for (gsize i = 0; i < G_N_ELEMENTS (methods); i++)
    if (g_str_equal (methods[i].name, name))
      {
        PlumbMethod *method = plumb_arena_alloc (e->arena, sizeof *method);

        *method = (PlumbMethod){ { .kind = VALUE_LOOP, .loop = (PlumbLoop *)loop }, &methods[i] };
        return (PlumbValue){ .kind = VALUE_METHOD, .method = method };
      }
  return undefined (name, "LoopContext");
}

PlumbValue
plumb_eval_attribute (PlumbEval *e, const PlumbValue *object, const char *name)
{
  const PlumbBuiltin *builtin = find_method (object, name);
  const PlumbValue *value = NULL;

  if (!plumb_eval_spend (e, object->kind == VALUE_STRING ? 0 : plumb_value_size (object)))
    return PLUMB_UNDEFINED;
  if (object->kind == VALUE_UNDEFINED)
    return fail_undefined (e, object);
  if (object->kind == VALUE_LOOP)
    return loop_attribute (e, object->loop, name);
  if (object->kind == VALUE_MACRO && g_str_equal (name, "name"))
    return PLUMB_TEXT (object->macro->node->name, strlen (object->macro->node->name));
  if (builtin != NULL)
    {
      PlumbMethod *method = plumb_arena_alloc (e->arena, sizeof *method);

      *method = (PlumbMethod){ *object, builtin };
      return (PlumbValue){ .kind = VALUE_METHOD, .method = method };
    }
  if (object->kind == VALUE_DICT || object->kind == VALUE_NAMESPACE)
    value = plumb_dict_get_text (object->dict, name);
  return value != NULL ? *value : undefined (name, plumb_value_type (object));
}

static PlumbValue
no_element (PlumbEval *e, const PlumbValue *object, gint64 index)
{
  g_autofree char *text = g_strdup_printf ("%s object has no element %" G_GINT64_FORMAT,
                                           plumb_value_type (object), index);

  return undefined (plumb_arena_copy (e->arena, text, strlen (text)), "");
}

static PlumbValue
list_item (PlumbEval *e, const PlumbValue *object, gint64 index)
{
  gint64 n = object->list->n, place = index < 0 ? index + n : index;

  return place >= 0 && place < n ? object->list->items[place] : no_element (e, object, index);
}

PlumbValue
plumb_eval_item (PlumbEval *e, const PlumbValue *object, const PlumbValue *key)
{
  const PlumbValue *value;
  gint64 index = key->kind == VALUE_INT ? key->i : key->kind == VALUE_BOOL ? key->b : 0;
  gboolean is_index = key->kind == VALUE_INT || key->kind == VALUE_BOOL;

  if (object->kind == VALUE_UNDEFINED)
    return fail_undefined (e, object);
  if ((object->kind == VALUE_STRING || object->kind == VALUE_DICT)
      && !plumb_eval_spend (e, plumb_value_size (object)))
    return PLUMB_UNDEFINED;
  if (object->kind == VALUE_DICT && (value = plumb_dict_get (object->dict, key)) != NULL)
    return *value;
  if ((object->kind == VALUE_LIST || object->kind == VALUE_TUPLE) && is_index)
    return list_item (e, object, index);
  if (object->kind == VALUE_STRING && is_index)
    {
      gint64 n = plumb_text_count (object), place = index < 0 ? index + n : index;

      return place >= 0 && place < n ? plumb_text_slice (e, object, place, place + 1, 1)
                                     : no_element (e, object, index);
    }
  if (key->kind == VALUE_STRING)
    return plumb_eval_attribute (e, object, key->s);
  return undefined ("that key", plumb_value_type (object));
}

/* A part of a slice: `otherwise` when it is not given. */
static gint64
slice_part (PlumbEval *e, const PlumbNode *node, gint64 otherwise)
{
  PlumbValue value;

  if (node == NULL)
    return otherwise;
  value = plumb_eval (e, node);
  if (value.kind == VALUE_NONE)
    return otherwise;
  if (value.kind == VALUE_INT)
    return value.i;
  plumb_eval_fail (e, "slice indices must be integers or None");
  return otherwise;
}

static gint64
clamp_index (gint64 index, gint64 n, gint64 least, gint64 most)
{
  if (index < 0)
    index = index < -n ? least : index + n;
  return CLAMP (index, least, most);
}

static PlumbValue
slice_list (PlumbEval *e, const PlumbValue *object, gint64 start, gint64 stop, gint64 step)
{
  PlumbValue result = plumb_value_list (e->arena, object->kind);

  if (!plumb_eval_spend (e, object->list->n * sizeof (PlumbValue)))
    return PLUMB_UNDEFINED;
  for (gint64 i = start; step > 0 ? i < stop : i > stop; i += step)
    plumb_list_add (e->arena, result.list, object->list->items[i]);
  return result;
}

static PlumbValue
eval_slice (PlumbEval *e, const PlumbValue *object, const PlumbNode *slice)
{
  gboolean is_text = object->kind == VALUE_STRING;
  gint64 n, start, stop, step = slice_part (e, slice->c, 1);

  if (object->kind == VALUE_UNDEFINED)
    return fail_undefined (e, object);
  if (!is_text && object->kind != VALUE_LIST && object->kind != VALUE_TUPLE)
    return undefined ("that slice", plumb_value_type (object));
  if (is_text && !plumb_eval_spend (e, object->n))
    return PLUMB_UNDEFINED;
  if (step == 0)
    return plumb_eval_fail (e, "slice step cannot be zero");
  n = is_text ? (gint64)plumb_text_count (object) : (gint64)object->list->n;
  step = CLAMP (step, -n - 1, n + 1);
  start = slice_part (e, slice->a, step > 0 ? 0 : G_MAXINT64);
  start = clamp_index (start, n, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
  if (slice->b == NULL)
    stop = step > 0 ? n : -1;
  else
    stop = clamp_index (slice_part (e, slice->b, step > 0 ? n : G_MININT64), n, step > 0 ? 0 : -1,
                        step > 0 ? n : n - 1);
  if (e->error != NULL)
    return PLUMB_UNDEFINED;
  return is_text ? plumb_text_slice (e, object, start, stop, step)
                 : slice_list (e, object, start, stop, step);
}

const PlumbList *
plumb_eval_items (PlumbEval *e, const PlumbValue *value)
{
  PlumbValue list;
  gsize size;

  switch (value->kind)
    {
    case VALUE_LIST:
    case VALUE_TUPLE:
      return value->list;
    case VALUE_UNDEFINED:
      list = plumb_value_list (e->arena, VALUE_LIST);
      return list.list;
    case VALUE_DICT:
      list = plumb_value_list (e->arena, VALUE_LIST);
      for (gsize i = 0; i < value->dict->n; i++)
        plumb_list_add (e->arena, list.list, value->dict->keys[i]);
      return list.list;
    case VALUE_STRING:
      if (!plumb_eval_spend (e, value->n * sizeof (PlumbValue)))
        return NULL;
      list = plumb_value_list (e->arena, VALUE_LIST);
      for (gsize at = 0; at < value->n; at += size)
        {
          size = g_utf8_next_char (value->s + at) - (value->s + at);
          plumb_list_add (e->arena, list.list, PLUMB_TEXT (value->s + at, size));
        }
      return list.list;
    default:
      plumb_eval_fail (e, "'%s' object is not iterable", plumb_value_type (value));
      return NULL;
    }
}

/* --- operators */

static gboolean
is_number (const PlumbValue *value)
{
  return value->kind == VALUE_INT || value->kind == VALUE_BOOL || value->kind == VALUE_FLOAT;
}

static gint64
integer (const PlumbValue *value)
{
  return value->kind == VALUE_BOOL ? value->b : value->i;
}

static double
real (const PlumbValue *value)
{
  return value->kind == VALUE_FLOAT ? value->f : (double)integer (value);
}

static PlumbValue
power (PlumbEval *e, gint64 base, gint64 exponent)
{
  gint64 result = 1;

  if (exponent < 0)
    return PLUMB_FLOAT (pow (base, exponent));
  for (; exponent > 0 && base != 0 && base != 1; exponent--)
    {
      if (base == -1)
        return PLUMB_INT (exponent % 2 != 0 ? -1 : 1);
      if (__builtin_mul_overflow (result, base, &result))
        return plumb_eval_fail (e, "a number is too large");
    }
  return PLUMB_INT (base == 0 && exponent > 0 ? 0 : result);
}

static PlumbValue
integer_arithmetic (PlumbEval *e, PlumbOperator op, gint64 a, gint64 b)
{
  gint64 result = 0;
  gboolean large = FALSE;

  if (b == 0 && (op == OP_DIVIDE || op == OP_FLOOR_DIVIDE || op == OP_MODULO))
    return plumb_eval_fail (e, "division by zero");
  if (op == OP_POWER)
    return power (e, a, b);
  if (op == OP_DIVIDE)
    return PLUMB_FLOAT ((double)a / (double)b);
  if (op == OP_ADD)
    large = __builtin_add_overflow (a, b, &result);
  else if (op == OP_SUBTRACT)
    large = __builtin_sub_overflow (a, b, &result);
  else if (op == OP_MULTIPLY)
    large = __builtin_mul_overflow (a, b, &result);
  else if (b == -1)
    large = op == OP_FLOOR_DIVIDE && __builtin_sub_overflow (0, a, &result);
  else if (op == OP_FLOOR_DIVIDE)
    result = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
  else
    result = a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
  return large ? plumb_eval_fail (e, "a number is too large") : PLUMB_INT (result);
}

static PlumbValue
real_arithmetic (PlumbEval *e, PlumbOperator op, double a, double b)
{
  if (b == 0 && (op == OP_DIVIDE || op == OP_FLOOR_DIVIDE || op == OP_MODULO))
    return plumb_eval_fail (e, "float division by zero");
  switch (op)
    {
    case OP_ADD:
      return PLUMB_FLOAT (a + b);
    case OP_SUBTRACT:
      return PLUMB_FLOAT (a - b);
    case OP_MULTIPLY:
      return PLUMB_FLOAT (a * b);
    case OP_DIVIDE:
      return PLUMB_FLOAT (a / b);
    case OP_FLOOR_DIVIDE:
      return PLUMB_FLOAT (floor (a / b));
    case OP_MODULO:
      return PLUMB_FLOAT (a - b * floor (a / b));
    case OP_POWER:
      return PLUMB_FLOAT (pow (a, b));
    default:
      return PLUMB_UNDEFINED;
    }
}

static PlumbValue
join_texts (PlumbEval *e, const PlumbValue *a, const PlumbValue *b)
{
  char *text;

  if (!plumb_eval_spend (e, a->n + b->n))
    return PLUMB_UNDEFINED;
  text = plumb_arena_alloc (e->arena, a->n + b->n + 1);
  memcpy (text, a->s, a->n);
  memcpy (text + a->n, b->s, b->n);
  return PLUMB_TEXT (text, a->n + b->n);
}

static PlumbValue
join_lists (PlumbEval *e, const PlumbValue *a, const PlumbValue *b)
{
  PlumbValue result = plumb_value_list (e->arena, a->kind);

  if (!plumb_eval_spend (e, (a->list->n + b->list->n) * sizeof (PlumbValue)))
    return PLUMB_UNDEFINED;
  for (gsize i = 0; i < a->list->n; i++)
    plumb_list_add (e->arena, result.list, a->list->items[i]);
  for (gsize i = 0; i < b->list->n; i++)
    plumb_list_add (e->arena, result.list, b->list->items[i]);
  return result;
}

/* "ab" * 3, [0] * 3 */
static PlumbValue
repeat (PlumbEval *e, const PlumbValue *what, gint64 times)
{
  gsize size = what->kind == VALUE_STRING ? what->n : what->list->n * sizeof (PlumbValue);
  PlumbValue result = plumb_value_list (e->arena, what->kind);

  if (times < 0 || size == 0)
    times = 0;
  if ((gsize)times > MOST_BYTES / MAX (size, 1) || !plumb_eval_spend (e, size * times))
    return plumb_eval_fail (e, "a repetition is too long");
  if (what->kind == VALUE_STRING)
    {
      char *text = plumb_arena_alloc (e->arena, size * times + 1);

      for (gint64 i = 0; i < times; i++)
        memcpy (text + i * size, what->s, size);
      return PLUMB_TEXT (text, size * times);
    }
  for (gint64 i = 0; i < times; i++)
    for (gsize j = 0; j < what->list->n; j++)
      plumb_list_add (e->arena, result.list, what->list->items[j]);
  return result;
}

static gboolean
is_list (const PlumbValue *value)
{
  return value->kind == VALUE_LIST || value->kind == VALUE_TUPLE;
}

static PlumbValue
concat (PlumbEval *e, const PlumbValue *a, const PlumbValue *b)
{
  GString *text = g_string_new (NULL);

  plumb_value_print (a, text);
  plumb_value_print (b, text);
  return plumb_eval_take (e, text);
}

static PlumbValue
fail_operator (PlumbEval *e, PlumbOperator op, const PlumbValue *a, const PlumbValue *b)
{
  static const char *const names[] = { "+", "-", "*", "/", "//", "%", "** or pow()" };

  if (a->kind == VALUE_UNDEFINED)
    return fail_undefined (e, a);
  if (b->kind == VALUE_UNDEFINED)
    return fail_undefined (e, b);
  if (op == OP_ADD && a->kind == VALUE_STRING)
    return plumb_eval_fail (e, "can only concatenate str (not \"%s\") to str", plumb_value_type (b));
  if (op == OP_ADD && is_list (a))
    return plumb_eval_fail (e, "can only concatenate %s (not \"%s\") to %s", plumb_value_type (a),
                            plumb_value_type (b), plumb_value_type (a));
  return plumb_eval_fail (e, "unsupported operand type(s) for %s: '%s' and '%s'", names[op],
                          plumb_value_type (a), plumb_value_type (b));
}

PlumbValue
plumb_eval_binary (PlumbEval *e, PlumbOperator op, const PlumbValue *a, const PlumbValue *b)
{
  PlumbArgs args = { b, 1 };

  if (op == OP_CONCAT)
    return concat (e, a, b);
  if (is_number (a) && is_number (b))
    return a->kind == VALUE_FLOAT || b->kind == VALUE_FLOAT
               ? real_arithmetic (e, op, real (a), real (b))
               : integer_arithmetic (e, op, integer (a), integer (b));
  if (op == OP_ADD && a->kind == VALUE_STRING && b->kind == VALUE_STRING)
    return join_texts (e, a, b);
  if (op == OP_ADD && is_list (a) && a->kind == b->kind)
    return join_lists (e, a, b);
  if (op == OP_MULTIPLY && (a->kind == VALUE_STRING || is_list (a)) && b->kind == VALUE_INT)
    return repeat (e, a, b->i);
  if (op == OP_MULTIPLY && a->kind == VALUE_INT && (b->kind == VALUE_STRING || is_list (b)))
    return repeat (e, b, a->i);
  if (op == OP_MODULO && a->kind == VALUE_STRING)
    {
      if (b->kind == VALUE_TUPLE)
        args = (PlumbArgs){ b->list->items, b->list->n };
      return plumb_text_format (e, a, &args);
    }
  return fail_operator (e, op, a, b);
}

static int
compare_texts (const PlumbValue *a, const PlumbValue *b)
{
  int order = memcmp (a->s, b->s, MIN (a->n, b->n));

  return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

/* Sign of the order of two values; a failure when there is none. */
static int
order_of (PlumbEval *e, PlumbOperator op, const PlumbValue *a, const PlumbValue *b)
{
  static const char *const names[] = { "<", "<=", ">", ">=" };

  if (a->kind == VALUE_INT && b->kind == VALUE_INT)
    return (a->i > b->i) - (a->i < b->i);
  if (is_number (a) && is_number (b))
    return (real (a) > real (b)) - (real (a) < real (b));
  if (a->kind == VALUE_STRING && b->kind == VALUE_STRING)
    return compare_texts (a, b);
  if (is_list (a) && a->kind == b->kind)
    {
      for (gsize i = 0; i < MIN (a->list->n, b->list->n); i++)
        if (!plumb_value_equal (&a->list->items[i], &b->list->items[i]))
          return order_of (e, op, &a->list->items[i], &b->list->items[i]);
      return (a->list->n > b->list->n) - (a->list->n < b->list->n);
    }
  if (a->kind == VALUE_UNDEFINED || b->kind == VALUE_UNDEFINED)
    fail_undefined (e, a->kind == VALUE_UNDEFINED ? a : b);
  plumb_eval_fail (e, "'%s' not supported between instances of '%s' and '%s'",
                   names[op - OP_LESS], plumb_value_type (a), plumb_value_type (b));
  return 0;
}

static gboolean
contains (PlumbEval *e, const PlumbValue *item, const PlumbValue *whole)
{
  const PlumbList *items;

  if (!plumb_eval_spend (e, plumb_value_size (whole)))
    return FALSE;
  if (whole->kind == VALUE_STRING)
    {
      if (item->kind == VALUE_STRING)
        return memmem (whole->s, whole->n, item->s, item->n) != NULL;
      if (item->kind == VALUE_UNDEFINED)
        fail_undefined (e, item);
      plumb_eval_fail (e, "'in <string>' requires string as left operand, not %s",
                       plumb_value_type (item));
      return FALSE;
    }
  if (whole->kind == VALUE_DICT)
    return plumb_dict_get (whole->dict, item) != NULL;
  if (whole->kind != VALUE_UNDEFINED && !is_list (whole))
    {
      plumb_eval_fail (e, "argument of type '%s' is not iterable", plumb_value_type (whole));
      return FALSE;
    }
  items = plumb_eval_items (e, whole);
  for (gsize i = 0; items != NULL && i < items->n; i++)
    if (plumb_value_equal (&items->items[i], item))
      return TRUE;
  return FALSE;
}

gboolean
plumb_eval_compare (PlumbEval *e, PlumbOperator op, const PlumbValue *a, const PlumbValue *b)
{
  if (op != OP_IN && op != OP_NOT_IN && a->kind == b->kind
      && !plumb_eval_spend (e, MIN (plumb_value_weight (a), plumb_value_weight (b))))
    return FALSE;
  switch (op)
    {
    case OP_EQUAL:
      return plumb_value_equal (a, b);
    case OP_NOT_EQUAL:
      return !plumb_value_equal (a, b);
    case OP_IN:
      return contains (e, a, b);
    case OP_NOT_IN:
      return !contains (e, a, b);
    case OP_LESS:
      return order_of (e, op, a, b) < 0;
    case OP_LESS_EQUAL:
      return order_of (e, op, a, b) <= 0;
    case OP_GREATER:
      return order_of (e, op, a, b) > 0;
    case OP_GREATER_EQUAL:
      return order_of (e, op, a, b) >= 0;
    default:
      return FALSE;
    }
}

/* --- calls */

static PlumbValue
call_loop_method (PlumbEval *e, const PlumbMethod *method, const PlumbArgs *args)
{
  PlumbLoop *loop = method->self.loop;
  PlumbValue seen = plumb_value_list (e->arena, VALUE_TUPLE);
  gboolean changed;

  if (g_str_equal (method->builtin->name, "cycle"))
    return args->n > 0 ? args->values[loop->index % args->n]
                       : plumb_eval_fail (e, "no items for cycling given");
  for (gsize i = 0; i < args->n; i++)
    plumb_list_add (e->arena, seen.list, args->values[i]);
  changed = loop->changed == NULL || !plumb_value_equal (loop->changed, &seen);
  loop->changed = plumb_arena_alloc (e->arena, sizeof seen);
  *loop->changed = seen;
  return PLUMB_BOOL (changed);
}

PlumbValue
plumb_eval_call (PlumbEval *e, const PlumbValue *callee, const PlumbArgs *args)
{
  switch (callee->kind)
    {
    case VALUE_FUNCTION:
      return callee->function->call (e, NULL, args);
    case VALUE_METHOD:
      if (callee->method->self.kind == VALUE_LOOP)
        return call_loop_method (e, callee->method, args);
      if (!plumb_eval_spend (e, plumb_value_size (&callee->method->self)))
        return PLUMB_UNDEFINED;
      return callee->method->builtin->call (e, &callee->method->self, args);
    case VALUE_MACRO:
      return plumb_eval_macro (e, callee->macro, args);
    case VALUE_LOOP:
      return args->n == 1 ? plumb_eval_loop_call (e, callee->loop, &args->values[0])
                          : plumb_eval_fail (e, "loop() takes one argument");
    case VALUE_UNDEFINED:
      return fail_undefined (e, callee);
    default:
      return plumb_eval_fail (e, "'%s' object is not callable", plumb_value_type (callee));
    }
}

static PlumbValue
eval_call (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue callee = plumb_eval (e, node->a);
  PlumbArgs args;

  if (e->error != NULL)
    return PLUMB_UNDEFINED;
  if (callee.kind == VALUE_UNDEFINED)
    return fail_undefined (e, &callee);
  args = plumb_eval_args (e, node->children);
  return e->error == NULL ? plumb_eval_call (e, &callee, &args) : PLUMB_UNDEFINED;
}

PlumbValue
plumb_eval_filter (
    PlumbEval *e, const char *name, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbBuiltin *filter = plumb_filter_find (name);

  if (filter == NULL)
    filter = plumb_list_filter_find (name);
  if (!plumb_eval_spend (e, plumb_value_size (self)))
    return PLUMB_UNDEFINED;
  return filter != NULL ? filter->call (e, self, args)
                        : plumb_eval_fail (e, "No filter named '%s'.", name);
}

static PlumbValue
eval_filter (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue self = plumb_eval (e, node->a);
  PlumbArgs args = plumb_eval_args (e, node->children);

  return e->error == NULL ? plumb_eval_filter (e, node->name, &self, &args) : PLUMB_UNDEFINED;
}

static PlumbValue
eval_test (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue self = plumb_eval (e, node->a);
  PlumbArgs args = plumb_eval_args (e, node->children);
  gboolean result = e->error == NULL && plumb_eval_test (e, node->name, &self, &args);

  return PLUMB_BOOL (result != node->flag);
}

/* --- nodes */

static PlumbValue
eval_list (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue result
      = plumb_value_list (e->arena, node->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE);

  for (const PlumbNode *item = node->children; item != NULL && e->error == NULL; item = item->next)
    plumb_list_add (e->arena, result.list, plumb_eval (e, item));
  return result;
}

static PlumbValue
eval_dict (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue result = plumb_value_dict (e->arena);

  for (const PlumbNode *key = node->children; key != NULL && e->error == NULL;
       key = key->next->next)
    {
      PlumbValue name = plumb_eval (e, key), value = plumb_eval (e, key->next);

      if (name.kind == VALUE_LIST || name.kind == VALUE_DICT)
        plumb_eval_fail (e, "unhashable type: '%s'", plumb_value_type (&name));
      plumb_dict_set (e->arena, result.dict, name, value);
    }
  return result;
}

static PlumbValue
eval_comparison (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue left = plumb_eval (e, node->a);

  for (const PlumbNode *operand = node->children; operand != NULL && e->error == NULL;
       operand = operand->next)
    {
      PlumbValue right = plumb_eval (e, operand->a);

      if (e->error != NULL || !plumb_eval_compare (e, operand->op, &left, &right))
        return PLUMB_BOOL (FALSE);
      left = right;
    }
  return PLUMB_BOOL (TRUE);
}

static PlumbValue
eval_sign (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue value = plumb_eval (e, node->a), zero = PLUMB_INT (0);

  if (e->error != NULL)
    return value;
  if (!is_number (&value))
    return value.kind == VALUE_UNDEFINED
               ? fail_undefined (e, &value)
               : plumb_eval_fail (e, "bad operand type for unary %c: '%s'",
                                  node->kind == NODE_NEGATE ? '-' : '+', plumb_value_type (&value));
  if (value.kind == VALUE_FLOAT)
    return PLUMB_FLOAT (node->kind == NODE_NEGATE ? -value.f : value.f);
  return plumb_eval_binary (e, node->kind == NODE_NEGATE ? OP_SUBTRACT : OP_ADD, &zero, &value);
}

static PlumbValue
eval_logic (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue value = plumb_eval (e, node->a);
  gboolean is_true;

  if (e->error != NULL)
    return value;
  is_true = plumb_value_is_true (&value);
  switch (node->kind)
    {
    case NODE_NOT:
      return PLUMB_BOOL (!is_true);
    case NODE_AND:
      return is_true ? plumb_eval (e, node->b) : value;
    case NODE_OR:
      return is_true ? value : plumb_eval (e, node->b);
    default: /* NODE_CONDITION */
      if (is_true)
        return plumb_eval (e, node->b);
      return node->c != NULL ? plumb_eval (e, node->c) : undefined ("the inline if-expression", NULL);
    }
}

static PlumbValue
eval_parts (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue a = plumb_eval (e, node->a), b;

  if (e->error != NULL)
    return PLUMB_UNDEFINED;
  if (node->kind == NODE_ATTRIBUTE)
    return plumb_eval_attribute (e, &a, node->name);
  if (node->kind == NODE_ITEM && node->b->kind == NODE_SLICE)
    return eval_slice (e, &a, node->b);
  b = plumb_eval (e, node->b);
  if (e->error != NULL)
    return PLUMB_UNDEFINED;
  return node->kind == NODE_ITEM ? plumb_eval_item (e, &a, &b)
                                 : plumb_eval_binary (e, node->op, &a, &b);
}

static PlumbValue
eval_node (PlumbEval *e, const PlumbNode *node)
{
  switch (node->kind)
    {
    case NODE_CONST:
      return node->value;
    case NODE_NAME:
      return eval_name (e, node->name);
    case NODE_LIST:
    case NODE_TUPLE:
      return eval_list (e, node);
    case NODE_DICT:
      return eval_dict (e, node);
    case NODE_ATTRIBUTE:
    case NODE_ITEM:
    case NODE_BINARY:
      return eval_parts (e, node);
    case NODE_CALL:
      return eval_call (e, node);
    case NODE_FILTER:
      return eval_filter (e, node);
    case NODE_TEST:
      return eval_test (e, node);
    case NODE_NEGATE:
    case NODE_PLUS:
      return eval_sign (e, node);
    case NODE_NOT:
    case NODE_AND:
    case NODE_OR:
    case NODE_CONDITION:
      return eval_logic (e, node);
    case NODE_COMPARE:
      return eval_comparison (e, node);
    default:
      return plumb_eval_fail (e, "a slice stands alone");
    }
}

PlumbValue
plumb_eval (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue value;

  if (!plumb_eval_spend (e, 0))
    return PLUMB_UNDEFINED;
  e->line = node->line;
  if (++e->depth > PLUMB_EVAL_DEPTH)
    value = plumb_eval_fail (e, "maximum recursion depth exceeded");
  else
    value = eval_node (e, node);
  e->depth--;
  if (plumb_value_weight (&value) > MOST_OUTPUT
      || plumb_value_depth (&value) > PLUMB_TEMPLATE_DEPTH)
    return plumb_eval_fail (e, "a value is too large, or nests too deeply");
  return e->error == NULL ? value : PLUMB_UNDEFINED;
}
