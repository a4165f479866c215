/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Learning rate over the updates of a run. */
enum plumb_schedule_kind
{
  PLUMB_SCHEDULE_CONSTANT,
  PLUMB_SCHEDULE_LINEAR,
  PLUMB_SCHEDULE_COSINE,
  PLUMB_SCHEDULE_COSINE_FLOOR, // cosine down to `floor` of the rate
  PLUMB_SCHEDULE_WSD,          // constant, then linear to 0 over the last tenth (Hu et al. 2024)
};

struct plumb_schedule
{
  enum plumb_schedule_kind kind;
  double rate;    // peak learning rate
  double floor;   // share, for COSINE_FLOOR
  int warmup;     // updates with a linear rise from 0; update 0 has rate 0 when there are any
  int updates;    // of the whole run
};

/* Number of warm-up updates from a share of the run, or a count where the value is 1 or more. */
int plumb_schedule_warmup (double warmup, int updates);

/* Rate of update `index` (from 0), as transformers' schedulers give it. */
double plumb_schedule_rate (const struct plumb_schedule *, int index);
