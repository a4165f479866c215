/* SPDX-License-Identifier: Apache-2.0 */
/* A person who does not see the window trains a model: the whole way by roles and names, with the
 * real engine and a run of five steps of warm-up and four of
 * reinforcement. The steps build on each other, so each is a test that the
 * next ones need. The program under test is the first argument. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <gio/gio.h>
#include <locale.h>
#include <string.h>

#include "tests/app/screen-reader.h"

#define LEARNING_RATE "Learning rate"

static char *program_path;
static char *log_path;
static GSubprocess *program;

static void
start_program (void)
{
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_NONE);
  g_autoptr (GError) error = NULL;

  log_path = g_build_filename (g_get_user_cache_dir (), "accessible.log", NULL);
  g_subprocess_launcher_set_stderr_file_path (launcher, log_path);
  g_subprocess_launcher_setenv (launcher, "PLUMBLINE_ENGINE", g_getenv ("REAL_ENGINE"), TRUE);
  program = g_subprocess_launcher_spawn (launcher, &error, program_path, NULL);
  g_assert_no_error (error);
}

static void
test_first_start (void)
{
  start_program ();
  reader_attach ("plumbline", 20);
  reader_wait (ATSPI_ROLE_FRAME, "Plumbline", 10);
  reader_wait (ATSPI_ROLE_LABEL, "No Runs Yet", 10);
  reader_wait (ATSPI_ROLE_LABEL, "Align a Language Model", 10);
  g_assert_cmpuint (reader_count_nameless (), ==, 0);
}

static void
test_new_run (void)
{
  reader_press ("New Run");
  reader_wait (ATSPI_ROLE_COMBO_BOX, "Start from", 10);
  reader_wait (ATSPI_ROLE_LIST, "Training", 10);
  /* The page before it is no longer read out. */
  g_assert_false (reader_sees (ATSPI_ROLE_LABEL, "Align a Language Model"));
  g_assert_cmpuint (reader_count_nameless (), ==, 0);
}

static void
test_bad_value (void)
{
  reader_write (ATSPI_ROLE_TEXT, LEARNING_RATE, "fast");
  reader_wait_described (ATSPI_ROLE_TEXT, LEARNING_RATE,
                         "this is not a finite number: write a number like*", 5);
  reader_wait (ATSPI_ROLE_LABEL, "this is not a finite number: write*", 5);
  reader_wait (ATSPI_ROLE_LABEL, "1 problem", 5);
  reader_wait (ATSPI_ROLE_PUSH_BUTTON, "Go to Problem", 5);
  /* Starting shows the problem again, and starts nothing. */
  reader_press ("Start");
  reader_wait (ATSPI_ROLE_LABEL, "1 problem", 5);

  reader_write (ATSPI_ROLE_TEXT, LEARNING_RATE, "0.001");
  reader_wait_gone (ATSPI_ROLE_LABEL, "1 problem", 5);
  reader_wait_described (ATSPI_ROLE_TEXT, LEARNING_RATE, "Its peak*", 5);
}

static void
test_run (void)
{
  reader_write (ATSPI_ROLE_TEXT, "Name", "by ear");
  reader_write (ATSPI_ROLE_SPIN_BUTTON, "Warm-up steps*", "5");
  reader_write (ATSPI_ROLE_SPIN_BUTTON, "Prompts per step*", "16");
  reader_write (ATSPI_ROLE_SPIN_BUTTON, "Batch*", "128");
  reader_write (ATSPI_ROLE_SPIN_BUTTON, "Steps*", "4");
  reader_press ("Start");
  reader_wait (ATSPI_ROLE_LIST_ITEM, "by ear", 30);
  reader_wait (ATSPI_ROLE_LABEL, "Finished", 120);
  reader_wait (ATSPI_ROLE_LABEL, "Step 9 of 9*", 10);
  reader_wait_described (ATSPI_ROLE_LIST_ITEM, "by ear", "Finished*step 9", 10);
}

static void
go_to (const char *view)
{
  reader_act (ATSPI_ROLE_PAGE_TAB, view, "click");
  reader_wait_state (ATSPI_ROLE_PAGE_TAB, view, ATSPI_STATE_SELECTED, TRUE);
  g_assert_cmpuint (reader_count_nameless (), ==, 0);
}

static void
test_overview (void)
{
  go_to ("Overview");
  reader_wait_described (ATSPI_ROLE_IMAGE, "Reward", "step 9: *; least *, greatest *", 10);
  /* Further down than the window shows. */
  reader_wait_described (ATSPI_ROLE_IMAGE, "Gradient norm", "step 9: *", 10);
  reader_wait (ATSPI_ROLE_PUSH_BUTTON, "Options of the chart Reward", 5);
  reader_wait (ATSPI_ROLE_LABEL, "Not measured: coefficient 0", 5);
}

