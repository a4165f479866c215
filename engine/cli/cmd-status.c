/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine status: the state of a run, or of all registered runs. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/run-state.h"

static void
print_line (const PlumbRunInfo *info)
{
  g_autofree char *base = g_path_get_basename (info->path);
  const PlumbRunStatus *status = info->status;

  g_print ("%-28s %-12s", status != NULL && status->name != NULL ? status->name : base,
           plumb_run_state_label (info->state));
  if (status != NULL && status->total_steps > 0)
    g_print (_ (" step %d/%d"), (int)status->step, (int)status->total_steps);
  g_print ("  %s\n", info->path);
}

/* Which process works where; a run of one has nothing to tell. */
static void
print_workers (const PlumbRunStatus *status)
{
  for (guint i = 0; i < status->workers->len && status->workers->len > 1; i++)
    {
      const PlumbRunWorker *worker = g_ptr_array_index (status->workers, i);

      g_print (_ ("  worker %-4u %s on %s, process %d\n"), i + 1, worker->role, worker->device, (int)worker->pid);
    }
}

static void
print_fully (const PlumbRunInfo *info)
{
  const PlumbRunStatus *status = info->status;

  g_print ("%s: %s\n", info->path, plumb_run_state_label (info->state));
  if (info->message != NULL && *info->message != '\0')
    g_print ("  %s\n", info->message);
  if (status != NULL)
    {
      g_print (_ ("  name        %s\n"), status->name != NULL ? status->name : "-");
      if (status->total_steps > 0)
        g_print (_ ("  step        %d of %d\n"), (int)status->step, (int)status->total_steps);
      else
        g_print (_ ("  step        %d\n"), (int)status->step);
      g_print (_ ("  phase       %s\n"), status->phase != NULL ? status->phase : "-");
      g_print (_ ("  attempt     %d, process %d on %s\n"), (int)status->attempt, (int)status->pid,
               status->host != NULL ? status->host : "-");
      print_workers (status);
      if (status->eta >= 0 && plumb_run_state_is_alive (info->state))
        g_print (_ ("  time left   %.0f s\n"), status->eta);
    }
  if (info->checkpoint >= 0)
    g_print (_ ("  checkpoint  step %d\n"), (int)info->checkpoint);
  else
    g_print (_ ("  checkpoint  none\n"));
}

static gboolean
show_all (gboolean json, GError **error)
{
  g_auto (GStrv) runs = plumb_run_list (error);
  g_autoptr (JsonNode) root = json_node_new (JSON_NODE_ARRAY);
  JsonArray *array = json_array_new ();

  json_node_take_array (root, array);
  if (runs == NULL)
    return FALSE;
  for (gsize i = 0; runs[i] != NULL; i++)
    {
      g_autoptr (PlumbRunInfo) info = plumb_run_info_read (runs[i], NULL);

      if (info == NULL)
        continue;
      if (json)
        json_array_add_element (array, plumb_run_info_to_json (info));
      else
        print_line (info);
    }
  if (json)
    plumb_command_print_json (root, TRUE);
  return TRUE;
}

static gboolean
show_one (const char *what, gboolean json, GError **error)
{
  g_autofree char *run = plumb_run_find (what, error);
  g_autoptr (PlumbRunInfo) info = run != NULL ? plumb_run_info_read (run, error) : NULL;
  g_autoptr (JsonNode) node = NULL;

  if (info == NULL)
    return FALSE;
  if (!json)
    {
      print_fully (info);
      return TRUE;
    }
  node = plumb_run_info_to_json (info);
  plumb_command_print_json (node, TRUE);
  return TRUE;
}

int
plumb_cmd_status (int argc, char **argv, GError **error)
{
  gboolean json = FALSE;
  const GOptionEntry options[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, N_ ("print as JSON"), NULL },
    { NULL },
  };

  if (!plumb_command_parse (&argc, &argv, options, "[RUN]",
                            _ ("Shows the state of a run, or of all runs."), 0, 1, error))
    return PLUMB_ERROR_USAGE;
  if (!(argc > 1 ? show_one (argv[1], json, error) : show_all (json, error)))
    return PLUMB_ERROR_INVALID;
  return 0;
}
