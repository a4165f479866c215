/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <glib/gi18n.h>

#include "app/accessible.h"
#include "app/plot-format.h"
#include "app/timeline-page.h"
#include "app/timeline.h"

#define INTERVAL 1000 /* ms between two updates of the shares */

struct _PlumbTimelinePage
{
  GtkWidget parent_instance;

  GtkStack *stack;
  PlumbTimeline *timeline;
  GtkScrollbar *scrollbar;
  GtkLabel *span;
  GtkListBox *shares;

  PlumbRun *run;
  guint timeout;
};

G_DEFINE_FINAL_TYPE (PlumbTimelinePage, plumb_timeline_page, GTK_TYPE_WIDGET)

typedef struct
{
  const char *phase;
  double seconds;
  guint n;
} Share;

static void
add_share (GArray *shares, const char *phase, double seconds)
{
  for (guint i = 0; i < shares->len; i++)
    {
      Share *share = &g_array_index (shares, Share, i);

      if (share->phase == phase)
        {
          share->seconds += seconds;
          share->n++;
          return;
        }
    }
  g_array_append_vals (shares, &(Share){ phase, seconds, 1 }, 1);
}

static int
compare_shares (gconstpointer a, gconstpointer b)
{
  const Share *left = a, *right = b;

  return left->seconds < right->seconds ? 1 : left->seconds > right->seconds ? -1 : 0;
}

static GtkWidget *
new_share_row (PlumbTimelinePage *self, const Share *share, double total)
{
  GtkWidget *row = adw_action_row_new ();
  GtkWidget *bar = gtk_level_bar_new_for_interval (0, 1);
  GtkWidget *label;
  g_autofree char *seconds = plumb_format_duration (share->seconds);
  g_autofree char *mean = plumb_format_duration (share->seconds / share->n);
  g_autofree char *percent = g_strdup_printf ("%.1f %%", 100 * share->seconds / total);
  g_autofree char *color = g_strdup_printf ("phase-%u", plumb_phase_color (share->phase) + 1);
  g_autofree char *subtitle = NULL;

  /* translators: "12 times, 3.2 s each, 38 s in all" */
  subtitle = g_strdup_printf (
      ngettext ("%u time, %s, %s in all", "%u times, %s each, %s in all", share->n), share->n, mean,
      seconds);
  adw_preferences_row_set_title (ADW_PREFERENCES_ROW (row), share->phase);
  adw_action_row_set_subtitle (ADW_ACTION_ROW (row), subtitle);
  gtk_level_bar_set_value (GTK_LEVEL_BAR (bar), CLAMP (share->seconds / total, 0, 1));
  gtk_widget_add_css_class (bar, color);
  plumb_accessible_set_label (bar, share->phase);
  gtk_widget_set_size_request (bar, 100, -1);
  gtk_widget_set_valign (bar, GTK_ALIGN_CENTER);
  label = gtk_label_new (percent);
  gtk_label_set_width_chars (GTK_LABEL (label), 6);
  gtk_label_set_xalign (GTK_LABEL (label), 1);
  gtk_widget_add_css_class (label, "numeric");
  adw_action_row_add_suffix (ADW_ACTION_ROW (row), bar);
  adw_action_row_add_suffix (ADW_ACTION_ROW (row), label);
  return row;
}

static void
show_span (PlumbTimelinePage *self, double from, double page)
{
  g_autofree char *start = plumb_format_duration (from);
  g_autofree char *length = plumb_format_duration (page);
  /* translators: "2 min 10 s from 1 h 5 min on" */
  g_autofree char *text = g_strdup_printf (_ ("%s from %s on"), length, start);

  gtk_label_set_text (self->span, text);
  gtk_accessible_update_property (GTK_ACCESSIBLE (self->timeline),
                                  GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, text, -1);
}

static void
update_shares (PlumbTimelinePage *self)
{
  GtkAdjustment *adjustment = plumb_timeline_get_adjustment (self->timeline);
  double from = gtk_adjustment_get_value (adjustment);
  double to = from + gtk_adjustment_get_page_size (adjustment);
  double origin = plumb_run_get_origin (self->run), total = 0;
  GArray *phases = plumb_run_get_phases (self->run);
  g_autoptr (GArray) shares = g_array_new (FALSE, FALSE, sizeof (Share));
  GtkListBoxRow *row;

  gtk_stack_set_visible_child_name (self->stack, phases->len > 0 ? "timeline" : "empty");
  for (guint i = 0; i < phases->len; i++)
    {
      const PlumbRunPhase *phase = &g_array_index (phases, PlumbRunPhase, i);
      double seconds = MIN (phase->end - origin, to) - MAX (phase->start - origin, from);

      if (seconds <= 0)
        continue;
      add_share (shares, phase->name, seconds);
      total += seconds;
    }
  g_array_sort (shares, compare_shares);
  while ((row = gtk_list_box_get_row_at_index (self->shares, 0)) != NULL)
    gtk_list_box_remove (self->shares, GTK_WIDGET (row));
  for (guint i = 0; i < shares->len; i++)
    gtk_list_box_append (self->shares,
                         new_share_row (self, &g_array_index (shares, Share, i), total));
  gtk_widget_set_visible (GTK_WIDGET (self->shares), shares->len > 0);
  show_span (self, from, to - from);
}

