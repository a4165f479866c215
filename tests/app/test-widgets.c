/* SPDX-License-Identifier: Apache-2.0 */
/* Every template is instantiated, measured and finalised; rows of the form take, refuse and reset
 * values as the table of fields says. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <math.h>
#include <string.h>

#include "app/chart-card.h"
#include "app/chart-grid.h"
#include "app/chart-table.h"
#include "app/charts-page.h"
#include "app/data-preview.h"
#include "app/details-page.h"
#include "app/field-row.h"
#include "app/log-view.h"
#include "app/new-run-page.h"
#include "app/overview.h"
#include "app/reward-options-row.h"
#include "app/rollouts-page.h"
#include "app/run-page.h"
#include "app/run-row.h"
#include "app/sample-brief.h"
#include "app/pins.h"
#include "app/quick-open.h"
#include "app/sample-card.h"
#include "app/sample-diff.h"
#include "app/spec-form.h"
#include "app/split.h"
#include "app/text-diff.h"
#include "app/timeline-page.h"
#include "engine/core/presets.h"

#define NARROW 360 /* px that every page fits into */

static void
settle (void)
{
  for (int i = 0; i < 50 && g_main_context_iteration (NULL, FALSE); i++)
    ;
}

static void
check_finalized (GtkWidget *widget)
{
  g_object_ref_sink (widget);
  settle ();
  g_assert_finalize_object (widget);
}

static void
test_templates (void)
{
  GType (*const types[]) (void) = {
    plumb_charts_page_get_type,   plumb_details_page_get_type,  plumb_new_run_page_get_type,
    plumb_overview_get_type,      plumb_rollouts_page_get_type, plumb_run_page_get_type,
    plumb_timeline_page_get_type, plumb_spec_form_get_type,     plumb_log_view_get_type,
    plumb_chart_card_get_type,    plumb_sample_card_get_type,   plumb_sample_brief_get_type,
    plumb_field_row_get_type,     plumb_run_row_get_type,       plumb_reward_options_row_get_type,
    plumb_chart_grid_get_type,    plumb_split_get_type,
  };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      GtkWidget *widget = g_object_new (types[i](), NULL);
      int minimum;

      g_test_message ("%s", G_OBJECT_TYPE_NAME (widget));
      gtk_widget_measure (widget, GTK_ORIENTATION_HORIZONTAL, -1, &minimum, NULL, NULL, NULL);
      g_assert_cmpint (minimum, <=, NARROW);
      check_finalized (widget);
    }
}

/* Each field of each algorithm has exactly one row, and no other algorithm's field has one. */
static void
test_form_has_all_fields (void)
{
  gsize n;
  const PlumbField *fields = plumb_fields (&n);

  for (int algorithm = 0; algorithm < PLUMB_N_ALGORITHMS; algorithm++)
    {
      g_autoptr (PlumbSpec) spec = plumb_spec_new ();
      GtkWidget *form = g_object_ref_sink (g_object_new (PLUMB_TYPE_SPEC_FORM, NULL));
      g_autoptr (GError) error = NULL;

      g_assert_true (
          plumb_spec_set (spec, "run.algorithm", plumb_algorithm_name (algorithm), &error));
      plumb_spec_form_set_spec (PLUMB_SPEC_FORM (form), spec);
      for (gsize i = 0; i < n; i++)
        {
          g_autoptr (GPtrArray) problems = plumb_problems_new ();
          g_autoptr (GPtrArray) others = NULL;
          gboolean belongs = (fields[i].algorithms & (1 << algorithm)) != 0;

          plumb_problems_add (problems, fields[i].key, NULL, NULL, 0, NULL, "a problem");
          others = plumb_spec_form_show_problems (PLUMB_SPEC_FORM (form), problems);
          g_assert_cmpuint (others->len, ==, belongs ? 0 : 1);
        }
      g_assert_finalize_object (form);
    }
}

