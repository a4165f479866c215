/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "app/accessible.h"
#include "app/run-row.h"
#include "app/settings.h"
#include "app/window-private.h"

G_DEFINE_FINAL_TYPE (PlumbWindow, plumb_window, ADW_TYPE_APPLICATION_WINDOW)

void
plumb_window_toast (PlumbWindow *self, const char *text)
{
  g_autofree char *title = g_markup_escape_text (text, -1);

  adw_toast_overlay_add_toast (self->toasts, adw_toast_new (title));
}

/* A run that ended while nobody was looking says so, and its notification opens it. */
static void
notify_end (PlumbWindow *self, PlumbRun *run)
{
  GApplication *application = G_APPLICATION (gtk_window_get_application (GTK_WINDOW (self)));
  const PlumbRunInfo *info = plumb_run_get_info (run);
  g_autoptr (GNotification) notification = NULL;
  g_autofree char *body = NULL;

  if (gtk_window_is_active (GTK_WINDOW (self)) && self->run == run)
    return;
  /* Without a session bus there is nobody to notify. */
  if (application == NULL || g_application_get_dbus_connection (application) == NULL)
    return;
  notification = g_notification_new (plumb_run_get_title (run));
  body = g_strdup (info->message != NULL ? info->message : _ (plumb_run_state_label (info->state)));
  g_notification_set_body (notification, body);
  g_notification_set_default_action_and_target (notification, "app.open-run", "s",
                                                plumb_run_get_path (run));
  g_application_send_notification (application, plumb_run_get_path (run), notification);
}

static void
run_changed_cb (PlumbRun *run, PlumbWindow *self)
{
  gboolean alive = plumb_run_is_alive (run);
  gboolean was_alive = GPOINTER_TO_INT (g_object_get_data (G_OBJECT (run), "was-alive"));

  g_object_set_data (G_OBJECT (run), "was-alive", GINT_TO_POINTER (alive));
  if (was_alive && !alive)
    notify_end (self, run);
  if (run == self->run)
    plumb_window_update_actions (self);
  if (was_alive != alive)
    {
      gtk_list_box_invalidate_sort (self->list);
      gtk_list_box_invalidate_headers (self->list);
    }
}

/* Running ones first, then newest first. */
static int
compare_rows (GtkListBoxRow *a, GtkListBoxRow *b, gpointer user_data)
{
  PlumbRun *left = plumb_run_row_get_run (PLUMB_RUN_ROW (a));
  PlumbRun *right = plumb_run_row_get_run (PLUMB_RUN_ROW (b));

  if (plumb_run_is_alive (left) != plumb_run_is_alive (right))
    return plumb_run_is_alive (left) ? -1 : 1;
  return (int)plumb_run_get_rank (left) - (int)plumb_run_get_rank (right);
}

static void
update_header (GtkListBoxRow *row, GtkListBoxRow *before, gpointer user_data)
{
  gboolean alive = plumb_run_is_alive (plumb_run_row_get_run (PLUMB_RUN_ROW (row)));
  GtkWidget *label;

  if (before != NULL
      && plumb_run_is_alive (plumb_run_row_get_run (PLUMB_RUN_ROW (before))) == alive)
    {
      gtk_list_box_row_set_header (row, NULL);
      return;
    }
  label = gtk_label_new (alive ? _ ("Running") : _ ("Recent"));
  gtk_label_set_xalign (GTK_LABEL (label), 0);
  gtk_widget_add_css_class (label, "heading");
  gtk_widget_add_css_class (label, "dim-label");
  gtk_widget_add_css_class (label, "list-header");
  gtk_list_box_row_set_header (row, label);
}

static gboolean
filter_row (GtkListBoxRow *row, gpointer user_data)
{
  PlumbWindow *self = user_data;
  PlumbRun *run = plumb_run_row_get_run (PLUMB_RUN_ROW (row));
  g_autofree char *needle
      = g_utf8_casefold (gtk_editable_get_text (GTK_EDITABLE (self->search)), -1);
  g_autofree char *title = g_utf8_casefold (plumb_run_get_title (run), -1);
  g_autofree char *path = g_utf8_casefold (plumb_run_get_path (run), -1);

  return strstr (title, needle) != NULL || strstr (path, needle) != NULL;
}

