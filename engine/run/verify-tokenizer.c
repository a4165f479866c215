/* SPDX-License-Identifier: Apache-2.0 */
/* verify tokenizer: ids and texts of stored rows against this engine's tokenizer. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-scan.h"
#include "engine/run/verify.h"
#include "engine/text/text-file.h"
#include "engine/text/tokenizer.h"

#define MOST_TOLD 20 /* rows that differ, one line each */

typedef struct
{
  GString *text, *decoded;
  GArray *ids, *added; /* gint32 */
  gboolean has_text, has_ids, has_added, has_decoded;
} Row;

typedef struct
{
  PlumbTokenizer *tokenizer;
  gboolean quiet;
  guint rows, failed, told;
  guint ids, added, decoded; /* compared */
} Check;

static void
row_init (Row *row)
{
  *row = (Row){ g_string_new (NULL), g_string_new (NULL), g_array_new (FALSE, FALSE, sizeof (gint32)),
                g_array_new (FALSE, FALSE, sizeof (gint32)) };
}

static void
row_clear (Row *row)
{
  g_string_free (row->text, TRUE);
  g_string_free (row->decoded, TRUE);
  g_array_unref (row->ids);
  g_array_unref (row->added);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Row, row_clear)

static gboolean
read_ids (PlumbJsonScan *scan, GArray *ids)
{
  if (!plumb_json_enter_array (scan))
    return FALSE;
  while (plumb_json_next_element (scan))
    {
      gint64 value = 0;
      plumb_json_get_integer (scan, &value);
      gint32 id = (gint32) CLAMP (value, -1, G_MAXINT32);
      g_array_append_val (ids, id);
    }
  return scan->message == NULL;
}

static void
read_row (PlumbJsonScan *scan, Row *row)
{
  g_autoptr (GString) key = g_string_new (NULL);
  if (!plumb_json_enter_object (scan))
    return;
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "text"))
      row->has_text = plumb_json_get_string (scan, row->text);
    else if (g_str_equal (key->str, "ids"))
      row->has_ids = read_ids (scan, row->ids);
    else if (g_str_equal (key->str, "ids_added"))
      row->has_added = read_ids (scan, row->added);
    else if (g_str_equal (key->str, "decoded"))
      row->has_decoded = plumb_json_get_string (scan, row->decoded);
    else
      plumb_json_skip (scan);
}

static void
tell (Check *c, const char *format, ...) G_GNUC_PRINTF (2, 3);

static void
tell (Check *c, const char *format, ...)
{
  va_list arguments;
  c->failed++;
  if (c->told++ >= MOST_TOLD)
    return;
  va_start (arguments, format);
  g_autofree char *what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_print ("row %-6u %s  FAILED\n", c->rows, what);
}

static gboolean
compare_ids (Check *c, const char *key, const GArray *expected, guint from, const GArray *ids)
{
  guint n = expected->len - from;
  for (guint i = 0; i < MAX (n, ids->len); i++)
    {
      gint32 want = i < n ? g_array_index (expected, gint32, from + i) : -1;
      gint32 have = i < ids->len ? g_array_index (ids, gint32, i) : -1;
      if (want == have)
        continue;
      tell (c, "%s: token %u is %d, expected %d", key, i, have, want);
      return FALSE;
    }
  return TRUE;
}

/* `ids` are without special tokens; where they begin with BOS, it was put in front. */
static void
check_ids (Check *c, const Row *row)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GError) error = NULL;
  guint from = row->ids->len > 0 && g_array_index (row->ids, gint32, 0) == plumb_tokenizer_bos (c->tokenizer);
  c->ids++;
  if (!plumb_tokenizer_encode_plain (c->tokenizer, row->text->str, (gssize) row->text->len, ids, &error))
    tell (c, "ids: %s", error->message);
  else
    compare_ids (c, "ids", row->ids, from, ids);
}

static void
check_added (Check *c, const Row *row)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GError) error = NULL;
  c->added++;
  if (!plumb_tokenizer_encode (c->tokenizer, row->text->str, (gssize) row->text->len, FALSE, ids, &error))
    tell (c, "ids_added: %s", error->message);
  else
    compare_ids (c, "ids_added", row->added, 0, ids);
}

static gboolean
same_text (const char *a, gsize n_a, const GString *b)
{
  if (n_a == b->len && memcmp (a, b->str, n_a) == 0)
    return TRUE;
  /* Tokenizers that normalize give the composed spelling back. */
  g_autofree char *x = g_utf8_normalize (a, (gssize) n_a, G_NORMALIZE_NFC);
  g_autofree char *y = g_utf8_normalize (b->str, (gssize) b->len, G_NORMALIZE_NFC);
  return g_strcmp0 (x, y) == 0;
}

