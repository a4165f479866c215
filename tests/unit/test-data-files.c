/* SPDX-License-Identifier: Apache-2.0 */
/* Files of rows in every form, and what may be wrong with them. */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <lz4.h>
#include <zstd.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/text/data-index.h"
#include "engine/text/data-parquet-private.h"
#include "tests/unit/data-fixture.h"
#include "tests/unit/shared.h"

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture_open (fixture, 4096);
  fixture->options.keys.prompts_only = TRUE;
}

static PlumbDataSet *
open_file (Fixture *fixture, const char *name, const char *data, gssize length)
{
  g_autofree char *path = write_data (fixture, name, data, length);
  g_autoptr (GError) error = NULL;
  PlumbDataSet *set = open_paths (fixture, path, &error);

  g_assert_no_error (error);
  return set;
}

static void
assert_prompt (PlumbDataSet *set, gsize index, const char *prompt, guint line)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataRow) row = plumb_data_set_get (set, index, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (row->prompt, ==, prompt);
  g_assert_cmpuint (row->line, ==, line);
}

static void
assert_fault (Fixture *fixture, const char *path, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataSet) set = open_paths (fixture, path, &error);

  g_assert_null (set);
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  if (strstr (error->message, message) == NULL || strstr (error->message, path) == NULL)
    g_error ("\"%s\" is not in \"%s\"", message, error->message);
}

static void
test_csv (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbDataSet) set = open_file (fixture, "a.csv",
                                            "\xef\xbb\xbfprompt,answer,\"a note\"\r\n"
                                            "plain,1,\r\n"
                                            "\"with, comma\",2,x\r\n"
                                            "\"two\r\nlines and \"\"quotes\"\"\",3,\r\n"
                                            "\r\n"
                                            "5\" pipe,4,\r\n"
                                            "short,5\r\n"
                                            "\"bad\"x,6,\r\n"
                                            ",7,empty prompt\r\n"
                                            "last,8,\"\"",
                                            -1);
  g_autoptr (PlumbDataRow) row = plumb_data_set_get (set, 2, NULL);

  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 5);
  assert_prompt (set, 0, "plain", 2);
  assert_prompt (set, 1, "with, comma", 3);
  assert_prompt (set, 2, "two\r\nlines and \"quotes\"", 4);
  assert_prompt (set, 3, "5\" pipe", 7);
  assert_prompt (set, 4, "last", 11);
  g_assert_cmpstr (row->answer, ==, "3");
  g_assert_cmpuint (fixture->reports->len, ==, 3);
  assert_report (fixture, 0, 8, "2 cells and the first row names 3");
  assert_report (fixture, 1, 9, "follows a closing quote");
  assert_report (fixture, 2, 10, "prompt is null");
}

static void
test_csv_faults (Fixture *fixture, gconstpointer data)
{
  g_autofree char *twice = write_data (fixture, "twice.csv", "a,a\n1,2\n", -1);
  g_autofree char *open = write_data (fixture, "open.csv", "prompt\n\"never closed\nmore\n", -1);
  g_autofree char *empty = write_data (fixture, "empty.csv", "", -1);
  g_autofree char *only = write_data (fixture, "only.csv", "prompt,answer\n", -1);
  g_autofree char *keys = write_data (fixture, "keys.csv", "promt,x\na,b\n", -1);
  g_autofree char *bytes = write_data (fixture, "bytes.csv", "prompt\nlatin \xe9\n", -1);
  g_autoptr (PlumbDataSet) tabs = NULL;

  assert_fault (fixture, twice, "same name");
  assert_fault (fixture, open, "quote");
  assert_fault (fixture, empty, "no rows");
  assert_fault (fixture, only, "no rows");
  assert_fault (fixture, keys, "set data.prompt_key = promt?");
  assert_fault (fixture, bytes, "UTF-8");
  tabs = open_file (fixture, "a.tsv", "prompt\tanswer\na, b\t1\n", -1);
  assert_prompt (tabs, 0, "a, b", 2);
}

