/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "tests/unit/reward-server.h"

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

/* The reward is the number of bytes of each query. */
static void
send_honest (GOutputStream *out, const char *body)
{
  g_autoptr (JsonNode) root = json_from_string (body, NULL);
  JsonObject *object = json_node_get_object (root);
  JsonArray *queries = json_object_get_array_member (object, "query");
  g_autoptr (GString) text = g_string_new ("{\"rewards\": [");
  guint n = json_array_get_length (queries);

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s%zu", i > 0 ? ", " : "", strlen (json_array_get_string_element (queries, i)));
  g_string_append (text, "], \"scores\": [0.5], \"extra_logs\": {\"n\": [1]}}");
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (object, "prompts")), ==, n);
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (object, "labels")), ==, n);
  send_answer (out, 200, text->str);
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

/* By turns what servers do: of eight calls five are answered well. */
static const char *
mixed_path (gint call)
{
  static const char *const paths[]
      = { "/honest", "/nan", "/honest", "/honest", "/drop", "/honest", "/wrong-length", "/honest" };

  return paths[call % G_N_ELEMENTS (paths)];
}

static void
answer (RewardServer *server, GOutputStream *out, const char *path, const char *body)
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

  if (g_str_equal (path, "/mixed"))
    path = mixed_path (call);
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
  RewardServer *server = data;
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

void
reward_server_start (RewardServer *server, gconstpointer data)
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
  server->loop = g_main_loop_new (context, FALSE);
  g_main_context_unref (context);
  server->thread = g_thread_new ("server", run_loop, server->loop);
}

/* From within, so that it cannot come before the loop has begun. */
static gboolean
quit_loop (gpointer data)
{
  g_main_loop_quit (data);
  return G_SOURCE_REMOVE;
}

void
reward_server_stop (RewardServer *server, gconstpointer data)
{
  g_autoptr (GSource) quit = g_idle_source_new ();

  g_source_set_callback (quit, quit_loop, server->loop, NULL);
  g_source_attach (quit, g_main_loop_get_context (server->loop));
  g_thread_join (server->thread);
  g_socket_service_stop (server->service);
  g_socket_listener_close (G_SOCKET_LISTENER (server->service));
  while (g_main_context_iteration (g_main_loop_get_context (server->loop), FALSE))
    continue; /* what was waiting for a call learns of the end */
  while (g_atomic_int_get (&server->running) > 0)
    g_usleep (10000);
  g_main_loop_unref (server->loop);
  g_object_unref (server->service);
  g_free (server->key);
  g_mutex_clear (&server->mutex);
}
