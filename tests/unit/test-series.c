/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>

#include "engine/core/series.h"

static gint64 last_seq;

static PlumbPoint
point (gint64 attempt, gint64 step, double value)
{
  return (PlumbPoint){ .seq = ++last_seq, .attempt = attempt, .step = step, .value = value };
}

static void
add_range (PlumbSeries *series, gint64 attempt, gint64 first, gint64 last, gint64 by)
{
  for (gint64 step = first; step <= last; step += by)
    {
      PlumbPoint p
          = point (attempt, step, attempt == 1 ? 100.0 / (50 + step) : 100.0 / (130 + step));

      plumb_series_add_points (series, &p, 1);
    }
}

/* Resumed at step 120 after 180: steps 120 to 180 exist twice. */
static void
test_resumed (gconstpointer data)
{
  gboolean late = GPOINTER_TO_INT (data);
  g_autoptr (PlumbSeries) series = plumb_series_new ();
  const PlumbPoint *points;
  gsize n;

  if (!late)
    {
      plumb_series_add_attempt (series, 1, 0);
      plumb_series_add_attempt (series, 2, 120);
    }
  add_range (series, 1, 20, 180, 20);
  plumb_series_current (series, &n);
  g_assert_cmpuint (n, ==, late ? 9 : 5);
  add_range (series, 2, 120, 260, 20);
  if (late)
    {
      plumb_series_add_attempt (series, 2, 120);
      plumb_series_add_attempt (series, 1, 0);
    }
  points = plumb_series_current (series, &n);
  g_assert_cmpuint (n, ==, 13);
  for (gsize i = 0; i < n; i++)
    {
      g_assert_cmpint (points[i].step, ==, 20 + 20 * (gint64)i);
      g_assert_cmpint (points[i].attempt, ==, points[i].step < 120 ? 1 : 2);
    }
  g_assert_cmpfloat_with_epsilon (points[7].value, 100.0 / 290, 1e-12);
  points = plumb_series_superseded (series, &n);
  g_assert_cmpuint (n, ==, 4);
  for (gsize i = 0; i < n; i++)
    {
      g_assert_cmpint (points[i].step, ==, 120 + 20 * (gint64)i);
      g_assert_cmpint (points[i].attempt, ==, 1);
    }
}

static void
test_repeats_and_disorder (void)
{
  const gint64 steps[] = { 1, 2, 3, 6, 5, 4, 7, 8, 2 };
  g_autoptr (PlumbSeries) series = plumb_series_new ();
  const PlumbPoint *points;
  gsize n;

  plumb_series_add_attempt (series, 1, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      PlumbPoint p = point (1, steps[i], i);

      plumb_series_add_points (series, &p, 1);
    }
  points = plumb_series_current (series, &n);
  g_assert_cmpuint (n, ==, 8);
  for (gsize i = 0; i < n; i++)
    g_assert_cmpint (points[i].step, ==, (gint64)i + 1);
  g_assert_cmpfloat (points[1].value, ==, 8); /* the later value of the step */
  plumb_series_superseded (series, &n);
  g_assert_cmpuint (n, ==, 0);
}

static void
test_without_steps (void)
{
  g_autoptr (PlumbSeries) series = plumb_series_new ();
  gsize n;

  for (int i = 0; i < 3; i++)
    {
      PlumbPoint p = point (1, PLUMB_NO_STEP, i);

      plumb_series_add_points (series, &p, 1);
    }
  plumb_series_add_attempt (series, 2, 0);
  plumb_series_current (series, &n);
  g_assert_cmpuint (n, ==, 3);
}

static void
test_elapsed (void)
{
  const double times[] = { 100, 110, 120, 60, 70, 86470, 86470 };
  const double expected[] = { 0, 10, 20, 20, 30, 86430, 86430 };
  PlumbPoint points[G_N_ELEMENTS (times)];
  double elapsed[G_N_ELEMENTS (times)];

  for (gsize i = 0; i < G_N_ELEMENTS (times); i++)
    points[i] = (PlumbPoint){ .time = times[i] };
  plumb_points_elapsed (points, G_N_ELEMENTS (times), elapsed);
  for (gsize i = 0; i < G_N_ELEMENTS (times); i++)
    g_assert_cmpfloat (elapsed[i], ==, expected[i]);
}

static void
test_smooth (void)
{
  const double values[] = { 1.428571, 1.111111, NAN, 0.909091 };
  const double expected[] = { 1.428571, 1.230158, NAN, 1.066349 };
  PlumbPoint points[G_N_ELEMENTS (values)];
  double out[G_N_ELEMENTS (values)];

  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    points[i] = (PlumbPoint){ .value = values[i] };
  plumb_points_smooth (points, G_N_ELEMENTS (values), 0.6, out);
  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    if (isnan (expected[i]))
      g_assert_true (isnan (out[i]));
    else
      g_assert_cmpfloat_with_epsilon (out[i], expected[i], 2e-6);
  plumb_points_smooth (points, G_N_ELEMENTS (values), 0, out);
  g_assert_cmpfloat (out[1], ==, values[1]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/series/resumed", GINT_TO_POINTER (FALSE), test_resumed);
  g_test_add_data_func ("/series/resumed/attempts-late", GINT_TO_POINTER (TRUE), test_resumed);
  g_test_add_func ("/series/repeats-and-disorder", test_repeats_and_disorder);
  g_test_add_func ("/series/without-steps", test_without_steps);
  g_test_add_func ("/series/elapsed", test_elapsed);
  g_test_add_func ("/series/smooth", test_smooth);
  return g_test_run ();
}
