/* SPDX-License-Identifier: Apache-2.0 */

/* Several turns with an environment. It is a program of the user: for each turn it gets the line
 *   {"id", "turn", "prompt", "answer", "action"}
 * and answers {"observation": text, "done": bool, "reward": number}, each of which may be left out, or
 * {"failed": "why"}. Tokens in, tokens out: an answer is never tokenised again; an observation becomes tokens that do
 * not count. The rewards of the turns are added. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/run/episode.h"

static void
append (PlumbEpisode *self, gint32 id, guint8 mask, float log_prob, gint32 version)
{
  g_array_append_val (self->ids, id);
  g_array_append_val (self->mask, mask);
  g_array_append_val (self->log_probs, log_prob);
  g_array_append_val (self->versions, version);
}

void
plumb_episode_init (PlumbEpisode *self, const PlumbDataRow *row)
{
  *self = (PlumbEpisode){ .ids = g_array_new (FALSE, FALSE, sizeof (gint32)),
                          .mask = g_array_new (FALSE, FALSE, sizeof (guint8)),
                          .log_probs = g_array_new (FALSE, FALSE, sizeof (float)),
                          .versions = g_array_new (FALSE, FALSE, sizeof (gint32)) };
  for (guint i = 0; i < row->prompt_ids->len; i++)
    append (self, g_array_index (row->prompt_ids, gint32, i), 0, 0, 0);
}

void
plumb_episode_clear (PlumbEpisode *self)
{
  g_clear_pointer (&self->ids, g_array_unref);
  g_clear_pointer (&self->mask, g_array_unref);
  g_clear_pointer (&self->log_probs, g_array_unref);
  g_clear_pointer (&self->versions, g_array_unref);
  plumb_reward_score_clear (&self->score);
}

void
plumb_episode_answer (PlumbEpisode *self, gsize n, const gint32 *ids, const float *log_probs, const gint32 *versions,
                      gint32 version, gint32 finish)
{
  self->action = self->ids->len;
  self->finish = finish;
  self->turn++;
  for (gsize t = 0; t < n; t++)
    append (self, ids[t], 1, log_probs[t], versions ? versions[t] : version);
}

static char *
request_line (const PlumbDataRow *row, gint64 id, int turn, const char *action)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "id");
  json_builder_add_int_value (builder, id);
  json_builder_set_member_name (builder, "turn");
  json_builder_add_int_value (builder, turn);
  json_builder_set_member_name (builder, "prompt");
  json_builder_add_string_value (builder, row->prompt);
  json_builder_set_member_name (builder, "answer");
  if (row->answer)
    json_builder_add_string_value (builder, row->answer);
  else
    json_builder_add_null_value (builder);
  json_builder_set_member_name (builder, "action");
  json_builder_add_string_value (builder, action);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

char *
plumb_episode_request (PlumbRun *run, const PlumbEpisode *self, const PlumbDataRow *row, gint64 id, GError **error)
{
  g_autofree char *action = plumb_tokenizer_decode_after (
      run->tokenizer, (gpointer) self->ids->data, self->action, &g_array_index (self->ids, gint32, self->action),
      self->ids->len - self->action, TRUE, error);
  return action ? request_line (row, id, self->turn, action) : NULL;
}

/* What the environment said to a turn. */
typedef struct
{
  char *observation; /* NULL: nothing */
  gboolean done;
  double reward;
} Reply;

static void
reply_clear (Reply *reply)
{
  g_free (reply->observation);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reply, reply_clear)

