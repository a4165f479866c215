/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* Specs to start from. They are compiled in, from data/presets. */
typedef struct
{
  char *name;        /* "arithmetic" */
  char *title;       /* first comment line of its file */
  char *description; /* the comment lines after it, joined */
} PlumbPreset;

/* All presets by name. (transfer full): the array owns them. */
GPtrArray *plumb_presets_list (void);
/* PLUMB_ERROR_USAGE when there is none of that name; the message lists the names. */
PlumbSpec *plumb_preset_load (const char *name, GError **error);
/* The text of its file. (transfer full) */
char *plumb_preset_text (const char *name, GError **error);

G_END_DECLS
