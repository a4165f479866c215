/* SPDX-License-Identifier: Apache-2.0 */
/* The listing of `spec --fields`. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include <glib/gi18n-lib.h>

#include "engine/core/spec-fields.h"

static void
add_text (JsonBuilder *builder, const char *name, const char *value)
{
  json_builder_set_member_name (builder, name);
  if (value != NULL)
    json_builder_add_string_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

static void
add_limits (JsonBuilder *builder, const PlumbField *field)
{
  if (field->type != PLUMB_FIELD_INTEGER && field->type != PLUMB_FIELD_REAL
      && field->type != PLUMB_FIELD_REALS)
    return;
  if (field->minimum > -G_MAXDOUBLE)
    {
      json_builder_set_member_name (builder, "minimum");
      json_builder_add_double_value (builder, field->minimum);
      json_builder_set_member_name (builder, "minimum_allowed");
      json_builder_add_boolean_value (builder, !(field->flags & PLUMB_FIELD_MIN_OPEN));
    }
  if (field->maximum < G_MAXDOUBLE)
    {
      json_builder_set_member_name (builder, "maximum");
      json_builder_add_double_value (builder, field->maximum);
    }
}

static void
add_field (JsonBuilder *builder, const PlumbField *field)
{
  json_builder_begin_object (builder);
  add_text (builder, "key", field->key);
  add_text (builder, "label", field->label);
  add_text (builder, "type", plumb_field_type_name (field->type));
  add_text (builder, "unit", field->unit);
  json_builder_set_member_name (builder, "default");
  json_builder_begin_object (builder);
  for (int a = 0; a < PLUMB_N_ALGORITHMS; a++)
    if (field->algorithms & (1 << a))
      add_text (builder, plumb_algorithm_name (a), plumb_field_default (field, a));
  json_builder_end_object (builder);
  add_limits (builder, field);
  if (field->choices != NULL)
    {
      json_builder_set_member_name (builder, "choices");
      json_builder_begin_array (builder);
      for (gsize i = 0; field->choices[i] != NULL; i++)
        json_builder_add_string_value (builder, field->choices[i]);
      json_builder_end_array (builder);
    }
  add_text (builder, "help", field->help);
  add_text (builder, "level", plumb_field_level_name (field->level));
  add_text (builder, "widget", plumb_field_widget_name (field->widget));
  add_text (builder, "openrlhf", field->openrlhf);
  json_builder_end_object (builder);
}

JsonNode *
plumb_fields_to_json (void)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  gsize n;
  const PlumbField *fields = plumb_fields (&n);

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "fields");
  json_builder_begin_array (builder);
  for (gsize i = 0; i < n; i++)
    add_field (builder, &fields[i]);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}

static void
append_field (GString *text, const PlumbField *field)
{
  const char *name = field->key + plumb_field_group_length (field->key) + 1;
  const char *standard = field->flags & PLUMB_FIELD_AUTO ? "auto" : field->standard;

  g_string_append_printf (text, "  %-24s %s", name, plumb_field_type_name (field->type));
  if (standard != NULL)
    g_string_append_printf (text, ", default %s", standard);
  for (int a = 0; a < PLUMB_N_ALGORITHMS; a++)
    if ((field->algorithms & (1 << a)) && g_strcmp0 (plumb_field_default (field, a), standard) != 0)
      g_string_append_printf (text, " (%s: %s)", plumb_algorithm_name (a),
                              plumb_field_default (field, a));
  if (field->unit != NULL)
    g_string_append_printf (text, ", in %s", _ (field->unit));
  if (field->choices != NULL)
    {
      g_autofree char *choices = g_strjoinv (" ", (char **)field->choices);

      g_string_append_printf (text, ": %s", choices);
    }
  g_string_append_printf (text, "\n  %-24s %s\n", "", _ (field->help));
}

char *
plumb_fields_to_text (void)
{
  g_autoptr (GString) text = g_string_new (NULL);
  gsize n, n_groups;
  const PlumbField *fields = plumb_fields (&n);
  const PlumbFieldGroup *groups = plumb_field_groups (&n_groups);

  for (gsize g = 0; g < n_groups; g++)
    {
      g_string_append_printf (text, "%s[%s]  %s\n", g > 0 ? "\n" : "", groups[g].name,
                              _ (groups[g].help));
      for (gsize i = 0; i < n; i++)
        if (plumb_field_group_length (fields[i].key) == strlen (groups[g].name)
            && g_str_has_prefix (fields[i].key, groups[g].name))
          append_field (text, &fields[i]);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}
