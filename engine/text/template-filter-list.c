/* SPDX-License-Identifier: Apache-2.0 */
/* Filters on lists. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/template-private.h"

static PlumbValue
new_list (PlumbEval *e)
{
  return plumb_value_list (e->arena, VALUE_LIST);
}

/* The part of an item that "a.b.0" names; NULL: the item itself. */
static PlumbValue
part_of (PlumbEval *e, const PlumbValue *item, const PlumbValue *path)
{
  g_auto (GStrv) names = NULL;
  PlumbValue value = *item;

  if (path == NULL || path->kind == VALUE_NONE)
    return value;
  if (path->kind != VALUE_STRING)
    return plumb_eval_item (e, item, path);
  names = g_strsplit (path->s, ".", 16);
  for (gsize i = 0; names[i] != NULL && e->error == NULL; i++)
    {
      gint64 index;
      gsize length = strlen (names[i]);
      PlumbValue key = g_ascii_string_to_signed (names[i], 10, 0, G_MAXINT32, &index, NULL)
                           ? PLUMB_INT (index)
                           : PLUMB_TEXT (plumb_arena_copy (e->arena, names[i], length), length);

      value = plumb_eval_item (e, &value, &key);
    }
  return value;
}

/* Texts compare without regard to case unless asked for. */
static PlumbValue
folded (PlumbEval *e, PlumbValue value, gboolean case_sensitive)
{
  return value.kind == VALUE_STRING && !case_sensitive ? plumb_text_case (e, &value, 'l') : value;
}

static PlumbValue
filter_list (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);

  return items != NULL ? (PlumbValue){ .kind = VALUE_LIST, .list = (PlumbList *)items } : PLUMB_UNDEFINED;
}

static PlumbValue
filter_first (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);

  return items != NULL && items->n > 0 ? items->items[0] : PLUMB_UNDEFINED;
}

static PlumbValue
filter_last (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);

  return items != NULL && items->n > 0 ? items->items[items->n - 1] : PLUMB_UNDEFINED;
}

static PlumbValue
filter_join (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);
  const PlumbValue *between = plumb_arg (args, 0, "d"), *path = plumb_arg (args, 1, "attribute");
  g_autoptr (GString) text = g_string_new (NULL);

  for (gsize i = 0; items != NULL && i < items->n && e->error == NULL; i++)
    {
      PlumbValue item = part_of (e, &items->items[i], path);

      if (i > 0 && between != NULL)
        plumb_value_print (between, text);
      plumb_value_print (&item, text);
      plumb_eval_spend (e, text->len / 1024);
    }
  return plumb_eval_text (e, text->str, text->len);
}

static PlumbValue
filter_reverse (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items;
  PlumbValue list = new_list (e);

  if (self->kind == VALUE_STRING)
    return plumb_text_slice (e, self, (gint64)plumb_text_count (self) - 1, -1, -1);
  items = plumb_eval_items (e, self);
  for (gsize i = items != NULL ? items->n : 0; i > 0; i--)
    plumb_list_add (e->arena, list.list, items->items[i - 1]);
  return list;
}

/* --- selection: select, reject, and the same by an attribute */

/* Nothing at all, None too, selects to nothing. */
static const PlumbList *
items_or_none (PlumbEval *e, const PlumbValue *value)
{
  PlumbValue none;

  if (plumb_value_is_true (value))
    return plumb_eval_items (e, value);
  none = new_list (e);
  return none.list;
}

static gboolean
is_selected (PlumbEval *e, const PlumbValue *value, const PlumbArgs *args, gsize used)
{
  PlumbArgs rest;

  if (args->n <= used)
    return plumb_value_is_true (value);
  rest = (PlumbArgs){ args->values + used + 1, args->n - used - 1, args->names, args->named, args->n_named };
  if (args->values[used].kind != VALUE_STRING)
    {
      plumb_eval_fail (e, "the name of a test is a text");
      return FALSE;
    }
  return plumb_eval_test (e, args->values[used].s, value, &rest);
}

static PlumbValue
choose (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args, gboolean wanted, gboolean by_attribute)
{
  const PlumbList *items = items_or_none (e, self);
  PlumbValue list = new_list (e);

  if (by_attribute && args->n == 0)
    return plumb_eval_fail (e, "Missing parameter for attribute name");
  for (gsize i = 0; items != NULL && i < items->n && plumb_eval_spend (e, 64); i++)
    {
      PlumbValue value = part_of (e, &items->items[i], by_attribute ? &args->values[0] : NULL);

      if (is_selected (e, &value, args, by_attribute) == wanted)
        plumb_list_add (e->arena, list.list, items->items[i]);
    }
  return list;
}

static PlumbValue
filter_select (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return choose (e, self, args, TRUE, FALSE);
}

static PlumbValue
filter_reject (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return choose (e, self, args, FALSE, FALSE);
}

static PlumbValue
filter_selectattr (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return choose (e, self, args, TRUE, TRUE);
}

