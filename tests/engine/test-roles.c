/* SPDX-License-Identifier: Apache-2.0 */
/* Critic, reference and reward model with workers of their own: the run is the same to the bit. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <signal.h>
#include <string.h>

#include "engine/core/run-dir.h"
#include "tests/engine/harness.h"

#define APART "--set placement.critic=cpu --set placement.reference=cpu --set placement.reward=cpu "

static void
run_ok (Engine *engine, const char *arguments)
{
  if (engine_call (engine, "run %s", arguments) != 0)
    g_error ("run %s: %s%s", arguments, engine->out, engine->err);
}

/* A reward model to score with, and a spec that does. */
static void
write_spec (Engine *engine)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (int i = 0; i < 24; i++)
    g_string_append_printf (text, "{\"prompt\": \"say %d\", \"chosen\": \"%c%c\", \"rejected\": \"%c\"}\n", i, 'A' + i, 'A' + i,
                            'a' + i);
  engine_write (engine, "pairs.jsonl", text->str);
  run_ok (engine, "$SPECS/pairs.spec --set run.algorithm=rm --set data.train=pairs.jsonl --set data.eval=pairs.jsonl "
                  "--set schedule.steps=10 --set checkpoint.every=0 --run-dir rm");
  g_assert_cmpint (engine_shell (engine, "sed '/reward regex/,/pattern/d; s/functions = regex/functions = model/; "
                                         "s/algorithm = grpo/algorithm = ppo/' $SPECS/grpo.spec > ppo.spec"), ==, 0);
  g_assert_cmpint (engine_shell (engine, "sed -i 's|^precision|reward = rm/export/step-000010\\nprecision|' ppo.spec"), ==, 0);
}

static const char *const states[] = { "model/model.safetensors", "optimizer.safetensors", "critic/model.safetensors",
                                      "critic-optimizer.safetensors", "position.json" };

static void
assert_same_checkpoint (Engine *engine, const char *left, const char *right, int step)
{
  for (gsize i = 0; i < G_N_ELEMENTS (states); i++)
    {
      g_autofree char *a = g_strdup_printf ("%s/checkpoints/step-%06d/%s", left, step, states[i]);
      g_autofree char *b = g_strdup_printf ("%s/checkpoints/step-%06d/%s", right, step, states[i]);
      assert_same_file (engine, a, b);
    }
}

static void
test_same (Engine *engine, gconstpointer data)
{
  static const char *const places[] = { APART, "--set placement.critic=cpu", "--set placement.reference=cpu",
                                        "--set placement.reward=cpu" };
  write_spec (engine);
  run_ok (engine, "ppo.spec --run-dir together");
  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    {
      g_autofree char *run = g_strdup_printf ("apart-%d", (int) i);
      g_autofree char *arguments = g_strdup_printf ("ppo.spec %s --run-dir %s", places[i], run);
      run_ok (engine, arguments);
      assert_same_metrics (engine, "together", run);
      assert_same_checkpoint (engine, "together", run, 4);
    }
}

/* A reward model on a worker of its own scores while the trainer is asked for log-probs: not for what the sampler told. */
static void
test_sampler (Engine *engine, gconstpointer data)
{
#define SAMPLER "ppo.spec --set algorithm.old_logprobs=sampler "
  write_spec (engine);
  run_ok (engine, SAMPLER "--run-dir together");
  run_ok (engine, SAMPLER "--set placement.reward=cpu --run-dir apart");
  g_autoptr (GArray) gap = engine_series (engine, "apart", "policy/logprob_gap_max");
  g_assert_cmpuint (gap->len, ==, 0);
  assert_same_metrics (engine, "together", "apart");
  assert_same_checkpoint (engine, "together", "apart", 4);
#undef SAMPLER
}

/* The critic's state is in the checkpoint wherever it lives: a run goes on with its roles elsewhere. */
static void
test_resume (Engine *engine, gconstpointer data)
{
  static const char *const again[] = { "", "--set placement.critic=same --set placement.reward=same" };
  write_spec (engine);
  run_ok (engine, "ppo.spec " APART "--run-dir whole");
  for (gsize i = 0; i < G_N_ELEMENTS (again); i++)
    {
      g_autofree char *arguments = g_strdup_printf ("--resume --run-dir again %s", again[i]);
      g_assert_cmpint (engine_shell (engine, "rm -rf again; cp -r whole again; rm -rf again/checkpoints/step-000004"), ==, 0);
      run_ok (engine, arguments);
      assert_same_metrics (engine, "whole", "again");
      assert_same_checkpoint (engine, "whole", "again", 4);
    }
}

