/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/train/trainer.h"

G_BEGIN_DECLS

/* One micro-batch on the host: its tokens end to end, and which rows of the pass the head is asked about. Row r
 * speaks of the token at place places[r]: its log-prob or value, or the score of a sequence that ends there. */
typedef struct
{
  int tokens, sequences, n;
  gint32 *ids, *offsets;
  gint32 *rows, *targets; /* (n) row of the pass and the token that it predicts */
  int *places;            /* (n) index of that token in the micro-batch */
  int *origins;           /* (tokens) index of each token in the experience */
  int *indices;           /* (sequences) index of each sequence in the experience */
} PlumbMicroBatch;

/* Cuts `sequences` (n indices) out of the experience. Rows: those that predict the tokens that count, or the last one
 * of each sequence. */
void plumb_micro_batch_fill (PlumbMicroBatch *batch, const struct plumb_experience *experience,
                             const int *sequences, int n, gboolean last_rows);
void plumb_micro_batch_clear (PlumbMicroBatch *batch);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbMicroBatch, plumb_micro_batch_clear)

/* Whether a loss works on the scalar head rather than on log-probs, and on the last row of each sequence. */
gboolean plumb_loss_is_scalar (PlumbLossId id);
gboolean plumb_loss_is_of_last (PlumbLossId id);

/* Evaluates the loss: `outputs` (n) are log-probs or values by row, `entropies` (n) or NULL. Writes the derivative of
 * the loss by each over them. */
void plumb_micro_batch_evaluate (const PlumbMicroBatch *batch, const struct plumb_experience *experience,
                                 const PlumbLossSpec *loss, float *outputs, float *entropies,
                                 struct plumb_loss_statistics *statistics);

G_END_DECLS
