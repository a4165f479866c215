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
}

/* The device needs a workspace that depends on the models, so their configs are read first. */
static PlumbDevice *
open_device (const PlumbWorkerSettings *settings, GError **error)
{
  const char *folders[] = { settings->policy, settings->critic, settings->reward };
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

static gboolean
open_reference (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->reference = plumb_model_load (self->device, s->reference, s->type, s->max_length, error);
  if (!self->reference || !check_reference (self, error))
    return FALSE;
  plumb_model_limit_vocabulary (self->reference, s->vocabulary);
  return TRUE;
}

static gboolean
open_reward (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->reward = plumb_model_load (self->device, s->reward, s->type, s->max_length, error);
  if (!self->reward)
    return FALSE;
  self->scorer = plumb_trainer_new_scorer (self->reward, s->tokens_per_micro_batch, error);
  if (self->scorer)
    plumb_trainer_set_progress (self->scorer, plumb_worker_report_progress, self);
  return self->scorer != NULL;
}

static gboolean
open_models (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->policy = s->scalar ? open_scalar (self, s->policy, error)
                           : plumb_model_load (self->device, s->policy, s->type, s->max_length, error);
  if (!self->policy)
    return FALSE;
  plumb_model_limit_vocabulary (self->policy, s->vocabulary);
  if ((s->reference && !open_reference (self, error))
      || (!s->ahead && !open_trainer (self, self->policy, s->policy, &self->trainer, error))
      || (s->reward && !open_reward (self, error)))
    return FALSE;
  if (s->critic)
    {
      self->critic = open_scalar (self, s->critic, error);
      if (!self->critic || !open_trainer (self, self->critic, s->critic, &self->critic_trainer, error))
        return FALSE;
    }
  if (s->rollout.max_new_tokens > 0)
    {
      if (!plumb_worker_take_turn (self, PLUMB_TURN_GENERATE, error))
        return FALSE;
      self->rollout = plumb_rollout_new (self->policy, &s->rollout, error);
      if (!self->rollout)
        return FALSE;
    }
  return TRUE;
}

/* Told to the controller while this worker waits for another. */
static gboolean
report_waiting (gpointer worker, GError **error)
{
  return plumb_worker_report_progress (0, 0, worker, error);
}

static gboolean
open_comm (PlumbWorker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->comm = plumb_comm_new (s->comm, s->rank, s->ranks, s->patience, error);
  if (self->comm)
    plumb_comm_set_wait (self->comm, report_waiting, self);
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
  /* Processors share their memory; each GPU has its own. */
  gsize sharing = self->device->asynchronous ? 1 : (gsize) MAX (1, self->settings.ranks);
  gsize needed = sharing * plumb_memory_plan_needed (&plan);
  if (needed > info.memory_available)
    {
      g_autofree char *text = plumb_memory_plan_to_text (&plan);
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   "%s needs %s; %s has %.1f MB free. Lower train.tokens_per_micro_batch, "
                   "rollout.max_running, rollout.max_new_tokens or placement.workers",
                   sharing > 1 ? "each worker" : "the run", text, info.name, info.memory_available / 1e6);
      return NULL;
    }
  if (!open_comm (self, error) || !open_models (self, error))
    return NULL;
  g_autofree char *text = plumb_memory_plan_to_text (&plan);
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  g_variant_dict_insert (answer, "planned", "t", (guint64) plumb_memory_plan_total (&plan));
  g_variant_dict_insert (answer, "plan", "s", text);
  g_variant_dict_insert (answer, "device", "s", info.name);
  g_variant_dict_insert (answer, "cores", "i", info.cores);
  g_variant_dict_insert (answer, "products", "s", info.matmul_path);
  g_variant_dict_insert (answer, "parameters", "t", (guint64) self->policy->table->elements);
  g_variant_dict_insert (answer, "checkpoint-bytes", "t",
                         (guint64) (checkpoint_bytes (self->policy) + checkpoint_bytes (self->critic)));
  g_variant_dict_insert (answer, "weight-bytes", "t", (guint64) plumb_worker_weight_bytes (self));
  return g_variant_dict_end (answer);
}

static gboolean
has_trainer (PlumbWorker *self, GError **error)
{
  if (!self->trainer)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker was opened without a trainer");
  return self->trainer != NULL;
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
load_trained (PlumbModel *model, PlumbTrainer *trainer, const char *folder, const char *state, GError **error)
{
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open_model (folder, error);
  if (!tensors
      || !plumb_weights_load (model->device, model->table, model->config, plumb_model_weights (model),
                              model->type, tensors, error)
      || !plumb_trainer_load_state (trainer, state, error))
    return FALSE;
  plumb_model_touch (model);
  return TRUE;
}

/* The policy as FOLDER/NAME and the state of its optimizer beside it, unless only the model is wanted; the
 * critic as FOLDER/critic. */
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
      || !save_trained (self->policy, self->trainer, self->settings.policy, model, model_only ? NULL : state,
                        error)
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
  if (!model || !load_trained (self->policy, self->trainer, model, state, error)
      || (self->critic && !load_trained (self->critic, self->critic_trainer, critic, critic_state, error)))
    return NULL;
  return g_variant_new ("a{sv}", NULL);
}

/* Workers that train together hold equal bits, or something is wrong with this machine or program. */
GVariant *
plumb_worker_check (PlumbWorker *self, GVariant *body, GError **error)
{
  guint64 policy = 0, critic = 0;
  if (!has_trainer (self, error) || !plumb_trainer_checksum (self->trainer, &policy, error)
      || (self->critic_trainer && !plumb_trainer_checksum (self->critic_trainer, &critic, error)))
    return NULL;
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  g_variant_dict_insert (answer, "policy", "t", policy);
  g_variant_dict_insert (answer, "critic", "t", critic);
  return g_variant_dict_end (answer);
}

/* A critic that starts from the policy starts from what its warm-up made of it; the score head is its own. */
static void
critic_from_policy (PlumbWorker *self)
{
  const PlumbWeight *score = plumb_weight_table_find (self->critic->table, PLUMB_WEIGHT_SCORE, -1);
  self->device->ops->copy (self->device->context, plumb_model_weights (self->critic),
                           plumb_model_weights (self->policy), score->first * dev_type_size (self->policy->type));
  plumb_trainer_take_weights (self->critic_trainer);
  plumb_model_touch (self->critic);
}

GVariant *
plumb_worker_stage (PlumbWorker *self, GVariant *body, GError **error)
{
  gboolean keep_moments = FALSE;
  if (!has_trainer (self, error))
    return NULL;
  g_variant_lookup (body, "keep-moments", "b", &keep_moments);
  if (!keep_moments)
    plumb_trainer_reset_state (self->trainer);
  if (!keep_moments && self->critic && g_strcmp0 (self->settings.critic, self->settings.policy) == 0)
    critic_from_policy (self);
  if (self->reference && self->settings.reference_from_policy)
    {
      self->device->ops->copy (self->device->context, plumb_model_weights (self->reference),
                               plumb_model_weights (self->policy),
                               self->policy->table->elements * dev_type_size (self->policy->type));
      plumb_model_touch (self->reference);
    }
  return plumb_device_check (self->device, error) ? g_variant_new ("a{sv}", NULL) : NULL;
}