static void
test_json (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbDataSet) set = open_file (fixture, "a.json",
                                            "[\n"
                                            "  {\"prompt\": \"a ] , [ \\\" {\"},\n"
                                            "  {\"prompt\": \"b\",\n   \"meta\": [1, {\"x\": []}]\n  } ,\n"
                                            "  17,\n"
                                            "  {\"prompt\": \"c\"}\n"
                                            "]\n",
                                            -1);
  g_autofree char *cut = write_data (fixture, "cut.json", "[{\"prompt\": \"a\"}, {\"prom", -1);
  g_autofree char *junk = write_data (fixture, "junk.json", "[{\"prompt\": \"a\"}] x", -1);
  g_autofree char *none = write_data (fixture, "none.json", "[ ]", -1);
  g_autoptr (PlumbDataSet) lines = NULL;

  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 3);
  assert_prompt (set, 0, "a ] , [ \" {", 2);
  assert_prompt (set, 1, "b", 3);
  assert_prompt (set, 2, "c", 7);
  assert_report (fixture, 0, 6, "a number, not an object");
  assert_fault (fixture, cut, "incomplete");
  assert_fault (fixture, junk, "follows");
  assert_fault (fixture, none, "no rows");
  lines = open_file (fixture, "lines.json", "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n", -1);
  g_assert_cmpuint (plumb_data_set_n_rows (lines), ==, 2);
}

static char *
many_rows (gsize n)
{
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < n; i++)
    g_string_append_printf (text, "{\"prompt\": \"row %" G_GSIZE_FORMAT "\"}\n", i);
  return g_string_free (text, FALSE);
}

static GByteArray *
gzip (const char *text)
{
  g_autoptr (GConverter) zlib = G_CONVERTER (g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, 6));
  GByteArray *packed = g_byte_array_new ();
  gsize n = strlen (text), read, written;

  g_byte_array_set_size (packed, n + 1024);
  g_assert_cmpint (g_converter_convert (zlib, text, n, packed->data, packed->len, G_CONVERTER_INPUT_AT_END, &read,
                                        &written, NULL),
                   ==, G_CONVERTER_FINISHED);
  g_byte_array_set_size (packed, written);
  return packed;
}

/* Packed files, also ones of several parts; cut ones are told. */
static void
test_packed (Fixture *fixture, gconstpointer data)
{
  g_autofree char *text = many_rows (200000); /* more than a block, and than an index holds in memory */
  g_autoptr (GByteArray) one = gzip (text), two = gzip ("{\"prompt\": \"the end\"}\n");
  gsize room = ZSTD_compressBound (strlen (text)), n;
  g_autofree char *zstd = g_malloc (room), *path = NULL;
  g_autoptr (PlumbDataSet) a = NULL, b = NULL;

  g_byte_array_append (one, two->data, two->len);
  a = open_file (fixture, "a.jsonl.gz", (char *)one->data, one->len);
  g_assert_cmpuint (plumb_data_set_n_rows (a), ==, 200001);
  assert_prompt (a, 123456, "row 123456", 123457);
  assert_prompt (a, 200000, "the end", 200001);
  g_assert_cmpuint (plumb_data_set_counts (a)->unchecked, ==, 150001);
  path = write_data (fixture, "cut.jsonl.gz", (char *)one->data, one->len / 2);
  assert_fault (fixture, path, "cannot unpack it");
  n = ZSTD_compress (zstd, room, text, strlen (text), 3);
  b = open_file (fixture, "b.jsonl.zst", zstd, n);
  g_assert_cmpuint (plumb_data_set_n_rows (b), ==, 200000);
  assert_prompt (b, 199999, "row 199999", 200000);
  g_free (path);
  path = write_data (fixture, "cut.jsonl.zst", zstd, n / 2);
  assert_fault (fixture, path, "cut short");
  g_free (path);
  path = write_data (fixture, "none.jsonl.zst", "this is not packed", -1);
  assert_fault (fixture, path, "cannot unpack it");
}

