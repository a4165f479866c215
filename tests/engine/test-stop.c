/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping, continuing, and that a continued run is the uninterrupted one. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <signal.h>
#include <string.h>

#include <glib/gstdio.h>

#include "engine/core/run-dir.h"
#include "tests/engine/harness.h"

/* Asserts the state that `status --json` tells, and returns its checkpoint. */
static gint64
assert_state (Engine *engine, const char *run, const char *state)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_assert_cmpint (engine_call (engine, "status %s --json", run), ==, 0);
  JsonObject *object = engine_json (engine, parser);
  g_assert_cmpstr (json_object_get_string_member (object, "state"), ==, state);
  return json_object_get_int_member_with_default (object, "checkpoint", -1);
}

static void
wait_for_state (Engine *engine, const char *run, const char *state)
{
  for (int i = 0; i < 1200; i++)
    {
      g_autoptr (JsonParser) parser = json_parser_new ();
      g_assert_cmpint (engine_call (engine, "status %s --json", run), ==, 0);
      if (g_str_equal (json_object_get_string_member (engine_json (engine, parser), "state"), state))
        return;
      g_usleep (G_USEC_PER_SEC / 10);
    }
  g_error ("%s never is %s: %s", run, state, engine->out);
}

static void
wait_for_log (Engine *engine, const char *run, const char *sentence)
{
  g_autofree char *name = g_build_filename (run, PLUMB_RUN_LOG, NULL);
  for (int i = 0; i < 1200; i++)
    {
      g_autofree char *log = engine_read (engine, name);
      if (strstr (log, sentence))
        return;
      g_usleep (G_USEC_PER_SEC / 10);
    }
  g_error ("\"%s\" never comes in the log of %s", sentence, run);
}

#define LONG "$SPECS/grpo.spec --set rollout.prompts_per_step=32 --set schedule.steps=60 "

static void
test_interrupt (Engine *engine, gconstpointer data)
{
  g_autoptr (GSubprocess) process = engine_start (engine, "run " LONG "--run-dir cut");
  engine_wait_for_file (engine, process, "cut/checkpoints/step-000002");
  g_subprocess_send_signal (process, SIGINT);
  g_assert_cmpint (engine_wait (process), ==, 0);
  gint64 step = assert_state (engine, "cut", "stopped");
  g_assert_cmpint (step, >=, 2);
  g_assert_cmpint (step, <, 60);
  g_autofree char *output = engine_read (engine, "started.txt");
  g_autofree char *sentence = g_strdup_printf ("stopped at step %d with a checkpoint", (int) step);
  assert_has (output, sentence);
  g_assert_cmpint (engine_call (engine, "generate --model cut/checkpoints/step-%06d/model --prompt 1+2= -n 2 --json",
                                (int) step), ==, 0);
  assert_has (engine->out, "\"finish\"");

  g_assert_cmpint (engine_call (engine, "run --resume --run-dir cut"), ==, 0);
  assert_state (engine, "cut", "finished");
  g_assert_cmpint (engine_call (engine, "run " LONG "--run-dir whole"), ==, 0);
  assert_same_file (engine, "cut/checkpoints/step-000060/model/model.safetensors",
                    "whole/checkpoints/step-000060/model/model.safetensors");
  assert_same_metrics (engine, "cut", "whole");
}

/* Continues from each checkpoint of a whole run in turn: everything afterwards is the same to the last bit. */
static void
check_resume (Engine *engine, const char *spec, const char *settings, int steps)
{
  static const char *const files[] = { "model/model.safetensors", "optimizer.safetensors", "position.json" };
  g_assert_cmpint (engine_call (engine, "run $SPECS/%s.spec --run-dir whole --set checkpoint.every=1 %s", spec,
                                settings), ==, 0);
  for (int k = 1; k < steps; k++)
    {
      g_assert_cmpint (engine_shell (engine, "rm -rf cut && cp -r whole cut && cd cut/checkpoints && "
                                     "for i in $(seq %d %d); do rm -r step-00000$i; done", k + 1, steps), ==, 0);
      if (engine_call (engine, "run --resume --run-dir cut") != 0)
        g_error ("%s does not go on after step %d: %s%s", spec, k, engine->out, engine->err);
      for (gsize i = 0; i < G_N_ELEMENTS (files); i++)
        {
          g_autofree char *left = g_strdup_printf ("cut/checkpoints/step-%06d/%s", steps, files[i]);
          g_autofree char *right = g_strdup_printf ("whole/checkpoints/step-%06d/%s", steps, files[i]);
          assert_same_file (engine, left, right);
        }
      assert_same_metrics (engine, "cut", "whole");
    }
}

