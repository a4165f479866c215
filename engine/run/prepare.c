/* SPDX-License-Identifier: Apache-2.0 */

/* Everything that is opened before the first step: model, tokenizer, data, rewards, worker. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/model/export.h"
#include "engine/run/placement.h"
#include "engine/run/prepare.h"

#define DEFAULT_MICRO_BATCH 4096 /* tokens */
#define DEFAULT_RUNNING 256      /* sequences */
#define GPU_RUNNING 512          /* sequences: products of more rows take hardly longer */
#define GPU_PREFILL_TOKENS 8192
#define START_FOLDER "start"

static char *
weights_path (const char *folder)
{
  return g_build_filename (folder, "model.safetensors", NULL);
}

/* A made model is a Hugging Face folder like any other: RUN/start. Here all of it but the weights. */
static gboolean
describe_start_model (PlumbSpec *spec, const char *folder, GError **error)
{
  g_autofree char *config_path = g_build_filename (folder, "config.json", NULL);
  if (g_mkdir_with_parents (folder, 0755) != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: cannot make the folder: %s", folder,
                   g_strerror (errno));
      return FALSE;
    }
  if (!plumb_tokenizer_write_bytes (folder, (guint) plumb_spec_get_integer (spec, "model.new.vocab"), error))
    return FALSE;
  g_autoptr (PlumbModelConfig) config = plumb_model_config_new (
      (int) plumb_spec_get_integer (spec, "model.new.width"),
      (int) plumb_spec_get_integer (spec, "model.new.layers"),
      (int) plumb_spec_get_integer (spec, "model.new.heads"),
      (int) plumb_spec_get_integer (spec, "model.new.kv_heads"),
      (int) plumb_spec_get_integer (spec, "model.new.mlp"),
      (int) plumb_spec_get_integer (spec, "model.new.vocab"),
      (int) plumb_spec_get_integer (spec, "model.max_length"), error);
  if (!config)
    return FALSE;
  gint32 eos = PLUMB_BYTES_EOS;
  config->bos = PLUMB_BYTES_BOS;
  g_array_append_val (config->eos, eos);
  g_autofree char *json = plumb_model_config_to_json (config);
  return g_file_set_contents (config_path, json, -1, error);
}

gboolean
plumb_run_inputs_make_model (const PlumbRunInputs *in, GError **error)
{
  if (!in->to_make)
    return TRUE;
  g_autofree char *path = weights_path (in->start_model);
  PlumbModelConfig *config = plumb_model_config_load (in->start_model, error);
  g_autoptr (PlumbDevice) device = config ? plumb_device_open ("cpu", 1 << 20, error) : NULL;
  if (!device)
    {
      plumb_model_config_free (config);
      return FALSE;
    }
  g_autoptr (PlumbModel) model
      = plumb_model_new (device, config, DEV_F32, 0, (guint64) plumb_spec_get_integer (in->spec, "run.seed"), error);
  return model && plumb_weights_save (device, model->table, plumb_model_weights (model), DEV_F32, path, error);
}

static gboolean
find_start_model (PlumbRunInputs *in, const char *dir, GError **error)
{
  in->start_model = g_strdup (plumb_spec_get_text (in->spec, "model.policy"));
  if (in->start_model)
    return TRUE;
  in->start_model = g_build_filename (dir, START_FOLDER, NULL);
  g_autofree char *weights = weights_path (in->start_model);
  in->to_make = !g_file_test (weights, G_FILE_TEST_EXISTS);
  return !in->to_make || describe_start_model (in->spec, in->start_model, error);
}

