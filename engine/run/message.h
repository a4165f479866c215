/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* What controller and worker say to each other, over ZeroMQ: threads of one process (inproc), processes of
 * one machine (ipc) or of several (tcp). The body is a serialised a{sv}, in-process too. */

typedef enum
{
  PLUMB_MESSAGE_HELLO = 1, /* worker: I am here */
  PLUMB_MESSAGE_OPEN,      /* load models and make room: {settings} */
  PLUMB_MESSAGE_GENERATE,  /* {prompts, sampling} -> {completions} */
  PLUMB_MESSAGE_LOG_PROBS, /* {experience, role, temperature} -> {log-probs, entropies} */
  PLUMB_MESSAGE_VALUES,    /* {experience, of} -> {values}: critic's, or scores at the last tokens */
  PLUMB_MESSAGE_TRAIN,     /* {experience, loss, rate} -> {statistics} */
  PLUMB_MESSAGE_SAVE,      /* {folder} */
  PLUMB_MESSAGE_LOAD,      /* {folder} */
  PLUMB_MESSAGE_STAGE,     /* a new stage: forget moments; the reference becomes the policy */
  PLUMB_MESSAGE_CHECK,     /* -> {checksums} of weights and optimizer states */
  PLUMB_MESSAGE_PUBLISH,   /* put the weights up: {board, version} */
  PLUMB_MESSAGE_STREAM,    /* generate ahead from now on: {sampling, board, samples, partial} */
  PLUMB_MESSAGE_SUBMIT,    /* more prompts for that; no answer */
  PLUMB_MESSAGE_WEIGHTS,   /* newer ones are up: {version}; no answer */
  PLUMB_MESSAGE_GROUPS,    /* worker, of its own accord: {completions of whole groups, statistics} */
  PLUMB_MESSAGE_CLOSE,     /* end the loop */
  PLUMB_MESSAGE_PROGRESS,  /* worker: still at it: {done, of} */
  PLUMB_MESSAGE_DONE,      /* worker: the answer */
  PLUMB_MESSAGE_FAILED,    /* worker: {code, message, waited: for another that failed} */
} PlumbMessageKind;

typedef struct
{
  PlumbMessageKind kind;
  gint64 attempt;
  guint32 worker;
  gint64 lease;    /* number of the request; an answer to another one is stale and dropped */
  guint64 version; /* of the weights, as far as the sender knows */
  GVariant *body;  /* a{sv} */
} PlumbMessage;

/* Takes over a floating body; NULL: an empty one. */
PlumbMessage *plumb_message_new (PlumbMessageKind kind, GVariant *body);
void plumb_message_free (PlumbMessage *message);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbMessage, plumb_message_free)

const char *plumb_message_kind_name (PlumbMessageKind kind);

/* Sends on a ZeroMQ socket; `route` (a router's side) names the worker, else FALSE. */
gboolean plumb_message_send (void *socket, gboolean route, const PlumbMessage *message, GError **error);
/* Waits up to timeout_ms; NULL without an error when nothing came. A frame that is no message is dropped with a
 * warning. */
PlumbMessage *plumb_message_receive (void *socket, gboolean routed, int timeout_ms, GError **error);

/* Arrays inside a body, by key: numbers of 1, 4 or 8 bytes. */
void plumb_body_add_array (GVariantDict *body, const char *key, const void *data, gsize n, gsize size);
/* The array's own memory, valid as long as the body; *n elements. NULL when it is missing or no multiple of
 * the size. */
const void *plumb_body_get_array (GVariant *body, const char *key, gsize size, gsize *n);

G_END_DECLS
