/* SPDX-License-Identifier: Apache-2.0 */
/* What generating ahead stands on: the board of the weights, weights that change while samples run, the queue. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/comm/weight-board.h"
#include "engine/core/error.h"
#include "engine/rollout/rollout.h"
#include "engine/run/ahead-queue.h"

#define WORKSPACE (32 << 20)
#define BYTES 5000
#define SAMPLES 2
#define VOCABULARY 64

static void
fill (guint8 *bytes, guint seed)
{
  for (gsize i = 0; i < BYTES; i++)
    bytes[i] = (guint8) (i * 31 + seed * 101 + i / 7);
}

static void
test_board (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDevice) device = plumb_device_open ("cpu", WORKSPACE, &error);
  g_autoptr (PlumbSharedMemory) memory = plumb_weight_board_memory_new (BYTES, &error);
  g_assert_no_error (error);
  const char *path = plumb_shared_memory_path (memory);
  g_autoptr (PlumbWeightBoard) writer = plumb_weight_board_open (path, BYTES, &error);
  g_autoptr (PlumbWeightBoard) reader = plumb_weight_board_open (path, BYTES, &error);
  g_assert_no_error (error);
  guint8 out[BYTES], in[BYTES];
  guint64 version;
  /* Nothing is up yet. */
  g_assert_false (plumb_weight_board_read (reader, device, in, &version, &error));
  g_clear_error (&error);
  for (guint v = 0; v < 5; v++)
    {
      fill (out, v);
      plumb_weight_board_write (writer, device, out, 100 + v, &error);
      g_assert_no_error (error);
      for (int again = 0; again < 2; again++)
        {
          plumb_weight_board_read (reader, device, in, &version, &error);
          g_assert_no_error (error);
          g_assert_cmpuint (version, ==, 100 + v);
          g_assert_cmpmem (in, BYTES, out, BYTES);
        }
    }
  /* A bit that flips in the memory is noticed. */
  guint8 *base = plumb_shared_memory_base (memory), *found = memmem (base, plumb_shared_memory_size (memory), out, BYTES);
  g_assert_nonnull (found);
  found[BYTES - 1] ^= 4;
  g_assert_false (plumb_weight_board_read (reader, device, in, &version, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "version 104 do not have the checksum"));
  g_clear_error (&error);
  /* The next version is sound again. */
  plumb_weight_board_write (writer, device, out, 105, &error);
  plumb_weight_board_read (reader, device, in, &version, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (version, ==, 105);
  g_assert_null (plumb_weight_board_open (path, BYTES - 1, &error));
  g_clear_error (&error);
  g_assert_null (plumb_weight_board_open (path, 100 * BYTES, &error));
}

