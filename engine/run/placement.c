/* SPDX-License-Identifier: Apache-2.0 */

/* Which worker of a run works on which device. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/placement.h"
#include "engine/run/recipe.h"

#define SMALLEST_WORKSPACE (1 << 20)
#define SAME "same" /* the device and worker of the policy */

static const PlumbRole roles[] = { PLUMB_ROLE_CRITIC, PLUMB_ROLE_REFERENCE, PLUMB_ROLE_REWARD };

/* The GPU of a number counted from the first one; FALSE where it is no GPU. */
static gboolean
count_on (const char *device, gint64 steps, char **other)
{
  guint64 first = 0;
  if (!g_str_has_prefix (device, "cuda:")
      || !g_ascii_string_to_unsigned (device + strlen ("cuda:"), 10, 0, G_MAXINT, &first, NULL))
    return FALSE;
  *other = g_strdup_printf ("cuda:%" G_GINT64_FORMAT, (gint64) first + steps);
  return TRUE;
}

static PlumbDevice *
open_device (const char *name, const char *key, GError **error)
{
  PlumbDevice *device = plumb_device_open (name, SMALLEST_WORKSPACE, error);
  if (!device)
    g_prefix_error (error, "%s: ", key);
  return device;
}

/* Each worker takes a GPU of its own, from that of the run on. */
static gboolean
check_workers (const char *first, gint64 workers, GError **error)
{
  for (gint64 i = 1; i < workers; i++)
    {
      g_autofree char *name = NULL;
      if (!count_on (first, i, &name))
        return TRUE;
      g_autoptr (PlumbDevice) device = plumb_device_open (name, SMALLEST_WORKSPACE, error);
      if (!device)
        {
          g_prefix_error (error, "placement.workers = %" G_GINT64_FORMAT " takes as many GPUs from %s on; ", workers,
                          first);
          return FALSE;
        }
    }
  return TRUE;
}

gboolean
plumb_placement_is_placed (PlumbSpec *spec, PlumbRole role)
{
  const char *key = plumb_role_key (role), *text = plumb_spec_get_text (spec, key);
  return !plumb_spec_is_auto (spec, key) && text && !g_str_equal (text, SAME);
}

static gboolean
generates_ahead (PlumbSpec *spec)
{
  return plumb_recipe (plumb_spec_algorithm (spec))->online && plumb_spec_get_boolean (spec, "rollout.async");
}

gboolean
plumb_placement_needs (PlumbSpec *spec, PlumbRole role)
{
  switch (role)
    {
    case PLUMB_ROLE_ROLLOUT:
      return generates_ahead (spec);
    case PLUMB_ROLE_CRITIC:
      return plumb_recipe (plumb_spec_algorithm (spec))->critic;
    case PLUMB_ROLE_REFERENCE:
      return plumb_recipe_needs_reference (spec);
    case PLUMB_ROLE_REWARD:
      return plumb_spec_is_set (spec, "model.reward");
    default:
      return TRUE;
    }
}

gboolean
plumb_placement_check (PlumbSpec *spec, GError **error)
{
  static const PlumbRole all[]
      = { PLUMB_ROLE_POLICY, PLUMB_ROLE_ROLLOUT, PLUMB_ROLE_CRITIC, PLUMB_ROLE_REFERENCE, PLUMB_ROLE_REWARD };
  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    {
      const char *key = plumb_role_key (all[i]);
      if (!plumb_placement_is_placed (spec, all[i]) || !plumb_placement_needs (spec, all[i]))
        continue;
      g_autoptr (PlumbDevice) device = open_device (plumb_spec_get_text (spec, key), key, error);
      if (!device)
        return FALSE;
    }
  gboolean automatic = plumb_spec_is_auto (spec, "placement.policy");
  g_autofree char *first = plumb_device_choose (automatic ? NULL : plumb_spec_get_text (spec, "placement.policy"), NULL);
  return check_workers (first, plumb_spec_get_integer (spec, "placement.workers"), error);
}

/* The device of the run: a GPU that the spec names must be there; without a name the first one is taken, or the CPU with
 * the reason. */
static gboolean
choose_policy (PlumbWorkerSettings *s, PlumbSpec *spec, PlumbPlacementDevice *found, GError **error)
{
  gboolean automatic = plumb_spec_is_auto (spec, "placement.policy");
  g_autofree char *reason = NULL;
  s->device = plumb_device_choose (automatic ? NULL : plumb_spec_get_text (spec, "placement.policy"), &reason);
  if (reason)
    s->no_gpu = g_steal_pointer (&reason);
  g_autoptr (PlumbDevice) device = open_device (s->device, "placement.policy", error);
  if (!device)
    return FALSE;
  struct dev_info info = { 0 };
  device->ops->info (device->context, &info);
  *found = (PlumbPlacementDevice){ info.memory_available, device->asynchronous };
  s->deterministic = plumb_spec_is_auto (spec, "run.deterministic")
                         ? !device->asynchronous
                         : plumb_spec_get_boolean (spec, "run.deterministic");
  return (!automatic || plumb_spec_resolve (spec, "placement.policy", s->device, error))
         && (!plumb_spec_is_auto (spec, "run.deterministic")
             || plumb_spec_resolve (spec, "run.deterministic", s->deterministic ? "yes" : "no", error));
}

