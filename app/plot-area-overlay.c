/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <math.h>

#include "app/plot-area-private.h"
#include "app/plot-format.h"

#define PADDING 8
#define SWATCH 8
#define DOT 7
#define UNSEEN_INTERVAL 3000 /* ms between two descriptions out of sight */

static GdkRGBA
to_rgba (const PlumbColor *color)
{
  return (GdkRGBA){ color->red, color->green, color->blue, color->alpha };
}

static GdkRGBA
named_color (PlumbPlotArea *self, const char *name, const char *fallback)
{
  GtkStyleContext *context = gtk_widget_get_style_context (GTK_WIDGET (self));
  GdkRGBA rgba;

  if (!gtk_style_context_lookup_color (context, name, &rgba))
    gdk_rgba_parse (&rgba, fallback);
  return rgba;
}

static void
append_round (
    GtkSnapshot *snapshot, const GdkRGBA *color, float x, float y, float w, float h, float radius)
{
  GskRoundedRect shape;

  gsk_rounded_rect_init_from_rect (&shape, &GRAPHENE_RECT_INIT (x, y, w, h), radius);
  gtk_snapshot_push_rounded_clip (snapshot, &shape);
  gtk_snapshot_append_color (snapshot, color, &shape.bounds);
  gtk_snapshot_pop (snapshot);
}

static char *
format_clock (double time)
{
  g_autoptr (GDateTime) date = g_date_time_new_from_unix_local ((gint64)time);

  return date != NULL ? g_date_time_format (date, "%X") : g_strdup ("–");
}

/* "step 388 · 14:02:11", with the attempt where there has been more than one. */
static char *
format_headline (PlumbPlotArea *self, const PlumbPlotReading *reading)
{
  g_autofree char *x = plumb_plot_format_x (self->plot, reading->x);
  g_autofree char *clock = format_clock (reading->point.time);

  if (reading->point.attempt > 1)
    return g_strdup_printf (_ ("%s · %s · attempt %d"), x, clock, (int)reading->point.attempt);
  return g_strdup_printf ("%s · %s", x, clock);
}

/* The exact value as it was measured, and the moving average where one is drawn. */
static char *
format_reading (PlumbPlotArea *self, const PlumbPlotReading *reading)
{
  g_autofree char *exact = plumb_format_exact (reading->point.value);
  g_autofree char *average = NULL;

  if (plumb_plot_get_spec (self->plot)->smoothing <= 0 || reading->role == PLUMB_PLOT_BAND)
    return g_steal_pointer (&exact);
  average = plumb_format_value (reading->smoothed, "");
  return g_strdup_printf (_ ("%s (average %s)"), exact, average);
}

static PangoLayout *
new_layout (PlumbPlotArea *self, const char *text)
{
  PangoLayout *layout = gtk_widget_create_pango_layout (GTK_WIDGET (self), text);
  g_autoptr (PangoFontDescription) font = NULL;

  font = pango_font_description_from_string (plumb_plot_get_spec (self->plot)->style.font);
  pango_layout_set_font_description (layout, font);
  return layout;
}

/* In the half of the chart where the main line is not. */
static double
readout_top (PlumbPlotArea *self, GArray *readings, double height)
{
  double room = gtk_widget_get_height (GTK_WIDGET (self));

  if (g_array_index (readings, PlumbPlotReading, 0).pixel_y < room / 2)
    return MAX (4, room - height - 4);
  return 4;
}

/* The series that the keys chose, if it has a value there; else the first that has. */
static guint
chosen_reading (PlumbPlotArea *self, GArray *readings)
{
  GPtrArray *series = plumb_plot_get_spec (self->plot)->series;
  const PlumbPlotSeries *chosen = series->pdata[MIN (self->series, series->len - 1)];

  for (guint i = 0; i < readings->len; i++)
    if (g_array_index (readings, PlumbPlotReading, i).label == chosen->label)
      return i;
  return 0;
}

