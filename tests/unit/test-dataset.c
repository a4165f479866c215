/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "tests/unit/data-fixture.h"
#include "tests/unit/shared.h"

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture_open (fixture, 256);
}

static PlumbDataSet *
open_text (Fixture *fixture, const char *name, const char *text)
{
  g_autofree char *path = write_data (fixture, name, text, -1);
  g_autoptr (GError) error = NULL;
  PlumbDataSet *set = open_paths (fixture, path, &error);

  g_assert_no_error (error);
  return set;
}

/* Only \n ends a row, whatever else Unicode calls a line end. */
static void
test_separators (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbDataSet) set
      = open_text (fixture, "a.jsonl",
                   "{\"prompt\": \"before\xe2\x80\xa8"
                   "after\", \"answer\": \"0\"}\n"
                   "{\"prompt\": \"nel\xc2\x85here\", \"answer\": \"1\"}\r\n"
                   "\n"
                   "{\"prompt\": \"nul\\u0000inside\", \"answer\": \"2\"}\n"
                   "{\"prompt\": \"\\ud83d\\ude00\", \"answer\": \"3\"}");
  const guint lengths[] = { 14, 9, 10, 4 };
  const guint lines[] = { 1, 2, 4, 5 };

  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 4);
  g_assert_cmpuint (fixture->reports->len, ==, 0);
  for (gsize i = 0; i < 4; i++)
    {
      g_autoptr (PlumbDataRow) row = row_of (set, i);

      g_assert_cmpuint (row->prompt_ids->len, ==, 1 + lengths[i]); /* a BOS and the bytes */
      g_assert_cmpuint (row->line, ==, lines[i]);
    }
}

static void
test_broken_rows (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbDataSet) set = open_text (fixture, "a.jsonl",
                                            "{\"prompt\": \"ok\"}\n"
                                            "{\"prompt\": \"lone \\ud83d surrogate\"}\n"
                                            "{\"prompt\": \"latin1 \xe9\"}\n"
                                            "{\"prompt\": \"raw tab\there\"}\n"
                                            "{\"prompt\": \"old\", \"prompt\": \"new\"}\n"
                                            "{\"prompt\": \"junk\"} junk\n"
                                            "{\"prompt\": \"comma\",}\n"
                                            "[1, 2]\n"
                                            "\"just a string\"\n"
                                            "{}\n"
                                            "{\"prompt\": null}\n"
                                            "{\"prompt\": \"\"}\n"
                                            "{\"promt\": \"x\"}\n"
                                            "{\"prompt\": [\"x\"]}\n"
                                            "{\"prompt\": \"last\"}\n"
                                            "{\"prompt\": \"cut in the mid");
  const struct
  {
    guint line;
    const char *message;
  } expected[] = {
    { 2, "surrogate" },
    { 3, "UTF-8 (at byte 19 of the line, 72 of the file)" },
    { 4, "control" },
    { 5, "twice" },
    { 6, "follows" },
    { 7, "key" },
    { 8, "an array, not an object" },
    { 9, "a string" },
    { 10, "missing" },
    { 11, "null" },
    { 12, "empty" },
    { 13, "missing" },
    { 14, "an array" },
    { 16, "incomplete" },
  };
  g_autoptr (PlumbDataRow) first = row_of (set, 0), second = row_of (set, 1);

  g_assert_cmpuint (fixture->reports->len, ==, G_N_ELEMENTS (expected));
  for (gsize i = 0; i < G_N_ELEMENTS (expected); i++)
    assert_report (fixture, i, expected[i].line, expected[i].message);
  g_assert_nonnull (
      strstr (((PlumbProblem *)g_ptr_array_index (fixture->reports, 11))->remedy, "promt"));
  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 2);
  g_assert_cmpuint (plumb_data_set_counts (set)->broken, ==, 14);
  g_assert_cmpstr (first->prompt, ==, "ok");
  g_assert_cmpstr (second->prompt, ==, "last");
}

