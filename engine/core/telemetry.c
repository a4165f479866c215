/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's queue and thread. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/core/telemetry-rows.h"

#define TICK_US (G_USEC_PER_SEC / 2)
/* What may wait while nothing can be written (full disk). */
#define MOST_ROWS 500000
#define MOST_SAMPLE_BYTES (G_GINT64_CONSTANT (256) << 20)

struct _PlumbTelemetry
{
  GMutex lock; /* guards all down to `lost` */
  GCond wake;  /* the writer */
  GCond done;  /* those who wait for it */
  GQueue rows, samples;
  gint64 sample_bytes;
  gboolean hurry, stop;
  guint64 asked,
      answered;    /* tickets of those who wait: a round answers all that were asked before it */
  GError *failure; /* of the last round; NULL: it was fine */
  GError *news;    /* a failure that nobody has been told of */
  guint64 lost;    /* rows beyond the bounds */

  PlumbRowStore *row_store;
  PlumbSampleStore *sample_store; /* NULL: keeps none */
  GThread *thread;
  gint64 attempt, last_attempt;
  double wall_offset; /* wall clock minus monotonic clock at the start of the attempt */
};

static const char *const outcome_names[]
    = { "", "finished", "stopped", "failed", "interrupted", "timed_out", "preempted" };

const char *
plumb_outcome_name (PlumbOutcome outcome)
{
  return outcome_names[outcome];
}

PlumbOutcome
plumb_outcome_from_name (const char *name)
{
  for (gsize i = 1; i < G_N_ELEMENTS (outcome_names); i++)
    if (g_strcmp0 (outcome_names[i], name) == 0)
      return i;
  return PLUMB_OUTCOME_NONE;
}

const char *
plumb_event_level_name (PlumbEventLevel level)
{
  static const char *const names[] = { "info", "warning", "error" };

  return names[level];
}

static double
monotonic_seconds (void)
{
  return g_get_monotonic_time () / (double)G_USEC_PER_SEC;
}

static gint64
bytes_size (GBytes *bytes)
{
  return bytes != NULL ? g_bytes_get_size (bytes) : 0;
}

static gint64
sample_size (const PlumbSample *sample)
{
  return sizeof *sample + (sample->prompt_text != NULL ? strlen (sample->prompt_text) : 0)
         + (sample->response_text != NULL ? strlen (sample->response_text) : 0)
         + bytes_size (sample->prompt_ids) + bytes_size (sample->response_ids)
         + bytes_size (sample->logprobs) + bytes_size (sample->kl)
         + bytes_size (sample->advantages);
}

/* Puts what was not written before what came meanwhile. */
static void
put_back (GQueue *queue, GQueue *unwritten)
{
  gpointer row;

  while ((row = g_queue_pop_tail (unwritten)) != NULL)
    g_queue_push_head (queue, row);
}

static void
take_all (GQueue *to, GQueue *from)
{
  *to = *from;
  g_queue_init (from);
}

/* One round of the writer, entered and left with the lock held. */
static void
write_round (PlumbTelemetry *telemetry)
{
  GQueue rows = G_QUEUE_INIT, samples = G_QUEUE_INIT;
  guint64 ticket = telemetry->asked;
  gint64 sample_bytes = telemetry->sample_bytes;
  GError *failure = NULL;
  gboolean rows_fine = TRUE, samples_fine = TRUE;

  take_all (&rows, &telemetry->rows);
  take_all (&samples, &telemetry->samples);
  g_mutex_unlock (&telemetry->lock);
  if (rows.length > 0)
    rows_fine = plumb_row_store_write (telemetry->row_store, &rows, &failure);
  if (samples.length > 0)
    samples_fine = plumb_sample_store_write (telemetry->sample_store, &samples,
                                             failure == NULL ? &failure : NULL);
  g_mutex_lock (&telemetry->lock);

  if (rows_fine)
    g_queue_clear_full (&rows, (GDestroyNotify)plumb_row_free);
  else
    put_back (&telemetry->rows, &rows);
  if (samples_fine)
    {
      g_queue_clear_full (&samples, (GDestroyNotify)plumb_row_free);
      telemetry->sample_bytes -= sample_bytes;
    }
  else
    put_back (&telemetry->samples, &samples);

  g_clear_error (&telemetry->failure);
  telemetry->failure = failure;
  if (failure != NULL && telemetry->news == NULL)
    telemetry->news = g_error_copy (failure);
  telemetry->answered = ticket;
  g_cond_broadcast (&telemetry->done);
}

static gpointer
writer_main (gpointer data)
{
  PlumbTelemetry *telemetry = data;

  g_mutex_lock (&telemetry->lock);
  while (!telemetry->stop)
    {
      gint64 deadline = g_get_monotonic_time () + TICK_US;

      while (!telemetry->hurry && !telemetry->stop
             && g_cond_wait_until (&telemetry->wake, &telemetry->lock, deadline))
        continue;
      telemetry->hurry = FALSE;
      write_round (telemetry);
    }
  g_mutex_unlock (&telemetry->lock);
  return NULL;
}

