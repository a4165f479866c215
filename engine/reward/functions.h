/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/reward/reward.h"

G_BEGIN_DECLS

/* How many calls of a function may run at once. */
typedef enum
{
  PLUMB_REWARD_CORES,  /* as many as there are processors */
  PLUMB_REWARD_ONE,    /* one after another */
  PLUMB_REWARD_REMOTE, /* it waits for others: many */
} PlumbRewardLimit;

/* One kind of reward function: a row of the table in reward.c. */
typedef struct
{
  const char *name;
  const char *const *options; /* names that [reward NAME] may hold, NULL-terminated */
  gboolean needs_answer;
  gboolean needs_row; /* more keys of the row than its answer */
  PlumbRewardLimit limit;
  /* Checks the options and makes what `score` needs; `*state` may stay NULL. */
  gboolean (*open) (PlumbSpec *spec, gpointer *state, GError **error);
  void (*score) (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score);
  void (*cancel) (gpointer state); /* NULL: never waits */
  void (*close) (gpointer state);  /* NULL: nothing to free */
} PlumbRewardFunction;

extern const PlumbRewardFunction plumb_reward_number;
extern const PlumbRewardFunction plumb_reward_exact;
extern const PlumbRewardFunction plumb_reward_regex;
extern const PlumbRewardFunction plumb_reward_length;
extern const PlumbRewardFunction plumb_reward_choice;
extern const PlumbRewardFunction plumb_reward_program;
extern const PlumbRewardFunction plumb_reward_model;
extern const PlumbRewardFunction plumb_reward_code;
extern const PlumbRewardFunction plumb_reward_http;
extern const PlumbRewardFunction plumb_reward_judge;
extern const PlumbRewardFunction plumb_reward_format;
extern const PlumbRewardFunction plumb_reward_json_schema;

/* Sets an error for a bad option, with its place. Returns FALSE. */
gboolean plumb_reward_bad_option (
    PlumbSpec *spec, const char *name, const char *option, const char *what, GError **error);
/* A number option, `otherwise` when unset. */
gboolean plumb_reward_number_option (PlumbSpec *spec,
                                     const char *name,
                                     const char *option,
                                     double least,
                                     double otherwise,
                                     double *value,
                                     GError **error);
gboolean plumb_reward_boolean_option (PlumbSpec *spec,
                                      const char *name,
                                      const char *option,
                                      gboolean otherwise,
                                      gboolean *value,
                                      GError **error);

G_END_DECLS
