/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "app/plot-area.h"
#include "app/plot-area-private.h"
#include "app/plot-format.h"
#include "app/plot-raster.h"
#include "app/plot-reduce.h"

#define SOFTWARE_INTERVAL 500 /* ms between two pictures when the processor draws the screen */
#define HARDWARE_INTERVAL 250
#define ZOOM_STEP 1.25

enum
{
  DRAWN,
  N_SIGNALS,
};
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (PlumbPlotArea, plumb_plot_area, GTK_TYPE_WIDGET)

/* Without a render node of the kernel every GL implementation is a software one. */
static gboolean
screen_is_drawn_by_processor (GtkWidget *widget)
{
  static int has_gpu = -1;
  GskRenderer *renderer = gtk_native_get_renderer (gtk_widget_get_native (widget));

  if (has_gpu < 0)
    has_gpu = g_file_test ("/dev/dri/renderD128", G_FILE_TEST_EXISTS);
  return !has_gpu || renderer == NULL
         || g_strcmp0 (G_OBJECT_TYPE_NAME (renderer), "GskCairoRenderer") == 0;
}

static gboolean
is_minimized (GtkWidget *widget)
{
  GtkNative *native = gtk_widget_get_native (widget);
  GdkSurface *surface = native != NULL ? gtk_native_get_surface (native) : NULL;

  return GDK_IS_TOPLEVEL (surface)
         && (gdk_toplevel_get_state (GDK_TOPLEVEL (surface)) & GDK_TOPLEVEL_STATE_MINIMIZED) != 0;
}

/* Mapped, not minimised, and inside the part of a scrolled page that shows. */
static gboolean
can_be_seen (PlumbPlotArea *self)
{
  GtkWidget *widget = GTK_WIDGET (self);
  GtkWidget *viewport = gtk_widget_get_ancestor (widget, GTK_TYPE_VIEWPORT);
  graphene_rect_t bounds, window;

  if (!gtk_widget_get_mapped (widget) || is_minimized (widget))
    return FALSE;
  if (viewport == NULL || !gtk_widget_compute_bounds (widget, viewport, &bounds))
    return TRUE;
  graphene_rect_init (&window, 0, 0, gtk_widget_get_width (viewport),
                      gtk_widget_get_height (viewport));
  return graphene_rect_intersection (&bounds, &window, NULL);
}

static PlumbColor
take_color (const GdkRGBA *rgba, double alpha)
{
  return (PlumbColor){ rgba->red, rgba->green, rgba->blue, rgba->alpha * alpha };
}

static void
take_named_color (GtkStyleContext *context, const char *name, PlumbColor *color)
{
  GdkRGBA rgba;

  if (gtk_style_context_lookup_color (context, name, &rgba))
    *color = take_color (&rgba, 1);
}

static void
take_font (GtkWidget *widget, char *font, gsize size)
{
  PangoContext *context = gtk_widget_get_pango_context (widget);
  g_autoptr (PangoFontDescription) description = NULL;
  g_autofree char *text = NULL;
  double points;

  description = pango_font_description_copy (pango_context_get_font_description (context));
  points = pango_font_description_get_size (description);
  if (!pango_font_description_get_size_is_absolute (description))
    points *= pango_cairo_context_get_resolution (context) > 0
                  ? pango_cairo_context_get_resolution (context) / 72
                  : 96.0 / 72;
  pango_font_description_set_absolute_size (description, 0.82 * points);
  text = pango_font_description_to_string (description);
  g_strlcpy (font, text, size);
}

static void
take_style (PlumbPlotArea *self, PlumbPlotStyle *style)
{
  GtkStyleContext *context = gtk_widget_get_style_context (GTK_WIDGET (self));
  GdkRGBA text;

  gtk_style_context_get_color (context, &text);
  style->text = take_color (&text, 0.7);
  style->grid = take_color (&text, 0.13);
  style->error = style->text;
  take_named_color (context, "error_color", &style->error);
  for (int i = 0; i < PLUMB_PLOT_COLORS; i++)
    {
      char name[16];

      g_snprintf (name, sizeof name, "chart_%d", i + 1);
      style->palette[i] = style->text;
      take_named_color (context, name, &style->palette[i]);
    }
  take_font (GTK_WIDGET (self), style->font, sizeof style->font);
}

