/* SPDX-License-Identifier: Apache-2.0 */
/* verl: settings in groups, from its YAML or as overrides on its command line. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/core/error.h"
#include "engine/core/spec-import-private.h"

#define ACTOR "actor_rollout_ref.actor."
#define ROLLOUT "actor_rollout_ref.rollout."
#define MEMORY "memory is planned before the start"
#define PACKED "batches are packed by tokens"

/* clang-format off */
static const PlumbImportRule rules[] = {
  { "actor_rollout_ref.model.path", NULL, IMPORT_COPY, "model.policy", NULL },
  { "actor_rollout_ref.ref.model.path", NULL, IMPORT_COPY, "model.reference", NULL },
  { "critic.model.path", NULL, IMPORT_COPY, "model.critic", NULL },
  { "reward_model.model.path", NULL, IMPORT_COPY, "model.reward", NULL },
  { "data.train_files", NULL, IMPORT_LIST, "data.train", NULL },
  { "data.val_files", NULL, IMPORT_LIST, "data.eval", NULL },
  { "data.prompt_key", NULL, IMPORT_COPY, "data.prompt_key", NULL },
  { "data.max_prompt_length", NULL, IMPORT_COPY, "data.max_prompt_length", NULL },
  { "data.max_response_length", ROLLOUT "response_length", IMPORT_COPY, "rollout.max_new_tokens", NULL },
  { "data.train_batch_size", NULL, IMPORT_COPY, "rollout.prompts_per_step", NULL },
  { "data.truncation", NULL, IMPORT_COPY, "data.on_overlong", NULL },
  { "data.shuffle", NULL, IMPORT_COPY, "data.shuffle", NULL },
  { "data.seed", NULL, IMPORT_COPY, "run.seed", NULL },
  { ROLLOUT "n", NULL, IMPORT_COPY, "rollout.samples", NULL },
  { ROLLOUT "temperature", NULL, IMPORT_COPY, "rollout.temperature", NULL },
  { ROLLOUT "top_p", NULL, IMPORT_COPY, "rollout.top_p", NULL },
  { ROLLOUT "top_k", NULL, IMPORT_COPY, "rollout.top_k", NULL },
  { ROLLOUT "gpu_memory_utilization", NULL, IMPORT_COPY, "rollout.kv_memory", NULL },
  { ROLLOUT "val_kwargs.temperature", NULL, IMPORT_COPY, "eval.temperature", NULL },
  { ROLLOUT "val_kwargs.top_p", NULL, IMPORT_COPY, "eval.top_p", NULL },
  { ROLLOUT "val_kwargs.top_k", NULL, IMPORT_COPY, "eval.top_k", NULL },
  { ROLLOUT "val_kwargs.n", NULL, IMPORT_COPY, "eval.samples", NULL },
  { ACTOR "optim.lr", NULL, IMPORT_COPY, "train.learning_rate", NULL },
  { ACTOR "optim.weight_decay", NULL, IMPORT_COPY, "train.weight_decay", NULL },
  { ACTOR "optim.betas", NULL, IMPORT_LIST, "train.betas", NULL },
  { ACTOR "optim.warmup_style", ACTOR "optim.lr_scheduler_type", IMPORT_COPY, "train.schedule", NULL },
  { ACTOR "grad_clip", NULL, IMPORT_COPY, "train.max_grad_norm", NULL },
  { ACTOR "ppo_epochs", NULL, IMPORT_COPY, "algorithm.epochs", NULL },
  { ACTOR "ppo_max_token_len_per_gpu", NULL, IMPORT_COPY, "train.tokens_per_micro_batch", NULL },
  { ACTOR "entropy_coeff", NULL, IMPORT_COPY, "algorithm.entropy", NULL },
  { ACTOR "policy_loss.loss_mode", NULL, IMPORT_COPY, "algorithm.policy_loss", NULL },
  { ACTOR "clip_ratio_c", NULL, IMPORT_COPY, "algorithm.dual_clip", NULL },
  { ACTOR "loss_agg_mode", NULL, IMPORT_COPY, "algorithm.aggregate", NULL },
  { "critic.optim.lr", NULL, IMPORT_COPY, "train.critic_learning_rate", NULL },
  { "critic.cliprange_value", NULL, IMPORT_COPY, "algorithm.value_clip", NULL },
  { "algorithm.gamma", NULL, IMPORT_COPY, "algorithm.gamma", NULL },
  { "algorithm.lam", NULL, IMPORT_COPY, "algorithm.lambda", NULL },
  { "algorithm.kl_ctrl.horizon", NULL, IMPORT_COPY, "algorithm.kl.horizon", NULL },
  { "algorithm.filter_groups.enable", NULL, IMPORT_YES, "algorithm.dynamic_sampling", "yes" },
  { "reward_model.overlong_buffer.len", NULL, IMPORT_COPY, "reward.overlong_buffer", NULL },
  { "reward_model.overlong_buffer.penalty_factor", NULL, IMPORT_COPY, "reward.overlong_factor", NULL },
  { "trainer.critic_warmup", NULL, IMPORT_COPY, "algorithm.critic_warmup_steps", NULL },
  { "trainer.total_epochs", NULL, IMPORT_COPY, "schedule.epochs", NULL },
  { "trainer.total_training_steps", NULL, IMPORT_COPY, "schedule.steps", NULL },
  { "trainer.save_freq", NULL, IMPORT_COPY, "checkpoint.every", NULL },
  { "trainer.max_actor_ckpt_to_keep", NULL, IMPORT_COPY, "checkpoint.keep", NULL },
  { "trainer.test_freq", NULL, IMPORT_COPY, "eval.every", NULL },
  { "trainer.experiment_name", NULL, IMPORT_COPY, "run.name", NULL },
  { "trainer.project_name", NULL, IMPORT_COPY, "run.tags", NULL },
  { "trainer.default_local_dir", NULL, IMPORT_COPY, "run.directory", NULL },
  { "trainer.resume_mode", NULL, IMPORT_UNNEEDED, NULL, "use `run --resume --run-dir RUN`" },
  { "trainer.logger", "trainer.log_val_generations", IMPORT_UNNEEDED, NULL, ALWAYS },
  { "trainer.nnodes", "trainer.n_gpus_per_node", IMPORT_UNNEEDED, NULL, PLACED },
  { "trainer.val_before_train", NULL, IMPORT_UNNEEDED, NULL, "set eval.every" },
  { "data.filter_overlong_prompts", NULL, IMPORT_UNNEEDED, NULL, "data.on_overlong does so" },
  { "data.val_batch_size", NULL, IMPORT_UNNEEDED, NULL, PACKED },
  { "actor_rollout_ref.model.use_remove_padding", NULL, IMPORT_UNNEEDED, NULL, ALWAYS },
  { "actor_rollout_ref.model.enable_gradient_checkpointing", "critic.model.enable_gradient_checkpointing", IMPORT_UNNEEDED, NULL, MEMORY },
  { "actor_rollout_ref.hybrid_engine", NULL, IMPORT_UNNEEDED, NULL, PLACED },
  { ACTOR "use_dynamic_bsz", "critic.use_dynamic_bsz", IMPORT_UNNEEDED, NULL, ALWAYS },
  { ACTOR "ppo_micro_batch_size_per_gpu", "critic.ppo_micro_batch_size_per_gpu", IMPORT_UNNEEDED, NULL, PACKED },
  { ROLLOUT "log_prob_micro_batch_size_per_gpu", "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", IMPORT_UNNEEDED, NULL, PACKED },
  { ACTOR "fsdp_config.optimizer_offload", NULL, IMPORT_YES, "train.offload", "optimizer" },
  { ROLLOUT "free_cache_engine", NULL, IMPORT_YES, "placement.together", "yes" },
  { ACTOR "fsdp_config.param_offload", "actor_rollout_ref.ref.fsdp_config.param_offload", IMPORT_UNNEEDED, NULL, MEMORY },
  { ROLLOUT "name", ROLLOUT "mode " ROLLOUT "tensor_model_parallel_size " ROLLOUT "enforce_eager", IMPORT_UNNEEDED, NULL, INSIDE },
};
/* clang-format on */

