/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <glib/gi18n.h>
#include <pango/pangocairo.h>

#include "app/plot-format.h"
#include "app/plot-private.h"
#include "app/plot-reduce.h"

#define GAP 6 /* between labels and the area, in pixels */

static void
series_free (gpointer data)
{
  PlumbPlotSeries *self = data;

  plumb_track_unref (self->track);
  g_free (self->label);
  g_free (self->unit);
  g_free (self);
}

PlumbPlotSpec *
plumb_plot_spec_new (void)
{
  PlumbPlotSpec *self = g_new0 (PlumbPlotSpec, 1);

  self->series = g_ptr_array_new_with_free_func (series_free);
  self->events = g_array_new (FALSE, FALSE, sizeof (PlumbPlotEvent));
  self->x_min = NAN;
  self->x_max = NAN;
  self->scale = 1;
  g_strlcpy (self->style.font, "Sans 8", sizeof self->style.font);
  return self;
}

void
plumb_plot_spec_add (PlumbPlotSpec *self,
                     PlumbTrack *track,
                     const char *label,
                     const char *unit,
                     PlumbPlotRole role,
                     guint color)
{
  PlumbPlotSeries *series;

  g_return_if_fail (self != NULL && track != NULL);

  series = g_new0 (PlumbPlotSeries, 1);
  series->track = plumb_track_ref (track);
  series->label = g_strdup (label);
  series->unit = g_strdup (unit);
  series->role = role;
  series->color = color % PLUMB_PLOT_COLORS;
  g_ptr_array_add (self->series, series);
}

void
plumb_plot_spec_free (PlumbPlotSpec *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->series);
  g_array_unref (self->events);
  g_free (self);
}

static void
extend (double value, double *min, double *max)
{
  if (!isfinite (value))
    return;
  *min = MIN (*min, value);
  *max = MAX (*max, value);
}

/* From the first to the last x of all curves; with `above_zero` only of those with a logarithm. */
static void
find_x_extent (PlumbPlot *self, gboolean above_zero, double *min, double *max)
{
  *min = INFINITY;
  *max = -INFINITY;
  for (guint i = 0; i < self->curves->len; i++)
    {
      const PlumbCurve *curve = self->curves->pdata[i];
      gsize first = above_zero ? plumb_upper_bound (curve->x, curve->n, 0) : 0;

      if (first < curve->n)
        {
          extend (curve->x[first], min, max);
          extend (curve->x[curve->n - 1], min, max);
        }
      for (gsize k = 0; k < curve->n_old; k++)
        if (!above_zero || curve->old_x[k] > 0)
          extend (curve->old_x[k], min, max);
    }
}

static void
find_x_range (PlumbPlot *self)
{
  double min, max;

  find_x_extent (self, FALSE, &min, &max);
  self->has_points = min <= max;
  self->x.log = self->spec->log_x && max > 0;
  if (self->x.log)
    find_x_extent (self, TRUE, &min, &max);

  if (!self->has_points)
    min = 0, max = 1;
  else if (min == max && self->x.log)
    min /= 2, max *= 2;
  else if (min == max)
    min -= 0.5, max += 0.5;
  self->x.min = isfinite (self->spec->x_min) && (self->spec->x_min > 0 || !self->x.log)
                    ? self->spec->x_min
                    : min;
  self->x.max = isfinite (self->spec->x_max) && (self->spec->x_max > 0 || !self->x.log)
                    ? self->spec->x_max
                    : max;
  if (!(self->x.max > self->x.min))
    self->x.max = self->x.log ? 2 * self->x.min : self->x.min + 1;
}

static void
extend_visible (
    PlumbPlot *self, const double *x, const double *y, gsize n, double *min, double *max)
{
  for (gsize i = 0; i < n; i++)
    if (x[i] >= self->x.min && x[i] <= self->x.max && (y[i] > 0 || !self->spec->log_y))
      extend (y[i], min, max);
}

/* Both edges of the band: value plus and minus deviation, of points with the same step. */
static void
extend_band (PlumbPlot *self, guint i, double *min, double *max)
{
  const PlumbCurve *line = self->curves->pdata[i - 1];
  const PlumbCurve *band = self->curves->pdata[i];

  for (gsize k = 0, m = 0; k < band->n; k++)
    {
      while (m < line->n && line->x[m] < band->x[k])
        m++;
      if (m == line->n || line->x[m] != band->x[k])
        continue;
      if (band->x[k] < self->x.min || band->x[k] > self->x.max)
        continue;
      extend (line->raw[m] + band->raw[k], min, max);
      if (!self->spec->log_y || line->raw[m] - band->raw[k] > 0)
        extend (line->raw[m] - band->raw[k], min, max);
    }
}

static void
extend_stack (PlumbPlot *self, double *min, double *max)
{
  g_autoptr (PlumbStack) stack = NULL;

  stack = plumb_stack_new (self, self->x.min, self->x.max, self->spec->width);
  for (gsize i = 0; i < stack->n * stack->n_areas; i++)
    extend (stack->top[i], min, max);
  if (stack->n > 0)
    extend (0, min, max);
}

