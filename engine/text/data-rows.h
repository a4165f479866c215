/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "engine/core/spec.h"
#include "engine/text/data-records.h"

G_BEGIN_DECLS

/* Where rows come from: files of JSONL, JSON, CSV, TSV, Parquet and text (packed or not), folders of them, and what
 * the engine makes itself. Rows are indexed once and read when they are asked for. */

typedef enum
{
  PLUMB_DATA_TRAIN,
  PLUMB_DATA_EVAL,
  PLUMB_DATA_WARMUP,
} PlumbDataPurpose;

#define PLUMB_DATA_MOST_REPORTS 50         /* rows that are reported one by one */

/* What rows are (data.format). */
typedef enum
{
  PLUMB_DATA_AUTO,
  PLUMB_DATA_PROMPTS,
  PLUMB_DATA_INSTRUCTION,
  PLUMB_DATA_MESSAGES,
  PLUMB_DATA_PREFERENCE,
  PLUMB_DATA_FEEDBACK,
} PlumbDataFormat;

/* Which keys hold what; NULL: guessed from the first rows, and filled in. A key may be a path into a row:
 * "instances.0.output". */
typedef struct
{
  char *prompt, *answer;
  char *response; /* of a pair: the chosen one */
  char *rejected, *margin, *label;
  char *messages; /* a conversation, in the place of a prompt */
  char *system, *tools; /* only guessed: of a conversation */
  char *context; /* only guessed: a second part of the prompt */
  const char *form; /* how both make a prompt: {1} and {2} */
  PlumbDataFormat format;
  gboolean need_answer, need_response; /* a row without it is broken */
  gboolean need_pair, need_label;
  gboolean scored; /* for rewards alone: a row needs no prompt, and a response may be empty */
  gboolean keep_row; /* PlumbDataText.row is filled */
  gboolean prompts_only; /* a conversation is taken up to the last assistant turn, without it */
} PlumbDataKeys;

void plumb_data_keys_clear (PlumbDataKeys *keys);
void plumb_data_keys_copy (PlumbDataKeys *to, const PlumbDataKeys *from);
/* What was found to be where, for showing: "prompt = question, answer = answer". (transfer full) */
char *plumb_data_keys_describe (const PlumbDataKeys *keys);

typedef struct _PlumbDataSource PlumbDataSource;

/* One row. Strings are valid UTF-8 and may hold NULs; messages are objects with a role. A row has a prompt, or
 * turns, or both (which say the same), or, where only answers are given, neither. */
typedef struct
{
  GString *prompt;
  GString *answer, *response, *rejected, *margin, *label, *system; /* NULL: none */
  JsonArray *turns;          /* the conversation that leads up to the answers, or with them */
  JsonArray *response_turns; /* answers as messages; NULL: text, or none */
  JsonArray *rejected_turns;
  JsonNode *tools;
  GString *row; /* the whole row as JSON, if keys.keep_row; NULL: it is none */
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
/* The keys that are used: those given, and those guessed. */
const PlumbDataKeys *plumb_data_source_keys (PlumbDataSource *source);
const char *plumb_data_source_name (PlumbDataSource *source);
guint plumb_data_source_line (PlumbDataSource *source, gsize row); /* 1-based */
/* Bytes that a row has in its file; 0 where there is none. */
gsize plumb_data_source_row_bytes (PlumbDataSource *source, gsize row);
/* Fills an empty `text`. FALSE when the file is not what it was when it was opened. */
gboolean plumb_data_source_get (PlumbDataSource *source, gsize row, PlumbDataText *text, GError **error);

/* The data files behind a path: itself, or those of the folder, sorted. (transfer full) */
char **plumb_data_expand (const char *path, GError **error);

G_END_DECLS
