/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a Parquet file put together from its columns. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/text/data-csv.h"
#include "engine/text/data-json.h"
#include "engine/text/data-parquet-private.h"
#include "engine/text/data-records.h"

#define MOST_PAGE (256 << 20)     /* bytes, packed or not */
#define LEAST_PAGE (16 << 20)     /* bytes that any page may unpack to */
#define MOST_PAGE_UNFOLDING 1024  /* times its size, beyond that */
#define LARGEST_HEADER (64 << 10) /* bytes */
/* Short runs may stand for very much: output is bounded by that and a multiple of the file. */
#define LEAST_OUTPUT (G_GUINT64_CONSTANT (1) << 30)
#define MOST_UNFOLDING 200

enum
{
  PAGE_DATA = 0,
  PAGE_DICTIONARY = 2,
  PAGE_DATA_2 = 3,
};

/* One column of a group of rows: page by page, value by value. */
typedef struct
{
  const PlumbParquetNode *node;
  PlumbParquetChunk chunk;
  guint64 at, end; /* bytes in the file */
  gint64 left;     /* values of the chunk that are in no page yet */
  gint64 in_page;  /* values left of the page */
  guint8 *page, *dictionary_page;
  GArray *dictionary;
  PlumbParquetRuns defs, reps;
  PlumbParquetValues values;
  GByteArray *text;
  guint64 def, rep; /* of the present value */
  gboolean have;    /* is there one? */
} Column;

typedef struct
{
  PlumbDataFile *from, *to;
  const PlumbParquetMeta *meta;
  Column *columns;
  GString *line;
  GError **error;
} Reader;

static gboolean
fail (Reader *r, const Column *column, const char *message)
{
  if (r->error == NULL || *r->error == NULL)
    g_set_error (r->error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: column %s: %s", plumb_data_file_path (r->from),
                 column->node->name, message);
  return FALSE;
}

static guint
bits_for (guint level)
{
  return level == 0 ? 0 : g_bit_storage (level);
}

static void
column_clear (Column *column)
{
  g_clear_pointer (&column->page, g_free);
  g_clear_pointer (&column->dictionary_page, g_free);
  g_clear_pointer (&column->dictionary, g_array_unref);
  g_clear_pointer (&column->text, g_byte_array_unref);
}

/* --- pages */

static gboolean
read_header (Reader *r, Column *column, PlumbParquetPage *page)
{
  gsize room = MIN (LARGEST_HEADER, column->end - column->at), used;
  g_autofree char *bytes = g_malloc (room + 1);

  if (!plumb_data_file_read (r->from, column->at, room, bytes, r->error))
    return FALSE;
  if (!plumb_parquet_page_read ((const guint8 *)bytes, room, page, &used) || page->packed > MOST_PAGE
      || page->unpacked > MOST_PAGE || (guint64)page->packed > column->end - column->at - used)
    return fail (r, column, "the header of a page is damaged");
  if (page->unpacked > LEAST_PAGE + MOST_PAGE_UNFOLDING * page->packed)
    return fail (r, column, "a page would unpack to more than 1,000 times its size");
  column->at += used;
  return TRUE;
}

/* The bytes of a page, unpacked but for what version 2 leaves so. */
static guint8 *
read_page (Reader *r, Column *column, const PlumbParquetPage *page)
{
  gsize levels = page->type == PAGE_DATA_2 ? page->def_bytes + page->rep_bytes : 0;
  g_autofree guint8 *packed = g_malloc (page->packed + 1), *bytes = g_malloc (page->unpacked + 1);
  gboolean plain = page->type == PAGE_DATA_2 && !page->is_packed;
  const char *wrong;

  if (levels > (gsize)page->packed || levels > (gsize)page->unpacked)
    {
      fail (r, column, "the header of a page is damaged");
      return NULL;
    }
  if (!plumb_data_file_read (r->from, column->at, page->packed, (char *)packed, r->error))
    return NULL;
  column->at += page->packed;
  memcpy (bytes, packed, levels);
  wrong = page->packed - levels == 0 && page->unpacked - levels == 0
              ? NULL
              : plumb_parquet_unpack (plain ? 0 : column->chunk.codec, packed + levels, page->packed - levels,
                                      bytes + levels, page->unpacked - levels);
  if (wrong == NULL)
    return g_steal_pointer (&bytes);
  fail (r, column, wrong);
  return NULL;
}

