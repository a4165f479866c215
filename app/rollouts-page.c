/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "app/accessible.h"
#include "app/background.h"
#include "app/plot-format.h"
#include "app/rollouts-page.h"
#include "app/sample-card.h"
#include "app/sample-diff.h"

#define WIDE 760 /* px: from here on the list of prompts stands beside the group */
#define INTERVAL 2000

struct _PlumbRolloutsPage
{
  GtkWidget parent_instance;

  GtkBox *box;
  GtkLabel *step_label;
  GtkLabel *prompt_label;
  GtkSearchEntry *search;
  GtkToggleButton *cut_only;
  GtkStack *stack;
  GtkWidget *prompts_pane;
  GtkListBox *prompts;
  GtkScrolledWindow *group_scrolled;
  GtkBox *group;

  PlumbRun *run;
  GCancellable *cancellable;
  PlumbStepSamples *found;
  GPtrArray *starts; /* of each shown prompt: its first sample, as an index into found->samples */
  guint prompt;      /* the selected one, as an index into starts */
  GPtrArray *shown;  /* the samples of the cards, in their order; of found->samples */
  guint card;        /* the completion that the keys are on */
  guint timeout;
  gboolean follow;
  gboolean loading;
  gboolean wide;
};

G_DEFINE_FINAL_TYPE (PlumbRolloutsPage, plumb_rollouts_page, GTK_TYPE_WIDGET)

static const PlumbSample *
sample_at (PlumbRolloutsPage *self, guint i)
{
  return self->found->samples->pdata[i];
}

static gboolean
same_prompt (const PlumbSample *a, const PlumbSample *b)
{
  return a->prompt == b->prompt && a->eval == b->eval && g_strcmp0 (a->set, b->set) == 0;
}

static guint
group_end (PlumbRolloutsPage *self, guint start)
{
  guint end = start + 1;

  while (end < self->found->samples->len
         && same_prompt (sample_at (self, start), sample_at (self, end)))
    end++;
  return end;
}

static gboolean
contains (const char *text, const char *folded)
{
  g_autofree char *haystack = text != NULL ? g_utf8_casefold (text, -1) : NULL;

  return haystack != NULL && strstr (haystack, folded) != NULL;
}

/* A group is shown when one of its completions passes both filters. */
static gboolean
group_passes (PlumbRolloutsPage *self, guint start, guint end)
{
  g_autofree char *folded
      = g_utf8_casefold (gtk_editable_get_text (GTK_EDITABLE (self->search)), -1);
  gboolean cut_only = gtk_toggle_button_get_active (self->cut_only);

  for (guint i = start; i < end; i++)
    {
      const PlumbSample *sample = sample_at (self, i);

      if (cut_only && g_strcmp0 (sample->finish, "length") != 0)
        continue;
      if (*folded == '\0' || contains (sample->prompt_text, folded)
          || contains (sample->response_text, folded))
        return TRUE;
    }
  return FALSE;
}

typedef struct
{
  double mean, std;
  guint n, n_failed;
} GroupFacts;

static GroupFacts
measure_group (PlumbRolloutsPage *self, guint start, guint end)
{
  GroupFacts facts = { 0 };
  double sum = 0, squares = 0;

  for (guint i = start; i < end; i++)
    {
      const PlumbSample *sample = sample_at (self, i);

      if (sample->failed)
        {
          facts.n_failed++;
          continue;
        }
      sum += sample->reward;
      facts.n++;
    }
  facts.mean = facts.n > 0 ? sum / facts.n : NAN;
  for (guint i = start; i < end; i++)
    if (!sample_at (self, i)->failed)
      squares += (sample_at (self, i)->reward - facts.mean)
                 * (sample_at (self, i)->reward - facts.mean);
  facts.std = facts.n > 0 ? sqrt (squares / facts.n) : NAN;
  return facts;
}

