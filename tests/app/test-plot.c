/* SPDX-License-Identifier: Apache-2.0 */
/* The plot core without a display: curves, reduction, ticks, numbers, and the geometry of what is
 * drawn, compared away from text so that fonts do not matter. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "app/plot-format.h"
#include "app/plot-reduce.h"
#include "app/plot.h"

#define WIDTH 400
#define HEIGHT 200

static PlumbTrack *
make_track (const double *values, gsize n)
{
  PlumbTrack *track = plumb_track_new ();

  plumb_track_add_attempt (track, 1, 0);
  for (gsize i = 0; i < n; i++)
    {
      PlumbPoint point = { i + 1, 1, i, 1000 + 10.0 * i, values[i] };

      plumb_track_add_points (track, &point, 1);
    }
  return track;
}

static PlumbPlotSpec *
make_spec (PlumbTrack *track)
{
  PlumbPlotSpec *spec = plumb_plot_spec_new ();

  spec->width = WIDTH;
  spec->height = HEIGHT;
  spec->style.text = (PlumbColor){ 0, 0, 0, 1 };
  spec->style.grid = (PlumbColor){ 0, 0, 0, 0 };
  spec->style.error = (PlumbColor){ 1, 0, 0, 1 };
  spec->style.palette[0] = (PlumbColor){ 0, 0, 1, 1 };
  spec->style.palette[1] = (PlumbColor){ 0, 1, 0, 1 };
  if (track != NULL)
    plumb_plot_spec_add (spec, track, "value", "", PLUMB_PLOT_LINE, 0);
  return spec;
}

static cairo_surface_t *
draw (PlumbPlot *plot, int scale)
{
  cairo_surface_t *surface
      = cairo_image_surface_create (CAIRO_FORMAT_ARGB32, WIDTH * scale, HEIGHT * scale);
  cairo_t *cr;

  cairo_surface_set_device_scale (surface, scale, scale);
  cr = cairo_create (surface);
  plumb_plot_draw (plot, cr);
  cairo_destroy (cr);
  cairo_surface_flush (surface);
  return surface;
}

static guint32
pixel (cairo_surface_t *surface, int x, int y)
{
  const guchar *data = cairo_image_surface_get_data (surface);

  g_assert_cmpint (x, >=, 0);
  g_assert_cmpint (y, >=, 0);
  return (
      (const guint32 *)(gconstpointer)(data
                                       + (gsize)y * cairo_image_surface_get_stride (surface)))[x];
}

/* Opacity of blue (the main line's colour) at a place of the user's space. */
static int
blue_at (cairo_surface_t *surface, double x, double y)
{
  guint32 value = pixel (surface, (int)x, (int)y);

  return (value & 0xff) > ((value >> 8) & 0xff) + 8 ? (int)(value >> 24) : 0;
}

/* The rows of the line in one column of pixels: -1 where there is none. */
static void
find_line (cairo_surface_t *surface, PlumbPlot *plot, int x, int *top, int *bottom)
{
  const cairo_rectangle_t *area = plumb_plot_get_area (plot);

  *top = *bottom = -1;
  for (int y = (int)area->y; y < area->y + area->height; y++)
    if (blue_at (surface, x, y) > 100)
      {
        if (*top < 0)
          *top = y;
        *bottom = y;
      }
}

