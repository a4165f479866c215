/* SPDX-License-Identifier: Apache-2.0 */
/* Same seed, same run: whatever else is in a batch, and however it is cut. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/same-seed/repeats", test_repeats);
  ENGINE_TEST ("/same-seed/fp32", test_fp32);
  ENGINE_TEST ("/same-seed/bf16", test_bf16);
  ENGINE_TEST ("/same-seed/micro-batches", test_micro_batches);
  ENGINE_TEST ("/same-seed/memory", test_memory);
  return g_test_run ();
}
