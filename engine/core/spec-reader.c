/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of a spec: [group], key=value, # comments. All faults are listed, each with its
 * line; what is sound is kept. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/spec-private.h"

#define LARGEST_FILE (1 << 20)
#define MOST_PROBLEMS 200

typedef struct
{
  PlumbSpec *spec;
  const char *file;
  const char *folder;
  GPtrArray *problems;
  guint line;
  char *group;       /* NULL: none yet, or an unknown one that was reported */
  gboolean skipping; /* inside an unknown group */
  GHashTable *seen;  /* key -> line, of this text */
} Reader;

static void G_GNUC_PRINTF (5, 6) report (
    Reader *reader, const char *key, const char *value, const char *remedy, const char *format, ...)
{
  g_autofree char *message = NULL;
  va_list args;

  if (reader->problems->len >= MOST_PROBLEMS)
    return;
  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_ptr_array_add (reader->problems,
                   plumb_problem_new (key, value, reader->file, reader->line, message, remedy));
}

static gboolean
is_known_group (const char *name)
{
  gsize n;
  const PlumbFieldGroup *groups = plumb_field_groups (&n);

  for (gsize i = 0; i < n; i++)
    if (g_str_equal (groups[i].name, name))
      return TRUE;
  return FALSE;
}

static char *
suggest_group (const char *name)
{
  gsize n;
  const PlumbFieldGroup *groups = plumb_field_groups (&n);
  g_autofree const char **names = g_new0 (const char *, n + 1);
  const char *nearest;

  for (gsize i = 0; i < n; i++)
    names[i] = groups[i].name;
  nearest = plumb_nearest_word (name, names, n);
  if (nearest != NULL)
    return g_strdup_printf ("did you mean [%s]?", nearest);
  else
    {
      g_autofree char *all = g_strjoinv (", ", (char **)names);

      return g_strdup_printf ("the groups are: %s", all);
    }
}

static void
read_group (Reader *reader, char *text)
{
  char *end = strrchr (text, ']');

  g_clear_pointer (&reader->group, g_free);
  reader->skipping = TRUE;
  if (end == NULL || end[1] != '\0')
    {
      report (reader, NULL, text, "write a group as [name] on a line of its own",
              "this is not a group");
      return;
    }
  *end = '\0';
  g_strstrip (++text);
  if (g_str_has_prefix (text, "reward ") && text[strlen ("reward ")] != '\0'
      && strchr (text, '.') == NULL)
    {
      g_autofree char *name = g_strstrip (g_strdup (text + strlen ("reward ")));

      reader->group = g_strdup_printf ("reward.%s", name);
    }
  else if (is_known_group (text))
    reader->group = g_strdup (text);
  else
    {
      g_autofree char *remedy = suggest_group (text);

      report (reader, NULL, text, remedy, "there is no group [%s]", text);
    }
  reader->skipping = reader->group == NULL;
}

static void
keep_field (Reader *reader, const PlumbField *field, const char *raw)
{
  g_autofree char *value = NULL, *normal = NULL, *message = NULL, *remedy = NULL;

  if (field->type == PLUMB_FIELD_TEXT)
    value = plumb_value_unescape (raw);
  else
    value = plumb_spec_complete_paths (field, raw, reader->folder);
  if (plumb_field_check (field, value, &normal, &message, &remedy))
    plumb_spec_store (reader->spec, field->key, normal, reader->file, reader->line);
  else
    {
      plumb_spec_store (reader->spec, field->key, NULL, reader->file, reader->line);
      report (reader, field->key, raw, remedy, "%s", message);
    }
}

