/* SPDX-License-Identifier: Apache-2.0 */

/* Taking turns (hybrid mode): what generates and what trains give each other their memory, at addresses that stay. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/run/worker-private.h"

static void
trainers_sleep (PlumbWorker *self)
{
  PlumbTrainer *trainers[] = { self->trainer, self->critic_trainer, self->scorer };
  for (gsize i = 0; i < G_N_ELEMENTS (trainers); i++)
    if (trainers[i])
      plumb_trainer_sleep (trainers[i]);
}

static gboolean
trainers_wake (PlumbWorker *self, GError **error)
{
  PlumbTrainer *trainers[] = { self->trainer, self->critic_trainer, self->scorer };
  for (gsize i = 0; i < G_N_ELEMENTS (trainers); i++)
    if (trainers[i] && !plumb_trainer_wake (trainers[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
take_turn (PlumbWorker *self, PlumbTurn turn, GError **error)
{
  if (turn == PLUMB_TURN_TRAIN)
    {
      if (self->rollout)
        plumb_rollout_sleep (self->rollout);
      return trainers_wake (self, error);
    }
  trainers_sleep (self);
  return !self->rollout || plumb_rollout_wake (self->rollout, error);
}

gboolean
plumb_worker_take_turn (PlumbWorker *self, PlumbTurn turn, GError **error)
{
  gint64 begin = g_get_monotonic_time ();
  if (!self->settings.together || turn == PLUMB_TURN_ANY || turn == self->turn)
    return TRUE;
  self->turn = PLUMB_TURN_ANY; /* until all of it is awake */
  if (!take_turn (self, turn, error) || !plumb_device_check (self->device, error))
    return FALSE;
  self->turn = turn;
  self->switched += (double) (g_get_monotonic_time () - begin) / G_USEC_PER_SEC;
  return TRUE;
}