/* Three columns of text: swatches, names, values; one line each so that they stay aligned. */
static void
append_readout (PlumbPlotArea *self, GtkSnapshot *snapshot, GArray *readings, double at)
{
  g_autoptr (GString) names = g_string_new (NULL);
  g_autoptr (GString) values = g_string_new (NULL);
  g_autofree char *headline = NULL;
  g_autoptr (PangoLayout) head = NULL, left = NULL, right = NULL;
  GdkRGBA text, background = named_color (self, "popover_bg_color", "white");
  int head_width, line, left_width, right_width, height;
  double width, x, y;
  guint chosen = chosen_reading (self, readings);

  headline = format_headline (self, &g_array_index (readings, PlumbPlotReading, 0));
  for (guint i = 0; i < readings->len; i++)
    {
      const PlumbPlotReading *reading = &g_array_index (readings, PlumbPlotReading, i);
      g_autofree char *value = format_reading (self, reading);

      g_string_append_printf (names, "%s%s%s", i > 0 ? "\n" : "", i > 0 && i == chosen ? "▸ " : "",
                              reading->label);
      g_string_append_printf (values, "%s%s", i > 0 ? "\n" : "", value);
    }
  head = new_layout (self, headline);
  left = new_layout (self, names->str);
  right = new_layout (self, values->str);
  pango_layout_set_alignment (right, PANGO_ALIGN_RIGHT);
  pango_layout_get_pixel_size (head, &head_width, &line);
  pango_layout_get_pixel_size (left, &left_width, &height);
  pango_layout_get_pixel_size (right, &right_width, NULL);

  width = MAX (head_width, SWATCH + 6 + left_width + 12 + right_width) + 2 * PADDING;
  x = at + 12 + width < gtk_widget_get_width (GTK_WIDGET (self)) ? at + 12 : at - 12 - width;
  x = CLAMP (x, 0, MAX (0, gtk_widget_get_width (GTK_WIDGET (self)) - width));
  y = readout_top (self, readings, line + height + 2 * PADDING + 4);
  gtk_style_context_get_color (gtk_widget_get_style_context (GTK_WIDGET (self)), &text);
  background.alpha = 0.95;
  append_round (snapshot, &(GdkRGBA){ text.red, text.green, text.blue, 0.2 }, x - 1, y - 1,
                width + 2, line + height + 2 * PADDING + 6, 7);
  append_round (snapshot, &background, x, y, width, line + height + 2 * PADDING + 4, 6);

  gtk_snapshot_save (snapshot);
  gtk_snapshot_translate (snapshot, &GRAPHENE_POINT_INIT (x + PADDING, y + PADDING));
  gtk_snapshot_append_layout (snapshot, head, &text);
  gtk_snapshot_translate (snapshot, &GRAPHENE_POINT_INIT (0, line + 4));
  for (guint i = 0; i < readings->len; i++)
    {
      const PlumbPlotReading *reading = &g_array_index (readings, PlumbPlotReading, i);
      GdkRGBA color = to_rgba (&plumb_plot_get_spec (self->plot)->style.palette[reading->color]);
      double step = (double)height / readings->len;

      if (reading->role == PLUMB_PLOT_BAND)
        color.alpha *= 0.4;
      append_round (snapshot, &color, 0, i * step + (step - SWATCH) / 2, SWATCH, SWATCH, 2);
    }
  gtk_snapshot_translate (snapshot, &GRAPHENE_POINT_INIT (SWATCH + 6, 0));
  gtk_snapshot_append_layout (snapshot, left, &text);
  gtk_snapshot_translate (snapshot,
                          &GRAPHENE_POINT_INIT (width - 2 * PADDING - SWATCH - 6 - right_width, 0));
  gtk_snapshot_append_layout (snapshot, right, &text);
  gtk_snapshot_restore (snapshot);
}

static void
append_dots (PlumbPlotArea *self, GtkSnapshot *snapshot, GArray *readings)
{
  GdkRGBA ring = named_color (self, "card_bg_color", "white");

  ring.alpha = 1;
  for (guint i = 0; i < readings->len; i++)
    {
      const PlumbPlotReading *reading = &g_array_index (readings, PlumbPlotReading, i);
      GdkRGBA color = to_rgba (&plumb_plot_get_spec (self->plot)->style.palette[reading->color]);
      double x = reading->pixel_x - DOT / 2.0, y = reading->pixel_y - DOT / 2.0;

      if (reading->role == PLUMB_PLOT_BAND || reading->role == PLUMB_PLOT_STACK || !isfinite (y))
        continue;
      append_round (snapshot, &ring, x - 1, y - 1, DOT + 2, DOT + 2, DOT);
      append_round (snapshot, &color, x, y, DOT, DOT, DOT);
    }
}