/* After a warm-up reference and critic begin as what it made of the policy. */
static void
test_warmup (Engine *engine, gconstpointer data)
{
  static const char *const kinds[] = { "", "--set algorithm.kl.coefficient=0" };
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree char *together = g_strdup_printf ("$SPECS/warmup.spec --set run.algorithm=ppo %s --run-dir together-%d",
                                                   kinds[i], (int) i);
      g_autofree char *apart = g_strdup_printf ("$SPECS/warmup.spec --set run.algorithm=ppo %s --set placement.critic=cpu "
                                                "--set placement.reference=cpu --run-dir apart-%d", kinds[i], (int) i);
      g_autofree char *left = g_strdup_printf ("together-%d", (int) i), *right = g_strdup_printf ("apart-%d", (int) i);
      run_ok (engine, together);
      run_ok (engine, apart);
      assert_same_metrics (engine, left, right);
      assert_same_checkpoint (engine, left, right, 8);
    }
  run_ok (engine, "$SPECS/grpo.spec --set run.algorithm=iterative_dpo --set algorithm.iterative.reference=moving "
                  "--set train.batch=6 --run-dir moving");
  run_ok (engine, "$SPECS/grpo.spec --set run.algorithm=iterative_dpo --set algorithm.iterative.reference=moving "
                  "--set train.batch=6 --set placement.reference=cpu --run-dir moving-apart");
  assert_same_metrics (engine, "moving", "moving-apart");
}

/* Together with several workers that train, and with one that generates ahead. */
static void
test_mixed (Engine *engine, gconstpointer data)
{
  write_spec (engine);
  run_ok (engine, "ppo.spec --set placement.workers=2 --set rollout.async=yes --set algorithm.correction=tis " APART
                  "--run-dir mixed");
  run_ok (engine, "--resume --run-dir mixed --set schedule.steps=6");
  /* A measurement alone places its models too. */
  g_assert_cmpint (engine_call (engine, "eval ppo.spec " APART "--json"), ==, 0);
  assert_has (engine->out, "eval/arithmetic/pass1");
}

static GArray *
start_long (Engine *engine, GSubprocess **process)
{
  engine_call (engine, "--version");
  g_assert_cmpint (engine_shell (engine, "rm -rf run"), ==, 0);
  *process = engine_start (engine, "run ppo.spec " APART "--set schedule.steps=2000 --set eval.every=off "
                                   "--set checkpoint.every=1 --set checkpoint.keep=2 --run-dir run");
  engine_wait_for_file (engine, *process, "run/checkpoints/step-000002");
  return engine_workers (*process);
}

static void
test_death (Engine *engine, gconstpointer data)
{
  static const char *const names[] = { "worker 1 (process", "worker 2, the critic (process", "worker 3, the reference (process",
                                       "worker 4, the reward model (process" };
  write_spec (engine);
  for (guint victim = 0; victim < G_N_ELEMENTS (names); victim++)
    {
      g_autoptr (GSubprocess) process = NULL;
      g_autoptr (GArray) workers = start_long (engine, &process);
      g_assert_cmpuint (workers->len, ==, G_N_ELEMENTS (names));
      kill ((pid_t) g_array_index (workers, gint64, victim), SIGKILL);
      g_assert_cmpint (engine_wait (process), ==, 5);
      assert_gone (workers);
      g_autofree char *said = engine_read (engine, "started.txt");
      assert_has (said, names[victim]);
      assert_has (said, "was killed by signal 9");
      g_assert_cmpint (engine_call (engine, "run --resume --run-dir run --set schedule.steps=4"), ==, 0);
    }
}

/* Who works where is told, by the status of the run and in its timeline. */
static void
test_told (Engine *engine, gconstpointer data)
{
  write_spec (engine);
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GArray) workers = start_long (engine, &process);
  g_assert_cmpint (engine_call (engine, "status run"), ==, 0);
  for (guint i = 0; i < workers->len; i++)
    {
      static const char *const roles[] = { "policy", "critic", "reference", "reward model" };
      g_autofree char *line = g_strdup_printf ("worker %u", i + 1);
      g_autofree char *pid = g_strdup_printf ("process %d", (int) g_array_index (workers, gint64, i));
      assert_has (engine->out, line);
      assert_has (engine->out, pid);
      assert_has (engine->out, roles[i]);
    }
  g_assert_cmpint (engine_call (engine, "status run --json"), ==, 0);
  assert_has (engine->out, "\"role\"");
  g_assert_cmpint (engine_call (engine, "stop run"), ==, 0);
  g_assert_cmpint (engine_wait (process), ==, 0);
  g_assert_cmpint (engine_call (engine, "telemetry run --since 0"), ==, 0);
  assert_has (engine->out, "worker 2 (critic)");
  assert_has (engine->out, "worker 3 (reference)");
  assert_has (engine->out, "worker 4 (reward model)");
}

