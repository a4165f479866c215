/* SPDX-License-Identifier: Apache-2.0 */
/* The whole window on made-up runs: runs appear, open, stop, are killed, continue to run without a
 * window. Waits have deadlines and never sleep for a fixed time. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "app/application.h"
#include "app/chart-card.h"
#include "app/pins.h"
#include "app/quick-open.h"
#include "app/sample-card.h"
#include "app/window-private.h"
#include "engine/core/run-dir.h"

typedef struct
{
  PlumbApplication *application;
  PlumbWindow *window;
  char *folder;
  GPtrArray *children; /* pids */
} Fixture;

typedef gboolean (*Condition) (Fixture *fixture);

static gboolean
tick_cb (gpointer data)
{
  return G_SOURCE_CONTINUE;
}

/* Runs the main loop until the condition holds; fails after so many seconds. */
static void
wait_for (Fixture *fixture, Condition condition, double seconds, const char *what)
{
  gint64 end = g_get_monotonic_time () + seconds * G_USEC_PER_SEC;
  guint tick = g_timeout_add (20, tick_cb, NULL);

  while (!condition (fixture) && g_get_monotonic_time () < end)
    g_main_context_iteration (NULL, TRUE);
  g_source_remove (tick);
  if (!condition (fixture))
    g_error ("after %g s still not: %s", seconds, what);
}

static GPid
spawn_run (Fixture *fixture, const char *name, const char *options)
{
  g_autofree char *command = NULL;
  g_auto (GStrv) argv = NULL;
  g_autoptr (GError) error = NULL;
  GPid pid;

  command = g_strdup_printf ("%s %s/%s --register --name %s %s", g_getenv ("MAKE_RUN"),
                             fixture->folder, name, name, options);
  g_assert_true (g_shell_parse_argv (command, NULL, &argv, NULL));
  g_spawn_async (NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pid, &error);
  g_assert_no_error (error);
  g_ptr_array_add (fixture->children, GINT_TO_POINTER (pid));
  return pid;
}

static void
make_run (Fixture *fixture, const char *name, const char *options)
{
  GPid pid = spawn_run (fixture, name, options);
  int status;

  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
  g_ptr_array_remove (fixture->children, GINT_TO_POINTER (pid));
}

static void
act (Fixture *fixture, const char *name, const char *argument)
{
  g_action_group_activate_action (G_ACTION_GROUP (fixture->window), name,
                                  argument != NULL ? g_variant_new_string (argument) : NULL);
}

static gboolean
is_enabled (Fixture *fixture, const char *name)
{
  return g_action_group_get_action_enabled (G_ACTION_GROUP (fixture->window), name);
}

static void
open_run (Fixture *fixture, const char *name)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

  act (fixture, "open-run", path);
}

static void
open_window (Fixture *fixture)
{
  g_application_activate (G_APPLICATION (fixture->application));
  fixture->window
      = PLUMB_WINDOW (gtk_application_get_active_window (GTK_APPLICATION (fixture->application)));
  g_assert_nonnull (fixture->window);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  fixture->folder = g_dir_make_tmp ("plumb-window-XXXXXX", &error);
  g_assert_no_error (error);
  fixture->children = g_ptr_array_new ();
  fixture->application = plumb_application_new ();
  g_application_set_flags (G_APPLICATION (fixture->application), G_APPLICATION_NON_UNIQUE);
  g_assert_true (g_application_register (G_APPLICATION (fixture->application), NULL, &error));
  g_assert_no_error (error);
  open_window (fixture);
}

static void
close_window (Fixture *fixture)
{
  gpointer gone = fixture->window;

  g_object_add_weak_pointer (G_OBJECT (fixture->window), &gone);
  gtk_window_destroy (GTK_WINDOW (fixture->window));
  fixture->window = NULL;
  for (int i = 0; i < 500 && gone != NULL; i++)
    {
      g_main_context_iteration (NULL, FALSE);
      g_usleep (2000);
    }
  g_assert_null (gone);
}