typedef struct
{
  PlumbDevice *device;
  PlumbModel *model, *other; /* two versions of one shape */
  PlumbRollout *rollout;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  f->device = plumb_device_open ("cpu", WORKSPACE, &error);
  g_assert_no_error (error);
  f->model = plumb_model_new (f->device, plumb_model_config_new (32, 2, 4, 2, 48, VOCABULARY, 96, NULL), DEV_F32, 0, 3,
                              &error);
  f->other = plumb_model_new (f->device, plumb_model_config_new (32, 2, 4, 2, 48, VOCABULARY, 96, NULL), DEV_F32, 0, 4,
                              &error);
  g_assert_no_error (error);
  const PlumbRolloutPlan plan = { .max_running = 4, .page_tokens = 16, .max_prompt = 40, .max_new_tokens = 20 };
  f->rollout = plumb_rollout_new (f->model, &plan, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  plumb_rollout_free (f->rollout);
  plumb_model_free (f->model);
  plumb_model_free (f->other);
  plumb_device_close (f->device);
}

static void
renew (Fixture *f, guint64 version)
{
  g_autoptr (GError) error = NULL;
  plumb_rollout_settle (f->rollout, &error);
  f->device->ops->copy (f->device->context, plumb_model_weights (f->model), plumb_model_weights (f->other),
                        f->model->table->elements * sizeof (float));
  plumb_rollout_renew (f->rollout, version, &error);
  g_assert_no_error (error);
}

static void
begin (Fixture *f, int prompts)
{
  g_autoptr (GError) error = NULL;
  const PlumbSampling sampling = { .temperature = 1, .max_new_tokens = 20, .min_new_tokens = 1, .seed = 9,
                                   .purpose = PLUMB_RANDOM_ROLLOUT };
  const gint32 ids[] = { 5, 9, 23, 1 };
  plumb_rollout_begin (f->rollout, &sampling, &error);
  plumb_rollout_renew (f->rollout, 7, &error);
  for (int p = 0; p < prompts; p++)
    plumb_rollout_submit (f->rollout, ids, 4, SAMPLES, p, &error);
  g_assert_no_error (error);
}

static void
advance (Fixture *f, int passes)
{
  g_autoptr (GError) error = NULL;
  gboolean idle = FALSE;
  for (int i = 0; i < passes && !idle; i++)
    plumb_rollout_advance (f->rollout, &idle, &error);
  g_assert_no_error (error);
}

/* Running samples go on with the new weights, and each token tells its version. */
static void
test_partial (Fixture *f, gconstpointer data)
{
  begin (f, 3);
  advance (f, 8);
  renew (f, 8);
  advance (f, 1000);
  int both = 0, n = 0;
  for (PlumbCompletion *next; (next = plumb_rollout_take (f->rollout)); n++)
    {
      g_autoptr (PlumbCompletion) c = next;
      g_assert_cmpuint (c->versions->len, ==, c->ids->len);
      for (guint t = 0; t < c->versions->len; t++)
        {
          gint32 version = g_array_index (c->versions, gint32, t);
          g_assert_true (version == 7 || version == 8);
          g_assert_true (t == 0 || version >= g_array_index (c->versions, gint32, t - 1));
        }
      /* Eight passes were made with the old weights; the third prompt began after them. */
      if (c->ordinal < 2)
        g_assert_cmpint (g_array_index (c->versions, gint32, 7), ==, 7);
      else
        g_assert_cmpint (g_array_index (c->versions, gint32, 0), ==, 8);
      both += g_array_index (c->versions, gint32, 0) == 7 && g_array_index (c->versions, gint32, c->ids->len - 1) == 8;
    }
  g_assert_cmpint (n, ==, 3 * SAMPLES);
  g_assert_cmpint (both, >, 0);
}

/* What runs drains, nothing new begins; and what begins later is what the new weights alone would say. */
static void
test_hold (Fixture *f, gconstpointer data)
{
  g_autoptr (GHashTable) first = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  begin (f, 3);
  advance (f, 3);
  plumb_rollout_hold (f->rollout, TRUE);
  g_assert_cmpint (plumb_rollout_running (f->rollout), ==, 4);
  advance (f, 1000);
  g_assert_cmpint (plumb_rollout_running (f->rollout), ==, 0);
  for (PlumbCompletion *next; (next = plumb_rollout_take (f->rollout));)
    {
      g_autoptr (PlumbCompletion) c = next;
      g_assert_cmpint (c->ordinal, <, 2);
    }
  renew (f, 8);
  plumb_rollout_hold (f->rollout, FALSE);
  advance (f, 1000);
  for (int round = 0; round < 2; round++)
    {
      int n = 0;
      for (PlumbCompletion *next; (next = plumb_rollout_take (f->rollout));)
        {
          g_autoptr (PlumbCompletion) c = next;
          g_autoptr (GString) text = g_string_new (NULL);
          char *key = g_strdup_printf ("%d", c->sample);
          if (c->ordinal != 2)
            {
              g_free (key);
              continue;
            }
          for (guint t = 0; t < c->ids->len; t++)
            g_string_append_printf (text, "%d:%a ", g_array_index (c->ids, gint32, t),
                                    (double) g_array_index (c->log_probs, float, t));
          if (round == 0)
            g_hash_table_insert (first, g_strdup (key), g_strdup (text->str));
          g_assert_cmpstr (g_hash_table_lookup (first, key), ==, text->str);
          g_free (key);
          n++;
        }
      g_assert_cmpint (n, ==, SAMPLES);
      if (round == 0)
        {
          begin (f, 3);
          advance (f, 1000);
        }
    }
}

/* A message of groups `first` .. `last`, as the worker sends it. */
static GVariant *
message (gint64 first, gint64 last, gint32 version, gint32 token)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  int n = (int) (last - first) * SAMPLES;
  gint64 ordinals[64];
  gint32 samples[64], finish[64], offsets[65], ids[128], versions[128];
  float log_probs[128];
  for (int i = 0; i < n; i++)
    {
      ordinals[i] = first + i / SAMPLES;
      samples[i] = SAMPLES - 1 - i % SAMPLES;
      finish[i] = i % 2;
      offsets[i] = 2 * i;
    }
  offsets[n] = 2 * n;
  for (int t = 0; t < 2 * n; t++)
    {
      ids[t] = (token + t) % VOCABULARY;
      versions[t] = version + t % 2;
      log_probs[t] = -0.25f * (float) t;
    }
  PlumbCompletions all = { (gsize) n, ordinals, samples, finish, offsets, ids, log_probs, versions };
  plumb_body_add_completions (body, &all);
  return g_variant_ref_sink (g_variant_dict_end (body));
}

static void
accept (PlumbAheadQueue *queue, gint64 first, gint64 last, gint32 version)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) body = message (first, last, version, 3);
  plumb_ahead_queue_accept (queue, body, &error);
  g_assert_no_error (error);
}

