/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/paths.h"
#include "engine/core/spec-private.h"

static void
entry_free (gpointer data)
{
  PlumbSpecEntry *entry = data;

  g_free (entry->text);
  g_free (entry->file);
  g_free (entry);
}

PlumbSpec *
plumb_spec_new (void)
{
  PlumbSpec *spec = g_new0 (PlumbSpec, 1);

  g_atomic_ref_count_init (&spec->refs);
  spec->entries = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, entry_free);
  spec->resolved = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  spec->options = g_ptr_array_new_with_free_func (g_free);
  return spec;
}

PlumbSpec *
plumb_spec_ref (PlumbSpec *spec)
{
  g_atomic_ref_count_inc (&spec->refs);
  return spec;
}

void
plumb_spec_unref (PlumbSpec *spec)
{
  if (!g_atomic_ref_count_dec (&spec->refs))
    return;
  g_hash_table_unref (spec->entries);
  g_hash_table_unref (spec->resolved);
  g_ptr_array_unref (spec->options);
  g_free (spec);
}

PlumbSpec *
plumb_spec_copy (PlumbSpec *spec)
{
  PlumbSpec *copy = plumb_spec_new ();
  GHashTableIter iter;
  gpointer key, value;

  g_hash_table_iter_init (&iter, spec->entries);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      PlumbSpecEntry *entry = value;

      if (plumb_field_find (key) != NULL)
        plumb_spec_store (copy, key, entry->text, entry->file, entry->line);
    }
  for (guint i = 0; i < spec->options->len; i++)
    {
      const char *option = g_ptr_array_index (spec->options, i);
      PlumbSpecEntry *entry = g_hash_table_lookup (spec->entries, option);

      plumb_spec_store (copy, option, entry->text, entry->file, entry->line);
    }
  return copy;
}

void
plumb_spec_store (PlumbSpec *spec, const char *key, const char *text, const char *file, guint line)
{
  PlumbSpecEntry *entry = g_new0 (PlumbSpecEntry, 1);

  entry->text = g_strdup (text);
  entry->file = g_strdup (file);
  entry->line = line;
  if (plumb_field_find (key) == NULL && !g_hash_table_contains (spec->entries, key))
    g_ptr_array_add (spec->options, g_strdup (key));
  g_hash_table_replace (spec->entries, g_strdup (key), entry);
  g_hash_table_remove (spec->resolved, key);
}

gboolean
plumb_spec_split_option (const char *key, char **name, char **option)
{
  const char *dot;

  if (!g_str_has_prefix (key, "reward.") || plumb_field_find (key) != NULL)
    return FALSE;
  key += strlen ("reward.");
  dot = strchr (key, '.');
  if (dot == NULL || dot == key || dot[1] == '\0')
    return FALSE;
  *name = g_strndup (key, dot - key);
  *option = g_strdup (dot + 1);
  return TRUE;
}

static void
set_unknown_key (GError **error, const char *key)
{
  const char *nearest = plumb_field_nearest (key);

  if (nearest != NULL)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "%s: there is no such setting; did you mean %s?", key, nearest);
  else
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "%s: there is no such setting; `plumbline-engine spec --fields` lists them all",
                 key);
}

gboolean
plumb_spec_set (PlumbSpec *spec, const char *key, const char *value, GError **error)
{
  const PlumbField *field = plumb_field_find (key);
  g_autofree char *normal = NULL, *message = NULL, *remedy = NULL, *name = NULL, *option = NULL;

  if (field == NULL && plumb_spec_split_option (key, &name, &option))
    return plumb_spec_set_reward_option (spec, name, option, value, error);
  if (field == NULL)
    {
      set_unknown_key (error, key);
      return FALSE;
    }
  if (!plumb_field_check (field, value, &normal, &message, &remedy))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s = %s: %s; %s", key, value, message,
                   remedy);
      return FALSE;
    }
  plumb_spec_store (spec, key, normal, NULL, 0);
  return TRUE;
}

