/* SPDX-License-Identifier: Apache-2.0 */
/* Same seed, same run: whatever else is in a batch, and however it is cut. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/run-dir.h"
#include "engine/core/telemetry-reader.h"
#include "tests/engine/harness.h"

static void
run_ok (Engine *engine, const char *arguments)
{
  if (engine_call (engine, "run %s", arguments) != 0)
    g_error ("run %s: %s%s", arguments, engine->out, engine->err);
}

/* Two runs write the same values, to the last bit. */
static void
test_repeats (Engine *engine, gconstpointer data)
{
  static const char *const specs[] = { "grpo", "warmup", "sft" };
  for (gsize i = 0; i < G_N_ELEMENTS (specs); i++)
    {
      g_autofree char *first = g_strdup_printf ("$SPECS/%s.spec --run-dir %s-a", specs[i], specs[i]);
      g_autofree char *second = g_strdup_printf ("$SPECS/%s.spec --run-dir %s-b", specs[i], specs[i]);
      g_autofree char *dir_a = g_strdup_printf ("%s-a", specs[i]), *dir_b = g_strdup_printf ("%s-b", specs[i]);
      run_ok (engine, first);
      run_ok (engine, second);
      g_autofree char *all = engine_metrics (engine, dir_a);
      g_assert_cmpuint (strlen (all), >, 500);
      assert_same_metrics (engine, dir_a, dir_b);
    }
  run_ok (engine, "$SPECS/grpo.spec --run-dir other --set run.seed=8");
  g_autofree char *a = engine_metrics (engine, "grpo-a"), *other = engine_metrics (engine, "other");
  g_assert_cmpstr (a, !=, other);
}

static void
assert_all_zero (Engine *engine, const char *run, const char *metric, guint at_least)
{
  g_autoptr (GArray) values = engine_series (engine, run, metric);
  g_assert_cmpuint (values->len, >=, at_least);
  for (guint i = 0; i < values->len; i++)
    g_assert_cmpfloat (g_array_index (values, double, i), ==, 0);
}

static const char *const shapes[] = {
  "",
  "--set rollout.max_running=1",
  "--set rollout.max_running=5 --set rollout.page_tokens=16",
  "--set train.tokens_per_micro_batch=4096 --set rollout.page_tokens=128",
};

/* Log-probs of rollout and trainer are the same bits, and what was generated does not depend on the batch. */
static void
check_shapes (Engine *engine, const char *precision)
{
  g_autofree char *first = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      g_autofree char *run = g_strdup_printf ("%s-%d", precision, (int) i);
      g_autofree char *arguments
          = g_strdup_printf ("$SPECS/grpo.spec --set model.precision=%s --run-dir %s %s", precision, run, shapes[i]);
      run_ok (engine, arguments);
      assert_all_zero (engine, run, "policy/logprob_gap_max", 4);
      assert_all_zero (engine, run, "policy/logprob_gap_mean", 4);
      g_autoptr (GArray) rewards = engine_series (engine, run, "reward/mean");
      g_autofree char *seen = g_strdup_printf ("%a", g_array_index (rewards, double, 0));
      if (!first)
        first = g_steal_pointer (&seen);
      else
        g_assert_cmpstr (seen, ==, first);
    }
}

static void
test_fp32 (Engine *engine, gconstpointer data)
{
  check_shapes (engine, "fp32");
}

static void
test_bf16 (Engine *engine, gconstpointer data)
{
  check_shapes (engine, "bf16");
}

