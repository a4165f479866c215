/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine score over real files. */
#include "config.h"

#include <string.h>

#include "tests/engine/harness.h"

/* The lines of the last call as objects; keep the parsers. */
static GPtrArray *
lines_of (Engine *engine)
{
  GPtrArray *parsers = g_ptr_array_new_with_free_func (g_object_unref);
  g_auto (GStrv) lines = g_strsplit (engine->out, "\n", -1);

  for (gsize i = 0; lines[i] != NULL && *lines[i] != '\0'; i++)
    {
      JsonParser *parser = json_parser_new ();

      g_assert_true (json_parser_load_from_data (parser, lines[i], -1, NULL));
      g_ptr_array_add (parsers, parser);
    }
  return parsers;
}

static JsonObject *
row_of (GPtrArray *parsers, guint i)
{
  return json_node_get_object (json_parser_get_root (g_ptr_array_index (parsers, i)));
}

static void
test_rows (Engine *engine, gconstpointer data)
{
  g_autoptr (GPtrArray) lines = NULL;
  JsonObject *row;

  engine_write (engine, "s.spec",
                "[reward]\nfunctions = number:2, regex\n[reward regex]\npattern = boxed\n");
  engine_write (engine, "rows.jsonl",
                "{\"prompt\": \"p\", \"response\": \"\\\\boxed{\\\\frac{\\\\pi}{2}}\", \"answer\": \"\\\\pi/2\"}\n"
                "{\"prompt\": \"p\", \"response\": \"so 4\", \"answer\": \"4\"}\n"
                "{\"prompt\": \"p\", \"response\": \"\", \"answer\": \"4\"}\n");
  g_assert_cmpint (engine_call (engine, "score s.spec rows.jsonl --json"), ==, 0);
  lines = lines_of (engine);
  g_assert_cmpuint (lines->len, ==, 3);
  row = row_of (lines, 0);
  g_assert_cmpint (json_object_get_int_member (row, "row"), ==, 1);
  g_assert_cmpfloat (json_object_get_double_member (row, "reward"), ==, 3);
  g_assert_cmpfloat (
      json_object_get_double_member (json_object_get_object_member (row, "parts"), "number"), ==, 1);
  g_assert_false (json_object_get_boolean_member (row, "failed"));
  g_assert_cmpfloat (json_object_get_double_member (row_of (lines, 1), "reward"), ==, 2);
  g_assert_cmpfloat (json_object_get_double_member (row_of (lines, 2), "reward"), ==, 0);
  g_assert_cmpstr (engine->err, ==, "");
  /* The same file by the spec, and what a person sees. */
  g_assert_cmpint (engine_call (engine, "score s.spec --set data.train=rows.jsonl"), ==, 0);
  assert_has (engine->err, "3 rows, 3 scored");
}

/* A program that fails: no 0, but a failure with its reason. */
static void
test_failures (Engine *engine, gconstpointer data)
{
  g_autoptr (GPtrArray) lines = NULL;
  JsonObject *row;

  engine_write (engine, "judge.sh",
                "while read -r line; do case $line in *good*) echo 0.25;;"
                " *) echo '{\"failed\": \"no verdict\"}';; esac; done\n");
  engine_write (engine, "s.spec",
                "[reward]\nfunctions = program\n[reward program]\ncommand = /bin/sh judge.sh\n");
  engine_write (engine, "rows.jsonl",
                "{\"prompt\": \"p\", \"response\": \"good\"}\n{\"prompt\": \"p\", \"response\": \"bad\"}\n");
  g_assert_cmpint (engine_call (engine, "score s.spec rows.jsonl"), ==, 0);
  lines = lines_of (engine);
  g_assert_cmpuint (lines->len, ==, 2);
  g_assert_cmpfloat (json_object_get_double_member (row_of (lines, 0), "reward"), ==, 0.25);
  row = row_of (lines, 1);
  g_assert_true (json_object_get_boolean_member (row, "failed"));
  g_assert_true (json_object_get_null_member (row, "reward"));
  g_assert_cmpstr (json_object_get_string_member (row, "reason"), ==, "no verdict");
  assert_has (engine->err, "1 failed: no verdict");
}

static void
test_refused (Engine *engine, gconstpointer data)
{
  engine_write (engine, "rows.jsonl", "{\"prompt\": \"p\", \"response\": \"r\"}\n");
  engine_write (engine, "n.spec", "[reward]\nfunctions = number\n");
  engine_write (engine, "m.spec", "[reward]\nfunctions = model\n[model]\nreward = nowhere\n");
  g_assert_cmpint (engine_call (engine, "score n.spec rows.jsonl"), ==, 3);
  assert_has (engine->err, "answer");
  g_assert_cmpint (engine_call (engine, "score n.spec"), ==, 3);
  assert_has (engine->err, "data.train");
  g_assert_cmpint (engine_call (engine, "score m.spec rows.jsonl"), ==, 3);
  assert_has (engine->err, "model");
  g_assert_cmpint (engine_call (engine, "score"), ==, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/score/rows", test_rows);
  ENGINE_TEST ("/score/failures", test_failures);
  ENGINE_TEST ("/score/refused", test_refused);
  return g_test_run ();
}
