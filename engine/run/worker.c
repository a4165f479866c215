/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>
#include <zmq.h>

#include "engine/core/error.h"
#include "engine/model/export.h"
#include "engine/run/experience-message.h"
#include "engine/run/loss-message.h"
#include "engine/run/settings.h"
#include "engine/run/worker.h"

#define PROGRESS_INTERVAL (G_USEC_PER_SEC / 4)

typedef struct
{
  void *socket;
  guint32 number;
  const PlumbMessage *request; /* being answered */
  gint64 last_progress;
  gboolean closing; /* told to end in the middle of a request */
  PlumbWorkerSettings settings;
  PlumbDevice *device;
  PlumbModel *policy, *reference;
  PlumbTrainer *trainer;
  PlumbRollout *rollout;
} Worker;

static void
worker_close_models (Worker *self)
{
  g_clear_pointer (&self->rollout, plumb_rollout_free);
  g_clear_pointer (&self->trainer, plumb_trainer_free);
  g_clear_pointer (&self->reference, plumb_model_free);
  g_clear_pointer (&self->policy, plumb_model_free);
  g_clear_pointer (&self->device, plumb_device_close);
  plumb_worker_settings_clear (&self->settings);
}

static gboolean
reply (Worker *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autoptr (PlumbMessage) message = plumb_message_new (kind, body);
  message->worker = self->number;
  message->version = self->policy ? self->policy->version : 0;
  if (self->request)
    {
      message->attempt = self->request->attempt;
      message->lease = self->request->lease;
    }
  return plumb_message_send (self->socket, FALSE, message, error);
}

/* Tells now and then that work goes on, and hears whether it still should. */
static gboolean
report_progress (gint64 done, gint64 of, gpointer data, GError **error)
{
  Worker *self = data;
  gint64 now = g_get_monotonic_time ();
  if (now - self->last_progress < PROGRESS_INTERVAL)
    return TRUE;
  self->last_progress = now;
  g_autoptr (PlumbMessage) message = plumb_message_receive (self->socket, FALSE, 0, error);
  if (message && message->kind == PLUMB_MESSAGE_CLOSE)
    {
      self->closing = TRUE;
      g_set_error (error, PLUMB_ERROR, PLUMB_EXIT_INTERRUPTED, "interrupted");
      return FALSE;
    }
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_variant_dict_insert (body, "done", "x", done);
  g_variant_dict_insert (body, "of", "x", of);
  return reply (self, PLUMB_MESSAGE_PROGRESS, g_variant_dict_end (body), error);
}

/* The device needs a workspace that depends on the model, so the config is read first. */
static PlumbDevice *
open_device (const PlumbWorkerSettings *settings, GError **error)
{
  g_autoptr (PlumbModelConfig) config = plumb_model_config_load (settings->policy, error);
  const char *name = settings->device ? settings->device : "cpu";
  PlumbDevice *device = config ? plumb_device_open (name, plumb_worker_workspace (settings, config), error) : NULL;
  if (device)
    device->ops->set_deterministic (device->context, settings->deterministic);
  return device;
}

static gboolean
check_reference (Worker *self, GError **error)
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

static gboolean
open_models (Worker *self, GError **error)
{
  const PlumbWorkerSettings *s = &self->settings;
  self->policy = plumb_model_load (self->device, s->policy, s->type, s->max_length, error);
  if (!self->policy)
    return FALSE;
  plumb_model_limit_vocabulary (self->policy, s->vocabulary);
  if (s->reference)
    {
      self->reference = plumb_model_load (self->device, s->reference, s->type, s->max_length, error);
      if (!self->reference || !check_reference (self, error))
        return FALSE;
      plumb_model_limit_vocabulary (self->reference, s->vocabulary);
    }
  self->trainer = plumb_trainer_new (self->policy, &s->optimizer, s->tokens_per_micro_batch, error);
  if (!self->trainer)
    return FALSE;
  plumb_trainer_set_progress (self->trainer, report_progress, self);
  if (s->type == DEV_BF16)
    {
      g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open_model (s->policy, error);
      if (!tensors || !plumb_trainer_load_master (self->trainer, tensors, error))
        return FALSE;
    }
  if (s->rollout.max_new_tokens > 0)
    {
      self->rollout = plumb_rollout_new (self->policy, &s->rollout, error);
      if (!self->rollout)
        return FALSE;
    }
  return TRUE;
}