/* rollout.stop as ids: numbers, or texts that are one token; without it the model's own EOS ids. */
static GArray *
find_stop_ids (PlumbSpec *spec, PlumbTokenizer *tokenizer, GError **error)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_auto (GStrv) stops = plumb_spec_get_list (spec, "rollout.stop");
  gsize n = 0;
  const gint32 *eos = plumb_tokenizer_eos (tokenizer, &n);
  g_array_append_vals (ids, eos, (guint) n);
  if (stops[0])
    g_array_set_size (ids, 0);
  for (int i = 0; stops[i]; i++)
    {
      g_autoptr (GArray) encoded = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_autofree char *text = g_strcompress (stops[i]);
      gint64 number = -1;
      if (g_ascii_string_to_signed (stops[i], 10, 0, plumb_tokenizer_vocab_size (tokenizer) - 1, &number, NULL))
        {
          gint32 id = (gint32) number;
          g_array_append_val (ids, id);
          continue;
        }
      if (!plumb_tokenizer_encode (tokenizer, text, -1, FALSE, encoded, error))
        return NULL;
      gint32 id = plumb_tokenizer_find (tokenizer, text);
      if (id < 0 && encoded->len == 1)
        id = g_array_index (encoded, gint32, 0);
      if (id < 0)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "rollout.stop: \"%s\" is %u tokens of this model; name a text that is one token, or an id",
                       stops[i], encoded->len);
          return NULL;
        }
      g_array_append_val (ids, id);
    }
  return g_steal_pointer (&ids);
}

static void
eval_set_free (gpointer data)
{
  PlumbEvalSet *self = data;
  g_free (self->name);
  g_clear_pointer (&self->set, plumb_data_set_unref);
  g_free (self);
}

static gboolean
is_taken (GPtrArray *sets, const char *name)
{
  for (guint i = 0; i < sets->len; i++)
    if (g_str_equal (((PlumbEvalSet *) g_ptr_array_index (sets, i))->name, name))
      return TRUE;
  return FALSE;
}

/* "data/gsm8k.test.jsonl" is called gsm8k.test, "builtin:arithmetic" arithmetic; a second of a name gets a number. */
static char *
name_of_set (const char *path, GPtrArray *others)
{
  static const char *const suffixes[] = { ".gz", ".zst", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".txt" };
  g_autofree char *base = g_path_get_basename (path);
  char *colon = strrchr (base, ':');
  g_autofree char *name = g_strdup (colon ? colon + 1 : base);
  for (gsize i = 0; i < G_N_ELEMENTS (suffixes); i++)
    if (g_str_has_suffix (name, suffixes[i]) && strlen (name) > strlen (suffixes[i]))
      name[strlen (name) - strlen (suffixes[i])] = '\0';
  g_strdelimit (name, "/", '-');
  g_autofree char *free_name = g_strdup (name);
  for (int number = 2; is_taken (others, free_name); number++)
    {
      g_free (free_name);
      free_name = g_strdup_printf ("%s-%d", name, number);
    }
  return g_steal_pointer (&free_name);
}

/* Text files and builtin problems have neither pairs nor labels. */
static gboolean
check_kind (PlumbRunInputs *in, PlumbDataSet *set, const char *key, PlumbDataPurpose purpose, GError **error)
{
  PlumbAlgorithm algorithm = plumb_spec_algorithm (in->spec);
  gboolean pairs = PLUMB_IS_ON (algorithm, PLUMB_ON_PAIRS), liked = PLUMB_IS_ON (algorithm, PLUMB_ON_KTO);
  if (purpose == PLUMB_DATA_WARMUP || (!pairs && !liked))
    return TRUE;
  g_autoptr (PlumbDataRow) row = plumb_data_set_get (set, 0, error);
  if (!row)
    return FALSE;
  if (row->response_ids && (pairs ? row->rejected_ids != NULL : row->labelled))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "%s: %s has no %s; %s trains on rows with keys, like those of a JSONL file", key, row->file,
               pairs ? "pairs of answers" : "answers with labels", plumb_algorithm_name (algorithm));
  return FALSE;
}