static GtkListBoxRow *
find_row (PlumbWindow *self, PlumbRun *run)
{
  GtkListBoxRow *row;

  for (int i = 0; (row = gtk_list_box_get_row_at_index (self->list, i)) != NULL; i++)
    if (plumb_run_row_get_run (PLUMB_RUN_ROW (row)) == run)
      return row;
  return NULL;
}

static void
add_row (PlumbWindow *self, PlumbRun *run)
{
  gtk_list_box_append (self->list, plumb_run_row_new (run));
  g_signal_connect_object (run, "changed", G_CALLBACK (run_changed_cb), self, 0);
}

static gboolean
is_listed (GListModel *runs, PlumbRun *run)
{
  g_autoptr (PlumbRun) there = g_list_model_get_item (runs, plumb_run_get_rank (run));

  return there == run;
}

static void
remove_rows (PlumbWindow *self, GListModel *runs)
{
  GtkListBoxRow *row;

  for (int i = 0; (row = gtk_list_box_get_row_at_index (self->list, i)) != NULL;)
    {
      PlumbRun *run = plumb_run_row_get_run (PLUMB_RUN_ROW (row));

      if (is_listed (runs, run))
        {
          i++;
          continue;
        }
      if (run == self->run)
        plumb_window_show_run (self, NULL);
      gtk_list_box_remove (self->list, GTK_WIDGET (row));
    }
}

/* The list box is filled by hand, since a bound one can neither sort nor filter. */
static void
runs_changed_cb (GListModel *runs, guint position, guint removed, guint added, PlumbWindow *self)
{
  if (removed > 0)
    remove_rows (self, runs);
  for (guint i = 0; i < added; i++)
    {
      g_autoptr (PlumbRun) run = g_list_model_get_item (runs, position + i);

      add_row (self, run);
    }
  gtk_stack_set_visible_child_name (self->side,
                                    g_list_model_get_n_items (runs) > 0 ? "runs" : "empty");
}

void
plumb_window_show_run (PlumbWindow *self, PlumbRun *run)
{
  GtkListBoxRow *row = run != NULL ? find_row (self, run) : NULL;

  g_set_object (&self->run, run);
  plumb_run_page_set_run (self->page, run);
  gtk_stack_set_visible_child_name (self->content, run != NULL ? "run" : "welcome");
  if (row != NULL)
    gtk_list_box_select_row (self->list, row);
  else
    gtk_list_box_unselect_all (self->list);
  if (run != NULL)
    plumb_split_set_show_content (self->split, TRUE);
  plumb_window_update_actions (self);
}

void
plumb_window_show_new_run (PlumbWindow *self)
{
  gtk_list_box_unselect_all (self->list);
  g_clear_object (&self->run);
  plumb_run_page_set_run (self->page, NULL);
  gtk_stack_set_visible_child_name (self->content, "new-run");
  plumb_split_set_show_content (self->split, TRUE);
  plumb_window_update_actions (self);
}

static void
row_activated_cb (PlumbWindow *self, GtkListBoxRow *row)
{
  plumb_window_show_run (self, plumb_run_row_get_run (PLUMB_RUN_ROW (row)));
}

static void
row_selected_cb (PlumbWindow *self, GtkListBoxRow *row)
{
  if (row != NULL && plumb_run_row_get_run (PLUMB_RUN_ROW (row)) != self->run)
    row_activated_cb (self, row);
}

static void
started_cb (PlumbWindow *self, const char *path)
{
  plumb_window_open_run (self, path);
}

static void
can_start_cb (PlumbWindow *self)
{
  plumb_window_update_actions (self);
}

static void
restore_size (PlumbWindow *self)
{
  GSettings *settings = plumb_settings_get ();

  if (settings == NULL)
    return;
  g_settings_bind (settings, "width", self, "default-width", G_SETTINGS_BIND_DEFAULT);
  g_settings_bind (settings, "height", self, "default-height", G_SETTINGS_BIND_DEFAULT);
  g_settings_bind (settings, "maximized", self, "maximized", G_SETTINGS_BIND_DEFAULT);
}

