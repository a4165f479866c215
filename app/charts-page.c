/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "app/accessible.h"
#include "app/chart-card.h"
#include "app/chart-grid.h"
#include "app/charts-page.h"
#include "app/pins.h"
#include "app/settings.h"

/* The order of the groups; others follow by name. */
static const char *const prefixes[]
    = { "reward",  "eval",       "length", "kl",   "policy",   "loss",   "critic",
        "rollout", "throughput", "time",   "data", "progress", "memory", "hw" };

typedef struct
{
  char *prefix;
  GtkWidget *expander;
  GtkLabel *label;
  PlumbChartGrid *charts;
} Group;

struct _PlumbChartsPage
{
  GtkBox parent_instance;

  GtkSearchEntry *filter;
  GtkDropDown *x_axis;
  GtkScale *smoothing;
  GtkLabel *smoothing_label;
  GtkButton *fit;
  GtkToggleButton *pinned_only;
  GtkStack *stack;
  GtkBox *groups_box;

  PlumbRun *run;
  PlumbChartView *view;
  Group *pinned; /* copies of the charts that are pinned; above the groups */
  GPtrArray *groups;
  GHashTable *cards; /* metric -> PlumbChartCard, owned by its grid */
};

G_DEFINE_FINAL_TYPE (PlumbChartsPage, plumb_charts_page, GTK_TYPE_BOX)

static void
group_free (gpointer data)
{
  Group *self = data;

  g_free (self->prefix);
  g_free (self);
}

static guint
prefix_rank (const char *prefix)
{
  for (guint i = 0; i < G_N_ELEMENTS (prefixes); i++)
    if (g_str_equal (prefixes[i], prefix))
      return i;
  return G_N_ELEMENTS (prefixes);
}

static gboolean
goes_before (const char *a, const char *b)
{
  guint left = prefix_rank (a), right = prefix_rank (b);

  return left != right ? left < right : strcmp (a, b) < 0;
}

static Group *
new_group (const char *prefix, gboolean expanded)
{
  Group *group = g_new0 (Group, 1);

  group->prefix = g_strdup (prefix);
  group->expander = gtk_expander_new (NULL);
  group->label = GTK_LABEL (gtk_label_new (NULL));
  group->charts = PLUMB_CHART_GRID (plumb_chart_grid_new ());
  gtk_widget_add_css_class (GTK_WIDGET (group->label), "heading");
  gtk_expander_set_label_widget (GTK_EXPANDER (group->expander), GTK_WIDGET (group->label));
  gtk_expander_set_expanded (GTK_EXPANDER (group->expander), expanded);
  gtk_expander_set_child (GTK_EXPANDER (group->expander), GTK_WIDGET (group->charts));
  gtk_widget_set_margin_top (GTK_WIDGET (group->charts), 6);
  return group;
}

static Group *
add_group (PlumbChartsPage *self, const char *prefix)
{
  Group *group;
  guint place = 0;

  while (place < self->groups->len
         && goes_before (((Group *)self->groups->pdata[place])->prefix, prefix))
    place++;

  group = new_group (prefix, place < 4);
  gtk_box_insert_child_after (self->groups_box, group->expander,
                              place > 0 ? ((Group *)self->groups->pdata[place - 1])->expander
                                        : self->pinned->expander);
  g_ptr_array_insert (self->groups, place, group);
  return group;
}

static Group *
ensure_group (PlumbChartsPage *self, const char *metric)
{
  g_autofree char *prefix = g_strndup (metric, strcspn (metric, "/"));

  for (guint i = 0; i < self->groups->len; i++)
    {
      Group *group = self->groups->pdata[i];

      if (g_str_equal (group->prefix, prefix))
        return group;
    }
  return add_group (self, prefix);
}

static gboolean
passes_filter (PlumbChartsPage *self, const char *metric)
{
  const char *text = gtk_editable_get_text (GTK_EDITABLE (self->filter));
  g_autoptr (GRegex) regex = NULL;

  if (*text == '\0')
    return TRUE;
  regex = g_regex_new (text, G_REGEX_CASELESS, 0, NULL);
  return regex != NULL ? g_regex_match (regex, metric, 0, NULL) : strstr (metric, text) != NULL;
}

static void
update_group (PlumbChartsPage *self, Group *group)
{
  g_autofree char *label = NULL;
  guint n = 0;

  for (GtkWidget *card = gtk_widget_get_first_child (GTK_WIDGET (group->charts)); card != NULL;
       card = gtk_widget_get_next_sibling (card))
    {
      gboolean shown = passes_filter (self, plumb_chart_card_get_title (PLUMB_CHART_CARD (card)));

      gtk_widget_set_visible (card, shown);
      n += shown;
    }
  label = g_strdup_printf ("%s (%u)", group->prefix, n);
  gtk_label_set_text (group->label, label);
  plumb_accessible_set_label (group->expander, label);
  gtk_widget_set_visible (group->expander, n > 0);
}

