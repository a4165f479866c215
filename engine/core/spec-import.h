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

/* A spec from what another trainer is started with, found out from the text: an OpenRLHF command line, a verl command line
 * with KEY=VALUE or its YAML, a TRL YAML. `algorithm` (NULL: guessed) is for TRL, whose files do not name it. `notes` gets
 * one PlumbImportNote for each setting that has no counterpart. NULL with PLUMB_ERROR_INVALID when the text is none of
 * these. */
PlumbSpec *plumb_spec_import (const char *text, const char *algorithm, GPtrArray *notes, GError **error);

/* An OpenRLHF command line (shell syntax; current dotted flags, or the older names). */
PlumbSpec *plumb_spec_import_openrlhf (const char *text, GPtrArray *notes, GError **error);

G_END_DECLS
