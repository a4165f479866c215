/* SPDX-License-Identifier: Apache-2.0 */
/* TRL: the YAML of its command line, which is flat and does not say what is trained. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/core/error.h"
#include "engine/core/spec-import-private.h"

#define NO_ADAPTERS "all weights are trained; adapters are not supported"
#define MEMORY "memory is planned before the start"

/* clang-format off */
static const PlumbImportRule rules[] = {
  { "model_name_or_path", "sft_model_path", IMPORT_COPY, "model.policy", NULL },
  { "reward_model_path", NULL, IMPORT_COPY, "model.reward", NULL },
  { "ref_model", NULL, IMPORT_COPY, "model.reference", NULL },
  { "chat_template_path", NULL, IMPORT_COPY, "model.chat_template", NULL },
  { "dataset_name", NULL, IMPORT_LIST, "data.train", NULL },
  { "max_prompt_length", NULL, IMPORT_COPY, "data.max_prompt_length", NULL },
  { "max_length", "max_seq_length", IMPORT_COPY, "model.max_length", NULL },
  { "max_completion_length", "response_length", IMPORT_COPY, "rollout.max_new_tokens", NULL },
  { "num_generations", "rloo_k", IMPORT_COPY, "rollout.samples", NULL },
  { "temperature", NULL, IMPORT_COPY, "rollout.temperature", NULL },
  { "top_p", NULL, IMPORT_COPY, "rollout.top_p", NULL },
  { "top_k", NULL, IMPORT_COPY, "rollout.top_k", NULL },
  { "min_p", NULL, IMPORT_COPY, "rollout.min_p", NULL },
  { "repetition_penalty", NULL, IMPORT_COPY, "rollout.repetition_penalty", NULL },
  { "learning_rate", NULL, IMPORT_COPY, "train.learning_rate", NULL },
  { "weight_decay", NULL, IMPORT_COPY, "train.weight_decay", NULL },
  { "adam_epsilon", NULL, IMPORT_COPY, "train.epsilon", NULL },
  { "max_grad_norm", NULL, IMPORT_COPY, "train.max_grad_norm", NULL },
  { "warmup_ratio", NULL, IMPORT_COPY, "train.warmup", NULL },
  { "lr_scheduler_type", NULL, IMPORT_COPY, "train.schedule", NULL },
  { "num_train_epochs", NULL, IMPORT_COPY, "schedule.epochs", NULL },
  { "epsilon_high", NULL, IMPORT_COPY, "algorithm.clip_high", NULL },
  { "cliprange", NULL, IMPORT_SAME_PAIR, "algorithm.clip_low", "algorithm.clip_high" },
  { "num_iterations", "num_ppo_epochs", IMPORT_COPY, "algorithm.epochs", NULL },
  { "cliprange_value", NULL, IMPORT_COPY, "algorithm.value_clip", NULL },
  { "vf_coef", NULL, IMPORT_COPY, "algorithm.value.loss_weight", NULL },
  { "gamma", NULL, IMPORT_COPY, "algorithm.gamma", NULL },
  { "lam", NULL, IMPORT_COPY, "algorithm.lambda", NULL },
  { "kl_coef", NULL, IMPORT_COPY, "algorithm.kl.coefficient", NULL },
  { "kl_estimator", NULL, IMPORT_COPY, "algorithm.kl.estimator", NULL },
  { "entropy_coef", NULL, IMPORT_COPY, "algorithm.entropy", NULL },
  { "label_smoothing", NULL, IMPORT_COPY, "algorithm.dpo.label_smoothing", NULL },
  { "rpo_alpha", NULL, IMPORT_COPY, "algorithm.dpo.nll", NULL },
  { "desirable_weight", NULL, IMPORT_COPY, "algorithm.kto.desirable", NULL },
  { "undesirable_weight", NULL, IMPORT_COPY, "algorithm.kto.undesirable", NULL },
  { "simpo_gamma", NULL, IMPORT_COPY, "algorithm.simpo.margin", NULL },
  { "seed", NULL, IMPORT_COPY, "run.seed", NULL },
  { "full_determinism", NULL, IMPORT_YES, "run.deterministic", "yes" },
  { "output_dir", NULL, IMPORT_COPY, "run.directory", NULL },
  { "run_name", NULL, IMPORT_COPY, "run.name", NULL },
  { "bf16", NULL, IMPORT_YES, "model.precision", "bf16" },
  { "dtype", "torch_dtype", IMPORT_COPY, "model.precision", NULL },
  { "save_steps", NULL, IMPORT_COPY, "checkpoint.every", NULL },
  { "save_total_limit", NULL, IMPORT_COPY, "checkpoint.keep", NULL },
  { "eval_steps", NULL, IMPORT_COPY, "eval.every", NULL },
  { "shuffle_dataset", NULL, IMPORT_COPY, "data.shuffle", NULL },
  { "dataset_train_split", "dataset_test_split dataset_config", IMPORT_UNNEEDED, NULL, "data.train and data.eval name files" },
  { "packing", "padding_free", IMPORT_UNNEEDED, NULL, ALWAYS },
  { "logging_steps", "logging_strategy log_completions", IMPORT_UNNEEDED, NULL, ALWAYS },
  { "report_to", NULL, IMPORT_UNNEEDED, NULL, ALWAYS },
  { "attn_implementation", "use_liger_kernel", IMPORT_UNNEEDED, NULL, INSIDE },
  { "gradient_checkpointing", "gradient_checkpointing_kwargs.use_reentrant", IMPORT_UNNEEDED, NULL, MEMORY },
  { "vllm_enable_sleep_mode", NULL, IMPORT_YES, "placement.together", "yes" },
  { "use_vllm", "vllm_mode vllm_gpu_memory_utilization vllm_tensor_parallel_size", IMPORT_UNNEEDED, NULL, INSIDE },
  { "deepspeed", "fsdp fsdp_config ds3_gather_for_generation", IMPORT_UNNEEDED, NULL, INSIDE },
  { "per_device_eval_batch_size", "eval_accumulation_steps", IMPORT_UNNEEDED, NULL, "batches are packed by tokens" },
  { "eval_strategy", "evaluation_strategy save_strategy do_eval", IMPORT_UNNEEDED, NULL, "set eval.every and checkpoint.every" },
  { "use_peft", "lora_r lora_alpha lora_target_modules lora_dropout load_in_4bit load_in_8bit", IMPORT_UNNEEDED, NULL, NO_ADAPTERS },
};
/* clang-format on */

