/* SPDX-License-Identifier: Apache-2.0 */

/* The models that are placed on a worker: opened after their memory was planned, saved and loaded by role. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/model/export.h"
#include "engine/run/worker-private.h"

void
plumb_worker_close_models (PlumbWorker *self)
{
  plumb_worker_stream_end (self);
  g_clear_pointer (&self->board, plumb_weight_board_free);
  g_clear_pointer (&self->rollout, plumb_rollout_free);
  g_clear_pointer (&self->scorer, plumb_trainer_free);
  g_clear_pointer (&self->critic_trainer, plumb_trainer_free);
  g_clear_pointer (&self->trainer, plumb_trainer_free);
  g_clear_pointer (&self->reward, plumb_model_free);
  g_clear_pointer (&self->critic, plumb_model_free);
  g_clear_pointer (&self->reference, plumb_model_free);
  g_clear_pointer (&self->policy, plumb_model_free);
  g_clear_pointer (&self->comm, plumb_comm_free);
  g_clear_pointer (&self->device, plumb_device_close);
  plumb_worker_settings_clear (&self->settings);
  self->opened = FALSE;
}

/* The device needs a workspace that depends on the models, so their configs are read first. */
static PlumbDevice *
open_device (const PlumbWorkerSettings *settings, GError **error)
{
  gboolean policy = settings->role == PLUMB_ROLE_POLICY || settings->role == PLUMB_ROLE_ROLLOUT;
  const char *folders[] = { policy ? settings->policy : NULL, settings->reference, settings->critic, settings->reward };
  const char *name = settings->device ? settings->device : "cpu";
  gsize workspace = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (folders); i++)
    {
      g_autoptr (PlumbModelConfig) config = folders[i] ? plumb_model_config_load (folders[i], error) : NULL;
      if (folders[i] && !config)
        return NULL;
      workspace = MAX (workspace, config ? plumb_worker_workspace (settings, config) : 0);
    }
  PlumbDevice *device = plumb_device_open (name, workspace, error);
  if (device)
    device->ops->set_deterministic (device->context, settings->deterministic);
  return device;
}

static gboolean
check_reference (PlumbWorker *self, GError **error)
{
  const PlumbModelConfig *a = self->policy->config, *b = self->reference->config;
  if (a->vocabulary == b->vocabulary && a->width == b->width && a->layers == b->layers && a->mlp == b->mlp
      && a->heads == b->heads && a->groups == b->groups && a->head_size == b->head_size
      && self->reference->positions >= self->policy->positions)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "model.reference %s has another shape, or a shorter context, than model.policy %s", self->settings.reference,
               self->settings.policy);
  return FALSE;
}

/* A model with its trainer; bf16 models keep better master weights from their files. */
static gboolean
open_trainer (PlumbWorker *self, PlumbModel *model, const char *dir, PlumbTrainer **trainer, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  *trainer = s->measure_only ? plumb_trainer_new_scorer (model, s->tokens_per_micro_batch, error)
                             : plumb_trainer_new (model, &s->trainer, s->tokens_per_micro_batch, error);
  if (!*trainer)
    return FALSE;
  plumb_trainer_set_progress (*trainer, plumb_worker_report_progress, self);
  plumb_trainer_set_comm (*trainer, self->comm);
  if (s->type != DEV_BF16 || s->measure_only)
    return TRUE;
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open_model (dir, error);
  return tensors && plumb_trainer_load_master (*trainer, tensors, error);
}

static PlumbModel *
open_scalar (PlumbWorker *self, const char *dir, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  return plumb_model_load_scalar (self->device, dir, s->type, s->max_length, s->seed, error);
}

/* A model that is only run. */
static PlumbTrainer *
open_scorer (PlumbWorker *self, PlumbModel *model, GError **error)
{
  PlumbTrainer *scorer = plumb_trainer_new_scorer (model, self->settings.tokens_per_micro_batch, error);
  if (scorer)
    plumb_trainer_set_progress (scorer, plumb_worker_report_progress, self);
  return scorer;
}

