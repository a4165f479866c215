/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/completions.h"

G_BEGIN_DECLS

/* Prompts that were given out ahead of the training, in the order in which they are trained, and what was generated for
 * them so far. A checkpoint holds it, so that no prompt is lost or trained twice. */
typedef struct _PlumbAheadScore PlumbAheadScore;
typedef struct _PlumbAheadPlay PlumbAheadPlay;

typedef struct
{
  gint64 ordinal;               /* numbers the prompts without a gap */
  guint64 row;                  /* of the data */
  gint64 since;                 /* monotonic microseconds of its submission; 0: it was not submitted yet */
  PlumbCompletions completions; /* all samples, or none yet (n 0) */
  int n_episodes;
  PlumbRewardScore *episodes;   /* (n_episodes) what an environment gave to each sample; NULL: there is none */
  PlumbAheadPlay *play;         /* what is being played with it; NULL: nothing */
  PlumbAheadScore *score;       /* the rewards on their way; NULL: not begun */
} PlumbAheadGroup;

typedef struct
{
  GPtrArray *groups; /* of PlumbAheadGroup */
  int samples;       /* of each prompt */
  int vocabulary;    /* ids lie below it */
} PlumbAheadQueue;

PlumbAheadQueue *plumb_ahead_queue_new (int samples, int vocabulary);
void plumb_ahead_queue_free (PlumbAheadQueue *queue);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbAheadQueue, plumb_ahead_queue_free)

static inline PlumbAheadGroup *
plumb_ahead_queue_get (const PlumbAheadQueue *queue, guint i)
{
  return g_ptr_array_index (queue->groups, i);
}

PlumbAheadGroup *plumb_ahead_queue_push (PlumbAheadQueue *queue, gint64 ordinal, guint64 row);
/* Takes over whole groups from a message; those that are not waited for are left out. */
gboolean plumb_ahead_queue_accept (PlumbAheadQueue *queue, GVariant *body, GError **error);
/* The group of a number that nothing is generated for yet; NULL: none waits for it. */
PlumbAheadGroup *plumb_ahead_queue_find_waiting (PlumbAheadQueue *queue, gint64 ordinal);
/* How many of the first groups are generated; of all. */
guint plumb_ahead_queue_ready (const PlumbAheadQueue *queue);
guint plumb_ahead_queue_finished (const PlumbAheadQueue *queue);
/* Drops the first groups. */
void plumb_ahead_queue_drop (PlumbAheadQueue *queue, guint n);
/* Forgets what was generated for a group: it is to be generated again. */
void plumb_ahead_queue_forget (PlumbAheadGroup *group);
/* ahead-score.c and ahead-play.c: what belongs to a group goes with it. */
void plumb_ahead_score_drop (PlumbAheadScore *score);
void plumb_ahead_play_free (PlumbAheadPlay *play);
/* The oldest version among a generated group's sampled tokens. */
gint32 plumb_ahead_group_version (const PlumbAheadGroup *group);

/* The queue as bytes of a file, and back into an empty queue. The bytes may be anything. */
GBytes *plumb_ahead_queue_to_bytes (const PlumbAheadQueue *queue);
gboolean plumb_ahead_queue_from_bytes (PlumbAheadQueue *queue, GBytes *bytes, GError **error);

G_END_DECLS
