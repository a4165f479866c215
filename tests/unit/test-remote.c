/* SPDX-License-Identifier: Apache-2.0 */
/* Reward servers and judges against a real server of this process, on the loopback: honest, slow,
 * lying, failing and silent ones. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/reward/batch.h"
#include "engine/reward/remote.h"
#include "tests/unit/reward-server.h"

/* Paths with commas are several servers; "!" is a port where nobody listens. */
static PlumbReward *
make_remote (RewardServer *server, const char *name, const char *paths, const char *more, GError **error)
{
  g_auto (GStrv) list = g_strsplit (paths, ",", -1);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (GPtrArray) problems = plumb_problems_new ();

  g_string_append_printf (text, "[reward]\nfunctions = %s\n%s\n[reward %s]\n", name,
                          strstr (more, "timeout") != NULL ? more : "timeout = 20\nretries = 0", name);
  g_string_append (text, "url = ");
  for (gsize i = 0; list[i] != NULL; i++)
    g_string_append_printf (text, "%shttp://127.0.0.1:%d%s", i > 0 ? ", " : "",
                            *list[i] == '!' ? 1 : server->port, *list[i] == '!' ? "/" : list[i]);
  g_string_append_printf (text, "\n%s\n", strstr (more, "timeout") != NULL ? "" : more);
  plumb_spec_load_data (spec, text->str, text->len, "r.spec", NULL, problems);
  g_assert_cmpuint (problems->len, ==, 0);
  return plumb_reward_new (spec, error);
}

static PlumbReward *
make_http (RewardServer *server, const char *paths, const char *more)
{
  g_autoptr (GError) error = NULL;
  PlumbReward *reward = make_remote (server, "http", paths, more, &error);

  g_assert_no_error (error);
  return reward;
}

static PlumbRewardScore
ask (PlumbReward *reward, const char *response)
{
  PlumbRewardInput input = { .prompt = "12345", .response = response, .answer = "a" };
  PlumbRewardScore score;

  plumb_reward_score (reward, &input, &score, NULL);
  return score;
}

static void
check_fails (PlumbReward *reward, const char *reason)
{
  PlumbRewardScore score = ask (reward, "r");

  g_assert_true (score.failed);
  g_assert_true (isnan (score.value));
  if (strstr (score.reason, reason) == NULL)
    g_error ("%s: not %s", score.reason, reason);
  plumb_reward_score_clear (&score);
}

/* Several completions in one request: each gets its own reward; an answer of the wrong length fails all of them. */
static void
test_together (RewardServer *server, gconstpointer data)
{
  static const char *const responses[] = { "", "a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg" };
  static const char *const paths[] = { "/honest", "/wrong-length" };

  for (gsize p = 0; p < G_N_ELEMENTS (paths); p++)
    {
      g_autoptr (PlumbReward) reward = make_http (server, paths[p], "batch = 4");
      PlumbRewardInput inputs[32] = { { 0 } };
      PlumbRewardScore scores[32] = { { 0 } };
      PlumbRewardBatch batch = { .n = 32, .inputs = inputs, .scores = scores };
      gint before = g_atomic_int_get (&server->calls);

      for (guint i = 0; i < 32; i++)
        inputs[i] = (PlumbRewardInput){ .prompt = "12345", .response = responses[i % 8], .answer = "a" };
      g_assert_true (plumb_reward_score_batch (reward, &batch, NULL, NULL));
      g_assert_cmpint (g_atomic_int_get (&server->calls) - before, <, 32);
      /* After failures in a row the server is left alone, and fewer calls reach it. */
      g_assert_cmpint (g_atomic_int_get (&server->calls) - before, >=, p == 0 ? 8 : 1);
      for (guint i = 0; i < 32; i++)
        {
          g_assert_cmpint (scores[i].failed, ==, p == 1);
          if (p == 0)
            g_assert_cmpfloat (scores[i].value, ==, 5 + i % 8);
          else
            g_assert_true (strstr (scores[i].reason, "2 rewards came back") || strstr (scores[i].reason, "left alone"));
          plumb_reward_score_clear (&scores[i]);
        }
    }
}

