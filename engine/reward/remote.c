/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include <curl/curl.h>

#include "engine/core/error.h"
#include "engine/reward/functions.h"
#include "engine/reward/remote.h"

#define LONGEST_ANSWER (1 << 20)
#define FIRST_PAUSE 0.25 /* seconds before the second try; twice as long before each further one */
#define LONGEST_PAUSE 10.0
#define FAILURES_TO_REST 5 /* in a row */
#define FIRST_REST 1.0     /* seconds; twice as long each time it fails again */
#define LONGEST_REST 30.0

typedef struct
{
  char *url;
  guint failures;     /* in a row */
  gint64 rests_until; /* monotonic; 0: it works */
  double rest;        /* the last one, seconds */
} Server;

struct _PlumbRemote
{
  GArray *servers; /* of Server */
  guint next;
  struct curl_slist *headers;
  double timeout;
  gint64 retries;
  gint cancelled;  /* atomic */
  GPtrArray *idle; /* of CURL: their connections stay open */
  GMutex mutex;
};

/* --- opening */

static gboolean
add_servers (PlumbRemote *remote, PlumbSpec *spec, const char *name, GError **error)
{
  const char *urls = plumb_spec_get_reward_option (spec, name, "url");
  g_auto (GStrv) list = urls != NULL ? g_strsplit (urls, ",", -1) : NULL;

  for (gsize i = 0; list != NULL && list[i] != NULL; i++)
    {
      Server server = { .url = g_strdup (g_strstrip (list[i])) };

      g_array_append_val (remote->servers, server);
      if (!g_str_has_prefix (server.url, "http://") && !g_str_has_prefix (server.url, "https://"))
        return plumb_reward_bad_option (spec, name, "url",
                                        "an address begins with http:// or https://", error);
    }
  return remote->servers->len > 0
         || plumb_reward_bad_option (spec, name, "url", "the address of a server is needed", error);
}

static gboolean
add_headers (PlumbRemote *remote, PlumbSpec *spec, const char *name, GError **error)
{
  const char *variable = plumb_spec_get_reward_option (spec, name, "key_env");
  const char *key = variable != NULL ? g_getenv (variable) : NULL;
  g_autofree char *header = NULL;

  remote->headers = curl_slist_append (remote->headers, "Content-Type: application/json");
  remote->headers = curl_slist_append (remote->headers, "Expect:");
  if (variable == NULL)
    return TRUE;
  if (key == NULL || strpbrk (key, "\r\n") != NULL)
    return plumb_reward_bad_option (spec, name, "key_env",
                                    "this environment variable is not set to a key", error);
  header = g_strdup_printf ("Authorization: Bearer %s", key);
  remote->headers = curl_slist_append (remote->headers, header);
  return TRUE;
}

PlumbRemote *
plumb_remote_new (PlumbSpec *spec, const char *name, GError **error)
{
  static gsize begun = 0;
  PlumbRemote *remote = g_new0 (PlumbRemote, 1);

  if (g_once_init_enter (&begun))
    {
      curl_global_init (CURL_GLOBAL_DEFAULT);
      g_once_init_leave (&begun, 1);
    }
  g_mutex_init (&remote->mutex);
  remote->servers = g_array_new (FALSE, FALSE, sizeof (Server));
  remote->idle = g_ptr_array_new_with_free_func (curl_easy_cleanup);
  remote->timeout = plumb_spec_get_real (spec, "reward.timeout");
  remote->retries = plumb_spec_get_integer (spec, "reward.retries");
  if (add_servers (remote, spec, name, error) && add_headers (remote, spec, name, error))
    return remote;
  plumb_remote_free (remote);
  return NULL;
}

void
plumb_remote_free (PlumbRemote *remote)
{
  for (guint i = 0; i < remote->servers->len; i++)
    g_free (g_array_index (remote->servers, Server, i).url);
  g_array_unref (remote->servers);
  g_ptr_array_unref (remote->idle);
  curl_slist_free_all (remote->headers);
  g_mutex_clear (&remote->mutex);
  g_free (remote);
}

void
plumb_remote_cancel (PlumbRemote *remote)
{
  g_atomic_int_set (&remote->cancelled, TRUE);
}

/* --- which server */

/* The next one that does not rest; NULL: all do. One whose rest is over is tried by one call at a
 * time: it rests on until that call has said how it is. */
static Server *
choose_server (PlumbRemote *remote)
{
  gint64 now = g_get_monotonic_time ();
  Server *chosen = NULL;

  g_mutex_lock (&remote->mutex);
  for (guint i = 0; i < remote->servers->len && chosen == NULL; i++)
    {
      Server *server = &g_array_index (remote->servers, Server, remote->next++ % remote->servers->len);

      if (server->rests_until > now)
        continue;
      if (server->rests_until > 0)
        server->rests_until = now + (gint64)(remote->timeout * G_USEC_PER_SEC);
      chosen = server;
    }
  g_mutex_unlock (&remote->mutex);
  return chosen;
}

static void
note_result (PlumbRemote *remote, Server *server, gboolean fine)
{
  g_mutex_lock (&remote->mutex);
  server->failures = fine ? 0 : server->failures + 1;
  if (fine)
    {
      server->rests_until = 0;
      server->rest = 0;
    }
  else if (server->failures >= FAILURES_TO_REST)
    {
      server->rest = CLAMP (2 * server->rest, FIRST_REST, LONGEST_REST);
      server->rests_until = g_get_monotonic_time () + (gint64)(server->rest * G_USEC_PER_SEC);
      server->failures = FAILURES_TO_REST - 1; /* one more failure is enough afterwards */
    }
  g_mutex_unlock (&remote->mutex);
}

