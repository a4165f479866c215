/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <glib/gi18n.h>
#include <string.h>

#include "app/accessible.h"
#include "app/details-page.h"
#include "app/log-view.h"

struct _PlumbDetailsPage
{
  GtkBox parent_instance;

  GtkStack *stack;
  GtkSearchEntry *search;
  GtkButton *jump;
  GtkToggleButton *changed_only;
  PlumbLogView *log;
  GtkStack *events_stack;
  GtkListView *events;
  GtkListBox *settings;

  PlumbRun *run;
  PlumbSpec *shown_spec; /* compared, never followed */
};

G_DEFINE_FINAL_TYPE (PlumbDetailsPage, plumb_details_page, GTK_TYPE_BOX)

static const char *
level_icon (PlumbEventLevel level)
{
  switch (level)
    {
    case PLUMB_EVENT_WARNING:
      return "dialog-warning-symbolic";
    case PLUMB_EVENT_ERROR:
      return "dialog-error-symbolic";
    case PLUMB_EVENT_INFO:
      break;
    }
  return "dialog-information-symbolic";
}

static const char *
level_name (PlumbEventLevel level)
{
  switch (level)
    {
    case PLUMB_EVENT_WARNING:
      return _ ("Warning");
    case PLUMB_EVENT_ERROR:
      return _ ("Error");
    case PLUMB_EVENT_INFO:
      break;
    }
  return _ ("Information");
}

static void
setup_event_cb (GtkSignalListItemFactory *factory, GtkListItem *item)
{
  GtkWidget *box = gtk_box_new (GTK_ORIENTATION_HORIZONTAL, 12);
  GtkWidget *text = gtk_box_new (GTK_ORIENTATION_VERTICAL, 2);
  GtkWidget *message = gtk_label_new (NULL);
  GtkWidget *facts = gtk_label_new (NULL);

  gtk_label_set_xalign (GTK_LABEL (message), 0);
  gtk_label_set_ellipsize (GTK_LABEL (message), PANGO_ELLIPSIZE_END);
  gtk_label_set_xalign (GTK_LABEL (facts), 0);
  gtk_label_set_ellipsize (GTK_LABEL (facts), PANGO_ELLIPSIZE_END);
  gtk_widget_add_css_class (facts, "caption");
  gtk_widget_add_css_class (facts, "dim-label");
  gtk_widget_add_css_class (facts, "numeric");
  gtk_box_append (GTK_BOX (text), message);
  gtk_box_append (GTK_BOX (text), facts);
  gtk_box_append (GTK_BOX (box), gtk_image_new ());
  gtk_box_append (GTK_BOX (box), text);
  gtk_widget_set_margin_top (box, 6);
  gtk_widget_set_margin_start (box, 12);
  gtk_widget_set_margin_end (box, 12);
  gtk_widget_set_margin_bottom (box, 6);
  gtk_list_item_set_child (item, box);
}

static char *
format_event (PlumbEventItem *event)
{
  g_autoptr (GDateTime) date = NULL;
  g_autofree char *time = NULL;

  date = g_date_time_new_from_unix_local ((gint64)plumb_event_item_get_time (event));
  time = date != NULL ? g_date_time_format (date, "%F %T") : g_strdup ("–");
  if (plumb_event_item_get_step (event) == PLUMB_NO_STEP)
    return g_strdup_printf ("%s · %s", time, plumb_event_item_get_kind (event));
  return g_strdup_printf (_ ("%s · %s · step %d"), time, plumb_event_item_get_kind (event),
                          (int)plumb_event_item_get_step (event));
}

/* The row around the box is made by the list; it is there from the first binding on. */
static void
name_row (GtkWidget *box, PlumbEventItem *event, const char *facts)
{
  const char *level = level_name (plumb_event_item_get_level (event));
  GtkWidget *row = gtk_widget_get_parent (box);
  /* translators: "Warning: the loss was not finite, 2026-12-01 06:30:00 · step 12" */
  g_autofree char *name
      = g_strdup_printf (_ ("%s: %s, %s"), level, plumb_event_item_get_message (event), facts);

  plumb_accessible_set_label (gtk_widget_get_first_child (box), level);
  if (row != NULL)
    plumb_accessible_set_label (row, name);
}

