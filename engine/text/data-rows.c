/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/text/arithmetic.h"
#include "engine/text/data-csv.h"
#include "engine/text/data-index.h"
#include "engine/text/data-json.h"
#include "engine/text/data-parquet.h"

#define ROWS_FOR_GUESS 1000              /* rows whose keys are looked at */
#define BYTES_FOR_GUESS (16 << 20)       /* and bytes of them */
/* Rows up to here in a file are read when it is opened; of those behind only the places are found, and each is read
 * when it is taken, so that ten gigabytes begin in seconds. */
#define READ_CLOSELY (256 << 20)

typedef enum
{
  SOURCE_JSONL,
  SOURCE_JSON, /* an array, or lines after all */
  SOURCE_CSV,
  SOURCE_TSV,
  SOURCE_PARQUET,
  SOURCE_TEXT,
  SOURCE_ARITHMETIC,
} SourceKind;

struct _PlumbDataSource
{
  SourceKind kind;
  char *name;
  PlumbDataFile *file;
  PlumbRecordKind records;
  GPtrArray *columns; /* of a CSV file */
  PlumbDataKeys keys;
  PlumbDataIndex *index;
  gsize n_broken;
  PlumbArithmetic *arithmetic;
};

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

/* What is known of an index besides the places: the rows that are broken. */
typedef struct
{
  PlumbDataSource *source;
  GPtrArray *reports;
  guint first; /* of the source's in `reports` */
} Reporting;

