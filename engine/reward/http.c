/* SPDX-License-Identifier: Apache-2.0 */
/* A reward server that speaks OpenRLHF's format: {"query": [prompt + response], "prompts": [prompt],
 * "labels": [answer]} is answered with {"rewards": [number]}; further members are left alone. With `batch` several
 * completions go in one request, and a fault of the answer fails all of them. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/json-scan.h"
#include "engine/reward/functions.h"
#include "engine/reward/remote.h"

#define LARGEST_REWARD 1e6

#define MOST_BATCH 256
#define GATHER_MS 20 /* that the first of a request waits for others */

/* Completions that go in one request. The thread that began it sends it; the others wait for what comes. */
typedef struct
{
  guint n;
  const PlumbRewardInput *inputs[MOST_BATCH];
  double rewards[MOST_BATCH];
  char *problem; /* NULL: all is well */
  gboolean done;
  guint readers; /* that have not taken theirs */
} Bundle;

typedef struct
{
  PlumbRemote *remote;
  guint batch;
  GMutex mutex;
  GCond changed;
  Bundle *open; /* takes more; NULL: none */
} Http;

static void
close_http (gpointer state)
{
  Http *http = state;

  g_clear_pointer (&http->remote, plumb_remote_free);
  g_mutex_clear (&http->mutex);
  g_cond_clear (&http->changed);
  g_free (http);
}

static gboolean
open_http (PlumbSpec *spec, gpointer *state, GError **error)
{
  Http *http = g_new0 (Http, 1);
  double batch;

  g_mutex_init (&http->mutex);
  g_cond_init (&http->changed);
  if (!plumb_reward_number_option (spec, "http", "batch", 1, 1, &batch, error)
      || (batch > MOST_BATCH || batch != floor (batch)
              ? !plumb_reward_bad_option (spec, "http", "batch", "a whole number from 1 to 256 is needed", error)
              : (http->remote = plumb_remote_new (spec, "http", error)) == NULL))
    {
      close_http (http);
      return FALSE;
    }
  http->batch = (guint)batch;
  *state = http;
  return TRUE;
}

static void
cancel_http (gpointer state)
{
  plumb_remote_cancel (((Http *)state)->remote);
}

typedef enum
{
  LIST_QUERY,
  LIST_PROMPT,
  LIST_LABEL,
} ListKind;

static void
add_list (JsonBuilder *builder, const char *name, const Bundle *bundle, ListKind kind)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; i < bundle->n; i++)
    {
      const PlumbRewardInput *input = bundle->inputs[i];
      g_autofree char *query = kind == LIST_QUERY ? g_strconcat (input->prompt, input->response, NULL) : NULL;

      json_builder_add_string_value (builder, kind == LIST_QUERY      ? query
                                              : kind == LIST_PROMPT   ? input->prompt
                                              : input->answer != NULL ? input->answer
                                                                      : "");
    }
  json_builder_end_array (builder);
}

static char *
request (const Bundle *bundle)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  add_list (builder, "query", bundle, LIST_QUERY);
  add_list (builder, "prompts", bundle, LIST_PROMPT);
  add_list (builder, "labels", bundle, LIST_LABEL);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

/* The numbers of a list, of which the first `room` are kept. FALSE: one of them is none. */
static gboolean
read_numbers (PlumbJsonScan *scan, double *numbers, guint room, guint *n)
{
  *n = 0;
  if (!plumb_json_enter_array (scan))
    return FALSE;
  while (plumb_json_next_element (scan))
    {
      const char *text;
      gsize length;
      g_autofree char *number = NULL;

      if (plumb_json_peek (scan) != PLUMB_JSON_NUMBER
          || !plumb_json_get_number (scan, &text, &length))
        return FALSE;
      number = g_strndup (text, length);
      if (*n < room)
        numbers[*n] = g_ascii_strtod (number, NULL);
      (*n)++;
    }
  return TRUE;
}

