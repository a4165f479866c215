/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/run/ahead-play.h"
#include "engine/run/episode.h"
#include "engine/run/player.h"

struct _PlumbAheadTable
{
  PlumbRun *run;
  PlumbAheadQueue *queue;
  PlumbPlayer *player;
  guint64 ticket; /* the last one */
};

typedef enum
{
  SEAT_ANSWERS, /* the worker has it */
  SEAT_ASKS,    /* the environment has it */
  SEAT_OVER,
} SeatState;

typedef struct
{
  PlumbEpisode episode;
  SeatState state;
} Seat;

struct _PlumbAheadPlay
{
  guint64 ticket; /* of this play of the group: what belongs to an earlier one is stale */
  PlumbDataRow *row;
  int samples;
  Seat seats[];
};

void
plumb_ahead_play_free (PlumbAheadPlay *self)
{
  if (!self)
    return;
  for (int s = 0; s < self->samples; s++)
    plumb_episode_clear (&self->seats[s].episode);
  plumb_data_row_free (self->row);
  g_free (self);
}

PlumbAheadTable *
plumb_ahead_table_new (PlumbRun *run, PlumbAheadQueue *queue, GError **error)
{
  /* A program of its own: an evaluation plays with the other one at the same time, with the same numbers. */
  PlumbPlayer *player = plumb_player_new (plumb_spec_get_text (run->spec, "rollout.environment"),
                                          plumb_spec_get_real (run->spec, "reward.timeout"), error);
  if (!player)
    return NULL;
  PlumbAheadTable *self = g_new0 (PlumbAheadTable, 1);
  self->run = run;
  self->queue = queue;
  self->player = player;
  return self;
}

void
plumb_ahead_table_free (PlumbAheadTable *self)
{
  if (!self)
    return;
  plumb_player_free (self->player);
  g_free (self);
}

gboolean
plumb_ahead_table_begin (PlumbAheadTable *self, PlumbAheadGroup *group, GError **error)
{
  int n = self->queue->samples;
  PlumbDataRow *row = plumb_data_set_get (self->run->train, group->row, error);
  if (!row)
    return FALSE;
  plumb_ahead_play_free (group->play);
  group->play = g_malloc0 (sizeof *group->play + (gsize) n * sizeof (Seat));
  group->play->ticket = ++self->ticket;
  group->play->row = row;
  group->play->samples = n;
  for (int s = 0; s < n; s++)
    plumb_episode_init (&group->play->seats[s].episode, row);
  return TRUE;
}

static gboolean
fail (GError **error)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "the worker returned an answer that was not asked for, or twice");
  return FALSE;
}

static gboolean
take_answer (PlumbAheadTable *self, const PlumbCompletions *all, gsize i, GError **error)
{
  PlumbAheadGroup *group = plumb_ahead_queue_find_waiting (self->queue, all->ordinals[i]);
  PlumbAheadPlay *play = group ? group->play : NULL;
  int sample = all->samples[i], first = all->offsets[i], n = all->offsets[i + 1] - first;
  if (!play)
    return TRUE; /* of a worker that was given up: its episodes begin anew */
  if (sample < 0 || sample >= play->samples || play->seats[sample].state != SEAT_ANSWERS || n <= 0)
    return fail (error);
  for (int t = first; t < first + n; t++)
    if (all->ids[t] < 0 || all->ids[t] >= self->queue->vocabulary || all->versions[t] < 0)
      return fail (error);
  Seat *seat = &play->seats[sample];
  plumb_episode_answer (&seat->episode, (gsize) n, all->ids + first, all->log_probs + first, all->versions + first, 0,
                        all->finish[i]);
  char *line = plumb_episode_request (self->run, &seat->episode, play->row, group->ordinal * play->samples + sample, error);
  if (!line)
    return FALSE;
  seat->state = SEAT_ASKS;
  plumb_player_ask (self->player, group->ordinal, sample, play->ticket, line);
  return TRUE;
}

