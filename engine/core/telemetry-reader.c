/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <sys/stat.h>

#include "engine/core/database.h"
#include "engine/core/error.h"
#include "engine/core/telemetry-reader.h"

typedef struct
{
  PlumbChunk chunk;
  gatomicrefcount refs;
} Chunk;

typedef struct
{
  gint64 metric;
  char *name, *unit;
  gboolean selected;
} Metric;

struct _PlumbTelemetryReader
{
  char *path;
  PlumbDatabase *db; /* NULL: left, because the run has ended and all was read */
  char *store_id;
  gint64 data_version;
  struct stat left; /* the file when it was left */
  GArray *metrics;  /* of Metric */
  PlumbStatement *version, *points;
  char **patterns; /* of the metrics to read; NULL: all */
  gboolean rest;   /* read those that match none instead, without events and phases */
};

static void
points_free (gpointer data)
{
  PlumbPoints *points = data;

  g_free (points->metric);
  g_free (points->unit);
  g_free (points->points);
  g_free (points);
}

void
plumb_attempt_free (PlumbAttempt *attempt)
{
  g_free (attempt->host);
  g_free (attempt);
}

void
plumb_attempt_end_free (PlumbAttemptEnd *end)
{
  g_free (end->message);
  g_free (end);
}

static void
event_free (gpointer data)
{
  PlumbEvent *event = data;

  g_free (event->kind);
  g_free (event->message);
  g_free (event);
}

static void
phase_free (gpointer data)
{
  PlumbPhase *phase = data;

  g_free (phase->worker);
  g_free (phase->name);
  g_free (phase);
}

static PlumbChunk *
chunk_new (gint64 seq)
{
  Chunk *self = g_new0 (Chunk, 1);
  PlumbChunk *chunk = &self->chunk;

  g_atomic_ref_count_init (&self->refs);
  chunk->first_seq = seq + 1;
  chunk->last_seq = seq;
  chunk->series = g_ptr_array_new_with_free_func (points_free);
  chunk->attempts = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_attempt_free);
  chunk->attempt_ends = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_attempt_end_free);
  chunk->events = g_ptr_array_new_with_free_func (event_free);
  chunk->phases = g_ptr_array_new_with_free_func (phase_free);
  return chunk;
}

PlumbChunk *
plumb_chunk_ref (PlumbChunk *chunk)
{
  g_atomic_ref_count_inc (&((Chunk *)chunk)->refs);
  return chunk;
}

void
plumb_chunk_unref (PlumbChunk *chunk)
{
  if (!g_atomic_ref_count_dec (&((Chunk *)chunk)->refs))
    return;
  g_ptr_array_unref (chunk->series);
  g_ptr_array_unref (chunk->attempts);
  g_ptr_array_unref (chunk->attempt_ends);
  g_ptr_array_unref (chunk->events);
  g_ptr_array_unref (chunk->phases);
  g_free (chunk);
}

gsize
plumb_chunk_n_rows (PlumbChunk *chunk)
{
  gsize n
      = chunk->attempts->len + chunk->attempt_ends->len + chunk->events->len + chunk->phases->len;

  for (guint i = 0; i < chunk->series->len; i++)
    n += ((PlumbPoints *)g_ptr_array_index (chunk->series, i))->n_points;
  return n;
}

static void
metric_clear (gpointer data)
{
  Metric *metric = data;

  g_free (metric->name);
  g_free (metric->unit);
}

static void
leave (PlumbTelemetryReader *reader)
{
  g_clear_pointer (&reader->version, sqlite3_finalize);
  g_clear_pointer (&reader->points, sqlite3_finalize);
  g_clear_pointer (&reader->db, sqlite3_close_v2);
  if (stat (reader->path, &reader->left) < 0)
    memset (&reader->left, 0, sizeof reader->left);
}

static gboolean
enter (PlumbTelemetryReader *reader, GError **error)
{
  g_autoptr (PlumbStatement) id = NULL;

  if (reader->db != NULL)
    return TRUE;
  reader->db = plumb_database_open_readonly (reader->path, error);
  if (reader->db == NULL)
    return FALSE;
  reader->version = plumb_database_prepare (reader->db, "PRAGMA data_version", error);
  reader->points = plumb_database_prepare (reader->db,
                                           "SELECT seq, attempt, step, time, value FROM point"
                                           " WHERE metric = ?1 AND seq > ?2 AND seq <= ?3"
                                           " ORDER BY seq",
                                           error);
  id = plumb_database_prepare (reader->db, "SELECT id FROM store", error);
  if (reader->version == NULL || reader->points == NULL || id == NULL)
    {
      leave (reader);
      return FALSE;
    }
  if (sqlite3_step (id) == SQLITE_ROW)
    {
      g_free (reader->store_id);
      reader->store_id = plumb_column_text (id, 0);
    }
  g_array_set_size (reader->metrics, 0);
  return TRUE;
}

