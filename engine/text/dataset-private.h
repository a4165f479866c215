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

typedef struct
{
  guint32 source, row;
} PlumbDataPlace;

struct _PlumbDataSet
{
  gatomicrefcount refs;
  PlumbTokenizer *tokenizer;
  PlumbTemplate *chat; /* NULL: texts are taken as they are */
  GPtrArray *sources;  /* of PlumbDataSource */
  GArray *weights;     /* double, one per source */
  GArray *places;      /* of PlumbDataPlace: usable rows, source by source */
  char *template, *system;
  PlumbOverlong on_overlong;
  PlumbTrainOn train_on;
  gsize max_prompt, max_length;
  gboolean whole_text, shuffle;
  gboolean trains; /* on what rows say; FALSE: their prompts are asked for alone */
  guint64 seed;
  PlumbDataCounts counts;
  GPtrArray *notes; /* of PlumbProblem */
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

gboolean plumb_data_set_shuffles (PlumbDataSet *set, guint64 *seed);
/* Rows [first, first + n) of one source, and how many of them an epoch takes; FALSE behind the
 * last source. */
gboolean
plumb_data_set_share (PlumbDataSet *set, guint source, gsize *first, gsize *n, gsize *taken);

G_END_DECLS
