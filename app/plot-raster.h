/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "app/plot.h"

G_BEGIN_DECLS

/* A plot and its picture, made outside the main thread. */
typedef struct
{
  PlumbPlot *plot;
  cairo_surface_t *surface; /* spec's size times its scale, with the device scale set */
} PlumbRaster;

void plumb_raster_free (PlumbRaster *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbRaster, plumb_raster_free)

/* Takes the spec over. One thread draws for the whole program, in the order of the calls, so that
 * charts never take more than one core from the training. */
void plumb_raster_async (PlumbPlotSpec *spec,
                         GCancellable *cancellable,
                         GAsyncReadyCallback callback,
                         gpointer user_data);
PlumbRaster *plumb_raster_finish (GAsyncResult *result, GError **error);

/* The same in the calling thread. */
PlumbRaster *plumb_raster_draw (PlumbPlotSpec *spec);

G_END_DECLS
