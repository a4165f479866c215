/* SPDX-License-Identifier: Apache-2.0 */
/* Specs as text: run.spec, resolved.spec, a commented one; and the difference of two. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include <glib/gi18n-lib.h>

#include "engine/core/paths.h"
#include "engine/core/spec-private.h"

static const char *
key_name (const PlumbField *field)
{
  return field->key + plumb_field_group_length (field->key) + 1;
}

static char *
written (const PlumbField *field, const char *value)
{
  return field->type == PLUMB_FIELD_TEXT ? plumb_value_escape (value) : g_strdup (value);
}

/* Starts the field's group unless it is the current one. */
static void
open_group (GString *text, const PlumbField *field, const char **group)
{
  gsize length = plumb_field_group_length (field->key);

  if (*group != NULL && strncmp (*group, field->key, length + 1) == 0)
    return;
  g_string_append_printf (text, "%s[%.*s]\n", text->len > 0 ? "\n" : "", (int)length, field->key);
  *group = field->key;
}

static void
append_options (PlumbSpec *spec, GString *text)
{
  g_autoptr (GHashTable) done = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; i < spec->options->len; i++)
    {
      g_autofree char *name = NULL, *first = NULL;
      g_auto (GStrv) options = NULL;

      if (!plumb_spec_split_option (g_ptr_array_index (spec->options, i), &name, &first)
          || !g_hash_table_add (done, g_strdup (name)))
        continue;
      g_string_append_printf (text, "%s[reward %s]\n", text->len > 0 ? "\n" : "", name);
      options = plumb_spec_list_reward_options (spec, name);
      for (gsize j = 0; options[j] != NULL; j++)
        {
          g_autofree char *value
              = plumb_value_escape (plumb_spec_get_reward_option (spec, name, options[j]));

          g_string_append_printf (text, "%s = %s\n", options[j], value);
        }
    }
}

char *
plumb_spec_to_text (PlumbSpec *spec)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const char *group = NULL;
  gsize n;
  const PlumbField *fields = plumb_fields (&n);

  for (gsize i = 0; i < n; i++)
    {
      PlumbSpecEntry *entry = g_hash_table_lookup (spec->entries, fields[i].key);
      g_autofree char *value = NULL;

      if (entry == NULL || entry->text == NULL)
        continue;
      open_group (text, &fields[i], &group);
      value = written (&fields[i], entry->text);
      g_string_append_printf (text, "%s = %s\n", key_name (&fields[i]), value);
    }
  append_options (spec, text);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

char *
plumb_spec_to_resolved_text (PlumbSpec *spec)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const char *group = NULL;
  gsize n;
  const PlumbField *fields = plumb_fields (&n);
  guint algorithm = 1 << plumb_spec_algorithm (spec);

  for (gsize i = 0; i < n; i++)
    {
      const char *value = plumb_spec_get_text (spec, fields[i].key);
      g_autofree char *spelling = NULL;

      if (!(fields[i].algorithms & algorithm) || value == NULL)
        continue;
      open_group (text, &fields[i], &group);
      spelling = written (&fields[i], value);
      if (g_hash_table_contains (spec->resolved, fields[i].key))
        g_string_append_printf (text, "# auto:\n");
      g_string_append_printf (text, "%s = %s\n", key_name (&fields[i]), spelling);
    }
  append_options (spec, text);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
append_comment (GString *text, const PlumbField *field, const char *standard)
{
  g_string_append_printf (text, "# %s", _ (field->help));
  if (field->choices != NULL)
    {
      g_autofree char *choices = g_strjoinv (" ", (char **)field->choices);

      g_string_append_printf (text, " One of: %s.", choices);
    }
  if (field->unit != NULL)
    g_string_append_printf (text, " Unit: %s.", _ (field->unit));
  if (standard != NULL)
    g_string_append_printf (text, " Default: %s.", standard);
  g_string_append_c (text, '\n');
}