static PlumbPlotSpec *
make_spec (PlumbPlotArea *self)
{
  PlumbPlotSpec *spec = self->func (self->user_data);
  double smoothing = plumb_chart_view_get_smoothing (self->view);

  spec->width = gtk_widget_get_width (GTK_WIDGET (self));
  spec->height = gtk_widget_get_height (GTK_WIDGET (self));
  spec->scale = gtk_widget_get_scale_factor (GTK_WIDGET (self));
  spec->log_y = self->log;
  spec->log_x = self->log_x;
  if (smoothing >= 0)
    spec->smoothing = smoothing;
  plumb_chart_view_get_range (self->view, &spec->x_min, &spec->x_max);
  take_style (self, &self->style);
  spec->style = self->style;
  return spec;
}

/* The node wraps one finished picture: both renderers keep it cheaply, and moving the crosshair
 * over it costs next to nothing. */
static void
take_raster (PlumbPlotArea *self, PlumbRaster *raster)
{
  const PlumbPlotSpec *spec = plumb_plot_get_spec (raster->plot);
  cairo_t *cr;

  g_clear_pointer (&self->node, gsk_render_node_unref);
  g_clear_pointer (&self->plot, plumb_plot_unref);
  self->plot = plumb_plot_ref (raster->plot);
  self->node = gsk_cairo_node_new (&GRAPHENE_RECT_INIT (0, 0, spec->width, spec->height));
  cr = gsk_cairo_node_get_draw_context (self->node);
  cairo_set_source_surface (cr, raster->surface, 0, 0);
  cairo_paint (cr);
  cairo_destroy (cr);
  plumb_plot_area_describe (self);
  gtk_widget_queue_draw (GTK_WIDGET (self));
}

static void maybe_update (PlumbPlotArea *self);

static void
raster_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (PlumbPlotArea) self = user_data;
  g_autoptr (PlumbRaster) raster = plumb_raster_finish (result, NULL);

  self->in_flight = FALSE;
  if (raster != NULL && self->func != NULL)
    {
      take_raster (self, raster);
      g_signal_emit (self, signals[DRAWN], 0);
      g_debug ("chart %s drawn %.0f ms after it was asked for", self->title,
               (g_get_monotonic_time () - self->last_start) / 1000.0);
    }
  if (self->stale && self->func != NULL)
    maybe_update (self);
}

static gboolean
timeout_cb (gpointer user_data)
{
  PlumbPlotArea *self = user_data;

  self->timeout = 0;
  maybe_update (self);
  return G_SOURCE_REMOVE;
}

static void
start_raster (PlumbPlotArea *self)
{
  self->stale = FALSE;
  self->urgent = FALSE;
  self->in_flight = TRUE;
  self->last_start = g_get_monotonic_time ();
  plumb_raster_async (make_spec (self), self->cancellable, raster_cb, g_object_ref (self));
}

/* New data waits its turn; a change that the user made (size, zoom, look) is drawn at once. */
static void
maybe_update (PlumbPlotArea *self)
{
  GtkWidget *widget = GTK_WIDGET (self);
  gint64 wait;

  if (!self->stale || self->in_flight || self->func == NULL || gtk_widget_get_width (widget) <= 0)
    return;
  if (!can_be_seen (self))
    {
      plumb_plot_area_describe_unseen (self);
      g_clear_pointer (&self->node, gsk_render_node_unref);
      return;
    }
  wait = self->last_start / 1000 - g_get_monotonic_time () / 1000
         + (screen_is_drawn_by_processor (widget) ? SOFTWARE_INTERVAL : HARDWARE_INTERVAL);
  if (self->last_start == 0 || self->urgent || wait <= 0)
    {
      g_clear_handle_id (&self->timeout, g_source_remove);
      start_raster (self);
    }
  else if (self->timeout == 0)
    self->timeout = g_timeout_add (wait, timeout_cb, self);
}

void
plumb_plot_area_queue_update (PlumbPlotArea *self)
{
  g_return_if_fail (PLUMB_IS_PLOT_AREA (self));

  self->stale = TRUE;
  maybe_update (self);
}

void
plumb_plot_area_update_now (PlumbPlotArea *self)
{
  g_return_if_fail (PLUMB_IS_PLOT_AREA (self));

  self->urgent = TRUE;
  plumb_plot_area_queue_update (self);
}

static void
cursor_changed_cb (PlumbPlotArea *self)
{
  if (self->node != NULL)
    gtk_widget_queue_draw (GTK_WIDGET (self));
}