static void
test_resume_grpo (Engine *engine, gconstpointer data)
{
  check_resume (engine, "grpo", "", 4);
}

static void
test_resume_bf16 (Engine *engine, gconstpointer data)
{
  check_resume (engine, "grpo", "--set model.precision=bf16", 4);
}

static void
test_resume_sft (Engine *engine, gconstpointer data)
{
  check_resume (engine, "sft", "", 6);
}

/* The stages meet at step 4. */
static void
test_resume_warmup (Engine *engine, gconstpointer data)
{
  check_resume (engine, "warmup", "", 8);
}

static void
test_resume_refused (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_call (engine, "run $SPECS/sft.spec --run-dir r"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir r --set run.seed=6"), ==, 3);
  assert_has (engine->err, "run.seed was 5");
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir r --set model.precision=bf16"), ==, 3);
  assert_has (engine->err, "model.precision was fp32");
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir r --set train.learning_rate=2e-3 --set schedule.steps=7"), ==, 0);
  assert_has (engine->err, "changed: train.learning_rate: 1e-3 -> 2e-3");
  assert_has (engine->err, "changed: schedule.steps: 6 -> 7");
  g_assert_null (strstr (engine->err, "changed: model"));
  g_assert_null (strstr (engine->err, "changed: telemetry")); /* 2 GiB in bytes is the same */
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir r --set model.max_length=20"), ==, 0);
  assert_has (engine->err, "changed: model.max_length: ");
  /* The KL coefficient that a checkpoint tells is what the run had adapted to; another start is another coefficient. */
  g_assert_cmpint (engine_call (engine, "run $SPECS/grpo.spec --run-dir kl --set algorithm.kl.target=0.1"), ==, 0);
  g_assert_cmpint (engine_shell (engine, "rm -rf kl/checkpoints/step-000004; cp -r kl other"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir kl"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir other --set algorithm.kl.coefficient=0.5"), ==, 0);
  g_autoptr (GArray) kept = engine_series (engine, "kl", "kl/coefficient");
  g_autoptr (GArray) fresh = engine_series (engine, "other", "kl/coefficient");
  g_assert_cmpfloat (g_array_index (kept, double, 2), <, 0.02);
  g_assert_cmpfloat (g_array_index (fresh, double, 2), ==, 0.5);
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir nowhere"), ==, 3);
  assert_has (engine->err, "nowhere");
  g_assert_cmpint (engine_call (engine, "run --resume"), ==, 2);
  g_assert_cmpint (engine_call (engine, "run $SPECS/sft.spec --run-dir r"), ==, 3);
  assert_has (engine->err, "--resume");
  /* Removed and made again it is one run, not two. */
  g_assert_cmpint (engine_shell (engine, "rm -r r"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run $SPECS/sft.spec --run-dir r"), ==, 0);
  g_assert_cmpint (engine_shell (engine, "test $(\"$ENGINE\" status | grep -c /r$) = 1"), ==, 0);
}

static void
test_detached (Engine *engine, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_assert_cmpint (engine_call (engine, "run " LONG "--set schedule.steps=1000000 --set eval.every=off "
                                "--run-dir far --detach --json"), ==, 0);
  const char *run = json_object_get_string_member (engine_json (engine, parser), "run");
  g_autofree char *path = engine_path (engine, "far");
  g_assert_cmpstr (run, ==, path);
  assert_state (engine, "far", "running");
  /* A second engine keeps off. */
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir far"), ==, 4);
  assert_has (engine->err, "running in another engine");
  g_assert_cmpint (engine_call (engine, "run --child --run-dir far"), ==, 4);
  assert_has (engine->err, "another engine (process");
  assert_state (engine, "far", "running");

  wait_for_log (engine, "far", "step 1/");
  g_assert_cmpint (engine_call (engine, "stop far"), ==, 0);
  wait_for_state (engine, "far", "stopped");
  g_assert_cmpint (assert_state (engine, "far", "stopped"), >=, 1);
  g_assert_cmpint (engine_call (engine, "stop far"), ==, 3);
  assert_has (engine->err, "not running");

  g_assert_cmpint (engine_call (engine, "run --resume --detach --run-dir far"), ==, 0);
  assert_state (engine, "far", "running");
  wait_for_log (engine, "far", "continues from the checkpoint");
  g_assert_cmpint (engine_call (engine, "stop far --kill"), ==, 0);
  assert_state (engine, "far", "killed");
}

static void
test_detached_refused (Engine *engine, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_assert_cmpint (engine_call (engine, "run $SPECS/sft.spec --set train.batch=0 --run-dir bad --detach --json"), ==,
                   3);
  assert_has (engine->out, "train.batch");
  g_assert_cmpint (engine_call (engine, "run $SPECS/sft.spec --set data.train=none.jsonl --run-dir bad --detach "
                                "--json"), ==, 3);
  JsonArray *problems = json_object_get_array_member (engine_json (engine, parser), "problems");
  g_assert_cmpuint (json_array_get_length (problems), ==, 1);
  g_autofree char *path = engine_path (engine, "bad");
  g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
}

/* The second signal ends the run at once; the step is lost, the checkpoints are not. */
static void
test_interrupt_twice (Engine *engine, gconstpointer data)
{
  engine_write (engine, "slow.sh", "while read -r line; do sleep 1; echo 1; done\n");
  g_assert_cmpint (engine_shell (engine, "sed -e 's/= regex/= program/' -e 's/reward regex/reward program/' -e "
                                 "'s/^pattern.*/command = sh slow.sh/' $SPECS/grpo.spec > slow.spec"), ==, 0);
  g_autoptr (GSubprocess) process = engine_start (engine, "run slow.spec --run-dir twice");
  engine_wait_for_file (engine, process, "twice/state.json");
  g_usleep (G_USEC_PER_SEC * 2);
  g_subprocess_send_signal (process, SIGINT);
  g_usleep (G_USEC_PER_SEC / 2);
  g_assert_nonnull (g_subprocess_get_identifier (process));
  g_subprocess_send_signal (process, SIGINT);
  g_assert_cmpint (engine_wait (process), ==, 130);
  g_assert_cmpint (engine_call (engine, "status twice"), ==, 0);
  assert_has (engine->out, "nterrupted");
}

/* A condition ends the run as if it had been the last step; a time that has come stops it so that it can go on. */
static void
test_early (Engine *engine, gconstpointer data)
{
  if (engine_call (engine, "run $SPECS/grpo.spec --run-dir early --set 'schedule.stop_if=reward/mean > -1 for 2'") != 0)
    g_error ("%s%s", engine->out, engine->err);
  g_autoptr (GArray) rewards = engine_series (engine, "early", "reward/mean");
  g_assert_cmpuint (rewards->len, ==, 2);
  g_assert_cmpint (engine_shell (engine, "test -f early/export/step-000002/model.safetensors"), ==, 0);
  g_assert_cmpint (engine_call (engine, "status early --json"), ==, 0);
  assert_has (engine->out, "finished");
  g_assert_cmpint (engine_call (engine, "run $SPECS/grpo.spec --run-dir x --set 'schedule.stop_if=reward/maen > 1'"), ==, 3);
  assert_has (engine->err, "reward/mean");
  g_assert_cmpint (engine_call (engine, "run $SPECS/grpo.spec --run-dir late --set schedule.max_hours=1e-9"), ==, 0);
  g_assert_cmpint (engine_call (engine, "status late --json"), ==, 0);
  assert_has (engine->out, "stopped");
}

/* The best checkpoint by its metric survives the rotation. */
static void
test_best (Engine *engine, gconstpointer data)
{
  if (engine_call (engine, "run $SPECS/sft.spec --run-dir best --set checkpoint.keep=1 "
                           "--set checkpoint.best_metric=progress/tokens --set schedule.steps=5") != 0)
    g_error ("%s%s", engine->out, engine->err);
  g_autofree char *text = engine_read (engine, "best/checkpoints/best.json");
  assert_has (text, "progress/tokens");
  if (engine_call (engine, "run $SPECS/sft.spec --run-dir first --set checkpoint.keep=1 "
                           "--set checkpoint.best_metric=policy/learning_rate --set schedule.steps=5") != 0)
    g_error ("%s%s", engine->out, engine->err);
  g_assert_cmpint (engine_shell (engine, "test $(ls -d first/checkpoints/step-* | wc -l) -eq 2 && "
                                         "step=$(sed 's/.*step\": \\([0-9]*\\).*/\\1/' first/checkpoints/best.json) && "
                                         "test -d first/checkpoints/step-00000$step"), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/stop/interrupt", test_interrupt);
  ENGINE_TEST ("/stop/interrupt-twice", test_interrupt_twice);
  ENGINE_TEST ("/stop/resume/grpo", test_resume_grpo);
  ENGINE_TEST ("/stop/resume/bf16", test_resume_bf16);
  ENGINE_TEST ("/stop/resume/sft", test_resume_sft);
  ENGINE_TEST ("/stop/resume/warmup", test_resume_warmup);
  ENGINE_TEST ("/stop/resume/refused", test_resume_refused);
  ENGINE_TEST ("/stop/detached", test_detached);
  ENGINE_TEST ("/stop/detached/refused", test_detached_refused);
  ENGINE_TEST ("/stop/early", test_early);
  ENGINE_TEST ("/stop/best", test_best);
  return g_test_run ();
}
