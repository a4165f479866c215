/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths at random moments, again and again: the run ends as one that was never interrupted. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <signal.h>
#include <string.h>

#include "tests/engine/harness.h"

#define PROMPTS 6
#define SAMPLES 4
#define FEW 3
#define MANY 20
#define GRPO "$SPECS/grpo.spec --set checkpoint.every=1 --set checkpoint.keep=2 --set eval.every=50 "
#define ASYNC GRPO "--set rollout.async=yes --set telemetry.samples_per_step=-1 "

static void
run_ok (Engine *engine, const char *arguments)
{
  if (engine_call (engine, "run %s", arguments) != 0)
    g_error ("run %s: %s%s", arguments, engine->out, engine->err);
}

/* Kills the run so many times, each time up to a second after it went on, and lets it end. */
static void
kill_and_resume (Engine *engine, const char *spec, int kills, guint32 seed)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (seed);
  g_autofree char *first = g_strdup_printf ("run %s --run-dir run", spec);
  int killed = 0;
  g_assert_cmpint (engine_shell (engine, "rm -rf run"), ==, 0);
  for (gboolean begun = FALSE; killed < kills; begun = TRUE)
    {
      g_autoptr (GSubprocess) process = engine_start (engine, begun ? "run --resume --run-dir run" : first);
      if (!begun)
        engine_wait_for_file (engine, process, "run/state.json");
      g_usleep ((gulong) g_rand_int_range (random, 0, 900) * 1000);
      g_autoptr (GArray) workers = engine_workers (process);
      g_subprocess_send_signal (process, SIGKILL);
      int code = engine_wait (process);
      assert_gone (workers);
      if (code != -SIGKILL)
        break; /* it was done before */
      killed++;
    }
  g_test_message ("killed %d times", killed);
  g_assert_cmpint (killed, >=, kills > FEW ? kills : 1);
  run_ok (engine, "--resume --run-dir run");
}

/* Enough that the run outlives its deaths. */
static int
steps_for (int kills)
{
  return kills > FEW ? 250 : 40;
}

/* To the bit, metrics and weights. */
static void
check_turns (Engine *engine, const char *settings, int kills)
{
  int steps = steps_for (kills);
  g_autofree char *spec = g_strdup_printf (GRPO "--set schedule.steps=%d %s", steps, settings);
  g_autofree char *whole = g_strdup_printf ("%s --run-dir whole", spec);
  g_assert_cmpint (engine_shell (engine, "rm -rf whole"), ==, 0);
  run_ok (engine, whole);
  kill_and_resume (engine, spec, kills, 11);
  assert_same_metrics (engine, "whole", "run");
  g_autofree char *left = g_strdup_printf ("whole/export/step-%06d/model.safetensors", steps);
  g_autofree char *right = g_strdup_printf ("run/export/step-%06d/model.safetensors", steps);
  assert_same_file (engine, left, right);
}

/* Each prompt is trained once; what was superseded counts once. */
static void
check_ahead (Engine *engine, const char *settings, int kills, double bound)
{
  int steps = steps_for (kills);
  g_autofree char *spec
      = g_strdup_printf (ASYNC "--set schedule.steps=%d --set rollout.max_staleness=%g %s", steps, bound, settings);
  kill_and_resume (engine, spec, kills, 7);
  g_assert_cmpint (engine_assert_trained_once (engine, "run", SAMPLES, FALSE), ==, steps * PROMPTS);
  g_autoptr (GArray) most = engine_series (engine, "run", "rollout/staleness_max");
  g_assert_cmpuint (most->len, ==, steps);
  for (guint i = 0; i < most->len; i++)
    g_assert_cmpfloat (g_array_index (most, double, i), <=, bound);
}

static void
test_turns (Engine *engine, gconstpointer data)
{
  check_turns (engine, "", FEW);
  check_turns (engine, "--set placement.workers=2", FEW);
}

static void
test_ahead (Engine *engine, gconstpointer data)
{
  check_ahead (engine, "", FEW, 1);
  check_ahead (engine, "--set rollout.partial=yes", FEW, 3);
}

static void
test_turns_often (Engine *engine, gconstpointer data)
{
  check_turns (engine, "", MANY);
  check_turns (engine, "--set run.algorithm=ppo", MANY);
}

static void
test_ahead_often (Engine *engine, gconstpointer data)
{
  check_ahead (engine, "", MANY, 1);
  check_ahead (engine, "--set rollout.partial=yes --set placement.workers=2", MANY, 2);
}

/* The many deaths are those of the slow suite (-m slow). */
int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  if (g_test_slow ())
    {
      ENGINE_TEST ("/kill-random/turns-often", test_turns_often);
      ENGINE_TEST ("/kill-random/ahead-often", test_ahead_often);
      return g_test_run ();
    }
  ENGINE_TEST ("/kill-random/turns", test_turns);
  ENGINE_TEST ("/kill-random/ahead", test_ahead);
  return g_test_run ();
}
