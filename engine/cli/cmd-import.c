/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine import: a spec from what another trainer is started with. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/spec-import.h"

#define MOST_BYTES (1 << 20)

static char *
read_input (const char *path, GError **error)
{
  g_autoptr (GIOChannel) channel = NULL;
  char *text = NULL;
  gsize length;

  if (!g_str_equal (path, "-"))
    return g_file_get_contents (path, &text, NULL, error) ? text : NULL;
  channel = g_io_channel_unix_new (0);
  if (g_io_channel_read_to_end (channel, &text, &length, error) != G_IO_STATUS_NORMAL)
    return NULL;
  if (length <= MOST_BYTES)
    return text;
  g_free (text);
  g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "this is too long for a command line");
  return NULL;
}

int
plumb_cmd_import (int argc, char **argv, GError **error)
{
  g_autofree char *algorithm = NULL;
  const GOptionEntry options[] = {
    { "algorithm", 'a', 0, G_OPTION_ARG_STRING, &algorithm, N_ ("what a TRL file is for; guessed otherwise"), N_ ("NAME") },
    { NULL },
  };
  g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_import_note_free);
  g_autoptr (PlumbSpec) spec = NULL;
  g_autofree char *text = NULL, *written = NULL;

  if (!plumb_command_parse (&argc, &argv, options, "FILE|-",
                            _ ("Makes a spec from a command line of OpenRLHF or verl, or a YAML file of verl or TRL."), 1, 1, error))
    return PLUMB_ERROR_USAGE;
  text = read_input (argv[1], error);
  spec = text != NULL ? plumb_spec_import (text, algorithm, notes, error) : NULL;
  if (spec == NULL)
    return PLUMB_ERROR_INVALID;
  written = plumb_spec_to_text (spec);
  g_print ("%s", written);
  if (notes->len > 0)
    g_print ("\n# %s\n", _ ("Without a counterpart, or not needed:"));
  for (guint i = 0; i < notes->len; i++)
    {
      const PlumbImportNote *note = g_ptr_array_index (notes, i);

      g_print ("#   %s: %s\n", note->flag, note->reason);
    }
  return 0;
}
