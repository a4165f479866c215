/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/spec-import.h"

/* How a flag becomes settings. */
typedef enum
{
  COPY,      /* its value is that of `key` */
  PAIR,      /* its two values are those of `key` and `other` */
  SAME_PAIR, /* its one value is that of both */
  LIST,      /* its values, with commas */
  YES,       /* without a value: `key` becomes `other` */
  UNNEEDED,  /* nothing has to be set: `other` says why */
} Kind;

typedef struct
{
  const char *flag;  /* the current, dotted name */
  const char *older; /* names of earlier releases, divided by blanks; NULL: none */
  Kind kind;
  const char *key;
  const char *other;
} Rule;

#define PLACED "placement follows from the devices of the machine"
#define ALWAYS "the engine always does so"
#define INSIDE "it concerns a library that is not used here"

/* clang-format off */
static const Rule rules[] = {
  { "actor.model_name_or_path", "pretrain model.model_name_or_path", COPY, "model.policy", NULL },
  { "ref.model_name_or_path", "ref_pretrain ref_model ref_reward_pretrain", COPY, "model.reference", NULL },
  { "reward.model_name_or_path", "reward_pretrain", COPY, "model.reward", NULL },
  { "critic.model_name_or_path", "critic_pretrain", COPY, "model.critic", NULL },
  { "data.prompt_dataset", "prompt_data data.dataset dataset", LIST, "data.train", NULL },
  { "eval.dataset", "eval_dataset", LIST, "data.eval", NULL },
  { "data.input_key", "input_key data.prompt_key prompt_key", COPY, "data.prompt_key", NULL },
  { "data.output_key", "output_key", COPY, "data.response_key", NULL },
  { "data.chosen_key", "chosen_key", COPY, "data.chosen_key", NULL },
  { "data.rejected_key", "rejected_key", COPY, "data.rejected_key", NULL },
  { "data.max_samples", "max_samples", COPY, "data.max_samples", NULL },
  { "data.max_len", "max_len", COPY, "model.max_length", NULL },
  { "prompt_max_len", NULL, COPY, "data.max_prompt_length", NULL },
  { "rollout.max_new_tokens", "generate_max_len max_new_tokens", COPY, "rollout.max_new_tokens", NULL },
  { "rollout.batch_size", "rollout_batch_size", COPY, "rollout.prompts_per_step", NULL },
  { "rollout.n_samples_per_prompt", "n_samples_per_prompt", COPY, "rollout.samples", NULL },
  { "rollout.temperature", "temperature", COPY, "rollout.temperature", NULL },
  { "rollout.top_p", "top_p", COPY, "rollout.top_p", NULL },
  { "vllm.gpu_memory_utilization", "vllm_gpu_memory_utilization", COPY, "rollout.kv_memory", NULL },
  { "train.batch_size", "train_batch_size", COPY, "train.batch", NULL },
  { "train.max_tokens_per_gpu", "train_max_tokens_per_gpu", COPY, "train.tokens_per_micro_batch", NULL },
  { "bf16", NULL, YES, "model.precision", "bf16" },
  { "train.seed", "seed", COPY, "run.seed", NULL },
  { "train.full_determinism_enable", "full_determinism", YES, "run.deterministic", "yes" },
  { "train.num_episodes", "num_episodes", COPY, "schedule.epochs", NULL },
  { "actor.adam.lr", "adam.lr learning_rate actor_learning_rate", COPY, "train.learning_rate", NULL },
  { "critic.adam.lr", "critic_learning_rate", COPY, "train.critic_learning_rate", NULL },
  { "actor.adam.betas", "adam.betas adam_betas", LIST, "train.betas", NULL },
  { "actor.adam.eps", "adam.eps", COPY, "train.epsilon", NULL },
  { "actor.adam.weight_decay", "adam.weight_decay l2", COPY, "train.weight_decay", NULL },
  { "actor.max_norm", "max_norm", COPY, "train.max_grad_norm", NULL },
  { "actor.lr_warmup_ratio", "lr_warmup_ratio", COPY, "train.warmup", NULL },
  { "actor.eps_clip", "eps_clip", SAME_PAIR, "algorithm.clip_low", "algorithm.clip_high" },
  { "actor.eps_clip_low_high", "eps_clip_low_high", PAIR, "algorithm.clip_low", "algorithm.clip_high" },
  { "actor.dual_clip", "dual_clip", COPY, "algorithm.dual_clip", NULL },
  { "actor.policy_loss_type", "policy_loss_type", COPY, "algorithm.policy_loss", NULL },
  { "actor.entropy_coef", "entropy_loss_coef", COPY, "algorithm.entropy", NULL },
  { "critic.value_clip", "value_clip", COPY, "algorithm.value_clip", NULL },
  { "critic.freezing_steps", "freezing_actor_steps", COPY, "algorithm.critic_warmup_steps", NULL },
  { "algo.advantage.lambd", "lambd", COPY, "algorithm.lambda", NULL },
  { "algo.advantage.gamma", "gamma", COPY, "algorithm.gamma", NULL },
  { "algo.advantage.is_correction_threshold", "vllm_is_truncated_threshold", PAIR, "algorithm.correction.low", "algorithm.correction.high" },
  { "algo.kl.init_coef", "init_kl_coef", COPY, "algorithm.kl.coefficient", NULL },
  { "algo.kl.target", "kl_target", COPY, "algorithm.kl.target", NULL },
  { "algo.kl.horizon", "kl_horizon", COPY, "algorithm.kl.horizon", NULL },
  { "algo.kl.estimator", "kl_estimator", COPY, "algorithm.kl.estimator", NULL },
  { "algo.dynamic_filtering_enable", "dynamic_filtering", YES, "algorithm.dynamic_sampling", "yes" },
  { "algo.dynamic_filtering_range", "dynamic_filtering_reward_range", PAIR, "algorithm.dynamic_sampling.low", "algorithm.dynamic_sampling.high" },
  { "dpo.beta", "beta", COPY, "algorithm.beta", NULL },
  { "dpo.ipo_enable", "ipo", YES, "algorithm.dpo.loss", "ipo" },
  { "dpo.label_smoothing", "label_smoothing", COPY, "algorithm.dpo.label_smoothing", NULL },
  { "dpo.nll_loss_coef", "nll_loss_coef", COPY, "algorithm.dpo.nll", NULL },
  { "desirable_loss_weight", NULL, COPY, "algorithm.kto.desirable", NULL },
  { "undesirable_loss_weight", NULL, COPY, "algorithm.kto.undesirable", NULL },
  { "rm.loss_type", "loss", COPY, "algorithm.rm.loss", NULL },
  { "rm.margin_loss_enable", "margin_loss", YES, "algorithm.rm.margin", "yes" },
  { "reward.clip_range", "reward_clip_range", LIST, "reward.clip", NULL },
  { "reward.normalize_enable", "normalize_reward", YES, "reward.normalize", "yes" },
  { "reward.overlong_buffer_len", "overlong_buffer_len", COPY, "reward.overlong_buffer", NULL },
  { "reward.overlong_penalty_factor", "overlong_penalty_factor", COPY, "reward.overlong_factor", NULL },
  { "reward.stop_properly_penalty_coef", "stop_properly_penalty_coef", COPY, "reward.truncated", NULL },
  { "model.pretrain_mode_enable", "pretrain_mode", YES, "data.train_on", "all" },
  { "ckpt.save_steps", "save_steps", COPY, "checkpoint.every", NULL },
  { "ckpt.max_num", "max_ckpt_num", COPY, "checkpoint.keep", NULL },
  { "ckpt.output_dir", "save_path", COPY, "run.directory", NULL },
  { "eval.steps", "eval_steps", COPY, "eval.every", NULL },
  { "eval.temperature", "eval_temperature", COPY, "eval.temperature", NULL },
  { "eval.n_samples_per_prompt", "eval_n_samples_per_prompt", COPY, "eval.samples", NULL },
  { "logger.wandb.run_name", "wandb_run_name", COPY, "run.name", NULL },
  { "ds.packing_samples", "packing_samples", UNNEEDED, NULL, ALWAYS },
  { "ds.attn_implementation", "flash_attn attn_implementation", UNNEEDED, NULL, ALWAYS },
  { "ckpt.save_hf", "save_hf_ckpt", UNNEEDED, NULL, ALWAYS },
  { "ckpt.path", "ckpt_path", UNNEEDED, NULL, "checkpoints lie in the run directory" },
  { "ckpt.load_enable", "load_checkpoint", UNNEEDED, NULL, "use `run --resume --run-dir RUN`" },
  { "data.apply_chat_template", "apply_chat_template", UNNEEDED, NULL, "the model's chat template is used where it has one" },
  { "train.micro_batch_size", "micro_train_batch_size", UNNEEDED, NULL, "batches are packed by tokens: train.tokens_per_micro_batch" },
  { "rollout.micro_batch_size", "micro_rollout_batch_size", UNNEEDED, NULL, "batches are packed by tokens" },
  { "train.dynamic_batch_enable", "use_dynamic_batch", UNNEEDED, NULL, ALWAYS },
  { "train.colocate_all", "colocate_all_models", UNNEEDED, NULL, PLACED },
  { "train.colocate_actor_ref", "colocate_actor_ref", UNNEEDED, NULL, PLACED },
  { "train.colocate_critic_reward", "colocate_critic_reward", UNNEEDED, NULL, PLACED },
  { "actor.num_nodes", "actor_num_nodes", UNNEEDED, NULL, PLACED },
  { "actor.num_gpus_per_node", "actor_num_gpus_per_node", UNNEEDED, NULL, PLACED },
  { "ref.num_nodes", "ref_num_nodes", UNNEEDED, NULL, PLACED },
  { "ref.num_gpus_per_node", "ref_num_gpus_per_node", UNNEEDED, NULL, PLACED },
  { "critic.num_nodes", "critic_num_nodes", UNNEEDED, NULL, PLACED },
  { "critic.num_gpus_per_node", "critic_num_gpus_per_node", UNNEEDED, NULL, PLACED },
  { "reward.num_nodes", "reward_num_nodes", UNNEEDED, NULL, PLACED },
  { "reward.num_gpus_per_node", "reward_num_gpus_per_node", UNNEEDED, NULL, PLACED },
  { "vllm.num_engines", "vllm_num_engines", UNNEEDED, NULL, PLACED },
  { "vllm.tensor_parallel_size", "vllm_tensor_parallel_size", UNNEEDED, NULL, PLACED },
  { "vllm.sync_backend", "vllm_sync_backend", UNNEEDED, NULL, INSIDE },
  { "vllm.enable_sleep", "vllm_enable_sleep", UNNEEDED, NULL, INSIDE },
  { "vllm.enforce_eager", "enforce_eager", UNNEEDED, NULL, INSIDE },
  { "vllm.enable_prefix_caching", "enable_prefix_caching", UNNEEDED, NULL, "the samples of a prompt share its blocks" },
  { "ds.enable_sleep", "deepspeed_enable_sleep", UNNEEDED, NULL, INSIDE },
  { "ds.zero_stage", "zero_stage", UNNEEDED, NULL, INSIDE },
  { "actor.gradient_checkpointing_enable", "gradient_checkpointing model.gradient_checkpointing_enable", UNNEEDED, NULL, "memory is planned before the start" },
  { "logger.logging_steps", "logging_steps", UNNEEDED, NULL, ALWAYS },
};
/* clang-format on */

