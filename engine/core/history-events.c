/* SPDX-License-Identifier: Apache-2.0 */
/* TensorBoard's event files: records framed by length and checksums, each a protocol-buffer Event. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/core/history.h"

#define HEADER 12 /* length, and its checksum */
#define FOOTER 4
#define LONGEST_TAG 512

guint32
plumb_crc32c (const void *data, gsize n)
{
  static guint32 table[256];
  static gsize made = 0;
  const guint8 *bytes = data;
  guint32 crc = 0xFFFFFFFF;

  if (g_once_init_enter (&made))
    {
      for (guint32 i = 0; i < 256; i++)
        {
          table[i] = i;
          for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82F63B78 : 0);
        }
      g_once_init_leave (&made, 1);
    }
  for (gsize i = 0; i < n; i++)
    crc = table[(crc ^ bytes[i]) & 0xFF] ^ crc >> 8;
  return ~crc;
}

guint32
plumb_crc32c_masked (const void *data, gsize n)
{
  guint32 crc = plumb_crc32c (data, n);

  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

static guint64
read_fixed (const guint8 *bytes, int n)
{
  guint64 value = 0;

  for (int i = n - 1; i >= 0; i--)
    value = value << 8 | bytes[i];
  return value;
}

static double
read_float (const guint8 *bytes)
{
  guint32 bits = (guint32)read_fixed (bytes, 4);
  float value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

static double
read_double (const guint8 *bytes)
{
  guint64 bits = read_fixed (bytes, 8);
  double value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

/* --- protocol buffers */

typedef struct
{
  const guint8 *next, *end;
} Message;

typedef struct
{
  guint64 number; /* of the field */
  int type;       /* 0: value; 1: eight bytes; 2: bytes, or a message; 5: four bytes */
  guint64 value;
  const guint8 *bytes;
  gsize length;
} Field;

static gboolean
next_varint (Message *message, guint64 *value)
{
  *value = 0;
  for (int shift = 0; shift < 64 && message->next < message->end; shift += 7)
    {
      guint8 byte = *message->next++;

      *value |= (guint64)(byte & 0x7F) << shift;
      if (byte < 0x80)
        return TRUE;
    }
  return FALSE;
}

static gboolean
next_field (Message *message, Field *field)
{
  guint64 key, length = 0;

  if (message->next >= message->end || !next_varint (message, &key))
    return FALSE;
  *field = (Field){ .number = key >> 3, .type = key & 7 };
  switch (field->type)
    {
    case 0:
      return next_varint (message, &field->value);
    case 1:
      length = 8;
      break;
    case 2:
      if (!next_varint (message, &length))
        return FALSE;
      break;
    case 5:
      length = 4;
      break;
    default:
      return FALSE;
    }
  if (length > (guint64)(message->end - message->next))
    return FALSE;
  field->bytes = message->next;
  field->length = (gsize)length;
  message->next += length;
  return TRUE;
}

/* A scalar as TensorFlow 2 writes it: a tensor of one float or double. */
static gboolean
read_tensor (const Field *field, double *value)
{
  Message message = { field->bytes, field->bytes + field->length };
  guint64 type = 0;
  Field part, content = { 0 };

  while (next_field (&message, &part))
    if (part.number == 1 && part.type == 0)
      type = part.value;
    else if (part.number == 4 || part.number == 5 || part.number == 6)
      content = part;
  if (type == 1 && content.length == 4 && content.number != 6)
    *value = read_float (content.bytes);
  else if (type == 2 && content.length == 8 && content.number != 5)
    *value = read_double (content.bytes);
  else
    return FALSE;
  return TRUE;
}

typedef struct
{
  gint64 step;
  double time;
  guint other; /* values that are no scalars */
} Event;

static void
read_value (PlumbHistory *history, const Field *field, Event *event)
{
  Message message = { field->bytes, field->bytes + field->length };
  g_autofree char *tag = NULL;
  gboolean scalar = FALSE;
  double value = 0;
  Field part;

  while (next_field (&message, &part))
    if (part.number == 1 && part.type == 2 && part.length <= LONGEST_TAG && tag == NULL)
      tag = g_strndup ((const char *)part.bytes, part.length);
    else if (part.number == 2 && part.type == 5)
      {
        value = read_float (part.bytes);
        scalar = TRUE;
      }
    else if (part.number == 8 && part.type == 2)
      scalar = read_tensor (&part, &value);
  if (tag == NULL || *tag == '\0' || !scalar || !g_utf8_validate (tag, -1, NULL))
    event->other++;
  else
    plumb_history_add (history, tag, event->step, event->time, value);
}

/* Step and time come before the summary, but need not. */
static void
read_event (PlumbHistory *history, const guint8 *bytes, gsize n, guint *other)
{
  Message message = { bytes, bytes + n };
  Event event = { 0 };
  Field field, part;

  while (next_field (&message, &field))
    if (field.number == 1 && field.type == 1)
      event.time = read_double (field.bytes);
    else if (field.number == 2 && field.type == 0)
      event.step = (gint64)field.value;
  if (!isfinite (event.time))
    event.time = 0;
  message = (Message){ bytes, bytes + n };
  while (next_field (&message, &field))
    if (field.number == 5 && field.type == 2)
      {
        Message summary = { field.bytes, field.bytes + field.length };

        while (next_field (&summary, &part))
          if (part.number == 1 && part.type == 2)
            read_value (history, &part, &event);
      }
  *other += event.other;
}

/* --- records */

static gboolean
is_masked (const guint8 *crc, const guint8 *data, gsize n)
{
  return read_fixed (crc, 4) == plumb_crc32c_masked (data, n);
}

/* All records; FALSE when not even the first has a sound length. */
static gboolean
read_records (PlumbHistory *history, const char *path, const guint8 *data, gsize n)
{
  guint record = 0, other = 0;

  for (gsize at = 0; at < n; record++)
    {
      guint64 length;

      if (n - at < HEADER)
        {
          plumb_history_note (history, "%s: last record incomplete at byte %zu", path, at);
          break;
        }
      length = read_fixed (data + at, 8);
      if (!is_masked (data + at + 8, data + at, 8))
        {
          if (record == 0)
            return FALSE;
          plumb_history_note (history, "%s: the length of record %u at byte %zu is damaged; nothing behind it can be found", path,
                              record + 1, at);
          break;
        }
      if (length > n - at - HEADER || n - at - HEADER - length < FOOTER)
        {
          plumb_history_note (history, "%s: last record incomplete at byte %zu", path, at);
          break;
        }
      if (is_masked (data + at + HEADER + length, data + at + HEADER, (gsize)length))
        read_event (history, data + at + HEADER, (gsize)length, &other);
      else
        plumb_history_note (history, "%s: record %u at byte %zu is damaged and was left out", path, record + 1, at);
      at += HEADER + (gsize)length + FOOTER;
    }
  if (other > 0)
    plumb_history_note (history, "%s: %u values that are no numbers were left out", path, other);
  return TRUE;
}

gboolean
plumb_history_read_events (PlumbHistory *history, const char *path, GError **error)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, error);
  gsize n;

  if (file == NULL)
    return FALSE;
  n = g_mapped_file_get_length (file);
  plumb_history_begin_writer (history);
  if (n == 0)
    {
      plumb_history_note (history, "%s: no events", path);
      return TRUE;
    }
  if (read_records (history, path, (const guint8 *)g_mapped_file_get_contents (file), n))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: not a TensorBoard event file", path);
  return FALSE;
}
