/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/crew-process.h"
#include "engine/run/crew.h"

G_BEGIN_DECLS

#define PLUMB_CREW_TICK_MS 200

/* A worker: thread or process, and the requests that it has. */
typedef struct
{
  guint32 number;
  PlumbRole role;
  char *name;                /* "worker 3, the critic" */
  GThread *thread;           /* or */
  PlumbCrewProcess *process;
  gboolean greeted;
  gint64 heard;              /* monotonic, microseconds */
  GQueue requests;           /* of PlumbCrewRequest; the first may be under way */
  gint64 done, of;
  double switched;           /* seconds of its changes between generating and training, not taken yet */
} PlumbCrewMember;

struct _PlumbCrew
{
  void *zmq_context, *socket;
  PlumbCrewFolder folder; /* of the socket of processes */
  char *address;          /* NULL: there are none */
  PlumbCrewMember *members; /* n that train, then those of other roles, in the order of these */
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
  gint64 advanced;    /* monotonic: when a worker last did more than wait for others */
  guint64 version;
  char *loss;
  PlumbCrewTick tick;
  gpointer tick_data;
  PlumbCrewSpan span;
  gpointer span_data;
};

/* crew.c */
/* The member of a role of its own, or NULL. */
PlumbCrewMember *plumb_crew_member_of (PlumbCrew *self, PlumbRole role);
/* Waits a little for a message and hands it to its worker. */
gboolean plumb_crew_receive (PlumbCrew *self, int milliseconds, GError **error);
/* Whether those that owe an answer are well; the one that generates ahead is not asked about. */
gboolean plumb_crew_check_members (PlumbCrew *self, GError **error);
gboolean plumb_crew_check_member (PlumbCrew *self, const PlumbCrewMember *member, GError **error);
/* How a worker was lost (transfer full), or NULL: it is dead, or has been silent for too long while it owes an answer. */
char *plumb_crew_describe_loss (PlumbCrew *self, const PlumbCrewMember *member, gboolean owes);
gboolean plumb_crew_start_member (PlumbCrew *self, PlumbCrewMember *member, GError **error);
gboolean plumb_crew_await_greetings (PlumbCrew *self, GError **error);
/* Tells the samples that are ready with all workers together. */
gboolean plumb_crew_do_tick (PlumbCrew *self, GError **error);

/* crew-request.c */
/* The request that a worker works on, or NULL. */
PlumbCrewRequest *plumb_crew_under_way (const PlumbCrewMember *member);
/* What belongs to that request: FALSE for anything else, which is stale. */
gboolean plumb_crew_take_reply (PlumbCrew *self, PlumbCrewMember *member, const PlumbMessage *message, gboolean *taken,
                                GError **error);
const char *plumb_crew_request_kind_name (const PlumbCrewRequest *request);
void plumb_crew_forget_requests (PlumbCrewMember *member);

G_END_DECLS
