/* SPDX-License-Identifier: Apache-2.0 */
/* Every algorithm on a small real task: it runs, a resumed run equals one that was not interrupted, and how a batch is
 * cut changes nothing. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "tests/engine/harness.h"

typedef struct
{
  const char *name;
  const char *settings;
  const char *metric; /* that it must have recorded at every step */
} Algorithm;

#define ONE_EACH "--set rollout.samples=1 --set rollout.prompts_per_step=24"

static const Algorithm online[] = {
  { "grpo", "--set algorithm.kl.target=0.01", "kl/reference" },
  { "grpo", "--set algorithm.policy_loss=gspo --set algorithm.kl.unbiased=yes", "policy/clip_high" },
  { "grpo", "--set algorithm.policy_loss=cispo --set algorithm.correction=tis", "policy/correction" },
  { "grpo", "--set algorithm.policy_loss=gmpo --set reward.overlong_buffer=3", "policy/clip_high" },
  { "grpo", "--set algorithm.policy_loss=sapo --set reward.truncated=0.5", "policy/clip_high" },
  { "ppo", ONE_EACH " --set algorithm.critic_warmup_steps=1", "critic/explained_variance" },
  { "reinforce", ONE_EACH, "reward/mean" },
  { "reinforce_baseline", "", "reward/group_std" },
  { "rloo", "", "reward/group_std" },
  { "dr_grpo", "", "reward/group_std" },
  { "remax", "", "reward/mean" },
  { "opo", "", "reward/group_std" },
  { "rejection_sampling", "--set train.batch=6", "loss/sft" },
  { "iterative_dpo", "--set train.batch=6 --set algorithm.iterative.rounds=2 --set algorithm.iterative.reference=moving",
    "reward/mean" },
};

static const Algorithm offline[] = {
  { "sft", "--set data.response_key=chosen", "loss/sft" },
  { "rm", "--set algorithm.rm.margin=yes", "rm/accuracy" },
  { "dpo", "--set algorithm.dpo.nll=0.1", "dpo/accuracy" },
  { "dpo", "--set algorithm.dpo.loss=ipo_mean", "dpo/margin" },
  { "orpo", "", "dpo/accuracy" },
  { "simpo", "", "dpo/margin" },
  { "kto", "--set data.response_key=chosen --set algorithm.beta=0.1", "kto/kl" },
  { "kto", "--set data.response_key=chosen --set algorithm.kto.paired=yes", "kto/kl" },
};

/* Pairs of which the chosen answer is a capital letter, with margins; as single answers every other one is liked. */
static void
write_pairs (Engine *engine)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (int i = 0; i < 24; i++)
    g_string_append_printf (text, "{\"prompt\": \"say %d\", \"chosen\": \"%c%c\", \"rejected\": \"%c\", \"margin\": 0.%d, "
                                  "\"label\": %s}\n",
                            i, 'A' + i, 'A' + i, 'a' + i, i % 10, i % 2 ? "true" : "false");
  engine_write (engine, "pairs.jsonl", text->str);
}

#define PAIRS "--set data.train=pairs.jsonl --set data.eval=pairs.jsonl "

static void
run_ok (Engine *engine, const char *spec, const Algorithm *a, const char *run, const char *more)
{
  const char *data = g_str_equal (spec, "pairs") ? PAIRS : "";
  if (engine_call (engine, "run $SPECS/%s.spec --set run.algorithm=%s %s %s --run-dir %s %s", spec, a->name, data,
                   a->settings, run, more) != 0)
    g_error ("%s %s %s: %s%s", a->name, a->settings, more, engine->out, engine->err);
}

/* The run goes on from the checkpoint of step 2 as if nothing had happened. */
static void
check_resume (Engine *engine, const char *run)
{
  g_assert_cmpint (engine_shell (engine, "rm -rf again; cp -r %s again; rm -rf again/checkpoints/step-000004", run), ==,
                   0);
  if (engine_call (engine, "run --resume --run-dir again") != 0)
    g_error ("%s: %s%s", run, engine->out, engine->err);
  assert_same_metrics (engine, run, "again");
}

