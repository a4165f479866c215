/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/run/settings.h"

void
plumb_worker_settings_clear (PlumbWorkerSettings *s)
{
  g_clear_pointer (&s->no_gpu, g_free);
  g_clear_pointer (&s->policy, g_free);
  g_clear_pointer (&s->reference, g_free);
  g_clear_pointer (&s->critic, g_free);
  g_clear_pointer (&s->reward, g_free);
  g_clear_pointer (&s->device, g_free);
  g_clear_pointer (&s->comm, g_free);
  for (int role = 0; role < PLUMB_N_ROLES; role++)
    g_clear_pointer (&s->devices[role], g_free);
}

/* Numbers of the settings by name: one list for both directions. */
typedef struct
{
  const char *key;
  int *integer;
  double *real;
} Number;

#define N_NUMBERS 28

static void
list_numbers (PlumbWorkerSettings *s, int *type, int *recompute, Number numbers[N_NUMBERS])
{
  const Number all[N_NUMBERS] = {
    { "type", type, NULL },
    { "deterministic", &s->deterministic, NULL },
    { "reference-from-policy", &s->reference_from_policy, NULL },
    { "scalar", &s->scalar, NULL },
    { "role", &s->role, NULL },
    { "measure-only", &s->measure_only, NULL },
    { "seed", &s->seed, NULL },
    { "rank", &s->rank, NULL },
    { "ranks", &s->ranks, NULL },
    { "max-length", &s->max_length, NULL },
    { "vocabulary", &s->vocabulary, NULL },
    { "together", &s->together, NULL },
    { "recompute", recompute, NULL },
    { "offload", &s->trainer.offload, NULL },
    { "micro-batch", &s->tokens_per_micro_batch, NULL },
    { "max-running", &s->rollout.max_running, NULL },
    { "page-tokens", &s->rollout.page_tokens, NULL },
    { "pages", &s->rollout.pages, NULL },
    { "max-prompt", &s->rollout.max_prompt, NULL },
    { "max-new-tokens", &s->rollout.max_new_tokens, NULL },
    { "prefill-tokens", &s->rollout.prefill_tokens, NULL },
    { "kv-codes", &s->rollout.kv_codes, NULL },
    { "weight-codes", &s->rollout.weight_codes, NULL },
    { "beta1", NULL, &s->trainer.beta1 },
    { "beta2", NULL, &s->trainer.beta2 },
    { "epsilon", NULL, &s->trainer.epsilon },
    { "weight-decay", NULL, &s->trainer.weight_decay },
    { "max-grad-norm", NULL, &s->trainer.max_grad_norm },
  };
  for (int i = 0; i < N_NUMBERS; i++)
    numbers[i] = all[i];
}

GVariant *
plumb_worker_settings_to_body (const PlumbWorkerSettings *settings)
{
  PlumbWorkerSettings copy = *settings;
  int type = (int) settings->type, recompute = (int) settings->trainer.recompute;
  Number numbers[N_NUMBERS];
  list_numbers (&copy, &type, &recompute, numbers);
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_variant_dict_insert (body, "policy", "s", settings->policy);
  if (settings->reference)
    g_variant_dict_insert (body, "reference", "s", settings->reference);
  if (settings->critic)
    g_variant_dict_insert (body, "critic", "s", settings->critic);
  if (settings->reward)
    g_variant_dict_insert (body, "reward", "s", settings->reward);
  if (settings->device)
    g_variant_dict_insert (body, "device", "s", settings->device);
  if (settings->comm)
    g_variant_dict_insert (body, "comm", "s", settings->comm);
  for (int i = 0; i < N_NUMBERS; i++)
    if (numbers[i].integer)
      g_variant_dict_insert (body, numbers[i].key, "i", *numbers[i].integer);
    else
      g_variant_dict_insert (body, numbers[i].key, "d", *numbers[i].real);
  return g_variant_dict_end (body);
}

gboolean
plumb_worker_settings_from_body (PlumbWorkerSettings *s, GVariant *body, GError **error)
{
  int type = 0, recompute = 0;
  Number numbers[N_NUMBERS];
  list_numbers (s, &type, &recompute, numbers);
  gboolean ok = g_variant_lookup (body, "policy", "s", &s->policy);
  g_variant_lookup (body, "reference", "s", &s->reference);
  g_variant_lookup (body, "critic", "s", &s->critic);
  g_variant_lookup (body, "reward", "s", &s->reward);
  g_variant_lookup (body, "device", "s", &s->device);
  g_variant_lookup (body, "comm", "s", &s->comm);
  for (int i = 0; i < N_NUMBERS && ok; i++)
    ok = numbers[i].integer ? g_variant_lookup (body, numbers[i].key, "i", numbers[i].integer)
                            : g_variant_lookup (body, numbers[i].key, "d", numbers[i].real);
  s->type = type == DEV_BF16 ? DEV_BF16 : DEV_F32;
  s->trainer.recompute = (PlumbRecompute) CLAMP (recompute, 0, PLUMB_N_RECOMPUTE - 1);
  if (!ok)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a message lacks settings of the worker");
  return ok;
}

