/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "app/plot-format.h"
#include "app/plot-scale.h"
#include "app/timeline.h"

#define LANE 50 /* px: the name of the worker, and under it its bar */
#define BAR 24
#define NAME 9 /* px: from the bar up to the middle of the name */
#define AXIS 24
#define FIRST_SPAN 60.0 /* seconds shown at first */
#define LEAST_SPAN 0.5

struct _PlumbTimeline
{
  GtkWidget parent_instance;

  PlumbRun *run;
  GtkAdjustment *adjustment;
  GPtrArray *workers; /* interned names, sorted */
  guint seen;         /* phases that the above was made from */
  gboolean zoomed;    /* the user chose how much is shown */
};

G_DEFINE_FINAL_TYPE (PlumbTimeline, plumb_timeline, GTK_TYPE_WIDGET)

guint
plumb_phase_color (const char *phase)
{
  static const char *const phases[]
      = { "generate", "score", "logprob", "train", "sync", "idle", "warmup", "eval", "checkpoint" };

  for (guint i = 0; i < G_N_ELEMENTS (phases); i++)
    if (g_strcmp0 (phases[i], phase) == 0)
      return i % 8;
  return g_str_hash (phase) % 8;
}

/* "worker 2" before "worker 10". */
static int
compare_workers (gconstpointer a, gconstpointer b)
{
  g_autofree char *left = g_utf8_collate_key_for_filename (*(char *const *)a, -1);
  g_autofree char *right = g_utf8_collate_key_for_filename (*(char *const *)b, -1);

  return strcmp (left, right);
}

static guint
find_lane (PlumbTimeline *self, const char *worker)
{
  for (guint i = 0; i < self->workers->len; i++)
    if (self->workers->pdata[i] == worker)
      return i;
  g_ptr_array_add (self->workers, (gpointer)worker);
  g_ptr_array_sort (self->workers, compare_workers);
  gtk_widget_queue_resize (GTK_WIDGET (self));
  return find_lane (self, worker);
}

/* The shown part moves along with a running run while it reaches to the end. */
static void
rows_cb (PlumbTimeline *self)
{
  GArray *phases = plumb_run_get_phases (self->run);
  double origin = plumb_run_get_origin (self->run);
  double upper = gtk_adjustment_get_upper (self->adjustment);
  double page = gtk_adjustment_get_page_size (self->adjustment);
  gboolean at_end = gtk_adjustment_get_value (self->adjustment) + page >= upper - 0.1;
  double end = upper;

  if (phases->len == self->seen)
    return;
  if (phases->len < self->seen)
    self->seen = 0;
  for (; self->seen < phases->len; self->seen++)
    {
      const PlumbRunPhase *phase = &g_array_index (phases, PlumbRunPhase, self->seen);

      find_lane (self, phase->worker);
      end = MAX (end, phase->end - origin);
    }
  if (!self->zoomed)
    page = MIN (FIRST_SPAN, end);
  gtk_adjustment_configure (
      self->adjustment, at_end ? MAX (0, end - page) : gtk_adjustment_get_value (self->adjustment),
      0, end, page / 10, page * 0.9, page);
  gtk_widget_queue_draw (GTK_WIDGET (self));
}

static double
to_pixel (PlumbTimeline *self, double seconds)
{
  double page = MAX (gtk_adjustment_get_page_size (self->adjustment), 1e-6);

  return (seconds - gtk_adjustment_get_value (self->adjustment)) / page
         * gtk_widget_get_width (GTK_WIDGET (self));
}

static void
append_text (PlumbTimeline *self,
             GtkSnapshot *snapshot,
             const char *text,
             double x,
             double y,
             double room,
             const GdkRGBA *color)
{
  g_autoptr (PangoLayout) layout = gtk_widget_create_pango_layout (GTK_WIDGET (self), text);
  int width, height;

  pango_layout_get_pixel_size (layout, &width, &height);
  if (room > 0 && width > room)
    return;
  gtk_snapshot_save (snapshot);
  gtk_snapshot_translate (snapshot, &GRAPHENE_POINT_INIT (floor (x), floor (y - height / 2.0)));
  gtk_snapshot_append_layout (snapshot, layout, color);
  gtk_snapshot_restore (snapshot);
}

