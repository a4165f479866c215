/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "app/background.h"
#include "app/log-view.h"

#define DEFAULT_LIMIT 8192
#define INTERVAL 1000 /* ms */

struct _PlumbLogView
{
  GtkWidget parent_instance;

  GtkWidget *scrolled;
  GtkTextView *text_view;
  PlumbRun *run;
  GCancellable *cancellable;
  guint limit;
  guint timeout;
  goffset size;
  char *text;
  char *shown; /* of the text, what passes the filter */
  char *filter;
  gboolean loading;
  gboolean follow;
  double upper; /* of the scrolled text when it was last laid out */
  guint scroll;
};

enum
{
  PROP_0,
  PROP_LIMIT,
  N_PROPS,
};
static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (PlumbLogView, plumb_log_view, GTK_TYPE_WIDGET)

static gboolean
line_matches (PlumbLogView *self, const char *line)
{
  g_autofree char *folded = NULL;

  if (self->filter == NULL)
    return TRUE;
  folded = g_utf8_casefold (line, -1);
  return strstr (folded, self->filter) != NULL;
}

static gboolean
scroll_to_end_cb (gpointer user_data)
{
  PlumbLogView *self = user_data;
  GtkAdjustment *adjustment
      = gtk_scrolled_window_get_vadjustment (GTK_SCROLLED_WINDOW (self->scrolled));

  self->scroll = 0;
  gtk_adjustment_set_value (adjustment, gtk_adjustment_get_upper (adjustment));
  return G_SOURCE_REMOVE;
}

/* While the end shows, it goes on showing. The text is laid out piece by piece after it came, and
 * the view keeps its place meanwhile: only then is it time to scroll. */
static void
adjustment_changed_cb (PlumbLogView *self, GtkAdjustment *adjustment)
{
  self->upper = gtk_adjustment_get_upper (adjustment);
  if (self->follow && self->scroll == 0)
    self->scroll = g_idle_add_full (G_PRIORITY_LOW, scroll_to_end_cb, self, NULL);
}

/* A move while nothing was laid out is the user's. */
static void
adjustment_moved_cb (PlumbLogView *self, GtkAdjustment *adjustment)
{
  if (self->scroll == 0 && self->upper == gtk_adjustment_get_upper (adjustment))
    self->follow = gtk_adjustment_get_value (adjustment) + gtk_adjustment_get_page_size (adjustment)
                   >= self->upper - 24;
}

/* The lines that pass the filter. */
static char *
make_shown (PlumbLogView *self)
{
  g_auto (GStrv) lines = g_strsplit (self->text != NULL ? self->text : "", "\n", -1);
  g_autoptr (GString) shown = g_string_new (NULL);

  for (gsize i = 0; lines[i] != NULL; i++)
    if ((lines[i][0] != '\0' || lines[i + 1] != NULL) && line_matches (self, lines[i]))
      g_string_append_printf (shown, "%s%s", shown->len > 0 ? "\n" : "", lines[i]);
  if (shown->len == 0)
    g_string_append (shown, self->filter != NULL ? _ ("No line matches") : _ ("The log is empty"));
  return g_string_free (g_steal_pointer (&shown), FALSE);
}

/* Where the old text goes on in the new one: it loses lines at its start and gains some at its end.
 * Returns the bytes lost, or -1 when the two have nothing to do with each other. */
static gssize
find_overlap (const char *old, const char *new)
{
  const char *start = old;
  gsize line = strcspn (new, "\n");

  if (line == 0)
    return -1;
  while (start != NULL && *start != '\0')
    {
      if (strncmp (start, new, line) == 0 && g_str_has_prefix (new, start))
        return start - old;
      start = strchr (start, '\n');
      start = start != NULL ? start + 1 : NULL;
    }
  return -1;
}

