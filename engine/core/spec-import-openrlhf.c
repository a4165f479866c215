/* SPDX-License-Identifier: Apache-2.0 */
/* OpenRLHF: a command line, with current dotted flags or the older names. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/spec-import-private.h"

/* clang-format off */
static const PlumbImportRule rules[] = {
  { "actor.model_name_or_path", "pretrain model.model_name_or_path", IMPORT_COPY, "model.policy", NULL },
  { "ref.model_name_or_path", "ref_pretrain ref_model ref_reward_pretrain", IMPORT_COPY, "model.reference", NULL },
  { "reward.model_name_or_path", "reward_pretrain", IMPORT_COPY, "model.reward", NULL },
  { "critic.model_name_or_path", "critic_pretrain", IMPORT_COPY, "model.critic", NULL },
  { "data.prompt_dataset", "prompt_data data.dataset dataset", IMPORT_LIST, "data.train", NULL },
  { "eval.dataset", "eval_dataset", IMPORT_LIST, "data.eval", NULL },
  { "data.input_key", "input_key data.prompt_key prompt_key", IMPORT_COPY, "data.prompt_key", NULL },
  { "data.output_key", "output_key", IMPORT_COPY, "data.response_key", NULL },
  { "data.chosen_key", "chosen_key", IMPORT_COPY, "data.chosen_key", NULL },
  { "data.rejected_key", "rejected_key", IMPORT_COPY, "data.rejected_key", NULL },
  { "data.max_samples", "max_samples", IMPORT_COPY, "data.max_samples", NULL },
  { "data.max_len", "max_len", IMPORT_COPY, "model.max_length", NULL },
  { "prompt_max_len", NULL, IMPORT_COPY, "data.max_prompt_length", NULL },
  { "rollout.max_new_tokens", "generate_max_len max_new_tokens", IMPORT_COPY, "rollout.max_new_tokens", NULL },
  { "rollout.batch_size", "rollout_batch_size", IMPORT_COPY, "rollout.prompts_per_step", NULL },
  { "rollout.n_samples_per_prompt", "n_samples_per_prompt", IMPORT_COPY, "rollout.samples", NULL },
  { "rollout.temperature", "temperature", IMPORT_COPY, "rollout.temperature", NULL },
  { "rollout.top_p", "top_p", IMPORT_COPY, "rollout.top_p", NULL },
  { "vllm.gpu_memory_utilization", "vllm_gpu_memory_utilization", IMPORT_COPY, "rollout.kv_memory", NULL },
  { "train.batch_size", "train_batch_size", IMPORT_COPY, "train.batch", NULL },
  { "train.max_tokens_per_gpu", "train_max_tokens_per_gpu", IMPORT_COPY, "train.tokens_per_micro_batch", NULL },
  { "train.async_enable", "async_train", IMPORT_YES, "rollout.async", "yes" },
  { "train.async_queue_size", "async_queue_size", IMPORT_COPY, "rollout.max_staleness", NULL },
  { "train.partial_rollout_enable", "partial_rollout", IMPORT_YES, "rollout.partial", "yes" },
  { "bf16", NULL, IMPORT_YES, "model.precision", "bf16" },
  { "train.seed", "seed", IMPORT_COPY, "run.seed", NULL },
  { "train.full_determinism_enable", "full_determinism", IMPORT_YES, "run.deterministic", "yes" },
  { "train.num_episodes", "num_episodes", IMPORT_COPY, "schedule.epochs", NULL },
  { "actor.adam.lr", "adam.lr learning_rate actor_learning_rate", IMPORT_COPY, "train.learning_rate", NULL },
  { "critic.adam.lr", "critic_learning_rate", IMPORT_COPY, "train.critic_learning_rate", NULL },
  { "actor.adam.betas", "adam.betas adam_betas", IMPORT_LIST, "train.betas", NULL },
  { "actor.adam.eps", "adam.eps", IMPORT_COPY, "train.epsilon", NULL },
  { "actor.adam.weight_decay", "adam.weight_decay l2", IMPORT_COPY, "train.weight_decay", NULL },
  { "actor.max_norm", "max_norm", IMPORT_COPY, "train.max_grad_norm", NULL },
  { "actor.lr_warmup_ratio", "lr_warmup_ratio", IMPORT_COPY, "train.warmup", NULL },
  { "actor.eps_clip", "eps_clip", IMPORT_SAME_PAIR, "algorithm.clip_low", "algorithm.clip_high" },
  { "actor.eps_clip_low_high", "eps_clip_low_high", IMPORT_PAIR, "algorithm.clip_low", "algorithm.clip_high" },
  { "actor.dual_clip", "dual_clip", IMPORT_COPY, "algorithm.dual_clip", NULL },
  { "actor.policy_loss_type", "policy_loss_type", IMPORT_COPY, "algorithm.policy_loss", NULL },
  { "actor.entropy_coef", "entropy_loss_coef", IMPORT_COPY, "algorithm.entropy", NULL },
  { "critic.value_clip", "value_clip", IMPORT_COPY, "algorithm.value_clip", NULL },
  { "critic.freezing_steps", "freezing_actor_steps", IMPORT_COPY, "algorithm.critic_warmup_steps", NULL },
  { "algo.advantage.lambd", "lambd", IMPORT_COPY, "algorithm.lambda", NULL },
  { "algo.advantage.gamma", "gamma", IMPORT_COPY, "algorithm.gamma", NULL },
  { "algo.advantage.is_correction_threshold", "vllm_is_truncated_threshold", IMPORT_PAIR, "algorithm.correction.low", "algorithm.correction.high" },
  { "algo.kl.init_coef", "init_kl_coef", IMPORT_COPY, "algorithm.kl.coefficient", NULL },
  { "algo.kl.target", "kl_target", IMPORT_COPY, "algorithm.kl.target", NULL },
  { "algo.kl.horizon", "kl_horizon", IMPORT_COPY, "algorithm.kl.horizon", NULL },
  { "algo.kl.estimator", "kl_estimator", IMPORT_COPY, "algorithm.kl.estimator", NULL },
  { "algo.dynamic_filtering_enable", "dynamic_filtering", IMPORT_YES, "algorithm.dynamic_sampling", "yes" },
  { "algo.dynamic_filtering_range", "dynamic_filtering_reward_range", IMPORT_PAIR, "algorithm.dynamic_sampling.low", "algorithm.dynamic_sampling.high" },
  { "dpo.beta", "beta", IMPORT_COPY, "algorithm.beta", NULL },
  { "dpo.ipo_enable", "ipo", IMPORT_YES, "algorithm.dpo.loss", "ipo" },
  { "dpo.label_smoothing", "label_smoothing", IMPORT_COPY, "algorithm.dpo.label_smoothing", NULL },
  { "dpo.nll_loss_coef", "nll_loss_coef", IMPORT_COPY, "algorithm.dpo.nll", NULL },
  { "desirable_loss_weight", NULL, IMPORT_COPY, "algorithm.kto.desirable", NULL },
  { "undesirable_loss_weight", NULL, IMPORT_COPY, "algorithm.kto.undesirable", NULL },
  { "rm.loss_type", "loss", IMPORT_COPY, "algorithm.rm.loss", NULL },
  { "rm.margin_loss_enable", "margin_loss", IMPORT_YES, "algorithm.rm.margin", "yes" },
  { "reward.clip_range", "reward_clip_range", IMPORT_LIST, "reward.clip", NULL },
  { "reward.normalize_enable", "normalize_reward", IMPORT_YES, "reward.normalize", "yes" },
  { "reward.overlong_buffer_len", "overlong_buffer_len", IMPORT_COPY, "reward.overlong_buffer", NULL },
  { "reward.overlong_penalty_factor", "overlong_penalty_factor", IMPORT_COPY, "reward.overlong_factor", NULL },
  { "reward.stop_properly_penalty_coef", "stop_properly_penalty_coef", IMPORT_COPY, "reward.truncated", NULL },
  { "model.pretrain_mode_enable", "pretrain_mode", IMPORT_YES, "data.train_on", "all" },
  { "ckpt.save_steps", "save_steps", IMPORT_COPY, "checkpoint.every", NULL },
  { "ckpt.max_num", "max_ckpt_num", IMPORT_COPY, "checkpoint.keep", NULL },
  { "ckpt.output_dir", "save_path", IMPORT_COPY, "run.directory", NULL },
  { "eval.steps", "eval_steps", IMPORT_COPY, "eval.every", NULL },
  { "eval.temperature", "eval_temperature", IMPORT_COPY, "eval.temperature", NULL },
  { "eval.n_samples_per_prompt", "eval_n_samples_per_prompt", IMPORT_COPY, "eval.samples", NULL },
  { "logger.wandb.run_name", "wandb_run_name", IMPORT_COPY, "run.name", NULL },
  { "ds.packing_samples", "packing_samples", IMPORT_UNNEEDED, NULL, ALWAYS },
  { "ds.attn_implementation", "flash_attn attn_implementation", IMPORT_UNNEEDED, NULL, ALWAYS },
  { "ckpt.save_hf", "save_hf_ckpt", IMPORT_UNNEEDED, NULL, ALWAYS },
  { "ckpt.path", "ckpt_path", IMPORT_UNNEEDED, NULL, "checkpoints lie in the run directory" },
  { "ckpt.load_enable", "load_checkpoint", IMPORT_UNNEEDED, NULL, "use `run --resume --run-dir RUN`" },
  { "data.apply_chat_template", "apply_chat_template", IMPORT_UNNEEDED, NULL, "the model's chat template is used where it has one" },
  { "train.micro_batch_size", "micro_train_batch_size", IMPORT_UNNEEDED, NULL, "batches are packed by tokens: train.tokens_per_micro_batch" },
  { "rollout.micro_batch_size", "micro_rollout_batch_size", IMPORT_UNNEEDED, NULL, "batches are packed by tokens" },
  { "train.dynamic_batch_enable", "use_dynamic_batch", IMPORT_UNNEEDED, NULL, ALWAYS },
  { "train.colocate_all", "colocate_all_models", IMPORT_UNNEEDED, NULL, PLACED },
  { "train.colocate_actor_ref", "colocate_actor_ref", IMPORT_UNNEEDED, NULL, PLACED },
  { "train.colocate_critic_reward", "colocate_critic_reward", IMPORT_UNNEEDED, NULL, PLACED },
  { "actor.num_nodes", "actor_num_nodes", IMPORT_UNNEEDED, NULL, PLACED },
  { "actor.num_gpus_per_node", "actor_num_gpus_per_node", IMPORT_UNNEEDED, NULL, PLACED },
  { "ref.num_nodes", "ref_num_nodes", IMPORT_UNNEEDED, NULL, PLACED },
  { "ref.num_gpus_per_node", "ref_num_gpus_per_node", IMPORT_UNNEEDED, NULL, APART ("reference") },
  { "critic.num_nodes", "critic_num_nodes", IMPORT_UNNEEDED, NULL, PLACED },
  { "critic.num_gpus_per_node", "critic_num_gpus_per_node", IMPORT_UNNEEDED, NULL, APART ("critic") },
  { "reward.num_nodes", "reward_num_nodes", IMPORT_UNNEEDED, NULL, PLACED },
  { "reward.num_gpus_per_node", "reward_num_gpus_per_node", IMPORT_UNNEEDED, NULL, APART ("reward") },
  { "vllm.num_engines", "vllm_num_engines", IMPORT_UNNEEDED, NULL, PLACED },
  { "vllm.tensor_parallel_size", "vllm_tensor_parallel_size", IMPORT_UNNEEDED, NULL, PLACED },
  { "vllm.sync_backend", "vllm_sync_backend", IMPORT_UNNEEDED, NULL, INSIDE },
  { "vllm.enable_sleep", "vllm_enable_sleep", IMPORT_YES, "placement.together", "yes" },
  { "vllm.enforce_eager", "enforce_eager", IMPORT_UNNEEDED, NULL, INSIDE },
  { "vllm.enable_prefix_caching", "enable_prefix_caching", IMPORT_UNNEEDED, NULL, "the samples of a prompt share its blocks" },
  { "ds.enable_sleep", "deepspeed_enable_sleep", IMPORT_YES, "placement.together", "yes" },
  { "ds.adam_offload", "adam_offload", IMPORT_YES, "train.offload", "optimizer" },
  { "ds.zero_stage", "zero_stage", IMPORT_UNNEEDED, NULL, INSIDE },
  { "actor.gradient_checkpointing_enable", "gradient_checkpointing model.gradient_checkpointing_enable", IMPORT_UNNEEDED, NULL, "train.recompute does what memory asks for" },
  { "logger.logging_steps", "logging_steps", IMPORT_UNNEEDED, NULL, ALWAYS },
};
/* clang-format on */