static double
to_x (PlumbPlotArea *self, double pixel)
{
  return plumb_scale_to_value (plumb_plot_get_x_scale (self->plot), pixel);
}

static void
motion_cb (PlumbPlotArea *self, double x, double y)
{
  if (self->plot != NULL && plumb_plot_has_points (self->plot))
    plumb_chart_view_set_cursor (self->view, plumb_plot_snap (self->plot, to_x (self, x), 0), self);
  self->pointer_x = x;
}

static void
leave_cb (PlumbPlotArea *self)
{
  if (plumb_chart_view_get_owner (self->view) == self)
    plumb_chart_view_set_cursor (self->view, NAN, NULL);
}

/* The range runs to the newest point when its right end lies there, and so goes on following. */
static void
zoom_to (PlumbPlotArea *self, double x_min, double x_max)
{
  gboolean log = plumb_plot_get_x_scale (self->plot)->log;
  double first = INFINITY, last = -INFINITY;

  for (guint i = 0; i < plumb_plot_get_spec (self->plot)->series->len; i++)
    {
      const PlumbCurve *curve = plumb_plot_get_curve (self->plot, i);
      gsize k = log ? plumb_upper_bound (curve->x, curve->n, 0) : 0;

      if (k < curve->n)
        {
          first = MIN (first, curve->x[k]);
          last = MAX (last, curve->x[curve->n - 1]);
        }
    }
  if (x_max - x_min < 1e-3 * MAX (1, fabs (x_max)) && x_max - x_min < 1)
    return;
  plumb_chart_view_set_range (self->view, x_min <= first ? NAN : x_min,
                              x_max >= last ? NAN : x_max);
}

static void
zoom_by (PlumbPlotArea *self, double factor, double pixel)
{
  const PlumbScale *scale;
  double center;

  if (self->plot == NULL || !plumb_plot_has_points (self->plot))
    return;
  scale = plumb_plot_get_x_scale (self->plot);
  center = CLAMP (pixel, scale->pixel_min, scale->pixel_max);
  zoom_to (self, to_x (self, center - (center - scale->pixel_min) / factor),
           to_x (self, center + (scale->pixel_max - center) / factor));
}

static gboolean
scroll_cb (PlumbPlotArea *self, double dx, double dy, GtkEventController *controller)
{
  GdkModifierType state = gtk_event_controller_get_current_event_state (controller);

  if ((state & GDK_CONTROL_MASK) == 0)
    return GDK_EVENT_PROPAGATE;
  zoom_by (self, pow (ZOOM_STEP, -dy), self->pointer_x);
  return GDK_EVENT_STOP;
}

static void
drag_update_cb (PlumbPlotArea *self, double dx, double dy, GtkGestureDrag *gesture)
{
  double x, y;

  gtk_gesture_drag_get_start_point (gesture, &x, &y);
  self->drag_from = x;
  self->drag_to = x + dx;
  gtk_widget_queue_draw (GTK_WIDGET (self));
}

static void
drag_end_cb (PlumbPlotArea *self, double dx, double dy, GtkGestureDrag *gesture)
{
  double from = MIN (self->drag_from, self->drag_to), to = MAX (self->drag_from, self->drag_to);

  self->drag_from = self->drag_to = NAN;
  gtk_widget_queue_draw (GTK_WIDGET (self));
  if (to - from >= 8 && self->plot != NULL)
    zoom_to (self, to_x (self, from), to_x (self, to));
}

static void
pressed_cb (PlumbPlotArea *self, int n_press, double x, double y)
{
  gtk_widget_grab_focus (GTK_WIDGET (self));
  if (n_press == 2)
    plumb_chart_view_set_range (self->view, NAN, NAN);
}

static gboolean
move_cursor_cb (GtkWidget *widget, GVariant *arguments, gpointer user_data)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (widget);
  double x = plumb_chart_view_get_cursor (self->view);
  int by;

  if (self->plot == NULL || !plumb_plot_has_points (self->plot))
    return GDK_EVENT_STOP;
  g_variant_get (arguments, "(i)", &by);
  if (isnan (x))
    x = plumb_plot_get_x_scale (self->plot)->max, by = MIN (by, 0);
  plumb_chart_view_set_cursor (self->view, plumb_plot_snap (self->plot, x, by), self);
  plumb_plot_area_describe (self);
  return GDK_EVENT_STOP;
}