static int
end_cb (void)
{
  return 0;
}

/* Only g_application_run takes an application off the bus: it runs for no longer than that. */
static void
shut_down (PlumbApplication *application)
{
  char name[] = "test-window", *argv[] = { name, NULL };

  g_signal_connect (application, "handle-local-options", G_CALLBACK (end_cb), NULL);
  g_application_run (G_APPLICATION (application), 1, argv);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  g_autofree char *registry = g_build_filename (g_get_user_state_dir (), "plumbline", NULL);
  const char *remove[] = { "rm", "-rf", fixture->folder, registry, NULL };

  if (fixture->window != NULL)
    close_window (fixture);
  for (guint i = 0; i < fixture->children->len; i++)
    {
      kill (GPOINTER_TO_INT (fixture->children->pdata[i]), SIGKILL);
      waitpid (GPOINTER_TO_INT (fixture->children->pdata[i]), NULL, 0);
    }
  g_ptr_array_unref (fixture->children);
  shut_down (fixture->application);
  g_assert_finalize_object (fixture->application);
  g_spawn_sync (NULL, (char **)remove, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL,
                NULL);
  g_free (fixture->folder);
}

static guint
count_rows (Fixture *fixture)
{
  guint n = 0;

  while (gtk_list_box_get_row_at_index (fixture->window->list, n) != NULL)
    n++;
  return n;
}

static gboolean
has_one_row (Fixture *fixture)
{
  return count_rows (fixture) == 1;
}

static gboolean
has_two_rows (Fixture *fixture)
{
  return count_rows (fixture) == 2;
}

static gboolean
is_loaded (Fixture *fixture)
{
  return fixture->window->run != NULL && plumb_run_is_loaded (fixture->window->run)
         && plumb_run_get_info (fixture->window->run) != NULL;
}

static PlumbRunState
state_of (Fixture *fixture)
{
  const PlumbRunInfo *info
      = fixture->window->run != NULL ? plumb_run_get_info (fixture->window->run) : NULL;

  return info != NULL ? info->state : PLUMB_RUN_STATE_QUEUED;
}

static gboolean
is_running (Fixture *fixture)
{
  return state_of (fixture) == PLUMB_RUN_STATE_RUNNING;
}

static gboolean
is_killed (Fixture *fixture)
{
  return state_of (fixture) == PLUMB_RUN_STATE_KILLED;
}

static gboolean
is_stopped (Fixture *fixture)
{
  return state_of (fixture) == PLUMB_RUN_STATE_STOPPED;
}

/* An empty window says so; runs made elsewhere appear in it by themselves. */
static void
test_runs_appear (Fixture *fixture, gconstpointer data)
{
  g_assert_cmpstr (gtk_stack_get_visible_child_name (fixture->window->side), ==, "empty");
  g_assert_cmpstr (gtk_stack_get_visible_child_name (fixture->window->content), ==, "welcome");
  make_run (fixture, "first", "--points 30");
  wait_for (fixture, has_one_row, 3, "the run appears");
  g_assert_cmpstr (gtk_stack_get_visible_child_name (fixture->window->side), ==, "runs");
  spawn_run (fixture, "second", "--points 30 --live 60");
  wait_for (fixture, has_two_rows, 3, "the second run appears");
}

static void
test_open_finished (Fixture *fixture, gconstpointer data)
{
  static const char *const views[] = { "charts", "rollouts", "timeline", "details", "overview" };
  PlumbPoint last;

  make_run (fixture, "done", "--points 60 --resume-from 40");
  open_run (fixture, "done");
  wait_for (fixture, is_loaded, 3, "the run is read");
  g_assert_cmpint (state_of (fixture), ==, PLUMB_RUN_STATE_FINISHED);
  g_assert_true (plumb_run_get_last (fixture->window->run, "reward/mean", &last));
  g_assert_cmpint (last.step, ==, 100);
  g_assert_cmpint (last.attempt, ==, 2);
  g_assert_false (is_enabled (fixture, "stop"));
  g_assert_false (is_enabled (fixture, "kill"));
  g_assert_false (is_enabled (fixture, "continue"));
  g_assert_true (is_enabled (fixture, "new-from-run"));
  for (gsize i = 0; i < G_N_ELEMENTS (views); i++)
    {
      act (fixture, "view", views[i]);
      for (int k = 0; k < 60; k++)
        {
          g_main_context_iteration (NULL, FALSE);
          g_usleep (5000);
        }
      g_assert_cmpstr (plumb_run_page_get_view (fixture->window->page), ==, views[i]);
    }
  act (fixture, "view", "nonsense");
  g_assert_cmpstr (plumb_run_page_get_view (fixture->window->page), ==, "overview");
}

