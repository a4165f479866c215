/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/data-csv.h"

#define MOST_CELLS 4096

typedef struct
{
  GString *text;
  gboolean quoted;
} Cell;

static void
cell_free (gpointer data)
{
  Cell *cell = data;

  g_string_free (cell->text, TRUE);
  g_free (cell);
}

/* Reads a cell from `at` on and returns where it ends: at a separator or the end. */
static const char *
read_cell (const char *at, const char *end, char separator, Cell *cell, const char **wrong)
{
  const char *stop;

  cell->quoted = at < end && *at == '"';
  if (!cell->quoted)
    {
      stop = memchr (at, separator, end - at);
      stop = stop != NULL ? stop : end;
      g_string_append_len (cell->text, at, stop - at);
      return stop;
    }
  for (at++;; at = stop + 2)
    {
      stop = memchr (at, '"', end - at);
      if (stop == NULL)
        {
          *wrong = "a quote is not closed";
          return end;
        }
      g_string_append_len (cell->text, at, stop - at);
      if (stop + 1 == end || stop[1] != '"')
        break;
      g_string_append_c (cell->text, '"');
    }
  if (stop + 1 < end && stop[1] != separator)
    *wrong = "something follows a closing quote; double the quotes within a cell";
  return stop + 1;
}

static GPtrArray *
read_cells (const char *record, gsize length, char separator, const char **wrong)
{
  g_autoptr (GPtrArray) cells = g_ptr_array_new_with_free_func (cell_free);
  const char *at = record, *end = record + length;

  *wrong = NULL;
  for (;;)
    {
      Cell *cell = g_new0 (Cell, 1);

      cell->text = g_string_new (NULL);
      g_ptr_array_add (cells, cell);
      at = read_cell (at, end, separator, cell, wrong);
      if (*wrong == NULL && cells->len > MOST_CELLS)
        *wrong = "there are more than 4096 cells";
      if (*wrong != NULL)
        return NULL;
      if (at == end)
        return g_steal_pointer (&cells);
      at++;
    }
}

GPtrArray *
plumb_csv_cells (const char *record, gsize length, char separator, const char **wrong)
{
  g_autoptr (GPtrArray) cells = read_cells (record, length, separator, wrong);
  GPtrArray *texts;

  if (cells == NULL)
    return NULL;
  texts = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < cells->len; i++)
    g_ptr_array_add (texts, g_strdup (((Cell *)g_ptr_array_index (cells, i))->text->str));
  return texts;
}

void
plumb_json_append_text (GString *json, const char *text, gsize length)
{
  static const char hex[] = "0123456789abcdef";
  const char *start = text, *end = text + length;

  g_string_append_c (json, '"');
  for (; text < end; text++)
    {
      guchar c = *text;

      if (c >= 0x20 && c != '"' && c != '\\')
        continue;
      g_string_append_len (json, start, text - start);
      start = text + 1;
      if (c == '"' || c == '\\')
        {
          g_string_append_c (json, '\\');
          g_string_append_c (json, c);
          continue;
        }
      g_string_append (json, "\\u00");
      g_string_append_c (json, hex[c >> 4]);
      g_string_append_c (json, hex[c & 15]);
    }
  g_string_append_len (json, start, end - start);
  g_string_append_c (json, '"');
}

gboolean
plumb_csv_to_json (GPtrArray *columns,
                   const char *record,
                   gsize length,
                   char separator,
                   GString *json,
                   char **wrong)
{
  const char *fault;
  g_autoptr (GPtrArray) cells = read_cells (record, length, separator, &fault);

  if (cells == NULL || cells->len != columns->len)
    {
      *wrong = cells == NULL ? g_strdup (fault)
                             : g_strdup_printf ("the row has %u cells and the first row names %u columns", cells->len,
                                                columns->len);
      return FALSE;
    }
  for (guint i = 0; i < cells->len; i++)
    {
      const Cell *cell = g_ptr_array_index (cells, i);
      const char *name = g_ptr_array_index (columns, i);

      g_string_append_c (json, i > 0 ? ',' : '{');
      plumb_json_append_text (json, name, strlen (name));
      g_string_append_c (json, ':');
      if (cell->text->len == 0 && !cell->quoted)
        g_string_append (json, "null");
      else
        plumb_json_append_text (json, cell->text->str, cell->text->len);
    }
  g_string_append_c (json, '}');
  return TRUE;
}
