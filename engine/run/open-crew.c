/* SPDX-License-Identifier: Apache-2.0 */

/* The workers of a run are started, and load its models. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>
#include <sys/resource.h>

#include "engine/comm/comm.h"
#include "engine/run/ahead.h"
#include "engine/run/placement.h"
#include "engine/run/prepare.h"
#include "engine/run/run.h"

static gboolean
tick (gint64 done, gint64 of, gpointer data)
{
  plumb_run_ahead_attend (data);
  return plumb_run_tick (data, done, of);
}

/* What one worker is to open: of those that train all the same, each with its place among them. */
static GVariant *
settings_body (PlumbRun *run, const PlumbWorkerSettings *settings, PlumbRole role, int rank)
{
  PlumbWorkerSettings own;
  g_autofree char *device = NULL;
  plumb_placement_settings (&own, settings, role, rank, &device);
  if (role == PLUMB_ROLE_POLICY)
    own.comm = run->comm ? (char *) plumb_shared_memory_path (run->comm) : NULL;
  plumb_hardware_watch (run->hardware, own.device);
  return plumb_worker_settings_to_body (&own);
}

/* What a worker with a role of its own did, as a row of the timeline. */
static void
record_span (guint32 worker, PlumbRole role, PlumbMessageKind kind, gint64 begin, gint64 end, gpointer data)
{
  static const char *const names[] = {
    [PLUMB_MESSAGE_OPEN] = "load",       [PLUMB_MESSAGE_LOAD] = "load",     [PLUMB_MESSAGE_SAVE] = "checkpoint",
    [PLUMB_MESSAGE_LOG_PROBS] = "logprob", [PLUMB_MESSAGE_VALUES] = "logprob", [PLUMB_MESSAGE_TRAIN] = "train",
    [PLUMB_MESSAGE_STAGE] = "sync",
  };
  PlumbRun *run = data;
  g_autofree char *name = g_strdup_printf ("worker %u (%s)", worker, plumb_role_name (role));
  const char *phase = kind < G_N_ELEMENTS (names) ? names[kind] : NULL;
  double wall = plumb_telemetry_now (run->telemetry) - (double) g_get_monotonic_time () / G_USEC_PER_SEC;
  if (phase)
    plumb_telemetry_phase (run->telemetry, name, role == PLUMB_ROLE_REWARD && kind == PLUMB_MESSAGE_VALUES ? "score" : phase,
                           run->position.step, wall + (double) begin / G_USEC_PER_SEC,
                           wall + (double) end / G_USEC_PER_SEC);
}

/* A run that only measures has no use for a critic. */
static void
leave_critic (PlumbWorkerSettings *settings)
{
  g_clear_pointer (&settings->critic, g_free);
  g_clear_pointer (&settings->devices[PLUMB_ROLE_CRITIC], g_free);
}

static gboolean
start_crew (PlumbRun *run, PlumbWorkerSettings *settings, GError **error)
{
  g_autofree char *log = g_build_filename (run->dir, PLUMB_RUN_LOG, NULL);
  PlumbCrewPlan plan = {
    .attempt = plumb_telemetry_attempt (run->telemetry),
    .workers = run->alone ? 1 : (int) plumb_spec_get_integer (run->spec, "placement.workers"),
    .patience = plumb_spec_get_real (run->spec, "placement.timeout"),
    .log = log,
  };
  settings->measure_only = run->alone;
  settings->ranks = plan.workers;
  if (run->alone)
    {
      leave_critic (settings);
      g_clear_pointer (&settings->devices[PLUMB_ROLE_ROLLOUT], g_free);
    }
  for (int role = PLUMB_ROLE_POLICY + 1; role < PLUMB_N_ROLES; role++)
    plan.apart[role] = settings->devices[role] != NULL;
  if (plan.workers > 1 && !(run->comm = plumb_comm_memory_new (plan.workers, error)))
    return FALSE;
  run->crew = plumb_crew_start (&plan, error);
  if (!run->crew)
    return FALSE;
  plumb_crew_set_tick (run->crew, tick, run);
  plumb_crew_set_span (run->crew, record_span, run);
  return TRUE;
}

