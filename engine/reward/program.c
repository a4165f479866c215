/* SPDX-License-Identifier: Apache-2.0 */
/* A reward program of the user: JSON lines {"prompt", "response", "answer"} to its stdin, one line
 * for each from its stdout: a number, or {"reward": number} or {"failed": "why"}. It is kept alive
 * between calls, ended as a group when it is late, and started again for the next call. Where it ended
 * by itself, it is asked again. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include <json-glib/json-glib.h>

#include "engine/core/error.h"
#include "engine/core/json-scan.h"
#include "engine/reward/functions.h"
#include "engine/reward/line-program.h"

typedef struct
{
  PlumbLineProgram *lines;
  gint64 retries;
} Program;

static gboolean
open_program (PlumbSpec *spec, gpointer *state, GError **error)
{
  g_autofree Program *program = g_new0 (Program, 1);
  const char *command = plumb_spec_get_reward_option (spec, "program", "command");
  g_autoptr (GError) local = NULL;

  if (command == NULL)
    return plumb_reward_bad_option (spec, "program", "command", "a command is needed", error);
  program->retries = plumb_spec_get_integer (spec, "reward.retries");
  program->lines = plumb_line_program_new (command, plumb_spec_get_real (spec, "reward.timeout"), &local);
  if (program->lines != NULL)
    {
      *state = g_steal_pointer (&program);
      return TRUE;
    }
  if (!g_error_matches (local, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT))
    return plumb_reward_bad_option (spec, "program", "command", local->message, error);
  g_propagate_prefixed_error (error, g_steal_pointer (&local), "reward function program: ");
  return FALSE;
}

static void
close_program (gpointer state)
{
  Program *program = state;

  plumb_line_program_free (program->lines);
  g_free (program);
}

static void
cancel_program (gpointer state)
{
  plumb_line_program_cancel (((Program *)state)->lines);
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

/* What a line of the program says. */
typedef enum
{
  ANSWER_NONE,   /* nothing that could be read: it may be the answer to another request */
  ANSWER_SCORE,  /* a reward, or the program's own reason for having none */
  ANSWER_EMPTY,  /* null, or a number that is not finite */
} Answer;

static Answer
take_number (PlumbJsonScan *scan, PlumbRewardScore *score)
{
  const char *text;
  gsize length;
  g_autofree char *number = NULL;

  if (!plumb_json_get_number (scan, &text, &length))
    return ANSWER_NONE;
  number = g_strndup (text, length);
  score->value = g_ascii_strtod (number, NULL);
  return isfinite (score->value) ? ANSWER_SCORE : ANSWER_EMPTY;
}

/* JSON knows no NaN and no infinity, but many programs write them. */
static gboolean
stops_at_infinite (const PlumbJsonScan *scan)
{
  const char *rest = scan->data + scan->at;

  return scan->message != NULL && scan->at + 3 <= (gsize)(scan->end - scan->data)
         && (g_ascii_strncasecmp (rest, "nan", 3) == 0 || g_ascii_strncasecmp (rest, "inf", 3) == 0);
}

static Answer
read_answer (const GString *line, PlumbRewardScore *score)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) why = g_string_new (NULL);
  Answer answer = ANSWER_NONE;
  PlumbJsonScan scan;

  plumb_json_scan_init (&scan, line->str, line->len);
  if (plumb_json_peek (&scan) == PLUMB_JSON_NUMBER)
    answer = take_number (&scan, score);
  else if (plumb_json_enter_object (&scan))
    while (plumb_json_next_member (&scan, key))
      {
        PlumbJsonType type = plumb_json_peek (&scan);

        if (g_str_equal (key->str, "reward") && type == PLUMB_JSON_NUMBER)
          answer = take_number (&scan, score);
        else if (g_str_equal (key->str, "failed") && type == PLUMB_JSON_STRING)
          plumb_json_get_string (&scan, why);
        else if (plumb_json_skip (&scan) && g_str_equal (key->str, "reward") && type == PLUMB_JSON_NULL)
          answer = ANSWER_EMPTY;
      }
  if (!plumb_json_finish (&scan))
    return stops_at_infinite (&scan) ? ANSWER_EMPTY : ANSWER_NONE;
  if (why->len == 0)
    return answer;
  score->failed = TRUE;
  score->reason = g_strdup (why->str);
  return ANSWER_SCORE;
}

/* Asks once; NULL, or why there is no reward. */
static char *
ask_program (Program *program, const char *request, PlumbRewardScore *score, gboolean *again)
{
  g_autoptr (GString) line = g_string_new (NULL);
  char *problem = plumb_line_program_ask (program->lines, request, line, again);

  if (problem != NULL)
    return problem;
  switch (read_answer (line, score))
    {
    case ANSWER_SCORE:
      return NULL;
    case ANSWER_EMPTY:
      return g_strdup ("it gave no finite reward");
    case ANSWER_NONE:
      break;
    }
  plumb_line_program_end (program->lines);
  return g_strdup ("its line is neither a number nor {\"reward\": number}");
}

static void
score_program (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  Program *program = state;
  g_autofree char *request = request_line (input);
  g_autofree char *problem = NULL;
  gboolean again = TRUE;

  for (gint64 try = 0; again && try <= program->retries; try++)
    {
      again = FALSE;
      g_free (problem);
      problem = ask_program (program, request, score, &again);
    }
  if (problem == NULL)
    return;
  score->failed = TRUE;
  score->value = 0;
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
