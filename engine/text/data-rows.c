/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/data-csv.h"
#include "engine/text/data-parquet.h"
#include "engine/text/data-rows-private.h"

void
plumb_data_source_free (PlumbDataSource *source)
{
  g_free (source->name);
  g_clear_pointer (&source->file, plumb_data_file_free);
  g_clear_pointer (&source->columns, g_ptr_array_unref);
  plumb_data_keys_clear (&source->keys);
  plumb_data_index_free (source->index);
  g_clear_pointer (&source->arithmetic, plumb_arithmetic_free);
  g_free (source);
}

gsize
plumb_data_source_n_rows (PlumbDataSource *source)
{
  return source->kind == SOURCE_ARITHMETIC ? plumb_arithmetic_n_rows (source->arithmetic)
                                           : plumb_data_index_n_rows (source->index);
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
  PlumbRecordPlace place;

  if (source->kind == SOURCE_ARITHMETIC)
    return row + 1;
  return plumb_data_index_get (source->index, row, &place, NULL) ? place.line : 0;
}

gsize
plumb_data_source_row_bytes (PlumbDataSource *source, gsize row)
{
  PlumbRecordPlace place;

  return source->kind != SOURCE_ARITHMETIC && plumb_data_index_get (source->index, row, &place, NULL) ? place.length
                                                                                                      : 0;
}

/* --- records as rows */

static char
separator_of (PlumbDataSource *source)
{
  return source->records == PLUMB_RECORD_TSV ? '\t' : ',';
}

static gboolean
fault_at (PlumbRowFault *fault, char *message)
{
  plumb_row_fault_clear (fault);
  fault->message = message;
  return FALSE;
}

/* The record as an object of JSON: itself, or `json` filled with it. */
gboolean
plumb_data_record_to_json (PlumbDataSource *source, const char **data, gsize *length, GString *json, PlumbRowFault *fault)
{
  char *wrong = NULL;

  if (source->columns == NULL)
    return TRUE;
  if (!plumb_csv_to_json (source->columns, *data, *length, separator_of (source), json, &wrong))
    return fault_at (fault, wrong);
  *data = json->str;
  *length = json->len;
  return TRUE;
}

gboolean
plumb_data_record_read (PlumbDataSource *source, const PlumbRecord *record, PlumbDataText *text, PlumbRowFault *fault)
{
  g_autoptr (GString) json = g_string_new (NULL);
  const char *data = record->data;
  gsize length = record->place.length;

  if (record->fault != NULL)
    return fault_at (fault, g_strdup (record->fault));
  if (data == NULL)
    return fault_at (fault, g_strdup_printf ("the row has %" G_GUINT64_FORMAT " bytes; at most %d are read",
                                             record->length, PLUMB_DATA_LONGEST_LINE));
  if (!plumb_data_record_to_json (source, &data, &length, json, fault)
      || !plumb_data_json_read (data, length, record->place.offset, &source->keys, text, fault))
    return FALSE;
  if (source->keys.keep_row)
    text->row = g_string_new_len (data, length);
  return TRUE;
}

/* The names of the columns, which the first record gives. */
static gboolean
read_columns (PlumbDataSource *source, PlumbRecords *records, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  PlumbRecord record;
  const char *wrong = "the first row is too long for names of columns";
  g_autoptr (GPtrArray) columns = NULL;
  g_autoptr (GError) local = NULL;

  if (!plumb_records_next (records, &record, &local))
    {
      if (local == NULL)
        return TRUE; /* empty: told later */
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  if (record.fault != NULL)
    wrong = record.fault;
  else if (record.data != NULL)
    columns = plumb_csv_cells (record.data, record.place.length, separator_of (source), &wrong);
  for (guint i = 0; columns != NULL && i < columns->len; i++)
    if (!g_hash_table_add (seen, g_ptr_array_index (columns, i)))
      {
        wrong = "two columns have the same name";
        g_clear_pointer (&columns, g_ptr_array_unref);
      }
  if (columns == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s:1: %s", source->name, wrong);
      return FALSE;
    }
  if (source->columns == NULL)
    source->columns = g_steal_pointer (&columns);
  return TRUE;
}

/* Goes over the records behind the names of columns. NULL with an error. */
PlumbRecords *
plumb_data_source_records (PlumbDataSource *source, GError **error)
{
  g_autoptr (PlumbRecords) records = plumb_records_new (source->file, source->records);
  gboolean table = source->records == PLUMB_RECORD_CSV || source->records == PLUMB_RECORD_TSV;

  if (table && !read_columns (source, records, error))
    return NULL;
  return g_steal_pointer (&records);
}

/* --- opening */

static gboolean
kind_of (const char *path, SourceKind *kind, GError **error)
{
  static const struct
  {
    const char *suffix;
    SourceKind kind;
  } kinds[] = { { ".jsonl", SOURCE_JSONL }, { ".ndjson", SOURCE_JSONL },    { ".json", SOURCE_JSON },
                { ".csv", SOURCE_CSV },     { ".tsv", SOURCE_TSV },         { ".parquet", SOURCE_PARQUET },
                { ".txt", SOURCE_TEXT },    { ".text", SOURCE_TEXT },       { ".md", SOURCE_TEXT } };
  g_autofree char *lower = g_ascii_strdown (path, -1);

  if (g_str_has_suffix (lower, ".gz"))
    lower[strlen (lower) - 3] = '\0';
  else if (g_str_has_suffix (lower, ".zst"))
    lower[strlen (lower) - 4] = '\0';
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (g_str_has_suffix (lower, kinds[i].suffix))
      {
        *kind = kinds[i].kind;
        return TRUE;
      }
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: there is no such file or folder", path);
      return FALSE;
    }
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "%s: its name does not say what it holds; .jsonl, .json, .csv, .tsv, .parquet, .txt, and these with .gz"
               " or .zst are read",
               path);
  return FALSE;
}

