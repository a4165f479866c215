/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "engine/core/telemetry.h"

G_BEGIN_DECLS

/* Names inside a run directory. */
#define PLUMB_RUN_SPEC "run.spec"
#define PLUMB_RUN_RESOLVED "resolved.spec"
#define PLUMB_RUN_STATE "state.json"
#define PLUMB_RUN_LOCK "engine.lock"
#define PLUMB_RUN_STOP "stop.request"
#define PLUMB_RUN_TELEMETRY "telemetry.db"
#define PLUMB_RUN_SAMPLES "samples.db"
#define PLUMB_RUN_LOG "log.txt"
#define PLUMB_RUN_CHECKPOINTS "checkpoints"
#define PLUMB_RUN_EXPORT "export"

/* What state.json says, replaced by the controller every two seconds. */
typedef struct
{
  char *id;        /* UUID of the run */
  char *name;      /* shown name */
  char *algorithm; /* "grpo" */
  char *host;
  gint64 pid;
  guint64 start_time; /* of the process, clock ticks since boot: /proc/PID/stat */
  char *boot_id;
  gint64 attempt;
  char *phase;              /* "generate", "train", ... */
  gint64 step, total_steps; /* total 0: unknown */
  double started;           /* seconds since 1970: start of the attempt */
  double spent;             /* seconds that earlier attempts took */
  double updated;           /* when this was written */
  double progressed;        /* when step or phase last changed */
  double median_phase;      /* seconds; 0: unknown */
  double eta;               /* seconds; < 0: unknown */
  double tokens_per_second; /* < 0: not measured */
  char *database;           /* path of telemetry.db */
  char *samples;            /* path of samples.db */
  PlumbOutcome outcome;     /* NONE while it runs */
  int exit_code;
  char *message; /* of the end; NULL: none */
  GPtrArray *workers; /* of PlumbRunWorker, by number */
} PlumbRunStatus;

/* A worker of a run: "policy", "critic", ..., its device, and its process (that of the run itself where it is a thread). */
typedef struct
{
  char *role, *device;
  gint64 pid;
} PlumbRunWorker;

void plumb_run_status_add_worker (PlumbRunStatus *status, const char *role, const char *device, gint64 pid);

PlumbRunStatus *plumb_run_status_new (void);
void plumb_run_status_free (PlumbRunStatus *status);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbRunStatus, plumb_run_status_free)
/* Fills host, pid, start_time and boot_id with this process's own. */
gboolean plumb_run_status_set_self (PlumbRunStatus *status, GError **error);
/* state.json of a run directory; a damaged one is an error that names it. */
PlumbRunStatus *plumb_run_status_read (const char *run, GError **error);
/* Replaces state.json at once (written aside, then renamed). */
gboolean plumb_run_status_write (const char *run, const PlumbRunStatus *status, GError **error);
JsonNode *plumb_run_status_to_json (const PlumbRunStatus *status);

/* Makes a run directory with its sub-folders. PLUMB_ERROR_INVALID when it holds a run or other
 * files already. */
gboolean plumb_run_dir_create (const char *run, GError **error);
/* A free path in the data folder from a name: "NAME-20250131-120301". (transfer full) */
char *plumb_run_dir_propose (const char *name);
/* TRUE if the folder holds a run.spec. */
gboolean plumb_run_dir_is_run (const char *path);

/* The lock of the controller (fcntl, RUN/engine.lock), released when the process ends. It belongs
 * to the process that took it: take it after the last fork, and never open engine.lock again in
 * that process. Returns a descriptor to keep open, or -1 with PLUMB_ERROR_ENVIRONMENT naming the
 * pid that holds it. */
int plumb_run_lock (const char *run, GError **error);
/* Does another process hold it? `pid` (or NULL) gets its id, 0 when it lives elsewhere. */
gboolean plumb_run_lock_is_held (const char *run, gint64 *pid);

/* Registry of runs: one file per run, named after its id, holding its path. */
gboolean plumb_run_register (const char *run, const char *id, GError **error);
gboolean plumb_run_unregister (const char *id, GError **error);
/* Absolute paths of all registered runs whose folder exists, newest first. (transfer full) */
char **plumb_run_list (GError **error);
/* A run given as a path, an id or the name of a registered run: its path. */
char *plumb_run_find (const char *what, GError **error);

/* Asks the controller to stop after the step (a marker that outlives a lost signal). */
gboolean plumb_run_request_stop (const char *run, GError **error);
gboolean plumb_run_stop_requested (const char *run);
void plumb_run_clear_stop (const char *run);

/* Number of complete checkpoints' newest step, or -1 when there is none: checkpoints/step-NNNNNN.
 */
gint64 plumb_run_last_checkpoint (const char *run);

G_END_DECLS
