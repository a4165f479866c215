/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/loss-message.h"
#include "engine/run/worker-private.h"

/* Sequences and the tokens of them that the head works on. */
static PlumbWork
work_of (const struct plumb_experience *e)
{
  PlumbWork work = { 0 };
  for (int s = 0; s < e->sequences; s++)
    plumb_work_add (&work, e->offsets[s + 1] - e->offsets[s], plumb_experience_response_length (e, s));
  return work;
}

/* Seconds that a forward pass takes at the limits of the device; a model with a score head has no vocabulary to multiply. */
static void
add_forward_limit (GVariantDict *answer, const PlumbWorker *self, const PlumbModel *model, const struct plumb_experience *e)
{
  PlumbWork work = work_of (e);
  work.rows = model->config->score ? 0 : work.rows;
  if (self->limits.products > 0)
    g_variant_dict_insert (answer, "limit", "d", plumb_limit_forward (&self->limits, model->config, &work));
}

static void
add_train_limit (GVariantDict *answer, const PlumbWorker *self, const PlumbModel *model, const struct plumb_experience *e)
{
  PlumbWork work = work_of (e);
  work.rows = model->config->score ? 0 : work.rows;
  if (self->limits.products <= 0)
    return;
  g_variant_dict_insert (answer, "limit", "d", plumb_limit_train (&self->limits, model->config, model->type, &work)
                                                   + plumb_limit_update (&self->limits, model->config, model->type));
  g_variant_dict_insert (answer, "operations", "d", plumb_work_operations (model->config, &work));
}

/* Bytes of a GPU's memory that are taken, by whomever; those of the host are told with the process. */
static void
add_used (GVariantDict *answer, const PlumbWorker *self)
{
  struct dev_info info;
  if (!self->device->asynchronous)
    return;
  self->device->ops->info (self->device->context, &info);
  g_variant_dict_insert (answer, "used", "t", info.memory_total - info.memory_available);
}

GVariant *
plumb_worker_log_probs (PlumbWorker *self, GVariant *body, GError **error)
{
  gboolean reference = FALSE;
  double temperature = 1;
  g_variant_lookup (body, "of-reference", "b", &reference);
  g_variant_lookup (body, "temperature", "d", &temperature);
  PlumbModel *model = reference ? self->reference : self->policy;
  PlumbTrainer *runner = self->trainer ? self->trainer : reference ? self->scorer : NULL;
  if (!model || !runner)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker was opened without a %s",
                   model ? "trainer" : "reference");
      return NULL;
    }
  struct plumb_experience *e = plumb_body_get_experience (body, error);
  if (!e)
    return NULL;
  g_autofree float *log_probs = g_new (float, e->tokens + 1);
  g_autofree float *entropies = g_new (float, e->tokens + 1);
  GVariant *result = NULL;
  if (plumb_trainer_log_probs (runner, model, e, temperature, log_probs, entropies, error))
    {
      g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
      plumb_body_add_array (answer, "log-probs", log_probs, (gsize) e->tokens, sizeof (float));
      plumb_body_add_array (answer, "entropies", entropies, (gsize) e->tokens, sizeof (float));
      add_forward_limit (answer, self, model, e);
      result = g_variant_dict_end (answer);
    }
  plumb_experience_free (e);
  return result;
}

/* Values by the critic, or the reward model's scores at the last tokens. */
GVariant *
plumb_worker_values (PlumbWorker *self, GVariant *body, GError **error)
{
  gint32 of = 0;
  g_variant_lookup (body, "of", "i", &of);
  PlumbModel *models[] = { self->critic, self->reward, self->policy };
  PlumbTrainer *runners[] = { self->critic_trainer, self->scorer, self->trainer };
  if (of < 0 || of >= (gint32) G_N_ELEMENTS (models) || !models[of] || !runners[of] || !models[of]->config->score)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker was opened without a scalar model %d", of);
      return NULL;
    }
  struct plumb_experience *e = plumb_body_get_experience (body, error);
  if (!e)
    return NULL;
  g_autofree float *values = g_new (float, e->tokens + 1);
  GVariant *result = NULL;
  if (plumb_trainer_values (runners[of], models[of], e, of > 0, values, error))
    {
      g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
      plumb_body_add_array (answer, "values", values, (gsize) e->tokens, sizeof (float));
      add_forward_limit (answer, self, models[of], e);
      result = g_variant_dict_end (answer);
    }
  plumb_experience_free (e);
  return result;
}

GVariant *
plumb_worker_train (PlumbWorker *self, GVariant *body, GError **error)
{
  PlumbLossSpec loss = { 0 };
  struct plumb_loss_statistics s = { 0 };
  double rate = 0, norm = 0;
  PlumbStepResult result = PLUMB_STEP_DONE;
  g_variant_lookup (body, "learning-rate", "d", &rate);
  if (!plumb_body_get_loss (body, &loss, error))
    return NULL;
  PlumbTrainer *trainer = loss.id == PLUMB_LOSS_VALUE ? self->critic_trainer : self->trainer;
  PlumbModel *model = loss.id == PLUMB_LOSS_VALUE ? self->critic : self->policy;
  gboolean scalar = loss.id == PLUMB_LOSS_VALUE || loss.id == PLUMB_LOSS_REWARD;
  if (!trainer || self->settings.measure_only || model->config->score != scalar)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker has no model that loss %d could train", loss.id);
      return NULL;
    }
  struct plumb_experience *e = plumb_body_get_experience (body, error);
  if (!e)
    return NULL;
  g_autofree int *all = g_new (int, e->sequences + 1);
  for (int i = 0; i < e->sequences; i++)
    all[i] = i;
  gboolean ok = plumb_trainer_accumulate (trainer, e, all, e->sequences, &loss, &s, error)
                && plumb_trainer_step (trainer, rate, &result, &norm, error);
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  if (ok && loss.on_policy)
    {
      plumb_body_add_array (answer, "log-probs", e->old_logp, (gsize) e->tokens, sizeof (float));
      plumb_body_add_array (answer, "entropies", e->entropy, (gsize) e->tokens, sizeof (float));
    }
  add_train_limit (answer, self, model, e);
  add_used (answer, self);
  plumb_experience_free (e);
  if (!ok)
    return NULL;
  g_variant_dict_insert (answer, "finite", "b", result == PLUMB_STEP_DONE);
  g_variant_dict_insert (answer, "gradient-norm", "d", norm);
  g_variant_dict_insert_value (answer, "statistics",
                               g_variant_new_fixed_array (G_VARIANT_TYPE_DOUBLE, &s,
                                                          sizeof s / sizeof (double), sizeof (double)));
  return g_variant_dict_end (answer);
}

