/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Curves that another program recorded, on their way into a run of ours. */

typedef struct
{
  const char *metric; /* of the history's names: equal names are one pointer */
  gint64 step;
  double time;        /* seconds since 1970, as it was recorded: it may go back */
  double value;
} PlumbHistoryPoint;

/* Points in the order in which they were written, of one writer after another. */
typedef struct
{
  GArray *points;  /* of PlumbHistoryPoint */
  GArray *writers; /* of guint: index of the first point of each */
  GPtrArray *notes; /* of char*: damage, and what was left out */
  GStringChunk *names;
} PlumbHistory;

/* A start, and what it supersedes. */
typedef struct
{
  gint64 from_step;
  guint first; /* of its points */
} PlumbHistoryAttempt;

PlumbHistory *plumb_history_new (void);
void plumb_history_free (PlumbHistory *history);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbHistory, plumb_history_free)

void plumb_history_begin_writer (PlumbHistory *history);
void plumb_history_add (PlumbHistory *history, const char *metric, gint64 step, double time, double value);
void plumb_history_note (PlumbHistory *history, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* Where the writing began anew: a metric that steps back onto a step it had already, or another writer that writes a
 * metric again at or below its last step. One that steps back to a step it never had is merely out of order. Array of
 * PlumbHistoryAttempt, the first from step 0. */
GArray *plumb_history_attempts (const PlumbHistory *history);

/* history-events.c: a TensorBoard event file. Damage is noted, and what is intact before and after it is kept: a torn end,
 * a flipped byte; behind a damaged length nothing can be found. PLUMB_ERROR_INVALID when it is no such file. */
gboolean plumb_history_read_events (PlumbHistory *history, const char *path, GError **error);
/* history-tables.c: JSON lines with a step, or CSV with a header. Other columns than numbers are left out. */
gboolean plumb_history_read_lines (PlumbHistory *history, const char *path, GError **error);
gboolean plumb_history_read_csv (PlumbHistory *history, const char *path, GError **error);
/* history-names.c: the name under which a metric is known here; its own where it is not. */
const char *plumb_history_our_name (const char *metric);
/* Gives all points these names, and notes which. */
void plumb_history_rename (PlumbHistory *history);
/* history-import.c: any of these by its looks; a folder: its event files, oldest first. NULL with an error, also when there
 * is not a single point. */
PlumbHistory *plumb_history_load (const char *path, GError **error);
/* Whether the path can be such a file or folder. */
gboolean plumb_history_is_likely (const char *path);
/* Makes the run directory `run` of it, registered under `name`; one that was made of the same source before is renewed. */
gboolean plumb_history_write (const PlumbHistory *history, const char *source, const char *run, const char *name,
                              GError **error);

/* history-export.c: the current curves of RUN/telemetry.db as a TensorBoard event file in `folder`. The path that was
 * written. (transfer full) */
char *plumb_history_export (const char *database, const char *folder, GError **error);

/* CRC-32C (Castagnoli), as the records of event files are masked with it. */
guint32 plumb_crc32c (const void *data, gsize n);
guint32 plumb_crc32c_masked (const void *data, gsize n);

G_END_DECLS