static void
assert_near_series (Engine *engine, const char *left, const char *right, const char *metric)
{
  g_autoptr (GArray) a = engine_series (engine, left, metric), b = engine_series (engine, right, metric);
  g_assert_cmpuint (a->len, ==, b->len);
  g_assert_cmpuint (a->len, >, 0);
  double x = g_array_index (a, double, 0), y = g_array_index (b, double, 0);
  if (!(fabs (x - y) <= 1e-6 * fabs (x)))
    g_error ("%s of %s: %.9g, cut otherwise %.9g", metric, left, x, y);
}

static void
check (Engine *engine, const char *spec, const Algorithm *a)
{
  g_assert_cmpint (engine_shell (engine, "rm -rf whole cut"), ==, 0);
  run_ok (engine, spec, a, "whole", "");
  g_autoptr (GArray) values = engine_series (engine, "whole", a->metric);
  g_assert_cmpuint (values->len, ==, 4);
  check_resume (engine, "whole");
  run_ok (engine, spec, a, "cut", "--set train.tokens_per_micro_batch=4096");
  assert_near_series (engine, "whole", "cut", "policy/grad_norm");
  g_assert_cmpint (engine_shell (engine, "rm -rf shared"), ==, 0);
  run_ok (engine, spec, a, "shared", "--set placement.workers=2");
  assert_near_series (engine, "whole", "shared", "policy/grad_norm");
}

static void
test_online (Engine *engine, gconstpointer data)
{
  for (gsize i = 0; i < G_N_ELEMENTS (online); i++)
    check (engine, "grpo", &online[i]);
}

static void
test_offline (Engine *engine, gconstpointer data)
{
  write_pairs (engine);
  for (gsize i = 0; i < G_N_ELEMENTS (offline); i++)
    check (engine, "pairs", &offline[i]);
}

static double
last_of (Engine *engine, const char *run, const char *metric)
{
  g_autoptr (GArray) values = engine_series (engine, run, metric);
  g_assert_cmpuint (values->len, >, 0);
  return g_array_index (values, double, values->len - 1);
}

/* What preferences teach is learnt, and a reward model that was trained scores the answers of a PPO run. */
static void
test_learning (Engine *engine, gconstpointer data)
{
  static const Algorithm dpo = { "dpo", "--set schedule.steps=40 --set eval.every=40", NULL };
  static const Algorithm rm = { "rm", "--set schedule.steps=40 --set eval.every=40", NULL };
  static const Algorithm ppo
      = { "ppo",
          ONE_EACH " --set rollout.prompts_per_step=64 --set train.batch=64 --set reward.functions=model"
                   " --set model.reward=rm/export/step-000040 --set reward.normalize=yes"
                   " --set train.critic_learning_rate=1e-2 --set train.learning_rate=1e-2 --set schedule.steps=60"
                   " --set algorithm.kl.coefficient=0 --set checkpoint.every=0",
          NULL };
  write_pairs (engine);
  run_ok (engine, "pairs", &dpo, "dpo", "");
  g_assert_cmpfloat (last_of (engine, "dpo", "eval/pairs/accuracy"), >, 0.9);
  run_ok (engine, "pairs", &rm, "rm", "");
  g_assert_cmpfloat (last_of (engine, "rm", "eval/pairs/accuracy"), >, 0.9);
  g_assert_cmpint (engine_shell (engine, "grep -q ForSequenceClassification rm/export/step-000040/config.json"), ==, 0);
  /* The options of a function that is not used would be refused. */
  g_assert_cmpint (engine_shell (engine, "sed '/reward regex/,/pattern/d' $SPECS/grpo.spec > model.spec"), ==, 0);
  if (engine_call (engine, "run model.spec --set run.algorithm=ppo %s --run-dir ppo", ppo.settings) != 0)
    g_error ("%s%s", engine->out, engine->err);
  g_autoptr (GArray) rewards = engine_series (engine, "ppo", "reward/mean");
  g_assert_cmpfloat (last_of (engine, "ppo", "reward/mean"), >, g_array_index (rewards, double, 0) + 0.5);
}