static const PlumbImportWord words[] = {
  { "run.algorithm", "gae", "ppo" },
  { "run.algorithm", "reinforce_plus_plus", "reinforce" },
  { "run.algorithm", "reinforce_plus_plus_baseline", "reinforce_baseline" },
  { "data.on_overlong", "left", "truncate_left" },
  { "data.on_overlong", "right", "truncate_right" },
  { "data.on_overlong", "error", "drop" },
  { "rollout.top_k", "-1", "0" },
  { "eval.top_k", "-1", "0" },
  { "checkpoint.every", "-1", "0" },
  { "eval.every", "-1", "off" },
  { "algorithm.policy_loss", "vanilla", "ppo" },
  { "algorithm.policy_loss", "geo_mean", "gmpo" },
  { "algorithm.aggregate", "token-mean", "token" },
  { "algorithm.aggregate", "seq-mean-token-mean", "sequence" },
  { "algorithm.aggregate", "seq-mean-token-sum-norm", "constant" },
  { "algorithm.kl.estimator", "kl", "k1" },
  { "algorithm.kl.estimator", "mse", "k2" },
  { "algorithm.kl.estimator", "low_var_kl", "k3" },
};

/* Read by the functions below. */
#define DECIDED                                                                                                        \
  "algorithm.adv_estimator algorithm.norm_adv_by_std_in_grpo algorithm.use_kl_in_reward algorithm.kl_penalty "          \
  "algorithm.kl_ctrl.kl_coef algorithm.kl_ctrl.type algorithm.kl_ctrl.target_kl " ACTOR "use_kl_loss " ACTOR           \
  "kl_loss_coef " ACTOR "kl_loss_type " ACTOR "clip_ratio " ACTOR "clip_ratio_low " ACTOR "clip_ratio_high " ACTOR     \
  "ppo_mini_batch_size " ACTOR "optim.lr_warmup_steps " ACTOR "optim.lr_warmup_steps_ratio reward_model.enable"        \
  " reward_model.overlong_buffer.enable"