/* Values that have another name here. */
static const struct
{
  const char *key, *theirs, *ours;
} words[] = {
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

void
plumb_import_note_free (PlumbImportNote *note)
{
  g_free (note->flag);
  g_free (note->reason);
  g_free (note);
}

/* One flag with its values. */
typedef struct
{
  char *name;
  GPtrArray *values; /* borrowed */
} Flag;

static void
flag_clear (gpointer data)
{
  Flag *flag = data;

  g_free (flag->name);
  g_ptr_array_unref (flag->values);
}

static gboolean
is_flag (const char *word)
{
  return g_str_has_prefix (word, "--") && word[2] != '\0';
}

/* Cuts a command line into flags; older releases also write --a=b. */
static GArray *
read_flags (char **argv)
{
  GArray *flags = g_array_new (FALSE, TRUE, sizeof (Flag));

  g_array_set_clear_func (flags, flag_clear);
  for (int i = 0; argv[i] != NULL; i++)
    {
      if (is_flag (argv[i]))
        {
          char *equals = strchr (argv[i], '=');
          Flag flag = { equals != NULL ? g_strndup (argv[i] + 2, equals - argv[i] - 2) : g_strdup (argv[i] + 2),
                        g_ptr_array_new () };

          g_strdelimit (flag.name, "-", '_');
          if (equals != NULL)
            g_ptr_array_add (flag.values, equals + 1);
          g_array_append_val (flags, flag);
        }
      else if (flags->len > 0)
        g_ptr_array_add (g_array_index (flags, Flag, flags->len - 1).values, argv[i]);
    }
  return flags;
}

static gboolean
has_word (const char *list, const char *word)
{
  g_auto (GStrv) parts = list != NULL ? g_strsplit (list, " ", -1) : g_new0 (char *, 1);

  return g_strv_contains ((const char *const *)parts, word);
}

static const Rule *
find_rule (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rules); i++)
    if (g_str_equal (rules[i].flag, name) || has_word (rules[i].older, name))
      return &rules[i];
  return NULL;
}

