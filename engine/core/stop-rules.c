/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/core/metrics.h"
#include "engine/core/spec-fields.h"
#include "engine/core/stop-rules.h"

static gboolean
find_comparison (const char *word, PlumbComparison *comparison)
{
  static const char *const words[] = { ">", ">=", "<", "<=" };

  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_equal (word, words[i]))
      {
        *comparison = i;
        return TRUE;
      }
  return FALSE;
}

static gboolean
check_metric (const char *name, GError **error)
{
  gsize n;
  const PlumbMetric *metrics = plumb_metrics (&n);
  g_autofree const char **names = g_new0 (const char *, n);
  const char *nearest;

  if (plumb_metric_find (name) != NULL)
    return TRUE;
  for (gsize i = 0; i < n; i++)
    names[i] = metrics[i].name;
  nearest = plumb_nearest_word (name, names, n);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "there is no metric %s%s%s%s", name,
               nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
               nearest != NULL ? "?" : "");
  return FALSE;
}

PlumbStopRule *
plumb_stop_rule_parse (const char *text, GError **error)
{
  g_autofree char *stripped = g_strstrip (g_strdup (text));
  g_auto (GStrv) words = g_regex_split_simple ("\\s+", stripped, 0, 0);
  guint n = g_strv_length (words);
  PlumbStopRule rule = { .times = 1 };
  gint64 times = 1;
  char *end = NULL;

  if ((n != 3 && n != 5) || !find_comparison (words[1], &rule.comparison)
      || (n == 5 && !g_str_equal (words[3], "for")))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "\"%s\" is no condition; write: metric > number, or: metric > number for 10", text);
      return NULL;
    }
  rule.bound = g_ascii_strtod (words[2], &end);
  if (*end != '\0' || !isfinite (rule.bound)
      || (n == 5 && !g_ascii_string_to_signed (words[4], 10, 1, 1000000, &times, NULL)))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "\"%s\": %s is no number that can stand there",
                   text, *end != '\0' || n == 3 ? words[2] : words[4]);
      return NULL;
    }
  if (!check_metric (words[0], error))
    return NULL;
  rule.metric = g_strdup (words[0]);
  rule.times = times;
  return g_memdup2 (&rule, sizeof rule);
}

void
plumb_stop_rule_free (PlumbStopRule *rule)
{
  g_free (rule->metric);
  g_free (rule);
}

gboolean
plumb_stop_rule_see (PlumbStopRule *rule, const char *metric, double value)
{
  gboolean holds = FALSE;

  if (!g_pattern_match_simple (rule->metric, metric))
    return FALSE;
  switch (rule->comparison)
    {
    case PLUMB_OVER:
      holds = value > rule->bound;
      break;
    case PLUMB_OVER_OR_EQUAL:
      holds = value >= rule->bound;
      break;
    case PLUMB_UNDER:
      holds = value < rule->bound;
      break;
    case PLUMB_UNDER_OR_EQUAL:
      holds = value <= rule->bound;
      break;
    }
  rule->seen = holds ? rule->seen + 1 : 0;
  return rule->seen >= rule->times;
}

gboolean
plumb_stop_time_parse (const char *text, gint64 now, gint64 *when, GError **error)
{
  g_autoptr (GDateTime) present = g_date_time_new_from_unix_local (now);
  g_autoptr (GDateTime) then = NULL;
  g_autoptr (GRegex) form = g_regex_new ("^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[ T])?(\\d\\d?):(\\d\\d)$", 0, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;

  if (g_regex_match (form, text, 0, &match))
    {
      int parts[5];

      for (int i = 0; i < 5; i++)
        {
          g_autofree char *part = g_match_info_fetch (match, i + 1);

          parts[i] = *part != '\0' ? atoi (part) : -1;
        }
      then = g_date_time_new_local (parts[0] < 0 ? g_date_time_get_year (present) : parts[0],
                                    parts[0] < 0 ? g_date_time_get_month (present) : parts[1],
                                    parts[0] < 0 ? g_date_time_get_day_of_month (present) : parts[2],
                                    parts[3], parts[4], 0);
      if (then != NULL && parts[0] < 0 && g_date_time_to_unix (then) <= now)
        {
          GDateTime *tomorrow = g_date_time_add_days (then, 1);

          g_date_time_unref (then);
          then = tomorrow;
        }
    }
  if (then == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "\"%s\" is no time; write 18:00 or 2026-12-01 06:30", text);
      return FALSE;
    }
  *when = g_date_time_to_unix (then);
  if (*when > now)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "\"%s\" lies in the past", text);
  return FALSE;
}
