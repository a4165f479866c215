/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cairo.h>

#include "app/plot-curve.h"
#include "app/plot-scale.h"

G_BEGIN_DECLS

#define PLUMB_PLOT_COLORS 8

typedef enum
{
  PLUMB_PLOT_LINE,
  PLUMB_PLOT_EXTRA, /* a thinner line beside the main one */
  PLUMB_PLOT_BAND,  /* a deviation, drawn around the line that stands before it */
  PLUMB_PLOT_STACK, /* an area on top of the ones before it */
} PlumbPlotRole;

typedef struct
{
  double red, green, blue, alpha;
} PlumbColor;

typedef struct
{
  PlumbColor text;
  PlumbColor grid;
  PlumbColor error;
  PlumbColor palette[PLUMB_PLOT_COLORS];
  char font[64]; /* a Pango description, such as "Cantarell 8" */
} PlumbPlotStyle;

typedef struct
{
  PlumbTrack *track;
  char *label;
  char *unit;
  PlumbPlotRole role;
  guint color;
} PlumbPlotSeries;

/* Something that happened at a step: a checkpoint, a restart, a warning. */
typedef struct
{
  gint64 step;
  double time;
  gboolean grave;
} PlumbPlotEvent;

/* What a plot shows. Everything in it is owned; plumb_plot_new takes it over. */
typedef struct
{
  GPtrArray *series; /* PlumbPlotSeries */
  GArray *events;    /* PlumbPlotEvent */
  PlumbPlotX x_axis;
  double origin;       /* seconds since the epoch where elapsed time starts */
  double x_min, x_max; /* NaN: as far as the points go */
  gboolean log_x;      /* linear all the same where no x is above zero */
  gboolean log_y;
  gboolean from_zero; /* the y axis includes zero */
  gboolean bare;      /* without labels: nothing of the picture depends on a font */
  double smoothing;   /* 0 to 0.999 */
  int width, height;  /* in pixels of the user's space */
  int scale;          /* device pixels for each of them */
  PlumbPlotStyle style;
} PlumbPlotSpec;

/* The value of one series at the cursor. */
typedef struct
{
  const char *label;
  const char *unit;
  PlumbPlotRole role;
  guint color;
  PlumbPoint point;
  double x;
  double smoothed;
  double pixel_x, pixel_y;
} PlumbPlotReading;

typedef struct _PlumbPlot PlumbPlot;

PlumbPlotSpec *plumb_plot_spec_new (void);
void plumb_plot_spec_add (PlumbPlotSpec *self,
                          PlumbTrack *track,
                          const char *label,
                          const char *unit,
                          PlumbPlotRole role,
                          guint color);
void plumb_plot_spec_free (PlumbPlotSpec *self);

/* Works out ranges, ticks and the layout. Takes the spec over. A plot is immutable and may be used
 * by any thread; plumb_plot_new and plumb_plot_draw may run outside the main thread. */
PlumbPlot *plumb_plot_new (PlumbPlotSpec *spec);
PlumbPlot *plumb_plot_ref (PlumbPlot *self);
void plumb_plot_unref (PlumbPlot *self);

/* FALSE when no series has a point in the shown range. */
gboolean plumb_plot_has_points (PlumbPlot *self);
void plumb_plot_draw (PlumbPlot *self, cairo_t *cr);

const cairo_rectangle_t *plumb_plot_get_area (PlumbPlot *self);
const PlumbScale *plumb_plot_get_x_scale (PlumbPlot *self);
const PlumbScale *plumb_plot_get_y_scale (PlumbPlot *self);
const PlumbPlotSpec *plumb_plot_get_spec (PlumbPlot *self);
const PlumbCurve *plumb_plot_get_curve (PlumbPlot *self, guint series);

/* The x of the point nearest to x, `by` points further on, among those of the first series with
 * any; NaN when the plot is empty. */
double plumb_plot_snap (PlumbPlot *self, double x, int by);

/* Readings of all series at x in their order, raw values and all: PlumbPlotReading elements whose
 * strings live as long as the plot. A series whose nearest point is further than half the distance
 * between its neighbours from x has none. */
GArray *plumb_plot_read (PlumbPlot *self, double x);

/* "step 388" or "after 2 min 10 s". */
char *plumb_plot_format_x (PlumbPlot *self, double x);

/* Writes the picture: SVG when the name ends in .svg, else PNG at twice the size. */
gboolean plumb_plot_save (PlumbPlot *self, const char *path, GError **error);

/* The points of all series, superseded ones flagged, at full precision. */
char *plumb_plot_to_csv (PlumbPlot *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbPlotSpec, plumb_plot_spec_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbPlot, plumb_plot_unref)

G_END_DECLS