static void
test_honest (RewardServer *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/honest", "");
  PlumbRewardScore score = ask (reward, "678 \"\n\xc3\xa9");

  g_assert_false (score.failed);
  g_assert_cmpfloat (score.value, ==, 5 + 8);
}

static void
test_liars (RewardServer *server, gconstpointer data)
{
  static const char *const cases[][2] = {
    { "/wrong-length", "2 rewards" }, { "/empty-list", "0 rewards" }, { "/nan", "no list of numbers" },
    { "/huge", "beyond all bounds" }, { "/infinite", "beyond all bounds" },
    { "/text", "no list of numbers" }, { "/other", "no \"rewards\"" }, { "/html", "no JSON object" },
    { "/cut", "no sound JSON" }, { "/drop", "http: http://127.0.0.1" }, { "/refused", "401" },
    { "/flood", "http: " }, { "!", "connect" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PlumbReward) reward = make_http (server, cases[i][0], "");

      check_fails (reward, cases[i][1]);
    }
}

static void
test_slow (RewardServer *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/slow", "timeout = 0.3\nretries = 1");
  gint64 start = g_get_monotonic_time ();

  check_fails (reward, "did not answer within 0.3 s");
  g_assert_cmpint (g_get_monotonic_time () - start, <, 2 * G_USEC_PER_SEC);
  g_assert_cmpint (g_atomic_int_get (&server->calls), ==, 2); /* the first try, and another */
}

/* Half a second each, 64 of them: at once, or it takes half a minute. */
static void
test_many (RewardServer *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/late", "");
  PlumbRewardInput inputs[64];
  PlumbRewardScore scores[64];
  double seconds[64];
  PlumbRewardBatch batch = { 64, inputs, scores, NULL, seconds };
  g_autofree char *long_text = g_strnfill (64, 'x');
  gint64 start = g_get_monotonic_time ();

  for (int i = 0; i < 64; i++)
    inputs[i] = (PlumbRewardInput){ .prompt = "", .response = long_text + i };
  g_assert_true (plumb_reward_score_batch (reward, &batch, NULL, NULL));
  for (int i = 0; i < 64; i++)
    g_assert_cmpfloat (scores[i].value, ==, 64 - i); /* each its own answer */
  g_assert_cmpint (server->most_running, ==, 64);
  g_assert_cmpint (g_get_monotonic_time () - start, <, 10 * G_USEC_PER_SEC);
  g_assert_cmpfloat (plumb_reward_quantile (seconds, 64, 0.5), >=, 0.5);
}

static void
test_retries (RewardServer *server, gconstpointer data)
{
  /* Every third call is answered with 503. */
  g_autoptr (PlumbReward) reward = make_http (server, "/flaky", "timeout = 20\nretries = 2");

  for (int i = 0; i < 6; i++)
    g_assert_cmpfloat (ask (reward, "6").value, ==, 6);
  g_assert_cmpint (g_atomic_int_get (&server->calls), >, 6);
}

/* One server that works is enough; the other is left alone after a while. */
static void
test_several (RewardServer *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/drop,/honest,!", "timeout = 20\nretries = 3");

  for (int i = 0; i < 30; i++)
    g_assert_cmpfloat (ask (reward, "6").value, ==, 6);
  g_assert_cmpint (g_atomic_int_get (&server->calls), <, 45);
}

static void
test_circuit (RewardServer *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/html", "");

  for (int i = 0; i < 20; i++)
    {
      PlumbRewardScore score = ask (reward, "r");

      g_assert_true (score.failed);
      plumb_reward_score_clear (&score);
    }
  g_assert_cmpint (g_atomic_int_get (&server->calls), ==, 5);
  check_fails (reward, "left alone");
  g_usleep (1100000); /* then one call finds out, and it rests again */
  check_fails (reward, "no JSON object");
  check_fails (reward, "left alone");
  g_assert_cmpint (g_atomic_int_get (&server->calls), ==, 6);
}

static gboolean
stop_soon (gpointer start, gsize done, gsize of)
{
  return g_get_monotonic_time () - *(gint64 *)start < G_USEC_PER_SEC / 5;
}