/* What generates ahead takes the GPU after those that train where there is one; else it shares the last of them. */
static gboolean
choose_rollout (PlumbWorkerSettings *s, PlumbSpec *spec, GError **error)
{
  gint64 workers = plumb_spec_get_integer (spec, "placement.workers");
  g_autofree char *next = NULL, *last = NULL;
  if (!generates_ahead (spec))
    return TRUE;
  gboolean automatic = plumb_spec_is_auto (spec, "placement.rollout");
  gboolean gpu = automatic && count_on (s->device, workers, &next) && count_on (s->device, workers - 1, &last);
  const char *name = !automatic ? plumb_spec_get_text (spec, "placement.rollout") : gpu ? next : s->device;
  g_autoptr (GError) missing = NULL;
  g_autoptr (PlumbDevice) device = open_device (name, "placement.rollout", &missing);
  if (!device && !automatic)
    {
      g_propagate_error (error, g_steal_pointer (&missing));
      return FALSE;
    }
  char **place = &s->devices[PLUMB_ROLE_ROLLOUT];
  *place = g_strdup (device ? name : last);
  return !automatic || plumb_spec_resolve (spec, "placement.rollout", *place, error);
}

gboolean
plumb_placement_choose (PlumbWorkerSettings *s, PlumbSpec *spec, PlumbPlacementDevice *device, GError **error)
{
  s->ranks = (int) plumb_spec_get_integer (spec, "placement.workers");
  return choose_policy (s, spec, device, error) && check_workers (s->device, s->ranks, error)
         && choose_rollout (s, spec, error);
}

gboolean
plumb_placement_choose_roles (PlumbWorkerSettings *s, PlumbSpec *spec, GError **error)
{
  const char *const models[PLUMB_N_ROLES] = { [PLUMB_ROLE_CRITIC] = s->critic,
                                              [PLUMB_ROLE_REFERENCE] = s->reference,
                                              [PLUMB_ROLE_REWARD] = s->reward };
  for (gsize i = 0; i < G_N_ELEMENTS (roles); i++)
    {
      const char *key = plumb_role_key (roles[i]);
      if (!models[roles[i]] || !plumb_placement_is_placed (spec, roles[i]))
        continue;
      g_autoptr (PlumbDevice) device = open_device (plumb_spec_get_text (spec, key), key, error);
      if (!device)
        return FALSE;
      s->devices[roles[i]] = g_strdup (plumb_spec_get_text (spec, key));
    }
  return TRUE;
}

void
plumb_placement_settings (PlumbWorkerSettings *own, const PlumbWorkerSettings *s, PlumbRole role, int rank, char **device)
{
  plumb_worker_settings_for (own, s, role);
  *device = NULL;
  if (role != PLUMB_ROLE_POLICY)
    return;
  own->rank = rank;
  if (s->ranks > 1 && s->device && count_on (s->device, rank, device))
    own->device = *device;
}

static void
worker_clear (gpointer data)
{
  PlumbPlacedWorker *worker = data;
  g_free (worker->device);
}

/* `program` is what this process held before it opened a device: the libraries of a GPU, which it holds by now where there are
 * several, are not in a worker on the CPU. */
static gboolean
add_worker (GArray *workers, const PlumbWorkerSettings *s, PlumbRole role, int rank, gsize program, GError **error)
{
  PlumbWorkerSettings own;
  g_autofree char *counted = NULL;
  PlumbPlacedWorker worker = { .number = workers->len + 1, .role = role };
  plumb_placement_settings (&own, s, role, rank, &counted);
  const char *name = own.device ? own.device : "cpu";
  g_autoptr (PlumbDevice) device = plumb_device_open (name, SMALLEST_WORKSPACE, error);
  if (!device || !plumb_memory_plan_make (&worker.memory, &own, device, error))
    return FALSE;
  if (workers->len > 0)
    worker.memory.program = MIN (worker.memory.program, program);
  struct dev_info info = { 0 };
  device->ops->info (device->context, &info);
  worker.memory_available = info.memory_available;
  worker.device = g_strdup (name);
  g_array_append_val (workers, worker);
  return TRUE;
}