void
plumb_worker_settings_for (PlumbWorkerSettings *own, const PlumbWorkerSettings *all, PlumbRole role)
{
  gboolean policy = role == PLUMB_ROLE_POLICY;
  *own = *all;
  own->role = (int) role;
  own->critic = role == PLUMB_ROLE_CRITIC || (policy && !all->devices[PLUMB_ROLE_CRITIC]) ? all->critic : NULL;
  own->reference = role == PLUMB_ROLE_REFERENCE || (policy && !all->devices[PLUMB_ROLE_REFERENCE]) ? all->reference : NULL;
  own->reward = role == PLUMB_ROLE_REWARD || (policy && !all->devices[PLUMB_ROLE_REWARD]) ? all->reward : NULL;
  if (policy)
    return;
  own->device = all->devices[role];
  own->comm = NULL;
  own->together = FALSE;
  own->rank = 0;
  own->ranks = 1;
  if (role != PLUMB_ROLE_ROLLOUT)
    own->rollout.max_new_tokens = 0;
}

static int
positions_of (const PlumbWorkerSettings *s, const PlumbModelConfig *config)
{
  return s->max_length > 0 ? MIN (s->max_length, config->positions) : config->positions;
}

gsize
plumb_worker_workspace (const PlumbWorkerSettings *s, const PlumbModelConfig *c)
{
  int qkv = (c->heads + 2 * c->groups) * c->head_size;
  const struct dev_ops *ops = plumb_device_backend (s->device ? s->device : "cpu", NULL);
  gsize bytes = (ops ? ops : dev_cpu ())
      ->workspace_size (c->vocabulary, positions_of (s, c), c->head_size, MAX (MAX (qkv, c->width), c->mlp));
  return s->rollout.weight_codes ? MAX (bytes, plumb_model_code_workspace (c, s->type)) : bytes;
}

gsize
plumb_resident_bytes (void)
{
  g_autofree char *text = NULL;
  long long total = 0, resident = 0;
  if (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL))
    sscanf (text, "%lld %lld", &total, &resident);
  return (gsize) resident * (gsize) sysconf (_SC_PAGESIZE);
}

/* Gradients and the optimizer's state; what of it lies with the host is counted there. */
static gsize
state_bytes (PlumbMemoryPlan *plan, const PlumbWorkerSettings *s, const PlumbModelConfig *config, PlumbDevice *device)
{
  gsize gradients = plumb_trainer_gradient_bytes (config), state = plumb_trainer_state_bytes (config, s->type);
  if (!s->trainer.offload || !device->asynchronous)
    return gradients + state;
  plan->host += state;
  return gradients;
}

/* A reference that is alone. */
static gboolean
plan_reference (PlumbMemoryPlan *plan, const PlumbWorkerSettings *s, PlumbDevice *device, GError **error)
{
  g_autoptr (PlumbModelConfig) config = s->reference ? plumb_model_config_load (s->reference, error) : NULL;
  if (!config)
    return !s->reference;
  int positions = positions_of (s, config);
  plan->workspace = MAX (plan->workspace, plumb_worker_workspace (s, config));
  plan->reference = plumb_model_bytes (device, config, s->type, positions, FALSE)
                    + plumb_trainer_activation_bytes (config, s->type, positions, s->tokens_per_micro_batch, FALSE,
                                                      PLUMB_RECOMPUTE_NONE);
  return TRUE;
}

/* Host copies while an optimizer's state is written. */
static gsize
checkpoint_bytes (const PlumbWorkerSettings *s, const PlumbModelConfig *config, PlumbDevice *device)
{
  return device->asynchronous || s->measure_only ? 0 : plumb_trainer_state_bytes (config, s->type);
}

/* Critic, with all that training takes, and reward model, with what scoring takes. */
static gboolean
plan_scalars (PlumbMemoryPlan *plan, const PlumbWorkerSettings *s, PlumbDevice *device, GError **error)
{
  const struct
  {
    const char *dir;
    gsize *bytes;
    gboolean trained;
  } models[] = { { s->critic, &plan->critic, !s->measure_only }, { s->reward, &plan->reward, FALSE } };
  for (gsize i = 0; i < G_N_ELEMENTS (models); i++)
    {
      if (!models[i].dir)
        continue;
      g_autoptr (PlumbModelConfig) config = plumb_model_config_load (models[i].dir, error);
      if (!config)
        return FALSE;
      plumb_model_config_make_scalar (config);
      int positions = positions_of (s, config);
      plan->workspace = MAX (plan->workspace, plumb_worker_workspace (s, config));
      gsize activations = plumb_trainer_activation_bytes (config, s->type, positions, s->tokens_per_micro_batch,
                                                          models[i].trained, s->trainer.recompute);
      *models[i].bytes = plumb_model_bytes (device, config, s->type, positions, FALSE) + activations
                         + (models[i].trained ? state_bytes (plan, s, config, device) : 0);
      plan->turns += activations;
      if (models[i].trained && s->role == PLUMB_ROLE_CRITIC)
        plan->checkpoint = checkpoint_bytes (s, config, device);
    }
  return TRUE;
}