static gboolean
timeout_cb (gpointer user_data)
{
  PlumbTimelinePage *self = user_data;

  self->timeout = 0;
  if (self->run != NULL && gtk_widget_get_mapped (GTK_WIDGET (self)))
    update_shares (self);
  return G_SOURCE_REMOVE;
}

static void
queue_update (PlumbTimelinePage *self)
{
  if (self->timeout == 0 && gtk_widget_get_mapped (GTK_WIDGET (self)))
    self->timeout = g_timeout_add (INTERVAL / 2, timeout_cb, self);
}

static void
zoom_in_cb (PlumbTimelinePage *self)
{
  plumb_timeline_zoom (self->timeline, 2);
}

static void
zoom_out_cb (PlumbTimelinePage *self)
{
  plumb_timeline_zoom (self->timeline, 0.5);
}

static void
fit_cb (PlumbTimelinePage *self)
{
  plumb_timeline_zoom (self->timeline, 0);
}

static void
plumb_timeline_page_map (GtkWidget *widget)
{
  PlumbTimelinePage *self = PLUMB_TIMELINE_PAGE (widget);

  GTK_WIDGET_CLASS (plumb_timeline_page_parent_class)->map (widget);
  if (self->run != NULL)
    update_shares (self);
}

static void
plumb_timeline_page_dispose (GObject *object)
{
  PlumbTimelinePage *self = PLUMB_TIMELINE_PAGE (object);

  g_clear_handle_id (&self->timeout, g_source_remove);
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_clear_object (&self->run);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_TIMELINE_PAGE);
  G_OBJECT_CLASS (plumb_timeline_page_parent_class)->dispose (object);
}

static void
plumb_timeline_page_class_init (PlumbTimelinePageClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_timeline_page_dispose;
  widget_class->map = plumb_timeline_page_map;
  g_type_ensure (PLUMB_TYPE_TIMELINE);
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/timeline-page.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbTimelinePage, stack);
  gtk_widget_class_bind_template_child (widget_class, PlumbTimelinePage, timeline);
  gtk_widget_class_bind_template_child (widget_class, PlumbTimelinePage, scrollbar);
  gtk_widget_class_bind_template_child (widget_class, PlumbTimelinePage, span);
  gtk_widget_class_bind_template_child (widget_class, PlumbTimelinePage, shares);
  gtk_widget_class_bind_template_callback (widget_class, zoom_in_cb);
  gtk_widget_class_bind_template_callback (widget_class, zoom_out_cb);
  gtk_widget_class_bind_template_callback (widget_class, fit_cb);
}

static void
plumb_timeline_page_init (PlumbTimelinePage *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
  plumb_accessible_follow_pages (GTK_WIDGET (self->stack));
  gtk_scrollbar_set_adjustment (self->scrollbar, plumb_timeline_get_adjustment (self->timeline));
  g_signal_connect_object (plumb_timeline_get_adjustment (self->timeline), "value-changed",
                           G_CALLBACK (queue_update), self, G_CONNECT_SWAPPED);
  g_signal_connect_object (plumb_timeline_get_adjustment (self->timeline), "changed",
                           G_CALLBACK (queue_update), self, G_CONNECT_SWAPPED);
}

void
plumb_timeline_page_set_run (PlumbTimelinePage *self, PlumbRun *run)
{
  g_return_if_fail (PLUMB_IS_TIMELINE_PAGE (self));

  if (self->run == run)
    return;
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_set_object (&self->run, run);
  plumb_timeline_set_run (self->timeline, run);
  gtk_stack_set_visible_child_name (self->stack, "empty");
  if (run == NULL)
    return;
  g_signal_connect_object (run, "rows", G_CALLBACK (queue_update), self, G_CONNECT_SWAPPED);
  if (gtk_widget_get_mapped (GTK_WIDGET (self)))
    update_shares (self);
}
