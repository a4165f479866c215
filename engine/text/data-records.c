/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/data-records.h"

#define BLOCK (1 << 20)

struct _PlumbRecords
{
  PlumbDataFile *file;
  PlumbRecordKind kind;
  char *bytes; /* of the file from `base` on */
  gsize size, room;
  guint64 base;
  gsize start, next; /* of the record, and behind what was looked at, within bytes */
  guint64 lost;      /* bytes of a record that is too long, already let go */
  guint32 line;      /* of `next`, from 1 */
  gboolean begun, ended;
  GError *error;
};

PlumbRecords *
plumb_records_new (PlumbDataFile *file, PlumbRecordKind kind)
{
  PlumbRecords *r = g_new0 (PlumbRecords, 1);

  r->file = file;
  r->kind = kind;
  r->room = BLOCK;
  r->bytes = g_malloc (r->room);
  r->line = 1;
  return r;
}

void
plumb_records_free (PlumbRecords *r)
{
  g_clear_error (&r->error);
  g_free (r->bytes);
  g_free (r);
}

/* Makes more bytes known behind `size`; FALSE at the end of the file. A record that grows beyond the longest is let
 * go but for its count. */
static gboolean
fill (PlumbRecords *r)
{
  gssize n;

  if (r->ended)
    return FALSE;
  if (r->next - r->start > PLUMB_DATA_LONGEST_LINE)
    {
      r->lost += r->next - r->start;
      r->start = r->next;
    }
  memmove (r->bytes, r->bytes + r->start, r->size - r->start);
  r->base += r->start;
  r->size -= r->start;
  r->next -= r->start;
  r->start = 0;
  if (r->room - r->size < BLOCK)
    r->bytes = g_realloc (r->bytes, r->room = r->room * 2);
  n = plumb_data_file_read_some (r->file, r->base + r->size, BLOCK, r->bytes + r->size, &r->error);
  r->ended = n < BLOCK;
  r->size += MAX (n, 0);
  return n > 0;
}

static inline gboolean
peek (PlumbRecords *r, char *c)
{
  if (r->next == r->size && !fill (r))
    return FALSE;
  *c = r->bytes[r->next];
  return TRUE;
}

static inline void
step (PlumbRecords *r)
{
  r->line += r->bytes[r->next] == '\n';
  r->next++;
}

/* Moves to the end of the line, before its \n. */
static void
to_line_end (PlumbRecords *r)
{
  do
    {
      const char *end = memchr (r->bytes + r->next, '\n', r->size - r->next);

      if (end != NULL)
        {
          r->next = end - r->bytes;
          return;
        }
      r->next = r->size;
    }
  while (fill (r));
}

/* Moves to the end of a record of cells. Quotes open at the beginning of a cell alone. */
static void
to_cells_end (PlumbRecords *r, char separator, PlumbRecord *record)
{
  gboolean quoted = FALSE, cell = TRUE;
  char c;

  while (peek (r, &c))
    {
      if (c == '"' && (quoted || cell))
        {
          /* Two within quotes stand for one: the second opens again. */
          quoted = !quoted;
          cell = !quoted;
          step (r);
          continue;
        }
      if (c == '\n' && !quoted)
        return;
      cell = !quoted && c == separator;
      step (r);
    }
  if (quoted)
    record->fault = "a quote that opens here is not closed";
}

/* Moves behind a value of JSON, as far as brackets and quotes tell; its reader checks it. */
static void
to_value_end (PlumbRecords *r)
{
  guint64 depth = 0;
  gboolean text = FALSE;
  char c;

  while (peek (r, &c))
    {
      if (text)
        {
          if (c == '\\')
            {
              step (r);
              if (!peek (r, &c))
                return;
            }
          else
            text = c != '"';
        }
      else if (c == '"')
        text = TRUE;
      else if (c == '[' || c == '{')
        depth++;
      else if (c == ']' || c == '}')
        {
          if (depth == 0)
            return;
          depth--;
        }
      else if (c == ',' && depth == 0)
        return;
      step (r);
    }
}

