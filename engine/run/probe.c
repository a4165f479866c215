/* SPDX-License-Identifier: Apache-2.0 */

/* What the worker computes for a batch without training on it. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/run-private.h"
#include "engine/run/split.h"

gboolean
plumb_run_take_floats (GVariant *answer, const char *key, gsize n, float *to, GError **error)
{
  gsize found = 0;
  const void *data = plumb_body_get_array (answer, key, sizeof (float), &found);
  if (data && found == n)
    {
      memcpy (to, data, n * sizeof (float));
      return TRUE;
    }
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "the worker returned no %s for the batch", key);
  return FALSE;
}

static gboolean
is_value (PlumbProbeOf of)
{
  return of == PLUMB_PROBE_CRITIC || of == PLUMB_PROBE_REWARD || of == PLUMB_PROBE_SCORES;
}

static GVariant *
probe_body (const PlumbProbe *probe, const struct plumb_experience *part)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, part, FALSE);
  if (is_value (probe->of))
    g_variant_dict_insert (body, "of", "i", probe->of - PLUMB_PROBE_CRITIC);
  else
    g_variant_dict_insert (body, "of-reference", "b", probe->of == PLUMB_PROBE_REFERENCE);
  g_variant_dict_insert (body, "temperature", "d", probe->temperature);
  return g_variant_dict_end (body);
}

/* A part of a probe: what one worker is asked. */
typedef struct
{
  const PlumbProbe *probe;
  int first, last; /* tokens */
} Part;

static void
add_part (GPtrArray *requests, GArray *parts, guint32 worker, const PlumbProbe *probe, const struct plumb_experience *e,
          int first, int last)
{
  Part part = { probe, e->offsets[first], e->offsets[last] };
  struct plumb_experience *cut = plumb_experience_part (e, first, last);
  g_ptr_array_add (requests, plumb_crew_request_new (worker, is_value (probe->of) ? PLUMB_MESSAGE_VALUES : PLUMB_MESSAGE_LOG_PROBS,
                                                     probe_body (probe, cut)));
  g_array_append_val (parts, part);
  plumb_experience_free (cut);
}

/* The worker of the role answers alone; else those that train share the sequences. */
static void
add_parts (PlumbRun *run, GPtrArray *requests, GArray *parts, const PlumbProbe *probe, const struct plumb_experience *e)
{
  static const PlumbRole roles[] = { [PLUMB_PROBE_REFERENCE] = PLUMB_ROLE_REFERENCE,
                                     [PLUMB_PROBE_CRITIC] = PLUMB_ROLE_CRITIC,
                                     [PLUMB_PROBE_REWARD] = PLUMB_ROLE_REWARD,
                                     [PLUMB_PROBE_SCORES] = PLUMB_ROLE_POLICY };
  guint32 worker = plumb_crew_worker_of (run->crew, roles[probe->of]);
  int n = worker ? 1 : plumb_crew_size (run->crew), first = 0;
  g_autofree int *ends = g_new (int, n);
  plumb_split_sequences (e->offsets, e->sequences, 1, n, ends);
  for (int i = 0; i < n; i++)
    {
      if (ends[i] > first)
        add_part (requests, parts, worker ? worker : (guint32) i + 1, probe, e, first, ends[i]);
      first = ends[i];
    }
}

static gboolean
take_values (GVariant *answer, const Part *part, GError **error)
{
  gsize n = (gsize) (part->last - part->first);
  g_autofree float *found = g_new0 (float, n + 1);
  if (!plumb_run_take_floats (answer, "values", n, found, error))
    return FALSE;
  for (gsize t = 0; t < n; t++)
    part->probe->values[part->first + (int) t] = found[t];
  return TRUE;
}

static gboolean
take_part (GVariant *answer, const Part *part, GError **error)
{
  const PlumbProbe *probe = part->probe;
  gsize n = (gsize) (part->last - part->first);
  if (is_value (probe->of))
    return take_values (answer, part, error);
  return plumb_run_take_floats (answer, "log-probs", n, probe->log_probs + part->first, error)
         && (!probe->entropies || plumb_run_take_floats (answer, "entropies", n, probe->entropies + part->first, error));
}

gboolean
plumb_run_probe (PlumbRun *run, const struct plumb_experience *e, const PlumbProbe *probes, int n, GError **error)
{
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (Part));
  for (int i = 0; i < n; i++)
    add_parts (run, requests, parts, &probes[i], e);
  if (!plumb_crew_ask_together (run->crew, requests, error))
    return FALSE;
  run->limits.probe += plumb_crew_requests_limit (requests);
  for (guint i = 0; i < requests->len; i++)
    if (!take_part (plumb_crew_request_answer (g_ptr_array_index (requests, i)), &g_array_index (parts, Part, i), error))
      return FALSE;
  return TRUE;
}

/* An update that is measured against the sampler asks for no log-probs of the policy. */
static gboolean
is_measured_by_sampler (PlumbRun *run)
{
  return run->recipe->loss == PLUMB_LOSS_POLICY
         && g_strcmp0 (plumb_spec_get_text (run->spec, "algorithm.old_logprobs"), "sampler") == 0;
}

