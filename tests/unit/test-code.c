/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of a model in the sandbox: right ones pass, and hostile ones are stopped. Skipped where
 * bubblewrap cannot run. */
#include "config.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include <json-glib/json-glib.h>

#include "engine/core/error.h"
#include "engine/reward/batch.h"
#include "tests/unit/shared.h"

static PlumbReward *
make_code (const char *options)
{
  g_autofree char *text
      = g_strdup_printf ("[reward]\nfunctions = code\n[reward code]\n%s\n", options);
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (GError) error = NULL;
  PlumbReward *reward;

  plumb_spec_load_data (spec, text, strlen (text), "r.spec", NULL, problems);
  g_assert_cmpuint (problems->len, ==, 0);
  reward = plumb_reward_new (spec, &error);
  if (reward == NULL)
    {
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT);
      g_test_skip (error->message);
    }
  return reward;
}

static PlumbRewardScore
run (PlumbReward *reward, const char *response, const char *row)
{
  PlumbRewardInput input = { .prompt = "", .response = response, .row = row };
  PlumbRewardScore result;

  plumb_reward_score (reward, &input, &result, NULL);
  return result;
}

/* Scores `response`, and checks the reason of what did not pass. */
static void
check (PlumbReward *reward, const char *response, const char *row, double expect, const char *reason)
{
  PlumbRewardScore result = run (reward, response, row);

  if (result.failed || result.value != expect)
    g_error ("%s: %g instead of %g: %s", response, result.value, expect, result.reason);
  if (reason != NULL && (result.reason == NULL || strstr (result.reason, reason) == NULL))
    g_error ("%s: %s, not %s", response, result.reason, reason);
  plumb_reward_score_clear (&result);
}

#define ADD_ROW "{\"tests\": [\"assert add(1, 2) == 3\", \"assert add(-1, 1) == 0\"]}"
#define CHECK_ROW                                                                                  \
  "{\"prompt\": \"import math\\n\\ndef area(r):\\n    \\\"\\\"\\\"Of a circle.\\\"\\\"\\\"\\n\","   \
  " \"entry_point\": \"area\","                                                                    \
  " \"test\": \"def check(candidate):\\n    assert round(candidate(1), 3) == 3.142\\n\"}"

static void
test_programs (void)
{
  g_autoptr (PlumbReward) reward = make_code ("");
  g_autoptr (PlumbReward) partial = reward != NULL ? make_code ("partial = yes") : NULL;

  if (reward == NULL || partial == NULL)
    return;
  check (reward, "def add(a, b):\n    return a + b\n", ADD_ROW, 1, NULL);
  check (reward, "Sure:\n```python\ndef add(a, b):\n    return a + b\n```\nIt adds.", ADD_ROW, 1, NULL);
  check (reward, "def add(a, b):\n    return a - b\n", ADD_ROW, 0, "AssertionError");
  check (reward, "def add(a, b):\n    return abs(a + b) + (a < 0)\n", ADD_ROW, 0, "AssertionError");
  check (partial, "def add(a, b):\n    return abs(a + b) + (a < 0)\n", ADD_ROW, 0.5, "AssertionError");
  check (reward, "no code at all", ADD_ROW, 0, "SyntaxError");
  check (reward, "", ADD_ROW, 0, "NameError");
  check (reward, "    return math.pi * r * r\n\nprint(area(2))\n", CHECK_ROW, 1, NULL);
  check (reward, "```\ndef area(r):\n    return math.pi * r * r\n```", CHECK_ROW, 1, NULL);
  check (reward, "    return r\n", CHECK_ROW, 0, "AssertionError");
  /* Threads are fine; so is what is printed. */
  check (reward,
         "import threading\ndef add(a, b):\n    r = []\n"
         "    t = threading.Thread(target=lambda: r.append(a + b))\n    t.start(); t.join()\n"
         "    print('x' * 1000)\n    return r[0]\n",
         ADD_ROW, 1, NULL);
}

/* A program cannot say that it passed. */
static void
test_liars (void)
{
  static const char *const programs[]
      = { "import sys\nsys.exit(0)\n",
          "import os\nos._exit(0)\n",
          "print('passed 2')\nraise SystemExit\n",
          "class Any:\n    def __eq__(self, other): return False\ndef add(a, b): return Any()\n",
          "print('bwrap: cannot start')\nimport os\nos._exit(1)\n",
          "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n" };
  g_autoptr (PlumbReward) reward = make_code ("");

  if (reward == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (programs); i++)
    check (reward, programs[i], ADD_ROW, 0, "");
}