/* First, min, max and last of each column as a second, slow program finds them. */
static void
test_m4_equals_brute_force (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (7);

  for (int turn = 0; turn < 200; turn++)
    {
      gsize n = g_rand_int_range (random, 1, 3000);
      guint n_columns = g_rand_int_range (random, 1, 500);
      g_autofree double *x = g_new (double, n);
      g_autofree double *y = g_new (double, n);
      g_autofree PlumbColumn *columns = g_new (PlumbColumn, n_columns);
      double at = 0, from, to;

      for (gsize i = 0; i < n; i++)
        {
          at += g_rand_double (random) < 0.1 ? 0 : g_rand_double (random);
          x[i] = at;
          y[i] = g_rand_double (random) < 0.05 ? NAN : g_rand_double_range (random, -5, 5);
        }
      from = g_rand_double_range (random, -1, at);
      to = g_rand_double_range (random, from, at + 1) + 1e-9;
      plumb_reduce_m4 (x, y, n, from, to, columns, n_columns);
      for (guint c = 0; c < n_columns; c++)
        {
          double first = NAN, last = NAN, min = INFINITY, max = -INFINITY;
          guint count = 0;

          for (gsize i = 0; i < n; i++)
            {
              guint column
                  = MIN ((guint)((x[i] - from) * (n_columns / (to - from))), n_columns - 1);

              if (x[i] < from || x[i] > to || column != c || isnan (y[i]))
                continue;
              if (count++ == 0)
                first = y[i];
              last = y[i];
              min = MIN (min, y[i]);
              max = MAX (max, y[i]);
            }
          g_assert_cmpuint (columns[c].n, ==, count);
          if (count == 0)
            continue;
          g_assert_cmpfloat (columns[c].first, ==, first);
          g_assert_cmpfloat (columns[c].last, ==, last);
          g_assert_cmpfloat (columns[c].min, ==, min);
          g_assert_cmpfloat (columns[c].max, ==, max);
        }
    }
}

static void
test_smoothing (void)
{
  const double values[] = { 1.428571, 1.111111, NAN, 0.909091, 0.769231 };
  /* By hand: sums of 0.4 * 0.6^k * value over the sum of their weights. */
  const double expected[] = { 1.428571, 1.230158, NAN, 1.066349, 0.929806 };
  g_autoptr (PlumbTrack) track = make_track (values, G_N_ELEMENTS (values));
  g_autoptr (PlumbCurve) curve = plumb_curve_new (track, PLUMB_PLOT_X_STEP, 0, 0.6);

  g_assert_cmpuint (curve->n, ==, 5);
  g_assert_cmpuint (curve->n_nonfinite, ==, 1);
  for (gsize i = 0; i < curve->n; i++)
    {
      if (isnan (expected[i]))
        g_assert_true (isnan (curve->smoothed[i]));
      else
        g_assert_cmpfloat_with_epsilon (curve->smoothed[i], expected[i], 1e-6);
    }
}

/* Steps 20 to 180, then a second attempt from 120 to 260: four points are superseded. */
static PlumbTrack *
make_resumed (void)
{
  PlumbTrack *track = plumb_track_new ();
  gint64 seq = 0;

  plumb_track_add_attempt (track, 1, 0);
  plumb_track_add_attempt (track, 2, 120);
  for (int step = 20; step <= 180; step += 20)
    {
      PlumbPoint point = { ++seq, 1, step, 1000 + step, 1 };

      plumb_track_add_points (track, &point, 1);
    }
  for (int step = 120; step <= 260; step += 20)
    {
      PlumbPoint point = { ++seq, 2, step, 2000 + step, 0.25 };

      plumb_track_add_points (track, &point, 1);
    }
  return track;
}

static void
test_resumed_run (void)
{
  g_autoptr (PlumbTrack) track = make_resumed ();
  g_autoptr (PlumbCurve) by_step = plumb_curve_new (track, PLUMB_PLOT_X_STEP, 1020, 0);
  g_autoptr (PlumbCurve) by_time = plumb_curve_new (track, PLUMB_PLOT_X_ELAPSED, 1020, 0);

  g_assert_cmpuint (by_step->n, ==, 13);
  g_assert_cmpuint (by_step->n_old, ==, 4);
  for (gsize i = 1; i < by_step->n; i++)
    {
      g_assert_cmpfloat (by_step->x[i], >, by_step->x[i - 1]);
      g_assert_cmpfloat (by_time->x[i], >=, by_time->x[i - 1]);
    }
  g_assert_cmpfloat (by_step->raw[plumb_curve_find (by_step, 160)], ==, 0.25);
  g_assert_cmpfloat (by_step->old_x[0], ==, 120);
  g_assert_cmpfloat (by_time->x[0], ==, 0);
}