static void
choose_algorithm (PlumbImport *import)
{
  const PlumbImportItem *estimator = plumb_import_find (import, "algorithm.adv_estimator");
  const char *name = plumb_import_value (import, "algorithm.adv_estimator", "gae");

  if (g_str_equal (name, "grpo")
      && !plumb_import_is_true (plumb_import_value (import, "algorithm.norm_adv_by_std_in_grpo", "true")))
    name = "dr_grpo";
  plumb_spec_set (import->spec, "run.algorithm", "ppo", NULL);
  if (estimator != NULL)
    plumb_import_set (import, estimator, "run.algorithm", name);
}

/* KL as part of the reward, of the loss, or nowhere; their defaults are written out. */
static void
apply_kl (PlumbImport *import)
{
  const PlumbImportItem *item = &g_array_index (import->items, PlumbImportItem, 0);
  gboolean in_reward = plumb_import_is_true (plumb_import_value (import, "algorithm.use_kl_in_reward", "false"));
  gboolean in_loss = plumb_import_is_true (plumb_import_value (import, ACTOR "use_kl_loss", "false"));

  if (in_reward && in_loss)
    plumb_import_note (import, plumb_import_find (import, ACTOR "use_kl_loss"),
                       "the KL is either part of the reward or of the loss; it was taken into the reward");
  plumb_import_set (import, item, "algorithm.kl.where", in_loss && !in_reward ? "loss" : "reward");
  if (!in_reward && !in_loss)
    {
      plumb_import_set (import, item, "algorithm.kl.coefficient", "0");
      return;
    }
  plumb_import_set (import, item, "algorithm.kl.coefficient",
                    in_reward ? plumb_import_value (import, "algorithm.kl_ctrl.kl_coef", "0.001")
                              : plumb_import_value (import, ACTOR "kl_loss_coef", "0.001"));
  plumb_import_set (import, item, "algorithm.kl.estimator",
                    in_reward ? plumb_import_value (import, "algorithm.kl_penalty", "kl")
                              : plumb_import_value (import, ACTOR "kl_loss_type", "low_var_kl"));
  if (in_reward && g_str_equal (plumb_import_value (import, "algorithm.kl_ctrl.type", "fixed"), "adaptive"))
    plumb_import_set (import, item, "algorithm.kl.target", plumb_import_value (import, "algorithm.kl_ctrl.target_kl", "0.1"));
}