static void
append_axis (PlumbTimeline *self, GtkSnapshot *snapshot, const GdkRGBA *text)
{
  double from = gtk_adjustment_get_value (self->adjustment);
  double page = gtk_adjustment_get_page_size (self->adjustment);
  int width = gtk_widget_get_width (GTK_WIDGET (self));
  int height = gtk_widget_get_height (GTK_WIDGET (self));
  GdkRGBA grid = { text->red, text->green, text->blue, 0.13 };
  GdkRGBA dim = { text->red, text->green, text->blue, 0.7 };
  PlumbTicks ticks;

  plumb_ticks_time (&ticks, from, from + page, MAX (2, width / 100));
  for (guint i = 0; i < ticks.n; i++)
    {
      double x = to_pixel (self, ticks.value[i]);
      g_autofree char *label = plumb_format_duration_tick (ticks.value[i], ticks.step);

      gtk_snapshot_append_color (snapshot, &grid,
                                 &GRAPHENE_RECT_INIT (floor (x), 0, 1, height - AXIS));
      append_text (self, snapshot, label, x + 4, height - AXIS / 2.0, 0, &dim);
    }
}

/* Bars that share a pixel with the one before them in their lane are left out. */
static void
append_bars (PlumbTimeline *self, GtkSnapshot *snapshot, const GdkRGBA *text)
{
  GArray *phases = plumb_run_get_phases (self->run);
  double origin = plumb_run_get_origin (self->run);
  int width = gtk_widget_get_width (GTK_WIDGET (self));
  GtkStyleContext *context = gtk_widget_get_style_context (GTK_WIDGET (self));
  g_autofree double *drawn = g_new0 (double, MAX (self->workers->len, 1));

  for (guint i = 0; i < phases->len; i++)
    {
      const PlumbRunPhase *phase = &g_array_index (phases, PlumbRunPhase, i);
      double from = MAX (to_pixel (self, phase->start - origin), 0);
      double to = MIN (to_pixel (self, phase->end - origin), width);
      guint lane = find_lane (self, phase->worker);
      double y = lane * LANE + LANE - BAR;
      char name[16];
      GdkRGBA color = *text;

      if (lane >= self->workers->len || to < 0 || from > width || to <= drawn[lane])
        continue;
      drawn[lane] = MAX (to, from + 1);
      g_snprintf (name, sizeof name, "chart_%u", plumb_phase_color (phase->name) + 1);
      gtk_style_context_lookup_color (context, name, &color);
      color.alpha = 0.45;
      gtk_snapshot_append_color (
          snapshot, &color,
          &GRAPHENE_RECT_INIT (from, y, MAX (1, to - from - (to - from > 3)), BAR));
      if (to - from > 30)
        append_text (self, snapshot, phase->name, from + 5, y + BAR / 2.0, to - from - 8, text);
    }
}

static void
append_names (PlumbTimeline *self, GtkSnapshot *snapshot, const GdkRGBA *text)
{
  GdkRGBA dim = { text->red, text->green, text->blue, 0.7 };

  for (guint i = 0; i < self->workers->len; i++)
    append_text (self, snapshot, self->workers->pdata[i], 2, i * LANE + LANE - BAR - NAME, 0, &dim);
}

static void
plumb_timeline_snapshot (GtkWidget *widget, GtkSnapshot *snapshot)
{
  PlumbTimeline *self = PLUMB_TIMELINE (widget);
  GdkRGBA text;

  if (self->run == NULL || self->workers->len == 0)
    return;
  gtk_style_context_get_color (gtk_widget_get_style_context (widget), &text);
  append_axis (self, snapshot, &text);
  append_bars (self, snapshot, &text);
  append_names (self, snapshot, &text);
}

