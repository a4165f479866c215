/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <zmq.h>

#include "engine/core/error.h"
#include "engine/run/crew-process.h"
#include "engine/run/crew.h"
#include "engine/run/worker.h"

#define THREAD_ADDRESS "inproc://crew"
#define AWAY_SECONDS 1 /* longer than any wait for a message */
#define TICK_MS 200
#define DYING_TICKS 100 /* that the end of a process whose socket is gone is waited for */
#define DYING_TICK_MS 20
#define GREETING_SECONDS 30
#define PARTING_SECONDS 5.0

/* A worker: thread or process, and the request that it works on. */
typedef struct
{
  guint32 number;
  GThread *thread;           /* or */
  PlumbCrewProcess *process;
  gboolean greeted;
  gint64 heard; /* monotonic, microseconds */
  gint64 lease; /* of its request; 0: it has none */
  PlumbMessageKind kind;
  gint64 done, of;
  GVariant *answer;
  GError *failure;
  gboolean waited; /* its failure was that another did not come */
  double switched; /* seconds of its changes between generating and training, not taken yet */
} Member;

struct _PlumbCrew
{
  void *zmq_context, *socket;
  PlumbCrewFolder folder; /* of the socket of processes */
  char *address;          /* NULL: there are none */
  Member *members; /* n that train, then perhaps the one that generates ahead */
  int n, all;
  PlumbCrewGroups groups;
  gpointer groups_data;
  char *ahead_loss;
  PlumbCrewPlan plan;
  char *log;
  gint64 lease; /* the last one */
  gboolean caught_up; /* nothing that was sent waits to be read: only then does silence mean something */
  gint64 listened;    /* monotonic: when the last wait for a message ended; 0: there was none */
  gint64 excused;     /* monotonic: when a time ended in which nobody listened; 0: there was none */
  guint64 version;
  char *loss;
  PlumbCrewTick tick;
  gpointer tick_data;
};

static Member *
find_member (PlumbCrew *self, guint32 number)
{
  return number >= 1 && number <= (guint32) self->all ? &self->members[number - 1] : NULL;
}

static void
take_failure (Member *member, GVariant *body)
{
  int code = PLUMB_ERROR_FAILED;
  const char *text = "the worker failed";
  g_variant_lookup (body, "code", "i", &code);
  g_variant_lookup (body, "message", "&s", &text);
  g_variant_lookup (body, "waited", "b", &member->waited);
  g_clear_error (&member->failure);
  member->failure = g_error_new_literal (PLUMB_ERROR, code, text);
}

static Member *
ahead (PlumbCrew *self)
{
  return self->all > self->n ? &self->members[self->n] : NULL;
}

/* What the worker that generates ahead says of its own accord. */
static gboolean
take_news (PlumbCrew *self, Member *member, const PlumbMessage *message)
{
  const char *text = "it failed";
  if (member != ahead (self) || message->lease != 0 || message->attempt != self->plan.attempt)
    return FALSE;
  if (message->kind == PLUMB_MESSAGE_GROUPS && self->groups)
    self->groups (message->body, self->groups_data);
  if (message->kind == PLUMB_MESSAGE_FAILED)
    {
      g_variant_lookup (message->body, "message", "&s", &text);
      g_free (self->ahead_loss);
      self->ahead_loss = g_strdup_printf ("worker %u: %s", member->number, text);
    }
  return TRUE;
}

/* What belongs to the request that the worker has; anything else is stale. */
static gboolean
take_reply (PlumbCrew *self, Member *member, const PlumbMessage *message)
{
  double switched = 0;
  if (member->lease == 0 || message->attempt != self->plan.attempt || message->lease != member->lease)
    return FALSE;
  switch (message->kind)
    {
    case PLUMB_MESSAGE_PROGRESS:
      g_variant_lookup (message->body, "done", "x", &member->done);
      g_variant_lookup (message->body, "of", "x", &member->of);
      return TRUE;
    case PLUMB_MESSAGE_DONE:
      if (member != ahead (self))
        self->version = message->version;
      if (g_variant_lookup (message->body, "switched", "d", &switched))
        member->switched += switched;
      member->answer = g_variant_ref (message->body);
      member->lease = 0;
      return TRUE;
    case PLUMB_MESSAGE_FAILED:
      take_failure (member, message->body);
      member->lease = 0;
      return TRUE;
    default:
      return FALSE;
    }
}

