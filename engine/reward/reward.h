/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* What is scored. Strings are valid UTF-8. */
typedef struct
{
  const char *prompt, *response;
  const char *answer; /* NULL: the row has none */
  gsize n_tokens;     /* of the response */
  double model_score; /* by the reward model; NaN: none */
  const char *row;    /* the whole row of the data as a JSON object; NULL: not known */
} PlumbRewardInput;

/* One function's verdict. A call that gave no score has `failed` set: it is never a 0. */
typedef struct
{
  double value;
  gboolean failed;
  char *reason; /* why it failed, or what was wrong with the response; NULL: nothing to say */
} PlumbRewardScore;

void plumb_reward_score_clear (PlumbRewardScore *score);

/* The functions of a run with their weights and options. */
typedef struct _PlumbReward PlumbReward;

/* From reward.* of a spec: PLUMB_ERROR_INVALID names the option that is wrong,
 * PLUMB_ERROR_ENVIRONMENT a program that cannot be started. */
PlumbReward *plumb_reward_new (PlumbSpec *spec, GError **error);
void plumb_reward_free (PlumbReward *reward);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbReward, plumb_reward_free)

/* Calls of plumb_reward_score() that are worth making at once, from as many threads. */
guint plumb_reward_width (PlumbReward *reward);

guint plumb_reward_n_parts (PlumbReward *reward);
const char *plumb_reward_part_name (PlumbReward *reward, guint part);
/* Does a function compare with the row's answer? Then rows without one are broken. */
gboolean plumb_reward_needs_answer (PlumbReward *reward);

/* Does a function read more of a row than its answer? Then PlumbRewardInput.row is worth giving. */
gboolean plumb_reward_needs_row (PlumbReward *reward);

/* Is one of them the reward model? Then every input brings its score. */
gboolean plumb_reward_needs_model (PlumbReward *reward);

/* Weighted sum of the parts. `parts` (room for n_parts; NULL: not wanted) gets each part's own
 * value, NaN for one that failed; if one failed, so has the whole. May be called from several threads. */
void plumb_reward_score (PlumbReward *reward,
                         const PlumbRewardInput *input,
                         PlumbRewardScore *score,
                         double *parts);

/* May be called from another thread: calls that wait for a program or a server fail at once, and so
 * do later ones. */
void plumb_reward_cancel (PlumbReward *reward);

G_END_DECLS