static void
bind_event_cb (GtkSignalListItemFactory *factory, GtkListItem *item)
{
  PlumbEventItem *event = PLUMB_EVENT_ITEM (gtk_list_item_get_item (item));
  GtkWidget *box = gtk_list_item_get_child (item);
  GtkWidget *icon = gtk_widget_get_first_child (box);
  GtkWidget *message = gtk_widget_get_first_child (gtk_widget_get_next_sibling (icon));
  g_autofree char *facts = format_event (event);
  static const char *const styles[] = { "dim-label", "warning", "error" };

  for (guint i = 0; i < G_N_ELEMENTS (styles); i++)
    gtk_widget_remove_css_class (icon, styles[i]);
  gtk_widget_add_css_class (icon, styles[plumb_event_item_get_level (event)]);
  gtk_image_set_from_icon_name (GTK_IMAGE (icon), level_icon (plumb_event_item_get_level (event)));
  name_row (box, event, facts);
  gtk_label_set_text (GTK_LABEL (message), plumb_event_item_get_message (event));
  gtk_widget_set_tooltip_text (message, plumb_event_item_get_message (event));
  gtk_label_set_text (GTK_LABEL (gtk_widget_get_next_sibling (message)), facts);
}

static int
newest_first (gconstpointer a, gconstpointer b, gpointer user_data)
{
  double left = plumb_event_item_get_time ((PlumbEventItem *)a);
  double right = plumb_event_item_get_time ((PlumbEventItem *)b);

  return left < right ? 1 : left > right ? -1 : 0;
}

static void
update_events_stack (PlumbDetailsPage *self)
{
  guint n = self->run != NULL ? g_list_model_get_n_items (plumb_run_get_events (self->run)) : 0;

  gtk_stack_set_visible_child_name (self->events_stack, n > 0 ? "events" : "empty");
}

static void
show_events (PlumbDetailsPage *self)
{
  GtkSorter *sorter = GTK_SORTER (gtk_custom_sorter_new (newest_first, NULL, NULL));
  GListModel *sorted = G_LIST_MODEL (
      gtk_sort_list_model_new (g_object_ref (plumb_run_get_events (self->run)), sorter));
  g_autoptr (GtkNoSelection) selection = gtk_no_selection_new (sorted);

  gtk_list_view_set_model (self->events, GTK_SELECTION_MODEL (selection));
  update_events_stack (self);
}

/* The value in force against the algorithm's default. */
static gboolean
is_changed (PlumbSpec *spec, const PlumbField *field)
{
  const char *standard = plumb_field_default (field, plumb_spec_algorithm (spec));

  return g_strcmp0 (plumb_spec_get_text (spec, field->key), standard) != 0;
}

static GtkWidget *
new_setting_row (PlumbSpec *spec, const PlumbField *field)
{
  GtkWidget *row = adw_action_row_new ();
  const char *text = plumb_spec_get_text (spec, field->key);
  const char *standard = plumb_field_default (field, plumb_spec_algorithm (spec));
  g_autofree char *title = g_markup_escape_text (_ (field->label), -1);
  GtkWidget *value = gtk_label_new (text != NULL ? text : "–");

  adw_preferences_row_set_title (ADW_PREFERENCES_ROW (row), title);
  adw_action_row_set_subtitle (ADW_ACTION_ROW (row), field->key);
  if (is_changed (spec, field) && standard != NULL)
    {
      g_autofree char *subtitle = g_strdup_printf (_ ("%s · default %s"), field->key, standard);
      g_autofree char *escaped = g_markup_escape_text (subtitle, -1);

      adw_action_row_set_subtitle (ADW_ACTION_ROW (row), escaped);
    }
  gtk_label_set_wrap (GTK_LABEL (value), TRUE);
  gtk_label_set_wrap_mode (GTK_LABEL (value), PANGO_WRAP_WORD_CHAR);
  gtk_label_set_xalign (GTK_LABEL (value), 1);
  gtk_label_set_selectable (GTK_LABEL (value), TRUE);
  gtk_label_set_max_width_chars (GTK_LABEL (value), 36);
  if (is_changed (spec, field))
    gtk_widget_add_css_class (value, "heading");
  else
    gtk_widget_add_css_class (value, "dim-label");
  adw_action_row_add_suffix (ADW_ACTION_ROW (row), value);
  return row;
}

static gboolean
setting_passes (PlumbDetailsPage *self, const PlumbField *field)
{
  g_autofree char *folded
      = g_utf8_casefold (gtk_editable_get_text (GTK_EDITABLE (self->search)), -1);
  g_autofree char *label = g_utf8_casefold (_ (field->label), -1);

  return strstr (field->key, folded) != NULL || strstr (label, folded) != NULL;
}

static void
show_settings (PlumbDetailsPage *self)
{
  PlumbSpec *spec = self->run != NULL ? plumb_run_get_spec (self->run) : NULL;
  const PlumbField *fields;
  GtkListBoxRow *row;
  gsize n;

  while ((row = gtk_list_box_get_row_at_index (self->settings, 0)) != NULL)
    gtk_list_box_remove (self->settings, GTK_WIDGET (row));
  self->shown_spec = spec;
  gtk_widget_set_visible (GTK_WIDGET (self->settings), spec != NULL);
  if (spec == NULL)
    return;
  fields = plumb_fields (&n);
  for (gsize i = 0; i < n; i++)
    if ((fields[i].algorithms & (1 << plumb_spec_algorithm (spec)))
        && (is_changed (spec, &fields[i]) || !gtk_toggle_button_get_active (self->changed_only))
        && setting_passes (self, &fields[i]))
      gtk_list_box_append (self->settings, new_setting_row (spec, &fields[i]));
}