/* A time in which nobody listened, since the controller had other work or was stopped itself, is no silence of the
 * workers: what they said may still be on its way. */
static void
excuse (PlumbCrew *self)
{
  gint64 now = g_get_monotonic_time (), away = self->listened > 0 ? now - self->listened : 0;
  self->listened = now;
  if (away < AWAY_SECONDS * G_USEC_PER_SEC)
    return;
  self->excused = now;
  for (int i = 0; i < self->all; i++)
    self->members[i].heard = MIN (now, self->members[i].heard + away);
}

/* Waits a little for a message and hands it to its worker. */
static gboolean
receive (PlumbCrew *self, int milliseconds, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (PlumbMessage) message = plumb_message_receive (self->socket, TRUE, milliseconds, &local);
  self->caught_up = !message;
  excuse (self);
  if (local)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  Member *member = message ? find_member (self, message->worker) : NULL;
  if (!member)
    return TRUE;
  member->heard = g_get_monotonic_time ();
  if (message->kind == PLUMB_MESSAGE_HELLO)
    member->greeted = TRUE;
  else if (!take_reply (self, member, message) && !take_news (self, member, message))
    g_message ("a stale %s of lease %" G_GINT64_FORMAT " was dropped", plumb_message_kind_name (message->kind),
               message->lease);
  return TRUE;
}

double
plumb_crew_take_switched (PlumbCrew *self)
{
  double longest = 0;
  for (int i = 0; i < self->all; i++)
    {
      longest = MAX (longest, self->members[i].switched);
      self->members[i].switched = 0;
    }
  return longest;
}

static double
silence (const Member *member)
{
  return (double) (g_get_monotonic_time () - member->heard) / G_USEC_PER_SEC;
}

static const char *
activity (PlumbCrew *self, const Member *member)
{
  return !member->greeted              ? "start"
         : member->lease               ? plumb_message_kind_name (member->kind)
         : member == ahead (self)      ? "generate"
                                       : "wait";
}

/* How a worker was lost (transfer full): it is dead, or has been silent for too long while it owes an answer. */
static char *
describe_loss (PlumbCrew *self, const Member *member, gboolean owes)
{
  const char *end = member->process ? plumb_crew_process_end (member->process) : NULL;
  double silent = silence (member);
  if (end)
    return g_strdup_printf ("worker %u (process %d) %s in phase %s, %.1f s after it was last heard", member->number,
                            plumb_crew_process_id (member->process), end, activity (self, member), silent);
  if (self->plan.patience > 0 && member->process && owes && self->caught_up && silent > self->plan.patience)
    return g_strdup_printf ("worker %u (process %d) has said nothing for %.0f s in phase %s and is given up "
                            "(placement.timeout)", member->number, plumb_crew_process_id (member->process), silent,
                            activity (self, member));
  return NULL;
}

static gboolean
check_member (PlumbCrew *self, const Member *member, GError **error)
{
  char *loss = describe_loss (self, member, member->lease != 0);
  if (!loss)
    return TRUE;
  g_free (self->loss);
  self->loss = loss;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s; the run can go on from its last checkpoint with --resume",
               self->loss);
  return FALSE;
}

