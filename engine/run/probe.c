/* SPDX-License-Identifier: Apache-2.0 */

/* What the worker computes for a batch without training on it. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/run-private.h"
#include "engine/run/split.h"

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

/* A question about each token of an experience: its parts go to the workers. */
typedef struct
{
  PlumbMessageKind kind;
  const char *option; /* beside the tokens */
  GVariant *value;    /* of the option */
  double temperature;
} Question;

static GVariant *
question_body (const Question *q, const struct plumb_experience *part)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, part, FALSE);
  g_variant_dict_insert_value (body, q->option, q->value);
  g_variant_dict_insert (body, "temperature", "d", q->temperature);
  return g_variant_dict_end (body);
}

/* Answers by worker, to be cleared; offsets (workers + 1): the first token of each part. */
static gboolean
ask_parts (PlumbRun *run, const Question *q, const struct plumb_experience *e, GVariant **answers, int *offsets,
           GError **error)
{
  int n = plumb_crew_size (run->crew), first = 0;
  g_autofree GVariant **bodies = g_new0 (GVariant *, n);
  g_autofree int *ends = g_new (int, n);
  g_autoptr (GVariant) value = g_variant_ref_sink (q->value);
  plumb_split_sequences (e->offsets, e->sequences, 1, n, ends);
  for (int i = 0; i < n; i++)
    {
      offsets[i] = e->offsets[first];
      if (ends[i] > first)
        {
          struct plumb_experience *part = plumb_experience_part (e, first, ends[i]);
          bodies[i] = question_body (q, part);
          plumb_experience_free (part);
        }
      first = ends[i];
    }
  offsets[n] = e->tokens;
  return plumb_crew_ask_each (run->crew, q->kind, bodies, answers, error);
}

/* Joins what the workers answered under a key. */
static gboolean
join_floats (PlumbRun *run, GVariant *const *answers, const int *offsets, const char *key, float *to, GError **error)
{
  for (int i = 0; i < plumb_crew_size (run->crew); i++)
    if (answers[i]
        && !take_floats (answers[i], key, (gsize) (offsets[i + 1] - offsets[i]), to + offsets[i], error))
      return FALSE;
  return TRUE;
}

gboolean
plumb_run_log_probs (PlumbRun *run, const struct plumb_experience *e, gboolean reference, double temperature,
                     float *log_probs, float *entropies, GError **error)
{
  Question q = { PLUMB_MESSAGE_LOG_PROBS, "of-reference", g_variant_new_boolean (reference), temperature };
  int n = plumb_crew_size (run->crew);
  g_autofree GVariant **answers = g_new0 (GVariant *, n);
  g_autofree int *offsets = g_new (int, n + 1);
  gboolean ok = ask_parts (run, &q, e, answers, offsets, error)
                && join_floats (run, answers, offsets, "log-probs", log_probs, error)
                && (!entropies || join_floats (run, answers, offsets, "entropies", entropies, error));
  plumb_crew_clear_answers (run->crew, answers);
  return ok;
}

gboolean
plumb_run_values (PlumbRun *run, const struct plumb_experience *e, PlumbValuesOf of, double *values,
                  GError **error)
{
  Question q = { PLUMB_MESSAGE_VALUES, "of", g_variant_new_int32 (of), 1 };
  int n = plumb_crew_size (run->crew);
  g_autofree GVariant **answers = g_new0 (GVariant *, n);
  g_autofree int *offsets = g_new (int, n + 1);
  g_autofree float *found = g_new0 (float, e->tokens + 1);
  gboolean ok = ask_parts (run, &q, e, answers, offsets, error)
                && join_floats (run, answers, offsets, "values", found, error);
  plumb_crew_clear_answers (run->crew, answers);
  for (int t = 0; ok && t < e->tokens; t++)
    values[t] = found[t];
  return ok;
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
