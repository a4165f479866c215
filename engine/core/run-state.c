/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <glib/gi18n-lib.h>

#include "engine/core/error.h"
#include "engine/core/process.h"
#include "engine/core/run-state.h"
#include "engine/core/telemetry-reader.h"

#define STALL_SECONDS 60.0
#define STALL_PHASES 5.0
#define CONTACT_SECONDS 30.0 /* a remote state.json older than this is silence */
#define KILL_TRIES 50
#define KILL_WAIT_US 100000

static const struct
{
  const char *name, *label;
} states[] = {
  [PLUMB_RUN_STATE_QUEUED] = { "queued", N_ ("Queued") },
  [PLUMB_RUN_STATE_STARTING] = { "starting", N_ ("Starting") },
  [PLUMB_RUN_STATE_RUNNING] = { "running", N_ ("Running") },
  [PLUMB_RUN_STATE_STALLED] = { "stalled", N_ ("Stalled") },
  [PLUMB_RUN_STATE_STOPPING] = { "stopping", N_ ("Stopping") },
  [PLUMB_RUN_STATE_STOPPED] = { "stopped", N_ ("Stopped") },
  [PLUMB_RUN_STATE_FINISHED] = { "finished", N_ ("Finished") },
  [PLUMB_RUN_STATE_FAILED] = { "failed", N_ ("Failed") },
  [PLUMB_RUN_STATE_KILLED] = { "killed", N_ ("Killed") },
  [PLUMB_RUN_STATE_TIMED_OUT] = { "timed_out", N_ ("Timed out") },
  [PLUMB_RUN_STATE_PREEMPTED] = { "preempted", N_ ("Preempted") },
  [PLUMB_RUN_STATE_LOST_CONTACT] = { "lost_contact", N_ ("Lost contact") },
};

const char *
plumb_run_state_name (PlumbRunState state)
{
  return states[state].name;
}

const char *
plumb_run_state_label (PlumbRunState state)
{
  return _ (states[state].label);
}

gboolean
plumb_run_state_is_alive (PlumbRunState state)
{
  return state == PLUMB_RUN_STATE_STARTING || state == PLUMB_RUN_STATE_RUNNING
         || state == PLUMB_RUN_STATE_STALLED || state == PLUMB_RUN_STATE_STOPPING;
}

static PlumbRunState
decide_ended (const PlumbRunFacts *facts)
{
  switch (facts->outcome)
    {
    case PLUMB_OUTCOME_FINISHED:
      return PLUMB_RUN_STATE_FINISHED;
    case PLUMB_OUTCOME_STOPPED:
      return PLUMB_RUN_STATE_STOPPED;
    case PLUMB_OUTCOME_FAILED:
      return PLUMB_RUN_STATE_FAILED;
    case PLUMB_OUTCOME_TIMED_OUT:
      return PLUMB_RUN_STATE_TIMED_OUT;
    case PLUMB_OUTCOME_PREEMPTED:
      return PLUMB_RUN_STATE_PREEMPTED;
    case PLUMB_OUTCOME_INTERRUPTED:
    case PLUMB_OUTCOME_NONE:
      break;
    }
  return PLUMB_RUN_STATE_KILLED;
}

static PlumbRunState
decide_alive (const PlumbRunFacts *facts)
{
  double patience = MAX (STALL_SECONDS, STALL_PHASES * facts->median_phase);

  if (facts->stop_requested || (facts->outcome != PLUMB_OUTCOME_NONE && facts->own_attempt))
    return PLUMB_RUN_STATE_STOPPING;
  if (!facts->has_attempt || facts->outcome != PLUMB_OUTCOME_NONE)
    return PLUMB_RUN_STATE_STARTING; /* no row of this attempt yet, at most that of the last one */
  if (facts->heartbeat_age > patience || facts->progress_age > patience)
    return PLUMB_RUN_STATE_STALLED;
  return PLUMB_RUN_STATE_RUNNING;
}

