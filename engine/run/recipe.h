/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/advantage.h"
#include "engine/core/spec.h"
#include "engine/train/trainer.h"

G_BEGIN_DECLS

/* What a step of an algorithm consists of: one row per algorithm, and the loop asks it alone. */
typedef struct
{
  gboolean online;    /* generates and scores; else it trains on rows of the data */
  gboolean critic;    /* a second model learns values */
  gboolean scalar;    /* the trained model itself has a scalar head */
  gboolean pairs;     /* sequences 2i and 2i + 1 belong together */
  gboolean reference; /* needs a frozen model even without a KL coefficient */
  gboolean greedy;    /* asks for a greedy answer to each prompt: the baseline */
  PlumbLossId loss;
  enum plumb_baseline baseline;
  const char *metric; /* of the loss */
} PlumbRecipe;

const PlumbRecipe *plumb_recipe (PlumbAlgorithm algorithm);

/* Whether the run keeps a frozen model. */
gboolean plumb_recipe_needs_reference (PlumbSpec *spec);
/* How rewards become advantages; `kl_coefficient` is the present one. */
struct plumb_advantage_options plumb_recipe_advantages (PlumbSpec *spec, double kl_coefficient);
/* The loss of the policy, without denominators. */
PlumbLossSpec plumb_recipe_loss (PlumbSpec *spec, double kl_coefficient);
/* The loss of the critic. */
PlumbLossSpec plumb_recipe_value_loss (PlumbSpec *spec);

G_END_DECLS
