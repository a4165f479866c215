/* SPDX-License-Identifier: Apache-2.0 */
/* How values are spelled: lists, weights, escapes, paths. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/paths.h"
#include "engine/core/spec-private.h"

static char
escape_meaning (char letter)
{
  switch (letter)
    {
    case 's':
      return ' ';
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case '\\':
    case ',':
      return letter;
    default:
      return '\0';
    }
}

char *
plumb_value_unescape (const char *text)
{
  GString *result = g_string_sized_new (strlen (text));

  for (const char *p = text; *p != '\0'; p++)
    if (*p == '\\' && escape_meaning (p[1]) != '\0')
      g_string_append_c (result, escape_meaning (*++p));
    else
      g_string_append_c (result, *p);
  return g_string_free (result, FALSE);
}

char *
plumb_value_escape (const char *text)
{
  GString *result = g_string_sized_new (strlen (text));
  gsize length = strlen (text);

  for (gsize i = 0; i < length; i++)
    {
      char c = text[i];

      if (c == '\\')
        g_string_append (result, "\\\\");
      else if (c == '\n')
        g_string_append (result, "\\n");
      else if (c == '\t')
        g_string_append (result, "\\t");
      else if (c == '\r')
        g_string_append (result, "\\r");
      else if (c == ' ' && (i == 0 || i == length - 1))
        g_string_append (result, "\\s");
      else
        g_string_append_c (result, c);
    }
  return g_string_free (result, FALSE);
}

char **
plumb_list_split (const char *text)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  const char *start = text;

  for (;;)
    {
      const char *end = start;
      g_autofree char *raw = NULL;

      while (*end != '\0' && *end != ',')
        end += end[0] == '\\' && end[1] != '\0' ? 2 : 1;
      raw = g_strstrip (g_strndup (start, end - start));
      if (*raw != '\0')
        {
          g_autofree char *item = plumb_value_unescape (raw);

          g_strv_builder_add (builder, item);
        }
      if (*end == '\0')
        break;
      start = end + 1;
    }
  return g_strv_builder_end (builder);
}

char *
plumb_spec_split_weight (const char *entry, double *weight)
{
  const char *colon = strrchr (entry, ':');
  double number;

  *weight = 1;
  if (colon == NULL || colon == entry || !plumb_parse_number (colon + 1, FALSE, FALSE, &number))
    return g_strdup (entry);
  *weight = number;
  return g_strndup (entry, colon - entry);
}

static char *
complete_path (const char *path, const char *folder)
{
  if (*path == '\0' || g_str_has_prefix (path, "builtin:"))
    return g_strdup (path);
  return plumb_path_absolute (path, folder);
}

char *
plumb_spec_complete_paths (const PlumbField *field, const char *value, const char *folder)
{
  g_auto (GStrv) items = NULL;
  g_autoptr (GString) joined = NULL;

  if (field->type == PLUMB_FIELD_PATH && !g_str_equal (value, "auto"))
    return complete_path (value, folder);
  if (field->type != PLUMB_FIELD_PATHS)
    return g_strdup (value);
  items = plumb_list_split (value);
  joined = g_string_new (NULL);
  for (gsize i = 0; items[i] != NULL; i++)
    {
      g_autofree char *complete = complete_path (items[i], folder);
      g_autofree char *escaped = plumb_value_escape (complete);
      g_auto (GStrv) pieces = g_strsplit (escaped, ",", -1);
      g_autofree char *safe = g_strjoinv ("\\,", pieces);

      g_string_append_printf (joined, "%s%s", i > 0 ? ", " : "", safe);
    }
  return g_string_free (g_steal_pointer (&joined), FALSE);
}
