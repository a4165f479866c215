/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "app/accessible.h"
#include "app/quick-open.h"

struct _PlumbQuickOpen
{
  AdwWindow parent_instance;

  GtkSearchEntry *search;
  GtkListBox *list;
  GtkScrolledWindow *scrolled;
  GStrv words; /* of the search, folded */
};

G_DEFINE_FINAL_TYPE (PlumbQuickOpen, plumb_quick_open, ADW_TYPE_WINDOW)

typedef struct
{
  char *action;
  GVariant *target; /* NULL: none */
  char *folded;     /* what is searched */
} Entry;

static void
entry_free (gpointer data)
{
  Entry *self = data;

  g_free (self->action);
  g_clear_pointer (&self->target, g_variant_unref);
  g_free (self->folded);
  g_free (self);
}

static Entry *
entry_of (GtkListBoxRow *row)
{
  return g_object_get_data (G_OBJECT (row), "entry");
}

static gboolean
filter_row (GtkListBoxRow *row, gpointer user_data)
{
  PlumbQuickOpen *self = user_data;

  for (gsize i = 0; self->words != NULL && self->words[i] != NULL; i++)
    if (strstr (entry_of (row)->folded, self->words[i]) == NULL)
      return FALSE;
  return TRUE;
}

/* The next row that shows, in either direction; NULL: none. */
static GtkListBoxRow *
find_row (PlumbQuickOpen *self, int from, int by)
{
  GtkListBoxRow *row;

  for (int i = from; i >= 0 && (row = gtk_list_box_get_row_at_index (self->list, i)) != NULL;
       i += by)
    if (filter_row (row, self))
      return row;
  return NULL;
}

/* Selecting does not scroll, since the focus stays with the search. */
static void
select_row (PlumbQuickOpen *self, GtkListBoxRow *row)
{
  GtkAdjustment *adjustment = gtk_scrolled_window_get_vadjustment (self->scrolled);
  graphene_rect_t bounds;

  gtk_list_box_select_row (self->list, row);
  if (gtk_widget_compute_bounds (GTK_WIDGET (row), GTK_WIDGET (self->list), &bounds))
    gtk_adjustment_clamp_page (adjustment, bounds.origin.y, bounds.origin.y + bounds.size.height);
}

static void
search_cb (PlumbQuickOpen *self)
{
  g_autofree char *folded
      = g_utf8_casefold (gtk_editable_get_text (GTK_EDITABLE (self->search)), -1);
  GtkListBoxRow *first;

  g_strfreev (self->words);
  self->words = g_strsplit_set (folded, " \t", -1);
  plumb_accessible_filter (self->list);
  first = find_row (self, 0, 1);
  if (first != NULL)
    select_row (self, first);
}

/* Closed first: what is activated may open a window of its own. */
static void
row_activated_cb (PlumbQuickOpen *self, GtkListBoxRow *row)
{
  GtkWindow *parent = gtk_window_get_transient_for (GTK_WINDOW (self));
  g_autofree char *action = g_strdup (entry_of (row)->action);
  g_autoptr (GVariant) target = NULL;

  if (entry_of (row)->target != NULL)
    target = g_variant_ref (entry_of (row)->target);
  gtk_window_destroy (GTK_WINDOW (self));
  if (parent != NULL)
    gtk_widget_activate_action_variant (GTK_WIDGET (parent), action, target);
}

static void
activate_cb (PlumbQuickOpen *self)
{
  GtkListBoxRow *row = gtk_list_box_get_selected_row (self->list);

  if (row != NULL && filter_row (row, self))
    row_activated_cb (self, row);
}

static void
close_cb (PlumbQuickOpen *self)
{
  gtk_window_close (GTK_WINDOW (self));
}

