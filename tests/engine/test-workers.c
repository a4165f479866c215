/* SPDX-License-Identifier: Apache-2.0 */
/* Several workers: they compute what one computes, and none is left behind. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include "engine/core/run-dir.h"
#include "tests/engine/harness.h"

static void
run_ok (Engine *engine, const char *arguments)
{
  if (engine_call (engine, "run %s", arguments) != 0)
    g_error ("run %s: %s%s", arguments, engine->out, engine->err);
}

/* The first value to 1e-6; the later ones as far as rounding grows in a few steps. */
static void
assert_near (Engine *engine, const char *left, const char *right, const char *metric)
{
  g_autoptr (GArray) a = engine_series (engine, left, metric), b = engine_series (engine, right, metric);
  g_assert_cmpuint (a->len, ==, b->len);
  g_assert_cmpuint (a->len, >, 0);
  for (guint i = 0; i < a->len; i++)
    {
      double x = g_array_index (a, double, i), y = g_array_index (b, double, i);
      if (!(fabs (x - y) <= (i == 0 ? 1e-6 : 1e-5) * MAX (fabs (x), 1e-2)))
        g_error ("%s of %s, point %u: %.9g, of %s: %.9g", metric, left, i, x, right, y);
    }
}

static void
test_curves (Engine *engine, gconstpointer data)
{
  static const char *const specs[] = { "grpo", "sft", "warmup" };
  static const char *const metrics[] = { "policy/grad_norm", "loss/total" };
  for (gsize i = 0; i < G_N_ELEMENTS (specs); i++)
    for (int workers = 1; workers <= 3; workers++)
      {
        g_autofree char *arguments = g_strdup_printf ("$SPECS/%s.spec --set placement.workers=%d --run-dir %s-%d",
                                                      specs[i], workers, specs[i], workers);
        g_autofree char *alone = g_strdup_printf ("%s-1", specs[i]), *run = g_strdup_printf ("%s-%d", specs[i], workers);
        run_ok (engine, arguments);
        assert_near (engine, alone, run, metrics[0]);
        if (!g_str_equal (specs[i], "sft"))
          assert_near (engine, alone, run, metrics[1]);
      }
  assert_near (engine, "sft-1", "sft-2", "loss/sft");
  assert_near (engine, "grpo-1", "grpo-3", "reward/mean");
  /* With more workers than sequences some have nothing to do. */
  run_ok (engine, "$SPECS/grpo.spec --set placement.workers=5 --set rollout.prompts_per_step=1 --set train.batch=4 "
                  "--run-dir few");
}

/* A run of two workers that goes on is the uninterrupted one, to the bit. */
static void
test_resume (Engine *engine, gconstpointer data)
{
  run_ok (engine, "$SPECS/grpo.spec --set placement.workers=2 --run-dir whole");
  run_ok (engine, "$SPECS/grpo.spec --set placement.workers=2 --run-dir same");
  assert_same_metrics (engine, "whole", "same");
  g_assert_cmpint (engine_shell (engine, "cp -r whole again; rm -rf again/checkpoints/step-000004"), ==, 0);
  run_ok (engine, "--resume --run-dir again");
  assert_same_metrics (engine, "whole", "again");
  assert_same_file (engine, "whole/checkpoints/step-000004/optimizer.safetensors",
                    "again/checkpoints/step-000004/optimizer.safetensors");
  /* The number of workers may change. */
  g_assert_cmpint (engine_shell (engine, "rm -rf again/checkpoints/step-000004"), ==, 0);
  run_ok (engine, "--resume --run-dir again --set placement.workers=1");
}

#define LONG "$SPECS/grpo.spec --set rollout.prompts_per_step=64 --set schedule.steps=2000 --set eval.every=off " \
             "--set checkpoint.every=1 --set checkpoint.keep=2 --set placement.workers=2 "