static gboolean
is_blank (char c)
{
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void
skip_blanks (PlumbRecords *r)
{
  char c;

  while (peek (r, &c) && is_blank (c))
    {
      step (r);
      r->start = r->next;
    }
}

static gboolean
fail (PlumbRecords *r, const char *what, GError **error)
{
  if (r->error == NULL)
    g_set_error (&r->error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s:%u: %s", plumb_data_file_path (r->file), r->line,
                 what);
  g_propagate_error (error, g_steal_pointer (&r->error));
  return FALSE;
}

/* Moves over what stands before an element; FALSE behind the last. */
static gboolean
enter_element (PlumbRecords *r, GError **error)
{
  char c = 0;

  skip_blanks (r);
  if (!peek (r, &c))
    return r->begun ? fail (r, "the JSON array has no end: the file is incomplete", error) : FALSE;
  if (c == ']' && r->begun)
    {
      step (r);
      skip_blanks (r);
      return peek (r, &c) ? fail (r, "something follows the JSON array", error) : FALSE;
    }
  if (c != (r->begun ? ',' : '['))
    return fail (r, r->begun ? "a comma or ] is expected here" : "a JSON array is expected here", error);
  step (r);
  r->start = r->next;
  skip_blanks (r);
  if (!r->begun && peek (r, &c) && c == ']')
    {
      r->begun = TRUE;
      return enter_element (r, error);
    }
  r->begun = TRUE;
  return TRUE;
}

/* Bytes of the record up to `next`, without the blanks behind it. */
static void
take (PlumbRecords *r, PlumbRecord *record)
{
  gsize length = r->next - r->start;

  record->length = length + r->lost;
  record->place.offset = r->base + r->start - r->lost;
  record->data = record->length > PLUMB_DATA_LONGEST_LINE ? NULL : r->bytes + r->start;
  if (r->kind == PLUMB_RECORD_ARRAY)
    while (length > 0 && is_blank (r->bytes[r->start + length - 1]))
      length--;
  else if (length > 0 && r->bytes[r->start + length - 1] == '\r')
    length--;
  if (record->data != NULL)
    record->length = length;
  record->place.length = record->data != NULL ? length : 0;
}

static void
skip_mark (PlumbRecords *r)
{
  char c;

  if (r->base == 0 && r->next == 0 && peek (r, &c) && r->size >= 3 && memcmp (r->bytes, "\xef\xbb\xbf", 3) == 0)
    r->start = r->next = 3;
}

static gboolean
is_all_blank (const PlumbRecord *record)
{
  for (guint32 i = 0; i < record->place.length; i++)
    if (record->data[i] != ' ' && record->data[i] != '\t')
      return FALSE;
  return record->data != NULL;
}

gboolean
plumb_records_next (PlumbRecords *r, PlumbRecord *record, GError **error)
{
  char c;

  skip_mark (r);
  do
    {
      *record = (PlumbRecord){ .place.line = r->line };
      r->start = r->next;
      r->lost = 0;
      if (r->kind == PLUMB_RECORD_ARRAY)
        {
          if (!enter_element (r, error))
            return FALSE;
          record->place.line = r->line;
          to_value_end (r);
        }
      else if (!peek (r, &c))
        return r->error != NULL ? fail (r, "", error) : FALSE;
      else if (r->kind == PLUMB_RECORD_LINES)
        to_line_end (r);
      else
        to_cells_end (r, r->kind == PLUMB_RECORD_TSV ? '\t' : ',', record);
      if (r->error != NULL)
        return fail (r, "", error);
      take (r, record);
      if (r->kind != PLUMB_RECORD_ARRAY && peek (r, &c))
        step (r);
    }
  while (r->kind != PLUMB_RECORD_ARRAY && is_all_blank (record));
  return TRUE;
}