/* --- one call */

typedef struct
{
  PlumbRemote *remote;
  GString *answer;
  gboolean too_long;
} Transfer;

static size_t
take_bytes (char *bytes, size_t size, size_t n, void *data)
{
  Transfer *transfer = data;

  transfer->too_long = transfer->answer->len + size * n > LONGEST_ANSWER;
  if (transfer->too_long)
    return 0;
  g_string_append_len (transfer->answer, bytes, size * n);
  return size * n;
}

static int
check_cancelled (void *data, curl_off_t total, curl_off_t now, curl_off_t up, curl_off_t sent)
{
  return g_atomic_int_get (&((Transfer *)data)->remote->cancelled);
}

static CURL *
take_handle (PlumbRemote *remote)
{
  CURL *curl = NULL;

  g_mutex_lock (&remote->mutex);
  if (remote->idle->len > 0)
    curl = g_ptr_array_steal_index_fast (remote->idle, remote->idle->len - 1);
  g_mutex_unlock (&remote->mutex);
  return curl != NULL ? curl : curl_easy_init ();
}

static void
give_handle (PlumbRemote *remote, CURL *curl)
{
  curl_easy_reset (curl);
  g_mutex_lock (&remote->mutex);
  g_ptr_array_add (remote->idle, curl);
  g_mutex_unlock (&remote->mutex);
}

static void
set_up (PlumbRemote *remote, CURL *curl, const char *url, const char *body, Transfer *transfer)
{
  curl_easy_setopt (curl, CURLOPT_URL, url);
  curl_easy_setopt (curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt (curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen (body));
  curl_easy_setopt (curl, CURLOPT_POSTFIELDS, body);
  curl_easy_setopt (curl, CURLOPT_HTTPHEADER, remote->headers);
  curl_easy_setopt (curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt (curl, CURLOPT_TIMEOUT_MS, (long)MAX (1, remote->timeout * 1000));
  curl_easy_setopt (curl, CURLOPT_WRITEFUNCTION, take_bytes);
  curl_easy_setopt (curl, CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt (curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt (curl, CURLOPT_XFERINFOFUNCTION, check_cancelled);
  curl_easy_setopt (curl, CURLOPT_XFERINFODATA, transfer);
}

/* Sends the body. NULL with the answer in `answer`, or what went wrong; `again`: another try may
 * help. */
static char *
post (PlumbRemote *remote, const char *url, const char *body, GString *answer, gboolean *again)
{
  CURL *curl = take_handle (remote);
  Transfer transfer = { remote, answer, FALSE };
  CURLcode code;
  long status = 0;

  *again = TRUE;
  if (curl == NULL)
    return g_strdup ("no connection can be made");
  set_up (remote, curl, url, body, &transfer);
  code = curl_easy_perform (curl);
  curl_easy_getinfo (curl, CURLINFO_RESPONSE_CODE, &status);
  give_handle (remote, curl);
  if (code == CURLE_OPERATION_TIMEDOUT)
    return g_strdup_printf ("%s did not answer within %g s", url, remote->timeout);
  if (transfer.too_long)
    return g_strdup_printf ("%s answered with more than a megabyte", url);
  if (code != CURLE_OK)
    return g_strdup_printf ("%s: %s", url, curl_easy_strerror (code));
  if (status >= 200 && status < 300)
    return NULL;
  *again = status >= 500 || status == 408 || status == 429;
  return g_strdup_printf ("%s answered with status %ld", url, status);
}

/* One try; as post(), the answer read. */
static char *
try_once (PlumbRemote *remote,
          const char *body,
          PlumbRemoteReader reader,
          gpointer data,
          gboolean *again)
{
  g_autoptr (GString) answer = g_string_new (NULL);
  Server *server = choose_server (remote);
  char *problem;

  *again = TRUE;
  if (server == NULL)
    return g_strdup ("every server is left alone for a while, after failing again and again");
  problem = post (remote, server->url, body, answer, again);
  if (problem == NULL)
    {
      g_autofree char *wrong = reader (answer->str, answer->len, data);

      if (wrong != NULL)
        problem = g_strdup_printf ("%s: %s", server->url, wrong);
    }
  note_result (remote, server, problem == NULL);
  return problem;
}

/* FALSE when it was cut short. */
static gboolean
pause_for (PlumbRemote *remote, double seconds)
{
  gint64 end = g_get_monotonic_time () + (gint64)(seconds * G_USEC_PER_SEC);

  while (!g_atomic_int_get (&remote->cancelled) && g_get_monotonic_time () < end)
    g_usleep (MIN (50000, MAX (1, end - g_get_monotonic_time ())));
  return !g_atomic_int_get (&remote->cancelled);
}

char *
plumb_remote_call (PlumbRemote *remote, const char *body, PlumbRemoteReader reader, gpointer data)
{
  double wait = FIRST_PAUSE;

  for (gint64 try = 0;; try++)
    {
      gboolean again;
      g_autofree char *problem = NULL;

      if (g_atomic_int_get (&remote->cancelled))
        return g_strdup ("the run is being stopped");
      problem = try_once (remote, body, reader, data, &again);
      if (problem == NULL || !again || try >= remote->retries)
        return g_steal_pointer (&problem);
      pause_for (remote, wait);
      wait = MIN (2 * wait, LONGEST_PAUSE);
    }
}
