/* SPDX-License-Identifier: Apache-2.0 */
/* The real program on its small sub-commands: what it prints, and its exit codes. */
#include "config.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/run-dir.h"
#include "engine/core/telemetry.h"
#include "tests/unit/temporary.h"

typedef struct
{
  char *folder;
  char *out, *err; /* of the last call */
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->folder = temporary_folder ();
  g_setenv ("XDG_STATE_HOME", fixture->folder, TRUE);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  remove_folder (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->out);
  g_free (fixture->err);
}

/* Runs the program with the arguments of one line, in the test's folder; `input` (or NULL) is its
 * standard input. Returns its exit code. */
static int
call (Fixture *fixture, const char *arguments, const char *input)
{
  g_autofree char *file = g_build_filename (fixture->folder, "input", NULL);
  g_autofree char *engine = g_shell_quote (g_getenv ("PLUMB_TEST_ENGINE"));
  g_autofree char *line = g_strdup_printf ("%s %s < input", engine, arguments);
  const char *argv[] = { "/bin/sh", "-c", line, NULL };
  g_autoptr (GError) error = NULL;
  int status;

  g_clear_pointer (&fixture->out, g_free);
  g_clear_pointer (&fixture->err, g_free);
  g_assert_true (g_file_set_contents (file, input != NULL ? input : "", -1, NULL));
  g_spawn_sync (fixture->folder, (char **)argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &fixture->out,
                &fixture->err, &status, &error);
  g_assert_no_error (error);
  g_assert_true (WIFEXITED (status));
  return WEXITSTATUS (status);
}

static void
assert_has (const char *text, const char *part)
{
  if (strstr (text, part) == NULL)
    g_error ("\"%s\" is not in: %s", part, text);
}

static JsonObject *
parse (JsonParser *parser, const char *text)
{
  g_autoptr (GError) error = NULL;

  json_parser_load_from_data (parser, text, -1, &error);
  g_assert_no_error (error);
  return json_node_get_object (json_parser_get_root (parser));
}

static void
test_usage (Fixture *fixture, gconstpointer data)
{
  g_assert_cmpint (call (fixture, "", NULL), ==, 2);
  assert_has (fixture->err, "Usage");
  g_assert_cmpint (call (fixture, "--help", NULL), ==, 0);
  assert_has (fixture->out, "validate");
  g_assert_cmpint (call (fixture, "--version", NULL), ==, 0);
  g_assert_cmpint (call (fixture, "vaildate", NULL), ==, 2);
  assert_has (fixture->err, "did you mean validate");
  g_assert_cmpint (call (fixture, "validate", NULL), ==, 2);
  g_assert_cmpint (call (fixture, "validate --no-such-option x", NULL), ==, 2);
  g_assert_cmpint (call (fixture, "spec", NULL), ==, 2);
  g_assert_cmpint (call (fixture, "spec --preset none", NULL), ==, 2);
  assert_has (fixture->err, "arithmetic");
}

static void
test_spec (Fixture *fixture, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonArray *fields;

  g_assert_cmpint (call (fixture, "spec --fields --json", NULL), ==, 0);
  fields = json_object_get_array_member (parse (parser, fixture->out), "fields");
  g_assert_cmpuint (json_array_get_length (fields), >, 60);
  g_assert_cmpint (call (fixture, "spec --preset arithmetic > a.spec", NULL), ==, 0);
  g_assert_cmpint (call (fixture, "validate a.spec", NULL), ==, 0);
}

