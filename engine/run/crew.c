/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <zmq.h>

#include "engine/core/error.h"
#include "engine/run/crew-private.h"
#include "engine/run/worker.h"

#define THREAD_ADDRESS "inproc://crew"
#define AWAY_SECONDS 1 /* longer than any wait for a message */
#define GREETING_SECONDS 30
#define PARTING_SECONDS 5.0

static PlumbCrewMember *
find_member (PlumbCrew *self, guint32 number)
{
  return number >= 1 && number <= (guint32) self->all ? &self->members[number - 1] : NULL;
}

PlumbCrewMember *
plumb_crew_member_of (PlumbCrew *self, PlumbRole role)
{
  for (int i = self->n; i < self->all; i++)
    if (self->members[i].role == role)
      return &self->members[i];
  return NULL;
}

/* What the worker that generates ahead says of its own accord. */
static gboolean
take_news (PlumbCrew *self, PlumbCrewMember *member, const PlumbMessage *message)
{
  const char *text = "it failed";
  if (member->role != PLUMB_ROLE_ROLLOUT || message->lease != 0 || message->attempt != self->plan.attempt)
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
  self->advanced = MIN (now, self->advanced + away);
}

gboolean
plumb_crew_receive (PlumbCrew *self, int milliseconds, GError **error)
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
  PlumbCrewMember *member = message ? find_member (self, message->worker) : NULL;
  gboolean taken = FALSE;
  if (!member)
    return TRUE;
  member->heard = g_get_monotonic_time ();
  if (message->kind == PLUMB_MESSAGE_HELLO)
    {
      member->greeted = TRUE;
      return TRUE;
    }
  if (!plumb_crew_take_reply (self, member, message, &taken, error))
    return FALSE;
  if (!taken && !take_news (self, member, message))
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
silence (const PlumbCrewMember *member)
{
  return (double) (g_get_monotonic_time () - member->heard) / G_USEC_PER_SEC;
}

static const char *
activity (const PlumbCrewMember *member)
{
  const PlumbCrewRequest *request = plumb_crew_under_way (member);
  return !member->greeted                      ? "start"
         : request                             ? plumb_crew_request_kind_name (request)
         : member->role == PLUMB_ROLE_ROLLOUT ? "generate"
                                               : "wait";
}

char *
plumb_crew_describe_loss (PlumbCrew *self, const PlumbCrewMember *member, gboolean owes)
{
  const char *end = member->process ? plumb_crew_process_end (member->process) : NULL;
  double silent = silence (member);
  if (end)
    return g_strdup_printf ("%s (process %d) %s in phase %s, %.1f s after it was last heard", member->name,
                            plumb_crew_process_id (member->process), end, activity (member), silent);
  if (self->plan.patience > 0 && member->process && owes && self->caught_up && silent > self->plan.patience)
    return g_strdup_printf ("%s (process %d) has said nothing for %.0f s in phase %s and is given up "
                            "(placement.timeout)", member->name, plumb_crew_process_id (member->process), silent,
                            activity (member));
  return NULL;
}

/* A loss (taken over) ends the run. */
static gboolean
lose (PlumbCrew *self, char *loss, GError **error)
{
  g_free (self->loss);
  self->loss = loss;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s; the run can go on from its last checkpoint with --resume",
               self->loss);
  return FALSE;
}

gboolean
plumb_crew_check_member (PlumbCrew *self, const PlumbCrewMember *member, GError **error)
{
  char *loss = plumb_crew_describe_loss (self, member, plumb_crew_under_way (member) != NULL);
  return !loss || lose (self, loss, error);
}

/* Workers that only wait for each other tell that they live, and would do so for ever. */
static gboolean
check_advance (PlumbCrew *self, GError **error)
{
  double standing = (double) (g_get_monotonic_time () - self->advanced) / G_USEC_PER_SEC;
  gboolean owes = FALSE;
  for (int i = 0; i < self->n; i++)
    owes = owes || plumb_crew_under_way (&self->members[i]);
  if (self->n == 1 || self->plan.patience <= 0 || !owes || !self->caught_up || standing <= self->plan.patience)
    return TRUE;
  return lose (self, g_strdup_printf ("the workers have only waited for each other for %.0f s and are given up "
                                      "(placement.timeout)", standing), error);
}

