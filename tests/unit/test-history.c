/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of other programs: sound files, torn ones, restarts, clocks that go back. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/core/history.h"
#include "engine/core/run-dir.h"
#include "engine/core/series.h"
#include "tests/unit/temporary.h"

#define POINTS 50
#define VERSION_RECORD 40 /* bytes of the first record, which names the format */

typedef struct
{
  char *folder;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  g_autofree char *state = NULL;

  fixture->folder = temporary_folder ();
  state = g_build_filename (fixture->folder, "state", NULL);
  g_setenv ("XDG_STATE_HOME", state, TRUE);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  remove_folder (fixture->folder);
  g_free (fixture->folder);
}

static char *
path_in (Fixture *fixture, const char *name)
{
  return g_build_filename (fixture->folder, name, NULL);
}

static char *
write_file (Fixture *fixture, const char *name, const char *data, gssize n)
{
  char *path = path_in (fixture, name);

  g_assert_true (g_file_set_contents (path, data, n, NULL));
  return path;
}

static PlumbHistory *
load (const char *path)
{
  g_autoptr (GError) error = NULL;
  PlumbHistory *history = plumb_history_load (path, &error);

  g_assert_no_error (error);
  return history;
}

static const PlumbHistoryPoint *
point_at (const PlumbHistory *history, guint i)
{
  g_assert_cmpuint (i, <, history->points->len);
  return &g_array_index (history->points, PlumbHistoryPoint, i);
}

/* Through the run that is made of it: the series as charts show it. */
static PlumbSeries *
series_of (Fixture *fixture, const char *path, const char *run, const char *metric)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbHistory) history = load (path);
  g_autofree char *folder = path_in (fixture, run), *store = g_build_filename (folder, PLUMB_RUN_TELEMETRY, NULL);
  g_autoptr (PlumbTelemetryReader) reader = NULL;
  g_autoptr (PlumbChunk) chunk = NULL;
  PlumbSeries *series = plumb_series_new ();

  plumb_history_write (history, path, folder, run, &error);
  g_assert_no_error (error);
  reader = plumb_telemetry_reader_open (store, &error);
  g_assert_no_error (error);
  chunk = plumb_telemetry_reader_read (reader, 0, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < chunk->attempts->len; i++)
    {
      const PlumbAttempt *attempt = g_ptr_array_index (chunk->attempts, i);

      plumb_series_add_attempt (series, attempt->attempt, attempt->from_step);
    }
  for (guint i = 0; i < chunk->series->len; i++)
    {
      const PlumbPoints *points = g_ptr_array_index (chunk->series, i);

      if (g_str_equal (points->metric, metric))
        plumb_series_add_points (series, points->points, points->n_points);
    }
  return series;
}

/* An event file of 50 points: 1 / step, float32. */
static char *
write_events (Fixture *fixture)
{
  g_autoptr (GString) lines = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  g_autofree char *source = NULL, *run = path_in (fixture, "source"), *out = path_in (fixture, "tb");
  g_autofree char *store = g_build_filename (run, PLUMB_RUN_TELEMETRY, NULL);
  g_autoptr (PlumbHistory) history = NULL;
  char *path;

  for (int step = 1; step <= POINTS; step++)
    g_string_append_printf (lines, "{\"step\": %d, \"time\": %d.5, \"loss\": %.17g}\n", step, 1000 + step, 1.0 / step);
  source = write_file (fixture, "source.jsonl", lines->str, lines->len);
  history = load (source);
  g_assert_true (plumb_history_write (history, source, run, "source", NULL));
  path = plumb_history_export (store, out, &error);
  g_assert_no_error (error);
  return path;
}

static void
test_crc (void)
{
  g_assert_cmphex (plumb_crc32c ("123456789", 9), ==, 0xE3069283);
}

static void
test_events (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = write_events (fixture);
  g_autoptr (PlumbHistory) history = load (path);

  g_assert_cmpuint (history->points->len, ==, POINTS);
  g_assert_cmpuint (history->notes->len, ==, 0);
  for (int i = 0; i < POINTS; i++)
    {
      g_assert_cmpstr (point_at (history, i)->metric, ==, "loss");
      g_assert_cmpint (point_at (history, i)->step, ==, i + 1);
      g_assert_cmpfloat (point_at (history, i)->time, ==, 1001.5 + i);
      g_assert_cmpfloat (point_at (history, i)->value, ==, (float)(1.0 / (i + 1)));
    }
}

/* Damages a copy of the file and asserts how many points are left, and one note. */
static void
check_damaged (Fixture *fixture, const char *name, const char *data, gsize n, guint points, const char *note)
{
  g_autofree char *path = write_file (fixture, name, data, n);
  g_autoptr (PlumbHistory) history = load (path);

  g_assert_cmpuint (history->points->len, ==, points);
  g_assert_cmpuint (history->notes->len, ==, 1);
  if (strstr (g_ptr_array_index (history->notes, 0), note) == NULL)
    g_error ("%s: not %s", (char *)g_ptr_array_index (history->notes, 0), note);
}

