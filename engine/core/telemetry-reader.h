/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/telemetry.h"

G_BEGIN_DECLS

typedef struct
{
  gint64 seq;
  gint64 attempt;
  gint64 step;  /* PLUMB_NO_STEP: none */
  double time;  /* seconds since 1970 */
  double value; /* NaN as it was measured */
} PlumbPoint;

typedef struct
{
  char *metric, *unit;
  gsize n_points;
  PlumbPoint *points; /* in order of seq */
} PlumbPoints;

typedef struct
{
  gint64 seq;
  gint64 attempt;
  gint64 from_step; /* supersedes what earlier attempts wrote at or above it */
  double time;
  char *host;
  gint64 pid;
} PlumbAttempt;

typedef struct
{
  gint64 seq;
  gint64 attempt;
  gint64 step;
  double time;
  PlumbOutcome outcome;
  int exit_code;
  char *message; /* NULL: none */
} PlumbAttemptEnd;

typedef struct
{
  gint64 seq, attempt, step;
  double time;
  PlumbEventLevel level;
  char *kind, *message;
} PlumbEvent;

typedef struct
{
  gint64 seq, attempt, step;
  char *worker, *name;
  double start, end;
} PlumbPhase;

/* All rows with first_seq <= seq <= last_seq: immutable, may cross threads. */
typedef struct
{
  gint64 first_seq, last_seq;
  gboolean more;           /* the store holds rows after last_seq: read again at once */
  GPtrArray *series;       /* of PlumbPoints */
  GPtrArray *attempts;     /* of PlumbAttempt */
  GPtrArray *attempt_ends; /* of PlumbAttemptEnd */
  GPtrArray *events;       /* of PlumbEvent */
  GPtrArray *phases;       /* of PlumbPhase */
} PlumbChunk;

PlumbChunk *plumb_chunk_ref (PlumbChunk *chunk);
void plumb_chunk_unref (PlumbChunk *chunk);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbChunk, plumb_chunk_unref)
gsize plumb_chunk_n_rows (PlumbChunk *chunk);

#define PLUMB_CHUNK_MAX_ROWS 20000

/* A read-only view of RUN/telemetry.db. One thread at a time. */
typedef struct _PlumbTelemetryReader PlumbTelemetryReader;

PlumbTelemetryReader *plumb_telemetry_reader_open (const char *path, GError **error);
void plumb_telemetry_reader_free (PlumbTelemetryReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbTelemetryReader, plumb_telemetry_reader_free)

/* From here on only points of metrics whose name matches one of the patterns (a star stands for any
 * text) are read, and all other rows; with `rest` the points of the other metrics and the ends of attempts. Two
 * readers so made read a long history in the order in which it is looked at. */
void plumb_telemetry_reader_select (PlumbTelemetryReader *reader, const char *const *patterns,
                                    gboolean rest);

/* A change of this identity means another store: forget what was read and start at seq 0. */
const char *plumb_telemetry_reader_store_id (PlumbTelemetryReader *reader);

/* Has the file changed since the last call (PRAGMA data_version: about a microsecond)? */
gboolean plumb_telemetry_reader_changed (PlumbTelemetryReader *reader);

/* Rows after `seq`, at most PLUMB_CHUNK_MAX_ROWS of them. No statement stays open. An empty chunk
 * (n_rows 0) when there is none; NULL with an error when the store cannot be read. */
PlumbChunk *plumb_telemetry_reader_read (PlumbTelemetryReader *reader, gint64 seq, GError **error);

/* The last attempt and, if it ended, its end (NULL otherwise). FALSE without error: no attempt. */
gboolean plumb_telemetry_reader_last_attempt (PlumbTelemetryReader *reader,
                                              PlumbAttempt **attempt,
                                              PlumbAttemptEnd **end,
                                              GError **error);
void plumb_attempt_free (PlumbAttempt *attempt);
void plumb_attempt_end_free (PlumbAttemptEnd *end);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbAttempt, plumb_attempt_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbAttemptEnd, plumb_attempt_end_free)

/* Samples of RUN/samples.db with first_step <= step <= last_step, at most `limit`, by step, prompt,
 * sample. Superseded ones are left out. Blobs only when `detail`. Array of PlumbSample. */
GPtrArray *plumb_samples_read (const char *path,
                               gint64 first_step,
                               gint64 last_step,
                               gsize limit,
                               gboolean detail,
                               GError **error);
/* Steps that hold samples, ascending: array of gint64. */
GArray *plumb_samples_steps (const char *path, GError **error);

G_END_DECLS
