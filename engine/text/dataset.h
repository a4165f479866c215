/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-rows.h"
#include "engine/text/tokenizer.h"

G_BEGIN_DECLS

/* The rows that a run trains or evaluates on, as text and as tokens. Immutable after opening. */
typedef struct _PlumbDataSet PlumbDataSet;

typedef struct
{
  char **paths;             /* each with an optional ":weight" */
  PlumbDataPurpose purpose; /* deals the problems of a builtin */
  guint64 seed;
  PlumbDataKeys keys;
  const char *prompt_template; /* NULL: the prompt alone */
  gint64 max_samples;          /* 0: all */
  gint64 max_prompt_length;    /* tokens, 0: max_length minus one */
  gint64 max_length;           /* tokens of prompt and response */
  int on_overlong;             /* 0 drop, 1 truncate left, 2 truncate right (data.on_overlong) */
  gboolean shuffle;
  gboolean whole_text; /* rows without a response are trained as a whole: an empty prompt */
} PlumbDataOptions;

/* What data.* of a spec says, for one list of paths ("data.train", "data.eval" or "warmup.data").
 * Clear with plumb_data_options_clear(); strings of the spec are borrowed. Whether an answer is
 * needed is for the caller to add: the reward functions know. */
void plumb_data_options_from_spec (PlumbDataOptions *options,
                                   PlumbSpec *spec,
                                   const char *paths_key,
                                   PlumbDataPurpose purpose);
void plumb_data_options_clear (PlumbDataOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbDataOptions, plumb_data_options_clear)

typedef struct
{
  gsize rows;      /* usable */
  gsize broken;    /* left out: each of the first is in `reports` */
  gsize dropped;   /* overlong, left out */
  gsize truncated; /* overlong, cut */
} PlumbDataCounts;

/* Reads and checks every row. What is wrong with rows is appended to `reports` (of PlumbProblem);
 * the others are used. NULL with PLUMB_ERROR_INVALID when nothing usable is left. */
PlumbDataSet *plumb_data_set_open (const PlumbDataOptions *options,
                                   PlumbTokenizer *tokenizer,
                                   GPtrArray *reports,
                                   GError **error);
PlumbDataSet *plumb_data_set_ref (PlumbDataSet *set);
void plumb_data_set_unref (PlumbDataSet *set);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDataSet, plumb_data_set_unref)

const PlumbDataCounts *plumb_data_set_counts (PlumbDataSet *set);
gsize plumb_data_set_n_rows (PlumbDataSet *set);
/* Rows of one pass, by the weights of the files. */
gsize plumb_data_set_epoch_rows (PlumbDataSet *set);

typedef struct
{
  char *prompt;         /* after the template; what is shown */
  char *answer;         /* NULL: none */
  char *response;       /* NULL: none */
  GArray *prompt_ids;   /* gint32, with BOS */
  GArray *response_ids; /* gint32, ends with EOS; NULL: no response */
  char *rejected;       /* the worse answer of a pair; NULL: none */
  GArray *rejected_ids; /* as response_ids */
  double margin;        /* of the pair, else 0 */
  gboolean liked;       /* the row's label */
  const char *file;     /* borrowed */
  guint line;
} PlumbDataRow;

PlumbDataRow *plumb_data_set_get (PlumbDataSet *set, gsize row, GError **error);
void plumb_data_row_free (PlumbDataRow *row);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDataRow, plumb_data_row_free)

/* A place in the endless order of rows: epoch after epoch, each in its own order by the seed. */
typedef struct _PlumbDataCursor PlumbDataCursor;

PlumbDataCursor *plumb_data_cursor_new (PlumbDataSet *set);
void plumb_data_cursor_free (PlumbDataCursor *cursor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDataCursor, plumb_data_cursor_free)
gsize plumb_data_cursor_next (PlumbDataCursor *cursor); /* a row; begins the next epoch by itself */
guint64 plumb_data_cursor_epoch (PlumbDataCursor *cursor);
guint64 plumb_data_cursor_position (PlumbDataCursor *cursor);
/* Back to a place that was saved; FALSE when the data no longer has it. */
gboolean plumb_data_cursor_seek (PlumbDataCursor *cursor, guint64 epoch, guint64 position);

G_END_DECLS
