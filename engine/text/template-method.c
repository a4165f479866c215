/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of texts, dictionaries and lists, as Python has them. Those that would change a value are left out. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/template-private.h"
#include "engine/text/tokenizer-private.h"

const PlumbBuiltin *
plumb_builtin_find (const PlumbBuiltin *table, gsize n, const char *name)
{
  for (gsize i = 0; i < n; i++)
    if (g_str_equal (table[i].name, name))
      return &table[i];
  return NULL;
}

gsize
plumb_text_count (const PlumbValue *text)
{
  gsize n = 0;

  for (gsize i = 0; i < text->n; i++)
    n += ((guchar)text->s[i] & 0xc0) != 0x80;
  return n;
}

static gsize
byte_offset (const PlumbValue *text, gsize n_chars)
{
  gsize at = 0;

  for (; n_chars > 0 && at < text->n; n_chars--)
    at += plumb_char_size (text->s[at]);
  return MIN (at, text->n);
}

PlumbValue
plumb_text_slice (PlumbEval *e, const PlumbValue *text, gint64 start, gint64 stop, gint64 step)
{
  GString *result;

  if (step == 1)
    {
      gsize from = byte_offset (text, start), to = byte_offset (text, MAX (stop, start));

      return PLUMB_TEXT (text->s + from, to - from);
    }
  result = g_string_new (NULL);
  if (step < 0 && start >= 0)
    {
      const char *c = text->s + byte_offset (text, start);

      for (gint64 i = start; i > stop; i--)
        {
          if ((start - i) % -step == 0)
            g_string_append_len (result, c, plumb_char_size (*c));
          if (i > 0)
            c = g_utf8_prev_char (c);
        }
    }
  else if (step > 0)
    {
      gsize at = byte_offset (text, start);

      for (gint64 i = start; i < stop && at < text->n; i++)
        {
          gsize size = plumb_char_size (text->s[at]);

          if ((i - start) % step == 0)
            g_string_append_len (result, text->s + at, size);
          at += size;
        }
    }
  return plumb_eval_take (e, result);
}

static gboolean
is_space (gunichar c)
{
  return plumb_char_class (c) == PLUMB_CLASS_SPACE || (c >= 0x1c && c <= 0x1f);
}

static gboolean
is_stripped (const char *c, gsize size, const PlumbValue *chars)
{
  if (chars == NULL)
    return is_space (g_utf8_get_char (c));
  for (gsize at = 0; at < chars->n; at += plumb_char_size (chars->s[at]))
    if (plumb_char_size (chars->s[at]) == size && memcmp (chars->s + at, c, size) == 0)
      return TRUE;
  return FALSE;
}

PlumbValue
plumb_text_strip (const PlumbValue *text, const PlumbValue *chars, gboolean left, gboolean right)
{
  const char *start = text->s, *end = text->s + text->n;

  while (left && start < end && is_stripped (start, plumb_char_size (*start), chars))
    start += plumb_char_size (*start);
  while (right && end > start)
    {
      const char *last = g_utf8_prev_char (end);

      if (!is_stripped (last, end - last, chars))
        break;
      end = last;
    }
  return PLUMB_TEXT (start, end - start);
}

/* A text argument that may be missing or None. */
static const PlumbValue *
optional_text (PlumbEval *e, const PlumbArgs *args, gsize index, const char *name)
{
  const PlumbValue *value = plumb_arg (args, index, name);

  if (value == NULL || value->kind == VALUE_NONE)
    return NULL;
  if (value->kind != VALUE_STRING)
    plumb_eval_fail (e, "a text is needed here, not '%s'", plumb_value_type (value));
  return value->kind == VALUE_STRING ? value : NULL;
}

static PlumbValue
method_strip (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return plumb_text_strip (self, optional_text (e, args, 0, "chars"), TRUE, TRUE);
}

static PlumbValue
method_lstrip (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return plumb_text_strip (self, optional_text (e, args, 0, "chars"), TRUE, FALSE);
}

