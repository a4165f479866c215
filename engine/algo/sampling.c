/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/sampling.h"

#include <math.h>   // defines: exp, INFINITY
#include <stdlib.h> // defines: calloc, free, malloc, qsort

struct entry
{
  double probability;
  int index;
};

static int
by_probability (const void *a, const void *b)
{
  const struct entry *p = a, *q = b;
  if (p->probability != q->probability)
    return p->probability < q->probability ? 1 : -1;
  return p->index - q->index;
}

int
plumb_sampling_is_filtered (const struct plumb_sampling_options *o)
{
  return o->repetition_penalty != 1 || o->top_k > 0 || o->top_p < 1 || o->min_p > 0;
}

/* Each id of the context counts once. */
static int
penalize (int n, double *scores, const int32_t *context, int n_context, double penalty)
{
  char *seen = calloc ((size_t) n, 1);
  if (!seen)
    return -1;
  for (int i = 0; i < n_context; i++)
    {
      int32_t id = context[i];
      if (id < 0 || id >= n || seen[id])
        continue;
      seen[id] = 1;
      scores[id] = scores[id] < 0 ? scores[id] * penalty : scores[id] / penalty;
    }
  free (seen);
  return 0;
}

static void
softmax (int n, double *scores)
{
  double greatest = -INFINITY, sum = 0;
  for (int i = 0; i < n; i++)
    greatest = scores[i] > greatest ? scores[i] : greatest;
  for (int i = 0; i < n; i++)
    sum += scores[i] = exp (scores[i] - greatest);
  for (int i = 0; i < n; i++)
    scores[i] /= sum;
}

static void
rescale (int n, double *probabilities)
{
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += probabilities[i];
  for (int i = 0; i < n; i++)
    probabilities[i] /= sum;
}

/* Zeroes what the filters leave out; entries are sorted from the most probable on. */
static void
filter_top (const struct plumb_sampling_options *o, int n, const struct entry *entries, double *probabilities)
{
  int kept = o->top_k > 0 && o->top_k < n ? o->top_k : n;
  while (kept < n && entries[kept].probability == entries[kept - 1].probability)
    kept++;
  double mass = 0, whole = 0;
  for (int i = 0; i < kept; i++)
    whole += entries[i].probability;
  for (int i = 0; i < n; i++)
    {
      if (i >= kept || (i > 0 && o->top_p < 1 && mass >= o->top_p * whole))
        probabilities[entries[i].index] = 0;
      mass += entries[i].probability;
    }
  rescale (n, probabilities);
}

static void
filter_least (int n, double *probabilities, double min_p)
{
  double greatest = 0;
  for (int i = 0; i < n; i++)
    greatest = probabilities[i] > greatest ? probabilities[i] : greatest;
  for (int i = 0; i < n; i++)
    if (probabilities[i] < min_p * greatest)
      probabilities[i] = 0;
  rescale (n, probabilities);
}

int
plumb_sampling_distribution (const struct plumb_sampling_options *o, int n, const float *logits,
                             const int32_t *context, int n_context, double *probabilities)
{
  for (int i = 0; i < n; i++)
    probabilities[i] = logits[i];
  if (o->repetition_penalty != 1 && penalize (n, probabilities, context, n_context, o->repetition_penalty))
    return -1;
  for (int i = 0; i < n; i++)
    probabilities[i] /= o->temperature;
  softmax (n, probabilities);
  if (o->top_k > 0 || o->top_p < 1)
    {
      struct entry *entries = malloc ((size_t) n * sizeof *entries);
      if (!entries)
        return -1;
      for (int i = 0; i < n; i++)
        entries[i] = (struct entry){ probabilities[i], i };
      qsort (entries, (size_t) n, sizeof *entries, by_probability);
      filter_top (o, n, entries, probabilities);
      free (entries);
    }
  if (o->min_p > 0)
    filter_least (n, probabilities, o->min_p);
  return 0;
}
