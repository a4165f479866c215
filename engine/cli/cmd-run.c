/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/presets.h"
#include "engine/core/run-dir.h"
#include "engine/run/placement.h"
#include "engine/run/run.h"

#define START_SECONDS 30 /* until a detached engine must have written its state */

typedef struct
{
  char **assignments, *run_dir, *preset;
  gboolean resume, detach, json, child;
} Options;

static void
options_clear (Options *o)
{
  g_strfreev (o->assignments);
  g_free (o->run_dir);
  g_free (o->preset);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* The spec of the command line, or that of the run which goes on. NULL with problems or an error. */
static PlumbSpec *
find_spec (const Options *o, const char *path, GPtrArray *problems, GError **error)
{
  if (o->resume || o->child)
    {
      g_autofree char *run = plumb_run_find (o->run_dir, error);
      g_autofree char *own = run ? g_build_filename (run, PLUMB_RUN_SPEC, NULL) : NULL;
      return own ? plumb_command_load_spec (own, o->assignments, problems, error) : NULL;
    }
  if (!o->preset)
    return plumb_command_load_spec (path, o->assignments, problems, error);
  g_autoptr (PlumbSpec) spec = plumb_preset_load (o->preset, error);
  for (int i = 0; spec && o->assignments && o->assignments[i]; i++)
    if (!plumb_spec_apply_override (spec, o->assignments[i], error))
      return NULL;
  if (spec)
    plumb_spec_validate (spec, problems);
  return g_steal_pointer (&spec);
}

/* Says what differs from the settings that the run had; FALSE where something may not. */
static gboolean
tell_changes (const char *run, PlumbSpec *spec, GError **error)
{
  g_autoptr (GPtrArray) changes = g_ptr_array_new_with_free_func (g_free);
  if (!plumb_run_check_resume (run, spec, changes, error))
    return FALSE;
  for (guint i = 0; i < changes->len; i++)
    g_printerr (_ ("changed: %s\n"), (char *) g_ptr_array_index (changes, i));
  return TRUE;
}

/* The folder of the run: made new, or that of the run which goes on. */
static char *
find_folder (const Options *o, PlumbSpec *spec, GError **error)
{
  const char *wanted = o->run_dir ? o->run_dir : plumb_spec_get_text (spec, "run.directory");
  if (o->resume)
    {
      char *run = plumb_run_find (o->run_dir, error);
      if (run && plumb_run_lock_is_held (run, NULL))
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                       "%s is running in another engine; stop it first", run);
          g_clear_pointer (&run, g_free);
        }
      if (run && !tell_changes (run, spec, error))
        g_clear_pointer (&run, g_free);
      /* What --set changes holds for this attempt and for later ones. */
      g_autofree char *file = run ? g_build_filename (run, PLUMB_RUN_SPEC, NULL) : NULL;
      if (run && o->assignments && !plumb_spec_save (spec, file, error))
        g_clear_pointer (&run, g_free);
      return run;
    }
  plumb_spec_resolve_settings (spec); /* the name may be automatic */
  const char *name = plumb_spec_get_text (spec, "run.name");
  g_autofree char *folder = wanted ? g_canonicalize_filename (wanted, NULL)
                                   : plumb_run_dir_propose (name ? name : "run");
  g_autofree char *file = g_build_filename (folder, PLUMB_RUN_SPEC, NULL);
  if (!plumb_run_dir_create (folder, error) || !plumb_spec_save (spec, file, error))
    return NULL;
  return g_steal_pointer (&folder);
}

static void
print_problems (const Options *o, GPtrArray *problems)
{
  if (o->json)
    {
      g_autoptr (JsonNode) node = plumb_problems_to_json (problems);
      plumb_command_print_json (node, FALSE);
      return;
    }
  g_autofree char *text = plumb_problems_to_text (problems);
  g_printerr ("%s\n", text);
}

/* Runs in the new process: its own session, output to the log. Only async-signal-safe calls before exec. */
static void
become_detached (char **argv, const char *log)
{
  int null = open ("/dev/null", O_RDONLY);
  int out = open (log, O_WRONLY | O_CREAT | O_APPEND, 0644);
  setsid ();
  if (null < 0 || out < 0 || dup2 (null, 0) < 0 || dup2 (out, 1) < 0 || dup2 (out, 2) < 0)
    _exit (127);
  execvp (argv[0], argv);
  _exit (127);
}

/* Under a user's systemd the engine gets a scope of its own, so that it outlives the login. */
static void
add_scope (GPtrArray *argv)
{
  const char *runtime = g_getenv ("XDG_RUNTIME_DIR");
  g_autofree char *socket = g_build_filename (runtime ? runtime : "/nonexistent", "systemd", "private", NULL);
  g_autofree char *program = g_find_program_in_path ("systemd-run");
  if (!program || !g_file_test (socket, G_FILE_TEST_EXISTS))
    return;
  g_ptr_array_add (argv, g_steal_pointer (&program));
  g_ptr_array_add (argv, g_strdup ("--user"));
  g_ptr_array_add (argv, g_strdup ("--scope"));
  g_ptr_array_add (argv, g_strdup ("--quiet"));
  g_ptr_array_add (argv, g_strdup ("--"));
}

