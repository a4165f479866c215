/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/dataset.h"

G_BEGIN_DECLS

typedef enum
{
  OVERLONG_DROP,
  OVERLONG_TRUNCATE_LEFT,
  OVERLONG_TRUNCATE_RIGHT,
} PlumbOverlong;

/* The rows of one source: those looked at when the set was opened, as far as they can be used, and behind them the
 * rest, each of which is looked at when it is taken. */
typedef struct
{
  PlumbDataSource *source;
  double weight;
  GArray *kept;     /* guint32 rows of the source, among the first `checked` */
  gsize checked, n; /* rows of the source, as far as data.max_samples takes them */
} PlumbDataPart;

/* What was found out about rows when they were taken; under the lock of the set. */
typedef struct
{
  GPtrArray *fresh;   /* PlumbProblem: those nobody has asked for yet */
  GArray *kinds;      /* of reasons, counted */
  GHashTable *places; /* rows of the set that are known to be of no use */
  gsize told;         /* rows that were kept one by one, or would have been */
  gsize passed;       /* times that a row was passed over */
} PlumbDataLate;

#define PLUMB_DATA_MOST_LATE 30 /* rows that are told one by one */

/* dataset-late.c */
void plumb_data_late_init (PlumbDataLate *late);
void plumb_data_late_clear (PlumbDataLate *late);
/* Was the row left out before? */
gboolean plumb_data_late_knows (PlumbDataLate *late, gsize index);
/* A row that is left out; the message may begin with its place, and may differ in its details from that of the same fault in
 * another row. */
void plumb_data_late_note (PlumbDataLate *late, gsize index, const char *file, guint line, const char *message,
                           const char *remedy, gboolean differs);

struct _PlumbDataSet
{
  gatomicrefcount refs;
  PlumbTokenizer *tokenizer;
  PlumbTemplate *chat; /* NULL: texts are taken as they are */
  GPtrArray *parts;    /* of PlumbDataPart */
  gsize n_rows;        /* of all parts */
  char *template, *system;
  PlumbOverlong on_overlong;
  PlumbTrainOn train_on;
  gsize max_prompt, max_length;
  gboolean whole_text, shuffle;
  gboolean trains; /* on what rows say; FALSE: their prompts are asked for alone */
  guint64 seed;
  PlumbDataCounts counts;
  GPtrArray *notes; /* of PlumbProblem */
  GMutex lock;
  GHashTable *ready; /* under the lock: rows that were looked at and are not yet taken */
  PlumbDataLate late;
};

typedef enum
{
  FIT_WELL,
  FIT_CUT,
  FIT_NOT,
} PlumbDataFit;

/* dataset-row.c: a row as the model sees it; NULL with an error that says where. Where it does not fit, what was
 * made of it so far. `notes` is filled for conversations. */
PlumbDataRow *plumb_data_row_build (PlumbDataSet *set,
                                    PlumbDataSource *source,
                                    gsize index,
                                    PlumbDataFit *fit,
                                    PlumbConversationNotes *notes,
                                    GError **error);

/* dataset-chat.c: the same for a row whose text goes through the chat template; fills a row that knows its place. */
gboolean plumb_data_chat_build (PlumbDataSet *set,
                                PlumbDataRow *row,
                                PlumbDataText *text,
                                const PlumbDataKeys *keys,
                                PlumbDataFit *fit,
                                PlumbConversationNotes *notes,
                                GError **error);

/* What both share. */
gboolean plumb_data_cut_text (PlumbDataSet *set, GString *text);
void plumb_data_cut_prompt (PlumbDataSet *set, GArray *ids);
char *plumb_data_shown (const GString *text);

/* What the cursor needs to know of a set. */

/* Can a row be used? Those that were not looked at when the set was opened are now, and counted. */
gboolean plumb_data_set_is_usable (PlumbDataSet *set, gsize index);

gboolean plumb_data_set_shuffles (PlumbDataSet *set, guint64 *seed);
/* Rows [first, first + n) of one source, and how many of them an epoch takes; FALSE behind the
 * last source. */
gboolean
plumb_data_set_share (PlumbDataSet *set, guint source, gsize *first, gsize *n, gsize *taken);

G_END_DECLS
