/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "app/plot-raster.h"

void
plumb_raster_free (PlumbRaster *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->plot, plumb_plot_unref);
  g_clear_pointer (&self->surface, cairo_surface_destroy);
  g_free (self);
}

PlumbRaster *
plumb_raster_draw (PlumbPlotSpec *spec)
{
  PlumbRaster *raster = g_new0 (PlumbRaster, 1);
  int scale = MAX (1, spec->scale);
  cairo_t *cr;

  raster->surface
      = cairo_image_surface_create (CAIRO_FORMAT_ARGB32, spec->width * scale, spec->height * scale);
  cairo_surface_set_device_scale (raster->surface, scale, scale);
  raster->plot = plumb_plot_new (spec);
  cr = cairo_create (raster->surface);
  plumb_plot_draw (raster->plot, cr);
  cairo_destroy (cr);
  cairo_surface_flush (raster->surface);
  return raster;
}

static void
work (gpointer data, gpointer user_data)
{
  g_autoptr (GTask) task = data;

  if (g_task_return_error_if_cancelled (task))
    return;
  g_task_return_pointer (
      task, plumb_raster_draw (g_steal_pointer ((PlumbPlotSpec **)g_task_get_task_data (task))),
      (GDestroyNotify)plumb_raster_free);
}

/* The task's data is a box around the spec, since the plot takes the spec out of it. */
static void
box_free (gpointer data)
{
  PlumbPlotSpec **box = data;

  plumb_plot_spec_free (*box);
  g_free (box);
}

void
plumb_raster_async (PlumbPlotSpec *spec,
                    GCancellable *cancellable,
                    GAsyncReadyCallback callback,
                    gpointer user_data)
{
  static GThreadPool *pool;
  GTask *task = g_task_new (NULL, cancellable, callback, user_data);
  PlumbPlotSpec **box = g_new (PlumbPlotSpec *, 1);

  *box = spec;
  g_task_set_source_tag (task, plumb_raster_async);
  g_task_set_task_data (task, box, box_free);
  if (pool == NULL)
    pool = g_thread_pool_new (work, NULL, 1, TRUE, NULL);
  g_thread_pool_push (pool, task, NULL);
}

PlumbRaster *
plumb_raster_finish (GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}
