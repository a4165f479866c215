/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gstdio.h>
#include <string.h>

#include "engine/core/database.h"
#include "engine/core/metrics.h"
#include "engine/core/process.h"
#include "engine/core/run-dir.h"
#include "engine/core/series.h"
#include "tests/engine/harness.h"
#include "tests/unit/temporary.h"

#define PATIENCE 120 /* seconds */

void
engine_set_up (Engine *engine, gconstpointer data)
{
  engine->folder = temporary_folder ();
  g_setenv ("XDG_STATE_HOME", engine->folder, TRUE);
  g_setenv ("XDG_DATA_HOME", engine->folder, TRUE);
  g_setenv ("ENGINE", g_getenv ("PLUMB_TEST_ENGINE"), TRUE);
  g_setenv ("SPECS", g_getenv ("PLUMB_TEST_SPECS"), TRUE);
  g_setenv ("FIXTURES", g_getenv ("PLUMB_TEST_FIXTURES"), TRUE);
}

void
engine_tear_down (Engine *engine, gconstpointer data)
{
  remove_folder (engine->folder);
  g_free (engine->folder);
  g_free (engine->out);
  g_free (engine->err);
}

static int
run_line (Engine *engine, const char *line)
{
  const char *argv[] = { "/bin/sh", "-c", line, NULL };
  g_autoptr (GError) error = NULL;
  int status;
  g_clear_pointer (&engine->out, g_free);
  g_clear_pointer (&engine->err, g_free);
  g_spawn_sync (engine->folder, (char **) argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &engine->out, &engine->err,
                &status, &error);
  g_assert_no_error (error);
  /* 99 is what memory checkers end a program with. */
  if (!WIFEXITED (status) || WEXITSTATUS (status) >= 99)
    g_error ("%s: died with status %d: %s", line, status, engine->err);
  return WEXITSTATUS (status);
}

int
engine_shell (Engine *engine, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *line = g_strdup_vprintf (format, args);
  va_end (args);
  return run_line (engine, line);
}

int
engine_call (Engine *engine, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *arguments = g_strdup_vprintf (format, args);
  va_end (args);
  return engine_call_with (engine, NULL, arguments);
}

int
engine_call_with (Engine *engine, const char *input, const char *arguments)
{
  g_autofree char *line = g_strdup_printf ("\"$ENGINE\" %s < %s", arguments, input ? "input" : "/dev/null");
  if (input)
    engine_write (engine, "input", input);
  return run_line (engine, line);
}

GSubprocess *
engine_start (Engine *engine, const char *arguments)
{
  g_autofree char *line = g_strdup_printf ("exec \"$ENGINE\" %s > started.txt 2>&1 < /dev/null", arguments);
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_NONE);
  g_autoptr (GError) error = NULL;
  g_subprocess_launcher_set_cwd (launcher, engine->folder);
  GSubprocess *process = g_subprocess_launcher_spawn (launcher, &error, "/bin/sh", "-c", line, NULL);
  g_assert_no_error (error);
  return process;
}

static gboolean
give_up (gpointer data)
{
  g_error ("the program did not end within %d s", PATIENCE);
  return G_SOURCE_REMOVE;
}

