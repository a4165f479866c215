/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of samples.db, written and thinned. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include <json-glib/json-glib.h>

#include "engine/core/samples-private.h"
#include "engine/core/telemetry-rows.h"

struct _PlumbSampleStore
{
  PlumbDatabase *db;
  gint64 max_bytes;
  PlumbStatement *insert, *insert_attempt;
};

PlumbSample *
plumb_sample_new (void)
{
  PlumbSample *sample = g_new0 (PlumbSample, 1);

  sample->advantage = NAN;
  return sample;
}

void
plumb_sample_free (PlumbSample *sample)
{
  g_free (sample->set);
  g_free (sample->prompt_text);
  g_free (sample->response_text);
  g_free (sample->answer);
  g_free (sample->reason);
  for (gsize i = 0; i < sample->n_parts; i++)
    g_free (sample->part_names[i]);
  g_free (sample->part_names);
  g_free (sample->part_values);
  g_free (sample->finish);
  g_clear_pointer (&sample->prompt_ids, g_bytes_unref);
  g_clear_pointer (&sample->response_ids, g_bytes_unref);
  g_clear_pointer (&sample->logprobs, g_bytes_unref);
  g_clear_pointer (&sample->kl, g_bytes_unref);
  g_clear_pointer (&sample->advantages, g_bytes_unref);
  g_clear_pointer (&sample->versions, g_bytes_unref);
  g_free (sample);
}

static void
store_free (PlumbSampleStore *store)
{
  sqlite3_finalize (store->insert);
  sqlite3_finalize (store->insert_attempt);
  plumb_database_close_clean (store->db);
  g_free (store);
}

/* A store of an earlier program gets the column that it lacks. */
static gboolean
add_versions (PlumbDatabase *db, GError **error)
{
  gboolean has = FALSE;

  return plumb_samples_have_versions (db, &has, error)
         && (has || plumb_database_exec (db, "ALTER TABLE sample ADD COLUMN versions BLOB", error));
}