PlumbTelemetryReader *
plumb_telemetry_reader_open (const char *path, GError **error)
{
  g_autoptr (PlumbTelemetryReader) reader = g_new0 (PlumbTelemetryReader, 1);

  reader->path = g_strdup (path);
  reader->metrics = g_array_new (FALSE, TRUE, sizeof (Metric));
  g_array_set_clear_func (reader->metrics, metric_clear);
  if (!enter (reader, error))
    return NULL;
  return g_steal_pointer (&reader);
}

void
plumb_telemetry_reader_free (PlumbTelemetryReader *reader)
{
  leave (reader);
  g_array_unref (reader->metrics);
  g_strfreev (reader->patterns);
  g_free (reader->store_id);
  g_free (reader->path);
  g_free (reader);
}

static gboolean
is_selected (PlumbTelemetryReader *reader, const char *name)
{
  if (reader->patterns == NULL)
    return TRUE;
  for (gsize i = 0; reader->patterns[i] != NULL; i++)
    if (g_pattern_match_simple (reader->patterns[i], name))
      return !reader->rest;
  return reader->rest;
}

void
plumb_telemetry_reader_select (PlumbTelemetryReader *reader,
                               const char *const *patterns,
                               gboolean rest)
{
  g_strfreev (reader->patterns);
  reader->patterns = g_strdupv ((char **)patterns);
  reader->rest = rest;
  for (guint i = 0; i < reader->metrics->len; i++)
    {
      Metric *metric = &g_array_index (reader->metrics, Metric, i);

      metric->selected = is_selected (reader, metric->name);
    }
}

const char *
plumb_telemetry_reader_store_id (PlumbTelemetryReader *reader)
{
  return reader->store_id;
}

gboolean
plumb_telemetry_reader_changed (PlumbTelemetryReader *reader)
{
  gint64 version = 0;

  if (reader->db == NULL)
    {
      struct stat now;

      return stat (reader->path, &now) == 0
             && (now.st_ino != reader->left.st_ino || now.st_size != reader->left.st_size
                 || now.st_mtim.tv_sec != reader->left.st_mtim.tv_sec
                 || now.st_mtim.tv_nsec != reader->left.st_mtim.tv_nsec);
    }
  if (sqlite3_step (reader->version) == SQLITE_ROW)
    version = sqlite3_column_int64 (reader->version, 0);
  sqlite3_reset (reader->version);
  if (version == reader->data_version)
    return FALSE;
  reader->data_version = version;
  return TRUE;
}

/* A query over (seq, last_seq], ready to step. */
static PlumbStatement *
range_query (PlumbTelemetryReader *reader, const char *sql, gint64 seq, gint64 last, GError **error)
{
  PlumbStatement *statement = plumb_database_prepare (reader->db, sql, error);

  if (statement != NULL)
    {
      sqlite3_bind_int64 (statement, 1, seq);
      sqlite3_bind_int64 (statement, 2, last);
    }
  return statement;
}

static gboolean
end_query (PlumbTelemetryReader *reader, int result, GError **error)
{
  return result == SQLITE_DONE || plumb_database_fail (reader->db, error);
}

static gboolean
read_metrics (PlumbTelemetryReader *reader, GError **error)
{
  g_autoptr (PlumbStatement) statement = range_query (
      reader, "SELECT metric, name, unit FROM metric WHERE metric > ?1 ORDER BY metric",
      reader->metrics->len > 0
          ? g_array_index (reader->metrics, Metric, reader->metrics->len - 1).metric
          : 0,
      0, error);
  int result;

  if (statement == NULL)
    return FALSE;
  while ((result = sqlite3_step (statement)) == SQLITE_ROW)
    {
      Metric metric = { sqlite3_column_int64 (statement, 0), plumb_column_text (statement, 1),
                        plumb_column_text (statement, 2) };

      metric.selected = is_selected (reader, metric.name);
      g_array_append_val (reader->metrics, metric);
    }
  return end_query (reader, result, error);
}

