/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/run/recipe.h"

#define GSPO_CLIP_LOW 3e-4 /* Zheng et al. 2025: a ratio of whole sequences hardly moves */
#define GSPO_CLIP_HIGH 4e-4

#define POLICY(...) { .online = TRUE, .loss = PLUMB_LOSS_POLICY, .metric = "loss/total", __VA_ARGS__ }
#define PAIR(...) { .pairs = TRUE, .loss = PLUMB_LOSS_PAIR, .metric = "loss/dpo", __VA_ARGS__ }

static const PlumbRecipe recipes[PLUMB_N_ALGORITHMS] = {
  [PLUMB_ALGORITHM_SFT] = { .loss = PLUMB_LOSS_SFT, .metric = "loss/sft" },
  [PLUMB_ALGORITHM_RM] = { .scalar = TRUE, .pairs = TRUE, .loss = PLUMB_LOSS_REWARD, .metric = "loss/rm" },
  [PLUMB_ALGORITHM_DPO] = PAIR (.reference = TRUE),
  [PLUMB_ALGORITHM_KTO] = { .loss = PLUMB_LOSS_KTO, .reference = TRUE, .metric = "loss/kto" },
  [PLUMB_ALGORITHM_ORPO] = PAIR (),
  [PLUMB_ALGORITHM_SIMPO] = PAIR (),
  [PLUMB_ALGORITHM_PPO] = POLICY (.critic = TRUE),
  [PLUMB_ALGORITHM_REINFORCE] = POLICY (),
  [PLUMB_ALGORITHM_REINFORCE_BASELINE] = POLICY (.baseline = PLUMB_BASELINE_GROUP_MEAN),
  [PLUMB_ALGORITHM_RLOO] = POLICY (.baseline = PLUMB_BASELINE_LEAVE_ONE_OUT),
  [PLUMB_ALGORITHM_GRPO] = POLICY (.baseline = PLUMB_BASELINE_GROUP_MEAN),
  [PLUMB_ALGORITHM_DR_GRPO] = POLICY (.baseline = PLUMB_BASELINE_GROUP_MEAN),
  [PLUMB_ALGORITHM_REMAX] = POLICY (.baseline = PLUMB_BASELINE_GREEDY, .greedy = TRUE),
  [PLUMB_ALGORITHM_OPO] = POLICY (.baseline = PLUMB_BASELINE_LENGTH),
  [PLUMB_ALGORITHM_REJECTION_SAMPLING] = { .online = TRUE, .loss = PLUMB_LOSS_SFT, .metric = "loss/sft" },
  [PLUMB_ALGORITHM_ITERATIVE_DPO] = PAIR (.online = TRUE, .reference = TRUE),
  [PLUMB_ALGORITHM_DISTILL] = POLICY (.reference = TRUE),
};

const PlumbRecipe *
plumb_recipe (PlumbAlgorithm algorithm)
{
  g_return_val_if_fail ((guint) algorithm < PLUMB_N_ALGORITHMS, &recipes[0]);
  return &recipes[algorithm];
}

gboolean
plumb_recipe_needs_reference (PlumbSpec *spec)
{
  PlumbAlgorithm algorithm = plumb_spec_algorithm (spec);
  return plumb_recipe (algorithm)->reference
         || (PLUMB_IS_ON (algorithm, PLUMB_ON_POLICY)
             && plumb_spec_get_real (spec, "algorithm.kl.coefficient") > 0);
}

static gboolean
kl_in_reward (PlumbSpec *spec)
{
  return g_str_equal (plumb_spec_get_text (spec, "algorithm.kl.where"), "reward");
}

struct plumb_advantage_options
plumb_recipe_advantages (PlumbSpec *spec, double kl_coefficient)
{
  PlumbAlgorithm algorithm = plumb_spec_algorithm (spec);
  const PlumbRecipe *recipe = plumb_recipe (algorithm);
  enum plumb_normalize normalize = plumb_spec_get_choice (spec, "algorithm.advantage.normalize");
  struct plumb_advantage_options o = {
    .baseline = recipe->baseline,
    .critic = recipe->critic,
    .gamma = 1,
    .lambda = plumb_spec_get_real (spec, "algorithm.lambda"),
    .clip_low = -10,
    .clip_high = 10,
    .kl_coefficient = kl_coefficient,
    .kl_estimator = plumb_spec_get_choice (spec, "algorithm.kl.estimator"),
    .kl_in_reward = kl_in_reward (spec),
  };
  g_autoptr (GArray) clip = plumb_spec_get_reals (spec, "reward.clip");
  if (clip->len == 2)
    {
      o.clip_low = g_array_index (clip, double, 0);
      o.clip_high = g_array_index (clip, double, 1);
    }
  if (PLUMB_IS_ON (algorithm, PLUMB_ON_PPO | 1 << PLUMB_ALGORITHM_REINFORCE))
    o.gamma = plumb_spec_get_real (spec, "algorithm.gamma");
  if (algorithm == PLUMB_ALGORITHM_GRPO || algorithm == PLUMB_ALGORITHM_DR_GRPO)
    {
      o.baseline = normalize == PLUMB_NORMALIZE_NONE ? PLUMB_BASELINE_NONE : recipe->baseline;
      o.scale_by_deviation = normalize == PLUMB_NORMALIZE_MEAN_STD;
    }
  else
    o.whiten = normalize;
  /* Each token answers for its own divergence from the teacher. */
  if (algorithm == PLUMB_ALGORITHM_DISTILL)
    o.gamma = 0;
  return o;
}

