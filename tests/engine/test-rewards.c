/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runs whose rewards come from programs, servers and the sandbox, sound and unsound ones. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "tests/engine/harness.h"
#include "tests/unit/reward-server.h"

/* The small run of all engine tests with other rewards. */
static void
write_spec (Engine *engine, const char *functions, const char *options)
{
  g_autofree char *text = g_strdup_printf ("[reward]\nfunctions = %s\n%s", functions, options);

  engine_write (engine, "reward.part", text);
  g_assert_cmpint (engine_shell (engine, "sed -e '/^.reward/d' -e '/^functions/d' -e '/^pattern/d' $SPECS/grpo.spec > a.spec && "
                                         "cat reward.part >> a.spec"),
                   ==, 0);
}

static void
run_ok (Engine *engine, const char *arguments)
{
  if (engine_call (engine, "run %s", arguments) != 0)
    g_error ("%s%s", engine->out, engine->err);
}

/* No rewards at all end the run after some steps, which a checkpoint keeps; with a sound program it goes on. */
static void
test_all_fail (Engine *engine, gconstpointer data)
{
  engine_write (engine, "judge.sh", "while read -r line; do echo '{\"failed\": \"out of paper\"}'; done\n");
  write_spec (engine, "program", "failure_limit = 1\n[reward program]\ncommand = /bin/sh judge.sh\n");
  g_assert_cmpint (engine_call (engine, "run a.spec --run-dir r"), ==, 5);
  assert_has (engine->err, "no answer of 2 steps in a row has a reward");
  assert_has (engine->err, "out of paper");
  assert_has (engine->out, "no reward");
  g_assert_cmpint (engine_call (engine, "telemetry r --since 0"), ==, 0);
  assert_has (engine->out, "\"no-update\"");
  g_assert_null (strstr (engine->out, "\"reward/mean\""));
  engine_write (engine, "judge.sh", "n=0; while read -r line; do n=$(((n+1) % 3)); echo $n; done\n");
  run_ok (engine, "--resume --run-dir r");
  g_autoptr (GArray) mean = engine_series (engine, "r", "reward/mean");
  g_assert_cmpuint (mean->len, ==, 2); /* steps 3 and 4 */
  g_assert_cmpfloat_with_epsilon (g_array_index (mean, double, 0), 1, 1e-12);
}

/* Every third answer is no number: it is left out, neither 0 nor the end of the program. */
static void
test_some_fail (Engine *engine, gconstpointer data)
{
  engine_write (engine, "judge.sh",
                "n=0; while read -r line; do n=$(((n+1) % 3)); case $n in 0) echo '{\"reward\": null}';; *) echo $n;; esac; done\n");
  write_spec (engine, "program", "[reward program]\ncommand = /bin/sh judge.sh\n");
  run_ok (engine, "a.spec --run-dir r");
  g_autoptr (GArray) mean = engine_series (engine, "r", "reward/mean"), failed = engine_series (engine, "r", "reward/failed");
  for (guint i = 0; i < mean->len; i++)
    {
      g_assert_cmpfloat_with_epsilon (g_array_index (mean, double, i), 1.5, 1e-12);
      g_assert_cmpfloat_with_epsilon (g_array_index (failed, double, i), 1 / 3.0, 1e-12);
    }
}

/* A server that by turns answers well, lies and hangs up: the run ends, the failures are counted and
 * every sample is kept with its reason. */
static void
test_server (Engine *engine, gconstpointer data)
{
  static RewardServer server;
  reward_server_start (&server, NULL);
  g_autofree char *options = g_strdup_printf ("timeout = 20\nretries = 0\n[reward http]\nurl = http://127.0.0.1:%d/mixed\n",
                                              server.port);
  write_spec (engine, "http", options);
  run_ok (engine, "a.spec --run-dir r");
  reward_server_stop (&server, NULL);
  g_autoptr (GArray) failed = engine_series (engine, "r", "reward/failed");
  g_assert_cmpuint (failed->len, ==, 4);
  double sum = 0;
  for (guint i = 0; i < failed->len; i++)
    {
      g_assert_cmpfloat (g_array_index (failed, double, i), <, 1);
      sum += g_array_index (failed, double, i);
    }
  g_assert_cmpfloat (sum, >, 0);
  g_assert_cmpint (engine_call (engine, "telemetry r --since 0"), ==, 0);
  assert_has (engine->out, "\"reward-failed\"");
  g_assert_null (strstr (engine->out, "NaN"));
}

/* Code that a model wrote runs in the sandbox; where there is none the run is refused before it begins. */
static void
test_code (Engine *engine, gconstpointer data)
{
  engine_write (engine, "code.jsonl", "{\"prompt\": \"#\", \"test_list\": [\"assert True\"]}\n"
                                      "{\"prompt\": \"##\", \"test_list\": [\"assert 1 + 1 == 3\"]}\n");
  write_spec (engine, "code", "");
  int code = engine_call (engine, "run a.spec --set data.train=code.jsonl --set data.eval= --set rollout.prompts_per_step=2 --set "
                                  "train.batch=4 --set schedule.steps=2 --run-dir r");
  if (code == 4)
    {
      assert_has (engine->err, "bubblewrap");
      g_test_skip ("there is no sandbox here");
      return;
    }
  if (code != 0)
    g_error ("%s%s", engine->out, engine->err);
  g_autoptr (GArray) failed = engine_series (engine, "r", "reward/failed"), mean = engine_series (engine, "r", "reward/mean");
  g_assert_cmpuint (failed->len, ==, 2);
  for (guint i = 0; i < failed->len; i++)
    {
      g_assert_cmpfloat (g_array_index (failed, double, i), ==, 0); /* bad code scores 0: that is no failure */
      g_assert_cmpfloat (g_array_index (mean, double, i), <, 1);
    }
}

/* The calculator that the manual shows, line by line as an environment is asked. */
static void
test_calculator (Engine *engine, gconstpointer data)
{
  engine_write (engine, "asked", "{\"action\": \"so <calc>(3+4)*2/5 - -1</calc>\", \"answer\": \"7\"}\n"
                                 "{\"action\": \"<calc>1/0</calc>\"}\n{\"action\": \"\\u003ccalc\\u003e2*(3</calc>\"}\n"
                                 "{\"action\": \"it is \\\"-12.5\\\" \\n\", \"answer\": \"x 3, -12.5\"}\n{\"action\": \"5\"}\n");
  g_assert_cmpint (engine_shell (engine, "sh $SPECS/../../../data/examples/calculator.sh < asked"), ==, 0);
  g_assert_cmpstr (engine->out, ==,
                   "{\"observation\": \"<result>3.8</result>\"}\n{\"observation\": \"<result>error</result>\"}\n"
                   "{\"observation\": \"<result>error</result>\"}\n{\"done\": true, \"reward\": 1}\n"
                   "{\"done\": true, \"reward\": 0}\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/rewards/all-fail", test_all_fail);
  ENGINE_TEST ("/rewards/some-fail", test_some_fail);
  ENGINE_TEST ("/rewards/server", test_server);
  ENGINE_TEST ("/rewards/code", test_code);
  ENGINE_TEST ("/rewards/calculator", test_calculator);
  return g_test_run ();
}