/* Beside the policy it uses the buffers of its trainer, and must have its shape. */
static gboolean
open_reference (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->reference = plumb_model_load (self->device, s->reference, s->type, s->max_length, error);
  if (!self->reference || (self->policy && !check_reference (self, error)))
    return FALSE;
  plumb_model_limit_vocabulary (self->reference, s->vocabulary);
  return self->policy || (self->scorer = open_scorer (self, self->reference, error));
}

static gboolean
open_reward (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->reward = plumb_model_load (self->device, s->reward, s->type, s->max_length, error);
  self->scorer = self->reward ? open_scorer (self, self->reward, error) : NULL;
  return self->scorer != NULL;
}

static gboolean
open_critic (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->critic = open_scalar (self, s->critic, error);
  return self->critic && open_trainer (self, self->critic, s->critic, &self->critic_trainer, error);
}

static gboolean
open_policy (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->policy = s->scalar ? open_scalar (self, s->policy, error)
                           : plumb_model_load (self->device, s->policy, s->type, s->max_length, error);
  if (!self->policy)
    return FALSE;
  plumb_model_limit_vocabulary (self->policy, s->vocabulary);
  return s->role != PLUMB_ROLE_POLICY || open_trainer (self, self->policy, s->policy, &self->trainer, error);
}

/* Opened last: where it takes turns with training, the other models sleep meanwhile. */
static gboolean
open_rollout (PlumbWorker *self, GError **error)
{
  if (!plumb_worker_take_turn (self, PLUMB_TURN_GENERATE, error))
    return FALSE;
  self->rollout = plumb_rollout_new (self->policy, &self->settings.rollout, error);
  return self->rollout != NULL;
}

/* Those that the settings name; a worker of another role holds no policy. */
static gboolean
open_models (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  gboolean policy = s->role == PLUMB_ROLE_POLICY || s->role == PLUMB_ROLE_ROLLOUT;
  return (!policy || open_policy (self, error)) && (!s->reference || open_reference (self, error))
         && (!s->critic || open_critic (self, error)) && (!s->reward || open_reward (self, error))
         && (s->rollout.max_new_tokens == 0 || open_rollout (self, error));
}

static gboolean
open_comm (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->comm = plumb_comm_new (s->comm, s->rank, s->ranks, 0, error);
  if (self->comm)
    plumb_comm_set_wait (self->comm, plumb_worker_report_waiting, self);
  return self->comm != NULL;
}

gsize
plumb_worker_weight_bytes (const PlumbWorker *self)
{
  return self->policy->table->elements * dev_type_size (self->policy->type);
}

/* What a model in training takes on the disk: its weights, and the optimizer's state without the gradients. */
static gsize
checkpoint_bytes (const PlumbModel *model)
{
  gsize floats = model && model->type == DEV_BF16 ? 3 : 2;
  return model ? model->table->elements * (dev_type_size (model->type) + floats * sizeof (float)) : 0;
}

static GVariant *
describe_opened (PlumbWorker *self, const PlumbMemoryPlan *plan, const struct dev_info *info)
{
  const PlumbModel *models[] = { self->policy, self->critic, self->reference, self->reward };
  const PlumbModel *model = NULL;
  g_autofree char *text = plumb_memory_plan_to_text (plan);
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (models) && !model; i++)
    model = models[i];
  g_variant_dict_insert (answer, "planned", "t", (guint64) plumb_memory_plan_total (plan));
  g_variant_dict_insert (answer, "plan", "s", text);
  g_variant_dict_insert (answer, "device", "s", info->name);
  g_variant_dict_insert (answer, "cores", "i", info->cores);
  g_variant_dict_insert (answer, "peak", "d", self->trainer || self->critic_trainer ? self->limits.peak : 0.0);
  g_variant_dict_insert (answer, "products", "s", info->matmul_path);
  g_variant_dict_insert (answer, "parameters", "t", (guint64) (model ? model->table->elements : 0));
  g_variant_dict_insert (answer, "checkpoint-bytes", "t",
                         (guint64) (checkpoint_bytes (self->policy) + checkpoint_bytes (self->critic)));
  g_variant_dict_insert (answer, "weight-bytes", "t", (guint64) (self->policy ? plumb_worker_weight_bytes (self) : 0));
  return g_variant_dict_end (answer);
}

