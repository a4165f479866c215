/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/reward/line-program.h"
#include "engine/run/player.h"

struct _PlumbPlayer
{
  PlumbLineProgram *program;
  GThread *thread;
  GAsyncQueue *asked, *answered; /* of PlumbPlayerCall; one without a line ends the thread */
  guint pending;
  int ending; /* atomic */
};

void
plumb_player_call_free (PlumbPlayerCall *call)
{
  if (!call)
    return;
  g_free (call->line);
  g_free (call->problem);
  if (call->answer)
    g_string_free (call->answer, TRUE);
  g_free (call);
}

static gpointer
play (gpointer data)
{
  PlumbPlayer *self = data;
  for (;;)
    {
      PlumbPlayerCall *call = g_async_queue_pop (self->asked);
      if (!call->line || g_atomic_int_get (&self->ending))
        {
          plumb_player_call_free (call);
          return NULL;
        }
      call->answer = g_string_new (NULL);
      call->problem = plumb_line_program_ask (self->program, call->line, call->answer, NULL);
      g_async_queue_push (self->answered, call);
    }
}

PlumbPlayer *
plumb_player_new (const char *command, double timeout, GError **error)
{
  PlumbLineProgram *program = plumb_line_program_new (command, timeout, error);
  if (!program)
    return NULL;
  PlumbPlayer *self = g_new0 (PlumbPlayer, 1);
  self->program = program;
  self->asked = g_async_queue_new_full ((GDestroyNotify) plumb_player_call_free);
  self->answered = g_async_queue_new_full ((GDestroyNotify) plumb_player_call_free);
  self->thread = g_thread_new ("environment", play, self);
  return self;
}

void
plumb_player_free (PlumbPlayer *self)
{
  if (!self)
    return;
  g_atomic_int_set (&self->ending, TRUE);
  plumb_line_program_cancel (self->program);
  g_async_queue_push (self->asked, g_new0 (PlumbPlayerCall, 1));
  g_thread_join (self->thread);
  g_async_queue_unref (self->asked);
  g_async_queue_unref (self->answered);
  plumb_line_program_free (self->program);
  g_free (self);
}

void
plumb_player_ask (PlumbPlayer *self, gint64 ordinal, int sample, guint64 ticket, char *line)
{
  PlumbPlayerCall *call = g_new0 (PlumbPlayerCall, 1);
  call->ordinal = ordinal;
  call->sample = sample;
  call->ticket = ticket;
  call->line = line;
  self->pending++;
  g_async_queue_push (self->asked, call);
}

PlumbPlayerCall *
plumb_player_take (PlumbPlayer *self)
{
  PlumbPlayerCall *call = g_async_queue_try_pop (self->answered);
  self->pending -= call ? 1 : 0;
  return call;
}

guint
plumb_player_pending (const PlumbPlayer *self)
{
  return self->pending;
}
