/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <zmq.h>

#include "engine/core/error.h"
#include "engine/run/worker-private.h"
#include "engine/run/worker.h"

#define IDLE_MS 1000
#define PROGRESS_INTERVAL (G_USEC_PER_SEC / 4)

static gboolean
reply (PlumbWorker *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autoptr (PlumbMessage) message = plumb_message_new (kind, body);
  message->worker = self->number;
  message->version = self->policy ? self->policy->version : 0;
  message->attempt = self->attempt;
  message->lease = self->request ? self->request->lease : 0;
  return plumb_message_send (self->socket, FALSE, message, error);
}

/* Tells now and then that work goes on, or waits for others, and hears whether it still should. */
static gboolean
report (PlumbWorker *self, gint64 done, gint64 of, gboolean waiting, GError **error)
{
  gint64 now = g_get_monotonic_time ();
  if (now - self->last_progress < PROGRESS_INTERVAL)
    return TRUE;
  self->last_progress = now;
  g_autoptr (PlumbMessage) message = plumb_message_receive (self->socket, FALSE, 0, error);
  if (message && message->kind == PLUMB_MESSAGE_CLOSE)
    {
      self->closing = TRUE;
      g_set_error (error, PLUMB_ERROR, PLUMB_EXIT_INTERRUPTED, "interrupted");
      return FALSE;
    }
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_variant_dict_insert (body, "done", "x", done);
  g_variant_dict_insert (body, "of", "x", of);
  g_variant_dict_insert (body, "waiting", "b", waiting);
  return reply (self, PLUMB_MESSAGE_PROGRESS, g_variant_dict_end (body), error);
}

gboolean
plumb_worker_report_progress (gint64 done, gint64 of, gpointer worker, GError **error)
{
  return report (worker, done, of, FALSE, error);
}

gboolean
plumb_worker_report_waiting (gpointer worker, GError **error)
{
  return report (worker, 0, 0, TRUE, error);
}

gboolean
plumb_worker_tell (PlumbWorker *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  self->last_progress = g_get_monotonic_time ();
  return reply (self, kind, body, error);
}

gboolean
plumb_worker_tell_alive (PlumbWorker *self, GError **error)
{
  if (g_get_monotonic_time () - self->last_progress < PROGRESS_INTERVAL)
    return TRUE;
  return plumb_worker_tell (self, PLUMB_MESSAGE_PROGRESS, NULL, error);
}

static const PlumbWorkerHandler handlers[] = {
  [PLUMB_MESSAGE_OPEN] = plumb_worker_open,           [PLUMB_MESSAGE_GENERATE] = plumb_worker_generate,
  [PLUMB_MESSAGE_LOG_PROBS] = plumb_worker_log_probs, [PLUMB_MESSAGE_VALUES] = plumb_worker_values,
  [PLUMB_MESSAGE_TRAIN] = plumb_worker_train,         [PLUMB_MESSAGE_SAVE] = plumb_worker_save,
  [PLUMB_MESSAGE_LOAD] = plumb_worker_load,           [PLUMB_MESSAGE_STAGE] = plumb_worker_stage,
  [PLUMB_MESSAGE_CHECK] = plumb_worker_check,         [PLUMB_MESSAGE_PUBLISH] = plumb_worker_publish,
  [PLUMB_MESSAGE_STREAM] = plumb_worker_stream_begin, [PLUMB_MESSAGE_SUBMIT] = plumb_worker_stream_submit,
  [PLUMB_MESSAGE_WEIGHTS] = plumb_worker_stream_renew,
};

static PlumbTurn
turn_of (PlumbMessageKind kind)
{
  switch (kind)
    {
    case PLUMB_MESSAGE_GENERATE:
    case PLUMB_MESSAGE_STREAM:
      return PLUMB_TURN_GENERATE;
    case PLUMB_MESSAGE_LOG_PROBS:
    case PLUMB_MESSAGE_VALUES:
    case PLUMB_MESSAGE_TRAIN:
      return PLUMB_TURN_TRAIN;
    default:
      return PLUMB_TURN_ANY;
    }
}

/* The answer with what is told beside it. */
static GVariant *
add_switched (PlumbWorker *self, GVariant *body)
{
  if (self->switched == 0)
    return body;
  g_autoptr (GVariant) owned = g_variant_ref_sink (body);
  g_autoptr (GVariantDict) more = g_variant_dict_new (owned);
  g_variant_dict_insert (more, "switched", "d", self->switched);
  self->switched = 0;
  return g_variant_dict_end (more);
}

