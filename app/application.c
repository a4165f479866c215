/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "app/application.h"
#include "app/window.h"
#include "engine/core/run-dir.h"

struct _PlumbApplication
{
  AdwApplication parent_instance;

  PlumbRunList *runs;
};

G_DEFINE_FINAL_TYPE (PlumbApplication, plumb_application, ADW_TYPE_APPLICATION)

static PlumbWindow *
ensure_window (PlumbApplication *self)
{
  GtkWindow *window = gtk_application_get_active_window (GTK_APPLICATION (self));

  for (GList *l = gtk_application_get_windows (GTK_APPLICATION (self)); l != NULL; l = l->next)
    if (PLUMB_IS_WINDOW (l->data))
      window = l->data;
  if (!PLUMB_IS_WINDOW (window))
    window = GTK_WINDOW (plumb_window_new (self, self->runs));
  return PLUMB_WINDOW (window);
}

static void
quit_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbApplication *self = PLUMB_APPLICATION (user_data);
  GList *windows;

  while ((windows = gtk_application_get_windows (GTK_APPLICATION (self))) != NULL)
    gtk_window_destroy (windows->data);
}

static void
about_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbApplication *self = PLUMB_APPLICATION (user_data);
  g_autofree char *versions = NULL;

  versions = g_strdup_printf ("Plumbline %s\nGTK %u.%u.%u\nlibadwaita %u.%u.%u\n", PLUMB_VERSION,
                              gtk_get_major_version (), gtk_get_minor_version (),
                              gtk_get_micro_version (), adw_get_major_version (),
                              adw_get_minor_version (), adw_get_micro_version ());
  adw_show_about_window (gtk_application_get_active_window (GTK_APPLICATION (self)),
                         "application-name", "Plumbline", "application-icon", PLUMB_APPLICATION_ID,
                         "version", PLUMB_VERSION, "developer-name", _ ("The Plumbline developers"),
                         "comments", _ ("Aligns language models by reinforcement learning"),
                         "license-type", GTK_LICENSE_APACHE_2_0, "debug-info", versions, NULL);
}

/* A notification opens its run, even if the window has been closed since. */
static void
open_run_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbApplication *self = PLUMB_APPLICATION (user_data);
  PlumbWindow *window = ensure_window (self);

  plumb_window_open_run (window, g_variant_get_string (parameter, NULL));
  gtk_window_present (GTK_WINDOW (window));
}

static const GActionEntry entries[] = {
  { "quit", quit_cb },
  { "about", about_cb },
  { "open-run", open_run_cb, "s" },
};

static void
add_accels (GtkApplication *self)
{
  static const struct
  {
    const char *action;
    const char *keys[3];
  } accels[] = {
    { "app.quit", { "<Control>q" } },
    { "window.close", { "<Control>w" } },
    { "win.new-run", { "<Control>n" } },
    { "win.quick-open", { "<Control>k" } },
    { "win.stop", { "<Control>period" } },
    { "win.kill", { "<Control><Shift>period", "<Control>colon" } },
    { "win.find", { "<Control>f" } },
    { "win.toggle-sidebar", { "F9" } },
    { "win.view::overview", { "<Alt>1" } },
    { "win.view::charts", { "<Alt>2" } },
    { "win.view::rollouts", { "<Alt>3" } },
    { "win.view::timeline", { "<Alt>4" } },
    { "win.view::details", { "<Alt>5" } },
    { "win.fullscreen", { "F11" } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (accels); i++)
    gtk_application_set_accels_for_action (self, accels[i].action, accels[i].keys);
}

static void
plumb_application_startup (GApplication *application)
{
  PlumbApplication *self = PLUMB_APPLICATION (application);

  G_APPLICATION_CLASS (plumb_application_parent_class)->startup (application);
  gtk_window_set_default_icon_name (PLUMB_APPLICATION_ID);
  self->runs = plumb_run_list_new ();
  add_accels (GTK_APPLICATION (self));
}

static void
plumb_application_activate (GApplication *application)
{
  gtk_window_present (GTK_WINDOW (ensure_window (PLUMB_APPLICATION (application))));
}

/* A run's folder on the command line opens that run. */
static void
plumb_application_open (GApplication *application, GFile **files, int n_files, const char *hint)
{
  PlumbWindow *window = ensure_window (PLUMB_APPLICATION (application));
  g_autofree char *path = g_file_get_path (files[0]);

  if (path != NULL && plumb_run_dir_is_run (path))
    plumb_window_open_run (window, path);
  else if (path != NULL)
    plumb_window_open_spec (window, path);
  gtk_window_present (GTK_WINDOW (window));
}

static void
plumb_application_shutdown (GApplication *application)
{
  PlumbApplication *self = PLUMB_APPLICATION (application);

  if (self->runs != NULL)
    plumb_run_list_stop (self->runs);
  g_clear_object (&self->runs);
  G_APPLICATION_CLASS (plumb_application_parent_class)->shutdown (application);
}

static void
plumb_application_class_init (PlumbApplicationClass *klass)
{
  GApplicationClass *application_class = G_APPLICATION_CLASS (klass);

  application_class->startup = plumb_application_startup;
  application_class->activate = plumb_application_activate;
  application_class->open = plumb_application_open;
  application_class->shutdown = plumb_application_shutdown;
}

static void
plumb_application_init (PlumbApplication *self)
{
  g_action_map_add_action_entries (G_ACTION_MAP (self), entries, G_N_ELEMENTS (entries), self);
}

PlumbApplication *
plumb_application_new (void)
{
  return g_object_new (PLUMB_TYPE_APPLICATION, "application-id", PLUMB_APPLICATION_ID, "flags",
                       G_APPLICATION_HANDLES_OPEN, "resource-base-path", "/org/plumbline/Plumbline",
                       NULL);
}
