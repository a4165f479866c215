/* SPDX-License-Identifier: Apache-2.0 */
/* All completions of a step at once: threads take the next one until none is left. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include "engine/reward/batch.h"

#define PROGRESS_MS 100 /* between calls of the progress function */

typedef struct
{
  PlumbReward *reward;
  PlumbRewardBatch *batch;
  gsize next, done;
  gboolean stopped;
  guint running; /* threads */
  GMutex mutex;
  GCond changed;
} Work;

static void
score_one (Work *work, gsize i)
{
  PlumbRewardBatch *batch = work->batch;
  guint n_parts = plumb_reward_n_parts (work->reward);
  gint64 start = g_get_monotonic_time ();

  plumb_reward_score (work->reward, &batch->inputs[i], &batch->scores[i],
                      batch->parts != NULL ? batch->parts + i * n_parts : NULL);
  if (batch->seconds != NULL)
    batch->seconds[i] = (double)(g_get_monotonic_time () - start) / G_USEC_PER_SEC;
}

static gpointer
take_turns (gpointer data)
{
  Work *work = data;

  g_mutex_lock (&work->mutex);
  while (!work->stopped && work->next < work->batch->n)
    {
      gsize i = work->next++;

      g_mutex_unlock (&work->mutex);
      score_one (work, i);
      g_mutex_lock (&work->mutex);
      work->done++;
      g_cond_signal (&work->changed);
    }
  work->running--;
  g_cond_signal (&work->changed);
  g_mutex_unlock (&work->mutex);
  return NULL;
}

/* Until all threads have ended; the mutex is held. */
static void
attend (Work *work, PlumbRewardProgress progress, gpointer data)
{
  while (work->running > 0)
    {
      gsize done = work->done;
      gboolean go_on = TRUE;

      g_cond_wait_until (&work->changed, &work->mutex,
                         g_get_monotonic_time () + PROGRESS_MS * G_TIME_SPAN_MILLISECOND);
      if (progress == NULL || work->stopped)
        continue;
      g_mutex_unlock (&work->mutex);
      go_on = progress (data, MAX (done, 1), work->batch->n);
      if (!go_on)
        plumb_reward_cancel (work->reward);
      g_mutex_lock (&work->mutex);
      work->stopped |= !go_on;
    }
}

gboolean
plumb_reward_score_batch (PlumbReward *reward,
                          PlumbRewardBatch *batch,
                          PlumbRewardProgress progress,
                          gpointer data)
{
  Work work = { .reward = reward, .batch = batch };
  guint n_threads = MIN (plumb_reward_width (reward), batch->n);
  g_autofree GThread **threads = g_new0 (GThread *, n_threads + 1);

  g_mutex_init (&work.mutex);
  g_cond_init (&work.changed);
  g_mutex_lock (&work.mutex);
  work.running = n_threads;
  for (guint i = 0; i < n_threads; i++)
    {
      threads[i] = g_thread_try_new ("reward", take_turns, &work, NULL);
      work.running -= threads[i] == NULL;
    }
  attend (&work, progress, data);
  g_mutex_unlock (&work.mutex);
  for (guint i = 0; i < n_threads; i++)
    if (threads[i] != NULL)
      g_thread_join (threads[i]);
  while (!work.stopped && work.next < batch->n) /* no thread could be had */
    score_one (&work, work.next++);
  g_mutex_clear (&work.mutex);
  g_cond_clear (&work.changed);
  return !work.stopped;
}

static int
compare_numbers (gconstpointer a, gconstpointer b)
{
  const double *left = a, *right = b;

  return (*left > *right) - (*left < *right);
}

double
plumb_reward_quantile (const double *seconds, gsize n, double share)
{
  g_autofree double *sorted = g_memdup2 (seconds, n * sizeof (double));

  if (n == 0)
    return NAN;
  qsort (sorted, n, sizeof (double), compare_numbers);
  return sorted[MIN ((gsize)ceil (share * n), n) - (share > 0)];
}

/* What a reason says of its kind: numbers and quotations in it differ from call to call. */
static char *
kind_of (const char *reason)
{
  g_autoptr (GString) kind = g_string_new (NULL);

  for (const char *c = reason; *c != '\0' && kind->len < 160; c = g_utf8_next_char (c))
    if (!g_ascii_isdigit (*c))
      g_string_append_unichar (kind, g_utf8_get_char (c));
    else if (kind->len == 0 || kind->str[kind->len - 1] != '#')
      g_string_append_c (kind, '#');
  return g_string_free (g_steal_pointer (&kind), FALSE);
}

static int
compare_failures (gconstpointer a, gconstpointer b)
{
  const PlumbRewardFailure *left = *(PlumbRewardFailure *const *)a;
  const PlumbRewardFailure *right = *(PlumbRewardFailure *const *)b;

  return (left->count < right->count) - (left->count > right->count);
}

static void
free_failure (gpointer data)
{
  PlumbRewardFailure *failure = data;

  g_free (failure->kind);
  g_free (failure->example);
  g_free (failure);
}

GPtrArray *
plumb_reward_failures (const PlumbRewardScore *scores, gsize n)
{
  GPtrArray *failures = g_ptr_array_new_with_free_func (free_failure);
  g_autoptr (GHashTable) kinds = g_hash_table_new (g_str_hash, g_str_equal);

  for (gsize i = 0; i < n; i++)
    {
      g_autofree char *kind = NULL;
      PlumbRewardFailure *failure;

      if (!scores[i].failed)
        continue;
      kind = kind_of (scores[i].reason != NULL ? scores[i].reason : "no reason was given");
      failure = g_hash_table_lookup (kinds, kind);
      if (failure == NULL)
        {
          failure = g_new0 (PlumbRewardFailure, 1);
          failure->kind = g_steal_pointer (&kind);
          failure->example = g_strdup (scores[i].reason != NULL ? scores[i].reason : failure->kind);
          g_hash_table_insert (kinds, failure->kind, failure);
          g_ptr_array_add (failures, failure);
        }
      failure->count++;
    }
  g_ptr_array_sort (failures, compare_failures);
  return failures;
}