static const char *
y_unit (PlumbPlot *self)
{
  return self->spec->series->len > 0 ? ((PlumbPlotSeries *)self->spec->series->pdata[0])->unit : "";
}

static void
find_y_range (PlumbPlot *self)
{
  double min = INFINITY, max = -INFINITY;
  gboolean log = self->spec->log_y;
  gboolean stacked = FALSE;

  for (guint i = 0; i < self->curves->len; i++)
    {
      const PlumbCurve *curve = self->curves->pdata[i];
      const PlumbPlotSeries *series = self->spec->series->pdata[i];

      if (series->role == PLUMB_PLOT_STACK)
        stacked = TRUE;
      else if (series->role == PLUMB_PLOT_BAND && i > 0)
        extend_band (self, i, &min, &max);
      else
        {
          extend_visible (self, curve->x, curve->raw, curve->n, &min, &max);
          extend_visible (self, curve->x, curve->smoothed, curve->n, &min, &max);
          extend_visible (self, curve->old_x, curve->old_raw, curve->n_old, &min, &max);
        }
    }
  if (stacked)
    extend_stack (self, &min, &max);

  if (!(min <= max))
    min = log ? 0.1 : 0, max = 1;
  /* Of a share that never changes the whole range says more than one beyond it. */
  if (!log && min == max && min >= 0 && max <= 1 && g_strcmp0 (y_unit (self), "share") == 0)
    min = 0, max = 1;
  else if (!log && (self->spec->from_zero || stacked))
    {
      gboolean above = min >= 0;

      extend (0, &min, &max);
      plumb_scale_pad (&min, &max, FALSE);
      if (above)
        min = 0;
    }
  else
    plumb_scale_pad (&min, &max, log);
  self->y = (PlumbScale){ .min = min, .max = max, .log = log };
}

void
plumb_plot_reduce (PlumbPlot *self,
                   const double *x,
                   const double *y,
                   gsize n,
                   PlumbColumn *columns,
                   guint n_columns)
{
  g_autofree double *logs = NULL;
  gsize first;

  if (!self->x.log)
    {
      plumb_reduce_m4 (x, y, n, self->x.min, self->x.max, columns, n_columns);
      return;
    }
  first = plumb_upper_bound (x, n, 0);
  logs = g_new (double, MAX (n - first, 1));
  for (gsize i = first; i < n; i++)
    logs[i - first] = log (x[i]);
  plumb_reduce_m4 (logs, y + first, n - first, log (self->x.min), log (self->x.max), columns,
                   n_columns);
}

static PangoLayout *
new_layout (PlumbPlot *self)
{
  PangoContext *context = pango_font_map_create_context (pango_cairo_font_map_get_default ());
  g_autoptr (PangoFontDescription) font
      = pango_font_description_from_string (self->spec->style.font);
  PangoLayout *layout = pango_layout_new (context);

  g_object_unref (context);
  pango_layout_set_font_description (layout, font);
  return layout;
}

static int
measure_labels (PlumbPlot *self, PangoLayout *layout)
{
  int width, widest = 0;

  for (guint i = 0; i < self->y_ticks.n; i++)
    {
      g_autofree char *label = NULL;

      if (self->y_ticks.minor[i])
        continue;
      label = plumb_format_tick (self->y_ticks.value[i], self->y_ticks.step, y_unit (self));
      pango_layout_set_text (layout, label, -1);
      pango_layout_get_pixel_size (layout, &width, NULL);
      widest = MAX (widest, width);
    }
  return widest;
}

/* The widest label decides the left margin; the font's height the lower one. */
static void
lay_out (PlumbPlot *self)
{
  PlumbPlotSpec *spec = self->spec;
  g_autoptr (PangoLayout) layout = spec->bare ? NULL : new_layout (self);
  int height = 0, widest;
  double left, bottom;

  if (layout != NULL)
    {
      pango_layout_set_text (layout, "0", -1);
      pango_layout_get_pixel_size (layout, NULL, &height);
    }
  self->label_height = height;
  bottom = MAX (1, spec->height - height - GAP);
  if (self->y.log)
    plumb_ticks_log (&self->y_ticks, self->y.min, self->y.max, MAX (3, (int)bottom / 28));
  else
    plumb_ticks_linear (&self->y_ticks, self->y.min, self->y.max, MAX (3, (int)bottom / 28), FALSE);

  widest = layout != NULL ? measure_labels (self, layout) : 0;
  left = MIN (widest + GAP, spec->width / 2);
  self->area = (cairo_rectangle_t){ left, height / 2.0, MAX (1, spec->width - left - GAP),
                                    MAX (1, bottom - height / 2.0) };
  self->x.pixel_min = self->area.x;
  self->x.pixel_max = self->area.x + self->area.width;
  self->y.pixel_min = self->area.y + self->area.height;
  self->y.pixel_max = self->area.y;

  if (self->x.log)
    plumb_ticks_log (&self->x_ticks, self->x.min, self->x.max, MAX (3, (int)self->area.width / 60));
  else if (spec->x_axis == PLUMB_PLOT_X_STEP)
    plumb_ticks_linear (&self->x_ticks, self->x.min, self->x.max,
                        MAX (3, (int)self->area.width / 60), TRUE);
  else
    plumb_ticks_time (&self->x_ticks, self->x.min, self->x.max,
                      MAX (3, (int)self->area.width / 70));
}