static const char *
translate (const char *key, const char *value)
{
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_equal (words[i].key, key) && g_str_equal (words[i].theirs, value))
      return words[i].ours;
  return value;
}

static char *
written (const Flag *flag)
{
  g_autoptr (GString) text = g_string_new ("--");

  g_string_append (text, flag->name);
  for (guint i = 0; i < flag->values->len; i++)
    g_string_append_printf (text, " %s", (char *)g_ptr_array_index (flag->values, i));
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
add_note (GPtrArray *notes, const Flag *flag, const char *reason)
{
  PlumbImportNote *note = g_new0 (PlumbImportNote, 1);

  note->flag = written (flag);
  note->reason = g_strdup (reason);
  g_ptr_array_add (notes, note);
}

static void
set (PlumbSpec *spec, const Flag *flag, const char *key, const char *value, GPtrArray *notes)
{
  g_autoptr (GError) error = NULL;

  if (!plumb_spec_set (spec, key, translate (key, value), &error))
    add_note (notes, flag, error->message);
}

static char *
join (const GPtrArray *values)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < values->len; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? "," : "", (char *)g_ptr_array_index (values, i));
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
apply (PlumbSpec *spec, const Flag *flag, const Rule *rule, GPtrArray *notes)
{
  guint needed = rule->kind == PAIR ? 2 : rule->kind == YES || rule->kind == UNNEEDED ? 0 : 1;
  g_autofree char *all = join (flag->values);
  const char *first = flag->values->len > 0 ? g_ptr_array_index (flag->values, 0) : NULL;

  if (flag->values->len < needed)
    {
      add_note (notes, flag, needed == 2 ? "two values are missing" : "its value is missing");
      return;
    }
  if (first != NULL && g_str_equal (first, "None"))
    return; /* their way to write: not set */
  switch (rule->kind)
    {
    case COPY:
      set (spec, flag, rule->key, first, notes);
      break;
    case PAIR:
      set (spec, flag, rule->key, first, notes);
      set (spec, flag, rule->other, g_ptr_array_index (flag->values, 1), notes);
      break;
    case SAME_PAIR:
      set (spec, flag, rule->key, first, notes);
      set (spec, flag, rule->other, first, notes);
      break;
    case LIST:
      set (spec, flag, rule->key, all, notes);
      break;
    case YES:
      set (spec, flag, rule->key, rule->other, notes);
      break;
    case UNNEEDED:
      add_note (notes, flag, rule->other);
      break;
    }
}

