/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* The writer of RUN/telemetry.db and RUN/samples.db. Calls only queue; one thread of its own writes
 * all that is queued in one transaction every half second. Times are seconds since 1970, from a
 * clock that cannot go back within an attempt (wall clock at its start plus monotonic time). */
typedef struct _PlumbTelemetry PlumbTelemetry;

#define PLUMB_NO_STEP G_GINT64_CONSTANT (-1) /* step of rows that belong to no step */

typedef enum
{
  PLUMB_OUTCOME_NONE,     /* no end row */
  PLUMB_OUTCOME_FINISHED, /* did all that was asked */
  PLUMB_OUTCOME_STOPPED,  /* stopped as asked, with a checkpoint */
  PLUMB_OUTCOME_FAILED,
  PLUMB_OUTCOME_INTERRUPTED, /* ended at a second signal, without a checkpoint */
  PLUMB_OUTCOME_TIMED_OUT,
  PLUMB_OUTCOME_PREEMPTED,
} PlumbOutcome;

const char *plumb_outcome_name (PlumbOutcome outcome); /* "finished", ... */
PlumbOutcome plumb_outcome_from_name (const char *name);

typedef enum
{
  PLUMB_EVENT_INFO,
  PLUMB_EVENT_WARNING,
  PLUMB_EVENT_ERROR,
} PlumbEventLevel;

const char *plumb_event_level_name (PlumbEventLevel level); /* "info", "warning", "error" */

/* One trajectory. Strings and blobs are copied when it is queued. Blob lengths are in bytes. */
typedef struct
{
  gint64 step;
  gint64 attempt;
  gint64 prompt; /* ordinal of the prompt within the run */
  int sample;    /* index within the group of that prompt */
  gboolean eval; /* from an evaluation, not from training */
  char *set;     /* name of the data set; NULL: the training data */
  char *prompt_text, *response_text;
  char *answer;  /* NULL: none */
  double reward; /* meaningless when failed */
  gboolean failed;
  char *reason;  /* why it failed; NULL otherwise */
  gsize n_parts; /* reward/part/NAME; NaN for one that failed */
  char **part_names;
  double *part_values;
  double advantage; /* NaN: it has none */
  char *finish;     /* "eos", "stop", "length" */
  gint64 policy_version;
  GBytes *prompt_ids, *response_ids; /* gint32 each */
  /* Where the response tokens are of several versions: gint32 pairs of a number of tokens in a row and their version (-1:
   * not sampled); NULL: all are of policy_version. */
  GBytes *versions;
  /* One float per response token; NULL: not kept. */
  GBytes *logprobs, *kl, *advantages;
} PlumbSample;

PlumbSample *plumb_sample_new (void);
void plumb_sample_free (PlumbSample *sample);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbSample, plumb_sample_free)

/* Opens or makes both databases. `samples_path` NULL: keep no samples. `samples_max_bytes`: size at
 * which old steps of samples.db are thinned (<= 0: never). */
PlumbTelemetry *plumb_telemetry_open (const char *path,
                                      const char *samples_path,
                                      gint64 samples_max_bytes,
                                      GError **error);

/* The sequence of a life: begin_attempt, then rows, then end_attempt, then close. Returns the
 * number of the attempt (1 for the first). Waits until the row is on disk. */
gint64 plumb_telemetry_begin_attempt (PlumbTelemetry *telemetry, gint64 from_step, GError **error);

void
plumb_telemetry_point (PlumbTelemetry *telemetry, const char *metric, gint64 step, double value);
void plumb_telemetry_event (PlumbTelemetry *telemetry,
                            PlumbEventLevel level,
                            const char *kind,
                            gint64 step,
                            const char *format,
                            ...) G_GNUC_PRINTF (5, 6);
/* Times as of plumb_telemetry_now(). */
void plumb_telemetry_phase (PlumbTelemetry *telemetry,
                            const char *worker,
                            const char *name,
                            gint64 step,
                            double start,
                            double end);
void plumb_telemetry_sample (PlumbTelemetry *telemetry, PlumbSample *sample); /* (transfer full) */

/* The attempt's clock. */
double plumb_telemetry_now (PlumbTelemetry *telemetry);
/* Number of the attempt that is being written; 0 before begin_attempt. */
gint64 plumb_telemetry_attempt (PlumbTelemetry *telemetry);

/* Waits until everything queued so far is on disk. FALSE with what went wrong since the last call
 * (full disk); rows that could not be written stay queued, up to a bound, and are tried again. */
gboolean plumb_telemetry_flush (PlumbTelemetry *telemetry, GError **error);
/* The same without waiting: has writing failed since the last call? */
gboolean plumb_telemetry_check (PlumbTelemetry *telemetry, GError **error);

/* Writes the end row of the attempt and waits for it. */
gboolean plumb_telemetry_end_attempt (PlumbTelemetry *telemetry,
                                      PlumbOutcome outcome,
                                      int exit_code,
                                      gint64 step,
                                      const char *message,
                                      GError **error);

/* Flushes, sets the journal mode back to delete so that the file opens read-only anywhere, and
 * frees. Safe on NULL. FALSE with the reason if rows were lost. */
gboolean plumb_telemetry_close (PlumbTelemetry *telemetry, GError **error);

/* Consistent copy of a live database (telemetry or samples) to another file, through SQLite. */
gboolean plumb_telemetry_backup (const char *from, const char *to, GError **error);

G_END_DECLS
