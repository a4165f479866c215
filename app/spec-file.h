/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* Where Start writes a spec: by the run's name, so that the command can be used in a terminal. */
char *plumb_spec_file_path (PlumbSpec *spec);

/* Writes the spec as it is now outside the main thread; `source` (an object) goes to the callback.
 */
void plumb_spec_file_save_async (gpointer source,
                                 PlumbSpec *spec,
                                 const char *path,
                                 GCancellable *cancellable,
                                 GAsyncReadyCallback callback,
                                 gpointer user_data);
/* The path that was written to; (transfer none), as long as the result lives. */
const char *plumb_spec_file_save_finish (GAsyncResult *result, GError **error);

G_END_DECLS