PlumbRunState
plumb_run_state_decide (const PlumbRunFacts *facts)
{
  /* On another machine the lock cannot be seen: the end row or the heartbeat must say. */
  if (facts->remote)
    {
      if (facts->has_attempt && facts->outcome != PLUMB_OUTCOME_NONE)
        return decide_ended (facts);
      if (facts->heartbeat_age < 0)
        return PLUMB_RUN_STATE_QUEUED;
      if (facts->heartbeat_age > CONTACT_SECONDS)
        return PLUMB_RUN_STATE_LOST_CONTACT;
      return decide_alive (facts);
    }
  if (facts->lock_held)
    return decide_alive (facts);
  if (facts->has_attempt)
    return decide_ended (facts);
  /* It died before its first row, or it has never been started. */
  return facts->heartbeat_age >= 0 ? decide_ended (facts) : PLUMB_RUN_STATE_QUEUED;
}

gboolean
plumb_run_status_is_alive (const PlumbRunStatus *status)
{
  g_autofree char *boot_id = plumb_boot_id ();

  return g_strcmp0 (status->host, g_get_host_name ()) == 0
         && g_strcmp0 (status->boot_id, boot_id) == 0 && status->start_time != 0
         && plumb_process_start_time (status->pid) == status->start_time;
}

void
plumb_run_info_free (PlumbRunInfo *info)
{
  g_clear_pointer (&info->status, plumb_run_status_free);
  g_free (info->path);
  g_free (info->message);
  g_free (info);
}

/* The last attempt row and its end; a store that cannot be read becomes the message. */
static void
read_attempt (PlumbRunInfo *info)
{
  g_autofree char *path = info->status != NULL && info->status->database != NULL
                              ? g_strdup (info->status->database)
                              : g_build_filename (info->path, PLUMB_RUN_TELEMETRY, NULL);
  g_autoptr (PlumbTelemetryReader) reader = NULL;
  g_autoptr (PlumbAttempt) attempt = NULL;
  g_autoptr (PlumbAttemptEnd) end = NULL;
  g_autoptr (GError) error = NULL;

  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return;
  reader = plumb_telemetry_reader_open (path, &error);
  if (reader != NULL && plumb_telemetry_reader_last_attempt (reader, &attempt, &end, &error))
    {
      info->facts.has_attempt = TRUE;
      if (end != NULL)
        {
          info->facts.outcome = end->outcome;
          info->message = g_strdup (end->message);
        }
    }
  if (error != NULL)
    info->message = g_strdup (error->message);
}

static void
read_status (PlumbRunInfo *info)
{
  double now = g_get_real_time () / (double)G_USEC_PER_SEC;
  g_autofree char *path = g_build_filename (info->path, PLUMB_RUN_STATE, NULL);
  g_autoptr (GError) error = NULL;

  info->facts.heartbeat_age = -1;
  info->facts.progress_age = -1;
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return;
  info->status = plumb_run_status_read (info->path, &error);
  if (info->status == NULL)
    {
      info->message = g_strdup (error->message);
      return;
    }
  info->facts.heartbeat_age = MAX (now - info->status->updated, 0);
  info->facts.progress_age = MAX (now - info->status->progressed, 0);
  info->facts.median_phase = info->status->median_phase;
  info->facts.remote = g_strcmp0 (info->status->host, g_get_host_name ()) != 0;
}

static void
explain (PlumbRunInfo *info)
{
  g_autofree char *step = NULL;

  if (info->message != NULL)
    return;
  if (info->status != NULL)
    step = g_strdup_printf ("%" G_GINT64_FORMAT, info->status->step);
  if (info->state == PLUMB_RUN_STATE_KILLED && info->facts.outcome == PLUMB_OUTCOME_INTERRUPTED)
    info->message = g_strdup (_ ("Interrupted before a checkpoint could be written."));
  else if (info->state == PLUMB_RUN_STATE_KILLED && step != NULL)
    info->message = g_strdup_printf (_ ("The engine ended without a word at step %s: killed, out "
                                        "of memory, or the machine went down."),
                                     step);
  else if (info->state == PLUMB_RUN_STATE_KILLED)
    info->message = g_strdup (_ ("The engine ended without a word before its first step: killed, "
                                 "out of memory, or the machine went down."));
  else if (info->state == PLUMB_RUN_STATE_STALLED)
    info->message = g_strdup_printf (_ ("No progress for %.0f seconds."),
                                     MAX (info->facts.progress_age, info->facts.heartbeat_age));
}