/* What is stopped, and by what. */
static void
test_hostile (void)
{
  static const struct
  {
    const char *program, *reason;
  } cases[] = {
    { "while True: pass\n", "longer than 2 s" },
    { "import time\ntime.sleep(1000)\n", "longer than 2 s" },
    { "import os\nwhile True: os.fork()\n", "PermissionError" },
    { "import subprocess\nsubprocess.run(['true'])\n", "PermissionError" },
    { "import os\nos.system('sleep 1000 &')\nraise ValueError('no shell')\n", "no shell" },
    { "import multiprocessing as m\nm.Process(target=print).start()\n", "PermissionError" },
    { "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()\n",
      "start new thread" },
    { "x = bytearray(100 << 30)\n", "MemoryError" },
    { "x = []\nwhile True: x.append(bytearray(1 << 20))\n", "MemoryError" },
    { "import socket\nsocket.create_connection(('1.1.1.1', 80), 1)\n", "OSError" },
    { "import urllib.request\nurllib.request.urlopen('http://localhost:80')\n", "URLError" },
    { "open('/usr/written', 'w')\n", "Read-only" },
    { "open('/written', 'w')\n", "Read-only" },
    { "open('/home/written', 'w')\n", "No such file" },
    { "import os\nassert os.listdir('/') and not os.path.exists('/root')"
      " and not os.path.exists('/etc/passwd')\nraise ValueError('alone')\n", "alone" },
    { "import os\nassert not os.environ.get('SECRET_OF_THE_TEST')\nraise ValueError('no secret')\n",
      "no secret" },
    { "open('/tmp/big', 'w').write('x' * (1 << 28))\n", "" },
    { "while True: print('x' * 1000)\n", "wrote more" },
    { "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()\n", "" },
    { "import os\nos.setsid()\nos.kill(-1, 9)\n", "" },
    { "import ctypes\nctypes.CDLL(None).unshare(0x10000000)\nraise ValueError(ctypes.get_errno())\n", "" },
  };
  g_autoptr (PlumbReward) strict = NULL, patient = NULL;
  g_autofree char *word = g_uuid_string_random ();

  g_setenv ("SECRET_OF_THE_TEST", word, TRUE);
  strict = make_code ("time = 2\nmemory = 512");
  /* What is not stopped by the time must not be where other programs keep the machine busy. */
  patient = strict != NULL ? make_code ("time = 60\nmemory = 512") : NULL;
  if (patient == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      gboolean late = strstr (cases[i].reason, "longer") != NULL || *cases[i].reason == '\0';

      check (late ? strict : patient, cases[i].program, ADD_ROW, 0, cases[i].reason);
    }
  g_assert_false (g_file_test ("/usr/written", G_FILE_TEST_EXISTS));
  g_assert_false (g_file_test ("/tmp/big", G_FILE_TEST_EXISTS));
}

/* No process of this one's is left. */
static guint
count_children (void)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/task/%d/children", (int)getpid ());
  g_autofree char *text = NULL;
  g_auto (GStrv) children = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return 0;
  children = g_strsplit (g_strstrip (text), " ", -1);
  return *text == '\0' ? 0 : g_strv_length (children);
}

static guint
count_sleepers (void)
{
  g_autoptr (GDir) proc = g_dir_open ("/proc", 0, NULL);
  const char *name;
  guint n = 0;

  while ((name = g_dir_read_name (proc)) != NULL)
    {
      g_autofree char *path = g_strdup_printf ("/proc/%s/cmdline", name), *line = NULL;
      gsize length = 0;

      if (g_ascii_isdigit (*name) && g_file_get_contents (path, &line, &length, NULL))
        n += g_strrstr_len (line, length, "mark_of_the_sandbox_test") != NULL;
    }
  return n;
}

static void
test_nothing_left (void)
{
  g_autoptr (PlumbReward) reward = make_code ("time = 0.5");

  if (reward == NULL)
    return;
  /* It changes its own name into one that can be found. */
  check (reward,
         "import os\nos.execv('/usr/bin/sleep', ['mark_of_the_sandbox_test', '1000'])\n", ADD_ROW, 0,
         "longer");
  g_usleep (200000);
  g_assert_cmpuint (count_sleepers (), ==, 0);
  g_assert_cmpuint (count_children (), ==, 0);
}

