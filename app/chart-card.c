/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "app/accessible.h"
#include "app/chart-card.h"
#include "app/chart-table.h"
#include "app/large-window.h"
#include "app/pins.h"
#include "app/plot-area.h"
#include "app/plot-format.h"
#include "app/plot-raster.h"

struct _PlumbChartCard
{
  GtkBox parent_instance;

  GtkLabel *title;
  GtkInscription *value; /* unlike a label it takes new text without a new layout of the page */
  GtkOverlay *overlay;
  GtkLabel *empty;
  GtkLabel *legend;
  GtkLabel *note;
  GtkWidget *options;
  GtkWidget *pin;
  PlumbPlotArea *area;

  PlumbRun *run;
  PlumbChartView *view;
  char *patterns[PLUMB_CHART_MAX_METRICS];
  const char *needs_key;
  gboolean stacked;
  gboolean loaded;    /* the run was, at the last rows */
  guint n_known;      /* metrics of the run when these were looked for */
  GPtrArray *metrics; /* names of what is drawn now, the main one first */
};

enum
{
  PROP_0,
  PROP_LOG,
  PROP_LOG_X,
  PROP_BAND,
  PROP_PINNED,
  N_PROPS,
};
static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (PlumbChartCard, plumb_chart_card, GTK_TYPE_BOX)

static GtkWidget *new_card (PlumbRun *run, PlumbChartView *view, const char *title);

static const char *
metric_unit (const char *name)
{
  const PlumbMetric *metric = plumb_metric_find (name);

  return metric != NULL && metric->unit != NULL ? metric->unit : "";
}

/* The metrics of the run that the patterns name, in the patterns' order. */
static void
find_metrics (PlumbChartCard *self)
{
  g_autoptr (GPtrArray) names = plumb_run_list_metrics (self->run);

  g_ptr_array_set_size (self->metrics, 0);
  for (guint i = 0; i < G_N_ELEMENTS (self->patterns) && self->patterns[i] != NULL; i++)
    for (guint k = 0; k < names->len; k++)
      if (g_pattern_match_simple (self->patterns[i], names->pdata[k])
          && !g_ptr_array_find_with_equal_func (self->metrics, names->pdata[k], g_str_equal, NULL))
        g_ptr_array_add (self->metrics, g_strdup (names->pdata[k]));
}

static PlumbPlotRole
role_of (PlumbChartCard *self, guint i)
{
  if (self->stacked)
    return PLUMB_PLOT_STACK;
  if (i == 0)
    return PLUMB_PLOT_LINE;
  return g_str_has_suffix (self->metrics->pdata[i], "/std") ? PLUMB_PLOT_BAND : PLUMB_PLOT_EXTRA;
}

/* A band has the colour of its line. */
static guint
color_of (PlumbChartCard *self, guint i)
{
  guint color = 0;

  for (guint k = 1; k <= i; k++)
    if (role_of (self, k) != PLUMB_PLOT_BAND)
      color++;
  return role_of (self, i) == PLUMB_PLOT_BAND ? 0 : color % PLUMB_PLOT_COLORS;
}

/* What tells the metrics of one chart apart: what follows the prefix that they share. */
static const char *
short_name (PlumbChartCard *self, guint i)
{
  const char *main_name = self->metrics->pdata[0];
  const char *name = self->metrics->pdata[i];
  const char *slash = strrchr (name, '/');
  gsize prefix = strcspn (main_name, "/");

  if (slash == NULL || strncmp (main_name, name, prefix + 1) != 0)
    return name;
  if (g_str_has_prefix (name, "eval/"))
    return name + strlen ("eval/");
  return slash + 1;
}

static void
add_events (PlumbChartCard *self, PlumbPlotSpec *spec)
{
  GListModel *events = plumb_run_get_events (self->run);
  guint n = g_list_model_get_n_items (events);

  for (guint i = n > 200 ? n - 200 : 0; i < n; i++)
    {
      g_autoptr (PlumbEventItem) item = g_list_model_get_item (events, i);
      PlumbPlotEvent event = { plumb_event_item_get_step (item), plumb_event_item_get_time (item),
                               plumb_event_item_get_level (item) != PLUMB_EVENT_INFO };

      if (event.step != PLUMB_NO_STEP)
        g_array_append_val (spec->events, event);
    }
}

static gboolean
starts_at_zero (const char *unit)
{
  static const char *const units[] = { "s", "tokens/s", "bytes", NULL };

  return g_strv_contains (units, unit);
}

