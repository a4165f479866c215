/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include "app/plot-curve.h"
#include "app/plot-reduce.h"

static gsize
drop_stepless (PlumbPoint *points, gsize n)
{
  gsize kept = 0;

  for (gsize i = 0; i < n; i++)
    if (points[i].step != PLUMB_NO_STEP)
      points[kept++] = points[i];
  return kept;
}

static double *
lay_out (const PlumbPoint *points, gsize n, PlumbPlotX x_axis, double origin)
{
  double *x = g_new (double, n);

  if (x_axis == PLUMB_PLOT_X_STEP)
    {
      for (gsize i = 0; i < n; i++)
        x[i] = points[i].step;
    }
  else if (n > 0)
    {
      plumb_points_elapsed (points, n, x);
      for (gsize i = 0; i < n; i++)
        x[i] += MAX (points[0].time - origin, 0);
    }
  return x;
}

static double *
take_values (const PlumbPoint *points, gsize n)
{
  double *values = g_new (double, n);

  for (gsize i = 0; i < n; i++)
    values[i] = points[i].value;
  return values;
}

/* Superseded attempts are drawn apart, so that their times start at their own first points. */
static double *
lay_out_old (const PlumbPoint *points, gsize n, PlumbPlotX x_axis, double origin)
{
  double *x = lay_out (points, n, x_axis, origin);

  if (x_axis == PLUMB_PLOT_X_ELAPSED)
    for (gsize i = 0; i < n; i++)
      x[i] = MAX (points[i].time - origin, 0);
  return x;
}

PlumbCurve *
plumb_curve_new (PlumbTrack *track, PlumbPlotX x_axis, double origin, double smoothing)
{
  PlumbCurve *self = g_new0 (PlumbCurve, 1);

  self->points = plumb_track_copy_current (track, &self->n);
  self->old_points = plumb_track_copy_superseded (track, &self->n_old);
  if (x_axis == PLUMB_PLOT_X_STEP)
    {
      self->n = drop_stepless (self->points, self->n);
      self->n_old = drop_stepless (self->old_points, self->n_old);
    }

  self->x = lay_out (self->points, self->n, x_axis, origin);
  self->raw = take_values (self->points, self->n);
  self->smoothed = g_new (double, self->n);
  plumb_points_smooth (self->points, self->n, smoothing, self->smoothed);
  for (gsize i = 0; i < self->n; i++)
    self->n_nonfinite += !isfinite (self->raw[i]);

  self->old_x = lay_out_old (self->old_points, self->n_old, x_axis, origin);
  self->old_raw = take_values (self->old_points, self->n_old);
  return self;
}

void
plumb_curve_free (PlumbCurve *self)
{
  if (self == NULL)
    return;
  g_free (self->points);
  g_free (self->x);
  g_free (self->raw);
  g_free (self->smoothed);
  g_free (self->old_points);
  g_free (self->old_x);
  g_free (self->old_raw);
  g_free (self);
}

gsize
plumb_curve_find (const PlumbCurve *self, double x)
{
  gsize i;

  if (self->n == 0)
    return 0;
  i = plumb_lower_bound (self->x, self->n, x);
  if (i == self->n)
    return self->n - 1;
  if (i > 0 && x - self->x[i - 1] <= self->x[i] - x)
    return i - 1;
  return i;
}