static const PlumbImportWord words[] = {
  { "run.algorithm", "gae", "ppo" },
  { "run.algorithm", "group_norm", "grpo" },
  { "train.schedule", "cosine_with_min_lr", "cosine_floor" },
  { "algorithm.correction", "seq-mask-tis", "sequence_mask" },
  { "algorithm.rm.loss", "", "logexp" },
  { "model.precision", "bf16", "bf16" },
  { "checkpoint.every", "-1", "0" },
  { "eval.every", "-1", "off" },
  { "algorithm.critic_warmup_steps", "-1", "0" },
};

/* Which program of theirs trains what. */
static const struct
{
  const char *program, *algorithm;
} programs[] = {
  { "train_ppo", "ppo" }, { "train_sft", "sft" }, { "train_rm", "rm" }, { "train_dpo", "dpo" }, { "train_kto", "kto" },
};

static gboolean
is_flag (const char *word)
{
  return g_str_has_prefix (word, "--") && word[2] != '\0';
}

/* Cuts a command line into flags; older releases also write --a=b. */
static GArray *
read_flags (char **argv)
{
  GArray *flags = plumb_import_items_new ();
  PlumbImportItem *flag = NULL;

  for (int i = 0; argv[i] != NULL; i++)
    {
      if (is_flag (argv[i]))
        {
          const char *equals = strchr (argv[i], '=');

          flag = plumb_import_items_add (
              flags, equals != NULL ? g_strndup (argv[i] + 2, equals - argv[i] - 2) : g_strdup (argv[i] + 2), NULL);
          g_strdelimit (flag->name, "-", '_');
          if (equals != NULL)
            g_ptr_array_add (flag->values, g_strdup (equals + 1));
        }
      else if (flag != NULL)
        g_ptr_array_add (flag->values, g_strdup (argv[i]));
    }
  return flags;
}

