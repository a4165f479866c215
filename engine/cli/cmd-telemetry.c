/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine telemetry: the rows of a run after a number, as JSON lines. The first line names
 * the store; after every batch a line tells the number of its last row. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/history.h"
#include "engine/core/run-dir.h"
#include "engine/core/telemetry-reader.h"

#define POLL_US 250000

typedef struct
{
  gint64 seq;
  JsonBuilder *builder; /* of one object, still open */
} Line;

static void
add_integer (JsonBuilder *builder, const char *name, gint64 value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, value);
}

static void
add_real (JsonBuilder *builder, const char *name, double value)
{
  json_builder_set_member_name (builder, name);
  if (isfinite (value))
    json_builder_add_double_value (builder, value);
  else /* JSON has no such numbers */
    json_builder_add_string_value (builder, isnan (value) ? "nan" : value > 0 ? "inf" : "-inf");
}

static void
add_text (JsonBuilder *builder, const char *name, const char *value)
{
  json_builder_set_member_name (builder, name);
  if (value != NULL)
    json_builder_add_string_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

static JsonBuilder *
new_line (GArray *lines, const char *table, gint64 seq, gint64 attempt, gint64 step)
{
  Line line = { seq, json_builder_new () };

  json_builder_begin_object (line.builder);
  add_integer (line.builder, "seq", seq);
  add_text (line.builder, "table", table);
  add_integer (line.builder, "attempt", attempt);
  add_integer (line.builder, "step", step);
  g_array_append_val (lines, line);
  return line.builder;
}

static void
add_points (GArray *lines, const PlumbPoints *series)
{
  for (gsize i = 0; i < series->n_points; i++)
    {
      const PlumbPoint *point = &series->points[i];
      JsonBuilder *builder = new_line (lines, "point", point->seq, point->attempt, point->step);

      add_real (builder, "time", point->time);
      add_text (builder, "metric", series->metric);
      add_text (builder, "unit", series->unit);
      add_real (builder, "value", point->value);
    }
}

static void
add_attempts (GArray *lines, PlumbChunk *chunk)
{
  for (guint i = 0; i < chunk->attempts->len; i++)
    {
      const PlumbAttempt *attempt = g_ptr_array_index (chunk->attempts, i);
      JsonBuilder *builder
          = new_line (lines, "attempt", attempt->seq, attempt->attempt, attempt->from_step);

      add_real (builder, "time", attempt->time);
      add_text (builder, "host", attempt->host);
      add_integer (builder, "pid", attempt->pid);
    }
  for (guint i = 0; i < chunk->attempt_ends->len; i++)
    {
      const PlumbAttemptEnd *end = g_ptr_array_index (chunk->attempt_ends, i);
      JsonBuilder *builder = new_line (lines, "attempt_end", end->seq, end->attempt, end->step);

      add_real (builder, "time", end->time);
      add_text (builder, "outcome", plumb_outcome_name (end->outcome));
      add_integer (builder, "exit_code", end->exit_code);
      add_text (builder, "message", end->message);
    }
}

static void
add_events_and_phases (GArray *lines, PlumbChunk *chunk)
{
  for (guint i = 0; i < chunk->events->len; i++)
    {
      const PlumbEvent *event = g_ptr_array_index (chunk->events, i);
      JsonBuilder *builder = new_line (lines, "event", event->seq, event->attempt, event->step);

      add_real (builder, "time", event->time);
      add_text (builder, "level", plumb_event_level_name (event->level));
      add_text (builder, "kind", event->kind);
      add_text (builder, "message", event->message);
    }
  for (guint i = 0; i < chunk->phases->len; i++)
    {
      const PlumbPhase *phase = g_ptr_array_index (chunk->phases, i);
      JsonBuilder *builder = new_line (lines, "phase", phase->seq, phase->attempt, phase->step);

      add_text (builder, "worker", phase->worker);
      add_text (builder, "name", phase->name);
      add_real (builder, "start", phase->start);
      add_real (builder, "end", phase->end);
    }
}

static int
by_seq (gconstpointer a, gconstpointer b)
{
  const Line *p = a, *q = b;

  return (p->seq > q->seq) - (p->seq < q->seq);
}

static void
print_chunk (PlumbChunk *chunk)
{
  g_autoptr (GArray) lines = g_array_new (FALSE, FALSE, sizeof (Line));

  for (guint i = 0; i < chunk->series->len; i++)
    add_points (lines, g_ptr_array_index (chunk->series, i));
  add_attempts (lines, chunk);
  add_events_and_phases (lines, chunk);
  g_array_sort (lines, by_seq);
  for (guint i = 0; i < lines->len; i++)
    {
      g_autoptr (JsonBuilder) builder = g_array_index (lines, Line, i).builder;
      g_autoptr (JsonNode) node = NULL;

      json_builder_end_object (builder);
      node = json_builder_get_root (builder);
      plumb_command_print_json (node, FALSE);
    }
  g_print ("{\"last_seq\":%" G_GINT64_FORMAT "}\n", chunk->last_seq);
  fflush (stdout);
}

/* Prints what there is after `seq`, and moves it on. */
static gboolean
print_new (PlumbTelemetryReader *reader, gint64 *seq, GError **error)
{
  gboolean more = TRUE;

  while (more)
    {
      g_autoptr (PlumbChunk) chunk = plumb_telemetry_reader_read (reader, *seq, error);

      if (chunk == NULL)
        return FALSE;
      if (chunk->last_seq > *seq)
        print_chunk (chunk);
      *seq = chunk->last_seq;
      more = chunk->more;
    }
  return TRUE;
}

static char *
find_database (const char *run)
{
  g_autoptr (PlumbRunStatus) status = plumb_run_status_read (run, NULL);

  if (status != NULL && status->database != NULL
      && g_file_test (status->database, G_FILE_TEST_EXISTS))
    return g_strdup (status->database);
  return g_build_filename (run, PLUMB_RUN_TELEMETRY, NULL);
}

static int
export_curves (const char *database, const char *folder, GError **error)
{
  g_autofree char *path = plumb_history_export (database, folder, error);

  if (path == NULL)
    return PLUMB_ERROR_FAILED;
  g_print ("%s\n", path);
  return 0;
}

static void
add_integers (JsonBuilder *builder, const char *name, GBytes *bytes)
{
  gsize size = 0;
  const char *data = bytes != NULL ? g_bytes_get_data (bytes, &size) : NULL;

  if (data == NULL)
    return;
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (gsize i = 0; i + sizeof (gint32) <= size; i += sizeof (gint32))
    {
      gint32 value;

      memcpy (&value, data + i, sizeof value);
      json_builder_add_int_value (builder, value);
    }
  json_builder_end_array (builder);
}

static void
print_sample (const PlumbSample *sample)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "step");
  json_builder_add_int_value (builder, sample->step);
  json_builder_set_member_name (builder, "prompt");
  json_builder_add_int_value (builder, sample->prompt);
  json_builder_set_member_name (builder, "sample");
  json_builder_add_int_value (builder, sample->sample);
  json_builder_set_member_name (builder, "eval");
  json_builder_add_boolean_value (builder, sample->eval);
  add_text (builder, "prompt_text", sample->prompt_text);
  add_text (builder, "response_text", sample->response_text);
  add_text (builder, "answer", sample->answer);
  if (sample->failed)
    add_text (builder, "reward", NULL);
  else
    add_real (builder, "reward", sample->reward);
  add_text (builder, "reason", sample->reason);
  if (isfinite (sample->advantage))
    add_real (builder, "advantage", sample->advantage);
  add_text (builder, "finish", sample->finish);
  json_builder_set_member_name (builder, "policy_version");
  json_builder_add_int_value (builder, sample->policy_version);
  /* So many tokens in a row of this version, and so on; -1: not sampled. */
  add_integers (builder, "versions", sample->versions);
  add_integers (builder, "prompt_ids", sample->prompt_ids);
  add_integers (builder, "response_ids", sample->response_ids);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) node = json_builder_get_root (builder);
  plumb_command_print_json (node, FALSE);
}

