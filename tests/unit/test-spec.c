/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/core/metrics.h"
#include "engine/core/presets.h"
#include "engine/core/spec.h"

static PlumbSpec *
load (const char *text, GPtrArray *problems)
{
  PlumbSpec *spec = plumb_spec_new ();

  plumb_spec_load_data (spec, text, strlen (text), "a.spec", "/base", problems);
  return spec;
}

static const PlumbProblem *
find_problem (GPtrArray *problems, const char *key)
{
  for (guint i = 0; i < problems->len; i++)
    {
      const PlumbProblem *problem = g_ptr_array_index (problems, i);

      if (g_strcmp0 (problem->key, key) == 0)
        return problem;
    }
  return NULL;
}

/* Every row of the table must agree with itself: its default passes its own check. */
static void
test_table (void)
{
  gsize n, n_groups;
  const PlumbField *fields = plumb_fields (&n);
  const PlumbFieldGroup *groups = plumb_field_groups (&n_groups);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (gsize i = 0; i < n; i++)
    {
      gboolean in_group = FALSE;

      g_assert_true (g_hash_table_add (seen, (gpointer)fields[i].key));
      g_assert_true (plumb_field_find (fields[i].key) == &fields[i]);
      for (gsize g = 0; g < n_groups; g++)
        in_group |= strncmp (fields[i].key, groups[g].name, strlen (groups[g].name)) == 0
                    && fields[i].key[strlen (groups[g].name)] == '.';
      g_assert_true (in_group);
      g_assert_true (g_str_has_suffix (fields[i].help, "."));
      g_assert_cmpuint (fields[i].algorithms, !=, 0);
      for (int a = 0; a < PLUMB_N_ALGORITHMS; a++)
        {
          const char *standard = plumb_field_default (&fields[i], a);
          g_autofree char *message = NULL, *remedy = NULL;

          if (standard != NULL
              && !plumb_field_check (&fields[i], standard, NULL, &message, &remedy))
            g_error ("%s = %s: %s", fields[i].key, standard, message);
        }
    }
}

static void
test_values (void)
{
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec
      = load ("# a comment\n"
              "[run]\n"
              "seed = 7\n"
              "[data]\r\n"
              "train = one.jsonl, /abs/two.jsonl:0.5 , builtin:arithmetic\r\n"
              "shuffle = off\n"
              "prompt_template = Q: {prompt}\\nA:\\s\n"
              "[train]\n"
              "betas=0.8,0.99\n"
              "max_grad_norm = off\n"
              "[telemetry]\n"
              "max_size = 5 MiB\n"
              "[rollout]\n"
              "stop = \\n\\n, a\\,b\n"
              "[reward length]\n"
              "target = 20\n",
              problems);
  g_auto (GStrv) train = plumb_spec_get_list (spec, "data.train");
  g_auto (GStrv) stop = plumb_spec_get_list (spec, "rollout.stop");
  g_auto (GStrv) options = plumb_spec_list_reward_options (spec, "length");
  g_autoptr (GArray) betas = plumb_spec_get_reals (spec, "train.betas");
  g_autofree char *bare = NULL;
  double weight;
  guint line;

  g_assert_cmpuint (problems->len, ==, 0);
  g_assert_cmpint (plumb_spec_get_integer (spec, "run.seed"), ==, 7);
  g_assert_cmpuint (g_strv_length (train), ==, 3);
  g_assert_cmpstr (train[0], ==, "/base/one.jsonl");
  g_assert_cmpstr (train[2], ==, "builtin:arithmetic");
  bare = plumb_spec_split_weight (train[1], &weight);
  g_assert_cmpstr (bare, ==, "/abs/two.jsonl");
  g_assert_cmpfloat (weight, ==, 0.5);
  g_assert_false (plumb_spec_get_boolean (spec, "data.shuffle"));
  g_assert_cmpstr (plumb_spec_get_text (spec, "data.prompt_template"), ==, "Q: {prompt}\nA: ");
  g_assert_cmpfloat (g_array_index (betas, double, 1), ==, 0.99);
  g_assert_cmpfloat (plumb_spec_get_real (spec, "train.max_grad_norm"), ==, 0);
  g_assert_cmpint (plumb_spec_get_integer (spec, "telemetry.max_size"), ==, 5 << 20);
  g_assert_cmpuint (g_strv_length (stop), ==, 2);
  g_assert_cmpstr (stop[0], ==, "\n\n");
  g_assert_cmpstr (stop[1], ==, "a,b");
  g_assert_cmpstr (options[0], ==, "target");
  g_assert_cmpstr (plumb_spec_get_reward_option (spec, "length", "target"), ==, "20");
  g_assert_cmpstr (plumb_spec_place (spec, "train.betas", &line), ==, "a.spec");
  g_assert_cmpuint (line, ==, 9);
  /* Defaults, automatic values and what they become stay apart. */
  g_assert_cmpint (plumb_spec_get_integer (spec, "rollout.samples"), ==, 8);
  g_assert_true (plumb_spec_is_auto (spec, "rollout.max_running"));
  g_assert_true (plumb_spec_resolve (spec, "rollout.max_running", "64", NULL));
  g_assert_cmpint (plumb_spec_get_integer (spec, "rollout.max_running"), ==, 64);
  g_assert_false (plumb_spec_is_set (spec, "rollout.max_running"));
}