static void
test_damage (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = write_events (fixture), *whole = NULL, *spoilt = NULL, *empty = NULL, *other = NULL;
  g_autoptr (GError) error = NULL;
  guint64 huge = G_GUINT64_CONSTANT (1) << 40;
  guint32 crc = plumb_crc32c_masked (&huge, sizeof huge);
  gsize n, record, at;

  g_assert_true (g_file_get_contents (path, &whole, &n, NULL));
  record = (n - VERSION_RECORD) / POINTS;
  g_assert_cmpuint (VERSION_RECORD + POINTS * record, ==, n); /* steps below 128: all records are of one size */
  check_damaged (fixture, "cut.tfevents", whole, n - 5, POINTS - 1, "last record incomplete at byte");
  at = VERSION_RECORD + 19 * record;
  spoilt = g_memdup2 (whole, n);
  spoilt[at + 30] ^= 4;
  check_damaged (fixture, "flipped.tfevents", spoilt, n, POINTS - 1, "record 21 at byte");
  spoilt[at + 30] ^= 4;
  spoilt[at + 2] ^= 4;
  check_damaged (fixture, "length.tfevents", spoilt, n, 19, "nothing behind it can be found");
  memcpy (spoilt + at, &huge, sizeof huge);
  memcpy (spoilt + at + 8, &crc, sizeof crc);
  check_damaged (fixture, "huge.tfevents", spoilt, n, 19, "last record incomplete at byte");
  empty = write_file (fixture, "empty.tfevents", "", 0);
  g_assert_null (plumb_history_load (empty, &error));
  g_assert_nonnull (strstr (error->message, "no events"));
  g_clear_error (&error);
  other = write_file (fixture, "other.tfevents", "this is a shopping list", -1);
  g_assert_null (plumb_history_load (other, &error));
  g_assert_nonnull (strstr (error->message, "not a TensorBoard event file"));
}

/* A file that grows is imported again into the same run; another source is refused. */
static void
test_renewed (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = write_events (fixture), *whole = NULL, *live = NULL, *other = NULL, *run = path_in (fixture, "live");
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbHistory) history = NULL;
  gsize n, points;

  g_assert_true (g_file_get_contents (path, &whole, &n, NULL));
  live = write_file (fixture, "live.tfevents", whole, n - 5);
  {
    g_autoptr (PlumbSeries) series = series_of (fixture, live, "live", "loss");

    plumb_series_current (series, &points);
    g_assert_cmpuint (points, ==, POINTS - 1);
  }
  g_free (write_file (fixture, "live.tfevents", whole, n));
  {
    g_autoptr (PlumbSeries) series = series_of (fixture, live, "live", "loss");

    plumb_series_current (series, &points);
    g_assert_cmpuint (points, ==, POINTS);
  }
  other = write_file (fixture, "other.tfevents", whole, n);
  history = load (other);
  g_assert_false (plumb_history_write (history, other, run, "other", &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
}

/* Steps 20 to 180, then 120 to 260 from a checkpoint: in one file, or in two. */
static void
check_restart (Fixture *fixture, const char *path, const char *run)
{
  g_autoptr (PlumbSeries) series = series_of (fixture, path, run, "loss");
  gsize n, superseded;
  const PlumbPoint *points = plumb_series_current (series, &n);

  g_assert_cmpuint (n, ==, 13);
  for (gsize i = 0; i < n; i++)
    {
      g_assert_cmpint (points[i].step, ==, 20 * (gint64)(i + 1));
      g_assert_cmpfloat (points[i].value, ==, i < 5 ? points[i].step : 1000 + points[i].step);
    }
  points = plumb_series_superseded (series, &superseded);
  g_assert_cmpuint (superseded, ==, 4);
  for (gsize i = 0; i < superseded; i++)
    g_assert_cmpint (points[i].step, ==, 120 + 20 * (gint64)i);
}

static void
test_restart (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GString) lines = g_string_new (NULL);
  g_autofree char *path = NULL, *folder = path_in (fixture, "two");

  for (int attempt = 0; attempt < 2; attempt++)
    {
      g_autoptr (GString) half = g_string_new (NULL);
      g_autofree char *name = g_strdup_printf ("half%d.jsonl", attempt), *source = NULL;
      g_autofree char *run = g_strdup_printf ("half%d", attempt);

      for (int step = attempt ? 120 : 20; step <= (attempt ? 260 : 180); step += 20)
        g_string_append_printf (half, "{\"step\": %d, \"time\": %d, \"loss\": %d}\n", step, 5000 * (attempt + 1) + step,
                                1000 * attempt + step);
      g_string_append (lines, half->str);
      source = write_file (fixture, name, half->str, half->len);
      {
        g_autoptr (PlumbSeries) series = series_of (fixture, source, run, "loss");
        g_autofree char *store = g_build_filename (fixture->folder, run, PLUMB_RUN_TELEMETRY, NULL);
        g_autofree char *events = plumb_history_export (store, folder, NULL);

        g_assert_nonnull (events);
      }
    }
  path = write_file (fixture, "appended.jsonl", lines->str, lines->len);
  check_restart (fixture, path, "appended");
  check_restart (fixture, folder, "folder");
}