static void
update_groups (PlumbChartsPage *self)
{
  gboolean any;

  update_group (self, self->pinned);
  any = gtk_widget_get_visible (self->pinned->expander);
  for (guint i = 0; i < self->groups->len; i++)
    {
      Group *group = self->groups->pdata[i];

      update_group (self, group);
      if (gtk_toggle_button_get_active (self->pinned_only))
        gtk_widget_set_visible (group->expander, FALSE);
      any = any || gtk_widget_get_visible (group->expander);
    }
  if (any)
    gtk_stack_set_visible_child_name (self->stack, "charts");
  else
    gtk_stack_set_visible_child_name (self->stack,
                                      g_hash_table_size (self->cards) > 0 ? "no-match" : "empty");
}

/* By name within the group. */
static void
insert_card (PlumbChartGrid *charts, GtkWidget *card)
{
  const char *title = plumb_chart_card_get_title (PLUMB_CHART_CARD (card));
  GtkWidget *before = NULL;

  for (GtkWidget *child = gtk_widget_get_first_child (GTK_WIDGET (charts)); child != NULL;
       child = gtk_widget_get_next_sibling (child))
    if (strcmp (plumb_chart_card_get_title (PLUMB_CHART_CARD (child)), title) < 0)
      before = child;
  plumb_chart_grid_insert_after (charts, card, before);
}

/* Those of the pinned metrics that this run has, in the order in which they were pinned. */
static void
update_pinned (PlumbChartsPage *self)
{
  const char *const *names = plumb_pins_list (plumb_pins_get_default ());
  guint n = 0;

  plumb_chart_grid_clear (self->pinned->charts);
  for (gsize i = 0; names[i] != NULL && self->run != NULL; i++)
    if (g_hash_table_contains (self->cards, names[i]))
      {
        plumb_chart_grid_append (self->pinned->charts,
                                 plumb_chart_card_new_for_metric (self->run, self->view, names[i]));
        n++;
      }
  if (n == 0)
    gtk_toggle_button_set_active (self->pinned_only, FALSE);
  gtk_widget_set_sensitive (GTK_WIDGET (self->pinned_only), n > 0);
  update_groups (self);
}

/* The chart that the key was pressed on may be one of those that go. */
static gboolean
update_pinned_cb (gpointer user_data)
{
  PlumbChartsPage *self = user_data;

  if (self->pinned_only != NULL)
    update_pinned (self);
  return G_SOURCE_REMOVE;
}

static void
pins_cb (PlumbChartsPage *self)
{
  g_idle_add_full (G_PRIORITY_HIGH_IDLE, update_pinned_cb, g_object_ref (self), g_object_unref);
}

/* Cards are made while the page is shown: a hidden one costs nothing. */
static void
add_cards (PlumbChartsPage *self)
{
  g_autoptr (GPtrArray) metrics = NULL;
  guint before = g_hash_table_size (self->cards);

  if (self->run == NULL || !gtk_widget_get_mapped (GTK_WIDGET (self)))
    return;
  metrics = plumb_run_list_metrics (self->run);
  for (guint i = 0; i < metrics->len; i++)
    {
      const char *metric = metrics->pdata[i];
      GtkWidget *card;
      Group *group;

      if (g_hash_table_contains (self->cards, metric))
        continue;
      group = ensure_group (self, metric);
      card = plumb_chart_card_new_for_metric (self->run, self->view, metric);
      insert_card (group->charts, card);
      g_hash_table_insert (self->cards, g_strdup (metric), card);
    }
  if (before != g_hash_table_size (self->cards) || before == 0)
    update_pinned (self);
}

static void
clear (PlumbChartsPage *self)
{
  g_hash_table_remove_all (self->cards);
  plumb_chart_grid_clear (self->pinned->charts);
  for (guint i = 0; i < self->groups->len; i++)
    gtk_box_remove (self->groups_box, ((Group *)self->groups->pdata[i])->expander);
  g_ptr_array_set_size (self->groups, 0);
}

static void
filter_cb (PlumbChartsPage *self)
{
  update_groups (self);
}

static void
x_axis_cb (PlumbChartsPage *self)
{
  plumb_chart_view_set_x_axis (self->view, gtk_drop_down_get_selected (self->x_axis) == 1
                                               ? PLUMB_PLOT_X_ELAPSED
                                               : PLUMB_PLOT_X_STEP);
}

