/* SPDX-License-Identifier: Apache-2.0 */
/* Plots without labels, so that no font matters, against pictures that were looked at once and
 * stored. With RENEW_GOLDENS=1 in the environment the program writes them anew instead: look at
 * them before they are committed. What differs is left as GOLDEN-is.png in the current folder. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "app/plot.h"

#define WIDTH 320
#define HEIGHT 160
#define MOST_OFF 40        /* of 255 that a channel may be off: how edges are smoothed varies */
#define MOST_DIFFERENT 100 /* of 51,200 pixels that may be off by more */

/* What is done wrong on purpose. */
typedef enum
{
  RIGHT,
  VALUES_SCALED,
  LINE_MISSING,
  COLORS_EXCHANGED,
  SHIFTED,
} Fault;

typedef PlumbPlotSpec *(*Build) (Fault fault);

static PlumbPlotSpec *
new_spec (void)
{
  static const PlumbColor palette[]
      = { { 0.11, 0.44, 0.85, 1 }, { 0.78, 0.27, 0, 1 }, { 0.1, 0.5, 0.3, 1 } };
  PlumbPlotSpec *spec = plumb_plot_spec_new ();

  spec->width = WIDTH;
  spec->height = HEIGHT;
  spec->bare = TRUE;
  spec->style.text = (PlumbColor){ 0, 0, 0, 0.7 };
  spec->style.grid = (PlumbColor){ 0, 0, 0, 0.13 };
  spec->style.error = (PlumbColor){ 0.75, 0.11, 0.16, 1 };
  for (guint i = 0; i < G_N_ELEMENTS (palette); i++)
    spec->style.palette[i] = palette[i];
  return spec;
}

/* Noise that is the same everywhere. */
static double
noise (guint *state)
{
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) / (double)(1 << 24) - 0.5;
}

typedef double (*Curve) (int step, guint *state);

static PlumbTrack *
new_track (Curve curve, int n, double factor)
{
  PlumbTrack *track = plumb_track_new ();
  g_autofree PlumbPoint *points = g_new (PlumbPoint, n);
  guint state = 7;

  plumb_track_add_attempt (track, 1, 0);
  for (int i = 0; i < n; i++)
    points[i] = (PlumbPoint){ i + 1, 1, i, 1000 + 10.0 * i, factor * curve (i, &state) };
  plumb_track_add_points (track, points, n);
  return track;
}

static double
rising (int step, guint *state)
{
  return 0.4 + 0.5 * (1 - exp (-step / 30.0)) + 0.1 * noise (state);
}

static double
deviation (int step, guint *state)
{
  return 0.1 + 0.1 * exp (-step / 40.0);
}

static double
with_gaps (int step, guint *state)
{
  if (step >= 40 && step < 50)
    return NAN;
  return step == 70 ? INFINITY : pow (10, -3 + step / 25.0) * (1 + noise (state));
}

static double
with_spike (int step, guint *state)
{
  return 1 + 0.4 * noise (state) + (step == 12345 ? 3 : 0);
}

static double
falling (int step, guint *state)
{
  return 5.0 / (1 + step) + 0.05 * noise (state);
}

static double
part (int step, guint *state)
{
  return 1 + 0.5 * sin (step / 9.0) + 0.2 * noise (state);
}

static void
add (PlumbPlotSpec *spec, Curve curve, int n, Fault fault, PlumbPlotRole role, guint color)
{
  g_autoptr (PlumbTrack) track = new_track (curve, n, fault == VALUES_SCALED ? 1.05 : 1);

  if (fault == COLORS_EXCHANGED)
    color = (color + 1) % 3;
  plumb_plot_spec_add (spec, track, "curve", "", role, color);
}

/* A smoothed line with its raw one, its band, a companion, and marks of events. */
static PlumbPlotSpec *
build_line (Fault fault)
{
  const PlumbPlotEvent events[] = { { 20, 0, FALSE }, { 60, 0, TRUE } };
  PlumbPlotSpec *spec = new_spec ();

  spec->smoothing = 0.6;
  spec->from_zero = TRUE; /* so that a factor does not vanish in the scale */
  add (spec, rising, 100, fault == VALUES_SCALED ? VALUES_SCALED : fault, PLUMB_PLOT_LINE, 0);
  add (spec, deviation, 100, RIGHT, PLUMB_PLOT_BAND, 0);
  if (fault != LINE_MISSING)
    add (spec, deviation, 100, RIGHT, PLUMB_PLOT_EXTRA, 1);
  g_array_append_vals (spec->events, events, G_N_ELEMENTS (events));
  if (fault == SHIFTED)
    spec->x_min = 2;
  return spec;
}

static PlumbPlotSpec *
build_log (Fault fault)
{
  PlumbPlotSpec *spec = new_spec ();

  spec->log_y = TRUE;
  add (spec, with_gaps, 100, fault, PLUMB_PLOT_LINE, 0);
  return spec;
}

static PlumbPlotSpec *
build_log_x (Fault fault)
{
  PlumbPlotSpec *spec = new_spec ();

  spec->log_x = fault != SHIFTED;
  add (spec, falling, 2000, fault, PLUMB_PLOT_LINE, 2);
  return spec;
}

static PlumbPlotSpec *
build_columns (Fault fault)
{
  PlumbPlotSpec *spec = new_spec ();

  add (spec, with_spike, 20000, fault, PLUMB_PLOT_LINE, 0);
  return spec;
}