typedef gboolean (*Test) (GtkWidget *widget, gconstpointer data);

/* The first mapped widget, depth first, that passes. */
static GtkWidget *
find_widget (GtkWidget *widget, Test test, gconstpointer data)
{
  GtkWidget *found = gtk_widget_get_mapped (widget) && test (widget, data) ? widget : NULL;

  for (GtkWidget *child = gtk_widget_get_first_child (widget); child != NULL && found == NULL;
       child = gtk_widget_get_next_sibling (child))
    found = find_widget (child, test, data);
  return found;
}

static gboolean
is_chart (GtkWidget *widget, gconstpointer title)
{
  return PLUMB_IS_CHART_CARD (widget)
         && g_str_equal (plumb_chart_card_get_title (PLUMB_CHART_CARD (widget)), title);
}

static gboolean
is_type (GtkWidget *widget, gconstpointer type)
{
  return G_TYPE_CHECK_INSTANCE_TYPE (widget, *(const GType *)type);
}

static gboolean
says (GtkWidget *widget, gconstpointer text)
{
  return GTK_IS_LABEL (widget)
         && g_pattern_match_simple (text, gtk_label_get_text (GTK_LABEL (widget)));
}

static GtkWidget *
find_chart (Fixture *fixture, const char *title)
{
  return find_widget (GTK_WIDGET (fixture->window), is_chart, title);
}

static gboolean
has_charts (Fixture *fixture)
{
  return find_chart (fixture, "reward/mean") != NULL;
}

static gboolean
has_pinned (Fixture *fixture)
{
  return find_widget (GTK_WIDGET (fixture->window), says, "pinned (1)") != NULL;
}

static gboolean
has_no_pinned (Fixture *fixture)
{
  return !has_pinned (fixture);
}

static GtkWindow *
other_window (Fixture *fixture)
{
  g_autoptr (GListModel) windows = g_object_ref (gtk_window_get_toplevels ());

  for (guint i = 0; i < g_list_model_get_n_items (windows); i++)
    {
      g_autoptr (GtkWindow) window = g_list_model_get_item (windows, i);

      if (gtk_window_get_transient_for (window) == GTK_WINDOW (fixture->window)
          && gtk_widget_get_mapped (GTK_WIDGET (window)))
        return window;
    }
  return NULL;
}

static gboolean
has_other_window (Fixture *fixture)
{
  return other_window (fixture) != NULL;
}

static gboolean
has_one_window (Fixture *fixture)
{
  return other_window (fixture) == NULL;
}

static gboolean
property_of (GtkWidget *card, const char *name)
{
  gboolean set;

  g_object_get (card, name, &set, NULL);
  return set;
}

