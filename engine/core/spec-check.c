/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between the settings of a spec. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/metrics.h"
#include "engine/core/stop-rules.h"
#include "engine/core/spec-private.h"

static void G_GNUC_PRINTF (5, 6) report (PlumbSpec *spec,
                                         GPtrArray *problems,
                                         const char *key,
                                         const char *remedy,
                                         const char *format,
                                         ...)
{
  g_autofree char *message = NULL;
  guint line = 0;
  const char *file = plumb_spec_place (spec, key, &line);
  const char *value
      = plumb_field_find (key) != NULL && !(plumb_field_find (key)->type == PLUMB_FIELD_TEXT)
            ? plumb_spec_get_text (spec, key)
            : NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_ptr_array_add (problems, plumb_problem_new (key, value, file, line, message, remedy));
}

/* Neither set nor rejected, and without a default. */
static gboolean
is_missing (PlumbSpec *spec, const char *key)
{
  return !plumb_spec_has_value (spec, key) && !g_hash_table_contains (spec->entries, key);
}

static void
check_model (PlumbSpec *spec, GPtrArray *problems)
{
  static const char *const needed[] = { "model.new.layers", "model.new.heads" };
  gint64 width = plumb_spec_get_integer (spec, "model.new.width");
  gint64 heads = plumb_spec_get_integer (spec, "model.new.heads");
  gint64 kv_heads = plumb_spec_get_integer (spec, "model.new.kv_heads");

  if (is_missing (spec, "model.policy") && is_missing (spec, "model.new.width"))
    report (spec, problems, "model.policy",
            "name the folder of a Hugging Face model, or set model.new.width to make a new one",
            "there is no model");
  if (plumb_spec_is_set (spec, "model.policy") && plumb_spec_is_set (spec, "model.new.width"))
    report (spec, problems, "model.new.width", "remove model.policy or the model.new settings",
            "a model is both loaded and made from nothing");
  if (!plumb_spec_is_set (spec, "model.new.width"))
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (needed); i++)
    if (is_missing (spec, needed[i]))
      report (spec, problems, needed[i], "set it beside model.new.width", "a new model needs it");
  if (heads > 0 && width % heads != 0)
    report (spec, problems, "model.new.heads", "choose heads that divide the width",
            "a width of %" G_GINT64_FORMAT " cannot be split into %" G_GINT64_FORMAT " heads",
            width, heads);
  else if (heads > 0 && (width / heads) % 2 != 0)
    report (spec, problems, "model.new.heads", "choose heads that leave an even size each",
            "the size of a head would be odd (%" G_GINT64_FORMAT ")", width / heads);
  if (heads > 0 && kv_heads > 0 && heads % kv_heads != 0)
    report (spec, problems, "model.new.kv_heads", "choose a number that divides the heads",
            "%" G_GINT64_FORMAT " heads cannot share %" G_GINT64_FORMAT " key heads", heads,
            kv_heads);
}

static void
check_data (PlumbSpec *spec, GPtrArray *problems)
{
  const char *template = plumb_spec_get_text (spec, "data.prompt_template");

  g_auto (GStrv) train = plumb_spec_get_list (spec, "data.train");

  if (is_missing (spec, "data.train") || (plumb_spec_is_set (spec, "data.train") && train[0] == NULL))
    report (spec, problems, "data.train", "name a JSONL or text file, or builtin:arithmetic",
            "there is no training data");
  if (template != NULL && strstr (template, "{prompt}") == NULL)
    report (spec, problems, "data.prompt_template", "write {prompt} where the prompt goes",
            "the template has no {prompt}");
  if (plumb_spec_get_integer (spec, "data.max_prompt_length")
      >= plumb_spec_get_integer (spec, "model.max_length"))
    report (spec, problems, "data.max_prompt_length", "lower it, or raise model.max_length",
            "no room is left for a response within model.max_length = %s",
            plumb_spec_get_text (spec, "model.max_length"));
}

static void
check_schedule (PlumbSpec *spec, GPtrArray *problems)
{
  double evaluate = plumb_spec_get_real (spec, "eval.every");

  if (evaluate > 0 && is_missing (spec, "data.eval"))
    report (spec, problems, "data.eval", "name held-out data, or set eval.every = off",
            "eval.every is set, but there is nothing to evaluate on");
}