#define DECIDED                                                                                                        \
  "algo.kl.use_loss use_kl_loss algo.advantage.is_correction_type vllm_is_correction_type "                            \
  "algo.advantage.is_correction_enable enable_vllm_is_correction"

static void
apply_template (PlumbImport *import, const PlumbImportItem *flag, const char *value)
{
  /* Theirs writes a new line as a backslash with an n. */
  g_auto (GStrv) lines = g_strsplit (value, "\\n", -1);
  g_autofree char *plain = g_strjoinv ("\n", lines);
  g_auto (GStrv) halves = g_strsplit (plain, "{}", 2);

  if (g_strv_length (halves) == 2)
    {
      g_autofree char *template = g_strconcat (halves[0], "{prompt}", halves[1], NULL);

      plumb_import_set (import, flag, "data.prompt_template", template);
    }
  else if (!g_str_equal (value, "None"))
    plumb_import_note (import, flag, "a template has {} where the prompt goes");
}

static void
apply_reward (PlumbImport *import, const PlumbImportItem *flag, const char *value)
{
  g_autoptr (GError) error = NULL;

  if (g_str_has_suffix (value, ".py"))
    plumb_import_note (import, flag, "a Python function is not loaded; wrap it in a program that answers JSON lines and use "
                                     "the reward function `program`");
  else if (plumb_spec_set (import->spec, "reward.functions", "http", &error))
    plumb_spec_set_reward_option (import->spec, "http", "url", value, &error);
  if (error != NULL)
    plumb_import_note (import, flag, error->message);
}

