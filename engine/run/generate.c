/* SPDX-License-Identifier: Apache-2.0 */

/* Prompts to the worker, completions back, rewards for them: a scored experience. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/completions.h"
#include "engine/run/scoring.h"

void
plumb_batch_free (PlumbBatch *batch)
{
  if (!batch)
    return;
  int n = batch->experience ? batch->experience->sequences : 0;
  for (int s = 0; s < n && batch->scores; s++)
    plumb_reward_score_clear (&batch->scores[s]);
  for (int s = 0; s < n && batch->responses; s++)
    g_free (batch->responses[s]);
  for (int p = 0; p < batch->prompts && batch->data; p++)
    g_clear_pointer (&batch->data[p], plumb_data_row_free);
  plumb_experience_free (batch->experience);
  g_free (batch->data);
  g_free (batch->ordinals);
  g_free (batch->raw);
  g_free (batch->responses);
  g_free (batch->finish);
  for (int s = 0; s < n && batch->episodes; s++)
    plumb_reward_score_clear (&batch->episodes[s]);
  g_free (batch->episodes);
  g_free (batch->scores);
  g_free (batch->parts);
  g_free (batch->reward_seconds);
  g_free (batch);
}

/* Grows an array of pointers or numbers by n entries, and gives its new part. */
static gpointer
grow (gpointer array, gsize have, gsize n, gsize size)
{
  gpointer *place = array;
  *place = g_realloc (*place, (have + n + 1) * size);
  return (char *) *place + have * size;
}

static void
take_group (PlumbBatch *to, PlumbBatch *from, int group, gsize parts)
{
  gsize p = (gsize) to->prompts, s = p * (gsize) to->samples, n = (gsize) to->samples, first = (gsize) group * n;
  *(PlumbDataRow **) grow (&to->data, p, 1, sizeof *to->data) = g_steal_pointer (&from->data[group]);
  *(gint64 *) grow (&to->ordinals, p, 1, sizeof *to->ordinals) = from->ordinals[group];
  memcpy (grow (&to->responses, s, n, sizeof *to->responses), from->responses + first, n * sizeof *to->responses);
  memset (from->responses + first, 0, n * sizeof *to->responses);
  memcpy (grow (&to->finish, s, n, sizeof *to->finish), from->finish + first, n * sizeof *to->finish);
  if (from->reward_seconds)
    memcpy (grow (&to->reward_seconds, s, n, sizeof *to->reward_seconds), from->reward_seconds + first,
            n * sizeof *to->reward_seconds);
  memcpy (grow (&to->scores, s, n, sizeof *to->scores), from->scores + first, n * sizeof *to->scores);
  memset (from->scores + first, 0, n * sizeof *to->scores);
  memcpy (grow (&to->parts, s * parts, n * parts, sizeof *to->parts), from->parts + first * parts,
          n * parts * sizeof *to->parts);
  to->prompts++;
}

void
plumb_batch_take (PlumbBatch *to, PlumbBatch *from, const int *groups, int n)
{
  g_autofree int *sequences = g_new (int, (gsize) n * from->samples + 1);
  to->samples = from->samples;
  to->n_parts = from->n_parts;
  for (int i = 0; i < n; i++)
    {
      for (int k = 0; k < from->samples; k++)
        sequences[i * from->samples + k] = groups[i] * from->samples + k;
      take_group (to, from, groups[i], from->n_parts);
    }
  struct plumb_experience *added = plumb_experience_select (from->experience, sequences, n * from->samples);
  struct plumb_experience *whole = to->experience ? plumb_experience_join (to->experience, added) : added;
  if (to->experience)
    {
      plumb_experience_free (to->experience);
      plumb_experience_free (added);
    }
  to->experience = whole;
  for (int s = 0; s < whole->sequences; s++)
    whole->group[s] = s / to->samples;
  to->asked += from->asked;
  to->generated += from->generated;
  to->prefill += from->prefill;
  to->shared += from->shared;
  to->kv_used = MAX (to->kv_used, from->kv_used);
  to->running = MAX (to->running, from->running);
  to->queued = MAX (to->queued, from->queued);
  to->seconds += from->seconds;
  to->limit += from->limit;
}

static void
fill_sequence (PlumbBatch *batch, const PlumbCompletions *a, int s, gsize i, guint64 version)
{
  struct plumb_experience *e = batch->experience;
  GArray *prompt = batch->data[s / batch->samples]->prompt_ids;
  int first = e->offsets[s], at = first + (int) prompt->len;
  memcpy (e->ids + first, prompt->data, prompt->len * sizeof (gint32));
  for (int t = a->offsets[i]; t < a->offsets[i + 1]; t++, at++)
    {
      e->ids[at] = a->ids[t];
      e->mask[at] = !a->mask || a->mask[t];
      e->rollout_logp[at] = a->log_probs[t];
      e->version[at] = a->versions ? a->versions[t] : (gint32) version;
    }
  e->group[s] = s / batch->samples;
  e->truncated[s] = a->finish[i] == PLUMB_FINISH_LENGTH;
  batch->finish[s] = a->finish[i];
}

