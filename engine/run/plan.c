/* SPDX-License-Identifier: Apache-2.0 */

/* `plan`: what a run will take, from its own first steps. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <sys/statvfs.h>

#include "engine/core/error.h"
#include "engine/core/telemetry-reader.h"
#include "engine/model/export.h"
#include "engine/run/plan.h"
#include "engine/run/prepare.h"

#define TRIAL_STEPS 3 /* the first is left out: it warms caches up */

static void
phase_clear (gpointer data)
{
  PlumbPlanPhase *phase = data;
  g_free (phase->name);
}

void
plumb_run_plan_clear (PlumbRunPlan *plan)
{
  g_clear_pointer (&plan->device, g_free);
  g_clear_pointer (&plan->phases, g_array_unref);
  g_clear_pointer (&plan->workers, g_array_unref);
}

/* Model and optimizer of each checkpoint that is kept, and the best beside them; the export. */
static void
plan_disk (PlumbRunPlan *plan, PlumbSpec *spec, const char *dir)
{
  struct statvfs disk;
  gsize keep = (gsize) plumb_spec_get_integer (spec, "checkpoint.keep") + 1;
  /* All but the gradients of the optimizer's state, and the critic with its own. */
  gsize critic = 0, reference = 0;
  for (guint i = 0; i < plan->workers->len; i++)
    {
      const PlumbMemoryPlan *memory = &g_array_index (plan->workers, PlumbPlacedWorker, i).memory;
      gboolean apart = g_array_index (plan->workers, PlumbPlacedWorker, i).role == PLUMB_ROLE_CRITIC;
      critic = MAX (critic, memory->critic + (apart ? memory->host : 0));
      reference = MAX (reference, memory->reference);
    }
  gsize state = plan->memory.state + plan->memory.host;
  gsize each = plan->memory.weights + state - state / 4 + critic;
  plan->disk = keep * each + plan->memory.weights + reference;
  plan->disk_available = statvfs (dir, &disk) == 0 ? (guint64) disk.f_bavail * disk.f_frsize : 0;
}

/* Workers that are processes beside the first one, and the process that leads them. */
static void
plan_others (PlumbRunPlan *plan)
{
  gsize program = plan->memory.program;
  for (guint i = 1; i < plan->workers->len; i++)
    plan->memory.others
        += program + plumb_memory_plan_needed (&g_array_index (plan->workers, PlumbPlacedWorker, i).memory);
  if (plan->workers->len > 1)
    plan->memory.others += program;
}

static gboolean
plan_memory (PlumbRunPlan *plan, PlumbSpec *spec, const char *scratch, GError **error)
{
  g_auto (PlumbRunInputs) inputs = { 0 };
  g_auto (PlumbWorkerSettings) settings = { 0 };
  gint64 steps[2];
  if (!plumb_run_inputs_open (&inputs, spec, scratch, error)
      || !plumb_run_make_settings (&settings, &inputs, scratch, error))
    return FALSE;
  g_autoptr (PlumbDevice) device = plumb_device_open (settings.device ? settings.device : "cpu", 1 << 20, error);
  if (!device || !(plan->workers = plumb_placement_plan (&settings, error)))
    return FALSE;
  plan->memory = g_array_index (plan->workers, PlumbPlacedWorker, 0).memory;
  plan_others (plan);
  struct dev_info info = { 0 };
  device->ops->info (device->context, &info);
  plan->device = g_strdup (info.name);
  plumb_run_count_steps (&inputs, steps);
  plan->supervised = steps[PLUMB_STAGE_SUPERVISED];
  plan->online = steps[PLUMB_STAGE_ONLINE];
  plan_disk (plan, spec, scratch);
  return TRUE;
}

/* The spec with so few steps that a trial is short, and nothing that lasts. */
static gboolean
write_trial (PlumbSpec *spec, const PlumbRunPlan *plan, const char *path, GError **error)
{
  static const char *const settings[][2] = {
    { "checkpoint.every", "0" },       { "checkpoint.export", "never" }, { "eval.every", "off" },
    { "schedule.stop_at", "off" },     { "schedule.max_hours", "off" },
  };
  g_autoptr (PlumbSpec) trial = plumb_spec_copy (spec);
  g_autofree char *steps = g_strdup_printf ("%d", TRIAL_STEPS);
  for (gsize i = 0; i < G_N_ELEMENTS (settings); i++)
    if (!plumb_spec_set (trial, settings[i][0], settings[i][1], error))
      return FALSE;
  plumb_spec_unset (trial, "schedule.stop_if");
  plumb_spec_unset (trial, "warmup.stop_at_pass1");
  return plumb_spec_set (trial, "schedule.steps", steps, error)
         && (plan->online == 0 || plan->supervised == 0
             || plumb_spec_set (trial, "warmup.steps", steps, error))
         && plumb_spec_save (trial, path, error);
}

/* Runs the trial as a process of its own, so that it takes and gives back what the run would. */
static gboolean
run_trial (const char *scratch, GError **error)
{
  g_autofree char *program = g_file_read_link ("/proc/self/exe", error);
  g_autofree char *out = NULL, *err = NULL;
  int status = 0;
  if (!program)
    return FALSE;
  const char *arguments[] = { program, "run", "trial.spec", "--run-dir", "trial", NULL };
  g_auto (GStrv) environment = g_environ_setenv (g_get_environ (), "XDG_STATE_HOME", scratch, TRUE);
  if (!g_spawn_sync (scratch, (char **) arguments, environment, G_SPAWN_DEFAULT, NULL, NULL, &out, &err, &status,
                     error))
    return FALSE;
  if (g_spawn_check_wait_status (status, NULL))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "the trial of the first steps failed: %s",
               g_strstrip (err));
  return FALSE;
}