static void
test_cancelled (RewardServer *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/slow", "timeout = 100\nretries = 9");
  PlumbRewardInput inputs[4] = { { .prompt = "", .response = "" },
                                 { .prompt = "", .response = "" },
                                 { .prompt = "", .response = "" },
                                 { .prompt = "", .response = "" } };
  PlumbRewardScore scores[4] = { { 0 } };
  PlumbRewardBatch batch = { 4, inputs, scores, NULL, NULL };
  gint64 start = g_get_monotonic_time ();

  g_assert_false (plumb_reward_score_batch (reward, &batch, stop_soon, &start));
  g_assert_cmpint (g_get_monotonic_time () - start, <, 2500000);
  for (int i = 0; i < 4; i++)
    {
      g_assert_true (scores[i].failed);
      plumb_reward_score_clear (&scores[i]);
    }
}

/* Failures of one kind are told once, with their number. */
static void
test_counted (RewardServer *server, gconstpointer data)
{
  PlumbRewardScore scores[5] = { { 0, TRUE, (char *)"http: status 500" },
                                 { 1, FALSE, NULL },
                                 { 0, TRUE, (char *)"http: status 503" },
                                 { 0, TRUE, (char *)"code: no sandbox" },
                                 { 0, TRUE, NULL } };
  g_autoptr (GPtrArray) failures = plumb_reward_failures (scores, 5);
  const PlumbRewardFailure *first = g_ptr_array_index (failures, 0);

  g_assert_cmpuint (failures->len, ==, 3);
  g_assert_cmpuint (first->count, ==, 2);
  g_assert_cmpstr (first->example, ==, "http: status 500");
}

#define JUDGE "model = m\nrubric = Short answers are good.\n"

static PlumbReward *
make_judge (RewardServer *server, const char *path, const char *more)
{
  g_autofree char *options = g_strconcat (JUDGE, more, NULL);
  g_autoptr (GError) error = NULL;
  PlumbReward *reward = make_remote (server, "judge", path, options, &error);

  g_assert_no_error (error);
  return reward;
}

static void
test_judge (RewardServer *server, gconstpointer data)
{
  static const char *const cases[][2] = { { "/judge-silent", "no line SCORE" },
                                          { "/judge-much", "99 of 10" },
                                          { "/judge-none", "no choices" },
                                          { "/html", "judge: " } };
  g_autoptr (PlumbReward) reward = NULL;
  g_autoptr (GError) error = NULL;

  reward = make_judge (server, "/judge", "key_env = PLUMB_TEST_JUDGE_KEY");
  g_assert_cmpfloat (ask (reward, "SCORE: 10").value, ==, 0.75);
  g_assert_cmpstr (server->key, ==, "Bearer secret");
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PlumbReward) other = make_judge (server, cases[i][0], "");

      check_fails (other, cases[i][1]);
    }
  g_assert_null (make_remote (server, "judge", "/judge", JUDGE "key_env = PLUMB_NO_SUCH_KEY", &error));
  g_assert_nonnull (strstr (error->message, "key_env"));
}

#define SERVER_TEST(path, function) \
  g_test_add (path, RewardServer, NULL, reward_server_start, function, reward_server_stop)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_unsetenv ("http_proxy");
  g_setenv ("PLUMB_TEST_JUDGE_KEY", "secret", TRUE);
  SERVER_TEST ("/remote/honest", test_honest);
  SERVER_TEST ("/remote/together", test_together);
  SERVER_TEST ("/remote/liars", test_liars);
  SERVER_TEST ("/remote/slow", test_slow);
  SERVER_TEST ("/remote/many", test_many);
  SERVER_TEST ("/remote/retries", test_retries);
  SERVER_TEST ("/remote/several", test_several);
  SERVER_TEST ("/remote/circuit", test_circuit);
  SERVER_TEST ("/remote/cancelled", test_cancelled);
  SERVER_TEST ("/remote/counted", test_counted);
  SERVER_TEST ("/remote/judge", test_judge);
  return g_test_run ();
}