static void
test_defaults_by_algorithm (void)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();

  g_assert_cmpfloat (plumb_spec_get_real (spec, "train.learning_rate"), ==, 1e-6);
  g_assert_true (plumb_spec_set (spec, "run.algorithm", "sft", NULL));
  g_assert_cmpfloat (plumb_spec_get_real (spec, "train.learning_rate"), ==, 5e-6);
}

static void
test_all_faults_at_once (void)
{
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = load ("seed = 1\n"             /* 1: no group */
                                     "[run]\n"                /* 2 */
                                     "sede = 1\n"             /* 3: misspelt */
                                     "seed = 1\n"             /* 4 */
                                     "seed = 2\n"             /* 5: twice */
                                     "algorithm = grop\n"     /* 6: no such choice */
                                     "[rolout]\n"             /* 7: unknown group */
                                     "samples = 4\n"          /* 8: not reported again */
                                     "[train]\n"              /* 9 */
                                     "learning_rate = nan\n"  /* 10 */
                                     "epsilon = inf\n"        /* 11 */
                                     "weight_decay = 0x1p3\n" /* 12 */
                                     "batch = 12.5\n"         /* 13 */
                                     "warmup = 1e999\n"       /* 14 */
                                     "rubbish\n"              /* 15 */
                                     "betas = 0.9\n"          /* 16 */
                                     "[eval]\n"               /* 17 */
                                     "samples = 0\n"          /* 18: out of range */
                                     "[train\n",              /* 19 */
                                     problems);
  const struct
  {
    guint line;
    const char *key, *remedy;
  } expected[] = {
    { 1, NULL, "[run]" },
    { 3, "run.sede", "run.seed" },
    { 5, "run.seed", "remove" },
    { 6, "run.algorithm", "did you mean grpo" },
    { 7, NULL, "[rollout]" },
    { 10, "train.learning_rate", NULL },
    { 11, "train.epsilon", NULL },
    { 12, "train.weight_decay", NULL },
    { 13, "train.batch", "digits" },
    { 14, "train.warmup", NULL },
    { 15, NULL, "key=value" },
    { 16, "train.betas", "two numbers" },
    { 18, "eval.samples", "at least 1" },
    { 19, NULL, NULL },
  };

  g_assert_cmpuint (problems->len, ==, G_N_ELEMENTS (expected));
  for (gsize i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      const PlumbProblem *problem = g_ptr_array_index (problems, i);

      g_assert_cmpuint (problem->line, ==, expected[i].line);
      g_assert_cmpstr (problem->key, ==, expected[i].key);
      g_assert_cmpstr (problem->file, ==, "a.spec");
      g_assert_nonnull (problem->remedy);
      if (expected[i].remedy != NULL)
        g_assert_nonnull (strstr (problem->remedy, expected[i].remedy));
    }
  /* What is sound is kept. */
  g_assert_cmpint (plumb_spec_get_integer (spec, "run.seed"), ==, 1);
}

static void
test_garbage (void)
{
  static const char garbage[] = "[run]\nname = a\0b\nseed=5\n\xff\xfe\n[";
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autofree char *huge = g_strnfill (2 << 20, 'x');

  plumb_spec_load_data (spec, garbage, sizeof garbage - 1, "g", NULL, problems);
  g_assert_cmpuint (problems->len, ==, 3);
  g_assert_cmpint (plumb_spec_get_integer (spec, "run.seed"), ==, 5);
  g_ptr_array_set_size (problems, 0);
  plumb_spec_load_data (spec, huge, 2 << 20, "h", NULL, problems);
  g_assert_cmpuint (problems->len, ==, 1);
}