static gboolean
check_memory (PlumbWorker *self, const PlumbMemoryPlan *plan, const struct dev_info *info, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  if (plumb_memory_plan_needed (plan) <= info->memory_available)
    return TRUE;
  g_autofree char *text = plumb_memory_plan_to_text (plan);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
               "%s needs %s; %s has %.1f MB free. Lower train.tokens_per_micro_batch, "
               "rollout.max_running, rollout.max_new_tokens or placement.workers",
               s->role == PLUMB_ROLE_POLICY ? "the run" : plumb_role_name (s->role), text, info->name,
               info->memory_available / 1e6);
  return FALSE;
}

/* While nothing lies on the device, in memory that the models will take. */
static void
measure_limits (PlumbWorker *self, const PlumbMemoryPlan *plan)
{
  struct dev_context *context = self->device->context;
  g_autoptr (GError) error = NULL;
  self->device->ops->set_deterministic (context, FALSE);
  if (!plumb_limits_measure (self->device, self->settings.type, MAX (1, plumb_memory_plan_needed (plan)), &self->limits, &error)
      || (self->settings.rollout.weight_codes
          && !plumb_limits_measure_codes (self->device, self->settings.type, &self->limits, &error)))
    {
      g_message ("shares of the device's limits are not told: %s", error->message);
      self->limits = (PlumbLimits){ 0 };
    }
  self->device->ops->set_deterministic (context, self->settings.deterministic);
}

/* The plan is made, and answered, before the models take memory. */
GVariant *
plumb_worker_open (PlumbWorker *self, GVariant *body, GError **error)
{
  PlumbMemoryPlan plan;
  struct dev_info info;
  plumb_worker_close_models (self);
  self->turn = PLUMB_TURN_ANY;
  if (!plumb_worker_settings_from_body (&self->settings, body, error))
    return NULL;
  self->device = open_device (&self->settings, error);
  if (!self->device || !plumb_memory_plan_make (&plan, &self->settings, self->device, error))
    return NULL;
  self->device->ops->info (self->device->context, &info);
  if (!check_memory (self, &plan, &info, error))
    return NULL;
  measure_limits (self, &plan);
  if (!open_comm (self, error) || !open_models (self, error))
    return NULL;
  self->opened = TRUE;
  return describe_opened (self, &plan, &info);
}

/* Whether it trains anything. */
static gboolean
has_trainer (PlumbWorker *self, GError **error)
{
  gboolean trains = self->trainer || self->critic_trainer;
  if (!trains)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker was opened without a trainer");
  return trains;
}

static char *
folder_file (GVariant *body, const char *name, GError **error)
{
  g_autofree char *folder = NULL;
  if (g_variant_lookup (body, "folder", "s", &folder))
    return g_build_filename (folder, name, NULL);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a message lacks its folder");
  return NULL;
}

/* A trained model as a Hugging Face folder, and its optimizer's state beside it. */
static gboolean
save_trained (PlumbModel *model, PlumbTrainer *trainer, const char *source, const char *folder, const char *state,
              GError **error)
{
  return plumb_model_export (model, source, folder, error)
         && (!state || plumb_trainer_save_state (trainer, state, error));
}

static gboolean
load_weights (PlumbModel *model, const char *folder, GError **error)
{
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open_model (folder, error);
  return tensors
         && plumb_weights_load (model->device, model->table, model->config, plumb_model_weights (model), model->type,
                                tensors, error);
}

static gboolean
load_trained (PlumbModel *model, PlumbTrainer *trainer, const char *folder, const char *state, GError **error)
{
  if (!load_weights (model, folder, error) || !plumb_trainer_load_state (trainer, state, error))
    return FALSE;
  plumb_model_touch (model);
  return TRUE;
}

/* What this worker trains: the policy as FOLDER/NAME and the state of its optimizer beside it, unless only the model is
 * wanted; the critic as FOLDER/critic. */