PlumbSampleStore *
plumb_sample_store_open (const char *path, gint64 max_bytes, GError **error)
{
  PlumbSampleStore *store = g_new0 (PlumbSampleStore, 1);

  store->max_bytes = max_bytes;
  store->db = plumb_database_open (path, "samples.sql", error);
  if (store->db != NULL && add_versions (store->db, error))
    store->insert = plumb_database_prepare (
        store->db,
        "INSERT INTO sample (step, attempt, prompt, sample, eval, data_set, prompt_text,"
        " response_text, answer, reward, reason, parts, advantage, finish, policy_version,"
        " prompt_ids, response_ids, logprobs, kl, advantages, versions)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        error);
  if (store->insert != NULL)
    store->insert_attempt = plumb_database_prepare (
        store->db, "INSERT OR REPLACE INTO attempt (attempt, from_step) VALUES (?, ?)", error);
  if (store->insert_attempt == NULL)
    {
      store_free (store);
      return NULL;
    }
  return store;
}

void
plumb_sample_store_close (PlumbSampleStore *store)
{
  if (store != NULL)
    store_free (store);
}

static char *
parts_to_json (const PlumbSample *sample)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  for (gsize i = 0; i < sample->n_parts; i++)
    {
      json_builder_set_member_name (builder, sample->part_names[i]);
      if (isfinite (sample->part_values[i]))
        json_builder_add_double_value (builder, sample->part_values[i]);
      else
        json_builder_add_null_value (builder);
    }
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

static gboolean
write_sample (PlumbSampleStore *store, const PlumbRow *row, GError **error)
{
  const PlumbSample *sample = row->sample;
  PlumbStatement *statement = store->insert;
  g_autofree char *parts = parts_to_json (sample);

  sqlite3_bind_int64 (statement, 1, sample->step);
  sqlite3_bind_int64 (statement, 2, row->attempt);
  sqlite3_bind_int64 (statement, 3, sample->prompt);
  sqlite3_bind_int (statement, 4, sample->sample);
  sqlite3_bind_int (statement, 5, sample->eval);
  plumb_bind_text (statement, 6, sample->set);
  plumb_bind_text (statement, 7, sample->prompt_text != NULL ? sample->prompt_text : "");
  plumb_bind_text (statement, 8, sample->response_text != NULL ? sample->response_text : "");
  plumb_bind_text (statement, 9, sample->answer);
  sqlite3_bind_double (statement, 10, sample->failed ? NAN : sample->reward);
  plumb_bind_text (statement, 11, sample->reason);
  plumb_bind_text (statement, 12, parts);
  sqlite3_bind_double (statement, 13, sample->advantage);
  plumb_bind_text (statement, 14, sample->finish != NULL ? sample->finish : "");
  sqlite3_bind_int64 (statement, 15, sample->policy_version);
  plumb_bind_bytes (statement, 16, sample->prompt_ids);
  plumb_bind_bytes (statement, 17, sample->response_ids);
  plumb_bind_bytes (statement, 18, sample->logprobs);
  plumb_bind_bytes (statement, 19, sample->kl);
  plumb_bind_bytes (statement, 20, sample->advantages);
  plumb_bind_bytes (statement, 21, sample->versions);
  return plumb_database_step (store->db, statement, error);
}

static gboolean
write_attempt (PlumbSampleStore *store, const PlumbRow *row, GError **error)
{
  sqlite3_bind_int64 (store->insert_attempt, 1, row->attempt);
  sqlite3_bind_int64 (store->insert_attempt, 2, row->step);
  return plumb_database_step (store->db, store->insert_attempt, error);
}

static gboolean
used_bytes (PlumbSampleStore *store, gint64 *used, GError **error)
{
  gint64 pages, free_pages, size;

  if (!plumb_database_integer (store->db, "PRAGMA page_count", &pages, error)
      || !plumb_database_integer (store->db, "PRAGMA freelist_count", &free_pages, error)
      || !plumb_database_integer (store->db, "PRAGMA page_size", &size, error))
    return FALSE;
  *used = (pages - free_pages) * size;
  return TRUE;
}

/* Takes every second step out of the older half, never the first one: the view of how answers to
 * one prompt changed keeps its start, and the recent past stays whole. */
static gboolean
thin (PlumbSampleStore *store, GError **error)
{
  for (;;)
    {
      gint64 used, steps;

      if (!used_bytes (store, &used, error)
          || !plumb_database_integer (store->db, "SELECT count (DISTINCT step) FROM sample", &steps,
                                      error))
        return FALSE;
      if (used <= store->max_bytes || steps <= 2)
        return TRUE;
      if (!plumb_database_exec (
              store->db,
              "DELETE FROM sample WHERE step IN (SELECT step FROM"
              " (SELECT step, row_number () OVER (ORDER BY step) AS place, count (*) OVER () AS n"
              "  FROM (SELECT DISTINCT step FROM sample))"
              " WHERE place % 2 = 0 AND place <= max (n / 2, 2))",
              error))
        return FALSE;
    }
}

gboolean
plumb_sample_store_write (PlumbSampleStore *store, GQueue *rows, GError **error)
{
  gboolean fine = plumb_database_exec (store->db, "BEGIN IMMEDIATE", error);

  for (GList *link = rows->head; fine && link != NULL; link = link->next)
    {
      const PlumbRow *row = link->data;

      fine = row->kind == ROW_SAMPLE ? write_sample (store, row, error)
                                     : write_attempt (store, row, error);
    }
  if (fine && store->max_bytes > 0)
    fine = thin (store, error);
  if (fine)
    fine = plumb_database_exec (store->db, "COMMIT", error);
  if (!fine && !sqlite3_get_autocommit (store->db))
    sqlite3_exec (store->db, "ROLLBACK", NULL, NULL, NULL);
  return fine;
}
