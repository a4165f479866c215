/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/schedule.h"

#include <math.h> // defines: ceil, cos, M_PI

#define WSD_DECAY 0.1 // share of the run that decays

int
plumb_schedule_warmup (double warmup, int updates)
{
  return (int) ceil (warmup >= 1 ? warmup : warmup * updates);
}

double
plumb_schedule_rate (const struct plumb_schedule *s, int index)
{
  if (index < s->warmup)
    return s->rate * index / s->warmup;
  int span = s->updates > s->warmup ? s->updates - s->warmup : 1;
  double progress = (double) (index - s->warmup) / span;
  if (progress > 1)
    progress = 1;
  double cosine = 0.5 * (1 + cos (M_PI * progress));
  switch (s->kind)
    {
    case PLUMB_SCHEDULE_CONSTANT:
      return s->rate;
    case PLUMB_SCHEDULE_LINEAR:
      return s->rate * (1 - progress);
    case PLUMB_SCHEDULE_COSINE:
      return s->rate * cosine;
    case PLUMB_SCHEDULE_COSINE_FLOOR:
      return s->rate * (cosine * (1 - s->floor) + s->floor);
    case PLUMB_SCHEDULE_WSD:
      return s->rate * (progress < 1 - WSD_DECAY ? 1 : (1 - progress) / WSD_DECAY);
    }
  return s->rate;
}
