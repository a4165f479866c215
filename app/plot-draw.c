/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <pango/pangocairo.h>

#include "app/plot-format.h"
#include "app/plot-private.h"
#include "app/plot-reduce.h"

#define EVENT_GAP 8 /* px between two marks */

/* Lines are strokes while there are fewer than two points for each column of pixels; from there on
 * one rectangle for each column, from its least to its greatest value, looks the same and costs a
 * fraction. */
#define POINTS_PER_COLUMN 2

static void
set_color (cairo_t *cr, const PlumbColor *color, double alpha)
{
  cairo_set_source_rgba (cr, color->red, color->green, color->blue, color->alpha * alpha);
}

static gsize
count_columns (PlumbPlot *self)
{
  return MAX (1, (gsize)(self->area.width * self->spec->scale));
}

/* The visible points and one more on either side, so that lines run out of the area. */
static void
find_visible (PlumbPlot *self, const double *x, gsize n, gsize *begin, gsize *end)
{
  *begin = plumb_lower_bound (x, n, self->x.min);
  *end = plumb_upper_bound (x, n, self->x.max);
  if (*begin > 0 && (!self->x.log || x[*begin - 1] > 0))
    --*begin;
  if (*end < n)
    ++*end;
}

static gboolean
is_drawable (PlumbPlot *self, double y)
{
  return isfinite (y) && (y > 0 || !self->y.log);
}

static void
draw_polyline (
    PlumbPlot *self, cairo_t *cr, const double *x, const double *y, gsize n, double width)
{
  gboolean down = FALSE;

  for (gsize i = 0; i < n; i++)
    {
      double px, py;

      if (!is_drawable (self, y[i]))
        {
          down = FALSE;
          continue;
        }
      px = plumb_scale_to_pixel (&self->x, x[i]);
      py = plumb_scale_to_pixel (&self->y, y[i]);
      if (down)
        cairo_line_to (cr, px, py);
      else
        {
          cairo_move_to (cr, px, py);
          /* A point between two gaps has no length: a round cap makes it a dot. */
          cairo_line_to (cr, px, py);
        }
      down = TRUE;
    }
  cairo_set_line_width (cr, width);
  cairo_stroke (cr);
}

/* A column reaches to the end of the one before it, so that the line has no holes. */
static void
add_column (
    PlumbPlot *self, cairo_t *cr, const PlumbColumn *column, guint i, double *last, double width)
{
  double low = column->min, high = column->max, top, bottom;

  if (isfinite (*last))
    {
      low = MIN (low, *last);
      high = MAX (high, *last);
    }
  *last = column->last;
  if (self->y.log)
    low = MAX (low, self->y.min);
  top = plumb_scale_to_pixel (&self->y, high) - width / 2;
  bottom = plumb_scale_to_pixel (&self->y, low) + width / 2;
  cairo_rectangle (cr, self->area.x + i / (double)self->spec->scale, top, 1.0 / self->spec->scale,
                   bottom - top);
}

static void
draw_columns (PlumbPlot *self, cairo_t *cr, const double *x, const double *y, gsize n, double width)
{
  guint n_columns = count_columns (self);
  g_autofree PlumbColumn *columns = g_new (PlumbColumn, n_columns);
  double last = NAN;

  plumb_plot_reduce (self, x, y, n, columns, n_columns);
  for (guint i = 0; i < n_columns; i++)
    if (columns[i].n > 0 && is_drawable (self, columns[i].max))
      add_column (self, cr, &columns[i], i, &last, width);
  cairo_fill (cr);
}

/* From where on there are too many points for strokes. On a linear axis that is all or nothing; a
 * logarithmic one is sparse at its start. */
static gsize
find_dense (PlumbPlot *self, const double *x, gsize begin, gsize end, guint per_column)
{
  gsize enough = per_column * count_columns (self);

  if (end - begin < enough)
    return end;
  if (!self->x.log)
    return begin;
  for (gsize i = begin; i + per_column < end; i++)
    if (x[i] > 0
        && plumb_scale_to_pixel (&self->x, x[i + per_column])
                   - plumb_scale_to_pixel (&self->x, x[i])
               < 1.0 / self->spec->scale)
      return i;
  return end;
}

