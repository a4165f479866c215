/* SPDX-License-Identifier: Apache-2.0 */

/* Prompts to the worker, completions back. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

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

/* Evaluations have filters of their own. */
static void
add_filters (GVariantDict *body, PlumbSpec *spec, const PlumbAsk *ask)
{
  gboolean eval = ask->purpose == PLUMB_RANDOM_EVAL;
  g_variant_dict_insert (body, "top-k", "i", (int) plumb_spec_get_integer (spec, eval ? "eval.top_k" : "rollout.top_k"));
  g_variant_dict_insert (body, "top-p", "d", plumb_spec_get_real (spec, eval ? "eval.top_p" : "rollout.top_p"));
  g_variant_dict_insert (body, "min-p", "d", plumb_spec_get_real (spec, eval ? "eval.min_p" : "rollout.min_p"));
  g_variant_dict_insert (body, "repetition-penalty", "d",
                         plumb_spec_get_real (spec, eval ? "eval.repetition_penalty" : "rollout.repetition_penalty"));
}

GVariant *
plumb_prompts_to_body (PlumbRun *run, const PlumbPrompts *prompts, const PlumbAsk *ask, guint first, guint last)
{
  PlumbSpec *spec = run->spec;
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_autofree gint32 *offsets = g_new (gint32, last - first + 1);
  const gint32 *ends = (const gint32 *) (void *) prompts->offsets->data;
  for (guint i = first; i <= last; i++)
    offsets[i - first] = ends[i] - ends[first];
  plumb_body_add_array (body, "offsets", offsets, last - first + 1, sizeof (gint32));
  plumb_body_add_array (body, "ids", prompts->ids->data + ends[first] * sizeof (gint32),
                        (gsize) (ends[last] - ends[first]), sizeof (gint32));
  plumb_body_add_array (body, "ordinals", prompts->ordinals->data + first * sizeof (gint64), last - first,
                        sizeof (gint64));
  plumb_body_add_array (body, "first-samples", prompts->first_samples->data + first * sizeof (gint32), last - first,
                        sizeof (gint32));
  plumb_body_add_array (body, "stop", run->stop_ids->data, run->stop_ids->len, sizeof (gint32));
  g_variant_dict_insert (body, "samples", "i", prompts->samples);
  g_variant_dict_insert (body, "temperature", "d", ask->temperature);
  g_variant_dict_insert (body, "purpose", "i", ask->purpose);
  add_filters (body, spec, ask);
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
  g_free (a->versions);
  g_free (a->mask);
  *a = (PlumbCompletions){ 0 };
}

static gpointer
copy_array (GVariant *body, const char *key, gsize size, gsize expected)
{
  gsize n = 0;
  const void *data = plumb_body_get_array (body, key, size, &n);
  return data && (n == expected || expected == G_MAXSIZE) ? g_memdup2 (data, MAX (1, n * size)) : NULL;
}

static gboolean
offsets_fit (const PlumbCompletions *a, gsize tokens)
{
  for (gsize i = 0; i < a->n; i++)
    if (a->offsets[i + 1] < a->offsets[i])
      return FALSE;
  return a->offsets[0] == 0 && (gsize) a->offsets[a->n] == tokens;
}

gboolean
plumb_completions_read (PlumbCompletions *a, GVariant *body, GError **error)
{
  gsize tokens = 0, versions = 0, masks = 0;
  plumb_body_get_array (body, "ordinals", sizeof (gint64), &a->n);
  plumb_body_get_array (body, "ids", sizeof (gint32), &tokens);
  plumb_body_get_array (body, "versions", sizeof (gint32), &versions);
  plumb_body_get_array (body, "mask", sizeof (guint8), &masks);
  a->ordinals = copy_array (body, "ordinals", sizeof (gint64), a->n);
  a->samples = copy_array (body, "samples", sizeof (gint32), a->n);
  a->finish = copy_array (body, "finish", sizeof (gint32), a->n);
  a->offsets = copy_array (body, "offsets", sizeof (gint32), a->n + 1);
  a->ids = copy_array (body, "ids", sizeof (gint32), tokens);
  a->log_probs = copy_array (body, "log-probs", sizeof (float), tokens);
  a->versions = versions > 0 || tokens == 0 ? copy_array (body, "versions", sizeof (gint32), tokens) : NULL;
  a->mask = masks > 0 ? copy_array (body, "mask", sizeof (guint8), tokens) : NULL;
  if (a->ordinals && a->samples && a->finish && a->offsets && a->ids && a->log_probs && tokens <= G_MAXINT32
      && (versions == 0 || versions == tokens) && (masks == 0 || masks == tokens)
      && offsets_fit (a, tokens))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "completions of a message do not fit together");
  return FALSE;
}

void
plumb_body_add_completions (GVariantDict *body, const PlumbCompletions *a)
{
  const gint32 zero = 0;
  gsize tokens = a->n ? (gsize) a->offsets[a->n] : 0;
  plumb_body_add_array (body, "ordinals", a->ordinals, a->n, sizeof (gint64));
  plumb_body_add_array (body, "samples", a->samples, a->n, sizeof (gint32));
  plumb_body_add_array (body, "finish", a->finish, a->n, sizeof (gint32));
  plumb_body_add_array (body, "offsets", a->n ? a->offsets : &zero, a->n + 1, sizeof (gint32));
  plumb_body_add_array (body, "ids", a->ids, tokens, sizeof (gint32));
  plumb_body_add_array (body, "log-probs", a->log_probs, tokens, sizeof (float));
  plumb_body_add_array (body, "versions", a->versions, tokens, sizeof (gint32));
  if (a->mask)
    plumb_body_add_array (body, "mask", a->mask, tokens, sizeof (guint8));
}

