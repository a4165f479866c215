/* SPDX-License-Identifier: Apache-2.0 */

/* Generating ahead of those that train: prompts come at any time, whole groups go back as they finish, and newer weights
 * are taken from a board between two passes. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/run/worker-private.h"

#define MOST_SPANS 1000 /* of time that are kept until they are told */

/* What the worker does, for its account of time. */
typedef enum
{
  STREAM_IDLE,
  STREAM_BUSY,
  STREAM_SYNC,
  N_STREAM,
} StreamState;

struct _PlumbStream
{
  int samples;        /* of each prompt */
  gboolean partial;   /* running samples go on with newer weights */
  gboolean outdated;  /* newer weights are up than those in use */
  StreamState state;  /* idle: nothing to do until a message comes */
  guint64 version;    /* of the weights in use */
  GHashTable *groups; /* ordinal -> GPtrArray of PlumbCompletion: those that are not whole yet */
  gint64 since;       /* of the state */
  double seconds[N_STREAM];
  GArray *spans;      /* of double: state, begin and end (monotonic, seconds) of what is over and not told yet */
};

static gboolean
open_board (PlumbWorker *self, GVariant *body, GError **error)
{
  g_autofree char *path = NULL;
  if (self->board)
    return TRUE;
  if (!g_variant_lookup (body, "board", "s", &path))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a message lacks the board of the weights");
      return FALSE;
    }
  self->board = plumb_weight_board_open (path, plumb_worker_weight_bytes (self), error);
  return self->board != NULL;
}

/* Puts the policy's weights up under a number. */
GVariant *
plumb_worker_publish (PlumbWorker *self, GVariant *body, GError **error)
{
  guint64 version = 0;
  g_variant_lookup (body, "version", "t", &version);
  if (!open_board (self, body, error)
      || !plumb_weight_board_write (self->board, self->device, plumb_model_weights (self->policy), version, error))
    return NULL;
  return g_variant_new ("a{sv}", NULL);
}

GVariant *
plumb_worker_stream_begin (PlumbWorker *self, GVariant *body, GError **error)
{
  gint32 samples = 0;
  gboolean partial = FALSE;
  g_variant_lookup (body, "samples", "i", &samples);
  g_variant_lookup (body, "partial", "b", &partial);
  if (samples < 1 || self->stream)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a stream message does not fit");
      return NULL;
    }
  if (!open_board (self, body, error) || !plumb_worker_begin_sampling (self, body, error))
    return NULL;
  self->stream = g_new0 (PlumbStream, 1);
  self->stream->samples = samples;
  self->stream->partial = partial;
  self->stream->outdated = TRUE;
  self->stream->groups
      = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, (GDestroyNotify) g_ptr_array_unref);
  self->stream->since = g_get_monotonic_time ();
  self->stream->state = STREAM_BUSY;
  self->stream->spans = g_array_new (FALSE, FALSE, sizeof (double));
  return g_variant_new ("a{sv}", NULL);
}

void
plumb_worker_stream_end (PlumbWorker *self)
{
  if (!self->stream)
    return;
  g_hash_table_unref (self->stream->groups);
  g_array_unref (self->stream->spans);
  g_clear_pointer (&self->stream, g_free);
}

static gboolean
check_stream (PlumbWorker *self, GError **error)
{
  if (!self->stream)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker does not generate ahead");
  return self->stream != NULL;
}

static void
set_state (PlumbStream *stream, StreamState state)
{
  gint64 now = g_get_monotonic_time ();
  const double span[] = { stream->state, (double) stream->since / G_USEC_PER_SEC, (double) now / G_USEC_PER_SEC };
  if (state == stream->state)
    return;
  stream->seconds[stream->state] += span[2] - span[1];
  if (stream->state != STREAM_IDLE && stream->spans->len < MOST_SPANS * G_N_ELEMENTS (span))
    g_array_append_vals (stream->spans, span, G_N_ELEMENTS (span));
  stream->state = state;
  stream->since = now;
}

GVariant *
plumb_worker_stream_submit (PlumbWorker *self, GVariant *body, GError **error)
{
  gint64 samples = 0;
  if (!check_stream (self, error) || !plumb_worker_submit_prompts (self, body, &samples, error))
    return NULL;
  set_state (self->stream, STREAM_BUSY);
  return g_variant_new ("a{sv}", NULL);
}