static void
draw_line (PlumbPlot *self, cairo_t *cr, const double *x, const double *y, gsize n, double width)
{
  gsize begin, end, dense;

  find_visible (self, x, n, &begin, &end);
  dense = find_dense (self, x, begin, end, POINTS_PER_COLUMN);
  if (dense > begin)
    draw_polyline (self, cr, x + begin, y + begin, MIN (dense + 1, end) - begin, width);
  if (dense < end)
    draw_columns (self, cr, x + dense, y + dense, n - dense, width);
}

/* Each superseded attempt is a line of its own, never joined to another. */
static void
draw_old (PlumbPlot *self, cairo_t *cr, const PlumbCurve *curve)
{
  for (gsize begin = 0, end; begin < curve->n_old; begin = end)
    {
      for (end = begin + 1; end < curve->n_old; end++)
        if (curve->old_points[end].attempt != curve->old_points[begin].attempt)
          break;
      draw_line (self, cr, curve->old_x + begin, curve->old_raw + begin, end - begin, 1);
    }
}

/* What cannot be drawn at its height stands as a cross at the edge that it left by. */
static void
draw_nonfinite (PlumbPlot *self, cairo_t *cr, const PlumbCurve *curve)
{
  double last = -INFINITY;

  if (curve->n_nonfinite == 0)
    return;
  for (gsize i = 0; i < curve->n; i++)
    {
      double px = plumb_scale_to_pixel (&self->x, curve->x[i]);
      double py = self->area.y + self->area.height - 4;

      if (isfinite (curve->raw[i]) || curve->x[i] < self->x.min || curve->x[i] > self->x.max)
        continue;
      if (px - last < 4)
        continue;
      last = px;
      if (curve->raw[i] > 0)
        py = self->area.y + 4;
      cairo_move_to (cr, px - 3, py - 3);
      cairo_line_to (cr, px + 3, py + 3);
      cairo_move_to (cr, px - 3, py + 3);
      cairo_line_to (cr, px + 3, py - 3);
    }
  set_color (cr, &self->spec->style.error, 1);
  cairo_set_line_width (cr, 1.5);
  cairo_stroke (cr);
}

/* Pairs the deviation's points with those of the line before it. */
static gsize
take_band (const PlumbCurve *line, const PlumbCurve *band, double *x, double *low, double *high)
{
  gsize n = 0;

  for (gsize k = 0, m = 0; k < band->n; k++)
    {
      while (m < line->n && line->x[m] < band->x[k])
        m++;
      if (m == line->n)
        break;
      if (line->x[m] != band->x[k] || !isfinite (line->raw[m]) || !isfinite (band->raw[k]))
        continue;
      x[n] = band->x[k];
      low[n] = line->raw[m] - band->raw[k];
      high[n] = line->raw[m] + band->raw[k];
      n++;
    }
  return n;
}

static double
band_pixel (PlumbPlot *self, double y)
{
  return plumb_scale_to_pixel (&self->y, self->y.log ? MAX (y, self->y.min) : y);
}

/* A band laid out for drawing. */
typedef struct
{
  const double *x, *low, *high;
} Band;

static void
add_band_outline (PlumbPlot *self, cairo_t *cr, const Band *band, gsize begin, gsize end)
{
  for (gsize k = begin; k < end; k++)
    cairo_line_to (cr, plumb_scale_to_pixel (&self->x, band->x[k]),
                   band_pixel (self, band->high[k]));
  for (gsize k = end; k > begin; k--)
    cairo_line_to (cr, plumb_scale_to_pixel (&self->x, band->x[k - 1]),
                   band_pixel (self, band->low[k - 1]));
}

static void
add_band_columns (PlumbPlot *self, cairo_t *cr, const Band *band, gsize begin, gsize n)
{
  guint n_columns = count_columns (self);
  g_autofree PlumbColumn *lower = g_new (PlumbColumn, n_columns);
  g_autofree PlumbColumn *upper = g_new (PlumbColumn, n_columns);
  double width = 1.0 / self->spec->scale;

  plumb_plot_reduce (self, band->x + begin, band->low + begin, n - begin, lower, n_columns);
  plumb_plot_reduce (self, band->x + begin, band->high + begin, n - begin, upper, n_columns);
  for (guint k = 0; k < n_columns; k++)
    if (lower[k].n > 0)
      {
        double top = band_pixel (self, upper[k].max);

        cairo_rectangle (cr, self->area.x + k * width, top, width,
                         band_pixel (self, lower[k].min) - top);
      }
}

