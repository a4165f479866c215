/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/error.h"
#include "engine/reward/reward.h"
#include "tests/unit/shared.h"
#include "tests/unit/temporary.h"

static PlumbReward *
make_reward (const char *spec_text, GError **error)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (GPtrArray) problems = plumb_problems_new ();

  plumb_spec_load_data (spec, spec_text, strlen (spec_text), "r.spec", NULL, problems);
  g_assert_cmpuint (problems->len, ==, 0);
  return plumb_reward_new (spec, error);
}

static PlumbReward *
make_named (const char *name)
{
  g_autofree char *text = g_strdup_printf ("[reward]\nfunctions = %s\n", name);
  g_autoptr (GError) error = NULL;
  PlumbReward *reward = make_reward (text, &error);

  g_assert_no_error (error);
  return reward;
}

static double
score (PlumbReward *reward, const char *response, const char *answer)
{
  PlumbRewardInput input = { .prompt = "", .response = response, .answer = answer };
  PlumbRewardScore result;

  plumb_reward_score (reward, &input, &result, NULL);
  plumb_reward_score_clear (&result);
  return result.value;
}

/* Rows of {"answer", "response", "expect"}; with "may_refuse" a right answer may score 0. */
static void
check_rows (const char *function, const char *file, guint least)
{
  g_autoptr (PlumbReward) reward = make_named (function);
  g_autofree char *path
      = g_build_filename (g_getenv ("PLUMB_TEST_FIXTURES"), "..", "unit", "data", file, NULL);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  guint n = 0, wrong = 0;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; lines[i] != NULL && *lines[i] != '\0'; i++, n++)
    {
      g_autoptr (JsonParser) parser = json_parser_new ();
      JsonObject *row;
      double value;

      g_assert_true (json_parser_load_from_data (parser, lines[i], -1, NULL));
      row = json_node_get_object (json_parser_get_root (parser));
      value = score (reward, json_object_get_string_member (row, "response"),
                     json_object_get_string_member (row, "answer"));
      if (value != json_object_get_int_member (row, "expect")
          && !(value == 0 && json_object_has_member (row, "may_refuse")))
        {
          g_printerr ("# scored %g: %s\n", value, lines[i]);
          wrong++;
        }
    }
  g_assert_cmpuint (n, >=, least);
  g_assert_cmpuint (wrong, ==, 0);
}

static void
test_number_rows (void)
{
  check_rows ("number", "number.jsonl", 83);
}

static void
test_choice_rows (void)
{
  check_rows ("choice", "choice.jsonl", 32);
}

