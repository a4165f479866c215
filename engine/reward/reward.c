/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <signal.h>

#include "engine/core/error.h"
#include "engine/reward/functions.h"

static const PlumbRewardFunction *const functions[]
    = { &plumb_reward_number, &plumb_reward_exact,  &plumb_reward_regex,
        &plumb_reward_length, &plumb_reward_choice, &plumb_reward_program,
        &plumb_reward_model,  &plumb_reward_code,   &plumb_reward_http,
        &plumb_reward_judge,  &plumb_reward_format, &plumb_reward_json_schema };

#define REMOTE_AT_ONCE 64

typedef struct
{
  const PlumbRewardFunction *function;
  gpointer state;
  double weight;
  guint free; /* calls that may begin */
} Part;

struct _PlumbReward
{
  GArray *parts; /* of Part */
  gint64 parallel; /* 0: as the functions allow */
  GMutex mutex;    /* for `free` */
  GCond freed;
};

void
plumb_reward_score_clear (PlumbRewardScore *score)
{
  g_clear_pointer (&score->reason, g_free);
}

gboolean
plumb_reward_bad_option (
    PlumbSpec *spec, const char *name, const char *option, const char *what, GError **error)
{
  g_autofree char *key = g_strdup_printf ("reward.%s.%s", name, option);
  const char *value = plumb_spec_get_reward_option (spec, name, option);
  guint line;
  const char *file = plumb_spec_place (spec, key, &line);
  g_autofree char *place = file != NULL ? g_strdup_printf ("%s:%u: ", file, line) : g_strdup ("");

  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s[reward %s] %s%s%s: %s", place, name,
               option, value != NULL ? " = " : "", value != NULL ? value : "", what);
  return FALSE;
}

gboolean
plumb_reward_number_option (PlumbSpec *spec,
                            const char *name,
                            const char *option,
                            double least,
                            double otherwise,
                            double *value,
                            GError **error)
{
  const char *text = plumb_spec_get_reward_option (spec, name, option);
  char *end;

  *value = otherwise;
  if (text == NULL)
    return TRUE;
  *value = g_ascii_strtod (text, &end);
  if (*text == '\0' || *end != '\0' || !isfinite (*value) || *value < least)
    return plumb_reward_bad_option (spec, name, option, "this is no usable number", error);
  return TRUE;
}

gboolean
plumb_reward_boolean_option (PlumbSpec *spec,
                             const char *name,
                             const char *option,
                             gboolean otherwise,
                             gboolean *value,
                             GError **error)
{
  const char *text = plumb_spec_get_reward_option (spec, name, option);

  *value = otherwise;
  if (text == NULL)
    return TRUE;
  *value = g_str_equal (text, "yes");
  if (!*value && !g_str_equal (text, "no"))
    return plumb_reward_bad_option (spec, name, option, "write yes or no", error);
  return TRUE;
}

static const PlumbRewardFunction *
find_function (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (functions); i++)
    if (g_str_equal (functions[i]->name, name))
      return functions[i];
  return NULL;
}

static gboolean
check_options (PlumbSpec *spec, const PlumbRewardFunction *function, GError **error)
{
  g_auto (GStrv) options = plumb_spec_list_reward_options (spec, function->name);

  for (gsize i = 0; options[i] != NULL; i++)
    {
      gsize n = g_strv_length ((char **)function->options);
      const char *nearest = plumb_nearest_word (options[i], function->options, n);
      g_autofree char *all = g_strjoinv (", ", (char **)function->options);
      g_autofree char *what = NULL;

      if (g_strv_contains (function->options, options[i]))
        continue;
      if (nearest != NULL)
        what = g_strdup_printf ("there is no such option; did you mean %s?", nearest);
      else
        what = g_strdup_printf ("there is no such option; there are: %s", n > 0 ? all : "none");
      return plumb_reward_bad_option (spec, function->name, options[i], what, error);
    }
  return TRUE;
}

static guint
most_at_once (const PlumbRewardFunction *function)
{
  switch (function->limit)
    {
    case PLUMB_REWARD_ONE:
      return 1;
    case PLUMB_REWARD_REMOTE:
      return REMOTE_AT_ONCE;
    case PLUMB_REWARD_CORES:
      break;
    }
  return g_get_num_processors ();
}

static gboolean
add_part (PlumbReward *reward, PlumbSpec *spec, const char *entry, GError **error)
{
  Part part = { NULL };
  g_autofree char *name = plumb_spec_split_weight (entry, &part.weight);

  part.function = find_function (name);
  if (part.function == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "reward.functions = %s: there is no such reward function", name);
      return FALSE;
    }
  if (!check_options (spec, part.function, error))
    return FALSE;
  if (part.function->open != NULL && !part.function->open (spec, &part.state, error))
    {
      if (part.state != NULL)
        part.function->close (part.state);
      return FALSE;
    }
  part.free = most_at_once (part.function);
  g_array_append_val (reward->parts, part);
  return TRUE;
}

