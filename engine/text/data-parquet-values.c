/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/data-parquet-private.h"

enum
{
  ENCODING_PLAIN = 0,
  ENCODING_PLAIN_DICTIONARY = 2,
  ENCODING_RLE = 3,
  ENCODING_DELTA = 5,
  ENCODING_DELTA_LENGTH = 6,
  ENCODING_DELTA_BYTES = 7,
  ENCODING_DICTIONARY = 8,
  ENCODING_STREAMS = 9, /* BYTE_STREAM_SPLIT */
};

static gboolean
read_varint (const guint8 **next, const guint8 *end, guint64 *value)
{
  *value = 0;
  for (guint shift = 0; shift < 64 && *next < end; shift += 7)
    {
      guint8 byte = *(*next)++;

      *value |= (guint64)(byte & 0x7f) << shift;
      if (byte < 0x80)
        return TRUE;
    }
  return FALSE;
}

static gboolean
read_zigzag (const guint8 **next, const guint8 *end, gint64 *value)
{
  guint64 raw;

  if (!read_varint (next, end, &raw))
    return FALSE;
  *value = (gint64)(raw >> 1) ^ -(gint64)(raw & 1);
  return TRUE;
}

/* --- runs */

void
plumb_parquet_runs_init (PlumbParquetRuns *runs, const guint8 *data, gsize length, guint width)
{
  *runs = (PlumbParquetRuns){ .next = data, .end = data + length, .width = width };
}

static gboolean
begin_run (PlumbParquetRuns *runs)
{
  guint64 head;
  guint bytes = (runs->width + 7) / 8;

  if (!read_varint (&runs->next, runs->end, &head) || head >> 1 == 0 || head >> 1 > G_MAXINT32)
    return FALSE;
  runs->packed = head & 1;
  runs->left = runs->packed ? (head >> 1) * 8 : head >> 1;
  runs->bits = runs->n_bits = 0;
  if (runs->packed)
    return TRUE;
  if ((gsize)(runs->end - runs->next) < bytes)
    return FALSE;
  runs->value = 0;
  for (guint i = 0; i < bytes; i++)
    runs->value |= (guint64)*runs->next++ << (8 * i);
  return TRUE;
}

gboolean
plumb_parquet_runs_next (PlumbParquetRuns *runs, guint64 *value)
{
  *value = 0;
  if (runs->width == 0)
    return TRUE;
  if (runs->left == 0 && !begin_run (runs))
    return FALSE;
  runs->left--;
  if (!runs->packed)
    {
      *value = runs->value;
      return TRUE;
    }
  while (runs->n_bits < runs->width)
    {
      if (runs->next == runs->end)
        return FALSE;
      runs->bits |= (guint64)*runs->next++ << runs->n_bits;
      runs->n_bits += 8;
    }
  *value = runs->bits & ((G_GUINT64_CONSTANT (1) << runs->width) - 1);
  runs->bits >>= runs->width;
  runs->n_bits -= runs->width;
  return TRUE;
}

/* --- differences */

gboolean
plumb_parquet_deltas_init (PlumbParquetDeltas *d, const guint8 *data, gsize length)
{
  guint64 block, minis;

  *d = (PlumbParquetDeltas){ .next = data, .end = data + length };
  if (!read_varint (&d->next, d->end, &block) || !read_varint (&d->next, d->end, &minis)
      || !read_varint (&d->next, d->end, &d->total) || !read_zigzag (&d->next, d->end, &d->value))
    return FALSE;
  if (minis == 0 || minis > G_N_ELEMENTS (d->widths) || block % minis != 0 || block > 1 << 24
      || block / minis % 8 != 0 || block == 0)
    return FALSE;
  d->n_mini = d->mini = minis;
  d->per_mini = block / minis;
  return TRUE;
}