PlumbPlot *
plumb_plot_new (PlumbPlotSpec *spec)
{
  PlumbPlot *self;

  g_return_val_if_fail (spec != NULL && spec->width > 0 && spec->height > 0, NULL);

  self = g_new0 (PlumbPlot, 1);
  g_atomic_ref_count_init (&self->refs);
  self->spec = spec;
  self->curves = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_curve_free);
  for (guint i = 0; i < spec->series->len; i++)
    {
      PlumbPlotSeries *series = spec->series->pdata[i];

      g_ptr_array_add (self->curves, plumb_curve_new (series->track, spec->x_axis, spec->origin,
                                                      spec->smoothing));
    }
  find_x_range (self);
  find_y_range (self);
  lay_out (self);
  return self;
}

PlumbPlot *
plumb_plot_ref (PlumbPlot *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  g_atomic_ref_count_inc (&self->refs);
  return self;
}

void
plumb_plot_unref (PlumbPlot *self)
{
  g_return_if_fail (self != NULL);

  if (!g_atomic_ref_count_dec (&self->refs))
    return;
  g_ptr_array_unref (self->curves);
  plumb_plot_spec_free (self->spec);
  g_free (self);
}

gboolean
plumb_plot_has_points (PlumbPlot *self)
{
  g_return_val_if_fail (self != NULL, FALSE);

  return self->has_points;
}

const cairo_rectangle_t *
plumb_plot_get_area (PlumbPlot *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return &self->area;
}

const PlumbScale *
plumb_plot_get_x_scale (PlumbPlot *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return &self->x;
}

const PlumbScale *
plumb_plot_get_y_scale (PlumbPlot *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return &self->y;
}

const PlumbPlotSpec *
plumb_plot_get_spec (PlumbPlot *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return self->spec;
}

const PlumbCurve *
plumb_plot_get_curve (PlumbPlot *self, guint series)
{
  g_return_val_if_fail (self != NULL && series < self->curves->len, NULL);

  return self->curves->pdata[series];
}

double
plumb_plot_snap (PlumbPlot *self, double x, int by)
{
  g_return_val_if_fail (self != NULL, NAN);

  for (guint i = 0; i < self->curves->len; i++)
    {
      const PlumbCurve *curve = self->curves->pdata[i];
      gint64 k;

      if (curve->n == 0)
        continue;
      k = (gint64)plumb_curve_find (curve, x) + by;
      return curve->x[CLAMP (k, 0, (gint64)curve->n - 1)];
    }
  return NAN;
}

/* How far from x a point may be and still count as the series' value there: half the distance to
 * its farther neighbour. */
static gboolean
is_near (const PlumbCurve *curve, gsize i, double x)
{
  double before = i > 0 ? curve->x[i] - curve->x[i - 1] : 0;
  double after = i + 1 < curve->n ? curve->x[i + 1] - curve->x[i] : 0;

  return fabs (curve->x[i] - x) <= MAX (before, after) / 2;
}

GArray *
plumb_plot_read (PlumbPlot *self, double x)
{
  GArray *readings;

  g_return_val_if_fail (self != NULL, NULL);

  readings = g_array_new (FALSE, TRUE, sizeof (PlumbPlotReading));
  for (guint i = 0; i < self->curves->len; i++)
    {
      const PlumbCurve *curve = self->curves->pdata[i];
      const PlumbPlotSeries *series = self->spec->series->pdata[i];
      gsize k = plumb_curve_find (curve, x);
      PlumbPlotReading reading;

      if (k == curve->n || !is_near (curve, k, x))
        continue;
      reading = (PlumbPlotReading){
        .label = series->label,
        .unit = series->unit,
        .role = series->role,
        .color = series->color,
        .point = curve->points[k],
        .x = curve->x[k],
        .smoothed = curve->smoothed[k],
        .pixel_x = plumb_scale_to_pixel (&self->x, curve->x[k]),
        .pixel_y = plumb_scale_to_pixel (&self->y, curve->smoothed[k]),
      };
      g_array_append_val (readings, reading);
    }
  return readings;
}

char *
plumb_plot_format_x (PlumbPlot *self, double x)
{
  g_autofree char *duration = NULL;

  g_return_val_if_fail (self != NULL, NULL);

  if (self->spec->x_axis == PLUMB_PLOT_X_STEP)
    return g_strdup_printf (_ ("step %.0f"), x);
  duration = plumb_format_duration (x);
  return g_strdup_printf (_ ("after %s"), duration);
}