static void
apply_clip (PlumbImport *import)
{
  const PlumbImportItem *item = &g_array_index (import->items, PlumbImportItem, 0);
  const char *both = plumb_import_value (import, ACTOR "clip_ratio", "0.2");

  plumb_import_set (import, item, "algorithm.clip_low", plumb_import_value (import, ACTOR "clip_ratio_low", both));
  plumb_import_set (import, item, "algorithm.clip_high", plumb_import_value (import, ACTOR "clip_ratio_high", both));
  if (!plumb_spec_is_set (import->spec, "algorithm.policy_loss") && !plumb_spec_is_set (import->spec, "algorithm.dual_clip"))
    plumb_import_set (import, item, "algorithm.dual_clip", "3");
  if (!plumb_spec_is_set (import->spec, "algorithm.aggregate"))
    plumb_import_set (import, item, "algorithm.aggregate", "token-mean");
}

/* Theirs counts prompts. */
static void
apply_batch (PlumbImport *import)
{
  const PlumbImportItem *item = plumb_import_find (import, ACTOR "ppo_mini_batch_size");
  const char *text = plumb_import_value (import, ACTOR "ppo_mini_batch_size", NULL);
  gint64 prompts = text != NULL ? g_ascii_strtoll (text, NULL, 10) : 0;
  gint64 samples = MAX (1, plumb_spec_get_integer (import->spec, "rollout.samples"));

  if (prompts > 0 && prompts < 1 << 24 && samples < 1 << 24)
    {
      g_autofree char *sequences = g_strdup_printf ("%" G_GINT64_FORMAT, prompts * samples);

      plumb_import_set (import, item, "train.batch", sequences);
    }
}

static void
apply_warmup (PlumbImport *import)
{
  const PlumbImportItem *steps = plumb_import_find (import, ACTOR "optim.lr_warmup_steps");
  const PlumbImportItem *share = plumb_import_find (import, ACTOR "optim.lr_warmup_steps_ratio");
  const char *count = plumb_import_value (import, ACTOR "optim.lr_warmup_steps", "-1");

  if (g_ascii_strtoll (count, NULL, 10) > 0)
    plumb_import_set (import, steps, "train.warmup", count);
  else if (share != NULL)
    plumb_import_set (import, share, "train.warmup", plumb_import_value (import, share->name, "0"));
}

static void
apply_reward (PlumbImport *import)
{
  static const char why[] = "a Python function is not loaded; wrap it in a program that answers JSON lines and use the reward "
                            "function `program`, or set reward.functions to number, code or another of them";
  const PlumbImportItem *custom = plumb_import_find (import, "custom_reward_function.path");

  if (plumb_spec_is_set (import->spec, "model.reward"))
    plumb_spec_set (import->spec, "reward.functions", "model", NULL);
  else
    plumb_import_note (import, custom != NULL ? custom : plumb_import_find (import, "data.train_files algorithm.adv_estimator"),
                       custom != NULL ? why : "theirs chooses the reward by the source of each row; set reward.functions");
}

PlumbSpec *
plumb_import_verl (GArray *items, GPtrArray *notes, GError **error)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  PlumbImport import = { spec, items, notes, rules, G_N_ELEMENTS (rules), words, G_N_ELEMENTS (words) };

  if (plumb_import_find (&import, "data.train_files algorithm.adv_estimator") == NULL)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                           "these settings of verl have neither data.train_files nor algorithm.adv_estimator; give the whole "
                           "command line, or the file that it prints at its start");
      return NULL;
    }
  choose_algorithm (&import);
  for (guint i = 0; i < items->len; i++)
    {
      const PlumbImportItem *item = &g_array_index (items, PlumbImportItem, i);

      if (!plumb_import_has_word (DECIDED, item->name) && !g_str_has_prefix (item->name, "custom_reward_function."))
        plumb_import_apply (&import, item);
    }
  apply_kl (&import);
  apply_clip (&import);
  apply_batch (&import);
  apply_warmup (&import);
  apply_reward (&import);
  return g_steal_pointer (&spec);
}