/* The policy, with what training and generating take of those that this worker does. */
static gboolean
plan_policy (PlumbMemoryPlan *plan, const PlumbWorkerSettings *s, PlumbDevice *device, GError **error)
{
  g_autoptr (PlumbModelConfig) config = plumb_model_config_load (s->policy, error);
  gboolean trains = s->role == PLUMB_ROLE_POLICY;
  if (!config)
    return FALSE;
  if (s->scalar)
    plumb_model_config_make_scalar (config);
  int positions = positions_of (s, config);
  plan->weights = plumb_model_bytes (device, config, s->type, positions, FALSE);
  plan->workspace = plumb_worker_workspace (s, config);
  plan->reference = s->reference ? plan->weights : 0;
  if (trains)
    plan->activations
        = plumb_trainer_activation_bytes (config, s->type, positions, s->tokens_per_micro_batch, !s->measure_only,
                                          s->measure_only ? PLUMB_RECOMPUTE_NONE : s->trainer.recompute);
  if (trains && !s->measure_only)
    {
      plan->state = state_bytes (plan, s, config, device);
      plan->checkpoint = checkpoint_bytes (s, config, device);
    }
  plan->turns = plan->activations;
  if (s->rollout.max_new_tokens == 0)
    return TRUE;
  PlumbRolloutPlan rollout = s->rollout;
  plumb_rollout_plan_complete (&rollout, config);
  plan->packed = plumb_model_bytes (device, config, s->type, positions, TRUE) - plan->weights
                 + (s->rollout.weight_codes ? plumb_model_code_bytes (config) : 0);
  plan->rollout = plumb_rollout_bytes (config, s->type, &rollout);
  return TRUE;
}

gboolean
plumb_memory_plan_make (PlumbMemoryPlan *plan, const PlumbWorkerSettings *s, PlumbDevice *device,
                        GError **error)
{
  gboolean policy = s->role == PLUMB_ROLE_POLICY || s->role == PLUMB_ROLE_ROLLOUT;
  /* What lies in the host's memory counts where the device works in it. */
  *plan = (PlumbMemoryPlan){ .program = device->asynchronous ? 0 : plumb_resident_bytes () };
  if (!(policy ? plan_policy (plan, s, device, error) : plan_reference (plan, s, device, error))
      || !plan_scalars (plan, s, device, error))
    return FALSE;
  plan->asleep = s->together ? plan->turns : 0;
  plan->turns = s->together ? MIN (plan->turns, plan->rollout) : 0;
  return TRUE;
}

gsize
plumb_memory_plan_total (const PlumbMemoryPlan *p)
{
  return p->program + plumb_memory_plan_needed (p) + p->others;
}

gsize
plumb_memory_plan_needed (const PlumbMemoryPlan *p)
{
  return p->weights + p->packed + p->reference + p->critic + p->reward + p->state + p->activations + p->rollout + p->workspace
         + p->checkpoint - p->turns;
}

gsize
plumb_memory_plan_peak (const PlumbMemoryPlan *p, PlumbMemoryPhase phase)
{
  gsize all = p->program + plumb_memory_plan_needed (p) + p->turns - p->checkpoint;
  gsize rollout = p->asleep > 0 ? p->rollout : 0; /* sleeps while the others work */
  switch (phase)
    {
    case PLUMB_MEMORY_GENERATE:
      return p->rollout > 0 ? all - p->asleep : 0;
    case PLUMB_MEMORY_CHECKPOINT:
      return p->checkpoint > 0 ? all - rollout + p->checkpoint : 0;
    default:
      return p->state + p->activations + p->critic + p->reward + p->reference > 0 ? all - rollout : 0;
    }
}

/* What stands only where it is more than nothing. */
static char *
part_to_text (const char *before, gsize bytes, const char *after)
{
  return bytes > 0 ? g_strdup_printf ("%s %.1f%s", before, (double) bytes / 1e6, after) : g_strdup ("");
}

char *
plumb_memory_plan_to_text (const PlumbMemoryPlan *p)
{
  g_autofree char *others = part_to_text (", other processes", p->others, "");
  g_autofree char *turns = part_to_text (", less", p->turns, " by taking turns");
  g_autofree char *host = part_to_text ("; beside it", p->host, " MB of the host's memory");
  return g_strdup_printf ("%.1f MB: program %.1f, weights %.1f, packed copies %.1f, reference %.1f, critic %.1f, reward model %.1f, gradients and optimizer "
                          "%.1f, activations %.1f, rollout %.1f, workspace %.1f, checkpoint %.1f%s%s%s",
                          plumb_memory_plan_total (p) / 1e6, p->program / 1e6, p->weights / 1e6, p->packed / 1e6,
                          p->reference / 1e6, p->critic / 1e6, p->reward / 1e6, p->state / 1e6, p->activations / 1e6, p->rollout / 1e6,
                          p->workspace / 1e6, p->checkpoint / 1e6, others, turns, host);
}
