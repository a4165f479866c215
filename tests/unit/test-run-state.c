/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/core/paths.h"
#include "engine/core/process.h"
#include "engine/core/run-state.h"
#include "tests/unit/temporary.h"

static void
test_decide (void)
{
  /* lock, attempt, outcome, stop asked, heartbeat, progress, median phase, remote, own attempt */
  const struct
  {
    PlumbRunFacts facts;
    PlumbRunState state;
  } cases[] = {
    { { FALSE, FALSE, PLUMB_OUTCOME_NONE, FALSE, -1, -1, 0, FALSE }, PLUMB_RUN_STATE_QUEUED },
    { { TRUE, FALSE, PLUMB_OUTCOME_NONE, FALSE, -1, -1, 0, FALSE }, PLUMB_RUN_STATE_STARTING },
    { { TRUE, FALSE, PLUMB_OUTCOME_NONE, FALSE, 1, 1, 0, FALSE }, PLUMB_RUN_STATE_STARTING },
    { { TRUE, TRUE, PLUMB_OUTCOME_STOPPED, FALSE, 500, 500, 0, FALSE }, PLUMB_RUN_STATE_STARTING },
    { { TRUE, TRUE, PLUMB_OUTCOME_FINISHED, FALSE, 1, 1, 0, FALSE, TRUE }, PLUMB_RUN_STATE_STOPPING },
    { { TRUE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 1, 1, 2, FALSE, TRUE }, PLUMB_RUN_STATE_RUNNING },
    { { TRUE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 1, 1, 2, FALSE }, PLUMB_RUN_STATE_RUNNING },
    { { TRUE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 1, 59, 2, FALSE }, PLUMB_RUN_STATE_RUNNING },
    { { TRUE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 1, 61, 2, FALSE }, PLUMB_RUN_STATE_STALLED },
    { { TRUE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 61, 1, 2, FALSE }, PLUMB_RUN_STATE_STALLED },
    { { TRUE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 1, 190, 40, FALSE }, PLUMB_RUN_STATE_RUNNING },
    { { TRUE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 1, 201, 40, FALSE }, PLUMB_RUN_STATE_STALLED },
    { { TRUE, TRUE, PLUMB_OUTCOME_NONE, TRUE, 1, 1, 2, FALSE }, PLUMB_RUN_STATE_STOPPING },
    { { FALSE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 1, 1, 2, FALSE }, PLUMB_RUN_STATE_KILLED },
    { { FALSE, TRUE, PLUMB_OUTCOME_NONE, TRUE, 1, 1, 2, FALSE }, PLUMB_RUN_STATE_KILLED },
    { { FALSE, FALSE, PLUMB_OUTCOME_NONE, FALSE, 5, 5, 0, FALSE }, PLUMB_RUN_STATE_KILLED },
    { { FALSE, TRUE, PLUMB_OUTCOME_FINISHED, FALSE, 9, 9, 2, FALSE }, PLUMB_RUN_STATE_FINISHED },
    { { FALSE, TRUE, PLUMB_OUTCOME_STOPPED, TRUE, 9, 9, 2, FALSE }, PLUMB_RUN_STATE_STOPPED },
    { { FALSE, TRUE, PLUMB_OUTCOME_FAILED, FALSE, 9, 9, 2, FALSE }, PLUMB_RUN_STATE_FAILED },
    { { FALSE, TRUE, PLUMB_OUTCOME_INTERRUPTED, FALSE, 9, 9, 2, FALSE }, PLUMB_RUN_STATE_KILLED },
    { { FALSE, TRUE, PLUMB_OUTCOME_TIMED_OUT, FALSE, 9, 9, 2, FALSE }, PLUMB_RUN_STATE_TIMED_OUT },
    { { FALSE, TRUE, PLUMB_OUTCOME_PREEMPTED, FALSE, 9, 9, 2, FALSE }, PLUMB_RUN_STATE_PREEMPTED },
    { { FALSE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 5, 5, 2, TRUE }, PLUMB_RUN_STATE_RUNNING },
    { { FALSE, TRUE, PLUMB_OUTCOME_NONE, FALSE, 45, 45, 2, TRUE }, PLUMB_RUN_STATE_LOST_CONTACT },
    { { FALSE, TRUE, PLUMB_OUTCOME_FINISHED, FALSE, 45, 45, 2, TRUE }, PLUMB_RUN_STATE_FINISHED },
    { { FALSE, FALSE, PLUMB_OUTCOME_NONE, FALSE, -1, -1, 0, TRUE }, PLUMB_RUN_STATE_QUEUED },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    if (plumb_run_state_decide (&cases[i].facts) != cases[i].state)
      g_error ("case %" G_GSIZE_FORMAT ": %s, not %s", i,
               plumb_run_state_name (plumb_run_state_decide (&cases[i].facts)),
               plumb_run_state_name (cases[i].state));
}

typedef struct
{
  char *folder, *run;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  g_autofree char *state = NULL, *share = NULL, *spec = NULL;
  g_autoptr (GError) error = NULL;

  fixture->folder = temporary_folder ();
  fixture->run = g_build_filename (fixture->folder, "run", NULL);
  state = g_build_filename (fixture->folder, "state", NULL);
  share = g_build_filename (fixture->folder, "share", NULL);
  g_setenv ("XDG_STATE_HOME", state, TRUE);
  g_setenv ("XDG_DATA_HOME", share, TRUE);
  g_assert_true (plumb_run_dir_create (fixture->run, &error));
  g_assert_no_error (error);
  spec = g_build_filename (fixture->run, PLUMB_RUN_SPEC, NULL);
  g_assert_true (g_file_set_contents (spec, "[run]\n", -1, NULL));
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  remove_folder (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->run);
}

/* A controller for the tests: takes the lock, writes its state and an attempt, tells that it is
 * ready, and lives until a signal ends it. */
static pid_t
start_controller (Fixture *fixture, gboolean leader, gboolean end)
{
  int ready[2];
  pid_t child;
  char byte;

  g_assert_cmpint (pipe (ready), ==, 0);
  child = fork ();
  if (child == 0)
    {
      g_autoptr (PlumbRunStatus) status = plumb_run_status_new ();
      g_autofree char *path = g_build_filename (fixture->run, PLUMB_RUN_TELEMETRY, NULL);
      PlumbTelemetry *telemetry;
      int lock;

      prctl (PR_SET_PDEATHSIG, SIGKILL);
      signal (SIGINT, SIG_DFL);
      if (leader)
        setpgid (0, 0);
      lock = plumb_run_lock (fixture->run, NULL);
      telemetry = plumb_telemetry_open (path, NULL, 0, NULL);
      plumb_telemetry_begin_attempt (telemetry, 0, NULL);
      plumb_run_status_set_self (status, NULL);
      status->step = 3;
      status->updated = status->progressed = g_get_real_time () / 1e6;
      plumb_run_status_write (fixture->run, status, NULL);
      if (end)
        plumb_telemetry_end_attempt (telemetry, PLUMB_OUTCOME_FINISHED, 0, 3, NULL, NULL);
      if (leader && fork () == 0)
        for (;;)
          pause ();
      if (lock < 0 || write (ready[1], "r", 1) != 1)
        _exit (1);
      for (;;)
        pause ();
    }
  close (ready[1]);
  g_assert_cmpint (read (ready[0], &byte, 1), ==, 1);
  close (ready[0]);
  return child;
}

static PlumbRunState
state_of (Fixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbRunInfo) info = plumb_run_info_read (fixture->run, &error);

  g_assert_no_error (error);
  return info->state;
}