/* The plan is made, and answered, before the models take memory. */
static GVariant *
handle_open (Worker *self, GVariant *body, GError **error)
{
  PlumbMemoryPlan plan;
  struct dev_info info;
  worker_close_models (self);
  if (!plumb_worker_settings_from_body (&self->settings, body, error))
    return NULL;
  self->device = open_device (&self->settings, error);
  if (!self->device || !plumb_memory_plan_make (&plan, &self->settings, self->device, error))
    return NULL;
  self->device->ops->info (self->device->context, &info);
  gsize needed = plumb_memory_plan_needed (&plan);
  if (needed > info.memory_available)
    {
      g_autofree char *text = plumb_memory_plan_to_text (&plan);
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   "the run needs %s; %s has %.1f MB free. Lower train.tokens_per_micro_batch, "
                   "rollout.max_running or rollout.max_new_tokens", text, info.name,
                   info.memory_available / 1e6);
      return NULL;
    }
  if (!open_models (self, error))
    return NULL;
  g_autofree char *text = plumb_memory_plan_to_text (&plan);
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  g_variant_dict_insert (answer, "planned", "t", (guint64) plumb_memory_plan_total (&plan));
  g_variant_dict_insert (answer, "plan", "s", text);
  g_variant_dict_insert (answer, "device", "s", info.name);
  g_variant_dict_insert (answer, "cores", "i", info.cores);
  g_variant_dict_insert (answer, "products", "s", info.matmul_path);
  g_variant_dict_insert (answer, "parameters", "t", (guint64) self->policy->table->elements);
  return g_variant_dict_end (answer);
}

static gboolean
submit_prompts (Worker *self, GVariant *body, gint64 *samples, GError **error)
{
  gsize ends = 0, tokens = 0, n_ordinals = 0;
  const void *raw_offsets = plumb_body_get_array (body, "offsets", sizeof (gint32), &ends);
  const void *raw_ids = plumb_body_get_array (body, "ids", sizeof (gint32), &tokens);
  const void *raw_ordinals = plumb_body_get_array (body, "ordinals", sizeof (gint64), &n_ordinals);
  gint32 each = 0;
  g_variant_lookup (body, "samples", "i", &each);
  if (!raw_offsets || !raw_ids || !raw_ordinals || ends != n_ordinals + 1 || each < 1)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a generate message does not fit together");
      return FALSE;
    }
  g_autofree gint32 *offsets = g_memdup2 (raw_offsets, ends * sizeof (gint32));
  g_autofree gint32 *ids = g_memdup2 (raw_ids, tokens * sizeof (gint32));
  g_autofree gint64 *ordinals = g_memdup2 (raw_ordinals, n_ordinals * sizeof (gint64));
  for (gsize i = 0; i < n_ordinals; i++)
    {
      if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || (gsize) offsets[i + 1] > tokens)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a generate message has wrong offsets");
          return FALSE;
        }
      if (!plumb_rollout_submit (self->rollout, ids + offsets[i], offsets[i + 1] - offsets[i], each,
                                 ordinals[i], error))
        return FALSE;
    }
  *samples = (gint64) n_ordinals * each;
  return TRUE;
}

/* Completions as they finish, gathered into arrays. */
typedef struct
{
  GArray *ordinals;                  /* gint64 */
  GArray *samples, *finish, *offsets; /* gint32 */
  GArray *ids;                       /* gint32 */
  GArray *log_probs;                 /* float */
} Collected;