static void
test_clock_goes_back (void)
{
  const double times[] = { 100, 110, 50, 60, 60, 90 };
  const double elapsed[] = { 0, 10, 10, 20, 20, 50 };
  g_autoptr (PlumbTrack) track = plumb_track_new ();
  g_autoptr (PlumbCurve) curve = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (times); i++)
    {
      PlumbPoint point = { i + 1, 1, i, times[i], 0 };

      plumb_track_add_points (track, &point, 1);
    }
  curve = plumb_curve_new (track, PLUMB_PLOT_X_ELAPSED, 100, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (times); i++)
    g_assert_cmpfloat (curve->x[i], ==, elapsed[i]);
}

/* Every tick lies in the range, on a multiple of a 1-2-5 step, and there are neither too many nor
 * none. */
static void
test_linear_ticks (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (3);

  for (int turn = 0; turn < 2000; turn++)
    {
      double scale = pow (10, g_rand_double_range (random, -8, 8));
      double min = g_rand_double_range (random, -1, 1) * scale;
      double max = min + g_rand_double_range (random, 0.01, 1) * scale;
      guint wanted = g_rand_int_range (random, 3, 12);
      double mantissa;
      PlumbTicks ticks;

      plumb_ticks_linear (&ticks, min, max, wanted, FALSE);
      g_assert_cmpuint (ticks.n, >=, 1);
      g_assert_cmpuint (ticks.n, <=, wanted + 1);
      mantissa = ticks.step / pow (10, floor (log10 (ticks.step) + 1e-9));
      g_assert_true (fabs (mantissa - 1) < 1e-6 || fabs (mantissa - 2) < 1e-6
                     || fabs (mantissa - 5) < 1e-6 || fabs (mantissa - 10) < 1e-6);
      for (guint i = 0; i < ticks.n; i++)
        {
          g_assert_cmpfloat (ticks.value[i], >=, min - 1e-6 * ticks.step);
          g_assert_cmpfloat (ticks.value[i], <=, max + 1e-6 * ticks.step);
          g_assert_cmpfloat_with_epsilon (ticks.value[i] / ticks.step,
                                          round (ticks.value[i] / ticks.step),
                                          1e-6 * MAX (1, fabs (ticks.value[i] / ticks.step)));
        }
    }
}

static void
test_other_ticks (void)
{
  PlumbTicks ticks;

  plumb_ticks_linear (&ticks, 0, 2.5, 8, TRUE);
  g_assert_cmpuint (ticks.n, ==, 3);
  g_assert_cmpfloat (ticks.value[1], ==, 1);

  plumb_ticks_log (&ticks, 0.003, 40, 5);
  for (guint i = 0, major = 0; i < ticks.n; i++)
    if (!ticks.minor[i])
      g_assert_cmpfloat_with_epsilon (log10 (ticks.value[i]), -2.0 + major++, 1e-9);

  plumb_ticks_time (&ticks, 0, 7200, 5);
  g_assert_cmpfloat (ticks.step, ==, 1800);
  g_assert_cmpuint (ticks.n, ==, 5);

  plumb_ticks_linear (&ticks, NAN, 1, 5, FALSE);
  g_assert_cmpuint (ticks.n, ==, 0);
  plumb_ticks_linear (&ticks, -G_MAXDOUBLE, G_MAXDOUBLE, 5, FALSE);
  g_assert_cmpuint (ticks.n, ==, 0);
  plumb_ticks_log (&ticks, 0, 1, 5);
  g_assert_cmpuint (ticks.n, ==, 0);
}

static void
check_text (char *text, const char *expected)
{
  g_assert_cmpstr (text, ==, expected);
  g_free (text);
}

