/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <locale.h>
#include <string.h>
#include <unistd.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"

static const PlumbCommand commands[] = {
  { "spec", plumb_cmd_spec, N_ ("print a commented spec to start from, or list every setting") },
  { "validate", plumb_cmd_validate, N_ ("check a spec: every problem with its place and remedy") },
  { "plan", plumb_cmd_plan, N_ ("say what a run will take: memory, disk and time") },
  { "preview", plumb_cmd_preview, N_ ("show the first rows of the data as the model will see them") },
  { "import", plumb_cmd_import, N_ ("make a spec from an OpenRLHF command line") },
  { "eval", plumb_cmd_eval, N_ ("measure a model on held-out data") },
  { "status", plumb_cmd_status, N_ ("show the state of a run, or of all runs") },
  { "stop", plumb_cmd_stop, N_ ("stop a run after its step, with a checkpoint; or kill it") },
  { "run", plumb_cmd_run, N_("train as a spec says") },
  { "export", plumb_cmd_export, N_("write a checkpoint as a Hugging Face folder") },
  { "generate", plumb_cmd_generate, N_("continue a text with a model") },
  { "logprobs", plumb_cmd_logprobs, N_("log-probs of given tokens") },
  { "verify", plumb_cmd_verify, N_("compare this engine with another implementation's values") },
  { "devices", plumb_cmd_devices, N_("list the devices that models can run on") },
  { "bench", plumb_cmd_bench, N_("measure speed with random weights") },
  { "tokenize", plumb_cmd_tokenize, N_ ("JSON lines of text to token ids") },
  { "detokenize", plumb_cmd_detokenize, N_ ("JSON lines of token ids to text") },
  { "render", plumb_cmd_render, N_ ("JSON lines of messages to text, by a chat template") },
  { "score", plumb_cmd_score, N_ ("score responses in a file by the rewards of a spec") },
  { "telemetry", plumb_cmd_telemetry, N_ ("print what a run recorded as JSON lines") },
  { "worker", plumb_cmd_worker, N_ ("serve a run; started by `run` itself") },
};

static char *
usage (void)
{
  g_autoptr (GString) text = g_string_new (NULL);

  g_string_append_printf (text, _ ("Usage: %s COMMAND [OPTION…] [ARGUMENT…]\n\nCommands:\n"),
                          g_get_prgname ());
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    g_string_append_printf (text, "  %-12s %s\n", commands[i].name, _ (commands[i].summary));
  g_string_append_printf (text, _ ("\n`%s COMMAND --help` tells the options of a command.\n"),
                          g_get_prgname ());
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static const PlumbCommand *
find_command (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    if (g_str_equal (commands[i].name, name))
      return &commands[i];
  return NULL;
}

static int
unknown_command (const char *name)
{
  const char *names[G_N_ELEMENTS (commands)];
  const char *nearest;

  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    names[i] = commands[i].name;
  nearest = plumb_nearest_word (name, names, G_N_ELEMENTS (names));
  if (nearest != NULL)
    g_printerr (_ ("%s: there is no command %s; did you mean %s?\n"), g_get_prgname (), name,
                nearest);
  else
    g_printerr (_ ("%s: there is no command %s; `%s --help` lists them\n"), g_get_prgname (), name,
                g_get_prgname ());
  return PLUMB_ERROR_USAGE;
}

/* Threads that wait for the others spin for some microseconds, then sleep: the engine shares its cores with a window
 * and with other programs. The thread library reads the limit when it is loaded, hence the second start. */
static void
limit_spinning (char **argv)
{
  if (g_getenv ("GOMP_SPINCOUNT") != NULL || g_getenv ("OMP_WAIT_POLICY") != NULL)
    return;
  g_setenv ("GOMP_SPINCOUNT", "2000", TRUE);
  execv ("/proc/self/exe", argv);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *help = NULL;
  const PlumbCommand *command;
  int code;

  limit_spinning (argv);
  setlocale (LC_ALL, "");
  /* Numbers are read and written with a point, whatever the language. */
  setlocale (LC_NUMERIC, "C");
  bindtextdomain (GETTEXT_PACKAGE, PLUMB_LOCALEDIR);
  bind_textdomain_codeset (GETTEXT_PACKAGE, "UTF-8");
  textdomain (GETTEXT_PACKAGE);
  g_set_prgname ("plumbline-engine");

  if (argc < 2)
    {
      help = usage ();
      g_printerr ("%s", help);
      return PLUMB_ERROR_USAGE;
    }
  if (g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h")
      || g_str_equal (argv[1], "help"))
    {
      help = usage ();
      g_print ("%s", help);
      return 0;
    }
  if (g_str_equal (argv[1], "--version"))
    {
      g_print ("plumbline-engine %s\n", PLUMB_VERSION);
      return 0;
    }
  command = find_command (argv[1]);
  if (command == NULL)
    return unknown_command (argv[1]);
  code = command->main (argc - 1, argv + 1, &error);
  if (error == NULL)
    return code;
  g_printerr ("%s\n", error->message);
  return plumb_error_exit_code (error);
}
