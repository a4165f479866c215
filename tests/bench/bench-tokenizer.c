/* SPDX-License-Identifier: Apache-2.0 */
/* Speed of encoding and decoding on one thread: bench-tokenizer DIR ROWS.jsonl [KEY...]. The text of each row is
 * what its keys hold (question and answer by default), encoded row by row. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/json-scan.h"
#include "engine/text/text-file.h"
#include "engine/text/tokenizer.h"

#define ROUNDS 5

static GPtrArray *
read_rows (const char *path, const char *const *keys)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = plumb_text_file_read (path, &error);
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) value = g_string_new (NULL);
  GPtrArray *rows = g_ptr_array_new_with_free_func (g_free);
  if (!bytes)
    g_error ("%s", error->message);
  const char *next = g_bytes_get_data (bytes, NULL), *end = next + g_bytes_get_size (bytes);
  while (next < end)
    {
      const char *stop = memchr (next, '\n', (size_t) (end - next));
      GString *text = g_string_new (NULL);
      PlumbJsonScan scan;
      stop = stop ? stop : end;
      plumb_json_scan_init (&scan, next, (gsize) (stop - next));
      plumb_json_enter_object (&scan);
      while (plumb_json_next_member (&scan, key))
        if (!g_strv_contains (keys, key->str))
          plumb_json_skip (&scan);
        else if (plumb_json_get_string (&scan, value))
          g_string_append_printf (text, "%s%s", text->len > 0 ? "\n" : "", value->str);
      g_ptr_array_add (rows, g_string_free (text, FALSE));
      next = stop + 1;
    }
  return rows;
}

int
main (int argc, char **argv)
{
  static const char *const usual[] = { "question", "answer", NULL };
  g_autoptr (GError) error = NULL;
  if (argc < 3)
    g_error ("usage: bench-tokenizer DIR ROWS.jsonl [KEY...]");
  gint64 start = g_get_monotonic_time ();
  g_autoptr (PlumbTokenizer) tokenizer = plumb_tokenizer_load (argv[1], &error);
  if (!tokenizer)
    g_error ("%s", error->message);
  double loading = (double) (g_get_monotonic_time () - start) / 1e6;
  g_autoptr (GPtrArray) rows = read_rows (argv[2], argc > 3 ? (const char *const *) argv + 3 : usual);
  gsize n_bytes = 0, n_ids = 0, length;
  for (guint i = 0; i < rows->len; i++)
    n_bytes += strlen (g_ptr_array_index (rows, i));
  double encoding = G_MAXDOUBLE, decoding = G_MAXDOUBLE;
  for (int round = 0; round < ROUNDS; round++)
    {
      double spent = 0, spent_back = 0;
      n_ids = 0;
      for (guint i = 0; i < rows->len; i++)
        {
          g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
          start = g_get_monotonic_time ();
          if (!plumb_tokenizer_encode (tokenizer, g_ptr_array_index (rows, i), -1, FALSE, ids, &error))
            g_error ("%s", error->message);
          gint64 middle = g_get_monotonic_time ();
          g_autofree char *text = plumb_tokenizer_decode_full (tokenizer, (gint32 *) (void *) ids->data, ids->len,
                                                               FALSE, &length, NULL);
          spent += (double) (middle - start) / 1e6;
          spent_back += (double) (g_get_monotonic_time () - middle) / 1e6;
          n_ids += ids->len;
        }
      encoding = MIN (encoding, spent);
      decoding = MIN (decoding, spent_back);
    }
  g_print ("%u rows, %.2f MB, %" G_GSIZE_FORMAT " ids; loading %.2f s\n", rows->len, (double) n_bytes / 1e6, n_ids,
           loading);
  g_print ("encoding %.1f MB/s, %.2f million ids/s; decoding %.2f million ids/s\n", (double) n_bytes / 1e6 / encoding,
           (double) n_ids / 1e6 / encoding, (double) n_ids / 1e6 / decoding);
  return 0;
}
