/* SPDX-License-Identifier: Apache-2.0 */
/* Reward servers and judges against a real server of this process, on the loopback: honest, slow,
 * lying, failing and silent ones. */
#include "config.h"

#include <math.h>
#include <string.h>

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "engine/reward/batch.h"
#include "engine/reward/remote.h"

typedef struct
{
  GSocketService *service;
  guint16 port;
  gint calls, running, most_running; /* atomic */
  char *key;                                 /* of the last call's Authorization; NULL: none */
  GMutex mutex;
} Server;

/* --- the server */

static char *
read_request (GDataInputStream *in, char **path, char **key)
{
  g_autofree char *line = g_data_input_stream_read_line (in, NULL, NULL, NULL);
  gsize length = 0, got = 0;
  char *body;

  if (line == NULL || !g_str_has_prefix (line, "POST "))
    return NULL;
  *path = g_strndup (line + 5, strcspn (line + 5, " "));
  for (;;)
    {
      g_autofree char *header = g_data_input_stream_read_line (in, NULL, NULL, NULL);

      if (header == NULL || *g_strchomp (header) == '\0')
        break;
      if (g_ascii_strncasecmp (header, "content-length:", 15) == 0)
        length = g_ascii_strtoull (header + 15, NULL, 10);
      if (g_ascii_strncasecmp (header, "authorization: ", 15) == 0)
        *key = g_strdup (header + 15);
    }
  body = g_malloc0 (length + 1);
  g_input_stream_read_all (G_INPUT_STREAM (in), body, length, &got, NULL, NULL);
  return body;
}

static void
send_answer (GOutputStream *out, int status, const char *body)
{
  g_autofree char *text
      = g_strdup_printf ("HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                         "Connection: close\r\n\r\n%s",
                         status, strlen (body), body);

  g_output_stream_write_all (out, text, strlen (text), NULL, NULL, NULL);
}

/* The reward is the number of bytes of the query. */
static void
send_honest (GOutputStream *out, const char *body)
{
  g_autoptr (JsonNode) root = json_from_string (body, NULL);
  JsonObject *object = json_node_get_object (root);
  const char *query = json_array_get_string_element (json_object_get_array_member (object, "query"), 0);
  g_autofree char *text
      = g_strdup_printf ("{\"rewards\": [%zu], \"scores\": [0.5], \"extra_logs\": {\"n\": [1]}}", strlen (query));

  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (object, "prompts")), ==, 1);
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (object, "labels")), ==, 1);
  send_answer (out, 200, text);
}

static void
send_flood (GOutputStream *out)
{
  g_autofree char *block = g_strnfill (65536, ' ');

  send_answer (out, 200, "");
  for (int i = 0; i < 64; i++)
    if (!g_output_stream_write_all (out, block, 65536, NULL, NULL, NULL))
      return;
}

static void
answer (Server *server, GOutputStream *out, const char *path, const char *body)
{
  static const char *const fixed[][2] = {
    { "/wrong-length", "{\"rewards\": [1, 2]}" },
    { "/empty-list", "{\"rewards\": []}" },
    { "/nan", "{\"rewards\": [NaN]}" },
    { "/huge", "{\"rewards\": [1e300]}" },
    { "/infinite", "{\"rewards\": [1e999]}" },
    { "/text", "{\"rewards\": [\"1\"]}" },
    { "/other", "{\"reward\": 1}" },
    { "/html", "<html>busy</html>" },
    { "/cut", "{\"rewards\": [1" },
    { "/judge", "{\"choices\": [{\"message\": {\"content\": \"It quotes SCORE: 1 but is good.\\nSCORE: 7.5\"}}]}" },
    { "/judge-silent", "{\"choices\": [{\"message\": {\"content\": \"I like it.\"}}]}" },
    { "/judge-much", "{\"choices\": [{\"message\": {\"content\": \"SCORE: 99\"}}]}" },
    { "/judge-none", "{\"choices\": []}" },
  };
  gint call = g_atomic_int_add (&server->calls, 1);

  for (gsize i = 0; i < G_N_ELEMENTS (fixed); i++)
    if (g_str_equal (path, fixed[i][0]))
      send_answer (out, 200, fixed[i][1]);
  if (g_str_equal (path, "/slow"))
    g_usleep (3 * G_USEC_PER_SEC);
  if (g_str_equal (path, "/late"))
    g_usleep (G_USEC_PER_SEC / 2);
  if (g_str_equal (path, "/honest") || g_str_equal (path, "/late")
      || (g_str_equal (path, "/flaky") && call % 3 != 0))
    send_honest (out, body);
  else if (g_str_equal (path, "/flaky"))
    send_answer (out, 503, "busy");
  else if (g_str_equal (path, "/refused"))
    send_answer (out, 401, "no key");
  else if (g_str_equal (path, "/flood"))
    send_flood (out);
}

static gboolean
serve (GThreadedSocketService *service,
       GSocketConnection *connection,
       GObject *source,
       gpointer data)
{
  Server *server = data;
  g_autoptr (GDataInputStream) in
      = g_data_input_stream_new (g_io_stream_get_input_stream (G_IO_STREAM (connection)));
  g_autofree char *path = NULL, *key = NULL, *body = NULL;
  gint running = g_atomic_int_add (&server->running, 1) + 1;

  g_data_input_stream_set_newline_type (in, G_DATA_STREAM_NEWLINE_TYPE_CR_LF);
  g_mutex_lock (&server->mutex);
  server->most_running = MAX (server->most_running, running);
  g_mutex_unlock (&server->mutex);
  body = read_request (in, &path, &key);
  if (body != NULL)
    {
      g_mutex_lock (&server->mutex);
      g_free (server->key);
      server->key = g_steal_pointer (&key);
      g_mutex_unlock (&server->mutex);
      answer (server, g_io_stream_get_output_stream (G_IO_STREAM (connection)), path, body);
    }
  g_atomic_int_add (&server->running, -1);
  return TRUE;
}