/* What the keys of a chart do: they activate these actions. */
static void
test_chart_actions (Fixture *fixture, gconstpointer data)
{
  GtkWidget *card;
  GtkWindow *large;

  make_run (fixture, "done", "--points 60");
  open_run (fixture, "done");
  act (fixture, "view", "charts");
  wait_for (fixture, has_charts, 5, "charts show");
  g_assert_false (has_pinned (fixture));
  card = find_chart (fixture, "reward/mean");
  g_assert_false (property_of (card, "log-x"));
  g_assert_true (gtk_widget_activate_action (card, "chart.log-x", NULL));
  g_assert_true (property_of (card, "log-x"));
  g_assert_true (gtk_widget_activate_action (card, "chart.log", NULL));
  g_assert_true (property_of (card, "log"));

  g_assert_true (gtk_widget_activate_action (card, "chart.pin", NULL));
  wait_for (fixture, has_pinned, 5, "the chart is pinned");
  g_assert_true (property_of (card, "pinned"));
  /* The copy on top comes first. */
  g_assert_true (find_chart (fixture, "reward/mean") != card);

  g_assert_true (gtk_widget_activate_action (card, "chart.full", NULL));
  wait_for (fixture, has_other_window, 5, "the chart shows large");
  large = other_window (fixture);
  g_assert_cmpstr (gtk_window_get_title (large), ==, "reward/mean");
  g_assert_true (property_of (find_widget (GTK_WIDGET (large), is_chart, "reward/mean"), "log-x"));
  gtk_window_close (large);
  wait_for (fixture, has_one_window, 5, "the large chart closes");

  /* Unpinning from the copy takes the copy away. */
  g_assert_true (
      gtk_widget_activate_action (find_chart (fixture, "reward/mean"), "chart.pin", NULL));
  wait_for (fixture, has_no_pinned, 5, "the chart is no longer pinned");
  g_assert_false (plumb_pins_contain (plumb_pins_get_default (), "reward/mean"));
}

static void
test_quick_open (Fixture *fixture, gconstpointer data)
{
  GType type = GTK_TYPE_SEARCH_ENTRY;
  GtkWidget *search;

  make_run (fixture, "apple", "--points 10");
  make_run (fixture, "pear", "--points 10");
  wait_for (fixture, has_two_rows, 5, "both runs appear");
  act (fixture, "quick-open", NULL);
  wait_for (fixture, has_other_window, 5, "the list opens");
  search = find_widget (GTK_WIDGET (other_window (fixture)), is_type, &type);
  gtk_editable_set_text (GTK_EDITABLE (search), "run PEAR");
  g_signal_emit_by_name (search, "search-changed");
  g_signal_emit_by_name (search, "activate");
  wait_for (fixture, is_loaded, 5, "the run opens");
  g_assert_cmpstr (plumb_run_get_title (fixture->window->run), ==, "pear");
  wait_for (fixture, has_one_window, 5, "the list has closed");
}

static gboolean
has_eval_prompt (Fixture *fixture)
{
  return find_widget (GTK_WIDGET (fixture->window), says, "Twelve and*") != NULL;
}

/* The answer of the newest step against the one of the step before it that was kept. */
static void
test_diff (Fixture *fixture, gconstpointer data)
{
  GtkWidget *card;
  GType type = PLUMB_TYPE_SAMPLE_CARD;

  make_run (fixture, "done", "--points 20");
  open_run (fixture, "done");
  act (fixture, "view", "rollouts");
  for (int i = 0; i < 12 && !has_eval_prompt (fixture); i++)
    {
      gint64 end = g_get_monotonic_time () + G_USEC_PER_SEC / 3;

      while (g_get_monotonic_time () < end)
        g_main_context_iteration (NULL, FALSE);
      card = find_widget (GTK_WIDGET (fixture->window), is_type, &type);
      if (card != NULL && !has_eval_prompt (fixture))
        gtk_widget_activate_action (card, "rollouts.next-prompt", NULL);
    }
  g_assert_true (has_eval_prompt (fixture));
  card = find_widget (GTK_WIDGET (fixture->window), is_type, &type);
  g_assert_true (gtk_widget_activate_action (card, "rollouts.diff", NULL));
  wait_for (fixture, has_other_window, 5, "the difference shows");
  g_assert_cmpstr (gtk_window_get_title (other_window (fixture)), ==, "Step 20 against Step 15");
  g_assert_nonnull (find_widget (GTK_WIDGET (other_window (fixture)), says,
                                 "Twelve and thirty-four make 43.44."));
}

static void
import_text (Fixture *fixture, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  act (fixture, "import", path);
}