int
engine_wait (GSubprocess *process)
{
  guint timer = g_timeout_add_seconds (PATIENCE, give_up, NULL);
  g_autoptr (GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_subprocess_wait_async (process, NULL, NULL, NULL);
  while (g_subprocess_get_identifier (process))
    g_main_context_iteration (NULL, TRUE);
  g_source_remove (timer);
  return g_subprocess_get_if_exited (process) ? g_subprocess_get_exit_status (process)
                                              : -g_subprocess_get_term_sig (process);
}

static void
sleep_a_moment (Engine *engine, GSubprocess *process, const char *what, gint64 start)
{
  while (g_main_context_iteration (NULL, FALSE))
    continue;
  if (!g_subprocess_get_identifier (process) || g_get_monotonic_time () - start > PATIENCE * G_USEC_PER_SEC)
    {
      g_autofree char *output = engine_read (engine, "started.txt");
      g_error ("%s never came; the program %s: %s", what,
               g_subprocess_get_identifier (process) ? "still runs" : "has ended", output);
    }
  g_usleep (G_USEC_PER_SEC / 200);
}

void
engine_wait_for_file (Engine *engine, GSubprocess *process, const char *name)
{
  g_autofree char *path = engine_path (engine, name);
  for (gint64 start = g_get_monotonic_time (); !g_file_test (path, G_FILE_TEST_EXISTS);)
    sleep_a_moment (engine, process, name, start);
}

void
engine_wait_for_phase (Engine *engine, GSubprocess *process, const char *name, const char *phase)
{
  g_autofree char *run = engine_path (engine, name);
  for (gint64 start = g_get_monotonic_time ();;)
    {
      g_autoptr (PlumbRunStatus) status = plumb_run_status_read (run, NULL);
      if (status && g_strcmp0 (status->phase, phase) == 0)
        return;
      sleep_a_moment (engine, process, phase, start);
    }
}

char *
engine_path (Engine *engine, const char *name)
{
  return g_build_filename (engine->folder, name, NULL);
}

char *
engine_read (Engine *engine, const char *name)
{
  g_autofree char *path = engine_path (engine, name);
  g_autoptr (GError) error = NULL;
  char *text = NULL;
  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  return text;
}

void
engine_write (Engine *engine, const char *name, const char *text)
{
  g_autofree char *path = engine_path (engine, name);
  g_autofree char *parent = g_path_get_dirname (path);
  g_autoptr (GError) error = NULL;
  g_mkdir_with_parents (parent, 0755);
  g_file_set_contents (path, text, -1, &error);
  g_assert_no_error (error);
}

JsonObject *
engine_json (Engine *engine, JsonParser *parser)
{
  g_autoptr (GError) error = NULL;
  json_parser_load_from_data (parser, engine->out, -1, &error);
  g_assert_no_error (error);
  return json_node_get_object (json_parser_get_root (parser));
}

void
assert_has (const char *text, const char *part)
{
  if (!strstr (text, part))
    g_error ("\"%s\" is not in: %s", part, text);
}

void
assert_same_file (Engine *engine, const char *left, const char *right)
{
  g_autofree char *left_path = engine_path (engine, left), *right_path = engine_path (engine, right);
  g_autoptr (GError) error = NULL;
  g_autoptr (GMappedFile) a = g_mapped_file_new (left_path, FALSE, &error);
  g_assert_no_error (error);
  g_autoptr (GMappedFile) b = g_mapped_file_new (right_path, FALSE, &error);
  g_assert_no_error (error);
  gsize length = g_mapped_file_get_length (a);
  if (length != g_mapped_file_get_length (b)
      || memcmp (g_mapped_file_get_contents (a), g_mapped_file_get_contents (b), length) != 0)
    g_error ("%s and %s differ", left, right);
}

typedef void (*EachPoint) (const char *metric, const PlumbPoint *point, gpointer data);

/* Every point of the run that no later attempt superseded. */
static void
each_point (Engine *engine, const char *name, EachPoint each, gpointer data)
{
  g_autofree char *file = g_build_filename (engine->folder, name, PLUMB_RUN_TELEMETRY, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTelemetryReader) reader = plumb_telemetry_reader_open (file, &error);
  g_assert_no_error (error);
  g_autoptr (PlumbChunk) chunk = plumb_telemetry_reader_read (reader, 0, &error);
  g_assert_no_error (error);
  g_assert_false (chunk->more);
  for (guint i = 0; i < chunk->series->len; i++)
    {
      const PlumbPoints *points = g_ptr_array_index (chunk->series, i);
      g_autoptr (PlumbSeries) series = plumb_series_new ();
      gsize n = 0;
      for (guint a = 0; a < chunk->attempts->len; a++)
        {
          const PlumbAttempt *attempt = g_ptr_array_index (chunk->attempts, a);
          plumb_series_add_attempt (series, attempt->attempt, attempt->from_step);
        }
      plumb_series_add_points (series, points->points, points->n_points);
      const PlumbPoint *current = plumb_series_current (series, &n);
      for (gsize k = 0; k < n; k++)
        each (points->metric, &current[k], data);
    }
}

static void
add_line (const char *metric, const PlumbPoint *point, gpointer data)
{
  if (plumb_metric_is_deterministic (metric))
    g_ptr_array_add (data, g_strdup_printf ("%s %06d %a", metric, (int) point->step, point->value));
}

static int
compare_lines (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

char *
engine_metrics (Engine *engine, const char *run)
{
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  each_point (engine, run, add_line, lines);
  g_ptr_array_sort (lines, compare_lines);
  g_ptr_array_add (lines, NULL);
  return g_strjoinv ("\n", (char **) lines->pdata);
}

/* Only the first difference is worth reading. */
void
assert_same_metrics (Engine *engine, const char *left, const char *right)
{
  g_autofree char *left_text = engine_metrics (engine, left), *right_text = engine_metrics (engine, right);
  g_auto (GStrv) a = g_strsplit (left_text, "\n", -1);
  g_auto (GStrv) b = g_strsplit (right_text, "\n", -1);
  guint i = 0;
  while (a[i] && g_strcmp0 (a[i], b[i]) == 0)
    i++;
  if (a[i] || b[i])
    g_error ("line %u of the metrics: %s has \"%s\", %s has \"%s\"", i + 1, left, a[i] ? a[i] : "nothing", right,
             b[i] ? b[i] : "nothing");
}

typedef struct
{
  const char *metric;
  GArray *values;
} Wanted;

static void
add_value (const char *metric, const PlumbPoint *point, gpointer data)
{
  Wanted *wanted = data;
  if (g_str_equal (metric, wanted->metric))
    g_array_append_val (wanted->values, point->value);
}

GArray *
engine_series (Engine *engine, const char *run, const char *metric)
{
  Wanted wanted = { metric, g_array_new (FALSE, FALSE, sizeof (double)) };
  each_point (engine, run, add_value, &wanted);
  return wanted.values;
}

/* A worker's number, or 0 where the process is none of this controller. */
static int
worker_number (const char *pid, const char *controller)
{
  g_autofree char *path = g_build_filename ("/proc", pid, "cmdline", NULL), *text = NULL;
  gsize length = 0;
  if (!g_file_get_contents (path, &text, &length, NULL) || length < 20)
    return 0;
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  for (const char *word = text; word < text + length; word += strlen (word) + 1)
    g_ptr_array_add (words, (gpointer) word);
  if (words->len != 8 || !g_str_equal (words->pdata[1], "worker") || !g_str_equal (words->pdata[7], controller))
    return 0;
  return (int) g_ascii_strtoll (words->pdata[5], NULL, 10);
}

GArray *
engine_workers (GSubprocess *process)
{
  return engine_workers_of (g_subprocess_get_identifier (process));
}

GArray *
engine_workers_of (const char *controller)
{
  GArray *pids = g_array_new (FALSE, TRUE, sizeof (gint64));
  const char *name;
  g_autoptr (GDir) dir = g_dir_open ("/proc", 0, NULL);
  while (controller && (name = g_dir_read_name (dir)))
    {
      int number = g_ascii_isdigit (*name) ? worker_number (name, controller) : 0;
      if (number > (int) pids->len)
        g_array_set_size (pids, (guint) number);
      if (number > 0)
        g_array_index (pids, gint64, number - 1) = g_ascii_strtoll (name, NULL, 10);
    }
  return pids;
}

void
assert_gone (const GArray *pids)
{
  for (guint i = 0; i < pids->len; i++)
    for (int k = 0; plumb_process_start_time (g_array_index (pids, gint64, i)) != 0; k++)
      {
        if (k > 1000)
          g_error ("worker %d is left behind", (int) g_array_index (pids, gint64, i));
        g_usleep (G_USEC_PER_SEC / 100);
      }
}

int
engine_assert_trained_once (Engine *engine, const char *run, int samples, gboolean gaps)
{
  g_autofree char *path = g_build_filename (engine->folder, run, PLUMB_RUN_SAMPLES, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDatabase) db = plumb_database_open_readonly (path, &error);
  g_assert_no_error (error);
  g_autoptr (PlumbStatement) rows = plumb_database_prepare (
      db, "SELECT prompt, count (*), count (DISTINCT sample), count (DISTINCT step) FROM sample AS s WHERE eval = 0"
          " AND attempt = (SELECT max (attempt) FROM sample WHERE eval = 0 AND step = s.step) GROUP BY prompt"
          " ORDER BY prompt", &error);
  g_assert_no_error (error);
  int n = 0;
  for (; sqlite3_step (rows) == SQLITE_ROW; n++)
    {
      if (!gaps)
        g_assert_cmpint (sqlite3_column_int (rows, 0), ==, n);
      g_assert_cmpint (sqlite3_column_int (rows, 1), ==, samples);
      g_assert_cmpint (sqlite3_column_int (rows, 2), ==, samples);
      g_assert_cmpint (sqlite3_column_int (rows, 3), ==, 1);
    }
  return n;
}
