/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A worker that is a process of this machine. It dies with the controller, however that ends, and what it prints goes to
 * the log of the run, each line with its name. */
typedef struct _PlumbCrewProcess PlumbCrewProcess;

/* Starts this same program as worker `number` that reports to `address`, with so many threads (0: as many as this
 * process has). `log`: path, NULL: its output is dropped. To be called from the thread that stays to the end. */
PlumbCrewProcess *plumb_crew_process_start (const char *address, guint32 number, int threads, const char *log,
                                            GError **error);
/* Waits up to `seconds` for its end, then kills it; frees. */
void plumb_crew_process_stop (PlumbCrewProcess *process, double seconds);

int plumb_crew_process_id (PlumbCrewProcess *process);
/* How it ended ("was killed by signal 9"), or NULL while it lives. */
const char *plumb_crew_process_end (PlumbCrewProcess *process);
/* Largest resident memory so far, bytes; 0: not known. */
guint64 plumb_crew_process_memory (PlumbCrewProcess *process);

/* A folder of this user alone for the socket of a crew, locked while it is in use; those that engines left behind when they
 * died are removed. */
typedef struct
{
  char *path;
  int lock;
} PlumbCrewFolder;

gboolean plumb_crew_folder_make (PlumbCrewFolder *folder, GError **error);
void plumb_crew_folder_remove (PlumbCrewFolder *folder);

/* In the worker: to be called first. FALSE where the process that started it is not `controller` any more. */
gboolean plumb_crew_process_follow (gint64 controller);

G_END_DECLS
