/* SPDX-License-Identifier: Apache-2.0 */
/* A reward server that speaks OpenRLHF's format: {"query": [prompt + response], "prompts": [prompt],
 * "labels": [answer]} is answered with {"rewards": [number]}; further members are left alone. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/json-scan.h"
#include "engine/reward/functions.h"
#include "engine/reward/remote.h"

#define LARGEST_REWARD 1e6

static gboolean
open_http (PlumbSpec *spec, gpointer *state, GError **error)
{
  *state = plumb_remote_new (spec, "http", error);
  return *state != NULL;
}

static void
close_http (gpointer state)
{
  plumb_remote_free (state);
}

static void
cancel_http (gpointer state)
{
  plumb_remote_cancel (state);
}

static void
add_list (JsonBuilder *builder, const char *name, const char *text)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  json_builder_add_string_value (builder, text);
  json_builder_end_array (builder);
}

static char *
request (const PlumbRewardInput *input)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;
  g_autofree char *query = g_strconcat (input->prompt, input->response, NULL);

  json_builder_begin_object (builder);
  add_list (builder, "query", query);
  add_list (builder, "prompts", input->prompt);
  add_list (builder, "labels", input->answer != NULL ? input->answer : "");
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

/* The numbers of a list, of which the last is kept. FALSE: one of them is none. */
static gboolean
read_numbers (PlumbJsonScan *scan, double *last, guint *n)
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
      *last = g_ascii_strtod (number, NULL);
      (*n)++;
    }
  return TRUE;
}

char *
plumb_http_read_reward (const char *text, gsize length, gpointer data)
{
  g_autoptr (GString) key = g_string_new (NULL);
  double *reward = data;
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
        numbers = plumb_json_peek (&scan) == PLUMB_JSON_ARRAY && read_numbers (&scan, reward, &n);
      }
  if (scan.message == NULL && !numbers)
    return g_strdup ("\"rewards\" is no list of numbers");
  if (!plumb_json_finish (&scan))
    return g_strdup_printf ("the answer is no sound JSON: %s", scan.message);
  if (!found)
    return g_strdup ("the answer has no \"rewards\"");
  if (n != 1)
    return g_strdup_printf ("one response was sent and %u rewards came back", n);
  if (!isfinite (*reward) || fabs (*reward) > LARGEST_REWARD)
    return g_strdup_printf ("the reward %g is beyond all bounds", *reward);
  return NULL;
}

static void
score_http (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  g_autofree char *body = request (input);
  g_autofree char *problem = plumb_remote_call (state, body, plumb_http_read_reward, &score->value);

  if (problem == NULL)
    return;
  score->value = 0;
  score->failed = TRUE;
  score->reason = g_strdup_printf ("http: %s", problem);
}

static const char *const http_options[] = { "url", "key_env", NULL };

const PlumbRewardFunction plumb_reward_http = {
  .name = "http",
  .options = http_options,
  .limit = PLUMB_REWARD_REMOTE,
  .open = open_http,
  .score = score_http,
  .cancel = cancel_http,
  .close = close_http,
};
