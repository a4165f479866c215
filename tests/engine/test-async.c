/* SPDX-License-Identifier: Apache-2.0 */
/* Generation that runs ahead: how old it may be, and that no prompt is lost or trained twice, whatever dies. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include "tests/engine/harness.h"

#define PROMPTS 6
#define SAMPLES 4
#define ASYNC "$SPECS/grpo.spec --set rollout.async=yes --set telemetry.samples_per_step=-1 "

static void
run_ok (Engine *engine, const char *arguments)
{
  if (engine_call (engine, "run %s", arguments) != 0)
    g_error ("run %s: %s%s", arguments, engine->out, engine->err);
}

static void
assert_bounded (Engine *engine, const char *run, double bound, guint steps)
{
  g_autoptr (GArray) most = engine_series (engine, run, "rollout/staleness_max");
  g_autoptr (GArray) mean = engine_series (engine, run, "rollout/staleness_mean");
  double reached = 0;
  g_assert_cmpuint (most->len, ==, steps);
  for (guint i = 0; i < most->len; i++)
    {
      g_assert_cmpfloat (g_array_index (most, double, i), <=, bound);
      g_assert_cmpfloat (g_array_index (mean, double, i), <=, g_array_index (most, double, i));
      reached = MAX (reached, g_array_index (most, double, i));
    }
  g_assert_cmpfloat (g_array_index (most, double, 0), ==, 0);
  g_assert_cmpfloat (reached, >, 0);
}

/* What is trained is never older than the bound; each prompt is trained once, in its turn. */
static void
test_bound (Engine *engine, gconstpointer data)
{
  static const char *const settings[] = { "", "--set rollout.partial=yes", "--set rollout.max_running=3",
                                          "--set rollout.partial=yes --set rollout.max_running=5",
                                          "--set placement.workers=2" };
  for (int bound = 1; bound <= 3; bound += 2)
    for (gsize i = 0; i < G_N_ELEMENTS (settings); i++)
      {
        g_autofree char *run = g_strdup_printf ("bound-%d-%d", bound, (int) i);
        g_autofree char *arguments = g_strdup_printf (ASYNC "--set schedule.steps=8 --set rollout.max_staleness=%d %s "
                                                      "--run-dir %s", bound, settings[i], run);
        run_ok (engine, arguments);
        assert_bounded (engine, run, bound, 8);
        g_assert_cmpint (engine_assert_trained_once (engine, run, SAMPLES, FALSE), ==, 8 * PROMPTS);
      }
}

/* The first step is that of a run which does not generate ahead: the same completions of the same weights. */
static void
test_first_step (Engine *engine, gconstpointer data)
{
  run_ok (engine, ASYNC "--run-dir ahead");
  run_ok (engine, "$SPECS/grpo.spec --run-dir turns");
  static const char *const metrics[] = { "reward/mean", "policy/grad_norm", "length/response_mean", "loss/total" };
  for (gsize i = 0; i < G_N_ELEMENTS (metrics); i++)
    {
      g_autoptr (GArray) a = engine_series (engine, "ahead", metrics[i]), b = engine_series (engine, "turns", metrics[i]);
      g_assert_cmpuint (a->len, ==, b->len);
      double x = g_array_index (a, double, 0), y = g_array_index (b, double, 0);
      g_assert_cmpfloat (fabs (x - y), <=, 1e-6 * fabs (y));
    }
}

/* Whatever generates can run ahead, with its own batches and losses. */
static void
test_algorithms (Engine *engine, gconstpointer data)
{
  static const char *const runs[] = {
    "ppo --set algorithm.critic_warmup_steps=1",
    "reinforce",
    "reinforce_baseline --set algorithm.correction=tis",
    "rloo --set algorithm.dynamic_sampling=yes --set algorithm.dynamic_sampling.low=-1 --set algorithm.dynamic_sampling.high=2",
    "remax",
    "opo --set rollout.partial=yes",
    "rejection_sampling --set train.batch=6",
    "iterative_dpo --set train.batch=6 --set algorithm.iterative.reference=moving",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (runs); i++)
    {
      g_autofree char *arguments = g_strdup_printf (ASYNC "--run-dir run-%d --set run.algorithm=%s", (int) i, runs[i]);
      g_autofree char *run = g_strdup_printf ("run-%d", (int) i);
      run_ok (engine, arguments);
      assert_bounded (engine, run, 1, 4);
    }
}