static gboolean
read_points (PlumbTelemetryReader *reader, const Metric *metric, PlumbChunk *chunk, GError **error)
{
  PlumbStatement *statement = reader->points;
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (PlumbPoint));
  PlumbPoints *series;
  int result;

  sqlite3_bind_int64 (statement, 1, metric->metric);
  sqlite3_bind_int64 (statement, 2, chunk->first_seq - 1);
  sqlite3_bind_int64 (statement, 3, chunk->last_seq);
  while ((result = sqlite3_step (statement)) == SQLITE_ROW)
    {
      PlumbPoint point = {
        .seq = sqlite3_column_int64 (statement, 0),
        .attempt = sqlite3_column_int64 (statement, 1),
        .step = sqlite3_column_int64 (statement, 2),
        .time = sqlite3_column_double (statement, 3),
        .value = sqlite3_column_type (statement, 4) == SQLITE_NULL
                     ? NAN
                     : sqlite3_column_double (statement, 4),
      };

      g_array_append_val (points, point);
    }
  if (!end_query (reader, result, error))
    {
      sqlite3_reset (statement);
      return FALSE;
    }
  sqlite3_reset (statement);
  if (points->len == 0)
    return TRUE;
  series = g_new0 (PlumbPoints, 1);
  series->metric = g_strdup (metric->name);
  series->unit = g_strdup (metric->unit);
  series->n_points = points->len;
  series->points = (gpointer)g_array_free (g_steal_pointer (&points), FALSE);
  g_ptr_array_add (chunk->series, series);
  return TRUE;
}

static PlumbAttempt *
attempt_from_row (PlumbStatement *statement)
{
  PlumbAttempt *attempt = g_new0 (PlumbAttempt, 1);

  attempt->seq = sqlite3_column_int64 (statement, 0);
  attempt->attempt = sqlite3_column_int64 (statement, 1);
  attempt->from_step = sqlite3_column_int64 (statement, 2);
  attempt->time = sqlite3_column_double (statement, 3);
  attempt->host = plumb_column_text (statement, 4);
  attempt->pid = sqlite3_column_int64 (statement, 5);
  return attempt;
}

static PlumbAttemptEnd *
attempt_end_from_row (PlumbStatement *statement)
{
  PlumbAttemptEnd *end = g_new0 (PlumbAttemptEnd, 1);

  end->seq = sqlite3_column_int64 (statement, 0);
  end->attempt = sqlite3_column_int64 (statement, 1);
  end->step = sqlite3_column_int64 (statement, 2);
  end->time = sqlite3_column_double (statement, 3);
  end->outcome = plumb_outcome_from_name ((const char *)sqlite3_column_text (statement, 4));
  end->exit_code = sqlite3_column_int (statement, 5);
  end->message = plumb_column_text (statement, 6);
  return end;
}

static PlumbEvent *
event_from_row (PlumbStatement *statement)
{
  PlumbEvent *event = g_new0 (PlumbEvent, 1);
  const char *level = (const char *)sqlite3_column_text (statement, 4);

  event->seq = sqlite3_column_int64 (statement, 0);
  event->attempt = sqlite3_column_int64 (statement, 1);
  event->step = sqlite3_column_int64 (statement, 2);
  event->time = sqlite3_column_double (statement, 3);
  for (PlumbEventLevel l = PLUMB_EVENT_INFO; l <= PLUMB_EVENT_ERROR; l++)
    if (g_strcmp0 (level, plumb_event_level_name (l)) == 0)
      event->level = l;
  event->kind = plumb_column_text (statement, 5);
  event->message = plumb_column_text (statement, 6);
  return event;
}

static PlumbPhase *
phase_from_row (PlumbStatement *statement)
{
  PlumbPhase *phase = g_new0 (PlumbPhase, 1);

  phase->seq = sqlite3_column_int64 (statement, 0);
  phase->attempt = sqlite3_column_int64 (statement, 1);
  phase->step = sqlite3_column_int64 (statement, 2);
  phase->worker = plumb_column_text (statement, 3);
  phase->name = plumb_column_text (statement, 4);
  phase->start = sqlite3_column_double (statement, 5);
  phase->end = sqlite3_column_double (statement, 6);
  return phase;
}

#define ATTEMPT_COLUMNS "SELECT seq, attempt, from_step, time, host, pid FROM attempt"
#define END_COLUMNS "SELECT seq, attempt, step, time, outcome, exit_code, message FROM attempt_end"
#define IN_RANGE " WHERE seq > ?1 AND seq <= ?2 ORDER BY seq"

typedef gpointer (*FromRow) (PlumbStatement *statement);

