/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/plot-track.h"
#include "app/reader.h"
#include "engine/core/metrics.h"
#include "engine/core/spec.h"

G_BEGIN_DECLS

/* A phase of a worker, for the timeline. The strings are interned. */
typedef struct
{
  const char *worker;
  const char *name;
  gint64 step;
  double start, end; /* seconds since 1970 */
} PlumbRunPhase;

/* An event of a run as an item of a list. */
#define PLUMB_TYPE_EVENT_ITEM (plumb_event_item_get_type ())
G_DECLARE_FINAL_TYPE (PlumbEventItem, plumb_event_item, PLUMB, EVENT_ITEM, GObject)

PlumbEventLevel plumb_event_item_get_level (PlumbEventItem *self);
const char *plumb_event_item_get_kind (PlumbEventItem *self);
const char *plumb_event_item_get_message (PlumbEventItem *self);
gint64 plumb_event_item_get_step (PlumbEventItem *self);
double plumb_event_item_get_time (PlumbEventItem *self);

/* A run as the window knows it: its state, and all rows of its telemetry once it has been visible.
 * Signals: "changed" (state, step, name), "rows" (new rows have been added). */
#define PLUMB_TYPE_RUN (plumb_run_get_type ())
G_DECLARE_FINAL_TYPE (PlumbRun, plumb_run, PLUMB, RUN, GObject)

PlumbRun *plumb_run_new (PlumbReader *reader, const char *path);

const char *plumb_run_get_path (PlumbRun *self);
const char *plumb_run_get_title (PlumbRun *self);
/* NULL until it has been read for the first time. */
const PlumbRunInfo *plumb_run_get_info (PlumbRun *self);
gboolean plumb_run_is_alive (PlumbRun *self);
PlumbAlgorithm plumb_run_get_algorithm (PlumbRun *self);
/* Its resolved settings; NULL until it has been visible. */
PlumbSpec *plumb_run_get_spec (PlumbRun *self);
/* Why its telemetry cannot be read; NULL: it can. */
const char *plumb_run_get_trouble (PlumbRun *self);
/* TRUE once what its first charts had when it became visible is here. */
gboolean plumb_run_is_loaded (PlumbRun *self);

/* Its place in the list of runs. */
guint plumb_run_get_rank (PlumbRun *self);
void plumb_run_set_rank (PlumbRun *self, guint rank);

/* Its telemetry is read only while visible. */
void plumb_run_set_visible (PlumbRun *self, gboolean visible);
void plumb_run_refresh (PlumbRun *self);

/* The track of a metric; NULL while it has no point. */
PlumbTrack *plumb_run_get_track (PlumbRun *self, const char *metric);
gboolean plumb_run_get_last (PlumbRun *self, const char *metric, PlumbPoint *last);
guint plumb_run_count_metrics (PlumbRun *self);
/* Names of all metrics with points, sorted. (transfer container) */
GPtrArray *plumb_run_list_metrics (PlumbRun *self);

/* Seconds since 1970 of the first attempt's start; 0 while there is none. */
double plumb_run_get_origin (PlumbRun *self);
GListModel *plumb_run_get_events (PlumbRun *self);
GArray *plumb_run_get_phases (PlumbRun *self);

G_END_DECLS