static GtkWidget *
new_prompt_row (PlumbRolloutsPage *self, guint start)
{
  const PlumbSample *sample = sample_at (self, start);
  GroupFacts facts = measure_group (self, start, group_end (self, start));
  GtkWidget *row = gtk_list_box_row_new ();
  GtkWidget *box = gtk_box_new (GTK_ORIENTATION_HORIZONTAL, 8);
  g_autofree char *mean
      = facts.n > 0 ? g_strdup_printf ("%.2f", facts.mean) : g_strdup (_ ("failed"));
  g_autofree char *text = plumb_sample_one_line (sample->prompt_text, 200);
  /* translators: "Mean reward 0.50: What is 3 + 4?" */
  g_autofree char *name = g_strdup_printf (_ ("Mean reward %s: %s"), mean, text);
  GtkWidget *value = gtk_label_new (mean);
  GtkWidget *label = gtk_label_new (text);

  gtk_widget_add_css_class (value, "numeric");
  gtk_widget_add_css_class (value, facts.n > 0 && facts.std == 0 ? "dim-label" : "accent");
  gtk_widget_set_tooltip_text (
      value, facts.n > 0 && facts.std == 0
                 ? _ ("Mean reward; all are the same, so this group teaches nothing")
                 : _ ("Mean reward"));
  gtk_label_set_ellipsize (GTK_LABEL (label), PANGO_ELLIPSIZE_END);
  gtk_label_set_xalign (GTK_LABEL (label), 0);
  gtk_widget_set_hexpand (label, TRUE);
  gtk_widget_set_tooltip_text (label, text);
  gtk_box_append (GTK_BOX (box), value);
  gtk_box_append (GTK_BOX (box), label);
  gtk_list_box_row_set_child (GTK_LIST_BOX_ROW (row), box);
  plumb_accessible_set_label (row, name);
  return row;
}

static void
clear_box (GtkBox *box)
{
  GtkWidget *child;

  while ((child = gtk_widget_get_first_child (GTK_WIDGET (box))) != NULL)
    gtk_box_remove (box, child);
}

static int
compare_rewards (gconstpointer a, gconstpointer b)
{
  const PlumbSample *left = *(PlumbSample *const *)a, *right = *(PlumbSample *const *)b;

  if (left->failed != right->failed)
    return left->failed ? 1 : -1;
  if (!left->failed && left->reward != right->reward)
    return left->reward > right->reward ? -1 : 1;
  return left->sample - right->sample;
}