/* Rows that are looked at late are passed over when they are of no use, and a cursor comes back to the same place. */
static void
test_late_rows (Fixture *fixture, gconstpointer data)
{
  g_autofree char *start = many_rows (50000);
  g_autofree char *filler = g_strnfill (5000, 'x');
  g_autofree char *text = g_strconcat (start, "{\"prompt\": \"late\"}\n{\"prompt\": \"", filler,
                                       "\"}\n{\"prompt\": \"last\"}\n", NULL);
  g_autoptr (PlumbDataSet) set = open_file (fixture, "a.jsonl", text, -1);
  g_autoptr (PlumbDataCursor) cursor = plumb_data_cursor_new (set), again = plumb_data_cursor_new (set);
  g_autoptr (GPtrArray) late = NULL, none = NULL;
  g_autofree char *kinds = NULL;

  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 50003);
  g_assert_true (plumb_data_cursor_seek (cursor, 0, 50000));
  g_assert_cmpuint (plumb_data_cursor_next (cursor), ==, 50000);
  assert_prompt (set, 50000, "late", 50001);
  g_assert_cmpuint (plumb_data_cursor_next (cursor), ==, 50002);
  g_assert_cmpuint (plumb_data_set_counts (set)->dropped, ==, 1);
  late = plumb_data_set_take_late (set);
  g_assert_cmpuint (late->len, ==, 1);
  g_assert_cmpuint (((PlumbProblem *)g_ptr_array_index (late, 0))->line, ==, 50002);
  g_assert_nonnull (strstr (((PlumbProblem *)g_ptr_array_index (late, 0))->message, "longer than"));
  assert_prompt (set, 50002, "last", 50003);
  g_assert_true (plumb_data_cursor_seek (again, 0, 50001));
  g_assert_cmpuint (plumb_data_cursor_next (again), ==, 50002);
  g_assert_cmpuint (plumb_data_cursor_position (again), ==, 50003);
  /* A second time the row is passed over, and not told again. */
  g_assert_cmpuint (plumb_data_set_passed_over (set), ==, 2);
  none = plumb_data_set_take_late (set);
  g_assert_cmpuint (none->len, ==, 0);
  kinds = plumb_data_set_describe_late (set);
  g_assert_true (g_str_has_prefix (kinds, "1 x the row is longer"));
}

/* A file that is cut while it is in use is an error, with its name. */
static void
test_cut (Fixture *fixture, gconstpointer data)
{
  g_autofree char *text = many_rows (1000);
  g_autoptr (PlumbDataSet) set = open_file (fixture, "a.jsonl", text, -1);
  g_autofree char *path = g_build_filename (fixture->folder, "a.jsonl", NULL);
  g_autoptr (GError) cut = NULL, changed = NULL;

  g_assert_cmpint (truncate (path, 100), ==, 0);
  assert_prompt (set, 0, "row 0", 1);
  g_assert_null (plumb_data_set_get (set, 999, &cut));
  g_assert_error (cut, PLUMB_ERROR, PLUMB_ERROR_FAILED);
  g_assert_nonnull (strstr (cut->message, "a.jsonl: there is no byte "));
  g_assert_cmpint (truncate (path, strlen (text)), ==, 0); /* zeros instead */
  g_assert_null (plumb_data_set_get (set, 999, &changed));
  g_assert_nonnull (strstr (changed->message, "a.jsonl:1000: the row has changed"));
}

static void
test_no_files (Fixture *fixture, gconstpointer data)
{
  g_autofree char *pipe = g_build_filename (fixture->folder, "pipe.jsonl", NULL);
  g_autofree char *folder = g_build_filename (fixture->folder, "folder.jsonl", NULL);

  g_assert_cmpint (mkfifo (pipe, 0600), ==, 0);
  g_assert_cmpint (g_mkdir (folder, 0700), ==, 0);
  assert_fault (fixture, pipe, "not a file");
  assert_fault (fixture, folder, "no data file");
}

/* An index is taken from the cache as long as the file and the recipe are the same. */
static void
test_kept_index (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = write_data (fixture, "a.jsonl", "{}\n{}\n", -1);
  g_autofree char *notes = NULL;
  g_autoptr (PlumbDataFile) file = plumb_data_file_open (path, NULL), other = NULL;
  g_autoptr (PlumbDataIndex) index = plumb_data_index_new (), kept = NULL;
  PlumbRecordPlace place = { 0 };

  for (guint i = 0; i < 100000; i++)
    {
      place = (PlumbRecordPlace){ i * 3, 2, i + 1 };
      g_assert_true (plumb_data_index_append (index, &place, NULL));
    }
  g_assert_true (plumb_data_index_finish (index, NULL));
  plumb_data_index_keep (index, file, "recipe", "some notes");
  g_assert_null (plumb_data_index_find (file, "another", &notes));
  kept = plumb_data_index_find (file, "recipe", &notes);
  g_assert_nonnull (kept);
  g_assert_cmpstr (notes, ==, "some notes");
  g_assert_cmpuint (plumb_data_index_n_rows (kept), ==, 100000);
  g_assert_true (plumb_data_index_get (kept, 77777, &place, NULL));
  g_assert_cmpuint (place.offset, ==, 77777 * 3);
  g_assert_cmpuint (place.line, ==, 77778);
  g_assert_true (g_file_set_contents (path, "{}\n{}\n{}\n", -1, NULL));
  other = plumb_data_file_open (path, NULL);
  g_assert_null (plumb_data_index_find (other, "recipe", &notes));
}