/* The left end of the slider is each metric's own smoothing. */
static void
smoothing_cb (PlumbChartsPage *self)
{
  double value = gtk_range_get_value (GTK_RANGE (self->smoothing));
  g_autofree char *text = NULL;

  if (value < 0)
    text = g_strdup (_ ("default"));
  else
    text = g_strdup_printf ("%.2f", value);
  gtk_label_set_text (self->smoothing_label, text);
  plumb_chart_view_set_smoothing (self->view, value < 0 ? -1 : value);
}

static void
fit_cb (PlumbChartsPage *self)
{
  plumb_chart_view_set_range (self->view, NAN, NAN);
}

static void
view_changed_cb (PlumbChartsPage *self)
{
  gtk_widget_set_sensitive (GTK_WIDGET (self->fit), plumb_chart_view_is_zoomed (self->view));
}

static void
plumb_charts_page_map (GtkWidget *widget)
{
  GTK_WIDGET_CLASS (plumb_charts_page_parent_class)->map (widget);
  add_cards (PLUMB_CHARTS_PAGE (widget));
}

static void
plumb_charts_page_dispose (GObject *object)
{
  PlumbChartsPage *self = PLUMB_CHARTS_PAGE (object);

  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_clear_object (&self->run);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_CHARTS_PAGE);
  g_clear_object (&self->view);
  G_OBJECT_CLASS (plumb_charts_page_parent_class)->dispose (object);
}

static void
plumb_charts_page_finalize (GObject *object)
{
  PlumbChartsPage *self = PLUMB_CHARTS_PAGE (object);

  group_free (self->pinned);
  g_ptr_array_unref (self->groups);
  g_hash_table_unref (self->cards);
  G_OBJECT_CLASS (plumb_charts_page_parent_class)->finalize (object);
}

static void
plumb_charts_page_class_init (PlumbChartsPageClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_charts_page_dispose;
  G_OBJECT_CLASS (klass)->finalize = plumb_charts_page_finalize;
  widget_class->map = plumb_charts_page_map;
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/charts-page.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbChartsPage, filter);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartsPage, x_axis);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartsPage, smoothing);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartsPage, smoothing_label);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartsPage, fit);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartsPage, pinned_only);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartsPage, stack);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartsPage, groups_box);
  gtk_widget_class_bind_template_callback (widget_class, filter_cb);
  gtk_widget_class_bind_template_callback (widget_class, x_axis_cb);
  gtk_widget_class_bind_template_callback (widget_class, smoothing_cb);
  gtk_widget_class_bind_template_callback (widget_class, fit_cb);
}

static void
bind_settings (PlumbChartsPage *self)
{
  GSettings *settings = plumb_settings_get ();

  if (settings == NULL)
    return;
  g_settings_bind (settings, "smoothing", gtk_range_get_adjustment (GTK_RANGE (self->smoothing)),
                   "value", G_SETTINGS_BIND_DEFAULT);
  g_settings_bind (settings, "x-axis", self->x_axis, "selected", G_SETTINGS_BIND_DEFAULT);
}

static void
plumb_charts_page_init (PlumbChartsPage *self)
{
  self->groups = g_ptr_array_new_with_free_func (group_free);
  self->cards = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->view = plumb_chart_view_new ();
  g_signal_connect_object (self->view, "view-changed", G_CALLBACK (view_changed_cb), self,
                           G_CONNECT_SWAPPED);
  gtk_widget_init_template (GTK_WIDGET (self));
  plumb_accessible_follow_pages (GTK_WIDGET (self->stack));
  self->pinned = new_group (_ ("pinned"), TRUE);
  gtk_box_append (self->groups_box, self->pinned->expander);
  g_signal_connect_object (plumb_pins_get_default (), "changed", G_CALLBACK (pins_cb), self,
                           G_CONNECT_SWAPPED);
  bind_settings (self);
}

void
plumb_charts_page_set_run (PlumbChartsPage *self, PlumbRun *run)
{
  g_return_if_fail (PLUMB_IS_CHARTS_PAGE (self));

  if (self->run == run)
    return;
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  clear (self);
  plumb_chart_view_set_range (self->view, NAN, NAN);
  g_set_object (&self->run, run);
  update_pinned (self);
  if (run == NULL)
    return;
  g_signal_connect_object (run, "rows", G_CALLBACK (add_cards), self, G_CONNECT_SWAPPED);
  add_cards (self);
}

void
plumb_charts_page_find (PlumbChartsPage *self)
{
  g_return_if_fail (PLUMB_IS_CHARTS_PAGE (self));

  gtk_widget_grab_focus (GTK_WIDGET (self->filter));
}