static char *
format_group (const GroupFacts *facts)
{
  g_autoptr (GString) text = g_string_new (NULL);

  g_string_append_printf (
      text,
      ngettext ("Group of %u completion", "Group of %u completions", facts->n + facts->n_failed),
      facts->n + facts->n_failed);
  if (facts->n > 0)
    g_string_append_printf (text, _ (" · mean reward %.3g, deviation %.3g"), facts->mean,
                            facts->std);
  if (facts->n_failed > 0)
    g_string_append_printf (text, _ (" · %u failed, left out"), facts->n_failed);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static GtkWidget *
card_at (PlumbRolloutsPage *self, guint place)
{
  guint n = 0;

  for (GtkWidget *child = gtk_widget_get_first_child (GTK_WIDGET (self->group)); child != NULL;
       child = gtk_widget_get_next_sibling (child))
    if (PLUMB_IS_SAMPLE_CARD (child) && n++ == place)
      return child;
  return NULL;
}

/* The completion that the keys are on is marked. */
static void
set_card (PlumbRolloutsPage *self, guint place)
{
  GtkWidget *before = card_at (self, self->card), *now = card_at (self, place);

  if (before != NULL)
    gtk_widget_remove_css_class (before, "current");
  self->card = place;
  if (now != NULL)
    gtk_widget_add_css_class (now, "current");
}

static void
group_pressed_cb (PlumbRolloutsPage *self, int n_press, double x, double y)
{
  GtkWidget *picked = gtk_widget_pick (GTK_WIDGET (self->group), x, y, GTK_PICK_DEFAULT);
  GtkWidget *card = picked != NULL && !PLUMB_IS_SAMPLE_CARD (picked)
                        ? gtk_widget_get_ancestor (picked, PLUMB_TYPE_SAMPLE_CARD)
                        : picked;

  for (guint i = 0; card != NULL && i < self->shown->len; i++)
    if (card_at (self, i) == card)
      set_card (self, i);
}

static void
show_group (PlumbRolloutsPage *self)
{
  guint start, end;
  const PlumbSample *first;
  GroupFacts facts;
  g_autofree char *summary = NULL;
  GtkWidget *prompt;

  clear_box (self->group);
  g_ptr_array_set_size (self->shown, 0);
  if (self->starts->len == 0)
    return;
  start = GPOINTER_TO_UINT (self->starts->pdata[self->prompt]);
  end = group_end (self, start);
  first = sample_at (self, start);
  facts = measure_group (self, start, end);
  summary = format_group (&facts);
  for (guint i = start; i < end; i++)
    g_ptr_array_add (self->shown, self->found->samples->pdata[i]);
  g_ptr_array_sort (self->shown, compare_rewards);

  prompt = plumb_sample_label_new (first->prompt_text, "prompt");
  gtk_label_set_selectable (GTK_LABEL (prompt), TRUE);
  gtk_box_append (self->group, prompt);
  if (first->answer != NULL && *first->answer != '\0')
    {
      g_autofree char *answer = g_strdup_printf (_ ("Expected answer: %s"), first->answer);

      gtk_box_append (self->group, plumb_sample_label_new (answer, "dim-label"));
    }
  gtk_box_append (self->group, plumb_sample_label_new (summary, "heading"));
  for (guint i = 0; i < self->shown->len; i++)
    gtk_box_append (self->group, plumb_sample_card_new (self->shown->pdata[i]));
  set_card (self, 0);
  gtk_adjustment_set_value (gtk_scrolled_window_get_vadjustment (self->group_scrolled), 0);
}

static void
update_labels (PlumbRolloutsPage *self)
{
  g_autofree char *step = NULL, *prompt = NULL;
  guint place = 0;

  for (guint i = 0; i < self->found->steps->len; i++)
    if (g_array_index (self->found->steps, gint64, i) <= self->found->step)
      place = i;
  step = g_strdup_printf (_ ("Step %d"), (int)self->found->step);
  gtk_label_set_text (self->step_label, self->found->step == PLUMB_NO_STEP ? _ ("Step –") : step);
  if (self->starts->len > 0)
    /* translators: the third of sixteen prompts */
    prompt = g_strdup_printf (_ ("Prompt %u/%u"), self->prompt + 1, self->starts->len);
  gtk_label_set_text (self->prompt_label, prompt != NULL ? prompt : _ ("Prompt –"));
  gtk_widget_action_set_enabled (GTK_WIDGET (self), "rollouts.previous-step", place > 0);
  gtk_widget_action_set_enabled (GTK_WIDGET (self), "rollouts.next-step",
                                 place + 1 < self->found->steps->len);
  gtk_widget_action_set_enabled (GTK_WIDGET (self), "rollouts.previous-prompt", self->prompt > 0);
  gtk_widget_action_set_enabled (GTK_WIDGET (self), "rollouts.next-prompt",
                                 self->prompt + 1 < self->starts->len);
}

static void
select_prompt (PlumbRolloutsPage *self, guint prompt)
{
  GtkListBoxRow *row;

  self->prompt = MIN (prompt, MAX (1, self->starts->len) - 1);
  row = gtk_list_box_get_row_at_index (self->prompts, self->prompt);
  if (row != NULL && gtk_list_box_get_selected_row (self->prompts) != row)
    gtk_list_box_select_row (self->prompts, row);
  show_group (self);
  update_labels (self);
}

static void
rebuild (PlumbRolloutsPage *self)
{
  GtkListBoxRow *row;

  if (self->found == NULL)
    return;
  while ((row = gtk_list_box_get_row_at_index (self->prompts, 0)) != NULL)
    gtk_list_box_remove (self->prompts, GTK_WIDGET (row));
  g_ptr_array_set_size (self->starts, 0);
  for (guint i = 0; i < self->found->samples->len; i = group_end (self, i))
    if (group_passes (self, i, group_end (self, i)))
      {
        g_ptr_array_add (self->starts, GUINT_TO_POINTER (i));
        gtk_list_box_append (self->prompts, new_prompt_row (self, i));
      }
  if (self->found->samples->len == 0)
    gtk_stack_set_visible_child_name (self->stack, "empty");
  else
    gtk_stack_set_visible_child_name (self->stack, self->starts->len > 0 ? "samples" : "no-match");
  select_prompt (self, self->prompt);
}

static void
loaded_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (PlumbRolloutsPage) self = user_data;
  g_autoptr (GError) error = NULL;
  PlumbStepSamples *found = plumb_samples_load_finish (result, &error);
  gboolean same;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  self->loading = FALSE;
  if (found == NULL)
    {
      gtk_widget_activate_action (GTK_WIDGET (self), "win.show-message", "s", error->message);
      return;
    }
  same = self->found != NULL && self->found->step == found->step
         && self->found->samples->len == found->samples->len;
  /* The cards stand for the samples that are there already. */
  if (same)
    {
      GPtrArray *samples = g_steal_pointer (&found->samples);

      found->samples = g_steal_pointer (&self->found->samples);
      self->found->samples = samples;
    }
  g_clear_pointer (&self->found, plumb_step_samples_free);
  self->found = found;
  if (same)
    update_labels (self);
  else
    rebuild (self);
}