static void
test_numbers (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (9);

  check_text (plumb_format_value (0.61538, ""), "0.6154");
  check_text (plumb_format_value (0.342, "share"), "34.2 %");
  check_text (plumb_format_value (12100, "tokens/s"), "12.1k tok/s");
  check_text (plumb_format_value (1.5 * 1024 * 1024 * 1024, "bytes"), "1.50 GiB");
  check_text (plumb_format_value (130, "s"), "2 min 10 s");
  check_text (plumb_format_value (NAN, ""), "NaN");
  check_text (plumb_format_value (-INFINITY, ""), "−∞");
  check_text (plumb_format_duration (60), "1 min");
  check_text (plumb_format_duration (7500), "2 h 5 min");
  check_text (plumb_format_duration (-1), "–");
  check_text (plumb_format_tick (0.15, 0.05, ""), "0.15");
  check_text (plumb_format_tick (0.5, 0.25, "share"), "50 %");
  check_text (plumb_format_tick (20000, 5000, ""), "20k");
  check_text (plumb_format_tick (0.000015, 0.000005, "s"), "15 µs");
  check_text (plumb_format_tick (0.5, 0.1, "s"), "0.5");
  check_text (plumb_format_value (0.0000031, "s"), "3.1 µs");
  check_text (plumb_format_duration_tick (5400, 1800), "1:30 h");
  for (int i = 0; i < 5000; i++)
    {
      double value
          = g_rand_double_range (random, -1, 1) * pow (10, g_rand_int_range (random, -300, 300));
      g_autofree char *text = plumb_format_exact (value);

      g_assert_cmpfloat (g_ascii_strtod (text, NULL), ==, value);
    }
}

/* A polyline passes through its points, in the main colour. */
static void
test_draws_polyline (void)
{
  const double values[] = { 0, 1, 0.5, 0.5, 0.25 };
  g_autoptr (PlumbTrack) track = make_track (values, G_N_ELEMENTS (values));
  g_autoptr (PlumbPlot) plot = plumb_plot_new (make_spec (track));
  cairo_surface_t *surface = draw (plot, 1);

  g_assert_true (plumb_plot_has_points (plot));
  for (gsize i = 1; i + 1 < G_N_ELEMENTS (values); i++)
    {
      double x = plumb_scale_to_pixel (plumb_plot_get_x_scale (plot), i);
      double y = plumb_scale_to_pixel (plumb_plot_get_y_scale (plot), values[i]);
      int best = 0;

      for (int dy = -2; dy <= 2; dy++)
        best = MAX (best, blue_at (surface, x, y + dy));
      g_assert_cmpint (best, >, 150);
    }
  g_assert_cmpint (blue_at (surface, plumb_scale_to_pixel (plumb_plot_get_x_scale (plot), 2.5),
                            plumb_scale_to_pixel (plumb_plot_get_y_scale (plot), 0.9)),
                   ==, 0);
  cairo_surface_destroy (surface);
}

/* With many points for each column of pixels, a single spike still reaches its height, and no
 * column of the line is empty. */
static void
test_keeps_spikes (void)
{
  enum
  {
    N = 50000
  };
  g_autofree double *values = g_new (double, N);
  g_autoptr (PlumbTrack) track = NULL;
  g_autoptr (PlumbPlot) plot = NULL;
  const cairo_rectangle_t *area;
  cairo_surface_t *surface;
  int top, bottom, spike;

  for (int i = 0; i < N; i++)
    values[i] = 0.2 * sin (i / 3000.0);
  values[31234] = 5;
  track = make_track (values, N);
  plot = plumb_plot_new (make_spec (track));
  area = plumb_plot_get_area (plot);
  surface = draw (plot, 1);
  for (int x = (int)area->x + 1; x < area->x + area->width - 1; x++)
    {
      find_line (surface, plot, x, &top, &bottom);
      g_assert_cmpint (top, >=, 0);
    }
  spike = plumb_scale_to_pixel (plumb_plot_get_x_scale (plot), 31234);
  find_line (surface, plot, spike, &top, &bottom);
  g_assert_cmpfloat_with_epsilon (top, plumb_scale_to_pixel (plumb_plot_get_y_scale (plot), 5), 3);
  cairo_surface_destroy (surface);
}