static void
test_overrides (void)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (plumb_spec_apply_override (spec, "rollout.samples=16", &error));
  g_assert_cmpint (plumb_spec_get_integer (spec, "rollout.samples"), ==, 16);
  g_assert_true (plumb_spec_apply_override (spec, "reward.program.command=./a b", &error));
  g_assert_cmpstr (plumb_spec_get_reward_option (spec, "program", "command"), ==, "./a b");
  g_assert_false (plumb_spec_apply_override (spec, "rollout.samples", &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE);
  g_clear_error (&error);
  g_assert_false (plumb_spec_apply_override (spec, "rollout.sample=16", &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_assert_nonnull (strstr (error->message, "did you mean rollout.samples"));
  g_clear_error (&error);
  /* The right name in the wrong group. */
  g_assert_false (plumb_spec_apply_override (spec, "train.temperature=1", &error));
  g_assert_nonnull (strstr (error->message, "rollout.temperature"));
}

/* Narrowed distributions are for evaluations, and for algorithms that train on chosen completions. */
static void
test_filters (void)
{
  static const char text[] = "[run]\nalgorithm = %s\n[model]\npolicy = m\n[data]\ntrain = a.jsonl\n"
                             "[rollout]\ntop_k = 20\ntop_p = 0.9\nmin_p = 0.1\nrepetition_penalty = 1.2\n"
                             "[eval]\ntop_p = 0.9\n[reward]\nfunctions = number\n";
  static const char *const keys[]
      = { "rollout.top_k", "rollout.top_p", "rollout.min_p", "rollout.repetition_penalty" };
  static const char *const algorithms[] = { "grpo", "rejection_sampling" };
  for (gsize a = 0; a < G_N_ELEMENTS (algorithms); a++)
    {
      g_autoptr (GPtrArray) problems = plumb_problems_new ();
      g_auto (GStrv) halves = g_strsplit (text, "%s", 2);
      g_autofree char *whole = g_strconcat (halves[0], algorithms[a], halves[1], NULL);
      g_autoptr (PlumbSpec) spec = load (whole, problems);
      plumb_spec_validate (spec, problems);
      for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
        g_assert_true ((find_problem (problems, keys[i]) != NULL) == (a == 0));
      g_assert_null (find_problem (problems, "eval.top_p"));
    }
}

static void
test_round_trip (void)
{
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = load ("[run]\nname = two words\nnotes = a\\nb\\\\n\\s\n"
                                     "[model]\npolicy = m\n[data]\ntrain=a\\,b.jsonl\n"
                                     "[reward]\nfunctions=exact:2\n[reward exact]\nx = \\sy\n",
                                     problems);
  g_autoptr (PlumbSpec) again = NULL, copy = plumb_spec_copy (spec), resolved = NULL;
  g_autofree char *text = plumb_spec_to_text (spec), *second = NULL, *full = NULL;
  g_autoptr (GPtrArray) changes = NULL, more = NULL;

  again = load (text, problems);
  second = plumb_spec_to_text (again);
  g_assert_cmpuint (problems->len, ==, 0);
  g_assert_cmpstr (text, ==, second);
  g_assert_cmpstr (plumb_spec_get_text (again, "run.notes"), ==, "a\nb\\n ");
  g_assert_cmpstr (plumb_spec_get_reward_option (again, "exact", "x"), ==, " y");
  changes = plumb_spec_diff (spec, copy);
  g_assert_cmpuint (changes->len, ==, 0);
  g_assert_true (plumb_spec_set (copy, "run.seed", "8", NULL));
  plumb_spec_unset (copy, "reward.exact.x");
  more = plumb_spec_diff (spec, copy);
  g_assert_cmpuint (more->len, ==, 2);
  g_assert_cmpstr (((PlumbSpecChange *)g_ptr_array_index (more, 0))->before, ==, "42");
  g_assert_cmpstr (((PlumbSpecChange *)g_ptr_array_index (more, 0))->after, ==, "8");
  g_assert_null (((PlumbSpecChange *)g_ptr_array_index (more, 1))->after);

  plumb_spec_resolve_settings (spec);
  full = plumb_spec_to_resolved_text (spec);
  g_assert_nonnull (strstr (full, "# auto:\nkl.estimator = k3\n"));
  resolved = load (full, problems);
  g_assert_cmpuint (problems->len, ==, 0);
  g_assert_null (strstr (text, "kl.estimator"));
}

static void
test_cross_checks (void)
{
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = load ("[model]\nnew.width=100\nnew.heads=3\n"
                                     "[data]\nprompt_template = none\n"
                                     "[rollout]\nprompts_per_step=2\nsamples=1\n"
                                     "[train]\nbatch = 3\n"
                                     "[warmup]\nsteps=5\n"
                                     "[eval]\nevery=5\n"
                                     "[reward exact]\nx=1\n"
                                     "[reward]\nclip=5,-5\n",
                                     problems);
  static const char *const keys[]
      = { "model.new.layers", "model.new.heads", "data.train",      "data.prompt_template",
          "rollout.samples",  "train.batch",     "warmup.data",     "data.eval",
          "reward.exact.x",   "reward.clip",     "reward.functions" };

  g_assert_cmpuint (problems->len, ==, 0);
  plumb_spec_validate (spec, problems);
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    if (find_problem (problems, keys[i]) == NULL)
      g_error ("no problem was reported for %s", keys[i]);
  g_assert_cmpuint (problems->len, ==, G_N_ELEMENTS (keys));
  g_assert_cmpuint (find_problem (problems, "train.batch")->line, ==, 10);
}

static void
test_presets (void)
{
  g_autoptr (GPtrArray) presets = plumb_presets_list ();
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (presets->len, >=, 3);
  for (guint i = 0; i < presets->len; i++)
    {
      const PlumbPreset *preset = g_ptr_array_index (presets, i);
      g_autoptr (PlumbSpec) spec = plumb_preset_load (preset->name, &error);
      g_autoptr (GPtrArray) problems = plumb_problems_new ();
      g_autoptr (PlumbSpec) again = NULL;
      g_autoptr (GPtrArray) changes = NULL;
      g_autofree char *text = NULL;

      g_assert_no_error (error);
      g_assert_cmpuint (strlen (preset->title), >, 5);
      text = plumb_spec_to_commented_text (spec);
      again = load (text, problems);
      g_assert_cmpuint (problems->len, ==, 0);
      changes = plumb_spec_diff (spec, again);
      g_assert_cmpuint (changes->len, ==, 0);
      if (g_str_equal (preset->name, "arithmetic"))
        {
          plumb_spec_validate (spec, problems);
          g_assert_cmpuint (problems->len, ==, 0);
        }
    }
  g_assert_null (plumb_preset_load ("none", &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE);
}

static void
test_metrics (void)
{
  gsize n;

  g_assert_cmpstr (plumb_metric_find ("reward/part/number")->name, ==, "reward/part/*");
  g_assert_cmpstr (plumb_metric_find ("hw/host/cpu/power")->unit, ==, "W");
  g_assert_null (plumb_metric_find ("reward/part/"));
  g_assert_null (plumb_metric_find ("reward/part/a/b"));
  g_assert_null (plumb_metric_find ("reward/mea"));
  g_assert_false (plumb_metric_is_deterministic ("time/step"));
  g_assert_true (plumb_metric_is_deterministic ("reward/mean"));
  for (int a = 0; a < PLUMB_N_ALGORITHMS; a++)
    {
      const PlumbChart *charts = plumb_charts (a, &n);

      for (gsize i = 0; i < n; i++)
        {
          g_assert_nonnull (charts[i].metrics[0]);
          for (gsize j = 0; charts[i].metrics[j] != NULL; j++)
            g_assert_nonnull (plumb_metric_find (charts[i].metrics[j]));
          if (charts[i].needs_key != NULL)
            g_assert_nonnull (plumb_field_find (charts[i].needs_key));
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/spec/table", test_table);
  g_test_add_func ("/spec/values", test_values);
  g_test_add_func ("/spec/defaults-by-algorithm", test_defaults_by_algorithm);
  g_test_add_func ("/spec/all-faults-at-once", test_all_faults_at_once);
  g_test_add_func ("/spec/garbage", test_garbage);
  g_test_add_func ("/spec/overrides", test_overrides);
  g_test_add_func ("/spec/filters", test_filters);
  g_test_add_func ("/spec/round-trip", test_round_trip);
  g_test_add_func ("/spec/cross-checks", test_cross_checks);
  g_test_add_func ("/spec/presets", test_presets);
  g_test_add_func ("/metrics", test_metrics);
  return g_test_run ();
}