static gboolean
move_series_cb (GtkWidget *widget, GVariant *arguments, gpointer user_data)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (widget);
  guint n = self->plot != NULL ? plumb_plot_get_spec (self->plot)->series->len : 0;
  int by;

  g_variant_get (arguments, "(i)", &by);
  if (n < 2)
    return GDK_EVENT_PROPAGATE;
  self->series = (MIN (self->series, n - 1) + n + by) % n;
  plumb_plot_area_describe (self);
  gtk_widget_queue_draw (widget);
  return GDK_EVENT_STOP;
}

static gboolean
zoom_key_cb (GtkWidget *widget, GVariant *arguments, gpointer user_data)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (widget);
  double factor, x = plumb_chart_view_get_cursor (self->view);

  g_variant_get (arguments, "(d)", &factor);
  if (factor == 0)
    plumb_chart_view_set_range (self->view, NAN, NAN);
  else if (self->plot != NULL)
    zoom_by (self, factor,
             isnan (x) ? gtk_widget_get_width (widget) / 2.0
                       : plumb_scale_to_pixel (plumb_plot_get_x_scale (self->plot), x));
  return GDK_EVENT_STOP;
}

static void
plumb_plot_area_measure (GtkWidget *widget,
                         GtkOrientation orientation,
                         int for_size,
                         int *minimum,
                         int *natural,
                         int *minimum_baseline,
                         int *natural_baseline)
{
  *minimum = orientation == GTK_ORIENTATION_HORIZONTAL ? 200 : 140;
  *natural = orientation == GTK_ORIENTATION_HORIZONTAL ? 240 : 160;
}

static void
plumb_plot_area_size_allocate (GtkWidget *widget, int width, int height, int baseline)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (widget);
  const PlumbPlotSpec *spec = self->plot != NULL ? plumb_plot_get_spec (self->plot) : NULL;

  if (spec == NULL || spec->width != width || spec->height != height)
    plumb_plot_area_update_now (self);
}

static gboolean
look_cb (gpointer user_data)
{
  PLUMB_PLOT_AREA (user_data)->look = 0;
  maybe_update (PLUMB_PLOT_AREA (user_data));
  return G_SOURCE_REMOVE;
}

/* In the middle of an allocation nothing is known of where the chart will lie. */
static void
queue_look (PlumbPlotArea *self)
{
  if (self->look == 0)
    self->look = g_idle_add (look_cb, self);
}

/* While its page scrolls, a chart that comes into view catches up. */
static void
plumb_plot_area_map (GtkWidget *widget)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (widget);
  GtkWidget *scrolled = gtk_widget_get_ancestor (widget, GTK_TYPE_SCROLLED_WINDOW);

  GTK_WIDGET_CLASS (plumb_plot_area_parent_class)->map (widget);
  if (scrolled != NULL)
    self->adjustment = gtk_scrolled_window_get_vadjustment (GTK_SCROLLED_WINDOW (scrolled));
  if (self->adjustment != NULL)
    {
      g_object_ref (self->adjustment);
      g_signal_connect_object (self->adjustment, "value-changed", G_CALLBACK (maybe_update), self,
                               G_CONNECT_SWAPPED);
      /* A taller window shows more of the page without scrolling it. */
      g_signal_connect_object (self->adjustment, "notify::page-size", G_CALLBACK (queue_look), self,
                               G_CONNECT_SWAPPED);
    }
  plumb_plot_area_update_now (self);
}

static void
plumb_plot_area_unmap (GtkWidget *widget)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (widget);

  if (self->adjustment != NULL)
    {
      g_signal_handlers_disconnect_by_func (self->adjustment, maybe_update, self);
      g_signal_handlers_disconnect_by_func (self->adjustment, queue_look, self);
    }
  g_clear_object (&self->adjustment);
  g_clear_handle_id (&self->timeout, g_source_remove);
  g_clear_handle_id (&self->unseen_timeout, g_source_remove);
  g_clear_handle_id (&self->look, g_source_remove);
  g_clear_pointer (&self->node, gsk_render_node_unref);
  self->stale = TRUE;
  GTK_WIDGET_CLASS (plumb_plot_area_parent_class)->unmap (widget);
}

