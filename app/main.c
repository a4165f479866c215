/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <locale.h>

#include "app/application.h"

int
main (int argc, char **argv)
{
  g_autoptr (PlumbApplication) application = NULL;

  setlocale (LC_ALL, "");
  bindtextdomain (GETTEXT_PACKAGE, PLUMB_LOCALEDIR);
  bind_textdomain_codeset (GETTEXT_PACKAGE, "UTF-8");
  textdomain (GETTEXT_PACKAGE);

  application = plumb_application_new ();
  return g_application_run (G_APPLICATION (application), argc, argv);
}