static PlumbValue
method_rstrip (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return plumb_text_strip (self, optional_text (e, args, 0, "chars"), FALSE, TRUE);
}

/* --- splitting */

static void
add_part (PlumbEval *e, PlumbList *list, const char *start, const char *end)
{
  plumb_list_add (e->arena, list, PLUMB_TEXT (start, end - start));
}

/* Words between blanks. */
static void
split_blanks (PlumbEval *e, const PlumbValue *text, gint64 most, PlumbList *list)
{
  PlumbValue rest = *text;

  while ((rest = plumb_text_strip (&rest, NULL, TRUE, FALSE)).n > 0)
    {
      const char *end = rest.s;

      while (end < rest.s + rest.n && !is_space (g_utf8_get_char (end)))
        end = g_utf8_next_char (end);
      if (most == 0)
        end = rest.s + rest.n;
      add_part (e, list, rest.s, end);
      most -= most > 0;
      rest = PLUMB_TEXT (end, rest.s + rest.n - end);
    }
}

static void
split_text (
    PlumbEval *e, const PlumbValue *text, const PlumbValue *separator, gint64 most, PlumbList *list)
{
  const char *start = text->s, *end = text->s + text->n, *hit;

  while (most != 0 && (hit = memmem (start, end - start, separator->s, separator->n)) != NULL)
    {
      add_part (e, list, start, hit);
      start = hit + separator->n;
      most -= most > 0;
    }
  add_part (e, list, start, end);
}

static PlumbValue
method_split (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue list = plumb_value_list (e->arena, VALUE_LIST);
  const PlumbValue *separator = optional_text (e, args, 0, "sep");
  gint64 most = plumb_arg_int (e, args, 1, "maxsplit", -1);

  if (!plumb_eval_spend (e, self->n * 8))
    return PLUMB_UNDEFINED;
  if (separator == NULL)
    split_blanks (e, self, most, list.list);
  else if (separator->n == 0)
    return plumb_eval_fail (e, "empty separator");
  else
    split_text (e, self, separator, most, list.list);
  return list;
}

static PlumbValue
method_rsplit (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue all = method_split (e, self, &(PlumbArgs){ args->values, MIN (args->n, 1), args->names, args->named, 0 });
  gint64 most = plumb_arg_int (e, args, 1, "maxsplit", -1);
  PlumbValue list = plumb_value_list (e->arena, VALUE_LIST), *items;
  gsize joined;

  if (e->error != NULL || most < 0 || all.list->n <= (gsize)most + 1)
    return all;
  /* What is split too often at the front is one part again. */
  items = all.list->items;
  joined = all.list->n - most;
  add_part (e, list.list, items[0].s, items[joined - 1].s + items[joined - 1].n);
  for (gsize i = joined; i < all.list->n; i++)
    plumb_list_add (e->arena, list.list, items[i]);
  return list;
}

static PlumbValue
method_splitlines (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue list = plumb_value_list (e->arena, VALUE_LIST);
  gboolean keep = plumb_arg_bool (args, 0, "keepends", FALSE);
  const char *start = self->s, *end = self->s + self->n, *next;

  if (!plumb_eval_spend (e, self->n * 8))
    return PLUMB_UNDEFINED;
  for (const char *c = start; c < end; c = next)
    {
      gunichar u = g_utf8_get_char (c);

      next = g_utf8_next_char (c);
      if (!(u >= 0x0a && u <= 0x0d) && !(u >= 0x1c && u <= 0x1e) && u != 0x85 && u != 0x2028 && u != 0x2029)
        continue;
      if (u == '\r' && next < end && *next == '\n')
        next++;
      add_part (e, list.list, start, keep ? next : c);
      start = next;
    }
  if (start < end)
    add_part (e, list.list, start, end);
  return list;
}