/* Only groups with a spread are kept, and asking goes on until there are enough. */
static void
test_dynamic_sampling (Engine *engine, gconstpointer data)
{
  static const Algorithm a = { "grpo", "--set algorithm.dynamic_sampling=yes", NULL };
  run_ok (engine, "grpo", &a, "dynamic", "");
  g_autoptr (GArray) flat = engine_series (engine, "dynamic", "reward/flat_groups");
  g_autoptr (GArray) accepted = engine_series (engine, "dynamic", "data/accepted");
  g_assert_cmpuint (flat->len, ==, 4);
  for (guint i = 0; i < flat->len; i++)
    {
      g_assert_cmpfloat (g_array_index (flat, double, i), ==, 0);
      g_assert_cmpfloat (g_array_index (accepted, double, i), <=, 1);
    }
  /* Where no prompt is left that could teach anything, the run is at its goal, with a checkpoint; not before its first step. */
  g_assert_cmpint (engine_shell (engine, "sed 's/^pattern.*/pattern = [a-zA-Z]/' $SPECS/grpo.spec > easy.spec; "
                                         "sed 's/^pattern.*/pattern = ./' $SPECS/grpo.spec > all.spec"), ==, 0);
  const char *more = "--set algorithm.dynamic_sampling=yes --set rollout.prompts_per_step=2 --set train.batch=8 --set "
                     "train.learning_rate=3e-2 --set schedule.steps=3000 --set eval.every=off --set checkpoint.every=0 --set "
                     "algorithm.kl.coefficient=0";
  if (engine_call (engine, "run easy.spec %s --run-dir easy", more) != 0)
    g_error ("%s%s", engine->out, engine->err);
  g_assert_cmpint (engine_call (engine, "telemetry easy --since 0"), ==, 0);
  assert_has (engine->out, "\"mastered\"");
  g_assert_cmpint (engine_shell (engine, "ls easy/export/step-*/model.safetensors easy/checkpoints/step-*/position.json"), ==, 0);
  g_assert_cmpint (engine_call (engine, "run all.spec %s --run-dir all", more), ==, 5);
  assert_has (engine->err, "algorithm.dynamic_sampling.low");
}

/* An environment speaks between the answers: what it says is seen by the model and not trained on, and rollout and
 * trainer still agree to the last bit; its rewards are added over the turns, and the whole repeats. */
static void
test_environment (Engine *engine, gconstpointer data)
{
  static const Algorithm a
      = { "grpo", "--set model.max_length=64 --set 'rollout.environment=sh environment.sh' "
                  "--set rollout.environment.max_turns=3", "reward/mean" };
  engine_write (engine, "environment.sh",
                "while read -r line; do\n"
                "  echo \"$line\" >> seen.txt\n"
                "  case $line in\n"
                "    *'\"turn\":1,'*) echo '{\"observation\": \" go on \", \"reward\": 0.25}' ;;\n"
                "    *'\"turn\":2,'*) echo '{\"observation\": \" once more \", \"reward\": 0.5}' ;;\n"
                "    *) echo '{\"done\": true}' ;;\n"
                "  esac\n"
                "done\n");
  check (engine, "grpo", &a);
  g_autoptr (GArray) gap = engine_series (engine, "whole", "policy/logprob_gap_max");
  g_autoptr (GArray) rewards = engine_series (engine, "whole", "reward/mean");
  g_autoptr (GArray) lengths = engine_series (engine, "whole", "length/response_mean");
  for (guint i = 0; i < gap->len; i++)
    {
      g_assert_cmpfloat (g_array_index (gap, double, i), ==, 0);
      g_assert_cmpfloat (g_array_index (rewards, double, i), >=, 0.75); /* and what the pattern gives */
      g_assert_cmpfloat (g_array_index (lengths, double, i), >, 17); /* both observations are in it */
    }
  g_assert_cmpint (engine_shell (engine, "grep -q '\"turn\":3' seen.txt && ! grep -q '\"turn\":4' seen.txt"), ==, 0);
  /* One that speaks nonsense fails its samples, which leave the loss; the run goes on. */
  static const Algorithm bad = { "grpo", "--set model.max_length=64 --set reward.failure_limit=9 "
                                        "--set 'rollout.environment=yes no'", NULL };
  run_ok (engine, "grpo", &bad, "nonsense", "");
  g_autoptr (GArray) failed = engine_series (engine, "nonsense", "reward/failed");
  g_assert_cmpfloat (g_array_index (failed, double, 0), ==, 1);
}