static void
plumb_timeline_measure (GtkWidget *widget,
                        GtkOrientation orientation,
                        int for_size,
                        int *minimum,
                        int *natural,
                        int *minimum_baseline,
                        int *natural_baseline)
{
  PlumbTimeline *self = PLUMB_TIMELINE (widget);

  *minimum = *natural = orientation == GTK_ORIENTATION_HORIZONTAL
                            ? 200
                            : MAX (1, (int)self->workers->len) * LANE + 8 + AXIS;
}

/* The phase under the pointer, exactly: its step, its start and how long it took. */
static gboolean
tooltip_cb (PlumbTimeline *self, int x, int y, gboolean keyboard, GtkTooltip *tooltip)
{
  GArray *phases;
  double origin;

  if (self->run == NULL || y < 0)
    return FALSE;
  phases = plumb_run_get_phases (self->run);
  origin = plumb_run_get_origin (self->run);
  for (guint i = phases->len; i > 0; i--)
    {
      const PlumbRunPhase *phase = &g_array_index (phases, PlumbRunPhase, i - 1);

      if (find_lane (self, phase->worker) == (guint)y / LANE
          && to_pixel (self, phase->start - origin) <= x
          && to_pixel (self, phase->end - origin) >= x)
        {
          g_autofree char *after = plumb_format_duration (phase->start - origin);
          g_autofree char *took = plumb_format_duration (phase->end - phase->start);
          g_autofree char *text = NULL;

          text = g_strdup_printf (_ ("%s: %s in step %d\nafter %s, for %s"), phase->worker,
                                  phase->name, (int)phase->step, after, took);
          gtk_tooltip_set_text (tooltip, text);
          return TRUE;
        }
    }
  return FALSE;
}

static gboolean
scroll_cb (PlumbTimeline *self, double dx, double dy, GtkEventController *controller)
{
  GdkModifierType state = gtk_event_controller_get_current_event_state (controller);
  double page = gtk_adjustment_get_page_size (self->adjustment);

  if ((state & GDK_CONTROL_MASK) != 0)
    plumb_timeline_zoom (self, pow (1.25, -dy));
  else if (dx != 0 || (state & GDK_SHIFT_MASK) != 0)
    gtk_adjustment_set_value (self->adjustment, gtk_adjustment_get_value (self->adjustment)
                                                    + (dx != 0 ? dx : dy) * page / 10);
  else
    return GDK_EVENT_PROPAGATE;
  return GDK_EVENT_STOP;
}

static gboolean
move_cb (GtkWidget *widget, GVariant *arguments, gpointer user_data)
{
  GtkAdjustment *adjustment = PLUMB_TIMELINE (widget)->adjustment;
  double by;

  g_variant_get (arguments, "(d)", &by);
  gtk_adjustment_set_value (adjustment, gtk_adjustment_get_value (adjustment)
                                            + by * gtk_adjustment_get_page_size (adjustment));
  return GDK_EVENT_STOP;
}

static gboolean
zoom_cb (GtkWidget *widget, GVariant *arguments, gpointer user_data)
{
  double factor;

  g_variant_get (arguments, "(d)", &factor);
  plumb_timeline_zoom (PLUMB_TIMELINE (widget), factor);
  return GDK_EVENT_STOP;
}

static void
plumb_timeline_dispose (GObject *object)
{
  PlumbTimeline *self = PLUMB_TIMELINE (object);

  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_clear_object (&self->run);
  g_clear_object (&self->adjustment);
  G_OBJECT_CLASS (plumb_timeline_parent_class)->dispose (object);
}

static void
plumb_timeline_finalize (GObject *object)
{
  g_ptr_array_unref (PLUMB_TIMELINE (object)->workers);
  G_OBJECT_CLASS (plumb_timeline_parent_class)->finalize (object);
}