static GArray *
start_long (Engine *engine, GSubprocess **process, const char *more)
{
  g_autofree char *line = g_strdup_printf ("run " LONG "--run-dir run %s", more);
  engine_call (engine, "--version");
  g_assert_cmpint (engine_shell (engine, "rm -rf run sockets; mkdir sockets"), ==, 0);
  g_autofree char *sockets = engine_path (engine, "sockets");
  g_setenv ("XDG_RUNTIME_DIR", sockets, TRUE);
  *process = engine_start (engine, line);
  engine_wait_for_file (engine, *process, "run/checkpoints/step-000002");
  GArray *workers = engine_workers (*process);
  g_assert_cmpuint (workers->len, ==, 2);
  return workers;
}

/* The sockets lie in a folder of nobody else, and are gone afterwards. */
static void
assert_no_sockets (Engine *engine)
{
  g_assert_cmpint (engine_shell (engine, "ls sockets"), ==, 0);
  g_assert_cmpstr (engine->out, ==, "");
}

static void
go_on (Engine *engine)
{
  run_ok (engine, "--resume --run-dir run --set schedule.steps=4 --set rollout.prompts_per_step=6");
  assert_no_sockets (engine);
}

static void
test_stop (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GArray) workers = start_long (engine, &process, "");
  g_assert_cmpint (engine_shell (engine, "stat -c %%a sockets/*"), ==, 0);
  g_assert_cmpstr (engine->out, ==, "700\n");
  g_assert_cmpint (engine_call (engine, "stop run"), ==, 0);
  g_assert_cmpint (engine_wait (process), ==, 0);
  assert_gone (workers);
  assert_no_sockets (engine);
}

/* A run in the background that is ended at once leaves nobody. */
static void
test_stop_kill (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_call (engine, "run " LONG "--set rollout.async=yes --run-dir back --detach"), ==, 0);
  g_autofree char *run = engine_path (engine, "back"), *checkpoint = engine_path (engine, "back/checkpoints/step-000002");
  for (int i = 0; !g_file_test (checkpoint, G_FILE_TEST_EXISTS); i++)
    {
      g_assert_cmpint (i, <, 6000);
      g_usleep (G_USEC_PER_SEC / 50);
    }
  g_autoptr (PlumbRunStatus) status = plumb_run_status_read (run, NULL);
  g_autofree char *pid = g_strdup_printf ("%" G_GINT64_FORMAT, status->pid);
  g_autoptr (GArray) workers = engine_workers_of (pid);
  g_assert_cmpuint (workers->len, ==, 3);
  g_assert_cmpint (engine_call (engine, "stop back --kill"), ==, 0);
  assert_gone (workers);
}

/* Every process of the group hears a key in the terminal: only the controller acts on it. */
static void
test_interrupt (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GArray) workers = start_long (engine, &process, "");
  for (guint i = 0; i < workers->len; i++)
    kill ((pid_t) g_array_index (workers, gint64, i), SIGINT);
  g_subprocess_send_signal (process, SIGINT);
  g_assert_cmpint (engine_wait (process), ==, 0);
  assert_gone (workers);
}

static void
test_controller_dies (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GArray) workers = start_long (engine, &process, "");
  g_subprocess_send_signal (process, SIGKILL);
  g_assert_cmpint (engine_wait (process), ==, -SIGKILL);
  assert_gone (workers);
  go_on (engine);
}

static void
assert_event (Engine *engine, const char *kind, const char *words)
{
  g_assert_cmpint (engine_call (engine, "telemetry run --since 0"), ==, 0);
  assert_has (engine->out, kind);
  assert_has (engine->out, words);
}

static void
test_worker_dies (Engine *engine, gconstpointer data)
{
  for (guint victim = 0; victim < 2; victim++)
    {
      g_autoptr (GSubprocess) process = NULL;
      g_autoptr (GArray) workers = start_long (engine, &process, "");
      kill ((pid_t) g_array_index (workers, gint64, victim), SIGKILL);
      g_assert_cmpint (engine_wait (process), ==, 5);
      assert_gone (workers);
      g_autofree char *said = engine_read (engine, "started.txt");
      g_autofree char *name
          = g_strdup_printf ("(process %d) was killed by signal 9", (int) g_array_index (workers, gint64, victim));
      assert_has (said, name);
      assert_has (said, "in phase ");
      assert_event (engine, "worker-lost", name);
      go_on (engine);
    }
}

