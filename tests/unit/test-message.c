/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between controller and worker: what is sent arrives, and what is no message does no harm. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>
#include <zmq.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/settings.h"
#include "engine/run/worker.h"

typedef struct
{
  void *context, *here, *there;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->context = zmq_ctx_new ();
  f->here = zmq_socket (f->context, ZMQ_PAIR);
  f->there = zmq_socket (f->context, ZMQ_PAIR);
  g_assert_cmpint (zmq_bind (f->here, "inproc://test"), ==, 0);
  g_assert_cmpint (zmq_connect (f->there, "inproc://test"), ==, 0);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  zmq_close (f->here);
  zmq_close (f->there);
  zmq_ctx_term (f->context);
}

static void
test_round_trip (Fixture *f, gconstpointer data)
{
  static const gint64 numbers[] = { 1, -2, G_MAXINT64 };
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_autoptr (GError) error = NULL;
  gsize n = 0;
  plumb_body_add_array (body, "numbers", numbers, 3, sizeof *numbers);
  plumb_body_add_array (body, "none", NULL, 0, 4);
  g_variant_dict_insert (body, "text", "s", "a\nb");
  g_autoptr (PlumbMessage) sent = plumb_message_new (PLUMB_MESSAGE_TRAIN, g_variant_dict_end (body));
  sent->attempt = 3;
  sent->worker = 2;
  sent->lease = G_MAXINT64;
  sent->version = G_MAXUINT64;
  plumb_message_send (f->here, FALSE, sent, &error);
  g_assert_no_error (error);
  g_autoptr (PlumbMessage) got = plumb_message_receive (f->there, FALSE, 1000, &error);
  g_assert_no_error (error);
  g_assert_cmpint (got->kind, ==, PLUMB_MESSAGE_TRAIN);
  g_assert_cmpint (got->attempt, ==, 3);
  g_assert_cmpuint (got->worker, ==, 2);
  g_assert_cmpint (got->lease, ==, G_MAXINT64);
  g_assert_cmpuint (got->version, ==, G_MAXUINT64);
  g_assert_cmpmem (plumb_body_get_array (got->body, "numbers", 8, &n), 24, numbers, 24);
  g_assert_cmpuint (n, ==, 3);
  g_assert_nonnull (plumb_body_get_array (got->body, "none", 4, &n));
  g_assert_cmpuint (n, ==, 0);
  g_assert_null (plumb_body_get_array (got->body, "numbers", 7, &n)); /* 24 bytes are no multiple */
  g_assert_null (plumb_body_get_array (got->body, "text", 1, &n));
  g_assert_null (plumb_body_get_array (got->body, "missing", 1, &n));
  g_assert_null (plumb_message_receive (f->there, FALSE, 10, &error));
  g_assert_no_error (error);
}

/* Every frame that is cut short or altered is dropped with a warning. */
static void
test_damaged (Fixture *f, gconstpointer data)
{
  g_autoptr (PlumbMessage) sent = plumb_message_new (PLUMB_MESSAGE_HELLO, NULL);
  char frame[64];
  g_assert_true (plumb_message_send (f->here, FALSE, sent, NULL));
  int size = zmq_recv (f->there, frame, sizeof frame, 0);
  g_assert_cmpint (size, >, 32);
  for (int length = 0; length < size; length++)
    {
      g_test_expect_message ("plumbline", G_LOG_LEVEL_WARNING, "*no message*");
      zmq_send (f->here, frame, (size_t) length, 0);
      g_assert_null (plumb_message_receive (f->there, FALSE, 1000, NULL));
      g_test_assert_expected_messages ();
    }
  frame[0] ^= 1;
  g_test_expect_message ("plumbline", G_LOG_LEVEL_WARNING, "*no message*");
  zmq_send (f->here, frame, (size_t) size, 0);
  g_assert_null (plumb_message_receive (f->there, FALSE, 1000, NULL));
  g_test_assert_expected_messages ();
}

static struct plumb_experience *
make_experience (void)
{
  struct plumb_experience *e = plumb_experience_new (3, 9);
  static const gint32 offsets[] = { 0, 4, 4, 9 };
  memcpy (e->offsets, offsets, sizeof offsets);
  for (int t = 0; t < 9; t++)
    {
      e->ids[t] = t * t;
      e->mask[t] = t % 2;
      e->old_logp[t] = -0.1f * t;
      e->reference_logp[t] = -0.2f * t;
      e->advantage[t] = t / 3.0;
    }
  return e;
}

static void
test_experience (void)
{
  struct plumb_experience *e = make_experience ();
  for (int targets = 0; targets < 2; targets++)
    {
      g_autoptr (GVariantDict) dict = g_variant_dict_new (NULL);
      g_autoptr (GError) error = NULL;
      plumb_body_add_experience (dict, e, targets);
      g_autoptr (GVariant) body = g_variant_ref_sink (g_variant_dict_end (dict));
      struct plumb_experience *got = plumb_body_get_experience (body, &error);
      g_assert_no_error (error);
      g_assert_cmpint (got->sequences, ==, 3);
      g_assert_cmpmem (got->offsets, 16, e->offsets, 16);
      g_assert_cmpmem (got->ids, 36, e->ids, 36);
      g_assert_cmpmem (got->mask, 9, e->mask, 9);
      g_assert_cmpfloat (got->advantage[8], ==, targets ? 8 / 3.0 : 0);
      g_assert_cmpfloat (got->old_logp[5], ==, targets ? e->old_logp[5] : 0);
      plumb_experience_free (got);
    }
  static const int chosen[] = { 2, 0 };
  struct plumb_experience *part = plumb_experience_select (e, chosen, 2);
  g_assert_cmpint (part->offsets[1], ==, 5);
  g_assert_cmpint (part->offsets[2], ==, 9);
  g_assert_cmpint (part->ids[0], ==, 16);
  g_assert_cmpint (part->ids[5], ==, 0);
  plumb_experience_free (part);
  plumb_experience_free (e);
}

