/* SPDX-License-Identifier: Apache-2.0 */
/* The curves of a run as a TensorBoard event file. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/core/history.h"
#include "engine/core/paths.h"
#include "engine/core/series.h"

static void
put_fixed (GByteArray *to, guint64 value, int n)
{
  for (int i = 0; i < n; i++)
    {
      guint8 byte = value >> 8 * i & 0xFF;

      g_byte_array_append (to, &byte, 1);
    }
}

static void
put_varint (GByteArray *to, guint64 value)
{
  do
    {
      guint8 byte = (value & 0x7F) | (value >= 0x80 ? 0x80 : 0);

      g_byte_array_append (to, &byte, 1);
      value >>= 7;
    }
  while (value > 0);
}

static void
put_bytes (GByteArray *to, guint field, const void *bytes, gsize n)
{
  put_varint (to, field << 3 | 2);
  put_varint (to, n);
  g_byte_array_append (to, bytes, (guint)n);
}

static void
put_time (GByteArray *event, double time)
{
  guint64 bits;

  memcpy (&bits, &time, sizeof bits);
  put_varint (event, 1 << 3 | 1);
  put_fixed (event, bits, 8);
}

static void
put_record (GByteArray *file, const GByteArray *event)
{
  guint start = file->len;

  put_fixed (file, event->len, 8);
  put_fixed (file, plumb_crc32c_masked (file->data + start, 8), 4);
  g_byte_array_append (file, event->data, event->len);
  put_fixed (file, plumb_crc32c_masked (event->data, event->len), 4);
}

/* Event { wall_time, step, summary { value { tag, simple_value } } } */
static void
put_point (GByteArray *file, const char *metric, const PlumbPoint *point)
{
  g_autoptr (GByteArray) event = g_byte_array_new (), summary = g_byte_array_new (), value = g_byte_array_new ();
  float number = (float)point->value;
  guint32 bits;

  memcpy (&bits, &number, sizeof bits);
  put_bytes (value, 1, metric, strlen (metric));
  put_varint (value, 2 << 3 | 5);
  put_fixed (value, bits, 4);
  put_bytes (summary, 1, value->data, value->len);
  put_time (event, point->time);
  put_varint (event, 2 << 3);
  put_varint (event, (guint64)point->step);
  put_bytes (event, 5, summary->data, summary->len);
  put_record (file, event);
}

static void
put_version (GByteArray *file, double time)
{
  static const char version[] = "brain.Event:2";
  g_autoptr (GByteArray) event = g_byte_array_new ();

  put_time (event, time);
  put_bytes (event, 3, version, strlen (version));
  put_record (file, event);
}

/* All series of the store, each with its attempts. */
static GHashTable *
read_series (const char *database, double *first, GError **error)
{
  g_autoptr (PlumbTelemetryReader) reader = plumb_telemetry_reader_open (database, error);
  g_autoptr (GHashTable) all = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)plumb_series_free);
  g_autoptr (GPtrArray) chunks = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_chunk_unref);
  gint64 seq = 0;

  for (gboolean more = TRUE; more;)
    {
      PlumbChunk *chunk = reader != NULL ? plumb_telemetry_reader_read (reader, seq, error) : NULL;

      if (chunk == NULL)
        return NULL;
      g_ptr_array_add (chunks, chunk);
      more = chunk->more;
      seq = chunk->last_seq;
      for (guint i = 0; i < chunk->series->len; i++)
        {
          const PlumbPoints *points = g_ptr_array_index (chunk->series, i);
          PlumbSeries *series = g_hash_table_lookup (all, points->metric);

          if (series == NULL)
            g_hash_table_insert (all, g_strdup (points->metric), series = plumb_series_new ());
          plumb_series_add_points (series, points->points, points->n_points);
          if (points->n_points > 0)
            *first = MIN (*first, points->points[0].time);
        }
    }
  for (guint c = 0; c < chunks->len; c++)
    {
      const PlumbChunk *chunk = g_ptr_array_index (chunks, c);
      GHashTableIter iter;
      gpointer series;

      g_hash_table_iter_init (&iter, all);
      while (g_hash_table_iter_next (&iter, NULL, &series))
        for (guint i = 0; i < chunk->attempts->len; i++)
          {
            const PlumbAttempt *attempt = g_ptr_array_index (chunk->attempts, i);

            plumb_series_add_attempt (series, attempt->attempt, attempt->from_step);
          }
    }
  return g_steal_pointer (&all);
}

char *
plumb_history_export (const char *database, const char *folder, GError **error)
{
  double first = G_MAXDOUBLE;
  g_autoptr (GHashTable) all = read_series (database, &first, error);
  g_autoptr (GByteArray) file = g_byte_array_new ();
  g_autofree char *name = NULL, *path = NULL;
  GHashTableIter iter;
  gpointer metric, series;

  if (all == NULL)
    return NULL;
  first = first < G_MAXDOUBLE ? first : 0;
  put_version (file, first);
  g_hash_table_iter_init (&iter, all);
  while (g_hash_table_iter_next (&iter, &metric, &series))
    {
      gsize n;
      const PlumbPoint *points = plumb_series_current (series, &n);

      for (gsize i = 0; i < n; i++)
        put_point (file, metric, &points[i]);
    }
  name = g_strdup_printf ("events.out.tfevents.%.0f.plumbline", first);
  path = g_build_filename (folder, name, NULL);
  if (g_mkdir_with_parents (folder, 0755) != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "%s: cannot make the folder: %s", folder, g_strerror (errno));
      return NULL;
    }
  if (!plumb_path_replace (path, (const char *)file->data, file->len, error))
    return NULL;
  return g_steal_pointer (&path);
}
