/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib-unix.h>

#include "engine/core/error.h"
#include "engine/reward/sandbox.h"

#define POLL_MS 100 /* how soon a cancel is noticed */
#define LARGEST_FILE (16 << 20)
#define MOST_FILES 64
#define SCRATCH "67108864" /* bytes of /tmp */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

gboolean
plumb_sandbox_init (PlumbSandbox *sandbox, GError **error)
{
#ifndef ARCHITECTURE
  g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                       "programs of a model are run on x86-64 and arm64 only: elsewhere there is"
                       " no filter of system calls for them");
  return FALSE;
#else
  sandbox->bwrap = g_find_program_in_path ("bwrap");
  if (sandbox->bwrap == NULL)
    g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                         "programs of a model are run in bubblewrap only, and there is no bwrap;"
                         " install the package bubblewrap");
  return sandbox->bwrap != NULL;
#endif
}

void
plumb_sandbox_clear (PlumbSandbox *sandbox)
{
  g_clear_pointer (&sandbox->bwrap, g_free);
}

void
plumb_sandbox_result_clear (PlumbSandboxResult *result)
{
  if (result->output != NULL)
    g_string_free (result->output, TRUE);
  result->output = NULL;
}

/* --- the filter of system calls: threads, but no other process; nothing that mounts or traces */

#ifdef ARCHITECTURE

static const guint32 refused_calls[] = {
#ifdef SYS_fork
  SYS_fork,
#endif
#ifdef SYS_vfork
  SYS_vfork,
#endif
  SYS_unshare,         SYS_setns,          SYS_mount,    SYS_umount2, SYS_pivot_root, SYS_ptrace,
  SYS_keyctl,          SYS_add_key,        SYS_bpf,      SYS_chroot,  SYS_userfaultfd,
  SYS_perf_event_open, SYS_io_uring_setup, SYS_kexec_load,
};

static void
add (GArray *filter, guint16 code, guint32 k, guint8 yes, guint8 no)
{
  struct sock_filter line = { code, yes, no, k };

  g_array_append_val (filter, line);
}

static void
add_result (GArray *filter, guint32 result)
{
  add (filter, BPF_RET | BPF_K, result, 0, 0);
}