GVariant *
plumb_worker_stream_renew (PlumbWorker *self, GVariant *body, GError **error)
{
  if (!check_stream (self, error))
    return NULL;
  set_state (self->stream, STREAM_BUSY);
  self->stream->outdated = TRUE;
  return g_variant_new ("a{sv}", NULL);
}

gboolean
plumb_worker_stream_is_busy (PlumbWorker *self)
{
  return self->stream && self->stream->state != STREAM_IDLE;
}

/* Newer weights are taken when nothing runs on the old ones, or at once where samples may be made of several. Until then
 * no further prompt begins, so none is older than its submission. */
static gboolean
take_weights (PlumbWorker *self, GError **error)
{
  PlumbStream *stream = self->stream;
  gboolean now = stream->partial || plumb_rollout_running (self->rollout) == 0;
  plumb_rollout_hold (self->rollout, !now);
  if (!now)
    return TRUE;
  set_state (stream, STREAM_SYNC);
  if (!plumb_rollout_settle (self->rollout, error)
      || !plumb_weight_board_read (self->board, self->device, plumb_model_weights (self->policy), &stream->version, error)
      || !plumb_rollout_renew (self->rollout, stream->version, error))
    return FALSE;
  stream->outdated = FALSE;
  set_state (stream, STREAM_BUSY);
  return TRUE;
}

/* Groups that have become whole. */
static void
collect_groups (PlumbWorker *self, PlumbCollected *whole)
{
  PlumbStream *stream = self->stream;
  for (PlumbCompletion *next; (next = plumb_rollout_take (self->rollout));)
    {
      gint64 ordinal = next->ordinal;
      GPtrArray *group = g_hash_table_lookup (stream->groups, &ordinal);
      if (!group)
        {
          group = g_ptr_array_new_with_free_func ((GDestroyNotify) plumb_completion_free);
          g_hash_table_insert (stream->groups, g_memdup2 (&ordinal, sizeof ordinal), group);
        }
      g_ptr_array_add (group, next);
      if ((int) group->len < stream->samples)
        continue;
      for (guint i = 0; i < group->len; i++)
        plumb_collected_add (whole, g_ptr_array_index (group, i));
      g_hash_table_remove (stream->groups, &ordinal);
    }
}

static GVariant *
groups_body (PlumbWorker *self, const PlumbCollected *whole)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_collected (body, whole, TRUE);
  plumb_body_add_rollout_statistics (body, self);
  PlumbStream *stream = self->stream;
  double present = (double) (g_get_monotonic_time () - stream->since) / G_USEC_PER_SEC;
  g_variant_dict_insert (body, "seconds-idle", "d", stream->seconds[STREAM_IDLE]);
  g_variant_dict_insert (body, "seconds-sync", "d", stream->seconds[STREAM_SYNC]);
  g_variant_dict_insert (body, "seconds-busy", "d",
                         stream->seconds[STREAM_BUSY] + (stream->state == STREAM_BUSY ? present : 0));
  plumb_body_add_array (body, "spans", stream->spans->data, stream->spans->len, sizeof (double));
  g_array_set_size (stream->spans, 0);
  return g_variant_dict_end (body);
}

gboolean
plumb_worker_stream_advance (PlumbWorker *self, GError **error)
{
  PlumbStream *stream = self->stream;
  gboolean idle = FALSE;
  if (stream->outdated && !take_weights (self, error))
    return FALSE;
  if (!plumb_rollout_advance (self->rollout, &idle, error))
    return FALSE;
  g_auto (PlumbCollected) whole = { 0 };
  plumb_collected_init (&whole);
  collect_groups (self, &whole);
  idle = idle && !stream->outdated;
  gboolean ok = whole.ordinals->len > 0
                    ? plumb_worker_tell (self, PLUMB_MESSAGE_GROUPS, groups_body (self, &whole), error)
                    : plumb_worker_tell_alive (self, error);
  set_state (stream, idle ? STREAM_IDLE : STREAM_BUSY);
  return ok;
}