static void
check_text (Check *c, const Row *row)
{
  const GString *expected = row->has_decoded ? row->decoded : row->text;
  g_autoptr (GError) error = NULL;
  gsize length;
  guint from = row->ids->len > 0 && g_array_index (row->ids, gint32, 0) == plumb_tokenizer_bos (c->tokenizer);
  if (!row->has_decoded && plumb_tokenizer_rewrites (c->tokenizer))
    return;
  c->decoded++;
  g_autofree char *text = plumb_tokenizer_decode_full (c->tokenizer, (gint32 *) (void *) row->ids->data + from,
                                                       row->ids->len - from, FALSE, &length, &error);
  if (!text)
    tell (c, "text: %s", error->message);
  else if (row->has_decoded ? length != expected->len || memcmp (text, expected->str, length) != 0
                            : !same_text (text, length, expected))
    tell (c, "text: the ids decode to another text: %.60s", text);
}

/* One row; `name` and `line` (0: not known) tell where it stands. */
static gboolean
check_row (Check *c, const Row *row, const char *name, guint line, GError **error)
{
  guint failed = c->failed;
  c->rows++;
  if (!row->has_text || !row->has_ids)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: row %u (line %u) has no \"%s\"", name, c->rows,
                   line, row->has_text ? "ids" : "text");
      return FALSE;
    }
  check_ids (c, row);
  if (row->has_added)
    check_added (c, row);
  check_text (c, row);
  if (!c->quiet && c->failed == failed)
    g_print ("row %-6u %u ids  ok\n", c->rows, row->ids->len);
  return TRUE;
}

static gboolean
malformed (GError **error, const char *name, guint line, const PlumbJsonScan *scan)
{
  for (const char *at = scan->data; at < scan->data + scan->at; at++)
    line += *at == '\n';
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: line %u: %s", name, line, scan->message);
  return FALSE;
}

static gboolean
check_array (Check *c, const char *name, PlumbJsonScan *scan, GError **error)
{
  plumb_json_enter_array (scan);
  while (plumb_json_next_element (scan))
    {
      g_auto (Row) row;
      row_init (&row);
      read_row (scan, &row);
      if (scan->message == NULL && !check_row (c, &row, name, 0, error))
        return FALSE;
    }
  return plumb_json_finish (scan) || malformed (error, name, 1, scan);
}

static gboolean
check_line (Check *c, const char *name, guint line, const char *start, gsize length, GError **error)
{
  g_auto (Row) row;
  PlumbJsonScan scan;
  row_init (&row);
  plumb_json_scan_init (&scan, start, length);
  if (plumb_json_peek (&scan) == PLUMB_JSON_NOTHING && scan.next == scan.end)
    return TRUE;
  read_row (&scan, &row);
  if (!plumb_json_finish (&scan))
    return malformed (error, name, line, &scan);
  return check_row (c, &row, name, line, error);
}

static gboolean
check_lines (Check *c, const char *name, const char *start, gsize length, GError **error)
{
  const char *end = start + length;
  for (guint line = 1; start < end; line++)
    {
      const char *stop = memchr (start, '\n', (size_t) (end - start));
      if (!stop)
        stop = end;
      if (!check_line (c, name, line, start, (gsize) (stop - start), error))
        return FALSE;
      start = stop + (stop < end);
    }
  return TRUE;
}

gboolean
plumb_verify_tokenizer (const char *dir, const char *file, gboolean quiet, gboolean *passed, GError **error)
{
  g_autoptr (PlumbTokenizer) tokenizer = plumb_tokenizer_load (dir, error);
  g_autoptr (GBytes) bytes = tokenizer ? plumb_text_file_read (file, error) : NULL;
  Check c = { tokenizer, quiet };
  PlumbJsonScan scan;
  if (!bytes)
    return FALSE;
  plumb_json_scan_init (&scan, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  if (!(plumb_json_peek (&scan) == PLUMB_JSON_ARRAY
            ? check_array (&c, file, &scan, error)
            : check_lines (&c, file, scan.data, g_bytes_get_size (bytes), error)))
    return FALSE;
  if (c.told > MOST_TOLD)
    g_print ("and %u more\n", c.told - MOST_TOLD);
  g_print ("compared %u rows: %u ids, %u ids with added tokens, %u texts; %u failed\n", c.rows, c.ids, c.added,
           c.decoded, c.failed);
  *passed = c.rows > 0 && c.failed == 0;
  return TRUE;
}
