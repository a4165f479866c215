/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "app/plot-format.h"
#include "app/run-row.h"

struct _PlumbRunRow
{
  GtkListBoxRow parent_instance;

  GtkImage *icon;
  GtkLabel *title;
  GtkInscription *facts;
  GtkProgressBar *progress;
  PlumbRun *run;
  const char *style;
  gboolean was_alive;
};

G_DEFINE_FINAL_TYPE (PlumbRunRow, plumb_run_row, GTK_TYPE_LIST_BOX_ROW)

const char *
plumb_run_state_style (PlumbRunState state)
{
  switch (state)
    {
    case PLUMB_RUN_STATE_STARTING:
    case PLUMB_RUN_STATE_RUNNING:
      return "accent";
    case PLUMB_RUN_STATE_FINISHED:
      return "success";
    case PLUMB_RUN_STATE_STALLED:
    case PLUMB_RUN_STATE_STOPPING:
    case PLUMB_RUN_STATE_TIMED_OUT:
    case PLUMB_RUN_STATE_PREEMPTED:
    case PLUMB_RUN_STATE_LOST_CONTACT:
      return "warning";
    case PLUMB_RUN_STATE_FAILED:
    case PLUMB_RUN_STATE_KILLED:
      return "error";
    case PLUMB_RUN_STATE_QUEUED:
    case PLUMB_RUN_STATE_STOPPED:
      break;
    }
  return "dim-label";
}

/* Shape tells the states apart where colour does not. */
const char *
plumb_run_state_icon (PlumbRunState state)
{
  switch (state)
    {
    case PLUMB_RUN_STATE_STARTING:
    case PLUMB_RUN_STATE_RUNNING:
      return "media-playback-start-symbolic";
    case PLUMB_RUN_STATE_FINISHED:
      return "object-select-symbolic";
    case PLUMB_RUN_STATE_STALLED:
    case PLUMB_RUN_STATE_TIMED_OUT:
    case PLUMB_RUN_STATE_PREEMPTED:
    case PLUMB_RUN_STATE_LOST_CONTACT:
      return "dialog-warning-symbolic";
    case PLUMB_RUN_STATE_FAILED:
    case PLUMB_RUN_STATE_KILLED:
      return "dialog-error-symbolic";
    case PLUMB_RUN_STATE_QUEUED:
      return "content-loading-symbolic";
    case PLUMB_RUN_STATE_STOPPING:
    case PLUMB_RUN_STATE_STOPPED:
      break;
    }
  return "media-playback-stop-symbolic";
}

static char *
format_facts (const PlumbRunInfo *info)
{
  const char *state = _ (plumb_run_state_label (info->state));
  const PlumbRunStatus *status = info->status;

  if (status == NULL)
    return g_strdup (state);
  if (plumb_run_state_is_alive (info->state) && status->eta > 0 && status->total_steps > 0)
    {
      g_autofree char *eta = plumb_format_duration (status->eta);

      /* translators: "Running · 37 % · 2 min 10 s left" */
      return g_strdup_printf (_ ("%s · %d %% · %s left"), state,
                              (int)(100 * status->step / status->total_steps), eta);
    }
  return g_strdup_printf (_ ("%s · step %d"), state, (int)status->step);
}

static void
set_style (PlumbRunRow *self, const char *style)
{
  if (self->style != NULL)
    gtk_widget_remove_css_class (GTK_WIDGET (self->icon), self->style);
  gtk_widget_add_css_class (GTK_WIDGET (self->icon), style);
  self->style = style;
}

static void
changed_cb (PlumbRunRow *self)
{
  const PlumbRunInfo *info = plumb_run_get_info (self->run);
  const PlumbRunStatus *status = info != NULL ? info->status : NULL;
  g_autofree char *facts = NULL;
  gboolean alive = plumb_run_is_alive (self->run);

  gtk_label_set_text (self->title, plumb_run_get_title (self->run));
  gtk_widget_set_tooltip_text (GTK_WIDGET (self), plumb_run_get_path (self->run));
  if (info == NULL)
    return;
  facts = format_facts (info);
  gtk_inscription_set_text (self->facts, facts);
  gtk_image_set_from_icon_name (self->icon, plumb_run_state_icon (info->state));
  set_style (self, plumb_run_state_style (info->state));
  gtk_widget_set_visible (GTK_WIDGET (self->progress),
                          alive && status != NULL && status->total_steps > 0);
  if (status != NULL && status->total_steps > 0)
    gtk_progress_bar_set_fraction (self->progress,
                                   CLAMP ((double)status->step / status->total_steps, 0, 1));
  gtk_accessible_update_property (GTK_ACCESSIBLE (self), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                  plumb_run_get_title (self->run),
                                  GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, facts, -1);
  if (alive != self->was_alive)
    {
      self->was_alive = alive;
      gtk_list_box_row_changed (GTK_LIST_BOX_ROW (self));
    }
}

static void
plumb_run_row_dispose (GObject *object)
{
  PlumbRunRow *self = PLUMB_RUN_ROW (object);

  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_RUN_ROW);
  g_clear_object (&self->run);
  G_OBJECT_CLASS (plumb_run_row_parent_class)->dispose (object);
}

static void
plumb_run_row_class_init (PlumbRunRowClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_run_row_dispose;
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/run-row.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbRunRow, icon);
  gtk_widget_class_bind_template_child (widget_class, PlumbRunRow, title);
  gtk_widget_class_bind_template_child (widget_class, PlumbRunRow, facts);
  gtk_widget_class_bind_template_child (widget_class, PlumbRunRow, progress);
}

static void
plumb_run_row_init (PlumbRunRow *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
}

GtkWidget *
plumb_run_row_new (PlumbRun *run)
{
  PlumbRunRow *self;

  g_return_val_if_fail (PLUMB_IS_RUN (run), NULL);

  self = g_object_new (PLUMB_TYPE_RUN_ROW, NULL);
  self->run = g_object_ref (run);
  g_signal_connect_object (run, "changed", G_CALLBACK (changed_cb), self, G_CONNECT_SWAPPED);
  changed_cb (self);
  return GTK_WIDGET (self);
}

PlumbRun *
plumb_run_row_get_run (PlumbRunRow *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN_ROW (self), NULL);

  return self->run;
}
