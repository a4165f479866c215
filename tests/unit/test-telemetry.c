/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/core/series.h"
#include "engine/core/database.h"
#include "engine/core/telemetry-reader.h"
#include "tests/unit/temporary.h"

typedef struct
{
  char *folder, *path, *samples;
} Store;

static void
set_up (Store *store, gconstpointer data)
{
  store->folder = temporary_folder ();
  store->path = g_build_filename (store->folder, "telemetry.db", NULL);
  store->samples = g_build_filename (store->folder, "samples.db", NULL);
}

static void
tear_down (Store *store, gconstpointer data)
{
  remove_folder (store->folder);
  g_free (store->folder);
  g_free (store->path);
  g_free (store->samples);
}

static PlumbTelemetry *
open_writer (Store *store, gint64 max_bytes)
{
  g_autoptr (GError) error = NULL;
  PlumbTelemetry *telemetry = plumb_telemetry_open (store->path, store->samples, max_bytes, &error);

  g_assert_no_error (error);
  return telemetry;
}

static const PlumbPoints *
find_series (PlumbChunk *chunk, const char *metric)
{
  for (guint i = 0; i < chunk->series->len; i++)
    {
      const PlumbPoints *points = g_ptr_array_index (chunk->series, i);

      if (g_str_equal (points->metric, metric))
        return points;
    }
  return NULL;
}

static void
test_write_and_read (Store *store, gconstpointer data)
{
  PlumbTelemetry *telemetry = open_writer (store, 0);
  g_autoptr (PlumbTelemetryReader) reader = NULL;
  g_autoptr (PlumbChunk) chunk = NULL, rest = NULL;
  g_autoptr (GError) error = NULL;
  const PlumbPoints *reward;
  const PlumbEvent *event;
  g_autofree char *wal = g_strconcat (store->path, "-wal", NULL);

  g_assert_cmpint (plumb_telemetry_begin_attempt (telemetry, 0, &error), ==, 1);
  plumb_telemetry_point (telemetry, "reward/mean", 1, 0.5);
  plumb_telemetry_point (telemetry, "kl/reference", 1, INFINITY);
  plumb_telemetry_point (telemetry, "reward/mean", 2, NAN);
  plumb_telemetry_event (telemetry, PLUMB_EVENT_WARNING, "nan", 2, "skipped \xff%d", 7);
  plumb_telemetry_phase (telemetry, "worker0", "train", 2, 10.5, 11.5);
  g_assert_true (plumb_telemetry_flush (telemetry, &error));

  reader = plumb_telemetry_reader_open (store->path, &error);
  g_assert_no_error (error);
  g_assert_true (plumb_telemetry_reader_changed (reader));
  g_assert_false (plumb_telemetry_reader_changed (reader));
  chunk = plumb_telemetry_reader_read (reader, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_chunk_n_rows (chunk), ==, 6);
  g_assert_false (chunk->more);
  reward = find_series (chunk, "reward/mean");
  g_assert_cmpuint (reward->n_points, ==, 2);
  g_assert_cmpfloat (reward->points[0].value, ==, 0.5);
  g_assert_true (isnan (reward->points[1].value));
  g_assert_cmpint (reward->points[1].step, ==, 2);
  g_assert_cmpfloat (reward->points[1].time, >=, reward->points[0].time);
  g_assert_true (isinf (find_series (chunk, "kl/reference")->points[0].value));
  g_assert_cmpstr (find_series (chunk, "kl/reference")->unit, ==, "nats");
  event = g_ptr_array_index (chunk->events, 0);
  g_assert_cmpint (event->level, ==, PLUMB_EVENT_WARNING);
  g_assert_cmpstr (event->message, ==,
                   "skipped \xef\xbf\xbd"
                   "7");
  g_assert_cmpfloat (((PlumbPhase *)g_ptr_array_index (chunk->phases, 0))->end, ==, 11.5);

  g_assert_true (
      plumb_telemetry_end_attempt (telemetry, PLUMB_OUTCOME_STOPPED, 0, 2, "done", &error));
  g_assert_true (plumb_telemetry_reader_changed (reader));
  rest = plumb_telemetry_reader_read (reader, chunk->last_seq, &error);
  g_assert_cmpuint (plumb_chunk_n_rows (rest), ==, 1);
  g_assert_cmpint (((PlumbAttemptEnd *)g_ptr_array_index (rest->attempt_ends, 0))->outcome, ==,
                   PLUMB_OUTCOME_STOPPED);
  /* The reader has left the file by now, so that it becomes one that opens anywhere. */
  g_assert_true (plumb_telemetry_close (telemetry, &error));
  g_assert_false (g_file_test (wal, G_FILE_TEST_EXISTS));
  g_assert_cmpint (g_chmod (store->folder, 0500), ==, 0);
  g_clear_pointer (&chunk, plumb_chunk_unref);
  chunk = plumb_telemetry_reader_read (reader, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_chunk_n_rows (chunk), ==, 7);
  g_chmod (store->folder, 0700);
}

