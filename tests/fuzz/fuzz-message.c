/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a frame between controller and worker, and what is read out of its body. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>
#include <zmq.h>

#include "engine/run/experience-message.h"
#include "engine/run/settings.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
ignore_log (const char *domain, GLogLevelFlags level, const char *message, gpointer data)
{
}

static void
open_sockets (void **here, void **there)
{
  void *context = zmq_ctx_new ();
  *here = zmq_socket (context, ZMQ_PAIR);
  *there = zmq_socket (context, ZMQ_PAIR);
  g_assert_cmpint (zmq_bind (*here, "inproc://fuzz"), ==, 0);
  g_assert_cmpint (zmq_connect (*there, "inproc://fuzz"), ==, 0);
  g_log_set_handler ("plumbline", G_LOG_LEVEL_WARNING, ignore_log, NULL);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static void *here, *there;
  if (!here)
    open_sockets (&here, &there);
  zmq_send (here, data, size, 0);
  g_autoptr (PlumbMessage) message = plumb_message_receive (there, FALSE, 1000, NULL);
  if (!message)
    return 0;
  g_auto (PlumbWorkerSettings) settings = { 0 };
  plumb_message_kind_name (message->kind);
  plumb_worker_settings_from_body (&settings, message->body, NULL);
  struct plumb_experience *e = plumb_body_get_experience (message->body, NULL);
  int counted = 0;
  for (int s = 0; e && s < e->sequences; s++)
    counted += plumb_experience_response_length (e, s);
  g_assert_true (!e || counted >= 0);
  plumb_experience_free (e);
  return 0;
}