static void
test_plan (Engine *engine, gconstpointer data)
{
  write_spec (engine);
  g_assert_cmpint (engine_call (engine, "plan ppo.spec --no-trial " APART), ==, 0);
  assert_has (engine->out, "worker   2, critic, on cpu");
  assert_has (engine->out, "reward model, on cpu");
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_assert_cmpint (engine_call (engine, "plan ppo.spec --no-trial --json " APART), ==, 0);
  JsonObject *plan = engine_json (engine, parser);
  JsonArray *workers = json_object_get_array_member (plan, "workers");
  g_assert_cmpuint (json_array_get_length (workers), ==, 4);
  double sum = 0;
  for (guint i = 0; i < 4; i++)
    {
      static const gboolean saves[] = { TRUE, TRUE, FALSE, FALSE }, generates[] = { TRUE, FALSE, FALSE, FALSE };
      JsonObject *worker = json_array_get_object_element (workers, i);
      JsonObject *peaks = json_object_get_object_member (worker, "peaks");
      sum += json_object_get_double_member (worker, "bytes");
      g_assert_cmpfloat (json_object_get_double_member (peaks, "train"), >, 0);
      g_assert_cmpint (json_object_has_member (peaks, "checkpoint"), ==, saves[i]);
      g_assert_cmpint (json_object_has_member (peaks, "generate"), ==, generates[i]);
    }
  /* The process that leads them is there too. */
  g_assert_cmpfloat (sum, <, json_object_get_double_member (plan, "memory_bytes"));
}

static void
test_missing_device (Engine *engine, gconstpointer data)
{
  static const char *const settings[][2] = {
    { "--set placement.critic=cuda:77", "placement.critic" },
    { "--set placement.reference=cuda:77", "placement.reference" },
    { "--set placement.reward=gpu", "placement.reward" },
    { "--set rollout.async=yes --set placement.rollout=cuda:77", "placement.rollout" },
    { "--set placement.policy=cuda:77", "placement.policy" },
  };
  write_spec (engine);
  for (gsize i = 0; i < G_N_ELEMENTS (settings); i++)
    {
      g_assert_cmpint (engine_call (engine, "run ppo.spec %s --run-dir none", settings[i][0]), ==, 4);
      assert_has (engine->err, settings[i][1]);
      assert_has (engine->err, strstr (settings[i][0], "=gpu") ? "gpu" : "cuda:77");
      g_assert_cmpint (engine_call (engine, "validate ppo.spec %s", settings[i][0]), !=, 0);
      g_autofree char *all = g_strconcat (engine->out, engine->err, NULL);
      assert_has (all, settings[i][1]);
    }
}

/* A device of a role that the run does not have is not asked for, and the note says so. */
static void
test_unneeded (Engine *engine, gconstpointer data)
{
  static const char *const settings[] = { "placement.reward", "placement.critic" };
  for (gsize i = 0; i < G_N_ELEMENTS (settings); i++)
    {
      g_autofree char *run = g_strdup_printf ("$SPECS/grpo.spec --set %s=cuda:77 --set schedule.steps=1", settings[i]);
      g_assert_cmpint (engine_call (engine, "validate %s", run), ==, 0);
      g_autofree char *all = g_strconcat (engine->out, engine->err, NULL);
      assert_has (all, settings[i]);
      g_assert_cmpint (engine_call (engine, "run %s --run-dir unneeded-%d", run, (int) i), ==, 0);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/engine/roles/same", test_same);
  ENGINE_TEST ("/engine/roles/sampler", test_sampler);
  ENGINE_TEST ("/engine/roles/resume", test_resume);
  ENGINE_TEST ("/engine/roles/warmup", test_warmup);
  ENGINE_TEST ("/engine/roles/mixed", test_mixed);
  ENGINE_TEST ("/engine/roles/death", test_death);
  ENGINE_TEST ("/engine/roles/told", test_told);
  ENGINE_TEST ("/engine/roles/plan", test_plan);
  ENGINE_TEST ("/engine/roles/missing-device", test_missing_device);
  ENGINE_TEST ("/engine/roles/unneeded", test_unneeded);
  return g_test_run ();
}