static void
test_dynamic_sampling (Engine *engine, gconstpointer data)
{
  run_ok (engine, ASYNC "--run-dir run --set algorithm.dynamic_sampling=yes --set schedule.steps=8");
  assert_bounded (engine, "run", 1, 8);
  g_assert_cmpint (engine_assert_trained_once (engine, "run", SAMPLES, TRUE), ==, 8 * PROMPTS);
  g_autoptr (GArray) accepted = engine_series (engine, "run", "data/accepted");
  double least = 1;
  for (guint i = 0; i < accepted->len; i++)
    least = MIN (least, g_array_index (accepted, double, i));
  g_assert_cmpfloat (least, <, 1);
}

#define LONG ASYNC "--set schedule.steps=40 --set checkpoint.every=1 --set checkpoint.keep=2 --set eval.every=off "

static void
wait_for_step (Engine *engine, GSubprocess *process, int step)
{
  g_autofree char *name = g_strdup_printf ("run/checkpoints/step-%06d", step);
  engine_wait_for_file (engine, process, name);
}

#define SLOW LONG "--set rollout.prompts_per_step=48 --set schedule.steps=30 --run-dir run "

/* A worker that generates and dies is replaced, and its prompts are not lost; one that dies too often ends the run. */
static void
test_worker_dies (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = engine_start (engine, "run " SLOW "--set checkpoint.keep=100");
  for (int death = 1; death <= 2; death++)
    {
      wait_for_step (engine, process, 4 * death);
      g_autoptr (GArray) workers = engine_workers (process);
      g_assert_cmpuint (workers->len, ==, 2);
      kill ((pid_t) g_array_index (workers, gint64, 1), SIGKILL);
    }
  g_assert_cmpint (engine_wait (process), ==, 0);
  g_assert_cmpint (engine_assert_trained_once (engine, "run", SAMPLES, FALSE), ==, 30 * 48);
  assert_bounded (engine, "run", 1, 30);
  g_assert_cmpint (engine_call (engine, "telemetry run --since 0"), ==, 0);
  assert_has (engine->out, "rollout-lost");
  assert_has (engine->out, "was killed by signal 9");
}

static void
test_worker_dies_often (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = engine_start (engine, "run " SLOW "--set schedule.steps=3000");
  wait_for_step (engine, process, 1);
  for (gint64 last = 0; g_subprocess_get_identifier (process);)
    {
      g_autoptr (GArray) workers = engine_workers (process);
      gint64 pid = workers->len == 2 ? g_array_index (workers, gint64, 1) : 0;
      if (pid > 0 && pid != last)
        kill ((pid_t) pid, SIGKILL);
      last = pid > 0 ? pid : last;
      while (g_main_context_iteration (NULL, FALSE))
        continue;
      g_usleep (G_USEC_PER_SEC / 20);
    }
  g_assert_cmpint (engine_wait (process), ==, 5);
  g_autofree char *said = engine_read (engine, "started.txt");
  assert_has (said, "the worker that generates was lost 4 times in this run");
}

/* The worker that trains is not replaced: its weights are lost with it. */
static void
test_trainer_dies (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = engine_start (engine, "run " SLOW "--set schedule.steps=3000");
  wait_for_step (engine, process, 1);
  g_autoptr (GArray) workers = engine_workers (process);
  kill ((pid_t) g_array_index (workers, gint64, 0), SIGKILL);
  g_assert_cmpint (engine_wait (process), ==, 5);
  assert_gone (workers);
  run_ok (engine, "--resume --run-dir run --set schedule.steps=6");
  engine_assert_trained_once (engine, "run", SAMPLES, FALSE);
}

static void
test_worker_hangs (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = engine_start (engine, "run " SLOW "--set rollout.timeout=1 --set schedule.steps=12");
  wait_for_step (engine, process, 3);
  g_autoptr (GArray) workers = engine_workers (process);
  kill ((pid_t) g_array_index (workers, gint64, 1), SIGSTOP);
  g_assert_cmpint (engine_wait (process), ==, 0);
  assert_gone (workers);
  g_assert_cmpint (engine_assert_trained_once (engine, "run", SAMPLES, FALSE), ==, 12 * 48);
  g_assert_cmpint (engine_call (engine, "telemetry run --since 0"), ==, 0);
  assert_has (engine->out, "rollout.timeout");
}

#define EPISODES ASYNC "--set model.max_length=64 --set 'rollout.environment=sh environment.sh' " \
                       "--set rollout.environment.max_turns=3 "

