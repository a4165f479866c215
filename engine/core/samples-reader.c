/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/database.h"
#include "engine/core/json-tree.h"
#include "engine/core/samples-private.h"
#include "engine/core/telemetry-reader.h"

/* Rows that no later attempt has started over. */
#define CURRENT                                                                                    \
  " NOT EXISTS (SELECT 1 FROM attempt AS later WHERE later.attempt > sample.attempt"               \
  " AND later.from_step <= sample.step)"

static double
column_real (PlumbStatement *statement, int column)
{
  return sqlite3_column_type (statement, column) == SQLITE_NULL
             ? NAN
             : sqlite3_column_double (statement, column);
}

static void
read_parts (PlumbSample *sample, const char *json)
{
  g_autoptr (JsonParser) parser
      = json != NULL ? plumb_json_parse ("parts", json, strlen (json), NULL) : NULL;
  JsonObject *object = parser != NULL ? plumb_json_top (parser, "parts", NULL) : NULL;
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;

  if (object == NULL)
    return;
  sample->part_names = g_new0 (char *, json_object_get_size (object) + 1);
  sample->part_values = g_new0 (double, json_object_get_size (object) + 1);
  json_object_iter_init_ordered (&iter, object);
  while (json_object_iter_next_ordered (&iter, &name, &node))
    {
      sample->part_names[sample->n_parts] = g_strdup (name);
      sample->part_values[sample->n_parts++]
          = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_double (node) : NAN;
    }
}

/* The samples of some steps, with a last column. */
#define SELECT(last) \
  "SELECT step, attempt, prompt, sample, eval, data_set, prompt_text, response_text, answer," \
  " reward, reason, parts, advantage, finish, policy_version, prompt_ids, response_ids," \
  " logprobs, kl, advantages, " last " FROM sample WHERE step >= ?1 AND step <= ?2 AND" CURRENT \
  " ORDER BY step, prompt, sample LIMIT ?3"

gboolean
plumb_samples_have_versions (PlumbDatabase *db, gboolean *has, GError **error)
{
  gint64 n = 0;

  if (!plumb_database_integer (db, "SELECT count (*) FROM pragma_table_info ('sample') WHERE name = 'versions'", &n, error))
    return FALSE;
  *has = n > 0;
  return TRUE;
}

static PlumbSample *
sample_from_row (PlumbStatement *statement, gboolean detail)
{
  PlumbSample *sample = plumb_sample_new ();

  sample->step = sqlite3_column_int64 (statement, 0);
  sample->attempt = sqlite3_column_int64 (statement, 1);
  sample->prompt = sqlite3_column_int64 (statement, 2);
  sample->sample = sqlite3_column_int (statement, 3);
  sample->eval = sqlite3_column_int (statement, 4);
  sample->set = plumb_column_text (statement, 5);
  sample->prompt_text = plumb_column_text (statement, 6);
  sample->response_text = plumb_column_text (statement, 7);
  sample->answer = plumb_column_text (statement, 8);
  sample->failed = sqlite3_column_type (statement, 9) == SQLITE_NULL;
  sample->reward = column_real (statement, 9);
  sample->reason = plumb_column_text (statement, 10);
  read_parts (sample, (const char *)sqlite3_column_text (statement, 11));
  sample->advantage = column_real (statement, 12);
  sample->finish = plumb_column_text (statement, 13);
  sample->policy_version = sqlite3_column_int64 (statement, 14);
  if (!detail)
    return sample;
  sample->prompt_ids = plumb_column_bytes (statement, 15);
  sample->response_ids = plumb_column_bytes (statement, 16);
  sample->logprobs = plumb_column_bytes (statement, 17);
  sample->kl = plumb_column_bytes (statement, 18);
  sample->advantages = plumb_column_bytes (statement, 19);
  sample->versions = plumb_column_bytes (statement, 20);
  return sample;
}

GPtrArray *
plumb_samples_read (const char *path,
                    gint64 first_step,
                    gint64 last_step,
                    gsize limit,
                    gboolean detail,
                    GError **error)
{
  g_autoptr (PlumbDatabase) db = plumb_database_open_readonly (path, error);
  g_autoptr (PlumbStatement) statement = NULL;
  g_autoptr (GPtrArray) samples
      = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_sample_free);
  gboolean versions = FALSE;
  int result;

  if (db == NULL || !plumb_samples_have_versions (db, &versions, error))
    return NULL;
  statement = plumb_database_prepare (db, versions ? SELECT ("versions") : SELECT ("NULL"), error);
  if (statement == NULL)
    return NULL;
  sqlite3_bind_int64 (statement, 1, first_step);
  sqlite3_bind_int64 (statement, 2, last_step);
  sqlite3_bind_int64 (statement, 3, MIN (limit, G_MAXINT32));
  while ((result = sqlite3_step (statement)) == SQLITE_ROW)
    g_ptr_array_add (samples, sample_from_row (statement, detail));
  if (result != SQLITE_DONE)
    {
      plumb_database_fail (db, error);
      return NULL;
    }
  return g_steal_pointer (&samples);
}

GArray *
plumb_samples_steps (const char *path, GError **error)
{
  g_autoptr (PlumbDatabase) db = plumb_database_open_readonly (path, error);
  g_autoptr (PlumbStatement) statement = NULL;
  g_autoptr (GArray) steps = g_array_new (FALSE, FALSE, sizeof (gint64));
  int result;

  if (db == NULL)
    return NULL;
  statement = plumb_database_prepare (
      db, "SELECT DISTINCT step FROM sample WHERE" CURRENT " ORDER BY step", error);
  if (statement == NULL)
    return NULL;
  while ((result = sqlite3_step (statement)) == SQLITE_ROW)
    {
      gint64 step = sqlite3_column_int64 (statement, 0);

      g_array_append_val (steps, step);
    }
  if (result != SQLITE_DONE)
    {
      plumb_database_fail (db, error);
      return NULL;
    }
  return g_steal_pointer (&steps);
}