/* Numbers are taken as they are spelled; what is no scalar is reported with its type. */
static void
test_answer_types (Fixture *fixture, gconstpointer data)
{
  static const char *const answers[]
      = { "42", "42", "42.0", "3b", "12345678901234567890", "0.1", "-7", "1e3", "true" };
  g_autoptr (PlumbDataSet) set = NULL;

  fixture->options.keys.prompt = g_strdup ("q");
  fixture->options.keys.need_answer = TRUE;
  set = open_text (fixture, "a.jsonl",
                   "{\"q\": \"a\", \"answer\": 42, \"spans\": [[2, 7, \"city\"]]}\n"
                   "{\"q\": \"b\", \"answer\": \"42\", \"spans\": []}\n"
                   "{\"q\": \"c\", \"answer\": 42.0, \"meta\": \"text\"}\n"
                   "{\"q\": \"d\", \"answer\": \"3b\"}\n"
                   "{\"q\": \"e\", \"answer\": 12345678901234567890}\n"
                   "{\"q\": \"f\", \"answer\": 0.1}\n"
                   "{\"q\": \"g\", \"answer\": -7, \"spans\": \"none\"}\n"
                   "{\"q\": \"h\", \"answer\": 1e3}\n"
                   "{\"q\": \"i\", \"answer\": true}\n"
                   "{\"q\": \"j\", \"answer\": [2, 3]}\n"
                   "{\"q\": \"k\", \"answer\": {\"value\": 5}}\n"
                   "{\"q\": \"l\", \"answer\": null}\n");
  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, G_N_ELEMENTS (answers));
  for (gsize i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      g_autoptr (PlumbDataRow) row = row_of (set, i);

      g_assert_cmpstr (row->answer, ==, answers[i]);
    }
  g_assert_cmpuint (fixture->reports->len, ==, 3);
  assert_report (fixture, 0, 10, "answer is an array");
  assert_report (fixture, 1, 11, "answer is an object");
  assert_report (fixture, 2, 12, "answer is null");
}

static void
test_wrong_keys (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GString) late = g_string_new (NULL);
  g_autofree char *path = write_data (fixture, "a.jsonl",
                                      "{\"question\": \"q0\", \"solution\": \"0\"}\n"
                                      "{\"question\": \"q1\", \"solution\": \"1\"}\n",
                                      -1);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataSet) guessed = NULL, unused = NULL;
  g_autoptr (PlumbDataRow) row = NULL;

  fixture->options.keys.prompt = g_strdup ("prompt");
  g_assert_null (open_paths (fixture, path, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_assert_nonnull (strstr (error->message, "no row has the key prompt"));
  g_assert_nonnull (strstr (error->message, "question, solution"));
  g_assert_nonnull (strstr (error->message, "data.prompt_key = question"));
  g_clear_error (&error);
  g_clear_pointer (&fixture->options.keys.prompt, g_free);
  fixture->options.keys.need_answer = TRUE;
  guessed = open_paths (fixture, path, &error);
  g_assert_no_error (error);
  row = row_of (guessed, 1);
  g_assert_cmpstr (row->prompt, ==, "q1");
  g_assert_cmpstr (row->answer, ==, "1");
  /* A key that is null for the first 300 rows. */
  for (int i = 0; i < 300; i++)
    g_string_append (late, "{\"prompt\": \"p\", \"answer\": 1, \"hint\": null}\n");
  g_string_append (late, "{\"prompt\": \"p\", \"answer\": 1, \"hint\": \"late\"}\n");
  unused = open_text (fixture, "b.jsonl", late->str);
  g_assert_cmpuint (plumb_data_set_n_rows (unused), ==, 301);
  g_assert_cmpuint (fixture->reports->len, ==, 0);
}

static void
test_nothing_usable (Fixture *fixture, gconstpointer data)
{
  const struct
  {
    const char *name, *text, *message;
  } cases[] = {
    { "empty.jsonl", "", "no rows" },  { "blank.jsonl", "\n \n\t\n", "no rows" },
    { "empty.txt", "", "no rows" },    { "bad.jsonl", "{\n[\n", "none of the 2 rows" },
    { "data.bin", "a,b\n", ".jsonl" }, { "bad.jsonl.gz", "this is not packed", "bad.jsonl.gz" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = write_data (fixture, cases[i].name, cases[i].text, -1);
      g_autoptr (GError) error = NULL;

      g_assert_null (open_paths (fixture, path, &error));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
      if (strstr (error->message, cases[i].message) == NULL)
        g_error ("%s: %s", cases[i].name, error->message);
      g_assert_nonnull (strstr (error->message, path));
    }
  {
    g_autoptr (GError) error = NULL;

    g_assert_null (open_paths (fixture, "/nowhere/x.jsonl", &error));
    g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  }
}

static void
test_overlong (Fixture *fixture, gconstpointer data)
{
  static const char text[] = "{\"prompt\": \"0123456789\"}\n{\"prompt\": \"ab\"}\n";
  g_autoptr (PlumbDataSet) dropped = NULL, left = NULL, right = NULL;
  g_autoptr (PlumbDataRow) row_left = NULL, row_right = NULL;

  fixture->options.max_prompt_length = 5;
  dropped = open_text (fixture, "a.jsonl", text);
  g_assert_cmpuint (plumb_data_set_n_rows (dropped), ==, 1);
  g_assert_cmpuint (plumb_data_set_counts (dropped)->dropped, ==, 1);
  fixture->options.on_overlong = 1;
  left = open_text (fixture, "a.jsonl", text);
  row_left = row_of (left, 0);
  g_assert_cmpstr (row_left->prompt, ==, "6789");
  g_assert_cmpint (g_array_index (row_left->prompt_ids, gint32, 0), ==, 256);
  g_assert_cmpuint (plumb_data_set_counts (left)->truncated, ==, 1);
  fixture->options.on_overlong = 2;
  right = open_text (fixture, "a.jsonl", text);
  row_right = row_of (right, 0);
  g_assert_cmpstr (row_right->prompt, ==, "0123");
}

/* A line of many megabytes costs no more than its reading; its neighbours are used. */
static void
test_huge_line (Fixture *fixture, gconstpointer data)
{
  g_autofree char *filler = g_strnfill (24 << 20, 'x');
  g_autofree char *text = g_strconcat ("{\"prompt\": \"a\"}\n{\"prompt\": \"", filler,
                                       "\"}\n{\"prompt\": \"b\"}\n", NULL);
  gint64 start = g_get_monotonic_time ();
  g_autoptr (PlumbDataSet) set = open_text (fixture, "a.jsonl", text);
  g_autoptr (PlumbDataSet) cut = NULL;

  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 2);
  g_assert_cmpuint (plumb_data_set_counts (set)->dropped, ==, 1);
  fixture->options.on_overlong = 2;
  cut = open_text (fixture, "a.jsonl", text);
  g_assert_cmpuint (plumb_data_set_n_rows (cut), ==, 3);
  g_test_message ("24 MB twice in %.2f s", (g_get_monotonic_time () - start) / 1e6);
}

static void
test_responses (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbDataSet) set = NULL, whole = NULL;
  g_autoptr (PlumbDataRow) row = NULL, paragraph = NULL;
  gsize n;

  fixture->options.keys.need_response = TRUE;
  fixture->options.prompt_template = "Q: {prompt}\nA:";
  set = open_text (fixture, "a.jsonl", "{\"prompt\": \"2+2\", \"completion\": \" 4\"}\n");
  row = row_of (set, 0);
  g_assert_cmpstr (row->prompt, ==, "Q: 2+2\nA:");
  g_assert_cmpstr (row->response, ==, " 4");
  g_assert_cmpuint (row->prompt_ids->len, ==, 10);
  g_assert_cmpuint (row->response_ids->len, ==, 3);
  g_assert_cmpint (g_array_index (row->response_ids, gint32, 0), ==, ' ');
  g_assert_cmpint (g_array_index (row->response_ids, gint32, 2), ==,
                   plumb_tokenizer_eos (fixture->tokenizer, &n)[0]);
  fixture->options.keys.need_response = FALSE;
  fixture->options.whole_text = TRUE;
  whole = open_text (fixture, "b.txt", "one\ntwo\n\n\nthree\n");
  g_assert_cmpuint (plumb_data_set_n_rows (whole), ==, 2);
  paragraph = row_of (whole, 0);
  g_assert_cmpstr (paragraph->prompt, ==, "");
  g_assert_cmpstr (paragraph->response, ==, "one\ntwo");
  g_assert_cmpuint (paragraph->prompt_ids->len, ==, 1);
}

