/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <glib/gi18n.h>

#include "app/accessible.h"
#include "app/charts-page.h"
#include "app/details-page.h"
#include "app/overview.h"
#include "app/plot-format.h"
#include "app/rollouts-page.h"
#include "app/run-page.h"
#include "app/run-row.h"
#include "app/timeline-page.h"

struct _PlumbRunPage
{
  GtkBox parent_instance;

  AdwHeaderBar *header;
  GtkWidget *back;
  AdwViewStack *stack;
  GtkLabel *name;
  GtkLabel *chip;
  GtkProgressBar *progress;
  GtkLabel *facts;
  GtkWidget *banner;
  GtkImage *banner_icon;
  GtkLabel *banner_text;
  GtkWidget *stop;
  GtkWidget *resume;
  PlumbOverview *overview;
  PlumbChartsPage *charts;
  PlumbRolloutsPage *rollouts;
  PlumbTimelinePage *timeline;
  PlumbDetailsPage *details;

  PlumbRun *run;
  const char *chip_style;
  gint64 shown_at; /* when its rows began to be read; 0: they are all here */
  gboolean folded;
};

enum
{
  PROP_0,
  PROP_FOLDED,
  N_PROPS,
};
static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (PlumbRunPage, plumb_run_page, GTK_TYPE_BOX)

static void
append_fact (GString *facts, char *fact)
{
  g_autofree char *owned = fact;

  g_string_append_printf (facts, "%s%s", facts->len > 0 ? " · " : "", owned);
}

/* "12.1k tok/s (64 % of the limit)": a throughput is never shown without the share it reaches,
 * where that was measured. */
static char *
format_throughput (PlumbRunPage *self, const PlumbRunStatus *status)
{
  g_autofree char *speed = NULL, *share = NULL;
  PlumbPoint last;

  if (!(status->tokens_per_second > 0))
    return NULL;
  speed = plumb_format_value (status->tokens_per_second, "tokens/s");
  if (!plumb_run_get_last (self->run, "throughput/total_of_limit", &last))
    return g_steal_pointer (&speed);
  share = plumb_format_value (last.value, "share");
  return g_strdup_printf (_ ("%s (%s of the limit)"), speed, share);
}

static char *
format_step (const PlumbRunStatus *status)
{
  if (status->total_steps > 0)
    return g_strdup_printf (_ ("Step %d of %d"), (int)status->step, (int)status->total_steps);
  return g_strdup_printf (_ ("Step %d"), (int)status->step);
}

static char *
format_facts (PlumbRunPage *self, const PlumbRunInfo *info)
{
  g_autoptr (GString) facts = g_string_new (NULL);
  const PlumbRunStatus *status = info->status;
  gboolean alive = plumb_run_state_is_alive (info->state);

  if (status != NULL)
    {
      char *throughput = format_throughput (self, status);

      append_fact (facts, format_step (status));
      if (alive && status->phase != NULL && *status->phase != '\0')
        append_fact (facts, g_strdup (status->phase));
      if (alive && status->eta > 0)
        {
          g_autofree char *eta = plumb_format_duration (status->eta);

          append_fact (facts, g_strdup_printf (_ ("%s left"), eta));
        }
      if (throughput != NULL)
        append_fact (facts, throughput);
    }
  if (info->checkpoint >= 0)
    append_fact (facts, g_strdup_printf (_ ("checkpoint %d"), (int)info->checkpoint));
  return g_string_free (g_steal_pointer (&facts), FALSE);
}

static void
show_chip (PlumbRunPage *self, PlumbRunState state)
{
  const char *style = plumb_run_state_style (state);

  if (self->chip_style != NULL)
    gtk_widget_remove_css_class (GTK_WIDGET (self->chip), self->chip_style);
  self->chip_style = style;
  gtk_widget_add_css_class (GTK_WIDGET (self->chip), style);
  gtk_label_set_text (self->chip, _ (plumb_run_state_label (state)));
}

