/* SPDX-License-Identifier: Apache-2.0 */
/* Curves as JSON lines or CSV. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include <gio/gio.h>

#include "engine/core/error.h"
#include "engine/core/history.h"
#include "engine/core/json-scan.h"

#define DEEPEST 8
#define MOST_COLUMNS 4096

/* Names under which others keep the step and the time. */
static const char *const step_names[] = { "step", "global_step", "_step", "training/global_step", "iteration", NULL };
static const char *const time_names[] = { "time", "wall_time", "timestamp", "_timestamp", NULL };

/* One row: numbers by name. */
typedef struct
{
  GPtrArray *names; /* of char* */
  GArray *values;   /* of double */
} Row;

static void
row_init (Row *row)
{
  row->names = g_ptr_array_new_with_free_func (g_free);
  row->values = g_array_new (FALSE, FALSE, sizeof (double));
}

static void
row_clear (Row *row)
{
  g_ptr_array_unref (row->names);
  g_array_unref (row->values);
}

static void
row_add (Row *row, const char *name, double value)
{
  g_ptr_array_add (row->names, g_strdup (name));
  g_array_append_val (row->values, value);
}

static gboolean
row_find (const Row *row, const char *const *names, double *value)
{
  for (int n = 0; names[n] != NULL; n++)
    for (guint i = 0; i < row->names->len; i++)
      if (g_str_equal (g_ptr_array_index (row->names, i), names[n]))
        {
          *value = g_array_index (row->values, double, i);
          return isfinite (*value);
        }
  return FALSE;
}

/* `count` numbers rows without a step; `time` is that of the file. */
static void
add_row (PlumbHistory *history, const Row *row, gint64 count, double time)
{
  double step = (double)count;

  row_find (row, step_names, &step);
  row_find (row, time_names, &time);
  step = CLAMP (step, -9e15, 9e15);
  for (guint i = 0; i < row->names->len; i++)
    {
      const char *name = g_ptr_array_index (row->names, i);

      if (!g_strv_contains (step_names, name) && !g_strv_contains (time_names, name))
        plumb_history_add (history, name, (gint64)step, time, g_array_index (row->values, double, i));
    }
}

static double
file_time (const char *path)
{
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileInfo) info = g_file_query_info (file, G_FILE_ATTRIBUTE_TIME_MODIFIED, 0, NULL, NULL);

  return info != NULL ? (double)g_file_info_get_attribute_uint64 (info, G_FILE_ATTRIBUTE_TIME_MODIFIED) : 0;
}

/* --- JSON lines */

/* Objects inside objects have names like a/b; one called "data" only wraps. */
static void
read_object (PlumbJsonScan *scan, const char *prefix, Row *row, int depth)
{
  g_autoptr (GString) key = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return;
  while (plumb_json_next_member (scan, key))
    {
      g_autofree char *name = *prefix != '\0' ? g_strdup_printf ("%s/%s", prefix, key->str) : g_strdup (key->str);
      PlumbJsonType type = plumb_json_peek (scan);
      const char *text;
      gsize length;

      if (type == PLUMB_JSON_NUMBER && plumb_json_get_number (scan, &text, &length))
        {
          g_autofree char *number = g_strndup (text, length);

          row_add (row, name, g_ascii_strtod (number, NULL));
        }
      else if (type == PLUMB_JSON_OBJECT && depth < DEEPEST)
        read_object (scan, g_str_equal (name, "data") ? "" : name, row, depth + 1);
      else
        plumb_json_skip (scan);
    }
}

gboolean
plumb_history_read_lines (PlumbHistory *history, const char *path, GError **error)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, error);
  const char *next, *end;
  double time = file_time (path);
  gint64 line = 0;

  if (file == NULL)
    return FALSE;
  next = g_mapped_file_get_contents (file);
  end = next + g_mapped_file_get_length (file);
  plumb_history_begin_writer (history);
  for (const char *stop; next < end; next = stop + 1)
    {
      PlumbJsonScan scan;
      Row row;

      stop = memchr (next, '\n', end - next);
      stop = stop != NULL ? stop : end;
      line++;
      plumb_json_scan_init (&scan, next, stop - next);
      if (plumb_json_peek (&scan) == PLUMB_JSON_NOTHING && plumb_json_finish (&scan))
        continue;
      row_init (&row);
      read_object (&scan, "", &row, 0);
      if (plumb_json_finish (&scan))
        add_row (history, &row, line, time);
      else
        plumb_history_note (history, "%s:%" G_GINT64_FORMAT ": %s; the line was left out", path, line,
                            scan.message != NULL ? scan.message : "this is no JSON object");
      row_clear (&row);
    }
  return TRUE;
}

/* --- CSV */

/* Cuts a line at commas outside quotes. */
static GPtrArray *
cut_line (const char *line, gsize length)
{
  GPtrArray *cells = g_ptr_array_new_with_free_func (g_free);
  GString *cell = g_string_new (NULL);
  gboolean quoted = FALSE;

  for (gsize i = 0; i <= length; i++)
    if (i == length || (line[i] == ',' && !quoted))
      {
        g_ptr_array_add (cells, g_strdup (g_strstrip (cell->str)));
        g_string_truncate (cell, 0);
      }
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] != '\r')
      g_string_append_c (cell, line[i]);
  g_string_free (cell, TRUE);
  return cells;
}

static gboolean
read_header (GPtrArray *header, const char *path, GError **error)
{
  gboolean named = FALSE;

  for (guint i = 0; i < header->len && header->len <= MOST_COLUMNS; i++)
    {
      const char *name = g_ptr_array_index (header, i);
      char *end;

      g_ascii_strtod (name, &end);
      named = named || (*name != '\0' && *end != '\0' && g_utf8_validate (name, -1, NULL));
    }
  if (!named)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s:1: there is no header with names of columns", path);
  return named;
}

/* Cells that are empty or no numbers are left out. */
static void
read_cells (PlumbHistory *history, const GPtrArray *header, const GPtrArray *cells, gint64 count, double time)
{
  Row row;

  row_init (&row);
  for (guint i = 0; i < MIN (header->len, cells->len); i++)
    {
      const char *cell = g_ptr_array_index (cells, i), *name = g_ptr_array_index (header, i);
      char *end;
      double value = g_ascii_strtod (cell, &end);

      if (*cell != '\0' && *end == '\0' && *name != '\0')
        row_add (&row, name, value);
    }
  add_row (history, &row, count, time);
  row_clear (&row);
}

gboolean
plumb_history_read_csv (PlumbHistory *history, const char *path, GError **error)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, error);
  g_autoptr (GPtrArray) header = NULL;
  const char *next, *end;
  double time = file_time (path);
  gint64 line = 0;

  if (file == NULL)
    return FALSE;
  next = g_mapped_file_get_contents (file);
  end = next + g_mapped_file_get_length (file);
  plumb_history_begin_writer (history);
  for (const char *stop; next < end; next = stop + 1)
    {
      g_autoptr (GPtrArray) cells = NULL;

      stop = memchr (next, '\n', end - next);
      stop = stop != NULL ? stop : end;
      line++;
      cells = cut_line (next, stop - next);
      if (header == NULL)
        {
          header = g_steal_pointer (&cells);
          if (!read_header (header, path, error))
            return FALSE;
        }
      else
        read_cells (history, header, cells, line - 1, time);
    }
  return TRUE;
}