static GtkWidget *
new_row (PlumbSpec *spec, const char *key)
{
  return g_object_ref_sink (plumb_field_row_new (spec, plumb_field_find (key)));
}

static void
test_row_takes_values (void)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  GtkWidget *row = new_row (spec, "train.learning_rate");
  PlumbFieldRow *self = PLUMB_FIELD_ROW (row);

  g_assert_false (plumb_field_row_is_changed (self));
  plumb_field_row_enter (self, "2e-5");
  g_assert_cmpstr (plumb_spec_get_text (spec, "train.learning_rate"), ==, "2e-5");
  g_assert_true (plumb_field_row_is_changed (self));
  g_assert_false (plumb_field_row_has_problem (self));

  plumb_field_row_enter (self, "much");
  g_assert_true (plumb_field_row_has_fault (self));
  g_assert_true (plumb_field_row_has_problem (self));

  plumb_field_row_enter (self, "");
  g_assert_false (plumb_field_row_has_fault (self));
  g_assert_false (plumb_spec_is_set (spec, "train.learning_rate"));
  g_assert_finalize_object (row);
}

/* Rows of every kind of editor show what the spec says and go back to the default. */
static void
test_row_kinds (void)
{
  const char *const cases[][2] = {
    { "run.algorithm", "sft" },         { "run.notes", "two\nlines" },  { "rollout.samples", "16" },
    { "telemetry.token_detail", "no" }, { "run.deterministic", "yes" }, { "data.train", "/a, /b" },
    { "train.betas", "0.8, 0.9" },      { "model.policy", "/m" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PlumbSpec) spec = plumb_spec_new ();
      GtkWidget *row = new_row (spec, cases[i][0]);
      g_autofree char *normal = NULL;

      g_test_message ("%s", cases[i][0]);
      g_assert_true (
          plumb_field_check (plumb_field_find (cases[i][0]), cases[i][1], &normal, NULL, NULL));
      plumb_field_row_enter (PLUMB_FIELD_ROW (row), cases[i][1]);
      g_assert_false (plumb_field_row_has_fault (PLUMB_FIELD_ROW (row)));
      g_assert_cmpstr (plumb_spec_get_text (spec, cases[i][0]), ==, normal);
      g_assert_true (plumb_field_row_is_changed (PLUMB_FIELD_ROW (row)));
      g_assert_finalize_object (row);
    }
}

static void
count_cb (guint *count)
{
  ++*count;
}

static void
test_form_follows_algorithm (void)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  GtkWidget *form = g_object_ref_sink (g_object_new (PLUMB_TYPE_SPEC_FORM, NULL));
  guint changes = 0;

  plumb_spec_form_set_spec (PLUMB_SPEC_FORM (form), spec);
  g_signal_connect_swapped (form, "changed", G_CALLBACK (count_cb), &changes);
  g_assert_true (plumb_spec_form_enter (PLUMB_SPEC_FORM (form), "rollout.samples", "4"));
  g_assert_cmpuint (changes, >, 0);
  g_assert_true (plumb_spec_form_enter (PLUMB_SPEC_FORM (form), "run.algorithm", "sft"));
  settle ();
  g_assert_false (plumb_spec_form_enter (PLUMB_SPEC_FORM (form), "rollout.samples", "8"));
  g_assert_true (plumb_spec_form_enter (PLUMB_SPEC_FORM (form), "train.batch", "8"));
  g_assert_true (plumb_spec_form_enter (PLUMB_SPEC_FORM (form), "train.batch", "many"));
  g_assert_cmpuint (plumb_spec_form_count_faults (PLUMB_SPEC_FORM (form)), ==, 1);
  g_assert_finalize_object (form);
}