static gboolean
read_dictionary (Reader *r, Column *column, const PlumbParquetPage *page)
{
  PlumbParquetValues values = { .type = column->node->type, .width = column->node->width };
  PlumbParquetValue value;

  g_free (column->dictionary_page);
  column->dictionary_page = read_page (r, column, page);
  if (column->dictionary_page == NULL)
    return FALSE;
  if (page->encoding != 0 && page->encoding != 2)
    return fail (r, column, "the dictionary has an encoding that is not read");
  if (page->n_values > page->unpacked)
    return fail (r, column, "the dictionary is damaged");
  g_clear_pointer (&column->dictionary, g_array_unref);
  column->dictionary = g_array_new (FALSE, FALSE, sizeof value);
  plumb_parquet_values_init (&values, column->dictionary_page, page->unpacked);
  for (gint64 i = 0; i < page->n_values; i++)
    {
      if (!plumb_parquet_values_next (&values, &value))
        return fail (r, column, "the dictionary is damaged");
      g_array_append_val (column->dictionary, value);
    }
  return TRUE;
}

/* Levels of version 1: their length, then runs. */
static gboolean
take_levels (PlumbParquetRuns *runs, const guint8 **next, const guint8 *end, guint level)
{
  gsize length;

  plumb_parquet_runs_init (runs, *next, 0, bits_for (level));
  if (level == 0)
    return TRUE;
  if (end - *next < 4)
    return FALSE;
  length = (*next)[0] | (*next)[1] << 8 | (*next)[2] << 16 | (gsize)(*next)[3] << 24;
  *next += 4;
  if (length > (gsize)(end - *next))
    return FALSE;
  plumb_parquet_runs_init (runs, *next, length, bits_for (level));
  *next += length;
  return TRUE;
}

static gboolean
begin_page (Reader *r, Column *column, const PlumbParquetPage *page)
{
  const PlumbParquetNode *node = column->node;
  const guint8 *next, *end;

  g_free (column->page);
  column->page = read_page (r, column, page);
  if (column->page == NULL)
    return FALSE;
  next = column->page;
  end = next + page->unpacked;
  if (page->type == PAGE_DATA_2)
    {
      plumb_parquet_runs_init (&column->reps, next, page->rep_bytes, bits_for (node->max_rep));
      plumb_parquet_runs_init (&column->defs, next + page->rep_bytes, page->def_bytes, bits_for (node->max_def));
      next += page->rep_bytes + page->def_bytes;
    }
  else if (!take_levels (&column->reps, &next, end, node->max_rep)
           || !take_levels (&column->defs, &next, end, node->max_def))
    return fail (r, column, "the levels of a page are damaged");
  if (column->text == NULL)
    column->text = g_byte_array_new ();
  column->values = (PlumbParquetValues){ .type = node->type,
                                         .width = node->width,
                                         .encoding = page->encoding,
                                         .text = column->text,
                                         .dictionary = column->dictionary };
  if (!plumb_parquet_values_init (&column->values, next, end - next))
    return fail (r, column, "a page is damaged or has an encoding that is not read");
  column->in_page = page->n_values;
  column->left -= page->n_values;
  return column->left >= 0 || fail (r, column, "there are more values in its pages than it should have");
}

static gboolean
next_page (Reader *r, Column *column)
{
  PlumbParquetPage page;

  while (column->in_page == 0)
    {
      if (column->at >= column->end)
        return fail (r, column, "its pages end too early");
      if (!read_header (r, column, &page))
        return FALSE;
      if (page.type == PAGE_DICTIONARY && !read_dictionary (r, column, &page))
        return FALSE;
      if ((page.type == PAGE_DATA || page.type == PAGE_DATA_2) && !begin_page (r, column, &page))
        return FALSE;
      if (page.type == 1)
        column->at += page.packed;
      else if (page.type > PAGE_DATA_2)
        return fail (r, column, "there is a page of an unknown kind");
    }
  return TRUE;
}