/* Only what is new is laid out. */
static void
show_text (PlumbLogView *self)
{
  GtkTextBuffer *buffer = gtk_text_view_get_buffer (self->text_view);
  g_autofree char *old = g_steal_pointer (&self->shown);
  GtkTextIter start, end;
  gssize lost;

  self->shown = make_shown (self);
  lost = old != NULL ? find_overlap (old, self->shown) : -1;
  if (lost < 0)
    {
      gtk_text_buffer_set_text (buffer, self->shown, -1);
      return;
    }
  gtk_text_buffer_get_end_iter (buffer, &end);
  gtk_text_buffer_insert (buffer, &end, self->shown + strlen (old) - lost, -1);
  gtk_text_buffer_get_start_iter (buffer, &start);
  gtk_text_buffer_get_iter_at_offset (buffer, &end, g_utf8_pointer_to_offset (old, old + lost));
  gtk_text_buffer_delete (buffer, &start, &end);
}

static void
loaded_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (PlumbLogView) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  goffset size;

  text = plumb_text_load_finish (result, &size, &error);
  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  self->loading = FALSE;
  if (error == NULL && text == NULL)
    return;
  self->size = error == NULL ? size : -1;
  g_free (self->text);
  self->text = g_steal_pointer (&text);
  show_text (self);
}

static void
load (PlumbLogView *self)
{
  g_autofree char *path = NULL;

  if (self->run == NULL || self->loading || !gtk_widget_get_mapped (GTK_WIDGET (self)))
    return;
  path = g_build_filename (plumb_run_get_path (self->run), PLUMB_RUN_LOG, NULL);
  self->loading = TRUE;
  plumb_text_load_async (path, self->limit, self->size, self->cancellable, loaded_cb,
                         g_object_ref (self));
}

static gboolean
timeout_cb (gpointer user_data)
{
  load (PLUMB_LOG_VIEW (user_data));
  return G_SOURCE_CONTINUE;
}

static void
plumb_log_view_map (GtkWidget *widget)
{
  PlumbLogView *self = PLUMB_LOG_VIEW (widget);

  GTK_WIDGET_CLASS (plumb_log_view_parent_class)->map (widget);
  load (self);
  self->timeout = g_timeout_add (INTERVAL, timeout_cb, self);
}

static void
plumb_log_view_unmap (GtkWidget *widget)
{
  g_clear_handle_id (&PLUMB_LOG_VIEW (widget)->timeout, g_source_remove);
  GTK_WIDGET_CLASS (plumb_log_view_parent_class)->unmap (widget);
}