GVariant *
plumb_worker_save (PlumbWorker *self, GVariant *body, GError **error)
{
  gboolean model_only = FALSE;
  g_autofree char *name = NULL;
  if (!has_trainer (self, error))
    return NULL;
  g_variant_lookup (body, "name", "s", &name);
  g_variant_lookup (body, "model-only", "b", &model_only);
  g_autofree char *model = folder_file (body, name ? name : "model", error);
  g_autofree char *state = folder_file (body, "optimizer.safetensors", NULL);
  g_autofree char *critic = folder_file (body, "critic", NULL);
  g_autofree char *critic_state = folder_file (body, "critic-optimizer.safetensors", NULL);
  if (!model
      || (self->policy && !save_trained (self->policy, self->trainer, self->settings.policy, model, model_only ? NULL : state,
                        error))
      || (self->critic && !model_only
          && !save_trained (self->critic, self->critic_trainer, self->settings.critic, critic, critic_state,
                            error)))
    return NULL;
  return g_variant_new ("a{sv}", NULL);
}

GVariant *
plumb_worker_load (PlumbWorker *self, GVariant *body, GError **error)
{
  if (!has_trainer (self, error))
    return NULL;
  g_autofree char *model = folder_file (body, "model", error);
  g_autofree char *state = folder_file (body, "optimizer.safetensors", NULL);
  g_autofree char *critic = folder_file (body, "critic", NULL);
  g_autofree char *critic_state = folder_file (body, "critic-optimizer.safetensors", NULL);
  if (!model || (self->policy && !load_trained (self->policy, self->trainer, model, state, error))
      || (self->critic && !load_trained (self->critic, self->critic_trainer, critic, critic_state, error)))
    return NULL;
  return g_variant_new ("a{sv}", NULL);
}

/* Workers that train together hold equal bits, or something is wrong with this machine or program. */
GVariant *
plumb_worker_check (PlumbWorker *self, GVariant *body, GError **error)
{
  guint64 policy = 0, critic = 0;
  if (!has_trainer (self, error) || (self->trainer && !plumb_trainer_checksum (self->trainer, &policy, error))
      || (self->critic_trainer && !plumb_trainer_checksum (self->critic_trainer, &critic, error)))
    return NULL;
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  g_variant_dict_insert (answer, "policy", "t", policy);
  g_variant_dict_insert (answer, "critic", "t", critic);
  return g_variant_dict_end (answer);
}

/* A critic that starts from the policy starts from what its warm-up made of it; the score head is its own. */
static gboolean
critic_from_policy (PlumbWorker *self, const char *folder, GError **error)
{
  if (folder && !load_weights (self->critic, folder, error))
    return FALSE;
  const PlumbWeight *score = plumb_weight_table_find (self->critic->table, PLUMB_WEIGHT_SCORE, -1);
  if (!folder)
    self->device->ops->copy (self->device->context, plumb_model_weights (self->critic),
                             plumb_model_weights (self->policy), score->first * dev_type_size (self->policy->type));
  plumb_trainer_take_weights (self->critic_trainer);
  plumb_model_touch (self->critic);
  return TRUE;
}

static gboolean
reference_from_policy (PlumbWorker *self, const char *folder, GError **error)
{
  if (folder && !load_weights (self->reference, folder, error))
    return FALSE;
  if (!folder)
    self->device->ops->copy (self->device->context, plumb_model_weights (self->reference),
                             plumb_model_weights (self->policy),
                             self->policy->table->elements * dev_type_size (self->policy->type));
  plumb_model_touch (self->reference);
  return TRUE;
}

/* Where the policy is another worker's, it comes as a folder. */
GVariant *
plumb_worker_stage (PlumbWorker *self, GVariant *body, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  gboolean keep_moments = FALSE;
  g_autofree char *folder = NULL;
  g_variant_lookup (body, "keep-moments", "b", &keep_moments);
  g_variant_lookup (body, "policy", "s", &folder);
  if (!self->policy && !folder)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a stage message lacks the policy's folder");
      return NULL;
    }
  if (!keep_moments && self->trainer)
    plumb_trainer_reset_state (self->trainer);
  if (!keep_moments && self->critic && g_strcmp0 (s->critic, s->policy) == 0
      && !critic_from_policy (self, self->policy ? NULL : folder, error))
    return NULL;
  if (self->reference && s->reference_from_policy && !reference_from_policy (self, self->policy ? NULL : folder, error))
    return NULL;
  return plumb_device_check (self->device, error) ? g_variant_new ("a{sv}", NULL) : NULL;
}
