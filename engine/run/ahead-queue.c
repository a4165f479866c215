/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/run/ahead-queue.h"

#define MOST_GROUPS (1 << 24)

static void
group_clear (PlumbAheadGroup *group)
{
  plumb_completions_clear (&group->completions);
  for (int i = 0; i < group->n_episodes; i++)
    plumb_reward_score_clear (&group->episodes[i]);
  group->n_episodes = 0;
  g_clear_pointer (&group->episodes, g_free);
  g_clear_pointer (&group->play, plumb_ahead_play_free);
  g_clear_pointer (&group->score, plumb_ahead_score_drop);
}

static void
group_free (gpointer data)
{
  group_clear (data);
  g_free (data);
}

PlumbAheadQueue *
plumb_ahead_queue_new (int samples, int vocabulary)
{
  PlumbAheadQueue *self = g_new0 (PlumbAheadQueue, 1);
  self->groups = g_ptr_array_new_with_free_func (group_free);
  self->samples = samples;
  self->vocabulary = vocabulary;
  return self;
}

void
plumb_ahead_queue_free (PlumbAheadQueue *self)
{
  if (!self)
    return;
  g_ptr_array_unref (self->groups);
  g_free (self);
}

PlumbAheadGroup *
plumb_ahead_queue_push (PlumbAheadQueue *self, gint64 ordinal, guint64 row)
{
  PlumbAheadGroup *group = g_new0 (PlumbAheadGroup, 1);
  group->ordinal = ordinal;
  group->row = row;
  g_ptr_array_add (self->groups, group);
  return group;
}

void
plumb_ahead_queue_forget (PlumbAheadGroup *group)
{
  group_clear (group);
  group->since = 0;
}

static gboolean
fail (GError **error, const char *what)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "what was generated ahead does not fit together: %s", what);
  return FALSE;
}

PlumbAheadGroup *
plumb_ahead_queue_find_waiting (PlumbAheadQueue *self, gint64 ordinal)
{
  PlumbAheadGroup *first = self->groups->len ? plumb_ahead_queue_get (self, 0) : NULL;
  if (!first || ordinal < first->ordinal || ordinal - first->ordinal >= (gint64) self->groups->len)
    return NULL;
  PlumbAheadGroup *group = plumb_ahead_queue_get (self, (guint) (ordinal - first->ordinal));
  return group->completions.n == 0 ? group : NULL;
}

/* Samples 0 .. n-1 of one prompt, each with at least one token. */
static gboolean
check_group (PlumbAheadQueue *self, const PlumbCompletions *all, gsize first)
{
  g_autofree guint8 *seen = g_new0 (guint8, self->samples);
  for (gsize i = first; i < first + (gsize) self->samples; i++)
    {
      gint32 sample = all->samples[i];
      if (all->ordinals[i] != all->ordinals[first] || sample < 0 || sample >= self->samples || seen[sample]
          || all->offsets[i + 1] <= all->offsets[i])
        return FALSE;
      seen[sample] = 1;
    }
  return TRUE;
}

/* What an environment gave, by completion; n 0: there is none. */
typedef struct
{
  gsize n;
  const guint8 *values; /* doubles */
  const char **failures; /* empty: it did not fail */
  GVariant *array;
} Episodes;

static void
episodes_clear (Episodes *e)
{
  g_free (e->failures);
  g_clear_pointer (&e->array, g_variant_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Episodes, episodes_clear)

static void
read_episodes (Episodes *e, GVariant *body)
{
  gsize failures = 0;
  e->values = plumb_body_get_array (body, "episode-values", sizeof (double), &e->n);
  e->array = g_variant_lookup_value (body, "episode-failures", G_VARIANT_TYPE_STRING_ARRAY);
  e->failures = e->array ? g_variant_get_strv (e->array, &failures) : NULL;
  if (!e->values || failures != e->n)
    e->n = 0;
}

static void
take_episodes (PlumbAheadQueue *self, PlumbAheadGroup *group, const Episodes *e, gsize first)
{
  group->n_episodes = self->samples;
  group->episodes = g_new0 (PlumbRewardScore, self->samples + 1);
  for (int s = 0; s < self->samples; s++)
    {
      const char *failure = e->failures[first + (gsize) s];
      memcpy (&group->episodes[s].value, e->values + (first + (gsize) s) * sizeof (double), sizeof (double));
      group->episodes[s].failed = *failure || !isfinite (group->episodes[s].value);
      group->episodes[s].reason = *failure ? g_strdup (failure) : NULL;
    }
}

static void
add_episodes (GVariantDict *dict, const PlumbAheadQueue *self)
{
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (double));
  g_auto (GVariantBuilder) failures = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_STRING_ARRAY);
  for (guint i = 0; i < self->groups->len; i++)
    {
      const PlumbAheadGroup *group = plumb_ahead_queue_get (self, i);
      for (int s = 0; s < group->n_episodes; s++)
        {
          const PlumbRewardScore *score = &group->episodes[s];
          g_array_append_val (values, score->value);
          g_variant_builder_add (&failures, "s", !score->failed ? "" : score->reason ? score->reason : "it failed");
        }
    }
  if (values->len == 0)
    return;
  plumb_body_add_array (dict, "episode-values", values->data, values->len, sizeof (double));
  g_variant_dict_insert_value (dict, "episode-failures", g_variant_builder_end (&failures));
}

