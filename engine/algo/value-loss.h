/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/loss.h"

/* A critic's loss: half the squared error against the returns, the greater of it and that of the value clipped to
 * old +- `clip` (0: no clip), over tokens or sequences; times `weight`. The slopes by value are overwritten. */
struct plumb_value_options
{
  double clip, weight;
  enum plumb_aggregate aggregate;
};

void plumb_value_loss (const struct plumb_value_options *, const struct plumb_denominators *,
                       const struct plumb_loss_batch *, const struct plumb_slopes *,
                       struct plumb_loss_statistics *);

/* 1 - variance of (returns - value) / variance of returns, from the sums; 0 where the returns do not vary. */
double plumb_explained_variance (const struct plumb_loss_statistics *);