static PlumbDataSet *
open_one (PlumbRunInputs *in, const char *key, const char *only, PlumbDataPurpose purpose, GError **error)
{
  g_auto (PlumbDataOptions) options = { 0 };
  plumb_data_options_from_spec (&options, in->spec, key, purpose);
  if (only)
    {
      const char *paths[] = { only, NULL };
      g_strfreev (options.paths);
      options.paths = g_strdupv ((char **) paths);
    }
  options.keys.need_answer = purpose != PLUMB_DATA_WARMUP && in->reward && plumb_reward_needs_answer (in->reward);
  options.keys.keep_row = in->reward && plumb_reward_needs_row (in->reward);
  options.chat = in->chat;
  g_autoptr (PlumbDataSet) set = plumb_data_set_open (&options, in->tokenizer, in->reports, error);
  if (!set && error && !g_str_has_prefix ((*error)->message, key))
    g_prefix_error (error, "%s: ", key);
  return set && check_kind (in, set, key, purpose, error) ? g_steal_pointer (&set) : NULL;
}

/* Each path of data.eval is a set of its own. */
static gboolean
open_evals (PlumbRunInputs *in, GError **error)
{
  g_auto (GStrv) paths = plumb_spec_get_list (in->spec, "data.eval");
  in->evals = g_ptr_array_new_with_free_func (eval_set_free);
  for (gsize i = 0; paths[i]; i++)
    {
      double weight;
      g_autofree char *path = plumb_spec_split_weight (paths[i], &weight);
      PlumbDataSet *set = open_one (in, "data.eval", path, PLUMB_DATA_EVAL, error);
      if (!set)
        return FALSE;
      PlumbEvalSet *eval = g_new0 (PlumbEvalSet, 1);
      eval->set = set;
      eval->name = name_of_set (path, in->evals);
      g_ptr_array_add (in->evals, eval);
    }
  return TRUE;
}

/* The chat template that the spec names, or the model's. */
static gboolean
open_chat (PlumbRunInputs *in, GError **error)
{
  const char *path = plumb_spec_get_text (in->spec, "model.chat_template");
  if (!path)
    return plumb_template_find (in->start_model, &in->chat, error);
  in->chat = plumb_template_load (path, error);
  if (!in->chat)
    g_prefix_error (error, "model.chat_template: ");
  return in->chat != NULL;
}

static gboolean
open_all_data (PlumbRunInputs *in, GError **error)
{
  gboolean online = plumb_recipe (plumb_spec_algorithm (in->spec))->online;
  if (!open_chat (in, error))
    return FALSE;
  in->train = open_one (in, "data.train", NULL, PLUMB_DATA_TRAIN, error);
  if (!in->train)
    return FALSE;
  if (!open_evals (in, error))
    return FALSE;
  if (online && plumb_spec_get_integer (in->spec, "warmup.steps") > 0
      && !(in->warmup = open_one (in, "warmup.data", NULL, PLUMB_DATA_WARMUP, error)))
    return FALSE;
  return TRUE;
}

/* model.reference where it names a folder; NULL: the policy as the reinforcement finds it. */
static const char *
reference_folder (PlumbSpec *spec)
{
  return plumb_spec_is_auto (spec, "model.reference") ? NULL : plumb_spec_get_text (spec, "model.reference");
}

/* The config of a model whose files hold the weights that it describes. */
static PlumbModelConfig *
open_model (const char *dir, GError **error)
{
  g_autoptr (PlumbModelConfig) config = plumb_model_config_load (dir, error);
  g_autoptr (PlumbSafetensors) tensors = config ? plumb_safetensors_open_model (dir, error) : NULL;
  g_autoptr (PlumbWeightTable) table = tensors ? plumb_weight_table_new (config) : NULL;
  return table && plumb_weights_check (table, config, tensors, error) ? g_steal_pointer (&config) : NULL;
}