static PlumbValue
partition (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args, gboolean last)
{
  PlumbValue list = plumb_value_list (e->arena, VALUE_TUPLE);
  PlumbValue separator = plumb_arg_text (e, args, 0, "sep", NULL);
  const char *end = self->s + self->n, *hit = NULL, *next = self->s;

  if (e->error != NULL || separator.n == 0)
    return plumb_eval_fail (e, "empty separator");
  while ((next = memmem (next, end - next, separator.s, separator.n)) != NULL)
    {
      hit = next;
      if (!last)
        break;
      next++;
    }
  if (hit == NULL && last)
    {
      add_part (e, list.list, end, end);
      add_part (e, list.list, end, end);
    }
  add_part (e, list.list, self->s, hit != NULL ? hit : end);
  if (hit != NULL || !last)
    {
      add_part (e, list.list, hit != NULL ? hit : end, hit != NULL ? hit + separator.n : end);
      add_part (e, list.list, hit != NULL ? hit + separator.n : end, end);
    }
  return list;
}

static PlumbValue
method_partition (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return partition (e, self, args, FALSE);
}

static PlumbValue
method_rpartition (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return partition (e, self, args, TRUE);
}

/* --- looking */

static gboolean
ends_with (const PlumbValue *self, const PlumbValue *affix, gboolean at_end)
{
  if (affix->kind == VALUE_TUPLE)
    {
      for (gsize i = 0; i < affix->list->n; i++)
        if (ends_with (self, &affix->list->items[i], at_end))
          return TRUE;
      return FALSE;
    }
  return affix->kind == VALUE_STRING && affix->n <= self->n
         && memcmp (self->s + (at_end ? self->n - affix->n : 0), affix->s, affix->n) == 0;
}

static PlumbValue
affix_method (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args, gboolean at_end)
{
  const PlumbValue *affix = plumb_arg (args, 0, NULL);

  if (affix == NULL || (affix->kind != VALUE_STRING && affix->kind != VALUE_TUPLE))
    return plumb_eval_fail (e, "%s first arg must be str or a tuple of str, not %s",
                            at_end ? "endswith" : "startswith",
                            affix != NULL ? plumb_value_type (affix) : "missing");
  return PLUMB_BOOL (ends_with (self, affix, at_end));
}

static PlumbValue
method_startswith (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return affix_method (e, self, args, FALSE);
}

static PlumbValue
method_endswith (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return affix_method (e, self, args, TRUE);
}

static PlumbValue
remove_affix (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args, gboolean at_end)
{
  PlumbValue affix = plumb_arg_text (e, args, 0, NULL, NULL);

  if (e->error != NULL || !ends_with (self, &affix, at_end))
    return *self;
  return PLUMB_TEXT (self->s + (at_end ? 0 : affix.n), self->n - affix.n);
}

static PlumbValue
method_removeprefix (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return remove_affix (e, self, args, FALSE);
}

static PlumbValue
method_removesuffix (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return remove_affix (e, self, args, TRUE);
}

/* The character at which `what` first (or last) stands, -1: nowhere. */
static gint64
position (const PlumbValue *self, const PlumbValue *what, gboolean last)
{
  const char *end = self->s + self->n, *hit = NULL, *next = self->s;
  PlumbValue before;

  while (next <= end && (next = memmem (next, end - next, what->s, what->n)) != NULL)
    {
      hit = next++;
      if (!last)
        break;
    }
  if (hit == NULL)
    return -1;
  before = PLUMB_TEXT (self->s, hit - self->s);
  return plumb_text_count (&before);
}

static PlumbValue
method_find (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue what = plumb_arg_text (e, args, 0, NULL, NULL);

  return e->error == NULL ? PLUMB_INT (position (self, &what, FALSE)) : PLUMB_UNDEFINED;
}

static PlumbValue
method_rfind (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue what = plumb_arg_text (e, args, 0, NULL, NULL);

  return e->error == NULL ? PLUMB_INT (position (self, &what, TRUE)) : PLUMB_UNDEFINED;
}

static PlumbValue
method_index (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue found = method_find (e, self, args);

  return e->error == NULL && found.i < 0 ? plumb_eval_fail (e, "substring not found") : found;
}