static gboolean
read_table (PlumbTelemetryReader *reader,
            const char *sql,
            FromRow from_row,
            PlumbChunk *chunk,
            GPtrArray *rows,
            GError **error)
{
  g_autoptr (PlumbStatement) statement
      = range_query (reader, sql, chunk->first_seq - 1, chunk->last_seq, error);
  int result;

  if (statement == NULL)
    return FALSE;
  while ((result = sqlite3_step (statement)) == SQLITE_ROW)
    g_ptr_array_add (rows, from_row (statement));
  return end_query (reader, result, error);
}

static gboolean
read_tables (PlumbTelemetryReader *reader, PlumbChunk *chunk, GError **error)
{
  if (!read_table (reader, END_COLUMNS IN_RANGE, (FromRow)attempt_end_from_row, chunk,
                   chunk->attempt_ends, error))
    return FALSE;
  if (reader->rest)
    return TRUE;
  if (!read_table (reader, ATTEMPT_COLUMNS IN_RANGE, (FromRow)attempt_from_row, chunk,
                   chunk->attempts, error)
      || !read_table (reader,
                      "SELECT seq, attempt, step, time, level, kind, message FROM event" IN_RANGE,
                      (FromRow)event_from_row, chunk, chunk->events, error)
      || !read_table (reader,
                      "SELECT seq, attempt, step, worker, name, start, \"end\" FROM phase" IN_RANGE,
                      (FromRow)phase_from_row, chunk, chunk->phases, error))
    return FALSE;
  return TRUE;
}

static gboolean
read_all_points (PlumbTelemetryReader *reader, PlumbChunk *chunk, GError **error)
{
  if (!read_metrics (reader, error))
    return FALSE;
  for (guint i = 0; i < reader->metrics->len; i++)
    {
      const Metric *metric = &g_array_index (reader->metrics, Metric, i);

      if (metric->selected && !read_points (reader, metric, chunk, error))
        return FALSE;
    }
  return TRUE;
}

PlumbChunk *
plumb_telemetry_reader_read (PlumbTelemetryReader *reader, gint64 seq, GError **error)
{
  g_autoptr (PlumbChunk) chunk = chunk_new (MAX (seq, 0));
  gint64 last;
  gboolean fine;

  if (!enter (reader, error) || !plumb_database_exec (reader->db, "BEGIN", error))
    return NULL;
  fine = plumb_database_integer (reader->db, PLUMB_LAST_SEQ_SQL, &last, error);
  if (fine && last > chunk->last_seq)
    {
      /* There is a row for every number, so a range of numbers is a bound on rows. */
      chunk->last_seq = MIN (last, chunk->last_seq + PLUMB_CHUNK_MAX_ROWS);
      chunk->more = last > chunk->last_seq;
      fine = read_tables (reader, chunk, error) && read_all_points (reader, chunk, error);
    }
  /* Ends the read transaction: an open one would make the WAL grow without bound. */
  sqlite3_exec (reader->db, "COMMIT", NULL, NULL, NULL);
  if (!fine)
    return NULL;
  /* At the end of an attempt the file is left, so that its writer can close it cleanly. */
  if (!chunk->more && chunk->attempt_ends->len > 0)
    leave (reader);
  return g_steal_pointer (&chunk);
}

gboolean
plumb_telemetry_reader_last_attempt (PlumbTelemetryReader *reader,
                                     PlumbAttempt **attempt,
                                     PlumbAttemptEnd **end,
                                     GError **error)
{
  g_autoptr (PlumbStatement) attempts = NULL;
  g_autoptr (PlumbStatement) ends = NULL;

  *attempt = NULL;
  *end = NULL;
  if (!enter (reader, error))
    return FALSE;
  attempts = plumb_database_prepare (reader->db, ATTEMPT_COLUMNS " ORDER BY attempt DESC LIMIT 1",
                                     error);
  ends = plumb_database_prepare (reader->db, END_COLUMNS " WHERE attempt = ?1", error);
  if (attempts == NULL || ends == NULL)
    return FALSE;
  switch (sqlite3_step (attempts))
    {
    case SQLITE_ROW:
      break;
    case SQLITE_DONE:
      return FALSE;
    default:
      return plumb_database_fail (reader->db, error);
    }
  *attempt = attempt_from_row (attempts);
  sqlite3_bind_int64 (ends, 1, (*attempt)->attempt);
  if (sqlite3_step (ends) == SQLITE_ROW)
    *end = attempt_end_from_row (ends);
  return TRUE;
}