/* The arrows move through the list while one types. */
static gboolean
key_cb (PlumbQuickOpen *self, guint key)
{
  GtkListBoxRow *row = gtk_list_box_get_selected_row (self->list);
  int by = key == GDK_KEY_Down || key == GDK_KEY_KP_Down ? 1
           : key == GDK_KEY_Up || key == GDK_KEY_KP_Up   ? -1
                                                         : 0;

  if (by == 0)
    return GDK_EVENT_PROPAGATE;
  row = row != NULL ? find_row (self, gtk_list_box_row_get_index (row) + by, by)
                    : find_row (self, 0, 1);
  if (row != NULL)
    select_row (self, row);
  return GDK_EVENT_STOP;
}

static void
plumb_quick_open_dispose (GObject *object)
{
  gtk_widget_dispose_template (GTK_WIDGET (object), PLUMB_TYPE_QUICK_OPEN);
  G_OBJECT_CLASS (plumb_quick_open_parent_class)->dispose (object);
}

static void
plumb_quick_open_finalize (GObject *object)
{
  g_strfreev (PLUMB_QUICK_OPEN (object)->words);
  G_OBJECT_CLASS (plumb_quick_open_parent_class)->finalize (object);
}

static void
plumb_quick_open_class_init (PlumbQuickOpenClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_quick_open_dispose;
  G_OBJECT_CLASS (klass)->finalize = plumb_quick_open_finalize;
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/quick-open.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbQuickOpen, search);
  gtk_widget_class_bind_template_child (widget_class, PlumbQuickOpen, list);
  gtk_widget_class_bind_template_child (widget_class, PlumbQuickOpen, scrolled);
  gtk_widget_class_bind_template_callback (widget_class, search_cb);
  gtk_widget_class_bind_template_callback (widget_class, activate_cb);
  gtk_widget_class_bind_template_callback (widget_class, close_cb);
  gtk_widget_class_bind_template_callback (widget_class, row_activated_cb);
}

static void
plumb_quick_open_init (PlumbQuickOpen *self)
{
  GtkEventController *keys = gtk_event_controller_key_new ();

  gtk_widget_init_template (GTK_WIDGET (self));
  gtk_list_box_set_filter_func (self->list, filter_row, self, NULL);
  gtk_event_controller_set_propagation_phase (keys, GTK_PHASE_CAPTURE);
  g_signal_connect_swapped (keys, "key-pressed", G_CALLBACK (key_cb), self);
  gtk_widget_add_controller (GTK_WIDGET (self), keys);
}

PlumbQuickOpen *
plumb_quick_open_new (GtkWindow *parent)
{
  return g_object_new (PLUMB_TYPE_QUICK_OPEN, "transient-for", parent, NULL);
}

void
plumb_quick_open_add (PlumbQuickOpen *self,
                      const char *title,
                      const char *subtitle,
                      const char *action,
                      GVariant *target)
{
  GtkWidget *row;
  Entry *entry;
  g_autofree char *both = NULL, *name = NULL, *facts = NULL;

  g_return_if_fail (PLUMB_IS_QUICK_OPEN (self) && title != NULL && action != NULL);

  both = g_strconcat (title, " ", subtitle, NULL);
  name = g_markup_escape_text (title, -1);
  facts = g_markup_escape_text (subtitle != NULL ? subtitle : "", -1);
  entry = g_new0 (Entry, 1);
  entry->action = g_strdup (action);
  entry->target = target != NULL ? g_variant_ref_sink (target) : NULL;
  entry->folded = g_utf8_casefold (both, -1);
  row = adw_action_row_new ();
  adw_preferences_row_set_title (ADW_PREFERENCES_ROW (row), name);
  adw_action_row_set_subtitle (ADW_ACTION_ROW (row), facts);
  adw_action_row_set_title_lines (ADW_ACTION_ROW (row), 1);
  adw_action_row_set_subtitle_lines (ADW_ACTION_ROW (row), 1);
  gtk_list_box_row_set_activatable (GTK_LIST_BOX_ROW (row), TRUE);
  g_object_set_data_full (G_OBJECT (row), "entry", entry, entry_free);
  gtk_list_box_append (self->list, row);
  if (gtk_list_box_get_selected_row (self->list) == NULL)
    gtk_list_box_select_row (self->list, GTK_LIST_BOX_ROW (row));
}