static PlumbValue
filter_rejectattr (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return choose (e, self, args, FALSE, TRUE);
}

/* map('upper'), map(attribute='name', default='') */
static PlumbValue
filter_map (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = items_or_none (e, self);
  const PlumbValue *path = plumb_arg (args, G_MAXSIZE, "attribute");
  const PlumbValue *otherwise = plumb_arg (args, G_MAXSIZE, "default");
  gsize used = args->n > 0;
  PlumbArgs rest = { used > 0 ? args->values + 1 : NULL, args->n - used, args->names, args->named, args->n_named };
  PlumbValue list = new_list (e);

  if (path == NULL && (args->n == 0 || args->values[0].kind != VALUE_STRING))
    return plumb_eval_fail (e, "map requires a filter argument");
  for (gsize i = 0; items != NULL && i < items->n && plumb_eval_spend (e, 64); i++)
    {
      PlumbValue value = path != NULL
                             ? part_of (e, &items->items[i], path)
                             : plumb_eval_filter (e, args->values[0].s, &items->items[i], &rest);

      if (value.kind == VALUE_UNDEFINED && otherwise != NULL)
        value = *otherwise;
      plumb_list_add (e->arena, list.list, value);
    }
  return list;
}

/* --- order */

typedef struct
{
  PlumbEval *e;
  gboolean reverse;
} Order;

typedef struct
{
  PlumbValue key, value;
  gsize place; /* equal keys stay in order */
} Keyed;

static int
compare_keyed (gconstpointer a, gconstpointer b, gpointer data)
{
  const Keyed *x = a, *y = b;
  Order *order = data;
  int sign = order->reverse ? -1 : 1;

  if (!plumb_eval_spend (order->e, 0))
    return 0;
  if (plumb_eval_compare (order->e, OP_LESS, &x->key, &y->key))
    return -sign;
  if (order->e->error == NULL && plumb_eval_compare (order->e, OP_LESS, &y->key, &x->key))
    return sign;
  return (x->place > y->place) - (x->place < y->place);
}

static Keyed *
sorted (PlumbEval *e, const PlumbList *items, const PlumbValue *path, gboolean case_sensitive, gboolean reverse)
{
  Keyed *keyed = plumb_arena_alloc (e->arena, (items->n + 1) * sizeof (Keyed));
  Order order = { e, reverse };

  for (gsize i = 0; i < items->n && e->error == NULL; i++)
    keyed[i] = (Keyed){ folded (e, part_of (e, &items->items[i], path), case_sensitive), items->items[i], i };
  if (e->error == NULL)
    g_qsort_with_data (keyed, items->n, sizeof (Keyed), compare_keyed, &order);
  return keyed;
}

static PlumbValue
filter_sort (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);
  PlumbValue list = new_list (e);
  Keyed *keyed;

  if (items == NULL)
    return list;
  keyed = sorted (e, items, plumb_arg (args, 2, "attribute"), plumb_arg_bool (args, 1, "case_sensitive", FALSE),
                  plumb_arg_bool (args, 0, "reverse", FALSE));
  for (gsize i = 0; i < items->n; i++)
    plumb_list_add (e->arena, list.list, keyed[i].value);
  return list;
}

static PlumbValue
filter_dictsort (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbArgs none = { NULL };
  PlumbValue list = new_list (e), pairs, by = plumb_arg_text (e, args, 1, "by", "key");
  PlumbValue index = PLUMB_INT (by.n == 5);
  Keyed *keyed;

  if (self->kind != VALUE_DICT)
    return plumb_eval_fail (e, "dictsort needs a mapping");
  pairs = plumb_dict_method_find ("items")->call (e, self, &none);
  if (e->error != NULL)
    return list;
  keyed = sorted (e, pairs.list, &index, plumb_arg_bool (args, 0, "case_sensitive", FALSE),
                  plumb_arg_bool (args, 2, "reverse", FALSE));
  for (gsize i = 0; i < pairs.list->n; i++)
    plumb_list_add (e->arena, list.list, keyed[i].value);
  return list;
}

static PlumbValue
extreme (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args, gboolean largest)
{
  const PlumbList *items = plumb_eval_items (e, self);
  const PlumbValue *path = plumb_arg (args, 1, "attribute");
  Keyed *keyed;

  if (items == NULL || items->n == 0)
    return PLUMB_UNDEFINED;
  keyed = sorted (e, items, path, plumb_arg_bool (args, 0, "case_sensitive", FALSE), largest);
  return keyed[0].value;
}

static PlumbValue
filter_min (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return extreme (e, self, args, FALSE);
}

static PlumbValue
filter_max (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return extreme (e, self, args, TRUE);
}