/* Makes the levels of the next value known; `have` is FALSE behind the last. */
static gboolean
advance (Reader *r, Column *column)
{
  column->have = FALSE;
  if (column->in_page == 0 && column->left == 0)
    return TRUE;
  if (column->in_page == 0 && !next_page (r, column))
    return FALSE;
  column->in_page--;
  if (!plumb_parquet_runs_next (&column->reps, &column->rep) || !plumb_parquet_runs_next (&column->defs, &column->def)
      || column->rep > column->node->max_rep || column->def > column->node->max_def)
    return fail (r, column, "the levels of a page are damaged");
  column->have = TRUE;
  return TRUE;
}

/* --- values */

static void
write_real (GString *line, double value, const char *format)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append (line, isfinite (value) ? g_ascii_formatd (text, sizeof text, format, value) : "null");
}

static gint64
integer_of (const PlumbParquetNode *node, const PlumbParquetValue *value)
{
  gint32 narrow;
  gint64 wide;

  if (value->is_number)
    return value->number;
  if (node->type == PARQUET_INT32)
    {
      memcpy (&narrow, value->data, sizeof narrow);
      return GINT32_FROM_LE (narrow);
    }
  memcpy (&wide, value->data, sizeof wide);
  return GINT64_FROM_LE (wide);
}

/* Text may hold NULs, which are valid here and there not. */
static gboolean
is_text (const char *data, gsize length)
{
  const char *end = data + length, *bad;

  while (data < end)
    {
      if (g_utf8_validate_len (data, end - data, &bad))
        return TRUE;
      if (*bad != '\0')
        return FALSE;
      data = bad + 1;
    }
  return TRUE;
}

static void
write_integer (GString *line, const PlumbParquetNode *node, gint64 whole)
{
  if (node->meaning != PARQUET_UNSIGNED)
    g_string_append_printf (line, "%" G_GINT64_FORMAT, whole);
  else
    g_string_append_printf (line, "%" G_GUINT64_FORMAT,
                            node->type == PARQUET_INT32 ? (guint64)(guint32)whole : (guint64)whole);
}

static gboolean
write_decimal (GString *line, const PlumbParquetNode *node, const PlumbParquetValue *value)
{
  guint64 whole;
  guint8 bytes[8];

  if (node->type != PARQUET_INT32 && node->type != PARQUET_INT64)
    return plumb_parquet_write_decimal (line, value->data, value->length, node->scale);
  whole = GUINT64_TO_BE ((guint64)integer_of (node, value));
  memcpy (bytes, &whole, sizeof bytes);
  return plumb_parquet_write_decimal (line, bytes, sizeof bytes, node->scale);
}

