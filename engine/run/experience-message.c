/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"

/* The arrays that a batch brings to the trainer beside its tokens; entries per token, or per sequence. */
typedef struct
{
  const char *key;
  gsize offset; /* of the pointer in struct plumb_experience */
  gsize size;   /* of an entry */
  gboolean per_sequence;
} Array;

#define ARRAY(key, member, per_sequence)                                                                     \
  { key, G_STRUCT_OFFSET (struct plumb_experience, member), sizeof *((struct plumb_experience *) 0)->member, \
    per_sequence }

static const Array arrays[] = {
  ARRAY ("mask", mask, FALSE),
  ARRAY ("rollout", rollout_logp, FALSE),
  ARRAY ("old", old_logp, FALSE),
  ARRAY ("reference", reference_logp, FALSE),
  ARRAY ("value", value, FALSE),
  ARRAY ("advantage", advantage, FALSE),
  ARRAY ("returns", returns, FALSE),
  ARRAY ("margin", margin, TRUE),
  ARRAY ("desirable", desirable, TRUE),
};

static gsize
entries (const Array *array, const struct plumb_experience *e)
{
  return (gsize) (array->per_sequence ? e->sequences : e->tokens);
}

void
plumb_body_add_experience (GVariantDict *body, const struct plumb_experience *e, gboolean targets)
{
  plumb_body_add_array (body, "offsets", e->offsets, (gsize) e->sequences + 1, sizeof *e->offsets);
  plumb_body_add_array (body, "ids", e->ids, (gsize) e->tokens, sizeof *e->ids);
  for (gsize i = 0; i < (targets ? G_N_ELEMENTS (arrays) : 1); i++)
    plumb_body_add_array (body, arrays[i].key, G_STRUCT_MEMBER (void *, e, arrays[i].offset),
                          entries (&arrays[i], e), arrays[i].size);
}

/* What was not sent stays zero. */
static gboolean
copy_arrays (GVariant *body, struct plumb_experience *e)
{
  for (gsize i = 0; i < G_N_ELEMENTS (arrays); i++)
    {
      gsize found = 0;
      const void *data = plumb_body_get_array (body, arrays[i].key, arrays[i].size, &found);
      if (data && found != entries (&arrays[i], e))
        return FALSE;
      if (data)
        memcpy (G_STRUCT_MEMBER (void *, e, arrays[i].offset), data, found * arrays[i].size);
    }
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
  if (e && copy_arrays (body, e))
    return e;
  plumb_experience_free (e);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a message holds a batch whose arrays do not fit");
  return NULL;
}

/* Copies sequence s of `e` to place i of `to`, whose earlier sequences are filled. */
static void
copy_sequence (struct plumb_experience *to, int i, const struct plumb_experience *e, int s)
{
  int at = to->offsets[i], first = e->offsets[s];
  gsize length = (gsize) (e->offsets[s + 1] - first);
  memcpy (to->ids + at, e->ids + first, length * sizeof *e->ids);
  memcpy (to->mask + at, e->mask + first, length * sizeof *e->mask);
  memcpy (to->rollout_logp + at, e->rollout_logp + first, length * sizeof *e->rollout_logp);
  memcpy (to->old_logp + at, e->old_logp + first, length * sizeof *e->old_logp);
  memcpy (to->reference_logp + at, e->reference_logp + first, length * sizeof *e->reference_logp);
  memcpy (to->entropy + at, e->entropy + first, length * sizeof *e->entropy);
  memcpy (to->value + at, e->value + first, length * sizeof *e->value);
  memcpy (to->advantage + at, e->advantage + first, length * sizeof *e->advantage);
  memcpy (to->returns + at, e->returns + first, length * sizeof *e->returns);
  memcpy (to->version + at, e->version + first, length * sizeof *e->version);
  to->reward[i] = e->reward[s];
  to->baseline[i] = e->baseline[s];
  to->margin[i] = e->margin[s];
  to->desirable[i] = e->desirable[s];
  to->scored[i] = e->scored[s];
  to->truncated[i] = e->truncated[s];
  to->group[i] = e->group[s];
  to->offsets[i + 1] = at + (int) length;
}

struct plumb_experience *
plumb_experience_select (const struct plumb_experience *e, const int *sequences, int n)
{
  int tokens = 0;
  for (int i = 0; i < n; i++)
    tokens += e->offsets[sequences[i] + 1] - e->offsets[sequences[i]];
  struct plumb_experience *part = plumb_experience_new (n, tokens);
  for (int i = 0; i < n; i++)
    copy_sequence (part, i, e, sequences[i]);
  return part;
}

struct plumb_experience *
plumb_experience_join (const struct plumb_experience *first, const struct plumb_experience *second)
{
  struct plumb_experience *whole
      = plumb_experience_new (first->sequences + second->sequences, first->tokens + second->tokens);
  for (int s = 0; s < first->sequences; s++)
    copy_sequence (whole, s, first, s);
  for (int s = 0; s < second->sequences; s++)
    copy_sequence (whole, first->sequences + s, second, s);
  return whole;
}