/* A large file is opened from its index, with what was told of its rows. */
static void
test_large_file (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GString) text = g_string_new ("{\"prompt\": 7");
  g_autofree char *filler = g_strnfill (1000, 'x');
  g_autofree char *path = NULL, *index = g_build_filename (fixture->folder, "cache", "plumbline", "index", NULL);

  g_string_append_c (text, '\n');
  while (text->len < PLUMB_DATA_INDEX_WORTH)
    g_string_append_printf (text, "{\"prompt\": \"%s\"}\n", filler);
  path = write_data (fixture, "a.jsonl", text->str, text->len);
  for (int i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbDataSet) set = open_paths (fixture, path, &error);

      g_assert_no_error (error);
      g_assert_true (g_file_test (index, G_FILE_TEST_IS_DIR));
      g_assert_cmpuint (fixture->reports->len, ==, 1);
      assert_report (fixture, 0, 1, "incomplete");
      g_assert_cmpuint (plumb_data_set_counts (set)->broken, ==, 1);
      assert_prompt (set, plumb_data_set_n_rows (set) - 1, filler, plumb_data_set_n_rows (set) + 1);
    }
}

/* --- Parquet */

static char *
fixture_file (const char *name)
{
  const char *fixtures = g_getenv ("PLUMB_TEST_FIXTURES");

  return g_build_filename (fixtures != NULL ? fixtures : "tests/fixtures", "rows", name, NULL);
}

static char **
lines_of_parquet (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataFile) file = plumb_data_file_open (path, &error);
  g_autoptr (PlumbDataFile) lines = file != NULL ? plumb_parquet_to_lines (file, &error) : NULL;
  g_autofree char *text = NULL;

  g_assert_no_error (error);
  text = g_malloc0 (plumb_data_file_size (lines) + 1);
  g_assert_true (plumb_data_file_read (lines, 0, plumb_data_file_size (lines), text, NULL));
  return g_strsplit (text, "\n", -1);
}

static void
assert_rows (const char *name, const char *const *lines, const char *const *expected, const char *only)
{
  for (gsize j = 0; expected[j] != NULL && expected[j][0] != '\0'; j++)
    {
      g_autoptr (JsonParser) a = plumb_json_parse (name, lines[j], strlen (lines[j]), NULL);
      g_autoptr (JsonParser) b = plumb_json_parse ("rows", expected[j], strlen (expected[j]), NULL);
      JsonNode *left, *right;

      g_assert_nonnull (a);
      left = json_parser_get_root (a);
      right = json_parser_get_root (b);
      if (only != NULL)
        {
          left = json_object_get_member (json_node_get_object (left), only);
          right = json_object_get_member (json_node_get_object (right), only);
        }
      if (!json_node_equal (left, right))
        g_error ("%s, row %" G_GSIZE_FORMAT ":\n%s\n%s", name, j, lines[j], expected[j]);
    }
}

static char **
expected_rows (const char *name)
{
  g_autofree char *path = fixture_file (name), *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  return g_strsplit (text, "\n", -1);
}

/* Files of another writer, with nested lists and structs, in each encoding and packing, against the same rows. */
static void
test_parquet (Fixture *fixture, gconstpointer data)
{
  static const char *const names[]
      = { "none.parquet", "snappy.parquet", "gzip2.parquet", "zstd.parquet", "delta.parquet" };
  static const char *const kinds[]
      = { "kinds-lz4.parquet", "kinds-brotli2.parquet", "kinds-streams.parquet", "kinds-delta2.parquet" };
  g_auto (GStrv) rows = expected_rows ("rows.jsonl"), kind_rows = expected_rows ("kinds.jsonl");
  g_autofree char *int96 = fixture_file ("kinds-int96.parquet");
  g_auto (GStrv) ancient = lines_of_parquet (int96);

  for (gsize i = 0; i < G_N_ELEMENTS (names) + G_N_ELEMENTS (kinds); i++)
    {
      gboolean kind = i >= G_N_ELEMENTS (names);
      const char *name = kind ? kinds[i - G_N_ELEMENTS (names)] : names[i];
      g_autofree char *path = fixture_file (name);
      g_auto (GStrv) lines = lines_of_parquet (path);
      char **expected = kind ? kind_rows : rows;

      g_assert_cmpuint (g_strv_length (lines), ==, g_strv_length (expected));
      assert_rows (name, (gpointer)lines, (gpointer)expected, NULL);
    }
  g_assert_cmpuint (g_strv_length (ancient), ==, g_strv_length (kind_rows));
  assert_rows ("kinds-int96.parquet", (gpointer)ancient, (gpointer)kind_rows, "nano");
}

