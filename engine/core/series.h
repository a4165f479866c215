/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/telemetry-reader.h"

G_BEGIN_DECLS

/* The points of one metric, over all attempts of a run. A resumed attempt supersedes what earlier
 * attempts wrote at or above the step that it started from: superseded points are kept apart.
 * Within one attempt a later value of the same step replaces the earlier one. Points without a step
 * are ordered by seq. */
typedef struct _PlumbSeries PlumbSeries;

PlumbSeries *plumb_series_new (void);
void plumb_series_free (PlumbSeries *series);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbSeries, plumb_series_free)

/* Attempts may come in any order, before or after their points. */
void plumb_series_add_attempt (PlumbSeries *series, gint64 attempt, gint64 from_step);
void plumb_series_add_points (PlumbSeries *series, const PlumbPoint *points, gsize n);

/* The current line: steps strictly increasing. Valid until the next add. */
const PlumbPoint *plumb_series_current (PlumbSeries *series, gsize *n);
/* What was superseded, by attempt and step: to be drawn dimmed, each attempt a line of its own. */
const PlumbPoint *plumb_series_superseded (PlumbSeries *series, gsize *n);

/* Seconds since the first point, never decreasing: differences below zero count as none. `elapsed`
 * has room for n. */
void plumb_points_elapsed (const PlumbPoint *points, gsize n, double *elapsed);

/* Exponential moving average with weight `smoothing` of the past, corrected for its start; NaN
 * points stay NaN and leave the average. `out` has room for n. */
void plumb_points_smooth (const PlumbPoint *points, gsize n, double smoothing, double *out);

G_END_DECLS
