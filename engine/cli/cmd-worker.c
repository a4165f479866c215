/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/run/crew-process.h"
#include "engine/run/crew.h"
#include "engine/run/worker.h"

/* worker: one process of a run; serves the controller that started it until that ends. */
int
plumb_cmd_worker (int argc, char **argv, GError **error)
{
  g_autofree char *address = NULL;
  gint64 number = 0, controller = 0;
  const GOptionEntry options[] = {
    { "address", 0, 0, G_OPTION_ARG_STRING, &address, N_ ("socket of the controller"), "ipc://PATH" },
    { "number", 0, 0, G_OPTION_ARG_INT64, &number, N_ ("number of this worker"), "N" },
    { "controller", 0, 0, G_OPTION_ARG_INT64, &controller, N_ ("process of the controller"), "PID" },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, options, "", N_ ("serve a run; started by `run` itself"), 0, 0, error))
    return PLUMB_ERROR_USAGE;
  if (!address || !g_str_has_prefix (address, "ipc://") || number < 1 || number > PLUMB_CREW_MAX_WORKERS + 1)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                   "worker needs --address ipc://PATH, --number 1 to %d and --controller PID; `run` starts its workers "
                   "itself (placement.workers)", PLUMB_CREW_MAX_WORKERS + 1);
      return PLUMB_ERROR_USAGE;
    }
  if (!plumb_crew_process_follow (controller))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "process %" G_GINT64_FORMAT " did not start this worker",
                   controller);
      return PLUMB_ERROR_ENVIRONMENT;
    }
  plumb_worker_serve_process (address, (guint32) number);
  return 0;
}