static void
test_killed (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbRunInfo) info = NULL;
  pid_t child;
  gint64 pid;

  g_assert_cmpint (state_of (fixture), ==, PLUMB_RUN_STATE_QUEUED);
  child = start_controller (fixture, FALSE, FALSE);
  g_assert_true (plumb_run_lock_is_held (fixture->run, &pid));
  g_assert_cmpint (pid, ==, child);
  g_assert_cmpint (state_of (fixture), ==, PLUMB_RUN_STATE_RUNNING);
  /* A second engine is turned away and told by whom. */
  g_assert_cmpint (plumb_run_lock (fixture->run, &error), ==, -1);
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT);
  g_clear_error (&error);
  kill (child, SIGKILL);
  waitpid (child, NULL, 0);
  info = plumb_run_info_read (fixture->run, &error);
  g_assert_no_error (error);
  g_assert_cmpint (info->state, ==, PLUMB_RUN_STATE_KILLED);
  g_assert_nonnull (strstr (info->message, "step 3"));
  g_assert_false (plumb_run_stop (fixture->run, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
}

/* A run at its end still holds the lock when its end row is there: it does not start again. The next attempt does, whose
 * process has written nothing yet. */
static void
test_ending (Fixture *fixture, gconstpointer data)
{
  pid_t child = start_controller (fixture, FALSE, TRUE);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbRunStatus) status = plumb_run_status_read (fixture->run, &error);

  g_assert_cmpint (state_of (fixture), ==, PLUMB_RUN_STATE_STOPPING);
  status->pid++;
  g_assert_true (plumb_run_status_write (fixture->run, status, &error));
  g_assert_cmpint (state_of (fixture), ==, PLUMB_RUN_STATE_STARTING);
  kill (child, SIGKILL);
  waitpid (child, NULL, 0);
  g_assert_cmpint (state_of (fixture), ==, PLUMB_RUN_STATE_FINISHED);
}