/* The trajectories of a step that were kept. */
static int
print_samples (const char *run, gint64 step, GError **error)
{
  g_autoptr (PlumbRunStatus) status = plumb_run_status_read (run, NULL);
  g_autofree char *beside = g_build_filename (run, PLUMB_RUN_SAMPLES, NULL);
  const char *path = status != NULL && status->samples != NULL && g_file_test (status->samples, G_FILE_TEST_EXISTS)
                         ? status->samples
                         : beside;
  g_autoptr (GPtrArray) samples = plumb_samples_read (path, step, step, G_MAXINT32, TRUE, error);

  if (samples == NULL)
    return PLUMB_ERROR_INVALID;
  for (guint i = 0; i < samples->len; i++)
    print_sample (g_ptr_array_index (samples, i));
  return 0;
}

int
plumb_cmd_telemetry (int argc, char **argv, GError **error)
{
  gint64 since = 0, samples = -1;
  gboolean follow = FALSE;
  g_autofree char *tensorboard = NULL;
  const GOptionEntry options[] = {
    { "since", 0, 0, G_OPTION_ARG_INT64, &since, N_ ("print the rows after this number"),
      N_ ("N") },
    { "follow", 0, 0, G_OPTION_ARG_NONE, &follow, N_ ("go on until the run ends"), NULL },
    { "samples", 0, 0, G_OPTION_ARG_INT64, &samples, N_ ("print the completions that were kept of a step instead"),
      N_ ("STEP") },
    { "tensorboard", 0, 0, G_OPTION_ARG_FILENAME, &tensorboard,
      N_ ("write the curves as a TensorBoard event file instead"), N_ ("DIR") },
    { NULL },
  };
  g_autofree char *run = NULL, *database = NULL;
  g_autoptr (PlumbTelemetryReader) reader = NULL;

  if (!plumb_command_parse (&argc, &argv, options, "RUN",
                            _ ("Prints what a run recorded, as JSON lines."), 1, 1, error))
    return PLUMB_ERROR_USAGE;
  run = plumb_run_find (argv[1], error);
  if (run == NULL)
    return PLUMB_ERROR_INVALID;
  if (samples >= 0)
    return print_samples (run, samples, error);
  database = find_database (run);
  if (tensorboard != NULL)
    return export_curves (database, tensorboard, error);
  reader = plumb_telemetry_reader_open (database, error);
  if (reader == NULL)
    return PLUMB_ERROR_INVALID;
  g_print ("{\"store\":\"%s\"}\n", plumb_telemetry_reader_store_id (reader));
  if (!print_new (reader, &since, error))
    return PLUMB_ERROR_FAILED;
  while (follow && plumb_run_lock_is_held (run, NULL))
    {
      if (plumb_telemetry_reader_changed (reader) && !print_new (reader, &since, error))
        return PLUMB_ERROR_FAILED;
      g_usleep (POLL_US);
    }
  return print_new (reader, &since, error) ? 0 : PLUMB_ERROR_FAILED;
}