static PlumbValue
method_count (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue what = plumb_arg_text (e, args, 0, NULL, NULL);
  const char *end = self->s + self->n;
  gint64 n = 0;

  if (e->error != NULL)
    return PLUMB_UNDEFINED;
  if (what.n == 0)
    return PLUMB_INT (plumb_text_count (self) + 1);
  for (const char *c = self->s; (c = memmem (c, end - c, what.s, what.n)) != NULL; c += what.n)
    n++;
  return PLUMB_INT (n);
}

/* --- changing */

PlumbValue
plumb_text_replace (
    PlumbEval *e, const PlumbValue *text, const PlumbValue *old, const PlumbValue *content, gint64 most)
{
  GString *result;
  const char *start = text->s, *end = text->s + text->n, *hit;
  gsize hits = 0;

  if (old->n == 0)
    hits = text->n + 1;
  else
    for (hit = start; (hit = memmem (hit, end - hit, old->s, old->n)) != NULL; hit += old->n)
      hits++;
  if (content->n > 0 && (hits > ((gsize)1 << 30) / content->n || !plumb_eval_spend (e, text->n + hits * content->n)))
    return plumb_eval_fail (e, "a text grows too long");
  result = g_string_new (NULL);
  while (most != 0 && old->n > 0 && (hit = memmem (start, end - start, old->s, old->n)) != NULL)
    {
      g_string_append_len (result, start, hit - start);
      g_string_append_len (result, content->s, content->n);
      start = hit + old->n;
      most -= most > 0;
    }
  for (; old->n == 0 && most != 0; most -= most > 0)
    {
      gsize size = start < end ? plumb_char_size (*start) : 0;

      g_string_append_len (result, content->s, content->n);
      if (size == 0)
        break;
      g_string_append_len (result, start, size);
      start += size;
    }
  g_string_append_len (result, start, end - start);
  return plumb_eval_take (e, result);
}

static PlumbValue
method_replace (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  PlumbValue old = plumb_arg_text (e, args, 0, "old", NULL);
  PlumbValue content = plumb_arg_text (e, args, 1, "new", NULL);

  return e->error == NULL
             ? plumb_text_replace (e, self, &old, &content, plumb_arg_int (e, args, 2, "count", -1))
             : PLUMB_UNDEFINED;
}

PlumbValue
plumb_text_case (PlumbEval *e, const PlumbValue *text, char how)
{
  GString *result = g_string_sized_new (text->n);
  gboolean inside = FALSE;

  for (const char *c = text->s; c < text->s + text->n; c = g_utf8_next_char (c))
    {
      gunichar u = g_utf8_get_char (c);
      gboolean upper = how == 'u' || (how != 'l' && !inside);

      if (!upper && u == 0x130)
        g_string_append (result, "i\xcc\x87");
      else if (upper && u == 0xdf)
        g_string_append (result, how == 'u' ? "SS" : "Ss");
      else
        g_string_append_unichar (result, !upper       ? plumb_char_lower (u)
                                         : how == 'u' ? g_unichar_toupper (u)
                                                      : g_unichar_totitle (u));
      inside = how == 't' ? g_unichar_isalpha (u) : TRUE;
    }
  return plumb_eval_take (e, result);
}

static PlumbValue
method_upper (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return plumb_text_case (e, self, 'u');
}

static PlumbValue
method_lower (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return plumb_text_case (e, self, 'l');
}

static PlumbValue
method_title (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return plumb_text_case (e, self, 't');
}

static PlumbValue
method_capitalize (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return plumb_text_case (e, self, 'c');
}

static PlumbValue
method_join (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbList *items = args->n > 0 ? plumb_eval_items (e, &args->values[0]) : NULL;
  g_autoptr (GString) text = g_string_new (NULL);

  for (gsize i = 0; items != NULL && i < items->n; i++)
    {
      const PlumbValue *item = &items->items[i];

      if (item->kind != VALUE_STRING)
        return plumb_eval_fail (e, "sequence item %" G_GSIZE_FORMAT ": expected str instance, %s found",
                                i, plumb_value_type (item));
      if (!plumb_eval_spend (e, self->n + item->n + text->len / 1024))
        return PLUMB_UNDEFINED;
      if (i > 0)
        g_string_append_len (text, self->s, self->n);
      g_string_append_len (text, item->s, item->n);
    }
  return plumb_eval_text (e, text->str, text->len);
}

