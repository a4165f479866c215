/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/arithmetic.h"
#include "engine/text/data-json.h"
#include "engine/text/text-file.h"

#define ROWS_FOR_GUESS 1000 /* rows whose keys are looked at */

typedef struct
{
  gsize offset;
  guint32 length, line;
} Row;

typedef enum
{
  SOURCE_JSONL,
  SOURCE_TEXT,
  SOURCE_ARITHMETIC,
} SourceKind;

struct _PlumbDataSource
{
  SourceKind kind;
  char *name;
  GBytes *bytes;
  const char *data;
  gsize size;
  PlumbDataKeys keys;
  GArray *rows; /* of Row */
  gsize n_broken;
  PlumbArithmetic *arithmetic;
};

void
plumb_data_source_free (PlumbDataSource *source)
{
  g_free (source->name);
  g_clear_pointer (&source->bytes, g_bytes_unref);
  plumb_data_keys_clear (&source->keys);
  g_array_unref (source->rows);
  g_clear_pointer (&source->arithmetic, plumb_arithmetic_free);
  g_free (source);
}

gsize
plumb_data_source_n_rows (PlumbDataSource *source)
{
  return source->kind == SOURCE_ARITHMETIC ? plumb_arithmetic_n_rows (source->arithmetic)
                                           : source->rows->len;
}

gsize
plumb_data_source_n_broken (PlumbDataSource *source)
{
  return source->n_broken;
}

const PlumbDataKeys *
plumb_data_source_keys (PlumbDataSource *source)
{
  return &source->keys;
}

const char *
plumb_data_source_name (PlumbDataSource *source)
{
  return source->name;
}

guint
plumb_data_source_line (PlumbDataSource *source, gsize row)
{
  return source->kind == SOURCE_ARITHMETIC ? row + 1 : g_array_index (source->rows, Row, row).line;
}

static void
report (PlumbDataSource *source, guint line, const PlumbRowFault *fault, GPtrArray *reports)
{
  source->n_broken++;
  if (source->n_broken <= PLUMB_DATA_MOST_REPORTS)
    g_ptr_array_add (
        reports, plumb_problem_new (NULL, NULL, source->name, line, fault->message, fault->remedy));
}

/* Moves to the next line that is not blank; FALSE at the end. A line ends at \n alone: other
 * separators of Unicode may stand inside a string. */
static gboolean
next_line (PlumbDataSource *source, gsize *next, guint *number, gsize *offset, gsize *length)
{
  while (*next < source->size)
    {
      const char *start = source->data + *next;
      const char *stop = memchr (start, '\n', source->size - *next);

      *offset = *next;
      *length = stop != NULL ? (gsize)(stop - start) : source->size - *next;
      *next += *length + 1;
      (*number)++;
      if (*length > 0 && start[*length - 1] == '\r')
        (*length)--;
      for (gsize i = 0; i < *length; i++)
        if (start[i] != ' ' && start[i] != '\t')
          return TRUE;
    }
  return FALSE;
}

/* Unites the keys of the first rows. */
static GHashTable *
look_at_keys (PlumbDataSource *source)
{
  GHashTable *seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gsize next = 0, offset, length;
  guint number = 0, sound = 0;

  while (sound < ROWS_FOR_GUESS && next_line (source, &next, &number, &offset, &length))
    if (length <= PLUMB_DATA_LONGEST_LINE
        && plumb_data_json_keys (source->data + offset, length, seen))
      sound++;
  return seen;
}

static gboolean
choose_keys (PlumbDataSource *source, GError **error)
{
  g_autoptr (GHashTable) seen = look_at_keys (source);
  g_autofree char *message = NULL;

  if (g_hash_table_size (seen) == 0)
    return TRUE; /* there is no sound row: each is reported for itself */
  message = plumb_data_json_choose (&source->keys, seen);
  if (message == NULL)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: %s", source->name, message);
  return FALSE;
}