static void
test_folder (Fixture *fixture, gconstpointer data)
{
  g_autofree char *folder = g_build_filename (fixture->folder, "rows", NULL);
  g_autofree char *a = NULL, *b = NULL, *c = NULL;
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (PlumbDataRow) first = NULL, last = NULL;
  g_autoptr (GError) error = NULL;

  g_mkdir (folder, 0755);
  b = write_data (fixture, "rows/b.jsonl", "{\"prompt\": \"second\"}\n", -1);
  a = write_data (fixture, "rows/a.txt", "first\nline\n", -1);
  c = write_data (fixture, "rows/SOURCE", "not data", -1);
  set = open_paths (fixture, folder, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 3);
  first = row_of (set, 0);
  last = row_of (set, 2);
  g_assert_cmpstr (first->prompt, ==, "first");
  g_assert_cmpstr (last->prompt, ==, "second");
  g_assert_cmpstr (last->file, ==, b);
}

static void
test_cursor (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (PlumbDataCursor) cursor = NULL, again = NULL, other = NULL;
  g_autoptr (GArray) order = g_array_new (FALSE, FALSE, sizeof (gsize));
  gsize seen[7] = { 0 }, differs = 0;

  fixture->options.shuffle = TRUE;
  set = open_text (fixture, "a.txt", "a\nb\nc\nd\ne\nf\ng\n");
  cursor = plumb_data_cursor_new (set);
  for (int i = 0; i < 21; i++)
    {
      gsize row = plumb_data_cursor_next (cursor);

      seen[row]++;
      g_assert_cmpuint (seen[row], ==, i / 7 + 1); /* each once an epoch */
      g_array_append_val (order, row);
    }
  for (int i = 0; i < 7; i++)
    differs += g_array_index (order, gsize, i) != g_array_index (order, gsize, 7 + i);
  g_assert_cmpuint (differs, >, 0);
  /* Saved after nine rows and taken up again. */
  again = plumb_data_cursor_new (set);
  for (int i = 0; i < 9; i++)
    plumb_data_cursor_next (again);
  other = plumb_data_cursor_new (set);
  g_assert_true (plumb_data_cursor_seek (other, plumb_data_cursor_epoch (again),
                                         plumb_data_cursor_position (again)));
  for (int i = 9; i < 21; i++)
    g_assert_cmpuint (plumb_data_cursor_next (other), ==, g_array_index (order, gsize, i));
  g_assert_false (plumb_data_cursor_seek (other, 0, 8));
}