#define DECIDED                                                                                                        \
  "algo.kl.use_loss use_kl_loss algo.advantage.is_correction_type vllm_is_correction_type "                            \
  "algo.advantage.is_correction_enable enable_vllm_is_correction"

/* Flags that need more than a rule. TRUE if it was one. */
static gboolean
apply_special (PlumbSpec *spec, const Flag *flag, GPtrArray *notes)
{
  const char *value = flag->values->len > 0 ? g_ptr_array_index (flag->values, 0) : "";

  if (g_str_equal (flag->name, "data.input_template") || g_str_equal (flag->name, "input_template"))
    {
      /* Theirs writes a new line as a backslash with an n. */
      g_auto (GStrv) lines = g_strsplit (value, "\\n", -1);
      g_autofree char *plain = g_strjoinv ("\n", lines);
      g_auto (GStrv) halves = g_strsplit (plain, "{}", 2);

      if (g_strv_length (halves) == 2)
        {
          g_autofree char *template = g_strconcat (halves[0], "{prompt}", halves[1], NULL);

          set (spec, flag, "data.prompt_template", template, notes);
        }
      else if (!g_str_equal (value, "None"))
        add_note (notes, flag, "a template has {} where the prompt goes");
      return TRUE;
    }
  if (g_str_equal (flag->name, "data.label_key") || g_str_equal (flag->name, "label_key"))
    {
      gboolean kto = plumb_spec_algorithm (spec) == PLUMB_ALGORITHM_KTO;

      set (spec, flag, kto ? "data.label_key" : "data.answer_key", value, notes);
      return TRUE;
    }
  if (g_str_equal (flag->name, "actor.lr_scheduler") || g_str_equal (flag->name, "lr_scheduler"))
    {
      set (spec, flag, "train.schedule", value, notes);
      return TRUE;
    }
  if (g_str_equal (flag->name, "train.max_epochs") || g_str_equal (flag->name, "max_epochs"))
    {
      gboolean online = PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_ONLINE);

      set (spec, flag, online ? "algorithm.epochs" : "schedule.epochs", value, notes);
      return TRUE;
    }
  if (g_str_equal (flag->name, "reward.remote_url") || g_str_equal (flag->name, "remote_rm_url"))
    {
      g_autoptr (GError) error = NULL;
      gboolean program = g_str_has_suffix (value, ".py");

      if (program)
        add_note (notes, flag, "a Python function is not loaded; wrap it in a program that answers JSON lines and use "
                               "the reward function `program`");
      else if (plumb_spec_set (spec, "reward.functions", "http", &error))
        plumb_spec_set_reward_option (spec, "http", "url", value, &error);
      if (error != NULL)
        add_note (notes, flag, error->message);
      return TRUE;
    }
  /* The first two were looked at before; the third is the launcher's. */
  if (has_word ("algo.advantage.no_std_norm no_advantage_std_norm", flag->name))
    {
      /* Theirs concerns the whitening alone, which group estimators do not have. */
      int whitened = PLUMB_ON_PPO | 1 << PLUMB_ALGORITHM_REINFORCE | 1 << PLUMB_ALGORITHM_REINFORCE_BASELINE;

      if (PLUMB_IS_ON (plumb_spec_algorithm (spec), whitened))
        set (spec, flag, "algorithm.advantage.normalize", "mean", notes);
      else
        add_note (notes, flag, "it has no effect on this estimator");
      return TRUE;
    }
  return has_word ("algo.advantage.estimator advantage_estimator module", flag->name) || has_word (DECIDED, flag->name);
}

