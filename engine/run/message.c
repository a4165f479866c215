/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <string.h>
#include <zmq.h>

#include "engine/core/error.h"
#include "engine/run/message.h"

#define MAGIC 0x424d4c50u /* "PLMB" */
#define FORMAT 1

/* Before the body, little-endian. */
typedef struct
{
  guint32 magic;
  guint16 format, kind;
  gint64 attempt, lease;
  guint64 version;
  guint32 worker, body_bytes;
} Header;

PlumbMessage *
plumb_message_new (PlumbMessageKind kind, GVariant *body)
{
  PlumbMessage *message = g_new0 (PlumbMessage, 1);
  message->kind = kind;
  message->body = g_variant_ref_sink (body ? body : g_variant_new ("a{sv}", NULL));
  return message;
}

void
plumb_message_free (PlumbMessage *message)
{
  if (!message)
    return;
  g_variant_unref (message->body);
  g_free (message);
}

const char *
plumb_message_kind_name (PlumbMessageKind kind)
{
  static const char *const names[]
      = { NULL,   "hello", "open",  "generate", "log-probs", "values", "train", "save",
          "load", "stage", "check", "publish", "stream", "submit", "weights", "groups", "close", "progress", "done", "failed" };
  return kind > 0 && kind < G_N_ELEMENTS (names) ? names[kind] : "unknown";
}

static gboolean
socket_error (GError **error, const char *what)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "messages between controller and worker: %s: %s", what,
               zmq_strerror (errno));
  return FALSE;
}

gboolean
plumb_message_send (void *socket, gboolean route, const PlumbMessage *message, GError **error)
{
  gsize bytes = g_variant_get_size (message->body);
  zmq_msg_t frame;
  if (bytes > G_MAXUINT32 || zmq_msg_init_size (&frame, sizeof (Header) + bytes) != 0)
    return socket_error (error, "a message is too large");
  Header header = {
    .magic = GUINT32_TO_LE (MAGIC),
    .format = GUINT16_TO_LE (FORMAT),
    .kind = GUINT16_TO_LE ((guint16) message->kind),
    .attempt = GINT64_TO_LE (message->attempt),
    .lease = GINT64_TO_LE (message->lease),
    .version = GUINT64_TO_LE (message->version),
    .worker = GUINT32_TO_LE (message->worker),
    .body_bytes = GUINT32_TO_LE ((guint32) bytes),
  };
  memcpy (zmq_msg_data (&frame), &header, sizeof header);
  g_variant_store (message->body, (char *) zmq_msg_data (&frame) + sizeof header);
  if (route && zmq_send (socket, &message->worker, sizeof message->worker, ZMQ_SNDMORE) < 0)
    {
      zmq_msg_close (&frame);
      return socket_error (error, "routing");
    }
  if (zmq_msg_send (&frame, socket, 0) < 0)
    {
      zmq_msg_close (&frame);
      return socket_error (error, "sending");
    }
  return TRUE;
}

/* A message from a frame, or NULL if it is none. */
static PlumbMessage *
decode (zmq_msg_t *frame)
{
  gsize size = zmq_msg_size (frame);
  Header header;
  if (size < sizeof header)
    return NULL;
  memcpy (&header, zmq_msg_data (frame), sizeof header);
  if (GUINT32_FROM_LE (header.magic) != MAGIC || GUINT16_FROM_LE (header.format) != FORMAT
      || GUINT32_FROM_LE (header.body_bytes) != size - sizeof header)
    return NULL;
  gsize bytes = size - sizeof header;
  gpointer copy = g_malloc (bytes + 1);
  memcpy (copy, (char *) zmq_msg_data (frame) + sizeof header, bytes);
  GVariant *body = g_variant_new_from_data (G_VARIANT_TYPE_VARDICT, copy, bytes, FALSE, g_free, copy);
  PlumbMessage *message = plumb_message_new (GUINT16_FROM_LE (header.kind), body);
  message->attempt = GINT64_FROM_LE (header.attempt);
  message->lease = GINT64_FROM_LE (header.lease);
  message->version = GUINT64_FROM_LE (header.version);
  message->worker = GUINT32_FROM_LE (header.worker);
  return message;
}

PlumbMessage *
plumb_message_receive (void *socket, gboolean routed, int timeout_ms, GError **error)
{
  zmq_pollitem_t item = { .socket = socket, .events = ZMQ_POLLIN };
  int ready = zmq_poll (&item, 1, timeout_ms);
  if (ready < 0 && errno != EINTR)
    socket_error (error, "waiting");
  if (ready <= 0)
    return NULL;
  zmq_msg_t frame;
  zmq_msg_init (&frame);
  if (zmq_msg_recv (&frame, socket, 0) < 0
      || (routed && zmq_msg_more (&frame) && zmq_msg_recv (&frame, socket, 0) < 0))
    {
      zmq_msg_close (&frame);
      socket_error (error, "receiving");
      return NULL;
    }
  PlumbMessage *message = decode (&frame);
  zmq_msg_close (&frame);
  if (!message)
    g_warning ("a frame that is no message was dropped");
  return message;
}

void
plumb_body_add_array (GVariantDict *body, const char *key, const void *data, gsize n, gsize size)
{
  g_variant_dict_insert_value (body, key,
                               g_variant_new_fixed_array (G_VARIANT_TYPE_BYTE, data, n * size, 1));
}

const void *
plumb_body_get_array (GVariant *body, const char *key, gsize size, gsize *n)
{
  g_autoptr (GVariant) value = g_variant_lookup_value (body, key, G_VARIANT_TYPE_BYTESTRING);
  gsize bytes = 0;
  if (!value)
    return NULL;
  const void *data = g_variant_get_fixed_array (value, &bytes, 1);
  if (bytes % size != 0)
    return NULL;
  *n = bytes / size;
  return data ? data : "";
}