/* Bytes that are no text fault a row where they are asked for, and only there. */
static void
test_parquet_bytes (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = fixture_file ("bytes.parquet");
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (GError) error = NULL;

  fixture->options.keys.prompt = g_strdup ("prompt");
  fixture->options.keys.answer = g_strdup ("answer");
  set = open_paths (fixture, path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_data_set_counts (set)->rows, ==, 16);
  g_assert_cmpuint (plumb_data_set_counts (set)->broken, ==, 4);
  assert_report (fixture, 0, 1, "answer: its 10 bytes are no valid UTF-8 text");
  assert_report (fixture, 3, 16, "answer");
}

static void
append_frame (GByteArray *packed, const char *text, gsize length)
{
  guint8 block[512], sizes[8] = { 0 };
  int n = LZ4_compress_default (text, (char *)block, (int)length, sizeof block);

  g_assert_cmpint (n, >, 0);
  sizes[2] = length >> 8;
  sizes[3] = length & 255;
  sizes[6] = n >> 8;
  sizes[7] = n & 255;
  g_byte_array_append (packed, sizes, sizeof sizes);
  g_byte_array_append (packed, block, n);
}

/* LZ4 as Hadoop frames it, in two blocks, and without frames; too much and too little is refused. */
static void
test_parquet_frames (Fixture *fixture, gconstpointer data)
{
  g_autofree char *text = g_strnfill (700, 'x');
  g_autoptr (GByteArray) packed = g_byte_array_new ();
  guint8 out[800], alone[512];
  int n = LZ4_compress_default (text, (char *)alone, 700, sizeof alone);

  append_frame (packed, text, 300);
  append_frame (packed, text, 400);
  g_assert_null (plumb_parquet_unpack (5, packed->data, packed->len, out, 700));
  g_assert_cmpmem (out, 700, text, 700);
  memset (out, 0, sizeof out);
  g_assert_null (plumb_parquet_unpack (5, alone, n, out, 700));
  g_assert_cmpmem (out, 700, text, 700);
  g_assert_nonnull (plumb_parquet_unpack (5, packed->data, packed->len - 1, out, 700));
  g_assert_nonnull (plumb_parquet_unpack (5, packed->data, packed->len, out, 699));
  g_assert_nonnull (plumb_parquet_unpack (5, packed->data, packed->len, out, 701));
  g_assert_nonnull (plumb_parquet_unpack (7, alone, n, out, 699));
  g_assert_nonnull (strstr (plumb_parquet_unpack (3, alone, n, out, 700), "LZO"));
}

static void
test_parquet_rows (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = fixture_file ("snappy.parquet");
  g_autofree char *wrong = write_data (fixture, "a.parquet", "PAR1 this is no Parquet file PAR1", -1);
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (GError) error = NULL;

  fixture->options.keys.need_answer = TRUE;
  set = open_paths (fixture, path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_data_set_counts (set)->rows + plumb_data_set_counts (set)->broken, ==, 40);
  assert_report (fixture, 0, 1, "prompt is empty");
  g_clear_pointer (&set, plumb_data_set_unref);
  fixture->options.keys.prompt = g_strdup ("pompt");
  assert_fault (fixture, path, "set data.prompt_key = prompt?");
  assert_fault (fixture, wrong, "no Parquet file");
}

/* Spoiled anywhere, a file is read or refused, never more. */
static void
test_parquet_spoiled (Fixture *fixture, gconstpointer data)
{
  static const char *const names[] = { "snappy.parquet",         "zstd.parquet",          "delta.parquet",
                                       "kinds-brotli2.parquet",  "kinds-int96.parquet",   "kinds-lz4.parquet",
                                       "kinds-streams.parquet",  "kinds-delta2.parquet",  "bytes.parquet" };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = fixture_file (names[i]), *bytes = NULL;
      gsize n;

      g_assert_true (g_file_get_contents (path, &bytes, &n, NULL));
      for (gsize at = 0; at < n; at += 7)
        {
          g_autofree char *copy = g_memdup2 (bytes, n);
          g_autofree char *spoiled = NULL;
          g_autoptr (PlumbDataFile) file = NULL, lines = NULL;
          g_autoptr (GError) error = NULL;

          copy[at] ^= 1 << at % 8;
          spoiled = write_data (fixture, "a.parquet", copy, at % 3 == 0 ? n - at / 2 : n);
          file = plumb_data_file_open (spoiled, NULL);
          lines = plumb_parquet_to_lines (file, &error);
          if (lines == NULL)
            g_assert_nonnull (error);
        }
    }
}