static void
plumb_window_dispose (GObject *object)
{
  PlumbWindow *self = PLUMB_WINDOW (object);

  if (self->page != NULL)
    plumb_run_page_set_run (self->page, NULL);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_WINDOW);
  g_clear_object (&self->run);
  g_clear_object (&self->runs);
  G_OBJECT_CLASS (plumb_window_parent_class)->dispose (object);
}

static void
plumb_window_class_init (PlumbWindowClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_window_dispose;
  g_type_ensure (PLUMB_TYPE_SPLIT);
  g_type_ensure (PLUMB_TYPE_NEW_RUN_PAGE);
  g_type_ensure (PLUMB_TYPE_RUN_PAGE);
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/window.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbWindow, toasts);
  gtk_widget_class_bind_template_child (widget_class, PlumbWindow, split);
  gtk_widget_class_bind_template_child (widget_class, PlumbWindow, side);
  gtk_widget_class_bind_template_child (widget_class, PlumbWindow, list);
  gtk_widget_class_bind_template_child (widget_class, PlumbWindow, search);
  gtk_widget_class_bind_template_child (widget_class, PlumbWindow, content);
  gtk_widget_class_bind_template_child (widget_class, PlumbWindow, new_run);
  gtk_widget_class_bind_template_child (widget_class, PlumbWindow, page);
}

static void
plumb_window_init (PlumbWindow *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
  plumb_accessible_follow_pages (GTK_WIDGET (self->side));
  plumb_accessible_follow_pages (GTK_WIDGET (self->content));
  gtk_list_box_set_sort_func (self->list, compare_rows, self, NULL);
  gtk_list_box_set_header_func (self->list, update_header, self, NULL);
  gtk_list_box_set_filter_func (self->list, filter_row, self, NULL);
  g_signal_connect_object (self->list, "row-activated", G_CALLBACK (row_activated_cb), self,
                           G_CONNECT_SWAPPED);
  g_signal_connect_object (self->list, "row-selected", G_CALLBACK (row_selected_cb), self,
                           G_CONNECT_SWAPPED);
  g_signal_connect_object (self->search, "search-changed", G_CALLBACK (plumb_accessible_filter),
                           self->list, G_CONNECT_SWAPPED);
  g_signal_connect_object (self->new_run, "started", G_CALLBACK (started_cb), self,
                           G_CONNECT_SWAPPED);
  g_signal_connect_object (self->new_run, "notify::can-start", G_CALLBACK (can_start_cb), self,
                           G_CONNECT_SWAPPED);
  plumb_window_add_actions (self);
  restore_size (self);
}

PlumbWindow *
plumb_window_new (PlumbApplication *application, PlumbRunList *runs)
{
  PlumbWindow *self;

  g_return_val_if_fail (PLUMB_IS_RUN_LIST (runs), NULL);

  self = g_object_new (PLUMB_TYPE_WINDOW, "application", application, NULL);
  self->runs = g_object_ref (runs);
  g_signal_connect_object (runs, "items-changed", G_CALLBACK (runs_changed_cb), self, 0);
  runs_changed_cb (G_LIST_MODEL (runs), 0, 0, g_list_model_get_n_items (G_LIST_MODEL (runs)), self);
  plumb_window_update_actions (self);
  return self;
}

void
plumb_window_open_run (PlumbWindow *self, const char *path)
{
  PlumbRun *run;

  g_return_if_fail (PLUMB_IS_WINDOW (self) && path != NULL);

  if (!plumb_run_dir_is_run (path))
    {
      g_autofree char *message = g_strdup_printf (_ ("There is no run in “%s”"), path);

      plumb_window_toast (self, message);
      return;
    }
  run = plumb_run_list_ensure (self->runs, path);
  plumb_run_refresh (run);
  plumb_window_show_run (self, run);
}

void
plumb_window_open_spec (PlumbWindow *self, const char *path)
{
  g_autofree char *name = g_path_get_basename (path);
  g_autoptr (GError) error = NULL;

  g_return_if_fail (PLUMB_IS_WINDOW (self) && path != NULL);

  if (plumb_new_run_page_load_file (self->new_run, path, name, &error))
    plumb_window_show_new_run (self);
  else
    plumb_window_toast (self, error->message);
}
