/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <zmq.h>

#include "engine/core/error.h"
#include "engine/run/crew.h"
#include "engine/run/worker.h"

#define ADDRESS "inproc://crew"
#define WORKER 1
#define TICK_MS 200
#define GREETING_SECONDS 30

struct _PlumbCrew
{
  void *zmq_context, *socket;
  GThread *worker;
  gint64 attempt, lease;
  gint64 heard; /* monotonic, microseconds */
  guint64 version;
  PlumbCrewTick tick;
  gpointer tick_data;
};

/* The next message for this attempt and lease; others are stale and dropped. NULL without an error after a tick. */
static PlumbMessage *
next_message (PlumbCrew *self, GError **error)
{
  PlumbMessage *message = plumb_message_receive (self->socket, TRUE, TICK_MS, error);
  if (!message)
    return NULL;
  self->heard = g_get_monotonic_time ();
  if (message->kind == PLUMB_MESSAGE_HELLO
      || (message->attempt == self->attempt && message->lease == self->lease))
    return message;
  g_message ("a stale %s of lease %" G_GINT64_FORMAT " was dropped", plumb_message_kind_name (message->kind),
             message->lease);
  plumb_message_free (message);
  return NULL;
}

PlumbCrew *
plumb_crew_start (gint64 attempt, GError **error)
{
  g_autoptr (PlumbCrew) self = g_new0 (PlumbCrew, 1);
  int mandatory = 1, linger = 1000;
  self->attempt = attempt;
  self->heard = g_get_monotonic_time ();
  self->zmq_context = zmq_ctx_new ();
  self->socket = zmq_socket (self->zmq_context, ZMQ_ROUTER);
  zmq_setsockopt (self->socket, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory);
  zmq_setsockopt (self->socket, ZMQ_LINGER, &linger, sizeof linger);
  if (zmq_bind (self->socket, ADDRESS) != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "cannot bind %s: %s", ADDRESS,
                   zmq_strerror (zmq_errno ()));
      return NULL;
    }
  self->worker = plumb_worker_start (self->zmq_context, ADDRESS, WORKER);
  for (int tick = 0; tick < GREETING_SECONDS * 1000 / TICK_MS; tick++)
    {
      g_autoptr (GError) local = NULL;
      g_autoptr (PlumbMessage) hello = next_message (self, &local);
      if (hello && hello->kind == PLUMB_MESSAGE_HELLO)
        return g_steal_pointer (&self);
    }
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "the worker did not start within %d s",
               GREETING_SECONDS);
  return NULL;
}

void
plumb_crew_stop (PlumbCrew *self)
{
  if (!self)
    return;
  if (self->worker)
    {
      g_autoptr (PlumbMessage) message = plumb_message_new (PLUMB_MESSAGE_CLOSE, NULL);
      message->worker = WORKER;
      plumb_message_send (self->socket, TRUE, message, NULL);
      g_thread_join (self->worker);
    }
  if (self->socket)
    zmq_close (self->socket);
  if (self->zmq_context)
    zmq_ctx_term (self->zmq_context);
  g_free (self);
}

void
plumb_crew_set_tick (PlumbCrew *self, PlumbCrewTick tick, gpointer data)
{
  self->tick = tick;
  self->tick_data = data;
}

static void
take_failure (GVariant *body, GError **error)
{
  int code = PLUMB_ERROR_FAILED;
  const char *text = "the worker failed";
  g_variant_lookup (body, "code", "i", &code);
  g_variant_lookup (body, "message", "&s", &text);
  g_set_error_literal (error, PLUMB_ERROR, code, text);
}

static gboolean
tick (PlumbCrew *self, gint64 done, gint64 of, GError **error)
{
  if (!self->tick || self->tick (done, of, self->tick_data))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_EXIT_INTERRUPTED, "interrupted");
  return FALSE;
}

GVariant *
plumb_crew_ask (PlumbCrew *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autoptr (PlumbMessage) request = plumb_message_new (kind, body);
  gint64 done = 0, of = 0;
  request->worker = WORKER;
  request->attempt = self->attempt;
  request->lease = ++self->lease;
  request->version = self->version;
  /* Also where every answer is quick: many short requests must not starve heartbeat and signals. */
  if (!tick (self, 0, 0, error) || !plumb_message_send (self->socket, TRUE, request, error))
    return NULL;
  for (;;)
    {
      g_autoptr (GError) local = NULL;
      g_autoptr (PlumbMessage) message = next_message (self, &local);
      if (local)
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return NULL;
        }
      if (message && message->kind == PLUMB_MESSAGE_PROGRESS)
        {
          g_variant_lookup (message->body, "done", "x", &done);
          g_variant_lookup (message->body, "of", "x", &of);
        }
      if (message && message->kind == PLUMB_MESSAGE_DONE)
        {
          self->version = message->version;
          return g_variant_ref (message->body);
        }
      if (message && message->kind == PLUMB_MESSAGE_FAILED)
        {
          take_failure (message->body, error);
          return NULL;
        }
      if (!tick (self, done, of, error))
        return NULL;
    }
}

double
plumb_crew_silence (PlumbCrew *self)
{
  return (double) (g_get_monotonic_time () - self->heard) / G_USEC_PER_SEC;
}

guint64
plumb_crew_version (PlumbCrew *self)
{
  return self->version;
}