/* A preset's values, options of its rewards too, survive the form. */
static void
test_form_keeps_presets (void)
{
  g_autoptr (GPtrArray) presets = plumb_presets_list ();

  g_assert_cmpuint (presets->len, >, 0);
  for (guint i = 0; i < presets->len; i++)
    {
      const PlumbPreset *preset = presets->pdata[i];
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbSpec) spec = plumb_preset_load (preset->name, &error);
      g_autofree char *before = NULL;
      g_autofree char *after = NULL;
      GtkWidget *form = g_object_ref_sink (g_object_new (PLUMB_TYPE_SPEC_FORM, NULL));

      g_assert_no_error (error);
      before = plumb_spec_to_text (spec);
      plumb_spec_form_set_spec (PLUMB_SPEC_FORM (form), spec);
      settle ();
      after = plumb_spec_to_text (spec);
      g_assert_cmpstr (before, ==, after);
      g_assert_finalize_object (form);
    }
}

static PlumbPlot *
make_plot (gsize n)
{
  g_autoptr (PlumbTrack) track = plumb_track_new ();
  PlumbPlotSpec *spec = plumb_plot_spec_new ();

  for (gsize i = 0; i < n; i++)
    {
      PlumbPoint point = { i + 1, 1, i, i, sqrt (i) };

      plumb_track_add_points (track, &point, 1);
    }
  spec->width = spec->height = 100;
  plumb_plot_spec_add (spec, track, "root", "", PLUMB_PLOT_LINE, 0);
  return plumb_plot_new (spec);
}

static void
test_table_copies_all_points (void)
{
  g_autoptr (PlumbPlot) plot = make_plot (50000);
  GtkWidget *table = plumb_chart_table_new (plot, "Root");

  gtk_window_present (GTK_WINDOW (table));
  settle ();
  gtk_widget_activate_action (table, "table.copy", NULL);
  gtk_window_destroy (GTK_WINDOW (table));
  settle ();
}

/* The grid fills its width with equal columns and has room for every row. */
static void
test_grid (void)
{
  GtkWidget *grid = g_object_ref_sink (plumb_chart_grid_new ());
  int narrow, wide;

  for (int i = 0; i < 7; i++)
    plumb_chart_grid_append (PLUMB_CHART_GRID (grid), gtk_label_new ("x"));
  gtk_widget_measure (grid, GTK_ORIENTATION_VERTICAL, 350, &narrow, NULL, NULL, NULL);
  gtk_widget_measure (grid, GTK_ORIENTATION_VERTICAL, 950, &wide, NULL, NULL, NULL);
  g_assert_cmpint (wide, ==, 3 * (narrow + 12) / 7 - 12);
  plumb_chart_grid_clear (PLUMB_CHART_GRID (grid));
  gtk_widget_measure (grid, GTK_ORIENTATION_VERTICAL, 350, &narrow, NULL, NULL, NULL);
  g_assert_cmpint (narrow, ==, 0);
  g_assert_finalize_object (grid);
}

static void
test_sample_texts (void)
{
  g_autoptr (PlumbSample) sample = plumb_sample_new ();
  GtkWidget *brief = g_object_ref_sink (plumb_sample_brief_new ());
  GtkWidget *card;
  g_autofree char *line = plumb_sample_one_line ("a\nb\xff tail", 4);
  g_autofree char *facts = NULL;

  g_assert_true (g_utf8_validate (line, -1, NULL));
  g_assert_cmpint (g_utf8_strlen (line, -1), <=, 4);
  g_assert_true (g_str_has_prefix (line, "a b"));

  sample->failed = TRUE;
  sample->reason = g_strdup ("no answer");
  sample->advantage = NAN;
  sample->finish = g_strdup ("length");
  sample->response_text = g_strnfill (100000, 'x');
  facts = plumb_sample_facts (sample);
  g_assert_cmpstr (facts, ==, "cut at the limit · no answer");
  plumb_sample_brief_set_sample (PLUMB_SAMPLE_BRIEF (brief), sample);
  card = g_object_ref_sink (plumb_sample_card_new (sample));
  g_assert_finalize_object (card);
  g_assert_finalize_object (brief);
}