/* When the loaded word is `k`, `result` is the end. */
static void
add_case (GArray *filter, guint32 k, guint32 result)
{
  add (filter, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
  add_result (filter, result);
}

static GArray *
make_filter (void)
{
  const guint16 load = BPF_LD | BPF_W | BPF_ABS;
  const guint32 refuse = SECCOMP_RET_ERRNO | EPERM;
  GArray *filter = g_array_new (FALSE, FALSE, sizeof (struct sock_filter));

  add (filter, load, offsetof (struct seccomp_data, arch), 0, 0);
  add (filter, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
  add_result (filter, SECCOMP_RET_KILL_PROCESS);
  add (filter, load, offsetof (struct seccomp_data, nr), 0, 0);
#ifdef __x86_64__
  add (filter, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1); /* the calls of x32 */
  add_result (filter, refuse);
#endif
  /* Its flags lie in memory where no filter can read them; libraries then use clone. */
  add_case (filter, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  for (gsize i = 0; i < G_N_ELEMENTS (refused_calls); i++)
    add_case (filter, refused_calls[i], refuse);
  add (filter, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0);
  add_result (filter, SECCOMP_RET_ALLOW);
  add (filter, load, offsetof (struct seccomp_data, args[0]), 0, 0); /* little endian: the low half */
  add (filter, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
  add_result (filter, refuse);
  add_result (filter, SECCOMP_RET_ALLOW);
  return filter;
}

#endif

/* The filter in a file that bwrap reads; -1 with errno. */
static int
open_filter (void)
{
#ifdef ARCHITECTURE
  g_autoptr (GArray) filter = make_filter ();
  gsize size = filter->len * sizeof (struct sock_filter);
  int fd = memfd_create ("filter", MFD_CLOEXEC);

  if (fd >= 0 && (write (fd, filter->data, size) != (gssize)size || lseek (fd, 0, SEEK_SET) != 0))
    {
      close (fd);
      return -1;
    }
  return fd;
#else
  errno = ENOSYS;
  return -1;
#endif
}

/* --- one run */

typedef struct
{
  int filter;
  rlim_t seconds, memory;
} Setup;

static void
limit (int what, rlim_t most)
{
  struct rlimit bound = { most, most };

  if (setrlimit (what, &bound) != 0)
    _exit (126);
}

/* Between fork and exec. */
static void
set_up_child (gpointer data)
{
  const Setup *setup = data;

  setpgid (0, 0);
  if (fcntl (setup->filter, F_SETFD, 0) != 0 || dup2 (STDOUT_FILENO, STDERR_FILENO) < 0)
    _exit (126);
  limit (RLIMIT_CORE, 0);
  limit (RLIMIT_CPU, setup->seconds);
  limit (RLIMIT_AS, setup->memory);
  limit (RLIMIT_FSIZE, LARGEST_FILE);
  limit (RLIMIT_NOFILE, MOST_FILES);
}

static char **
command_line (PlumbSandbox *sandbox, const char *const *command, int filter)
{
  g_autofree char *number = g_strdup_printf ("%d", filter);
  g_autoptr (GStrvBuilder) line = g_strv_builder_new ();
  static const char *const before[] = {
    "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
    "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LANG", "C.UTF-8", "--setenv", "HOME", "/tmp",
    "--hostname", "sandbox", "--ro-bind", "/usr", "/usr",
    "--ro-bind-try", "/bin", "/bin", "--ro-bind-try", "/lib", "/lib", "--ro-bind-try", "/lib64",
    "/lib64", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--ro-bind-try",
    "/etc/alternatives", "/etc/alternatives", "--proc", "/proc", "--dev", "/dev", "--size", SCRATCH,
    "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/tmp", "--seccomp", NULL
  };

  g_strv_builder_add (line, sandbox->bwrap);
  g_strv_builder_addv (line, (const char **)before);
  g_strv_builder_add (line, number);
  g_strv_builder_add (line, "--");
  g_strv_builder_addv (line, (const char **)command);
  return g_strv_builder_end (line);
}

typedef struct
{
  GPid pid;
  int to, from;
  const char *input;
  gsize left; /* of the input */
} Child;

static gboolean
start (PlumbSandbox *sandbox, const char *const *command, Child *child, GError **error)
{
  g_autoptr (GError) local = NULL;
  Setup setup = { open_filter (), (rlim_t)sandbox->seconds + 1, sandbox->memory };
  g_auto (GStrv) line = command_line (sandbox, command, setup.filter);
  gboolean fine = setup.filter >= 0;

  if (!fine)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                 "the filter of system calls cannot be made: %s", g_strerror (errno));
  if (fine
      && !g_spawn_async_with_pipes ("/", line, NULL, G_SPAWN_DO_NOT_REAP_CHILD, set_up_child, &setup,
                                    &child->pid, &child->to, &child->from, NULL, &local))
    {
      fine = FALSE;
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "bubblewrap cannot be started: %s",
                   local->message);
    }
  if (setup.filter >= 0)
    close (setup.filter);
  if (!fine)
    return FALSE;
  setpgid (child->pid, child->pid); /* before it may be killed, whoever comes first */
  g_unix_set_fd_nonblocking (child->to, TRUE, NULL);
  g_unix_set_fd_nonblocking (child->from, TRUE, NULL);
  return TRUE;
}

/* Sends what the pipe takes; closes it at the end, or when nobody reads. */
static void
feed (Child *child)
{
  gssize n = child->left > 0 ? write (child->to, child->input, child->left) : 0;

  if (n > 0)
    {
      child->input += n;
      child->left -= n;
    }
  if (child->left > 0 && (n >= 0 || errno == EAGAIN || errno == EINTR))
    return;
  close (child->to);
  child->to = -1;
}

/* FALSE at the end of the output. */
static gboolean
drain (Child *child, GString *output)
{
  char block[4096];
  gssize n = read (child->from, block, sizeof block);

  if (n > 0)
    g_string_append_len (output, block, n);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static PlumbSandboxEnd
attend (PlumbSandbox *sandbox, Child *child, GString *output)
{
  gint64 deadline = g_get_monotonic_time () + (gint64)(sandbox->seconds * G_USEC_PER_SEC);

  for (;;)
    {
      struct pollfd fds[] = { { child->from, POLLIN, 0 }, { child->to, POLLOUT, 0 } };
      gint64 left = (deadline - g_get_monotonic_time ()) / 1000;

      if (g_atomic_int_get (&sandbox->cancelled))
        return PLUMB_SANDBOX_CANCELLED;
      if (left <= 0)
        return PLUMB_SANDBOX_LATE;
      if (output->len > sandbox->output)
        return PLUMB_SANDBOX_TALKATIVE;
      if (poll (fds, child->to >= 0 ? 2 : 1, MIN (left + 1, POLL_MS)) <= 0)
        continue;
      if (child->to >= 0 && fds[1].revents != 0)
        feed (child);
      if (fds[0].revents != 0 && !drain (child, output))
        return PLUMB_SANDBOX_ENDED;
    }
}

/* The end of bwrap is the end of its process namespace, and so of everything in it. */
static int
reap (Child *child)
{
  int status = 0;

  if (child->to >= 0)
    close (child->to);
  close (child->from);
  kill (-child->pid, SIGKILL); /* one that has ended keeps its status */
  while (waitpid (child->pid, &status, 0) < 0 && errno == EINTR)
    continue;
  return WIFEXITED (status) ? WEXITSTATUS (status) : 128 + WTERMSIG (status);
}

/* It closed its output: it must end soon as well. */
static PlumbSandboxEnd
wait_for_end (Child *child)
{
  for (int i = 0; i < 100; i++)
    {
      siginfo_t info = { 0 };

      if (waitid (P_PID, child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
        return PLUMB_SANDBOX_ENDED;
      g_usleep (10000);
    }
  return PLUMB_SANDBOX_LATE;
}

gboolean
plumb_sandbox_run (PlumbSandbox *sandbox,
                   const char *const *command,
                   const GString *input,
                   PlumbSandboxResult *result,
                   GError **error)
{
  Child child = { .input = input->str, .left = input->len };

  *result = (PlumbSandboxResult){ .output = g_string_new (NULL) };
  if (!start (sandbox, command, &child, error))
    return FALSE;
  result->end = attend (sandbox, &child, result->output);
  if (result->end == PLUMB_SANDBOX_ENDED)
    result->end = wait_for_end (&child);
  result->status = reap (&child);
  return TRUE;
}