static gboolean
check_members (PlumbCrew *self, GError **error)
{
  for (int i = 0; i < self->n; i++)
    if (!check_member (self, &self->members[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
bind_to (PlumbCrew *self, const char *address, GError **error)
{
  if (zmq_bind (self->socket, address) == 0)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "cannot bind %s: %s", address,
               zmq_strerror (zmq_errno ()));
  return FALSE;
}

static gboolean
open_socket (PlumbCrew *self, gboolean processes, GError **error)
{
  int mandatory = 1, linger = 1000;
  self->zmq_context = zmq_ctx_new ();
  self->socket = zmq_socket (self->zmq_context, ZMQ_ROUTER);
  zmq_setsockopt (self->socket, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory);
  zmq_setsockopt (self->socket, ZMQ_LINGER, &linger, sizeof linger);
  if (!processes)
    return bind_to (self, THREAD_ADDRESS, error);
  if (!plumb_crew_folder_make (&self->folder, error))
    return FALSE;
  self->address = g_strdup_printf ("ipc://%s/crew", self->folder.path);
  return bind_to (self, self->address, error);
}

static int
threads_each (PlumbCrew *self)
{
  const char *told = g_getenv ("OMP_NUM_THREADS");
  int cores = told ? (int) g_ascii_strtoll (told, NULL, 10) : (int) g_get_num_processors ();
  return self->plan.threads > 0 ? self->plan.threads : MAX (1, cores / self->all);
}

static gboolean
start_member (PlumbCrew *self, Member *member, GError **error)
{
  member->heard = g_get_monotonic_time ();
  member->greeted = FALSE;
  if (self->address)
    member->process = plumb_crew_process_start (self->address, member->number, threads_each (self), self->log, error);
  else
    member->thread = plumb_worker_start (self->zmq_context, THREAD_ADDRESS, member->number);
  return member->process || member->thread;
}

static gboolean
await_greetings (PlumbCrew *self, GError **error)
{
  gint64 start = g_get_monotonic_time ();
  for (;;)
    {
      const Member *late = NULL;
      for (int i = 0; i < self->all; i++)
        if (!self->members[i].greeted)
          late = &self->members[i];
      if (!late)
        return TRUE;
      if (!receive (self, TICK_MS, error) || !check_member (self, late, error))
        return FALSE;
      if (g_get_monotonic_time () - start > GREETING_SECONDS * G_USEC_PER_SEC)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "worker %u did not start within %d s", late->number,
                       GREETING_SECONDS);
          return FALSE;
        }
    }
}

PlumbCrew *
plumb_crew_start (const PlumbCrewPlan *plan, GError **error)
{
  g_autoptr (PlumbCrew) self = g_new0 (PlumbCrew, 1);
  self->plan = *plan;
  self->log = g_strdup (plan->log);
  self->n = CLAMP (plan->workers, 1, PLUMB_CREW_MAX_WORKERS);
  self->all = self->n + (plan->ahead ? 1 : 0);
  self->members = g_new0 (Member, self->all);
  for (int i = 0; i < self->all; i++)
    self->members[i].number = (guint32) i + 1;
  if (!open_socket (self, self->all > 1, error))
    return NULL;
  for (int i = 0; i < self->all; i++)
    if (!start_member (self, &self->members[i], error))
      return NULL;
  return await_greetings (self, error) ? g_steal_pointer (&self) : NULL;
}

static void
part_with (PlumbCrew *self, Member *member)
{
  if (member->thread || (member->process && member->greeted && !plumb_crew_process_end (member->process)))
    {
      g_autoptr (PlumbMessage) message = plumb_message_new (PLUMB_MESSAGE_CLOSE, NULL);
      g_autoptr (GError) error = NULL;
      message->worker = member->number;
      if (!plumb_message_send (self->socket, TRUE, message, &error))
        g_debug ("%s", error->message);
    }
}

void
plumb_crew_stop (PlumbCrew *self)
{
  if (!self)
    return;
  for (int i = 0; i < self->all; i++)
    part_with (self, &self->members[i]);
  for (int i = 0; i < self->all; i++)
    {
      Member *member = &self->members[i];
      if (member->thread)
        g_thread_join (member->thread);
      /* One that hears nothing is not waited for. */
      gboolean deaf = !member->greeted || self->loss;
      plumb_crew_process_stop (member->process, deaf ? 0 : PARTING_SECONDS);
      g_clear_pointer (&member->answer, g_variant_unref);
      g_clear_error (&member->failure);
    }
  if (self->socket)
    zmq_close (self->socket);
  if (self->zmq_context)
    zmq_ctx_term (self->zmq_context);
  plumb_crew_folder_remove (&self->folder);
  g_free (self->address);
  g_free (self->members);
  g_free (self->log);
  g_free (self->loss);
  g_free (self->ahead_loss);
  g_free (self);
}

void
plumb_crew_set_tick (PlumbCrew *self, PlumbCrewTick tick, gpointer data)
{
  self->tick = tick;
  self->tick_data = data;
}

int
plumb_crew_size (PlumbCrew *self)
{
  return self->n;
}

/* Tells the samples that are ready with all workers together. */
static gboolean
tick (PlumbCrew *self, GError **error)
{
  gint64 done = 0, of = 0;
  for (int i = 0; i < self->n; i++)
    {
      done += self->members[i].done;
      of += self->members[i].of;
    }
  if (!self->tick || self->tick (done, of, self->tick_data))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_EXIT_INTERRUPTED, "interrupted");
  return FALSE;
}

