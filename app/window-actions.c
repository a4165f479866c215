/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "app/engine-client.h"
#include "app/quick-open.h"
#include "engine/core/presets.h"
#include "app/window-private.h"

/* What was asked of the engine, and of which run. */
typedef struct
{
  PlumbWindow *window;
  PlumbRun *run;
} Call;

static void
call_free (Call *self)
{
  g_object_unref (self->window);
  g_object_unref (self->run);
  g_free (self);
}

/* Problems of a resumed run have no form to stand in. */
static char *
describe_reply (const PlumbEngineReply *reply)
{
  g_autoptr (GPtrArray) problems = plumb_engine_reply_problems (reply);

  return problems->len > 0 ? plumb_problems_to_text (problems) : plumb_engine_reply_summary (reply);
}

static void
call_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Call *call = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbEngineReply) reply = plumb_engine_call_finish (result, &error);
  g_autofree char *message = NULL;

  if (reply == NULL)
    message = g_strdup (error->message);
  else if (reply->exit_code != 0)
    message = describe_reply (reply);
  if (message != NULL)
    plumb_window_toast (call->window, message);
  plumb_run_refresh (call->run);
  call_free (call);
}

static void
call_engine (PlumbWindow *self, const char *const *arguments)
{
  Call *call = g_new0 (Call, 1);

  call->window = g_object_ref (self);
  call->run = g_object_ref (self->run);
  plumb_engine_call_async (arguments, NULL, call_cb, call);
}

static void
new_run_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_window_show_new_run (user_data);
}

static void
open_run_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_window_open_run (user_data, g_variant_get_string (parameter, NULL));
}

static void
open_spec_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_window_open_spec (user_data, g_variant_get_string (parameter, NULL));
}

static void
preset_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;

  if (plumb_new_run_page_load_preset (self->new_run, g_variant_get_string (parameter, NULL)))
    plumb_window_show_new_run (self);
}

static void
set_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;
  const char *assignment = g_variant_get_string (parameter, NULL);

  if (!plumb_new_run_page_enter (self->new_run, assignment))
    plumb_window_toast (self, _ ("There is no such setting"));
}

static void
preview_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_new_run_page_preview (PLUMB_WINDOW (user_data)->new_run);
}

static void
start_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_new_run_page_start (PLUMB_WINDOW (user_data)->new_run);
}

static void
stop_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;
  const char *arguments[] = { "stop", plumb_run_get_path (self->run), NULL };

  call_engine (self, arguments);
  plumb_window_toast (self, _ ("The run stops after this step and keeps a checkpoint"));
}

static void
continue_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;
  const char *arguments[] = { "run",      "--resume", "--run-dir", plumb_run_get_path (self->run),
                              "--detach", "--json",   NULL };

  call_engine (self, arguments);
}

static void
kill_response_cb (AdwMessageDialog *dialog, const char *response, gpointer user_data)
{
  PlumbWindow *self = user_data;
  PlumbRun *run = g_object_get_data (G_OBJECT (dialog), "run");

  if (g_strcmp0 (response, "kill") == 0 && run == self->run)
    {
      const char *arguments[] = { "stop", plumb_run_get_path (run), "--kill", NULL };

      call_engine (self, arguments);
    }
}

static void
kill_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;
  GtkWidget *dialog = adw_message_dialog_new (GTK_WINDOW (self), _ ("Kill the Run?"), NULL);
  const PlumbRunInfo *info = plumb_run_get_info (self->run);

  if (info != NULL && info->checkpoint >= 0)
    adw_message_dialog_format_body (
        ADW_MESSAGE_DIALOG (dialog),
        _ ("All of its processes end at once. Work since the checkpoint of "
           "step %d is lost. Stop ends it after this step instead."),
        (int)info->checkpoint);
  else
    adw_message_dialog_set_body (
        ADW_MESSAGE_DIALOG (dialog),
        _ ("All of its processes end at once. It has no checkpoint yet: all of "
           "its work is lost. Stop ends it after this step instead."));
  adw_message_dialog_add_responses (ADW_MESSAGE_DIALOG (dialog), "cancel", _ ("_Cancel"), "kill",
                                    _ ("_Kill"), NULL);
  adw_message_dialog_set_response_appearance (ADW_MESSAGE_DIALOG (dialog), "kill",
                                              ADW_RESPONSE_DESTRUCTIVE);
  adw_message_dialog_set_default_response (ADW_MESSAGE_DIALOG (dialog), "cancel");
  adw_message_dialog_set_close_response (ADW_MESSAGE_DIALOG (dialog), "cancel");
  g_object_set_data_full (G_OBJECT (dialog), "run", g_object_ref (self->run), g_object_unref);
  g_signal_connect_object (dialog, "response", G_CALLBACK (kill_response_cb), self, 0);
  gtk_window_present (GTK_WINDOW (dialog));
}