static void
test_charts (void)
{
  go_to ("Charts");
  reader_wait_described (ATSPI_ROLE_IMAGE, "reward/mean", "step 9: *", 10);
  reader_wait (ATSPI_ROLE_PUSH_BUTTON, "reward (*)", 5);
  reader_wait (ATSPI_ROLE_COMBO_BOX, "Horizontal Axis", 5);
  reader_wait (ATSPI_ROLE_SLIDER, "Smoothing", 5);
  reader_write (ATSPI_ROLE_ENTRY, "Filter Metrics", "entropy");
  reader_wait_gone (ATSPI_ROLE_IMAGE, "reward/mean", 5);
  reader_wait (ATSPI_ROLE_IMAGE, "policy/entropy", 5);
  reader_write (ATSPI_ROLE_ENTRY, "Filter Metrics", "");
}

static void
test_rollouts (void)
{
  go_to ("Rollouts");
  reader_wait (ATSPI_ROLE_LABEL, "Group of 8 completions*", 10);
  reader_wait (ATSPI_ROLE_LABEL, "Prompt 1/*", 5);
  reader_wait (ATSPI_ROLE_LABEL, "Step 9", 5);
  reader_wait (ATSPI_ROLE_LIST_ITEM, "Mean reward *: *+*=", 5);
  reader_press ("Next Prompt");
  reader_wait (ATSPI_ROLE_LABEL, "Prompt 2/*", 5);
  reader_press ("Previous Step");
  reader_wait_gone (ATSPI_ROLE_LABEL, "Step 9", 5);
}

static void
test_timeline (void)
{
  go_to ("Timeline");
  reader_wait_described (ATSPI_ROLE_IMAGE, "Timeline of the workers' phases", "* from * on", 10);
  reader_wait (ATSPI_ROLE_LIST_ITEM, "generate", 5);
}

static void
test_details (void)
{
  go_to ("Details");
  reader_wait_text (ATSPI_ROLE_TEXT, "Log of the run", "*model exported to*", 10);
  go_to ("Events");
  reader_wait (ATSPI_ROLE_LIST_ITEM, "Information: *checkpoint*", 5);
  go_to ("Settings");
  reader_wait (ATSPI_ROLE_LIST_ITEM, "Steps*", 5);
}

/* The list of everything to go to, by the window's own action, which Ctrl+K is for. */
static void
test_quick_open (void)
{
  reader_act (ATSPI_ROLE_FRAME, "Plumbline", "win.quick-open");
  reader_wait (ATSPI_ROLE_LIST_ITEM, "by ear", 5);
  reader_wait (ATSPI_ROLE_LIST_ITEM, "Import Settings or Curves", 5);
  g_assert_cmpuint (reader_count_nameless (), ==, 0);
  reader_write (ATSPI_ROLE_ENTRY, "Quick Open", "timeline");
  reader_wait_gone (ATSPI_ROLE_LIST_ITEM, "Import Settings or Curves", 5);
  reader_wait (ATSPI_ROLE_LIST_ITEM, "Timeline", 5);
  reader_act (ATSPI_ROLE_FRAME, "Quick Open", "window.close");
  reader_wait_gone (ATSPI_ROLE_ENTRY, "Quick Open", 5);
}

/* The window closes by its button, without a complaint in all that time. */
static void
test_quit (void)
{
  g_autofree char *log = NULL;
  g_auto (GStrv) lines = NULL;
  g_autoptr (GError) error = NULL;

  reader_press ("Close");
  g_subprocess_wait_check (program, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (log_path, &log, NULL, NULL));
  lines = g_strsplit (log, "\n", -1);
  for (gsize i = 0; lines[i] != NULL; i++)
    if ((strstr (lines[i], "CRITICAL") != NULL || strstr (lines[i], "WARNING") != NULL)
        && strstr (lines[i], "dconf") == NULL)
      g_error ("the program complained: %s", lines[i]);
}

int
main (int argc, char **argv)
{
  int result;

  setlocale (LC_ALL, "");
  g_test_init (&argc, &argv, NULL);
  /* The library warns of each object that has gone when it is asked about. */
  g_log_set_always_fatal (G_LOG_LEVEL_CRITICAL | G_LOG_FATAL_MASK);
  if (argc != 2 || g_getenv ("REAL_ENGINE") == NULL)
    {
      g_print ("1..0 # SKIP name the program to drive, and the engine in REAL_ENGINE\n");
      return 0;
    }
  if (!reader_start ())
    {
      g_print ("1..0 # SKIP there is no bus for assistive technology (at-spi2-core)\n");
      return 0;
    }
  program_path = argv[1];
  g_test_add_func ("/accessible/01-first-start", test_first_start);
  g_test_add_func ("/accessible/02-new-run", test_new_run);
  g_test_add_func ("/accessible/03-bad-value", test_bad_value);
  g_test_add_func ("/accessible/04-run", test_run);
  g_test_add_func ("/accessible/05-overview", test_overview);
  g_test_add_func ("/accessible/06-charts", test_charts);
  g_test_add_func ("/accessible/07-rollouts", test_rollouts);
  g_test_add_func ("/accessible/08-timeline", test_timeline);
  g_test_add_func ("/accessible/09-details", test_details);
  g_test_add_func ("/accessible/10-quick-open", test_quick_open);
  g_test_add_func ("/accessible/11-quit", test_quit);
  result = g_test_run ();
  reader_detach ();
  g_clear_object (&program);
  g_free (log_path);
  return result;
}
