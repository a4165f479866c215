/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a file can be used, and where they are. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/text/data-rows-private.h"

#define ROWS_FOR_GUESS 1000        /* rows whose keys are looked at */
#define BYTES_FOR_GUESS (16 << 20) /* and bytes of them */

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

/* --- keys */

/* Unites the keys of the first rows. */
static gboolean
look_at_keys (PlumbDataSource *source, GHashTable *seen, GError **error)
{
  g_autoptr (PlumbRecords) records = plumb_data_source_records (source, error);
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
      if (data != NULL && record.fault == NULL && plumb_data_record_to_json (source, &data, &length, json, &fault)
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
  return place->offset < PLUMB_DATA_READ_CLOSELY;
}

static gboolean
index_rows (PlumbDataSource *source, Reporting *to, GError **error)
{
  g_autoptr (PlumbRecords) records = plumb_data_source_records (source, error);
  g_autoptr (GError) local = NULL;
  PlumbRecord record;

  if (records == NULL)
    return FALSE;
  while (plumb_records_next (records, &record, &local))
    {
      g_auto (PlumbRowFault) fault = { NULL };
      g_auto (PlumbDataText) text = { NULL };

      if ((is_read_closely (&record.place) || record.data == NULL || record.fault != NULL)
          && !plumb_data_record_read (source, &record, &text, &fault))
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

gboolean
plumb_data_source_index (PlumbDataSource *source, GPtrArray *reports, GError **error)
{
  Reporting to = { source, reports, reports->len };

  return source->kind == SOURCE_TEXT ? index_text (source, &to, error) : index_objects (source, &to, error);
}