/* Fills up to a width: 'l' on the right, 'r' on the left, 'c' on both sides, 'z' with zeros. */
static PlumbValue
pad (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args, char how)
{
  gint64 width = plumb_arg_int (e, args, 0, "width", 0), n = plumb_text_count (self), left;
  PlumbValue fill = plumb_arg_text (e, args, 1, "fillchar", how == 'z' ? "0" : " ");
  GString *text;

  if (e->error != NULL || width <= n)
    return *self;
  if (width > 1 << 20 || plumb_text_count (&fill) != 1)
    return plumb_eval_fail (e, "a width or a character to fill with is out of range");
  left = how == 'l' ? 0 : how == 'c' ? (width - n) / 2 + ((width - n) & width & 1) : width - n;
  text = g_string_new (NULL);
  if (how == 'z' && self->n > 0 && (*self->s == '-' || *self->s == '+'))
    g_string_append_c (text, *self->s);
  for (gint64 i = 0; i < width - n; i++)
    {
      if (i == left)
        g_string_append_len (text, self->s, self->n);
      g_string_append_len (text, fill.s, fill.n);
    }
  if (left == width - n)
    g_string_append_len (text, self->s + (text->len > 0 && how == 'z' && (*text->str == '-' || *text->str == '+')),
                         self->n - (how == 'z' && (*text->str == '-' || *text->str == '+')));
  return plumb_eval_take (e, text);
}

static PlumbValue
method_ljust (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return pad (e, self, args, 'l');
}

static PlumbValue
method_rjust (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return pad (e, self, args, 'r');
}

static PlumbValue
method_center (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return pad (e, self, args, 'c');
}

static PlumbValue
method_zfill (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return pad (e, self, args, 'z');
}

/* --- kinds of characters */

typedef gboolean (*CharTest) (gunichar c);

static gboolean
all_chars (const PlumbValue *text, CharTest test)
{
  for (const char *c = text->s; c < text->s + text->n; c = g_utf8_next_char (c))
    if (!test (g_utf8_get_char (c)))
      return FALSE;
  return text->n > 0;
}

static PlumbValue
method_isdigit (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return PLUMB_BOOL (all_chars (self, g_unichar_isdigit));
}

static PlumbValue
method_isalpha (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return PLUMB_BOOL (all_chars (self, g_unichar_isalpha));
}

static PlumbValue
method_isalnum (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return PLUMB_BOOL (all_chars (self, g_unichar_isalnum));
}

static PlumbValue
method_isspace (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return PLUMB_BOOL (all_chars (self, is_space));
}

/* Letters of one case, and at least one. */
static gboolean
is_cased (const PlumbValue *text, CharTest wanted, CharTest other)
{
  gboolean some = FALSE;

  for (const char *c = text->s; c < text->s + text->n; c = g_utf8_next_char (c))
    {
      gunichar u = g_utf8_get_char (c);

      if (other (u))
        return FALSE;
      some = some || wanted (u);
    }
  return some;
}

static PlumbValue
method_isupper (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return PLUMB_BOOL (is_cased (self, g_unichar_isupper, g_unichar_islower));
}

static PlumbValue
method_islower (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return PLUMB_BOOL (is_cased (self, g_unichar_islower, g_unichar_isupper));
}

/* --- formatting */

