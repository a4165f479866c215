/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine import: what other trainers are started with, and what they recorded. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/history.h"
#include "engine/core/run-dir.h"
#include "engine/core/spec-import.h"
#include "engine/run/diagnosis.h"

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

static int
import_settings (const char *path, const char *algorithm, GError **error)
{
  g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_import_note_free);
  g_autofree char *text = read_input (path, error), *written = NULL;
  g_autoptr (PlumbSpec) spec = text != NULL ? plumb_spec_import (text, algorithm, notes, error) : NULL;

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

/* What the curves show of the ways in which runs fail. */
static void
explain (PlumbHistory *history)
{
  g_autoptr (PlumbDiagnosis) diagnosis = plumb_diagnosis_new ();

  for (guint i = 0; i < history->points->len; i++)
    {
      const PlumbHistoryPoint *point = &g_array_index (history->points, PlumbHistoryPoint, i);
      gboolean last = i + 1 == history->points->len
                      || g_array_index (history->points, PlumbHistoryPoint, i + 1).step != point->step;

      plumb_diagnosis_see (diagnosis, point->metric, point->value);
      for (const PlumbFinding *finding; last && (finding = plumb_diagnosis_next (diagnosis)) != NULL;)
        plumb_history_note (history, "step %" G_GINT64_FORMAT ": %s; %s", point->step, finding->message, finding->remedy);
    }
}

static int
import_curves (const char *path, const char *run, const char *name, GError **error)
{
  g_autoptr (PlumbHistory) history = plumb_history_load (path, error);
  g_autofree char *base = g_path_get_basename (path), *proposed = NULL;
  g_autoptr (GArray) attempts = NULL;

  if (history == NULL)
    return PLUMB_ERROR_INVALID;
  plumb_history_rename (history);
  explain (history);
  name = name != NULL ? name : base;
  proposed = run != NULL ? g_strdup (run) : plumb_run_dir_propose (name);
  if (!plumb_history_write (history, path, proposed, name, error))
    return plumb_error_exit_code (*error);
  attempts = plumb_history_attempts (history);
  for (guint i = 0; i < history->notes->len; i++)
    g_printerr ("%s\n", (char *)g_ptr_array_index (history->notes, i));
  g_print (_ ("%s: %u points, %u attempts\n"), proposed, history->points->len, attempts->len);
  return 0;
}

int
plumb_cmd_import (int argc, char **argv, GError **error)
{
  g_autofree char *algorithm = NULL, *run = NULL, *name = NULL;
  const GOptionEntry options[] = {
    { "algorithm", 'a', 0, G_OPTION_ARG_STRING, &algorithm, N_ ("what a TRL file is for; guessed otherwise"), N_ ("NAME") },
    { "run-dir", 0, 0, G_OPTION_ARG_FILENAME, &run, N_ ("curves: folder of the run that is made of them"), N_ ("DIR") },
    { "name", 0, 0, G_OPTION_ARG_STRING, &name, N_ ("curves: shown name of that run"), N_ ("NAME") },
    { NULL },
  };

  if (!plumb_command_parse (&argc, &argv, options, "FILE|DIR|-",
                            _ ("Makes a spec from a command line of OpenRLHF or verl, or a YAML file of verl or TRL; or a run to "
                               "look at from the curves in TensorBoard's event files, JSON lines or CSV."),
                            1, 1, error))
    return PLUMB_ERROR_USAGE;
  return !g_str_equal (argv[1], "-") && plumb_history_is_likely (argv[1]) ? import_curves (argv[1], run, name, error)
                                                                            : import_settings (argv[1], algorithm, error);
}