static const PlumbImportWord words[] = {
  { "train.schedule", "constant_with_warmup", "constant" },
  { "train.schedule", "cosine_with_min_lr", "cosine_floor" },
  { "train.schedule", "warmup_stable_decay", "wsd" },
  { "model.precision", "bfloat16", "bf16" },
  { "model.precision", "float32", "fp32" },
  { "algorithm.dpo.loss", "ipo", "ipo_mean" }, /* theirs divides by the length */
  { "algorithm.dpo.loss", "sppo_hard", "sppo" },
  { "algorithm.policy_loss", "sequence", "gspo" },
  { "algorithm.policy_loss", "token", "ppo" },
};

/* Settings that only one of their trainers has. */
static const struct
{
  const char *names, *algorithm;
} hints[] = {
  { "rloo_k", "rloo" },
  { "num_ppo_epochs cliprange_value vf_coef", "ppo" },
  { "num_generations scale_rewards num_iterations epsilon_high", "grpo" },
  { "desirable_weight undesirable_weight", "kto" },
  { "simpo_gamma", "simpo" },
  { "center_rewards_coefficient", "rm" },
  { "rpo_alpha precompute_ref_log_probs reference_free", "dpo" },
};

static gboolean
choose_algorithm (PlumbImport *import, const char *algorithm, GError **error)
{
  const char *loss = plumb_import_value (import, "loss_type", "");

  for (gsize i = 0; i < G_N_ELEMENTS (hints) && algorithm == NULL; i++)
    if (plumb_import_find (import, hints[i].names) != NULL)
      algorithm = hints[i].algorithm;
  if (algorithm == NULL && plumb_import_has_word ("sigmoid hinge ipo robust apo_zero apo_down sppo_hard", loss))
    algorithm = "dpo";
  if (algorithm == NULL)
    algorithm = plumb_import_find (import, "beta") != NULL ? "dpo" : "sft";
  if (g_str_equal (algorithm, "grpo")
      && (g_str_equal (loss, "dr_grpo") || !plumb_import_is_true (plumb_import_value (import, "scale_rewards", "true")))
      && !plumb_import_has_word ("group batch", plumb_import_value (import, "scale_rewards", "none")))
    algorithm = "dr_grpo";
  return plumb_spec_set (import->spec, "run.algorithm", algorithm, error);
}

/* What `loss_type` means depends on the trainer. */
static void
apply_loss (PlumbImport *import, const PlumbImportItem *item, const char *value)
{
  static const struct
  {
    const char *loss, *key, *setting;
  } losses[] = {
    { "grpo", "algorithm.aggregate", "sequence" }, { "dapo", "algorithm.aggregate", "token" },
    { "bnpo", "algorithm.aggregate", "token" },    { "dr_grpo", "algorithm.aggregate", "constant" },
    { "cispo", "algorithm.policy_loss", "cispo" }, { "sapo", "algorithm.policy_loss", "sapo" },
    { "kto", NULL, NULL },
  };

  if (plumb_spec_algorithm (import->spec) == PLUMB_ALGORITHM_DPO)
    {
      plumb_import_set (import, item, "algorithm.dpo.loss", value);
      return;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (losses); i++)
    if (g_str_equal (losses[i].loss, value))
      {
        if (losses[i].key != NULL)
          plumb_import_set (import, item, losses[i].key, losses[i].setting);
        return;
      }
  plumb_import_note (import, item, "there is no such loss here");
}

/* In the online trainers beta weighs the KL. */
static void
apply_beta (PlumbImport *import, const PlumbImportItem *item, const char *value)
{
  gboolean policy = PLUMB_IS_ON (plumb_spec_algorithm (import->spec), PLUMB_ON_POLICY);

  plumb_import_set (import, item, policy ? "algorithm.kl.coefficient" : "algorithm.beta", value);
}

