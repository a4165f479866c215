/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <glib/gstdio.h>

#include "app/spec-file.h"
#include "engine/core/error.h"
#include "engine/core/paths.h"

char *
plumb_spec_file_path (PlumbSpec *spec)
{
  const char *name = plumb_spec_get_text (spec, "run.name");
  g_autofree char *clean = g_strdup (name != NULL && *name != '\0' && !g_str_equal (name, "auto")
                                         ? name
                                         : plumb_algorithm_name (plumb_spec_algorithm (spec)));
  g_autofree char *file = NULL;

  g_strcanon (clean, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", '-');
  file = g_strconcat (clean, ".spec", NULL);
  return g_build_filename (g_get_user_data_dir (), "plumbline", "specs", file, NULL);
}

/* Writing to disk may take its time. */
static void
save_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  char **path_and_text = data;
  g_autofree char *folder = g_path_get_dirname (path_and_text[0]);
  GError *error = NULL;

  if (g_mkdir_with_parents (folder, 0700) != 0)
    g_task_return_new_error (task, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                             _ ("The folder “%s” cannot be made: %s"), folder, g_strerror (errno));
  else if (!plumb_path_replace (path_and_text[0], path_and_text[1], -1, &error))
    g_task_return_error (task, error);
  else
    g_task_return_boolean (task, TRUE);
}

void
plumb_spec_file_save_async (gpointer source,
                            PlumbSpec *spec,
                            const char *path,
                            GCancellable *cancellable,
                            GAsyncReadyCallback callback,
                            gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (source, cancellable, callback, user_data);
  char **path_and_text = g_new0 (char *, 3);

  path_and_text[0] = g_strdup (path);
  path_and_text[1] = plumb_spec_to_text (spec);
  g_task_set_source_tag (task, plumb_spec_file_save_async);
  g_task_set_task_data (task, path_and_text, (GDestroyNotify)g_strfreev);
  g_task_run_in_thread (task, save_thread);
}

const char *
plumb_spec_file_save_finish (GAsyncResult *result, GError **error)
{
  char **path_and_text = g_task_get_task_data (G_TASK (result));

  return g_task_propagate_boolean (G_TASK (result), error) ? path_and_text[0] : NULL;
}
