/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A file of the data folder (PLUMB_DATADIR in the environment, the installed folder, or the source
 * tree): its path, or NULL when it is nowhere. (transfer full) */
char *plumb_path_data (const char *name);
/* $XDG_STATE_HOME/plumbline/runs: the registry of runs. (transfer full) */
char *plumb_path_registry (void);
/* $XDG_DATA_HOME/plumbline/runs: where runs lie unless told otherwise. (transfer full) */
char *plumb_path_runs (void);
/* Absolute form, from `folder` (NULL: the current one), with ~ for the home folder. (transfer full)
 */
char *plumb_path_absolute (const char *path, const char *folder);
/* Replaces a file atomically with these bytes (written aside, synced, renamed), mode 0644. */
gboolean plumb_path_replace (const char *path, const char *data, gssize length, GError **error);
/* Writes a file's or folder's metadata to disk. */
gboolean plumb_path_sync (const char *path, GError **error);

G_END_DECLS
