/* SPDX-License-Identifier: Apache-2.0 */

/* Room on the disk for the next checkpoints, looked at while the run goes on. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gstdio.h>
#include <sys/statvfs.h>

#include "engine/core/error.h"
#include "engine/run/run-private.h"

#define MARGIN (16 << 20) /* bytes for telemetry and logs, at most */
#define FEW 4             /* checkpoints: with less room than for so many it is told */

/* Bytes of the files below a folder. */
static guint64
folder_bytes (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;
  guint64 bytes = 0;
  while (dir && (name = g_dir_read_name (dir)))
    {
      g_autofree char *file = g_build_filename (path, name, NULL);
      GStatBuf info;
      if (g_lstat (file, &info) != 0)
        continue;
      bytes += S_ISDIR (info.st_mode) ? folder_bytes (file) : (guint64) info.st_size;
    }
  return bytes;
}

void
plumb_run_measure_checkpoint (PlumbRun *run, const char *folder)
{
  run->checkpoint_bytes = folder_bytes (folder);
}

/* Free bytes; FALSE where they, or what a checkpoint takes, are not known. */
static gboolean
read_free (PlumbRun *run, guint64 *bytes)
{
  struct statvfs disk;
  if (run->checkpoint_bytes == 0 || statvfs (run->dir, &disk) != 0)
    return FALSE;
  *bytes = (guint64) disk.f_bavail * disk.f_frsize;
  return TRUE;
}

static guint64
needed (const PlumbRun *run, guint64 checkpoints)
{
  return checkpoints * run->checkpoint_bytes + MIN (MARGIN, run->checkpoint_bytes);
}

gboolean
plumb_run_has_room (PlumbRun *run)
{
  guint64 bytes;
  if (!read_free (run, &bytes))
    return TRUE;
  gboolean scarce = bytes < needed (run, FEW);
  if (scarce && !run->disk_told)
    {
      plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "disk-low", run->position.step,
                             "%s: %.1f MB are free, and a checkpoint takes %.1f MB; below %.1f MB the run stops with a "
                             "checkpoint. Make room, or lower checkpoint.keep", run->dir, (double) bytes / 1e6,
                             (double) run->checkpoint_bytes / 1e6, (double) needed (run, 2) / 1e6);
      plumb_progress_say (run->progress, "disk low: %.1f MB are free, a checkpoint takes %.1f MB", (double) bytes / 1e6,
                          (double) run->checkpoint_bytes / 1e6);
    }
  run->disk_told = scarce;
  return bytes >= needed (run, 2);
}

gboolean
plumb_run_check_room (PlumbRun *run, GError **error)
{
  guint64 bytes;
  if (!read_free (run, &bytes) || bytes >= needed (run, 1))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
               "%s: %.1f MB are free, and a checkpoint takes %.1f MB and some room beside it. Make room, or put the run "
               "on another disk (run.directory)", run->dir, (double) bytes / 1e6, (double) run->checkpoint_bytes / 1e6);
  return FALSE;
}
