/* SPDX-License-Identifier: Apache-2.0 */
/* The short functions: exact, regex, length, model. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/reward/functions.h"

/* --- exact: the response is the answer, but for blanks around both */

typedef struct
{
  gboolean fold; /* letters count whatever their case */
} Exact;

static gboolean
open_exact (PlumbSpec *spec, gpointer *state, GError **error)
{
  Exact *exact = g_new0 (Exact, 1);
  gboolean with_case;

  *state = exact;
  if (!plumb_reward_boolean_option (spec, "exact", "case", TRUE, &with_case, error))
    return FALSE;
  exact->fold = !with_case;
  return TRUE;
}

static void
score_exact (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  const Exact *exact = state;
  g_autofree char *response = g_strstrip (g_strdup (input->response));
  g_autofree char *answer = g_strstrip (g_strdup (input->answer));

  if (exact->fold)
    {
      g_autofree char *a = g_utf8_casefold (response, -1), *b = g_utf8_casefold (answer, -1);

      score->value = g_str_equal (a, b);
    }
  else
    score->value = g_str_equal (response, answer);
}

/* --- regex: the response matches a pattern */

static gboolean
open_regex (PlumbSpec *spec, gpointer *state, GError **error)
{
  const char *pattern = plumb_spec_get_reward_option (spec, "regex", "pattern");
  g_autoptr (GError) local = NULL;
  g_autofree char *whole = NULL;
  gboolean full;

  if (pattern == NULL)
    return plumb_reward_bad_option (spec, "regex", "pattern", "a pattern is needed", error);
  if (!plumb_reward_boolean_option (spec, "regex", "full", FALSE, &full, error))
    return FALSE;
  whole = full ? g_strdup_printf ("\\A(?:%s)\\z", pattern) : g_strdup (pattern);
  *state = g_regex_new (whole, G_REGEX_OPTIMIZE, 0, &local);
  return *state != NULL
         || plumb_reward_bad_option (spec, "regex", "pattern", local->message, error);
}

static void
score_regex (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  g_autoptr (GError) error = NULL;
  gboolean matches = g_regex_match_full (state, input->response, -1, 0, 0, NULL, &error);

  score->value = matches;
  score->failed = error != NULL; /* the pattern backtracks without end */
  score->reason = error != NULL ? g_strdup (error->message) : NULL;
}

static void
close_regex (gpointer state)
{
  g_regex_unref (state);
}

/* --- length: 1 within [min, max] tokens, falling to 0 at twice the most and at nothing */

typedef struct
{
  double least, most;
} Length;

static gboolean
open_length (PlumbSpec *spec, gpointer *state, GError **error)
{
  Length *length = g_new0 (Length, 1);

  *state = length;
  if (!plumb_reward_number_option (spec, "length", "min", 0, 0, &length->least, error)
      || !plumb_reward_number_option (spec, "length", "max", 1, 0, &length->most, error))
    return FALSE;
  if (length->most == 0 && length->least == 0)
    return plumb_reward_bad_option (spec, "length", "max", "set min, max or both", error);
  if (length->most != 0 && length->most < length->least)
    return plumb_reward_bad_option (spec, "length", "max", "it is below min", error);
  return TRUE;
}

static void
score_length (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  const Length *length = state;
  double n = input->n_tokens;

  if (n < length->least)
    score->value = n / length->least;
  else if (length->most > 0 && n > length->most)
    score->value = MAX (0, 2 - n / length->most);
  else
    score->value = 1;
}

static const char *const exact_options[] = { "case", NULL };
static const char *const regex_options[] = { "pattern", "full", NULL };
static const char *const no_options[] = { NULL };
static const char *const length_options[] = { "min", "max", NULL };

const PlumbRewardFunction plumb_reward_exact = {
  .name = "exact",
  .options = exact_options,
  .needs_answer = TRUE,
  .open = open_exact,
  .score = score_exact,
  .close = g_free,
};

const PlumbRewardFunction plumb_reward_regex = {
  .name = "regex",
  .options = regex_options,
  .open = open_regex,
  .score = score_regex,
  .close = close_regex,
};

const PlumbRewardFunction plumb_reward_length = {
  .name = "length",
  .options = length_options,
  .open = open_length,
  .score = score_length,
  .close = g_free,
};

/* --- model: what the reward model said, which the device computed for the whole batch */

static void
score_model (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  score->value = input->model_score;
  score->failed = !isfinite (input->model_score);
  score->reason = score->failed ? g_strdup ("the reward model gave no finite score") : NULL;
}

const PlumbRewardFunction plumb_reward_model = {
  .name = "model",
  .options = no_options,
  .score = score_model,
};