int
plumb_run_training_probes (PlumbRun *run, struct plumb_experience *e, gboolean policy, PlumbProbe *probes)
{
  double temperature = plumb_spec_get_real (run->spec, "rollout.temperature");
  int n = 0;
  if (policy && !is_measured_by_sampler (run))
    probes[n++] = (PlumbProbe){ PLUMB_PROBE_POLICY, temperature, e->old_logp, e->entropy, NULL };
  if (plumb_recipe_needs_reference (run->spec))
    probes[n++] = (PlumbProbe){ PLUMB_PROBE_REFERENCE, temperature, e->reference_logp, NULL, NULL };
  if (run->recipe->critic)
    probes[n++] = (PlumbProbe){ PLUMB_PROBE_CRITIC, 1, NULL, NULL, e->value };
  return n;
}

gboolean
plumb_run_log_probs (PlumbRun *run, const struct plumb_experience *e, gboolean reference, double temperature,
                     float *log_probs, float *entropies, GError **error)
{
  PlumbProbe probe = { reference ? PLUMB_PROBE_REFERENCE : PLUMB_PROBE_POLICY, temperature, log_probs, entropies, NULL };
  return plumb_run_probe (run, e, &probe, 1, error);
}

/* Where the answer of a sequence begins: its first token that counts. */
static int
first_answered (const struct plumb_experience *e, int s)
{
  int t = e->offsets[s];
  while (t < e->offsets[s + 1] && !e->mask[t])
    t++;
  return t;
}

/* Each prompt with the response of the next row, cut to `longest` tokens: KTO's mismatched answers. */
static struct plumb_experience *
mismatch (const struct plumb_experience *e, int longest)
{
  int n = e->sequences, tokens = 0;
  for (int s = 0; s < n; s++)
    tokens += e->offsets[s + 1] - e->offsets[s];
  struct plumb_experience *m = plumb_experience_new (n, 2 * tokens);
  for (int s = 0; s < n; s++)
    {
      int next = (s + 1) % n, begin = first_answered (e, next), response = e->offsets[next + 1] - begin;
      int prompt = first_answered (e, s) - e->offsets[s], at = m->offsets[s];
      response = MIN (response, MAX (0, longest - prompt));
      memcpy (m->ids + at, e->ids + e->offsets[s], (gsize) prompt * sizeof *m->ids);
      memcpy (m->ids + at + prompt, e->ids + begin, (gsize) response * sizeof *m->ids);
      memcpy (m->mask + at + prompt, e->mask + begin, (gsize) response);
      m->offsets[s + 1] = at + prompt + response;
    }
  m->tokens = m->offsets[n];
  return m;
}

/* Policy minus reference, summed over each sequence (x), and their mean. */
static gboolean
log_ratios (PlumbRun *run, const struct plumb_experience *e, double *x, double *mean, GError **error)
{
  g_autofree float *policy = g_new (float, e->tokens + 1), *reference = g_new (float, e->tokens + 1);
  const PlumbProbe probes[] = { { PLUMB_PROBE_POLICY, 1, policy, NULL, NULL },
                                { PLUMB_PROBE_REFERENCE, 1, reference, NULL, NULL } };
  if (!plumb_run_probe (run, e, probes, G_N_ELEMENTS (probes), error))
    return FALSE;
  *mean = 0;
  for (int s = 0; s < e->sequences; s++)
    {
      x[s] = 0;
      for (int t = e->offsets[s]; t < e->offsets[s + 1]; t++)
        x[s] += e->mask[t] ? (double) policy[t] - reference[t] : 0;
      *mean += x[s] / e->sequences;
    }
  return TRUE;
}

static gboolean
estimate_kto (PlumbRun *run, const struct plumb_experience *e, struct plumb_kto_options *kto, GError **error)
{
  g_autofree double *x = g_new0 (double, e->sequences + 1);
  double mean = 0;
  if (kto->paired)
    {
      if (!log_ratios (run, e, x, &mean, error))
        return FALSE;
      plumb_kto_pair_estimates (kto, e->sequences, x, e->desirable);
      return TRUE;
    }
  struct plumb_experience *m = mismatch (e, (int) plumb_spec_get_integer (run->spec, "model.max_length"));
  gboolean ok = log_ratios (run, m, x, &mean, error);
  plumb_experience_free (m);
  kto->kl_desirable = kto->kl_undesirable = MAX (0, mean);
  return ok;
}

gboolean
plumb_run_prepare_preferences (PlumbRun *run, struct plumb_experience *e, PlumbLossSpec *loss, GError **error)
{
  gboolean ok = TRUE;
  if (!run->recipe->reference)
    return TRUE;
  plumb_run_begin_phase (run, "logprob");
  ok = plumb_run_log_probs (run, e, TRUE, 1, e->reference_logp, NULL, error)
       && (loss->id != PLUMB_LOSS_KTO || estimate_kto (run, e, &loss->kto, error));
  if (ok)
    plumb_run_end_phase (run);
  return ok;
}