static gboolean
check_reference (PlumbSpec *spec, const PlumbModelConfig *policy, GError **error)
{
  const char *dir = reference_folder (spec);
  if (!dir || !plumb_recipe_needs_reference (spec))
    return TRUE;
  g_autoptr (PlumbModelConfig) config = open_model (dir, error);
  if (config && config->vocabulary != policy->vocabulary)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "model.reference: %s has a vocabulary of %d and the model one of %d; it must be a model with the "
                 "same tokens", dir, config->vocabulary, policy->vocabulary);
  int length = MIN ((int) plumb_spec_get_integer (spec, "model.max_length"), policy->positions);
  if (config && config->vocabulary == policy->vocabulary && config->positions < length)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "model.reference: %s reads %d tokens at most and sequences may have %d; lower model.max_length or take "
                 "another", dir, config->positions, length);
  return config && config->vocabulary == policy->vocabulary && config->positions >= length;
}

static gboolean
open_environment (PlumbRunInputs *in, GError **error)
{
  const char *command = plumb_spec_get_text (in->spec, "rollout.environment");
  if (!command || !PLUMB_IS_ON (plumb_spec_algorithm (in->spec), PLUMB_ON_ONLINE))
    return TRUE;
  in->environment = plumb_line_program_new (command, plumb_spec_get_real (in->spec, "reward.timeout"), error);
  if (!in->environment)
    g_prefix_error (error, "rollout.environment: ");
  return in->environment != NULL;
}

gboolean
plumb_run_inputs_open (PlumbRunInputs *in, PlumbSpec *spec, const char *dir, GError **error)
{
  plumb_spec_resolve_settings (spec);
  in->spec = spec;
  in->reports = plumb_problems_new ();
  if (!find_start_model (in, dir, error))
    return FALSE;
  g_autoptr (PlumbModelConfig) config
      = in->to_make ? plumb_model_config_load (in->start_model, error) : open_model (in->start_model, error);
  in->tokenizer = config && check_reference (spec, config, error) ? plumb_tokenizer_load (in->start_model, error) : NULL;
  if (!in->tokenizer)
    return FALSE;
  if ((int) plumb_tokenizer_vocab_size (in->tokenizer) > config->vocabulary)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: the tokenizer knows ids up to %u but the model's vocab_size is %d", in->start_model,
                   plumb_tokenizer_vocab_size (in->tokenizer) - 1, config->vocabulary);
      return FALSE;
    }
  gint64 longest = plumb_spec_get_integer (spec, "model.max_length");
  if (longest > config->positions)
    {
      g_autofree char *text = g_strdup_printf ("%d", config->positions);
      g_message ("model.max_length %" G_GINT64_FORMAT " is more than the model's context; %s is used", longest,
                 text);
      if (!plumb_spec_set (spec, "model.max_length", text, error))
        return FALSE;
    }
  in->stop_ids = find_stop_ids (spec, in->tokenizer, error);
  if (!in->stop_ids)
    return FALSE;
  if (PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_REWARDED) && plumb_spec_has_value (spec, "reward.functions")
      && !(in->reward = plumb_reward_new (spec, error)))
    return FALSE;
  in->reward_deviation = 1;
  if (!open_environment (in, error))
    return FALSE;
  if (in->reward && plumb_reward_needs_model (in->reward) && plumb_spec_get_boolean (spec, "reward.normalize")
      && !plumb_model_read_statistics (plumb_spec_get_text (spec, "model.reward"), &in->reward_mean,
                                       &in->reward_deviation, error))
    return FALSE;
  return open_all_data (in, error);
}

gboolean
plumb_run_inputs_open_data (PlumbRunInputs *in, PlumbSpec *spec, const char *dir, GError **error)
{
  const char *policy = plumb_spec_get_text (spec, "model.policy");
  plumb_spec_resolve_settings (spec);
  in->spec = spec;
  in->reports = plumb_problems_new ();
  in->start_model = g_strdup (policy ? policy : dir);
  if (!policy && !plumb_spec_is_set (spec, "model.new.width"))
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                           "model.policy: there is no model whose tokenizer could show the data; name the folder of a "
                           "Hugging Face model");
      return FALSE;
    }
  if (!policy && !plumb_tokenizer_write_bytes (dir, (guint) plumb_spec_get_integer (spec, "model.new.vocab"), error))
    return FALSE;
  in->tokenizer = plumb_tokenizer_load (in->start_model, error);
  if (!in->tokenizer)
    return FALSE;
  /* A reward that cannot be had now is no matter for looking at the data. */
  if (PLUMB_IS_ON (plumb_spec_algorithm (spec), PLUMB_ON_REWARDED))
    in->reward = plumb_reward_new (spec, NULL);
  return open_all_data (in, error);
}

