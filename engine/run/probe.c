/* SPDX-License-Identifier: Apache-2.0 */

/* What the worker computes for a batch without training on it. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/run-private.h"

/* Copies an array of one float per token out of an answer. */
static gboolean
take_floats (GVariant *answer, const char *key, gsize n, float *to, GError **error)
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

gboolean
plumb_run_log_probs (PlumbRun *run, const struct plumb_experience *e, gboolean reference, double temperature,
                     float *log_probs, float *entropies, GError **error)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, e, FALSE);
  g_variant_dict_insert (body, "of-reference", "b", reference);
  g_variant_dict_insert (body, "temperature", "d", temperature);
  g_autoptr (GVariant) answer
      = plumb_crew_ask (run->crew, PLUMB_MESSAGE_LOG_PROBS, g_variant_dict_end (body), error);
  return answer && take_floats (answer, "log-probs", (gsize) e->tokens, log_probs, error)
         && (!entropies || take_floats (answer, "entropies", (gsize) e->tokens, entropies, error));
}

gboolean
plumb_run_values (PlumbRun *run, const struct plumb_experience *e, PlumbValuesOf of, double *values,
                  GError **error)
{
  g_autofree float *found = g_new (float, e->tokens + 1);
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, e, FALSE);
  g_variant_dict_insert (body, "of", "i", of);
  g_autoptr (GVariant) answer
      = plumb_crew_ask (run->crew, PLUMB_MESSAGE_VALUES, g_variant_dict_end (body), error);
  if (!answer || !take_floats (answer, "values", (gsize) e->tokens, found, error))
    return FALSE;
  for (int t = 0; t < e->tokens; t++)
    values[t] = found[t];
  return TRUE;
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
  if (!plumb_run_log_probs (run, e, FALSE, 1, policy, NULL, error)
      || !plumb_run_log_probs (run, e, TRUE, 1, reference, NULL, error))
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
  plumb_run_end_phase (run);
  return ok;
}
