/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine plan: what a run will take. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/run/plan.h"

static void
build_number (JsonBuilder *builder, const char *key, double value)
{
  json_builder_set_member_name (builder, key);
  if (isfinite (value))
    json_builder_add_double_value (builder, value);
  else
    json_builder_add_null_value (builder); /* not measured */
}

static const char *const peak_names[PLUMB_MEMORY_N_PHASES] = { "generate", "train", "checkpoint" };

static void
build_peaks (JsonBuilder *builder, const PlumbMemoryPlan *memory)
{
  json_builder_set_member_name (builder, "peaks");
  json_builder_begin_object (builder);
  for (int phase = 0; phase < PLUMB_MEMORY_N_PHASES; phase++)
    if (plumb_memory_plan_peak (memory, (PlumbMemoryPhase) phase) > 0)
      build_number (builder, peak_names[phase], (double) plumb_memory_plan_peak (memory, (PlumbMemoryPhase) phase));
  json_builder_end_object (builder);
}

static void
build_workers (JsonBuilder *builder, GArray *workers)
{
  json_builder_set_member_name (builder, "workers");
  json_builder_begin_array (builder);
  for (guint i = 0; i < workers->len; i++)
    {
      const PlumbPlacedWorker *worker = &g_array_index (workers, PlumbPlacedWorker, i);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "role");
      json_builder_add_string_value (builder, plumb_role_name (worker->role));
      json_builder_set_member_name (builder, "device");
      json_builder_add_string_value (builder, worker->device);
      build_number (builder, "bytes", (double) plumb_memory_plan_needed (&worker->memory));
      build_peaks (builder, &worker->memory);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

static void
print_json (const PlumbRunPlan *plan)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autofree char *memory = plumb_memory_plan_to_text (&plan->memory);
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "device");
  json_builder_add_string_value (builder, plan->device);
  json_builder_set_member_name (builder, "memory");
  json_builder_add_string_value (builder, memory);
  build_number (builder, "memory_bytes", (double) plumb_memory_plan_total (&plan->memory));
  build_workers (builder, plan->workers);
  build_number (builder, "disk_bytes", (double) plan->disk);
  build_number (builder, "disk_available", (double) plan->disk_available);
  build_number (builder, "supervised_steps", (double) plan->supervised);
  build_number (builder, "online_steps", (double) plan->online);
  build_number (builder, "supervised_step_seconds", plan->supervised_seconds);
  build_number (builder, "online_step_seconds", plan->online_seconds);
  build_number (builder, "total_seconds", plumb_run_plan_seconds (plan));
  json_builder_set_member_name (builder, "phases");
  json_builder_begin_object (builder);
  for (guint i = 0; plan->phases && i < plan->phases->len; i++)
    {
      const PlumbPlanPhase *phase = &g_array_index (plan->phases, PlumbPlanPhase, i);
      build_number (builder, phase->name, phase->seconds);
    }
  json_builder_end_object (builder);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  plumb_command_print_json (root, TRUE);
}

static void
print_steps (const char *kind, gint64 steps, double seconds)
{
  if (steps == 0)
    return;
  if (isfinite (seconds))
    g_print (_ ("%-8s %ld steps of %.3g s\n"), kind, (long) steps, seconds);
  else
    g_print (_ ("%-8s %ld steps, not measured\n"), kind, (long) steps);
}

/* The most that a worker takes in each phase. */
static void
print_peaks (const char *title, const PlumbMemoryPlan *memory)
{
  g_autoptr (GString) line = g_string_new (NULL);
  for (int phase = 0; phase < PLUMB_MEMORY_N_PHASES; phase++)
    {
      gsize bytes = plumb_memory_plan_peak (memory, (PlumbMemoryPhase) phase);
      if (bytes > 0)
        g_string_append_printf (line, "%s%s %.1f MB", line->len > 0 ? ", " : "", peak_names[phase], (double) bytes / 1e6);
    }
  g_print ("%s%s\n", title, line->str);
}

/* What each takes beside the program, where there are several; the first is the line of the memory. */
static void
print_workers (GArray *workers)
{
  for (guint i = 1; i < workers->len; i++)
    {
      const PlumbPlacedWorker *worker = &g_array_index (workers, PlumbPlacedWorker, i);
      g_autofree char *memory = plumb_memory_plan_to_text (&worker->memory);
      g_print (_ ("worker   %u, %s, on %s: %s\n"), worker->number, plumb_role_name (worker->role), worker->device, memory);
      print_peaks ("           ", &worker->memory);
    }
}

static void
print_text (const PlumbRunPlan *plan)
{
  g_autofree char *memory = plumb_memory_plan_to_text (&plan->memory);
  g_print (_ ("device   %s\nmemory   %s\n"), plan->device, memory);
  print_peaks (_ ("peaks    "), &plan->memory);
  print_workers (plan->workers);
  g_print (_ ("disk     %.1f MB, of %.1f MB free\n"), (double) plan->disk / 1e6, (double) plan->disk_available / 1e6);
  print_steps (plan->online > 0 ? _ ("warm-up") : _ ("training"), plan->supervised, plan->supervised_seconds);
  print_steps (_ ("online"), plan->online, plan->online_seconds);
  for (guint i = 0; plan->phases && i < plan->phases->len; i++)
    {
      const PlumbPlanPhase *phase = &g_array_index (plan->phases, PlumbPlanPhase, i);
      g_print ("           %-10s %.3g s\n", phase->name, phase->seconds);
    }
  double seconds = plumb_run_plan_seconds (plan);
  if (isfinite (seconds))
    g_print (_ ("total    %.0f:%02.0f h:min, without evaluations\n"), floor (seconds / 3600),
             floor (fmod (seconds, 3600) / 60));
}

int
plumb_cmd_plan (int argc, char **argv, GError **error)
{
  g_auto (GStrv) assignments = NULL;
  gboolean json = FALSE, no_trial = FALSE;
  const GOptionEntry options[] = {
    { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &assignments, N_ ("set one value"), N_ ("group.key=value") },
    { "no-trial", 0, 0, G_OPTION_ARG_NONE, &no_trial, N_ ("plan the memory only, and time nothing"), NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, N_ ("print the plan as JSON"), NULL },
    { NULL },
  };
  g_autoptr (PlumbSpec) spec = NULL;
  g_auto (PlumbRunPlan) plan = { 0 };
  if (!plumb_command_parse (&argc, &argv, options, "SPEC",
                            _ ("What a run will take: memory, disk, and time by a trial of its first steps."), 1, 1,
                            error))
    return PLUMB_ERROR_USAGE;
  spec = plumb_command_load_sound_spec (argv[1], assignments, error);
  if (!spec)
    return PLUMB_ERROR_INVALID;
  if (!plumb_run_plan_make (&plan, spec, !no_trial, error))
    return 1; /* the error says which exit code */
  if (json)
    print_json (&plan);
  else
    print_text (&plan);
  return 0;
}
