/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib/gstdio.h>

/* A folder for one test. (transfer full) */
static inline char *
temporary_folder (void)
{
  char *folder = g_dir_make_tmp ("plumbline-XXXXXX", NULL);

  g_assert_nonnull (folder);
  return folder;
}

static inline void
remove_folder (const char *path)
{
  GDir *folder = g_dir_open (path, 0, NULL);
  const char *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *child = g_build_filename (path, name, NULL);

      if (g_file_test (child, G_FILE_TEST_IS_DIR) && !g_file_test (child, G_FILE_TEST_IS_SYMLINK))
        remove_folder (child);
      else
        g_unlink (child);
    }
  g_clear_pointer (&folder, g_dir_close);
  g_rmdir (path);
}