void
plumb_run_inputs_clear (PlumbRunInputs *in)
{
  g_clear_pointer (&in->start_model, g_free);
  g_clear_pointer (&in->tokenizer, plumb_tokenizer_unref);
  g_clear_pointer (&in->chat, plumb_template_unref);
  g_clear_pointer (&in->stop_ids, g_array_unref);
  g_clear_pointer (&in->train, plumb_data_set_unref);
  g_clear_pointer (&in->evals, g_ptr_array_unref);
  g_clear_pointer (&in->warmup, plumb_data_set_unref);
  g_clear_pointer (&in->reward, plumb_reward_free);
  g_clear_pointer (&in->environment, plumb_line_program_free);
  g_clear_pointer (&in->reports, g_ptr_array_unref);
}

/* Steps of both stages from schedule.* and warmup.*. */
void
plumb_run_count_steps (const PlumbRunInputs *in, gint64 steps[2])
{
  PlumbSpec *spec = in->spec;
  gboolean sft = !plumb_recipe (plumb_spec_algorithm (spec))->online;
  gint64 each = plumb_spec_get_integer (spec, sft ? "train.batch" : "rollout.prompts_per_step");
  gint64 wanted = plumb_spec_get_integer (spec, "schedule.steps");
  double rows = (double) plumb_data_set_epoch_rows (in->train);
  if (wanted == 0)
    wanted = MAX (1, (gint64) (rows * plumb_spec_get_real (spec, "schedule.epochs") / (double) each));
  steps[PLUMB_STAGE_SUPERVISED] = sft ? wanted : plumb_spec_get_integer (spec, "warmup.steps");
  steps[PLUMB_STAGE_ONLINE] = sft ? 0 : wanted;
}

static gboolean
resolve_integer (PlumbSpec *spec, const char *key, gint64 value, GError **error)
{
  g_autofree char *text = g_strdup_printf ("%" G_GINT64_FORMAT, value);
  return !plumb_spec_is_auto (spec, key) || plumb_spec_resolve (spec, key, text, error);
}

/* Pages of the cache, by its share of the memory that other workers leave free; 0: as many as the longest sequences need. */
static gboolean
choose_pages (PlumbWorkerSettings *s, PlumbSpec *spec, const PlumbModelConfig *config, guint64 available, GError **error)
{
  double share = plumb_spec_is_auto (spec, "rollout.kv_memory") ? 0 : plumb_spec_get_real (spec, "rollout.kv_memory");
  if (share <= 0)
    return TRUE;
  g_autoptr (GArray) workers = plumb_placement_plan (s, error);
  if (!workers)
    return FALSE;
  available -= MIN (available, plumb_placement_others (workers));
  double page = (double) plumb_rollout_page_bytes (config, s->type, &s->rollout);
  s->rollout.pages = (int) CLAMP (share * (double) available / page, 1, 1 << 30);
  return TRUE;
}