/* NULL, or why it is no reply (transfer full). */
static char *
read_reply (const char *line, Reply *reply)
{
  g_autoptr (JsonNode) root = json_from_string (line, NULL);
  JsonObject *object = root && JSON_NODE_HOLDS_OBJECT (root) ? json_node_get_object (root) : NULL;
  if (!object)
    return g_strdup_printf ("environment: \"%.60s\" is no JSON object", line);
  const char *failed = plumb_json_node_text (json_object_get_member (object, "failed"));
  if (failed)
    return g_strdup_printf ("environment: %s", failed);
  reply->observation = g_strdup (plumb_json_node_text (json_object_get_member (object, "observation")));
  reply->done = json_object_get_boolean_member_with_default (object, "done", FALSE);
  reply->reward = json_object_get_double_member_with_default (object, "reward", 0);
  if (!isfinite (reply->reward))
    return g_strdup ("environment: its reward is not finite");
  return NULL;
}

/* Adds the observation; the episode is over where there is no room for it and an answer. */
static gboolean
take_observation (PlumbRun *run, PlumbEpisode *self, const char *observation, GError **error)
{
  gint64 longest = plumb_spec_get_integer (run->spec, "model.max_length");
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (observation && !plumb_tokenizer_encode (run->tokenizer, observation, -1, FALSE, ids, error))
    return FALSE;
  if (self->ids->len + ids->len + 1 >= (gsize) longest)
    {
      self->over = TRUE;
      return TRUE;
    }
  for (guint i = 0; i < ids->len; i++)
    append (self, g_array_index (ids, gint32, i), 0, 0, 0);
  return TRUE;
}

gboolean
plumb_episode_hear (PlumbRun *run, PlumbEpisode *self, const char *line, char *problem, GError **error)
{
  g_auto (Reply) reply = { 0 };
  g_autofree char *owned = problem;
  char *reason = owned ? g_strdup_printf ("environment: %s", owned) : read_reply (line, &reply);
  self->over = reason || reply.done;
  if (reason)
    {
      self->score.failed = TRUE;
      g_free (self->score.reason);
      self->score.reason = reason;
      return TRUE;
    }
  self->score.value += reply.reward;
  /* After the last turn nothing would be made of what it says. */
  self->over = self->over || self->turn >= plumb_spec_get_integer (run->spec, "rollout.environment.max_turns");
  return self->over || take_observation (run, self, reply.observation, error);
}

/* One turn of one sample: the environment hears the answer and speaks. */
static gboolean
step (PlumbRun *run, const PlumbBatch *batch, int s, PlumbEpisode *self, GError **error)
{
  g_autoptr (GString) answer = g_string_new (NULL);
  gint64 id = batch->ordinals[s / batch->samples] * batch->samples + s % batch->samples;
  g_autofree char *line = plumb_episode_request (run, self, batch->data[s / batch->samples], id, error);
  if (!line)
    return FALSE;
  char *problem = plumb_line_program_ask (run->environment, line, answer, NULL);
  return plumb_episode_hear (run, self, answer->str, problem, error);
}

/* The episodes after their first answers. */
static GArray *
episodes_of (const PlumbBatch *batch)
{
  const struct plumb_experience *e = batch->experience;
  GArray *episodes = g_array_sized_new (FALSE, TRUE, sizeof (PlumbEpisode), (guint) e->sequences);
  g_array_set_clear_func (episodes, (GDestroyNotify) plumb_episode_clear);
  for (int s = 0; s < e->sequences; s++)
    {
      PlumbEpisode self;
      const PlumbDataRow *row = batch->data[s / batch->samples];
      int first = e->offsets[s] + (int) row->prompt_ids->len;
      plumb_episode_init (&self, row);
      plumb_episode_answer (&self, (gsize) (e->offsets[s + 1] - first), e->ids + first, e->rollout_logp + first,
                            e->version + first, 0, batch->finish[s]);
      g_array_append_val (episodes, self);
    }
  return episodes;
}

