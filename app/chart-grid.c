/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "app/chart-grid.h"

#define LEAST_WIDTH 220 /* px, of a column */
#define WANTED_WIDTH 300
#define ROW_HEIGHT 208
#define GAP 12

struct _PlumbChartGrid
{
  GtkWidget parent_instance;
};

G_DEFINE_FINAL_TYPE (PlumbChartGrid, plumb_chart_grid, GTK_TYPE_WIDGET)

static int
count_visible (GtkWidget *widget)
{
  int n = 0;

  for (GtkWidget *child = gtk_widget_get_first_child (widget); child != NULL;
       child = gtk_widget_get_next_sibling (child))
    n += gtk_widget_should_layout (child);
  return n;
}

/* The number of columns whose width is nearest to the wanted one. */
static int
count_columns (int width)
{
  int most = MAX (1, (width + GAP) / (LEAST_WIDTH + GAP));

  return CLAMP ((width + GAP + WANTED_WIDTH / 2) / (WANTED_WIDTH + GAP), 1, most);
}

static GtkSizeRequestMode
plumb_chart_grid_get_request_mode (GtkWidget *widget)
{
  return GTK_SIZE_REQUEST_HEIGHT_FOR_WIDTH;
}

static void
plumb_chart_grid_measure (GtkWidget *widget,
                          GtkOrientation orientation,
                          int for_size,
                          int *minimum,
                          int *natural,
                          int *minimum_baseline,
                          int *natural_baseline)
{
  int n = count_visible (widget), columns, rows;

  if (orientation == GTK_ORIENTATION_HORIZONTAL)
    {
      *minimum = LEAST_WIDTH;
      *natural = 2 * WANTED_WIDTH + GAP;
      return;
    }
  columns = count_columns (for_size > 0 ? for_size : 2 * WANTED_WIDTH + GAP);
  rows = (n + columns - 1) / columns;
  *minimum = *natural = MAX (0, rows * (ROW_HEIGHT + GAP) - GAP);
}

static void
plumb_chart_grid_size_allocate (GtkWidget *widget, int width, int height, int baseline)
{
  int columns = count_columns (width), i = 0;
  int column = (width + GAP) / columns - GAP;

  for (GtkWidget *child = gtk_widget_get_first_child (widget); child != NULL;
       child = gtk_widget_get_next_sibling (child))
    {
      GtkAllocation place = { (i % columns) * (column + GAP), (i / columns) * (ROW_HEIGHT + GAP),
                              column, ROW_HEIGHT };
      int minimum;

      if (!gtk_widget_should_layout (child))
        continue;
      gtk_widget_measure (child, GTK_ORIENTATION_HORIZONTAL, -1, &minimum, NULL, NULL, NULL);
      gtk_widget_measure (child, GTK_ORIENTATION_VERTICAL, MAX (column, minimum), &minimum, NULL,
                          NULL, NULL);
      gtk_widget_size_allocate (child, &place, -1);
      i++;
    }
}

static void
plumb_chart_grid_dispose (GObject *object)
{
  plumb_chart_grid_clear (PLUMB_CHART_GRID (object));
  G_OBJECT_CLASS (plumb_chart_grid_parent_class)->dispose (object);
}

static void
plumb_chart_grid_class_init (PlumbChartGridClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_chart_grid_dispose;
  widget_class->get_request_mode = plumb_chart_grid_get_request_mode;
  widget_class->measure = plumb_chart_grid_measure;
  widget_class->size_allocate = plumb_chart_grid_size_allocate;
}

static void
plumb_chart_grid_init (PlumbChartGrid *self)
{
}

GtkWidget *
plumb_chart_grid_new (void)
{
  return g_object_new (PLUMB_TYPE_CHART_GRID, NULL);
}

void
plumb_chart_grid_insert_after (PlumbChartGrid *self, GtkWidget *child, GtkWidget *sibling)
{
  g_return_if_fail (PLUMB_IS_CHART_GRID (self) && GTK_IS_WIDGET (child));

  gtk_widget_insert_after (child, GTK_WIDGET (self), sibling);
}

void
plumb_chart_grid_append (PlumbChartGrid *self, GtkWidget *child)
{
  g_return_if_fail (PLUMB_IS_CHART_GRID (self) && GTK_IS_WIDGET (child));

  gtk_widget_set_parent (child, GTK_WIDGET (self));
}

void
plumb_chart_grid_clear (PlumbChartGrid *self)
{
  GtkWidget *child;

  g_return_if_fail (PLUMB_IS_CHART_GRID (self));

  while ((child = gtk_widget_get_first_child (GTK_WIDGET (self))) != NULL)
    gtk_widget_unparent (child);
}