char *
plumb_spec_to_commented_text (PlumbSpec *spec)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const char *group = NULL;
  gsize n;
  const PlumbField *fields = plumb_fields (&n);
  PlumbAlgorithm algorithm = plumb_spec_algorithm (spec);

  for (gsize i = 0; i < n; i++)
    {
      gboolean set = plumb_spec_is_set (spec, fields[i].key);
      const char *standard = plumb_field_default (&fields[i], algorithm);
      const char *value = set ? plumb_spec_get_text (spec, fields[i].key) : standard;
      g_autofree char *spelling = written (&fields[i], value != NULL ? value : "");

      if (!set
          && (!(fields[i].algorithms & (1 << algorithm)) || fields[i].level == PLUMB_LEVEL_EXPERT))
        continue;
      open_group (text, &fields[i], &group);
      append_comment (text, &fields[i], standard);
      g_string_append_printf (text, "%s%s =%s%s\n", set ? "" : "#", key_name (&fields[i]),
                              *spelling != '\0' ? " " : "", spelling);
    }
  append_options (spec, text);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

gboolean
plumb_spec_save (PlumbSpec *spec, const char *path, GError **error)
{
  g_autofree char *text = plumb_spec_to_text (spec);

  return plumb_path_replace (path, text, -1, error);
}

gboolean
plumb_spec_save_resolved (PlumbSpec *spec, const char *path, GError **error)
{
  g_autofree char *text = plumb_spec_to_resolved_text (spec);

  return plumb_path_replace (path, text, -1, error);
}

static void
change_free (gpointer data)
{
  PlumbSpecChange *change = data;

  g_free (change->key);
  g_free (change->before);
  g_free (change->after);
  g_free (change);
}

static void
add_change (GPtrArray *changes, const char *key, const char *before, const char *after)
{
  PlumbSpecChange *change;

  if (g_strcmp0 (before, after) == 0)
    return;
  change = g_new0 (PlumbSpecChange, 1);
  change->key = g_strdup (key);
  change->before = g_strdup (before);
  change->after = g_strdup (after);
  g_ptr_array_add (changes, change);
}

static const char *
option_text (PlumbSpec *spec, const char *key)
{
  PlumbSpecEntry *entry = g_hash_table_lookup (spec->entries, key);

  return entry != NULL ? entry->text : NULL;
}

/* A number may be written in several ways: 2 GiB and 2147483648, 0.001 and 1e-3. */
static gboolean
are_equal_numbers (const PlumbField *field, const char *before, const char *after)
{
  gboolean bytes = g_strcmp0 (field->unit, "bytes") == 0;
  double left, right;

  return (field->type == PLUMB_FIELD_INTEGER || field->type == PLUMB_FIELD_REAL) && before != NULL && after != NULL
         && plumb_parse_number (before, FALSE, bytes, &left) && plumb_parse_number (after, FALSE, bytes, &right)
         && left == right;
}

GPtrArray *
plumb_spec_diff (PlumbSpec *before, PlumbSpec *after)
{
  GPtrArray *changes = g_ptr_array_new_with_free_func (change_free);
  gsize n;
  const PlumbField *fields = plumb_fields (&n);

  for (gsize i = 0; i < n; i++)
    if (!are_equal_numbers (&fields[i], plumb_spec_get_text (before, fields[i].key), plumb_spec_get_text (after, fields[i].key)))
      add_change (changes, fields[i].key, plumb_spec_get_text (before, fields[i].key),
                  plumb_spec_get_text (after, fields[i].key));
  for (guint i = 0; i < before->options->len; i++)
    {
      const char *key = g_ptr_array_index (before->options, i);

      add_change (changes, key, option_text (before, key), option_text (after, key));
    }
  for (guint i = 0; i < after->options->len; i++)
    {
      const char *key = g_ptr_array_index (after->options, i);

      if (!g_hash_table_contains (before->entries, key))
        add_change (changes, key, NULL, option_text (after, key));
    }
  return changes;
}