static void
plumb_log_view_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_LIMIT:
      PLUMB_LOG_VIEW (object)->limit = g_value_get_uint (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_log_view_dispose (GObject *object)
{
  PlumbLogView *self = PLUMB_LOG_VIEW (object);

  g_cancellable_cancel (self->cancellable);
  g_clear_handle_id (&self->timeout, g_source_remove);
  g_clear_handle_id (&self->scroll, g_source_remove);
  g_clear_object (&self->run);
  g_clear_pointer (&self->scrolled, gtk_widget_unparent);
  G_OBJECT_CLASS (plumb_log_view_parent_class)->dispose (object);
}

static void
plumb_log_view_finalize (GObject *object)
{
  PlumbLogView *self = PLUMB_LOG_VIEW (object);

  g_object_unref (self->cancellable);
  g_free (self->text);
  g_free (self->shown);
  g_free (self->filter);
  G_OBJECT_CLASS (plumb_log_view_parent_class)->finalize (object);
}

static void
plumb_log_view_class_init (PlumbLogViewClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  object_class->set_property = plumb_log_view_set_property;
  object_class->dispose = plumb_log_view_dispose;
  object_class->finalize = plumb_log_view_finalize;
  widget_class->map = plumb_log_view_map;
  widget_class->unmap = plumb_log_view_unmap;
  properties[PROP_LIMIT] = g_param_spec_uint ("limit", NULL, NULL, 1024, G_MAXUINT, DEFAULT_LIMIT,
                                              G_PARAM_WRITABLE | G_PARAM_STATIC_STRINGS);
  g_object_class_install_properties (object_class, N_PROPS, properties);
  gtk_widget_class_set_layout_manager_type (widget_class, GTK_TYPE_BIN_LAYOUT);
}

static void
plumb_log_view_init (PlumbLogView *self)
{
  GtkWidget *text_view = gtk_text_view_new ();
  GtkAdjustment *adjustment;

  self->follow = TRUE;
  self->limit = DEFAULT_LIMIT;
  self->size = -1;
  self->cancellable = g_cancellable_new ();
  self->text_view = GTK_TEXT_VIEW (text_view);
  gtk_text_view_set_editable (self->text_view, FALSE);
  gtk_text_view_set_cursor_visible (self->text_view, FALSE);
  gtk_text_view_set_monospace (self->text_view, TRUE);
  gtk_text_view_set_wrap_mode (self->text_view, GTK_WRAP_WORD_CHAR);
  gtk_text_view_set_left_margin (self->text_view, 12);
  gtk_text_view_set_right_margin (self->text_view, 12);
  gtk_text_view_set_top_margin (self->text_view, 8);
  gtk_text_view_set_bottom_margin (self->text_view, 8);
  gtk_widget_add_css_class (text_view, "log");
  gtk_accessible_update_property (GTK_ACCESSIBLE (text_view), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                  _ ("Log of the run"), -1);
  self->scrolled = gtk_scrolled_window_new ();
  gtk_scrolled_window_set_child (GTK_SCROLLED_WINDOW (self->scrolled), text_view);
  adjustment = gtk_scrolled_window_get_vadjustment (GTK_SCROLLED_WINDOW (self->scrolled));
  g_signal_connect_object (adjustment, "changed", G_CALLBACK (adjustment_changed_cb), self,
                           G_CONNECT_SWAPPED);
  g_signal_connect_object (adjustment, "value-changed", G_CALLBACK (adjustment_moved_cb), self,
                           G_CONNECT_SWAPPED);
  gtk_widget_set_vexpand (self->scrolled, TRUE);
  gtk_widget_set_parent (self->scrolled, GTK_WIDGET (self));
}

void
plumb_log_view_set_run (PlumbLogView *self, PlumbRun *run)
{
  g_return_if_fail (PLUMB_IS_LOG_VIEW (self));

  if (!g_set_object (&self->run, run))
    return;
  g_cancellable_cancel (self->cancellable);
  g_object_unref (self->cancellable);
  self->cancellable = g_cancellable_new ();
  self->loading = FALSE;
  self->size = -1;
  self->follow = TRUE;
  g_clear_pointer (&self->text, g_free);
  load (self);
}

void
plumb_log_view_set_filter (PlumbLogView *self, const char *filter)
{
  g_return_if_fail (PLUMB_IS_LOG_VIEW (self));

  g_free (self->filter);
  self->filter = filter != NULL && *filter != '\0' ? g_utf8_casefold (filter, -1) : NULL;
  show_text (self);
}

gboolean
plumb_log_view_jump_to_error (PlumbLogView *self)
{
  GtkTextBuffer *buffer;
  GtkTextIter start, found;

  g_return_val_if_fail (PLUMB_IS_LOG_VIEW (self), FALSE);

  buffer = gtk_text_view_get_buffer (self->text_view);
  gtk_text_buffer_get_start_iter (buffer, &start);
  if (!gtk_text_iter_forward_search (&start, "error", GTK_TEXT_SEARCH_CASE_INSENSITIVE, &found,
                                     NULL, NULL))
    return FALSE;
  self->follow = FALSE;
  gtk_text_iter_set_line_offset (&found, 0);
  gtk_text_buffer_place_cursor (buffer, &found);
  gtk_text_view_scroll_to_iter (self->text_view, &found, 0, TRUE, 0, 0.2);
  return TRUE;
}
