/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/run-private.h"

G_BEGIN_DECLS

/* Prompts for the worker, laid end to end; `samples` completions of each. */
typedef struct
{
  GArray *ids, *offsets;        /* gint32; offsets has one entry more than there are prompts */
  GArray *ordinals;             /* gint64 */
  GArray *first_samples;        /* gint32: the number of the first sample of each prompt */
  int samples;
} PlumbPrompts;

void plumb_prompts_init (PlumbPrompts *prompts, int samples);
void plumb_prompts_add (PlumbPrompts *prompts, const gint32 *ids, gsize n, gint64 ordinal, gint32 first_sample);
void plumb_prompts_clear (PlumbPrompts *prompts);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbPrompts, plumb_prompts_clear)

/* Completions as the worker returns them, in any order. */
typedef struct
{
  gsize n;
  gint64 *ordinals;
  gint32 *samples, *finish, *offsets, *ids; /* offsets: (n + 1) */
  float *log_probs;
  gint32 *versions; /* of the weights that sampled each token; NULL: not told */
  guint8 *mask;     /* 1: sampled by the policy; NULL: all are */
} PlumbCompletions;

void plumb_completions_clear (PlumbCompletions *completions);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbCompletions, plumb_completions_clear)

/* The arrays of a message, which may be anything: they fit together, or it is an error. */
gboolean plumb_completions_read (PlumbCompletions *completions, GVariant *body, GError **error);
void plumb_body_add_completions (GVariantDict *body, const PlumbCompletions *completions);
/* Appends `more`; fills an empty one with first .. last-1 of others. */
void plumb_completions_join (PlumbCompletions *all, const PlumbCompletions *more);
void plumb_completions_slice (PlumbCompletions *part, const PlumbCompletions *all, gsize first, gsize last);

/* How the completions of prompts are asked for, and the prompts first .. last-1. */
GVariant *plumb_prompts_to_body (PlumbRun *run, const PlumbPrompts *prompts, const PlumbAsk *ask, guint first,
                                 guint last);
/* Generated completions become the experience of a batch whose prompts are known. */
gboolean plumb_batch_fill (PlumbRun *run, PlumbBatch *batch, const PlumbCompletions *completions, GError **error);

/* Asks the worker; its counts of tokens and time are added to those of the batch. */
gboolean plumb_run_complete (PlumbRun *run, const PlumbPrompts *prompts, const PlumbAsk *ask, PlumbBatch *batch,
                             PlumbCompletions *completions, GError **error);

/* episode.c: goes on with an environment after the first answers of a batch: what it says follows an answer as tokens
 * that do not count, and the model answers again, until it is done, out of turns or out of room. */
gboolean plumb_run_play (PlumbRun *run, const PlumbAsk *ask, PlumbBatch *batch, GError **error);

G_END_DECLS