static const Flag *
find_flag (GArray *flags, const char *names)
{
  for (guint i = 0; i < flags->len; i++)
    if (has_word (names, g_array_index (flags, Flag, i).name))
      return &g_array_index (flags, Flag, i);
  return NULL;
}

/* What several flags decide together, and what theirs does where a flag is left out: it is written, since it decides what
 * is optimised. */
static void
apply_objective (PlumbSpec *spec, GArray *flags, GPtrArray *notes)
{
  const Flag *type = find_flag (flags, "algo.advantage.is_correction_type vllm_is_correction_type");
  const Flag *kl_loss = find_flag (flags, "algo.kl.use_loss use_kl_loss");
  const char *correction = type != NULL && type->values->len > 0 ? g_ptr_array_index (type->values, 0) : "tis";

  if (!PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_POLICY))
    return;
  if (find_flag (flags, "algo.advantage.is_correction_enable enable_vllm_is_correction") != NULL)
    set (spec, type != NULL ? type : &g_array_index (flags, Flag, 0), "algorithm.correction", correction, notes);
  plumb_spec_set (spec, "algorithm.kl.where", kl_loss != NULL ? "loss" : "reward", NULL);
  if (!plumb_spec_is_set (spec, "algorithm.kl.estimator"))
    plumb_spec_set (spec, "algorithm.kl.estimator", "k1", NULL);
  if (!plumb_spec_is_set (spec, "algorithm.kl.coefficient"))
    plumb_spec_set (spec, "algorithm.kl.coefficient", "0.01", NULL);
}

/* The algorithm comes first: it decides which settings there are. */
static void
choose_algorithm (PlumbSpec *spec, char **argv, GArray *flags, GPtrArray *notes)
{
  const char *algorithm = "ppo";

  for (int i = 0; argv[i] != NULL; i++)
    for (gsize p = 0; p < G_N_ELEMENTS (programs); p++)
      if (strstr (argv[i], programs[p].program) != NULL)
        algorithm = programs[p].algorithm;
  plumb_spec_set (spec, "run.algorithm", algorithm, NULL);
  for (guint i = 0; i < flags->len; i++)
    {
      const Flag *flag = &g_array_index (flags, Flag, i);

      if (flag->values->len > 0
          && (g_str_equal (flag->name, "algo.advantage.estimator") || g_str_equal (flag->name, "advantage_estimator")))
        set (spec, flag, "run.algorithm", g_ptr_array_index (flag->values, 0), notes);
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
  choose_algorithm (spec, argv, flags, notes);
  for (guint i = 0; i < flags->len; i++)
    {
      const Flag *flag = &g_array_index (flags, Flag, i);
      const Rule *rule = find_rule (flag->name);

      if (apply_special (spec, flag, notes))
        continue;
      if (rule != NULL)
        apply (spec, flag, rule, notes);
      else
        add_note (notes, flag, "there is no counterpart");
    }
  apply_objective (spec, flags, notes);
  return g_steal_pointer (&spec);
}
