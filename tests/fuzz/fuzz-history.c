/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as recorded curves: the first byte chooses the kind of file. */
#include "config.h"

#include <unistd.h>

#include <glib/gstdio.h>

#include "engine/core/history.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static char *path;
  g_autoptr (PlumbHistory) history = plumb_history_new ();
  g_autoptr (GArray) attempts = NULL;

  if (size == 0)
    return 0;
  if (path == NULL)
    path = g_strdup_printf ("%s/plumbline-fuzz-history-%d", g_get_tmp_dir (), (int)getpid ());
  if (!g_file_set_contents_full (path, (const char *)data + 1, size - 1, G_FILE_SET_CONTENTS_NONE, 0600, NULL))
    return 0;
  if (data[0] % 3 == 0)
    plumb_history_read_events (history, path, NULL);
  else if (data[0] % 3 == 1)
    plumb_history_read_lines (history, path, NULL);
  else
    plumb_history_read_csv (history, path, NULL);
  g_unlink (path);
  attempts = plumb_history_attempts (history);
  return 0;
}