static void
set_policy (PlumbSpec *spec, double kl_coefficient, struct plumb_policy_options *o)
{
  o->surrogate = plumb_spec_get_choice (spec, "algorithm.policy_loss");
  o->clip_low = plumb_spec_get_real (spec, "algorithm.clip_low");
  o->clip_high = plumb_spec_get_real (spec, "algorithm.clip_high");
  if (o->surrogate == PLUMB_SURROGATE_GSPO && !plumb_spec_is_set (spec, "algorithm.clip_low"))
    o->clip_low = GSPO_CLIP_LOW;
  if (o->surrogate == PLUMB_SURROGATE_GSPO && !plumb_spec_is_set (spec, "algorithm.clip_high"))
    o->clip_high = GSPO_CLIP_HIGH;
  o->dual_clip = plumb_spec_get_real (spec, "algorithm.dual_clip");
  o->correction = plumb_spec_get_choice (spec, "algorithm.correction");
  o->correction_low = plumb_spec_get_real (spec, "algorithm.correction.low");
  o->correction_high = plumb_spec_get_real (spec, "algorithm.correction.high");
  o->kl_coefficient = kl_in_reward (spec) ? 0 : kl_coefficient;
  o->kl_estimator = plumb_spec_get_choice (spec, "algorithm.kl.estimator");
  o->kl_unbiased = plumb_spec_get_boolean (spec, "algorithm.kl.unbiased");
  o->entropy = plumb_spec_get_real (spec, "algorithm.entropy");
  o->aggregate = plumb_spec_get_choice (spec, "algorithm.aggregate");
}

static void
set_pair (PlumbSpec *spec, struct plumb_pair_options *o)
{
  PlumbAlgorithm algorithm = plumb_spec_algorithm (spec);
  o->beta = plumb_spec_get_real (spec, "algorithm.beta");
  if (algorithm == PLUMB_ALGORITHM_ORPO)
    o->loss = PLUMB_PAIR_ORPO;
  else if (algorithm == PLUMB_ALGORITHM_SIMPO)
    {
      o->loss = PLUMB_PAIR_SIMPO;
      o->margin = plumb_spec_get_real (spec, "algorithm.simpo.margin");
    }
  else
    {
      o->loss = plumb_spec_get_choice (spec, "algorithm.dpo.loss");
      o->label_smoothing = plumb_spec_get_real (spec, "algorithm.dpo.label_smoothing");
      o->nll = plumb_spec_get_real (spec, "algorithm.dpo.nll");
    }
}

PlumbLossSpec
plumb_recipe_loss (PlumbSpec *spec, double kl_coefficient)
{
  const PlumbRecipe *recipe = plumb_recipe (plumb_spec_algorithm (spec));
  PlumbLossSpec loss = { .id = recipe->loss, .temperature = 1 };
  if (recipe->online && recipe->loss == PLUMB_LOSS_POLICY)
    {
      loss.temperature = plumb_spec_get_real (spec, "rollout.temperature");
      loss.denominators.limit = (double) plumb_spec_get_integer (spec, "rollout.max_new_tokens");
      set_policy (spec, kl_coefficient, &loss.policy);
    }
  else if (recipe->loss == PLUMB_LOSS_PAIR)
    set_pair (spec, &loss.pair);
  else if (recipe->loss == PLUMB_LOSS_KTO)
    {
      loss.kto.beta = plumb_spec_get_real (spec, "algorithm.beta");
      loss.kto.desirable = plumb_spec_get_real (spec, "algorithm.kto.desirable");
      loss.kto.undesirable = plumb_spec_get_real (spec, "algorithm.kto.undesirable");
      loss.kto.paired = plumb_spec_get_boolean (spec, "algorithm.kto.paired");
    }
  else if (recipe->loss == PLUMB_LOSS_REWARD)
    {
      loss.reward = plumb_spec_get_choice (spec, "algorithm.rm.loss");
      loss.reward_margin = plumb_spec_get_boolean (spec, "algorithm.rm.margin");
    }
  return loss;
}

PlumbLossSpec
plumb_recipe_value_loss (PlumbSpec *spec)
{
  PlumbLossSpec loss = { .id = PLUMB_LOSS_VALUE, .temperature = 1 };
  loss.value.clip = plumb_spec_get_real (spec, "algorithm.value_clip");
  loss.value.weight = plumb_spec_get_real (spec, "algorithm.value.loss_weight");
  loss.value.aggregate = plumb_spec_get_choice (spec, "algorithm.aggregate");
  loss.denominators.limit = (double) plumb_spec_get_integer (spec, "rollout.max_new_tokens");
  return loss;
}
