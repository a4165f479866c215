/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine eval: a model measured on held-out data, without training. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/run-dir.h"
#include "engine/model/export.h"
#include "engine/run/run.h"

static void
print_json (GPtrArray *results)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  for (guint i = 0; i < results->len; i++)
    {
      g_auto (GStrv) words = g_strsplit (g_ptr_array_index (results, i), " ", 2);
      json_builder_set_member_name (builder, words[0]);
      json_builder_add_double_value (builder, g_ascii_strtod (words[1], NULL));
    }
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  plumb_command_print_json (root, TRUE);
}

/* In a folder that is removed again, and known to nobody; what the run says goes to standard error. */
static gboolean
measure (PlumbSpec *spec, GPtrArray *results, GError **error)
{
  g_autofree char *scratch = g_dir_make_tmp ("plumbline-eval-XXXXXX", error);
  int out = dup (STDOUT_FILENO);
  if (!scratch || out < 0)
    return FALSE;
  g_autofree char *dir = g_build_filename (scratch, "run", NULL);
  g_setenv ("XDG_STATE_HOME", scratch, TRUE);
  dup2 (STDERR_FILENO, STDOUT_FILENO);
  gboolean ok = plumb_run_dir_create (dir, error) && plumb_run_evaluate_alone (spec, dir, results, error);
  fflush (stdout);
  dup2 (out, STDOUT_FILENO);
  close (out);
  plumb_remove_tree (scratch, NULL);
  return ok;
}

int
plumb_cmd_eval (int argc, char **argv, GError **error)
{
  g_auto (GStrv) assignments = NULL;
  gboolean json = FALSE;
  const GOptionEntry options[] = {
    { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &assignments, N_ ("set one value"), N_ ("group.key=value") },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, N_ ("print the results as JSON"), NULL },
    { NULL },
  };
  g_autoptr (GPtrArray) results = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (PlumbSpec) spec = NULL;
  if (!plumb_command_parse (&argc, &argv, options, "SPEC",
                            _ ("Measures the model of a spec on data.eval: pass@1 and pass@k, or loss and accuracy."), 1, 1,
                            error))
    return PLUMB_ERROR_USAGE;
  spec = plumb_command_load_sound_spec (argv[1], assignments, error);
  if (!spec)
    return PLUMB_ERROR_INVALID;
  if (!measure (spec, results, error))
    return PLUMB_ERROR_FAILED; /* main takes the code from the error */
  if (json)
    print_json (results);
  else
    for (guint i = 0; i < results->len; i++)
      g_print ("%s\n", (char *) g_ptr_array_index (results, i));
  return 0;
}
