/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include "engine/core/series.h"

typedef struct
{
  gint64 attempt, from_step;
} Start;

struct _PlumbSeries
{
  GArray *starts; /* of Start */
  GArray *all;    /* of PlumbPoint, as they came */
  GArray *current, *superseded;
  gsize merged;   /* how many of `all` the last two hold */
  gboolean stale; /* they must be made anew */
};

PlumbSeries *
plumb_series_new (void)
{
  PlumbSeries *series = g_new0 (PlumbSeries, 1);

  series->starts = g_array_new (FALSE, FALSE, sizeof (Start));
  series->all = g_array_new (FALSE, FALSE, sizeof (PlumbPoint));
  series->current = g_array_new (FALSE, FALSE, sizeof (PlumbPoint));
  series->superseded = g_array_new (FALSE, FALSE, sizeof (PlumbPoint));
  return series;
}

void
plumb_series_free (PlumbSeries *series)
{
  g_array_unref (series->starts);
  g_array_unref (series->all);
  g_array_unref (series->current);
  g_array_unref (series->superseded);
  g_free (series);
}

void
plumb_series_add_attempt (PlumbSeries *series, gint64 attempt, gint64 from_step)
{
  Start start = { attempt, from_step };

  for (guint i = 0; i < series->starts->len; i++)
    if (g_array_index (series->starts, Start, i).attempt == attempt)
      return;
  g_array_append_val (series->starts, start);
  series->stale = TRUE;
}

void
plumb_series_add_points (PlumbSeries *series, const PlumbPoint *points, gsize n)
{
  g_array_append_vals (series->all, points, n);
}

/* Has a later attempt started at or below the step of this point? A point without a step cannot be
 * started over. */
static gboolean
is_superseded (PlumbSeries *series, const PlumbPoint *point)
{
  if (point->step == PLUMB_NO_STEP)
    return FALSE;
  for (guint i = 0; i < series->starts->len; i++)
    {
      const Start *start = &g_array_index (series->starts, Start, i);

      if (start->attempt > point->attempt && start->from_step <= point->step)
        return TRUE;
    }
  return FALSE;
}

static int
compare_numbers (gint64 a, gint64 b)
{
  return (a > b) - (a < b);
}

static int
by_step (gconstpointer a, gconstpointer b)
{
  const PlumbPoint *p = a, *q = b;
  int order = compare_numbers (p->step, q->step);

  return order != 0 ? order : compare_numbers (p->seq, q->seq);
}

static int
by_attempt (gconstpointer a, gconstpointer b)
{
  const PlumbPoint *p = a, *q = b;
  int order = compare_numbers (p->attempt, q->attempt);

  return order != 0 ? order : by_step (a, b);
}

/* Of several neighbours of one step (and, if asked, one attempt) the last written stays. */
static void
drop_repeats (GArray *points, gboolean within_attempt)
{
  guint kept = 0;

  for (guint i = 0; i < points->len; i++)
    {
      const PlumbPoint *point = &g_array_index (points, PlumbPoint, i);
      const PlumbPoint *next = i + 1 < points->len ? point + 1 : NULL;

      if (next != NULL && next->step == point->step && point->step != PLUMB_NO_STEP
          && (!within_attempt || next->attempt == point->attempt))
        continue;
      g_array_index (points, PlumbPoint, kept++) = *point;
    }
  g_array_set_size (points, kept);
}

static void
merge_anew (PlumbSeries *series)
{
  g_array_set_size (series->current, 0);
  g_array_set_size (series->superseded, 0);
  for (guint i = 0; i < series->all->len; i++)
    {
      const PlumbPoint *point = &g_array_index (series->all, PlumbPoint, i);

      g_array_append_vals (is_superseded (series, point) ? series->superseded : series->current,
                           point, 1);
    }
  g_array_sort (series->current, by_step);
  g_array_sort (series->superseded, by_attempt);
  drop_repeats (series->current, FALSE);
  drop_repeats (series->superseded, TRUE);
  series->merged = series->all->len;
  series->stale = FALSE;
}

/* The usual case: new points follow the last one, so that they are only appended. */
static gboolean
append_new (PlumbSeries *series)
{
  while (series->merged < series->all->len)
    {
      const PlumbPoint *point = &g_array_index (series->all, PlumbPoint, series->merged);
      const PlumbPoint *last
          = series->current->len > 0
                ? &g_array_index (series->current, PlumbPoint, series->current->len - 1)
                : NULL;

      if (is_superseded (series, point)
          || (last != NULL
              && (point->seq <= last->seq || point->step < last->step
                  || (point->step == last->step && point->step != PLUMB_NO_STEP))))
        return FALSE;
      g_array_append_vals (series->current, point, 1);
      series->merged++;
    }
  return TRUE;
}

static void
merge (PlumbSeries *series)
{
  if (series->stale || !append_new (series))
    merge_anew (series);
}

const PlumbPoint *
plumb_series_current (PlumbSeries *series, gsize *n)
{
  merge (series);
  *n = series->current->len;
  return (gpointer)series->current->data;
}

const PlumbPoint *
plumb_series_superseded (PlumbSeries *series, gsize *n)
{
  merge (series);
  *n = series->superseded->len;
  return (gpointer)series->superseded->data;
}

void
plumb_points_elapsed (const PlumbPoint *points, gsize n, double *elapsed)
{
  for (gsize i = 0; i < n; i++)
    {
      double difference = i > 0 ? points[i].time - points[i - 1].time : 0;

      elapsed[i] = (i > 0 ? elapsed[i - 1] : 0) + (difference > 0 ? difference : 0);
    }
}

void
plumb_points_smooth (const PlumbPoint *points, gsize n, double smoothing, double *out)
{
  double average = 0, weight = 0;

  for (gsize i = 0; i < n; i++)
    {
      if (!isfinite (points[i].value))
        {
          out[i] = points[i].value;
          continue;
        }
      average = smoothing * average + (1 - smoothing) * points[i].value;
      weight = smoothing * weight + (1 - smoothing);
      out[i] = weight > 0 ? average / weight : points[i].value;
    }
}