/* Rectangles and strokes of the same data lie on the same rows, whichever way a plot is drawn. */
static void
test_columns_match_strokes (void)
{
  enum
  {
    N = 380
  };
  double values[3 * N];
  g_autoptr (PlumbTrack) few = NULL;
  g_autoptr (PlumbTrack) many = NULL;
  g_autoptr (PlumbPlot) strokes = NULL;
  g_autoptr (PlumbPlot) columns = NULL;
  cairo_surface_t *one, *two;
  double area;
  int different = 0;

  for (int i = 0; i < 3 * N; i++)
    values[i] = sin (i / 120.0);
  many = make_track (values, 3 * N);
  for (int i = 0; i < N; i++)
    values[i] = sin (3 * i / 120.0);
  few = make_track (values, N / 2);
  strokes = plumb_plot_new (make_spec (few));
  columns = plumb_plot_new (make_spec (many));
  one = draw (strokes, 1);
  two = draw (columns, 1);
  area = plumb_plot_get_area (columns)->x;
  for (int x = (int)area + 2; x < WIDTH - 10; x++)
    {
      int top, bottom;
      double at = plumb_scale_to_value (plumb_plot_get_x_scale (columns), x + 0.5);
      double y = plumb_scale_to_pixel (plumb_plot_get_y_scale (columns), sin (at / 120));

      find_line (two, columns, x, &top, &bottom);
      different += top < 0 || fabs ((top + bottom + 1) / 2.0 - y) > 2;
      at = plumb_scale_to_value (plumb_plot_get_x_scale (strokes), x + 0.5);
      y = plumb_scale_to_pixel (plumb_plot_get_y_scale (strokes), sin (at / 40));
      find_line (one, strokes, x, &top, &bottom);
      different += top < 0 || fabs ((top + bottom + 1) / 2.0 - y) > 2;
    }
  g_assert_cmpint (different, <=, 4);
  cairo_surface_destroy (one);
  cairo_surface_destroy (two);
}

static void
test_gap_and_marker (void)
{
  double values[21];
  g_autoptr (PlumbTrack) track = NULL;
  g_autoptr (PlumbPlot) plot = NULL;
  cairo_surface_t *surface;
  int top, bottom, x;
  guint32 marker;

  for (int i = 0; i < 21; i++)
    values[i] = i >= 9 && i <= 11 ? NAN : 0.5;
  track = make_track (values, 21);
  plot = plumb_plot_new (make_spec (track));
  surface = draw (plot, 1);
  x = plumb_scale_to_pixel (plumb_plot_get_x_scale (plot), 9.5);
  find_line (surface, plot, x, &top, &bottom);
  g_assert_cmpint (top, ==, -1);
  find_line (surface, plot, plumb_scale_to_pixel (plumb_plot_get_x_scale (plot), 5), &top, &bottom);
  g_assert_cmpint (top, >=, 0);
  x = plumb_scale_to_pixel (plumb_plot_get_x_scale (plot), 10);
  marker
      = pixel (surface, x, plumb_plot_get_area (plot)->y + plumb_plot_get_area (plot)->height - 4);
  g_assert_cmpint ((marker >> 16) & 0xff, >, 100);
  cairo_surface_destroy (surface);
}

/* What a later attempt superseded is there, dimmed, and not joined to the current line. */
static void
test_superseded_is_dimmed (void)
{
  g_autoptr (PlumbTrack) track = make_resumed ();
  g_autoptr (PlumbPlot) plot = plumb_plot_new (make_spec (track));
  cairo_surface_t *surface = draw (plot, 2);
  double x = 2 * plumb_scale_to_pixel (plumb_plot_get_x_scale (plot), 150);
  int old = 0, current = 0, between = 0;

  for (int dy = -4; dy <= 4; dy++)
    {
      old = MAX (old, blue_at (surface, x,
                               2 * plumb_scale_to_pixel (plumb_plot_get_y_scale (plot), 1) + dy));
      current = MAX (current,
                     blue_at (surface, x,
                              2 * plumb_scale_to_pixel (plumb_plot_get_y_scale (plot), 0.25) + dy));
      between = MAX (
          between,
          blue_at (surface, x, 2 * plumb_scale_to_pixel (plumb_plot_get_y_scale (plot), 0.6) + dy));
    }
  g_assert_cmpint (current, >, 200);
  g_assert_cmpint (old, >, 30);
  g_assert_cmpint (old, <, 130);
  g_assert_cmpint (between, ==, 0);
  cairo_surface_destroy (surface);
}

