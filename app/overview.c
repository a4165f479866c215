/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "app/background.h"
#include "app/chart-card.h"
#include "app/chart-grid.h"
#include "app/log-view.h"
#include "app/overview.h"
#include "app/sample-brief.h"

#define WIDE 860             /* px: from here on the completions stand beside the charts */
#define FIRST_CHARTS 8       /* more than a window shows without scrolling */
#define MORE_CHARTS_WAIT 500 /* ms */
#define SAMPLES_SHOWN 6
#define SAMPLES_INTERVAL 2000 /* ms between two looks at the samples */

struct _PlumbOverview
{
  GtkWidget parent_instance;

  GtkWidget *scrolled;
  GtkBox *panes;
  PlumbChartGrid *charts;
  GtkWidget *side;
  GtkLabel *samples_title;
  GtkBox *samples;
  GtkLabel *no_samples;
  GtkWidget *briefs[SAMPLES_SHOWN];
  PlumbLogView *log;

  PlumbRun *run;
  PlumbChartView *view;
  PlumbAlgorithm algorithm;
  GCancellable *cancellable;
  guint samples_timeout;
  guint more_charts;
  gint64 shown_step;
  gboolean wide;
};

G_DEFINE_FINAL_TYPE (PlumbOverview, plumb_overview, GTK_TYPE_WIDGET)

static void
add_charts (PlumbOverview *self, gsize from, gsize to)
{
  gsize n;
  const PlumbChart *charts = plumb_charts (self->algorithm, &n);

  for (gsize i = from; i < MIN (to, n); i++)
    plumb_chart_grid_append (self->charts,
                             plumb_chart_card_new (self->run, self->view, &charts[i]));
}

static gboolean
more_charts_cb (gpointer user_data)
{
  PlumbOverview *self = user_data;

  self->more_charts = 0;
  add_charts (self, FIRST_CHARTS, G_MAXSIZE);
  return G_SOURCE_REMOVE;
}

/* Those further down come a moment later: a page that opens has better things to do. */
static void
fill_charts (PlumbOverview *self)
{
  plumb_chart_grid_clear (self->charts);
  g_clear_handle_id (&self->more_charts, g_source_remove);
  self->algorithm = plumb_run_get_algorithm (self->run);
  add_charts (self, 0, FIRST_CHARTS);
  self->more_charts = g_timeout_add (MORE_CHARTS_WAIT, more_charts_cb, self);
}

/* Spread over the step's prompts, so that not all are answers to the first. */
static void
show_samples (PlumbOverview *self, const PlumbStepSamples *found)
{
  g_autofree char *title = NULL;
  guint n = found != NULL ? MIN (found->samples->len, SAMPLES_SHOWN) : 0;

  gtk_widget_set_visible (GTK_WIDGET (self->no_samples), n == 0);
  for (guint i = 0; i < SAMPLES_SHOWN; i++)
    {
      gtk_widget_set_visible (self->briefs[i], i < n);
      if (i < n)
        plumb_sample_brief_set_sample (PLUMB_SAMPLE_BRIEF (self->briefs[i]),
                                       found->samples->pdata[(gsize)i * found->samples->len / n]);
    }
  self->shown_step = n > 0 ? found->step : PLUMB_NO_STEP;
  if (n > 0)
    title = g_strdup_printf (_ ("Completions of Step %d"), (int)found->step);
  gtk_label_set_text (self->samples_title, title != NULL ? title : _ ("Completions"));
}

static void
samples_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (PlumbOverview) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbStepSamples) found = plumb_samples_load_finish (result, &error);

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  if (found != NULL && found->step != self->shown_step)
    show_samples (self, found);
}

static gboolean
samples_timeout_cb (gpointer user_data)
{
  PlumbOverview *self = user_data;

  self->samples_timeout = 0;
  if (self->run != NULL && gtk_widget_get_mapped (GTK_WIDGET (self)))
    plumb_samples_load_async (self->run, PLUMB_NO_STEP, self->cancellable, samples_cb,
                              g_object_ref (self));
  return G_SOURCE_REMOVE;
}

static void
queue_samples (PlumbOverview *self, guint wait)
{
  if (self->samples_timeout == 0)
    self->samples_timeout = g_timeout_add (wait, samples_timeout_cb, self);
}

static void
rows_cb (PlumbOverview *self)
{
  queue_samples (self, self->shown_step == PLUMB_NO_STEP ? 100 : SAMPLES_INTERVAL);
}

static void
changed_cb (PlumbOverview *self)
{
  if (plumb_run_get_algorithm (self->run) != self->algorithm)
    fill_charts (self);
}

static gboolean
apply_width_cb (gpointer user_data)
{
  PlumbOverview *self = user_data;

  if (self->panes != NULL)
    {
      gtk_orientable_set_orientation (GTK_ORIENTABLE (self->panes), self->wide
                                                                        ? GTK_ORIENTATION_HORIZONTAL
                                                                        : GTK_ORIENTATION_VERTICAL);
      gtk_widget_set_size_request (self->side, self->wide ? 300 : -1, -1);
    }
  return G_SOURCE_REMOVE;
}