static gboolean
begin_mini (PlumbParquetDeltas *d)
{
  if (d->mini == d->n_mini)
    {
      if (!read_zigzag (&d->next, d->end, &d->least) || (gsize)(d->end - d->next) < d->n_mini)
        return FALSE;
      memcpy (d->widths, d->next, d->n_mini);
      d->next += d->n_mini;
      d->mini = 0;
    }
  if (d->widths[d->mini] > 64
      || (gsize)(d->end - d->next) < (gsize)d->widths[d->mini] * d->per_mini / 8)
    return FALSE;
  d->left = d->per_mini;
  d->offset = 0;
  return TRUE;
}

static void
end_mini (PlumbParquetDeltas *d)
{
  d->next += (gsize)d->widths[d->mini] * d->per_mini / 8;
  d->mini++;
}

gboolean
plumb_parquet_deltas_next (PlumbParquetDeltas *d, gint64 *value)
{
  guint64 delta = 0;

  if (d->given == d->total)
    return FALSE;
  if (d->given++ == 0)
    {
      *value = d->value;
      return TRUE;
    }
  if (d->left == 0 && !begin_mini (d))
    return FALSE;
  for (guint i = 0; i < d->widths[d->mini]; i++, d->offset++)
    delta |= (guint64)(d->next[d->offset / 8] >> (d->offset % 8) & 1) << i;
  d->value = (gint64)((guint64)d->value + (guint64)d->least + delta);
  if (--d->left == 0)
    end_mini (d);
  *value = d->value;
  return TRUE;
}

const guint8 *
plumb_parquet_deltas_end (PlumbParquetDeltas d)
{
  gint64 value;

  while (d.given < d.total)
    if (!plumb_parquet_deltas_next (&d, &value))
      return NULL;
  if (d.left > 0)
    end_mini (&d);
  return d.next;
}

/* --- values */

static guint
size_of (const PlumbParquetValues *v)
{
  static const guint sizes[] = { 0, 4, 8, 12, 4, 8, 0 };

  return v->type == PARQUET_FIXED ? v->width : sizes[v->type];
}

static gboolean
init_delta_bytes (PlumbParquetValues *v)
{
  const guint8 *end;

  if (v->encoding == ENCODING_DELTA_BYTES)
    {
      if (!plumb_parquet_deltas_init (&v->prefixes, v->next, v->end - v->next)
          || (end = plumb_parquet_deltas_end (v->prefixes)) == NULL)
        return FALSE;
      v->next = end;
      g_byte_array_set_size (v->text, 0);
    }
  if (!plumb_parquet_deltas_init (&v->deltas, v->next, v->end - v->next)
      || (end = plumb_parquet_deltas_end (v->deltas)) == NULL)
    return FALSE;
  v->next = end;
  return TRUE;
}

gboolean
plumb_parquet_values_init (PlumbParquetValues *v, const guint8 *data, gsize length)
{
  gboolean bytes = v->type == PARQUET_BYTES || v->type == PARQUET_FIXED;

  v->next = data;
  v->end = data + length;
  v->bit = 0;
  switch (v->encoding)
    {
    case ENCODING_PLAIN:
      return TRUE;
    case ENCODING_PLAIN_DICTIONARY:
    case ENCODING_DICTIONARY:
      if (v->dictionary == NULL || length == 0)
        return v->dictionary != NULL;
      plumb_parquet_runs_init (&v->runs, data + 1, length - 1, data[0]);
      return data[0] <= 32;
    case ENCODING_RLE:
      if (v->type != PARQUET_BOOLEAN || length < 4)
        return FALSE;
      plumb_parquet_runs_init (&v->runs, data + 4, length - 4, 1);
      return TRUE;
    case ENCODING_DELTA:
      return (v->type == PARQUET_INT32 || v->type == PARQUET_INT64)
             && plumb_parquet_deltas_init (&v->deltas, data, length);
    case ENCODING_DELTA_LENGTH:
    case ENCODING_DELTA_BYTES:
      return bytes && init_delta_bytes (v);
    case ENCODING_STREAMS:
      if (size_of (v) == 0 || v->type == PARQUET_INT96 || length % size_of (v) != 0)
        return FALSE;
      v->stride = length / size_of (v);
      g_byte_array_set_size (v->text, size_of (v));
      return TRUE;
    default:
      return FALSE;
    }
}