/* The model answers again where an episode goes on. */
static gboolean
answer_again (PlumbRun *run, const PlumbAsk *ask, PlumbBatch *batch, GArray *episodes, GError **error)
{
  g_auto (PlumbPrompts) prompts = { 0 };
  g_auto (PlumbCompletions) found = { 0 };
  g_autoptr (GHashTable) places = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gint32 version = (gint32) plumb_crew_version (run->crew);
  plumb_prompts_init (&prompts, 1);
  for (guint s = 0; s < episodes->len; s++)
    {
      PlumbEpisode *self = &g_array_index (episodes, PlumbEpisode, s);
      gint64 ordinal = batch->ordinals[s / (guint) batch->samples];
      gint32 sample = (gint32) (s % (guint) batch->samples);
      if (self->over)
        continue;
      plumb_prompts_add (&prompts, (gpointer) self->ids->data, self->ids->len, ordinal, sample);
      g_hash_table_insert (places, g_strdup_printf ("%" G_GINT64_FORMAT "/%d", ordinal, sample), self);
    }
  if (prompts.ordinals->len == 0)
    return TRUE;
  if (!plumb_run_complete (run, &prompts, ask, batch, &found, error))
    return FALSE;
  for (gsize i = 0; i < found.n; i++)
    {
      g_autofree char *key = g_strdup_printf ("%" G_GINT64_FORMAT "/%d", found.ordinals[i], found.samples[i]);
      PlumbEpisode *self = g_hash_table_lookup (places, key);
      if (!self || found.offsets[i + 1] <= found.offsets[i] || !g_hash_table_remove (places, key))
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                       "the worker returned an answer that was not asked for, or twice");
          return FALSE;
        }
      int first = found.offsets[i];
      plumb_episode_answer (self, (gsize) (found.offsets[i + 1] - first), found.ids + first, found.log_probs + first, NULL,
                            version, found.finish[i]);
    }
  return TRUE;
}

/* The batch's experience as the episodes left it. */
static void
rebuild (PlumbBatch *batch, GArray *episodes)
{
  int tokens = 0, n = (int) episodes->len;
  for (int s = 0; s < n; s++)
    tokens += (int) g_array_index (episodes, PlumbEpisode, s).ids->len;
  struct plumb_experience *e = plumb_experience_new (n, tokens);
  for (int s = 0; s < n; s++)
    {
      PlumbEpisode *self = &g_array_index (episodes, PlumbEpisode, s);
      int at = e->offsets[s];
      gsize length = self->ids->len;
      memcpy (e->ids + at, self->ids->data, length * sizeof *e->ids);
      memcpy (e->mask + at, self->mask->data, length);
      memcpy (e->rollout_logp + at, self->log_probs->data, length * sizeof *e->rollout_logp);
      memcpy (e->version + at, self->versions->data, length * sizeof *e->version);
      e->offsets[s + 1] = at + (int) length;
      e->group[s] = s / batch->samples;
      e->truncated[s] = self->finish == PLUMB_FINISH_LENGTH;
      batch->finish[s] = self->finish;
      batch->episodes[s] = self->score;
      self->score = (PlumbRewardScore){ 0 };
    }
  plumb_experience_free (batch->experience);
  batch->experience = e;
}

gboolean
plumb_run_play (PlumbRun *run, const PlumbAsk *ask, PlumbBatch *batch, GError **error)
{
  gint64 turns = plumb_spec_get_integer (run->spec, "rollout.environment.max_turns");
  g_autoptr (GArray) episodes = episodes_of (batch);
  gboolean any = TRUE;
  batch->episodes = g_new0 (PlumbRewardScore, episodes->len + 1);
  for (int turn = 1; any && turn <= turns; turn++)
    {
      any = FALSE;
      for (guint s = 0; s < episodes->len; s++)
        {
          PlumbEpisode *self = &g_array_index (episodes, PlumbEpisode, s);
          if (self->over)
            continue;
          if (!step (run, batch, (int) s, self, error))
            return FALSE;
          any = any || !self->over;
          if (!plumb_run_tick (run, s, episodes->len))
            {
              g_set_error (error, PLUMB_ERROR, PLUMB_EXIT_INTERRUPTED, "interrupted");
              return FALSE;
            }
        }
      if (any && !answer_again (run, ask, batch, episodes, error))
        return FALSE;
    }
  rebuild (batch, episodes);
  return TRUE;
}