/* How a batch is cut into micro-batches changes no gradient by more than rounding. */
static void
test_micro_batches (Engine *engine, gconstpointer data)
{
  static const char *const budgets[] = { "32", "64", "4096" };
  double norms[3], losses[3];
  for (gsize i = 0; i < G_N_ELEMENTS (budgets); i++)
    {
      g_autofree char *run = g_strdup_printf ("cut-%s", budgets[i]);
      g_autofree char *arguments
          = g_strdup_printf ("$SPECS/sft.spec --set train.tokens_per_micro_batch=%s --run-dir %s", budgets[i], run);
      run_ok (engine, arguments);
      g_autoptr (GArray) norm = engine_series (engine, run, "policy/grad_norm");
      g_autoptr (GArray) loss = engine_series (engine, run, "loss/sft");
      g_assert_cmpuint (norm->len, ==, 6);
      norms[i] = g_array_index (norm, double, 0);
      losses[i] = g_array_index (loss, double, 0);
      g_assert_cmpfloat (norms[i], >, 0);
      g_assert_cmpfloat (fabs (norms[i] - norms[0]), <=, 1e-6 * norms[0]);
      g_assert_cmpfloat (fabs (losses[i] - losses[0]), <=, 1e-6 * losses[0]);
    }
}

/* MB of a part in the plan that the last run printed; 0: it is not told. */
static double
planned (Engine *engine, const char *part)
{
  const char *memory = strstr (engine->out, "memory "), *at = memory ? strstr (memory, part) : NULL;
  return at ? g_ascii_strtod (at + strlen (part), NULL) : 0;
}

/* What saves memory changes no value of a run. */
static void
test_memory (Engine *engine, gconstpointer data)
{
  static const char *const savings[]
      = { "--set train.recompute=selective", "--set train.recompute=full --set train.offload=optimizer",
          "--set placement.together=yes", "--set placement.together=yes --set placement.workers=2" };
  static const char common[] = "$SPECS/warmup.spec --set model.precision=bf16 --set train.recompute=none";
  g_autofree char *plain = g_strdup_printf ("%s --run-dir plain", common);
  run_ok (engine, plain);
  double activations = planned (engine, "activations ");
  g_assert_cmpfloat (planned (engine, "less "), ==, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (savings); i++)
    {
      g_autofree char *run = g_strdup_printf ("saving-%d", (int) i);
      g_autofree char *arguments = g_strdup_printf ("%s %s --run-dir %s", common, savings[i], run);
      gboolean workers = strstr (savings[i], "workers") != NULL, together = strstr (savings[i], "together") != NULL;
      run_ok (engine, arguments);
      if (together)
        g_assert_cmpfloat (planned (engine, "less "), >, 0);
      else
        g_assert_cmpfloat (planned (engine, "activations "), <, activations);
      if (!workers) /* whose sums are in another order */
        assert_same_metrics (engine, "plain", run);
      g_autoptr (GArray) switched = engine_series (engine, run, "time/switch");
      g_assert_cmpuint (switched->len, ==, together ? 4 : 0);
    }
}

static void
run_old (Engine *engine, const char *settings, const char *old, const char *run)
{
  g_autofree char *arguments
      = g_strdup_printf ("$SPECS/grpo.spec %s --set algorithm.old_logprobs=%s --run-dir %s", settings, old, run);
  run_ok (engine, arguments);
}

static void
assert_measured (Engine *engine, const char *run, const char *metric, guint times)
{
  g_autoptr (GArray) values = engine_series (engine, run, metric);
  g_assert_cmpuint (values->len, ==, times);
}

/* The samples that the last step trained on. */
static GPtrArray *
read_samples (Engine *engine, const char *run)
{
  g_autofree char *path = g_build_filename (engine->folder, run, PLUMB_RUN_SAMPLES, NULL);
  g_autoptr (GError) error = NULL;
  GPtrArray *samples = plumb_samples_read (path, 4, 4, 100, TRUE, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < samples->len;)
    if (((PlumbSample *) g_ptr_array_index (samples, i))->eval)
      g_ptr_array_remove_index (samples, i);
    else
      i++;
  return samples;
}

static void
assert_same_kl (Engine *engine, const char *left, const char *right)
{
  g_autoptr (GPtrArray) a = read_samples (engine, left), b = read_samples (engine, right);
  gboolean any = FALSE;
  g_assert_cmpuint (a->len, ==, 24);
  g_assert_cmpuint (b->len, ==, 24);
  for (guint i = 0; i < a->len; i++)
    {
      GBytes *kl = ((PlumbSample *) g_ptr_array_index (a, i))->kl, *other = ((PlumbSample *) g_ptr_array_index (b, i))->kl;
      const float *values = g_bytes_get_data (kl, NULL);
      g_assert_true (g_bytes_equal (kl, other));
      any = any || values[0] != 0;
    }
  g_assert_true (any);
}

