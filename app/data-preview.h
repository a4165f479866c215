/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <adwaita.h>

#include "app/engine-client.h"

G_BEGIN_DECLS

/* A window with the first rows of a run's data as the model will see them, the trained tokens marked: what
 * `plumbline-engine preview --json` says. */
#define PLUMB_TYPE_DATA_PREVIEW (plumb_data_preview_get_type ())
G_DECLARE_FINAL_TYPE (PlumbDataPreview, plumb_data_preview, PLUMB, DATA_PREVIEW, AdwWindow)

PlumbDataPreview *plumb_data_preview_new (GtkWindow *parent);
/* Reads the data of a spec file; what was there before goes away. */
void plumb_data_preview_load (PlumbDataPreview *self, const char *spec_path);
/* Shows what the engine said. */
void plumb_data_preview_show (PlumbDataPreview *self, const PlumbEngineReply *reply);
/* Shows why there is nothing to show. */
void plumb_data_preview_show_trouble (PlumbDataPreview *self, const char *message);

G_END_DECLS
