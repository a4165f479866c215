/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec-import.h"

G_BEGIN_DECLS

/* How a setting of another trainer becomes settings of a spec. */
typedef enum
{
  IMPORT_COPY,      /* its value is that of `key` */
  IMPORT_PAIR,      /* its two values are those of `key` and `other` */
  IMPORT_SAME_PAIR, /* its one value is that of both */
  IMPORT_LIST,      /* its values, with commas */
  IMPORT_YES,       /* without a value, or true: `key` becomes `other` */
  IMPORT_NO,        /* false: `key` becomes `other` */
  IMPORT_UNNEEDED,  /* nothing has to be set: `other` says why */
} PlumbImportKind;

typedef struct
{
  const char *name;
  const char *older; /* other names, divided by blanks; NULL: none */
  PlumbImportKind kind;
  const char *key;
  const char *other;
} PlumbImportRule;

/* A value that has another name here. */
typedef struct
{
  const char *key, *theirs, *ours;
} PlumbImportWord;

/* One of their settings. */
typedef struct
{
  char *name;
  char *text;        /* as a note quotes it; NULL: --name values */
  GPtrArray *values; /* of char*, owned */
} PlumbImportItem;

/* An import under way: the tables of one trainer, and what came of them so far. */
typedef struct
{
  PlumbSpec *spec;
  GArray *items;    /* of PlumbImportItem */
  GPtrArray *notes; /* of PlumbImportNote */
  const PlumbImportRule *rules;
  gsize n_rules;
  const PlumbImportWord *words;
  gsize n_words;
} PlumbImport;

#define PLACED "placement follows from the devices of the machine"
#define APART(role) "it lives with the policy; placement." role " = cuda:N gives it a GPU of its own"
#define ALWAYS "the engine always does so"
#define INSIDE "it concerns a library that is not used here"

GArray *plumb_import_items_new (void);
PlumbImportItem *plumb_import_items_add (GArray *items, char *name, char *text); /* takes both over */

/* Whether a list of names, divided by blanks, has the word. */
gboolean plumb_import_has_word (const char *list, const char *word);
/* The first item with one of the names; NULL: none. */
const PlumbImportItem *plumb_import_find (const PlumbImport *import, const char *names);
/* The first value of such an item; `otherwise` where it is missing or means "not set". */
const char *plumb_import_value (const PlumbImport *import, const char *names, const char *otherwise);
gboolean plumb_import_is_true (const char *value);
gboolean plumb_import_is_none (const char *value);

void plumb_import_note (PlumbImport *import, const PlumbImportItem *item, const char *reason);
/* Sets a key; a value that does not fit becomes a note. */
void plumb_import_set (PlumbImport *import, const PlumbImportItem *item, const char *key, const char *value);
/* Applies the rules, or tells that there is no counterpart. */
void plumb_import_apply (PlumbImport *import, const PlumbImportItem *item);

/* spec-import-trl.c and spec-import-verl.c: from the flattened settings of a file. `algorithm` may be NULL. */
PlumbSpec *plumb_import_trl (GArray *items, const char *algorithm, GPtrArray *notes, GError **error);
PlumbSpec *plumb_import_verl (GArray *items, GPtrArray *notes, GError **error);

G_END_DECLS