/* What is wrong, if anything: how the run ended badly, or why it cannot be read. */
static void
show_banner (PlumbRunPage *self, const PlumbRunInfo *info)
{
  const char *trouble = plumb_run_get_trouble (self->run);
  const char *message = info != NULL ? info->message : NULL;
  gboolean bad = info != NULL
                 && (info->state == PLUMB_RUN_STATE_FAILED || info->state == PLUMB_RUN_STATE_KILLED
                     || info->state == PLUMB_RUN_STATE_STALLED
                     || info->state == PLUMB_RUN_STATE_LOST_CONTACT);

  if (trouble != NULL)
    message = trouble;
  gtk_widget_set_visible (self->banner, message != NULL && *message != '\0');
  if (message != NULL)
    gtk_label_set_text (self->banner_text, message);
  bad = bad || trouble != NULL;
  gtk_image_set_from_icon_name (self->banner_icon,
                                bad ? "dialog-error-symbolic" : "dialog-information-symbolic");
  if (bad)
    gtk_widget_add_css_class (self->banner, "bad");
  else
    gtk_widget_remove_css_class (self->banner, "bad");
}

static void
changed_cb (PlumbRunPage *self)
{
  const PlumbRunInfo *info = plumb_run_get_info (self->run);
  const PlumbRunStatus *status = info != NULL ? info->status : NULL;
  gboolean alive = plumb_run_is_alive (self->run);
  g_autofree char *facts = NULL;

  gtk_label_set_text (self->name, plumb_run_get_title (self->run));
  gtk_widget_set_tooltip_text (GTK_WIDGET (self->name), plumb_run_get_path (self->run));
  gtk_widget_set_visible (GTK_WIDGET (self->chip), info != NULL);
  show_banner (self, info);
  gtk_widget_set_visible (self->stop, alive);
  gtk_widget_set_visible (self->resume,
                          !alive && info != NULL && info->state != PLUMB_RUN_STATE_FINISHED);
  if (info == NULL)
    return;
  show_chip (self, info->state);
  facts = format_facts (self, info);
  gtk_label_set_text (self->facts, facts);
  gtk_widget_set_visible (GTK_WIDGET (self->progress),
                          alive && status != NULL && status->total_steps > 0);
  if (status != NULL && status->total_steps > 0)
    gtk_progress_bar_set_fraction (self->progress,
                                   CLAMP ((double)status->step / status->total_steps, 0, 1));
}

/* How long opening took, for the benchmark of the window. */
static void
rows_cb (PlumbRunPage *self)
{
  /* Of a run that is over the state never changes again, but its throughput has only now come. */
  if (!plumb_run_is_alive (self->run))
    changed_cb (self);
  if (self->shown_at == 0 || !plumb_run_is_loaded (self->run))
    return;
  g_debug ("rows of %s read after %.0f ms", plumb_run_get_path (self->run),
           (g_get_monotonic_time () - self->shown_at) / 1000.0);
  self->shown_at = 0;
}

static void
view_cb (PlumbRunPage *self)
{
  gtk_widget_activate_action (GTK_WIDGET (self), "win.view", "s", plumb_run_page_get_view (self));
}

static void
plumb_run_page_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_FOLDED:
      g_value_set_boolean (value, PLUMB_RUN_PAGE (object)->folded);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_run_page_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  PlumbRunPage *self = PLUMB_RUN_PAGE (object);

  switch (id)
    {
    case PROP_FOLDED:
      self->folded = g_value_get_boolean (value);
      gtk_widget_set_visible (self->back, self->folded);
      adw_header_bar_set_show_start_title_buttons (self->header, self->folded);
      g_object_notify_by_pspec (object, pspec);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_run_page_dispose (GObject *object)
{
  PlumbRunPage *self = PLUMB_RUN_PAGE (object);

  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_clear_object (&self->run);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_RUN_PAGE);
  G_OBJECT_CLASS (plumb_run_page_parent_class)->dispose (object);
}