PlumbRunInfo *
plumb_run_info_read (const char *run, GError **error)
{
  g_autoptr (PlumbRunInfo) info = g_new0 (PlumbRunInfo, 1);
  gint64 holder = 0;
  gboolean held;

  if (!plumb_run_dir_is_run (run))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: this folder holds no run (no %s)",
                   run, PLUMB_RUN_SPEC);
      return NULL;
    }
  info->path = g_strdup (run);
  /* The lock is asked before and after: a run that ends in between has its end row by then. */
  held = plumb_run_lock_is_held (run, &holder);
  read_status (info);
  info->facts.own_attempt = held && info->status != NULL && info->status->pid == holder;
  read_attempt (info);
  info->facts.lock_held = held && plumb_run_lock_is_held (run, NULL);
  if (held && !info->facts.lock_held)
    {
      g_clear_pointer (&info->message, g_free);
      read_attempt (info);
    }
  info->facts.stop_requested = plumb_run_stop_requested (run);
  info->checkpoint = plumb_run_last_checkpoint (run);
  info->state = plumb_run_state_decide (&info->facts);
  explain (info);
  return g_steal_pointer (&info);
}

JsonNode *
plumb_run_info_to_json (const PlumbRunInfo *info)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "run");
  json_builder_add_string_value (builder, info->path);
  json_builder_set_member_name (builder, "state");
  json_builder_add_string_value (builder, plumb_run_state_name (info->state));
  json_builder_set_member_name (builder, "checkpoint");
  if (info->checkpoint >= 0)
    json_builder_add_int_value (builder, info->checkpoint);
  else
    json_builder_add_null_value (builder);
  json_builder_set_member_name (builder, "message");
  if (info->message != NULL)
    json_builder_add_string_value (builder, info->message);
  else
    json_builder_add_null_value (builder);
  json_builder_set_member_name (builder, "status");
  if (info->status != NULL)
    json_builder_add_value (builder, plumb_run_status_to_json (info->status));
  else
    json_builder_add_null_value (builder);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}

/* The status of a run whose controller is alive on this machine. */
static PlumbRunStatus *
living_status (const char *run, GError **error)
{
  g_autoptr (PlumbRunStatus) status = NULL;
  gint64 pid;

  if (!plumb_run_lock_is_held (run, &pid))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: the run is not running", run);
      return NULL;
    }
  status = plumb_run_status_read (run, error);
  if (status == NULL)
    return NULL;
  if (status->pid != pid || !plumb_run_status_is_alive (status))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   "%s: process %" G_GINT64_FORMAT
                   " of %s is not the one that state.json names; it was left alone",
                   run, status->pid, status->host != NULL ? status->host : "an unknown host");
      return NULL;
    }
  return g_steal_pointer (&status);
}

gboolean
plumb_run_stop (const char *run, GError **error)
{
  g_autoptr (PlumbRunStatus) status = living_status (run, error);

  if (status == NULL || !plumb_run_request_stop (run, error))
    return FALSE;
  if (kill (status->pid, SIGINT) == 0)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
               "%s: cannot send the signal to process %" G_GINT64_FORMAT ": %s", run, status->pid,
               g_strerror (errno));
  return FALSE;
}

gboolean
plumb_run_kill (const char *run, GArray **left, GError **error)
{
  g_autoptr (PlumbRunStatus) status = living_status (run, error);
  g_autoptr (GArray) members = NULL;
  pid_t group;

  if (status == NULL)
    return FALSE;
  group = getpgid (status->pid);
  /* A controller that does not lead its group was started by a script: the rest of that group is
   * not ours to end. */
  if (kill (group == status->pid ? -group : (pid_t)status->pid, SIGKILL) < 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   "%s: cannot end process %" G_GINT64_FORMAT ": %s", run, status->pid,
                   g_strerror (errno));
      return FALSE;
    }
  for (int i = 0; i < KILL_TRIES; i++)
    {
      g_clear_pointer (&members, g_array_unref);
      members = group == status->pid ? plumb_process_group_members (group)
                                     : g_array_new (FALSE, FALSE, sizeof (gint64));
      if (members->len == 0 && !plumb_run_status_is_alive (status))
        break;
      g_usleep (KILL_WAIT_US);
    }
  if (left != NULL)
    *left = g_steal_pointer (&members);
  return TRUE;
}