/* Styles change for many reasons; few of them show in a chart. */
static void
plumb_plot_area_css_changed (GtkWidget *widget, GtkCssStyleChange *change)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (widget);
  PlumbPlotStyle style = { 0 };

  GTK_WIDGET_CLASS (plumb_plot_area_parent_class)->css_changed (widget, change);
  if (self->plot == NULL)
    return;
  take_style (self, &style);
  if (memcmp (&style, &self->style, sizeof style) != 0)
    plumb_plot_area_update_now (self);
}

static void
plumb_plot_area_snapshot (GtkWidget *widget, GtkSnapshot *snapshot)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (widget);

  if (self->node == NULL)
    {
      self->stale = TRUE;
      return;
    }
  gtk_snapshot_append_node (snapshot, self->node);
  plumb_plot_area_snapshot_overlay (self, snapshot);
}

static void
plumb_plot_area_dispose (GObject *object)
{
  PlumbPlotArea *self = PLUMB_PLOT_AREA (object);

  self->func = NULL;
  if (self->cancellable != NULL)
    g_cancellable_cancel (self->cancellable);
  g_clear_object (&self->cancellable);
  g_clear_handle_id (&self->timeout, g_source_remove);
  g_clear_handle_id (&self->unseen_timeout, g_source_remove);
  g_clear_handle_id (&self->look, g_source_remove);
  g_clear_object (&self->adjustment);
  g_clear_object (&self->view);
  g_clear_pointer (&self->node, gsk_render_node_unref);
  g_clear_pointer (&self->plot, plumb_plot_unref);
  g_clear_pointer (&self->title, g_free);
  G_OBJECT_CLASS (plumb_plot_area_parent_class)->dispose (object);
}