/* A chart that only follows shows the main value beside its dot. */
static void
append_value (PlumbPlotArea *self, GtkSnapshot *snapshot, const PlumbPlotReading *reading)
{
  g_autofree char *value = plumb_format_value (reading->point.value, reading->unit);
  g_autoptr (PangoLayout) layout = new_layout (self, value);
  GdkRGBA text, background = named_color (self, "popover_bg_color", "white");
  int width, height;
  double x;

  pango_layout_get_pixel_size (layout, &width, &height);
  x = reading->pixel_x + 8;
  if (x + width + 8 > gtk_widget_get_width (GTK_WIDGET (self)))
    x = reading->pixel_x - 16 - width;
  gtk_style_context_get_color (gtk_widget_get_style_context (GTK_WIDGET (self)), &text);
  background.alpha = 0.9;
  append_round (snapshot, &background, x, 2, width + 8, height + 4, 4);
  gtk_snapshot_save (snapshot);
  gtk_snapshot_translate (snapshot, &GRAPHENE_POINT_INIT (x + 4, 4));
  gtk_snapshot_append_layout (snapshot, layout, &text);
  gtk_snapshot_restore (snapshot);
}

static void
append_zoom_box (PlumbPlotArea *self, GtkSnapshot *snapshot)
{
  const cairo_rectangle_t *area = plumb_plot_get_area (self->plot);
  GdkRGBA color = named_color (self, "accent_color", "blue");
  double from = CLAMP (MIN (self->drag_from, self->drag_to), area->x, area->x + area->width);
  double to = CLAMP (MAX (self->drag_from, self->drag_to), area->x, area->x + area->width);

  color.alpha = 0.2;
  gtk_snapshot_append_color (snapshot, &color,
                             &GRAPHENE_RECT_INIT (from, area->y, to - from, area->height));
}

void
plumb_plot_area_snapshot_overlay (PlumbPlotArea *self, GtkSnapshot *snapshot)
{
  double x = plumb_chart_view_get_cursor (self->view);
  const cairo_rectangle_t *area = plumb_plot_get_area (self->plot);
  g_autoptr (GArray) readings = NULL;
  GdkRGBA color;
  double at;

  if (!isnan (self->drag_from))
    append_zoom_box (self, snapshot);
  if (isnan (x))
    return;
  at = plumb_scale_to_pixel (plumb_plot_get_x_scale (self->plot), x);
  if (at < area->x || at > area->x + area->width + 1)
    return;
  color = to_rgba (&plumb_plot_get_spec (self->plot)->style.text);
  color.alpha = 0.5;
  gtk_snapshot_append_color (snapshot, &color,
                             &GRAPHENE_RECT_INIT (floor (at), area->y, 1, area->height));

  readings = plumb_plot_read (self->plot, x);
  if (readings->len == 0)
    return;
  append_dots (self, snapshot, readings);
  if (plumb_chart_view_get_owner (self->view) == self)
    append_readout (self, snapshot, readings, at);
  else
    append_value (self, snapshot, &g_array_index (readings, PlumbPlotReading, 0));
}