static void
collected_clear (Collected *c)
{
  GArray **arrays[] = { &c->ordinals, &c->samples, &c->finish, &c->offsets, &c->ids, &c->log_probs };
  for (gsize i = 0; i < G_N_ELEMENTS (arrays); i++)
    g_clear_pointer (arrays[i], g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Collected, collected_clear)

static void
collected_init (Collected *c)
{
  gint32 zero = 0;
  c->ordinals = g_array_new (FALSE, FALSE, sizeof (gint64));
  c->samples = g_array_new (FALSE, FALSE, sizeof (gint32));
  c->finish = g_array_new (FALSE, FALSE, sizeof (gint32));
  c->offsets = g_array_new (FALSE, FALSE, sizeof (gint32));
  c->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  c->log_probs = g_array_new (FALSE, FALSE, sizeof (float));
  g_array_append_val (c->offsets, zero);
}

static void
collect (Collected *c, const PlumbCompletion *completion)
{
  gint32 sample = completion->sample, finish = (gint32) completion->finish;
  g_array_append_val (c->ordinals, completion->ordinal);
  g_array_append_val (c->samples, sample);
  g_array_append_val (c->finish, finish);
  g_array_append_vals (c->ids, completion->ids->data, completion->ids->len);
  g_array_append_vals (c->log_probs, completion->log_probs->data, completion->log_probs->len);
  gint32 end = (gint32) c->ids->len;
  g_array_append_val (c->offsets, end);
}

static void
add_garray (GVariantDict *body, const char *key, GArray *array)
{
  plumb_body_add_array (body, key, array->data, array->len, g_array_get_element_size (array));
}

static GVariant *
handle_generate (Worker *self, GVariant *body, GError **error)
{
  PlumbSampling sampling = { 0 };
  gsize n_stop = 0;
  gint64 total = 0, seed = 0;
  if (!self->rollout)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker was opened without generation");
      return NULL;
    }
  const void *stop = plumb_body_get_array (body, "stop", sizeof (gint32), &n_stop);
  g_autofree gint32 *stop_ids = g_memdup2 (stop ? stop : "", n_stop * sizeof (gint32));
  sampling.stop = stop_ids;
  sampling.n_stop = (int) n_stop;
  g_variant_lookup (body, "temperature", "d", &sampling.temperature);
  g_variant_lookup (body, "max-new-tokens", "i", &sampling.max_new_tokens);
  g_variant_lookup (body, "min-new-tokens", "i", &sampling.min_new_tokens);
  g_variant_lookup (body, "purpose", "i", &sampling.purpose);
  g_variant_lookup (body, "seed", "x", &seed);
  sampling.seed = (guint64) seed;
  if (!plumb_rollout_begin (self->rollout, &sampling, error)
      || !submit_prompts (self, body, &total, error))
    {
      plumb_rollout_abort (self->rollout);
      return NULL;
    }
  g_auto (Collected) collected = { 0 };
  collected_init (&collected);
  for (gboolean idle = FALSE; !idle;)
    {
      if (!plumb_rollout_advance (self->rollout, &idle, error)
          || !report_progress (collected.ordinals->len, total, self, error))
        {
          plumb_rollout_abort (self->rollout);
          return NULL;
        }
      for (PlumbCompletion *next; (next = plumb_rollout_take (self->rollout));)
        {
          collect (&collected, next);
          plumb_completion_free (next);
        }
    }
  PlumbRolloutStatistics statistics;
  plumb_rollout_statistics (self->rollout, &statistics);
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  add_garray (answer, "ordinals", collected.ordinals);
  add_garray (answer, "samples", collected.samples);
  add_garray (answer, "finish", collected.finish);
  add_garray (answer, "offsets", collected.offsets);
  add_garray (answer, "ids", collected.ids);
  add_garray (answer, "log-probs", collected.log_probs);
  g_variant_dict_insert (answer, "tokens", "x", statistics.tokens);
  g_variant_dict_insert (answer, "passes", "x", statistics.passes);
  g_variant_dict_insert (answer, "decode-rows", "x", statistics.decode_rows);
  g_variant_dict_insert (answer, "prefill-tokens", "x", statistics.prefill_tokens);
  g_variant_dict_insert (answer, "shared-tokens", "x", statistics.shared_tokens);
  g_variant_dict_insert (answer, "kv-used", "d", statistics.kv_used);
  return g_variant_dict_end (answer);
}