static void
test_weights (Fixture *fixture, gconstpointer data)
{
  g_autofree char *a = write_data (fixture, "a.txt", "a0\na1\na2\na3\n", -1);
  g_autofree char *b = write_data (fixture, "b.txt", "b0\nb1\n", -1);
  g_autofree char *paths = g_strdup_printf ("%s:0.5,%s:2", a, b);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (PlumbDataCursor) cursor = NULL;
  gsize counts[6] = { 0 };

  fixture->options.shuffle = TRUE;
  set = open_paths (fixture, paths, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_data_set_epoch_rows (set), ==, 6);
  cursor = plumb_data_cursor_new (set);
  for (int i = 0; i < 60; i++)
    counts[plumb_data_cursor_next (cursor)]++;
  g_assert_cmpuint (counts[0] + counts[1] + counts[2] + counts[3], ==, 20);
  g_assert_cmpuint (counts[4], ==, 20);
  g_assert_cmpuint (counts[5], ==, 20);
  for (int i = 0; i < 4; i++)
    g_assert_cmpuint (counts[i], >, 0); /* not always the same half */
}

static void
test_arithmetic (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GHashTable) prompts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autofree char *first = NULL;

  for (PlumbDataPurpose purpose = PLUMB_DATA_TRAIN; purpose <= PLUMB_DATA_WARMUP; purpose++)
    {
      g_autoptr (PlumbDataSet) set = NULL;
      g_autoptr (GError) error = NULL;

      fixture->options.purpose = purpose;
      set = open_paths (fixture, "builtin:arithmetic", &error);
      g_assert_no_error (error);
      for (gsize i = 0; i < plumb_data_set_n_rows (set); i++)
        {
          g_autoptr (PlumbDataRow) row = row_of (set, i);
          int a, b;

          g_assert_cmpint (sscanf (row->prompt, "%2d+%2d=", &a, &b), ==, 2);
          g_assert_cmpint (a, >=, 10);
          g_assert_cmpint (b, >=, 10);
          g_assert_cmpint (atoi (row->answer), ==, a + b);
          g_assert_cmpstr (row->answer, ==, row->response);
          /* No problem serves two purposes. */
          g_assert_true (g_hash_table_add (prompts, g_strdup (row->prompt)));
        }
      if (purpose == PLUMB_DATA_EVAL)
        g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 500);
    }
  g_assert_cmpuint (g_hash_table_size (prompts), ==, 8100);
}

static void
test_gsm8k (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = shared_file ("rlvr/gsm8k/test.jsonl");
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataRow) row = NULL;

  if (path == NULL)
    return;
  fixture->options.max_length = 4096;
  fixture->options.keys.need_answer = TRUE;
  set = open_paths (fixture, path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_data_set_n_rows (set), ==, 1319);
  row = row_of (set, 0);
  g_assert_true (g_str_has_prefix (row->prompt, "Janet"));
  g_assert_true (g_str_has_suffix (row->answer, "#### 18"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
  g_test_add ("/dataset/" name, Fixture, NULL, set_up, function, tear_down)
  ADD ("separators", test_separators);
  ADD ("broken-rows", test_broken_rows);
  ADD ("answer-types", test_answer_types);
  ADD ("wrong-keys", test_wrong_keys);
  ADD ("nothing-usable", test_nothing_usable);
  ADD ("overlong", test_overlong);
  ADD ("huge-line", test_huge_line);
  ADD ("responses", test_responses);
  ADD ("folder", test_folder);
  ADD ("cursor", test_cursor);
  ADD ("weights", test_weights);
  ADD ("arithmetic", test_arithmetic);
  ADD ("gsm8k", test_gsm8k);
  return g_test_run ();
}
