/* SPDX-License-Identifier: Apache-2.0 */
/* What the sub-commands share: options, JSON output, loading a spec. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"

gboolean
plumb_command_parse (int *argc,
                     char ***argv,
                     const GOptionEntry *options,
                     const char *synopsis,
                     const char *summary,
                     int least,
                     int most,
                     GError **error)
{
  g_autofree char *parameters = g_strdup_printf ("%s", synopsis);
  g_autofree char *name = g_strdup_printf ("%s %s", g_get_prgname (), (*argv)[0]);
  g_autoptr (GOptionContext) context = g_option_context_new (parameters);

  g_option_context_set_summary (context, summary);
  if (options != NULL)
    g_option_context_add_main_entries (context, options, GETTEXT_PACKAGE);
  (*argv)[0] = name;
  if (!g_option_context_parse (context, argc, argv, error))
    {
      g_prefix_error (error, "%s: ", name);
      return FALSE;
    }
  if (*argc > 1 && g_str_equal ((*argv)[1], "--"))
    {
      memmove (*argv + 1, *argv + 2, (*argc - 1) * sizeof **argv);
      (*argc)--;
    }
  (*argv)[0] = (char *)"";
  if (*argc - 1 >= least && *argc - 1 <= most)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "usage: %s [OPTION…] %s", name, synopsis);
  return FALSE;
}

void
plumb_command_print_json (JsonNode *node, gboolean pretty)
{
  g_autofree char *text = json_to_string (node, pretty);

  g_print ("%s\n", text);
}

PlumbSpec *
plumb_command_load_spec (const char *path, char **assignments, GPtrArray *problems, GError **error)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();

  if (!plumb_spec_load_file (spec, path, problems, error))
    return NULL;
  for (gsize i = 0; assignments != NULL && assignments[i] != NULL; i++)
    {
      g_autoptr (GError) local = NULL;

      if (plumb_spec_apply_override (spec, assignments[i], &local))
        continue;
      if (g_error_matches (local, PLUMB_ERROR, PLUMB_ERROR_USAGE))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return NULL;
        }
      plumb_problems_add (problems, NULL, NULL, NULL, 0, NULL, "--set %s", local->message);
    }
  plumb_spec_validate (spec, problems);
  return g_steal_pointer (&spec);
}

PlumbSpec *
plumb_command_load_sound_spec (const char *path, char **assignments, GError **error)
{
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = plumb_command_load_spec (path, assignments, problems, error);

  if (spec == NULL || problems->len == 0)
    return g_steal_pointer (&spec);
  g_autofree char *text = plumb_problems_to_text (problems);
  g_printerr ("%s\n", text);
  return NULL;
}