#define DISTILL "run distill.spec --set run.algorithm=distill --set model.policy=teacher/start" \
                " --set model.reference=teacher/export/step-000012 --set rollout.prompts_per_step=64" \
                " --set rollout.samples=2 --set train.batch=64 --set schedule.steps=25" \
                " --set train.learning_rate=1e-2 --set eval.every=off --set checkpoint.every=0 "

/* A student comes nearer to its teacher, the model that another run made, by each estimator that leads there. */
static void
test_distill (Engine *engine, gconstpointer data)
{
  static const Algorithm teacher = { "grpo", "--set schedule.steps=12 --set train.learning_rate=1e-2", NULL };
  run_ok (engine, "grpo", &teacher, "teacher", "");
  g_assert_cmpint (engine_shell (engine, "sed '/^functions/d; /^new/d; /reward/,/pattern/d' $SPECS/grpo.spec > distill.spec"), ==, 0);
  static const char *const ways[] = { "", "--set algorithm.kl.where=loss --set algorithm.kl.estimator=k2",
                                      "--set algorithm.kl.where=loss --set algorithm.kl.estimator=k3",
                                      "--set algorithm.kl.where=loss --set algorithm.kl.unbiased=yes",
                                      "--set algorithm.kl.where=loss --set algorithm.kl.unbiased=yes "
                                      "--set algorithm.kl.estimator=k1" };
  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree char *student = g_strdup_printf ("student-%d", (int) i);
      if (engine_call (engine, DISTILL "--run-dir %s %s", student, ways[i]) != 0)
        g_error ("%s%s", engine->out, engine->err);
      g_autoptr (GArray) kl = engine_series (engine, student, "kl/reference");
      g_test_message ("%s: %g to %g", ways[i], g_array_index (kl, double, 0), last_of (engine, student, "kl/reference"));
      g_assert_cmpfloat (fabs (last_of (engine, student, "kl/reference")), <, 0.5 * fabs (g_array_index (kl, double, 0)));
    }
  /* Those whose gradient leads nowhere are refused. */
  g_assert_cmpint (engine_call (engine, DISTILL "--run-dir none --set algorithm.kl.where=loss --set algorithm.kl.estimator=k1"),
                   ==, 3);
  assert_has (engine->err, "algorithm.kl.estimator = k1");
  g_assert_cmpint (engine_call (engine, DISTILL "--run-dir none --set algorithm.kl.estimator=k3"), ==, 3);
  assert_has (engine->err, "algorithm.kl.estimator = k3");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/algorithms/online", test_online);
  ENGINE_TEST ("/algorithms/offline", test_offline);
  ENGINE_TEST ("/algorithms/learning", test_learning);
  ENGINE_TEST ("/algorithms/dynamic-sampling", test_dynamic_sampling);
  ENGINE_TEST ("/algorithms/environment", test_environment);
  ENGINE_TEST ("/algorithms/distill", test_distill);
  return g_test_run ();
}
