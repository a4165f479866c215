/* SPDX-License-Identifier: Apache-2.0 */
/* Training that goes wrong by itself, and conditions that count over several attempts. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "tests/engine/harness.h"

/* A reward that gives another value where a condition on the number of the call holds; it counts over all attempts, 24
 * calls a step. */
static void
write_spec (Engine *engine, const char *value, const char *condition)
{
  g_autofree char *program
      = g_strdup_printf ("while read -r line; do n=$(cat count); echo $((n + 1)) > count; "
                         "if %s; then echo %s; else echo 0.$((n %% 7)); fi; done\n", condition, value);
  engine_write (engine, "count", "0");
  engine_write (engine, "reward.sh", program);
  g_assert_cmpint (engine_shell (engine, "sed -e 's/= regex/= program/' -e 's/reward regex/reward program/' -e "
                                 "'s/^pattern.*/command = sh reward.sh/' $SPECS/grpo.spec > spoiled.spec"), ==, 0);
}

#define SPOILED "run spoiled.spec --set run.algorithm=rloo --set reward.parallel=1 --set reward.clip=-1e308,1e308 " \
                "--set train.nan_limit=0 --set eval.every=off --set schedule.steps=12 --set algorithm.epochs=1 " \
                "--set telemetry.samples_per_step=-1 --run-dir run "

static void
assert_steps (Engine *engine, const char *run, guint n)
{
  g_autoptr (GArray) steps = engine_series (engine, run, "progress/step");
  g_assert_cmpuint (steps->len, ==, n);
  for (guint i = 0; i < n; i++)
    g_assert_cmpfloat (g_array_index (steps, double, i), ==, i + 1);
  g_autoptr (GArray) norms = engine_series (engine, run, "policy/grad_norm");
  for (guint i = 0; i < norms->len; i++)
    g_assert_true (isfinite (g_array_index (norms, double, i)));
}

/* An infinite gradient in step 7: the run goes back to step 6, leaves the batch out, and ends as it should. */
static void
check_recovery (Engine *engine, const char *settings, const char *kind)
{
  if (engine_call (engine, SPOILED "--set train.rollback=1 %s", settings) != 0)
    g_error ("%s%s", engine->out, engine->err);
  assert_has (engine->out, "went back to the checkpoint of step ");
  assert_steps (engine, "run", 12);
  g_assert_cmpint (engine_call (engine, "telemetry run --since 0"), ==, 0);
  assert_has (engine->out, kind);
  assert_has (engine->out, "\"rollback\"");
  g_assert_cmpint (engine_call (engine, "status run"), ==, 0);
  assert_has (engine->out, "Finished");
  g_assert_cmpint (engine_assert_trained_once (engine, "run", 4, TRUE), ==, 12 * 6);
}

static void
test_recovers (Engine *engine, gconstpointer data)
{
  write_spec (engine, "1e300", "[ $n = 150 ]");
  check_recovery (engine, "", "not-finite");
}

static void
test_workers (Engine *engine, gconstpointer data)
{
  write_spec (engine, "1e300", "[ $n = 150 ]");
  check_recovery (engine, "--set placement.workers=2", "not-finite");
}

static void
test_async (Engine *engine, gconstpointer data)
{
  write_spec (engine, "1e300", "[ $n = 150 ]");
  check_recovery (engine, "--set rollout.async=yes --set rollout.max_staleness=2", "not-finite");
}

/* A gradient that is finite, but a million times the usual one. */
static void
test_divergence (Engine *engine, gconstpointer data)
{
  write_spec (engine, "1e6", "[ $n = 270 ]");
  check_recovery (engine, "--set train.divergence=1000 --set train.batch=6", "divergence");
}

/* What goes wrong every time ends the run after as many tries as were allowed; its good checkpoint is there. */
static void
test_gives_up (Engine *engine, gconstpointer data)
{
  write_spec (engine, "1e300", "[ $n -ge 150 ] && [ $((n % 2)) = 0 ]");
  g_assert_cmpint (engine_call (engine, SPOILED "--set train.rollback=2"), ==, 5);
  assert_has (engine->err, "after 2 rollbacks: train.rollback");
  g_assert_cmpint (engine_shell (engine, "ls run/checkpoints | tail -1"), ==, 0);
  g_assert_cmpstr (engine->out, ==, "step-000006\n");
  /* Not asked to, it does not go back; and before the first checkpoint it cannot. */
  g_assert_cmpint (engine_shell (engine, "rm -rf run; echo 0 > count"), ==, 0);
  g_assert_cmpint (engine_call (engine, SPOILED), ==, 5);
  assert_has (engine->err, "or set train.rollback");
  g_assert_cmpint (engine_shell (engine, "rm -rf run; echo 149 > count"), ==, 0);
  g_assert_cmpint (engine_call (engine, SPOILED "--set train.rollback=2"), ==, 5);
  assert_has (engine->err, "there is no checkpoint before it");
}

/* The time of earlier attempts counts. */
static void
test_max_hours (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_call (engine, "run $SPECS/grpo.spec --run-dir run"), ==, 0);
  g_assert_cmpint (engine_shell (engine, "rm -rf run/checkpoints/step-000004; grep -q '\"spent\" : 0' run/state.json && "
                                 "sed -i 's/\"spent\" : [0-9.e-]*/\"spent\" : 3590.0/' run/state.json"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir run --set schedule.max_hours=0.99"), ==, 0);
  assert_has (engine->out, "schedule.max_hours has come");
  assert_has (engine->out, "stopped at step 2");
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir run --set schedule.max_hours=2"), ==, 0);
  assert_steps (engine, "run", 4);
}

/* "for 6" means six values in a row, whatever came between. */
static void
test_stop_if (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_call (engine, "run $SPECS/grpo.spec --run-dir run --set schedule.steps=4"), ==, 0);
  g_assert_cmpint (engine_shell (engine, "rm -rf run"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run $SPECS/grpo.spec --run-dir run --set checkpoint.every=1 --set "
                                "schedule.steps=4 --set 'schedule.stop_if=reward/mean >= -100 for 6'"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir run --set schedule.steps=20"), ==, 0);
  assert_has (engine->out, "schedule.stop_if");
  assert_steps (engine, "run", 6);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/rollback/recovers", test_recovers);
  ENGINE_TEST ("/rollback/workers", test_workers);
  ENGINE_TEST ("/rollback/async", test_async);
  ENGINE_TEST ("/rollback/divergence", test_divergence);
  ENGINE_TEST ("/rollback/gives-up", test_gives_up);
  ENGINE_TEST ("/rollback/max-hours", test_max_hours);
  ENGINE_TEST ("/rollback/stop-if", test_stop_if);
  return g_test_run ();
}