static gboolean
read_answer (PlumbCompletions *a, GVariant *body, gsize expected, GError **error)
{
  if (!plumb_completions_read (a, body, error))
    return FALSE;
  if (a->n == expected)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "the worker returned other completions than asked for");
  return FALSE;
}

/* What the workers tell of a generation: the sequences add up, and the limit of the longest counts. */
typedef struct
{
  double running, queued, limit;
} Rollouts;

static void
read_statistics (PlumbBatch *batch, GVariant *body, Rollouts *rollouts)
{
  double limit = 0;
  gint64 queued = 0;
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
  g_variant_lookup (body, "queued-rows", "x", &queued);
  g_variant_lookup (body, "limit", "d", &limit);
  rollouts->running += (double) rows / MAX (1, passes);
  rollouts->queued += (double) queued / MAX (1, passes);
  rollouts->limit = MAX (rollouts->limit, limit);
}

void
plumb_completions_join (PlumbCompletions *all, const PlumbCompletions *more)
{
  gsize n = all->n + more->n, tokens = all->n ? (gsize) all->offsets[all->n] : 0, added = (gsize) more->offsets[more->n];
  all->ordinals = g_renew (gint64, all->ordinals, n + 1);
  all->samples = g_renew (gint32, all->samples, n + 1);
  all->finish = g_renew (gint32, all->finish, n + 1);
  all->offsets = g_renew (gint32, all->offsets, n + 1);
  all->ids = g_renew (gint32, all->ids, tokens + added + 1);
  all->log_probs = g_renew (float, all->log_probs, tokens + added + 1);
  memcpy (all->ordinals + all->n, more->ordinals, more->n * sizeof *all->ordinals);
  memcpy (all->samples + all->n, more->samples, more->n * sizeof *all->samples);
  memcpy (all->finish + all->n, more->finish, more->n * sizeof *all->finish);
  memcpy (all->ids + tokens, more->ids, added * sizeof *all->ids);
  memcpy (all->log_probs + tokens, more->log_probs, added * sizeof *all->log_probs);
  if (more->versions && (all->versions || all->n == 0))
    {
      all->versions = g_renew (gint32, all->versions, tokens + added + 1);
      memcpy (all->versions + tokens, more->versions, added * sizeof *all->versions);
    }
  else
    g_clear_pointer (&all->versions, g_free);
  if (more->mask || all->mask)
    {
      gboolean had = all->mask != NULL;
      all->mask = g_renew (guint8, all->mask, tokens + added + 1);
      if (!had)
        memset (all->mask, 1, tokens);
      if (more->mask)
        memcpy (all->mask + tokens, more->mask, added);
      else
        memset (all->mask + tokens, 1, added);
    }
  for (gsize i = 0; i <= more->n; i++)
    all->offsets[all->n + i] = (gint32) tokens + more->offsets[i];
  all->n = n;
}

void
plumb_completions_slice (PlumbCompletions *part, const PlumbCompletions *all, gsize first, gsize last)
{
  gsize at = (gsize) all->offsets[first];
  /* Offsets of a view begin where it begins: they are made its own. */
  g_autofree gint32 *offsets = g_new (gint32, last - first + 1);
  for (gsize i = first; i <= last; i++)
    offsets[i - first] = all->offsets[i] - all->offsets[first];
  const PlumbCompletions view = {
    .n = last - first,
    .ordinals = all->ordinals + first,
    .samples = all->samples + first,
    .finish = all->finish + first,
    .offsets = offsets,
    .ids = all->ids + at,
    .log_probs = all->log_probs + at,
    .versions = all->versions ? all->versions + at : NULL,
    .mask = all->mask ? all->mask + at : NULL,
  };
  plumb_completions_join (part, &view);
}

/* Worker i of n gets the prompts up to this one. */
static guint
end_of_part (guint prompts, int i, int n)
{
  return (guint) ((guint64) prompts * (guint) (i + 1) / (guint) n);
}

gboolean
plumb_run_complete (PlumbRun *run, const PlumbPrompts *prompts, const PlumbAsk *ask, PlumbBatch *batch,
                    PlumbCompletions *completions, GError **error)
{
  int n = plumb_crew_size (run->crew);
  guint first = 0, all = prompts->ordinals->len;
  double start = plumb_telemetry_now (run->telemetry);
  Rollouts rollouts = { 0 };
  g_autofree GVariant **bodies = g_new0 (GVariant *, n), **answers = g_new0 (GVariant *, n);
  for (int i = 0; i < n; first = end_of_part (all, i, n), i++)
    if (end_of_part (all, i, n) > first)
      bodies[i] = plumb_prompts_to_body (run, prompts, ask, first, end_of_part (all, i, n));
  gboolean ok = plumb_crew_ask_each (run->crew, PLUMB_MESSAGE_GENERATE, bodies, answers, error);
  batch->seconds += plumb_telemetry_now (run->telemetry) - start;
  first = 0;
  for (int i = 0; ok && i < n; first = end_of_part (all, i, n), i++)
    {
      g_auto (PlumbCompletions) part = { 0 };
      if (!answers[i])
        continue;
      ok = read_answer (&part, answers[i], (gsize) (end_of_part (all, i, n) - first) * (gsize) prompts->samples, error);
      if (!ok)
        break;
      plumb_completions_join (completions, &part);
      read_statistics (batch, answers[i], &rollouts);
    }
  plumb_crew_clear_answers (run->crew, answers);
  batch->running = MAX (batch->running, rollouts.running);
  batch->queued = MAX (batch->queued, rollouts.queued);
  batch->limit += rollouts.limit;
  return ok;
}
