/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "engine/core/paths.h"

char *
plumb_path_data (const char *name)
{
  const char *folders[] = { g_getenv ("PLUMB_DATADIR"), PLUMB_PKGDATADIR, PLUMB_SOURCE_DATADIR };

  for (gsize i = 0; i < G_N_ELEMENTS (folders); i++)
    {
      g_autofree char *path = NULL;

      if (folders[i] == NULL || folders[i][0] == '\0')
        continue;
      path = g_build_filename (folders[i], name, NULL);
      if (g_file_test (path, G_FILE_TEST_EXISTS))
        return g_steal_pointer (&path);
    }
  return NULL;
}

/* Asked anew each time, not through g_get_user_state_dir(), which keeps its first answer. */
static char *
xdg_folder (const char *variable, const char *otherwise)
{
  const char *folder = g_getenv (variable);

  if (folder != NULL && g_path_is_absolute (folder))
    return g_build_filename (folder, "plumbline", "runs", NULL);
  return g_build_filename (g_get_home_dir (), otherwise, "plumbline", "runs", NULL);
}

char *
plumb_path_registry (void)
{
  return xdg_folder ("XDG_STATE_HOME", ".local/state");
}

char *
plumb_path_runs (void)
{
  return xdg_folder ("XDG_DATA_HOME", ".local/share");
}

char *
plumb_path_absolute (const char *path, const char *folder)
{
  g_autofree char *base = NULL;

  if (path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
    return g_build_filename (g_get_home_dir (), path + 1, NULL);
  if (folder == NULL)
    return g_canonicalize_filename (path, NULL);
  base = g_canonicalize_filename (folder, NULL);
  return g_canonicalize_filename (path, base);
}

static gboolean
fail_errno (GError **error, int number, const char *what, const char *path)
{
  g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (number), "%s: cannot %s: %s", path,
               what, g_strerror (number));
  return FALSE;
}

gboolean
plumb_path_sync (const char *path, GError **error)
{
  int fd = open (path, O_RDONLY | O_CLOEXEC);
  int result, number;

  if (fd < 0)
    return fail_errno (error, errno, "open it", path);
  result = fsync (fd);
  number = errno;
  close (fd);
  /* Some file systems cannot sync a folder; there is nothing to be done about it. */
  if (result < 0 && number != EINVAL && number != EROFS)
    return fail_errno (error, number, "write it to disk", path);
  return TRUE;
}

static gboolean
write_all (int fd, const char *data, gsize length)
{
  while (length > 0)
    {
      gssize n = write (fd, data, MIN (length, 1 << 30));

      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return FALSE;
      data += n;
      length -= n;
    }
  return TRUE;
}

gboolean
plumb_path_replace (const char *path, const char *data, gssize length, GError **error)
{
  g_autofree char *aside = g_strdup_printf ("%s.XXXXXX", path);
  int fd = g_mkstemp_full (aside, O_RDWR | O_CLOEXEC, 0644);
  int number = 0;

  if (fd < 0)
    return fail_errno (error, errno, "write beside it", path);
  if (!write_all (fd, data, length < 0 ? strlen (data) : (gsize)length) || fsync (fd) < 0)
    number = errno;
  if (close (fd) < 0 && number == 0)
    number = errno;
  if (number == 0 && rename (aside, path) < 0)
    number = errno;
  if (number != 0)
    {
      g_unlink (aside);
      return fail_errno (error, number, "replace it", path);
    }
  return TRUE;
}