static void
add_planned (PlumbRun *run, GVariant *answer, gboolean first_of_role)
{
  guint64 planned = 0, checkpoint = 0;
  g_variant_lookup (answer, "planned", "t", &planned);
  g_variant_lookup (answer, "checkpoint-bytes", "t", &checkpoint);
  run->memory_planned += planned;
  /* Those that train hold the same. */
  run->checkpoint_bytes += first_of_role ? checkpoint : 0;
}

/* What this process takes itself, where the workers are others. */
static guint64
own_memory (void)
{
  struct rusage usage;
  return getrusage (RUSAGE_SELF, &usage) == 0 ? (guint64) usage.ru_maxrss * 1024 : 0;
}

/* All workers but the one that generates ahead load their models: their answers, in the order of the workers. */
static gboolean
open_models (PlumbRun *run, const PlumbWorkerSettings *settings, GArray *workers, GPtrArray *requests, GError **error)
{
  for (guint i = 0; i < workers->len; i++)
    {
      const PlumbPlacedWorker *worker = &g_array_index (workers, PlumbPlacedWorker, i);
      if (worker->role == PLUMB_ROLE_ROLLOUT)
        continue;
      GVariant *body = settings_body (run, settings, worker->role, (int) i);
      g_ptr_array_add (requests, plumb_crew_request_new (worker->number, PLUMB_MESSAGE_OPEN, body));
    }
  plumb_run_begin_phase (run, "load");
  gboolean ok = plumb_crew_ask_together (run->crew, requests, error);
  plumb_run_end_phase (run);
  for (guint i = 0; ok && i < requests->len; i++)
    {
      GVariant *answer = plumb_crew_request_answer (g_ptr_array_index (requests, i));
      double peak = 0;
      add_planned (run, answer, i == 0 || (int) i >= plumb_crew_size (run->crew));
      g_variant_lookup (answer, "peak", "d", &peak);
      run->limits.peak += peak;
    }
  return ok;
}

static void
tell_correction (PlumbRun *run)
{
  g_autoptr (GPtrArray) notes = plumb_problems_new ();
  plumb_run_note_correction (run->spec, notes);
  if (notes->len == 0)
    return;
  g_autofree char *text = plumb_problems_to_text (notes);
  plumb_progress_say (run->progress, "note     %s", text);
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "note", run->position.step, "%s", text);
}

/* What the run is made of, for the log. */
static void
tell_opened (PlumbRun *run, const PlumbWorkerSettings *settings, GVariant *opened)
{
  int workers = plumb_crew_size (run->crew);
  g_autofree char *each = workers > 1 ? g_strdup_printf ("%d workers, each ", workers) : g_strdup ("");
  const char *plan = "", *device = "", *products = "";
  guint64 parameters = 0;
  gint32 cores = 0;
  g_variant_lookup (opened, "plan", "&s", &plan);
  g_variant_lookup (opened, "device", "&s", &device);
  g_variant_lookup (opened, "products", "&s", &products);
  g_variant_lookup (opened, "parameters", "t", &parameters);
  g_variant_lookup (opened, "cores", "i", &cores);
  plumb_progress_say (run->progress, "run      %s", run->dir);
  plumb_progress_say (run->progress, "device   %s, %s%d threads, products: %s", device, each, cores, products);
  if (settings->no_gpu)
    plumb_progress_say (run->progress, "         no GPU: %s", settings->no_gpu);
  plumb_progress_say (run->progress, "model    %.2f M parameters, %s", parameters / 1e6,
                      plumb_spec_get_text (run->spec, "model.precision"));
  plumb_progress_say (run->progress, "memory   %s%s", each, plan);
  if (run->ahead)
    plumb_progress_say (run->progress, "ahead    worker %d generates on %s, at most %" G_GINT64_FORMAT " versions ahead%s",
                        workers + 1, settings->devices[PLUMB_ROLE_ROLLOUT],
                        plumb_spec_get_integer (run->spec, "rollout.max_staleness"),
                        plumb_spec_get_boolean (run->spec, "rollout.partial") ? ", partial completions" : "");
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "plan", run->position.step, "memory planned: %s%s", each,
                         plan);
}

