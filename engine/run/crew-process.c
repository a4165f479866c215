/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/model/export.h"
#include "engine/run/crew-process.h"

#define FOLDER_PREFIX "plumbline-crew-"
#define LONGEST_PARENT 72 /* bytes; the path of a socket has at most 107 */
#define LONGEST_LINE 4096 /* of a worker's output; longer ones are cut into several */

struct _PlumbCrewProcess
{
  guint32 number;
  GPid pid;
  gboolean ended;
  char *end;
  GThread *reader; /* of its output */
  int output;      /* the reader's end of the pipe */
  char *log;
};

/* Between fork and exec: only what is safe there. */
static void
prepare_child (gpointer data)
{
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  dup2 (STDOUT_FILENO, STDERR_FILENO);
}

gboolean
plumb_crew_process_follow (gint64 controller)
{
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  /* A key in the terminal reaches the whole group: the controller decides what becomes of it. */
  signal (SIGINT, SIG_IGN);
  signal (SIGTERM, SIG_IGN);
  signal (SIGHUP, SIG_IGN);
  signal (SIGPIPE, SIG_IGN);
  return getppid () == controller;
}

static void
write_line (int log, guint32 number, const char *text, gsize n)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *stamp = g_date_time_format (now, "%H:%M:%S");
  g_autofree char *line = g_strdup_printf ("%s  worker %u: %.*s\n", stamp, number, (int) n, text);
  /* One write: lines of several writers do not mix. */
  if (log >= 0 && write (log, line, strlen (line)) < 0)
    g_debug ("the log cannot be written: %s", g_strerror (errno));
}

static gpointer
read_output (gpointer data)
{
  PlumbCrewProcess *self = data;
  int log = self->log ? open (self->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
  char text[LONGEST_LINE];
  gsize used = 0;
  for (;;)
    {
      gssize n = read (self->output, text + used, sizeof text - used);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        break;
      used += (gsize) n;
      for (char *end; (end = memchr (text, '\n', used)) || used == sizeof text;)
        {
          gsize length = end ? (gsize) (end - text) : used, taken = end ? length + 1 : used;
          write_line (log, self->number, text, length);
          memmove (text, text + taken, used - taken);
          used -= taken;
        }
    }
  if (used > 0)
    write_line (log, self->number, text, used);
  if (log >= 0)
    close (log);
  return NULL;
}

PlumbCrewProcess *
plumb_crew_process_start (const char *address, guint32 number, int threads, const char *log, GError **error)
{
  g_autofree char *program = g_file_read_link ("/proc/self/exe", error);
  g_autofree char *name = g_strdup_printf ("%u", number);
  g_autofree char *controller = g_strdup_printf ("%d", (int) getpid ());
  g_auto (GStrv) environment = g_get_environ ();
  if (!program)
    return NULL;
  if (threads > 0)
    {
      g_autofree char *text = g_strdup_printf ("%d", threads);
      environment = g_environ_setenv (environment, "OMP_NUM_THREADS", text, TRUE);
    }
  const char *argv[] = { program, "worker", "--address", address, "--number", name, "--controller", controller, NULL };
  PlumbCrewProcess *self = g_new0 (PlumbCrewProcess, 1);
  self->number = number;
  self->log = g_strdup (log);
  if (!g_spawn_async_with_pipes (NULL, (char **) argv, environment, G_SPAWN_DO_NOT_REAP_CHILD, prepare_child, NULL,
                                 &self->pid, NULL, &self->output, NULL, error))
    {
      g_prefix_error (error, "worker %u cannot be started: ", number);
      g_free (self->log);
      g_free (self);
      return NULL;
    }
  self->reader = g_thread_new ("worker-output", read_output, self);
  return self;
}

int
plumb_crew_process_id (PlumbCrewProcess *self)
{
  return self->pid;
}

const char *
plumb_crew_process_end (PlumbCrewProcess *self)
{
  int status = 0;
  if (self->ended || waitpid (self->pid, &status, WNOHANG) != self->pid)
    return self->end;
  self->ended = TRUE;
  if (WIFSIGNALED (status))
    self->end = g_strdup_printf ("was killed by signal %d (%s)", WTERMSIG (status), g_strsignal (WTERMSIG (status)));
  else
    self->end = g_strdup_printf ("ended with exit code %d", WEXITSTATUS (status));
  return self->end;
}

void
plumb_crew_process_stop (PlumbCrewProcess *self, double seconds)
{
  if (!self)
    return;
  gint64 start = g_get_monotonic_time ();
  while (!plumb_crew_process_end (self))
    {
      if ((double) (g_get_monotonic_time () - start) >= seconds * G_USEC_PER_SEC)
        kill (self->pid, SIGKILL);
      g_usleep (G_USEC_PER_SEC / 100);
    }
  g_thread_join (self->reader);
  close (self->output);
  g_free (self->end);
  g_free (self->log);
  g_free (self);
}

guint64
plumb_crew_process_memory (PlumbCrewProcess *self)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", (int) self->pid);
  g_autofree char *text = NULL;
  const char *line = NULL;
  if (!self->ended && g_file_get_contents (path, &text, NULL, NULL))
    line = strstr (text, "VmHWM:");
  return line ? g_ascii_strtoull (line + strlen ("VmHWM:"), NULL, 10) * 1024 : 0;
}