static void
check_ending (PlumbSpec *spec, GPtrArray *problems)
{
  g_auto (GStrv) rules = plumb_spec_get_list (spec, "schedule.stop_if");
  const char *at = plumb_spec_get_text (spec, "schedule.stop_at");
  const char *best = plumb_spec_get_text (spec, "checkpoint.best_metric");
  g_autoptr (GError) error = NULL;
  gint64 when;

  for (gsize i = 0; rules[i] != NULL; i++)
    {
      PlumbStopRule *rule = plumb_stop_rule_parse (rules[i], &error);

      g_clear_pointer (&rule, plumb_stop_rule_free);
      if (error != NULL)
        report (spec, problems, "schedule.stop_if", "write: metric > number for steps", "%s",
                error->message);
      g_clear_error (&error);
    }
  if (at != NULL && *at != '\0' && !g_str_equal (at, "off")
      && !plumb_stop_time_parse (at, g_get_real_time () / G_USEC_PER_SEC, &when, &error))
    report (spec, problems, "schedule.stop_at", "write a time of day, or a date with one", "%s",
            error->message);
  if (best != NULL && !plumb_spec_is_auto (spec, "checkpoint.best_metric") && plumb_metric_find (best) == NULL)
    report (spec, problems, "checkpoint.best_metric", "name a metric, like eval/test/pass1",
            "there is no metric %s", best);
}

static gboolean
has_function (PlumbSpec *spec, const char *name)
{
  g_auto (GStrv) functions = plumb_spec_get_list (spec, "reward.functions");

  for (gsize i = 0; functions[i] != NULL; i++)
    {
      double weight;
      g_autofree char *bare = plumb_spec_split_weight (functions[i], &weight);

      if (g_str_equal (bare, name))
        return TRUE;
    }
  return FALSE;
}

static void
check_reward (PlumbSpec *spec, GPtrArray *problems)
{
  g_autoptr (GArray) clip = plumb_spec_get_reals (spec, "reward.clip");
  g_auto (GStrv) functions = plumb_spec_get_list (spec, "reward.functions");
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GHashTable) told = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  if (functions[0] == NULL && !g_hash_table_contains (spec->entries, "reward.functions")
      && !plumb_spec_is_set (spec, "rollout.environment"))
    report (spec, problems, "reward.functions", "choose at least one, like number or exact",
            "nothing scores the completions");
  for (gsize i = 0; functions[i] != NULL; i++)
    {
      double weight;
      char *bare = plumb_spec_split_weight (functions[i], &weight);

      if (!g_hash_table_add (seen, bare))
        report (spec, problems, "reward.functions", "name it once, with the sum of the weights",
                "%s is named twice", functions[i]);
    }
  if (clip->len == 2 && g_array_index (clip, double, 0) >= g_array_index (clip, double, 1))
    report (spec, problems, "reward.clip", "write the lower number first",
            "the lowest reward is not below the highest");
  for (guint i = 0; i < spec->options->len; i++)
    {
      const char *key = g_ptr_array_index (spec->options, i);
      g_autofree char *name = NULL, *option = NULL;

      if (!plumb_spec_split_option (key, &name, &option) || has_function (spec, name)
          || !g_hash_table_add (told, g_strdup (name)))
        continue;
      report (spec, problems, key, "add it to reward.functions, or remove the group",
              "[reward %s] has options, but %s is no reward function of this run", name, name);
    }
}

