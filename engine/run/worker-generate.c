/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/worker-private.h"

gboolean
plumb_worker_submit_prompts (PlumbWorker *self, GVariant *body, gint64 *samples, GError **error)
{
  gsize ends = 0, tokens = 0, n_ordinals = 0;
  const void *raw_offsets = plumb_body_get_array (body, "offsets", sizeof (gint32), &ends);
  const void *raw_ids = plumb_body_get_array (body, "ids", sizeof (gint32), &tokens);
  const void *raw_ordinals = plumb_body_get_array (body, "ordinals", sizeof (gint64), &n_ordinals);
  gsize n_firsts = 0;
  const void *raw_firsts = plumb_body_get_array (body, "first-samples", sizeof (gint32), &n_firsts);
  gint32 each = 0;
  g_variant_lookup (body, "samples", "i", &each);
  if (!raw_offsets || !raw_ids || !raw_ordinals || ends != n_ordinals + 1 || each < 1
      || (raw_firsts && n_firsts != n_ordinals))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a generate message does not fit together");
      return FALSE;
    }
  g_autofree gint32 *offsets = g_memdup2 (raw_offsets, ends * sizeof (gint32));
  g_autofree gint32 *ids = g_memdup2 (raw_ids, tokens * sizeof (gint32));
  g_autofree gint64 *ordinals = g_memdup2 (raw_ordinals, n_ordinals * sizeof (gint64));
  g_autofree gint32 *firsts = g_memdup2 (raw_firsts ? raw_firsts : "", n_firsts * sizeof (gint32));
  for (gsize i = 0; i < n_ordinals; i++)
    {
      if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || (gsize) offsets[i + 1] > tokens)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a generate message has wrong offsets");
          return FALSE;
        }
      if (!plumb_rollout_submit_from (self->rollout, ids + offsets[i], offsets[i + 1] - offsets[i],
                                      raw_firsts ? CLAMP (firsts[i], 0, G_MAXUINT16) : 0, each, ordinals[i], error))
        return FALSE;
    }
  *samples = (gint64) n_ordinals * each;
  return TRUE;
}

void
plumb_collected_init (PlumbCollected *c)
{
  gint32 zero = 0;
  c->ordinals = g_array_new (FALSE, FALSE, sizeof (gint64));
  c->samples = g_array_new (FALSE, FALSE, sizeof (gint32));
  c->finish = g_array_new (FALSE, FALSE, sizeof (gint32));
  c->offsets = g_array_new (FALSE, FALSE, sizeof (gint32));
  c->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  c->log_probs = g_array_new (FALSE, FALSE, sizeof (float));
  c->versions = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_array_append_val (c->offsets, zero);
}

void
plumb_collected_clear (PlumbCollected *c)
{
  GArray **arrays[] = { &c->ordinals, &c->samples, &c->finish, &c->offsets, &c->ids, &c->log_probs, &c->versions };
  for (gsize i = 0; i < G_N_ELEMENTS (arrays); i++)
    g_clear_pointer (arrays[i], g_array_unref);
}

void
plumb_collected_add (PlumbCollected *c, const PlumbCompletion *completion)
{
  gint32 sample = completion->sample, finish = (gint32) completion->finish;
  g_array_append_val (c->ordinals, completion->ordinal);
  g_array_append_val (c->samples, sample);
  g_array_append_val (c->finish, finish);
  g_array_append_vals (c->ids, completion->ids->data, completion->ids->len);
  g_array_append_vals (c->log_probs, completion->log_probs->data, completion->log_probs->len);
  g_array_append_vals (c->versions, completion->versions->data, completion->versions->len);
  gint32 end = (gint32) c->ids->len;
  g_array_append_val (c->offsets, end);
}

static void
add_garray (GVariantDict *body, const char *key, GArray *array)
{
  plumb_body_add_array (body, key, array->data, array->len, g_array_get_element_size (array));
}

void
plumb_body_add_collected (GVariantDict *body, const PlumbCollected *c, gboolean versions)
{
  add_garray (body, "ordinals", c->ordinals);
  add_garray (body, "samples", c->samples);
  add_garray (body, "finish", c->finish);
  add_garray (body, "offsets", c->offsets);
  add_garray (body, "ids", c->ids);
  add_garray (body, "log-probs", c->log_probs);
  if (versions)
    add_garray (body, "versions", c->versions);
}