PlumbTelemetry *
plumb_telemetry_open (const char *path,
                      const char *samples_path,
                      gint64 samples_max_bytes,
                      GError **error)
{
  PlumbTelemetry *telemetry;
  PlumbSampleStore *sample_store = NULL;
  gint64 last_attempt;
  PlumbRowStore *row_store = plumb_row_store_open (path, &last_attempt, error);

  if (row_store == NULL)
    return NULL;
  if (samples_path != NULL)
    {
      sample_store = plumb_sample_store_open (samples_path, samples_max_bytes, error);
      if (sample_store == NULL)
        {
          plumb_row_store_close (row_store);
          return NULL;
        }
    }
  telemetry = g_new0 (PlumbTelemetry, 1);
  g_mutex_init (&telemetry->lock);
  g_cond_init (&telemetry->wake);
  g_cond_init (&telemetry->done);
  g_queue_init (&telemetry->rows);
  g_queue_init (&telemetry->samples);
  telemetry->row_store = row_store;
  telemetry->sample_store = sample_store;
  telemetry->last_attempt = last_attempt;
  telemetry->wall_offset = g_get_real_time () / (double)G_USEC_PER_SEC - monotonic_seconds ();
  telemetry->thread = g_thread_new ("telemetry", writer_main, telemetry);
  return telemetry;
}

double
plumb_telemetry_now (PlumbTelemetry *telemetry)
{
  return telemetry->wall_offset + monotonic_seconds ();
}

gint64
plumb_telemetry_attempt (PlumbTelemetry *telemetry)
{
  return telemetry->attempt;
}

static PlumbRow *
new_row (PlumbTelemetry *telemetry, PlumbRowKind kind, gint64 step)
{
  PlumbRow *row = g_new0 (PlumbRow, 1);

  row->kind = kind;
  row->attempt = telemetry->attempt;
  row->step = step;
  row->time = plumb_telemetry_now (telemetry);
  return row;
}

static void
queue_row (PlumbTelemetry *telemetry, PlumbRow *row)
{
  g_mutex_lock (&telemetry->lock);
  /* Points give way first: the rows that say how the run went must come through. */
  if (telemetry->rows.length >= MOST_ROWS && row->kind == ROW_POINT)
    {
      telemetry->lost++;
      g_clear_pointer (&row, plumb_row_free);
    }
  else
    g_queue_push_tail (&telemetry->rows, row);
  g_mutex_unlock (&telemetry->lock);
}

static void
queue_sample (PlumbTelemetry *telemetry, PlumbRow *row)
{
  gint64 size = row->kind == ROW_SAMPLE ? sample_size (row->sample) : 0;

  g_mutex_lock (&telemetry->lock);
  if (telemetry->sample_bytes + size > MOST_SAMPLE_BYTES)
    {
      telemetry->lost++;
      g_clear_pointer (&row, plumb_row_free);
    }
  else
    {
      g_queue_push_tail (&telemetry->samples, row);
      telemetry->sample_bytes += size;
    }
  g_mutex_unlock (&telemetry->lock);
}

void
plumb_telemetry_point (PlumbTelemetry *telemetry, const char *metric, gint64 step, double value)
{
  PlumbRow *row = new_row (telemetry, ROW_POINT, step);

  row->point.metric = g_intern_string (metric);
  row->point.value = value;
  queue_row (telemetry, row);
}

void
plumb_telemetry_event (PlumbTelemetry *telemetry,
                       PlumbEventLevel level,
                       const char *kind,
                       gint64 step,
                       const char *format,
                       ...)
{
  PlumbRow *row = new_row (telemetry, ROW_EVENT, step);
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  row->event.level = level;
  row->event.kind = g_strdup (kind);
  row->event.message = g_utf8_make_valid (message, -1);
  queue_row (telemetry, row);
}

void
plumb_telemetry_phase (PlumbTelemetry *telemetry,
                       const char *worker,
                       const char *name,
                       gint64 step,
                       double start,
                       double end)
{
  PlumbRow *row = new_row (telemetry, ROW_PHASE, step);

  row->phase.worker = g_strdup (worker);
  row->phase.name = g_strdup (name);
  row->phase.start = start;
  row->phase.end = end;
  queue_row (telemetry, row);
}

void
plumb_telemetry_sample (PlumbTelemetry *telemetry, PlumbSample *sample)
{
  PlumbRow *row;

  if (telemetry->sample_store == NULL)
    {
      plumb_sample_free (sample);
      return;
    }
  row = new_row (telemetry, ROW_SAMPLE, sample->step);
  sample->attempt = row->attempt;
  row->sample = sample;
  queue_sample (telemetry, row);
}

