/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h> // defines: int32_t, uint8_t

/* What a rollout becomes on its way through the system. Ragged: sequences lie end to end, token arrays
 * share one offsets array, and there is no padding. Entry t of a token array concerns token t: its
 * log-prob given tokens 0 .. t-1; entry 0 of a sequence is masked. */
struct plumb_experience
{
  int sequences;         // S
  int tokens;            // N
  int32_t *offsets;      // (S + 1) first token of each sequence
  int32_t *ids;          // (N)
  uint8_t *mask;         // (N) 1: sampled by the policy, counts in losses
  float *rollout_logp;   // (N) log-prob that the sampler reported
  float *old_logp;       // (N) log-prob by the trainer before any update
  float *reference_logp; // (N) by the frozen reference; zeros without one
  float *entropy;        // (N) nats, by the trainer before any update
  double *value;         // (N) by the critic before any update; zeros without one
  double *advantage;     // (N)
  double *returns;       // (N) what the critic should have said
  int32_t *version;      // (N) version of the weights that sampled the token
  double *reward;        // (S) raw reward
  double *baseline;      // (S) reward of the greedy answer to the same prompt (ReMax), else 0
  double *margin;        // (S) by which the first of a pair should win, else 0
  uint8_t *desirable;    // (S) 1: an answer that was liked (KTO)
  uint8_t *scored;       // (S) 0: the reward failed; the sample leaves baseline, loss and denominators
  uint8_t *truncated;    // (S) 1: cut at the length limit
  int32_t *group;        // (S) samples of one prompt share a number, and lie side by side
};

/* Allocates zeroed arrays for S sequences of N tokens together; NULL when out of memory. */
struct plumb_experience *plumb_experience_new (int sequences, int tokens);
void plumb_experience_free (struct plumb_experience *);

/* Number of tokens of a sequence that the policy sampled. */
int plumb_experience_response_length (const struct plumb_experience *, int sequence);
