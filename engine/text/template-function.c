/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that a template can call. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/template-private.h"

#define LONGEST_RANGE 100000

static PlumbValue
function_range (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  gint64 start = args->n > 1 ? plumb_arg_int (e, args, 0, NULL, 0) : 0;
  gint64 stop = plumb_arg_int (e, args, args->n > 1 ? 1 : 0, NULL, 0);
  gint64 step = plumb_arg_int (e, args, 2, NULL, 1);
  PlumbValue list = plumb_value_list (e->arena, VALUE_LIST);

  if (args->n == 0 || step == 0)
    return plumb_eval_fail (e, args->n == 0 ? "range expected at least 1 argument, got 0"
                                            : "range() arg 3 must not be zero");
  for (gint64 i = start; e->error == NULL && (step > 0 ? i < stop : i > stop);)
    {
      if (list.list->n >= LONGEST_RANGE)
        return plumb_eval_fail (e, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                                LONGEST_RANGE);
      plumb_list_add (e->arena, list.list, PLUMB_INT (i));
      if (__builtin_add_overflow (i, step, &i))
        break;
    }
  return list;
}

/* Named arguments, over those of mappings given by place. */
static PlumbValue
function_dict (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue dict = plumb_value_dict (e->arena);

  for (gsize i = 0; i < args->n; i++)
    {
      if (args->values[i].kind != VALUE_DICT)
        return plumb_eval_fail (e, "'%s' object is not a mapping", plumb_value_type (&args->values[i]));
      for (gsize j = 0; j < args->values[i].dict->n; j++)
        plumb_dict_set (e->arena, dict.dict, args->values[i].dict->keys[j], args->values[i].dict->values[j]);
    }
  for (gsize i = 0; i < args->n_named; i++)
    plumb_dict_set (e->arena, dict.dict, PLUMB_TEXT (args->names[i], strlen (args->names[i])), args->named[i]);
  return dict;
}

static PlumbValue
function_namespace (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue space = function_dict (e, self, args);

  if (e->error == NULL)
    space.kind = VALUE_NAMESPACE;
  return space;
}

static PlumbValue
function_raise_exception (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  g_autoptr (GString) message = g_string_new (NULL);

  if (args->n > 0)
    plumb_value_print (&args->values[0], message);
  return plumb_eval_fail (e, "%s", message->str);
}

static PlumbValue
function_strftime_now (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue format = plumb_arg_text (e, args, 0, "format", NULL);
  g_autofree char *plain = NULL, *text = NULL;

  if (e->error != NULL)
    return PLUMB_UNDEFINED;
  plain = g_strndup (format.s, MIN (format.n, 1024));
  text = g_date_time_format (e->now, plain);
  return text != NULL ? plumb_eval_text (e, text, strlen (text))
                      : plumb_eval_fail (e, "strftime_now does not know the format %s", plain);
}

const PlumbBuiltin *
plumb_function_find (const char *name)
{
  static const PlumbBuiltin table[] = {
    { "range", function_range },
    { "dict", function_dict },
    { "namespace", function_namespace },
    { "raise_exception", function_raise_exception },
    { "strftime_now", function_strftime_now },
  };

  return plumb_builtin_find (table, G_N_ELEMENTS (table), name);
}
