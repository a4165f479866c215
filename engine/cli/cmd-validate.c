/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine validate: every problem of a spec, with its place and remedy. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/run/run.h"

static void
add_list (JsonNode *to, const char *name, GPtrArray *list)
{
  g_autoptr (JsonNode) node = plumb_problems_to_json (list);

  json_object_set_member (json_node_get_object (to), name,
                          json_node_copy (json_object_get_member (json_node_get_object (node), "problems")));
}

/* {"problems": [...], "left_out": [...], "notes": [...]}: the second are rows of data that are not used, the third
 * what else is worth knowing of the data. */
static void
print_json (GPtrArray *problems, GPtrArray *left_out, GPtrArray *notes)
{
  g_autoptr (JsonNode) node = plumb_problems_to_json (problems);

  add_list (node, "left_out", left_out);
  add_list (node, "notes", notes);
  plumb_command_print_json (node, TRUE);
}

static void
print_text (const char *path, GPtrArray *problems, GPtrArray *left_out, GPtrArray *notes)
{
  g_autofree char *text = plumb_problems_to_text (problems);
  g_autofree char *known = plumb_problems_to_text (notes);
  g_autofree char *rows = plumb_problems_to_text (left_out);

  if (notes->len > 0)
    g_print (_ ("Keys and notes:\n%s\n"), known);
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
  g_autoptr (GPtrArray) notes = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = NULL;

  if (!plumb_command_parse (&argc, &argv, options, "SPEC",
                            _ ("Checks a spec: every problem with its place and remedy."), 1, 1,
                            error))
    return PLUMB_ERROR_USAGE;
  spec = plumb_command_load_spec (argv[1], assignments, problems, error);
  if (spec == NULL)
    return PLUMB_ERROR_INVALID;
  int code = problems->len > 0 ? PLUMB_ERROR_INVALID : plumb_run_preflight (spec, problems, left_out, notes);
  if (json)
    print_json (problems, left_out, notes);
  else
    print_text (argv[1], problems, left_out, notes);
  return code;
}