gboolean
plumb_ahead_queue_accept (PlumbAheadQueue *self, GVariant *body, GError **error)
{
  g_auto (PlumbCompletions) all = { 0 };
  g_auto (Episodes) scores = { 0 };
  read_episodes (&scores, body);
  if (!plumb_completions_read (&all, body, error))
    return FALSE;
  if (!all.versions || all.n % (gsize) self->samples != 0)
    return fail (error, "groups are not whole");
  for (gsize t = 0; t < (gsize) all.offsets[all.n]; t++)
    if (all.ids[t] < 0 || all.ids[t] >= self->vocabulary || all.versions[t] < 0)
      return fail (error, "a token does not exist");
  for (gsize i = 0; i < all.n; i += (gsize) self->samples)
    {
      if (!check_group (self, &all, i))
        return fail (error, "a group does not hold each sample once");
      PlumbAheadGroup *group = plumb_ahead_queue_find_waiting (self, all.ordinals[i]);
      if (!group)
        continue;
      plumb_completions_slice (&group->completions, &all, i, i + (gsize) self->samples);
      if (all.n == scores.n)
        take_episodes (self, group, &scores, i);
    }
  return TRUE;
}

guint
plumb_ahead_queue_ready (const PlumbAheadQueue *self)
{
  guint n = 0;
  while (n < self->groups->len && plumb_ahead_queue_get (self, n)->completions.n > 0)
    n++;
  return n;
}

guint
plumb_ahead_queue_finished (const PlumbAheadQueue *self)
{
  guint n = 0;
  for (guint i = 0; i < self->groups->len; i++)
    n += plumb_ahead_queue_get (self, i)->completions.n > 0;
  return n;
}

void
plumb_ahead_queue_drop (PlumbAheadQueue *self, guint n)
{
  if (n > 0)
    g_ptr_array_remove_range (self->groups, 0, n);
}

gint32
plumb_ahead_group_version (const PlumbAheadGroup *group)
{
  const PlumbCompletions *c = &group->completions;
  gint32 oldest = G_MAXINT32;
  for (gint32 t = 0; c->n > 0 && t < c->offsets[c->n]; t++)
    if (!c->mask || c->mask[t])
      oldest = MIN (oldest, c->versions[t]);
  return oldest;
}

GBytes *
plumb_ahead_queue_to_bytes (const PlumbAheadQueue *self)
{
  g_auto (PlumbCompletions) all = { 0 };
  g_autoptr (GVariantDict) dict = g_variant_dict_new (NULL);
  guint n = self->groups->len;
  g_autofree guint64 *rows = g_new (guint64, n + 1);
  for (guint i = 0; i < n; i++)
    {
      PlumbAheadGroup *group = plumb_ahead_queue_get (self, i);
      rows[i] = group->row;
      if (group->completions.n > 0)
        plumb_completions_join (&all, &group->completions);
    }
  g_variant_dict_insert (dict, "first", "x", n ? plumb_ahead_queue_get (self, 0)->ordinal : 0);
  g_variant_dict_insert (dict, "samples-each", "i", self->samples);
  plumb_body_add_array (dict, "rows", rows, n, sizeof *rows);
  plumb_body_add_completions (dict, &all);
  add_episodes (dict, self);
  g_autoptr (GVariant) body = g_variant_ref_sink (g_variant_dict_end (dict));
  return g_variant_get_data_as_bytes (body);
}

gboolean
plumb_ahead_queue_from_bytes (PlumbAheadQueue *self, GBytes *bytes, GError **error)
{
  g_autoptr (GVariant) body
      = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE_VARDICT, bytes, FALSE));
  gint64 first = 0;
  gint32 samples = 0;
  gsize n = 0;
  const guint8 *rows = plumb_body_get_array (body, "rows", sizeof (guint64), &n);
  if (!rows || n > MOST_GROUPS || !g_variant_lookup (body, "first", "x", &first) || first < 0
      || first > G_MAXINT64 - MOST_GROUPS || !g_variant_lookup (body, "samples-each", "i", &samples))
    return fail (error, "it is no queue of prompts");
  if (samples != self->samples)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "rollout.samples was %d when completions were generated ahead, and is %d now; set it back, since "
                   "those are part of the checkpoint", samples, self->samples);
      return FALSE;
    }
  for (gsize i = 0; i < n; i++)
    {
      guint64 row;
      memcpy (&row, rows + i * sizeof row, sizeof row);
      plumb_ahead_queue_push (self, first + (gint64) i, row);
    }
  return plumb_ahead_queue_accept (self, body, error);
}
