/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine stop: end a run after its step, or at once. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/run-state.h"

static int
kill_run (const char *run, GError **error)
{
  g_autoptr (GArray) left = NULL;

  if (!plumb_run_kill (run, &left, error))
    return PLUMB_ERROR_FAILED;
  if (left->len == 0)
    {
      g_print (_ ("%s: killed\n"), run);
      return 0;
    }
  for (guint i = 0; i < left->len; i++)
    g_printerr (_ ("%s: process %d is still there\n"), run, (int)g_array_index (left, gint64, i));
  return PLUMB_ERROR_FAILED;
}

int
plumb_cmd_stop (int argc, char **argv, GError **error)
{
  gboolean now = FALSE;
  const GOptionEntry options[] = {
    { "kill", 0, 0, G_OPTION_ARG_NONE, &now,
      N_ ("end the run and all its processes at once; work since the last checkpoint is lost"),
      NULL },
    { NULL },
  };
  g_autofree char *run = NULL;

  if (!plumb_command_parse (&argc, &argv, options, "RUN",
                            _ ("Stops a run after its step, with a checkpoint."), 1, 1, error))
    return PLUMB_ERROR_USAGE;
  run = plumb_run_find (argv[1], error);
  if (run == NULL)
    return PLUMB_ERROR_INVALID;
  if (now)
    return kill_run (run, error);
  if (!plumb_run_stop (run, error))
    return PLUMB_ERROR_FAILED;
  g_print (_ ("%s: asked to stop after its step\n"), run);
  return 0;
}