gboolean
plumb_telemetry_flush (PlumbTelemetry *telemetry, GError **error)
{
  gboolean fine;
  guint64 ticket;

  g_mutex_lock (&telemetry->lock);
  ticket = ++telemetry->asked;
  telemetry->hurry = TRUE;
  g_cond_signal (&telemetry->wake);
  while (telemetry->answered < ticket)
    g_cond_wait (&telemetry->done, &telemetry->lock);
  fine = telemetry->failure == NULL;
  if (!fine && error != NULL)
    *error = g_error_copy (telemetry->failure);
  g_clear_error (&telemetry->news);
  g_mutex_unlock (&telemetry->lock);
  return fine;
}

gboolean
plumb_telemetry_check (PlumbTelemetry *telemetry, GError **error)
{
  GError *news;

  g_mutex_lock (&telemetry->lock);
  news = g_steal_pointer (&telemetry->news);
  g_mutex_unlock (&telemetry->lock);
  if (news == NULL)
    return TRUE;
  g_propagate_error (error, news);
  return FALSE;
}

gint64
plumb_telemetry_begin_attempt (PlumbTelemetry *telemetry, gint64 from_step, GError **error)
{
  telemetry->attempt = ++telemetry->last_attempt;
  telemetry->wall_offset = g_get_real_time () / (double)G_USEC_PER_SEC - monotonic_seconds ();
  queue_row (telemetry, new_row (telemetry, ROW_ATTEMPT, from_step));
  if (telemetry->sample_store != NULL)
    queue_sample (telemetry, new_row (telemetry, ROW_ATTEMPT, from_step));
  if (!plumb_telemetry_flush (telemetry, error))
    return 0;
  return telemetry->attempt;
}

gboolean
plumb_telemetry_end_attempt (PlumbTelemetry *telemetry,
                             PlumbOutcome outcome,
                             int exit_code,
                             gint64 step,
                             const char *message,
                             GError **error)
{
  PlumbRow *row = new_row (telemetry, ROW_ATTEMPT_END, step);

  row->end.outcome = outcome;
  row->end.exit_code = exit_code;
  row->end.message = message != NULL ? g_utf8_make_valid (message, -1) : NULL;
  queue_row (telemetry, row);
  return plumb_telemetry_flush (telemetry, error);
}

gboolean
plumb_telemetry_close (PlumbTelemetry *telemetry, GError **error)
{
  gboolean fine;

  if (telemetry == NULL)
    return TRUE;
  fine = plumb_telemetry_flush (telemetry, error);
  g_mutex_lock (&telemetry->lock);
  telemetry->stop = TRUE;
  g_cond_signal (&telemetry->wake);
  g_mutex_unlock (&telemetry->lock);
  g_thread_join (telemetry->thread);
  if (fine && telemetry->lost > 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   "%" G_GUINT64_FORMAT " rows of telemetry were lost while the disk was full",
                   telemetry->lost);
      fine = FALSE;
    }
  g_queue_clear_full (&telemetry->rows, (GDestroyNotify)plumb_row_free);
  g_queue_clear_full (&telemetry->samples, (GDestroyNotify)plumb_row_free);
  plumb_row_store_close (telemetry->row_store);
  plumb_sample_store_close (telemetry->sample_store);
  g_clear_error (&telemetry->failure);
  g_clear_error (&telemetry->news);
  g_mutex_clear (&telemetry->lock);
  g_cond_clear (&telemetry->wake);
  g_cond_clear (&telemetry->done);
  g_free (telemetry);
  return fine;
}

static gboolean
copy_pages (PlumbDatabase *from, PlumbDatabase *to, GError **error)
{
  sqlite3_backup *backup = sqlite3_backup_init (to, "main", from, "main");
  int result;

  if (backup == NULL)
    return plumb_database_fail (to, error);
  result = sqlite3_backup_step (backup, -1);
  if (sqlite3_backup_finish (backup) != SQLITE_OK || result != SQLITE_DONE)
    return plumb_database_fail (to, error);
  return plumb_database_exec (to, "PRAGMA journal_mode = DELETE", error);
}

gboolean
plumb_telemetry_backup (const char *from, const char *to, GError **error)
{
  g_autofree char *aside = g_strconcat (to, ".copy", NULL);
  PlumbDatabase *copy = NULL;
  g_autoptr (PlumbDatabase) source = plumb_database_open_readonly (from, error);
  gboolean fine;

  if (source == NULL)
    return FALSE;
  g_unlink (aside);
  if (sqlite3_open (aside, &copy) != SQLITE_OK)
    fine = plumb_database_fail (copy, error);
  else
    fine = copy_pages (source, copy, error);
  sqlite3_close_v2 (copy);
  if (fine && g_rename (aside, to) < 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "%s: cannot replace it", to);
      fine = FALSE;
    }
  if (!fine)
    g_unlink (aside);
  return fine;
}