static void
load (PlumbRolloutsPage *self, gint64 step)
{
  if (self->run == NULL || self->loading)
    return;
  self->loading = TRUE;
  plumb_samples_load_async (self->run, step, self->cancellable, loaded_cb, g_object_ref (self));
}

static gboolean
timeout_cb (gpointer user_data)
{
  PlumbRolloutsPage *self = user_data;

  self->timeout = 0;
  if (!gtk_widget_get_mapped (GTK_WIDGET (self)))
    return G_SOURCE_REMOVE;
  load (self, self->follow || self->found == NULL ? PLUMB_NO_STEP : self->found->step);
  return G_SOURCE_REMOVE;
}

static void
queue_load (PlumbRolloutsPage *self)
{
  if (self->timeout == 0)
    self->timeout = g_timeout_add (self->found == NULL ? 50 : INTERVAL, timeout_cb, self);
}

static void
go_to_step (PlumbRolloutsPage *self, int by)
{
  GArray *steps;

  if (self->found == NULL)
    return;
  steps = self->found->steps;
  for (guint i = 0; i < steps->len; i++)
    if (g_array_index (steps, gint64, i) == self->found->step)
      {
        guint target = CLAMP ((int)i + by, 0, (int)steps->len - 1);

        self->follow = target + 1 == steps->len;
        load (self, g_array_index (steps, gint64, target));
        return;
      }
}

static void
step_action_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  go_to_step (PLUMB_ROLLOUTS_PAGE (widget), g_str_has_suffix (name, "next-step") ? 1 : -1);
}

static void
prompt_action_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  PlumbRolloutsPage *self = PLUMB_ROLLOUTS_PAGE (widget);

  if (self->found == NULL || self->starts->len == 0)
    return;
  if (g_str_has_suffix (name, "next-prompt"))
    select_prompt (self, self->prompt + 1);
  else if (self->prompt > 0)
    select_prompt (self, self->prompt - 1);
}

/* Moves from one completion of the group to the next, which scrolls to the top. */
static void
card_action_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  PlumbRolloutsPage *self = PLUMB_ROLLOUTS_PAGE (widget);
  int place = (int)self->card + (g_str_has_suffix (name, "next-completion") ? 1 : -1);
  GtkWidget *card = place >= 0 ? card_at (self, place) : NULL;
  graphene_point_t point;

  if (card == NULL
      || !gtk_widget_compute_point (card, GTK_WIDGET (self->group), &GRAPHENE_POINT_INIT (0, 0),
                                    &point))
    return;
  set_card (self, place);
  gtk_adjustment_set_value (gtk_scrolled_window_get_vadjustment (self->group_scrolled), point.y);
}