static gboolean
has_started (const char *folder, gint64 earlier_attempt)
{
  g_autoptr (PlumbRunStatus) status = plumb_run_status_read (folder, NULL);
  return status && status->attempt > earlier_attempt;
}

static gboolean
start_detached (const Options *o, const char *folder, GError **error)
{
  g_autoptr (GPtrArray) argv = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *log = g_build_filename (folder, PLUMB_RUN_LOG, NULL);
  g_autofree char *self = g_file_read_link ("/proc/self/exe", error);
  g_autoptr (PlumbRunStatus) earlier = plumb_run_status_read (folder, NULL);
  gint64 attempt = earlier ? earlier->attempt : 0;
  if (!self)
    return FALSE;
  add_scope (argv);
  g_ptr_array_add (argv, g_strdup (self));
  g_ptr_array_add (argv, g_strdup ("run"));
  g_ptr_array_add (argv, g_strdup ("--child"));
  g_ptr_array_add (argv, g_strdup ("--run-dir"));
  g_ptr_array_add (argv, g_strdup (folder));
  if (o->resume)
    g_ptr_array_add (argv, g_strdup ("--resume"));
  g_ptr_array_add (argv, NULL);
  pid_t pid = fork ();
  if (pid == 0)
    become_detached ((char **) argv->pdata, log);
  if (pid < 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "cannot start the engine: %s",
                   g_strerror (errno));
      return FALSE;
    }
  for (int i = 0; i < START_SECONDS * 20; i++)
    {
      int status = 0;
      if (has_started (folder, attempt))
        return TRUE;
      if (waitpid (pid, &status, WNOHANG) == pid)
        break;
      g_usleep (G_USEC_PER_SEC / 20);
    }
  if (has_started (folder, attempt))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "the engine did not start; its log is %s", log);
  return FALSE;
}

static void
print_started (const Options *o, const char *folder)
{
  if (!o->json)
    {
      g_print ("%s\n", folder);
      return;
    }
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "run");
  json_builder_add_string_value (builder, folder);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  plumb_command_print_json (root, FALSE);
}

/* An error as the one problem of a JSON answer, so that a caller reads one format. */
static int
fail (const Options *o, GError *failure, GError **error)
{
  int code = plumb_error_exit_code (failure);
  if (!o->json)
    {
      g_propagate_error (error, failure);
      return code;
    }
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  plumb_problems_add_error (problems, failure);
  print_problems (o, problems);
  g_error_free (failure);
  return code;
}

static int
run (const Options *o, const char *path, GError **error)
{
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  GError *failure = NULL;
  g_autoptr (PlumbSpec) spec = find_spec (o, path, problems, &failure);
  if (!spec && failure)
    return fail (o, failure, error);
  if (problems->len == 0 && spec && !plumb_placement_check (spec, &failure))
    return fail (o, failure, error);
  int code = problems->len > 0 ? PLUMB_ERROR_INVALID : 0;
  if (code == 0 && spec && !o->child)
    code = plumb_run_preflight (spec, problems, NULL, NULL);
  if (code != 0)
    {
      print_problems (o, problems);
      return code;
    }
  g_autofree char *folder = o->child ? g_strdup (o->run_dir) : find_folder (o, spec, &failure);
  if (!folder)
    return fail (o, failure, error);
  if (!o->detach)
    return plumb_run_execute (spec, folder, o->resume, o->child, error);
  if (!start_detached (o, folder, &failure))
    return fail (o, failure, error);
  print_started (o, folder);
  return 0;
}

int
plumb_cmd_run (int argc, char **argv, GError **error)
{
  g_auto (Options) o = { 0 };
  const GOptionEntry entries[] = {
    { "set", 's', 0, G_OPTION_ARG_STRING_ARRAY, &o.assignments, N_ ("set a value of the spec"),
      "GROUP.KEY=VALUE" },
    { "preset", 'p', 0, G_OPTION_ARG_STRING, &o.preset, N_ ("start from a preset instead of a file"), "NAME" },
    { "run-dir", 'd', 0, G_OPTION_ARG_FILENAME, &o.run_dir, N_ ("run directory"), N_ ("DIR") },
    { "resume", 'r', 0, G_OPTION_ARG_NONE, &o.resume, N_ ("continue --run-dir from its last checkpoint"),
      NULL },
    { "detach", 0, 0, G_OPTION_ARG_NONE, &o.detach, N_ ("check, start in the background and return"), NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &o.json, N_ ("answer as JSON"), NULL },
    { "child", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &o.child, NULL, NULL },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, entries, "[SPEC]", N_ ("train as a spec says"), 0, 1, error))
    return PLUMB_ERROR_USAGE;
  gboolean goes_on = o.resume || o.child;
  if (goes_on ? !o.run_dir || argc > 1 : (argc > 1) == (o.preset != NULL))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                   goes_on ? "--resume needs --run-dir DIR and no spec"
                           : "run needs a spec file or --preset NAME");
      return PLUMB_ERROR_USAGE;
    }
  return run (&o, argc > 1 ? argv[1] : NULL, error);
}
