/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what another trainer is started with; a spec that comes of it can be written. */
#include "config.h"

#include "engine/core/spec-import.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *)data, size);
  g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_import_note_free);
  g_autoptr (PlumbSpec) spec = plumb_spec_import (text, NULL, notes, NULL);
  g_autofree char *written = spec != NULL ? plumb_spec_to_text (spec) : NULL;

  return 0;
}
