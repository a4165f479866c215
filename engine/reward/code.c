/* SPDX-License-Identifier: Apache-2.0 */
/* Python functions against tests: those of HumanEval (prompt, `test` with check(candidate),
 * `entry_point`), and lists of asserts (`tests` or `test_list`, with `test_setup_code`). */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/reward/functions.h"
#include "engine/reward/sandbox.h"

#define MOST_OUTPUT 65536
#define LONGEST_REASON 200

/* Reads a job from stdin, runs it, and writes the job's secret word with the number of tests that
 * passed: a program that ends early, or prints what it likes, has not passed. */
static const char harness[]
    = "import sys, json, os\n"
      "def main():\n"
      "    job = json.loads(sys.stdin.buffer.read())\n"
      "    word, tests, entry, verdict = job['word'], job['tests'], job['entry'], os.dup(1)\n"
      "    write = os.write\n"
      "    write(verdict, ('%s\\n' % word).encode())\n"
      "    space = {'__name__': 'answer'}\n"
      "    code, setup = job['code'], job['setup']\n"
      "    del job\n"
      "    exec(compile(code, 'answer.py', 'exec'), space)\n"
      "    exec(compile(setup, 'setup.py', 'exec'), space)\n"
      "    passed, last = 0, None\n"
      "    for test in tests:\n"
      "        try:\n"
      "            exec(compile(test, 'test.py', 'exec'), space)\n"
      "            if entry:\n"
      "                space['check'](space[entry])\n"
      "            passed += 1\n"
      "        except BaseException as error:\n"
      "            last = error\n"
      "    if last is not None:\n"
      "        print(type(last).__name__ + ': ' + str(last)[:150], flush=True)\n"
      "    write(verdict, ('\\n%s %d\\n' % (word, passed)).encode())\n"
      "try:\n"
      "    main()\n"
      "except BaseException as error:\n"
      "    print(type(error).__name__ + ': ' + str(error)[:150], flush=True)\n"
      "    os._exit(1)\n"
      "os._exit(0)\n";

typedef struct
{
  PlumbSandbox sandbox;
  char *python;
  gboolean partial; /* the share of the tests that pass, instead of all or nothing */
} Code;

/* What one row asks for. */
typedef struct
{
  char *program;
  const char *setup;
  GPtrArray *tests; /* borrowed texts */
  char *entry;      /* "": none */
} Job;

static void
job_clear (Job *job)
{
  g_clear_pointer (&job->program, g_free);
  g_clear_pointer (&job->tests, g_ptr_array_unref);
  g_clear_pointer (&job->entry, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Job, job_clear)

static gboolean run_job (Code *code, const Job *job, PlumbRewardScore *score, GError **error);

/* Does a program run at all, and does one that fails fail? */
static gboolean
try_sandbox (Code *code, GError **error)
{
  g_auto (Job) job = { g_strdup ("x = 1"), "", g_ptr_array_new (), g_strdup ("") };
  PlumbRewardScore score = { 0 };
  g_autoptr (GError) local = NULL;
  gboolean fine;

  g_ptr_array_add (job.tests, (gpointer) "assert x == 1");
  fine = run_job (code, &job, &score, &local) && score.value == 1;
  if (!fine)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                 "the reward function code needs bubblewrap and %s, and they do not work here: %s",
                 code->python, local != NULL ? local->message : score.reason);
  plumb_reward_score_clear (&score);
  return fine;
}

static gboolean
open_code (PlumbSpec *spec, gpointer *state, GError **error)
{
  Code *code = g_new0 (Code, 1);
  const char *python = plumb_spec_get_reward_option (spec, "code", "python");
  double megabytes;

  *state = code;
  code->python = g_strdup (python != NULL ? python : "/usr/bin/python3");
  code->sandbox.output = MOST_OUTPUT;
  if (!plumb_reward_number_option (spec, "code", "time", 0.1, 10, &code->sandbox.seconds, error)
      || !plumb_reward_number_option (spec, "code", "memory", 64, 1024, &megabytes, error)
      || !plumb_reward_boolean_option (spec, "code", "partial", FALSE, &code->partial, error))
    return FALSE;
  if (code->sandbox.seconds > 3600)
    return plumb_reward_bad_option (spec, "code", "time", "an hour is the most", error);
  if (megabytes > 1 << 20)
    return plumb_reward_bad_option (spec, "code", "memory", "write megabytes", error);
  code->sandbox.memory = (guint64)megabytes << 20;
  if (!g_str_has_prefix (code->python, "/usr/"))
    return plumb_reward_bad_option (spec, "code", "python",
                                    "name an interpreter below /usr: the programs see nothing else",
                                    error);
  return plumb_sandbox_init (&code->sandbox, error) && try_sandbox (code, error);
}

static void
close_code (gpointer state)
{
  Code *code = state;

  plumb_sandbox_clear (&code->sandbox);
  g_free (code->python);
  g_free (code);
}