/* How memory is saved: as the spec says, else the least that is needed. */
static gboolean
fit_memory (PlumbWorkerSettings *s, PlumbSpec *spec, GError **error)
{
  gboolean any_recompute = plumb_spec_is_auto (spec, "train.recompute");
  gboolean online = plumb_recipe (plumb_spec_algorithm (spec))->online;
  gboolean any_together = online && plumb_spec_is_auto (spec, "placement.together");
  for (int i = 0; !any_recompute && i < PLUMB_N_RECOMPUTE; i++)
    if (g_str_equal (plumb_spec_get_text (spec, "train.recompute"), plumb_recompute_names[i]))
      s->trainer.recompute = (PlumbRecompute) i;
  s->trainer.offload = g_str_equal (plumb_spec_get_text (spec, "train.offload"), "optimizer");
  s->together = online && !any_together && plumb_spec_get_boolean (spec, "placement.together");
  return plumb_placement_fit (s, any_recompute, any_together, error)
         && (!any_recompute
             || plumb_spec_resolve (spec, "train.recompute", plumb_recompute_names[s->trainer.recompute], error))
         && (!any_together || plumb_spec_resolve (spec, "placement.together", s->together ? "yes" : "no", error));
}

/* The frozen model: the one that is named, the one that was kept when a stage or round began, or the first. */
static void
set_reference (PlumbWorkerSettings *s, const PlumbRunInputs *in, const char *dir)
{
  const char *reference = reference_folder (in->spec);
  g_autofree char *name = g_strdup_printf ("step-%06" G_GINT64_FORMAT, in->reference_step);
  g_autofree char *kept = g_build_filename (dir, "reference", name, NULL);
  gboolean moving = plumb_spec_algorithm (in->spec) == PLUMB_ALGORITHM_ITERATIVE_DPO
                    && g_str_equal (plumb_spec_get_text (in->spec, "algorithm.iterative.reference"), "moving");
  gboolean renewed = moving || (!reference && in->warmup);
  s->reference_from_policy = renewed;
  s->reference = g_strdup (renewed && in->reference_step > 0 ? kept
                           : reference                                     ? reference
                                                                           : in->start_model);
}

/* A scalar model must read the tokens of the policy. */
static gboolean
check_scalar (const char *key, const char *dir, const PlumbRunInputs *in, gboolean trained, GError **error)
{
  g_autoptr (PlumbModelConfig) config = plumb_model_config_load (dir, error);
  guint tokens = plumb_tokenizer_vocab_size (in->tokenizer);
  if (!config)
    return FALSE;
  if (!config->score && !trained)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "%s: %s is a language model; a reward model has a score head (train one with run.algorithm = rm)",
                 key, dir);
  else if (config->vocabulary < (int) tokens)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "%s: %s has a vocabulary of %d and the policy's tokenizer knows %u tokens; it must be a model with "
                 "the same tokens", key, dir, config->vocabulary, tokens);
  else
    return TRUE;
  return FALSE;
}

/* Reward model and critic, which starts from the reward model where it is not named, else from the policy. */
static gboolean
set_scalar_models (PlumbWorkerSettings *s, const PlumbRunInputs *in, GError **error)
{
  const char *critic
      = plumb_spec_is_auto (in->spec, "model.critic") ? NULL : plumb_spec_get_text (in->spec, "model.critic");
  if (in->reward && plumb_reward_needs_model (in->reward))
    s->reward = g_strdup (plumb_spec_get_text (in->spec, "model.reward"));
  if (s->reward && !check_scalar ("model.reward", s->reward, in, FALSE, error))
    return FALSE;
  if (!plumb_recipe (plumb_spec_algorithm (in->spec))->critic)
    return TRUE;
  s->critic = g_strdup (critic ? critic : s->reward ? s->reward : in->start_model);
  return check_scalar ("model.critic", s->critic, in, TRUE, error)
         && (!plumb_spec_is_auto (in->spec, "model.critic")
             || plumb_spec_resolve (in->spec, "model.critic", s->critic, error));
}