static void
test_queue (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbAheadQueue) queue = plumb_ahead_queue_new (SAMPLES, VOCABULARY);
  for (int i = 0; i < 6; i++)
    plumb_ahead_queue_push (queue, 40 + i, (guint64) (7 * i));
  accept (queue, 42, 44, 5);
  g_assert_cmpuint (plumb_ahead_queue_ready (queue), ==, 0);
  g_assert_cmpuint (plumb_ahead_queue_finished (queue), ==, 2);
  accept (queue, 40, 42, 6);
  g_assert_cmpuint (plumb_ahead_queue_ready (queue), ==, 4);
  /* A second answer to the same prompts, and one to prompts that nobody waits for, change nothing. */
  accept (queue, 38, 43, 9);
  accept (queue, 46, 50, 9);
  g_assert_cmpint (plumb_ahead_group_version (plumb_ahead_queue_get (queue, 0)), ==, 6);
  g_assert_cmpint (plumb_ahead_group_version (plumb_ahead_queue_get (queue, 2)), ==, 5);
  plumb_ahead_queue_drop (queue, 1);
  /* What is written comes back. */
  g_autoptr (GBytes) bytes = plumb_ahead_queue_to_bytes (queue);
  g_autoptr (PlumbAheadQueue) again = plumb_ahead_queue_new (SAMPLES, VOCABULARY);
  plumb_ahead_queue_from_bytes (again, bytes, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (again->groups->len, ==, 5);
  g_assert_cmpuint (plumb_ahead_queue_ready (again), ==, 3);
  for (guint i = 0; i < 5; i++)
    {
      const PlumbAheadGroup *a = plumb_ahead_queue_get (queue, i), *b = plumb_ahead_queue_get (again, i);
      const PlumbCompletions *x = &a->completions, *y = &b->completions;
      g_assert_cmpint (b->ordinal, ==, 41 + i);
      g_assert_cmpuint (b->row, ==, 7 * (i + 1));
      g_assert_cmpuint (x->n, ==, y->n);
      if (x->n == 0)
        continue;
      gsize tokens = (gsize) x->offsets[x->n];
      g_assert_cmpmem (x->offsets, (x->n + 1) * 4, y->offsets, (y->n + 1) * 4);
      g_assert_cmpmem (x->ids, tokens * 4, y->ids, tokens * 4);
      g_assert_cmpmem (x->log_probs, tokens * 4, y->log_probs, tokens * 4);
      g_assert_cmpmem (x->versions, tokens * 4, y->versions, tokens * 4);
      g_assert_cmpmem (x->samples, x->n * 4, y->samples, y->n * 4);
    }
  plumb_ahead_queue_forget (plumb_ahead_queue_get (again, 0));
  g_assert_cmpuint (plumb_ahead_queue_ready (again), ==, 0);
}

/* Bytes of a file may be anything: every cut and every changed byte is an error, or a queue that holds together. */
static void
test_damaged (void)
{
  g_autoptr (PlumbAheadQueue) queue = plumb_ahead_queue_new (SAMPLES, VOCABULARY);
  for (int i = 0; i < 3; i++)
    plumb_ahead_queue_push (queue, i, (guint64) i);
  accept (queue, 0, 2, 1);
  g_autoptr (GBytes) bytes = plumb_ahead_queue_to_bytes (queue);
  gsize length;
  const guint8 *data = g_bytes_get_data (bytes, &length);
  for (gsize i = 0; i < length; i++)
    {
      g_autofree guint8 *spoiled = g_memdup2 (data, length);
      spoiled[i] ^= 0xff;
      g_autoptr (GBytes) changed = g_bytes_new (spoiled, length), cut = g_bytes_new (data, i);
      g_autoptr (PlumbAheadQueue) a = plumb_ahead_queue_new (SAMPLES, VOCABULARY);
      g_autoptr (PlumbAheadQueue) b = plumb_ahead_queue_new (SAMPLES, VOCABULARY);
      g_autoptr (GError) error = NULL;
      if (plumb_ahead_queue_from_bytes (a, changed, NULL))
        for (guint k = 0; k < a->groups->len; k++)
          plumb_ahead_group_version (plumb_ahead_queue_get (a, k));
      g_assert_false (plumb_ahead_queue_from_bytes (b, cut, &error));
      g_assert_nonnull (error);
    }
  /* Groups that are not whole, ids that do not exist. */
  g_autoptr (PlumbAheadQueue) other = plumb_ahead_queue_new (3, VOCABULARY), narrow = plumb_ahead_queue_new (SAMPLES, 4);
  g_autoptr (GVariant) body = message (0, 2, 1, 3);
  g_assert_false (plumb_ahead_queue_accept (other, body, NULL));
  g_assert_false (plumb_ahead_queue_accept (narrow, body, NULL));
  g_assert_false (plumb_ahead_queue_from_bytes (other, bytes, NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ahead/board", test_board);
  g_test_add ("/ahead/partial", Fixture, NULL, set_up, test_partial, tear_down);
  g_test_add ("/ahead/hold", Fixture, NULL, set_up, test_hold, tear_down);
  g_test_add_func ("/ahead/queue", test_queue);
  g_test_add_func ("/ahead/damaged", test_damaged);
  return g_test_run ();
}