static void
new_from_run_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;
  g_autofree char *path = NULL, *title = NULL;
  g_autoptr (GError) error = NULL;

  path = g_build_filename (plumb_run_get_path (self->run), PLUMB_RUN_SPEC, NULL);
  title = g_strdup_printf (_ ("Settings of %s"), plumb_run_get_title (self->run));
  if (plumb_new_run_page_load_file (self->new_run, path, title, &error))
    plumb_window_show_new_run (self);
  else
    plumb_window_toast (self, error->message);
}

static void
open_folder_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;
  g_autofree char *uri = g_filename_to_uri (plumb_run_get_path (self->run), NULL, NULL);

  if (uri != NULL)
    gtk_show_uri (GTK_WINDOW (self), uri, GDK_CURRENT_TIME);
}

typedef struct
{
  PlumbWindow *window;
  void (*open) (PlumbWindow *, const char *path);
} Choice;

static void
choice_response_cb (GtkNativeDialog *dialog, int response, gpointer user_data)
{
  g_autofree Choice *choice = user_data;
  g_autoptr (PlumbWindow) window = choice->window;
  g_autoptr (GFile) file = NULL;
  g_autofree char *path = NULL;

  if (response == GTK_RESPONSE_ACCEPT)
    file = gtk_file_chooser_get_file (GTK_FILE_CHOOSER (dialog));
  if (file != NULL && (path = g_file_get_path (file)) != NULL)
    choice->open (window, path);
  g_object_unref (dialog);
}

static void
choose_file (PlumbWindow *self, const char *title, const char *accept,
             void (*open) (PlumbWindow *, const char *path))
{
  GtkFileChooserNative *dialog;
  Choice *choice = g_new (Choice, 1);

  *choice = (Choice){ g_object_ref (self), open };
  dialog = gtk_file_chooser_native_new (title, GTK_WINDOW (self), GTK_FILE_CHOOSER_ACTION_OPEN, accept, NULL);
  gtk_native_dialog_set_modal (GTK_NATIVE_DIALOG (dialog), TRUE);
  g_signal_connect (dialog, "response", G_CALLBACK (choice_response_cb), choice);
  gtk_native_dialog_show (GTK_NATIVE_DIALOG (dialog));
}

static void
choose_spec_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  choose_file (user_data, _ ("Open a Spec"), NULL, plumb_window_open_spec);
}

static void
add_runs (PlumbWindow *self, PlumbQuickOpen *list)
{
  GListModel *runs = G_LIST_MODEL (self->runs);

  for (guint i = 0; i < g_list_model_get_n_items (runs); i++)
    {
      g_autoptr (PlumbRun) run = g_list_model_get_item (runs, i);
      const PlumbRunInfo *info = plumb_run_get_info (run);
      g_autofree char *state = NULL;

      /* translators: "Run, finished" */
      state = info != NULL
                  ? g_strdup_printf (_ ("Run, %s"), _ (plumb_run_state_label (info->state)))
                  : g_strdup (_ ("Run"));
      plumb_quick_open_add (list, plumb_run_get_title (run), state, "win.open-run",
                            g_variant_new_string (plumb_run_get_path (run)));
    }
}

static void
add_views (PlumbWindow *self, PlumbQuickOpen *list)
{
  static const struct
  {
    const char *name, *title;
  } views[] = {
    { "overview", N_ ("Overview") }, { "charts", N_ ("Charts") },   { "rollouts", N_ ("Rollouts") },
    { "timeline", N_ ("Timeline") }, { "details", N_ ("Details") },
  };

  for (guint i = 0; self->run != NULL && i < G_N_ELEMENTS (views); i++)
    plumb_quick_open_add (list, _ (views[i].title), plumb_run_get_title (self->run), "win.view",
                          g_variant_new_string (views[i].name));
}