static void
report (Reporting *to, guint line, const PlumbRowFault *fault)
{
  to->source->n_broken++;
  if (to->source->n_broken <= PLUMB_DATA_MOST_REPORTS)
    g_ptr_array_add (to->reports, plumb_problem_new (NULL, NULL, to->source->name, line, fault->message, fault->remedy));
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
static gboolean
to_json (PlumbDataSource *source, const char **data, gsize *length, GString *json, PlumbRowFault *fault)
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

static gboolean
read_record (PlumbDataSource *source, const PlumbRecord *record, PlumbDataText *text, PlumbRowFault *fault)
{
  g_autoptr (GString) json = g_string_new (NULL);
  const char *data = record->data;
  gsize length = record->place.length;

  if (record->fault != NULL)
    return fault_at (fault, g_strdup (record->fault));
  if (data == NULL)
    return fault_at (fault, g_strdup_printf ("the row has %" G_GUINT64_FORMAT " bytes; at most %d are read",
                                             record->length, PLUMB_DATA_LONGEST_LINE));
  if (!to_json (source, &data, &length, json, fault)
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
static PlumbRecords *
begin_records (PlumbDataSource *source, GError **error)
{
  g_autoptr (PlumbRecords) records = plumb_records_new (source->file, source->records);
  gboolean table = source->records == PLUMB_RECORD_CSV || source->records == PLUMB_RECORD_TSV;

  if (table && !read_columns (source, records, error))
    return NULL;
  return g_steal_pointer (&records);
}

/* --- keys */

/* Unites the keys of the first rows. */
static gboolean
look_at_keys (PlumbDataSource *source, GHashTable *seen, GError **error)
{
  g_autoptr (PlumbRecords) records = begin_records (source, error);
  g_autoptr (GError) local = NULL;
  PlumbRecord record;
  guint sound = 0;
  guint64 bytes = 0;

  if (records == NULL)
    return FALSE;
  while (sound < ROWS_FOR_GUESS && bytes < BYTES_FOR_GUESS && plumb_records_next (records, &record, &local))
    {
      g_autoptr (GString) json = g_string_new (NULL);
      g_auto (PlumbRowFault) fault = { NULL };
      const char *data = record.data;
      gsize length = record.place.length;

      bytes += record.length;
      if (data != NULL && record.fault == NULL && to_json (source, &data, &length, json, &fault)
          && plumb_data_json_keys (data, length, seen))
        sound++;
    }
  return TRUE;
}

static gboolean
choose_keys (PlumbDataSource *source, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autofree char *message = NULL;

  if (!look_at_keys (source, seen, error))
    return FALSE;
  if (g_hash_table_size (seen) == 0)
    return TRUE; /* there is no sound row: each is reported for itself */
  message = plumb_data_json_choose (&source->keys, seen);
  if (message == NULL)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: %s", source->name, message);
  return FALSE;
}

/* --- the index */

static gboolean
is_read_closely (const PlumbRecordPlace *place)
{
  return place->offset < READ_CLOSELY;
}

static gboolean
index_rows (PlumbDataSource *source, Reporting *to, GError **error)
{
  g_autoptr (PlumbRecords) records = begin_records (source, error);
  g_autoptr (GError) local = NULL;
  PlumbRecord record;

  if (records == NULL)
    return FALSE;
  while (plumb_records_next (records, &record, &local))
    {
      g_auto (PlumbRowFault) fault = { NULL };
      g_auto (PlumbDataText) text = { NULL };

      if ((is_read_closely (&record.place) || record.data == NULL || record.fault != NULL)
          && !read_record (source, &record, &text, &fault))
        report (to, record.place.line, &fault);
      else if (!plumb_data_index_append (source->index, &record.place, error))
        return FALSE;
    }
  if (local == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

static char *
notes_to_text (Reporting *of)
{
  g_autoptr (GPtrArray) own = g_ptr_array_new ();
  g_autoptr (JsonNode) node = NULL;

  for (guint i = of->first; i < of->reports->len; i++)
    g_ptr_array_add (own, g_ptr_array_index (of->reports, i));
  node = plumb_problems_to_json (own);
  json_object_set_int_member (json_node_get_object (node), "broken", (gint64)of->source->n_broken);
  return json_to_string (node, FALSE);
}

static const char *
member_text (JsonObject *object, const char *name)
{
  return plumb_json_node_text (json_object_get_member (object, name));
}

/* FALSE when the notes are none that were written here. */
static gboolean
notes_from_text (Reporting *to, const char *text)
{
  g_autoptr (JsonParser) parser = plumb_json_parse ("index", text, strlen (text), NULL);
  JsonObject *top = parser != NULL ? plumb_json_node_object (json_parser_get_root (parser)) : NULL;
  JsonArray *list = top != NULL ? plumb_json_node_array (json_object_get_member (top, "problems")) : NULL;
  gint64 broken;

  if (list == NULL || !plumb_json_node_integer (json_object_get_member (top, "broken"), &broken) || broken < 0)
    return FALSE;
  to->source->n_broken = broken;
  for (guint i = 0; i < json_array_get_length (list); i++)
    {
      JsonObject *problem = plumb_json_node_object (json_array_get_element (list, i));
      gint64 line = 0;

      if (problem == NULL || member_text (problem, "message") == NULL)
        return FALSE;
      plumb_json_node_integer (json_object_get_member (problem, "line"), &line);
      g_ptr_array_add (to->reports, plumb_problem_new (NULL, NULL, to->source->name, line,
                                                       member_text (problem, "message"),
                                                       member_text (problem, "remedy")));
    }
  return TRUE;
}

/* All that the choice of rows depends on. */
static char *
recipe_of (PlumbDataSource *source)
{
  const PlumbDataKeys *keys = &source->keys;
  g_autofree char *names = plumb_data_keys_describe (keys);

  return g_strdup_printf ("%s %d %d %d|%s|%s|%d%d%d%d%d", PLUMB_VERSION, source->kind, source->records, keys->format,
                          names, keys->form != NULL ? keys->form : "", keys->need_answer, keys->need_response,
                          keys->need_pair, keys->need_label, keys->prompts_only);
}

static gboolean
index_objects (PlumbDataSource *source, Reporting *to, GError **error)
{
  gboolean worth = plumb_data_file_is_plain (source->file)
                   && plumb_data_file_size (source->file) >= PLUMB_DATA_INDEX_WORTH;
  g_autofree char *recipe = NULL, *notes = NULL;
  g_autoptr (PlumbDataIndex) kept = NULL;

  if (!choose_keys (source, error))
    return FALSE;
  recipe = recipe_of (source);
  kept = worth ? plumb_data_index_find (source->file, recipe, &notes) : NULL;
  if (kept != NULL && notes_from_text (to, notes))
    {
      plumb_data_index_free (source->index);
      source->index = g_steal_pointer (&kept);
      return TRUE;
    }
  if (!index_rows (source, to, error) || !plumb_data_index_finish (source->index, error))
    return FALSE;
  g_free (notes);
  notes = worth ? notes_to_text (to) : NULL;
  if (worth)
    plumb_data_index_keep (source->index, source->file, recipe, notes);
  return TRUE;
}

/* --- texts */

/* Are there blank lines? They divide a text into paragraphs. */
static gboolean
has_paragraphs (PlumbDataSource *source)
{
  g_autoptr (PlumbRecords) records = plumb_records_new (source->file, PLUMB_RECORD_LINES);
  PlumbRecord record;
  guint last = 0;

  while (plumb_records_next (records, &record, NULL))
    {
      if (last > 0 && record.place.line > last + 1)
        return TRUE;
      last = record.place.line;
    }
  return FALSE;
}

static gboolean
add_text_row (PlumbDataSource *source, PlumbRecordPlace *row, Reporting *to, GError **error)
{
  g_autofree char *text = g_malloc (row->length + 1);
  g_auto (PlumbRowFault) fault = { NULL };
  const char *bad;

  if (row->length == 0)
    return TRUE;
  if (!plumb_data_file_read (source->file, row->offset, row->length, text, error))
    return FALSE;
  if (g_utf8_validate (text, row->length, &bad))
    return plumb_data_index_append (source->index, row, error);
  fault.message = g_strdup_printf ("this text is not valid UTF-8 (at byte %" G_GUINT64_FORMAT " of the file)",
                                   row->offset + (bad - text));
  report (to, row->line, &fault);
  return TRUE;
}

/* Paragraphs where blank lines divide the text, else lines. */
static gboolean
index_text (PlumbDataSource *source, Reporting *to, GError **error)
{
  gboolean paragraphs = has_paragraphs (source);
  g_autoptr (PlumbRecords) records = plumb_records_new (source->file, PLUMB_RECORD_LINES);
  g_autoptr (GError) local = NULL;
  PlumbRecordPlace row = { 0 };
  PlumbRecord record;
  guint last = 0;

  while (plumb_records_next (records, &record, &local))
    {
      guint64 end = record.place.offset + record.place.length;

      if (record.data == NULL || (row.length > 0 && paragraphs && end - row.offset > PLUMB_DATA_LONGEST_LINE))
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "%s:%u: the text has more than %d bytes without a break; divide it by blank"
                       " lines",
                       source->name, record.place.line, PLUMB_DATA_LONGEST_LINE);
          return FALSE;
        }
      if (row.length > 0 && paragraphs && record.place.line == last + 1)
        row.length = end - row.offset;
      else
        {
          if (!add_text_row (source, &row, to, error))
            return FALSE;
          row = record.place;
        }
      last = record.place.line;
    }
  if (local != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  return add_text_row (source, &row, to, error) && plumb_data_index_finish (source->index, error);
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
  Reporting to = { source, reports, reports->len };

  if (!kind_of (source->name, &source->kind, error))
    return FALSE;
  source->file = plumb_data_file_open (source->name, error);
  if (source->file == NULL || !prepare_file (source, error))
    return FALSE;
  if (!(source->kind == SOURCE_TEXT ? index_text (source, &to, error) : index_objects (source, &to, error)))
    return FALSE;
  if (plumb_data_index_n_rows (source->index) > 0)
    return TRUE;
  if (source->n_broken == 0)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: there are no rows in this file",
                 source->name);
  else
    {
      const PlumbProblem *problem = g_ptr_array_index (reports, to.first);

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
  else if (source->kind == SOURCE_TEXT || !read_record (source, &record, text, &fault))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s:%u: %s%s%s%s", source->name, record.place.line,
                   is_read_closely (&record.place) ? "the row has changed since it was opened: " : "",
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