GArray *
plumb_placement_plan (const PlumbWorkerSettings *s, GError **error)
{
  g_autoptr (GArray) workers = g_array_new (FALSE, FALSE, sizeof (PlumbPlacedWorker));
  gsize program = plumb_resident_bytes ();
  g_array_set_clear_func (workers, worker_clear);
  for (int rank = 0; rank < MAX (1, s->ranks); rank++)
    if (!add_worker (workers, s, PLUMB_ROLE_POLICY, rank, program, error))
      return NULL;
  for (int role = PLUMB_ROLE_POLICY + 1; role < PLUMB_N_ROLES; role++)
    if (s->devices[role] && !add_worker (workers, s, (PlumbRole) role, 0, program, error))
      return NULL;
  return g_steal_pointer (&workers);
}

gsize
plumb_placement_others (GArray *workers)
{
  const PlumbPlacedWorker *first = &g_array_index (workers, PlumbPlacedWorker, 0);
  gsize bytes = 0;
  for (guint i = 1; i < workers->len; i++)
    {
      const PlumbPlacedWorker *other = &g_array_index (workers, PlumbPlacedWorker, i);
      if (other->role != PLUMB_ROLE_POLICY && g_str_equal (other->device, first->device))
        bytes += plumb_memory_plan_needed (&other->memory);
    }
  return bytes;
}

/* What the workers of a device are to take of it, or of the host: bytes. */
static gsize
needed_of (GArray *workers, const char *device, gboolean host)
{
  gsize bytes = 0;
  for (guint i = 0; i < workers->len; i++)
    {
      const PlumbPlacedWorker *worker = &g_array_index (workers, PlumbPlacedWorker, i);
      bytes += g_str_equal (worker->device, device) ? plumb_memory_plan_needed (&worker->memory) : 0;
      bytes += host ? worker->memory.host : 0;
    }
  return bytes;
}

static guint64
available_of (GArray *workers, const char *device, GError **error)
{
  struct dev_info info = { 0 };
  for (guint i = 0; i < workers->len; i++)
    if (g_str_equal (g_array_index (workers, PlumbPlacedWorker, i).device, device))
      return g_array_index (workers, PlumbPlacedWorker, i).memory_available;
  g_autoptr (PlumbDevice) opened = plumb_device_open (device, SMALLEST_WORKSPACE, error);
  if (opened)
    opened->ops->info (opened->context, &info);
  return info.memory_available;
}

/* Who takes how much of a device, for a message. */
static char *
describe (GArray *workers, const char *device, gboolean host)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < workers->len; i++)
    {
      const PlumbPlacedWorker *worker = &g_array_index (workers, PlumbPlacedWorker, i);
      gboolean own = g_str_equal (worker->device, device);
      g_autofree char *plan = plumb_memory_plan_to_text (&worker->memory);
      if (own || (host && worker->memory.host > 0))
        g_string_append_printf (text, "%sworker %u, the %s, %s", text->len > 0 ? "; " : "", worker->number,
                                plumb_role_name (worker->role), plan);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static gboolean
check_device (GArray *workers, const char *device, GError **error)
{
  gboolean cpu = g_str_equal (device, "cpu");
  gsize needed = needed_of (workers, device, cpu), host = cpu ? needed - needed_of (workers, device, FALSE) : 0;
  guint64 available = needed > 0 ? available_of (workers, device, error) : 0;
  if (needed <= available)
    return TRUE;
  g_autofree char *text = describe (workers, device, cpu);
  g_clear_error (error);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
               "the run needs %.1f MB of %s, which has %.1f MB free: %s. Lower train.tokens_per_micro_batch, rollout.max_running, "
               "rollout.max_new_tokens or placement.workers%s", needed / 1e6, device, available / 1e6, text,
               host > 0 ? ", or set train.offload = none" : "");
  return FALSE;
}

gboolean
plumb_placement_check_memory (GArray *workers, GError **error)
{
  for (guint i = 0; i < workers->len; i++)
    if (!check_device (workers, g_array_index (workers, PlumbPlacedWorker, i).device, error))
      return FALSE;
  return check_device (workers, "cpu", error);
}

gboolean
plumb_placement_fit (PlumbWorkerSettings *s, gboolean any_recompute, gboolean any_together, GError **error)
{
  /* By what they cost: taking turns a moment per step, recomputing a part of each backward pass. */
  static const struct
  {
    gboolean together;
    PlumbRecompute recompute;
  } ladder[] = {
    { FALSE, PLUMB_RECOMPUTE_NONE },     { TRUE, PLUMB_RECOMPUTE_NONE }, { FALSE, PLUMB_RECOMPUTE_SELECTIVE },
    { TRUE, PLUMB_RECOMPUTE_SELECTIVE }, { TRUE, PLUMB_RECOMPUTE_FULL },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (ladder); i++)
    {
      if (any_together)
        s->together = ladder[i].together;
      if (any_recompute)
        s->trainer.recompute = ladder[i].recompute;
      g_autoptr (GArray) workers = plumb_placement_plan (s, error);
      if (!workers)
        return FALSE;
      if (plumb_placement_check_memory (workers, NULL))
        return TRUE;
    }
  return TRUE;
}