static void
keep_value (Reader *reader, const char *key, const char *raw)
{
  const PlumbField *field = plumb_field_find (key);
  g_autofree char *name = NULL, *option = NULL;

  if (field != NULL)
    keep_field (reader, field, raw);
  else if (plumb_spec_split_option (key, &name, &option))
    {
      g_autofree char *value = plumb_value_unescape (raw);

      plumb_spec_store (reader->spec, key, value, reader->file, reader->line);
    }
  else
    {
      const char *nearest = plumb_field_nearest (key);
      g_autofree char *remedy = nearest != NULL
                                    ? g_strdup_printf ("did you mean %s?", nearest)
                                    : g_strdup ("`plumbline-engine spec --fields` lists all");

      report (reader, key, raw, remedy, "there is no such setting");
    }
}

static void
read_assignment (Reader *reader, char *text)
{
  char *equals = strchr (text, '=');
  g_autofree char *name = NULL, *key = NULL;
  gpointer first;

  if (equals == NULL || equals == text)
    {
      report (reader, NULL, text, "write key=value, [group], or start a comment with #",
              "this line is no setting");
      return;
    }
  if (reader->group == NULL)
    {
      if (!reader->skipping)
        report (reader, NULL, text, "put a line such as [run] above it",
                "this setting stands in no group");
      return;
    }
  name = g_strstrip (g_strndup (text, equals - text));
  key = g_strdup_printf ("%s.%s", reader->group, name);
  if (g_hash_table_lookup_extended (reader->seen, key, NULL, &first))
    {
      report (reader, key, g_strstrip (equals + 1), "remove one of the two",
              "this is set twice; first in line %u", GPOINTER_TO_UINT (first));
      return;
    }
  g_hash_table_insert (reader->seen, g_strdup (key), GUINT_TO_POINTER (reader->line));
  keep_value (reader, key, g_strstrip (equals + 1));
}

static void
read_line (Reader *reader, const char *text, gsize length)
{
  g_autofree char *line = NULL;

  if (memchr (text, '\0', length) != NULL || !g_utf8_validate (text, length, NULL))
    {
      report (reader, NULL, NULL, "save the file as UTF-8 text", "this line is not UTF-8 text");
      return;
    }
  line = g_strstrip (g_strndup (text, length));
  if (line[0] == '\0' || line[0] == '#' || line[0] == ';')
    return;
  if (line[0] == '[')
    read_group (reader, line);
  else
    read_assignment (reader, line);
}

void
plumb_spec_load_data (PlumbSpec *spec,
                      const char *data,
                      gsize length,
                      const char *name,
                      const char *folder,
                      GPtrArray *problems)
{
  Reader reader = { .spec = spec, .file = name, .folder = folder, .problems = problems };
  const char *end = data + length;

  if (length > LARGEST_FILE)
    {
      plumb_problems_add (problems, NULL, NULL, name, 0, "is this really a spec?",
                          "the file has %" G_GSIZE_FORMAT " bytes; a spec has at most %d", length,
                          LARGEST_FILE);
      return;
    }
  reader.seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  if (length >= 3 && memcmp (data, "\xef\xbb\xbf", 3) == 0)
    data += 3;
  while (data < end)
    {
      const char *stop = memchr (data, '\n', end - data);

      if (stop == NULL)
        stop = end;
      reader.line++;
      read_line (&reader, data, stop - data);
      data = stop + 1;
    }
  g_hash_table_unref (reader.seen);
  g_free (reader.group);
}

gboolean
plumb_spec_load_file (PlumbSpec *spec, const char *path, GPtrArray *problems, GError **error)
{
  g_autoptr (GMappedFile) file = NULL;
  g_autoptr (GError) local = NULL;
  g_autofree char *folder = NULL;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: this is a folder; name a spec file", path);
      return FALSE;
    }
  file = g_mapped_file_new (path, FALSE, &local);
  if (file == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: cannot read the spec: %s; `plumbline-engine spec --preset NAME` writes one",
                   path, local->message);
      return FALSE;
    }
  folder = g_path_get_dirname (path);
  plumb_spec_load_data (spec, g_mapped_file_get_contents (file), g_mapped_file_get_length (file),
                        path, folder, problems);
  return TRUE;
}