/* Where the only update of a step tells the log-probs before it, every value is what a pass of its own gives; where it cannot,
 * the pass is made. The samples hold the same, too. */
static void
test_old_log_probs (Engine *engine, gconstpointer data)
{
#define ONE_UPDATE "--set train.batch=24 --set algorithm.epochs=1 "
  static const struct
  {
    const char *settings;
    guint passes; /* steps with a pass before the update, of whatever model */
  } cases[] = {
    { ONE_UPDATE "--set algorithm.kl.coefficient=0", 0 },
    { ONE_UPDATE "--set algorithm.kl.coefficient=0 --set placement.workers=2 --set algorithm.correction=tis", 0 },
    { ONE_UPDATE "--set telemetry.token_detail=yes", 4 }, /* the reference's */
    { ONE_UPDATE "--set algorithm.kl.where=reward", 4 },
    { ONE_UPDATE "--set run.algorithm=ppo --set algorithm.critic_warmup_steps=2", 4 },
    { "--set algorithm.kl.coefficient=0", 4 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *pass = g_strdup_printf ("pass-%d", (int) i), *update = g_strdup_printf ("update-%d", (int) i);
      run_old (engine, cases[i].settings, "pass", pass);
      run_old (engine, cases[i].settings, "auto", update);
      assert_same_metrics (engine, pass, update);
      assert_measured (engine, pass, "time/logprob", 4);
      assert_measured (engine, update, "time/logprob", cases[i].passes);
      assert_measured (engine, update, "policy/logprob_gap_max", 4);
    }
  assert_same_kl (engine, "pass-2", "update-2");
#undef ONE_UPDATE
}

/* Answers whose reward failed are in no update; what is told of them is the same all the same. */
static void
test_left_out (Engine *engine, gconstpointer data)
{
  static const char *const settings = "--set train.batch=24 --set algorithm.epochs=1 --set telemetry.token_detail=yes";
  engine_write (engine, "judge.sh",
                "n=0; while read -r line; do n=$(((n+1) % 3)); case $n in 0) echo '{\"failed\": \"\"}';; *) echo $n;; esac; done\n");
  g_assert_cmpint (engine_shell (engine, "sed '/reward regex/,/pattern/d; s/functions = regex/functions = program/' "
                                         "$SPECS/grpo.spec > judged.spec && "
                                         "printf '[reward program]\\ncommand = /bin/sh judge.sh\\n' >> judged.spec"),
                   ==, 0);
  static const char *const old[] = { "pass", "auto" };
  for (gsize i = 0; i < G_N_ELEMENTS (old); i++)
    {
      g_autofree char *arguments = g_strdup_printf ("judged.spec %s --set algorithm.old_logprobs=%s --run-dir judged-%s",
                                                    settings, old[i], old[i]);
      run_ok (engine, arguments);
    }
  g_autoptr (GArray) failed = engine_series (engine, "judged-auto", "reward/failed");
  g_assert_cmpuint (failed->len, ==, 4);
  g_assert_cmpfloat (g_array_index (failed, double, 3), >, 0);
  assert_same_metrics (engine, "judged-pass", "judged-auto");
  assert_same_kl (engine, "judged-pass", "judged-auto");
}

/* On the CPU the sampler tells what the trainer finds, so to learn from its log-probs changes nothing, and the gap is not told. */
static void
test_sampler_log_probs (Engine *engine, gconstpointer data)
{
  run_old (engine, "", "pass", "of-trainer");
  run_old (engine, "", "sampler", "of-sampler");
  static const char *const same[] = { "reward/mean", "policy/grad_norm", "loss/policy", "kl/reference", "policy/ratio_max" };
  for (gsize i = 0; i < G_N_ELEMENTS (same); i++)
    {
      g_autoptr (GArray) a = engine_series (engine, "of-trainer", same[i]), b = engine_series (engine, "of-sampler", same[i]);
      g_assert_cmpmem (a->data, a->len * sizeof (double), b->data, b->len * sizeof (double));
      g_assert_cmpuint (a->len, ==, 4);
    }
  assert_measured (engine, "of-sampler", "policy/logprob_gap_max", 0);
  assert_measured (engine, "of-sampler", "policy/entropy", 4);
}

/* Each speed is told with the share of the limit that it reaches, and the time of a step by its parts. */
static void
test_shares (Engine *engine, gconstpointer data)
{
  static const char *const shares[]
      = { "throughput/rollout_of_limit", "throughput/train_of_limit", "throughput/total_of_limit" };
  run_ok (engine, "$SPECS/grpo.spec --run-dir online");
  run_ok (engine, "$SPECS/sft.spec --run-dir offline");
  for (gsize i = 0; i < G_N_ELEMENTS (shares); i++)
    {
      g_autoptr (GArray) online = engine_series (engine, "online", shares[i]);
      g_autoptr (GArray) offline = engine_series (engine, "offline", shares[i]);
      g_assert_cmpuint (online->len, ==, 4);
      g_assert_cmpuint (offline->len, ==, i == 0 ? 0 : 6);
      for (guint k = 0; k < online->len; k++)
        g_assert_cmpfloat (g_array_index (online, double, k), >, 0);
    }
  /* Such a step does nothing but train: the evaluation between them counts for none. */
  run_ok (engine, "$SPECS/sft.spec --set data.eval=builtin:arithmetic --set eval.every=2 --run-dir evaluated");
  g_autoptr (GArray) all = engine_series (engine, "evaluated", shares[2]), train = engine_series (engine, "evaluated", shares[1]);
  g_assert_cmpmem (all->data, all->len * sizeof (double), train->data, train->len * sizeof (double));
  run_ok (engine, "$SPECS/grpo.spec --set rollout.max_running=4 --run-dir crowded");
  g_autoptr (GArray) queued = engine_series (engine, "online", "rollout/queued");
  g_autoptr (GArray) crowded = engine_series (engine, "crowded", "rollout/queued");
  g_assert_cmpuint (queued->len, ==, 4);
  for (guint k = 0; k < 4; k++)
    {
      g_assert_cmpfloat (g_array_index (queued, double, k), <, 1); /* a pass until all prompts are in */
      g_assert_cmpfloat (g_array_index (crowded, double, k), >, 5);
    }
  g_autoptr (GArray) step = engine_series (engine, "online", "time/step");
  static const char *const parts[] = { "time/generate", "time/score", "time/logprob", "time/train" };
  g_autofree double *rest = g_memdup2 (step->data, step->len * sizeof (double));
  g_assert_cmpuint (step->len, ==, 4);
  for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_autoptr (GArray) part = engine_series (engine, "online", parts[i]);
      g_assert_cmpuint (part->len, ==, 4);
      for (guint k = 0; k < 4; k++)
        rest[k] -= g_array_index (part, double, k);
    }
  for (guint k = 0; k < 4; k++)
    g_assert_cmpfloat (rest[k], >=, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/same-seed/repeats", test_repeats);
  ENGINE_TEST ("/same-seed/fp32", test_fp32);
  ENGINE_TEST ("/same-seed/bf16", test_bf16);
  ENGINE_TEST ("/same-seed/micro-batches", test_micro_batches);
  ENGINE_TEST ("/same-seed/memory", test_memory);
  ENGINE_TEST ("/same-seed/old-log-probs", test_old_log_probs);
  ENGINE_TEST ("/same-seed/left-out", test_left_out);
  ENGINE_TEST ("/same-seed/sampler-log-probs", test_sampler_log_probs);
  ENGINE_TEST ("/same-seed/shares", test_shares);
  return g_test_run ();
}