static GVariant *
handle_log_probs (Worker *self, GVariant *body, GError **error)
{
  gboolean reference = FALSE;
  double temperature = 1;
  g_variant_lookup (body, "of-reference", "b", &reference);
  g_variant_lookup (body, "temperature", "d", &temperature);
  PlumbModel *model = reference ? self->reference : self->policy;
  if (!model)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker was opened without a reference");
      return NULL;
    }
  struct plumb_experience *e = plumb_body_get_experience (body, error);
  if (!e)
    return NULL;
  g_autofree float *log_probs = g_new (float, e->tokens + 1);
  g_autofree float *entropies = g_new (float, e->tokens + 1);
  GVariant *result = NULL;
  if (plumb_trainer_log_probs (self->trainer, model, e, temperature, log_probs, entropies, error))
    {
      g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
      plumb_body_add_array (answer, "log-probs", log_probs, (gsize) e->tokens, sizeof (float));
      plumb_body_add_array (answer, "entropies", entropies, (gsize) e->tokens, sizeof (float));
      result = g_variant_dict_end (answer);
    }
  plumb_experience_free (e);
  return result;
}

static GVariant *
handle_train (Worker *self, GVariant *body, GError **error)
{
  PlumbLossSpec loss = { 0 };
  struct plumb_loss_statistics s = { 0 };
  double rate = 0, norm = 0;
  PlumbStepResult result = PLUMB_STEP_DONE;
  g_variant_lookup (body, "learning-rate", "d", &rate);
  if (!plumb_body_get_loss (body, &loss, error))
    return NULL;
  struct plumb_experience *e = plumb_body_get_experience (body, error);
  if (!e)
    return NULL;
  g_autofree int *all = g_new (int, e->sequences + 1);
  for (int i = 0; i < e->sequences; i++)
    all[i] = i;
  gboolean ok = plumb_trainer_accumulate (self->trainer, e, all, e->sequences, &loss, &s, error)
                && plumb_trainer_step (self->trainer, rate, &result, &norm, error);
  plumb_experience_free (e);
  if (!ok)
    return NULL;
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  g_variant_dict_insert (answer, "finite", "b", result == PLUMB_STEP_DONE);
  g_variant_dict_insert (answer, "gradient-norm", "d", norm);
  g_variant_dict_insert_value (answer, "statistics",
                               g_variant_new_fixed_array (G_VARIANT_TYPE_DOUBLE, &s,
                                                          sizeof s / sizeof (double), sizeof (double)));
  return g_variant_dict_end (answer);
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

/* The policy (or the reference) as a Hugging Face folder FOLDER/NAME, and the optimizer's state beside it unless
 * only the model is wanted. */
static GVariant *
handle_save (Worker *self, GVariant *body, GError **error)
{
  gboolean model_only = FALSE;
  g_autofree char *name = NULL;
  g_variant_lookup (body, "name", "s", &name);
  g_autofree char *model = folder_file (body, name ? name : "model", error);
  g_autofree char *state = folder_file (body, "optimizer.safetensors", NULL);
  g_variant_lookup (body, "model-only", "b", &model_only);
  if (!model || !plumb_model_export (self->policy, self->settings.policy, model, error)
      || (!model_only && !plumb_trainer_save_state (self->trainer, state, error)))
    return NULL;
  return g_variant_new ("a{sv}", NULL);
}

static GVariant *
handle_load (Worker *self, GVariant *body, GError **error)
{
  g_autofree char *model = folder_file (body, "model", error);
  g_autofree char *state = folder_file (body, "optimizer.safetensors", NULL);
  g_autoptr (PlumbSafetensors) tensors = model ? plumb_safetensors_open_model (model, error) : NULL;
  if (!tensors
      || !plumb_weights_load (self->device, self->policy->table, self->policy->config,
                              plumb_model_weights (self->policy), self->policy->type, tensors, error)
      || !plumb_trainer_load_state (self->trainer, state, error))
    return NULL;
  plumb_model_touch (self->policy);
  return g_variant_new ("a{sv}", NULL);
}

static GVariant *
handle_stage (Worker *self, GVariant *body, GError **error)
{
  plumb_trainer_reset_state (self->trainer);
  if (self->reference && self->settings.reference_from_policy)
    {
      self->device->ops->copy (self->device->context, plumb_model_weights (self->reference),
                               plumb_model_weights (self->policy),
                               self->policy->table->elements * dev_type_size (self->policy->type));
      plumb_model_touch (self->reference);
    }
  return plumb_device_check (self->device, error) ? g_variant_new ("a{sv}", NULL) : NULL;
}

typedef GVariant *(*Handler) (Worker *, GVariant *, GError **);

static const Handler handlers[] = {
  [PLUMB_MESSAGE_OPEN] = handle_open,           [PLUMB_MESSAGE_GENERATE] = handle_generate,
  [PLUMB_MESSAGE_LOG_PROBS] = handle_log_probs, [PLUMB_MESSAGE_TRAIN] = handle_train,
  [PLUMB_MESSAGE_SAVE] = handle_save,           [PLUMB_MESSAGE_LOAD] = handle_load,
  [PLUMB_MESSAGE_STAGE] = handle_stage,
};

static gboolean
answer_request (Worker *self, const PlumbMessage *request, GError **error)
{
  g_autoptr (GError) local = NULL;
  Handler handler = request->kind < G_N_ELEMENTS (handlers) ? handlers[request->kind] : NULL;
  gboolean opened = self->policy || request->kind == PLUMB_MESSAGE_OPEN;
  GVariant *body = NULL;
  self->request = request;
  if (handler && opened)
    body = handler (self, request->body, &local);
  else
    g_set_error (&local, PLUMB_ERROR, PLUMB_ERROR_FAILED, "worker %u cannot answer %s %s", self->number,
                 plumb_message_kind_name (request->kind), opened ? "" : "before it was opened");
  if (body)
    return reply (self, PLUMB_MESSAGE_DONE, body, error);
  g_autoptr (GVariantDict) failure = g_variant_dict_new (NULL);
  g_variant_dict_insert (failure, "code", "i", plumb_error_exit_code (local));
  g_variant_dict_insert (failure, "message", "s", local->message);
  return reply (self, PLUMB_MESSAGE_FAILED, g_variant_dict_end (failure), error);
}

void
plumb_worker_serve (void *zmq_context, const char *address, guint32 number)
{
  Worker self = { .number = number };
  g_autoptr (GError) error = NULL;
  int linger = 1000;
  self.socket = zmq_socket (zmq_context, ZMQ_DEALER);
  zmq_setsockopt (self.socket, ZMQ_ROUTING_ID, &number, sizeof number);
  zmq_setsockopt (self.socket, ZMQ_LINGER, &linger, sizeof linger);
  if (zmq_connect (self.socket, address) != 0)
    g_warning ("worker %u cannot reach its controller: %s", number, zmq_strerror (zmq_errno ()));
  gboolean running = reply (&self, PLUMB_MESSAGE_HELLO, NULL, &error);
  while (running && !error)
    {
      g_autoptr (PlumbMessage) request = plumb_message_receive (self.socket, FALSE, 1000, &error);
      if (!request)
        continue;
      running = request->kind != PLUMB_MESSAGE_CLOSE && answer_request (&self, request, &error)
                && !self.closing;
      self.request = NULL;
    }
  if (error)
    g_warning ("worker %u: %s", number, error->message);
  worker_close_models (&self);
  zmq_close (self.socket);
}

typedef struct
{
  void *zmq_context;
  char *address;
  guint32 number;
} Start;

static gpointer
worker_thread (gpointer data)
{
  Start *start = data;
  plumb_worker_serve (start->zmq_context, start->address, start->number);
  g_free (start->address);
  g_free (start);
  return NULL;
}

GThread *
plumb_worker_start (void *zmq_context, const char *address, guint32 number)
{
  Start *start = g_new (Start, 1);
  start->zmq_context = zmq_context;
  start->address = g_strdup (address);
  start->number = number;
  return g_thread_new ("worker", worker_thread, start);
}