static PlumbValue
filter_sum (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);
  const PlumbValue *path = plumb_arg (args, 0, "attribute"), *start = plumb_arg (args, 1, "start");
  PlumbValue sum = start != NULL ? *start : PLUMB_INT (0);

  for (gsize i = 0; items != NULL && i < items->n && e->error == NULL; i++)
    {
      PlumbValue item = part_of (e, &items->items[i], path);

      if (e->error == NULL)
        sum = plumb_eval_binary (e, OP_ADD, &sum, &item);
    }
  return sum;
}

static PlumbValue
filter_unique (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);
  gboolean case_sensitive = plumb_arg_bool (args, 0, "case_sensitive", FALSE);
  const PlumbValue *path = plumb_arg (args, 1, "attribute");
  PlumbValue list = new_list (e), seen = plumb_value_dict (e->arena);

  for (gsize i = 0; items != NULL && i < items->n && plumb_eval_spend (e, 64 * seen.dict->n); i++)
    {
      PlumbValue key = folded (e, part_of (e, &items->items[i], path), case_sensitive);

      if (plumb_dict_get (seen.dict, &key) != NULL)
        continue;
      plumb_dict_set (e->arena, seen.dict, key, PLUMB_NONE);
      plumb_list_add (e->arena, list.list, items->items[i]);
    }
  return list;
}

/* Pairs of (grouper, list), which also answer to those names as dictionaries do. */
static PlumbValue
filter_groupby (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);
  const PlumbValue *path = plumb_arg (args, 0, "attribute");
  PlumbValue list = new_list (e), group = PLUMB_UNDEFINED;
  Keyed *keyed;

  if (items == NULL || path == NULL)
    return plumb_eval_fail (e, "groupby needs an attribute");
  keyed = sorted (e, items, path, FALSE, FALSE);
  for (gsize i = 0; i < items->n && e->error == NULL; i++)
    {
      if (i == 0 || !plumb_value_equal (&keyed[i].key, &keyed[i - 1].key))
        {
          PlumbValue pair = plumb_value_list (e->arena, VALUE_TUPLE);

          group = new_list (e);
          plumb_list_add (e->arena, pair.list, part_of (e, &keyed[i].value, path));
          plumb_list_add (e->arena, pair.list, group);
          plumb_list_add (e->arena, list.list, pair);
        }
      plumb_list_add (e->arena, group.list, keyed[i].value);
      list.list->weight += plumb_value_weight (&keyed[i].value);
    }
  return list;
}

/* Lists of `n` items each; the last is filled up where asked for. */
static PlumbValue
filter_batch (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);
  gint64 n = plumb_arg_int (e, args, 0, "linecount", 0);
  const PlumbValue *fill = plumb_arg (args, 1, "fill_with");
  PlumbValue list = new_list (e);

  if (n < 1 || n > 100000)
    return plumb_eval_fail (e, "the size of a batch is out of range");
  for (gsize i = 0; items != NULL && i < items->n; i += n)
    {
      PlumbValue part = new_list (e);

      for (gsize j = i; j < i + n; j++)
        if (j < items->n)
          plumb_list_add (e->arena, part.list, items->items[j]);
        else if (fill != NULL)
          plumb_list_add (e->arena, part.list, *fill);
      plumb_list_add (e->arena, list.list, part);
    }
  return list;
}

/* `n` lists of about equal length. */
static PlumbValue
filter_slice (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = plumb_eval_items (e, self);
  gint64 n = plumb_arg_int (e, args, 0, "slices", 0);
  const PlumbValue *fill = plumb_arg (args, 1, "fill_with");
  PlumbValue list = new_list (e);
  gsize at = 0;

  if (n < 1 || n > 100000)
    return plumb_eval_fail (e, "the number of slices is out of range");
  for (gint64 i = 0; items != NULL && i < n; i++)
    {
      gsize size = items->n / n + (i < (gint64)(items->n % n));
      PlumbValue part = new_list (e);

      for (gsize j = 0; j < size; j++)
        plumb_list_add (e->arena, part.list, items->items[at++]);
      if (fill != NULL && items->n % n != 0 && i >= (gint64)(items->n % n))
        plumb_list_add (e->arena, part.list, *fill);
      plumb_list_add (e->arena, list.list, part);
    }
  return list;
}

const PlumbBuiltin *
plumb_list_filter_find (const char *name)
{
  static const PlumbBuiltin table[] = {
    { "list", filter_list },             { "first", filter_first },
    { "last", filter_last },             { "join", filter_join },
    { "reverse", filter_reverse },       { "select", filter_select },
    { "reject", filter_reject },         { "selectattr", filter_selectattr },
    { "rejectattr", filter_rejectattr }, { "map", filter_map },
    { "sort", filter_sort },             { "dictsort", filter_dictsort },
    { "min", filter_min },               { "max", filter_max },
    { "sum", filter_sum },               { "unique", filter_unique },
    { "groupby", filter_groupby },       { "batch", filter_batch },
    { "slice", filter_slice },
  };

  return plumb_builtin_find (table, G_N_ELEMENTS (table), name);
}