/* Theirs concerns the whitening alone, which group estimators do not have. */
static void
apply_no_deviation (PlumbImport *import, const PlumbImportItem *flag)
{
  int whitened = PLUMB_ON_PPO | 1 << PLUMB_ALGORITHM_REINFORCE | 1 << PLUMB_ALGORITHM_REINFORCE_BASELINE;

  if (PLUMB_IS_ON (plumb_spec_algorithm (import->spec), whitened))
    plumb_import_set (import, flag, "algorithm.advantage.normalize", "mean");
  else
    plumb_import_note (import, flag, "it has no effect on this estimator");
}

/* Flags that need more than a rule. TRUE if it was one. */
static gboolean
apply_special (PlumbImport *import, const PlumbImportItem *flag)
{
  const char *value = flag->values->len > 0 ? g_ptr_array_index (flag->values, 0) : "";
  gboolean kto = plumb_spec_algorithm (import->spec) == PLUMB_ALGORITHM_KTO;
  gboolean online = PLUMB_IS_ON (plumb_spec_algorithm (import->spec), PLUMB_ON_ONLINE);

  if (plumb_import_has_word ("data.input_template input_template", flag->name))
    apply_template (import, flag, value);
  else if (plumb_import_has_word ("data.label_key label_key", flag->name))
    plumb_import_set (import, flag, kto ? "data.label_key" : "data.answer_key", value);
  else if (plumb_import_has_word ("actor.lr_scheduler lr_scheduler", flag->name))
    plumb_import_set (import, flag, "train.schedule", value);
  else if (plumb_import_has_word ("train.max_epochs max_epochs", flag->name))
    plumb_import_set (import, flag, online ? "algorithm.epochs" : "schedule.epochs", value);
  else if (plumb_import_has_word ("reward.remote_url remote_rm_url", flag->name))
    apply_reward (import, flag, value);
  else if (plumb_import_has_word ("algo.advantage.no_std_norm no_advantage_std_norm", flag->name))
    apply_no_deviation (import, flag);
  else /* the first two were looked at before; the third is the launcher's */
    return plumb_import_has_word ("algo.advantage.estimator advantage_estimator module", flag->name)
           || plumb_import_has_word (DECIDED, flag->name);
  return TRUE;
}