gboolean
plumb_spec_set_reward_option (
    PlumbSpec *spec, const char *name, const char *option, const char *value, GError **error)
{
  g_autofree char *key = g_strdup_printf ("reward.%s.%s", name, option);

  if (!g_utf8_validate (value, -1, NULL))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: the value is not valid UTF-8",
                   key);
      return FALSE;
    }
  plumb_spec_store (spec, key, value, NULL, 0);
  return TRUE;
}

gboolean
plumb_spec_apply_override (PlumbSpec *spec, const char *assignment, GError **error)
{
  const char *equals = strchr (assignment, '=');
  g_autofree char *key = NULL, *value = NULL, *complete = NULL;
  const PlumbField *field;

  if (equals == NULL || equals == assignment)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                   "--set %s: write it as group.key=value, like --set run.seed=7", assignment);
      return FALSE;
    }
  key = g_strstrip (g_strndup (assignment, equals - assignment));
  value = plumb_value_unescape (equals + 1);
  field = plumb_field_find (key);
  if (field == NULL || field->type != PLUMB_FIELD_TEXT)
    {
      g_free (value);
      value = g_strstrip (g_strdup (equals + 1));
    }
  if (field != NULL)
    complete = plumb_spec_complete_paths (field, value, NULL);
  return plumb_spec_set (spec, key, complete != NULL ? complete : value, error);
}

void
plumb_spec_unset (PlumbSpec *spec, const char *key)
{
  guint index;

  if (g_ptr_array_find_with_equal_func (spec->options, key, g_str_equal, &index))
    g_ptr_array_remove_index (spec->options, index);
  g_hash_table_remove (spec->entries, key);
  g_hash_table_remove (spec->resolved, key);
}

static const char *
entry_text (PlumbSpec *spec, const char *key)
{
  PlumbSpecEntry *entry = g_hash_table_lookup (spec->entries, key);

  return entry != NULL ? entry->text : NULL;
}

gboolean
plumb_spec_is_set (PlumbSpec *spec, const char *key)
{
  return entry_text (spec, key) != NULL;
}

gboolean
plumb_spec_resolve (PlumbSpec *spec, const char *key, const char *value, GError **error)
{
  const PlumbField *field = plumb_field_find (key);
  g_autofree char *normal = NULL, *message = NULL, *remedy = NULL;

  g_return_val_if_fail (field != NULL, FALSE);
  if (!plumb_field_check (field, value, &normal, &message, &remedy))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s resolved to %s: %s; %s", key, value,
                   message, remedy);
      return FALSE;
    }
  g_hash_table_replace (spec->resolved, g_strdup (key), g_steal_pointer (&normal));
  return TRUE;
}

PlumbAlgorithm
plumb_spec_algorithm (PlumbSpec *spec)
{
  const PlumbField *field = plumb_field_find ("run.algorithm");
  const char *text = entry_text (spec, field->key);

  for (int i = 0; field->choices[i] != NULL; i++)
    if (g_strcmp0 (field->choices[i], text != NULL ? text : field->standard) == 0)
      return i;
  g_return_val_if_reached (PLUMB_ALGORITHM_GRPO);
}

const char *
plumb_spec_get_text (PlumbSpec *spec, const char *key)
{
  const PlumbField *field = plumb_field_find (key);
  const char *text = g_hash_table_lookup (spec->resolved, key);

  g_return_val_if_fail (field != NULL, NULL);
  if (text == NULL)
    text = entry_text (spec, key);
  return text != NULL ? text : plumb_field_default (field, plumb_spec_algorithm (spec));
}

gboolean
plumb_spec_has_value (PlumbSpec *spec, const char *key)
{
  return plumb_spec_get_text (spec, key) != NULL;
}