static PlumbPlotSpec *
make_spec_cb (gpointer user_data)
{
  PlumbChartCard *self = user_data;
  PlumbPlotSpec *spec = plumb_plot_spec_new ();
  const PlumbMetric *metric;

  spec->x_axis = plumb_chart_view_get_x_axis (self->view);
  spec->origin = plumb_run_get_origin (self->run);
  if (self->metrics->len == 0)
    return spec;
  metric = plumb_metric_find (self->metrics->pdata[0]);
  spec->smoothing = metric != NULL ? metric->smoothing : 0;
  spec->from_zero = starts_at_zero (metric_unit (self->metrics->pdata[0]));
  if (g_str_has_prefix (self->metrics->pdata[0], "hw/"))
    spec->x_axis = PLUMB_PLOT_X_ELAPSED;
  for (guint i = 0; i < self->metrics->len; i++)
    {
      PlumbTrack *track = plumb_run_get_track (self->run, self->metrics->pdata[i]);
      PlumbPlotRole role = role_of (self, i);

      if (track == NULL || (role == PLUMB_PLOT_BAND && !plumb_plot_area_get_band (self->area)))
        continue;
      plumb_plot_spec_add (spec, track, short_name (self, i), metric_unit (self->metrics->pdata[i]),
                           role, color_of (self, i));
    }
  add_events (self, spec);
  return spec;
}

/* Legend with the colours of the lines, for charts of more than one. */
static void
update_legend (PlumbChartCard *self)
{
  g_autoptr (GString) markup = g_string_new (NULL);
  guint n = 0;

  for (guint i = 0; i < self->metrics->len; i++)
    {
      GtkStyleContext *context = gtk_widget_get_style_context (GTK_WIDGET (self));
      g_autofree char *name = g_strdup_printf ("chart_%u", color_of (self, i) + 1);
      g_autofree char *label = g_markup_escape_text (short_name (self, i), -1);
      GdkRGBA color = { 0, 0, 0, 1 };

      if (role_of (self, i) == PLUMB_PLOT_BAND)
        {
          g_string_append_printf (markup, " ± %s", label);
          continue;
        }
      gtk_style_context_lookup_color (context, name, &color);
      g_string_append_printf (markup, "%s<span foreground=\"#%02x%02x%02x\">■</span> %s",
                              n > 0 ? "   " : "", (int)(color.red * 255), (int)(color.green * 255),
                              (int)(color.blue * 255), label);
      n++;
    }
  gtk_label_set_markup (self->legend, markup->str);
  gtk_widget_set_visible (GTK_WIDGET (self->legend), self->metrics->len > 1);
}

/* Changes with the picture, not with each row: text costs more to lay out than lines to draw. */
static void
update_value (PlumbChartCard *self)
{
  PlumbPoint last;
  g_autofree char *text = NULL;
  guint length;

  if (self->metrics->len > 0 && !self->stacked
      && plumb_run_get_last (self->run, self->metrics->pdata[0], &last))
    text = plumb_format_value (last.value, metric_unit (self->metrics->pdata[0]));
  length = text != NULL ? g_utf8_strlen (text, -1) : 0;
  if (length != gtk_inscription_get_nat_chars (self->value))
    {
      gtk_inscription_set_min_chars (self->value, length);
      gtk_inscription_set_nat_chars (self->value, length);
    }
  gtk_inscription_set_text (self->value, text);
}

/* Why there is nothing to see: not yet, or never, because a setting says so. */
static void
update_empty (PlumbChartCard *self)
{
  PlumbSpec *spec = plumb_run_get_spec (self->run);
  const char *text = _ ("No points yet");

  gtk_widget_set_visible (GTK_WIDGET (self->empty), self->metrics->len == 0);
  if (self->metrics->len > 0)
    return;
  if (self->needs_key != NULL && spec != NULL && plumb_spec_is_off (spec, self->needs_key))
    text = strstr (self->needs_key, "coefficient") != NULL ? _ ("Not measured: coefficient 0")
                                                           : _ ("Not measured: turned off");
  else if (!plumb_run_is_alive (self->run) && plumb_run_is_loaded (self->run))
    text = _ ("Not measured in this run");
  gtk_label_set_text (self->empty, text);
}

/* The metric that is pinned with it: its main one. */
static const char *
main_metric (PlumbChartCard *self)
{
  return self->metrics->len > 0 ? self->metrics->pdata[0] : NULL;
}

static gboolean
is_pinned (PlumbChartCard *self)
{
  return main_metric (self) != NULL
         && plumb_pins_contain (plumb_pins_get_default (), main_metric (self));
}