/* What several flags decide together, and what theirs does where a flag is left out: it is written, since it decides what
 * is optimised. */
static void
apply_objective (PlumbImport *import)
{
  PlumbSpec *spec = import->spec;
  const PlumbImportItem *type = plumb_import_find (import, "algo.advantage.is_correction_type vllm_is_correction_type");
  const PlumbImportItem *kl_loss = plumb_import_find (import, "algo.kl.use_loss use_kl_loss");
  const char *correction = type != NULL && type->values->len > 0 ? g_ptr_array_index (type->values, 0) : "tis";

  if (!PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_POLICY))
    return;
  if (plumb_import_find (import, "algo.advantage.is_correction_enable enable_vllm_is_correction") != NULL)
    plumb_import_set (import, type != NULL ? type : &g_array_index (import->items, PlumbImportItem, 0), "algorithm.correction",
                      correction);
  else if (type != NULL)
    plumb_import_note (import, type, "the correction is not enabled there; set algorithm.correction to have it");
  plumb_spec_set (spec, "algorithm.kl.where", kl_loss != NULL ? "loss" : "reward", NULL);
  if (!plumb_spec_is_set (spec, "algorithm.kl.estimator"))
    plumb_spec_set (spec, "algorithm.kl.estimator", "k1", NULL);
  if (!plumb_spec_is_set (spec, "algorithm.kl.coefficient"))
    plumb_spec_set (spec, "algorithm.kl.coefficient", "0.01", NULL);
}

/* The algorithm comes first: it decides which settings there are. */
static void
choose_algorithm (PlumbImport *import, char **argv)
{
  const char *algorithm = "ppo";

  for (int i = 0; argv[i] != NULL; i++)
    for (gsize p = 0; p < G_N_ELEMENTS (programs); p++)
      if (strstr (argv[i], programs[p].program) != NULL)
        algorithm = programs[p].algorithm;
  plumb_spec_set (import->spec, "run.algorithm", algorithm, NULL);
  for (guint i = 0; i < import->items->len; i++)
    {
      const PlumbImportItem *flag = &g_array_index (import->items, PlumbImportItem, i);

      if (flag->values->len > 0
          && (g_str_equal (flag->name, "algo.advantage.estimator") || g_str_equal (flag->name, "advantage_estimator")))
        plumb_import_set (import, flag, "run.algorithm", g_ptr_array_index (flag->values, 0));
    }
}

PlumbSpec *
plumb_spec_import_openrlhf (const char *text, GPtrArray *notes, GError **error)
{
  g_autoptr (GRegex) continued = g_regex_new ("\\\\\\s*\\n", 0, 0, NULL);
  g_autofree char *line = g_regex_replace_literal (continued, text, -1, 0, " ", 0, NULL);
  g_auto (GStrv) argv = NULL;
  g_autoptr (GArray) flags = NULL;
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (GError) local = NULL;

  if (line == NULL || !g_shell_parse_argv (line, NULL, &argv, &local))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "this is no command line: %s",
                   local != NULL ? local->message : "it is not valid UTF-8");
      return NULL;
    }
  flags = read_flags (argv);
  if (flags->len == 0)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "there are no flags in this command line");
      return NULL;
    }
  PlumbImport import = { spec, flags, notes, rules, G_N_ELEMENTS (rules), words, G_N_ELEMENTS (words) };

  choose_algorithm (&import, argv);
  for (guint i = 0; i < flags->len; i++)
    {
      const PlumbImportItem *flag = &g_array_index (flags, PlumbImportItem, i);

      if (!apply_special (&import, flag))
        plumb_import_apply (&import, flag);
    }
  apply_objective (&import);
  return g_steal_pointer (&spec);
}
