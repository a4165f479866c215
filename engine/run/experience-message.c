/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"

void
plumb_body_add_experience (GVariantDict *body, const struct plumb_experience *e, gboolean targets)
{
  gsize n = (gsize) e->tokens;
  plumb_body_add_array (body, "offsets", e->offsets, (gsize) e->sequences + 1, sizeof *e->offsets);
  plumb_body_add_array (body, "ids", e->ids, n, sizeof *e->ids);
  plumb_body_add_array (body, "mask", e->mask, n, sizeof *e->mask);
  if (!targets)
    return;
  plumb_body_add_array (body, "old", e->old_logp, n, sizeof *e->old_logp);
  plumb_body_add_array (body, "reference", e->reference_logp, n, sizeof *e->reference_logp);
  plumb_body_add_array (body, "advantage", e->advantage, n, sizeof *e->advantage);
}

static gboolean
copy_array (GVariant *body, const char *key, void *to, gsize n, gsize size)
{
  gsize found = 0;
  const void *data = plumb_body_get_array (body, key, size, &found);
  if (!data)
    return TRUE; /* not sent: stays zero */
  if (found != n)
    return FALSE;
  memcpy (to, data, n * size);
  return TRUE;
}

static gboolean
offsets_grow (const gint32 *offsets, gsize n, gsize tokens)
{
  for (gsize i = 1; i < n; i++)
    if (offsets[i] < offsets[i - 1])
      return FALSE;
  return n > 0 && offsets[0] == 0 && (gsize) offsets[n - 1] == tokens;
}

struct plumb_experience *
plumb_body_get_experience (GVariant *body, GError **error)
{
  gsize ends = 0, tokens = 0;
  const void *raw = plumb_body_get_array (body, "offsets", sizeof (gint32), &ends);
  const void *ids = plumb_body_get_array (body, "ids", sizeof (gint32), &tokens);
  gint32 *offsets = raw ? g_memdup2 (raw, ends * sizeof (gint32)) : NULL;
  struct plumb_experience *e = NULL;
  if (raw && ids && tokens < G_MAXINT && ends > 0 && ends < G_MAXINT && offsets_grow (offsets, ends, tokens))
    e = plumb_experience_new ((int) ends - 1, (int) tokens);
  if (e)
    {
      memcpy (e->offsets, offsets, ends * sizeof (gint32));
      memcpy (e->ids, ids, tokens * sizeof (gint32));
    }
  g_free (offsets);
  if (e && copy_array (body, "mask", e->mask, tokens, sizeof *e->mask)
      && copy_array (body, "old", e->old_logp, tokens, sizeof *e->old_logp)
      && copy_array (body, "reference", e->reference_logp, tokens, sizeof *e->reference_logp)
      && copy_array (body, "advantage", e->advantage, tokens, sizeof *e->advantage))
    return e;
  plumb_experience_free (e);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a message holds a batch whose arrays do not fit");
  return NULL;
}

struct plumb_experience *
plumb_experience_select (const struct plumb_experience *e, const int *sequences, int n)
{
  int tokens = 0;
  for (int i = 0; i < n; i++)
    tokens += e->offsets[sequences[i] + 1] - e->offsets[sequences[i]];
  struct plumb_experience *part = plumb_experience_new (n, tokens);
  for (int i = 0, at = 0; i < n; i++)
    {
      int s = sequences[i], first = e->offsets[s];
      gsize length = (gsize) (e->offsets[s + 1] - first);
      memcpy (part->ids + at, e->ids + first, length * sizeof *e->ids);
      memcpy (part->mask + at, e->mask + first, length * sizeof *e->mask);
      memcpy (part->rollout_logp + at, e->rollout_logp + first, length * sizeof *e->rollout_logp);
      memcpy (part->old_logp + at, e->old_logp + first, length * sizeof *e->old_logp);
      memcpy (part->reference_logp + at, e->reference_logp + first, length * sizeof *e->reference_logp);
      memcpy (part->entropy + at, e->entropy + first, length * sizeof *e->entropy);
      memcpy (part->advantage + at, e->advantage + first, length * sizeof *e->advantage);
      part->reward[i] = e->reward[s];
      part->scored[i] = e->scored[s];
      part->truncated[i] = e->truncated[s];
      part->group[i] = e->group[s];
      at += (int) length;
      part->offsets[i + 1] = at;
    }
  return part;
}