/* Against the answer to the same prompt at an earlier step. */
static void
diff_action_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  PlumbRolloutsPage *self = PLUMB_ROLLOUTS_PAGE (widget);

  if (self->run != NULL && self->card < self->shown->len)
    plumb_sample_diff_show (widget, self->run, self->shown->pdata[self->card]);
}

static void
prompt_selected_cb (PlumbRolloutsPage *self, GtkListBoxRow *row)
{
  if (row != NULL && (guint)gtk_list_box_row_get_index (row) != self->prompt)
    select_prompt (self, gtk_list_box_row_get_index (row));
}

static void
filter_cb (PlumbRolloutsPage *self)
{
  self->prompt = 0;
  rebuild (self);
}

static gboolean
apply_width_cb (gpointer user_data)
{
  PlumbRolloutsPage *self = user_data;

  if (self->prompts_pane != NULL)
    gtk_widget_set_visible (self->prompts_pane, self->wide);
  return G_SOURCE_REMOVE;
}

static void
plumb_rollouts_page_size_allocate (GtkWidget *widget, int width, int height, int baseline)
{
  PlumbRolloutsPage *self = PLUMB_ROLLOUTS_PAGE (widget);

  gtk_widget_allocate (GTK_WIDGET (self->box), width, height, baseline, NULL);
  if (self->wide == (width >= WIDE))
    return;
  self->wide = width >= WIDE;
  g_idle_add_full (G_PRIORITY_HIGH_IDLE, apply_width_cb, g_object_ref (self), g_object_unref);
}

static void
plumb_rollouts_page_measure (GtkWidget *widget,
                             GtkOrientation orientation,
                             int for_size,
                             int *minimum,
                             int *natural,
                             int *minimum_baseline,
                             int *natural_baseline)
{
  PlumbRolloutsPage *self = PLUMB_ROLLOUTS_PAGE (widget);

  gtk_widget_measure (GTK_WIDGET (self->box), orientation, for_size, minimum, natural, NULL, NULL);
  if (orientation == GTK_ORIENTATION_HORIZONTAL)
    *minimum = MIN (*minimum, 320);
}

static void
plumb_rollouts_page_map (GtkWidget *widget)
{
  GTK_WIDGET_CLASS (plumb_rollouts_page_parent_class)->map (widget);
  queue_load (PLUMB_ROLLOUTS_PAGE (widget));
}

static void
plumb_rollouts_page_dispose (GObject *object)
{
  PlumbRolloutsPage *self = PLUMB_ROLLOUTS_PAGE (object);

  g_cancellable_cancel (self->cancellable);
  g_clear_handle_id (&self->timeout, g_source_remove);
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_clear_object (&self->run);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_ROLLOUTS_PAGE);
  G_OBJECT_CLASS (plumb_rollouts_page_parent_class)->dispose (object);
}

static void
plumb_rollouts_page_finalize (GObject *object)
{
  PlumbRolloutsPage *self = PLUMB_ROLLOUTS_PAGE (object);

  g_object_unref (self->cancellable);
  g_clear_pointer (&self->found, plumb_step_samples_free);
  g_ptr_array_unref (self->starts);
  g_ptr_array_unref (self->shown);
  G_OBJECT_CLASS (plumb_rollouts_page_parent_class)->finalize (object);
}

