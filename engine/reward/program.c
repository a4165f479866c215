/* SPDX-License-Identifier: Apache-2.0 */
/* A reward program of the user: JSON lines {"prompt", "response", "answer"} to its stdin, one line
 * for each from its stdout: a number, or {"reward": number} or {"failed": "why"}. It is kept alive
 * between calls, ended as a group when it is late, and started again for the next call. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include <json-glib/json-glib.h>

#include "engine/core/error.h"
#include "engine/core/json-scan.h"
#include "engine/reward/functions.h"
#include "engine/reward/line-program.h"

static gboolean
open_program (PlumbSpec *spec, gpointer *state, GError **error)
{
  const char *command = plumb_spec_get_reward_option (spec, "program", "command");
  g_autoptr (GError) local = NULL;

  if (command == NULL)
    return plumb_reward_bad_option (spec, "program", "command", "a command is needed", error);
  *state = plumb_line_program_new (command, plumb_spec_get_real (spec, "reward.timeout"), &local);
  if (*state != NULL)
    return TRUE;
  if (!g_error_matches (local, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT))
    return plumb_reward_bad_option (spec, "program", "command", local->message, error);
  g_propagate_prefixed_error (error, g_steal_pointer (&local), "reward function program: ");
  return FALSE;
}

static void
close_program (gpointer state)
{
  plumb_line_program_free (state);
}

static void
cancel_program (gpointer state)
{
  plumb_line_program_cancel (state);
}

static char *
request_line (const PlumbRewardInput *input)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "prompt");
  json_builder_add_string_value (builder, input->prompt);
  json_builder_set_member_name (builder, "response");
  json_builder_add_string_value (builder, input->response);
  json_builder_set_member_name (builder, "answer");
  if (input->answer != NULL)
    json_builder_add_string_value (builder, input->answer);
  else
    json_builder_add_null_value (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

static gboolean
take_number (PlumbJsonScan *scan, PlumbRewardScore *score)
{
  const char *text;
  gsize length;
  g_autofree char *number = NULL;

  if (!plumb_json_get_number (scan, &text, &length))
    return FALSE;
  number = g_strndup (text, length);
  score->value = g_ascii_strtod (number, NULL);
  return isfinite (score->value);
}

/* Reads the answer; FALSE when it is none. */
static gboolean
read_answer (const GString *line, PlumbRewardScore *score)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) why = g_string_new (NULL);
  gboolean has_reward = FALSE;
  PlumbJsonScan scan;

  plumb_json_scan_init (&scan, line->str, line->len);
  if (plumb_json_peek (&scan) == PLUMB_JSON_NUMBER)
    return take_number (&scan, score) && plumb_json_finish (&scan);
  if (!plumb_json_enter_object (&scan))
    return FALSE;
  while (plumb_json_next_member (&scan, key))
    if (g_str_equal (key->str, "reward") && plumb_json_peek (&scan) == PLUMB_JSON_NUMBER)
      has_reward = take_number (&scan, score);
    else if (g_str_equal (key->str, "failed") && plumb_json_peek (&scan) == PLUMB_JSON_STRING)
      plumb_json_get_string (&scan, why);
    else
      plumb_json_skip (&scan);
  if (!plumb_json_finish (&scan) || (!has_reward && why->len == 0))
    return FALSE;
  score->failed = why->len > 0;
  if (score->failed)
    score->reason = g_strdup (why->str);
  return TRUE;
}

static void
score_program (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  g_autofree char *request = request_line (input);
  g_autoptr (GString) line = g_string_new (NULL);
  g_autofree char *problem = plumb_line_program_ask (state, request, line);

  if (problem == NULL && !read_answer (line, score))
    {
      problem = g_strdup ("its line is neither a number nor {\"reward\": number}");
      plumb_line_program_end (state);
    }
  if (problem == NULL)
    return;
  score->failed = TRUE;
  score->value = 0;
  g_free (score->reason);
  score->reason = g_strdup_printf ("program: %s", problem);
}

static const char *const program_options[] = { "command", NULL };

const PlumbRewardFunction plumb_reward_program = {
  .name = "program",
  .options = program_options,
  .limit = PLUMB_REWARD_ONE,
  .open = open_program,
  .score = score_program,
  .cancel = cancel_program,
  .close = close_program,
};