static gboolean
check_line (PlumbDataSource *source, gsize offset, gsize length, PlumbRowFault *fault)
{
  g_auto (PlumbDataText) text = { NULL };

  if (length <= PLUMB_DATA_LONGEST_LINE)
    return plumb_data_json_read (source->data + offset, length, offset, &source->keys, &text,
                                 fault);
  fault->message = g_strdup_printf ("the line has %" G_GSIZE_FORMAT " bytes; at most %d are read",
                                    length, PLUMB_DATA_LONGEST_LINE);
  return FALSE;
}

static gboolean
index_jsonl (PlumbDataSource *source, GPtrArray *reports, GError **error)
{
  gsize next = 0, offset, length;
  guint number = 0;

  if (source->size >= 3 && memcmp (source->data, "\xef\xbb\xbf", 3) == 0)
    next = 3;
  if (!choose_keys (source, error))
    return FALSE;
  while (next_line (source, &next, &number, &offset, &length))
    {
      g_auto (PlumbRowFault) fault = { NULL };
      Row row = { offset, length, number };

      if (check_line (source, offset, length, &fault))
        g_array_append_val (source->rows, row);
      else
        report (source, number, &fault, reports);
    }
  return TRUE;
}

static void
add_text_row (PlumbDataSource *source, const Row *row, GPtrArray *reports)
{
  g_auto (PlumbRowFault) fault = { NULL };
  const char *bad;

  if (!g_utf8_validate (source->data + row->offset, row->length, &bad))
    fault.message
        = g_strdup_printf ("this text is not valid UTF-8 (at byte %" G_GSIZE_FORMAT " of the file)",
                           (gsize)(bad - source->data));
  if (fault.message != NULL)
    report (source, row->line, &fault, reports);
  else
    g_array_append_val (source->rows, *row);
}

static gboolean
has_blank_lines (PlumbDataSource *source)
{
  return memmem (source->data, source->size, "\n\n", 2) != NULL
         || memmem (source->data, source->size, "\n\r\n", 3) != NULL;
}

/* Paragraphs where blank lines divide the text, else lines. */
static gboolean
index_text (PlumbDataSource *source, GPtrArray *reports, GError **error)
{
  gboolean paragraphs = has_blank_lines (source);
  gsize next = 0, offset, length;
  guint number = 0, last = 0;
  Row row = { 0 };

  while (next_line (source, &next, &number, &offset, &length))
    {
      if (length > PLUMB_DATA_LONGEST_LINE
          || (row.length > 0 && offset + length - row.offset > PLUMB_DATA_LONGEST_LINE))
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "%s:%u: the text has more than %d bytes without a break; divide it by blank"
                       " lines",
                       source->name, number, PLUMB_DATA_LONGEST_LINE);
          return FALSE;
        }
      if (row.length > 0 && (!paragraphs || number != last + 1))
        {
          add_text_row (source, &row, reports);
          row.length = 0;
        }
      if (row.length == 0)
        row = (Row){ offset, length, number };
      else
        row.length = offset + length - row.offset;
      last = number;
    }
  if (row.length > 0)
    add_text_row (source, &row, reports);
  return TRUE;
}

static gboolean
kind_of (const char *path, SourceKind *kind, GError **error)
{
  static const struct
  {
    const char *suffix;
    SourceKind kind;
  } kinds[] = { { ".jsonl", SOURCE_JSONL }, { ".ndjson", SOURCE_JSONL }, { ".json", SOURCE_JSONL },
                { ".txt", SOURCE_TEXT },    { ".text", SOURCE_TEXT },    { ".md", SOURCE_TEXT } };
  g_autofree char *lower = g_ascii_strdown (path, -1);

  if (g_str_has_suffix (lower, ".gz"))
    lower[strlen (lower) - 3] = '\0';
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (g_str_has_suffix (lower, kinds[i].suffix))
      {
        *kind = kinds[i].kind;
        return TRUE;
      }
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "%s: its name does not say what it holds; .jsonl, .txt, and both with .gz are read",
               path);
  return FALSE;
}

