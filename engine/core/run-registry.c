/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of runs: $XDG_STATE_HOME/plumbline/runs/UUID. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <string.h>

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/core/paths.h"
#include "engine/core/run-dir.h"

#define LONGEST_ENTRY 8192

gboolean
plumb_run_register (const char *run, const char *id, GError **error)
{
  g_autofree char *folder = plumb_path_registry ();
  g_autofree char *file = g_build_filename (folder, id, NULL);
  g_autofree char *path = plumb_path_absolute (run, NULL);
  g_autofree char *text = g_strconcat (path, "\n", NULL);

  g_return_val_if_fail (g_uuid_string_is_valid (id), FALSE);
  if (g_mkdir_with_parents (folder, 0755) < 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   "%s: cannot make the folder of the registry: %s", folder, g_strerror (errno));
      return FALSE;
    }
  return plumb_path_replace (file, text, -1, error);
}

gboolean
plumb_run_unregister (const char *id, GError **error)
{
  g_autofree char *folder = plumb_path_registry ();
  g_autofree char *file = g_build_filename (folder, id, NULL);

  g_return_val_if_fail (g_uuid_string_is_valid (id), FALSE);
  if (g_unlink (file) == 0 || errno == ENOENT)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "%s: cannot remove it: %s", file,
               g_strerror (errno));
  return FALSE;
}

typedef struct
{
  char *path;
  gint64 time; /* of the registry file: when the run was made */
} Entry;

static void
entry_clear (gpointer data)
{
  g_free (((Entry *)data)->path);
}

static int
newest_first (gconstpointer a, gconstpointer b)
{
  const Entry *p = a, *q = b;

  if (p->time != q->time)
    return p->time < q->time ? 1 : -1;
  return strcmp (p->path, q->path);
}

static void
read_entry (GArray *entries, const char *folder, const char *id)
{
  g_autofree char *file = g_build_filename (folder, id, NULL);
  g_autofree char *text = NULL;
  Entry entry = { 0 };
  GStatBuf info;
  gsize length;

  /* Others' files, and those still being written, have names that are no UUID. */
  if (!g_uuid_string_is_valid (id) || g_stat (file, &info) < 0 || info.st_size > LONGEST_ENTRY
      || !g_file_get_contents (file, &text, &length, NULL) || strlen (text) != length)
    return;
  g_strchomp (text);
  if (!g_path_is_absolute (text) || !g_file_test (text, G_FILE_TEST_IS_DIR))
    return;
  entry.path = g_steal_pointer (&text);
  entry.time = info.st_mtim.tv_sec * G_GINT64_CONSTANT (1000000000) + info.st_mtim.tv_nsec;
  g_array_append_val (entries, entry);
}

char **
plumb_run_list (GError **error)
{
  g_autofree char *path = plumb_path_registry ();
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autoptr (GDir) folder = NULL;
  const char *name;

  g_array_set_clear_func (entries, entry_clear);
  if (g_file_test (path, G_FILE_TEST_EXISTS))
    {
      folder = g_dir_open (path, 0, error);
      if (folder == NULL)
        return NULL;
    }
  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    read_entry (entries, path, name);
  g_array_sort (entries, newest_first);
  /* A folder that was removed and used again stands under two ids. */
  for (guint i = 0; i < entries->len; i++)
    {
      const char *run = g_array_index (entries, Entry, i).path;

      if (g_hash_table_add (seen, (gpointer)run))
        g_strv_builder_add (builder, run);
    }
  return g_strv_builder_end (builder);
}

static gboolean
is_called (const char *run, const char *what)
{
  g_autofree char *base = g_path_get_basename (run);
  g_autoptr (PlumbRunStatus) status = NULL;

  if (g_str_equal (base, what))
    return TRUE;
  status = plumb_run_status_read (run, NULL);
  return status != NULL
         && (g_strcmp0 (status->id, what) == 0 || g_strcmp0 (status->name, what) == 0);
}

char *
plumb_run_find (const char *what, GError **error)
{
  g_auto (GStrv) runs = NULL;

  if (plumb_run_dir_is_run (what))
    return plumb_path_absolute (what, NULL);
  if (g_file_test (what, G_FILE_TEST_IS_DIR))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: this folder holds no run (no %s)",
                   what, PLUMB_RUN_SPEC);
      return NULL;
    }
  runs = plumb_run_list (error);
  if (runs == NULL)
    return NULL;
  for (gsize i = 0; runs[i] != NULL; i++)
    if (is_called (runs[i], what))
      return g_strdup (runs[i]);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "%s: there is no such run; give its folder, its name or its id", what);
  return NULL;
}