static void
pins_cb (PlumbChartCard *self)
{
  gtk_widget_set_visible (self->pin, is_pinned (self));
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PINNED]);
}

static void
rows_cb (PlumbChartCard *self)
{
  guint before = self->metrics->len;

  if (self->n_known != plumb_run_count_metrics (self->run))
    find_metrics (self);
  self->n_known = plumb_run_count_metrics (self->run);
  if (before != self->metrics->len)
    {
      update_legend (self);
      update_empty (self);
      pins_cb (self);
    }
  /* A history that has just come in whole does not wait for its turn. */
  gtk_widget_set_visible (GTK_WIDGET (self->area), self->metrics->len > 0);
  if (self->loaded != plumb_run_is_loaded (self->run))
    plumb_plot_area_update_now (self->area);
  else
    plumb_plot_area_queue_update (self->area);
  self->loaded = plumb_run_is_loaded (self->run);
}

static void
style_cb (PlumbChartCard *self)
{
  update_legend (self);
}

/* A chart as large as a window; it starts with the look that the card has. */
static void
full_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  PlumbChartCard *self = PLUMB_CHART_CARD (widget);
  g_autoptr (PlumbChartView) view = plumb_chart_view_new ();
  PlumbChartCard *copy;

  plumb_chart_view_set_x_axis (view, plumb_chart_view_get_x_axis (self->view));
  plumb_chart_view_set_smoothing (view, plumb_chart_view_get_smoothing (self->view));
  copy = PLUMB_CHART_CARD (new_card (self->run, view, gtk_label_get_text (self->title)));
  for (guint i = 0; i < G_N_ELEMENTS (self->patterns); i++)
    copy->patterns[i] = g_strdup (self->patterns[i]);
  copy->stacked = self->stacked;
  copy->needs_key = self->needs_key;
  plumb_plot_area_set_log (copy->area, plumb_plot_area_get_log (self->area));
  plumb_plot_area_set_log_x (copy->area, plumb_plot_area_get_log_x (self->area));
  plumb_plot_area_set_band (copy->area, plumb_plot_area_get_band (self->area));
  gtk_widget_action_set_enabled (GTK_WIDGET (copy), "chart.full", FALSE);
  rows_cb (copy);
  update_empty (copy);
  plumb_large_window_present (GTK_WIDGET (copy), gtk_label_get_text (self->title),
                              GTK_WINDOW (gtk_widget_get_root (widget)));
}

static void
fit_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  plumb_chart_view_set_range (PLUMB_CHART_CARD (widget)->view, NAN, NAN);
}

static void
table_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  PlumbChartCard *self = PLUMB_CHART_CARD (widget);
  PlumbPlot *plot = plumb_plot_area_get_plot (self->area);
  GtkWidget *table;

  if (plot == NULL || self->metrics->len == 0)
    return;
  table = plumb_chart_table_new (plot, gtk_label_get_text (self->title));
  gtk_window_set_transient_for (GTK_WINDOW (table), GTK_WINDOW (gtk_widget_get_root (widget)));
  gtk_window_present (GTK_WINDOW (table));
}

static void
save_response_cb (GtkNativeDialog *dialog, int response, gpointer user_data)
{
  g_autoptr (PlumbChartCard) self = user_data;
  g_autoptr (GFile) file = NULL;
  g_autofree char *path = NULL;
  PlumbPlot *plot = plumb_plot_area_get_plot (self->area);

  if (response == GTK_RESPONSE_ACCEPT)
    file = gtk_file_chooser_get_file (GTK_FILE_CHOOSER (dialog));
  if (file != NULL && plot != NULL && (path = g_file_get_path (file)) != NULL)
    {
      g_autoptr (GError) error = NULL;

      if (!plumb_plot_save (plot, path, &error))
        gtk_widget_activate_action (GTK_WIDGET (self), "win.show-message", "s", error->message);
    }
  g_object_unref (dialog);
}

static void
save_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  PlumbChartCard *self = PLUMB_CHART_CARD (widget);
  GtkFileChooserNative *dialog;

  dialog = gtk_file_chooser_native_new (_ ("Save Chart"), GTK_WINDOW (gtk_widget_get_root (widget)),
                                        GTK_FILE_CHOOSER_ACTION_SAVE, NULL, NULL);
  gtk_file_chooser_set_current_name (GTK_FILE_CHOOSER (dialog), "chart.svg");
  g_signal_connect (dialog, "response", G_CALLBACK (save_response_cb), g_object_ref (self));
  gtk_native_dialog_show (GTK_NATIVE_DIALOG (dialog));
}

