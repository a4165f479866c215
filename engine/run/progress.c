/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/run/progress.h"

#define BAR_WIDTH 24
#define LINE_INTERVAL (5 * G_USEC_PER_SEC)

struct _PlumbProgress
{
  gboolean terminal, drawn;
  gint64 last_line, last_log;
  FILE *log; /* or NULL */
};

static void
log_line (PlumbProgress *self, const char *text)
{
  if (!self->log)
    return;
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *stamp = g_date_time_format (now, "%H:%M:%S");
  fprintf (self->log, "%s  %s\n", stamp, text);
  fflush (self->log);
}

PlumbProgress *
plumb_progress_new (const char *log_path)
{
  PlumbProgress *self = g_new0 (PlumbProgress, 1);
  self->log = log_path ? fopen (log_path, "ae") : NULL;
  self->terminal = isatty (STDOUT_FILENO);
  return self;
}

static void
clear_bar (PlumbProgress *self)
{
  if (self->drawn)
    fputs ("\r\033[K", stdout);
  self->drawn = FALSE;
}

void
plumb_progress_free (PlumbProgress *self)
{
  if (!self)
    return;
  if (self->drawn)
    fputc ('\n', stdout);
  fflush (stdout);
  if (self->log)
    fclose (self->log);
  g_free (self);
}

void
plumb_progress_say (PlumbProgress *self, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  clear_bar (self);
  fprintf (stdout, "%s\n", text);
  fflush (stdout);
  log_line (self, text);
}

static char *
format_eta (double eta)
{
  if (eta < 0)
    return g_strdup ("");
  int seconds = (int) (eta + 0.5);
  if (seconds >= 3600)
    return g_strdup_printf ("  ETA %d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return g_strdup_printf ("  ETA %d:%02d", seconds / 60, seconds % 60);
}

static int
terminal_width (void)
{
  struct winsize size;
  return ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void
plumb_progress_show (PlumbProgress *self, gint64 step, gint64 total, double eta, gboolean keep,
                     const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *words = g_strdup_vprintf (format, args);
  va_end (args);
  g_autofree char *left = format_eta (eta);
  g_autofree char *of = total > 0 ? g_strdup_printf ("/%" G_GINT64_FORMAT, total) : g_strdup ("");
  gint64 now = g_get_monotonic_time ();
  if (keep || !self->last_log || now - self->last_log >= LINE_INTERVAL)
    {
      g_autofree char *line = g_strdup_printf ("step %" G_GINT64_FORMAT "%s  %s%s", step, of, words, left);
      log_line (self, line);
      self->last_log = now;
    }
  if (!self->terminal)
    {
      if (!keep && self->last_line && now - self->last_line < LINE_INTERVAL)
        return;
      self->last_line = now;
      fprintf (stdout, "step %" G_GINT64_FORMAT "%s  %s%s\n", step, of, words, left);
      fflush (stdout);
      return;
    }
  GString *bar = g_string_new (NULL);
  int filled = total > 0 ? (int) (BAR_WIDTH * MIN (step, total) / total) : 0;
  for (int i = 0; i < BAR_WIDTH; i++)
    g_string_append_c (bar, i < filled ? '#' : '-');
  g_autofree char *line
      = g_strdup_printf ("[%s] %" G_GINT64_FORMAT "%s  %s%s", bar->str, step, of, words, left);
  g_string_free (bar, TRUE);
  fprintf (stdout, "\r\033[K%.*s", terminal_width () - 1, line);
  fflush (stdout);
  self->drawn = TRUE;
}