static void
test_log_scale (void)
{
  const double values[] = { 0.001, 1, -1, 0, 1000 };
  g_autoptr (PlumbTrack) track = make_track (values, G_N_ELEMENTS (values));
  PlumbPlotSpec *spec = make_spec (track);
  g_autoptr (PlumbPlot) plot = NULL;
  const PlumbScale *y;
  cairo_surface_t *surface;

  spec->log_y = TRUE;
  plot = plumb_plot_new (spec);
  y = plumb_plot_get_y_scale (plot);
  g_assert_cmpfloat (y->min, >, 0);
  g_assert_cmpfloat (y->min, <, 0.001);
  g_assert_cmpfloat (y->max, >, 1000);
  g_assert_cmpfloat_with_epsilon (plumb_scale_to_pixel (y, 1) - plumb_scale_to_pixel (y, 1000),
                                  plumb_scale_to_pixel (y, 0.001) - plumb_scale_to_pixel (y, 1),
                                  1e-6);
  g_assert_cmpfloat_with_epsilon (plumb_scale_to_value (y, plumb_scale_to_pixel (y, 42)), 42, 1e-9);
  surface = draw (plot, 1);
  cairo_surface_destroy (surface);
}

/* Equal factors of x are equal widths; step 0 has no place there, and a spike among many points
 * stays. */
static void
test_log_x (void)
{
  enum
  {
    N = 20000
  };
  g_autofree double *values = g_new0 (double, N);
  g_autoptr (PlumbTrack) track = NULL, origin = NULL;
  g_autoptr (PlumbPlot) plot = NULL, none = NULL;
  PlumbPlotSpec *spec;
  const PlumbScale *x;
  cairo_surface_t *surface;
  int top, bottom, highest = HEIGHT;
  double first;

  values[15000] = 1;
  track = make_track (values, N);
  spec = make_spec (track);
  spec->log_x = TRUE;
  plot = plumb_plot_new (spec);
  x = plumb_plot_get_x_scale (plot);
  g_assert_true (x->log);
  g_assert_cmpfloat (x->min, ==, 1);
  g_assert_cmpfloat (x->max, ==, N - 1);
  first = plumb_scale_to_pixel (x, 10) - plumb_scale_to_pixel (x, 1);
  g_assert_cmpfloat_with_epsilon (plumb_scale_to_pixel (x, 1000) - plumb_scale_to_pixel (x, 100),
                                  first, 1e-9);
  surface = draw (plot, 1);
  for (int k = -1; k <= 1; k++)
    {
      find_line (surface, plot, (int)plumb_scale_to_pixel (x, 15000) + k, &top, &bottom);
      highest = top >= 0 ? MIN (highest, top) : highest;
    }
  g_assert_cmpfloat_with_epsilon (highest, plumb_scale_to_pixel (plumb_plot_get_y_scale (plot), 1),
                                  2);
  cairo_surface_destroy (surface);

  /* Where nothing lies above zero the axis stays as it was. */
  origin = make_track (values, 1);
  spec = make_spec (origin);
  spec->log_x = TRUE;
  none = plumb_plot_new (spec);
  g_assert_false (plumb_plot_get_x_scale (none)->log);
  surface = draw (none, 1);
  cairo_surface_destroy (surface);
}