static gboolean
tell_failure (PlumbWorker *self, const GError *failure, GError **error)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_variant_dict_insert (body, "code", "i", plumb_error_exit_code (failure));
  g_variant_dict_insert (body, "message", "s", failure->message);
  g_variant_dict_insert (body, "waited", "b", failure->domain == PLUMB_COMM_ERROR);
  if (self->comm)
    plumb_comm_leave (self->comm);
  return reply (self, PLUMB_MESSAGE_FAILED, g_variant_dict_end (body), error);
}

static gboolean
answer_request (PlumbWorker *self, const PlumbMessage *request, GError **error)
{
  g_autoptr (GError) local = NULL;
  PlumbWorkerHandler handler = request->kind < G_N_ELEMENTS (handlers) ? handlers[request->kind] : NULL;
  gboolean opened = self->opened || request->kind == PLUMB_MESSAGE_OPEN;
  GVariant *body = NULL;
  self->request = request;
  self->attempt = request->attempt;
  PlumbDevice *device = self->device; /* NULL until models are opened, which replaces it */
  if (device)
    device->ops->range (device->context, plumb_message_kind_name (request->kind));
  if (handler && opened && plumb_worker_take_turn (self, turn_of (request->kind), &local))
    body = handler (self, request->body, &local);
  if (device && device == self->device)
    device->ops->range (device->context, NULL);
  if ((!handler || !opened) && !local)
    g_set_error (&local, PLUMB_ERROR, PLUMB_ERROR_FAILED, "worker %u cannot answer %s %s", self->number,
                 plumb_message_kind_name (request->kind), opened ? "" : "before it was opened");
  if (!body)
    return tell_failure (self, local, error);
  if (request->lease > 0)
    return reply (self, PLUMB_MESSAGE_DONE, add_switched (self, body), error);
  g_variant_unref (g_variant_ref_sink (body)); /* nobody waits for it */
  return TRUE;
}

/* A pass of what it generates ahead. A failure is told, and is the end of this worker. */
static gboolean
advance (PlumbWorker *self, GError **error)
{
  g_autoptr (GError) failure = NULL;
  if (plumb_worker_stream_advance (self, &failure))
    return TRUE;
  tell_failure (self, failure, error);
  return FALSE;
}

void
plumb_worker_serve (void *zmq_context, const char *address, guint32 number)
{
  PlumbWorker self = { .number = number };
  g_autoptr (GError) error = NULL;
  int linger = 1000;
  self.socket = zmq_socket (zmq_context, ZMQ_DEALER);
  zmq_setsockopt (self.socket, ZMQ_ROUTING_ID, &number, sizeof number);
  zmq_setsockopt (self.socket, ZMQ_LINGER, &linger, sizeof linger);
  if (zmq_connect (self.socket, address) != 0)
    g_warning ("worker %u cannot reach its controller: %s", number, zmq_strerror (zmq_errno ()));
  gboolean running = reply (&self, PLUMB_MESSAGE_HELLO, NULL, &error);
  while (running && !error)
    {
      gboolean busy = plumb_worker_stream_is_busy (&self);
      g_autoptr (PlumbMessage) request = plumb_message_receive (self.socket, FALSE, busy ? 0 : IDLE_MS, &error);
      if (!request && busy && !error)
        running = advance (&self, &error);
      if (!request)
        continue;
      running = request->kind != PLUMB_MESSAGE_CLOSE && answer_request (&self, request, &error)
                && !self.closing;
      self.request = NULL;
    }
  if (error)
    g_warning ("worker %u: %s", number, error->message);
  plumb_worker_close_models (&self);
  zmq_close (self.socket);
}

void
plumb_worker_serve_process (const char *address, guint32 number)
{
  void *zmq_context = zmq_ctx_new ();
  plumb_worker_serve (zmq_context, address, number);
  zmq_ctx_term (zmq_context);
}

typedef struct
{
  void *zmq_context;
  char *address;
  guint32 number;
} Start;

static gpointer
worker_thread (gpointer data)
{
  Start *start = data;
  plumb_worker_serve (start->zmq_context, start->address, start->number);
  g_free (start->address);
  g_free (start);
  return NULL;
}

GThread *
plumb_worker_start (void *zmq_context, const char *address, guint32 number)
{
  Start *start = g_new (Start, 1);
  start->zmq_context = zmq_context;
  start->address = g_strdup (address);
  start->number = number;
  return g_thread_new ("worker", worker_thread, start);
}