gboolean
plumb_run_make_settings (PlumbWorkerSettings *s, const PlumbRunInputs *in, const char *dir, GError **error)
{
  PlumbSpec *spec = in->spec;
  PlumbAlgorithm algorithm = plumb_spec_algorithm (spec);
  const PlumbRecipe *recipe = plumb_recipe (algorithm);
  g_autoptr (GArray) betas = plumb_spec_get_reals (spec, "train.betas");
  g_autoptr (PlumbModelConfig) config = plumb_model_config_load (in->start_model, error);
  int length = (int) plumb_spec_get_integer (spec, "model.max_length");
  if (!config)
    return FALSE;
  PlumbPlacementDevice device = { 0 };
  if (!plumb_placement_choose (s, spec, &device, error))
    return FALSE;
  s->policy = g_strdup (in->start_model);
  s->type = g_str_equal (plumb_spec_get_text (spec, "model.precision"), "bf16") ? DEV_BF16 : DEV_F32;
  s->max_length = length;
  s->vocabulary = (int) plumb_tokenizer_vocab_size (in->tokenizer);
  s->trainer.beta1 = betas->len > 0 ? g_array_index (betas, double, 0) : 0.9;
  s->trainer.beta2 = betas->len > 1 ? g_array_index (betas, double, 1) : 0.95;
  s->trainer.epsilon = plumb_spec_get_real (spec, "train.epsilon");
  s->trainer.weight_decay = plumb_spec_get_real (spec, "train.weight_decay");
  s->trainer.max_grad_norm = plumb_spec_get_real (spec, "train.max_grad_norm");
  if (!resolve_integer (spec, "train.tokens_per_micro_batch", MAX (length, DEFAULT_MICRO_BATCH), error))
    return FALSE;
  /* A pair stays together. */
  s->tokens_per_micro_batch = MAX ((int) plumb_spec_get_integer (spec, "train.tokens_per_micro_batch"),
                                   recipe->pairs ? 2 * length : 0);
  s->scalar = recipe->scalar;
  s->seed = (int) (plumb_spec_get_integer (spec, "run.seed") & G_MAXINT);
  if (plumb_recipe_needs_reference (spec))
    set_reference (s, in, dir);
  if (!set_scalar_models (s, in, error) || !plumb_placement_choose_roles (s, spec, error))
    return FALSE;
  if (!recipe->online)
    return fit_memory (s, spec, error);
  gint64 wanted = plumb_spec_get_integer (spec, "rollout.prompts_per_step")
                  * plumb_spec_get_integer (spec, "rollout.samples");
  if (!resolve_integer (spec, "rollout.max_running", MIN (wanted, device.gpu ? GPU_RUNNING : DEFAULT_RUNNING), error))
    return FALSE;
  s->rollout.prefill_tokens = device.gpu ? GPU_PREFILL_TOKENS : 0;
  int new_tokens = (int) plumb_spec_get_integer (spec, "rollout.max_new_tokens");
  s->rollout.max_running = (int) plumb_spec_get_integer (spec, "rollout.max_running");
  s->rollout.page_tokens = (int) plumb_spec_get_integer (spec, "rollout.page_tokens");
  s->rollout.kv_codes = g_strcmp0 (plumb_spec_get_text (spec, "rollout.kv_type"), "fp8") == 0;
  s->rollout.weight_codes = g_strcmp0 (plumb_spec_get_text (spec, "rollout.weights"), "fp8") == 0;
  if (s->rollout.page_tokens % DEV_KEY_TILE != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "rollout.page_tokens = %d is not a multiple of %d; the nearest is %d", s->rollout.page_tokens,
                   DEV_KEY_TILE, MAX (1, s->rollout.page_tokens / DEV_KEY_TILE) * DEV_KEY_TILE);
      return FALSE;
    }
  s->rollout.max_new_tokens = new_tokens;
  s->rollout.max_prompt = MAX (1, length - 1);
  if (plumb_spec_is_set (spec, "data.max_prompt_length") && !in->environment)
    s->rollout.max_prompt = MIN (s->rollout.max_prompt,
                                 (int) plumb_spec_get_integer (spec, "data.max_prompt_length"));
  return choose_pages (s, spec, config, device.memory_available, error) && fit_memory (s, spec, error);
}