static void
test_worker_hangs (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GArray) workers = start_long (engine, &process, "--set placement.timeout=2");
  kill ((pid_t) g_array_index (workers, gint64, 1), SIGSTOP);
  g_assert_cmpint (engine_wait (process), ==, 5);
  assert_gone (workers);
  g_autofree char *said = engine_read (engine, "started.txt");
  assert_has (said, "has said nothing for 2 s in phase ");
  assert_event (engine, "worker-lost", "placement.timeout");
  go_on (engine);
}

/* What is planned for all processes together is near what they take. */
static void
test_memory (Engine *engine, gconstpointer data)
{
  static const char *const settings[] = { "--set placement.workers=2", "--set rollout.async=yes" };
  for (gsize i = 0; i < G_N_ELEMENTS (settings); i++)
    {
      g_autofree char *run = g_strdup_printf ("memory-%d", (int) i);
      g_autofree char *arguments = g_strdup_printf ("$SPECS/grpo.spec %s --run-dir %s", settings[i], run);
      run_ok (engine, arguments);
      g_autoptr (GArray) planned = engine_series (engine, run, "memory/device_planned");
      g_autoptr (GArray) taken = engine_series (engine, run, "memory/host");
      double plan = g_array_index (planned, double, planned->len - 1), most = g_array_index (taken, double, taken->len - 1);
      g_autoptr (JsonParser) parser = json_parser_new ();
      g_assert_cmpint (engine_call (engine, "plan $SPECS/grpo.spec %s --json", settings[i]), ==, 0);
      double told = json_object_get_double_member (engine_json (engine, parser), "memory_bytes");
      g_test_message ("planned %.1f MB, told by plan %.1f MB, taken %.1f MB", plan / 1e6, told / 1e6, most / 1e6);
      /* Under a checker of memory programs take more than they ask for. */
      if (!g_getenv ("ASAN_OPTIONS"))
        {
          g_assert_cmpfloat (fabs (plan - most), <=, 0.25 * most);
          g_assert_cmpfloat (fabs (told - most), <=, 0.25 * most);
        }
    }
}

/* A controller that did not listen for a while, like on a laptop that slept, holds no silence against its workers. */
static void
test_controller_sleeps (Engine *engine, gconstpointer data)
{
  static const char *const settings[] = { "--set placement.timeout=4",
                                          "--set placement.timeout=4 --set placement.workers=1 --set rollout.async=yes "
                                          "--set rollout.timeout=4" };
  for (gsize i = 0; i < G_N_ELEMENTS (settings); i++)
    {
      g_autoptr (GSubprocess) process = NULL;
      g_autoptr (GArray) workers = start_long (engine, &process, settings[i]);
      g_subprocess_send_signal (process, SIGSTOP);
      g_usleep (6 * G_USEC_PER_SEC);
      g_subprocess_send_signal (process, SIGCONT);
      g_usleep (G_USEC_PER_SEC / 2);
      if (engine_call (engine, "stop run") != 0)
        {
          g_autofree char *output = engine_read (engine, "started.txt");
          g_error ("%s: %s%s", settings[i], engine->err, output);
        }
      g_assert_cmpint (engine_wait (process), ==, 0);
      g_assert_cmpint (engine_call (engine, "telemetry run --since 0"), ==, 0);
      g_assert_null (strstr (engine->out, "-lost\""));
    }
}

/* A worker that waits for another is not given up while the controller cannot see why: here both the controller and the
 * other worker are stopped for longer than placement.timeout, as between two requests of one step; then all of them. */