static void
bind_children (GtkWidgetClass *klass)
{
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, header);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, back);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, stack);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, name);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, chip);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, progress);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, facts);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, banner);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, banner_icon);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, banner_text);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, stop);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, resume);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, overview);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, charts);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, rollouts);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, timeline);
  gtk_widget_class_bind_template_child (klass, PlumbRunPage, details);
  gtk_widget_class_bind_template_callback (klass, view_cb);
}

static void
plumb_run_page_class_init (PlumbRunPageClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  object_class->get_property = plumb_run_page_get_property;
  object_class->set_property = plumb_run_page_set_property;
  object_class->dispose = plumb_run_page_dispose;
  properties[PROP_FOLDED]
      = g_param_spec_boolean ("folded", NULL, NULL, FALSE,
                              G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS);
  g_object_class_install_properties (object_class, N_PROPS, properties);
  g_type_ensure (PLUMB_TYPE_OVERVIEW);
  g_type_ensure (PLUMB_TYPE_CHARTS_PAGE);
  g_type_ensure (PLUMB_TYPE_ROLLOUTS_PAGE);
  g_type_ensure (PLUMB_TYPE_TIMELINE_PAGE);
  g_type_ensure (PLUMB_TYPE_DETAILS_PAGE);
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/run-page.ui");
  bind_children (widget_class);
}

static void
plumb_run_page_init (PlumbRunPage *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
  plumb_accessible_follow_pages (GTK_WIDGET (self->stack));
}

void
plumb_run_page_set_run (PlumbRunPage *self, PlumbRun *run)
{
  g_return_if_fail (PLUMB_IS_RUN_PAGE (self));

  if (self->run == run)
    return;
  if (self->run != NULL)
    {
      g_signal_handlers_disconnect_by_data (self->run, self);
      plumb_run_set_visible (self->run, FALSE);
    }
  g_set_object (&self->run, run);
  self->shown_at = g_get_monotonic_time ();
  plumb_overview_set_run (self->overview, run);
  plumb_charts_page_set_run (self->charts, run);
  plumb_rollouts_page_set_run (self->rollouts, run);
  plumb_timeline_page_set_run (self->timeline, run);
  plumb_details_page_set_run (self->details, run);
  if (run == NULL)
    return;
  plumb_run_set_visible (run, TRUE);
  g_signal_connect_object (run, "changed", G_CALLBACK (changed_cb), self, G_CONNECT_SWAPPED);
  g_signal_connect_object (run, "rows", G_CALLBACK (rows_cb), self, G_CONNECT_SWAPPED);
  changed_cb (self);
  g_debug ("page built after %.0f ms", (g_get_monotonic_time () - self->shown_at) / 1000.0);
}

gboolean
plumb_run_page_set_view (PlumbRunPage *self, const char *name)
{
  g_return_val_if_fail (PLUMB_IS_RUN_PAGE (self), FALSE);

  if (adw_view_stack_get_child_by_name (self->stack, name) == NULL)
    return FALSE;
  if (g_strcmp0 (name, adw_view_stack_get_visible_child_name (self->stack)) != 0)
    adw_view_stack_set_visible_child_name (self->stack, name);
  return TRUE;
}

const char *
plumb_run_page_get_view (PlumbRunPage *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN_PAGE (self), NULL);

  return adw_view_stack_get_visible_child_name (self->stack);
}

void
plumb_run_page_find (PlumbRunPage *self)
{
  GtkWidget *view;

  g_return_if_fail (PLUMB_IS_RUN_PAGE (self));

  view = adw_view_stack_get_visible_child (self->stack);
  if (view == GTK_WIDGET (self->rollouts))
    plumb_rollouts_page_find (self->rollouts);
  else if (view == GTK_WIDGET (self->details))
    plumb_details_page_find (self->details);
  else
    {
      plumb_run_page_set_view (self, "charts");
      plumb_charts_page_find (self->charts);
    }
}
