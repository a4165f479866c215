/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib-unix.h>

#include "engine/core/error.h"
#include "engine/reward/line-program.h"

#define LONGEST_LINE (1 << 20)
#define POLL_MS 100 /* how soon a cancel is noticed */

static const char has_ended[] = "it has ended";

struct _PlumbLineProgram
{
  char **command;
  double timeout;
  GPid pid; /* 0: not running */
  int to, from;
  GString *pending; /* what it wrote and was not read yet */
  gint cancelled;   /* atomic */
};

static void
end_program (PlumbLineProgram *program)
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
start_program (PlumbLineProgram *program, GError **error)
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
                   "the program cannot be started: %s", local->message);
      return FALSE;
    }
  setpgid (program->pid, program->pid); /* before it may be killed, whoever comes first */
  g_unix_set_fd_nonblocking (program->to, TRUE, NULL);
  g_unix_set_fd_nonblocking (program->from, TRUE, NULL);
  return TRUE;
}

/* Waits until the pipe is ready; NULL, or why the call has failed. */
static const char *
wait_for (PlumbLineProgram *program, int fd, short what, gint64 deadline)
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
send_line (PlumbLineProgram *program, const char *line, gint64 deadline)
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
        return has_ended;
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
receive_line (PlumbLineProgram *program, GString *line, gint64 deadline)
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
        return has_ended;
      if (n > 0)
        g_string_append_len (program->pending, block, n);
    }
}

PlumbLineProgram *
plumb_line_program_new (const char *command, double timeout, GError **error)
{
  g_autoptr (PlumbLineProgram) program = g_new0 (PlumbLineProgram, 1);

  program->pending = g_string_new (NULL);
  program->timeout = timeout;
  if (!g_shell_parse_argv (command, NULL, &program->command, error) || !start_program (program, error))
    return NULL;
  return g_steal_pointer (&program);
}

void
plumb_line_program_free (PlumbLineProgram *program)
{
  end_program (program);
  g_strfreev (program->command);
  g_string_free (program->pending, TRUE);
  g_free (program);
}

void
plumb_line_program_end (PlumbLineProgram *program)
{
  end_program (program);
}

void
plumb_line_program_cancel (PlumbLineProgram *program)
{
  g_atomic_int_set (&program->cancelled, TRUE);
}

char *
plumb_line_program_ask (PlumbLineProgram *program, const char *line, GString *answer, gboolean *ended)
{
  gint64 deadline = g_get_monotonic_time () + (gint64)(program->timeout * G_USEC_PER_SEC);
  g_autofree char *request = g_strconcat (line, "\n", NULL);
  g_autoptr (GError) error = NULL;
  const char *problem;

  g_string_truncate (answer, 0);
  if (!start_program (program, &error))
    return g_strdup (error->message);
  problem = send_line (program, request, deadline);
  if (problem == NULL)
    problem = receive_line (program, answer, deadline);
  if (problem == NULL)
    return NULL;
  if (ended != NULL)
    *ended = problem == has_ended;
  end_program (program); /* what it may still write would answer the wrong call */
  return g_strdup (problem);
}
