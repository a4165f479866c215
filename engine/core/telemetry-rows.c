/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of telemetry.db. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include "engine/core/error.h"
#include "engine/core/metrics.h"
#include "engine/core/run-dir.h"
#include "engine/core/telemetry-rows.h"

#define CLOSE_TRIES 40
#define CLOSE_WAIT_US 50000

struct _PlumbRowStore
{
  PlumbDatabase *db;
  gint64 seq;          /* of the last row */
  GHashTable *metrics; /* name -> id */
  PlumbStatement *insert_point, *insert_metric, *insert_event, *insert_phase, *insert_attempt,
      *insert_end;
};

void
plumb_row_free (PlumbRow *row)
{
  switch (row->kind)
    {
    case ROW_EVENT:
      g_free (row->event.kind);
      g_free (row->event.message);
      break;
    case ROW_PHASE:
      g_free (row->phase.worker);
      g_free (row->phase.name);
      break;
    case ROW_ATTEMPT_END:
      g_free (row->end.message);
      break;
    case ROW_SAMPLE:
      plumb_sample_free (row->sample);
      break;
    case ROW_ATTEMPT:
    case ROW_POINT:
      break;
    }
  g_free (row);
}

void
plumb_database_close_clean (PlumbDatabase *db)
{
  if (db == NULL)
    return;
  sqlite3_busy_timeout (db, 0);
  /* Viewers leave the file when they have read the end row. One that does not costs nothing but
   * that the file stays in WAL mode. */
  for (int i = 0; i < CLOSE_TRIES; i++)
    {
      if (sqlite3_exec (db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) == SQLITE_OK)
        break;
      g_usleep (CLOSE_WAIT_US);
    }
  sqlite3_close_v2 (db);
}

static gboolean
load_state (PlumbRowStore *store, GError **error)
{
  g_autoptr (PlumbStatement) statement = NULL;
  int result;

  g_hash_table_remove_all (store->metrics);
  if (!plumb_database_integer (store->db, PLUMB_LAST_SEQ_SQL, &store->seq, error))
    return FALSE;
  statement = plumb_database_prepare (store->db, "SELECT name, metric FROM metric", error);
  if (statement == NULL)
    return FALSE;
  while ((result = sqlite3_step (statement)) == SQLITE_ROW)
    g_hash_table_insert (store->metrics, plumb_column_text (statement, 0),
                         GINT_TO_POINTER (sqlite3_column_int (statement, 1)));
  return result == SQLITE_DONE || plumb_database_fail (store->db, error);
}