static gboolean
open_file (PlumbDataSource *source, GPtrArray *reports, GError **error)
{
  guint first = reports->len;

  if (!kind_of (source->name, &source->kind, error))
    return FALSE;
  source->bytes = plumb_text_file_read (source->name, error);
  if (source->bytes == NULL)
    return FALSE;
  source->data = g_bytes_get_data (source->bytes, &source->size);
  if (source->data == NULL)
    source->data = ""; /* an empty file */
  if (!(source->kind == SOURCE_JSONL ? index_jsonl (source, reports, error)
                                     : index_text (source, reports, error)))
    return FALSE;
  if (source->rows->len > 0)
    return TRUE;
  if (source->n_broken == 0)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: there are no rows in this file",
                 source->name);
  else
    {
      const PlumbProblem *problem = g_ptr_array_index (reports, first);

      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s:%u: none of the %" G_GSIZE_FORMAT " rows can be used; the first: %s",
                   source->name, problem->line, source->n_broken, problem->message);
    }
  return FALSE;
}

PlumbDataSource *
plumb_data_source_open (const char *path,
                        PlumbDataPurpose purpose,
                        guint64 seed,
                        const PlumbDataKeys *keys,
                        GPtrArray *reports,
                        GError **error)
{
  g_autoptr (PlumbDataSource) source = g_new0 (PlumbDataSource, 1);

  source->name = g_strdup (path);
  source->rows = g_array_new (FALSE, FALSE, sizeof (Row));
  plumb_data_keys_copy (&source->keys, keys);
  if (g_str_equal (path, "builtin:arithmetic"))
    {
      source->kind = SOURCE_ARITHMETIC;
      source->arithmetic = plumb_arithmetic_new (seed, purpose);
      return g_steal_pointer (&source);
    }
  if (g_str_has_prefix (path, "builtin:"))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: there is no such data; builtin:arithmetic is", path);
      return NULL;
    }
  if (!open_file (source, reports, error))
    return NULL;
  return g_steal_pointer (&source);
}

gboolean
plumb_data_source_get (PlumbDataSource *source, gsize index, PlumbDataText *text, GError **error)
{
  const Row *row;
  g_auto (PlumbRowFault) fault = { NULL };

  if (source->kind == SOURCE_ARITHMETIC)
    {
      plumb_arithmetic_get (source->arithmetic, index, text);
      return TRUE;
    }
  row = &g_array_index (source->rows, Row, index);
  if (source->kind == SOURCE_TEXT)
    text->prompt = g_string_new_len (source->data + row->offset, row->length);
  else if (!plumb_data_json_read (source->data + row->offset, row->length, row->offset,
                                  &source->keys, text, &fault))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s:%u: the row has changed since it was opened: %s",
                   source->name, row->line, fault.message);
      return FALSE;
    }
  else if (source->keys.keep_row)
    text->row = g_string_new_len (source->data + row->offset, row->length);
  return TRUE;
}

static int
compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *)a, *(char *const *)b);
}

char **
plumb_data_expand (const char *path, GError **error)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GDir) folder = NULL;
  const char *name;
  SourceKind kind;

  if (g_str_has_prefix (path, "builtin:") || !g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      g_strv_builder_add (builder, path);
      return g_strv_builder_end (builder);
    }
  folder = g_dir_open (path, 0, error);
  if (folder == NULL)
    return NULL;
  while ((name = g_dir_read_name (folder)) != NULL)
    if (kind_of (name, &kind, NULL))
      g_ptr_array_add (names, g_build_filename (path, name, NULL));
  if (names->len == 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: there is no data file (.jsonl, .txt) in this folder", path);
      return NULL;
    }
  g_ptr_array_sort (names, compare_paths);
  for (guint i = 0; i < names->len; i++)
    g_strv_builder_add (builder, g_ptr_array_index (names, i));
  return g_strv_builder_end (builder);
}
