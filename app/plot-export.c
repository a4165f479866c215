/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <cairo-svg.h>
#include <glib/gi18n.h>
#include <gio/gio.h>

#include "app/plot-format.h"
#include "app/plot-private.h"

static gboolean
check (cairo_status_t status, const char *path, GError **error)
{
  if (status == CAIRO_STATUS_SUCCESS)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, _ ("“%s” could not be written: %s"), path,
               cairo_status_to_string (status));
  return FALSE;
}

/* A picture on its own stands on white or on black, whichever the text is not. */
static void
draw_on_ground (PlumbPlot *self, cairo_surface_t *surface)
{
  cairo_t *cr = cairo_create (surface);
  const PlumbColor *text = &self->spec->style.text;
  double ground = text->red + text->green + text->blue > 1.5 ? 0.12 : 1;

  cairo_set_source_rgb (cr, ground, ground, ground);
  cairo_paint (cr);
  plumb_plot_draw (self, cr);
  cairo_destroy (cr);
}

gboolean
plumb_plot_save (PlumbPlot *self, const char *path, GError **error)
{
  int width, height;
  gboolean svg;
  cairo_surface_t *surface;
  cairo_status_t status;

  g_return_val_if_fail (self != NULL && path != NULL, FALSE);

  width = self->spec->width;
  height = self->spec->height;
  svg = g_str_has_suffix (path, ".svg");
  if (svg)
    surface = cairo_svg_surface_create (path, width, height);
  else
    {
      surface = cairo_image_surface_create (CAIRO_FORMAT_RGB24, 2 * width, 2 * height);
      cairo_surface_set_device_scale (surface, 2, 2);
    }
  draw_on_ground (self, surface);
  if (svg)
    cairo_surface_finish (surface);
  status = svg ? cairo_surface_status (surface) : cairo_surface_write_to_png (surface, path);
  cairo_surface_destroy (surface);
  return check (status, path, error);
}

static void
append_row (PlumbPlot *self, GString *text, const PlumbPoint *point, double x, gboolean old)
{
  g_string_append_printf (text, "%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",", point->attempt,
                          point->step);
  g_string_append_printf (text, "%.3f,%d", point->time, old);
  for (guint i = 0; i < self->curves->len; i++)
    {
      const PlumbCurve *curve = self->curves->pdata[i];
      gsize k = plumb_curve_find (curve, x);
      g_autofree char *value = NULL;

      if (!old && k < curve->n && curve->x[k] == x)
        value = plumb_format_exact (curve->raw[k]);
      else if (old && i == 0)
        value = plumb_format_exact (point->value);
      g_string_append_printf (text, ",%s", value != NULL ? value : "");
    }
  g_string_append_c (text, '\n');
}

char *
plumb_plot_to_csv (PlumbPlot *self)
{
  GString *text = g_string_new ("attempt,step,time,superseded");
  const PlumbCurve *first;

  g_return_val_if_fail (self != NULL, NULL);

  for (guint i = 0; i < self->spec->series->len; i++)
    g_string_append_printf (text, ",%s", ((PlumbPlotSeries *)self->spec->series->pdata[i])->label);
  g_string_append_c (text, '\n');
  if (self->curves->len == 0)
    return g_string_free (text, FALSE);
  first = self->curves->pdata[0];
  for (gsize i = 0; i < first->n_old; i++)
    append_row (self, text, &first->old_points[i], first->old_x[i], TRUE);
  for (gsize i = 0; i < first->n; i++)
    append_row (self, text, &first->points[i], first->x[i], FALSE);
  return g_string_free (text, FALSE);
}
