/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <locale.h>

#include "app/application.h"

/* Without a GPU the GL renderer draws with the processor too, and takes three times as much of it
 * from the training as the one made for that. */
static void
choose_renderer (void)
{
  if (!g_file_test ("/dev/dri/renderD128", G_FILE_TEST_EXISTS))
    g_setenv ("GSK_RENDERER", "cairo", FALSE);
}

int
main (int argc, char **argv)
{
  g_autoptr (PlumbApplication) application = NULL;

  choose_renderer ();
  setlocale (LC_ALL, "");
  bindtextdomain (GETTEXT_PACKAGE, PLUMB_LOCALEDIR);
  bind_textdomain_codeset (GETTEXT_PACKAGE, "UTF-8");
  textdomain (GETTEXT_PACKAGE);

  application = plumb_application_new ();
  return g_application_run (G_APPLICATION (application), argc, argv);
}
