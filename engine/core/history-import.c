/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded history becomes a run directory, so that it is looked at and compared like any run. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <string.h>

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/core/history.h"
#include "engine/core/run-dir.h"
#include "engine/core/telemetry-rows.h"

#define SOURCE "imported.txt" /* in the run directory: where it came from */
#define ROWS_AT_ONCE 10000

/* --- reading */

static gboolean
is_event_file (const char *path)
{
  g_autofree char *name = g_path_get_basename (path);

  return strstr (name, "tfevents") != NULL;
}

gboolean
plumb_history_is_likely (const char *path)
{
  return g_file_test (path, G_FILE_TEST_IS_DIR) || is_event_file (path) || g_str_has_suffix (path, ".jsonl")
         || g_str_has_suffix (path, ".csv");
}

/* events.out.tfevents.SECOND.HOST...: the second of its start. */
static guint64
second_of (const char *path)
{
  const char *mark = strstr (path, "tfevents.");

  return mark != NULL ? g_ascii_strtoull (mark + strlen ("tfevents."), NULL, 10) : 0;
}

static int
compare_paths (gconstpointer a, gconstpointer b)
{
  const char *left = *(char *const *)a, *right = *(char *const *)b;
  guint64 first = second_of (left), second = second_of (right);

  return first != second ? (first > second) - (first < second) : strcmp (left, right);
}

static gboolean
read_folder (PlumbHistory *history, const char *folder, GError **error)
{
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, error);
  const char *name;

  if (dir == NULL)
    return FALSE;
  while ((name = g_dir_read_name (dir)) != NULL)
    if (is_event_file (name))
      g_ptr_array_add (paths, g_build_filename (folder, name, NULL));
  g_ptr_array_sort (paths, compare_paths);
  for (guint i = 0; i < paths->len; i++)
    if (!plumb_history_read_events (history, g_ptr_array_index (paths, i), error))
      return FALSE;
  if (paths->len > 0)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: there is no TensorBoard event file in this folder", folder);
  return FALSE;
}

PlumbHistory *
plumb_history_load (const char *path, GError **error)
{
  g_autoptr (PlumbHistory) history = plumb_history_new ();
  gboolean ok;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    ok = read_folder (history, path, error);
  else if (g_str_has_suffix (path, ".jsonl"))
    ok = plumb_history_read_lines (history, path, error);
  else if (g_str_has_suffix (path, ".csv"))
    ok = plumb_history_read_csv (history, path, error);
  else
    ok = plumb_history_read_events (history, path, error);
  if (!ok)
    return NULL;
  if (history->points->len > 0)
    return g_steal_pointer (&history);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: there is no curve in it%s%s", path,
               history->notes->len > 0 ? ": " : "",
               history->notes->len > 0 ? (const char *)g_ptr_array_index (history->notes, 0) : "");
  return NULL;
}

/* --- writing */

static PlumbRow *
row_new (PlumbRowKind kind, gint64 attempt, gint64 step, double time)
{
  PlumbRow *row = g_new0 (PlumbRow, 1);

  row->kind = kind;
  row->attempt = attempt;
  row->step = step;
  row->time = time;
  return row;
}

/* Rows on their way, written some thousands at a time. */
typedef struct
{
  PlumbRowStore *store;
  GQueue rows;
} Writer;

static gboolean
write_rows (Writer *writer, guint at_least, GError **error)
{
  gboolean ok = writer->rows.length < at_least || plumb_row_store_write (writer->store, &writer->rows, error);

  if (!ok || writer->rows.length >= at_least)
    g_queue_clear_full (&writer->rows, (GDestroyNotify)plumb_row_free);
  return ok;
}

static void
add_end (Writer *writer, gint64 attempt, const PlumbHistoryPoint *last)
{
  PlumbRow *row = row_new (ROW_ATTEMPT_END, attempt, last->step, last->time);

  row->end.outcome = PLUMB_OUTCOME_FINISHED;
  g_queue_push_tail (&writer->rows, row);
}

static void
add_notes (Writer *writer, const PlumbHistory *history, gint64 attempt, double time)
{
  for (guint i = 0; i < history->notes->len; i++)
    {
      PlumbRow *row = row_new (ROW_EVENT, attempt, PLUMB_NO_STEP, time);

      row->event.level = PLUMB_EVENT_WARNING;
      row->event.kind = g_strdup ("import");
      row->event.message = g_strdup (g_ptr_array_index (history->notes, i));
      g_queue_push_tail (&writer->rows, row);
    }
}

