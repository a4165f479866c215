/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec-fields.h"

G_BEGIN_DECLS

typedef enum
{
  PLUMB_BETTER_NEITHER,
  PLUMB_BETTER_UP,
  PLUMB_BETTER_DOWN,
} PlumbBetter;

typedef struct
{
  const char *name; /* "reward/mean"; one part may be a star: "reward/part" followed by any name */
  const char
      *unit; /* translatable; "" for none; "share" is shown as a percentage, "bytes" scaled */
  const char *help; /* translatable */
  PlumbBetter better;
  double smoothing; /* default weight of the moving average, 0 to 1 */
} PlumbMetric;

/* The one table of metrics. */
const PlumbMetric *plumb_metrics (gsize *n);

/* Row of a metric name, matching stars; NULL when the name is not of the table. */
const PlumbMetric *plumb_metric_find (const char *name);

const char *plumb_better_name (PlumbBetter better); /* "up", "down", "neither" */

/* FALSE for those that may differ between two runs of the same seed: time/, throughput/, hw/,
 * memory/, reward/latency_*, progress/eta. */
gboolean plumb_metric_is_deterministic (const char *name);

#define PLUMB_CHART_MAX_METRICS 8
typedef struct
{
  const char *title;                            /* translatable */
  const char *metrics[PLUMB_CHART_MAX_METRICS]; /* NULL-terminated; the first is the main one; may
                                                   hold stars */
  gboolean stacked;                             /* areas on top of each other (times) */
  const char *note;      /* translatable sentence under the chart; NULL: none */
  const char *needs_key; /* a spec key that means "not measured" where it is off; NULL: none */
} PlumbChart;

/* Charts in their default order. */
const PlumbChart *plumb_charts (PlumbAlgorithm algorithm, gsize *n);

G_END_DECLS