static gboolean
prepare_all (PlumbRowStore *store, GError **error)
{
  const struct
  {
    PlumbStatement **statement;
    const char *sql;
  } all[] = {
    { &store->insert_point, "INSERT INTO point (seq, attempt, step, time, metric, value)"
                            " VALUES (?1, ?2, ?3, ?4, ?5, ?6)" },
    { &store->insert_metric, "INSERT INTO metric (seq, metric, name, unit, help, better)"
                             " VALUES (?1, ?2, ?3, ?4, ?5, ?6)" },
    { &store->insert_event, "INSERT INTO event (seq, attempt, step, time, level, kind, message)"
                            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)" },
    { &store->insert_phase, "INSERT INTO phase (seq, attempt, step, worker, name, start, \"end\")"
                            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)" },
    { &store->insert_attempt, "INSERT INTO attempt (seq, attempt, from_step, time, host, pid,"
                              " start_time, boot_id, version)"
                              " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)" },
    { &store->insert_end, "INSERT INTO attempt_end (seq, attempt, step, time, outcome, exit_code,"
                          " message) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    {
      *all[i].statement = plumb_database_prepare (store->db, all[i].sql, error);
      if (*all[i].statement == NULL)
        return FALSE;
    }
  return TRUE;
}

static void
store_free (PlumbRowStore *store)
{
  sqlite3_finalize (store->insert_point);
  sqlite3_finalize (store->insert_metric);
  sqlite3_finalize (store->insert_event);
  sqlite3_finalize (store->insert_phase);
  sqlite3_finalize (store->insert_attempt);
  sqlite3_finalize (store->insert_end);
  g_hash_table_unref (store->metrics);
  plumb_database_close_clean (store->db);
  g_free (store);
}

PlumbRowStore *
plumb_row_store_open (const char *path, gint64 *last_attempt, GError **error)
{
  PlumbRowStore *store = g_new0 (PlumbRowStore, 1);

  store->metrics = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  store->db = plumb_database_open (path, "telemetry.sql", error);
  if (store->db == NULL || !load_state (store, error) || !prepare_all (store, error)
      || !plumb_database_integer (store->db, "SELECT max (attempt) FROM attempt", last_attempt,
                                  error))
    {
      store_free (store);
      return NULL;
    }
  return store;
}

void
plumb_row_store_close (PlumbRowStore *store)
{
  store_free (store);
}

/* Binds what every row starts with: seq, attempt, step, time. */
static void
bind_head (PlumbRowStore *store, PlumbStatement *statement, const PlumbRow *row)
{
  sqlite3_bind_int64 (statement, 1, ++store->seq);
  sqlite3_bind_int64 (statement, 2, row->attempt);
  sqlite3_bind_int64 (statement, 3, row->step);
  sqlite3_bind_double (statement, 4, row->time);
}

static gboolean
find_metric (PlumbRowStore *store, const char *name, int *id, GError **error)
{
  PlumbStatement *statement = store->insert_metric;
  const PlumbMetric *metric = plumb_metric_find (name);
  gpointer known;

  if (g_hash_table_lookup_extended (store->metrics, name, NULL, &known))
    {
      *id = GPOINTER_TO_INT (known);
      return TRUE;
    }
  *id = g_hash_table_size (store->metrics) + 1;
  sqlite3_bind_int64 (statement, 1, ++store->seq);
  sqlite3_bind_int (statement, 2, *id);
  plumb_bind_text (statement, 3, name);
  plumb_bind_text (statement, 4, metric != NULL ? metric->unit : "");
  plumb_bind_text (statement, 5, metric != NULL ? metric->help : "");
  plumb_bind_text (statement, 6,
                   plumb_better_name (metric != NULL ? metric->better : PLUMB_BETTER_NEITHER));
  if (!plumb_database_step (store->db, statement, error))
    return FALSE;
  g_hash_table_insert (store->metrics, g_strdup (name), GINT_TO_POINTER (*id));
  return TRUE;
}

static gboolean
write_point (PlumbRowStore *store, const PlumbRow *row, GError **error)
{
  PlumbStatement *statement = store->insert_point;
  int metric;

  if (!find_metric (store, row->point.metric, &metric, error))
    return FALSE;
  bind_head (store, statement, row);
  sqlite3_bind_int (statement, 5, metric);
  sqlite3_bind_double (statement, 6, row->point.value); /* a NaN is bound as NULL */
  return plumb_database_step (store->db, statement, error);
}

static gboolean
write_attempt (PlumbRowStore *store, const PlumbRow *row, GError **error)
{
  PlumbStatement *statement = store->insert_attempt;
  g_autoptr (PlumbRunStatus) self = plumb_run_status_new ();

  if (!plumb_run_status_set_self (self, error))
    return FALSE;
  bind_head (store, statement, row);
  plumb_bind_text (statement, 5, self->host);
  sqlite3_bind_int64 (statement, 6, self->pid);
  sqlite3_bind_int64 (statement, 7, self->start_time);
  plumb_bind_text (statement, 8, self->boot_id);
  plumb_bind_text (statement, 9, PLUMB_VERSION);
  return plumb_database_step (store->db, statement, error);
}

static gboolean
write_end (PlumbRowStore *store, const PlumbRow *row, GError **error)
{
  PlumbStatement *statement = store->insert_end;

  bind_head (store, statement, row);
  plumb_bind_text (statement, 5, plumb_outcome_name (row->end.outcome));
  sqlite3_bind_int (statement, 6, row->end.exit_code);
  plumb_bind_text (statement, 7, row->end.message);
  return plumb_database_step (store->db, statement, error);
}

static gboolean
write_event (PlumbRowStore *store, const PlumbRow *row, GError **error)
{
  PlumbStatement *statement = store->insert_event;

  bind_head (store, statement, row);
  plumb_bind_text (statement, 5, plumb_event_level_name (row->event.level));
  plumb_bind_text (statement, 6, row->event.kind);
  plumb_bind_text (statement, 7, row->event.message);
  return plumb_database_step (store->db, statement, error);
}

static gboolean
write_phase (PlumbRowStore *store, const PlumbRow *row, GError **error)
{
  PlumbStatement *statement = store->insert_phase;

  bind_head (store, statement, row);
  plumb_bind_text (statement, 4, row->phase.worker);
  plumb_bind_text (statement, 5, row->phase.name);
  sqlite3_bind_double (statement, 6, row->phase.start);
  sqlite3_bind_double (statement, 7, row->phase.end);
  return plumb_database_step (store->db, statement, error);
}

static gboolean
write_row (PlumbRowStore *store, const PlumbRow *row, GError **error)
{
  switch (row->kind)
    {
    case ROW_ATTEMPT:
      return write_attempt (store, row, error);
    case ROW_ATTEMPT_END:
      return write_end (store, row, error);
    case ROW_POINT:
      return write_point (store, row, error);
    case ROW_EVENT:
      return write_event (store, row, error);
    case ROW_PHASE:
      return write_phase (store, row, error);
    case ROW_SAMPLE:
      break;
    }
  g_return_val_if_reached (FALSE);
}

gboolean
plumb_row_store_write (PlumbRowStore *store, GQueue *rows, GError **error)
{
  gboolean fine = plumb_database_exec (store->db, "BEGIN IMMEDIATE", error);

  for (GList *link = rows->head; fine && link != NULL; link = link->next)
    fine = write_row (store, link->data, error);
  if (fine)
    fine = plumb_database_exec (store->db, "COMMIT", error);
  if (!fine)
    {
      if (!sqlite3_get_autocommit (store->db))
        sqlite3_exec (store->db, "ROLLBACK", NULL, NULL, NULL);
      load_state (store, NULL);
    }
  return fine;
}