void
plumb_run_note_workers (PlumbRun *run, GArray *workers)
{
  GPtrArray *noted = run->status->workers;
  for (guint i = 0; workers && i < workers->len; i++)
    {
      const PlumbPlacedWorker *worker = &g_array_index (workers, PlumbPlacedWorker, i);
      plumb_run_status_add_worker (run->status, plumb_role_name (worker->role), worker->device, 0);
    }
  for (guint i = 0; i < noted->len; i++)
    {
      int process = plumb_crew_worker_process (run->crew, i + 1);
      ((PlumbRunWorker *) g_ptr_array_index (noted, i))->pid = process ? process : run->status->pid;
    }
  run->last_state = 0; /* to be written with the next tick */
}

/* Those with a worker of their own. */
static void
tell_roles (PlumbRun *run, GArray *workers, GPtrArray *requests)
{
  for (guint i = 0, opened = 0; i < workers->len; i++)
    {
      const PlumbPlacedWorker *worker = &g_array_index (workers, PlumbPlacedWorker, i);
      const char *text = "";
      if (worker->role == PLUMB_ROLE_ROLLOUT)
        continue;
      GVariant *answer = plumb_crew_request_answer (g_ptr_array_index (requests, opened++));
      if (worker->role == PLUMB_ROLE_POLICY)
        continue;
      g_variant_lookup (answer, "plan", "&s", &text);
      plumb_progress_say (run->progress, "apart    %s, on %s: %s", plumb_crew_worker_name (run->crew, worker->number),
                          worker->device, text);
      plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "plan", run->position.step, "%s, on %s: memory planned: %s",
                             plumb_crew_worker_name (run->crew, worker->number), worker->device, text);
    }
}

gboolean
plumb_run_open_crew (PlumbRun *run, const PlumbRunInputs *in, GError **error)
{
  g_auto (PlumbWorkerSettings) settings = { 0 };
  guint64 weight_bytes = 0;
  g_autofree char *resolved = g_build_filename (run->dir, PLUMB_RUN_RESOLVED, NULL);
  if (!plumb_run_make_settings (&settings, in, run->dir, error)
      || !plumb_spec_save_resolved (run->spec, resolved, error) || !start_crew (run, &settings, error))
    return FALSE;
  run->reference_kept = settings.reference_from_policy;
  run->critic_follows = settings.devices[PLUMB_ROLE_CRITIC] && g_strcmp0 (settings.critic, settings.policy) == 0;
  g_autoptr (GArray) workers = plumb_placement_plan (&settings, error);
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  if (!workers || !plumb_placement_check_memory (workers, error) || !plumb_run_inputs_make_model (in, error)
      || !open_models (run, &settings, workers, requests, error))
    return FALSE;
  GVariant *opened = plumb_crew_request_answer (g_ptr_array_index (requests, 0));
  g_variant_lookup (opened, "weight-bytes", "t", &weight_bytes);
  if (plumb_crew_has_ahead (run->crew) && !plumb_run_ahead_open (run, &settings, weight_bytes, error))
    return FALSE;
  plumb_run_note_workers (run, workers);
  if (workers->len > 1)
    run->memory_planned += own_memory ();
  if (run->ahead)
    plumb_hardware_watch (run->hardware, settings.devices[PLUMB_ROLE_ROLLOUT]);
  tell_opened (run, &settings, opened);
  tell_roles (run, workers, requests);
  tell_correction (run);
  return TRUE;
}
