/* SPDX-License-Identifier: Apache-2.0 */
/* A death without warning in every phase: the state is told, the database opens, the run goes on. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <signal.h>
#include <string.h>

#include "tests/engine/harness.h"

/* Much work in one phase, so that state.json, which is replaced every two seconds, tells of it. */
typedef struct
{
  const char *phase;
  const char *settings;
} Phase;

static const Phase phases[] = {
  { "generate", "--set rollout.prompts_per_step=4000 --set rollout.max_new_tokens=26" },
  { "score", "--set rollout.prompts_per_step=3" },
  { "logprob", "--set rollout.prompts_per_step=8 --set rollout.samples=64 --set rollout.max_new_tokens=1 "
               "--set data.train=long.txt --set model.max_length=1500" },
  { "train", "--set rollout.prompts_per_step=3000 --set algorithm.epochs=40 --set rollout.max_new_tokens=1" },
};

/* A spec whose reward takes a second a response, and prompts of more than a thousand bytes. */
static void
write_inputs (Engine *engine)
{
  g_autoptr (GString) prompts = g_string_new (NULL);
  engine_write (engine, "slow.sh", "while read -r line; do sleep 1; echo 1; done\n");
  g_assert_cmpint (engine_shell (engine, "sed -e 's/= regex/= program/' -e 's/reward regex/reward program/' -e "
                                 "'s/^pattern.*/command = sh slow.sh/' $SPECS/grpo.spec > score.spec"), ==, 0);
  for (int i = 0; i < 8; i++)
    {
      for (int k = 0; k < 1400; k++)
        g_string_append_c (prompts, (char) ('a' + (i + k * k) % 26));
      g_string_append_c (prompts, '\n');
    }
  engine_write (engine, "long.txt", prompts->str);
}

static void
assert_killed (Engine *engine, const char *run)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_assert_cmpint (engine_call (engine, "status %s --json", run), ==, 0);
  JsonObject *object = engine_json (engine, parser);
  g_assert_cmpstr (json_object_get_string_member (object, "state"), ==, "killed");
  g_assert_nonnull (json_object_get_string_member (object, "message"));
  g_assert_cmpint (engine_call (engine, "telemetry %s --since 0", run), ==, 0);
  assert_has (engine->out, "\"store\"");
}

/* Continues with little work left, and ends as if nothing had happened. */
static void
go_on (Engine *engine, const char *run)
{
  if (engine_call (engine, "run --resume --run-dir %s --set rollout.prompts_per_step=4 --set rollout.samples=4 "
                   "--set rollout.max_new_tokens=1 --set algorithm.epochs=1 --set train.batch=16", run) != 0)
    g_error ("%s does not go on: %s%s", run, engine->out, engine->err);
  g_assert_cmpint (engine_call (engine, "status %s", run), ==, 0);
  assert_has (engine->out, "Finished");
  g_assert_cmpint (engine_call (engine, "export %s --to %s-out", run, run), ==, 0);
  g_assert_cmpint (engine_call (engine, "generate --model %s-out --prompt a", run), ==, 0);
  g_autoptr (GArray) steps = engine_series (engine, run, "progress/step");
  g_assert_cmpuint (steps->len, ==, 4);
  for (guint i = 0; i < steps->len; i++)
    g_assert_cmpfloat (g_array_index (steps, double, i), ==, i + 1);
}

static void
test_phase (Engine *engine, gconstpointer data)
{
  const Phase *phase = data;
  g_autofree char *line = g_strdup_printf ("run %s --run-dir %s %s --set eval.every=off",
                                           g_str_equal (phase->phase, "score") ? "score.spec" : "$SPECS/grpo.spec",
                                           phase->phase, phase->settings);
  write_inputs (engine);
  g_autoptr (GSubprocess) process = engine_start (engine, line);
  engine_wait_for_phase (engine, process, phase->phase, phase->phase);
  g_subprocess_send_signal (process, SIGKILL);
  g_assert_cmpint (engine_wait (process), ==, -SIGKILL);
  assert_killed (engine, phase->phase);
  if (!g_str_equal (phase->phase, "score"))
    go_on (engine, phase->phase);
}

/* As soon as the run is visible it may die: nothing is loaded yet. */
static void
test_load (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process
      = engine_start (engine, "run $SPECS/grpo.spec --run-dir load --set model.new.width=256");
  engine_wait_for_file (engine, process, "load/state.json");
  g_subprocess_send_signal (process, SIGKILL);
  g_assert_cmpint (engine_wait (process), ==, -SIGKILL);
  assert_killed (engine, "load");
  go_on (engine, "load");
}

static gboolean
is_saving (const char *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name (dir)))
    if (g_str_has_suffix (name, ".new"))
      return TRUE;
  return FALSE;
}

/* Between the start of a checkpoint and its rename: it is complete or absent. */
static void
test_checkpoint (Engine *engine, gconstpointer data)
{
  g_autofree char *folder = engine_path (engine, "checkpoint/checkpoints");
  for (int round = 0; round < 3; round++)
    {
      g_autoptr (GSubprocess) process = engine_start (
          engine, round == 0 ? "run $SPECS/grpo.spec --run-dir checkpoint --set checkpoint.every=1 --set "
                               "schedule.steps=4 --set model.new.width=256"
                             : "run --resume --run-dir checkpoint");
      gint64 start = g_get_monotonic_time ();
      while (!is_saving (folder))
        if (g_get_monotonic_time () - start > 100 * G_USEC_PER_SEC)
          g_error ("no checkpoint begins");
      g_subprocess_send_signal (process, SIGKILL);
      g_assert_cmpint (engine_wait (process), ==, -SIGKILL);
      assert_killed (engine, "checkpoint");
    }
  go_on (engine, "checkpoint");
  g_assert_false (is_saving (folder));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/kill/load", test_load);
  for (gsize i = 0; i < G_N_ELEMENTS (phases); i++)
    {
      g_autofree char *path = g_strconcat ("/kill/", phases[i].phase, NULL);
      g_test_add (path, Engine, &phases[i], engine_set_up, test_phase, engine_tear_down);
    }
  ENGINE_TEST ("/kill/checkpoint", test_checkpoint);
  return g_test_run ();
}