PlumbReward *
plumb_reward_new (PlumbSpec *spec, GError **error)
{
  g_autoptr (PlumbReward) reward = g_new0 (PlumbReward, 1);
  g_auto (GStrv) entries = plumb_spec_get_list (spec, "reward.functions");

  /* A program that has ended must not end the engine when it is written to. */
  signal (SIGPIPE, SIG_IGN);
  reward->parts = g_array_new (FALSE, FALSE, sizeof (Part));
  g_mutex_init (&reward->mutex);
  g_cond_init (&reward->freed);
  if (!plumb_spec_is_auto (spec, "reward.parallel"))
    reward->parallel = plumb_spec_get_integer (spec, "reward.parallel");
  for (gsize i = 0; entries[i] != NULL; i++)
    if (!add_part (reward, spec, entries[i], error))
      return NULL;
  if (reward->parts->len > 0)
    return g_steal_pointer (&reward);
  g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "reward.functions: nothing scores the completions; choose at least one,"
                       " like number");
  return NULL;
}

void
plumb_reward_free (PlumbReward *reward)
{
  for (guint i = 0; i < reward->parts->len; i++)
    {
      const Part *part = &g_array_index (reward->parts, Part, i);

      if (part->function->close != NULL)
        part->function->close (part->state);
    }
  g_array_unref (reward->parts);
  g_mutex_clear (&reward->mutex);
  g_cond_clear (&reward->freed);
  g_free (reward);
}

guint
plumb_reward_width (PlumbReward *reward)
{
  guint width = 1;

  if (reward->parallel > 0)
    return reward->parallel;
  for (guint i = 0; i < reward->parts->len; i++)
    width = MAX (width, most_at_once (g_array_index (reward->parts, Part, i).function));
  return width;
}

guint
plumb_reward_n_parts (PlumbReward *reward)
{
  return reward->parts->len;
}

const char *
plumb_reward_part_name (PlumbReward *reward, guint part)
{
  g_return_val_if_fail (part < reward->parts->len, NULL);
  return g_array_index (reward->parts, Part, part).function->name;
}

gboolean
plumb_reward_needs_answer (PlumbReward *reward)
{
  for (guint i = 0; i < reward->parts->len; i++)
    if (g_array_index (reward->parts, Part, i).function->needs_answer)
      return TRUE;
  return FALSE;
}

gboolean
plumb_reward_needs_row (PlumbReward *reward)
{
  for (guint i = 0; i < reward->parts->len; i++)
    if (g_array_index (reward->parts, Part, i).function->needs_row)
      return TRUE;
  return FALSE;
}

gboolean
plumb_reward_needs_model (PlumbReward *reward)
{
  for (guint i = 0; i < reward->parts->len; i++)
    if (g_array_index (reward->parts, Part, i).function == &plumb_reward_model)
      return TRUE;
  return FALSE;
}

/* Calls within the limit of the part. */
static void
call (PlumbReward *reward, Part *part, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  g_mutex_lock (&reward->mutex);
  while (part->free == 0)
    g_cond_wait (&reward->freed, &reward->mutex);
  part->free--;
  g_mutex_unlock (&reward->mutex);
  part->function->score (part->state, input, score);
  g_mutex_lock (&reward->mutex);
  part->free++;
  g_cond_broadcast (&reward->freed);
  g_mutex_unlock (&reward->mutex);
}

static void
score_part (PlumbReward *reward, Part *part, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  if (part->function->needs_answer && input->answer == NULL)
    {
      score->failed = TRUE;
      score->reason = g_strdup_printf ("%s: the row has no answer", part->function->name);
      return;
    }
  call (reward, part, input, score);
}

void
plumb_reward_score (PlumbReward *reward,
                    const PlumbRewardInput *input,
                    PlumbRewardScore *score,
                    double *parts)
{
  *score = (PlumbRewardScore){ 0 };
  for (guint i = 0; i < reward->parts->len; i++)
    {
      Part *part = &g_array_index (reward->parts, Part, i);
      PlumbRewardScore one = { 0 };

      score_part (reward, part, input, &one);
      if (parts != NULL)
        parts[i] = one.failed ? NAN : one.value;
      if (one.reason != NULL && (score->reason == NULL || (one.failed && !score->failed)))
        {
          g_free (score->reason);
          score->reason = g_steal_pointer (&one.reason);
        }
      score->failed |= one.failed;
      score->value += one.failed ? 0 : part->weight * one.value;
      plumb_reward_score_clear (&one);
    }
  if (score->failed)
    score->value = NAN;
}

void
plumb_reward_cancel (PlumbReward *reward)
{
  for (guint i = 0; i < reward->parts->len; i++)
    {
      const Part *part = &g_array_index (reward->parts, Part, i);

      if (part->function->cancel != NULL)
        part->function->cancel (part->state);
    }
}