/* The socket of a dying worker is gone before its process is seen to be: how that ended says more than that it cannot be
 * reached. */
static void
explain_unreachable (PlumbCrew *self, Member *member, GError **error)
{
  for (int i = 0; i < DYING_TICKS && member->process && !plumb_crew_process_end (member->process); i++)
    g_usleep (DYING_TICK_MS * 1000);
  if (!member->process || !plumb_crew_process_end (member->process) || member == ahead (self))
    return;
  g_clear_error (error);
  check_member (self, member, error);
}

static gboolean
begin (PlumbCrew *self, Member *member, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autoptr (PlumbMessage) request = plumb_message_new (kind, body);
  request->worker = member->number;
  request->attempt = self->plan.attempt;
  request->lease = ++self->lease;
  request->version = self->version;
  member->lease = request->lease;
  member->kind = kind;
  member->done = member->of = 0;
  member->waited = FALSE;
  if (!plumb_message_send (self->socket, TRUE, request, error))
    {
      explain_unreachable (self, member, error);
      return FALSE;
    }
  member->heard = g_get_monotonic_time ();
  return TRUE;
}

static gboolean
is_working (PlumbCrew *self)
{
  for (int i = 0; i < self->n; i++)
    if (self->members[i].lease)
      return TRUE;
  return FALSE;
}

/* A failure that explains the others: not that of a worker which waited for one that failed. */
static GError *
take_cause (PlumbCrew *self)
{
  Member *cause = NULL;
  for (int i = 0; i < self->n; i++)
    if (self->members[i].failure && (!cause || (cause->waited && !self->members[i].waited)))
      cause = &self->members[i];
  if (!cause)
    return NULL;
  if (self->n > 1)
    g_prefix_error (&cause->failure, "worker %u: ", cause->number);
  return g_steal_pointer (&cause->failure);
}

/* Waits for the answers to all requests. */
static gboolean
finish (PlumbCrew *self, GError **error)
{
  while (is_working (self))
    if (!receive (self, TICK_MS, error) || !check_members (self, error) || !tick (self, error))
      return FALSE;
  GError *cause = take_cause (self);
  for (int i = 0; i < self->n; i++)
    g_clear_error (&self->members[i].failure);
  if (cause)
    g_propagate_error (error, cause);
  return !cause;
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
  /* Also where every answer is quick: many short requests must not starve heartbeat and signals. */
  gboolean ok = tick (self, error);
  for (int i = 0; i < self->n; i++)
    {
      g_autoptr (GVariant) body = bodies[i] ? g_variant_ref_sink (bodies[i]) : NULL;
      answers[i] = NULL;
      ok = ok && (!body || begin (self, &self->members[i], kind, body, error));
    }
  ok = ok && finish (self, error);
  for (int i = 0; i < self->n; i++)
    answers[i] = g_steal_pointer (&self->members[i].answer);
  if (!ok)
    plumb_crew_clear_answers (self, answers);
  return ok;
}