/* Pairs with every defect; each is told with its key. */
static void
test_broken_pairs (Fixture *fixture, gconstpointer data)
{
  static const struct
  {
    guint line;
    const char *message;
  } expected[] = { { 2, "rejected is null" },        { 3, "rejected is missing" }, { 4, "chosen equals rejected" },
                   { 5, "chosen is empty" },         { 6, "rejected is missing" }, { 7, "prompt is null" },
                   { 8, "chosen is an array" } };
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (PlumbDataRow) plain = NULL, margin = NULL;

  fixture->options.keys.prompts_only = FALSE;
  fixture->options.keys.need_pair = TRUE;
  set = open_file (fixture, "a.jsonl",
                   "{\"prompt\": \"p1\", \"chosen\": \"good\", \"rejected\": \"bad\"}\n"
                   "{\"prompt\": \"p2\", \"chosen\": \"good\", \"rejected\": null}\n"
                   "{\"prompt\": \"p3\", \"chosen\": \"good\"}\n"
                   "{\"prompt\": \"p4\", \"chosen\": \"same\", \"rejected\": \"same\"}\n"
                   "{\"prompt\": \"p5\", \"chosen\": \"\", \"rejected\": \"bad\"}\n"
                   "{\"prompt\": \"p6\", \"chosen\": \"good\", \"reject\": \"typo\"}\n"
                   "{\"prompt\": null, \"chosen\": \"good\", \"rejected\": \"bad\"}\n"
                   "{\"prompt\": \"p8\", \"chosen\": [\"a\", \"b\"], \"rejected\": \"bad\"}\n"
                   "{\"prompt\": \"p9\", \"chosen\": \"good\", \"rejected\": \"bad\", \"margin\": null}\n"
                   "{\"prompt\": \"p10\", \"chosen\": \"good\", \"rejected\": \"bad\", \"margin\": 0.5}\n",
                   -1);
  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 3);
  g_assert_cmpuint (plumb_data_set_counts (set)->broken, ==, 7);
  for (gsize i = 0; i < G_N_ELEMENTS (expected); i++)
    assert_report (fixture, i, expected[i].line, expected[i].message);
  g_assert_nonnull (strstr (((PlumbProblem *)g_ptr_array_index (fixture->reports, 4))->remedy, "reject"));
  plain = plumb_data_set_get (set, 1, NULL);
  margin = plumb_data_set_get (set, 2, NULL);
  g_assert_cmpfloat (plain->margin, ==, 0);
  g_assert_cmpfloat (margin->margin, ==, 0.5);
}

/* A line longer than any row is told by its size and passed over in little memory. */
static void
test_giant_line (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->folder, "a.jsonl", NULL);
  g_autofree char *block = g_strnfill (1 << 20, 'x');
  FILE *out = fopen (path, "w");
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (GError) error = NULL;

  fputs ("{\"prompt\": \"a\"}\n{\"prompt\": \"", out);
  for (int i = 0; i < 200; i++)
    fwrite (block, 1, 1 << 20, out);
  fputs ("\"}\n{\"prompt\": \"b\"}\n", out);
  fclose (out);
  set = open_paths (fixture, path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 2);
  assert_prompt (set, 1, "b", 3);
  assert_report (fixture, 0, 2, "the row has 209715214 bytes");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
  g_test_add ("/data-files/" name, Fixture, NULL, set_up, function, tear_down)
  ADD ("csv", test_csv);
  ADD ("csv-faults", test_csv_faults);
  ADD ("json", test_json);
  ADD ("packed", test_packed);
  ADD ("late-rows", test_late_rows);
  ADD ("cut", test_cut);
  ADD ("no-files", test_no_files);
  ADD ("kept-index", test_kept_index);
  ADD ("large-file", test_large_file);
  ADD ("parquet", test_parquet);
  ADD ("parquet-bytes", test_parquet_bytes);
  ADD ("parquet-frames", test_parquet_frames);
  ADD ("parquet-rows", test_parquet_rows);
  ADD ("parquet-spoiled", test_parquet_spoiled);
  ADD ("broken-pairs", test_broken_pairs);
  ADD ("giant-line", test_giant_line);
  return g_test_run ();
}