static void
plumb_chart_card_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  PlumbChartCard *self = PLUMB_CHART_CARD (object);

  switch (id)
    {
    case PROP_LOG:
      g_value_set_boolean (value, self->area != NULL && plumb_plot_area_get_log (self->area));
      break;
    case PROP_LOG_X:
      g_value_set_boolean (value, self->area != NULL && plumb_plot_area_get_log_x (self->area));
      break;
    case PROP_BAND:
      g_value_set_boolean (value, self->area != NULL && plumb_plot_area_get_band (self->area));
      break;
    case PROP_PINNED:
      g_value_set_boolean (value, is_pinned (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_chart_card_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  PlumbChartCard *self = PLUMB_CHART_CARD (object);
  gboolean set = g_value_get_boolean (value);

  switch (id)
    {
    case PROP_LOG:
      plumb_plot_area_set_log (self->area, set);
      break;
    case PROP_LOG_X:
      plumb_plot_area_set_log_x (self->area, set);
      break;
    case PROP_BAND:
      plumb_plot_area_set_band (self->area, set);
      break;
    case PROP_PINNED:
      if (main_metric (self) != NULL)
        plumb_pins_set (plumb_pins_get_default (), main_metric (self), set);
      return; /* pins_cb tells of it */
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      return;
    }
  g_object_notify_by_pspec (object, pspec);
}

/* The keys of a chart are for its area, not for the button of its menu. */
static gboolean
plumb_chart_card_grab_focus (GtkWidget *widget)
{
  PlumbChartCard *self = PLUMB_CHART_CARD (widget);

  return self->area != NULL && gtk_widget_grab_focus (GTK_WIDGET (self->area));
}

static void
plumb_chart_card_dispose (GObject *object)
{
  PlumbChartCard *self = PLUMB_CHART_CARD (object);

  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_CHART_CARD);
  if (self->run != NULL)
    g_signal_handlers_disconnect_by_data (self->run, self);
  g_clear_object (&self->run);
  g_clear_object (&self->view);
  G_OBJECT_CLASS (plumb_chart_card_parent_class)->dispose (object);
}

static void
plumb_chart_card_finalize (GObject *object)
{
  PlumbChartCard *self = PLUMB_CHART_CARD (object);

  for (guint i = 0; i < G_N_ELEMENTS (self->patterns); i++)
    g_free (self->patterns[i]);
  g_ptr_array_unref (self->metrics);
  G_OBJECT_CLASS (plumb_chart_card_parent_class)->finalize (object);
}

/* Those with a state show it in the menu. */
static void
install_properties (GObjectClass *klass)
{
  static const char *const names[N_PROPS] = { NULL, "log", "log-x", "band", "pinned" };

  for (guint i = 1; i < N_PROPS; i++)
    properties[i] = g_param_spec_boolean (names[i], NULL, NULL, FALSE,
                                          G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY
                                              | G_PARAM_STATIC_STRINGS);
  g_object_class_install_properties (klass, N_PROPS, properties);
}

static void
install_actions (GtkWidgetClass *klass)
{
  static const struct
  {
    guint key;
    GdkModifierType modifiers;
    const char *action;
  } keys[] = {
    { GDK_KEY_l, 0, "chart.log" },         { GDK_KEY_l, GDK_SHIFT_MASK, "chart.log-x" },
    { GDK_KEY_b, 0, "chart.band" },        { GDK_KEY_p, 0, "chart.pin" },
    { GDK_KEY_t, 0, "chart.table" },       { GDK_KEY_Return, 0, "chart.full" },
    { GDK_KEY_KP_Enter, 0, "chart.full" },
  };

  gtk_widget_class_install_property_action (klass, "chart.log", "log");
  gtk_widget_class_install_property_action (klass, "chart.log-x", "log-x");
  gtk_widget_class_install_property_action (klass, "chart.band", "band");
  gtk_widget_class_install_property_action (klass, "chart.pin", "pinned");
  gtk_widget_class_install_action (klass, "chart.table", NULL, table_cb);
  gtk_widget_class_install_action (klass, "chart.full", NULL, full_cb);
  gtk_widget_class_install_action (klass, "chart.save", NULL, save_cb);
  gtk_widget_class_install_action (klass, "chart.fit", NULL, fit_cb);
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    gtk_widget_class_add_binding_action (klass, keys[i].key, keys[i].modifiers, keys[i].action,
                                         NULL);
}

static void
plumb_chart_card_class_init (PlumbChartCardClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->get_property = plumb_chart_card_get_property;
  G_OBJECT_CLASS (klass)->set_property = plumb_chart_card_set_property;
  G_OBJECT_CLASS (klass)->dispose = plumb_chart_card_dispose;
  G_OBJECT_CLASS (klass)->finalize = plumb_chart_card_finalize;
  widget_class->grab_focus = plumb_chart_card_grab_focus;
  install_properties (G_OBJECT_CLASS (klass));
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/chart-card.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbChartCard, title);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartCard, value);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartCard, overlay);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartCard, empty);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartCard, legend);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartCard, note);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartCard, options);
  gtk_widget_class_bind_template_child (widget_class, PlumbChartCard, pin);
  install_actions (widget_class);
}

