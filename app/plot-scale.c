/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>

#include "app/plot-scale.h"

double
plumb_scale_to_pixel (const PlumbScale *self, double value)
{
  double share;

  if (self->log)
    share = value > 0 ? log (value / self->min) / log (self->max / self->min) : -INFINITY;
  else
    share = (value - self->min) / (self->max - self->min);
  return self->pixel_min + share * (self->pixel_max - self->pixel_min);
}

double
plumb_scale_to_value (const PlumbScale *self, double pixel)
{
  double share = (pixel - self->pixel_min) / (self->pixel_max - self->pixel_min);

  if (self->log)
    return self->min * pow (self->max / self->min, share);
  return self->min + share * (self->max - self->min);
}

void
plumb_scale_pad (double *min, double *max, gboolean log)
{
  if (log)
    {
      double factor = *max > *min ? pow (*max / *min, 0.05) : 2;

      *min /= factor;
      *max *= factor;
      return;
    }

  /* A difference in the last bits only is noise of the arithmetic and is shown as a flat line. */
  if (*max - *min > 1e-12 * MAX (fabs (*min), fabs (*max)))
    {
      double room = 0.05 * (*max - *min);

      *min -= room;
      *max += room;
    }
  else if (*min == 0)
    {
      *min = -0.05;
      *max = 1.05;
    }
  else
    {
      double room = 0.1 * fabs (*min);

      *min -= room;
      *max += room;
    }
}

static void
add_tick (PlumbTicks *ticks, double value, gboolean minor)
{
  if (ticks->n == PLUMB_MAX_TICKS)
    return;
  ticks->value[ticks->n] = value;
  ticks->minor[ticks->n] = minor;
  ticks->n++;
}

static void
fill_ticks (PlumbTicks *ticks, double min, double max, double step)
{
  double first = ceil (min / step - 1e-9);

  ticks->n = 0;
  ticks->step = step;
  for (double k = first; k * step <= max + 1e-9 * step && ticks->n < PLUMB_MAX_TICKS; k++)
    add_tick (ticks, k == 0 ? 0 : k * step, FALSE);
}

void
plumb_ticks_linear (PlumbTicks *ticks, double min, double max, guint wanted, gboolean integer)
{
  static const double factors[] = { 1, 2, 5, 10 };
  double raw, power;

  ticks->n = 0;
  ticks->step = 0;
  if (!(max > min) || !isfinite (max - min) || wanted == 0)
    return;

  raw = (max - min) / wanted;
  power = pow (10, floor (log10 (raw)));
  for (guint i = 0; i < G_N_ELEMENTS (factors); i++)
    {
      double step = factors[i] * power;

      if (integer)
        step = MAX (step, 1);
      if (step >= raw * (1 - 1e-9))
        {
          fill_ticks (ticks, min, max, step);
          return;
        }
    }
}

void
plumb_ticks_log (PlumbTicks *ticks, double min, double max, guint wanted)
{
  double decades, stride;

  ticks->n = 0;
  ticks->step = 0;
  if (!(max > min) || min <= 0 || wanted == 0)
    return;

  decades = log10 (max / min);
  if (decades < 1)
    {
      plumb_ticks_linear (ticks, min, max, wanted, FALSE);
      return;
    }
  stride = ceil (decades / wanted);
  for (double e = floor (log10 (min)); e <= log10 (max) + 1e-9; e++)
    for (int k = 1; k < (stride == 1 && decades < 4 ? 10 : 2); k++)
      {
        double value = k * pow (10, e);

        if (value >= min * (1 - 1e-9) && value <= max * (1 + 1e-9))
          add_tick (ticks, value, k != 1 || fmod (e, stride) != 0);
      }
}

void
plumb_ticks_time (PlumbTicks *ticks, double min, double max, guint wanted)
{
  static const double steps[] = { 1,   2,   5,    10,   15,   30,    60,    120,   300,
                                  600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400 };
  double raw;

  ticks->n = 0;
  ticks->step = 0;
  if (!(max > min) || !isfinite (max - min) || wanted == 0)
    return;

  raw = (max - min) / wanted;
  if (raw < 1)
    {
      plumb_ticks_linear (ticks, min, max, wanted, FALSE);
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    if (steps[i] >= raw)
      {
        fill_ticks (ticks, min, max, steps[i]);
        return;
      }

  plumb_ticks_linear (ticks, min / 86400, max / 86400, wanted, TRUE);
  for (guint i = 0; i < ticks->n; i++)
    ticks->value[i] *= 86400;
  ticks->step *= 86400;
}