static void
test_waiting_worker (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GArray) workers = start_long (engine, &process, "--set placement.timeout=3");
  pid_t controller = (pid_t) g_ascii_strtoll (g_subprocess_get_identifier (process), NULL, 10);
  for (guint first = 1; first < 3; first++)
    {
      kill (controller, SIGSTOP);
      for (guint i = first % 2; i < workers->len; i++)
        kill ((pid_t) g_array_index (workers, gint64, i), SIGSTOP);
      g_usleep (5 * G_USEC_PER_SEC);
      for (guint i = first % 2; i < workers->len; i++)
        kill ((pid_t) g_array_index (workers, gint64, i), SIGCONT);
      kill (controller, SIGCONT);
      g_usleep (G_USEC_PER_SEC);
    }
  g_assert_cmpint (engine_call (engine, "stop run"), ==, 0);
  g_assert_cmpint (engine_wait (process), ==, 0);
  assert_gone (workers);
}

/* Folders of sockets: those that are in use stay, those of the dead go, and a place whose path is too long is not taken. */
static void
test_folders (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GArray) workers = start_long (engine, &process, "");
  g_assert_cmpint (engine_shell (engine, "mkdir sockets/plumbline-crew-dead sockets/plumbline-crew-other sockets/more; "
                                         "touch sockets/plumbline-crew-dead/lock"), ==, 0);
  run_ok (engine, "$SPECS/sft.spec --set placement.workers=2 --run-dir second");
  g_assert_cmpint (engine_shell (engine, "ls sockets | wc -l; test -d sockets/plumbline-crew-other && test -d sockets/more"),
                   ==, 0);
  g_assert_cmpstr (engine->out, ==, "3\n");
  g_assert_cmpint (engine_call (engine, "stop run"), ==, 0);
  g_assert_cmpint (engine_wait (process), ==, 0);
  g_assert_cmpint (engine_shell (engine, "long=$PWD/$(printf '%%0100d' 0); mkdir $long; XDG_RUNTIME_DIR=$long \"$ENGINE\" run "
                                         "$SPECS/sft.spec --set placement.workers=2 --run-dir third"), ==, 0);
}

/* What a worker prints is in the log, with its name; and one that nobody started ends at once. */
static void
test_alone (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_shell (engine, "OMP_NUM_THREADS=4 OMP_DISPLAY_ENV=true \"$ENGINE\" run $SPECS/sft.spec "
                                         "--set placement.workers=2 --run-dir told"), ==, 0);
  g_autofree char *log = engine_read (engine, "told/log.txt");
  for (int i = 1; i <= 2; i++)
    {
      g_autofree char *line = g_strdup_printf ("worker %d:   [host] OMP_NUM_THREADS = '2'", i);
      g_autofree char *plain = g_strdup_printf ("worker %d:   OMP_NUM_THREADS = '2'", i);
      g_assert_true (strstr (log, line) || strstr (log, plain));
    }
  g_assert_cmpint (engine_call (engine, "worker"), ==, 2);
  assert_has (engine->err, "placement.workers");
  g_assert_cmpint (engine_call (engine, "worker --address tcp://localhost:1 --number 1 --controller 1"), ==, 2);
  g_assert_cmpint (engine_call (engine, "worker --address ipc:///nonexistent --number 1 --controller 1"), ==, 4);
  assert_has (engine->err, "did not start this worker");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/workers/curves", test_curves);
  ENGINE_TEST ("/workers/resume", test_resume);
  ENGINE_TEST ("/workers/memory", test_memory);
  ENGINE_TEST ("/workers/stop", test_stop);
  ENGINE_TEST ("/workers/stop-kill", test_stop_kill);
  ENGINE_TEST ("/workers/interrupt", test_interrupt);
  ENGINE_TEST ("/workers/controller-dies", test_controller_dies);
  ENGINE_TEST ("/workers/worker-dies", test_worker_dies);
  ENGINE_TEST ("/workers/worker-hangs", test_worker_hangs);
  ENGINE_TEST ("/workers/controller-sleeps", test_controller_sleeps);
  ENGINE_TEST ("/workers/waiting-worker", test_waiting_worker);
  ENGINE_TEST ("/workers/folders", test_folders);
  ENGINE_TEST ("/workers/alone", test_alone);
  return g_test_run ();
}