static gboolean
write_points (Writer *writer, const PlumbHistory *history, const GArray *attempts, GError **error)
{
  const PlumbHistoryPoint *points = (const PlumbHistoryPoint *)(void *)history->points->data;
  guint attempt = 0, n = history->points->len;

  for (guint i = 0; i < n; i++)
    {
      PlumbRow *row;

      while (attempt < attempts->len && g_array_index (attempts, PlumbHistoryAttempt, attempt).first <= i)
        {
          gint64 from_step = g_array_index (attempts, PlumbHistoryAttempt, attempt).from_step;

          if (attempt > 0)
            add_end (writer, attempt, &points[i - 1]);
          g_queue_push_tail (&writer->rows, row_new (ROW_ATTEMPT, ++attempt, from_step, points[i].time));
        }
      row = row_new (ROW_POINT, attempt, points[i].step, points[i].time);
      row->point.metric = points[i].metric;
      row->point.value = points[i].value;
      g_queue_push_tail (&writer->rows, row);
      if (!write_rows (writer, ROWS_AT_ONCE, error))
        return FALSE;
    }
  add_notes (writer, history, attempt, points[n - 1].time);
  add_end (writer, attempt, &points[n - 1]);
  return write_rows (writer, 1, error);
}

static gboolean
write_store (const PlumbHistory *history, const GArray *attempts, const char *path, GError **error)
{
  gint64 last_attempt;
  Writer writer = { plumb_row_store_open (path, &last_attempt, error), G_QUEUE_INIT };
  gboolean ok;

  if (writer.store == NULL)
    return FALSE;
  ok = write_points (&writer, history, attempts, error);
  plumb_row_store_close (writer.store);
  return ok;
}

/* A folder that was made of this source before is renewed; any other must be free. */
static gboolean
prepare_folder (const char *run, const char *source, GError **error)
{
  g_autofree char *origin = g_build_filename (run, SOURCE, NULL), *known = NULL;
  g_autofree char *store = g_build_filename (run, PLUMB_RUN_TELEMETRY, NULL);

  if (g_file_get_contents (origin, &known, NULL, NULL) && g_str_equal (g_strchomp (known), source))
    {
      if (g_unlink (store) == 0 || errno == ENOENT)
        return TRUE;
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "%s: it cannot be renewed: %s", store, g_strerror (errno));
      return FALSE;
    }
  return plumb_run_dir_create (run, error) && g_file_set_contents (origin, source, -1, error);
}

static gboolean
write_spec (const char *run, const char *source, const char *name, GError **error)
{
  g_autoptr (GKeyFile) file = g_key_file_new ();
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_SPEC, NULL);
  g_autofree char *notes = g_strdup_printf ("curves imported from %s", source);

  g_key_file_set_string (file, "run", "name", name);
  g_key_file_set_string (file, "run", "notes", notes);
  return g_key_file_save_to_file (file, path, error);
}

static gboolean
write_status (const PlumbHistory *history, const GArray *attempts, const char *run, const char *name, GError **error)
{
  const PlumbHistoryPoint *points = (const PlumbHistoryPoint *)(void *)history->points->data;
  g_autoptr (PlumbRunStatus) earlier = plumb_run_status_read (run, NULL), status = plumb_run_status_new ();

  if (!plumb_run_status_set_self (status, error))
    return FALSE;
  status->id = earlier != NULL ? g_strdup (earlier->id) : g_uuid_string_random ();
  status->name = g_strdup (name);
  status->phase = g_strdup ("imported");
  status->attempt = attempts->len;
  for (guint i = 0; i < history->points->len; i++)
    status->step = MAX (status->step, points[i].step);
  status->started = points[0].time;
  status->updated = status->progressed = points[history->points->len - 1].time;
  status->eta = status->tokens_per_second = -1;
  status->database = g_build_filename (run, PLUMB_RUN_TELEMETRY, NULL);
  status->outcome = PLUMB_OUTCOME_FINISHED;
  status->message = g_strdup ("curves of another program");
  return plumb_run_status_write (run, status, error) && plumb_run_register (run, status->id, error);
}

gboolean
plumb_history_write (const PlumbHistory *history, const char *source, const char *run, const char *name, GError **error)
{
  g_autoptr (GArray) attempts = plumb_history_attempts (history);
  g_autofree char *from = g_canonicalize_filename (source, NULL), *folder = g_canonicalize_filename (run, NULL);
  g_autofree char *store = g_build_filename (folder, PLUMB_RUN_TELEMETRY, NULL);

  return prepare_folder (folder, from, error) && write_spec (folder, from, name, error)
         && write_store (history, attempts, store, error) && write_status (history, attempts, folder, name, error);
}
