/* SPDX-License-Identifier: Apache-2.0 */
/* A reward program of the user: JSON lines {"prompt", "response", "answer"} to its stdin, one line
 * for each from its stdout: a number, or {"reward": number} or {"failed": "why"}. It is kept alive
 * between calls, ended as a group when it is late, and started again for the next call. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib-unix.h>
#include <json-glib/json-glib.h>

#include "engine/core/error.h"
#include "engine/core/json-scan.h"
#include "engine/reward/functions.h"

#define LONGEST_LINE (1 << 20)
#define POLL_MS 100 /* how soon a cancel is noticed */

typedef struct
{
  char **command;
  double timeout;
  GPid pid; /* 0: not running */
  int to, from;
  GString *pending; /* what it wrote and was not read yet */
  gint cancelled;   /* atomic */
} Program;

static void
end_program (Program *program)
{
  if (program->pid == 0)
    return;
  close (program->to);
  close (program->from);
  kill (-program->pid, SIGKILL);
  while (waitpid (program->pid, NULL, 0) < 0 && errno == EINTR)
    continue;
  program->pid = 0;
  g_string_truncate (program->pending, 0);
}

static void
lead_group (gpointer data)
{
  setpgid (0, 0);
}

static gboolean
start_program (Program *program, GError **error)
{
  g_autoptr (GError) local = NULL;

  if (program->pid != 0)
    return TRUE;
  if (!g_spawn_async_with_pipes (NULL, program->command, NULL,
                                 G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH, lead_group, NULL,
                                 &program->pid, &program->to, &program->from, NULL, &local))
    {
      program->pid = 0;
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   "the reward program cannot be started: %s", local->message);
      return FALSE;
    }
  setpgid (program->pid, program->pid); /* before it may be killed, whoever comes first */
  g_unix_set_fd_nonblocking (program->to, TRUE, NULL);
  g_unix_set_fd_nonblocking (program->from, TRUE, NULL);
  return TRUE;
}

static gboolean
open_program (PlumbSpec *spec, gpointer *state, GError **error)
{
  const char *command = plumb_spec_get_reward_option (spec, "program", "command");
  Program *program = g_new0 (Program, 1);
  g_autoptr (GError) local = NULL;

  *state = program;
  program->pending = g_string_new (NULL);
  program->timeout = plumb_spec_get_real (spec, "reward.timeout");
  if (command == NULL)
    return plumb_reward_bad_option (spec, "program", "command", "a command is needed", error);
  if (!g_shell_parse_argv (command, NULL, &program->command, &local))
    return plumb_reward_bad_option (spec, "program", "command", local->message, error);
  return start_program (program, error);
}

static void
close_program (gpointer state)
{
  Program *program = state;

  end_program (program);
  g_strfreev (program->command);
  g_string_free (program->pending, TRUE);
  g_free (program);
}

static void
cancel_program (gpointer state)
{
  g_atomic_int_set (&((Program *)state)->cancelled, TRUE);
}

static char *
request_line (const PlumbRewardInput *input)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;
  g_autofree char *text = NULL;

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
  text = json_to_string (root, FALSE);
  return g_strconcat (text, "\n", NULL);
}

/* Waits until the pipe is ready; NULL, or why the call has failed. */
static const char *
wait_for (Program *program, int fd, short what, gint64 deadline)
{
  for (;;)
    {
      struct pollfd poll_fd = { fd, what, 0 };
      gint64 left = (deadline - g_get_monotonic_time ()) / 1000;

      if (g_atomic_int_get (&program->cancelled))
        return "the run is being stopped";
      if (left <= 0)
        return "it did not answer in time";
      if (poll (&poll_fd, 1, MIN (left, POLL_MS)) > 0)
        return NULL;
    }
}

static const char *
send_line (Program *program, const char *line, gint64 deadline)
{
  gsize length = strlen (line);

  while (length > 0)
    {
      const char *problem = wait_for (program, program->to, POLLOUT, deadline);
      gssize n;

      if (problem != NULL)
        return problem;
      n = write (program->to, line, length);
      if (n < 0 && errno != EAGAIN && errno != EINTR)
        return "it has ended";
      if (n > 0)
        {
          line += n;
          length -= n;
        }
    }
  return NULL;
}

/* The next line of its answer, taken off `pending`. */
static const char *
receive_line (Program *program, GString *line, gint64 deadline)
{
  for (;;)
    {
      const char *stop = memchr (program->pending->str, '\n', program->pending->len);
      const char *problem;
      char block[4096];
      gssize n;

      if (stop != NULL)
        {
          gsize length = stop - program->pending->str;

          g_string_append_len (line, program->pending->str, length);
          g_string_erase (program->pending, 0, length + 1);
          return NULL;
        }
      if (program->pending->len > LONGEST_LINE)
        return "it wrote a megabyte without a line end";
      problem = wait_for (program, program->from, POLLIN, deadline);
      if (problem != NULL)
        return problem;
      n = read (program->from, block, sizeof block);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return "it has ended";
      if (n > 0)
        g_string_append_len (program->pending, block, n);
    }
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
fail_call (Program *program, PlumbRewardScore *score, const char *reason)
{
  score->failed = TRUE;
  score->value = 0;
  g_free (score->reason);
  score->reason = g_strdup_printf ("program: %s", reason);
  end_program (program); /* what it may still write would answer the wrong call */
}

static void
score_program (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  Program *program = state;
  gint64 deadline = g_get_monotonic_time () + (gint64)(program->timeout * G_USEC_PER_SEC);
  g_autofree char *request = request_line (input);
  g_autoptr (GString) line = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  const char *problem;

  if (!start_program (program, &error))
    {
      fail_call (program, score, error->message);
      return;
    }
  problem = send_line (program, request, deadline);
  if (problem == NULL)
    problem = receive_line (program, line, deadline);
  if (problem == NULL && !read_answer (line, score))
    problem = "its line is neither a number nor {\"reward\": number}";
  if (problem != NULL)
    fail_call (program, score, problem);
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