static gboolean
apply_special (PlumbImport *import, const PlumbImportItem *item)
{
  const char *value = plumb_import_value (import, item->name, NULL);

  if (plumb_import_has_word ("per_device_train_batch_size gradient_accumulation_steps adam_beta1 adam_beta2 "
                             "steps_per_generation scale_rewards warmup_steps",
                             item->name)
      || value == NULL)
    return TRUE;
  if (g_str_equal (item->name, "loss_type"))
    apply_loss (import, item, value);
  else if (g_str_equal (item->name, "beta"))
    apply_beta (import, item, value);
  else if (g_str_equal (item->name, "epsilon"))
    {
      plumb_import_set (import, item, "algorithm.clip_low", value);
      if (plumb_import_find (import, "epsilon_high") == NULL)
        plumb_import_set (import, item, "algorithm.clip_high", value);
    }
  else if (g_str_equal (item->name, "importance_sampling_level"))
    plumb_import_set (import, item, "algorithm.policy_loss", value);
  else if (g_str_equal (item->name, "max_steps"))
    {
      if (*value != '-')
        plumb_import_set (import, item, "schedule.steps", value);
    }
  else
    return FALSE;
  return TRUE;
}

static gint64
count_of (const PlumbImport *import, const char *name, gint64 otherwise)
{
  const char *text = plumb_import_value (import, name, NULL);
  gint64 value = text != NULL ? g_ascii_strtoll (text, NULL, 10) : 0;

  return value > 0 && value < 1 << 24 ? value : otherwise;
}

/* Theirs is written per device and micro-batch; here it is the whole step. */
static void
apply_batch (PlumbImport *import)
{
  const PlumbImportItem *item = plumb_import_find (import, "per_device_train_batch_size gradient_accumulation_steps");
  gint64 batch = count_of (import, "per_device_train_batch_size", 8) * count_of (import, "gradient_accumulation_steps", 1);
  gint64 samples = plumb_spec_get_integer (import->spec, "rollout.samples");
  g_autofree char *sequences = g_strdup_printf ("%" G_GINT64_FORMAT, batch);
  g_autofree char *prompts = g_strdup_printf ("%" G_GINT64_FORMAT, MAX (1, batch / MAX (1, samples)));

  if (item == NULL)
    return;
  plumb_import_set (import, item, "train.batch", sequences);
  if (PLUMB_IS_ON (plumb_spec_algorithm (import->spec), PLUMB_ON_POLICY))
    plumb_import_set (import, item, "rollout.prompts_per_step", prompts);
  plumb_import_note (import, item, "taken for one process; multiply train.batch and rollout.prompts_per_step by the number of "
                                   "processes that it was started with");
}

/* What is optimised is written out where theirs has another default. */
static void
apply_objective (PlumbImport *import)
{
  PlumbSpec *spec = import->spec;
  const char *first = plumb_import_value (import, "adam_beta1", "0.9");
  const char *second = plumb_import_value (import, "adam_beta2", "0.999");
  g_autofree char *betas = g_strdup_printf ("%s,%s", first, second);
  gboolean group = plumb_spec_algorithm (spec) == PLUMB_ALGORITHM_GRPO || plumb_spec_algorithm (spec) == PLUMB_ALGORITHM_DR_GRPO;
  const PlumbImportItem *warmup = plumb_import_find (import, "warmup_steps");

  plumb_spec_set (spec, "train.betas", betas, NULL);
  if (warmup != NULL && count_of (import, "warmup_steps", 0) > 0)
    plumb_import_set (import, warmup, "train.warmup", plumb_import_value (import, "warmup_steps", "0"));
  else if (!plumb_spec_is_set (spec, "train.warmup"))
    plumb_spec_set (spec, "train.warmup", "0", NULL);
  if (!plumb_spec_is_set (spec, "train.schedule"))
    plumb_spec_set (spec, "train.schedule", "linear", NULL);
  if (!group)
    return;
  plumb_spec_set (spec, "algorithm.kl.where", "loss", NULL);
  plumb_spec_set (spec, "algorithm.kl.estimator", "k3", NULL);
  if (!plumb_spec_is_set (spec, "algorithm.kl.coefficient"))
    plumb_spec_set (spec, "algorithm.kl.coefficient", "0", NULL);
  if (!plumb_spec_is_set (spec, "algorithm.aggregate"))
    plumb_spec_set (spec, "algorithm.aggregate", "token", NULL);
}

PlumbSpec *
plumb_import_trl (GArray *items, const char *algorithm, GPtrArray *notes, GError **error)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  PlumbImport import = { spec, items, notes, rules, G_N_ELEMENTS (rules), words, G_N_ELEMENTS (words) };

  if (!choose_algorithm (&import, algorithm, error))
    return NULL;
  for (guint i = 0; i < items->len; i++)
    {
      const PlumbImportItem *item = &g_array_index (items, PlumbImportItem, i);

      if (!apply_special (&import, item))
        plumb_import_apply (&import, item);
    }
  apply_batch (&import);
  apply_objective (&import);
  return g_steal_pointer (&spec);
}