static void
test_stop (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  pid_t child = start_controller (fixture, FALSE, FALSE);
  int status;

  g_assert_true (plumb_run_stop (fixture->run, &error));
  g_assert_no_error (error);
  g_assert_true (plumb_run_stop_requested (fixture->run));
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFSIGNALED (status));
  g_assert_cmpint (WTERMSIG (status), ==, SIGINT);
}

/* The same pid with another start time is another process: it must be left alone. */
static void
test_stranger (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  pid_t child = start_controller (fixture, FALSE, FALSE);
  g_autoptr (PlumbRunStatus) status = plumb_run_status_read (fixture->run, &error);
  int code;

  status->start_time++;
  g_assert_true (plumb_run_status_write (fixture->run, status, &error));
  g_assert_false (plumb_run_stop (fixture->run, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT);
  g_clear_error (&error);
  g_assert_false (plumb_run_kill (fixture->run, NULL, &error));
  g_assert_cmpint (waitpid (child, &code, WNOHANG), ==, 0);
  kill (child, SIGKILL);
  waitpid (child, NULL, 0);
}

static gpointer
reap (gpointer data)
{
  waitpid (GPOINTER_TO_INT (data), NULL, 0);
  return NULL;
}

static void
test_kill_group (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) left = NULL;
  g_autoptr (GArray) members = NULL;
  pid_t child = start_controller (fixture, TRUE, FALSE);
  GThread *reaper = g_thread_new ("reap", reap, GINT_TO_POINTER (child));

  g_assert_true (plumb_run_kill (fixture->run, &left, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (left->len, ==, 0);
  g_thread_join (reaper);
  members = plumb_process_group_members (child);
  g_assert_cmpuint (members->len, ==, 0);
}

static void
test_registry (Fixture *fixture, gconstpointer data)
{
  g_autofree char *id = g_uuid_string_random (), *found = NULL, *other = g_uuid_string_random ();
  g_autoptr (PlumbRunStatus) status = plumb_run_status_new ();
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) runs = NULL, fewer = NULL;

  status->id = g_strdup (id);
  status->name = g_strdup ("my run");
  g_assert_true (plumb_run_status_write (fixture->run, status, &error));
  g_assert_true (plumb_run_register (fixture->run, id, &error));
  g_assert_true (plumb_run_register ("/nowhere/at/all", other, &error));
  runs = plumb_run_list (&error);
  g_assert_cmpuint (g_strv_length (runs), ==, 1);
  g_assert_cmpstr (runs[0], ==, fixture->run);
  found = plumb_run_find ("my run", &error);
  g_assert_cmpstr (found, ==, fixture->run);
  g_assert_null (plumb_run_find ("your run", &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_clear_error (&error);
  g_assert_true (plumb_run_unregister (id, &error));
  fewer = plumb_run_list (&error);
  g_assert_cmpuint (g_strv_length (fewer), ==, 0);
}

static void
test_status_file (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbRunStatus) status = plumb_run_status_new (), read = NULL;
  g_autofree char *path = g_build_filename (fixture->run, PLUMB_RUN_STATE, NULL);
  g_autoptr (GError) error = NULL;
  static const char *const damaged[]
      = { "", "{", "[1]", "{\"pid\": [1], \"exit\": 3, \"id\": {}, \"workers\": [3, {}, {\"role\": 1}]}" };

  g_assert_true (plumb_run_status_set_self (status, &error));
  g_assert_true (plumb_run_status_is_alive (status));
  status->phase = g_strdup ("gen\"erate");
  status->median_phase = 1.5;
  status->outcome = PLUMB_OUTCOME_FAILED;
  status->exit_code = 5;
  status->message = g_strdup ("no space");
  plumb_run_status_add_worker (status, "critic", "cuda:1", 17);
  g_assert_true (plumb_run_status_write (fixture->run, status, &error));
  read = plumb_run_status_read (fixture->run, &error);
  g_assert_no_error (error);
  g_assert_cmpint (read->pid, ==, getpid ());
  g_assert_cmpuint (read->start_time, ==, status->start_time);
  g_assert_cmpstr (read->phase, ==, "gen\"erate");
  g_assert_cmpfloat (read->median_phase, ==, 1.5);
  g_assert_cmpint (read->outcome, ==, PLUMB_OUTCOME_FAILED);
  g_assert_cmpint (read->exit_code, ==, 5);
  g_assert_cmpuint (read->workers->len, ==, 1);
  g_assert_cmpstr (((PlumbRunWorker *) g_ptr_array_index (read->workers, 0))->role, ==, "critic");
  g_assert_cmpstr (((PlumbRunWorker *) g_ptr_array_index (read->workers, 0))->device, ==, "cuda:1");
  g_assert_cmpint (((PlumbRunWorker *) g_ptr_array_index (read->workers, 0))->pid, ==, 17);
  for (gsize i = 0; i < G_N_ELEMENTS (damaged); i++)
    {
      g_autoptr (PlumbRunStatus) again = NULL;

      g_assert_true (g_file_set_contents (path, damaged[i], -1, NULL));
      again = plumb_run_status_read (fixture->run, &error);
      if (i < 3)
        g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
      else
        g_assert_nonnull (again);
      g_clear_error (&error);
    }
}

static void
test_directory (Fixture *fixture, gconstpointer data)
{
  g_autofree char *full = g_build_filename (fixture->folder, "full", NULL);
  g_autofree char *file = g_build_filename (full, "thesis.txt", NULL);
  g_autofree char *step = NULL, *proposed = plumb_run_dir_propose ("a b/../c");
  g_autoptr (GError) error = NULL;

  g_assert_false (plumb_run_dir_create (fixture->run, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_clear_error (&error);
  g_mkdir (full, 0755);
  g_assert_true (g_file_set_contents (file, "x", 1, NULL));
  g_assert_false (plumb_run_dir_create (full, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_assert_nonnull (strstr (proposed, "/share/plumbline/runs/a-b-..-c-"));
  g_assert_cmpint (plumb_run_last_checkpoint (fixture->run), ==, -1);
  for (int i = 100; i <= 2000000; i *= 100)
    {
      g_free (step);
      step = g_strdup_printf ("%s/checkpoints/step-%06d", fixture->run, i);
      g_assert_cmpint (g_mkdir (step, 0755), ==, 0);
    }
  g_free (step);
  step = g_strdup_printf ("%s/checkpoints/step-9000000.part", fixture->run);
  g_assert_cmpint (g_mkdir (step, 0755), ==, 0);
  g_assert_cmpint (plumb_run_last_checkpoint (fixture->run), ==, 1000000);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/run-state/decide", test_decide);
#define ADD(name, function) g_test_add ("/run/" name, Fixture, NULL, set_up, function, tear_down)
  ADD ("killed", test_killed);
  ADD ("ending", test_ending);
  ADD ("stop", test_stop);
  ADD ("stranger", test_stranger);
  ADD ("kill-group", test_kill_group);
  ADD ("registry", test_registry);
  ADD ("status-file", test_status_file);
  ADD ("directory", test_directory);
  return g_test_run ();
}