gboolean
plumb_ahead_table_accept (PlumbAheadTable *self, GVariant *body, GError **error)
{
  g_auto (PlumbCompletions) all = { 0 };
  if (!plumb_completions_read (&all, body, error))
    return FALSE;
  if (!all.versions)
    return fail (error);
  for (gsize i = 0; i < all.n; i++)
    if (!take_answer (self, &all, i, error))
      return FALSE;
  return TRUE;
}

/* A sample as a completion: what follows the prompt, with its mask. */
static void
add_completion (PlumbCompletions *all, gint64 ordinal, gint32 sample, const PlumbEpisode *e, guint prompt)
{
  gint32 offsets[2] = { 0, (gint32) (e->ids->len - prompt) }, finish = e->finish;
  const PlumbCompletions one = { .n = 1,
                                 .ordinals = &ordinal,
                                 .samples = &sample,
                                 .finish = &finish,
                                 .offsets = offsets,
                                 .ids = &g_array_index (e->ids, gint32, prompt),
                                 .log_probs = &g_array_index (e->log_probs, float, prompt),
                                 .versions = &g_array_index (e->versions, gint32, prompt),
                                 .mask = &g_array_index (e->mask, guint8, prompt) };
  plumb_completions_join (all, &one);
}

static void
finish_group (PlumbAheadGroup *group)
{
  PlumbAheadPlay *play = group->play;
  group->episodes = g_new0 (PlumbRewardScore, play->samples + 1);
  group->n_episodes = play->samples;
  for (int s = 0; s < play->samples; s++)
    {
      PlumbEpisode *episode = &play->seats[s].episode;
      add_completion (&group->completions, group->ordinal, s, episode, play->row->prompt_ids->len);
      group->episodes[s] = episode->score;
      episode->score = (PlumbRewardScore){ 0 };
    }
  g_clear_pointer (&group->play, plumb_ahead_play_free);
}

static gboolean
is_over (const PlumbAheadPlay *play)
{
  for (int s = 0; s < play->samples; s++)
    if (play->seats[s].state != SEAT_OVER)
      return FALSE;
  return TRUE;
}

static gboolean
take_reply (PlumbAheadTable *self, PlumbPlayerCall *call, PlumbPrompts *next, GError **error)
{
  PlumbAheadGroup *group = plumb_ahead_queue_find_waiting (self->queue, call->ordinal);
  PlumbAheadPlay *play = group ? group->play : NULL;
  if (!play || play->ticket != call->ticket || play->seats[call->sample].state != SEAT_ASKS)
    return TRUE; /* of a play that was given up */
  Seat *seat = &play->seats[call->sample];
  PlumbEpisode *episode = &seat->episode;
  if (!plumb_episode_hear (self->run, episode, call->answer->str, g_steal_pointer (&call->problem), error))
    return FALSE;
  seat->state = episode->over ? SEAT_OVER : SEAT_ANSWERS;
  if (!episode->over)
    plumb_prompts_add (next, (gpointer) episode->ids->data, episode->ids->len, group->ordinal, call->sample);
  else if (is_over (play))
    finish_group (group);
  return TRUE;
}

gboolean
plumb_ahead_table_attend (PlumbAheadTable *self, PlumbPrompts *next, GError **error)
{
  for (;;)
    {
      g_autoptr (PlumbPlayerCall) call = plumb_player_take (self->player);
      if (!call)
        return TRUE;
      if (!take_reply (self, call, next, error))
        return FALSE;
    }
}

guint
plumb_ahead_table_owed (const PlumbAheadTable *self)
{
  guint n = 0;
  for (guint i = 0; i < self->queue->groups->len; i++)
    {
      const PlumbAheadPlay *play = plumb_ahead_queue_get (self->queue, i)->play;
      for (int s = 0; play && s < play->samples; s++)
        n += play->seats[s].state == SEAT_ANSWERS;
    }
  return n;
}

guint
plumb_ahead_table_asked (const PlumbAheadTable *self)
{
  return plumb_player_pending (self->player);
}
