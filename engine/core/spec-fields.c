/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include <glib/gi18n-lib.h>

#include "engine/core/spec-fields.h"

#define UNBOUNDED G_MAXDOUBLE
#define ANY_INTEGER 9007199254740992.0 /* 2^53: every integer up to it is a double */
#define TEXT_LENGTH 65536

/* Short names, for a table that can be read. */
#define TEXT PLUMB_FIELD_TEXT
#define INTEGER PLUMB_FIELD_INTEGER
#define REAL PLUMB_FIELD_REAL
#define BOOLEAN PLUMB_FIELD_BOOLEAN
#define CHOICE PLUMB_FIELD_CHOICE
#define PATH PLUMB_FIELD_PATH
#define TEXTS PLUMB_FIELD_TEXTS
#define PATHS PLUMB_FIELD_PATHS
#define REALS PLUMB_FIELD_REALS
#define BASIC PLUMB_LEVEL_BASIC
#define MORE PLUMB_LEVEL_MORE
#define EXPERT PLUMB_LEVEL_EXPERT
#define ALL PLUMB_ON_ALL
#define ONLINE PLUMB_ON_ONLINE
#define OFFLINE PLUMB_ON_OFFLINE
#define SFT PLUMB_ON_SFT
#define PPO PLUMB_ON_PPO
#define POLICY PLUMB_ON_POLICY
#define GROUPS PLUMB_ON_GROUPS
#define PAIRS PLUMB_ON_PAIRS
#define REWARDED PLUMB_ON_REWARDED
#define REFERENCE PLUMB_ON_REFERENCE
#define ENTRY PLUMB_WIDGET_ENTRY
#define LINES PLUMB_WIDGET_TEXT
#define SPIN PLUMB_WIDGET_SPIN
#define SWITCH PLUMB_WIDGET_SWITCH
#define COMBO PLUMB_WIDGET_COMBO
#define FILES PLUMB_WIDGET_FILES
#define FOLDER PLUMB_WIDGET_FOLDER
#define AUTO PLUMB_FIELD_AUTO
#define OPEN PLUMB_FIELD_MIN_OPEN
#define OFF PLUMB_FIELD_OFF

static const char *const algorithm_choices[]
    = { "sft", "rm", "dpo", "kto", "orpo", "simpo", "ppo", "reinforce", "reinforce_baseline", "rloo",
        "grpo", "dr_grpo", "remax", "opo", "rejection_sampling", "iterative_dpo", "distill", NULL };
G_STATIC_ASSERT (G_N_ELEMENTS (algorithm_choices) == PLUMB_N_ALGORITHMS + 1);
static const char *const precision_choices[] = { "bf16", "fp32", NULL };
static const char *const format_choices[] = { "auto", "prompts", "instruction", "messages", "preference", "feedback", NULL };
static const char *const overlong_choices[] = { "drop", "truncate_left", "truncate_right", NULL };
static const char *const train_on_choices[] = { "response", "all", "last_turn", NULL };
static const char *const normalize_choices[] = { "none", "mean", "mean_std", NULL };
static const char *const aggregate_choices[] = { "token", "sequence", "constant", NULL };
static const char *const estimator_choices[] = { "k1", "k2", "k3", NULL };
static const char *const surrogate_choices[] = { "ppo", "gspo", "cispo", "sapo", "gmpo", NULL };
static const char *const old_choices[] = { "auto", "pass", "sampler", NULL };
static const char *const correction_choices[]
    = { "off", "tis", "icepop", "sequence_mask", "sequence_mask_clamped", NULL };
static const char *const pair_choices[]
    = { "sigmoid", "ipo", "ipo_mean", "hinge", "robust", "apo_zero", "apo_down", "sppo", NULL };
static const char *const rm_choices[] = { "sigmoid", "logexp", NULL };
static const char *const iterative_choices[] = { "fixed", "moving", NULL };
static const char *const where_choices[] = { "reward", "loss", NULL };
static const char *const schedule_choices[]
    = { "constant", "linear", "cosine", "cosine_floor", "wsd", NULL };
static const char *const recompute_choices[] = { "none", "selective", "full", NULL };
static const char *const offload_choices[] = { "none", "optimizer", NULL };
static const char *const rounding_choices[] = { "model", "fp8", NULL };
static const char *const export_choices[] = { "never", "end", "every", NULL };
static const char *const reward_choices[]
    = { "number", "exact",   "regex", "json_schema", "length", "format", "choice",
        "code",   "program", "http",  "judge",       "model",  NULL };

static const PlumbFieldGroup groups[] = {
  { "run", N_ ("Run"), N_ ("What is trained, and under which name.") },
  { "warmup", N_ ("Warm-up"), N_ ("Supervised steps before the reinforcement, in the same run.") },
  { "model", N_ ("Model"), N_ ("The model that is trained.") },
  { "data", N_ ("Data"), N_ ("Where prompts and answers come from.") },
  { "algorithm", N_ ("Algorithm"), N_ ("The loss and what goes into it.") },
  { "rollout", N_ ("Rollout"), N_ ("How completions are generated.") },
  { "train", N_ ("Training"), N_ ("The optimizer.") },
  { "reward", N_ ("Reward"), N_ ("What scores a completion.") },
  { "placement", N_ ("Placement"), N_ ("Which devices the run takes.") },
  { "schedule", N_ ("Schedule"), N_ ("How long the run lasts.") },
  { "checkpoint", N_ ("Checkpoints"), N_ ("What is saved, and when.") },
  { "eval", N_ ("Evaluation"), N_ ("Measuring on held-out data.") },
  { "telemetry", N_ ("Telemetry"), N_ ("What is recorded for viewing.") },
};

/* clang-format off */
/* key, label, type, unit, default, minimum, maximum, choices,
 * help,
 * level, algorithms, widget, flags, OpenRLHF */