static void
changed_cb (PlumbDetailsPage *self)
{
  if (plumb_run_get_spec (self->run) != self->shown_spec)
    show_settings (self);
}

/* The search concerns the page that shows. */
static void
search_cb (PlumbDetailsPage *self)
{
  if (g_strcmp0 (gtk_stack_get_visible_child_name (self->stack), "settings") == 0)
    show_settings (self);
  else
    plumb_log_view_set_filter (self->log, gtk_editable_get_text (GTK_EDITABLE (self->search)));
}

static void
page_cb (PlumbDetailsPage *self)
{
  const char *page = gtk_stack_get_visible_child_name (self->stack);

  gtk_widget_set_visible (GTK_WIDGET (self->search), g_strcmp0 (page, "events") != 0);
  gtk_widget_set_visible (GTK_WIDGET (self->jump), g_strcmp0 (page, "log") == 0);
  gtk_widget_set_visible (GTK_WIDGET (self->changed_only), g_strcmp0 (page, "settings") == 0);
  gtk_editable_set_text (GTK_EDITABLE (self->search), "");
}

static void
jump_cb (PlumbDetailsPage *self)
{
  if (!plumb_log_view_jump_to_error (self->log))
    gtk_widget_activate_action (GTK_WIDGET (self), "win.show-message", "s",
                                _ ("No line of the log speaks of an error"));
}

static void
plumb_details_page_dispose (GObject *object)
{
  PlumbDetailsPage *self = PLUMB_DETAILS_PAGE (object);

  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_clear_object (&self->run);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_DETAILS_PAGE);
  G_OBJECT_CLASS (plumb_details_page_parent_class)->dispose (object);
}

static void
plumb_details_page_class_init (PlumbDetailsPageClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_details_page_dispose;
  g_type_ensure (PLUMB_TYPE_LOG_VIEW);
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/details-page.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbDetailsPage, stack);
  gtk_widget_class_bind_template_child (widget_class, PlumbDetailsPage, search);
  gtk_widget_class_bind_template_child (widget_class, PlumbDetailsPage, jump);
  gtk_widget_class_bind_template_child (widget_class, PlumbDetailsPage, changed_only);
  gtk_widget_class_bind_template_child (widget_class, PlumbDetailsPage, log);
  gtk_widget_class_bind_template_child (widget_class, PlumbDetailsPage, events_stack);
  gtk_widget_class_bind_template_child (widget_class, PlumbDetailsPage, events);
  gtk_widget_class_bind_template_child (widget_class, PlumbDetailsPage, settings);
  gtk_widget_class_bind_template_callback (widget_class, search_cb);
  gtk_widget_class_bind_template_callback (widget_class, page_cb);
  gtk_widget_class_bind_template_callback (widget_class, jump_cb);
  gtk_widget_class_bind_template_callback (widget_class, show_settings);
}

static void
plumb_details_page_init (PlumbDetailsPage *self)
{
  g_autoptr (GtkListItemFactory) factory = gtk_signal_list_item_factory_new ();

  gtk_widget_init_template (GTK_WIDGET (self));
  plumb_accessible_follow_pages (GTK_WIDGET (self->stack));
  plumb_accessible_follow_pages (GTK_WIDGET (self->events_stack));
  g_signal_connect (factory, "setup", G_CALLBACK (setup_event_cb), NULL);
  g_signal_connect (factory, "bind", G_CALLBACK (bind_event_cb), NULL);
  gtk_list_view_set_factory (self->events, factory);
  page_cb (self);
}

void
plumb_details_page_set_run (PlumbDetailsPage *self, PlumbRun *run)
{
  g_return_if_fail (PLUMB_IS_DETAILS_PAGE (self));

  if (self->run == run)
    return;
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_set_object (&self->run, run);
  plumb_log_view_set_run (self->log, run);
  show_settings (self);
  if (run == NULL)
    {
      gtk_list_view_set_model (self->events, NULL);
      return;
    }
  show_events (self);
  g_signal_connect_object (run, "changed", G_CALLBACK (changed_cb), self, G_CONNECT_SWAPPED);
  g_signal_connect_object (run, "rows", G_CALLBACK (update_events_stack), self, G_CONNECT_SWAPPED);
}

void
plumb_details_page_find (PlumbDetailsPage *self)
{
  g_return_if_fail (PLUMB_IS_DETAILS_PAGE (self));

  gtk_widget_grab_focus (GTK_WIDGET (self->search));
}
