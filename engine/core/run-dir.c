/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/core/paths.h"
#include "engine/core/run-dir.h"

static gboolean
make_folder (const char *path, GError **error)
{
  if (g_mkdir_with_parents (path, 0755) == 0)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
               "%s: cannot make the folder: %s; choose another with run.directory", path,
               g_strerror (errno));
  return FALSE;
}

gboolean
plumb_run_dir_is_run (const char *path)
{
  g_autofree char *spec = g_build_filename (path, PLUMB_RUN_SPEC, NULL);

  return g_file_test (spec, G_FILE_TEST_IS_REGULAR);
}

gboolean
plumb_run_dir_create (const char *run, GError **error)
{
  g_autofree char *checkpoints = g_build_filename (run, PLUMB_RUN_CHECKPOINTS, NULL);
  g_autoptr (GDir) folder = NULL;

  if (plumb_run_dir_is_run (run))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: there is a run in this folder already; continue it with --resume, or choose"
                   " another folder",
                   run);
      return FALSE;
    }
  if (!make_folder (run, error))
    return FALSE;
  folder = g_dir_open (run, 0, error);
  if (folder == NULL)
    return FALSE;
  if (g_dir_read_name (folder) != NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: the folder holds other files; choose an empty or a new one", run);
      return FALSE;
    }
  return make_folder (checkpoints, error);
}

char *
plumb_run_dir_propose (const char *name)
{
  g_autofree char *folder = plumb_path_runs ();
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *time = g_date_time_format (now, "%Y%m%d-%H%M%S");
  g_autofree char *safe = g_strdup (name);
  g_autofree char *path = NULL;

  /* Keeps letters of every language; takes what a shell or a file system might mind. */
  for (char *c = safe; *c != '\0'; c++)
    if ((guchar)*c < 0x80 && !g_ascii_isalnum (*c) && strchr ("-_.", *c) == NULL)
      *c = '-';
  if (safe[0] == '.' || safe[0] == '-')
    safe[0] = '_';
  path = g_strdup_printf ("%s/%s-%s", folder, safe, time);
  for (int i = 2; g_file_test (path, G_FILE_TEST_EXISTS); i++)
    {
      g_free (path);
      path = g_strdup_printf ("%s/%s-%s-%d", folder, safe, time, i);
    }
  return g_steal_pointer (&path);
}

static gboolean
query_lock (int fd, gint64 *pid)
{
  struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

  if (fcntl (fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
    return FALSE;
  if (pid != NULL)
    *pid = lock.l_pid;
  return TRUE;
}

int
plumb_run_lock (const char *run, GError **error)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_LOCK, NULL);
  struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  int fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  int number = errno;
  gint64 pid = 0;

  if (fd >= 0 && fcntl (fd, F_SETLK, &lock) == 0)
    return fd;
  if (fd >= 0)
    {
      number = errno;
      query_lock (fd, &pid);
      close (fd);
    }
  if (pid > 0)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                 "%s: another engine (process %" G_GINT64_FORMAT
                 ") works on this run; stop it with `plumbline-engine stop`, or choose another"
                 " folder",
                 run, pid);
  else
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                 "%s: cannot take the lock of the run: %s", path, g_strerror (number));
  return -1;
}

gboolean
plumb_run_lock_is_held (const char *run, gint64 *pid)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_LOCK, NULL);
  int fd = open (path, O_RDONLY | O_CLOEXEC);
  gboolean held;

  if (pid != NULL)
    *pid = 0;
  if (fd < 0)
    return FALSE;
  held = query_lock (fd, pid);
  close (fd);
  return held;
}

gboolean
plumb_run_request_stop (const char *run, GError **error)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_STOP, NULL);

  return plumb_path_replace (path, "stop\n", -1, error);
}

gboolean
plumb_run_stop_requested (const char *run)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_STOP, NULL);

  return g_file_test (path, G_FILE_TEST_EXISTS);
}

void
plumb_run_clear_stop (const char *run)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_STOP, NULL);

  g_unlink (path);
}

gint64
plumb_run_last_checkpoint (const char *run)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_CHECKPOINTS, NULL);
  g_autoptr (GDir) folder = g_dir_open (path, 0, NULL);
  const char *name;
  gint64 newest = -1;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      const char *digits = name + strlen ("step-");

      if (g_str_has_prefix (name, "step-") && *digits != '\0'
          && strspn (digits, "0123456789") == strlen (digits))
        newest = MAX (newest, g_ascii_strtoll (digits, NULL, 10));
    }
  return newest;
}