static PlumbPlotSpec *
build_stack (Fault fault)
{
  PlumbPlotSpec *spec = new_spec ();

  for (guint i = 0; i < (fault == LINE_MISSING ? 2 : 3); i++)
    add (spec, part, 80, fault, PLUMB_PLOT_STACK, i);
  return spec;
}

/* A second attempt goes on from step 50: what the first did from there on is dimmed. */
static PlumbPlotSpec *
build_resumed (Fault fault)
{
  g_autoptr (PlumbTrack) track = new_track (rising, 70, 1);
  PlumbPlotSpec *spec = new_spec ();
  guint state = 11;

  if (fault != LINE_MISSING)
    plumb_track_add_attempt (track, 2, 50);
  for (int i = 50; i < 100 && fault != LINE_MISSING; i++)
    {
      PlumbPoint point = { i + 100, 2, i, 3000 + 10.0 * i, 0.8 * rising (i, &state) };

      plumb_track_add_points (track, &point, 1);
    }
  plumb_plot_spec_add (spec, track, "curve", "", PLUMB_PLOT_LINE, 0);
  return spec;
}

static const struct
{
  const char *name;
  Build build;
  Fault fault; /* that its picture must not pass with */
} goldens[] = {
  { "line", build_line, VALUES_SCALED },  { "log", build_log, COLORS_EXCHANGED },
  { "log-x", build_log_x, SHIFTED },      { "columns", build_columns, COLORS_EXCHANGED },
  { "stack", build_stack, LINE_MISSING }, { "resumed", build_resumed, LINE_MISSING },
};

static cairo_surface_t *
draw (Build build, Fault fault)
{
  cairo_surface_t *surface = cairo_image_surface_create (CAIRO_FORMAT_RGB24, WIDTH, HEIGHT);
  g_autoptr (PlumbPlot) plot = plumb_plot_new (build (fault));
  cairo_t *cr = cairo_create (surface);

  cairo_set_source_rgb (cr, 1, 1, 1);
  cairo_paint (cr);
  plumb_plot_draw (plot, cr);
  cairo_destroy (cr);
  cairo_surface_flush (surface);
  return surface;
}

static char *
golden_path (const char *name)
{
  g_autofree char *file = g_strdup_printf ("%s.png", name);

  return g_test_build_filename (G_TEST_DIST, "goldens", file, NULL);
}

static int
distance (guint32 a, guint32 b)
{
  int most = 0;

  for (int shift = 0; shift < 24; shift += 8)
    most = MAX (most, abs ((int)(a >> shift & 0xff) - (int)(b >> shift & 0xff)));
  return most;
}

static guint
count_different (cairo_surface_t *a, cairo_surface_t *b)
{
  guint n = 0;

  for (int y = 0; y < HEIGHT; y++)
    {
      const guint32 *left
          = (const guint32 *)(gconstpointer)(cairo_image_surface_get_data (a)
                                             + (gsize)y * cairo_image_surface_get_stride (a));
      const guint32 *right
          = (const guint32 *)(gconstpointer)(cairo_image_surface_get_data (b)
                                             + (gsize)y * cairo_image_surface_get_stride (b));

      for (int x = 0; x < WIDTH; x++)
        n += distance (left[x], right[x]) > MOST_OFF;
    }
  return n;
}

static void
test_golden (gconstpointer data)
{
  guint i = GPOINTER_TO_UINT (data), n, n_spoiled;
  g_autofree char *path = golden_path (goldens[i].name);
  g_autofree char *is = g_strdup_printf ("%s-is.png", goldens[i].name);
  cairo_surface_t *picture = draw (goldens[i].build, RIGHT), *golden, *spoiled;

  if (g_getenv ("RENEW_GOLDENS") != NULL)
    g_assert_cmpint (cairo_surface_write_to_png (picture, path), ==, CAIRO_STATUS_SUCCESS);
  golden = cairo_image_surface_create_from_png (path);
  if (cairo_surface_status (golden) != CAIRO_STATUS_SUCCESS)
    g_error ("%s cannot be read; RENEW_GOLDENS=1 writes it", path);
  g_assert_cmpint (cairo_image_surface_get_width (golden), ==, WIDTH);
  g_assert_cmpint (cairo_image_surface_get_height (golden), ==, HEIGHT);
  n = count_different (picture, golden);
  if (n > MOST_DIFFERENT)
    cairo_surface_write_to_png (picture, is);
  g_test_message ("%s: %u pixels differ", goldens[i].name, n);
  g_assert_cmpuint (n, <=, MOST_DIFFERENT);

  /* A wrong plot is noticed, by far. */
  spoiled = draw (goldens[i].build, goldens[i].fault);
  n_spoiled = count_different (spoiled, golden);
  g_test_message ("%s, spoiled: %u pixels differ", goldens[i].name, n_spoiled);
  g_assert_cmpuint (n_spoiled, >, 3 * MOST_DIFFERENT);
  cairo_surface_destroy (spoiled);
  cairo_surface_destroy (golden);
  cairo_surface_destroy (picture);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (goldens); i++)
    {
      g_autofree char *path = g_strdup_printf ("/goldens/%s", goldens[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_golden);
    }
  return g_test_run ();
}