static void
cancel_code (gpointer state)
{
  g_atomic_int_set (&((Code *)state)->sandbox.cancelled, TRUE);
}

/* --- what the response holds */

/* The last fenced block; NULL without one. One that is cut off goes to the end. (transfer full) */
static char *
last_block (const char *response)
{
  const char *found = NULL, *end = NULL;

  for (const char *c = strstr (response, "```"); c != NULL;)
    {
      const char *line = strchr (c, '\n'), *close = line != NULL ? strstr (line, "\n```") : NULL;

      if (line == NULL)
        break;
      found = line + 1;
      end = close != NULL ? close + 1 : found + strlen (found);
      c = close != NULL ? strstr (close + 4, "```") : NULL;
    }
  return found != NULL ? g_strndup (found, end - found) : NULL;
}

static gboolean
defines (const char *program, const char *name)
{
  g_autofree char *head = g_strdup_printf ("def %s", name);

  for (const char *c = strstr (program, head); c != NULL; c = strstr (c + 1, head))
    if ((c == program || c[-1] == '\n' || g_str_has_prefix (c - MIN (6, c - program), "async "))
        && strchr (" (", c[strlen (head)]) != NULL)
      return TRUE;
  return FALSE;
}

/* A continuation ends with its function: at the first line that is not indented. */
static gsize
body_length (const char *body)
{
  for (const char *c = strchr (body, '\n'); c != NULL; c = strchr (c + 1, '\n'))
    if (c[1] != '\0' && strchr (" \t\r\n#)]}", c[1]) == NULL)
      return c + 1 - body;
  return strlen (body);
}

/* The lines of a prompt before its first function: imports and constants. */
static gsize
preamble_length (const char *prompt)
{
  for (const char *c = prompt; c != NULL && *c != '\0';)
    {
      if (g_str_has_prefix (c, "def ") || g_str_has_prefix (c, "class ")
          || g_str_has_prefix (c, "@") || g_str_has_prefix (c, "async "))
        return c - prompt;
      c = strchr (c, '\n');
      c = c != NULL ? c + 1 : NULL;
    }
  return 0;
}

/* The name of the last function at the margin of a text; NULL: none. (transfer full) */
static char *
last_function (const char *text)
{
  const char *name = NULL;

  for (const char *c = strstr (text, "def "); c != NULL; c = strstr (c + 1, "def "))
    if (c == text || c[-1] == '\n')
      name = c + strlen ("def ");
  return name != NULL ? g_strndup (name, strcspn (name, " (:\n")) : NULL;
}

static char *
program_of (const char *prompt, const char *response, const char *entry)
{
  g_autofree char *block = last_block (response);
  const char *text = block != NULL ? block : response;

  if (*entry == '\0')
    return g_strdup (text);
  if (defines (text, entry))
    return g_strdup_printf ("%.*s\n%s", (int)preamble_length (prompt), prompt, text);
  return g_strdup_printf ("%s%.*s\n", prompt, (int)body_length (text), text);
}

/* --- what the row asks for */

static const char *
text_member (JsonObject *row, const char *key)
{
  return row != NULL && json_object_has_member (row, key)
             ? plumb_json_node_text (json_object_get_member (row, key))
             : NULL;
}

static void
add_list (GPtrArray *tests, JsonObject *row, const char *key)
{
  JsonArray *list = row != NULL && json_object_has_member (row, key)
                        ? plumb_json_node_array (json_object_get_member (row, key))
                        : NULL;

  for (guint i = 0; list != NULL && i < json_array_get_length (list); i++)
    {
      const char *text = plumb_json_node_text (json_array_get_element (list, i));

      if (text != NULL)
        g_ptr_array_add (tests, (gpointer)text);
    }
}

/* FALSE when the row brings no tests. The texts of `job` belong to `row` and `input`. */
static gboolean
read_job (Job *job, JsonObject *row, const PlumbRewardInput *input)
{
  const char *test = text_member (row, "test"), *entry = text_member (row, "entry_point");
  const char *prompt = text_member (row, "prompt"), *setup = text_member (row, "test_setup_code");
  gboolean checks;

  job->tests = g_ptr_array_new ();
  job->setup = setup != NULL ? setup : "";
  if (prompt == NULL)
    prompt = input->prompt;
  if (test == NULL)
    add_list (job->tests, row, "tests");
  if (test == NULL && job->tests->len == 0)
    add_list (job->tests, row, "test_list");
  if (test == NULL && job->tests->len == 0)
    test = input->answer;
  if (test != NULL)
    g_ptr_array_add (job->tests, (gpointer)test);
  if (job->tests->len == 0)
    return FALSE;
  checks = test != NULL && strstr (test, "def check(") != NULL;
  job->entry = entry != NULL ? g_strdup (entry) : checks ? last_function (prompt) : NULL;
  job->program = program_of (prompt, input->response, job->entry != NULL ? job->entry : "");
  if (!checks || job->entry == NULL)
    {
      g_free (job->entry);
      job->entry = g_strdup ("");
    }
  return TRUE;
}

/* --- running */