static void
write_environment (Engine *engine)
{
  engine_write (engine, "environment.sh",
                "while read -r line; do\n"
                "  case $line in\n"
                "    *'\"turn\":1,'*) echo '{\"observation\": \" go on \", \"reward\": 0.25}' ;;\n"
                "    *'\"turn\":2,'*) echo '{\"observation\": \" once more \", \"reward\": 0.5}' ;;\n"
                "    *) echo '{\"done\": true}' ;;\n"
                "  esac\n"
                "done\n");
}

/* Episodes are played ahead: the first step is that of a run which does not generate ahead, what is sampled is trained and
 * nothing else, and no prompt is lost where the run or its worker dies in the middle. */
static void
test_episodes (Engine *engine, gconstpointer data)
{
  static const char *const metrics[] = { "reward/mean", "policy/grad_norm", "length/response_mean" };
  write_environment (engine);
  run_ok (engine, EPISODES "--set rollout.async=no --set schedule.steps=8 --run-dir turns");
  run_ok (engine, EPISODES "--set schedule.steps=8 --run-dir ahead");
  assert_bounded (engine, "ahead", 1, 8);
  g_assert_cmpint (engine_assert_trained_once (engine, "ahead", SAMPLES, FALSE), ==, 8 * PROMPTS);
  for (gsize i = 0; i < G_N_ELEMENTS (metrics); i++)
    {
      g_autoptr (GArray) a = engine_series (engine, "ahead", metrics[i]), b = engine_series (engine, "turns", metrics[i]);
      double x = g_array_index (a, double, 0), y = g_array_index (b, double, 0);
      g_assert_cmpfloat (fabs (x - y), <=, 1e-6 * fabs (y));
    }
  g_autoptr (GArray) rewards = engine_series (engine, "ahead", "reward/mean");
  g_autoptr (GArray) gap = engine_series (engine, "ahead", "policy/logprob_gap_max");
  g_assert_cmpfloat (g_array_index (gap, double, 0), ==, 0);
  for (guint i = 0; i < rewards->len; i++)
    g_assert_cmpfloat (g_array_index (rewards, double, i), >=, 0.75);
  /* What an environment said stands among the versions: six tokens of the first step's weights, " go on ", and so on. */
  g_assert_cmpint (engine_call (engine, "telemetry ahead --samples 1"), ==, 0);
  assert_has (engine->out, "\"policy_version\":0,\"versions\":[");
  assert_has (engine->out, "[6,0,7,-1,");
}

static void
test_episodes_resume (Engine *engine, gconstpointer data)
{
  write_environment (engine);
  g_autoptr (GSubprocess) process = engine_start (engine, "run " EPISODES "--set schedule.steps=16 --set checkpoint.every=1 "
                                                          "--set eval.every=off --set rollout.partial=yes --run-dir run");
  wait_for_step (engine, process, 3);
  g_autoptr (GArray) workers = engine_workers (process);
  kill ((pid_t) g_array_index (workers, gint64, 1), SIGKILL);
  wait_for_step (engine, process, 6);
  g_subprocess_send_signal (process, SIGKILL);
  g_assert_cmpint (engine_wait (process), ==, -SIGKILL);
  run_ok (engine, "--resume --run-dir run");
  g_assert_cmpint (engine_assert_trained_once (engine, "run", SAMPLES, FALSE), ==, 16 * PROMPTS);
  g_autoptr (GArray) rewards = engine_series (engine, "run", "reward/mean");
  g_assert_cmpuint (rewards->len, ==, 16);
  for (guint i = 0; i < rewards->len; i++)
    g_assert_cmpfloat (g_array_index (rewards, double, i), >=, 0.75);
}

/* Whether a call of the reward program lies within a phase in which the first worker trained. */
static gboolean
scored_while_training (Engine *engine, const char *run)
{
  g_autofree char *times = engine_read (engine, "times.txt");
  g_auto (GStrv) calls = g_strsplit (times, "\n", -1);
  g_assert_cmpint (engine_call (engine, "telemetry %s --since 0", run), ==, 0);
  g_auto (GStrv) lines = g_strsplit (engine->out, "\n", -1);
  for (gsize i = 0; lines[i]; i++)
    {
      const char *start = strstr (lines[i], "\"start\":"), *end = strstr (lines[i], "\"end\":");
      if (!strstr (lines[i], "\"worker 1\"") || !strstr (lines[i], "\"train\"") || !start || !end)
        continue;
      for (gsize k = 0; calls[k] && *calls[k]; k++)
        {
          double at = g_ascii_strtod (calls[k], NULL);
          if (at > g_ascii_strtod (start + strlen ("\"start\":"), NULL) && at < g_ascii_strtod (end + strlen ("\"end\":"), NULL))
            return TRUE;
        }
    }
  return FALSE;
}

