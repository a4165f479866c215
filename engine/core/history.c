/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/core/history.h"

PlumbHistory *
plumb_history_new (void)
{
  PlumbHistory *history = g_new0 (PlumbHistory, 1);

  history->points = g_array_new (FALSE, FALSE, sizeof (PlumbHistoryPoint));
  history->writers = g_array_new (FALSE, FALSE, sizeof (guint));
  history->names = g_string_chunk_new (1024);
  history->notes = g_ptr_array_new_with_free_func (g_free);
  return history;
}

void
plumb_history_free (PlumbHistory *history)
{
  g_array_unref (history->points);
  g_array_unref (history->writers);
  g_ptr_array_unref (history->notes);
  g_string_chunk_free (history->names);
  g_free (history);
}

void
plumb_history_begin_writer (PlumbHistory *history)
{
  g_array_append_val (history->writers, history->points->len);
}

void
plumb_history_add (PlumbHistory *history, const char *metric, gint64 step, double time, double value)
{
  PlumbHistoryPoint point = { g_string_chunk_insert_const (history->names, metric), step, time, value };

  g_array_append_val (history->points, point);
}

void
plumb_history_note (PlumbHistory *history, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_ptr_array_add (history->notes, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

/* What was seen of a metric since the last start. */
typedef struct
{
  guint writer;      /* of its last point */
  gint64 last;       /* its highest step */
  GHashTable *steps; /* set of gint64 */
} Seen;

static void
seen_free (gpointer data)
{
  Seen *seen = data;

  g_hash_table_unref (seen->steps);
  g_free (seen);
}

static void
see (GHashTable *metrics, const PlumbHistoryPoint *point, guint writer)
{
  Seen *seen = g_hash_table_lookup (metrics, point->metric);

  if (seen == NULL)
    {
      seen = g_new0 (Seen, 1);
      seen->last = point->step;
      seen->steps = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
      g_hash_table_insert (metrics, (gpointer)point->metric, seen);
    }
  seen->writer = writer;
  seen->last = MAX (seen->last, point->step);
  g_hash_table_add (seen->steps, g_memdup2 (&point->step, sizeof point->step));
}

static gboolean
begins_anew (const Seen *seen, const PlumbHistoryPoint *point, guint writer)
{
  if (seen == NULL)
    return FALSE;
  if (seen->writer != writer)
    return point->step <= seen->last;
  return point->step < seen->last && g_hash_table_contains (seen->steps, &point->step);
}

static void
add_attempt (GArray *attempts, gint64 from_step, guint first)
{
  PlumbHistoryAttempt attempt = { from_step, first };

  g_array_append_val (attempts, attempt);
}

GArray *
plumb_history_attempts (const PlumbHistory *history)
{
  GArray *attempts = g_array_new (FALSE, FALSE, sizeof (PlumbHistoryAttempt));
  g_autoptr (GHashTable) metrics = g_hash_table_new_full (NULL, NULL, NULL, seen_free);
  guint writer = 0, writer_start = 0;

  add_attempt (attempts, 0, 0);
  for (guint i = 0; i < history->points->len; i++)
    {
      const PlumbHistoryPoint *point = &g_array_index (history->points, PlumbHistoryPoint, i);
      const Seen *seen = g_hash_table_lookup (metrics, point->metric);

      while (writer < history->writers->len && g_array_index (history->writers, guint, writer) <= i)
        writer_start = g_array_index (history->writers, guint, writer++);
      if (begins_anew (seen, point, writer))
        {
          add_attempt (attempts, point->step, seen->writer != writer ? writer_start : i);
          g_hash_table_remove_all (metrics);
        }
      see (metrics, point, writer);
    }
  return attempts;
}
