/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine validate: every problem of a spec, with its place and remedy. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/run/run.h"

/* {"problems": [...], "left_out": [...]}: the second are rows of data that are not used. */
static void
print_json (GPtrArray *problems, GPtrArray *left_out)
{
  g_autoptr (JsonNode) node = plumb_problems_to_json (problems);
  g_autoptr (JsonNode) rows = plumb_problems_to_json (left_out);
  JsonObject *object = json_node_get_object (node);

  json_object_set_member (
      object, "left_out",
      json_node_copy (json_object_get_member (json_node_get_object (rows), "problems")));
  plumb_command_print_json (node, TRUE);
}

static void
print_text (const char *path, GPtrArray *problems, GPtrArray *left_out)
{
  g_autofree char *text = plumb_problems_to_text (problems);
  g_autofree char *rows = plumb_problems_to_text (left_out);

  if (left_out->len > 0)
    g_print (_ ("Rows that are left out:\n%s\n"), rows);
  if (problems->len > 0)
    g_print ("%s\n", text);
  else
    g_print (_ ("%s: no problems\n"), path);
}

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
  g_autoptr (GPtrArray) left_out = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = NULL;

  if (!plumb_command_parse (&argc, &argv, options, "SPEC",
                            _ ("Checks a spec: every problem with its place and remedy."), 1, 1,
                            error))
    return PLUMB_ERROR_USAGE;
  spec = plumb_command_load_spec (argv[1], assignments, problems, error);
  if (spec == NULL)
    return PLUMB_ERROR_INVALID;
  if (problems->len == 0)
    plumb_run_preflight (spec, problems, left_out);
  if (json)
    print_json (problems, left_out);
  else
    print_text (argv[1], problems, left_out);
  return problems->len > 0 ? PLUMB_ERROR_INVALID : 0;
}