/* Seconds that a generation takes at the limits of the device. */
static double
limit_of (const PlumbWorker *self, const PlumbRolloutStatistics *statistics)
{
  const PlumbRolloutPlan *plan = &self->settings.rollout;
  PlumbGenerated done = { .prefill_tokens = statistics->prefill_tokens,
                          .decode_passes = statistics->decode_passes,
                          .decode_rows = statistics->decode_rows,
                          .context_tokens = statistics->context_tokens,
                          .weight_codes = plan->weight_codes,
                          .kv_codes = plan->kv_codes };
  return plumb_limit_generate (&self->limits, self->policy->config, self->policy->type, &done);
}

void
plumb_body_add_rollout_statistics (GVariantDict *body, const PlumbWorker *self)
{
  PlumbRolloutStatistics statistics;
  plumb_rollout_statistics (self->rollout, &statistics);
  if (self->limits.products > 0)
    g_variant_dict_insert (body, "limit", "d", limit_of (self, &statistics));
  g_variant_dict_insert (body, "tokens", "x", statistics.tokens);
  g_variant_dict_insert (body, "passes", "x", statistics.passes);
  g_variant_dict_insert (body, "decode-rows", "x", statistics.decode_rows);
  g_variant_dict_insert (body, "queued-rows", "x", statistics.queued_rows);
  g_variant_dict_insert (body, "prefill-tokens", "x", statistics.prefill_tokens);
  g_variant_dict_insert (body, "shared-tokens", "x", statistics.shared_tokens);
  g_variant_dict_insert (body, "kv-used", "d", statistics.kv_used);
}

gboolean
plumb_worker_begin_sampling (PlumbWorker *self, GVariant *body, GError **error)
{
  PlumbSampling sampling = { 0 };
  gsize n_stop = 0;
  gint64 seed = 0;
  if (!self->rollout)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "this worker was opened without generation");
      return FALSE;
    }
  const void *stop = plumb_body_get_array (body, "stop", sizeof (gint32), &n_stop);
  g_autofree gint32 *stop_ids = g_memdup2 (stop ? stop : "", n_stop * sizeof (gint32));
  sampling.stop = stop_ids;
  sampling.n_stop = (int) n_stop;
  g_variant_lookup (body, "temperature", "d", &sampling.temperature);
  g_variant_lookup (body, "max-new-tokens", "i", &sampling.max_new_tokens);
  g_variant_lookup (body, "min-new-tokens", "i", &sampling.min_new_tokens);
  g_variant_lookup (body, "purpose", "i", &sampling.purpose);
  g_variant_lookup (body, "seed", "x", &seed);
  g_variant_lookup (body, "top-k", "i", &sampling.filters.top_k);
  g_variant_lookup (body, "top-p", "d", &sampling.filters.top_p);
  g_variant_lookup (body, "min-p", "d", &sampling.filters.min_p);
  g_variant_lookup (body, "repetition-penalty", "d", &sampling.filters.repetition_penalty);
  sampling.seed = (guint64) seed;
  return plumb_rollout_begin (self->rollout, &sampling, error);
}

GVariant *
plumb_worker_generate (PlumbWorker *self, GVariant *body, GError **error)
{
  gint64 total = 0;
  if (!plumb_worker_begin_sampling (self, body, error))
    return NULL;
  if (!plumb_worker_submit_prompts (self, body, &total, error))
    {
      plumb_rollout_abort (self->rollout);
      return NULL;
    }
  g_auto (PlumbCollected) collected = { 0 };
  plumb_collected_init (&collected);
  for (gboolean idle = FALSE; !idle;)
    {
      if (!plumb_rollout_advance (self->rollout, &idle, error)
          || !plumb_worker_report_progress (collected.ordinals->len, total, self, error))
        {
          plumb_rollout_abort (self->rollout);
          return NULL;
        }
      for (PlumbCompletion *next; (next = plumb_rollout_take (self->rollout));)
        {
          plumb_collected_add (&collected, next);
          plumb_completion_free (next);
        }
    }
  g_autoptr (GVariantDict) answer = g_variant_dict_new (NULL);
  plumb_body_add_collected (answer, &collected, FALSE);
  plumb_body_add_rollout_statistics (answer, self);
  return g_variant_dict_end (answer);
}