/* Takes the lock of a folder; -1 where another has it, or there is none. */
static int
lock_folder (const char *path, int flags)
{
  g_autofree char *name = g_build_filename (path, "lock", NULL);
  int file = open (name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (file >= 0 && flock (file, LOCK_EX | LOCK_NB) == 0)
    return file;
  if (file >= 0)
    close (file);
  return -1;
}

/* Removes what dead engines left. */
static void
sweep (const char *parent)
{
  g_autoptr (GDir) dir = g_dir_open (parent, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name (dir)))
    {
      g_autofree char *path = g_build_filename (parent, name, NULL);
      GStatBuf info;
      if (!g_str_has_prefix (name, FOLDER_PREFIX) || g_lstat (path, &info) != 0 || !S_ISDIR (info.st_mode)
          || info.st_uid != getuid ())
        continue;
      int lock = lock_folder (path, 0);
      if (lock < 0)
        continue;
      plumb_remove_tree (path, NULL);
      close (lock);
    }
}

/* Where sockets may lie: their paths must be short. */
static const char *
find_parent (void)
{
  const char *const places[] = { g_getenv ("XDG_RUNTIME_DIR"), g_get_tmp_dir (), "/tmp" };
  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    if (places[i] && strlen (places[i]) <= LONGEST_PARENT && g_access (places[i], W_OK | X_OK) == 0)
      return places[i];
  return "/tmp";
}

gboolean
plumb_crew_folder_make (PlumbCrewFolder *folder, GError **error)
{
  const char *parent = find_parent ();
  g_autofree char *path = g_build_filename (parent, FOLDER_PREFIX "XXXXXX", NULL);
  sweep (parent);
  if (g_mkdtemp_full (path, 0700) && (folder->lock = lock_folder (path, O_CREAT | O_EXCL)) >= 0)
    {
      folder->path = g_steal_pointer (&path);
      return TRUE;
    }
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
               "%s: cannot make a folder for the socket of the workers: %s; set XDG_RUNTIME_DIR to a folder that can "
               "be written", parent, g_strerror (errno));
  return FALSE;
}

void
plumb_crew_folder_remove (PlumbCrewFolder *folder)
{
  g_autoptr (GError) error = NULL;
  if (!folder->path)
    return;
  if (!plumb_remove_tree (folder->path, &error))
    g_warning ("%s", error->message);
  close (folder->lock);
  g_clear_pointer (&folder->path, g_free);
}
