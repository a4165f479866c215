/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine validate: every problem of a spec, with its place and remedy. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"

int
plumb_cmd_validate (int argc, char **argv, GError **error)
{
  g_auto (GStrv) assignments = NULL;
  gboolean json = FALSE;
  const GOptionEntry options[] = {
    { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &assignments, N_ ("set one value"),
      N_ ("group.key=value") },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, N_ ("print the problems as JSON"), NULL },
    { NULL },
  };
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = NULL;
  g_autoptr (JsonNode) node = NULL;
  g_autofree char *text = NULL;

  if (!plumb_command_parse (&argc, &argv, options, "SPEC",
                            _ ("Checks a spec: every problem with its place and remedy."), 1, 1,
                            error))
    return PLUMB_ERROR_USAGE;
  spec = plumb_command_load_spec (argv[1], assignments, problems, error);
  if (spec == NULL)
    return PLUMB_ERROR_INVALID;
  if (json)
    {
      node = plumb_problems_to_json (problems);
      plumb_command_print_json (node, TRUE);
    }
  else if (problems->len > 0)
    {
      text = plumb_problems_to_text (problems);
      g_print ("%s\n", text);
    }
  else
    g_print (_ ("%s: no problems\n"), argv[1]);
  return problems->len > 0 ? PLUMB_ERROR_INVALID : 0;
}
