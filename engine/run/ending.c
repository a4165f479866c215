/* SPDX-License-Identifier: Apache-2.0 */

/* What ends a run before its last step: conditions on metrics, and times. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/stop-rules.h"
#include "engine/run/run-private.h"

#define HOUR 3600

gboolean
plumb_run_open_ending (PlumbRun *run, GError **error)
{
  g_auto (GStrv) rules = plumb_spec_get_list (run->spec, "schedule.stop_if");
  const char *at = plumb_spec_get_text (run->spec, "schedule.stop_at");
  double hours = plumb_spec_get_real (run->spec, "schedule.max_hours");
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  run->stop_rules = g_ptr_array_new_with_free_func ((GDestroyNotify) plumb_stop_rule_free);
  for (gsize i = 0; rules[i]; i++)
    {
      PlumbStopRule *rule = plumb_stop_rule_parse (rules[i], error);
      if (!rule)
        return FALSE;
      g_ptr_array_add (run->stop_rules, rule);
    }
  run->deadline = hours > 0 ? now + (gint64) (hours * HOUR - run->status->spent) : G_MAXINT64;
  if (at && *at && !g_str_equal (at, "off"))
    {
      gint64 when;
      if (!plumb_stop_time_parse (at, now, &when, error))
        return FALSE;
      run->deadline = MIN (run->deadline, when);
    }
  return TRUE;
}

void
plumb_run_see_metric (PlumbRun *run, const char *metric, double value)
{
  for (guint i = 0; i < run->stop_rules->len; i++)
    {
      PlumbStopRule *rule = g_ptr_array_index (run->stop_rules, i);
      if (!plumb_stop_rule_see (rule, metric, value) || run->fulfilled)
        continue;
      run->fulfilled = TRUE;
      plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "stop-if", run->position.step,
                             "%s is %g after %u values in a row: schedule.stop_if ends the run", metric, value,
                             rule->times);
      plumb_progress_say (run->progress, "schedule.stop_if: %s = %g", metric, value);
    }
}

gboolean
plumb_run_is_out_of_time (PlumbRun *run)
{
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  /* The next step and its checkpoint must be done by then. */
  if ((double) now + 1.5 * run->step_average < (double) run->deadline)
    return FALSE;
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "stop-at", run->position.step,
                         "another step might not end before the time of schedule.stop_at or max_hours");
  plumb_progress_say (run->progress, "the time of schedule.stop_at or schedule.max_hours has come");
  return TRUE;
}