/* One conversion of "%": its flags and width go to the C library, which knows the same. */
static void
convert (PlumbEval *e, GString *spec, char kind, const PlumbValue *value, GString *text)
{
  g_autofree char *out = NULL;
  double number = value->kind == VALUE_FLOAT ? value->f : value->kind == VALUE_INT ? (double)value->i : value->b;

  if (kind == 's' || kind == 'r')
    {
      g_autoptr (GString) shown = g_string_new (NULL);

      if (kind == 's')
        plumb_value_print (value, shown);
      else
        plumb_value_repr (value, shown);
      if (spec->len == 1)
        g_string_append_len (text, shown->str, shown->len);
      else
        plumb_eval_fail (e, "a width of %%s is not supported");
      return;
    }
  if (value->kind != VALUE_INT && value->kind != VALUE_FLOAT && value->kind != VALUE_BOOL)
    {
      plumb_eval_fail (e, "%%%c format: a real number is required, not %s", kind, plumb_value_type (value));
      return;
    }
  if (strchr ("diouxX", kind) != NULL)
    g_string_append_printf (spec, G_GINT64_MODIFIER "%c", kind == 'i' || kind == 'u' ? 'd' : kind);
  else
    g_string_append_c (spec, kind);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  if (strchr ("diouxX", kind) != NULL)
    out = g_strdup_printf (spec->str, value->kind == VALUE_INT ? value->i : (gint64)CLAMP (number, -9e18, 9e18));
  else
    out = g_strdup_printf (spec->str, number);
#pragma GCC diagnostic pop
  g_string_append (text, out);
}

PlumbValue
plumb_text_format (PlumbEval *e, const PlumbValue *format, const PlumbArgs *args)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const char *c = format->s, *end = format->s + format->n;
  gsize used = 0;

  while (c < end && e->error == NULL)
    {
      g_autoptr (GString) spec = g_string_new ("%");

      if (*c != '%')
        {
          g_string_append_c (text, *c++);
          continue;
        }
      for (c++; c < end && strchr ("-+ #0123456789.", *c) != NULL && spec->len < 6; c++)
        g_string_append_c (spec, *c);
      if (c == end)
        return plumb_eval_fail (e, "incomplete format");
      if (*c == '%')
        g_string_append_c (text, '%');
      else if (strchr ("srdiouxXeEfFgG", *c) == NULL)
        return plumb_eval_fail (e, "unsupported format character '%c'", *c);
      else if (used >= args->n)
        return plumb_eval_fail (e, "not enough arguments for format string");
      else
        convert (e, spec, *c, &args->values[used++], text);
      c++;
    }
  return plumb_eval_text (e, text->str, text->len);
}

/* "{}".format: fields by order, number or name, without a format of their own. */
static PlumbValue
method_format (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const char *c = self->s, *end = self->s + self->n;
  gsize next = 0;

  while (c < end)
    {
      g_autofree char *name = NULL;
      const char *close;
      const PlumbValue *value;

      if ((*c != '{' && *c != '}') || (c + 1 < end && c[1] == *c))
        {
          g_string_append_c (text, *c);
          c += *c == '{' || *c == '}' ? 2 : 1;
          continue;
        }
      close = *c == '{' ? memchr (c, '}', end - c) : NULL;
      if (close == NULL)
        return plumb_eval_fail (e, "Single '%c' encountered in format string", *c);
      name = g_strndup (c + 1, close - c - 1);
      value = *name == '\0'              ? plumb_arg (args, next++, NULL)
              : g_ascii_isdigit (*name) ? plumb_arg (args, g_ascii_strtoull (name, NULL, 10), NULL)
                                        : plumb_arg (args, G_MAXSIZE, name);
      if (value == NULL)
        return plumb_eval_fail (e, "a field of the format has no value, or a format of its own: {%s}", name);
      plumb_value_print (value, text);
      if (!plumb_eval_spend (e, text->len / 64))
        return PLUMB_UNDEFINED;
      c = close + 1;
    }
  return plumb_eval_text (e, text->str, text->len);
}

