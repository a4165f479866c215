/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/experience.h"

/* What happens to raw rewards before baselines; only scored samples are touched. */

/* DAPO's soft punishment of overlong answers (Yu et al. 2025): a response that reaches e tokens into the last
 * `buffer` of its `limit` loses e / buffer times `factor`. Lengths run from the first to the last token that counts. */
void plumb_shape_overlong (struct plumb_experience *, int limit, int buffer, double factor);

/* Responses cut at the limit: a factor of 0 .. 1 multiplies their reward, a negative one takes its place. */
void plumb_shape_truncated (struct plumb_experience *, double factor);

/* (reward - mean) / deviation, of a reward model's stored statistics. */
void plumb_shape_standardize (struct plumb_experience *, double mean, double deviation);

/* Dynamic sampling (Yu et al. 2025): whether a group, sequences first .. last-1, can teach something: its mean
 * reward lies strictly between low and high. FALSE for a group with fewer than two scored samples. */
int plumb_group_teaches (const struct plumb_experience *, int first, int last, double low, double high);

/* Scored sequence of a group with the greatest (sign 1) or least (sign -1) reward, the first of equals; -1: none. */
int plumb_group_extreme (const struct plumb_experience *, int first, int last, int sign);