GVariant *
plumb_crew_ask (PlumbCrew *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autofree GVariant **bodies = g_new0 (GVariant *, self->n), **answers = g_new0 (GVariant *, self->n);
  bodies[0] = body ? body : g_variant_new ("a{sv}", NULL);
  return plumb_crew_ask_each (self, kind, bodies, answers, error) ? answers[0] : NULL;
}

GVariant *
plumb_crew_ask_all (PlumbCrew *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  g_autofree GVariant **bodies = g_new0 (GVariant *, self->n), **answers = g_new0 (GVariant *, self->n);
  g_autoptr (GVariant) shared = g_variant_ref_sink (body ? body : g_variant_new ("a{sv}", NULL));
  for (int i = 0; i < self->n; i++)
    bodies[i] = shared;
  gboolean ok = plumb_crew_ask_each (self, kind, bodies, answers, error);
  for (int i = 1; ok && i < self->n; i++)
    g_clear_pointer (&answers[i], g_variant_unref);
  return ok ? answers[0] : NULL;
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

gint64
plumb_crew_excused (PlumbCrew *self)
{
  return self->excused;
}

const char *
plumb_crew_ahead_loss (PlumbCrew *self, gboolean owes)
{
  Member *member = ahead (self);
  /* What it said while nobody listened comes first. */
  for (self->caught_up = FALSE; !self->caught_up;)
    if (!receive (self, 0, NULL))
      break;
  if (!self->ahead_loss)
    self->ahead_loss = describe_loss (self, member, owes || member->lease);
  return self->ahead_loss;
}

GVariant *
plumb_crew_ask_ahead (PlumbCrew *self, PlumbMessageKind kind, GVariant *body, GError **error)
{
  Member *member = ahead (self);
  if (!begin (self, member, kind, body, error))
    return NULL;
  while (member->lease)
    {
      if (!receive (self, TICK_MS, error) || !check_members (self, error) || !tick (self, error))
        return NULL;
      if (plumb_crew_ahead_loss (self, TRUE))
        {
          g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, self->ahead_loss);
          return NULL;
        }
    }
  if (member->failure)
    {
      g_prefix_error (&member->failure, "worker %u: ", member->number);
      g_propagate_error (error, g_steal_pointer (&member->failure));
      return NULL;
    }
  return g_steal_pointer (&member->answer);
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
  Member *member = ahead (self);
  plumb_crew_process_stop (g_steal_pointer (&member->process), 0);
  g_clear_pointer (&self->ahead_loss, g_free);
  g_clear_pointer (&member->answer, g_variant_unref);
  g_clear_error (&member->failure);
  member->lease = 0;
  /* The dead one's connection goes before the new one's comes under the same name. */
  int handover = 1;
  zmq_setsockopt (self->socket, ZMQ_ROUTER_HANDOVER, &handover, sizeof handover);
  if (start_member (self, member, error) && await_greetings (self, error))
    return TRUE;
  self->ahead_loss = g_steal_pointer (&self->loss);
  return FALSE;
}

gboolean
plumb_crew_wait (PlumbCrew *self, GError **error)
{
  return receive (self, TICK_MS, error) && check_members (self, error) && tick (self, error);
}

void
plumb_crew_set_attempt (PlumbCrew *self, gint64 attempt)
{
  self->plan.attempt = attempt;
}

double
plumb_crew_silence (PlumbCrew *self, guint32 *worker)
{
  double longest = 0;
  *worker = 0;
  for (int i = 0; i < self->n; i++)
    if (self->members[i].lease && silence (&self->members[i]) >= longest)
      {
        longest = silence (&self->members[i]);
        *worker = self->members[i].number;
      }
  return longest;
}

const char *
plumb_crew_loss (PlumbCrew *self)
{
  return self->loss;
}

guint64
plumb_crew_version (PlumbCrew *self)
{
  return self->version;
}

guint64
plumb_crew_memory (PlumbCrew *self)
{
  guint64 bytes = 0;
  for (int i = 0; i < self->all; i++)
    bytes += self->members[i].process ? plumb_crew_process_memory (self->members[i].process) : 0;
  return bytes;
}
