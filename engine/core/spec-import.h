/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* What became of a flag that no setting took over. */
typedef struct
{
  char *flag;   /* as it was written, with its value */
  char *reason; /* why, or what to do instead */
} PlumbImportNote;

void plumb_import_note_free (PlumbImportNote *note);

/* A spec from an OpenRLHF command line (shell syntax; current dotted flags, or the older names). `notes` gets one
 * PlumbImportNote for each flag that has no counterpart. NULL with PLUMB_ERROR_INVALID when the text is no command
 * line with flags. */
PlumbSpec *plumb_spec_import_openrlhf (const char *text, GPtrArray *notes, GError **error);

G_END_DECLS