gboolean
plumb_crew_check_members (PlumbCrew *self, GError **error)
{
  for (int i = 0; i < self->all; i++)
    if (self->members[i].role != PLUMB_ROLE_ROLLOUT && !plumb_crew_check_member (self, &self->members[i], error))
      return FALSE;
  return check_advance (self, error);
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

gboolean
plumb_crew_start_member (PlumbCrew *self, PlumbCrewMember *member, GError **error)
{
  member->heard = g_get_monotonic_time ();
  member->greeted = FALSE;
  if (self->address)
    member->process = plumb_crew_process_start (self->address, member->number, threads_each (self), self->log, error);
  else
    member->thread = plumb_worker_start (self->zmq_context, THREAD_ADDRESS, member->number);
  return member->process || member->thread;
}

gboolean
plumb_crew_await_greetings (PlumbCrew *self, GError **error)
{
  gint64 start = g_get_monotonic_time ();
  for (;;)
    {
      const PlumbCrewMember *late = NULL;
      for (int i = 0; i < self->all; i++)
        if (!self->members[i].greeted)
          late = &self->members[i];
      if (!late)
        return TRUE;
      if (!plumb_crew_receive (self, PLUMB_CREW_TICK_MS, error) || !plumb_crew_check_member (self, late, error))
        return FALSE;
      if (g_get_monotonic_time () - start > GREETING_SECONDS * G_USEC_PER_SEC)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "%s did not start within %d s", late->name,
                       GREETING_SECONDS);
          return FALSE;
        }
    }
}

static void
add_members (PlumbCrew *self)
{
  for (int role = PLUMB_ROLE_POLICY + 1; role < PLUMB_N_ROLES; role++)
    self->all += self->plan.apart[role] ? 1 : 0;
  self->all += self->n;
  self->members = g_new0 (PlumbCrewMember, self->all);
  PlumbRole role = PLUMB_ROLE_POLICY;
  for (int i = 0; i < self->all; i++)
    {
      PlumbCrewMember *member = &self->members[i];
      if (i >= self->n)
        do
          role++;
        while (!self->plan.apart[role]);
      member->number = (guint32) i + 1;
      member->role = role;
      member->name = role == PLUMB_ROLE_POLICY || role == PLUMB_ROLE_ROLLOUT
                         ? g_strdup_printf ("worker %u", member->number)
                         : g_strdup_printf ("worker %u, the %s", member->number, plumb_role_name (role));
      g_queue_init (&member->requests);
    }
}

PlumbCrew *
plumb_crew_start (const PlumbCrewPlan *plan, GError **error)
{
  g_autoptr (PlumbCrew) self = g_new0 (PlumbCrew, 1);
  self->plan = *plan;
  self->log = g_strdup (plan->log);
  self->n = CLAMP (plan->workers, 1, PLUMB_CREW_MAX_WORKERS);
  add_members (self);
  if (!open_socket (self, self->all > 1, error))
    return NULL;
  for (int i = 0; i < self->all; i++)
    if (!plumb_crew_start_member (self, &self->members[i], error))
      return NULL;
  return plumb_crew_await_greetings (self, error) ? g_steal_pointer (&self) : NULL;
}

static void
part_with (PlumbCrew *self, PlumbCrewMember *member)
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
      PlumbCrewMember *member = &self->members[i];
      if (member->thread)
        g_thread_join (member->thread);
      /* One that hears nothing is not waited for. */
      gboolean deaf = !member->greeted || self->loss;
      plumb_crew_process_stop (member->process, deaf ? 0 : PARTING_SECONDS);
      plumb_crew_forget_requests (member);
      g_free (member->name);
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

guint32
plumb_crew_worker_of (PlumbCrew *self, PlumbRole role)
{
  const PlumbCrewMember *member = plumb_crew_member_of (self, role);
  return member ? member->number : 0;
}

const char *
plumb_crew_worker_name (PlumbCrew *self, guint32 worker)
{
  const PlumbCrewMember *member = find_member (self, worker);
  return member ? member->name : "no worker";
}

int
plumb_crew_worker_process (PlumbCrew *self, guint32 worker)
{
  const PlumbCrewMember *member = find_member (self, worker);
  return member && member->process ? plumb_crew_process_id (member->process) : 0;
}

void
plumb_crew_set_span (PlumbCrew *self, PlumbCrewSpan span, gpointer data)
{
  self->span = span;
  self->span_data = data;
}

gboolean
plumb_crew_do_tick (PlumbCrew *self, GError **error)
{
  gint64 done = 0, of = 0;
  for (int i = 0; i < self->all; i++)
    {
      done += self->members[i].done;
      of += self->members[i].of;
    }
  if (!self->tick || self->tick (done, of, self->tick_data))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_EXIT_INTERRUPTED, "interrupted");
  return FALSE;
}

gint64
plumb_crew_excused (PlumbCrew *self)
{
  return self->excused;
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
  for (int i = 0; i < self->all; i++)
    if (plumb_crew_under_way (&self->members[i]) && silence (&self->members[i]) >= longest)
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