/* The pieces make both texts again, whatever the two are. */
static guint
check_diff (const char *old_text, const char *new_text)
{
  g_autoptr (GArray) pieces = plumb_text_diff (old_text, new_text);
  g_autoptr (GString) old_again = g_string_new (NULL), new_again = g_string_new (NULL);
  guint same = 0;

  for (guint i = 0; i < pieces->len; i++)
    {
      const PlumbDiffPiece *piece = &g_array_index (pieces, PlumbDiffPiece, i);

      if (piece->kind != PLUMB_DIFF_ADDED)
        g_string_append_len (old_again, piece->text, piece->length);
      if (piece->kind != PLUMB_DIFF_REMOVED)
        g_string_append_len (new_again, piece->text, piece->length);
      same += piece->kind == PLUMB_DIFF_SAME ? piece->length : 0;
    }
  g_assert_cmpstr (old_again->str, ==, old_text);
  g_assert_cmpstr (new_again->str, ==, new_text);
  return same;
}

static void
test_text_diff (void)
{
  g_autofree char *markup = NULL;
  g_autoptr (GString) long_text = g_string_new (NULL), other = g_string_new (NULL);

  g_assert_cmpuint (check_diff ("", ""), ==, 0);
  g_assert_cmpuint (check_diff ("one two", ""), ==, 0);
  g_assert_cmpuint (check_diff ("one two three ", "one 2 three "), ==, strlen ("one three "));
  g_assert_cmpuint (check_diff ("a b c d", "b c d e"), ==, strlen ("b c "));
  for (int round = 0; round < 200; round++)
    {
      g_autoptr (GString) first = g_string_new (NULL), second = g_string_new (NULL);
      GString *texts[] = { first, second };

      for (int k = 0; k < 2; k++)
        for (int n = g_test_rand_int_range (0, 30); n > 0; n--)
          g_string_append_printf (texts[k], "%c%s", (char)g_test_rand_int_range ('a', 'd'),
                                  n % 3 == 0 ? "\n" : " ");
      check_diff (first->str, second->str);
      g_assert_cmpuint (check_diff (first->str, first->str), ==, first->len);
    }
  /* Too much for a table: still right, though nothing in between is found. */
  for (int i = 0; i < 40000; i++)
    {
      g_string_append_printf (long_text, "%d ", i);
      g_string_append_printf (other, "%d ", i + 1);
    }
  check_diff (long_text->str, other->str);

  markup = plumb_sample_diff_markup ("x < 3 so 4", "x < 3 so 5\xff");
  g_assert_true (pango_parse_markup (markup, -1, 0, NULL, NULL, NULL, NULL));
  g_assert_nonnull (strstr (markup, "strikethrough"));
  g_assert_true (g_str_has_prefix (markup, "x &lt; 3 so "));
}

static void
test_pins (void)
{
  PlumbPins *pins = plumb_pins_get_default ();
  const char *const *names;

  plumb_pins_set (pins, "reward/mean", TRUE);
  plumb_pins_set (pins, "policy/entropy", TRUE);
  plumb_pins_set (pins, "reward/mean", TRUE);
  names = plumb_pins_list (pins);
  g_assert_cmpstr (names[0], ==, "reward/mean");
  g_assert_cmpstr (names[1], ==, "policy/entropy");
  g_assert_null (names[2]);
  plumb_pins_set (pins, "reward/mean", FALSE);
  g_assert_false (plumb_pins_contain (pins, "reward/mean"));
  g_assert_true (plumb_pins_contain (pins, "policy/entropy"));
  plumb_pins_set (pins, "policy/entropy", FALSE);
  g_assert_null (plumb_pins_list (pins)[0]);
}