/* Mean seconds of the steps first + 1 .. last, without the first of them where there are more; NaN: none. */
static double
mean_seconds (const PlumbPoints *points, gint64 first, gint64 last)
{
  double all = 0, begin = 0;
  int n = 0;
  for (gsize i = 0; points && i < points->n_points; i++)
    if (points->points[i].step > first && points->points[i].step <= last)
      {
        begin = n == 0 ? points->points[i].value : begin;
        all += points->points[i].value;
        n++;
      }
  return n > 1 ? (all - begin) / (n - 1) : n == 1 ? all : NAN;
}

static void
add_phases (PlumbRunPlan *plan, GPtrArray *phases, gint64 step)
{
  plan->phases = g_array_new (FALSE, TRUE, sizeof (PlumbPlanPhase));
  g_array_set_clear_func (plan->phases, phase_clear);
  for (guint i = 0; i < phases->len; i++)
    {
      const PlumbPhase *phase = g_ptr_array_index (phases, i);
      guint k = 0;
      /* A phase begins before its step is counted. */
      if (phase->step != step && phase->step != step - 1)
        continue;
      if (g_str_equal (phase->name, "load") || g_str_equal (phase->name, "checkpoint"))
        continue;
      while (k < plan->phases->len && !g_str_equal (g_array_index (plan->phases, PlumbPlanPhase, k).name, phase->name))
        k++;
      if (k == plan->phases->len)
        {
          PlumbPlanPhase fresh = { g_strdup (phase->name), 0 };
          g_array_append_val (plan->phases, fresh);
        }
      g_array_index (plan->phases, PlumbPlanPhase, k).seconds = phase->end - phase->start;
    }
}

/* What the program itself takes is known once all of it runs. */
static void
take_program (PlumbRunPlan *plan, const PlumbPoints *planned)
{
  gsize needed = plumb_memory_plan_needed (&plan->memory), first = needed + plan->memory.program;
  if (plan->memory.others > 0 && planned && planned->n_points > 0 && planned->points[0].value > (double) first)
    plan->memory.others = (gsize) planned->points[0].value - first;
  else if (plan->memory.others == 0 && plan->memory.program > 0 && planned && planned->n_points > 0 && planned->points[0].value > (double) needed)
    plan->memory.program = (gsize) planned->points[0].value - needed;
}

static const PlumbPoints *
points_of (const PlumbChunk *chunk, const char *metric)
{
  for (guint i = 0; i < chunk->series->len; i++)
    {
      const PlumbPoints *points = g_ptr_array_index (chunk->series, i);
      if (g_str_equal (points->metric, metric))
        return points;
    }
  return NULL;
}

static gboolean
read_trial (PlumbRunPlan *plan, const char *scratch, GError **error)
{
  static const char *const wanted[] = { "time/step", "memory/device_planned", NULL };
  g_autofree char *path = g_build_filename (scratch, "trial", PLUMB_RUN_TELEMETRY, NULL);
  g_autoptr (PlumbTelemetryReader) reader = plumb_telemetry_reader_open (path, error);
  if (!reader)
    return FALSE;
  plumb_telemetry_reader_select (reader, wanted, FALSE);
  g_autoptr (PlumbChunk) chunk = plumb_telemetry_reader_read (reader, 0, error);
  if (!chunk)
    return FALSE;
  const PlumbPoints *points = points_of (chunk, "time/step");
  take_program (plan, points_of (chunk, "memory/device_planned"));
  gint64 supervised = plan->supervised > 0 ? MIN (plan->supervised, TRIAL_STEPS) : 0;
  plan->supervised_seconds = mean_seconds (points, 0, supervised);
  plan->online_seconds = mean_seconds (points, supervised, supervised + TRIAL_STEPS);
  add_phases (plan, chunk->phases, plan->online > 0 ? supervised + TRIAL_STEPS : supervised);
  return TRUE;
}

gboolean
plumb_run_plan_make (PlumbRunPlan *plan, PlumbSpec *spec, gboolean trial, GError **error)
{
  g_autofree char *scratch = g_dir_make_tmp ("plumbline-plan-XXXXXX", error);
  g_autofree char *path = scratch ? g_build_filename (scratch, "trial.spec", NULL) : NULL;
  g_autoptr (PlumbSpec) copy = plumb_spec_copy (spec);
  *plan = (PlumbRunPlan){ .supervised_seconds = NAN, .online_seconds = NAN };
  if (!scratch)
    return FALSE;
  gboolean ok = plan_memory (plan, copy, scratch, error);
  if (ok && trial)
    ok = write_trial (spec, plan, path, error) && run_trial (scratch, error) && read_trial (plan, scratch, error);
  plumb_remove_tree (scratch, NULL);
  return ok;
}

double
plumb_run_plan_seconds (const PlumbRunPlan *plan)
{
  double supervised = plan->supervised > 0 ? (double) plan->supervised * plan->supervised_seconds : 0;
  double online = plan->online > 0 ? (double) plan->online * plan->online_seconds : 0;
  return supervised + online;
}
