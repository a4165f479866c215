/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/experience.h"

#include <stdlib.h> // defines: calloc, free

struct plumb_experience *
plumb_experience_new (int sequences, int tokens)
{
  struct plumb_experience *e = calloc (1, sizeof *e);
  if (!e)
    return NULL;
  size_t s = (size_t) sequences + 1, n = (size_t) tokens + 1;
  e->sequences = sequences;
  e->tokens = tokens;
  e->offsets = calloc (s, sizeof *e->offsets);
  e->ids = calloc (n, sizeof *e->ids);
  e->mask = calloc (n, sizeof *e->mask);
  e->rollout_logp = calloc (n, sizeof *e->rollout_logp);
  e->old_logp = calloc (n, sizeof *e->old_logp);
  e->reference_logp = calloc (n, sizeof *e->reference_logp);
  e->entropy = calloc (n, sizeof *e->entropy);
  e->value = calloc (n, sizeof *e->value);
  e->advantage = calloc (n, sizeof *e->advantage);
  e->returns = calloc (n, sizeof *e->returns);
  e->version = calloc (n, sizeof *e->version);
  e->reward = calloc (s, sizeof *e->reward);
  e->baseline = calloc (s, sizeof *e->baseline);
  e->margin = calloc (s, sizeof *e->margin);
  e->desirable = calloc (s, sizeof *e->desirable);
  e->scored = calloc (s, sizeof *e->scored);
  e->truncated = calloc (s, sizeof *e->truncated);
  e->group = calloc (s, sizeof *e->group);
  if (e->offsets && e->ids && e->mask && e->rollout_logp && e->old_logp && e->reference_logp && e->entropy
      && e->value && e->advantage && e->returns && e->version && e->reward && e->baseline && e->margin
      && e->desirable && e->scored && e->truncated && e->group)
    return e;
  plumb_experience_free (e);
  return NULL;
}

void
plumb_experience_free (struct plumb_experience *e)
{
  if (!e)
    return;
  free (e->offsets);
  free (e->ids);
  free (e->mask);
  free (e->rollout_logp);
  free (e->old_logp);
  free (e->reference_logp);
  free (e->entropy);
  free (e->value);
  free (e->advantage);
  free (e->returns);
  free (e->version);
  free (e->reward);
  free (e->baseline);
  free (e->margin);
  free (e->desirable);
  free (e->scored);
  free (e->truncated);
  free (e->group);
  free (e);
}

int
plumb_experience_response_length (const struct plumb_experience *e, int sequence)
{
  int length = 0;
  for (int t = e->offsets[sequence]; t < e->offsets[sequence + 1]; t++)
    length += e->mask[t];
  return length;
}