static void
test_nothing_to_draw (void)
{
  g_autoptr (PlumbTrack) track = plumb_track_new ();
  g_autoptr (PlumbPlot) none = plumb_plot_new (make_spec (NULL));
  g_autoptr (PlumbPlot) empty = plumb_plot_new (make_spec (track));
  g_autoptr (GArray) readings = plumb_plot_read (empty, 3);
  cairo_surface_t *surface = draw (empty, 1);

  g_assert_false (plumb_plot_has_points (none));
  g_assert_false (plumb_plot_has_points (empty));
  g_assert_true (isnan (plumb_plot_snap (empty, 3, 0)));
  g_assert_cmpuint (readings->len, ==, 0);
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++)
      g_assert_cmphex (pixel (surface, x, y), ==, 0);
  cairo_surface_destroy (surface);
}

/* The readout has the value as it was measured, to the last bit, at any zoom. */
static void
test_reading_is_exact (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (5);
  double values[5000];
  g_autoptr (PlumbTrack) track = NULL;
  PlumbPlotSpec *spec;
  g_autoptr (PlumbPlot) plot = NULL;

  for (int i = 0; i < 5000; i++)
    values[i] = g_rand_double (random);
  track = make_track (values, 5000);
  spec = make_spec (track);
  spec->smoothing = 0.9;
  plot = plumb_plot_new (spec);
  for (int i = 0; i < 500; i++)
    {
      double pixel_x = g_rand_double_range (random, 0, WIDTH);
      double x = plumb_plot_snap (plot,
                                  plumb_scale_to_value (plumb_plot_get_x_scale (plot), pixel_x), 0);
      g_autoptr (GArray) readings = plumb_plot_read (plot, x);
      const PlumbPlotReading *reading;

      g_assert_cmpuint (readings->len, ==, 1);
      reading = &g_array_index (readings, PlumbPlotReading, 0);
      g_assert_cmpfloat (reading->point.value, ==, values[reading->point.step]);
      g_assert_cmpfloat (reading->x, ==, x);
    }
  g_assert_cmpfloat (plumb_plot_snap (plot, 100.2, 1), ==, 101);
  g_assert_cmpfloat (plumb_plot_snap (plot, 100, -1000), ==, 0);
  g_assert_cmpfloat (plumb_plot_snap (plot, 4999, 10), ==, 4999);
}

static void
test_stack (void)
{
  double first[300], second[300];
  g_autoptr (PlumbTrack) one = NULL;
  g_autoptr (PlumbTrack) two = NULL;
  PlumbPlotSpec *spec = make_spec (NULL);
  g_autoptr (PlumbPlot) plot = NULL;
  cairo_surface_t *surface;
  const PlumbScale *x, *y;

  for (int i = 0; i < 300; i++)
    first[i] = 1, second[i] = 2;
  one = make_track (first, 300);
  two = make_track (second, 300);
  plumb_plot_spec_add (spec, one, "one", "s", PLUMB_PLOT_STACK, 0);
  plumb_plot_spec_add (spec, two, "two", "s", PLUMB_PLOT_STACK, 1);
  plot = plumb_plot_new (spec);
  x = plumb_plot_get_x_scale (plot);
  y = plumb_plot_get_y_scale (plot);
  g_assert_cmpfloat (y->min, ==, 0);
  g_assert_cmpfloat (y->max, >, 3);
  surface = draw (plot, 1);
  g_assert_cmpint (blue_at (surface, plumb_scale_to_pixel (x, 150), plumb_scale_to_pixel (y, 0.5)),
                   >, 150);
  g_assert_cmpint (
      (pixel (surface, plumb_scale_to_pixel (x, 150), plumb_scale_to_pixel (y, 2)) >> 8) & 0xff, >,
      150);
  g_assert_cmphex (pixel (surface, plumb_scale_to_pixel (x, 150), plumb_scale_to_pixel (y, 3.05)),
                   ==, 0);
  cairo_surface_destroy (surface);
}