static void
plumb_chart_card_init (PlumbChartCard *self)
{
  self->metrics = g_ptr_array_new_with_free_func (g_free);
  gtk_widget_init_template (GTK_WIDGET (self));
}

static GtkWidget *
new_card (PlumbRun *run, PlumbChartView *view, const char *title)
{
  PlumbChartCard *self = g_object_new (PLUMB_TYPE_CHART_CARD, NULL);
  g_autofree char *options = g_strdup_printf (_ ("Options of the chart %s"), title);

  plumb_accessible_set_label (self->options, options);
  self->run = g_object_ref (run);
  self->view = g_object_ref (view);
  gtk_label_set_text (self->title, title);
  gtk_widget_set_tooltip_text (GTK_WIDGET (self->title), title);
  self->area = PLUMB_PLOT_AREA (plumb_plot_area_new (view, make_spec_cb, self));
  plumb_plot_area_set_title (self->area, title);
  g_signal_connect_object (self->area, "drawn", G_CALLBACK (update_value), self, G_CONNECT_SWAPPED);
  gtk_overlay_set_child (self->overlay, GTK_WIDGET (self->area));
  g_signal_connect_object (plumb_pins_get_default (), "changed", G_CALLBACK (pins_cb), self,
                           G_CONNECT_SWAPPED);
  g_signal_connect_object (run, "rows", G_CALLBACK (rows_cb), self, G_CONNECT_SWAPPED);
  g_signal_connect_object (run, "changed", G_CALLBACK (update_empty), self, G_CONNECT_SWAPPED);
  g_signal_connect_object (adw_style_manager_get_default (), "notify::dark", G_CALLBACK (style_cb),
                           self, G_CONNECT_SWAPPED | G_CONNECT_AFTER);
  return GTK_WIDGET (self);
}

GtkWidget *
plumb_chart_card_new (PlumbRun *run, PlumbChartView *view, const PlumbChart *chart)
{
  PlumbChartCard *self;

  g_return_val_if_fail (PLUMB_IS_RUN (run) && PLUMB_IS_CHART_VIEW (view) && chart != NULL, NULL);

  self = PLUMB_CHART_CARD (new_card (run, view, _ (chart->title)));
  for (guint i = 0; i < PLUMB_CHART_MAX_METRICS && chart->metrics[i] != NULL; i++)
    self->patterns[i] = g_strdup (chart->metrics[i]);
  self->stacked = chart->stacked;
  self->needs_key = chart->needs_key;
  if (chart->note != NULL)
    gtk_label_set_text (self->note, _ (chart->note));
  gtk_widget_set_visible (GTK_WIDGET (self->note), chart->note != NULL);
  rows_cb (self);
  update_empty (self);
  return GTK_WIDGET (self);
}

GtkWidget *
plumb_chart_card_new_for_metric (PlumbRun *run, PlumbChartView *view, const char *metric)
{
  PlumbChartCard *self;
  const PlumbMetric *row = plumb_metric_find (metric);

  g_return_val_if_fail (PLUMB_IS_RUN (run) && PLUMB_IS_CHART_VIEW (view), NULL);

  self = PLUMB_CHART_CARD (new_card (run, view, metric));
  self->patterns[0] = g_strdup (metric);
  if (row != NULL)
    gtk_widget_set_tooltip_text (GTK_WIDGET (self->title), _ (row->help));
  rows_cb (self);
  return GTK_WIDGET (self);
}

gboolean
plumb_chart_card_is_empty (PlumbChartCard *self)
{
  g_return_val_if_fail (PLUMB_IS_CHART_CARD (self), TRUE);

  return self->metrics->len == 0;
}

const char *
plumb_chart_card_get_title (PlumbChartCard *self)
{
  g_return_val_if_fail (PLUMB_IS_CHART_CARD (self), NULL);

  return gtk_label_get_text (self->title);
}