static char *
describe_cursor (PlumbPlotArea *self, double x)
{
  g_autoptr (GArray) readings = plumb_plot_read (self->plot, x);
  g_autoptr (GString) text = g_string_new (NULL);
  guint chosen = chosen_reading (self, readings);

  if (readings->len > 0)
    {
      g_autofree char *headline
          = format_headline (self, &g_array_index (readings, PlumbPlotReading, 0));

      g_string_append (text, headline);
    }
  for (guint i = 0; i < readings->len; i++)
    {
      /* The chosen one first, then the others in their order. */
      guint k = i == 0 ? chosen : i <= chosen ? i - 1 : i;
      const PlumbPlotReading *reading = &g_array_index (readings, PlumbPlotReading, k);
      g_autofree char *value = plumb_format_exact (reading->point.value);

      g_string_append_printf (text, ", %s: %s", reading->label, value);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static char *
describe_curve (PlumbPlotArea *self)
{
  GPtrArray *all = plumb_plot_get_spec (self->plot)->series;
  guint chosen = MIN (self->series, all->len - 1);
  const PlumbPlotSeries *series = all->pdata[chosen];
  const PlumbCurve *curve = plumb_plot_get_curve (self->plot, chosen);
  g_autofree char *at = NULL, *last = NULL, *least = NULL, *most = NULL, *text = NULL;
  double min = INFINITY, max = -INFINITY;

  if (curve->n == 0)
    return g_strdup (_ ("No points yet"));
  for (gsize i = 0; i < curve->n; i++)
    if (isfinite (curve->raw[i]))
      {
        min = MIN (min, curve->raw[i]);
        max = MAX (max, curve->raw[i]);
      }
  at = plumb_plot_format_x (self->plot, curve->x[curve->n - 1]);
  last = plumb_format_value (curve->raw[curve->n - 1], series->unit);
  least = plumb_format_value (min, series->unit);
  most = plumb_format_value (max, series->unit);
  /* translators: "step 410: 0.62; least 0.11, greatest 0.64" */
  text = g_strdup_printf (_ ("%s: %s; least %s, greatest %s"), at, last, least, most);
  return chosen > 0 ? g_strdup_printf ("%s, %s", series->label, text) : g_steal_pointer (&text);
}

static void
set_description (PlumbPlotArea *self, const char *description)
{
  gtk_accessible_update_property (GTK_ACCESSIBLE (self), GTK_ACCESSIBLE_PROPERTY_LABEL, self->title,
                                  GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, description,
                                  GTK_ACCESSIBLE_PROPERTY_ROLE_DESCRIPTION, _ ("line chart"), -1);
}

/* Its newest value only: finding the least and the greatest would cost as much as drawing it. */
static char *
describe_last (PlumbPlotArea *self)
{
  g_autoptr (PlumbPlotSpec) spec = self->func (self->user_data);
  g_autofree char *value = NULL;
  const PlumbPlotSeries *series;
  PlumbPoint last;

  if (spec->series->len == 0)
    return g_strdup (_ ("No points yet"));
  series = spec->series->pdata[0];
  if (!plumb_track_get_last (series->track, &last))
    return g_strdup (_ ("No points yet"));
  value = plumb_format_value (last.value, series->unit);
  if (last.step == PLUMB_NO_STEP)
    return g_steal_pointer (&value);
  /* translators: "step 410: 0.62" */
  return g_strdup_printf (_ ("step %d: %s"), (int)last.step, value);
}

static gboolean
unseen_cb (gpointer user_data)
{
  PlumbPlotArea *self = user_data;

  self->unseen_timeout = 0;
  if (self->unseen_stale)
    plumb_plot_area_describe_unseen (self);
  return G_SOURCE_REMOVE;
}

void
plumb_plot_area_describe_unseen (PlumbPlotArea *self)
{
  g_autofree char *description = NULL;

  if (self->title == NULL || self->func == NULL || !gtk_widget_get_mapped (GTK_WIDGET (self)))
    return;
  self->unseen_stale = self->unseen_timeout != 0;
  if (self->unseen_stale)
    return;
  description = describe_last (self);
  set_description (self, description);
  self->unseen_timeout = g_timeout_add (UNSEEN_INTERVAL, unseen_cb, self);
}

void
plumb_plot_area_describe (PlumbPlotArea *self)
{
  g_autofree char *description = NULL;
  double x;

  if (self->title == NULL)
    return;
  if (self->plot == NULL || plumb_plot_get_spec (self->plot)->series->len == 0)
    description = g_strdup (_ ("No points yet"));
  else
    {
      x = plumb_chart_view_get_cursor (self->view);
      description = !isnan (x) && plumb_chart_view_get_owner (self->view) == self
                        ? describe_cursor (self, x)
                        : describe_curve (self);
    }
  set_description (self, description);
}