static void
test_number (void)
{
  g_autoptr (PlumbReward) reward = make_named ("number");
  g_autofree char *braces = g_strnfill (3000, '{');
  g_autofree char *deep = g_strconcat ("\\boxed{", braces, "7", NULL);
  g_autofree char *digits = g_strnfill (100000, '9');
  g_autoptr (GString) boxes = g_string_new (NULL);
  const struct
  {
    const char *response, *answer;
    double expect;
  } cases[] = {
    { "57", "57", 1 },
    { "058", "57", 0 },
    { "", "57", 0 },
    { "57", "57.0", 1 },
    { "#### 42", "42.0", 1 },
    { "#### 12345678901234567890", "12345678901234567890", 1 },
    { "#### 12345678901234567891", "12345678901234567890", 0 },
    { "#### .1", "0.1", 1 },
    { "#### 7", "-7", 0 },
    { "#### 1000", "1e3", 1 },
    { "#### 5\n#### 6", "5", 1 }, /* the first of a response counts */
    { "#### 5\n#### 6", "6", 0 },
    { "#### the answer is 5 apples", "5", 1 },
    { "#### 4 or 5", "5", 0 },
    { "it is 1/2", "0.5", 1 },
    { "\\boxed{\\frac{3}{4}}", "0.75", 1 },
    { "\\boxed{1\\frac{1}{2}}", "1.5", 1 },
    { "\\boxed{1 1/2}", "3/2", 1 },
    { "\\boxed{1/0}", "1", 0 },
    { "that makes 50%", "50", 1 },
    { "that makes 50%", "0.5", 1 },
    { "that makes 0.5", "50%", 1 },
    { "that makes 5%", "0.5", 0 },
    { "\\boxed{2x}", "2", 0 },
    { "10-8", "-8", 0 },
    { "10-8", "8", 1 },
    { "see H2O", "2", 0 },
    { "1e999999", "1", 0 },
    { "so 12,345", "12345", 1 },
    { "Reasoning: 2+2=<<2+2=4>>4\n#### 4", "He has 2+2=4.\n#### 4", 1 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    if (score (reward, cases[i].response, cases[i].answer) != cases[i].expect)
      g_error ("%s against %s: not %g", cases[i].response, cases[i].answer, cases[i].expect);
  /* At once and without a crash, whatever the verdict. */
  g_assert_cmpfloat (score (reward, deep, "7"), ==, 0);
  score (reward, digits, "7");
  for (int i = 0; i < 20000; i++)
    g_string_append (boxes, "\\boxed{");
  g_assert_cmpfloat (score (reward, boxes->str, "7"), ==, 0);
}

/* Every reference solution must agree with itself, and with the bare number of its end. */
static void
test_gsm8k (void)
{
  static const char *const files[] = { "rlvr/gsm8k/train.jsonl", "rlvr/gsm8k/test.jsonl" };
  g_autoptr (PlumbReward) reward = make_named ("number");

  for (gsize f = 0; f < G_N_ELEMENTS (files); f++)
    {
      g_autofree char *path = shared_file (files[f]), *text = NULL;
      g_auto (GStrv) lines = NULL;
      guint n = 0;

      if (path == NULL)
        return;
      g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
      lines = g_strsplit (text, "\n", -1);
      for (gsize i = 0; lines[i] != NULL && *lines[i] != '\0'; i++, n++)
        {
          g_autoptr (JsonParser) parser = json_parser_new ();
          const char *answer, *bare;
          g_autofree char *prose = NULL, *wrong = NULL;

          g_assert_true (json_parser_load_from_data (parser, lines[i], -1, NULL));
          answer = json_object_get_string_member (
              json_node_get_object (json_parser_get_root (parser)), "answer");
          bare = g_strrstr (answer, "#### ") + strlen ("#### ");
          prose = g_strdup_printf ("Thus the answer is $%s.", bare);
          wrong = g_strdup_printf ("#### 1%s", bare[0] == '-' ? bare + 1 : bare);
          if (score (reward, answer, answer) != 1 || score (reward, prose, answer) != 1
              || score (reward, wrong, answer) != 0)
            g_error ("%s:%" G_GSIZE_FORMAT ": %s", files[f], i + 1, bare);
        }
      g_assert_cmpuint (n, >, 1000);
    }
}

static void
test_plain (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbReward) exact = make_named ("exact");
  g_autoptr (PlumbReward) folded
      = make_reward ("[reward]\nfunctions=exact\n[reward exact]\ncase=no\n", NULL);
  g_autoptr (PlumbReward) regex = make_reward (
      "[reward]\nfunctions=regex\n[reward regex]\npattern=<b>.*</b>\nfull=yes\n", NULL);
  g_autoptr (PlumbReward) length
      = make_reward ("[reward]\nfunctions=length\n[reward length]\nmin=4\nmax=10\n", NULL);
  const gsize tokens[] = { 0, 2, 4, 10, 15, 20, 100 };
  const double expected[] = { 0, 0.5, 1, 1, 0.5, 0, 0 };

  g_assert_cmpfloat (score (exact, " yes\n", "yes"), ==, 1);
  g_assert_cmpfloat (score (exact, "Yes", "yes"), ==, 0);
  g_assert_cmpfloat (score (folded, "Yes", "yes"), ==, 1);
  g_assert_cmpfloat (score (regex, "<b>x</b>", NULL), ==, 1);
  g_assert_cmpfloat (score (regex, "a<b>x</b>", NULL), ==, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (tokens); i++)
    {
      PlumbRewardInput input = { .prompt = "", .response = "", .n_tokens = tokens[i] };
      PlumbRewardScore result;

      plumb_reward_score (length, &input, &result, NULL);
      g_assert_cmpfloat (result.value, ==, expected[i]);
    }
}

static void
test_format (void)
{
  static const struct
  {
    const char *response;
    double whole, prefilled;
  } cases[] = {
    { "<think>a</think><answer>b</answer>", 1, 0 },
    { " <think>\na\n</think>\n\n<answer>b</answer>\n", 1, 0 },
    { "a</think><answer>b</answer>", 0, 1 },
    { "<answer>b</answer><think>a</think>", 0, 0 },
    { "<think>a</think>so<answer>b</answer>", 0, 0 },
    { "<think>a</think><answer>b</answer> and more", 0, 0 },
    { "<think>a</think><answer>b", 0, 0 },
    { "<think></think><answer>b</answer>", 0, 0 },
    { "<think>a</think><answer>b</answer><answer>c</answer>", 0, 0 },
    { "<think><think>a</think><answer>b</answer>", 0, 0 },
    { "", 0, 0 },
  };
  g_autoptr (PlumbReward) whole = make_named ("format");
  g_autoptr (PlumbReward) prefilled
      = make_reward ("[reward]\nfunctions=format\n[reward format]\nprefilled=yes\n", NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    if (score (whole, cases[i].response, NULL) != cases[i].whole
        || score (prefilled, cases[i].response, NULL) != cases[i].prefilled)
      g_error ("%s: not %g, %g", cases[i].response, cases[i].whole, cases[i].prefilled);
}

static void
test_json_schema (void)
{
  static const struct
  {
    const char *schema, *response;
    double expect;
  } cases[] = {
    { "{\"type\": \"object\", \"required\": [\"a\"]}", "{\"a\": 1}", 1 },
    { "{\"type\": \"object\", \"required\": [\"a\"]}", "```json\n{\"a\": 1}\n```", 1 },
    { "{\"type\": \"object\", \"required\": [\"a\"]}", "{\"b\": 1}", 0 },
    { "{\"type\": \"object\"}", "It is {}", 0 },
    { "{\"type\": \"object\"}", "", 0 },
    { "{\"properties\": {\"a\": {\"type\": \"integer\"}}}", "{\"a\": 2.0}", 1 },
    { "{\"properties\": {\"a\": {\"type\": \"integer\"}}}", "{\"a\": 2.5}", 0 },
    { "{\"properties\": {\"a\": {}}, \"additionalProperties\": false}", "{\"b\": 1}", 0 },
    { "{\"items\": {\"enum\": [\"x\", 1]}, \"minItems\": 1}", "[\"x\", 1.0]", 1 },
    { "{\"items\": {\"enum\": [\"x\", 1]}, \"minItems\": 1}", "[]", 0 },
    { "{\"items\": {\"enum\": [\"x\", 1]}}", "[\"y\"]", 0 },
    { "{\"type\": [\"string\", \"null\"], \"maxLength\": 2}", "\"\u00e9\u00e9\"", 1 },
    { "{\"type\": [\"string\", \"null\"], \"maxLength\": 2}", "\"abc\"", 0 },
    { "{\"type\": [\"string\", \"null\"]}", "null", 1 },
    { "{\"pattern\": \"^a+$\"}", "\"aa\"", 1 },
    { "{\"pattern\": \"^a+$\"}", "\"ab\"", 0 },
    { "{\"minimum\": 1, \"exclusiveMaximum\": 2}", "1", 1 },
    { "{\"minimum\": 1, \"exclusiveMaximum\": 2}", "2", 0 },
    { "{\"anyOf\": [{\"const\": 1}, {\"type\": \"string\"}], \"not\": {\"const\": \"x\"}}", "1", 1 },
    { "{\"anyOf\": [{\"const\": 1}, {\"type\": \"string\"}], \"not\": {\"const\": \"x\"}}", "\"x\"", 0 },
    { "{\"oneOf\": [{\"minimum\": 1}, {\"minimum\": 2}]}", "3", 0 },
    { "{\"oneOf\": [{\"minimum\": 1}, {\"minimum\": 2}]}", "1", 1 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf (
          "[reward]\nfunctions=json_schema\n[reward json_schema]\nschema=%s\n", cases[i].schema);
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbReward) reward = make_reward (text, &error);

      g_assert_no_error (error);
      if (score (reward, cases[i].response, NULL) != cases[i].expect)
        g_error ("%s by %s: not %g", cases[i].response, cases[i].schema, cases[i].expect);
    }
}

static void
test_sum (void)
{
  g_autoptr (PlumbReward) reward
      = make_reward ("[reward]\nfunctions = exact:2, length:0.5\n[reward length]\nmax=10\n", NULL);
  PlumbRewardInput input = { .prompt = "", .response = "a", .answer = "a", .n_tokens = 15 };
  PlumbRewardScore result;
  double parts[2];

  g_assert_cmpuint (plumb_reward_n_parts (reward), ==, 2);
  g_assert_cmpstr (plumb_reward_part_name (reward, 1), ==, "length");
  g_assert_true (plumb_reward_needs_answer (reward));
  plumb_reward_score (reward, &input, &result, parts);
  g_assert_cmpfloat (result.value, ==, 2.25);
  g_assert_cmpfloat (parts[0], ==, 1);
  g_assert_cmpfloat (parts[1], ==, 0.5);
  /* One part that failed: so has the whole, and nothing is called 0. */
  input.answer = NULL;
  plumb_reward_score (reward, &input, &result, parts);
  g_assert_true (result.failed);
  g_assert_true (isnan (result.value));
  g_assert_true (isnan (parts[0]));
  g_assert_cmpfloat (parts[1], ==, 0.5);
  g_assert_nonnull (strstr (result.reason, "no answer"));
  plumb_reward_score_clear (&result);
}

static void
test_refused (void)
{
  const struct
  {
    const char *spec, *message;
  } cases[] = {
    { "[reward]\nfunctions=regex\n", "pattern" },
    { "[reward]\nfunctions=regex\n[reward regex]\npattern=(\n", "r.spec:4" },
    { "[reward]\nfunctions=length\n[reward length]\nmx=3\n", "did you mean max" },
    { "[reward]\nfunctions=length\n[reward length]\nmax=three\n", "number" },
    { "[reward]\nfunctions=length\n[reward length]\nmin=5\nmax=3\n", "below min" },
    { "[reward]\nfunctions=number\n[reward number]\nx=1\n", "none" },
    { "[reward]\nfunctions=program\n", "command" },
    { "[reward]\nfunctions=http\n", "url" },
    { "[reward]\nfunctions=http\n[reward http]\nurl=localhost:5000\n", "http://" },
    { "[reward]\nfunctions=judge\n[reward judge]\nmodel=m\n", "rubric" },
    { "[reward]\nfunctions=format\n[reward format]\ntags=<think>\n", "names" },
    { "[reward]\nfunctions=json_schema\n", "schema" },
    { "[reward]\nfunctions=json_schema\n[reward json_schema]\nschema={\"$ref\": \"#\"}\n", "$ref" },
    { "[reward]\nfunctions=json_schema\n[reward json_schema]\nschema=/no/such/file\n", "r.spec:4" },
    { "[reward]\nfunctions=code\n[reward code]\npython=/opt/python\n", "/usr" },
    { "[reward]\nfunctions=program\n[reward program]\ncommand=/no/such/program\n", "program" },
    { "[run]\nseed=1\n", "reward.functions" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (make_reward (cases[i].spec, &error));
      if (strstr (error->message, cases[i].message) == NULL)
        g_error ("case %" G_GSIZE_FORMAT ": %s", i, error->message);
    }
}

static PlumbReward *
make_program (const char *folder, const char *script, const char *timeout)
{
  g_autofree char *path = g_build_filename (folder, "reward.sh", NULL);
  g_autofree char *text = g_strdup_printf ("[reward]\nfunctions=program\ntimeout=%s\n"
                                           "[reward program]\ncommand=/bin/sh %s\n",
                                           timeout, path);
  g_autoptr (GError) error = NULL;
  PlumbReward *reward;

  g_assert_true (g_file_set_contents (path, script, -1, NULL));
  reward = make_reward (text, &error);
  g_assert_no_error (error);
  return reward;
}

static void
assert_failed (PlumbReward *reward, const char *reason)
{
  PlumbRewardInput input = { .prompt = "p", .response = "r" };
  PlumbRewardScore result;

  plumb_reward_score (reward, &input, &result, NULL);
  g_assert_true (result.failed);
  if (strstr (result.reason, reason) == NULL)
    g_error ("%s: not %s", result.reason, reason);
  plumb_reward_score_clear (&result);
}

static void
test_program (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autofree char *big = g_strnfill (300000, 'x');

  {
    /* Kept alive: it counts its calls. Requests larger than a pipe go through. */
    g_autoptr (PlumbReward) reward = make_program (
        folder, "n=0\nwhile read -r line; do n=$((n+1)); echo \"{\\\"reward\\\": $n}\"; done\n",
        "20");

    g_assert_cmpfloat (score (reward, "a", NULL), ==, 1);
    g_assert_cmpfloat (score (reward, big, "b"), ==, 2);
    g_assert_cmpfloat (score (reward, "quote \" and \n line", NULL), ==, 3);
  }
  {
    g_autoptr (PlumbReward) reward = make_program (
        folder, "while read -r line; do echo '{\"failed\": \"no compiler\"}'; done\n", "20");

    assert_failed (reward, "no compiler");
  }
  {
    g_autoptr (PlumbReward) reward
        = make_program (folder, "while read -r line; do echo loading; done\n", "20");

    assert_failed (reward, "neither a number");
  }
  {
    /* No number is no score, but an answer: the program goes on, and counts. */
    g_autoptr (PlumbReward) reward = make_program (
        folder, "for r in null NaN -Infinity 1e999 5; do read -r line; echo \"{\\\"reward\\\": $r}\"; done\n"
                "read -r line; echo nan; read -r line; echo 7; read -r line\n", "20");

    for (int i = 0; i < 4; i++)
      assert_failed (reward, "no finite reward");
    g_assert_cmpfloat (score (reward, "a", NULL), ==, 5);
    assert_failed (reward, "no finite reward");
    g_assert_cmpfloat (score (reward, "a", NULL), ==, 7);
  }
  {
    /* It ends after one answer: it is started and asked again. */
    g_autoptr (PlumbReward) reward = make_program (folder, "read -r line; echo 0.5\n", "20");

    for (int i = 0; i < 3; i++)
      g_assert_cmpfloat (score (reward, "a", NULL), ==, 0.5);
  }
  {
    /* It ends before every answer: three retries, then the call has failed. */
    g_autofree char *script = g_strdup_printf ("echo x >>%s/started; read -r line\n", folder);
    g_autofree char *started = g_build_filename (folder, "started", NULL), *times = NULL;
    g_autoptr (PlumbReward) reward = make_program (folder, script, "20");

    assert_failed (reward, "ended");
    g_assert_true (g_file_get_contents (started, &times, NULL, NULL));
    g_assert_cmpstr (times, ==, "x\nx\nx\nx\n");
  }
  remove_folder (folder);
}

/* Late and stubborn: ended with its children, and the run goes on. */
static void
test_program_late (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autoptr (PlumbReward) reward
      = make_program (folder, "trap '' TERM INT\nread -r line\nsleep 100 & wait\n", "0.3");
  gint64 start = g_get_monotonic_time ();

  assert_failed (reward, "in time");
  g_assert_cmpint (g_get_monotonic_time () - start, <, 5 * G_USEC_PER_SEC);
  remove_folder (folder);
}

static gpointer
cancel_soon (gpointer reward)
{
  g_usleep (200000);
  plumb_reward_cancel (reward);
  return NULL;
}

static void
test_program_cancelled (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autoptr (PlumbReward) reward = make_program (folder, "read -r line; sleep 100\n", "100");
  gint64 start = g_get_monotonic_time ();
  GThread *thread = g_thread_new ("cancel", cancel_soon, reward);

  assert_failed (reward, "stopped");
  g_thread_join (thread);
  g_assert_cmpint (g_get_monotonic_time () - start, <, 5 * G_USEC_PER_SEC);
  remove_folder (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/reward/number", test_number);
  g_test_add_func ("/reward/number/rows", test_number_rows);
  g_test_add_func ("/reward/number/gsm8k", test_gsm8k);
  g_test_add_func ("/reward/choice/rows", test_choice_rows);
  g_test_add_func ("/reward/plain", test_plain);
  g_test_add_func ("/reward/format", test_format);
  g_test_add_func ("/reward/json-schema", test_json_schema);
  g_test_add_func ("/reward/sum", test_sum);
  g_test_add_func ("/reward/refused", test_refused);
  g_test_add_func ("/reward/program", test_program);
  g_test_add_func ("/reward/program/late", test_program_late);
  g_test_add_func ("/reward/program/cancelled", test_program_cancelled);
  return g_test_run ();
}