static void
test_validate (Fixture *fixture, gconstpointer data)
{
  g_autofree char *spec = g_build_filename (fixture->folder, "a.spec", NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonArray *problems;
  JsonObject *problem;

  g_assert_cmpint (call (fixture, "validate nowhere.spec", NULL), ==, 3);
  assert_has (fixture->err, "nowhere.spec");
  g_assert_true (g_file_set_contents (spec, "[rollout]\nsample = 4\nsamples = x\n", -1, NULL));
  g_assert_cmpint (call (fixture, "validate a.spec", NULL), ==, 3);
  assert_has (fixture->out, "a.spec:2: rollout.sample = 4");
  assert_has (fixture->out, "did you mean rollout.samples");
  assert_has (fixture->out, "a.spec:3: rollout.samples = x");
  g_assert_cmpint (call (fixture, "validate --json a.spec", NULL), ==, 3);
  problems = json_object_get_array_member (parse (parser, fixture->out), "problems");
  problem = json_array_get_object_element (problems, 0);
  g_assert_cmpstr (json_object_get_string_member (problem, "key"), ==, "rollout.sample");
  g_assert_cmpint (json_object_get_int_member (problem, "line"), ==, 2);
  g_assert_cmpstr (json_object_get_string_member (problem, "file"), ==, "a.spec");
  g_assert_nonnull (json_object_get_string_member (problem, "remedy"));
  g_assert_cmpint (call (fixture, "validate --set run.seed a.spec", NULL), ==, 2);
}

static void
test_telemetry (Fixture *fixture, gconstpointer data)
{
  g_autofree char *run = g_build_filename (fixture->folder, "run", NULL);
  g_autofree char *spec = g_build_filename (run, PLUMB_RUN_SPEC, NULL);
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_TELEMETRY, NULL);
  g_auto (GStrv) lines = NULL;
  PlumbTelemetry *telemetry;
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *row;

  g_assert_true (plumb_run_dir_create (run, NULL));
  g_assert_true (g_file_set_contents (spec, "[run]\n", -1, NULL));
  telemetry = plumb_telemetry_open (path, NULL, 0, NULL);
  plumb_telemetry_begin_attempt (telemetry, 0, NULL);
  plumb_telemetry_point (telemetry, "reward/mean", 1, 0.5);
  plumb_telemetry_point (telemetry, "reward/mean", 2, 0.0 / 0.0);
  plumb_telemetry_end_attempt (telemetry, PLUMB_OUTCOME_FINISHED, 0, 2, NULL, NULL);
  g_assert_true (plumb_telemetry_close (telemetry, NULL));

  g_assert_cmpint (call (fixture, "telemetry run --since 1 --follow", NULL), ==, 0);
  lines = g_strsplit (g_strchomp (fixture->out), "\n", -1);
  g_assert_cmpuint (g_strv_length (lines), ==, 5); /* store, two points, the end, the last number */
  assert_has (lines[0], "\"store\"");
  row = parse (parser, lines[1]);
  g_assert_cmpstr (json_object_get_string_member (row, "metric"), ==, "reward/mean");
  g_assert_cmpfloat (json_object_get_double_member (row, "value"), ==, 0.5);
  row = parse (parser, lines[2]);
  g_assert_cmpstr (json_object_get_string_member (row, "value"), ==, "nan");
  row = parse (parser, lines[3]);
  g_assert_cmpstr (json_object_get_string_member (row, "outcome"), ==, "finished");
  row = parse (parser, lines[4]);
  g_assert_cmpint (json_object_get_int_member (row, "last_seq"), ==, 5);

  g_assert_cmpint (call (fixture, "status run", NULL), ==, 0);
  assert_has (fixture->out, "Finished");
  g_assert_cmpint (call (fixture, "status run --json", NULL), ==, 0);
  row = parse (parser, fixture->out);
  g_assert_cmpstr (json_object_get_string_member (row, "state"), ==, "finished");
  g_assert_cmpint (call (fixture, "stop run", NULL), ==, 3);
  assert_has (fixture->err, "not running");
  g_assert_cmpint (call (fixture, "status nowhere", NULL), ==, 3);
}

static void
test_tokenize (Fixture *fixture, gconstpointer data)
{
  static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"
                             "\"\\\"\":3},\"merges\":[\"a b\"]}}";
  g_autofree char *path = g_build_filename (fixture->folder, "tokenizer.json", NULL);

  g_assert_true (g_file_set_contents (path, json, -1, NULL));
  g_assert_cmpint (
      call (fixture, "tokenize --model .", "{\"text\":\"ab\\\"b\"}\n{\"text\":\"\"}\n"), ==, 0);
  g_assert_cmpstr (fixture->out, ==, "{\"ids\":[2,3,1]}\n{\"ids\":[]}\n");
  g_assert_cmpint (call (fixture, "detokenize --model .", "{\"ids\":[2,3,1]}\n"), ==, 0);
  g_assert_cmpstr (fixture->out, ==, "{\"text\":\"ab\\\"b\"}\n");
  g_assert_cmpint (call (fixture, "detokenize --model .", "{\"ids\":[0]}\n{\"ids\":[9]}\n"), ==, 3);
  assert_has (fixture->err, "line 2");
  g_assert_cmpint (call (fixture, "tokenize --model .", "{\"text\":\"z\"}\n"), ==, 3);
  g_assert_cmpint (call (fixture, "tokenize --model .", "{\"text\":\n"), ==, 3);
  g_assert_cmpint (call (fixture, "tokenize --model nowhere", NULL), ==, 3);
  g_assert_cmpint (call (fixture, "tokenize", NULL), ==, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function) g_test_add ("/cli/" name, Fixture, NULL, set_up, function, tear_down)
  ADD ("usage", test_usage);
  ADD ("spec", test_spec);
  ADD ("validate", test_validate);
  ADD ("telemetry", test_telemetry);
  ADD ("tokenize", test_tokenize);
  return g_test_run ();
}
