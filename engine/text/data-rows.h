/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* Where rows come from: JSONL and text files (packed or not), folders of them, and what the
 * engine makes itself. Rows are indexed once and read when they are asked for. */

typedef enum
{
  PLUMB_DATA_TRAIN,
  PLUMB_DATA_EVAL,
  PLUMB_DATA_WARMUP,
} PlumbDataPurpose;

#define PLUMB_DATA_LONGEST_LINE (64 << 20) /* bytes; longer ones are refused */
#define PLUMB_DATA_MOST_REPORTS 50         /* rows that are reported one by one */

/* Which keys hold what; NULL: guessed from the first rows, and filled in. */
typedef struct
{
  char *prompt, *answer;
  char *response; /* of a pair: the chosen one */
  char *rejected, *margin, *label;
  gboolean need_answer, need_response; /* a row without it is broken */
  gboolean need_pair, need_label;
} PlumbDataKeys;

void plumb_data_keys_clear (PlumbDataKeys *keys);
void plumb_data_keys_copy (PlumbDataKeys *to, const PlumbDataKeys *from);

typedef struct _PlumbDataSource PlumbDataSource;

/* One row as text. Strings are valid UTF-8 and may hold NULs. */
typedef struct
{
  GString *prompt;
  GString *answer, *response, *rejected, *margin, *label; /* NULL: none */
} PlumbDataText;

void plumb_data_text_clear (PlumbDataText *text);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbDataText, plumb_data_text_clear)

/* Opens one file, or a builtin. Broken rows are appended to `reports` and counted. NULL with an
 * error when it gives no row at all or its keys are not there. */
PlumbDataSource *plumb_data_source_open (const char *path,
                                         PlumbDataPurpose purpose,
                                         guint64 seed,
                                         const PlumbDataKeys *keys,
                                         GPtrArray *reports,
                                         GError **error);
void plumb_data_source_free (PlumbDataSource *source);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDataSource, plumb_data_source_free)

gsize plumb_data_source_n_rows (PlumbDataSource *source);
gsize plumb_data_source_n_broken (PlumbDataSource *source);
const char *plumb_data_source_name (PlumbDataSource *source);
guint plumb_data_source_line (PlumbDataSource *source, gsize row); /* 1-based */
/* Fills an empty `text`. */
void plumb_data_source_get (PlumbDataSource *source, gsize row, PlumbDataText *text);

/* The data files behind a path: itself, or those of the folder, sorted. (transfer full) */
char **plumb_data_expand (const char *path, GError **error);

G_END_DECLS