/* Turning the box inside an allocation would ask for another one in the middle of it. */
static void
plumb_overview_size_allocate (GtkWidget *widget, int width, int height, int baseline)
{
  PlumbOverview *self = PLUMB_OVERVIEW (widget);
  gboolean wide = width >= WIDE;

  gtk_widget_allocate (self->scrolled, width, height, baseline, NULL);
  if (wide == self->wide)
    return;
  self->wide = wide;
  g_idle_add_full (G_PRIORITY_HIGH_IDLE, apply_width_cb, g_object_ref (self), g_object_unref);
}

static void
plumb_overview_measure (GtkWidget *widget,
                        GtkOrientation orientation,
                        int for_size,
                        int *minimum,
                        int *natural,
                        int *minimum_baseline,
                        int *natural_baseline)
{
  PlumbOverview *self = PLUMB_OVERVIEW (widget);

  gtk_widget_measure (self->scrolled, orientation, for_size, minimum, natural, NULL, NULL);
  /* The box may stand across when it is asked: it is turned in time for a narrow window. */
  if (orientation == GTK_ORIENTATION_HORIZONTAL)
    *minimum = MIN (*minimum, 320);
}

static void
plumb_overview_map (GtkWidget *widget)
{
  GTK_WIDGET_CLASS (plumb_overview_parent_class)->map (widget);
  queue_samples (PLUMB_OVERVIEW (widget), 100);
}

static void
plumb_overview_dispose (GObject *object)
{
  PlumbOverview *self = PLUMB_OVERVIEW (object);

  g_cancellable_cancel (self->cancellable);
  g_clear_handle_id (&self->samples_timeout, g_source_remove);
  g_clear_handle_id (&self->more_charts, g_source_remove);
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_clear_object (&self->run);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_OVERVIEW);
  g_clear_object (&self->view);
  G_OBJECT_CLASS (plumb_overview_parent_class)->dispose (object);
}

static void
plumb_overview_finalize (GObject *object)
{
  g_object_unref (PLUMB_OVERVIEW (object)->cancellable);
  G_OBJECT_CLASS (plumb_overview_parent_class)->finalize (object);
}

static void
plumb_overview_class_init (PlumbOverviewClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_overview_dispose;
  G_OBJECT_CLASS (klass)->finalize = plumb_overview_finalize;
  widget_class->size_allocate = plumb_overview_size_allocate;
  widget_class->measure = plumb_overview_measure;
  widget_class->map = plumb_overview_map;
  g_type_ensure (PLUMB_TYPE_CHART_GRID);
  g_type_ensure (PLUMB_TYPE_LOG_VIEW);
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/overview.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbOverview, scrolled);
  gtk_widget_class_bind_template_child (widget_class, PlumbOverview, panes);
  gtk_widget_class_bind_template_child (widget_class, PlumbOverview, charts);
  gtk_widget_class_bind_template_child (widget_class, PlumbOverview, side);
  gtk_widget_class_bind_template_child (widget_class, PlumbOverview, samples_title);
  gtk_widget_class_bind_template_child (widget_class, PlumbOverview, samples);
  gtk_widget_class_bind_template_child (widget_class, PlumbOverview, no_samples);
  gtk_widget_class_bind_template_child (widget_class, PlumbOverview, log);
}

static void
plumb_overview_init (PlumbOverview *self)
{
  self->cancellable = g_cancellable_new ();
  self->view = plumb_chart_view_new ();
  self->shown_step = PLUMB_NO_STEP;
  self->wide = TRUE;
  gtk_widget_init_template (GTK_WIDGET (self));
  for (guint i = 0; i < SAMPLES_SHOWN; i++)
    {
      self->briefs[i] = plumb_sample_brief_new ();
      gtk_box_append (self->samples, self->briefs[i]);
    }
  show_samples (self, NULL);
}

void
plumb_overview_set_run (PlumbOverview *self, PlumbRun *run)
{
  g_return_if_fail (PLUMB_IS_OVERVIEW (self));

  if (self->run == run)
    return;
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_set_object (&self->run, run);
  g_cancellable_cancel (self->cancellable);
  g_object_unref (self->cancellable);
  self->cancellable = g_cancellable_new ();
  show_samples (self, NULL);
  plumb_log_view_set_run (self->log, run);
  g_object_unref (self->view);
  self->view = plumb_chart_view_new ();
  if (run == NULL)
    {
      g_clear_handle_id (&self->more_charts, g_source_remove);
      plumb_chart_grid_clear (self->charts);
      return;
    }
  fill_charts (self);
  queue_samples (self, 100);
  g_signal_connect_object (run, "rows", G_CALLBACK (rows_cb), self, G_CONNECT_SWAPPED);
  g_signal_connect_object (run, "changed", G_CALLBACK (changed_cb), self, G_CONNECT_SWAPPED);
}
