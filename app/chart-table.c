/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "app/chart-table.h"
#include "app/plot-format.h"

/* One row of the table: a point of the chart's first series. */
#define PLUMB_TYPE_TABLE_ROW (plumb_table_row_get_type ())
G_DECLARE_FINAL_TYPE (PlumbTableRow, plumb_table_row, PLUMB, TABLE_ROW, GObject)

struct _PlumbTableRow
{
  GObject parent_instance;

  gsize index;
};

G_DEFINE_FINAL_TYPE (PlumbTableRow, plumb_table_row, G_TYPE_OBJECT)

static void
plumb_table_row_class_init (PlumbTableRowClass *klass)
{
}

static void
plumb_table_row_init (PlumbTableRow *self)
{
}

/* The rows, newest first, made when they come into view: a chart may have 50,000 points. */
#define PLUMB_TYPE_TABLE_MODEL (plumb_table_model_get_type ())
G_DECLARE_FINAL_TYPE (PlumbTableModel, plumb_table_model, PLUMB, TABLE_MODEL, GObject)

struct _PlumbTableModel
{
  GObject parent_instance;

  gsize n;
};

static GType
get_item_type (GListModel *model)
{
  return PLUMB_TYPE_TABLE_ROW;
}

static guint
get_n_items (GListModel *model)
{
  return PLUMB_TABLE_MODEL (model)->n;
}

static gpointer
get_item (GListModel *model, guint position)
{
  PlumbTableModel *self = PLUMB_TABLE_MODEL (model);
  PlumbTableRow *row;

  if (position >= self->n)
    return NULL;
  row = g_object_new (PLUMB_TYPE_TABLE_ROW, NULL);
  row->index = self->n - 1 - position;
  return row;
}

static void
list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = get_item_type;
  iface->get_n_items = get_n_items;
  iface->get_item = get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (PlumbTableModel,
                               plumb_table_model,
                               G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, list_model_init))

static void
plumb_table_model_class_init (PlumbTableModelClass *klass)
{
}

static void
plumb_table_model_init (PlumbTableModel *self)
{
}

struct _PlumbChartTable
{
  AdwWindow parent_instance;

  GtkColumnView *view;
  PlumbPlot *plot;
};

G_DEFINE_FINAL_TYPE (PlumbChartTable, plumb_chart_table, ADW_TYPE_WINDOW)

/* What a column shows: step, time, or a series by its number. */
enum
{
  COLUMN_STEP = -2,
  COLUMN_TIME = -1,
};

static char *
cell_text (PlumbChartTable *self, gsize index, int column)
{
  const PlumbCurve *first = plumb_plot_get_curve (self->plot, 0);
  const PlumbPoint *point = &first->points[index];
  const PlumbCurve *curve;
  gsize k;

  if (column == COLUMN_STEP)
    return point->step == PLUMB_NO_STEP ? g_strdup ("–")
                                        : g_strdup_printf ("%" G_GINT64_FORMAT, point->step);
  if (column == COLUMN_TIME)
    {
      g_autoptr (GDateTime) date = g_date_time_new_from_unix_local ((gint64)point->time);

      return date != NULL ? g_date_time_format (date, "%F %T") : g_strdup ("–");
    }
  curve = plumb_plot_get_curve (self->plot, column);
  k = plumb_curve_find (curve, first->x[index]);
  if (k == curve->n || curve->x[k] != first->x[index])
    return g_strdup ("–");
  return plumb_format_exact (curve->raw[k]);
}

static void
setup_cb (GtkSignalListItemFactory *factory, GtkListItem *item, gpointer user_data)
{
  GtkWidget *label = gtk_label_new (NULL);

  gtk_label_set_xalign (GTK_LABEL (label), 0);
  gtk_widget_add_css_class (label, "numeric");
  gtk_list_item_set_child (item, label);
}

static void
bind_cb (GtkSignalListItemFactory *factory, GtkListItem *item, gpointer user_data)
{
  PlumbChartTable *self = PLUMB_CHART_TABLE (user_data);
  PlumbTableRow *row = PLUMB_TABLE_ROW (gtk_list_item_get_item (item));
  int column = GPOINTER_TO_INT (g_object_get_data (G_OBJECT (factory), "column"));
  g_autofree char *text = cell_text (self, row->index, column);

  gtk_label_set_text (GTK_LABEL (gtk_list_item_get_child (item)), text);
}

static void
add_column (PlumbChartTable *self, const char *title, int column)
{
  GtkListItemFactory *factory = gtk_signal_list_item_factory_new ();
  GtkColumnViewColumn *view_column;

  g_object_set_data (G_OBJECT (factory), "column", GINT_TO_POINTER (column));
  g_signal_connect_object (factory, "setup", G_CALLBACK (setup_cb), self, 0);
  g_signal_connect_object (factory, "bind", G_CALLBACK (bind_cb), self, 0);
  view_column = gtk_column_view_column_new (title, factory);
  gtk_column_view_column_set_expand (view_column, TRUE);
  gtk_column_view_column_set_resizable (view_column, TRUE);
  gtk_column_view_append_column (self->view, view_column);
  g_object_unref (view_column);
}

static void
copy_cb (GtkWidget *widget, const char *name, GVariant *parameter)
{
  PlumbChartTable *self = PLUMB_CHART_TABLE (widget);
  g_autofree char *csv = plumb_plot_to_csv (self->plot);

  gdk_clipboard_set_text (gtk_widget_get_clipboard (widget), csv);
}

static void
plumb_chart_table_dispose (GObject *object)
{
  PlumbChartTable *self = PLUMB_CHART_TABLE (object);

  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_CHART_TABLE);
  G_OBJECT_CLASS (plumb_chart_table_parent_class)->dispose (object);
}

static void
plumb_chart_table_finalize (GObject *object)
{
  g_clear_pointer (&PLUMB_CHART_TABLE (object)->plot, plumb_plot_unref);
  G_OBJECT_CLASS (plumb_chart_table_parent_class)->finalize (object);
}

static void
plumb_chart_table_class_init (PlumbChartTableClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_chart_table_dispose;
  G_OBJECT_CLASS (klass)->finalize = plumb_chart_table_finalize;
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/chart-table.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbChartTable, view);
  gtk_widget_class_install_action (widget_class, "table.copy", NULL, copy_cb);
}

static void
plumb_chart_table_init (PlumbChartTable *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
}

GtkWidget *
plumb_chart_table_new (PlumbPlot *plot, const char *title)
{
  PlumbChartTable *self;
  g_autoptr (GtkSingleSelection) selection = NULL;
  PlumbTableModel *model;
  const PlumbPlotSpec *spec;

  g_return_val_if_fail (plot != NULL && plumb_plot_get_spec (plot)->series->len > 0, NULL);

  self = g_object_new (PLUMB_TYPE_CHART_TABLE, "title", title, NULL);
  self->plot = plumb_plot_ref (plot);
  spec = plumb_plot_get_spec (plot);
  add_column (self, _ ("Step"), COLUMN_STEP);
  add_column (self, _ ("Time"), COLUMN_TIME);
  for (guint i = 0; i < spec->series->len; i++)
    add_column (self, ((PlumbPlotSeries *)spec->series->pdata[i])->label, i);

  model = g_object_new (PLUMB_TYPE_TABLE_MODEL, NULL);
  model->n = plumb_plot_get_curve (plot, 0)->n;
  selection = gtk_single_selection_new (G_LIST_MODEL (model));
  gtk_column_view_set_model (self->view, GTK_SELECTION_MODEL (selection));
  return GTK_WIDGET (self);
}