gboolean
plumb_batch_fill (PlumbRun *run, PlumbBatch *batch, const PlumbCompletions *a, GError **error)
{
  int n = batch->prompts * batch->samples, tokens = 0;
  g_autofree gsize *place = g_new (gsize, n);
  g_autofree gboolean *seen = g_new0 (gboolean, n);
  g_autoptr (GHashTable) by_ordinal = g_hash_table_new (g_int64_hash, g_int64_equal);
  for (int p = 0; p < batch->prompts; p++)
    g_hash_table_insert (by_ordinal, &batch->ordinals[p], GINT_TO_POINTER (p + 1));
  for (gsize i = 0; i < a->n; i++)
    {
      int p = GPOINTER_TO_INT (g_hash_table_lookup (by_ordinal, &a->ordinals[i])) - 1;
      int s = p >= 0 && a->samples[i] >= 0 && a->samples[i] < batch->samples
                  ? p * batch->samples + a->samples[i]
                  : -1;
      if (s < 0 || seen[s] || a->offsets[i + 1] <= a->offsets[i])
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                       "the worker returned a completion that was not asked for, or twice");
          return FALSE;
        }
      seen[s] = TRUE;
      place[s] = i;
    }
  for (int s = 0; s < n; s++)
    tokens += (int) batch->data[s / batch->samples]->prompt_ids->len + a->offsets[place[s] + 1]
              - a->offsets[place[s]];
  batch->experience = plumb_experience_new (n, tokens);
  batch->finish = g_new0 (gint32, n);
  for (int s = 0, at = 0; s < n; s++)
    {
      batch->experience->offsets[s] = at;
      at += (int) batch->data[s / batch->samples]->prompt_ids->len + a->offsets[place[s] + 1]
            - a->offsets[place[s]];
      batch->experience->offsets[s + 1] = at;
      fill_sequence (batch, a, s, place[s], plumb_crew_version (run->crew));
    }
  return TRUE;
}

/* Groups first .. last-1 as one batch; they are emptied. */
static PlumbBatch *
gather (PlumbBatch **groups, int first, int last)
{
  if (last - first == 1)
    return g_steal_pointer (&groups[first]);
  PlumbBatch *left = gather (groups, first, (first + last) / 2);
  g_autoptr (PlumbBatch) right = gather (groups, (first + last) / 2, last);
  g_autofree int *all = g_new (int, right->prompts + 1);
  for (int i = 0; i < right->prompts; i++)
    all[i] = i;
  plumb_batch_take (left, right, all, right->prompts);
  return left;
}

PlumbBatch *
plumb_batch_gather (PlumbBatch **groups, int n)
{
  return gather (groups, 0, n);
}

PlumbBatch *
plumb_run_generate (PlumbRun *run, const PlumbAsk *ask, GError **error)
{
  g_autoptr (PlumbBatch) batch = g_new0 (PlumbBatch, 1);
  batch->prompts = ask->prompts;
  batch->samples = ask->samples;
  batch->early = ask->early;
  batch->data = g_new0 (PlumbDataRow *, ask->prompts);
  batch->ordinals = g_new (gint64, ask->prompts);
  for (int p = 0; p < ask->prompts; p++)
    {
      batch->ordinals[p] = ask->first_ordinal + p;
      batch->data[p] = plumb_data_set_get (ask->set, ask->rows[p], error);
      if (!batch->data[p])
        return NULL;
    }
  g_auto (PlumbPrompts) prompts = { 0 };
  g_auto (PlumbCompletions) completions = { 0 };
  plumb_prompts_init (&prompts, ask->samples);
  for (int p = 0; p < ask->prompts; p++)
    plumb_prompts_add (&prompts, (gpointer) batch->data[p]->prompt_ids->data, batch->data[p]->prompt_ids->len,
                       batch->ordinals[p], 0);
  plumb_run_begin_phase (run, "generate");
  if (!plumb_run_complete (run, &prompts, ask, batch, &completions, error)
      || !plumb_batch_fill (run, batch, &completions, error)
      || (run->environment && !plumb_run_play (run, ask, batch, error)))
    return NULL;
  plumb_run_begin_phase (run, "score");
  gboolean ok = plumb_batch_score (run, batch, error);
  if (ok)
    plumb_run_end_phase (run);
  return ok ? g_steal_pointer (&batch) : NULL;
}
