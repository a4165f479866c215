/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-rows.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"

G_BEGIN_DECLS

/* The rows that a run trains or evaluates on, as text and as tokens. Immutable after opening. */
typedef struct _PlumbDataSet PlumbDataSet;

/* Which tokens of supervised rows are trained (data.train_on). */
typedef enum
{
  PLUMB_TRAIN_ON_RESPONSE, /* of a conversation: all that the assistant says */
  PLUMB_TRAIN_ON_ALL,
  PLUMB_TRAIN_ON_LAST_TURN,
} PlumbTrainOn;

typedef struct
{
  char **paths;             /* each with an optional ":weight" */
  PlumbDataPurpose purpose; /* deals the problems of a builtin */
  guint64 seed;
  PlumbDataKeys keys;
  PlumbTemplate *chat;         /* of the model, borrowed; NULL: none */
  const char *prompt_template; /* goes before the chat template; NULL: that, or the prompt alone */
  const char *system;          /* what the system says in conversations without; NULL: nothing */
  PlumbTrainOn train_on;
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
  gsize unchecked; /* of `rows`: looked at when they are taken, and left out then if they must be */
  gsize rewritten; /* conversations whose earlier turns the template renders otherwise when later ones follow */
  gsize control;   /* whose messages spell control tokens */
} PlumbDataCounts;

/* Reads every row, and looks closely at the first ones: up to 50,000 of a file, or 32 MiB. What is wrong with rows
 * is appended to `reports` (of PlumbProblem); the others are used. NULL with PLUMB_ERROR_INVALID when nothing usable is left. */
PlumbDataSet *plumb_data_set_open (const PlumbDataOptions *options,
                                   PlumbTokenizer *tokenizer,
                                   GPtrArray *reports,
                                   GError **error);
PlumbDataSet *plumb_data_set_ref (PlumbDataSet *set);
void plumb_data_set_unref (PlumbDataSet *set);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDataSet, plumb_data_set_unref)

const PlumbDataCounts *plumb_data_set_counts (PlumbDataSet *set);
gsize plumb_data_set_n_rows (PlumbDataSet *set);
/* What a user should know of the rows that are used (of PlumbProblem): which keys were guessed, control tokens in
 * messages, history that the template rewrites. */
GPtrArray *plumb_data_set_notes (PlumbDataSet *set);
/* The first rows that were left out when they were taken, as far as no call before gave them (of PlumbProblem, transfer
 * full); how often a row was passed over so; and all reasons with their counts, NULL: none (transfer full). */
GPtrArray *plumb_data_set_take_late (PlumbDataSet *set);
gsize plumb_data_set_passed_over (PlumbDataSet *set);
char *plumb_data_set_describe_late (PlumbDataSet *set);
/* Rows of one pass, by the weights of the files. */
gsize plumb_data_set_epoch_rows (PlumbDataSet *set);

typedef struct _PlumbDataRow PlumbDataRow;

struct _PlumbDataRow
{
  char *prompt;         /* what is shown: after data.prompt_template; a conversation after the chat template */
  char *answer;         /* NULL: none */
  char *response;       /* NULL: none */
  char *row;            /* the whole row as JSON, if keys.keep_row; NULL: it is none */
  GArray *prompt_ids;   /* gint32, with BOS; up to the first trained token where there is a response */
  GArray *response_ids; /* gint32, ends with what ends a turn; NULL: no response */
  char *rejected;       /* the worse answer of a pair; NULL: none */
  GArray *rejected_ids; /* as response_ids */
  GArray *response_trained, *rejected_trained; /* guint8 for each of their ids: 1 trained; NULL: all are */
  double margin;        /* of the pair, else 0 */
  gboolean labelled;    /* whether the row has a label */
  gboolean liked;       /* what it says */
  const char *file;     /* borrowed */
  guint line;
  PlumbDataRow *next; /* of a conversation whose history the template rewrites: the next turn, else NULL */
};

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