/* A .json file holds an array or lines. */
static gboolean
is_array (PlumbDataFile *file)
{
  char bytes[4096];
  gssize n = plumb_data_file_read_some (file, 0, sizeof bytes, bytes, NULL);

  for (gssize i = 0; i < n; i++)
    if (strchr (" \t\r\n\xef\xbb\xbf", bytes[i]) == NULL || bytes[i] == '\0')
      return bytes[i] == '[';
  return FALSE;
}

/* The file in a form whose records can be found. */
static gboolean
prepare_file (PlumbDataSource *source, GError **error)
{
  source->records = source->kind == SOURCE_CSV   ? PLUMB_RECORD_CSV
                    : source->kind == SOURCE_TSV ? PLUMB_RECORD_TSV
                                                 : PLUMB_RECORD_LINES;
  if (source->kind == SOURCE_JSON && is_array (source->file))
    source->records = PLUMB_RECORD_ARRAY;
  if (source->kind == SOURCE_PARQUET)
    {
      PlumbDataFile *lines = plumb_parquet_to_lines (source->file, error);

      plumb_data_file_free (source->file);
      source->file = lines;
    }
  return source->file != NULL;
}

static gboolean
open_file (PlumbDataSource *source, GPtrArray *reports, GError **error)
{
  guint first = reports->len;

  if (!kind_of (source->name, &source->kind, error))
    return FALSE;
  source->file = plumb_data_file_open (source->name, error);
  if (source->file == NULL || !prepare_file (source, error))
    return FALSE;
  if (!plumb_data_source_index (source, reports, error))
    return FALSE;
  if (plumb_data_index_n_rows (source->index) > 0)
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
  source->index = plumb_data_index_new ();
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
  g_auto (PlumbRowFault) fault = { NULL };
  g_autofree char *data = NULL;
  PlumbRecord record = { 0 };

  if (source->kind == SOURCE_ARITHMETIC)
    {
      plumb_arithmetic_get (source->arithmetic, index, text);
      return TRUE;
    }
  if (!plumb_data_index_get (source->index, index, &record.place, error))
    return FALSE;
  data = g_malloc (record.place.length + 1);
  if (!plumb_data_file_read (source->file, record.place.offset, record.place.length, data, error))
    return FALSE;
  record.data = data;
  if (source->kind == SOURCE_TEXT && g_utf8_validate (data, record.place.length, NULL))
    text->prompt = g_string_new_len (data, record.place.length);
  else if (source->kind == SOURCE_TEXT || !plumb_data_record_read (source, &record, text, &fault))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s:%u: %s%s%s%s", source->name, record.place.line,
                   record.place.offset < PLUMB_DATA_READ_CLOSELY ? "the row has changed since it was opened: " : "",
                   fault.message != NULL ? fault.message : "it is no text any more", fault.remedy != NULL ? "; " : "",
                   fault.remedy != NULL ? fault.remedy : "");
      return FALSE;
    }
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
                   "%s: there is no data file (.jsonl, .json, .csv, .tsv, .parquet, .txt) in this folder", path);
      return NULL;
    }
  g_ptr_array_sort (names, compare_paths);
  for (guint i = 0; i < names->len; i++)
    g_strv_builder_add (builder, g_ptr_array_index (names, i));
  return g_strv_builder_end (builder);
}