const PlumbBuiltin *
plumb_string_method_find (const char *name)
{
  static const PlumbBuiltin table[] = {
    { "strip", method_strip },
    { "lstrip", method_lstrip },
    { "rstrip", method_rstrip },
    { "split", method_split },
    { "rsplit", method_rsplit },
    { "splitlines", method_splitlines },
    { "partition", method_partition },
    { "rpartition", method_rpartition },
    { "startswith", method_startswith },
    { "endswith", method_endswith },
    { "removeprefix", method_removeprefix },
    { "removesuffix", method_removesuffix },
    { "find", method_find },
    { "rfind", method_rfind },
    { "index", method_index },
    { "count", method_count },
    { "replace", method_replace },
    { "upper", method_upper },
    { "lower", method_lower },
    { "title", method_title },
    { "capitalize", method_capitalize },
    { "join", method_join },
    { "ljust", method_ljust },
    { "rjust", method_rjust },
    { "center", method_center },
    { "zfill", method_zfill },
    { "isdigit", method_isdigit },
    { "isdecimal", method_isdigit },
    { "isnumeric", method_isdigit },
    { "isalpha", method_isalpha },
    { "isalnum", method_isalnum },
    { "isspace", method_isspace },
    { "isupper", method_isupper },
    { "islower", method_islower },
    { "format", method_format },
  };

  return plumb_builtin_find (table, G_N_ELEMENTS (table), name);
}

/* --- dictionaries and lists */

static PlumbValue
pairs (PlumbEval *e, const PlumbValue *self, gboolean keys, gboolean values)
{
  PlumbValue list = plumb_value_list (e->arena, VALUE_LIST);

  if (!plumb_eval_spend (e, self->dict->n * 64))
    return PLUMB_UNDEFINED;
  for (gsize i = 0; i < self->dict->n; i++)
    {
      PlumbValue pair;

      if (!keys || !values)
        {
          plumb_list_add (e->arena, list.list, keys ? self->dict->keys[i] : self->dict->values[i]);
          continue;
        }
      pair = plumb_value_list (e->arena, VALUE_TUPLE);
      plumb_list_add (e->arena, pair.list, self->dict->keys[i]);
      plumb_list_add (e->arena, pair.list, self->dict->values[i]);
      plumb_list_add (e->arena, list.list, pair);
    }
  return list;
}

static PlumbValue
method_items (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return pairs (e, self, TRUE, TRUE);
}

static PlumbValue
method_keys (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return pairs (e, self, TRUE, FALSE);
}

static PlumbValue
method_values (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return pairs (e, self, FALSE, TRUE);
}

static PlumbValue
method_get (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  const PlumbValue *value, *otherwise = plumb_arg (args, 1, "default");

  if (args->n == 0)
    return plumb_eval_fail (e, "get expected at least 1 argument, got 0");
  value = plumb_dict_get (self->dict, &args->values[0]);
  return value != NULL ? *value : otherwise != NULL ? *otherwise : PLUMB_NONE;
}

static PlumbValue
method_copy (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return *self; /* nothing changes a value */
}

const PlumbBuiltin *
plumb_dict_method_find (const char *name)
{
  static const PlumbBuiltin table[] = {
    { "items", method_items }, { "keys", method_keys }, { "values", method_values },
    { "get", method_get },     { "copy", method_copy },
  };

  return plumb_builtin_find (table, G_N_ELEMENTS (table), name);
}

static PlumbValue
list_index (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  for (gsize i = 0; args->n > 0 && i < self->list->n; i++)
    if (plumb_value_equal (&self->list->items[i], &args->values[0]))
      return PLUMB_INT (i);
  return plumb_eval_fail (e, "the value is not in the list");
}

static PlumbValue
list_count (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  gint64 n = 0;

  for (gsize i = 0; args->n > 0 && i < self->list->n; i++)
    n += plumb_value_equal (&self->list->items[i], &args->values[0]);
  return PLUMB_INT (n);
}

static PlumbValue
list_change (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args)
{
  return plumb_eval_fail (e, "a template may not change a list; use + to make a longer one");
}

const PlumbBuiltin *
plumb_list_method_find (const char *name)
{
  static const PlumbBuiltin table[] = {
    { "index", list_index },   { "count", list_count },   { "copy", method_copy },
    { "append", list_change }, { "extend", list_change }, { "insert", list_change },
    { "pop", list_change },    { "remove", list_change }, { "reverse", list_change },
    { "sort", list_change },   { "clear", list_change },
  };

  return plumb_builtin_find (table, G_N_ELEMENTS (table), name);
}
