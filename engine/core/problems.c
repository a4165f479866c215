/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/spec.h"

PlumbProblem *
plumb_problem_new (const char *key,
                   const char *value,
                   const char *file,
                   guint line,
                   const char *message,
                   const char *remedy)
{
  PlumbProblem *problem = g_new0 (PlumbProblem, 1);

  problem->key = g_strdup (key);
  problem->value = g_strdup (value);
  problem->file = g_strdup (file);
  problem->line = line;
  problem->message = g_strdup (message);
  problem->remedy = g_strdup (remedy);
  return problem;
}

void
plumb_problem_free (PlumbProblem *problem)
{
  g_free (problem->key);
  g_free (problem->value);
  g_free (problem->file);
  g_free (problem->message);
  g_free (problem->remedy);
  g_free (problem);
}

GPtrArray *
plumb_problems_new (void)
{
  return g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_problem_free);
}

void
plumb_problems_add (GPtrArray *problems,
                    const char *key,
                    const char *value,
                    const char *file,
                    guint line,
                    const char *remedy,
                    const char *format,
                    ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_ptr_array_add (problems, plumb_problem_new (key, value, file, line, message, remedy));
}

void
plumb_problems_add_error (GPtrArray *problems, const GError *error)
{
  const char *message = error->message;
  g_autofree char *key = g_strndup (message, strcspn (message, " :="));

  if (plumb_field_find (key) == NULL)
    g_clear_pointer (&key, g_free);
  else if (message[strlen (key)] == ':')
    message += strlen (key) + 1 + (message[strlen (key) + 1] == ' ');
  g_ptr_array_add (problems, plumb_problem_new (key, NULL, NULL, 0, message, NULL));
}

char *
plumb_problems_to_text (GPtrArray *problems)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < problems->len; i++)
    {
      const PlumbProblem *problem = g_ptr_array_index (problems, i);

      if (i > 0)
        g_string_append_c (text, '\n');
      if (problem->file != NULL)
        g_string_append_printf (text, "%s:", problem->file);
      if (problem->file != NULL && problem->line > 0)
        g_string_append_printf (text, "%u:", problem->line);
      if (problem->file != NULL)
        g_string_append_c (text, ' ');
      if (problem->key != NULL && problem->value != NULL)
        g_string_append_printf (text, "%s = %s: ", problem->key, problem->value);
      else if (problem->key != NULL || problem->value != NULL)
        g_string_append_printf (text, "%s: ", problem->key != NULL ? problem->key : problem->value);
      g_string_append (text, problem->message);
      if (problem->remedy != NULL)
        g_string_append_printf (text, "; %s", problem->remedy);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
add_text (JsonBuilder *builder, const char *name, const char *value)
{
  json_builder_set_member_name (builder, name);
  if (value != NULL)
    json_builder_add_string_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

JsonNode *
plumb_problems_to_json (GPtrArray *problems)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "problems");
  json_builder_begin_array (builder);
  for (guint i = 0; i < problems->len; i++)
    {
      const PlumbProblem *problem = g_ptr_array_index (problems, i);

      json_builder_begin_object (builder);
      add_text (builder, "key", problem->key);
      add_text (builder, "value", problem->value);
      add_text (builder, "file", problem->file);
      json_builder_set_member_name (builder, "line");
      if (problem->line > 0)
        json_builder_add_int_value (builder, problem->line);
      else
        json_builder_add_null_value (builder);
      add_text (builder, "message", problem->message);
      add_text (builder, "remedy", problem->remedy);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}

gboolean
plumb_problems_to_error (GPtrArray *problems, GError **error)
{
  g_autofree char *text = NULL;

  if (problems->len == 0)
    return TRUE;
  text = plumb_problems_to_text (problems);
  g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, text);
  return FALSE;
}
