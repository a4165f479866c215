/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/plot-track.h"

G_BEGIN_DECLS

typedef enum
{
  PLUMB_PLOT_X_STEP,
  PLUMB_PLOT_X_ELAPSED,
} PlumbPlotX;

/* A track laid out for drawing: the current points with ascending x and their moving average (over
 * all points, before anything is reduced to pixels), and those that a later attempt superseded. */
typedef struct
{
  gsize n;
  PlumbPoint *points;
  double *x;
  double *raw;
  double *smoothed;

  gsize n_old;
  PlumbPoint *old_points;
  double *old_x;
  double *old_raw;

  gsize n_nonfinite;
} PlumbCurve;

/* Elapsed time starts at `origin`, in seconds since 1970. Points without a step have no place on an
 * axis of steps and are left out there. May run in any thread. */
PlumbCurve *plumb_curve_new (PlumbTrack *track, PlumbPlotX x_axis, double origin, double smoothing);
void plumb_curve_free (PlumbCurve *self);

/* The index of the current point nearest to x, the earlier one of two; n when there is none. */
gsize plumb_curve_find (const PlumbCurve *self, double x);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbCurve, plumb_curve_free)

G_END_DECLS