static GString *
job_text (const Job *job, const char *word)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;
  g_autofree char *text = NULL;
  const char *members[][2] = {
    { "word", word }, { "code", job->program }, { "setup", job->setup }, { "entry", job->entry }
  };

  json_builder_begin_object (builder);
  for (gsize i = 0; i < G_N_ELEMENTS (members); i++)
    {
      json_builder_set_member_name (builder, members[i][0]);
      json_builder_add_string_value (builder, members[i][1]);
    }
  json_builder_set_member_name (builder, "tests");
  json_builder_begin_array (builder);
  for (guint i = 0; i < job->tests->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (job->tests, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  text = json_to_string (root, FALSE);
  return g_string_new (text);
}

/* The last line that says something. (transfer full) */
static char *
last_line (const GString *output)
{
  g_autofree char *text = g_utf8_make_valid (output->str, MIN (output->len, strlen (output->str)));
  const char *line;

  g_strchomp (text);
  line = strrchr (text, '\n');
  line = line != NULL ? line + 1 : text;
  return g_utf8_substring (line, 0, MIN (g_utf8_strlen (line, -1), LONGEST_REASON));
}

static char *
why_not (const Code *code, const PlumbSandboxResult *result)
{
  g_autofree char *line = NULL;

  switch (result->end)
    {
    case PLUMB_SANDBOX_LATE:
      return g_strdup_printf ("code: it ran longer than %g s and was ended", code->sandbox.seconds);
    case PLUMB_SANDBOX_TALKATIVE:
      return g_strdup_printf ("code: it wrote more than %d bytes and was ended", MOST_OUTPUT);
    case PLUMB_SANDBOX_CANCELLED:
      return g_strdup ("code: the run is being stopped");
    case PLUMB_SANDBOX_ENDED:
      break;
    }
  line = last_line (result->output);
  if (*line != '\0')
    return g_strdup_printf ("code: %s", line);
  return g_strdup_printf ("code: it ended with status %d before its tests did", result->status);
}

/* Takes the secret word off the head of the output; FALSE: Python did not come so far. */
static gboolean
has_begun (GString *output, const char *word)
{
  if (!g_str_has_prefix (output->str, word))
    return FALSE;
  g_string_erase (output, 0, strlen (word));
  return TRUE;
}

/* How many tests passed, behind the secret word at the end, which is taken off. -1: it is not there. */
static gint64
find_verdict (GString *output, const char *word)
{
  char *found = g_strrstr_len (output->str, output->len, word);
  gint64 passed;

  if (found == NULL)
    return -1;
  passed = g_ascii_strtoll (found + strlen (word), NULL, 10);
  g_string_truncate (output, found - output->str);
  return passed;
}

/* FALSE when the sandbox itself fails: then nothing is known about the program. */
static gboolean
run_job (Code *code, const Job *job, PlumbRewardScore *score, GError **error)
{
  g_autofree char *word = g_uuid_string_random ();
  g_autoptr (GString) input = job_text (job, word);
  const char *command[] = { code->python, "-I", "-B", "-c", harness, NULL };
  g_auto (PlumbSandboxResult) result = { 0 };
  gint64 passed;

  if (!plumb_sandbox_run (&code->sandbox, command, input, &result, error))
    return FALSE;
  if (!has_begun (result.output, word) && result.end == PLUMB_SANDBOX_ENDED)
    {
      g_autofree char *line = last_line (result.output);

      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "%s", line);
      return FALSE;
    }
  passed = result.end == PLUMB_SANDBOX_ENDED ? find_verdict (result.output, word) : -1;
  if (passed == job->tests->len)
    score->value = 1;
  else
    {
      score->value = code->partial && passed > 0 ? (double)passed / job->tests->len : 0;
      score->reason = why_not (code, &result);
    }
  score->failed = result.end == PLUMB_SANDBOX_CANCELLED;
  return TRUE;
}

static void
score_code (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  g_autoptr (JsonParser) parser = NULL;
  g_autoptr (GError) error = NULL;
  JsonObject *row = NULL;
  g_auto (Job) job = { 0 };

  if (input->row != NULL)
    parser = plumb_json_parse ("row", input->row, strlen (input->row), NULL);
  if (parser != NULL)
    row = plumb_json_node_object (json_parser_get_root (parser));
  if (!read_job (&job, row, input))
    {
      score->failed = TRUE;
      score->reason = g_strdup ("code: the row has none of test, tests, test_list and an answer");
    }
  else if (!run_job (state, &job, score, &error))
    {
      score->failed = TRUE;
      score->reason = g_strdup_printf ("code: %s", error->message);
    }
}

static const char *const code_options[] = { "time", "memory", "python", "partial", NULL };

const PlumbRewardFunction plumb_reward_code = {
  .name = "code",
  .options = code_options,
  .needs_row = TRUE,
  .limit = PLUMB_REWARD_CORES,
  .open = open_code,
  .score = score_code,
  .cancel = cancel_code,
  .close = close_code,
};
