/* SPDX-License-Identifier: Apache-2.0 */

/* Requests to the workers: to different ones at the same time, to each in their order. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/crew-private.h"

#define DYING_TICKS 100 /* that the end of a process whose socket is gone is waited for */
#define DYING_TICK_MS 20

struct _PlumbCrewRequest
{
  int references;
  guint32 worker;
  PlumbMessageKind kind;
  GVariant *body; /* NULL once it is sent */
  gint64 attempt, lease; /* lease 0: it waits for those before it */
  gint64 begun;
  gboolean done;
  GVariant *answer;
  GError *failure;
  gboolean waited; /* its failure was that another did not come, or that one before it failed */
};

PlumbCrewRequest *
plumb_crew_request_new (guint32 worker, PlumbMessageKind kind, GVariant *body)
{
  PlumbCrewRequest *self = g_new0 (PlumbCrewRequest, 1);
  self->references = 1;
  self->worker = worker;
  self->kind = kind;
  self->body = g_variant_ref_sink (body ? body : g_variant_new ("a{sv}", NULL));
  return self;
}

static PlumbCrewRequest *
request_ref (PlumbCrewRequest *self)
{
  self->references++;
  return self;
}

void
plumb_crew_request_unref (PlumbCrewRequest *self)
{
  if (!self || --self->references > 0)
    return;
  g_clear_pointer (&self->body, g_variant_unref);
  g_clear_pointer (&self->answer, g_variant_unref);
  g_clear_error (&self->failure);
  g_free (self);
}

gboolean
plumb_crew_request_is_done (const PlumbCrewRequest *self)
{
  return self->done;
}

GVariant *
plumb_crew_request_answer (const PlumbCrewRequest *self)
{
  return self->answer;
}

const char *
plumb_crew_request_kind_name (const PlumbCrewRequest *self)
{
  return plumb_message_kind_name (self->kind);
}

const char *
plumb_crew_request_failure (const PlumbCrewRequest *self)
{
  return self->failure ? self->failure->message : NULL;
}

double
plumb_crew_requests_limit (const GPtrArray *requests)
{
  g_autoptr (GHashTable) workers = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  double most = 0;
  for (guint i = 0; i < requests->len; i++)
    {
      const PlumbCrewRequest *request = g_ptr_array_index (requests, i);
      double *sum = g_hash_table_lookup (workers, GUINT_TO_POINTER (request->worker)), limit = 0;
      if (!sum)
        g_hash_table_insert (workers, GUINT_TO_POINTER (request->worker), sum = g_new0 (double, 1));
      if (request->answer)
        g_variant_lookup (request->answer, "limit", "d", &limit);
      *sum += limit;
      most = MAX (most, *sum);
    }
  return most;
}

GPtrArray *
plumb_crew_requests_new (void)
{
  return g_ptr_array_new_with_free_func ((GDestroyNotify) plumb_crew_request_unref);
}

PlumbCrewRequest *
plumb_crew_under_way (const PlumbCrewMember *member)
{
  PlumbCrewRequest *first = g_queue_peek_head ((GQueue *) &member->requests);
  return first && first->lease > 0 ? first : NULL;
}

/* The socket of a dying worker is gone before its process is seen to be: how that ended says more than that it cannot be
 * reached. */
static void
explain_unreachable (PlumbCrew *self, PlumbCrewMember *member, GError **error)
{
  for (int i = 0; i < DYING_TICKS && member->process && !plumb_crew_process_end (member->process); i++)
    g_usleep (DYING_TICK_MS * 1000);
  if (!member->process || !plumb_crew_process_end (member->process) || member->role == PLUMB_ROLE_ROLLOUT)
    return;
  g_clear_error (error);
  plumb_crew_check_member (self, member, error);
}