static void
check_current (Fixture *fixture, const char *lines, const char *name, const double *values, gsize wanted, guint attempts)
{
  g_autofree char *path = write_file (fixture, name, lines, -1);
  g_autoptr (PlumbHistory) history = load (path);
  g_autoptr (GArray) starts = plumb_history_attempts (history);
  g_autoptr (PlumbSeries) series = series_of (fixture, path, name + 1, "loss");
  gsize n;
  const PlumbPoint *points = plumb_series_current (series, &n);

  g_assert_cmpuint (starts->len, ==, attempts);
  g_assert_cmpuint (n, ==, wanted);
  for (gsize i = 0; i < n; i++)
    {
      g_assert_cmpint (points[i].step, ==, (gint64)i + 1);
      g_assert_cmpfloat (points[i].value, ==, values[i]);
    }
}

/* What is no restart: a step written twice, steps out of order, another metric that starts at 1. */
static void
test_no_restart (Fixture *fixture, gconstpointer data)
{
  static const double twice[] = { 1, 0.8, 0.7, 0.6 }, order[] = { 1, 2, 3, 4, 5, 6 }, two[] = { 9, 8 };

  check_current (fixture,
                 "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":0.9}\n{\"step\":2,\"loss\":0.8}\n{\"step\":3,\"loss\":0.7}\n"
                 "{\"step\":3,\"loss\":0.7}\n{\"step\":4,\"loss\":0.6}\n",
                 "twice.jsonl", twice, 4, 1);
  check_current (fixture,
                 "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2}\n{\"step\":6,\"loss\":6}\n{\"step\":5,\"loss\":5}\n"
                 "{\"step\":4,\"loss\":4}\n{\"step\":3,\"loss\":3}\n",
                 "order.jsonl", order, 6, 1);
  check_current (fixture,
                 "{\"step\":1,\"data\":{\"loss\":9}}\n{\"step\":2,\"data\":{\"loss\":8}}\n{\"step\":1,\"val\":1}\n"
                 "{\"step\":2,\"val\":{\"deep\":1}}\nnonsense\n\n",
                 "two.jsonl", two, 2, 1);
}

/* A clock that goes an hour back: nothing is lost, and time does not run backwards. */
static void
test_clock (Fixture *fixture, gconstpointer data)
{
  static const char lines[] = "step,time,loss,note\n1,5000,1,a\n2,5010,2,b\n3,1410,3,\n4,1420,4,\"c, d\"\n5,1420,5,\n";
  static const double elapsed[] = { 0, 10, 10, 20, 20 };
  g_autofree char *path = write_file (fixture, "clock.csv", lines, -1);
  g_autoptr (PlumbSeries) series = series_of (fixture, path, "clock", "loss");
  double got[5];
  gsize n;
  const PlumbPoint *points = plumb_series_current (series, &n);

  g_assert_cmpuint (n, ==, 5);
  plumb_points_elapsed (points, n, got);
  for (gsize i = 0; i < n; i++)
    g_assert_cmpfloat (got[i], ==, elapsed[i]);
}

/* What other trainers call otherwise has our name; the rest keeps its own. */
static void
test_names (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = write_file (fixture, "names.jsonl", "{\"step\":1,\"critic/rewards/mean\":2,\"own\":3}\n"
                                                              "{\"step\":2,\"critic/rewards/mean\":4,\"own\":5}\n", -1);
  g_autoptr (PlumbHistory) history = load (path);

  plumb_history_rename (history);
  g_assert_cmpstr (point_at (history, 0)->metric, ==, "reward/mean");
  g_assert_cmpstr (point_at (history, 1)->metric, ==, "own");
  g_assert_cmpstr (point_at (history, 2)->metric, ==, "reward/mean");
  g_assert_cmpuint (history->notes->len, ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/history/crc", test_crc);
#define ADD(path, function) g_test_add (path, Fixture, NULL, set_up, function, tear_down)
  ADD ("/history/events", test_events);
  ADD ("/history/damage", test_damage);
  ADD ("/history/renewed", test_renewed);
  ADD ("/history/restart", test_restart);
  ADD ("/history/no-restart", test_no_restart);
  ADD ("/history/names", test_names);
  ADD ("/history/clock", test_clock);
  return g_test_run ();
}