static void
install_actions (GtkWidgetClass *klass)
{
  gtk_widget_class_install_action (klass, "rollouts.previous-step", NULL, step_action_cb);
  gtk_widget_class_install_action (klass, "rollouts.next-step", NULL, step_action_cb);
  gtk_widget_class_install_action (klass, "rollouts.previous-prompt", NULL, prompt_action_cb);
  gtk_widget_class_install_action (klass, "rollouts.next-prompt", NULL, prompt_action_cb);
  gtk_widget_class_install_action (klass, "rollouts.previous-completion", NULL, card_action_cb);
  gtk_widget_class_install_action (klass, "rollouts.next-completion", NULL, card_action_cb);
  gtk_widget_class_install_action (klass, "rollouts.diff", NULL, diff_action_cb);
  gtk_widget_class_add_binding_action (klass, GDK_KEY_bracketleft, 0, "rollouts.previous-step",
                                       NULL);
  gtk_widget_class_add_binding_action (klass, GDK_KEY_bracketright, 0, "rollouts.next-step", NULL);
  gtk_widget_class_add_binding_action (klass, GDK_KEY_p, 0, "rollouts.previous-prompt", NULL);
  gtk_widget_class_add_binding_action (klass, GDK_KEY_n, 0, "rollouts.next-prompt", NULL);
  gtk_widget_class_add_binding_action (klass, GDK_KEY_k, 0, "rollouts.previous-completion", NULL);
  gtk_widget_class_add_binding_action (klass, GDK_KEY_j, 0, "rollouts.next-completion", NULL);
  gtk_widget_class_add_binding_action (klass, GDK_KEY_d, 0, "rollouts.diff", NULL);
}

static void
plumb_rollouts_page_class_init (PlumbRolloutsPageClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_rollouts_page_dispose;
  G_OBJECT_CLASS (klass)->finalize = plumb_rollouts_page_finalize;
  widget_class->size_allocate = plumb_rollouts_page_size_allocate;
  widget_class->measure = plumb_rollouts_page_measure;
  widget_class->map = plumb_rollouts_page_map;
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/rollouts-page.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, box);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, step_label);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, prompt_label);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, search);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, cut_only);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, stack);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, prompts_pane);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, prompts);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, group_scrolled);
  gtk_widget_class_bind_template_child (widget_class, PlumbRolloutsPage, group);
  gtk_widget_class_bind_template_callback (widget_class, filter_cb);
  gtk_widget_class_bind_template_callback (widget_class, prompt_selected_cb);
  install_actions (widget_class);
}

/* A press on a completion is for its text too. */
static void
add_click (PlumbRolloutsPage *self)
{
  GtkGesture *click = gtk_gesture_click_new ();

  gtk_event_controller_set_propagation_phase (GTK_EVENT_CONTROLLER (click), GTK_PHASE_CAPTURE);
  g_signal_connect_swapped (click, "pressed", G_CALLBACK (group_pressed_cb), self);
  gtk_widget_add_controller (GTK_WIDGET (self->group), GTK_EVENT_CONTROLLER (click));
}

static void
plumb_rollouts_page_init (PlumbRolloutsPage *self)
{
  self->cancellable = g_cancellable_new ();
  self->starts = g_ptr_array_new ();
  self->shown = g_ptr_array_new ();
  self->follow = TRUE;
  gtk_widget_init_template (GTK_WIDGET (self));
  plumb_accessible_follow_pages (GTK_WIDGET (self->stack));
  add_click (self);
}

void
plumb_rollouts_page_set_run (PlumbRolloutsPage *self, PlumbRun *run)
{
  g_return_if_fail (PLUMB_IS_ROLLOUTS_PAGE (self));

  if (self->run == run)
    return;
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_set_object (&self->run, run);
  g_cancellable_cancel (self->cancellable);
  g_object_unref (self->cancellable);
  self->cancellable = g_cancellable_new ();
  self->loading = FALSE;
  self->follow = TRUE;
  self->prompt = 0;
  g_clear_pointer (&self->found, plumb_step_samples_free);
  g_ptr_array_set_size (self->starts, 0);
  g_ptr_array_set_size (self->shown, 0);
  clear_box (self->group);
  gtk_stack_set_visible_child_name (self->stack, "empty");
  if (run == NULL)
    return;
  g_signal_connect_object (run, "rows", G_CALLBACK (queue_load), self, G_CONNECT_SWAPPED);
  queue_load (self);
}

void
plumb_rollouts_page_find (PlumbRolloutsPage *self)
{
  g_return_if_fail (PLUMB_IS_ROLLOUTS_PAGE (self));

  gtk_widget_grab_focus (GTK_WIDGET (self->search));
}
