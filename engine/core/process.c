/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/process.h"

/* The fields of /proc/PID/stat after the name, which may itself hold blanks and brackets; NULL when
 * there is no such process. The first is the state. */
static char **
read_stat (gint64 pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%" G_GINT64_FORMAT "/stat", pid);
  g_autofree char *text = NULL;
  const char *after;

  if (pid <= 0 || !g_file_get_contents (path, &text, NULL, NULL))
    return NULL;
  after = strrchr (text, ')');
  if (after == NULL || after[1] != ' ')
    return NULL;
  return g_strsplit (after + 2, " ", 64);
}

static gboolean
is_dead (char **stat)
{
  return stat[0][0] == 'Z' || stat[0][0] == 'X';
}

guint64
plumb_process_start_time (gint64 pid)
{
  g_auto (GStrv) stat = read_stat (pid);

  /* Field 22 of the whole line; the state is field 3. */
  if (stat == NULL || g_strv_length (stat) < 20 || is_dead (stat))
    return 0;
  return g_ascii_strtoull (stat[19], NULL, 10);
}

char *
plumb_boot_id (void)
{
  char *text = NULL;

  if (!g_file_get_contents ("/proc/sys/kernel/random/boot_id", &text, NULL, NULL))
    return NULL;
  return g_strstrip (text);
}

GArray *
plumb_process_group_members (gint64 group)
{
  GArray *members = g_array_new (FALSE, FALSE, sizeof (gint64));
  GDir *proc = g_dir_open ("/proc", 0, NULL);
  const char *name;

  while (proc != NULL && (name = g_dir_read_name (proc)) != NULL)
    {
      gint64 pid = g_ascii_strtoll (name, NULL, 10);
      g_auto (GStrv) stat = pid > 0 ? read_stat (pid) : NULL;

      if (stat != NULL && g_strv_length (stat) > 2 && !is_dead (stat)
          && g_ascii_strtoll (stat[2], NULL, 10) == group)
        g_array_append_val (members, pid);
    }
  g_clear_pointer (&proc, g_dir_close);
  return members;
}