/* The rewards of an answer, one for each completion that was sent; what is wrong with it. */
static char *
read_rewards (const char *text, gsize length, double *rewards, guint sent)
{
  g_autoptr (GString) key = g_string_new (NULL);
  gboolean found = FALSE, numbers = TRUE;
  guint n = 0;
  PlumbJsonScan scan;

  plumb_json_scan_init (&scan, text, length);
  if (plumb_json_peek (&scan) != PLUMB_JSON_OBJECT || !plumb_json_enter_object (&scan))
    return g_strdup ("the answer is no JSON object");
  while (numbers && plumb_json_next_member (&scan, key))
    if (!g_str_equal (key->str, "rewards"))
      plumb_json_skip (&scan);
    else
      {
        found = TRUE;
        numbers = plumb_json_peek (&scan) == PLUMB_JSON_ARRAY && read_numbers (&scan, rewards, sent, &n);
      }
  if (scan.message == NULL && !numbers)
    return g_strdup ("\"rewards\" is no list of numbers");
  if (!plumb_json_finish (&scan))
    return g_strdup_printf ("the answer is no sound JSON: %s", scan.message);
  if (!found)
    return g_strdup ("the answer has no \"rewards\"");
  if (n != sent)
    return g_strdup_printf (sent == 1 ? "%u response was sent and %u rewards came back"
                                      : "%u responses were sent and %u rewards came back",
                            sent, n);
  for (guint i = 0; i < n; i++)
    if (!isfinite (rewards[i]) || fabs (rewards[i]) > LARGEST_REWARD)
      return g_strdup_printf ("the reward %g is beyond all bounds", rewards[i]);
  return NULL;
}

char *
plumb_http_read_reward (const char *text, gsize length, gpointer data)
{
  return read_rewards (text, length, data, 1);
}

static char *
read_bundle (const char *text, gsize length, gpointer data)
{
  Bundle *bundle = data;

  return read_rewards (text, length, bundle->rewards, bundle->n);
}

/* Waits for others, sends, and tells them; the mutex is held. */
static void
send_bundle (Http *http, Bundle *bundle)
{
  gint64 end = g_get_monotonic_time () + GATHER_MS * G_TIME_SPAN_MILLISECOND;
  g_autofree char *body = NULL;

  while (bundle->n < http->batch && g_cond_wait_until (&http->changed, &http->mutex, end))
    ;
  if (http->open == bundle)
    http->open = NULL;
  g_mutex_unlock (&http->mutex);
  body = request (bundle);
  bundle->problem = plumb_remote_call (http->remote, body, read_bundle, bundle);
  g_mutex_lock (&http->mutex);
  bundle->done = TRUE;
  g_cond_broadcast (&http->changed);
}

static void
score_http (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  Http *http = state;
  Bundle *bundle;
  guint place;

  g_mutex_lock (&http->mutex);
  if (http->open == NULL)
    http->open = g_new0 (Bundle, 1);
  bundle = http->open;
  place = bundle->n++;
  bundle->inputs[place] = input;
  bundle->readers++;
  if (bundle->n == http->batch)
    {
      http->open = NULL;
      g_cond_broadcast (&http->changed);
    }
  if (place == 0)
    send_bundle (http, bundle);
  while (!bundle->done)
    g_cond_wait (&http->changed, &http->mutex);
  score->value = bundle->problem == NULL ? bundle->rewards[place] : 0;
  score->failed = bundle->problem != NULL;
  if (score->failed)
    score->reason = g_strdup_printf ("http: %s", bundle->problem);
  if (--bundle->readers == 0)
    {
      g_free (bundle->problem);
      g_free (bundle);
    }
  g_mutex_unlock (&http->mutex);
}

static const char *const http_options[] = { "url", "key_env", "batch", NULL };

const PlumbRewardFunction plumb_reward_http = {
  .name = "http",
  .options = http_options,
  .limit = PLUMB_REWARD_REMOTE,
  .open = open_http,
  .score = score_http,
  .cancel = cancel_http,
  .close = close_http,
};
