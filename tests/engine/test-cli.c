/* SPDX-License-Identifier: Apache-2.0 */
/* The real program on its small sub-commands: what it prints, and its exit codes. */
#include "config.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/run-dir.h"
#include "engine/core/telemetry.h"
#include "tests/engine/harness.h"

static JsonObject *
parse (JsonParser *parser, const char *text)
{
  g_autoptr (GError) error = NULL;

  json_parser_load_from_data (parser, text, -1, &error);
  g_assert_no_error (error);
  return json_node_get_object (json_parser_get_root (parser));
}

static void
test_usage (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_call_with (engine, NULL, ""), ==, 2);
  assert_has (engine->err, "Usage");
  g_assert_cmpint (engine_call (engine, "--help"), ==, 0);
  assert_has (engine->out, "validate");
  g_assert_cmpint (engine_call (engine, "--version"), ==, 0);
  g_assert_cmpint (engine_call (engine, "vaildate"), ==, 2);
  assert_has (engine->err, "did you mean validate");
  g_assert_cmpint (engine_call (engine, "validate"), ==, 2);
  g_assert_cmpint (engine_call (engine, "validate --no-such-option x"), ==, 2);
  g_assert_cmpint (engine_call (engine, "spec"), ==, 2);
  g_assert_cmpint (engine_call (engine, "spec --preset none"), ==, 2);
  assert_has (engine->err, "arithmetic");
}

static void
test_spec (Engine *engine, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonArray *fields;

  g_assert_cmpint (engine_call (engine, "spec --fields --json"), ==, 0);
  fields = json_object_get_array_member (parse (parser, engine->out), "fields");
  g_assert_cmpuint (json_array_get_length (fields), >, 60);
  g_assert_cmpint (engine_call (engine, "spec --preset arithmetic > a.spec"), ==, 0);
  g_assert_cmpint (engine_call (engine, "validate a.spec"), ==, 0);
}

static void
test_validate (Engine *engine, gconstpointer data)
{
  g_autofree char *spec = g_build_filename (engine->folder, "a.spec", NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonArray *problems;
  JsonObject *problem;

  g_assert_cmpint (engine_call (engine, "validate nowhere.spec"), ==, 3);
  assert_has (engine->err, "nowhere.spec");
  g_assert_true (g_file_set_contents (spec, "[rollout]\nsample = 4\nsamples = x\n", -1, NULL));
  g_assert_cmpint (engine_call (engine, "validate a.spec"), ==, 3);
  assert_has (engine->out, "a.spec:2: rollout.sample = 4");
  assert_has (engine->out, "did you mean rollout.samples");
  assert_has (engine->out, "a.spec:3: rollout.samples = x");
  g_assert_cmpint (engine_call (engine, "validate --json a.spec"), ==, 3);
  problems = json_object_get_array_member (parse (parser, engine->out), "problems");
  problem = json_array_get_object_element (problems, 0);
  g_assert_cmpstr (json_object_get_string_member (problem, "key"), ==, "rollout.sample");
  g_assert_cmpint (json_object_get_int_member (problem, "line"), ==, 2);
  g_assert_cmpstr (json_object_get_string_member (problem, "file"), ==, "a.spec");
  g_assert_nonnull (json_object_get_string_member (problem, "remedy"));
  g_assert_cmpint (engine_call (engine, "validate --set run.seed a.spec"), ==, 2);
}

static void
test_telemetry (Engine *engine, gconstpointer data)
{
  g_autofree char *run = g_build_filename (engine->folder, "run", NULL);
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

  g_assert_cmpint (engine_call (engine, "telemetry run --since 1 --follow"), ==, 0);
  lines = g_strsplit (g_strchomp (engine->out), "\n", -1);
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

  g_assert_cmpint (engine_call (engine, "status run"), ==, 0);
  assert_has (engine->out, "Finished");
  g_assert_cmpint (engine_call (engine, "status run --json"), ==, 0);
  row = parse (parser, engine->out);
  g_assert_cmpstr (json_object_get_string_member (row, "state"), ==, "finished");
  g_assert_cmpint (engine_call (engine, "stop run"), ==, 3);
  assert_has (engine->err, "not running");
  g_assert_cmpint (engine_call (engine, "status nowhere"), ==, 3);
}

static void
test_tokenize (Engine *engine, gconstpointer data)
{
  static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"
                             "\"\\\"\":3},\"merges\":[\"a b\"]}}";
  g_autofree char *path = g_build_filename (engine->folder, "tokenizer.json", NULL);

  g_assert_true (g_file_set_contents (path, json, -1, NULL));
  g_assert_cmpint (
      engine_call_with (engine, "{\"text\":\"ab\\\"b\"}\n{\"text\":\"\"}\n", "tokenize --model ."), ==, 0);
  g_assert_cmpstr (engine->out, ==, "{\"ids\":[2,3,1]}\n{\"ids\":[]}\n");
  g_assert_cmpint (engine_call_with (engine, "{\"ids\":[2,3,1]}\n", "detokenize --model ."), ==, 0);
  g_assert_cmpstr (engine->out, ==, "{\"text\":\"ab\\\"b\"}\n");
  g_assert_cmpint (engine_call_with (engine, "{\"ids\":[0]}\n{\"ids\":[9]}\n", "detokenize --model ."), ==, 3);
  assert_has (engine->err, "line 2");
  g_assert_cmpint (engine_call_with (engine, "{\"text\":\"z\"}\n", "tokenize --model ."), ==, 3);
  g_assert_cmpint (engine_call_with (engine, "{\"text\":\n", "tokenize --model ."), ==, 3);
  g_assert_cmpint (engine_call (engine, "tokenize --model nowhere"), ==, 3);
  g_assert_cmpint (engine_call (engine, "tokenize"), ==, 2);
}

/* A device that is demanded and not there is a matter of the machine: exit 4, with the reason. */
static void
test_devices (Engine *engine, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();

  g_assert_cmpint (engine_call (engine, "devices --json"), ==, 0);
  JsonArray *devices = json_object_get_array_member (parse (parser, engine->out), "devices");
  g_assert_cmpuint (json_array_get_length (devices), >=, 1);
  g_assert_cmpstr (json_object_get_string_member (json_array_get_object_element (devices, 0), "device"), ==, "cpu");
  g_assert_cmpint (engine_call (engine, "run --preset arithmetic --set placement.policy=cuda:999 --run-dir r"), ==, 4);
  assert_has (engine->err, "placement.policy: device cuda:999");
  g_assert_false (g_file_test ("r", G_FILE_TEST_EXISTS));
  g_assert_cmpint (engine_call (engine, "bench ops --shape nothing"), ==, 2);
  assert_has (engine->err, "qwen2.5-1.5b");
}

/* Data that the algorithm cannot train on is refused; a setting that it does not use is told. */
static void
test_fitting (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_call (engine, "validate $SPECS/sft.spec --set run.algorithm=dpo"), ==, 3);
  assert_has (engine->out, "pairs of answers");
  g_assert_cmpint (engine_call (engine, "validate $SPECS/sft.spec --set run.algorithm=kto"), ==, 3);
  assert_has (engine->out, "answers with labels");
  g_assert_cmpint (engine_call (engine, "validate $SPECS/sft.spec --set algorithm.beta=0.2"), ==, 0);
  assert_has (engine->out, "sft does not use this setting");
  g_assert_cmpint (engine_call (engine, "validate $SPECS/grpo.spec --set algorithm.policy_loss=sapo --set algorithm.clip_low=0.1 "
                                        "--set algorithm.kl.unbiased=yes --set algorithm.kl.where=reward --set "
                                        "reward.overlong_factor=2"), ==, 0);
  assert_has (engine->out, "algorithm.clip_low = 0.1: it has no effect with algorithm.policy_loss = sapo");
  assert_has (engine->out, "algorithm.kl.unbiased = yes: it has no effect with algorithm.kl.where = reward");
  assert_has (engine->out, "reward.overlong_factor = 2: it has no effect with reward.overlong_buffer = off");
}