static void
check_rollout (PlumbSpec *spec, GPtrArray *problems)
{
  gint64 samples = plumb_spec_get_integer (spec, "rollout.samples");
  gint64 prompts = plumb_spec_get_integer (spec, "rollout.prompts_per_step");
  gint64 longest = plumb_spec_get_integer (spec, "rollout.max_new_tokens");
  gint64 batch = plumb_spec_get_integer (spec, "train.batch");

  PlumbAlgorithm algorithm = plumb_spec_algorithm (spec);
  int comparing = PLUMB_ON_GROUPS | PLUMB_ON_REJECTION | PLUMB_ON_ITERATIVE;

  if (samples < 2 && PLUMB_IS_ON (algorithm, comparing))
    report (spec, problems, "rollout.samples", "use 2 or more; 8 is usual",
            "%s compares the completions of a prompt with each other, and one has no other",
            plumb_algorithm_name (algorithm));
  if (PLUMB_IS_ON (algorithm, PLUMB_ON_REJECTION))
    batch = MIN (batch, prompts); /* it trains on one completion of each prompt */
  if (batch > prompts * samples)
    report (spec, problems, "train.batch",
            "lower it, or raise rollout.prompts_per_step or rollout.samples",
            "a step generates only %" G_GINT64_FORMAT " sequences", prompts * samples);
  if (plumb_spec_get_integer (spec, "rollout.min_new_tokens") > longest)
    report (spec, problems, "rollout.min_new_tokens", "lower it to rollout.max_new_tokens",
            "the shortest response is longer than the longest (%" G_GINT64_FORMAT ")", longest);
  if (longest >= plumb_spec_get_integer (spec, "model.max_length"))
    report (spec, problems, "rollout.max_new_tokens", "lower it, or raise model.max_length",
            "no room is left for a prompt within model.max_length = %s",
            plumb_spec_get_text (spec, "model.max_length"));
}

/* The trainer computes log-probs of the whole distribution: those of a narrowed one would differ from them, and the ratio of
 * the two would be wrong. Algorithms that train on chosen completions have no such ratio. */
static void
check_filters (PlumbSpec *spec, GPtrArray *problems)
{
  static const struct
  {
    const char *key, *off;
  } filters[] = { { "rollout.top_k", "0" },
                  { "rollout.top_p", "1" },
                  { "rollout.min_p", "0" },
                  { "rollout.repetition_penalty", "1" } };
  if (PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_REJECTION | PLUMB_ON_ITERATIVE))
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (filters); i++)
    if (plumb_spec_get_real (spec, filters[i].key) != g_ascii_strtod (filters[i].off, NULL))
      report (spec, problems, filters[i].key, "remove it, or use rollout.temperature; evaluations have eval.* of their own",
              "%s learns from the probabilities of what was drawn, and the trainer computes them for the whole "
              "distribution, not for a narrowed one",
              plumb_algorithm_name (plumb_spec_algorithm (spec)));
}

static void
check_sampling (PlumbSpec *spec, GPtrArray *problems)
{
  if (plumb_spec_get_boolean (spec, "algorithm.dynamic_sampling")
      && plumb_spec_get_real (spec, "algorithm.dynamic_sampling.low")
             >= plumb_spec_get_real (spec, "algorithm.dynamic_sampling.high"))
    report (spec, problems, "algorithm.dynamic_sampling.low", "lower it below algorithm.dynamic_sampling.high",
            "no mean reward lies between %s and %s, so that no prompt would be kept",
            plumb_spec_get_text (spec, "algorithm.dynamic_sampling.low"),
            plumb_spec_get_text (spec, "algorithm.dynamic_sampling.high"));
}

static void
check_ahead (PlumbSpec *spec, GPtrArray *problems)
{
  gboolean ahead = plumb_spec_get_boolean (spec, "rollout.async");

  if (plumb_spec_get_boolean (spec, "rollout.partial") && !ahead)
    report (spec, problems, "rollout.partial", "set rollout.async = yes, or remove it",
            "weights change within a completion only where generation runs ahead");
}

/* What is sampled teaches through the divergence alone, so its estimator must have the gradient of one (Tang and Munos 2025):
 * k1 does as a reward, since the sampling answers for it, and has a gradient of mean zero as a loss, unless it is unbiased; k2 and k3 have theirs
 * as a loss (k2 and unbiased k3 of the divergence from the teacher, k3 of that of the teacher), and lack a part of it as a
 * reward. */
