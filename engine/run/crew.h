/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/message.h"
#include "engine/run/role.h"

G_BEGIN_DECLS

/* The workers as the controller sees them: requests go out, answers come back. Workers 1 .. n train; after them come those
 * of the roles that have a worker of their own, in the order of the roles. */
typedef struct _PlumbCrew PlumbCrew;

#define PLUMB_CREW_MAX_WORKERS 64

typedef struct
{
  gint64 attempt;
  int workers;      /* that train; where there is no other, a single one is a thread of this process */
  gboolean apart[PLUMB_N_ROLES]; /* roles with a worker of their own, a process too */
  int threads;      /* of each process; 0: the cores are divided among them */
  double patience;  /* seconds that a worker may be silent in the middle of a request; 0: without end */
  const char *log;  /* gets what processes print; NULL: dropped */
} PlumbCrewPlan;

/* Called while answers are awaited, at least four times a second; `done` of `of` samples are ready where the
 * workers said so. FALSE gives up the wait. */
typedef gboolean (*PlumbCrewTick) (gint64 done, gint64 of, gpointer data);

/* Starts the workers and waits for their greetings. */
PlumbCrew *plumb_crew_start (const PlumbCrewPlan *plan, GError **error);
/* Ends them: at once after their present micro-batch; what does not listen is killed. */
void plumb_crew_stop (PlumbCrew *crew);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbCrew, plumb_crew_stop)

void plumb_crew_set_tick (PlumbCrew *crew, PlumbCrewTick tick, gpointer data);
/* The number of workers that train. */
int plumb_crew_size (PlumbCrew *crew);

/* The number of the worker of a role's own; 0: those that train have the role. */
guint32 plumb_crew_worker_of (PlumbCrew *crew, PlumbRole role);
/* "worker 3, the critic" */
const char *plumb_crew_worker_name (PlumbCrew *crew, guint32 worker);
/* The process of a worker; 0: it is a thread of this one. */
int plumb_crew_worker_process (PlumbCrew *crew, guint32 worker);

/* A request to one worker. Requests to different workers are answered at the same time, those to the same one in their
 * order. */
typedef struct _PlumbCrewRequest PlumbCrewRequest;

/* A floating body is taken over. */
PlumbCrewRequest *plumb_crew_request_new (guint32 worker, PlumbMessageKind kind, GVariant *body);
void plumb_crew_request_unref (PlumbCrewRequest *request);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbCrewRequest, plumb_crew_request_unref)
gboolean plumb_crew_request_is_done (const PlumbCrewRequest *request);
/* The answer's body (borrowed), once it is done; NULL: it failed. */
GVariant *plumb_crew_request_answer (const PlumbCrewRequest *request);

/* Why it failed; NULL: it did not. */
const char *plumb_crew_request_failure (const PlumbCrewRequest *request);

/* Sends a request, or lines it up; it is answered while anything is awaited. */
gboolean plumb_crew_post (PlumbCrew *crew, PlumbCrewRequest *request, GError **error);
/* Waits until all (PlumbCrewRequest) are done; the failure of one of them is the error. */
gboolean plumb_crew_await (PlumbCrew *crew, GPtrArray *requests, GError **error);
/* Both. */
gboolean plumb_crew_ask_together (PlumbCrew *crew, GPtrArray *requests, GError **error);
GPtrArray *plumb_crew_requests_new (void);
/* Seconds that the answered requests take at the limits of the devices, as their workers tell it: those of one add up, and the
 * longest counts. 0: not measured. */
double plumb_crew_requests_limit (const GPtrArray *requests);

/* Told when a worker of another role than training and generating has answered: from when to when (monotonic,
 * microseconds) it worked on what. */
typedef void (*PlumbCrewSpan) (guint32 worker, PlumbRole role, PlumbMessageKind kind, gint64 begin, gint64 end,
                               gpointer data);
void plumb_crew_set_span (PlumbCrew *crew, PlumbCrewSpan span, gpointer data);

/* Sends a request (a floating body is taken over) to a worker and waits for its answer's body (transfer full). A failure
 * of the worker comes back as its error. */
GVariant *plumb_crew_ask_worker (PlumbCrew *crew, guint32 worker, PlumbMessageKind kind, GVariant *body, GError **error);
/* The same to the first worker. */
GVariant *plumb_crew_ask (PlumbCrew *crew, PlumbMessageKind kind, GVariant *body, GError **error);
/* The same request to all that train: the answer of the first. */
GVariant *plumb_crew_ask_all (PlumbCrew *crew, PlumbMessageKind kind, GVariant *body, GError **error);
/* A request of its own for each: bodies (size; floating ones are taken over; NULL: that worker is not asked), answers (size; NULL where none
 * was asked). On failure no answer is left. */
gboolean plumb_crew_ask_each (PlumbCrew *crew, PlumbMessageKind kind, GVariant *const *bodies, GVariant **answers,
                              GError **error);
void plumb_crew_clear_answers (PlumbCrew *crew, GVariant **answers);

gboolean plumb_crew_has_ahead (PlumbCrew *crew);
/* The worker that generates ahead. Its groups may come whenever something is awaited: they are handed to the function. */
typedef void (*PlumbCrewGroups) (GVariant *body, gpointer data);
void plumb_crew_set_groups (PlumbCrew *crew, PlumbCrewGroups groups, gpointer data);
GVariant *plumb_crew_ask_ahead (PlumbCrew *crew, PlumbMessageKind kind, GVariant *body, GError **error);
/* Sends what needs no answer; where it cannot be reached it counts as lost. */
void plumb_crew_tell_ahead (PlumbCrew *crew, PlumbMessageKind kind, GVariant *body);
/* When (monotonic) a time ended in which nobody listened to the workers; 0: there was none. */
gint64 plumb_crew_excused (PlumbCrew *crew);
/* How it was lost, or NULL while it is well; `owes`: it has prompts, so that its silence means something. */
const char *plumb_crew_ahead_loss (PlumbCrew *crew, gboolean owes);
/* Ends what is left of it, and starts another, which has nothing open. */
gboolean plumb_crew_restart_ahead (PlumbCrew *crew, GError **error);
/* Waits so many milliseconds for whatever comes. */
gboolean plumb_crew_wait (PlumbCrew *crew, int milliseconds, GError **error);

/* Messages of an earlier attempt are stale from here on. */
void plumb_crew_set_attempt (PlumbCrew *crew, gint64 attempt);

/* Seconds since the most silent worker with a request was last heard; its number in *worker, 0: none works. */
double plumb_crew_silence (PlumbCrew *crew, guint32 *worker);
/* Which worker was lost, and how; NULL: none was. */
const char *plumb_crew_loss (PlumbCrew *crew);
/* Version of the weights that the last answer told. */
guint64 plumb_crew_version (PlumbCrew *crew);
/* Seconds that the workers' changes between generating and training took since the last call: of the slowest one. */
double plumb_crew_take_switched (PlumbCrew *crew);
/* Largest resident memory of the worker processes together, bytes. */
guint64 plumb_crew_memory (PlumbCrew *crew);

G_END_DECLS