static void
test_bounded_chunks (Store *store, gconstpointer data)
{
  PlumbTelemetry *telemetry = open_writer (store, 0);
  g_autoptr (PlumbTelemetryReader) reader = NULL;
  g_autoptr (GError) error = NULL;
  gint64 seq = 0;
  gsize points = 0, chunks = 0;
  gboolean more = TRUE;

  plumb_telemetry_begin_attempt (telemetry, 0, &error);
  for (int i = 0; i < 50000; i++)
    plumb_telemetry_point (telemetry, i % 2 ? "a" : "b", i / 2, i);
  g_assert_true (plumb_telemetry_close (telemetry, &error));
  reader = plumb_telemetry_reader_open (store->path, &error);
  while (more)
    {
      g_autoptr (PlumbChunk) chunk = plumb_telemetry_reader_read (reader, seq, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (plumb_chunk_n_rows (chunk), <=, PLUMB_CHUNK_MAX_ROWS);
      for (guint i = 0; i < chunk->series->len; i++)
        points += ((PlumbPoints *)g_ptr_array_index (chunk->series, i))->n_points;
      seq = chunk->last_seq;
      more = chunk->more;
      chunks++;
    }
  g_assert_cmpuint (points, ==, 50000);
  g_assert_cmpuint (chunks, ==, 3);
}

/* Killed in the middle: what was flushed is there, the next attempt goes on numbering. */
static void
test_killed_writer (Store *store, gconstpointer data)
{
  pid_t child = fork ();
  int status;
  g_autoptr (PlumbTelemetryReader) reader = NULL;
  g_autoptr (PlumbChunk) chunk = NULL, all = NULL;
  g_autoptr (PlumbAttempt) attempt = NULL;
  g_autoptr (PlumbAttemptEnd) end = NULL;
  g_autoptr (GError) error = NULL;
  PlumbTelemetry *telemetry;

  if (child == 0)
    {
      telemetry = plumb_telemetry_open (store->path, store->samples, 0, NULL);
      plumb_telemetry_begin_attempt (telemetry, 0, NULL);
      for (int i = 0; i < 20; i++)
        plumb_telemetry_point (telemetry, "reward/mean", i, i);
      plumb_telemetry_flush (telemetry, NULL);
      kill (getpid (), SIGKILL);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFSIGNALED (status));
  reader = plumb_telemetry_reader_open (store->path, &error);
  g_assert_no_error (error);
  chunk = plumb_telemetry_reader_read (reader, 0, &error);
  g_assert_cmpuint (plumb_chunk_n_rows (chunk), ==, 21);
  g_assert_true (plumb_telemetry_reader_last_attempt (reader, &attempt, &end, &error));
  g_assert_cmpint (attempt->pid, ==, child);
  g_assert_null (end);

  telemetry = open_writer (store, 0);
  g_assert_cmpint (plumb_telemetry_begin_attempt (telemetry, 10, &error), ==, 2);
  for (int i = 10; i < 12; i++)
    plumb_telemetry_point (telemetry, "reward/mean", i, 100 + i);
  g_assert_true (plumb_telemetry_flush (telemetry, &error));
  all = plumb_telemetry_reader_read (reader, 0, &error);
  g_assert_cmpuint (plumb_chunk_n_rows (all), ==, 24);
  g_assert_cmpint (((PlumbAttempt *)g_ptr_array_index (all->attempts, 1))->from_step, ==, 10);
  plumb_telemetry_close (telemetry, NULL);
}

static PlumbSample *
make_sample (gint64 step, int index, gsize bytes)
{
  PlumbSample *sample = plumb_sample_new ();
  const gint32 ids[] = { 1, 2, 3 }, runs[] = { 2, 7, 1, -1 };

  sample->step = step;
  sample->prompt = step * 2 + index / 2;
  sample->sample = index % 2;
  sample->prompt_text = g_strdup ("1+1=");
  sample->response_text = g_strnfill (bytes, 'x');
  sample->answer = g_strdup ("2");
  sample->reward = 0.25 * index;
  sample->failed = index == 1;
  sample->reason = index == 1 ? g_strdup ("timeout") : NULL;
  sample->n_parts = 2;
  sample->part_names = g_new0 (char *, 2);
  sample->part_names[0] = g_strdup ("number");
  sample->part_names[1] = g_strdup ("length");
  sample->part_values = g_new0 (double, 2);
  sample->part_values[0] = 1;
  sample->part_values[1] = NAN;
  sample->finish = g_strdup ("eos");
  sample->response_ids = g_bytes_new (ids, sizeof ids);
  if (index == 2)
    sample->versions = g_bytes_new (runs, sizeof runs);
  return sample;
}

static void
test_samples (Store *store, gconstpointer data)
{
  PlumbTelemetry *telemetry = open_writer (store, 0);
  g_autoptr (GPtrArray) samples = NULL, after = NULL;
  g_autoptr (GError) error = NULL;
  const PlumbSample *sample;

  plumb_telemetry_begin_attempt (telemetry, 0, &error);
  for (int step = 0; step < 4; step++)
    for (int i = 0; i < 4; i++)
      plumb_telemetry_sample (telemetry, make_sample (step, i, 10));
  g_assert_true (plumb_telemetry_flush (telemetry, &error));
  samples = plumb_samples_read (store->samples, 1, 2, 100, TRUE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (samples->len, ==, 8);
  sample = g_ptr_array_index (samples, 1);
  g_assert_true (sample->failed);
  g_assert_cmpstr (sample->reason, ==, "timeout");
  g_assert_cmpstr (sample->part_names[0], ==, "number");
  g_assert_cmpfloat (sample->part_values[0], ==, 1);
  g_assert_true (isnan (sample->part_values[1]));
  g_assert_true (isnan (sample->advantage));
  g_assert_cmpuint (g_bytes_get_size (sample->response_ids), ==, 12);
  g_assert_null (sample->logprobs);
  g_assert_null (sample->versions);
  sample = g_ptr_array_index (samples, 2);
  g_assert_cmpfloat (sample->reward, ==, 0.5);
  g_assert_cmpuint (g_bytes_get_size (sample->versions), ==, 4 * sizeof (gint32));
  g_assert_cmpint (((const gint32 *)g_bytes_get_data (sample->versions, NULL))[3], ==, -1);
  /* A resumed attempt starts steps 2 and 3 over. */
  plumb_telemetry_begin_attempt (telemetry, 2, &error);
  plumb_telemetry_sample (telemetry, make_sample (2, 0, 10));
  g_assert_true (plumb_telemetry_flush (telemetry, &error));
  after = plumb_samples_read (store->samples, 0, 100, 100, FALSE, &error);
  g_assert_cmpuint (after->len, ==, 9);
  g_assert_cmpint (((PlumbSample *)g_ptr_array_index (after, 8))->attempt, ==, 2);
  g_assert_true (plumb_telemetry_close (telemetry, &error));
}

/* The samples of an earlier program, which knew one version of each, are read and added to. */
static void
test_earlier_samples (Store *store, gconstpointer data)
{
  PlumbTelemetry *telemetry = open_writer (store, 0);
  g_autoptr (GPtrArray) before = NULL, after = NULL;
  g_autoptr (GError) error = NULL;
  PlumbDatabase *db;

  plumb_telemetry_begin_attempt (telemetry, 0, &error);
  plumb_telemetry_sample (telemetry, make_sample (0, 2, 10));
  g_assert_true (plumb_telemetry_close (telemetry, &error));
  db = plumb_database_open (store->samples, "samples.sql", &error);
  g_assert_true (plumb_database_exec (db, "ALTER TABLE sample DROP COLUMN versions", &error));
  g_clear_pointer (&db, sqlite3_close_v2);
  before = plumb_samples_read (store->samples, 0, 9, 100, TRUE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (before->len, ==, 1);
  g_assert_null (((PlumbSample *)g_ptr_array_index (before, 0))->versions);
  telemetry = open_writer (store, 0);
  plumb_telemetry_begin_attempt (telemetry, 1, &error);
  plumb_telemetry_sample (telemetry, make_sample (1, 2, 10));
  g_assert_true (plumb_telemetry_close (telemetry, &error));
  after = plumb_samples_read (store->samples, 0, 9, 100, TRUE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (after->len, ==, 2);
  g_assert_nonnull (((PlumbSample *)g_ptr_array_index (after, 1))->versions);
}

static void
test_thinning (Store *store, gconstpointer data)
{
  PlumbTelemetry *telemetry = open_writer (store, 1 << 20);
  g_autoptr (GArray) steps = NULL;
  g_autoptr (GError) error = NULL;
  GStatBuf info;
  gint64 last = -1;

  plumb_telemetry_begin_attempt (telemetry, 0, &error);
  for (int step = 0; step < 100; step++)
    {
      for (int i = 0; i < 4; i++)
        plumb_telemetry_sample (telemetry, make_sample (step, i, 20000));
      g_assert_true (plumb_telemetry_flush (telemetry, &error));
    }
  g_assert_true (plumb_telemetry_close (telemetry, &error));
  g_assert_cmpint (g_stat (store->samples, &info), ==, 0);
  g_assert_cmpint (info.st_size, <, (1 << 20) + (1 << 18));
  steps = plumb_samples_steps (store->samples, &error);
  g_assert_cmpuint (steps->len, >, 5);
  g_assert_cmpint (g_array_index (steps, gint64, 0), ==, 0);
  g_assert_cmpint (g_array_index (steps, gint64, steps->len - 1), ==, 99);
  g_assert_cmpint (g_array_index (steps, gint64, steps->len - 2), ==, 98);
  for (guint i = 0; i < steps->len; i++)
    {
      g_assert_cmpint (g_array_index (steps, gint64, i), >, last);
      last = g_array_index (steps, gint64, i);
    }
}

/* A file that cannot grow stands for a full disk. */
static void
test_full_disk (Store *store, gconstpointer data)
{
  PlumbTelemetry *telemetry = open_writer (store, 0);
  g_autoptr (PlumbTelemetryReader) reader = NULL;
  g_autoptr (PlumbChunk) chunk = NULL;
  g_autoptr (GError) error = NULL;
  struct rlimit before, tight;

  signal (SIGXFSZ, SIG_IGN);
  plumb_telemetry_begin_attempt (telemetry, 0, &error);
  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &before), ==, 0);
  tight = before;
  tight.rlim_cur = 64 << 10;
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &tight), ==, 0);
  for (int i = 0; i < 15000; i++)
    plumb_telemetry_point (telemetry, "reward/mean", i, i);
  g_assert_false (plumb_telemetry_flush (telemetry, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT);
  g_assert_nonnull (strstr (error->message, store->path));
  g_clear_error (&error);
  /* Room again: nothing was lost. */
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_true (plumb_telemetry_flush (telemetry, &error));
  g_assert_no_error (error);
  g_assert_true (plumb_telemetry_check (telemetry, &error));
  reader = plumb_telemetry_reader_open (store->path, &error);
  chunk = plumb_telemetry_reader_read (reader, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (find_series (chunk, "reward/mean")->n_points, ==, 15000);
  g_clear_pointer (&reader, plumb_telemetry_reader_free);
  g_assert_true (plumb_telemetry_close (telemetry, &error));
}

static void
test_damaged (Store *store, gconstpointer data)
{
  g_autofree char *rubbish = g_strnfill (8192, 'q');
  g_autoptr (GError) error = NULL;

  g_assert_null (plumb_telemetry_reader_open (store->path, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_clear_error (&error);
  g_assert_true (g_file_set_contents (store->path, rubbish, 8192, NULL));
  g_assert_null (plumb_telemetry_reader_open (store->path, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_clear_error (&error);
  g_assert_null (plumb_telemetry_open (store->path, NULL, 0, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_assert_nonnull (strstr (error->message, store->path));
}

static void
test_backup (Store *store, gconstpointer data)
{
  PlumbTelemetry *telemetry = open_writer (store, 0);
  g_autofree char *copy = g_build_filename (store->folder, "copy.db", NULL);
  g_autoptr (PlumbTelemetryReader) reader = NULL;
  g_autoptr (PlumbChunk) chunk = NULL;
  g_autoptr (GError) error = NULL;

  plumb_telemetry_begin_attempt (telemetry, 0, &error);
  plumb_telemetry_point (telemetry, "reward/mean", 1, 1);
  plumb_telemetry_flush (telemetry, &error);
  g_assert_true (plumb_telemetry_backup (store->path, copy, &error));
  g_assert_no_error (error);
  plumb_telemetry_close (telemetry, &error);
  reader = plumb_telemetry_reader_open (copy, &error);
  chunk = plumb_telemetry_reader_read (reader, 0, &error);
  g_assert_cmpuint (plumb_chunk_n_rows (chunk), ==, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
  g_test_add ("/telemetry/" name, Store, NULL, set_up, function, tear_down)
  ADD ("write-and-read", test_write_and_read);
  ADD ("bounded-chunks", test_bounded_chunks);
  ADD ("killed-writer", test_killed_writer);
  ADD ("samples", test_samples);
  ADD ("earlier-samples", test_earlier_samples);
  ADD ("thinning", test_thinning);
  ADD ("full-disk", test_full_disk);
  ADD ("damaged", test_damaged);
  ADD ("backup", test_backup);
  return g_test_run ();
}
