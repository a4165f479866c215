/* SPDX-License-Identifier: Apache-2.0 */

/* Prompts to the worker, completions back. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/run/completions.h"

void
plumb_prompts_init (PlumbPrompts *p, int samples)
{
  gint32 zero = 0;
  p->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  p->offsets = g_array_new (FALSE, FALSE, sizeof (gint32));
  p->ordinals = g_array_new (FALSE, FALSE, sizeof (gint64));
  p->first_samples = g_array_new (FALSE, FALSE, sizeof (gint32));
  p->samples = samples;
  g_array_append_val (p->offsets, zero);
}

void
plumb_prompts_add (PlumbPrompts *p, const gint32 *ids, gsize n, gint64 ordinal, gint32 first_sample)
{
  g_array_append_vals (p->ids, ids, (guint) n);
  gint32 end = (gint32) p->ids->len;
  g_array_append_val (p->offsets, end);
  g_array_append_val (p->ordinals, ordinal);
  g_array_append_val (p->first_samples, first_sample);
}

void
plumb_prompts_clear (PlumbPrompts *p)
{
  g_clear_pointer (&p->ids, g_array_unref);
  g_clear_pointer (&p->offsets, g_array_unref);
  g_clear_pointer (&p->ordinals, g_array_unref);
  g_clear_pointer (&p->first_samples, g_array_unref);
}

static void
add_array (GVariantDict *body, const char *key, const GArray *array, gsize size)
{
  plumb_body_add_array (body, key, array->data, array->len, size);
}

/* The body of a GENERATE request. */
static GVariant *
request_body (PlumbRun *run, const PlumbPrompts *prompts, const PlumbAsk *ask)
{
  PlumbSpec *spec = run->spec;
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  add_array (body, "offsets", prompts->offsets, sizeof (gint32));
  add_array (body, "ids", prompts->ids, sizeof (gint32));
  add_array (body, "ordinals", prompts->ordinals, sizeof (gint64));
  add_array (body, "first-samples", prompts->first_samples, sizeof (gint32));
  add_array (body, "stop", run->stop_ids, sizeof (gint32));
  g_variant_dict_insert (body, "samples", "i", prompts->samples);
  g_variant_dict_insert (body, "temperature", "d", ask->temperature);
  g_variant_dict_insert (body, "purpose", "i", ask->purpose);
  g_variant_dict_insert (body, "seed", "x", plumb_spec_get_integer (spec, "run.seed"));
  g_variant_dict_insert (body, "max-new-tokens", "i",
                         (int) plumb_spec_get_integer (spec, "rollout.max_new_tokens"));
  g_variant_dict_insert (body, "min-new-tokens", "i",
                         (int) plumb_spec_get_integer (spec, "rollout.min_new_tokens"));
  return g_variant_dict_end (body);
}

void
plumb_completions_clear (PlumbCompletions *a)
{
  g_free (a->ordinals);
  g_free (a->samples);
  g_free (a->finish);
  g_free (a->offsets);
  g_free (a->ids);
  g_free (a->log_probs);
}
static gpointer
copy_array (GVariant *body, const char *key, gsize size, gsize expected)
{
  gsize n = 0;
  const void *data = plumb_body_get_array (body, key, size, &n);
  return data && (n == expected || expected == G_MAXSIZE) ? g_memdup2 (data, MAX (1, n * size)) : NULL;
}

static gboolean
read_answer (PlumbCompletions *a, GVariant *body, gsize expected, GError **error)
{
  gsize tokens = 0;
  a->n = expected;
  a->ordinals = copy_array (body, "ordinals", sizeof (gint64), expected);
  a->samples = copy_array (body, "samples", sizeof (gint32), expected);
  a->finish = copy_array (body, "finish", sizeof (gint32), expected);
  a->offsets = copy_array (body, "offsets", sizeof (gint32), expected + 1);
  plumb_body_get_array (body, "ids", sizeof (gint32), &tokens);
  a->ids = copy_array (body, "ids", sizeof (gint32), tokens);
  a->log_probs = copy_array (body, "log-probs", sizeof (float), tokens);
  if (a->ordinals && a->samples && a->finish && a->offsets && a->ids && a->log_probs
      && a->offsets[0] == 0 && (gsize) a->offsets[expected] == tokens)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "the worker returned other completions than asked for");
  return FALSE;
}

static void
read_statistics (PlumbBatch *batch, GVariant *body)
{
  gint64 passes = 0, rows = 0, generated = 0, prefill = 0, shared = 0;
  double kv_used = 0;
  g_variant_lookup (body, "tokens", "x", &generated);
  g_variant_lookup (body, "prefill-tokens", "x", &prefill);
  g_variant_lookup (body, "shared-tokens", "x", &shared);
  g_variant_lookup (body, "kv-used", "d", &kv_used);
  g_variant_lookup (body, "passes", "x", &passes);
  g_variant_lookup (body, "decode-rows", "x", &rows);
  batch->generated += generated;
  batch->prefill += prefill;
  batch->shared += shared;
  batch->kv_used = MAX (batch->kv_used, kv_used);
  batch->running = MAX (batch->running, (double) rows / MAX (1, passes));
}

gboolean
plumb_run_complete (PlumbRun *run, const PlumbPrompts *prompts, const PlumbAsk *ask, PlumbBatch *batch,
                    PlumbCompletions *completions, GError **error)
{
  double start = plumb_telemetry_now (run->telemetry);
  g_autoptr (GVariant) body
      = plumb_crew_ask (run->crew, PLUMB_MESSAGE_GENERATE, request_body (run, prompts, ask), error);
  batch->seconds += plumb_telemetry_now (run->telemetry) - start;
  if (!body || !read_answer (completions, body, (gsize) prompts->ordinals->len * prompts->samples, error))
    return FALSE;
  read_statistics (batch, body);
  return TRUE;
}