static void
draw_band (PlumbPlot *self, cairo_t *cr, guint i)
{
  const PlumbCurve *line = self->curves->pdata[i - 1];
  const PlumbCurve *deviation = self->curves->pdata[i];
  g_autofree double *x = g_new (double, MAX (deviation->n, 1));
  g_autofree double *low = g_new (double, MAX (deviation->n, 1));
  g_autofree double *high = g_new (double, MAX (deviation->n, 1));
  gsize n = take_band (line, deviation, x, low, high);
  Band band = { x, low, high };
  gsize begin, end, dense;

  find_visible (self, x, n, &begin, &end);
  dense = find_dense (self, x, begin, end, 1);
  if (dense > begin)
    add_band_outline (self, cr, &band, begin, MIN (dense + 1, end));
  if (dense < end)
    add_band_columns (self, cr, &band, dense, n);
  cairo_fill (cr);
}

static void
draw_stack (PlumbPlot *self, cairo_t *cr)
{
  g_autoptr (PlumbStack) stack
      = plumb_stack_new (self, self->x.min, self->x.max, count_columns (self));

  for (guint k = 0; k < stack->n_areas; k++)
    {
      const PlumbPlotSeries *series = self->spec->series->pdata[stack->series[k]];
      const double *top = stack->top + k * stack->n;
      const double *bottom = k > 0 ? top - stack->n : NULL;

      for (gsize i = 0; i < stack->n; i++)
        cairo_line_to (cr, plumb_scale_to_pixel (&self->x, stack->x[i]),
                       plumb_scale_to_pixel (&self->y, top[i]));
      for (gsize i = stack->n; i > 0; i--)
        cairo_line_to (cr, plumb_scale_to_pixel (&self->x, stack->x[i - 1]),
                       plumb_scale_to_pixel (&self->y, bottom != NULL ? bottom[i - 1] : 0));
      set_color (cr, &self->spec->style.palette[series->color], 0.8);
      cairo_fill (cr);
    }
}

static void
draw_text (PlumbPlot *self,
           cairo_t *cr,
           PangoLayout *layout,
           const char *text,
           double x,
           double y,
           double align)
{
  int width;

  pango_layout_set_text (layout, text, -1);
  pango_layout_get_pixel_size (layout, &width, NULL);
  x -= align * width;
  x = CLAMP (x, 0, MAX (0, self->spec->width - width));
  cairo_move_to (cr, x, y);
  pango_cairo_show_layout (cr, layout);
}

static void
draw_y_axis (PlumbPlot *self, cairo_t *cr, PangoLayout *layout)
{
  const char *unit
      = self->spec->series->len > 0 ? ((PlumbPlotSeries *)self->spec->series->pdata[0])->unit : "";

  cairo_set_line_width (cr, 1);
  for (guint i = 0; i < self->y_ticks.n; i++)
    {
      double y = round (plumb_scale_to_pixel (&self->y, self->y_ticks.value[i])) - 0.5;
      g_autofree char *label = NULL;

      set_color (cr, &self->spec->style.grid, self->y_ticks.minor[i] ? 0.4 : 1);
      cairo_move_to (cr, self->area.x, y);
      cairo_line_to (cr, self->area.x + self->area.width, y);
      cairo_stroke (cr);
      if (self->y_ticks.minor[i] || layout == NULL)
        continue;
      label = plumb_format_tick (self->y_ticks.value[i], self->y_ticks.step, unit);
      set_color (cr, &self->spec->style.text, 1);
      draw_text (self, cr, layout, label, self->area.x - 6, y - self->label_height / 2.0, 1);
    }
}

static char *
x_label (PlumbPlot *self, guint i)
{
  double value = self->x_ticks.value[i];

  if (self->spec->x_axis == PLUMB_PLOT_X_STEP)
    return plumb_format_tick (value, self->x_ticks.step, "");
  return plumb_format_duration_tick (value, self->x_ticks.step);
}

static void
draw_x_axis (PlumbPlot *self, cairo_t *cr, PangoLayout *layout)
{
  double bottom = self->area.y + self->area.height;

  set_color (cr, &self->spec->style.text, 1);
  for (guint i = 0; i < self->x_ticks.n; i++)
    {
      g_autofree char *label = NULL;

      if (self->x_ticks.minor[i])
        continue;
      label = x_label (self, i);
      draw_text (self, cr, layout, label, plumb_scale_to_pixel (&self->x, self->x_ticks.value[i]),
                 bottom + 4, 0.5);
    }
}