static void
plumb_timeline_class_init (PlumbTimelineClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_timeline_dispose;
  G_OBJECT_CLASS (klass)->finalize = plumb_timeline_finalize;
  widget_class->snapshot = plumb_timeline_snapshot;
  widget_class->measure = plumb_timeline_measure;
  gtk_widget_class_set_css_name (widget_class, "timeline");
  gtk_widget_class_set_accessible_role (widget_class, GTK_ACCESSIBLE_ROLE_IMG);
  gtk_widget_class_add_binding (widget_class, GDK_KEY_Left, 0, move_cb, "(d)", -0.1);
  gtk_widget_class_add_binding (widget_class, GDK_KEY_Right, 0, move_cb, "(d)", 0.1);
  gtk_widget_class_add_binding (widget_class, GDK_KEY_plus, 0, zoom_cb, "(d)", 2.0);
  gtk_widget_class_add_binding (widget_class, GDK_KEY_minus, 0, zoom_cb, "(d)", 0.5);
  gtk_widget_class_add_binding (widget_class, GDK_KEY_0, 0, zoom_cb, "(d)", 0.0);
}

static void
plumb_timeline_init (PlumbTimeline *self)
{
  GtkEventController *scroll
      = gtk_event_controller_scroll_new (GTK_EVENT_CONTROLLER_SCROLL_BOTH_AXES);

  self->workers = g_ptr_array_new ();
  self->adjustment = g_object_ref_sink (gtk_adjustment_new (0, 0, 0, 0, 0, 0));
  g_signal_connect_object (self->adjustment, "value-changed", G_CALLBACK (gtk_widget_queue_draw),
                           self, G_CONNECT_SWAPPED);
  g_signal_connect_object (self->adjustment, "changed", G_CALLBACK (gtk_widget_queue_draw), self,
                           G_CONNECT_SWAPPED);
  g_signal_connect_swapped (scroll, "scroll", G_CALLBACK (scroll_cb), self);
  gtk_widget_add_controller (GTK_WIDGET (self), scroll);
  gtk_widget_set_focusable (GTK_WIDGET (self), TRUE);
  gtk_widget_set_has_tooltip (GTK_WIDGET (self), TRUE);
  gtk_widget_set_overflow (GTK_WIDGET (self), GTK_OVERFLOW_HIDDEN);
  g_signal_connect (self, "query-tooltip", G_CALLBACK (tooltip_cb), NULL);
  gtk_accessible_update_property (GTK_ACCESSIBLE (self), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                  _ ("Timeline of the workers' phases"), -1);
}

void
plumb_timeline_set_run (PlumbTimeline *self, PlumbRun *run)
{
  g_return_if_fail (PLUMB_IS_TIMELINE (self));

  if (self->run == run)
    return;
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_set_object (&self->run, run);
  g_ptr_array_set_size (self->workers, 0);
  self->seen = 0;
  self->zoomed = FALSE;
  gtk_adjustment_configure (self->adjustment, 0, 0, 0, 0, 0, 0);
  if (run == NULL)
    return;
  g_signal_connect_object (run, "rows", G_CALLBACK (rows_cb), self, G_CONNECT_SWAPPED);
  rows_cb (self);
}

GtkAdjustment *
plumb_timeline_get_adjustment (PlumbTimeline *self)
{
  g_return_val_if_fail (PLUMB_IS_TIMELINE (self), NULL);

  return self->adjustment;
}

void
plumb_timeline_zoom (PlumbTimeline *self, double factor)
{
  double upper, page, center, value;

  g_return_if_fail (PLUMB_IS_TIMELINE (self));

  upper = gtk_adjustment_get_upper (self->adjustment);
  page = gtk_adjustment_get_page_size (self->adjustment);
  value = gtk_adjustment_get_value (self->adjustment);
  center = value + page >= upper - 0.1 ? upper : value + page / 2;
  self->zoomed = TRUE;
  page = factor > 0 ? CLAMP (page / factor, MIN (LEAST_SPAN, upper), upper) : upper;
  gtk_adjustment_configure (self->adjustment,
                            CLAMP (center - (center == upper ? page : page / 2), 0, upper - page),
                            0, upper, page / 10, page * 0.9, page);
}