static void
write_uuid (GString *line, const guint8 *data)
{
  for (int i = 0; i < 16; i++)
    g_string_append_printf (line, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", data[i]);
}

/* What stands between quotes without needing any escape. FALSE: it is something else. */
static gboolean
write_quoted (GString *line, const PlumbParquetNode *node, const PlumbParquetValue *value)
{
  gsize start = line->len;
  gboolean fine = TRUE;

  g_string_append_c (line, '"');
  if (node->type == PARQUET_INT96)
    plumb_parquet_write_int96 (line, value->data);
  else if (node->meaning == PARQUET_DATE)
    plumb_parquet_write_date (line, integer_of (node, value));
  else if (node->meaning == PARQUET_TIME)
    plumb_parquet_write_time (line, integer_of (node, value), node->scale);
  else if (node->meaning == PARQUET_TIMESTAMP)
    plumb_parquet_write_timestamp (line, integer_of (node, value), node->scale, node->utc);
  else if (node->meaning == PARQUET_UUID)
    write_uuid (line, value->data);
  else
    fine = node->meaning == PARQUET_DECIMAL && write_decimal (line, node, value);
  if (fine)
    g_string_append_c (line, '"');
  else
    g_string_truncate (line, start);
  return fine;
}

static void
write_value (GString *line, const PlumbParquetNode *node, const PlumbParquetValue *value)
{
  float single;
  double real;

  if (write_quoted (line, node, value))
    return;
  switch (node->type)
    {
    case PARQUET_BOOLEAN:
      g_string_append (line, value->number != 0 ? "true" : "false");
      break;
    case PARQUET_INT32:
    case PARQUET_INT64:
      write_integer (line, node, integer_of (node, value));
      break;
    case PARQUET_FLOAT:
      memcpy (&single, value->data, sizeof single);
      write_real (line, single, "%.9g");
      break;
    case PARQUET_DOUBLE:
      memcpy (&real, value->data, sizeof real);
      write_real (line, real, "%.17g");
      break;
    case PARQUET_BYTES:
    case PARQUET_FIXED:
    case PARQUET_INT96:
    case PARQUET_GROUP:
      if (node->meaning == PARQUET_HALF)
        write_real (line, plumb_parquet_half (value->data), "%.17g");
      else if (node->meaning == PARQUET_AS_IT_IS && is_text ((const char *)value->data, value->length))
        plumb_json_append_text (line, (const char *)value->data, value->length);
      else
        g_string_append_printf (line, PLUMB_DATA_NO_TEXT, value->length);
      break;
    }
}

/* --- rows */

/* The place of a node that is not there: one entry in each of its columns. */
static gboolean
pass (Reader *r, const PlumbParquetNode *node)
{
  for (guint i = 0; i < node->n_leaves; i++)
    if (!advance (r, &r->columns[node->first_leaf + i]))
      return FALSE;
  return TRUE;
}

static gboolean write_node (Reader *r, guint at);

static gboolean
write_leaf (Reader *r, const PlumbParquetNode *node)
{
  Column *column = &r->columns[node->first_leaf];
  PlumbParquetValue value;

  if (!plumb_parquet_values_next (&column->values, &value))
    return fail (r, column, "a page has fewer values than it should have");
  write_value (r->line, node, &value);
  return advance (r, column);
}

/* The one child of a LIST's repeated group stands for the element. */
static gboolean
is_wrapper (const PlumbParquetMeta *meta, guint at)
{
  const PlumbParquetNode *node = &g_array_index (meta->nodes, PlumbParquetNode, at);
  const PlumbParquetNode *parent = at > 0 ? node - 1 : NULL;

  return parent != NULL && parent->type == PARQUET_GROUP && parent->meaning == PARQUET_LIST && parent->children == 1
         && node->repetition == PARQUET_REPEATED && node->type == PARQUET_GROUP && node->children == 1;
}

/* What a node holds once, whatever its repetition. */
static gboolean
write_content (Reader *r, guint at)
{
  const PlumbParquetNode *node = &g_array_index (r->meta->nodes, PlumbParquetNode, at);
  guint child = at + 1;

  if (node->type != PARQUET_GROUP)
    return write_leaf (r, node);
  if (is_wrapper (r->meta, at)
      || (node->meaning == PARQUET_LIST && node->children == 1
          && g_array_index (r->meta->nodes, PlumbParquetNode, child).repetition == PARQUET_REPEATED))
    return write_node (r, child);
  for (guint i = 0; i < node->children; i++)
    {
      const PlumbParquetNode *member = &g_array_index (r->meta->nodes, PlumbParquetNode, child);

      g_string_append_c (r->line, i > 0 ? ',' : '{');
      plumb_json_append_text (r->line, member->name, strlen (member->name));
      g_string_append_c (r->line, ':');
      if (!write_node (r, child))
        return FALSE;
      child = member->end;
    }
  g_string_append_c (r->line, '}');
  return TRUE;
}

static gboolean
write_node (Reader *r, guint at)
{
  const PlumbParquetNode *node = &g_array_index (r->meta->nodes, PlumbParquetNode, at);
  Column *first = &r->columns[node->first_leaf];

  if (!first->have)
    return fail (r, first, "it has fewer values than there are rows");
  if (r->line->len > PLUMB_DATA_LONGEST_LINE)
    return fail (r, first, "a row is longer than 64 MiB");
  if (node->repetition == PARQUET_REQUIRED || at == 0)
    return write_content (r, at);
  if (first->def < node->max_def)
    {
      g_string_append (r->line, node->repetition == PARQUET_REPEATED ? "[]" : "null");
      return pass (r, node);
    }
  if (node->repetition == PARQUET_OPTIONAL)
    return write_content (r, at);
  g_string_append_c (r->line, '[');
  do
    {
      if (r->line->str[r->line->len - 1] != '[')
        g_string_append_c (r->line, ',');
      if (!write_content (r, at))
        return FALSE;
      if (r->line->len > PLUMB_DATA_LONGEST_LINE)
        return fail (r, first, "a row is longer than 64 MiB");
    }
  while (first->have && first->rep == node->max_rep);
  g_string_append_c (r->line, ']');
  return TRUE;
}

static gboolean
begin_column (Reader *r, guint leaf, guint group)
{
  Column *column = &r->columns[leaf];
  guint64 size = plumb_data_file_size (r->from), start;

  column->chunk = g_array_index (r->meta->chunks, PlumbParquetChunk, group * r->meta->n_leaves + leaf);
  start = column->chunk.offset;
  if (column->chunk.dictionary > 0 && (guint64)column->chunk.dictionary < start)
    start = column->chunk.dictionary;
  column->at = start;
  if (start > size || (guint64)column->chunk.packed_size > size - start)
    return fail (r, column, "it lies outside of the file");
  column->end = start + column->chunk.packed_size;
  column->left = column->chunk.n_values;
  column->in_page = 0;
  return advance (r, column);
}

static gboolean
read_group (Reader *r, guint group)
{
  guint64 most = LEAST_OUTPUT + MOST_UNFOLDING * plumb_data_file_size (r->from);
  gint64 rows = g_array_index (r->meta->n_rows, gint64, group);
  gboolean fine = TRUE;

  for (guint i = 0; fine && i < r->meta->n_leaves; i++)
    fine = begin_column (r, i, group);
  for (gint64 row = 0; fine && row < rows; row++)
    {
      g_string_truncate (r->line, 0);
      fine = write_node (r, 0);
      g_string_append_c (r->line, '\n');
      fine = fine && plumb_data_file_append (r->to, r->line->str, r->line->len, r->error);
      if (fine && plumb_data_file_size (r->to) > most)
        fine = fail (r, &r->columns[0], "the file unfolds to more than 200 times its size");
    }
  for (guint i = 0; i < r->meta->n_leaves; i++)
    column_clear (&r->columns[i]);
  return fine;
}

PlumbDataFile *
plumb_parquet_to_lines (PlumbDataFile *file, GError **error)
{
  g_autoptr (PlumbParquetMeta) meta = plumb_parquet_meta_read (file, error);
  g_autoptr (PlumbDataFile) to = meta != NULL ? plumb_data_file_new (plumb_data_file_path (file), error) : NULL;
  g_autofree Column *columns = meta != NULL ? g_new0 (Column, meta->n_leaves) : NULL;
  g_autoptr (GString) line = g_string_new (NULL);
  Reader r = { file, to, meta, columns, line, error };
  gboolean fine = to != NULL;

  for (guint i = 0; fine && i < meta->nodes->len; i++)
    {
      const PlumbParquetNode *node = &g_array_index (meta->nodes, PlumbParquetNode, i);

      if (node->type != PARQUET_GROUP)
        columns[node->first_leaf].node = node;
    }
  for (guint i = 0; fine && i < meta->n_rows->len; i++)
    fine = read_group (&r, i);
  if (!fine || !plumb_data_file_flush (to, error))
    return NULL;
  return g_steal_pointer (&to);
}
