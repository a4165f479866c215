/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/run-dir.h"

G_BEGIN_DECLS

typedef enum
{
  PLUMB_RUN_STATE_QUEUED,   /* waits for its turn: never started */
  PLUMB_RUN_STATE_STARTING, /* the lock is held, no attempt row yet */
  PLUMB_RUN_STATE_RUNNING,
  PLUMB_RUN_STATE_STALLED,  /* alive, but no progress for max (60 s, 5 x the median phase) */
  PLUMB_RUN_STATE_STOPPING, /* asked to stop, or at its end, still alive */
  PLUMB_RUN_STATE_STOPPED,  /* stopped as asked, with a checkpoint */
  PLUMB_RUN_STATE_FINISHED,
  PLUMB_RUN_STATE_FAILED,
  PLUMB_RUN_STATE_KILLED, /* the lock is free and there is no end row */
  PLUMB_RUN_STATE_TIMED_OUT,
  PLUMB_RUN_STATE_PREEMPTED,
  PLUMB_RUN_STATE_LOST_CONTACT, /* on another machine that does not answer */
} PlumbRunState;

/* All that the state is decided from. */
typedef struct
{
  gboolean lock_held;
  gboolean has_attempt; /* there is an attempt row */
  PlumbOutcome outcome; /* of the last attempt; NONE: no end row */
  gboolean stop_requested;
  double heartbeat_age; /* seconds since state.json was replaced; < 0: there is none */
  double progress_age;  /* seconds since the step or phase changed; < 0: unknown */
  double median_phase;  /* seconds; 0: unknown */
  gboolean remote;      /* on another machine: the lock says nothing, the heartbeat does */
  gboolean own_attempt; /* the last attempt is of the process that holds the lock */
} PlumbRunFacts;

PlumbRunState plumb_run_state_decide (const PlumbRunFacts *facts);

const char *plumb_run_state_name (PlumbRunState state);  /* "running": for JSON */
const char *plumb_run_state_label (PlumbRunState state); /* translatable */
gboolean plumb_run_state_is_alive (PlumbRunState state);

/* Everything about a run directory that a list or `status` shows. */
typedef struct
{
  char *path;
  PlumbRunState state;
  PlumbRunFacts facts;
  PlumbRunStatus *status; /* NULL: no state.json */
  gint64 checkpoint;      /* step of the newest complete one; -1: none */
  char *message;          /* one sentence on how it ended or what is wrong; NULL: nothing to say */
} PlumbRunInfo;

/* Reads lock, state.json and the last attempt row. Never call it in the process that holds the
 * run's own lock. */
PlumbRunInfo *plumb_run_info_read (const char *run, GError **error);
void plumb_run_info_free (PlumbRunInfo *info);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbRunInfo, plumb_run_info_free)
JsonNode *plumb_run_info_to_json (const PlumbRunInfo *info);

/* Is the process of this status this very one, still alive (same host, boot, start time)? */
gboolean plumb_run_status_is_alive (const PlumbRunStatus *status);

/* SIGINT to the controller, after the check above, and the stop marker. PLUMB_ERROR_INVALID when
 * the run is not running. */
gboolean plumb_run_stop (const char *run, GError **error);
/* Ends the controller and its whole group with SIGKILL and waits up to five seconds. `left` (or
 * NULL) gets the ids of processes of the group that are still there: array of gint64. */
gboolean plumb_run_kill (const char *run, GArray **left, GError **error);

G_END_DECLS