static void
check_distillation (PlumbSpec *spec, GPtrArray *problems)
{
  const char *estimator = plumb_spec_get_text (spec, "algorithm.kl.estimator");
  gboolean automatic = plumb_spec_is_auto (spec, "algorithm.kl.estimator") || estimator == NULL;
  gboolean loss = g_strcmp0 (plumb_spec_get_text (spec, "algorithm.kl.where"), "loss") == 0;

  if (plumb_spec_is_auto (spec, "model.reference") || is_missing (spec, "model.reference"))
    report (spec, problems, "model.reference", "name the folder of the teacher",
            "there is no teacher to distil from");
  if (plumb_spec_get_real (spec, "algorithm.kl.coefficient") <= 0)
    report (spec, problems, "algorithm.kl.coefficient", "set it to 1",
            "the teacher would have no weight, and nothing be learnt");
  if (automatic)
    return;
  if (loss && g_str_equal (estimator, "k1") && !plumb_spec_get_boolean (spec, "algorithm.kl.unbiased"))
    report (spec, problems, "algorithm.kl.estimator", "use k2 or k3, algorithm.kl.unbiased = yes or algorithm.kl.where = reward",
            "as a loss its gradient is zero on average, and nothing would be learnt from the teacher");
  else if (!loss && !g_str_equal (estimator, "k1"))
    report (spec, problems, "algorithm.kl.estimator", "use k1, or algorithm.kl.where = loss",
            "as a reward only k1 leads towards the teacher; %s lacks a part of its gradient there", estimator);
}

static void
check_models (PlumbSpec *spec, GPtrArray *problems)
{
  gboolean scored = has_function (spec, "model");
  double dual = plumb_spec_get_real (spec, "algorithm.dual_clip");

  if (scored && is_missing (spec, "model.reward"))
    report (spec, problems, "model.reward", "name the folder of a sequence-classification model",
            "the reward function `model` has no model");
  if (!scored && plumb_spec_is_set (spec, "model.reward"))
    report (spec, problems, "model.reward", "add model to reward.functions, or remove it",
            "the reward model scores nothing");
  if (dual > 0 && dual <= 1)
    report (spec, problems, "algorithm.dual_clip", "use more than 1, 3 is usual, or off",
            "the bound of bad answers is %s times their advantage",
            plumb_spec_get_text (spec, "algorithm.dual_clip"));
  if (PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_DISTILL))
    check_distillation (spec, problems);
}

static void
check_preferences (PlumbSpec *spec, GPtrArray *problems)
{
  PlumbAlgorithm algorithm = plumb_spec_algorithm (spec);
  const char *loss = plumb_spec_get_text (spec, "algorithm.dpo.loss");

  if (PLUMB_IS_ON (algorithm, PLUMB_ON_DPO) && g_strcmp0 (loss, "robust") == 0
      && plumb_spec_get_real (spec, "algorithm.dpo.label_smoothing") >= 0.5)
    report (spec, problems, "algorithm.dpo.label_smoothing", "use less than 0.5",
            "with half of the labels wrong, nothing can be learnt from them");
  if (PLUMB_IS_ON (algorithm, PLUMB_ON_KTO) && plumb_spec_get_integer (spec, "train.batch") < 2)
    report (spec, problems, "train.batch", "use 2 or more; 32 is usual",
            "KTO measures answers against those of other rows of the batch");
}

static void
check_warmup (PlumbSpec *spec, GPtrArray *problems)
{
  gint64 steps = plumb_spec_get_integer (spec, "warmup.steps");
  double accuracy = plumb_spec_get_real (spec, "warmup.stop_at_pass1");

  if (!plumb_spec_is_set (spec, "warmup.data"))
    {
      if (steps > 0 || accuracy > 0)
        report (spec, problems, "warmup.data", "name its data, or remove the [warmup] group",
                "there is a warm-up without data");
      return;
    }
  if (steps == 0)
    report (spec, problems, "warmup.steps", "say how many steps it may take at most",
            "the warm-up has no end");
  if (accuracy > 0 && is_missing (spec, "data.eval"))
    report (spec, problems, "warmup.stop_at_pass1", "set data.eval, or remove it",
            "the accuracy is measured on data.eval, which is not set");
}

void
plumb_spec_validate (PlumbSpec *spec, GPtrArray *problems)
{
  check_warmup (spec, problems);
  check_model (spec, problems);
  check_data (spec, problems);
  if (PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_ONLINE))
    {
      check_rollout (spec, problems);
      check_sampling (spec, problems);
      check_ahead (spec, problems);
      check_filters (spec, problems);
      check_models (spec, problems);
    }
  check_preferences (spec, problems);
  if (PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_REWARDED))
    check_reward (spec, problems);
  check_schedule (spec, problems);
  check_ending (spec, problems);
}