/* Offsets that fall or point beyond the tokens, and arrays of another length, are refused. */
static void
test_experience_refused (void)
{
  static const gint32 bad[][4] = { { 0, 5, 4, 9 }, { 1, 4, 4, 9 }, { 0, 4, 4, 8 }, { 0, 4, 4, 10 }, { 0, -1, 4, 9 } };
  for (gsize i = 0; i < G_N_ELEMENTS (bad) + 3; i++)
    {
      struct plumb_experience *e = make_experience ();
      g_autoptr (GVariantDict) dict = g_variant_dict_new (NULL);
      g_autoptr (GError) error = NULL;
      plumb_body_add_experience (dict, e, TRUE);
      if (i < G_N_ELEMENTS (bad))
        plumb_body_add_array (dict, "offsets", bad[i], 4, 4);
      else if (i == G_N_ELEMENTS (bad))
        plumb_body_add_array (dict, "mask", e->mask, 8, 1);
      else if (i == G_N_ELEMENTS (bad) + 1)
        g_variant_dict_insert (dict, "ids", "s", "none");
      else
        g_variant_dict_remove (dict, "offsets");
      g_autoptr (GVariant) body = g_variant_ref_sink (g_variant_dict_end (dict));
      g_assert_null (plumb_body_get_experience (body, &error));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED);
      plumb_experience_free (e);
    }
}

static void
test_settings (void)
{
  PlumbWorkerSettings sent = { .policy = (char *) "a", .reference = (char *) "b", .type = DEV_BF16, .max_length = 7,
                               .tokens_per_micro_batch = 9 };
  sent.trainer.beta2 = 0.95;
  sent.rollout.page_tokens = 16;
  sent.rollout.kv_codes = 1;
  sent.rollout.weight_codes = 1;
  g_auto (PlumbWorkerSettings) got = { 0 };
  g_autoptr (GVariant) body = g_variant_ref_sink (plumb_worker_settings_to_body (&sent));
  g_assert_true (plumb_worker_settings_from_body (&got, body, NULL));
  g_assert_cmpstr (got.policy, ==, "a");
  g_assert_cmpstr (got.reference, ==, "b");
  g_assert_cmpint (got.type, ==, DEV_BF16);
  g_assert_cmpint (got.max_length, ==, 7);
  g_assert_cmpfloat (got.trainer.beta2, ==, 0.95);
  g_assert_cmpint (got.rollout.page_tokens, ==, 16);
  g_assert_cmpint (got.rollout.kv_codes, ==, 1);
  g_assert_cmpint (got.rollout.weight_codes, ==, 1);
  g_autoptr (GVariant) empty = g_variant_ref_sink (g_variant_new ("a{sv}", NULL));
  g_auto (PlumbWorkerSettings) none = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_false (plumb_worker_settings_from_body (&none, empty, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED);
}

/* A worker answers every request, also those that make no sense, and ends when it is told to. */
static void
test_worker (void)
{
  void *context = zmq_ctx_new (), *socket = zmq_socket (context, ZMQ_ROUTER);
  g_assert_cmpint (zmq_bind (socket, "inproc://worker"), ==, 0);
  GThread *thread = plumb_worker_start (context, "inproc://worker", 4);
  g_autoptr (PlumbMessage) hello = plumb_message_receive (socket, TRUE, 10000, NULL);
  g_assert_cmpint (hello->kind, ==, PLUMB_MESSAGE_HELLO);
  for (int kind = PLUMB_MESSAGE_OPEN; kind <= 99; kind++)
    {
      g_autoptr (PlumbMessage) request = plumb_message_new (kind, NULL);
      if (kind == PLUMB_MESSAGE_CLOSE)
        continue;
      request->worker = 4;
      request->lease = 1000 + kind;
      g_assert_true (plumb_message_send (socket, TRUE, request, NULL));
      g_autoptr (PlumbMessage) answer = plumb_message_receive (socket, TRUE, 10000, NULL);
      g_assert_cmpint (answer->kind, ==, PLUMB_MESSAGE_FAILED);
      g_assert_cmpint (answer->lease, ==, 1000 + kind);
      g_assert_cmpuint (answer->worker, ==, 4);
    }
  g_autoptr (PlumbMessage) close = plumb_message_new (PLUMB_MESSAGE_CLOSE, NULL);
  close->worker = 4;
  g_assert_true (plumb_message_send (socket, TRUE, close, NULL));
  g_thread_join (thread);
  zmq_close (socket);
  zmq_ctx_term (context);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/message/round-trip", Fixture, NULL, set_up, test_round_trip, tear_down);
  g_test_add ("/message/damaged", Fixture, NULL, set_up, test_damaged, tear_down);
  g_test_add_func ("/message/experience", test_experience);
  g_test_add_func ("/message/experience/refused", test_experience_refused);
  g_test_add_func ("/message/settings", test_settings);
  g_test_add_func ("/message/worker", test_worker);
  return g_test_run ();
}