static gpointer
run_loop (gpointer loop)
{
  GMainContext *context = g_main_loop_get_context (loop);

  g_main_context_push_thread_default (context);
  g_main_loop_run (loop);
  g_main_context_pop_thread_default (context);
  return NULL;
}

static GMainLoop *loop;
static GThread *thread;

static void
start_server (Server *server, gconstpointer data)
{
  GMainContext *context = g_main_context_new ();
  g_autoptr (GInetAddress) loopback = g_inet_address_new_loopback (G_SOCKET_FAMILY_IPV4);
  g_autoptr (GSocketAddress) address = g_inet_socket_address_new (loopback, 0), bound = NULL;

  g_mutex_init (&server->mutex);
  g_main_context_push_thread_default (context);
  server->service = g_threaded_socket_service_new (200);
  g_socket_listener_set_backlog (G_SOCKET_LISTENER (server->service), 128);
  g_assert_true (g_socket_listener_add_address (G_SOCKET_LISTENER (server->service), address,
                                                G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_TCP, NULL,
                                                &bound, NULL));
  server->port = g_inet_socket_address_get_port (G_INET_SOCKET_ADDRESS (bound));
  g_signal_connect (server->service, "run", G_CALLBACK (serve), server);
  g_socket_service_start (server->service);
  g_main_context_pop_thread_default (context);
  loop = g_main_loop_new (context, FALSE);
  g_main_context_unref (context);
  thread = g_thread_new ("server", run_loop, loop);
}

/* From within, so that it cannot come before the loop has begun. */
static gboolean
quit_loop (gpointer data)
{
  g_main_loop_quit (data);
  return G_SOURCE_REMOVE;
}

static void
stop_server (Server *server, gconstpointer data)
{
  g_autoptr (GSource) quit = g_idle_source_new ();

  g_source_set_callback (quit, quit_loop, loop, NULL);
  g_source_attach (quit, g_main_loop_get_context (loop));
  g_thread_join (thread);
  g_socket_service_stop (server->service);
  g_socket_listener_close (G_SOCKET_LISTENER (server->service));
  while (g_main_context_iteration (g_main_loop_get_context (loop), FALSE))
    continue; /* what was waiting for a call learns of the end */
  while (g_atomic_int_get (&server->running) > 0)
    g_usleep (10000);
  g_main_loop_unref (loop);
  g_object_unref (server->service);
  g_free (server->key);
  g_mutex_clear (&server->mutex);
}

/* --- the tests */

/* Paths with commas are several servers; "!" is a port where nobody listens. */
static PlumbReward *
make_remote (Server *server, const char *name, const char *paths, const char *more, GError **error)
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
make_http (Server *server, const char *paths, const char *more)
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

static void
test_honest (Server *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/honest", "");
  PlumbRewardScore score = ask (reward, "678 \"\n\xc3\xa9");

  g_assert_false (score.failed);
  g_assert_cmpfloat (score.value, ==, 5 + 8);
}

static void
test_liars (Server *server, gconstpointer data)
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
test_slow (Server *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/slow", "timeout = 0.3\nretries = 1");
  gint64 start = g_get_monotonic_time ();

  check_fails (reward, "did not answer within 0.3 s");
  g_assert_cmpint (g_get_monotonic_time () - start, <, 2 * G_USEC_PER_SEC);
  g_assert_cmpint (g_atomic_int_get (&server->calls), ==, 2); /* the first try, and another */
}

/* Half a second each, 64 of them: at once, or it takes half a minute. */
static void
test_many (Server *server, gconstpointer data)
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
test_retries (Server *server, gconstpointer data)
{
  /* Every third call is answered with 503. */
  g_autoptr (PlumbReward) reward = make_http (server, "/flaky", "timeout = 20\nretries = 2");

  for (int i = 0; i < 6; i++)
    g_assert_cmpfloat (ask (reward, "6").value, ==, 6);
  g_assert_cmpint (g_atomic_int_get (&server->calls), >, 6);
}

/* One server that works is enough; the other is left alone after a while. */
static void
test_several (Server *server, gconstpointer data)
{
  g_autoptr (PlumbReward) reward = make_http (server, "/drop,/honest,!", "timeout = 20\nretries = 3");

  for (int i = 0; i < 30; i++)
    g_assert_cmpfloat (ask (reward, "6").value, ==, 6);
  g_assert_cmpint (g_atomic_int_get (&server->calls), <, 45);
}

static void
test_circuit (Server *server, gconstpointer data)
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
test_cancelled (Server *server, gconstpointer data)
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
test_counted (Server *server, gconstpointer data)
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
make_judge (Server *server, const char *path, const char *more)
{
  g_autofree char *options = g_strconcat (JUDGE, more, NULL);
  g_autoptr (GError) error = NULL;
  PlumbReward *reward = make_remote (server, "judge", path, options, &error);

  g_assert_no_error (error);
  return reward;
}

static void
test_judge (Server *server, gconstpointer data)
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
  g_test_add (path, Server, NULL, start_server, function, stop_server)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_unsetenv ("http_proxy");
  g_setenv ("PLUMB_TEST_JUDGE_KEY", "secret", TRUE);
  SERVER_TEST ("/remote/honest", test_honest);
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
