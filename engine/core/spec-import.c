/* SPDX-License-Identifier: Apache-2.0 */
/* What the imports of all trainers share: a table of rules, and notes for what no rule takes. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/spec-import-private.h"

void
plumb_import_note_free (PlumbImportNote *note)
{
  g_free (note->flag);
  g_free (note->reason);
  g_free (note);
}

static void
item_clear (gpointer data)
{
  PlumbImportItem *item = data;

  g_free (item->name);
  g_free (item->text);
  g_ptr_array_unref (item->values);
}

GArray *
plumb_import_items_new (void)
{
  GArray *items = g_array_new (FALSE, TRUE, sizeof (PlumbImportItem));

  g_array_set_clear_func (items, item_clear);
  return items;
}

PlumbImportItem *
plumb_import_items_add (GArray *items, char *name, char *text)
{
  PlumbImportItem item = { name, text, g_ptr_array_new_with_free_func (g_free) };

  g_array_append_val (items, item);
  return &g_array_index (items, PlumbImportItem, items->len - 1);
}

gboolean
plumb_import_has_word (const char *list, const char *word)
{
  g_auto (GStrv) parts = list != NULL ? g_strsplit (list, " ", -1) : g_new0 (char *, 1);

  return g_strv_contains ((const char *const *)parts, word);
}

const PlumbImportItem *
plumb_import_find (const PlumbImport *import, const char *names)
{
  for (guint i = 0; i < import->items->len; i++)
    if (plumb_import_has_word (names, g_array_index (import->items, PlumbImportItem, i).name))
      return &g_array_index (import->items, PlumbImportItem, i);
  return NULL;
}

static const char *
first_value (const PlumbImportItem *item)
{
  return item->values->len > 0 ? g_ptr_array_index (item->values, 0) : NULL;
}

const char *
plumb_import_value (const PlumbImport *import, const char *names, const char *otherwise)
{
  const PlumbImportItem *item = plumb_import_find (import, names);
  const char *value = item != NULL ? first_value (item) : NULL;

  return value == NULL || plumb_import_is_none (value) ? otherwise : value;
}

gboolean
plumb_import_is_true (const char *value)
{
  return value != NULL && (g_ascii_strcasecmp (value, "true") == 0 || g_ascii_strcasecmp (value, "yes") == 0);
}

gboolean
plumb_import_is_none (const char *value)
{
  return g_str_equal (value, "None") || g_str_equal (value, "null") || g_str_equal (value, "~") || *value == '\0';
}

static char *
written (const PlumbImportItem *item)
{
  g_autoptr (GString) text = g_string_new ("--");

  if (item->text != NULL)
    return g_strdup (item->text);
  g_string_append (text, item->name);
  for (guint i = 0; i < item->values->len; i++)
    g_string_append_printf (text, " %s", (char *)g_ptr_array_index (item->values, i));
  return g_string_free (g_steal_pointer (&text), FALSE);
}

void
plumb_import_note (PlumbImport *import, const PlumbImportItem *item, const char *reason)
{
  PlumbImportNote *note = g_new0 (PlumbImportNote, 1);

  note->flag = written (item);
  note->reason = g_strdup (reason);
  g_ptr_array_add (import->notes, note);
}

static const char *
translate (const PlumbImport *import, const char *key, const char *value)
{
  for (gsize i = 0; i < import->n_words; i++)
    if (g_str_equal (import->words[i].key, key) && g_str_equal (import->words[i].theirs, value))
      return import->words[i].ours;
  return value;
}

void
plumb_import_set (PlumbImport *import, const PlumbImportItem *item, const char *key, const char *value)
{
  g_autoptr (GError) error = NULL;

  if (!plumb_spec_set (import->spec, key, translate (import, key, value), &error))
    plumb_import_note (import, item, error->message);
}

static char *
join (const GPtrArray *values)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < values->len; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? "," : "", (char *)g_ptr_array_index (values, i));
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static guint
values_needed (PlumbImportKind kind)
{
  switch (kind)
    {
    case IMPORT_PAIR:
      return 2;
    case IMPORT_YES:
    case IMPORT_UNNEEDED:
      return 0;
    default:
      return 1;
    }
}

static void
apply_rule (PlumbImport *import, const PlumbImportItem *item, const PlumbImportRule *rule)
{
  guint needed = values_needed (rule->kind);
  g_autofree char *all = join (item->values);
  const char *first = first_value (item);

  if (item->values->len < needed)
    {
      plumb_import_note (import, item, needed == 2 ? "two values are missing" : "its value is missing");
      return;
    }
  if (first != NULL && plumb_import_is_none (first))
    return;
  switch (rule->kind)
    {
    case IMPORT_COPY:
      plumb_import_set (import, item, rule->key, first);
      break;
    case IMPORT_PAIR:
      plumb_import_set (import, item, rule->key, first);
      plumb_import_set (import, item, rule->other, g_ptr_array_index (item->values, 1));
      break;
    case IMPORT_SAME_PAIR:
      plumb_import_set (import, item, rule->key, first);
      plumb_import_set (import, item, rule->other, first);
      break;
    case IMPORT_LIST:
      plumb_import_set (import, item, rule->key, all);
      break;
    case IMPORT_YES:
      if (first == NULL || plumb_import_is_true (first))
        plumb_import_set (import, item, rule->key, rule->other);
      break;
    case IMPORT_NO:
      if (!plumb_import_is_true (first))
        plumb_import_set (import, item, rule->key, rule->other);
      break;
    case IMPORT_UNNEEDED:
      plumb_import_note (import, item, rule->other);
      break;
    }
}

void
plumb_import_apply (PlumbImport *import, const PlumbImportItem *item)
{
  for (gsize i = 0; i < import->n_rules; i++)
    if (g_str_equal (import->rules[i].name, item->name) || plumb_import_has_word (import->rules[i].older, item->name))
      {
        apply_rule (import, item, &import->rules[i]);
        return;
      }
  plumb_import_note (import, item, "there is no counterpart");
}