/* Grave ones always; of the others only as many as can be told apart. */
static void
draw_events (PlumbPlot *self, cairo_t *cr)
{
  double last = -INFINITY;

  for (guint i = 0; i < self->spec->events->len; i++)
    {
      const PlumbPlotEvent *event = &g_array_index (self->spec->events, PlumbPlotEvent, i);
      double x = self->spec->x_axis == PLUMB_PLOT_X_STEP ? event->step
                                                         : event->time - self->spec->origin;
      double px;

      if (x < self->x.min || x > self->x.max)
        continue;
      px = round (plumb_scale_to_pixel (&self->x, x)) - 0.5;
      if (!event->grave && fabs (px - last) < EVENT_GAP)
        continue;
      last = px;
      set_color (cr, event->grave ? &self->spec->style.error : &self->spec->style.text,
                 event->grave ? 0.9 : 0.5);
      cairo_set_line_width (cr, 1);
      cairo_move_to (cr, px, self->area.y + self->area.height);
      cairo_line_to (cr, px, self->area.y + self->area.height - (event->grave ? 12 : 6));
      cairo_stroke (cr);
    }
}

static void
draw_series (PlumbPlot *self, cairo_t *cr, guint i)
{
  const PlumbPlotSeries *series = self->spec->series->pdata[i];
  const PlumbCurve *curve = self->curves->pdata[i];
  const PlumbColor *color = &self->spec->style.palette[series->color];
  double width = series->role == PLUMB_PLOT_LINE ? 2 : 1.25;

  if (curve->n_old > 0)
    {
      set_color (cr, color, 0.3);
      draw_old (self, cr, curve);
    }
  if (self->spec->smoothing > 0 && series->role == PLUMB_PLOT_LINE)
    {
      set_color (cr, color, 0.25);
      draw_line (self, cr, curve->x, curve->raw, curve->n, 1);
    }
  set_color (cr, color, 1);
  draw_line (self, cr, curve->x, curve->smoothed, curve->n, width);
}

static void
draw_all_series (PlumbPlot *self, cairo_t *cr)
{
  GPtrArray *all = self->spec->series;

  draw_stack (self, cr);
  for (guint i = 1; i < all->len; i++)
    {
      const PlumbPlotSeries *series = all->pdata[i];

      if (series->role != PLUMB_PLOT_BAND)
        continue;
      set_color (cr, &self->spec->style.palette[series->color], 0.15);
      draw_band (self, cr, i);
    }
  /* The main line comes last, on top of its companions. */
  for (guint i = all->len; i > 0; i--)
    {
      const PlumbPlotSeries *series = all->pdata[i - 1];

      if (series->role == PLUMB_PLOT_LINE || series->role == PLUMB_PLOT_EXTRA)
        draw_series (self, cr, i - 1);
    }
}

static PangoLayout *
create_layout (PlumbPlot *self, cairo_t *cr)
{
  g_autoptr (PangoFontDescription) font
      = pango_font_description_from_string (self->spec->style.font);
  PangoLayout *layout = pango_cairo_create_layout (cr);

  pango_layout_set_font_description (layout, font);
  return layout;
}

void
plumb_plot_draw (PlumbPlot *self, cairo_t *cr)
{
  g_autoptr (PangoLayout) layout = NULL; /* NULL: no labels */

  g_return_if_fail (self != NULL && cr != NULL);

  /* Axes without points would show a range that nobody measured. */
  if (!self->has_points)
    return;
  if (!self->spec->bare)
    layout = create_layout (self, cr);
  cairo_save (cr);
  draw_y_axis (self, cr, layout);
  if (layout != NULL)
    draw_x_axis (self, cr, layout);
  draw_events (self, cr);

  cairo_rectangle (cr, self->area.x, 0, self->area.width + 4, self->area.y + self->area.height);
  cairo_clip (cr);
  cairo_set_line_join (cr, CAIRO_LINE_JOIN_BEVEL);
  cairo_set_line_cap (cr, CAIRO_LINE_CAP_ROUND);
  cairo_set_antialias (cr, CAIRO_ANTIALIAS_FAST);
  draw_all_series (self, cr);
  for (guint i = 0; i < self->curves->len; i++)
    draw_nonfinite (self, cr, self->curves->pdata[i]);
  cairo_restore (cr);
}
