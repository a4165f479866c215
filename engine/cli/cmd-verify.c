/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/model/device.h"
#include "engine/run/verify.h"

/* verify model DIR | losses FILE | curves FILE --model DIR | tokenizer DIR FILE | templates DIR FILE */
int
plumb_cmd_verify (int argc, char **argv, GError **error)
{
  g_autofree char *model = NULL;
  g_autofree char *algorithm = NULL;
  g_autofree char *device = NULL;
  gboolean quiet = FALSE, passed = FALSE, ok = FALSE;
  const GOptionEntry options[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &model, N_ ("model of the curves"), N_ ("DIR") },
    { "algorithm", 'a', 0, G_OPTION_ARG_STRING, &algorithm, N_ ("replay the curves of one algorithm"),
      "NAME" },
    { "device", 'd', 0, G_OPTION_ARG_STRING, &device, N_ ("cpu (default), cuda:N or auto"), "NAME" },
    { "quiet", 'q', 0, G_OPTION_ARG_NONE, &quiet, N_ ("print only what failed, and the summary"), NULL },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, options, "model DIR | losses FILE | curves FILE --model DIR | tokenizer DIR FILE | templates DIR FILE",
                            N_ ("compare this engine with values made by another implementation"), 2, 3,
                            error))
    return PLUMB_ERROR_USAGE;
  gboolean two = g_str_equal (argv[1], "tokenizer") || g_str_equal (argv[1], "templates");
  g_autofree char *chosen = plumb_device_choose (device ? device : "cpu", NULL);
  if (two != (argc == 4))
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                 two ? "verify %s needs a folder and a file" : "verify %s takes one folder or file", argv[1]);
  else if (g_str_equal (argv[1], "tokenizer"))
    ok = plumb_verify_tokenizer (argv[2], argv[3], quiet, &passed, error);
  else if (g_str_equal (argv[1], "templates"))
    ok = plumb_verify_templates (argv[2], argv[3], quiet, &passed, error);
  else if (g_str_equal (argv[1], "model"))
    ok = plumb_verify_model (argv[2], chosen, quiet, &passed, error);
  else if (g_str_equal (argv[1], "losses"))
    ok = plumb_verify_losses (argv[2], chosen, quiet, &passed, error);
  else if (g_str_equal (argv[1], "curves") && model)
    ok = plumb_verify_curves (argv[2], model, chosen, algorithm, quiet, &passed, error);
  else
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                 g_str_equal (argv[1], "curves") ? "verify curves needs --model DIR"
                                                 : "verify what? There are model, losses, curves, tokenizer and templates");
  return ok && passed ? 0 : 1;
}