static gboolean
has_label (GtkWidget *widget, const char *text)
{
  if (GTK_IS_LABEL (widget) && g_str_equal (gtk_label_get_text (GTK_LABEL (widget)), text))
    return TRUE;
  for (GtkWidget *child = gtk_widget_get_first_child (widget); child != NULL;
       child = gtk_widget_get_next_sibling (child))
    if (has_label (child, text))
      return TRUE;
  return FALSE;
}

/* What the engine says of rows is shown; what is no preview is told as trouble. */
static void
test_data_preview (void)
{
  PlumbDataPreview *preview = g_object_ref_sink (plumb_data_preview_new (NULL));
  g_autoptr (JsonNode) node = json_from_string (
      "{\"counts\": {\"rows\": 2, \"broken\": 1, \"dropped\": 0, \"truncated\": 0},"
      " \"notes\": [{\"message\": \"<prompt> = q\", \"file\": \"/x/a.jsonl\", \"line\": null}], "
      "\"left_out\": [7],"
      " \"rows\": [{\"file\": \"/x/a.jsonl\", \"line\": 3, \"answer\": \"4\", \"sequences\": "
      "[{\"kind\":"
      " \"response\", \"tokens\": 5, \"trained_tokens\": 1, \"segments\": [{\"text\": \"2+2=\", "
      "\"trained\": false},"
      " {\"text\": \"4\", \"trained\": true}]}]}, \"no row\"]}",
      NULL);
  PlumbEngineReply reply = { .json = node };
  PlumbEngineReply failed = { .exit_code = 3, .complaint = (char *)"there is <nothing>" };

  plumb_data_preview_show (preview, &reply);
  settle ();
  g_assert_true (has_label (GTK_WIDGET (preview), "2 rows used, 1 broken, 0 too long, 0 cut"));
  g_assert_true (has_label (GTK_WIDGET (preview), "a.jsonl, line 3"));
  g_assert_true (has_label (GTK_WIDGET (preview), "Prompt and answer · 5 tokens, 1 trained"));
  g_assert_true (has_label (GTK_WIDGET (preview), "2+2=4"));
  g_assert_true (has_label (GTK_WIDGET (preview), "Right answer: 4"));
  g_assert_true (has_label (GTK_WIDGET (preview), "<prompt> = q"));
  plumb_data_preview_show (preview, &failed);
  g_assert_true (has_label (GTK_WIDGET (preview), "there is <nothing>"));
  gtk_window_destroy (GTK_WINDOW (preview));
  settle ();
  g_assert_finalize_object (preview);
}

/* As the application does. */
static void
load_style (void)
{
  g_autoptr (GtkCssProvider) provider = gtk_css_provider_new ();

  gtk_css_provider_load_from_resource (provider, "/org/plumbline/Plumbline/style.css");
  gtk_style_context_add_provider_for_display (gdk_display_get_default (),
                                              GTK_STYLE_PROVIDER (provider),
                                              GTK_STYLE_PROVIDER_PRIORITY_APPLICATION);
}

int
main (int argc, char **argv)
{
  gtk_test_init (&argc, &argv, NULL);
  adw_init ();
  load_style ();
  g_test_add_func ("/widgets/templates", test_templates);
  g_test_add_func ("/widgets/form-has-all-fields", test_form_has_all_fields);
  g_test_add_func ("/widgets/row-takes-values", test_row_takes_values);
  g_test_add_func ("/widgets/row-kinds", test_row_kinds);
  g_test_add_func ("/widgets/form-follows-algorithm", test_form_follows_algorithm);
  g_test_add_func ("/widgets/form-keeps-presets", test_form_keeps_presets);
  g_test_add_func ("/widgets/table", test_table_copies_all_points);
  g_test_add_func ("/widgets/grid", test_grid);
  g_test_add_func ("/widgets/data-preview", test_data_preview);
  g_test_add_func ("/widgets/sample-texts", test_sample_texts);
  g_test_add_func ("/widgets/text-diff", test_text_diff);
  g_test_add_func ("/widgets/pins", test_pins);
  return g_test_run ();
}
