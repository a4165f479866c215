/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"

G_BEGIN_DECLS

typedef struct
{
  char *text; /* NULL: rejected, so it counts neither as set nor as missing */
  char *file;
  guint line;
} PlumbSpecEntry;

struct _PlumbSpec
{
  gatomicrefcount refs;
  GHashTable *entries;  /* key -> PlumbSpecEntry */
  GHashTable *resolved; /* key -> text */
  GPtrArray *options;   /* keys "reward.NAME.option" in the order in which they were set; also in
                           `entries` */
};

/* Items of a list value, without blanks around them, their escapes resolved. (transfer full) */
char **plumb_list_split (const char *text);

/* The key-file escapes: \s \n \t \r \\. An unknown one stays as it is. (transfer full) */
char *plumb_value_unescape (const char *text);
char *plumb_value_escape (const char *text);

/* A finite decimal number that fills the whole text; `bytes` allows a suffix such as GiB. */
gboolean plumb_parse_number (const char *text, gboolean whole, gboolean bytes, double *value);

/* Splits "reward.NAME.option"; FALSE when the key is a field or has no such form. */
gboolean plumb_spec_split_option (const char *key, char **name, char **option);

/* Sets a checked or rejected (text NULL) value with its place. */
void
plumb_spec_store (PlumbSpec *spec, const char *key, const char *text, const char *file, guint line);

/* Makes the relative paths of a path or path-list value absolute from `folder`. (transfer full) */
char *plumb_spec_complete_paths (const PlumbField *field, const char *value, const char *folder);

G_END_DECLS