/* Byte i of all values stands in stream i. */
static gboolean
next_of_streams (PlumbParquetValues *v, PlumbParquetValue *value)
{
  guint length = size_of (v);

  if (v->stride == 0 || v->at >= v->stride)
    return FALSE;
  for (guint i = 0; i < length; i++)
    v->text->data[i] = v->next[i * v->stride + v->at];
  v->at++;
  *value = (PlumbParquetValue){ .data = v->text->data, .length = length };
  return TRUE;
}

static gboolean
next_plain (PlumbParquetValues *v, PlumbParquetValue *value)
{
  gsize room = v->end - v->next, length = size_of (v);

  if (v->type == PARQUET_BOOLEAN)
    {
      if (room == 0)
        return FALSE;
      *value = (PlumbParquetValue){ .number = *v->next >> v->bit & 1, .is_number = TRUE };
      v->bit = (v->bit + 1) % 8;
      v->next += v->bit == 0;
      return TRUE;
    }
  if (v->type == PARQUET_BYTES)
    {
      if (room < 4)
        return FALSE;
      length = v->next[0] | v->next[1] << 8 | v->next[2] << 16 | (gsize)v->next[3] << 24;
      v->next += 4;
      room -= 4;
    }
  if (length > room)
    return FALSE;
  *value = (PlumbParquetValue){ .data = v->next, .length = length };
  v->next += length;
  return TRUE;
}

static gboolean
has_width (const PlumbParquetValues *v, const PlumbParquetValue *value)
{
  return v->type != PARQUET_FIXED || value->length == v->width;
}

static gboolean
next_delta_bytes (PlumbParquetValues *v, PlumbParquetValue *value)
{
  gint64 prefix = 0, length;

  if (v->encoding == ENCODING_DELTA_BYTES && !plumb_parquet_deltas_next (&v->prefixes, &prefix))
    return FALSE;
  if (!plumb_parquet_deltas_next (&v->deltas, &length) || length < 0 || length > v->end - v->next)
    return FALSE;
  *value = (PlumbParquetValue){ .data = v->next, .length = length };
  v->next += length;
  if (v->encoding == ENCODING_DELTA_LENGTH)
    return has_width (v, value);
  if (prefix < 0 || prefix > v->text->len)
    return FALSE;
  g_byte_array_set_size (v->text, prefix);
  g_byte_array_append (v->text, value->data, length);
  *value = (PlumbParquetValue){ .data = v->text->data, .length = v->text->len };
  return has_width (v, value);
}

gboolean
plumb_parquet_values_next (PlumbParquetValues *v, PlumbParquetValue *value)
{
  guint64 number;

  switch (v->encoding)
    {
    case ENCODING_PLAIN:
      return next_plain (v, value);
    case ENCODING_RLE:
      *value = (PlumbParquetValue){ .is_number = TRUE };
      if (!plumb_parquet_runs_next (&v->runs, &number))
        return FALSE;
      value->number = (gint64)number;
      return TRUE;
    case ENCODING_DELTA:
      *value = (PlumbParquetValue){ .is_number = TRUE };
      if (!plumb_parquet_deltas_next (&v->deltas, &value->number))
        return FALSE;
      if (v->type == PARQUET_INT32)
        value->number = (gint32)value->number;
      return TRUE;
    case ENCODING_DELTA_LENGTH:
    case ENCODING_DELTA_BYTES:
      return next_delta_bytes (v, value);
    case ENCODING_STREAMS:
      return next_of_streams (v, value);
    default:
      if (v->dictionary == NULL || !plumb_parquet_runs_next (&v->runs, &number) || number >= v->dictionary->len)
        return FALSE;
      *value = g_array_index (v->dictionary, PlumbParquetValue, number);
      return TRUE;
    }
}