static gboolean
form_shows (Fixture *fixture)
{
  return g_str_equal (gtk_stack_get_visible_child_name (fixture->window->content), "new-run");
}

static gboolean
has_left_out (Fixture *fixture)
{
  return find_widget (GTK_WIDGET (fixture->window), says, "report_to: wandb") != NULL;
}

static gboolean
has_curve (Fixture *fixture)
{
  PlumbPoint last;

  return is_loaded (fixture) && plumb_run_count_metrics (fixture->window->run) > 0
         && plumb_run_get_last (fixture->window->run, "loss/policy", &last) && last.step == 3;
}

/* Settings become a form, with what was left out; curves a run; anything else a dialog. */
static void
test_import (Fixture *fixture, gconstpointer data)
{
  import_text (fixture, "trl.yaml",
               "learning_rate: 3.0e-6\nbeta: 0.04\nnum_generations: 6\nreport_to: wandb\n");
  wait_for (fixture, form_shows, 5, "the form shows");
  wait_for (fixture, has_left_out, 5, "what was left out is listed");
  g_assert_nonnull (find_widget (GTK_WIDGET (fixture->window), says, "Imported from trl.yaml"));

  import_text (fixture, "curve.csv", "step,loss/policy\n1,2.5\n2,2.25\n3,2\n");
  wait_for (fixture, has_curve, 10, "the curve is a run");

  import_text (fixture, "novel.txt", "It was a dark and stormy night.\n");
  wait_for (fixture, has_other_window, 5, "a dialog tells why not");
  g_assert_nonnull (find_widget (GTK_WIDGET (other_window (fixture)), says, "novel.txt: *"));
}

/* After kill -9 the window says what happened within five seconds. */
static void
test_kill_9 (Fixture *fixture, gconstpointer data)
{
  GPid pid = spawn_run (fixture, "victim", "--points 30 --live 120 --rate 10");

  wait_for (fixture, has_one_row, 5, "the run appears");
  open_run (fixture, "victim");
  wait_for (fixture, is_running, 5, "the run is running");
  g_assert_true (is_enabled (fixture, "stop"));
  g_assert_true (is_enabled (fixture, "kill"));
  kill (pid, SIGKILL);
  waitpid (pid, NULL, 0);
  g_ptr_array_remove (fixture->children, GINT_TO_POINTER (pid));
  wait_for (fixture, is_killed, 5, "the window knows that it was killed");
  g_assert_nonnull (plumb_run_get_info (fixture->window->run)->message);
  g_assert_false (is_enabled (fixture, "stop"));
  g_assert_true (is_enabled (fixture, "continue"));
}

static gboolean
need_engine (void)
{
  if (g_getenv ("REAL_ENGINE") != NULL
      && g_file_test (g_getenv ("REAL_ENGINE"), G_FILE_TEST_EXISTS))
    return TRUE;
  g_test_skip ("plumbline-engine is not built");
  return FALSE;
}

static void
test_stop (Fixture *fixture, gconstpointer data)
{
  if (!need_engine ())
    return;
  spawn_run (fixture, "obedient", "--points 30 --live 120 --rate 10");
  wait_for (fixture, has_one_row, 5, "the run appears");
  open_run (fixture, "obedient");
  wait_for (fixture, is_running, 5, "the run is running");
  act (fixture, "stop", NULL);
  wait_for (fixture, is_stopped, 8, "the run has stopped");
  g_assert_true (is_enabled (fixture, "continue"));
}

static gboolean
shows_new_run (Fixture *fixture)
{
  return fixture->window->run == NULL && plumb_new_run_page_can_start (fixture->window->new_run);
}

/* Start launches the engine with the preset's spec, and the run's page opens; without a window it
 * goes on, and a new window finds it. */
