/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/database.h"
#include "engine/core/telemetry.h"

G_BEGIN_DECLS

/* Rows on their way into the two databases. Internal to the telemetry writer. */

typedef enum
{
  ROW_ATTEMPT,
  ROW_ATTEMPT_END,
  ROW_POINT,
  ROW_EVENT,
  ROW_PHASE,
  ROW_SAMPLE,
} PlumbRowKind;

typedef struct
{
  PlumbRowKind kind;
  gint64 attempt, step;
  double time;
  union
  {
    struct
    {
      const char *metric; /* interned */
      double value;
    } point;
    struct
    {
      PlumbEventLevel level;
      char *kind, *message;
    } event;
    struct
    {
      char *worker, *name;
      double start, end;
    } phase;
    struct
    {
      PlumbOutcome outcome;
      int exit_code;
      char *message;
    } end;
    PlumbSample *sample;
  };
} PlumbRow;

void plumb_row_free (PlumbRow *row);

/* The store of everything but samples: one transaction for all rows of a queue, or none of them. */
typedef struct _PlumbRowStore PlumbRowStore;

PlumbRowStore *plumb_row_store_open (const char *path, gint64 *last_attempt, GError **error);
gboolean plumb_row_store_write (PlumbRowStore *store, GQueue *rows, GError **error);
void plumb_row_store_close (PlumbRowStore *store);

/* The store of samples. */
typedef struct _PlumbSampleStore PlumbSampleStore;

PlumbSampleStore *plumb_sample_store_open (const char *path, gint64 max_bytes, GError **error);
gboolean plumb_sample_store_write (PlumbSampleStore *store, GQueue *rows, GError **error);
void plumb_sample_store_close (PlumbSampleStore *store);

/* Sets the journal mode back to delete, waiting a little for readers to leave; then closes. */
void plumb_database_close_clean (PlumbDatabase *db);

G_END_DECLS
