/* SPDX-License-Identifier: Apache-2.0 */

/* The worker that generates ahead: it is asked and told like the others, may be lost, and gets a successor. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <zmq.h>

#include "engine/core/error.h"
#include "engine/run/crew-private.h"

static PlumbCrewMember *
ahead (PlumbCrew *self)
{
  return plumb_crew_member_of (self, PLUMB_ROLE_ROLLOUT);
}

gboolean
plumb_crew_has_ahead (PlumbCrew *self)
{
  return ahead (self) != NULL;
}

void
plumb_crew_set_groups (PlumbCrew *self, PlumbCrewGroups groups, gpointer data)
{
  self->groups = groups;
  self->groups_data = data;
}

const char *
plumb_crew_ahead_loss (PlumbCrew *self, gboolean owes)
{
  PlumbCrewMember *member = ahead (self);
  /* What it said while nobody listened comes first. */
  for (self->caught_up = FALSE; !self->caught_up;)
    if (!plumb_crew_receive (self, 0, NULL))
      break;
  if (!self->ahead_loss)
    self->ahead_loss = plumb_crew_describe_loss (self, member, owes || plumb_crew_under_way (member));
  return self->ahead_loss;
}

GVariant *
plumb_crew_ask_ahead (PlumbCrew *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  PlumbCrewRequest *request = plumb_crew_request_new (ahead (self)->number, kind, body);
  g_ptr_array_add (requests, request);
  if (!plumb_crew_post (self, request, error))
    return NULL;
  while (!plumb_crew_request_is_done (request))
    {
      if (!plumb_crew_receive (self, PLUMB_CREW_TICK_MS, error) || !plumb_crew_check_members (self, error)
          || !plumb_crew_do_tick (self, error))
        return NULL;
      if (plumb_crew_ahead_loss (self, TRUE))
        {
          g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, self->ahead_loss);
          return NULL;
        }
    }
  return plumb_crew_await (self, requests, error) ? g_variant_ref (plumb_crew_request_answer (request)) : NULL;
}

void
plumb_crew_tell_ahead (PlumbCrew *self, PlumbMessageKind kind, GVariant *body)
{
  g_autoptr (PlumbMessage) message = plumb_message_new (kind, body);
  g_autoptr (GError) error = NULL;
  message->worker = ahead (self)->number;
  message->attempt = self->plan.attempt;
  message->version = self->version;
  if (!plumb_message_send (self->socket, TRUE, message, &error) && !self->ahead_loss)
    self->ahead_loss = g_strdup_printf ("worker %u cannot be reached (%s)", message->worker, error->message);
}

gboolean
plumb_crew_restart_ahead (PlumbCrew *self, GError **error)
{
  PlumbCrewMember *member = ahead (self);
  plumb_crew_process_stop (g_steal_pointer (&member->process), 0);
  g_clear_pointer (&self->ahead_loss, g_free);
  plumb_crew_forget_requests (member);
  /* The dead one's connection goes before the new one's comes under the same name. */
  int handover = 1;
  zmq_setsockopt (self->socket, ZMQ_ROUTER_HANDOVER, &handover, sizeof handover);
  if (plumb_crew_start_member (self, member, error) && plumb_crew_await_greetings (self, error))
    return TRUE;
  self->ahead_loss = g_steal_pointer (&self->loss);
  return FALSE;
}

gboolean
plumb_crew_wait (PlumbCrew *self, int milliseconds, GError **error)
{
  return plumb_crew_receive (self, milliseconds, error) && plumb_crew_check_members (self, error)
         && plumb_crew_do_tick (self, error);
}