/* Sends the first request of a worker that has nothing under way. */
static gboolean
begin_next (PlumbCrew *self, PlumbCrewMember *member, GError **error)
{
  PlumbCrewRequest *request = g_queue_peek_head (&member->requests);
  if (!request || request->lease > 0)
    return TRUE;
  g_autoptr (PlumbMessage) message = plumb_message_new (request->kind, request->body);
  g_clear_pointer (&request->body, g_variant_unref);
  message->worker = member->number;
  message->attempt = request->attempt = self->plan.attempt;
  message->lease = request->lease = ++self->lease;
  message->version = self->version;
  member->done = member->of = 0;
  request->begun = self->advanced = g_get_monotonic_time ();
  if (!plumb_message_send (self->socket, TRUE, message, error))
    {
      explain_unreachable (self, member, error);
      return FALSE;
    }
  member->heard = g_get_monotonic_time ();
  return TRUE;
}

gboolean
plumb_crew_post (PlumbCrew *self, PlumbCrewRequest *request, GError **error)
{
  g_return_val_if_fail (request->worker >= 1 && request->worker <= (guint32) self->all, FALSE);
  PlumbCrewMember *member = &self->members[request->worker - 1];
  g_queue_push_tail (&member->requests, request_ref (request));
  return begin_next (self, member, error);
}

static void
tell_span (PlumbCrew *self, const PlumbCrewMember *member, const PlumbCrewRequest *request)
{
  if (self->span && member->role != PLUMB_ROLE_POLICY && member->role != PLUMB_ROLE_ROLLOUT)
    self->span (member->number, member->role, request->kind, request->begun, g_get_monotonic_time (), self->span_data);
}

/* What a worker was asked for after a request that failed is not begun. */
static void
drop_followers (PlumbCrewMember *member)
{
  for (PlumbCrewRequest *next; (next = g_queue_pop_head (&member->requests)); plumb_crew_request_unref (next))
    {
      next->done = next->waited = TRUE;
      g_clear_error (&next->failure);
      next->failure = g_error_new (PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s was not begun, since what came before it failed",
                                   plumb_message_kind_name (next->kind));
    }
}

void
plumb_crew_forget_requests (PlumbCrewMember *member)
{
  drop_followers (member);
}

static void
take_failure (PlumbCrewRequest *request, GVariant *body)
{
  int code = PLUMB_ERROR_FAILED;
  const char *text = "the worker failed";
  g_variant_lookup (body, "code", "i", &code);
  g_variant_lookup (body, "message", "&s", &text);
  g_variant_lookup (body, "waited", "b", &request->waited);
  g_clear_error (&request->failure);
  request->failure = g_error_new_literal (PLUMB_ERROR, code, text);
}

static void
take_progress (PlumbCrew *self, PlumbCrewMember *member, GVariant *body)
{
  gboolean waiting = FALSE;
  g_variant_lookup (body, "done", "x", &member->done);
  g_variant_lookup (body, "of", "x", &member->of);
  g_variant_lookup (body, "waiting", "b", &waiting);
  if (!waiting)
    self->advanced = g_get_monotonic_time ();
}

gboolean
plumb_crew_take_reply (PlumbCrew *self, PlumbCrewMember *member, const PlumbMessage *message, gboolean *taken,
                       GError **error)
{
  PlumbCrewRequest *request = plumb_crew_under_way (member);
  *taken = request && message->attempt == request->attempt && message->lease == request->lease;
  if (!*taken)
    return TRUE;
  if (message->kind == PLUMB_MESSAGE_PROGRESS)
    {
      take_progress (self, member, message->body);
      return TRUE;
    }
  *taken = message->kind == PLUMB_MESSAGE_DONE || message->kind == PLUMB_MESSAGE_FAILED;
  if (!*taken)
    return TRUE;
  double switched = 0;
  g_variant_lookup (message->body, "switched", "d", &switched);
  member->switched += switched;
  self->advanced = g_get_monotonic_time ();
  if (message->kind == PLUMB_MESSAGE_DONE)
    request->answer = g_variant_ref (message->body);
  else
    take_failure (request, message->body);
  if (message->kind == PLUMB_MESSAGE_DONE && member->role == PLUMB_ROLE_POLICY)
    self->version = message->version;
  request->done = TRUE;
  tell_span (self, member, request);
  g_queue_pop_head (&member->requests);
  if (request->failure)
    drop_followers (member);
  plumb_crew_request_unref (request);
  return begin_next (self, member, error);
}

