/* SPDX-License-Identifier: Apache-2.0 */

/* The workers of a run are started, and load its models. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>
#include <sys/resource.h>

#include "engine/comm/comm.h"
#include "engine/run/ahead.h"
#include "engine/run/prepare.h"
#include "engine/run/run.h"

static gboolean
tick (gint64 done, gint64 of, gpointer data)
{
  return plumb_run_tick (data, done, of);
}

/* What one worker is to open: all of them the same, each with its place among them. */
static GVariant *
settings_body (PlumbRun *run, const PlumbWorkerSettings *settings, int rank)
{
  PlumbWorkerSettings own = *settings;
  g_autofree char *device = NULL;
  guint64 first = 0;
  own.rank = rank;
  own.comm = run->comm ? (char *) plumb_shared_memory_path (run->comm) : NULL;
  /* Each takes a GPU of its own, from the one that is named on. */
  if (own.ranks > 1 && own.device && g_str_has_prefix (own.device, "cuda:")
      && g_ascii_string_to_unsigned (own.device + strlen ("cuda:"), 10, 0, G_MAXINT, &first, NULL))
    own.device = device = g_strdup_printf ("cuda:%" G_GUINT64_FORMAT, first + (guint64) rank);
  plumb_hardware_watch (run->hardware, own.device);
  return plumb_worker_settings_to_body (&own);
}

static gboolean
start_crew (PlumbRun *run, PlumbWorkerSettings *settings, GError **error)
{
  g_autofree char *log = g_build_filename (run->dir, PLUMB_RUN_LOG, NULL);
  PlumbCrewPlan plan = {
    .attempt = plumb_telemetry_attempt (run->telemetry),
    .workers = run->alone ? 1 : (int) plumb_spec_get_integer (run->spec, "placement.workers"),
    .ahead = !run->alone && run->recipe->online && plumb_spec_get_boolean (run->spec, "rollout.async"),
    .patience = plumb_spec_get_real (run->spec, "placement.timeout"),
    .log = log,
  };
  settings->measure_only = run->alone;
  settings->ranks = plan.workers;
  settings->patience = plan.patience;
  if (plan.workers > 1 && !(run->comm = plumb_comm_memory_new (plan.workers, error)))
    return FALSE;
  run->crew = plumb_crew_start (&plan, error);
  if (run->crew)
    plumb_crew_set_tick (run->crew, tick, run);
  return run->crew != NULL;
}

static void
add_planned (PlumbRun *run, GVariant *answer)
{
  guint64 planned = 0;
  g_variant_lookup (answer, "planned", "t", &planned);
  run->memory_planned += planned;
}

/* What this process takes itself, where the workers are others. */
static guint64
own_memory (void)
{
  struct rusage usage;
  return getrusage (RUSAGE_SELF, &usage) == 0 ? (guint64) usage.ru_maxrss * 1024 : 0;
}

/* All workers load their models; the answer of the first (transfer full). */
static GVariant *
open_models (PlumbRun *run, const PlumbWorkerSettings *settings, GError **error)
{
  int n = plumb_crew_size (run->crew);
  g_autofree GVariant **bodies = g_new0 (GVariant *, n), **answers = g_new0 (GVariant *, n);
  for (int i = 0; i < n; i++)
    bodies[i] = settings_body (run, settings, i);
  plumb_run_begin_phase (run, "load");
  gboolean ok = plumb_crew_ask_each (run->crew, PLUMB_MESSAGE_OPEN, bodies, answers, error);
  plumb_run_end_phase (run);
  for (int i = 0; ok && i < n; i++)
    add_planned (run, answers[i]);
  GVariant *first = ok ? g_steal_pointer (&answers[0]) : NULL;
  plumb_crew_clear_answers (run->crew, answers);
  return first;
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
                        workers + 1, settings->rollout_device,
                        plumb_spec_get_integer (run->spec, "rollout.max_staleness"),
                        plumb_spec_get_boolean (run->spec, "rollout.partial") ? ", partial completions" : "");
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "plan", run->position.step, "memory planned: %s%s", each,
                         plan);
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
  g_autoptr (GVariant) opened = open_models (run, &settings, error);
  if (!opened)
    return FALSE;
  g_variant_lookup (opened, "weight-bytes", "t", &weight_bytes);
  g_variant_lookup (opened, "checkpoint-bytes", "t", &run->checkpoint_bytes);
  if (plumb_crew_has_ahead (run->crew) && !plumb_run_ahead_open (run, &settings, weight_bytes, error))
    return FALSE;
  if (plumb_crew_size (run->crew) > 1 || run->ahead)
    run->memory_planned += own_memory ();
  if (run->ahead)
    plumb_hardware_watch (run->hardware, settings.rollout_device);
  tell_opened (run, &settings, opened);
  tell_correction (run);
  return TRUE;
}