static void
test_start_and_reopen (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = NULL;
  g_autofree char *spec = NULL;
  g_autofree char *text = NULL;
  gint64 pid;

  act (fixture, "preset", "arithmetic");
  act (fixture, "set", "run.seed=7");
  g_assert_true (is_enabled (fixture, "start"));
  act (fixture, "start", NULL);
  wait_for (fixture, is_running, 10, "the started run is running");
  path = g_strdup (plumb_run_get_path (fixture->window->run));
  spec = g_build_filename (path, PLUMB_RUN_SPEC, NULL);
  g_assert_true (g_file_get_contents (spec, &text, NULL, NULL));
  g_assert_nonnull (strstr (text, "seed = 7"));

  close_window (fixture);
  g_assert_true (plumb_run_lock_is_held (path, &pid));
  open_window (fixture);
  wait_for (fixture, has_one_row, 3, "the new window lists the run");
  act (fixture, "open-run", path);
  wait_for (fixture, is_running, 5, "the new window shows it running");
  kill (pid, SIGKILL);
  wait_for (fixture, is_killed, 5, "its end is seen");

  act (fixture, "new-from-run", NULL);
  wait_for (fixture, shows_new_run, 3, "the settings of the run are on the page");
}

/* What the engine refuses stands at its row, and nothing has been started. */
static void
test_refused (Fixture *fixture, gconstpointer data)
{
  g_autofree char *refuse = g_build_filename (g_get_user_runtime_dir (), "refuse", NULL);

  g_assert_true (g_file_set_contents (refuse, "", -1, NULL));
  act (fixture, "preset", "arithmetic");
  act (fixture, "start", NULL);
  g_assert_false (is_enabled (fixture, "start"));
  wait_for (fixture, shows_new_run, 10, "the engine has answered");
  g_assert_cmpuint (count_rows (fixture), ==, 0);
  g_assert_true (is_enabled (fixture, "start"));
  g_unlink (refuse);
}

/* A folder that goes away takes its row along. */
static void
test_run_removed (Fixture *fixture, gconstpointer data)
{
  const char *remove[] = { "rm", "-rf", NULL, NULL };
  g_autofree char *path = NULL;

  make_run (fixture, "gone", "--points 10");
  make_run (fixture, "stays", "--points 10");
  wait_for (fixture, has_two_rows, 5, "both runs are listed");
  open_run (fixture, "gone");
  wait_for (fixture, is_loaded, 3, "the run is read");
  path = g_build_filename (fixture->folder, "gone", NULL);
  remove[2] = path;
  g_spawn_sync (NULL, (char **)remove, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL,
                NULL);
  wait_for (fixture, has_one_row, 8, "its row is gone");
  g_assert_null (fixture->window->run);
}

/* A spec with faults opens with them at their rows instead of not at all. */
static void
test_open_bad_spec (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->folder, "bad.spec", NULL);
  g_autofree char *missing = g_build_filename (fixture->folder, "none.spec", NULL);

  g_assert_true (
      g_file_set_contents (path, "[run]\nalgorithm = grpo\n\n[rollout]\nsampels = 8\n", -1, NULL));
  act (fixture, "open-spec", path);
  g_assert_cmpstr (gtk_stack_get_visible_child_name (fixture->window->content), ==, "new-run");
  act (fixture, "open-spec", missing);
  g_assert_cmpstr (gtk_stack_get_visible_child_name (fixture->window->content), ==, "new-run");
}

int
main (int argc, char **argv)
{
  /* Without a bus there is nobody to complain that nobody shows notifications. */
  g_setenv ("DBUS_SESSION_BUS_ADDRESS", "disabled:", TRUE);
  gtk_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/window/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("runs-appear", test_runs_appear);
  ADD ("open-finished", test_open_finished);
  ADD ("chart-actions", test_chart_actions);
  ADD ("quick-open", test_quick_open);
  ADD ("diff", test_diff);
  ADD ("import", test_import);
  ADD ("kill-9", test_kill_9);
  ADD ("stop", test_stop);
  ADD ("start-and-reopen", test_start_and_reopen);
  ADD ("refused", test_refused);
  ADD ("run-removed", test_run_removed);
  ADD ("open-bad-spec", test_open_bad_spec);
  return g_test_run ();
}