static void
test_export (void)
{
  g_autoptr (PlumbTrack) track = make_resumed ();
  g_autoptr (PlumbPlot) plot = plumb_plot_new (make_spec (track));
  g_autofree char *csv = plumb_plot_to_csv (plot);
  g_auto (GStrv) lines = g_strsplit (csv, "\n", -1);
  g_autofree char *folder = g_dir_make_tmp ("plumb-plot-XXXXXX", NULL);
  g_autofree char *svg = g_build_filename (folder, "chart.svg", NULL);
  g_autofree char *png = g_build_filename (folder, "chart.png", NULL);
  g_autofree char *nowhere = g_build_filename (folder, "none", "chart.png", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (g_strv_length (lines), ==, 1 + 4 + 13 + 1);
  g_assert_cmpstr (lines[0], ==, "attempt,step,time,superseded,value");
  g_assert_cmpstr (lines[1], ==, "1,120,1120.000,1,1");
  g_assert_cmpstr (lines[17], ==, "2,260,2260.000,0,0.25");

  g_assert_true (plumb_plot_save (plot, svg, &error));
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (svg, &text, NULL, NULL));
  g_assert_nonnull (strstr (text, "<svg"));
  g_assert_true (plumb_plot_save (plot, png, &error));
  g_assert_no_error (error);
  g_assert_false (plumb_plot_save (plot, nowhere, &error));
  g_assert_nonnull (strstr (error->message, nowhere));
  g_remove (svg);
  g_remove (png);
  g_rmdir (folder);
}

/* Odd sizes and ranges neither crash nor hang. */
static void
test_odd_sizes (void)
{
  const double values[] = { 1e300, -1e300, 1e-300, INFINITY, -INFINITY, 0, 3 };
  const int sizes[] = { 1, 2, 3, 17, 200, 3000 };
  g_autoptr (PlumbTrack) track = make_track (values, G_N_ELEMENTS (values));

  for (gsize w = 0; w < G_N_ELEMENTS (sizes); w++)
    for (gsize h = 0; h < G_N_ELEMENTS (sizes); h++)
      for (int log = 0; log < 2; log++)
        {
          PlumbPlotSpec *spec = make_spec (track);
          g_autoptr (PlumbPlot) plot = NULL;
          cairo_surface_t *surface;

          spec->width = sizes[w];
          spec->height = sizes[h];
          spec->log_y = log;
          spec->x_min = log ? 2.5 : NAN;
          spec->smoothing = 0.5;
          plot = plumb_plot_new (spec);
          surface = draw (plot, 1);
          cairo_surface_destroy (surface);
        }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plot/m4-equals-brute-force", test_m4_equals_brute_force);
  g_test_add_func ("/plot/smoothing", test_smoothing);
  g_test_add_func ("/plot/resumed-run", test_resumed_run);
  g_test_add_func ("/plot/clock-goes-back", test_clock_goes_back);
  g_test_add_func ("/plot/linear-ticks", test_linear_ticks);
  g_test_add_func ("/plot/other-ticks", test_other_ticks);
  g_test_add_func ("/plot/numbers", test_numbers);
  g_test_add_func ("/plot/polyline", test_draws_polyline);
  g_test_add_func ("/plot/keeps-spikes", test_keeps_spikes);
  g_test_add_func ("/plot/columns-match-strokes", test_columns_match_strokes);
  g_test_add_func ("/plot/gap-and-marker", test_gap_and_marker);
  g_test_add_func ("/plot/superseded-is-dimmed", test_superseded_is_dimmed);
  g_test_add_func ("/plot/log-scale", test_log_scale);
  g_test_add_func ("/plot/log-x", test_log_x);
  g_test_add_func ("/plot/nothing-to-draw", test_nothing_to_draw);
  g_test_add_func ("/plot/reading-is-exact", test_reading_is_exact);
  g_test_add_func ("/plot/stack", test_stack);
  g_test_add_func ("/plot/export", test_export);
  g_test_add_func ("/plot/odd-sizes", test_odd_sizes);
  return g_test_run ();
}