/* What is generated ahead is scored as it is finished, while a step is trained; with the same rewards. */
static void
test_rewards (Engine *engine, gconstpointer data)
{
  static const char *const metrics[] = { "reward/mean", "reward/failed", "policy/grad_norm" };
  engine_write (engine, "reward.sh", "while read -r line; do\n"
                                     "  date +%s.%N >> times.txt\n"
                                     "  case $line in *[xyz]*) echo '{\"failed\": \"no\"}' ;; *) echo ${#line} ;; esac\n"
                                     "done\n");
  g_assert_cmpint (engine_shell (engine, "sed 's/functions = regex/functions = program/; s/reward regex/reward program/; "
                                         "s/^pattern.*/command = sh reward.sh/' $SPECS/grpo.spec > program.spec"), ==, 0);
  run_ok (engine, "program.spec --set algorithm.epochs=8 --set eval.every=off --set schedule.steps=8 --run-dir turns");
  g_assert_false (scored_while_training (engine, "turns"));
  g_assert_cmpint (engine_shell (engine, "rm times.txt"), ==, 0);
  run_ok (engine, "program.spec --set algorithm.epochs=8 --set eval.every=off --set rollout.async=yes --set schedule.steps=8 "
                  "--run-dir ahead");
  g_assert_true (scored_while_training (engine, "ahead"));
  for (gsize i = 0; i < G_N_ELEMENTS (metrics); i++)
    {
      g_autoptr (GArray) a = engine_series (engine, "ahead", metrics[i]), b = engine_series (engine, "turns", metrics[i]);
      double x = g_array_index (a, double, 0), y = g_array_index (b, double, 0);
      g_assert_cmpfloat (fabs (x - y), <=, 1e-6 * fabs (y));
    }
}

static void
test_refused (Engine *engine, gconstpointer data)
{
  static const struct
  {
    const char *settings, *words;
  } wrong[] = {
    { "rollout.async=no --set rollout.partial=yes", "rollout.partial = yes" },
    { "rollout.max_staleness=0", "rollout.max_staleness = 0" },
    { "rollout.timeout=-1", "rollout.timeout = -1" },
    { "placement.workers=65", "placement.workers = 65" },
    { "placement.timeout=x", "placement.timeout = x" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_cmpint (engine_call (engine, "run " ASYNC "--run-dir wrong --set %s", wrong[i].settings), ==, 3);
      assert_has (engine->err, wrong[i].words);
    }
  run_ok (engine, ASYNC "--run-dir run --set checkpoint.every=1");
  g_assert_cmpint (engine_shell (engine, "rm -rf run/checkpoints/step-000004 run/checkpoints/step-000003"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir run --set rollout.async=no"), ==, 3);
  assert_has (engine->err, "rollout.async was yes");
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir run --set rollout.samples=8"), ==, 3);
  assert_has (engine->err, "rollout.samples was 4");
  g_assert_cmpint (engine_shell (engine, "cp run/checkpoints/step-000002/ahead.bin kept; "
                                         "head -c 100 kept > run/checkpoints/step-000002/ahead.bin"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir run --set rollout.samples=4"), ==, 5);
  assert_has (engine->err, "ahead.bin");
  g_assert_cmpint (engine_shell (engine, "cp kept run/checkpoints/step-000002/ahead.bin"), ==, 0);
  run_ok (engine, "--resume --run-dir run");
  g_assert_cmpint (engine_assert_trained_once (engine, "run", SAMPLES, FALSE), ==, 4 * PROMPTS);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/async/bound", test_bound);
  ENGINE_TEST ("/async/first-step", test_first_step);
  ENGINE_TEST ("/async/algorithms", test_algorithms);
  ENGINE_TEST ("/async/dynamic-sampling", test_dynamic_sampling);
  ENGINE_TEST ("/async/worker-dies", test_worker_dies);
  ENGINE_TEST ("/async/worker-dies-often", test_worker_dies_often);
  ENGINE_TEST ("/async/trainer-dies", test_trainer_dies);
  ENGINE_TEST ("/async/worker-hangs", test_worker_hangs);
  ENGINE_TEST ("/async/episodes", test_episodes);
  ENGINE_TEST ("/async/episodes-resume", test_episodes_resume);
  ENGINE_TEST ("/async/rewards", test_rewards);
  ENGINE_TEST ("/async/refused", test_refused);
  return g_test_run ();
}