/* A failure that explains the others: not that of a worker which waited for one that failed. */
static GError *
take_cause (PlumbCrew *self, GPtrArray *requests)
{
  PlumbCrewRequest *cause = NULL;
  for (guint i = 0; i < requests->len; i++)
    {
      PlumbCrewRequest *request = g_ptr_array_index (requests, i);
      if (request->failure && (!cause || (cause->waited && !request->waited)))
        cause = request;
    }
  if (!cause)
    return NULL;
  GError *error = g_error_copy (cause->failure);
  if (self->all > 1)
    g_prefix_error (&error, "%s: ", self->members[cause->worker - 1].name);
  return error;
}

static gboolean
are_done (GPtrArray *requests)
{
  for (guint i = 0; i < requests->len; i++)
    if (!((PlumbCrewRequest *) g_ptr_array_index (requests, i))->done)
      return FALSE;
  return TRUE;
}

gboolean
plumb_crew_await (PlumbCrew *self, GPtrArray *requests, GError **error)
{
  /* Also where every answer is quick: many short requests must not starve heartbeat and signals. */
  if (!plumb_crew_do_tick (self, error))
    return FALSE;
  while (!are_done (requests))
    if (!plumb_crew_receive (self, PLUMB_CREW_TICK_MS, error) || !plumb_crew_check_members (self, error)
        || !plumb_crew_do_tick (self, error))
      return FALSE;
  GError *cause = take_cause (self, requests);
  if (cause)
    g_propagate_error (error, cause);
  return !cause;
}

gboolean
plumb_crew_ask_together (PlumbCrew *self, GPtrArray *requests, GError **error)
{
  for (guint i = 0; i < requests->len; i++)
    if (!plumb_crew_post (self, g_ptr_array_index (requests, i), error))
      return FALSE;
  return plumb_crew_await (self, requests, error);
}

GVariant *
plumb_crew_ask_worker (PlumbCrew *self, guint32 worker, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  PlumbCrewRequest *request = plumb_crew_request_new (worker, kind, body);
  g_ptr_array_add (requests, request);
  return plumb_crew_ask_together (self, requests, error) ? g_variant_ref (request->answer) : NULL;
}

GVariant *
plumb_crew_ask (PlumbCrew *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  return plumb_crew_ask_worker (self, 1, kind, body, error);
}

GVariant *
plumb_crew_ask_all (PlumbCrew *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  g_autoptr (GVariant) shared = g_variant_ref_sink (body ? body : g_variant_new ("a{sv}", NULL));
  for (int i = 0; i < self->n; i++)
    g_ptr_array_add (requests, plumb_crew_request_new ((guint32) i + 1, kind, shared));
  PlumbCrewRequest *first = g_ptr_array_index (requests, 0);
  return plumb_crew_ask_together (self, requests, error) ? g_variant_ref (first->answer) : NULL;
}

void
plumb_crew_clear_answers (PlumbCrew *self, GVariant **answers)
{
  for (int i = 0; i < self->n; i++)
    g_clear_pointer (&answers[i], g_variant_unref);
}

gboolean
plumb_crew_ask_each (PlumbCrew *self, PlumbMessageKind kind, GVariant *const *bodies, GVariant **answers, GError **error)
{
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  for (int i = 0; i < self->n; i++)
    if (bodies[i])
      g_ptr_array_add (requests, plumb_crew_request_new ((guint32) i + 1, kind, bodies[i]));
  memset (answers, 0, (gsize) self->n * sizeof *answers);
  if (!plumb_crew_ask_together (self, requests, error))
    return FALSE;
  for (guint i = 0; i < requests->len; i++)
    {
      PlumbCrewRequest *request = g_ptr_array_index (requests, i);
      answers[request->worker - 1] = g_steal_pointer (&request->answer);
    }
  return TRUE;
}
