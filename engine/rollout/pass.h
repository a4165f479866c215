/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"

G_BEGIN_DECLS

/* A pass being put together: tokens of sequences end to end, and what is sampled after them. */
typedef struct
{
  int stride, page_tokens;
  GArray *ids, *source, *offsets, *contexts, *slots, *pages; /* of gint32 */
  GArray *rows;                                              /* of gint32: rows that the head samples */
  GArray *random;                                            /* of struct dev_random, one per row */
  GArray *ban;                                               /* of guint8 */
  GArray *seen_rows;                                         /* of gint32 */
} PlumbPassDraft;

void plumb_pass_draft_init (PlumbPassDraft *draft, int stride, int page_tokens);
void plumb_pass_draft_clear (PlumbPassDraft *draft);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbPassDraft, plumb_pass_draft_clear)

/* Tokens first..first+n-1 of a sequence whose pages (of int) reach that far. ids NULL: one token, which the queued pass
 * before sampled in its row `source`. */
void plumb_pass_draft_add (PlumbPassDraft *draft, const gint32 *ids, gint32 source, int first, int n, GArray *pages);
/* Asks for a token after the last row; `seen` is the row of the ids that its sample has seen. Returns its row among
 * the sampled. */
int plumb_pass_draft_ask (PlumbPassDraft *draft, const struct dev_random *random, gboolean ban, int seen);
/* Fills up to `rows` sequences of one token each, which write to `page` and whose samples nobody wants; their row of
 * seen ids is `seen`. */
void plumb_pass_draft_pad (PlumbPassDraft *draft, int rows, int page, int seen);

/* The draft as the model takes it; the draft must outlive both. */
PlumbPass plumb_pass_draft_pass (const PlumbPassDraft *draft, const struct dev_kv *kv);
PlumbWanted plumb_pass_draft_asked (const PlumbPassDraft *draft, double temperature, guint64 seed);

G_END_DECLS