static const PlumbField fields[] = {
  { "run.name", N_("Name"), TEXT, NULL, NULL, 1, 80, NULL,
    N_("The name that is shown. Automatic: from the algorithm and the model."),
    BASIC, ALL, ENTRY, AUTO, "--logger.wandb.run_name" },
  { "run.algorithm", N_("Algorithm"), CHOICE, NULL, "grpo", 0, 0, algorithm_choices,
    N_("What is trained, and how."),
    BASIC, ALL, COMBO, 0, "--algo.advantage.estimator" },
  { "run.seed", N_("Seed"), INTEGER, NULL, "42", 0, ANY_INTEGER, NULL,
    N_("All randomness of the run follows from it."),
    MORE, ALL, SPIN, 0, "--train.seed" },
  { "run.tags", N_("Tags"), TEXTS, NULL, NULL, 0, 256, NULL,
    N_("Words for finding the run again."),
    MORE, ALL, ENTRY, 0, NULL },
  { "run.notes", N_("Notes"), TEXT, NULL, NULL, 0, TEXT_LENGTH, NULL,
    N_("Anything worth remembering about the run."),
    MORE, ALL, LINES, 0, NULL },
  { "run.deterministic", N_("Deterministic"), BOOLEAN, NULL, NULL, 0, 0, NULL,
    N_("Bitwise repeatable, whatever else is in a batch. Automatic: yes on a CPU."),
    EXPERT, ALL, SWITCH, AUTO, "--train.full_determinism_enable" },
  { "run.directory", N_("Run directory"), PATH, NULL, NULL, 0, 4096, NULL,
    N_("Where the run is kept. Unset: a new folder in the data folder."),
    MORE, ALL, FOLDER, 0, "--ckpt.output_dir" },

  { "warmup.data", N_("Warm-up data"), PATHS, NULL, NULL, 0, 4096, NULL,
    N_("Files of prompts with responses, or builtin:arithmetic. Unset: no warm-up."),
    MORE, ONLINE, FILES, 0, NULL },
  { "warmup.steps", N_("Warm-up steps"), INTEGER, N_("steps"), "0", 0, 1e9, NULL,
    N_("Supervised steps before the reinforcement; the most of them if an accuracy is set too."),
    MORE, ONLINE, SPIN, 0, NULL },
  { "warmup.stop_at_pass1", N_("Stop at accuracy"), REAL, NULL, "off", 0, 1, NULL,
    N_("Ends the warm-up at this measured share of right answers on held-out problems."),
    MORE, ONLINE, SPIN, OFF, NULL },
  { "warmup.learning_rate", N_("Warm-up learning rate"), REAL, NULL, "5e-6", 0, 1, NULL,
    N_("Peak learning rate of the warm-up."),
    MORE, ONLINE, ENTRY, OPEN, NULL },
  { "warmup.batch", N_("Warm-up batch"), INTEGER, N_("sequences"), "128", 1, 1e6, NULL,
    N_("Sequences per optimizer step of the warm-up."),
    MORE, ONLINE, SPIN, 0, NULL },

  { "model.policy", N_("Model"), PATH, NULL, NULL, 0, 4096, NULL,
    N_("Folder of a Hugging Face model to start from. Not needed when a new model is made."),
    BASIC, ALL, FOLDER, 0, "--actor.model_name_or_path" },
  { "model.reference", N_("Reference model"), PATH, NULL, NULL, 0, 4096, NULL,
    N_("The frozen model of the KL term, or the teacher of a distillation. Automatic: the model as the training finds it."),
    MORE, REFERENCE, FOLDER, AUTO, "--ref.model_name_or_path" },
  { "model.reward", N_("Reward model"), PATH, NULL, NULL, 0, 4096, NULL,
    N_("Folder of a sequence-classification model, for the reward function `model`."),
    MORE, REWARDED, FOLDER, 0, "--reward.model_name_or_path" },
  { "model.critic", N_("Critic"), PATH, NULL, NULL, 0, 4096, NULL,
    N_("The model that predicts rewards. Automatic: starts from the reward model, else from the policy."),
    MORE, PPO, FOLDER, AUTO, "--critic.model_name_or_path" },
  { "model.precision", N_("Precision"), CHOICE, NULL, "bf16", 0, 0, precision_choices,
    N_("Arithmetic of the device. Master weights are fp32 in either case."),
    MORE, ALL, COMBO, 0, "--ds.param_dtype" },
  { "model.max_length", N_("Longest sequence"), INTEGER, N_("tokens"), "2048", 2, 1 << 24, NULL,
    N_("Prompt and response together, at most the model's context."),
    BASIC, ALL, SPIN, 0, "--data.max_len" },
  { "model.chat_template", N_("Chat template"), PATH, NULL, NULL, 0, 4096, NULL,
    N_("A Jinja file, or the folder of a model that has one. Unset: the model's own."),
    EXPERT, ALL, PLUMB_WIDGET_FILE, 0, "--data.tokenizer_chat_template" },
  { "model.new.width", N_("New model: width"), INTEGER, NULL, NULL, 8, 65536, NULL,
    N_("Makes a model from nothing, with a byte tokenizer, instead of loading one."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "model.new.layers", N_("New model: layers"), INTEGER, NULL, NULL, 1, 1024, NULL,
    N_("Number of decoder blocks."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "model.new.heads", N_("New model: heads"), INTEGER, NULL, NULL, 1, 1024, NULL,
    N_("Attention heads; they divide the width."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "model.new.kv_heads", N_("New model: key heads"), INTEGER, NULL, NULL, 1, 1024, NULL,
    N_("Heads of keys and values; they divide the heads. Unset: as many as heads."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "model.new.mlp", N_("New model: MLP width"), INTEGER, NULL, NULL, 8, 1 << 20, NULL,
    N_("Inner width of the MLP. Unset: three times the width."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "model.new.vocab", N_("New model: vocabulary"), INTEGER, N_("tokens"), NULL, 258, 1 << 20, NULL,
    N_("Size of the vocabulary, at least 258 for the byte tokenizer. Unset: 260."),
    EXPERT, ALL, SPIN, 0, NULL },

  { "data.train", N_("Training data"), PATHS, NULL, NULL, 0, 4096, NULL,
    N_("JSONL, JSON, CSV, Parquet or text files, also packed; folders of them; or builtin:arithmetic; each with an optional :weight."),
    BASIC, ALL, FILES, 0, "--data.prompt_dataset" },
  { "data.eval", N_("Evaluation data"), PATHS, NULL, NULL, 0, 4096, NULL,
    N_("Files that are never trained on."),
    BASIC, ALL, FILES, 0, "--eval.dataset" },
  { "data.format", N_("Format"), CHOICE, NULL, "auto", 0, 0, format_choices,
    N_("What a row is: prompts (with answers), instructions with responses, conversations, pairs of answers, or answers with a label."),
    MORE, ALL, COMBO, 0, NULL },
  { "data.prompt_key", N_("Prompt key"), TEXT, NULL, NULL, 1, 256, NULL,
    N_("Key of the prompt in a row. Unset: guessed."),
    MORE, ALL, ENTRY, 0, "--data.input_key" },
  { "data.answer_key", N_("Answer key"), TEXT, NULL, NULL, 1, 256, NULL,
    N_("Key of the right answer that rewards compare with. Unset: guessed."),
    MORE, ONLINE, ENTRY, 0, "--data.label_key" },
  { "data.response_key", N_("Response key"), TEXT, NULL, NULL, 1, 256, NULL,
    N_("Key of the response that is trained on. Unset: guessed."),
    MORE, ALL, ENTRY, 0, "--data.output_key" },
  { "data.messages_key", N_("Messages key"), TEXT, NULL, NULL, 1, 256, NULL,
    N_("Key of a conversation: messages with role and content. Unset: guessed."),
    MORE, ALL, ENTRY, 0, "--data.input_key" },
  { "data.chosen_key", N_("Chosen key"), TEXT, NULL, NULL, 1, 256, NULL,
    N_("Key of the better answer of a pair. Unset: guessed."),
    MORE, PAIRS, ENTRY, 0, "--data.chosen_key" },
  { "data.rejected_key", N_("Rejected key"), TEXT, NULL, NULL, 1, 256, NULL,
    N_("Key of the worse answer of a pair. Unset: guessed."),
    MORE, PAIRS, ENTRY, 0, "--data.rejected_key" },
  { "data.margin_key", N_("Margin key"), TEXT, NULL, NULL, 1, 256, NULL,
    N_("Key of the number by which the better answer should win. Unset: guessed."),
    EXPERT, PLUMB_ON_RM, ENTRY, 0, NULL },
  { "data.label_key", N_("Label key"), TEXT, NULL, NULL, 1, 256, NULL,
    N_("Key that says whether an answer was liked: true or false, 1 or 0. Unset: guessed."),
    MORE, PLUMB_ON_KTO, ENTRY, 0, "--data.label_key" },
  { "data.prompt_template", N_("Prompt template"), TEXT, NULL, NULL, 0, TEXT_LENGTH, NULL,
    N_("Text around {prompt}, for base models: \"Question: {prompt}\\nAnswer:\". Unset: the model's chat template, else the prompt alone."),
    MORE, ALL, LINES, 0, "--data.input_template" },
  { "data.system", N_("System message"), TEXT, NULL, NULL, 0, TEXT_LENGTH, NULL,
    N_("What the system says first, in conversations that say nothing of the kind themselves."),
    MORE, ALL, LINES, 0, NULL },
  { "data.max_samples", N_("Most rows"), INTEGER, N_("rows"), NULL, 1, ANY_INTEGER, NULL,
    N_("Uses only the first rows. Unset: all."),
    MORE, ALL, SPIN, 0, "--data.max_samples" },
  { "data.max_prompt_length", N_("Longest prompt"), INTEGER, N_("tokens"), NULL, 1, 1 << 24, NULL,
    N_("Longer prompts are treated as overlong. Unset: what the longest sequence leaves."),
    MORE, ALL, SPIN, 0, NULL },
  { "data.on_overlong", N_("Overlong rows"), CHOICE, NULL, "drop", 0, 0, overlong_choices,
    N_("What happens to a prompt that is too long; it is counted in either case."),
    MORE, ALL, COMBO, 0, NULL },
  { "data.shuffle", N_("Shuffle"), BOOLEAN, NULL, "yes", 0, 0, NULL,
    N_("A new order for each pass over the data, following from the seed."),
    MORE, ALL, SWITCH, 0, NULL },
  { "data.train_on", N_("Train on"), CHOICE, NULL, "response", 0, 0, train_on_choices,
    N_("Which tokens are trained: all that the assistant says, everything, or the last answer alone."),
    MORE, SFT, COMBO, 0, "--model.pretrain_mode_enable" },

  { "algorithm.gamma", N_("Discount"), REAL, NULL, "1", 0, 1, NULL,
    N_("How much a reward counts one token earlier."),
    EXPERT, PPO | 1 << PLUMB_ALGORITHM_REINFORCE, SPIN, 0, "--algo.advantage.gamma" },
  { "algorithm.lambda", N_("GAE lambda"), REAL, NULL, "1", 0, 1, NULL,
    N_("1 trusts the rewards, 0 trusts the critic."),
    MORE, PPO, SPIN, 0, "--algo.advantage.lam" },
  { "algorithm.advantage.normalize", N_("Normalize advantages"), CHOICE, NULL, "none", 0, 0, normalize_choices,
    N_("GRPO: takes the group's mean off the reward, and divides by its deviation too. PPO and REINFORCE++: the same over all tokens of the batch."),
    EXPERT, POLICY, COMBO, 0, "--algo.advantage.no_std_norm" },
  { "algorithm.policy_loss", N_("Policy loss"), CHOICE, NULL, "ppo", 0, 0, surrogate_choices,
    N_("What is done with the probability ratio of new to old policy."),
    MORE, POLICY, COMBO, 0, "--actor.policy_loss_type" },
  { "algorithm.clip_low", N_("Clip below"), REAL, NULL, "0.2", 0, 1, NULL,
    N_("The probability ratio is clipped at 1 minus this."),
    MORE, POLICY, SPIN, 0, "--actor.eps_clip_low_high" },
  { "algorithm.clip_high", N_("Clip above"), REAL, NULL, "0.2", 0, 100, NULL,
    N_("The probability ratio is clipped at 1 plus this."),
    MORE, POLICY, SPIN, 0, "--actor.eps_clip_low_high" },
  { "algorithm.dual_clip", N_("Dual clip"), REAL, NULL, "off", 0, 1000, NULL,
    N_("Bounds the loss of bad answers at this multiple of their advantage; above 1, or off."),
    EXPERT, POLICY, SPIN, OFF, "--actor.dual_clip" },
  { "algorithm.aggregate", N_("Aggregate"), CHOICE, NULL, "token", 0, 0, aggregate_choices,
    N_("Mean over all tokens, over sequences of token means, or a sum over a constant count."),
    EXPERT, POLICY, COMBO, 0, NULL },
  { "algorithm.correction", N_("Rollout correction"), CHOICE, NULL, "off", 0, 0, correction_choices,
    N_("Weighs tokens by how likely the trainer finds them against the sampler."),
    EXPERT, POLICY, COMBO, 0, "--algo.advantage.is_correction_type" },
  { "algorithm.correction.low", N_("Correction: lowest weight"), REAL, NULL, "0.5", 0, 1, NULL,
    N_("Lower weights are raised, or dropped, as the correction does it."),
    EXPERT, POLICY, SPIN, 0, "--algo.advantage.is_correction_threshold" },
  { "algorithm.correction.high", N_("Correction: highest weight"), REAL, NULL, "5", 1, 1e6, NULL,
    N_("Higher weights are lowered, or dropped, as the correction does it."),
    EXPERT, POLICY, SPIN, 0, "--algo.advantage.is_correction_threshold" },
  { "algorithm.old_logprobs", N_("Log-probs before the update"), CHOICE, NULL, "auto", 0, 0, old_choices,
    N_("What an update is measured against: pass, the trainer's log-probs by a pass over the batch beforehand; auto, the same, taken from the update's own pass where a step makes only one, which saves the other; sampler, those that generation reported, which saves it always and measures no gap between the two."),
    EXPERT, POLICY, COMBO, 0, NULL },
  { "algorithm.kl.coefficient", N_("KL coefficient"), REAL, NULL, "0.01", 0, 1000, NULL,
    N_("Weight of the pull towards the reference model; 0 needs no reference model."),
    BASIC, POLICY, SPIN, 0, "--algo.kl.init_coef" },
  { "algorithm.kl.estimator", N_("KL estimator"), CHOICE, NULL, NULL, 0, 0, estimator_choices,
    N_("Automatic: k1 in the reward, k3 in the loss."),
    EXPERT, POLICY, COMBO, AUTO, "--algo.kl.estimator" },
  { "algorithm.kl.where", N_("KL belongs to"), CHOICE, NULL, "reward", 0, 0, where_choices,
    N_("Whether the KL term is taken from the reward or added to the loss."),
    EXPERT, POLICY, COMBO, 0, "--algo.kl.use_loss" },
  { "algorithm.kl.unbiased", N_("Unbiased KL"), BOOLEAN, NULL, "no", 0, 0, NULL,
    N_("Weighs the KL term of the loss by the probability ratio, so that its gradient is that of the KL."),
    EXPERT, POLICY, SWITCH, 0, NULL },
  { "algorithm.kl.target", N_("KL target"), REAL, N_("nats"), "off", 0, 1000, NULL,
    N_("Adapts the coefficient so that the KL per token comes near this; off: a fixed coefficient."),
    EXPERT, POLICY, SPIN, OFF, "--algo.kl.target" },
  { "algorithm.kl.horizon", N_("KL horizon"), INTEGER, N_("samples"), "10000", 1, 1e9, NULL,
    N_("Samples over which the coefficient adapts."),
    EXPERT, POLICY, SPIN, 0, "--algo.kl.horizon" },
  { "algorithm.entropy", N_("Entropy bonus"), REAL, NULL, "0", 0, 100, NULL,
    N_("Weight of the mean entropy in the objective."),
    EXPERT, POLICY, SPIN, 0, "--actor.entropy_coef" },
  { "algorithm.value_clip", N_("Clip of values"), REAL, NULL, "0.5", 0, 1000, NULL,
    N_("How far a value may move in one step; 0: anywhere."),
    EXPERT, PPO, SPIN, 0, "--critic.value_clip" },
  { "algorithm.value.loss_weight", N_("Weight of the critic's loss"), REAL, NULL, "1", 0, 1000, NULL,
    N_("Factor of the critic's loss."),
    EXPERT, PPO, SPIN, 0, NULL },
  { "algorithm.critic_warmup_steps", N_("Critic warm-up"), INTEGER, N_("steps"), "0", 0, 1e6, NULL,
    N_("Steps in which only the critic is trained."),
    MORE, PPO, SPIN, 0, "--critic.freezing_steps" },
  { "algorithm.epochs", N_("Passes per batch"), INTEGER, NULL, "1", 1, 1000, NULL,
    N_("How often each batch of rollouts is trained on."),
    MORE, ONLINE, SPIN, 0, "--train.max_epochs" },
  { "algorithm.beta", N_("Beta"), REAL, NULL, "0.1", 0, 1000, NULL,
    N_("How strongly the answers are held to the reference; SimPO: scale of the reward; ORPO: weight of the odds."),
    BASIC, PLUMB_ON_DPO | PLUMB_ON_KTO | PLUMB_ON_ORPO | PLUMB_ON_SIMPO, SPIN, OPEN, "--dpo.beta" },
  { "algorithm.dpo.loss", N_("Pair loss"), CHOICE, NULL, "sigmoid", 0, 0, pair_choices,
    N_("Which function of the two log-ratios is minimised."),
    MORE, PLUMB_ON_DPO, COMBO, 0, "--dpo.ipo_enable" },
  { "algorithm.dpo.label_smoothing", N_("Label smoothing"), REAL, NULL, "0", 0, 0.5, NULL,
    N_("Share of the pairs that may be labelled wrongly."),
    EXPERT, PLUMB_ON_DPO, SPIN, 0, "--dpo.label_smoothing" },
  { "algorithm.dpo.nll", N_("Weight of the likelihood"), REAL, NULL, "0", 0, 1000, NULL,
    N_("Adds the mean negative log-likelihood of the chosen answer."),
    EXPERT, PLUMB_ON_DPO, SPIN, 0, "--dpo.nll_loss_coef" },
  { "algorithm.kto.desirable", N_("Weight of liked answers"), REAL, NULL, "1", 0, 1000, NULL,
    N_("Factor of the loss of liked answers."),
    MORE, PLUMB_ON_KTO, SPIN, 0, NULL },
  { "algorithm.kto.undesirable", N_("Weight of disliked answers"), REAL, NULL, "1", 0, 1000, NULL,
    N_("Factor of the loss of disliked answers."),
    MORE, PLUMB_ON_KTO, SPIN, 0, NULL },
  { "algorithm.kto.paired", N_("Paired"), BOOLEAN, NULL, "no", 0, 0, NULL,
    N_("Measures liked answers against the disliked ones of the batch, instead of mismatched answers."),
    EXPERT, PLUMB_ON_KTO, SWITCH, 0, NULL },
  { "algorithm.simpo.margin", N_("Margin"), REAL, NULL, "0.5", 0, 1000, NULL,
    N_("By how much the chosen answer should win."),
    MORE, PLUMB_ON_SIMPO, SPIN, 0, NULL },
  { "algorithm.rm.loss", N_("Reward loss"), CHOICE, NULL, "sigmoid", 0, 0, rm_choices,
    N_("Which function of the difference of two scores is minimised."),
    EXPERT, PLUMB_ON_RM, COMBO, 0, "--rm.loss_type" },
  { "algorithm.rm.margin", N_("Use margins"), BOOLEAN, NULL, "no", 0, 0, NULL,
    N_("Asks the chosen answer to win by the margin of its row."),
    EXPERT, PLUMB_ON_RM, SWITCH, 0, "--rm.margin_loss_enable" },
  { "algorithm.iterative.rounds", N_("Rounds"), INTEGER, NULL, "3", 1, 1e6, NULL,
    N_("Into how many rounds the run is divided; a moving reference is renewed at each."),
    MORE, PLUMB_ON_ITERATIVE, SPIN, 0, NULL },
  { "algorithm.iterative.reference", N_("Reference of a round"), CHOICE, NULL, "fixed", 0, 0, iterative_choices,
    N_("The first model throughout, or the policy as each round finds it."),
    MORE, PLUMB_ON_ITERATIVE, COMBO, 0, NULL },
  { "algorithm.dynamic_sampling", N_("Dynamic sampling"), BOOLEAN, NULL, "no", 0, 0, NULL,
    N_("Replaces prompts whose answers all get the same reward by new ones; what was accepted is kept."),
    MORE, GROUPS, SWITCH, 0, "--algo.dynamic_filtering_enable" },
  { "algorithm.dynamic_sampling.low", N_("Lowest mean reward"), REAL, NULL, "0", -UNBOUNDED, UNBOUNDED, NULL,
    N_("Prompts are kept while their mean reward lies above this."),
    EXPERT, GROUPS, ENTRY, 0, "--algo.dynamic_filtering_range" },
  { "algorithm.dynamic_sampling.high", N_("Highest mean reward"), REAL, NULL, "1", -UNBOUNDED, UNBOUNDED, NULL,
    N_("Prompts are kept while their mean reward lies below this."),
    EXPERT, GROUPS, ENTRY, 0, "--algo.dynamic_filtering_range" },

  { "rollout.prompts_per_step", N_("Prompts per step"), INTEGER, N_("prompts"), "128", 1, 1e6, NULL,
    N_("Prompts that each step generates completions for."),
    BASIC, ONLINE, SPIN, 0, "--rollout.batch_size" },
  { "rollout.samples", N_("Samples per prompt"), INTEGER, N_("completions"), "8", 1, 4096, NULL,
    N_("Completions of each prompt; they are compared with each other."),
    BASIC, ONLINE, SPIN, 0, "--rollout.n_samples_per_prompt" },
  { "rollout.max_new_tokens", N_("Longest response"), INTEGER, N_("tokens"), "1024", 1, 1 << 24, NULL,
    N_("Completions are cut here."),
    BASIC, ONLINE, SPIN, 0, "--rollout.max_new_tokens" },
  { "rollout.min_new_tokens", N_("Shortest response"), INTEGER, N_("tokens"), "1", 1, 1 << 24, NULL,
    N_("No completion ends before this many tokens."),
    EXPERT, ONLINE, SPIN, 0, NULL },
  { "rollout.temperature", N_("Temperature"), REAL, NULL, "1", 0, 100, NULL,
    N_("Of the sampling; log-probabilities are those after it."),
    BASIC, ONLINE, SPIN, OPEN, "--rollout.temperature" },
  { "rollout.top_k", N_("Likeliest tokens"), INTEGER, N_("tokens"), "0", 0, 1 << 24, NULL,
    N_("Only the likeliest so many tokens are drawn; 0: all."),
    EXPERT, ONLINE, SPIN, 0, NULL },
  { "rollout.top_p", N_("Likeliest share"), REAL, NULL, "1", 0, 1, NULL,
    N_("Only the likeliest tokens that together reach this probability are drawn; 1: all."),
    EXPERT, ONLINE, SPIN, OPEN, "--rollout.top_p" },
  { "rollout.min_p", N_("Least share of the likeliest"), REAL, NULL, "0", 0, 1, NULL,
    N_("Tokens less likely than this share of the likeliest are not drawn; 0: all."),
    EXPERT, ONLINE, SPIN, 0, NULL },
  { "rollout.repetition_penalty", N_("Repetition penalty"), REAL, NULL, "1", 0, 100, NULL,
    N_("Tokens that the text holds already become less likely by this factor of their score; 1: off."),
    EXPERT, ONLINE, SPIN, OPEN, NULL },
  { "rollout.stop", N_("Stop at"), TEXTS, NULL, NULL, 0, 256, NULL,
    N_("Texts that end a completion. Unset: the model's end-of-sequence tokens alone."),
    MORE, ONLINE, ENTRY, 0, NULL },
  { "rollout.environment", N_("Environment"), TEXT, NULL, NULL, 0, 4096, NULL,
    N_("A program that answers each turn of the model with an observation: JSON lines. Unset: single answers."),
    MORE, POLICY, ENTRY, 0, "--train.agent_func_path" },
  { "rollout.environment.max_turns", N_("Most turns"), INTEGER, N_("turns"), "8", 1, 10000, NULL,
    N_("Answers that the model gives in one episode, at most."),
    MORE, POLICY, SPIN, 0, NULL },
  { "rollout.max_running", N_("Sequences at once"), INTEGER, N_("sequences"), NULL, 1, 65536, NULL,
    N_("Sequences decoded at the same time. Automatic: what memory allows."),
    EXPERT, ONLINE, SPIN, AUTO, "--rollout.vllm_generate_batch_size" },
  { "rollout.page_tokens", N_("Tokens per page"), INTEGER, N_("tokens"), "64", 1, 4096, NULL,
    N_("Size of a page of the key-value cache."),
    EXPERT, ONLINE, SPIN, 0, NULL },
  { "rollout.kv_memory", N_("Cache memory"), REAL, N_("share"), NULL, 0, 1, NULL,
    N_("Share of the free memory that the key-value cache may take."),
    EXPERT, ONLINE, SPIN, AUTO | OPEN, "--vllm.gpu_memory_utilization" },
  { "rollout.kv_type", N_("Cache type"), CHOICE, NULL, "model", 0, 0, rounding_choices,
    N_("How keys and values are stored while generating: as the model computes, or fp8 (e4m3, a scale per token and group of heads), half of bf16's memory. Log-probs then differ a little from the trainer's: set a rollout correction with it."),
    EXPERT, ONLINE, COMBO, 0, NULL },
  { "rollout.weights", N_("Weights for generating"), CHOICE, NULL, "model", 0, 0, rounding_choices,
    N_("Which weights the products of generation use: the model's, or fp8, an e4m3 copy of the blocks' weights with a scale per output, made after each update; embedding and head stay as they are. A GPU takes the copy where it measures that it is faster, and from two samples at a time rounds what is multiplied with it in the same way; on a CPU and in deterministic mode it costs time. Log-probs then differ from the trainer's: set a rollout correction with it."),
    EXPERT, ONLINE, COMBO, 0, NULL },
  { "rollout.async", N_("Generate ahead"), BOOLEAN, NULL, "no", 0, 0, NULL,
    N_("A worker of its own generates for the next steps while one is trained. Set a rollout correction with it."),
    MORE, ONLINE, SWITCH, 0, "--train.async_enable" },
  { "rollout.max_staleness", N_("Oldest completions"), INTEGER, N_("versions"), "1", 1, 1000, NULL,
    N_("By how many steps the weights that generated may be older than those that are trained; generation ahead is held back for it."),
    MORE, ONLINE, SPIN, 0, "--train.async_queue_size" },
  { "rollout.partial", N_("Partial completions"), BOOLEAN, NULL, "no", 0, 0, NULL,
    N_("New weights are taken in the middle of completions, which go on with them; their cached keys and values stay those of the old weights. Else a batch is finished first."),
    MORE, ONLINE, SWITCH, 0, "--train.partial_rollout_enable" },
  { "rollout.timeout", N_("Patience"), REAL, N_("s"), "600", 0, 1e6, NULL,
    N_("Where no completion comes for so long, the worker that generates ahead is replaced and its prompts are given out again; off: never."),
    EXPERT, ONLINE, SPIN, OFF, NULL },

  { "train.batch", N_("Batch"), INTEGER, N_("sequences"), "128", 1, 1e6, NULL,
    N_("Sequences per optimizer step."),
    BASIC, ALL, SPIN, 0, "--train.batch_size" },
  { "train.tokens_per_micro_batch", N_("Tokens per micro-batch"), INTEGER, N_("tokens"), NULL, 1, 1 << 26, NULL,
    N_("Tokens that go through the model at once. It changes speed and memory, never the result."),
    EXPERT, ALL, SPIN, AUTO, "--train.max_tokens_per_gpu" },
  { "train.recompute", N_("Recompute"), CHOICE, NULL, NULL, 0, 0, recompute_choices,
    N_("What the backward pass computes again instead of keeping it: norms and activations, which saves a third of that memory for hardly any time, or whole blocks, for about a fifth more. It never changes the result. Automatic: the least that memory asks for."),
    EXPERT, ALL, COMBO, AUTO, "--actor.gradient_checkpointing_enable" },
  { "train.offload", N_("Off-load"), CHOICE, NULL, "none", 0, 0, offload_choices,
    N_("Keeps the optimizer's moments and master weights in the host's memory; each update then reads and writes them over the bus. It never changes the result."),
    EXPERT, ALL, COMBO, 0, "--ds.adam_offload" },
  { "train.learning_rate", N_("Learning rate"), REAL, NULL, "1e-6", 0, 1, NULL,
    N_("Its peak, after the warm-up."),
    BASIC, ALL, ENTRY, OPEN, "--actor.adam.lr" },
  { "train.critic_learning_rate", N_("Critic's learning rate"), REAL, NULL, "9e-6", 0, 1, NULL,
    N_("Peak learning rate of the critic."),
    MORE, PPO, ENTRY, OPEN, "--critic.adam.lr" },
  { "train.betas", N_("Betas"), REALS, NULL, "0.9, 0.95", 0, 1, NULL,
    N_("The two decay rates of Adam."),
    EXPERT, ALL, ENTRY, 0, "--actor.adam.betas" },
  { "train.epsilon", N_("Epsilon"), REAL, NULL, "1e-8", 0, 1, NULL,
    N_("Added to the denominator of Adam."),
    EXPERT, ALL, ENTRY, OPEN, "--actor.adam.eps" },
  { "train.weight_decay", N_("Weight decay"), REAL, NULL, "0", 0, 10, NULL,
    N_("On matrices only."),
    MORE, ALL, SPIN, 0, "--actor.adam.weight_decay" },
  { "train.max_grad_norm", N_("Clip gradient norm"), REAL, NULL, "1", 0, UNBOUNDED, NULL,
    N_("Longer gradients are scaled down to this length; off: never."),
    MORE, ALL, SPIN, OFF, "--actor.max_norm" },
  { "train.schedule", N_("Schedule"), CHOICE, NULL, "cosine_floor", 0, 0, schedule_choices,
    N_("How the learning rate falls; cosine_floor ends at a tenth of the peak."),
    MORE, ALL, COMBO, 0, "--actor.lr_scheduler" },
  { "train.warmup", N_("Learning-rate warm-up"), REAL, NULL, "0.03", 0, 1e9, NULL,
    N_("Share of all updates over which the learning rate rises; a number of updates if 1 or more."),
    MORE, ALL, SPIN, 0, "--actor.lr_warmup_ratio" },
  { "train.nan_limit", N_("Limit of bad steps"), INTEGER, N_("steps"), "3", 0, 1e6, NULL,
    N_("Updates without a finite gradient are skipped; more than this many in a row end the run."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "train.divergence", N_("Divergence"), REAL, NULL, "off", 1, UNBOUNDED, NULL,
    N_("A step is bad, too, where its gradient norm is this many times the median of the last fifty; off: never."),
    EXPERT, ALL, SPIN, OFF, NULL },
  { "train.rollback", N_("Rollbacks"), INTEGER, N_("times"), "0", 0, 1e6, NULL,
    N_("How often the run goes back to its last good checkpoint where there are too many bad steps, and leaves out the data up to them, instead of ending."),
    MORE, ALL, SPIN, 0, NULL },

  { "reward.functions", N_("Reward functions"), TEXTS, NULL, NULL, 0, 256, reward_choices,
    N_("What scores a completion, each with an optional :weight. Options stand in [reward NAME]."),
    BASIC, REWARDED, ENTRY, 0, "--reward.remote_url" },
  { "reward.clip", N_("Clip reward"), REALS, NULL, "-10, 10", -UNBOUNDED, UNBOUNDED, NULL,
    N_("Lowest and highest reward after the baseline."),
    EXPERT, REWARDED, ENTRY, 0, "--reward.clip_range" },
  { "reward.truncated", N_("Cut responses"), REAL, NULL, "off", -UNBOUNDED, 1, NULL,
    N_("From 0 to 1: multiplies the reward of a cut response. Below 0: replaces it."),
    MORE, REWARDED, ENTRY, OFF, "--reward.stop_properly_penalty_coef" },
  { "reward.normalize", N_("Normalize the reward model"), BOOLEAN, NULL, "no", 0, 0, NULL,
    N_("By the mean and deviation that were stored when the reward model was trained."),
    MORE, REWARDED, SWITCH, 0, "--reward.normalize_enable" },
  { "reward.overlong_buffer", N_("Overlong buffer"), INTEGER, N_("tokens"), "off", 0, 1 << 24, NULL,
    N_("Responses lose reward in proportion as they reach into the last tokens before the limit."),
    MORE, REWARDED, SPIN, OFF, "--reward.overlong_buffer_len" },
  { "reward.overlong_factor", N_("Overlong factor"), REAL, NULL, "1", 0, 1e6, NULL,
    N_("What a response at the limit loses."),
    EXPERT, REWARDED, SPIN, 0, "--reward.overlong_penalty_factor" },
  { "reward.timeout", N_("Timeout"), REAL, N_("s"), "30", 0, 86400, NULL,
    N_("A call that takes longer has failed."),
    EXPERT, REWARDED, SPIN, OPEN, NULL },
  { "reward.retries", N_("Retries"), INTEGER, NULL, "3", 0, 100, NULL,
    N_("How often a call is repeated: of a server after it failed, each time after a longer pause; of a program after it ended."),
    EXPERT, REWARDED, SPIN, 0, NULL },
  { "reward.failure_limit", N_("Limit of steps without reward"), INTEGER, N_("steps"), "3", 0, 1e6, NULL,
    N_("More than this many steps in a row in which every reward failed end the run; its checkpoint is kept."),
    EXPERT, REWARDED, SPIN, 0, NULL },
  { "reward.parallel", N_("Calls at once"), INTEGER, NULL, NULL, 1, 1024, NULL,
    N_("Completions that are scored at the same time. Automatic: one a processor, 64 for servers."),
    EXPERT, REWARDED, SPIN, AUTO, NULL },

  { "placement.policy", N_("Device"), TEXT, NULL, NULL, 0, 64, NULL,
    N_("cpu, or cuda:N for a GPU. Automatic: the first GPU where there is one, else the CPU."),
    MORE, ALL, ENTRY, AUTO, NULL },
  { "placement.rollout", N_("Device that generates ahead"), TEXT, NULL, NULL, 0, 64, NULL,
    N_("For rollout.async: cpu or cuda:N. Automatic: the GPU after those that train where there is one, else the last of them."),
    EXPERT, ONLINE, ENTRY, AUTO, NULL },
  { "placement.critic", N_("Device of the critic"), TEXT, NULL, "same", 0, 64, NULL,
    N_("same: with the policy. cpu or cuda:N: in a process of its own there, which works beside the policy's."),
    EXPERT, PPO, ENTRY, 0, NULL },
  { "placement.reference", N_("Device of the reference"), TEXT, NULL, "same", 0, 64, NULL,
    N_("same: with the policy. cpu or cuda:N: in a process of its own there, which works beside the policy's."),
    EXPERT, REFERENCE, ENTRY, 0, NULL },
  { "placement.reward", N_("Device of the reward model"), TEXT, NULL, "same", 0, 64, NULL,
    N_("same: with the policy. cpu or cuda:N: in a process of its own there, which works beside the policy's."),
    EXPERT, REWARDED, ENTRY, 0, NULL },
  { "placement.workers", N_("Workers"), INTEGER, N_("processes"), "1", 1, 64, NULL,
    N_("Processes that share the work on this machine. Each holds the models; their gradients are added up. The cores are divided among them; with GPUs each takes one, from the device on."),
    MORE, ALL, SPIN, 0, "--actor.num_gpus_per_node" },
  { "placement.together", N_("Take turns"), BOOLEAN, NULL, NULL, 0, 0, NULL,
    N_("While completions are generated the trainer gives the memory of its activations back, and while it trains the key-value cache is given back. Automatic: where both do not fit side by side."),
    EXPERT, ONLINE, SWITCH, AUTO, "--vllm.enable_sleep" },
  { "placement.timeout", N_("Patience"), REAL, N_("s"), "600", 0, 1e6, NULL,
    N_("A worker process that says nothing for so long while it works is given up; off: never."),
    EXPERT, ALL, SPIN, OFF, NULL },

  { "schedule.steps", N_("Steps"), INTEGER, N_("steps"), "0", 0, 1e9, NULL,
    N_("How many steps to train; 0: as the epochs say."),
    BASIC, ALL, SPIN, 0, NULL },
  { "schedule.epochs", N_("Epochs"), REAL, NULL, "1", 0, 1e6, NULL,
    N_("Passes over the training data, where steps is 0."),
    BASIC, ALL, SPIN, OPEN, "--train.num_episodes" },
  { "schedule.stop_at", N_("Stop at"), TEXT, NULL, "off", 0, 64, NULL,
    N_("A time, like 18:00 or 2026-12-01 06:30: the run stops with a checkpoint before it."),
    MORE, ALL, ENTRY, OFF, NULL },
  { "schedule.max_hours", N_("Longest time"), REAL, N_("h"), "off", 0, 1e6, NULL,
    N_("The run stops with a checkpoint before it has taken so long, all its attempts together."),
    MORE, ALL, SPIN, OFF, NULL },
  { "schedule.stop_if", N_("Stop if"), TEXTS, NULL, NULL, 0, 256, NULL,
    N_("Conditions that end the run, like: kl/reference > 0.2 for 10, reward/mean >= 0.95 for 5."),
    MORE, ALL, ENTRY, 0, NULL },

  { "checkpoint.every", N_("Checkpoint every"), INTEGER, N_("steps"), "50", 0, 1e9, NULL,
    N_("Steps between checkpoints; 0: at the end alone."),
    MORE, ALL, SPIN, 0, "--ckpt.save_steps" },
  { "checkpoint.keep", N_("Checkpoints kept"), INTEGER, NULL, "3", 1, 1e6, NULL,
    N_("Older ones are removed."),
    MORE, ALL, SPIN, 0, "--ckpt.max_num" },
  { "checkpoint.best_metric", N_("Best by"), TEXT, NULL, NULL, 1, 128, NULL,
    N_("The metric by which the best checkpoint is chosen and kept. Automatic: of the evaluation, else the reward or the loss."),
    MORE, ALL, ENTRY, AUTO, "--ckpt.best_metric_key" },
  { "checkpoint.export", N_("Export"), CHOICE, NULL, "end", 0, 0, export_choices,
    N_("When a Hugging Face folder of the model is written."),
    MORE, ALL, COMBO, 0, "--ckpt.save_hf" },

  { "eval.every", N_("Evaluate every"), INTEGER, N_("steps"), "off", 0, 1e9, NULL,
    N_("Steps between evaluations; off: never."),
    MORE, ALL, SPIN, OFF, "--eval.steps" },
  { "eval.samples", N_("Samples per prompt"), INTEGER, N_("completions"), "4", 1, 4096, NULL,
    N_("Completions of each prompt of an evaluation."),
    MORE, ALL, SPIN, 0, "--eval.n_samples_per_prompt" },
  { "eval.temperature", N_("Temperature"), REAL, NULL, "0.6", 0, 100, NULL,
    N_("Of the sampling in an evaluation; 0 takes the likeliest token."),
    MORE, ALL, SPIN, 0, "--eval.temperature" },
  { "eval.top_k", N_("Likeliest tokens"), INTEGER, N_("tokens"), "0", 0, 1 << 24, NULL,
    N_("Only the likeliest so many tokens are drawn; 0: all."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "eval.top_p", N_("Likeliest share"), REAL, NULL, "1", 0, 1, NULL,
    N_("Only the likeliest tokens that together reach this probability are drawn; 1: all."),
    EXPERT, ALL, SPIN, OPEN, NULL },
  { "eval.min_p", N_("Least share of the likeliest"), REAL, NULL, "0", 0, 1, NULL,
    N_("Tokens less likely than this share of the likeliest are not drawn; 0: all."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "eval.repetition_penalty", N_("Repetition penalty"), REAL, NULL, "1", 0, 100, NULL,
    N_("Tokens that the text holds already become less likely by this factor of their score; 1: off."),
    EXPERT, ALL, SPIN, OPEN, NULL },
  { "eval.max_prompts", N_("Most prompts"), INTEGER, N_("prompts"), "256", 1, 1e9, NULL,
    N_("Prompts of each data set that are evaluated."),
    MORE, ALL, SPIN, 0, NULL },

  { "telemetry.samples_per_step", N_("Samples kept per step"), INTEGER, NULL, "64", -1, 1e9, NULL,
    N_("Completions that are kept for reading; -1: all."),
    EXPERT, ALL, SPIN, 0, NULL },
  { "telemetry.token_detail", N_("Detail per token"), BOOLEAN, NULL, "yes", 0, 0, NULL,
    N_("Keeps log-probability, KL and advantage of each token of a kept completion."),
    EXPERT, ONLINE, SWITCH, 0, NULL },
  { "telemetry.max_size", N_("Size limit"), INTEGER, N_("bytes"), "2 GiB", 1 << 20, ANY_INTEGER, NULL,
    N_("Largest size of the kept completions; beyond it old steps are thinned."),
    EXPERT, ALL, ENTRY, 0, NULL },
};
/* clang-format on */

/* Defaults that differ from the row's own. */
static const struct
{
  int algorithms; /* a later row wins */
  const char *key;
  const char *standard;
} algorithm_defaults[] = {
  { PLUMB_ON_OFFLINE, "train.learning_rate", "1e-5" },
  { PLUMB_ON_SFT | PLUMB_ON_REJECTION, "train.learning_rate", "5e-6" },
  { PLUMB_ON_RM, "train.learning_rate", "9e-6" },
  { PLUMB_ON_ITERATIVE, "train.learning_rate", "5e-7" },
  { PLUMB_ON_PPO | 1 << PLUMB_ALGORITHM_REINFORCE, "rollout.samples", "1" },
  { PLUMB_ON_DISTILL | 1 << PLUMB_ALGORITHM_REMAX, "rollout.samples", "1" },
  { 1 << PLUMB_ALGORITHM_GRPO | 1 << PLUMB_ALGORITHM_DR_GRPO, "algorithm.kl.where", "loss" },
  { PLUMB_ON_PPO | 1 << PLUMB_ALGORITHM_REINFORCE | 1 << PLUMB_ALGORITHM_REINFORCE_BASELINE
        | 1 << PLUMB_ALGORITHM_GRPO,
    "algorithm.advantage.normalize", "mean_std" },
  { 1 << PLUMB_ALGORITHM_DR_GRPO, "algorithm.advantage.normalize", "mean" },
  { 1 << PLUMB_ALGORITHM_DR_GRPO, "algorithm.aggregate", "constant" },
  { PLUMB_ON_DISTILL, "algorithm.kl.coefficient", "1" },
  { PLUMB_ON_KTO, "algorithm.beta", "0.01" },
  { PLUMB_ON_SIMPO, "algorithm.beta", "2" },
};

const PlumbField *
plumb_fields (gsize *n)
{
  *n = G_N_ELEMENTS (fields);
  return fields;
}

const PlumbFieldGroup *
plumb_field_groups (gsize *n)
{
  *n = G_N_ELEMENTS (groups);
  return groups;
}

const PlumbField *
plumb_field_find (const char *key)
{
  static gsize once;
  static GHashTable *by_key;

  if (g_once_init_enter (&once))
    {
      by_key = g_hash_table_new (g_str_hash, g_str_equal);
      for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
        g_hash_table_insert (by_key, (gpointer)fields[i].key, (gpointer)&fields[i]);
      g_once_init_leave (&once, 1);
    }
  return g_hash_table_lookup (by_key, key);
}

gsize
plumb_field_group_length (const char *key)
{
  return strcspn (key, ".");
}

const char *
plumb_field_default (const PlumbField *field, PlumbAlgorithm algorithm)
{
  for (gsize i = G_N_ELEMENTS (algorithm_defaults); i-- > 0;)
    if (PLUMB_IS_ON (algorithm, algorithm_defaults[i].algorithms)
        && g_str_equal (algorithm_defaults[i].key, field->key))
      return algorithm_defaults[i].standard;
  return field->flags & PLUMB_FIELD_AUTO ? "auto" : field->standard;
}

const char *
plumb_algorithm_name (PlumbAlgorithm algorithm)
{
  g_return_val_if_fail ((guint)algorithm < PLUMB_N_ALGORITHMS, "");
  return algorithm_choices[algorithm];
}