/* Every set of held-out data has its own figures, and nothing is left behind. */
static void
test_eval (Engine *engine, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();

  engine_write (engine, "a.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"1+2=\", \"answer\": \"3\"}\n");
  engine_write (engine, "b.jsonl", "{\"prompt\": \"2+2=\", \"answer\": \"4\"}\n");
  if (engine_call (engine, "eval $SPECS/grpo.spec --json --set data.eval=a.jsonl,b.jsonl") != 0)
    g_error ("%s%s", engine->out, engine->err);
  JsonObject *results = parse (parser, engine->out);
  g_assert_true (json_object_has_member (results, "eval/a/pass1"));
  g_assert_true (json_object_has_member (results, "eval/a/passk"));
  g_assert_true (json_object_has_member (results, "eval/b/pass1"));
  g_assert_cmpint (engine_shell (engine, "test -z \"$(ls \"$XDG_STATE_HOME/plumbline/runs\" 2>/dev/null)\""), ==, 0);
  g_assert_cmpint (engine_call (engine, "eval $SPECS/grpo.spec --set data.eval=nowhere.jsonl"), ==, 3);
}

/* Memory without a trial; with one, the seconds of a step too. */
static void
test_plan (Engine *engine, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();

  if (engine_call (engine, "plan $SPECS/grpo.spec --json --no-trial") != 0)
    g_error ("%s%s", engine->out, engine->err);
  JsonObject *plan = parse (parser, engine->out);
  g_assert_cmpfloat (json_object_get_double_member (plan, "memory_bytes"), >, 1e6);
  g_assert_true (json_object_get_null_member (plan, "online_step_seconds"));
  if (engine_call (engine, "plan $SPECS/warmup.spec --json") != 0)
    g_error ("%s%s", engine->out, engine->err);
  plan = parse (parser, engine->out);
  g_assert_cmpfloat (json_object_get_double_member (plan, "online_step_seconds"), >, 0);
  g_assert_cmpfloat (json_object_get_double_member (plan, "supervised_step_seconds"), >, 0);
  g_assert_cmpfloat (json_object_get_double_member (plan, "total_seconds"), >, 0);
  g_assert_cmpint (engine_call (engine, "plan $SPECS/grpo.spec --set model.max_length=9"), ==, 3);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/cli/usage", test_usage);
  ENGINE_TEST ("/cli/spec", test_spec);
  ENGINE_TEST ("/cli/validate", test_validate);
  ENGINE_TEST ("/cli/telemetry", test_telemetry);
  ENGINE_TEST ("/cli/tokenize", test_tokenize);
  ENGINE_TEST ("/cli/devices", test_devices);
  ENGINE_TEST ("/cli/fitting", test_fitting);
  ENGINE_TEST ("/cli/eval", test_eval);
  ENGINE_TEST ("/cli/plan", test_plan);
  return g_test_run ();
}