static void
add_keys (GtkWidgetClass *klass)
{
  static const struct
  {
    guint key;
    GdkModifierType modifiers;
    int by;
  } moves[] = {
    { GDK_KEY_Left, 0, -1 },
    { GDK_KEY_Right, 0, 1 },
    { GDK_KEY_Left, GDK_CONTROL_MASK, -10 },
    { GDK_KEY_Right, GDK_CONTROL_MASK, 10 },
    { GDK_KEY_Home, 0, G_MININT / 2 },
    { GDK_KEY_End, 0, G_MAXINT / 2 },
  };
  static const struct
  {
    guint key;
    double factor;
  } zooms[] = {
    { GDK_KEY_plus, 2 },    { GDK_KEY_KP_Add, 2 },
    { GDK_KEY_minus, 0.5 }, { GDK_KEY_KP_Subtract, 0.5 },
    { GDK_KEY_0, 0 },       { GDK_KEY_KP_0, 0 },
    { GDK_KEY_f, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (moves); i++)
    gtk_widget_class_add_binding (klass, moves[i].key, moves[i].modifiers, move_cursor_cb, "(i)",
                                  moves[i].by);
  gtk_widget_class_add_binding (klass, GDK_KEY_Up, 0, move_series_cb, "(i)", -1);
  gtk_widget_class_add_binding (klass, GDK_KEY_Down, 0, move_series_cb, "(i)", 1);
  for (guint i = 0; i < G_N_ELEMENTS (zooms); i++)
    gtk_widget_class_add_binding (klass, zooms[i].key, 0, zoom_key_cb, "(d)", zooms[i].factor);
}

static void
plumb_plot_area_class_init (PlumbPlotAreaClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_plot_area_dispose;
  widget_class->measure = plumb_plot_area_measure;
  widget_class->size_allocate = plumb_plot_area_size_allocate;
  widget_class->map = plumb_plot_area_map;
  widget_class->unmap = plumb_plot_area_unmap;
  widget_class->css_changed = plumb_plot_area_css_changed;
  widget_class->snapshot = plumb_plot_area_snapshot;
  signals[DRAWN] = g_signal_new ("drawn", PLUMB_TYPE_PLOT_AREA, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                 NULL, G_TYPE_NONE, 0);
  gtk_widget_class_set_css_name (widget_class, "plotarea");
  gtk_widget_class_set_accessible_role (widget_class, GTK_ACCESSIBLE_ROLE_IMG);
  add_keys (widget_class);
}

static void
add_controllers (PlumbPlotArea *self)
{
  GtkEventController *motion = gtk_event_controller_motion_new ();
  GtkEventController *scroll
      = gtk_event_controller_scroll_new (GTK_EVENT_CONTROLLER_SCROLL_VERTICAL);
  GtkGesture *drag = gtk_gesture_drag_new ();
  GtkGesture *click = gtk_gesture_click_new ();

  g_signal_connect_swapped (motion, "motion", G_CALLBACK (motion_cb), self);
  g_signal_connect_swapped (motion, "leave", G_CALLBACK (leave_cb), self);
  g_signal_connect_swapped (scroll, "scroll", G_CALLBACK (scroll_cb), self);
  g_signal_connect_swapped (drag, "drag-update", G_CALLBACK (drag_update_cb), self);
  g_signal_connect_swapped (drag, "drag-end", G_CALLBACK (drag_end_cb), self);
  g_signal_connect_swapped (click, "pressed", G_CALLBACK (pressed_cb), self);
  gtk_widget_add_controller (GTK_WIDGET (self), motion);
  gtk_widget_add_controller (GTK_WIDGET (self), scroll);
  gtk_widget_add_controller (GTK_WIDGET (self), GTK_EVENT_CONTROLLER (drag));
  gtk_widget_add_controller (GTK_WIDGET (self), GTK_EVENT_CONTROLLER (click));
}

static void
plumb_plot_area_init (PlumbPlotArea *self)
{
  self->cancellable = g_cancellable_new ();
  self->drag_from = self->drag_to = NAN;
  self->band = TRUE;
  self->stale = TRUE;
  gtk_widget_set_focusable (GTK_WIDGET (self), TRUE);
  gtk_widget_set_overflow (GTK_WIDGET (self), GTK_OVERFLOW_HIDDEN);
  g_signal_connect (self, "notify::scale-factor", G_CALLBACK (plumb_plot_area_update_now), NULL);
  add_controllers (self);
}

GtkWidget *
plumb_plot_area_new (PlumbChartView *view, PlumbPlotSpecFunc func, gpointer user_data)
{
  PlumbPlotArea *self;

  g_return_val_if_fail (PLUMB_IS_CHART_VIEW (view) && func != NULL, NULL);

  self = g_object_new (PLUMB_TYPE_PLOT_AREA, NULL);
  self->view = g_object_ref (view);
  self->func = func;
  self->user_data = user_data;
  g_signal_connect_object (view, "view-changed", G_CALLBACK (plumb_plot_area_update_now), self,
                           G_CONNECT_SWAPPED);
  g_signal_connect_object (view, "cursor-changed", G_CALLBACK (cursor_changed_cb), self,
                           G_CONNECT_SWAPPED);
  return GTK_WIDGET (self);
}

void
plumb_plot_area_set_log (PlumbPlotArea *self, gboolean log)
{
  g_return_if_fail (PLUMB_IS_PLOT_AREA (self));

  if (self->log == !!log)
    return;
  self->log = !!log;
  plumb_plot_area_update_now (self);
}

gboolean
plumb_plot_area_get_log (PlumbPlotArea *self)
{
  g_return_val_if_fail (PLUMB_IS_PLOT_AREA (self), FALSE);

  return self->log;
}

void
plumb_plot_area_set_log_x (PlumbPlotArea *self, gboolean log_x)
{
  g_return_if_fail (PLUMB_IS_PLOT_AREA (self));

  if (self->log_x == !!log_x)
    return;
  self->log_x = !!log_x;
  plumb_plot_area_update_now (self);
}

gboolean
plumb_plot_area_get_log_x (PlumbPlotArea *self)
{
  g_return_val_if_fail (PLUMB_IS_PLOT_AREA (self), FALSE);

  return self->log_x;
}

void
plumb_plot_area_set_band (PlumbPlotArea *self, gboolean band)
{
  g_return_if_fail (PLUMB_IS_PLOT_AREA (self));

  if (self->band == !!band)
    return;
  self->band = !!band;
  plumb_plot_area_update_now (self);
}

gboolean
plumb_plot_area_get_band (PlumbPlotArea *self)
{
  g_return_val_if_fail (PLUMB_IS_PLOT_AREA (self), FALSE);

  return self->band;
}

PlumbPlot *
plumb_plot_area_get_plot (PlumbPlotArea *self)
{
  g_return_val_if_fail (PLUMB_IS_PLOT_AREA (self), NULL);

  return self->plot;
}

void
plumb_plot_area_set_title (PlumbPlotArea *self, const char *title)
{
  g_return_if_fail (PLUMB_IS_PLOT_AREA (self));

  g_free (self->title);
  self->title = g_strdup (title);
  plumb_plot_area_describe (self);
}