/* Without bubblewrap: refused, with a message. */
static void
test_refused (void)
{
  g_autofree char *path = g_strdup (g_getenv ("PATH"));
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (GError) error = NULL;

  plumb_spec_set (spec, "reward.functions", "code", NULL);
  g_setenv ("PATH", "/nowhere", TRUE);
  g_assert_null (plumb_reward_new (spec, &error));
  g_setenv ("PATH", path, TRUE);
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT);
  g_assert_nonnull (strstr (error->message, "bubblewrap"));
}

typedef struct
{
  GPtrArray *parsers;
  GArray *inputs; /* of PlumbRewardInput */
} Problems;

static gboolean
read_problems (Problems *problems, GPtrArray *lines)
{
  g_autofree char *path = shared_file ("rlvr/humaneval/HumanEval.jsonl"), *text = NULL;
  char *next;

  if (path == NULL)
    return FALSE;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  next = text;
  for (char *line = strsep (&next, "\n"); line != NULL && *line != '\0'; line = strsep (&next, "\n"))
    {
      JsonParser *parser = json_parser_new ();
      JsonObject *row;
      PlumbRewardInput input = { NULL };

      g_assert_true (json_parser_load_from_data (parser, line, -1, NULL));
      row = json_node_get_object (json_parser_get_root (parser));
      g_ptr_array_add (problems->parsers, parser);
      g_ptr_array_add (lines, g_strdup (line));
      input.prompt = json_object_get_string_member (row, "prompt");
      input.response = json_object_get_string_member (row, "canonical_solution");
      input.answer = json_object_get_string_member (row, "test");
      input.row = g_ptr_array_index (lines, lines->len - 1);
      g_array_append_val (problems->inputs, input);
    }
  return TRUE;
}

static guint
count_passed (PlumbReward *reward, GArray *inputs, const char *what)
{
  g_autofree PlumbRewardScore *scores = g_new0 (PlumbRewardScore, inputs->len);
  g_autofree double *seconds = g_new0 (double, inputs->len);
  PlumbRewardBatch batch = { inputs->len, (gpointer)inputs->data, scores, NULL, seconds };
  gint64 start = g_get_monotonic_time ();
  guint passed = 0;

  g_assert_true (plumb_reward_score_batch (reward, &batch, NULL, NULL));
  for (guint i = 0; i < inputs->len; i++)
    {
      passed += !scores[i].failed && scores[i].value == 1;
      if (scores[i].reason != NULL)
        g_test_message ("%s %u: %s", what, i, scores[i].reason);
      plumb_reward_score_clear (&scores[i]);
    }
  g_test_message ("%s: %u of %u pass in %.1f s; a call takes %.0f ms (median), %.0f ms (99 of 100)",
                  what, passed, inputs->len, (double)(g_get_monotonic_time () - start) / G_USEC_PER_SEC,
                  1000 * plumb_reward_quantile (seconds, inputs->len, 0.5),
                  1000 * plumb_reward_quantile (seconds, inputs->len, 0.99));
  return passed;
}

static void
test_humaneval (void)
{
  g_autoptr (PlumbReward) reward = make_code ("time = 60");
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  Problems problems = { g_ptr_array_new_with_free_func (g_object_unref),
                        g_array_new (FALSE, FALSE, sizeof (PlumbRewardInput)) };

  if (reward != NULL && read_problems (&problems, lines))
    {
      g_assert_cmpuint (problems.inputs->len, ==, 164);
      g_assert_cmpuint (count_passed (reward, problems.inputs, "reference solutions"), ==, 164);
      /* From the prompt and the tests alone, without the row. */
      for (guint i = 0; i < problems.inputs->len; i++)
        g_array_index (problems.inputs, PlumbRewardInput, i).row = NULL;
      g_assert_cmpuint (count_passed (reward, problems.inputs, "without the row"), ==, 164);
      for (guint i = 0; i < problems.inputs->len; i++)
        g_array_index (problems.inputs, PlumbRewardInput, i).response = "    return None\n";
      g_assert_cmpuint (count_passed (reward, problems.inputs, "solutions that do nothing"), ==, 0);
    }
  g_ptr_array_unref (problems.parsers);
  g_array_unref (problems.inputs);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/code/programs", test_programs);
  g_test_add_func ("/code/liars", test_liars);
  g_test_add_func ("/code/hostile", test_hostile);
  g_test_add_func ("/code/nothing-left", test_nothing_left);
  g_test_add_func ("/code/refused", test_refused);
  g_test_add_func ("/code/humaneval", test_humaneval);
  return g_test_run ();
}