static void
add_deeds (PlumbQuickOpen *list)
{
  static const struct
  {
    const char *action, *title;
  } deeds[] = {
    { "win.new-run", N_ ("New Run") },
    { "win.choose-spec", N_ ("Open a Spec") },
    { "win.choose-import", N_ ("Import Settings or Curves") },
    { "win.show-help-overlay", N_ ("Keyboard Shortcuts") },
  };
  g_autoptr (GPtrArray) presets = plumb_presets_list ();

  for (guint i = 0; i < G_N_ELEMENTS (deeds); i++)
    plumb_quick_open_add (list, _ (deeds[i].title), NULL, deeds[i].action, NULL);
  for (guint i = 0; i < presets->len; i++)
    {
      const PlumbPreset *preset = presets->pdata[i];

      plumb_quick_open_add (list, preset->title, _ ("Preset for a new run"), "win.preset",
                            g_variant_new_string (preset->name));
    }
}

static void
quick_open_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;
  PlumbQuickOpen *list = plumb_quick_open_new (GTK_WINDOW (self));

  add_runs (self, list);
  add_views (self, list);
  add_deeds (list);
  gtk_window_present (GTK_WINDOW (list));
}

static void
import_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_window_import (user_data, g_variant_get_string (parameter, NULL));
}

static void
choose_import_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  choose_file (user_data, _ ("Import Settings or Curves"), _ ("_Import"), plumb_window_import);
}

static void
view_cb (GSimpleAction *action, GVariant *value, gpointer user_data)
{
  PlumbWindow *self = user_data;

  if (plumb_run_page_set_view (self->page, g_variant_get_string (value, NULL)))
    g_simple_action_set_state (action, value);
}

static void
find_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  PlumbWindow *self = user_data;

  if (self->run != NULL)
    plumb_run_page_find (self->page);
}

static void
toggle_sidebar_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_split_toggle_sidebar (PLUMB_WINDOW (user_data)->split);
}

static void
show_sidebar_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_split_set_show_content (PLUMB_WINDOW (user_data)->split, FALSE);
}

static void
show_message_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  plumb_window_toast (user_data, g_variant_get_string (parameter, NULL));
}

static void
fullscreen_cb (GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
  GtkWindow *window = user_data;

  if (gtk_window_is_fullscreen (window))
    gtk_window_unfullscreen (window);
  else
    gtk_window_fullscreen (window);
}

static const GActionEntry entries[] = {
  { "new-run", new_run_cb },
  { "open-run", open_run_cb, "s" },
  { "open-spec", open_spec_cb, "s" },
  { "choose-spec", choose_spec_cb },
  { "import", import_cb, "s" },
  { "choose-import", choose_import_cb },
  { "quick-open", quick_open_cb },
  { "preset", preset_cb, "s" },
  { "set", set_cb, "s" },
  { "preview", preview_cb },
  { "start", start_cb },
  { "stop", stop_cb },
  { "kill", kill_cb },
  { "continue", continue_cb },
  { "new-from-run", new_from_run_cb },
  { "open-folder", open_folder_cb },
  { "view", NULL, "s", "'overview'", view_cb },
  { "find", find_cb },
  { "toggle-sidebar", toggle_sidebar_cb },
  { "show-sidebar", show_sidebar_cb },
  { "show-message", show_message_cb, "s" },
  { "fullscreen", fullscreen_cb },
};

void
plumb_window_add_actions (PlumbWindow *self)
{
  g_action_map_add_action_entries (G_ACTION_MAP (self), entries, G_N_ELEMENTS (entries), self);
}

static void
enable (PlumbWindow *self, const char *name, gboolean enabled)
{
  GAction *action = g_action_map_lookup_action (G_ACTION_MAP (self), name);

  g_simple_action_set_enabled (G_SIMPLE_ACTION (action), enabled);
}

void
plumb_window_update_actions (PlumbWindow *self)
{
  const PlumbRunInfo *info = self->run != NULL ? plumb_run_get_info (self->run) : NULL;
  gboolean alive = info != NULL && plumb_run_state_is_alive (info->state);

  enable (self, "stop", alive && info->state != PLUMB_RUN_STATE_STOPPING);
  enable (self, "kill", alive);
  enable (self, "continue", info != NULL && !alive && info->state != PLUMB_RUN_STATE_FINISHED);
  enable (self, "new-from-run", self->run != NULL);
  enable (self, "open-folder", self->run != NULL);
  enable (self, "start",
          g_strcmp0 (gtk_stack_get_visible_child_name (self->content), "new-run") == 0
              && plumb_new_run_page_can_start (self->new_run));
  enable (self, "preview",
          g_strcmp0 (gtk_stack_get_visible_child_name (self->content), "new-run") == 0);
}
