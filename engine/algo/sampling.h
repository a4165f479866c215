/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h> // defines: int32_t

/* What is done to logits before a token is drawn, in this order: repetition penalty (Keskar et al. 2019),
 * temperature, top-k, top-p (Holtzman et al. 2020), min-p (Nguyen et al. 2024). */
struct plumb_sampling_options
{
  double repetition_penalty; // 1: none
  double temperature;
  int top_k;    // 0: all
  double top_p; // 1: all
  double min_p; // 0: all
};

/* Whether anything but the temperature is asked for. */
int plumb_sampling_is_filtered (const struct plumb_sampling_options *);

/* Probabilities (n) of the tokens from their logits (n) after `context` (n_context ids). Returns 0, or -1 when out
 * of memory. */
int plumb_sampling_distribution (const struct plumb_sampling_options *, int n, const float *logits,
                                 const int32_t *context, int n_context, double *probabilities);