gboolean
plumb_spec_is_auto (PlumbSpec *spec, const char *key)
{
  const PlumbField *field = plumb_field_find (key);

  return field != NULL && (field->flags & PLUMB_FIELD_AUTO)
         && g_strcmp0 (plumb_spec_get_text (spec, key), "auto") == 0;
}

double
plumb_spec_get_real (PlumbSpec *spec, const char *key)
{
  const PlumbField *field = plumb_field_find (key);
  const char *text = plumb_spec_get_text (spec, key);
  double value = 0;

  g_return_val_if_fail (field != NULL, 0);
  g_return_val_if_fail (field->type == PLUMB_FIELD_INTEGER || field->type == PLUMB_FIELD_REAL, 0);
  if (text == NULL
      || !plumb_parse_number (text, FALSE, g_strcmp0 (field->unit, "bytes") == 0, &value))
    return 0; /* unset, auto or off */
  return value;
}

gint64
plumb_spec_get_integer (PlumbSpec *spec, const char *key)
{
  return (gint64)plumb_spec_get_real (spec, key);
}

gboolean
plumb_spec_is_off (PlumbSpec *spec, const char *key)
{
  const PlumbField *field = plumb_field_find (key);
  const char *text = plumb_spec_get_text (spec, key);

  if (field == NULL || text == NULL || *text == '\0')
    return TRUE;
  switch (field->type)
    {
    case PLUMB_FIELD_BOOLEAN:
      return !plumb_spec_get_boolean (spec, key);
    case PLUMB_FIELD_INTEGER:
    case PLUMB_FIELD_REAL:
      return plumb_spec_get_real (spec, key) == 0;
    default:
      return FALSE;
    }
}

gboolean
plumb_spec_get_boolean (PlumbSpec *spec, const char *key)
{
  return g_strcmp0 (plumb_spec_get_text (spec, key), "yes") == 0;
}

int
plumb_spec_get_choice (PlumbSpec *spec, const char *key)
{
  const PlumbField *field = plumb_field_find (key);
  const char *text = plumb_spec_get_text (spec, key);

  g_return_val_if_fail (field != NULL && field->type == PLUMB_FIELD_CHOICE, 0);
  for (int i = 0; field->choices[i] != NULL; i++)
    if (g_strcmp0 (field->choices[i], text) == 0)
      return i;
  return 0;
}

char **
plumb_spec_get_list (PlumbSpec *spec, const char *key)
{
  const char *text = plumb_spec_get_text (spec, key);

  return plumb_list_split (text != NULL ? text : "");
}

GArray *
plumb_spec_get_reals (PlumbSpec *spec, const char *key)
{
  g_auto (GStrv) items = plumb_spec_get_list (spec, key);
  GArray *values = g_array_new (FALSE, FALSE, sizeof (double));

  for (gsize i = 0; items[i] != NULL; i++)
    {
      double value = 0;

      if (plumb_parse_number (items[i], FALSE, FALSE, &value))
        g_array_append_val (values, value);
    }
  return values;
}

const char *
plumb_spec_get_reward_option (PlumbSpec *spec, const char *name, const char *option)
{
  g_autofree char *key = g_strdup_printf ("reward.%s.%s", name, option);

  return entry_text (spec, key);
}

char **
plumb_spec_list_reward_options (PlumbSpec *spec, const char *name)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < spec->options->len; i++)
    {
      g_autofree char *its_name = NULL, *option = NULL;

      if (plumb_spec_split_option (g_ptr_array_index (spec->options, i), &its_name, &option)
          && g_str_equal (its_name, name))
        g_strv_builder_add (builder, option);
    }
  return g_strv_builder_end (builder);
}

const char *
plumb_spec_place (PlumbSpec *spec, const char *key, guint *line)
{
  PlumbSpecEntry *entry = g_hash_table_lookup (spec->entries, key);

  if (line != NULL)
    *line = entry != NULL ? entry->line : 0;
  return entry != NULL ? entry->file : NULL;
}
