/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* When a run ends before its last step: `schedule.stop_if` and `schedule.stop_at`. */

typedef enum
{
  PLUMB_OVER,          /* > */
  PLUMB_OVER_OR_EQUAL, /* >= */
  PLUMB_UNDER,         /* < */
  PLUMB_UNDER_OR_EQUAL /* <= */
} PlumbComparison;

/* "kl/reference > 0.2 for 10": true once the metric's last 10 values all are. */
typedef struct
{
  char *metric;
  PlumbComparison comparison;
  double bound;
  guint times; /* values in a row; 1 without `for` */
  guint seen;  /* so far */
} PlumbStopRule;

/* NULL with PLUMB_ERROR_INVALID, which says what is wrong and names the nearest metric. */
PlumbStopRule *plumb_stop_rule_parse (const char *text, GError **error);
void plumb_stop_rule_free (PlumbStopRule *rule);
/* One more value of a metric; whether the rule is fulfilled now. */
gboolean plumb_stop_rule_see (PlumbStopRule *rule, const char *metric, double value);

/* "18:00" (the next time that the clock shows it) or "2026-12-01 06:30", local time, as seconds since 1970. */
gboolean plumb_stop_time_parse (const char *text, gint64 now, gint64 *when, GError **error);

G_END_DECLS
