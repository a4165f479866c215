/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define PLUMB_MAX_TICKS 64

/* The way from values to pixels along one axis. With log set, min and max are above zero. */
typedef struct
{
  double min;
  double max;
  double pixel_min;
  double pixel_max;
  gboolean log;
} PlumbScale;

typedef struct
{
  double value[PLUMB_MAX_TICKS];
  gboolean minor[PLUMB_MAX_TICKS];
  guint n;
  double step;
} PlumbTicks;

double plumb_scale_to_pixel (const PlumbScale *self, double value);
double plumb_scale_to_value (const PlumbScale *self, double pixel);

/* Room around the values: 5 % on both sides; a single value gets a range around it. */
void plumb_scale_pad (double *min, double *max, gboolean log);

/* Ticks inside [min, max] at multiples of 1, 2 or 5 times a power of ten, at most `wanted` of them
 * (integers only if asked). Logarithmic ticks stand at powers of ten, minor ones between them; a
 * range shorter than a decade falls back to linear ticks. */
void plumb_ticks_linear (PlumbTicks *ticks, double min, double max, guint wanted, gboolean integer);
void plumb_ticks_log (PlumbTicks *ticks, double min, double max, guint wanted);

/* Ticks of a time axis: 1, 2, 5, 10, 15, 30 seconds or minutes, then hours, then days. */
void plumb_ticks_time (PlumbTicks *ticks, double min, double max, guint wanted);

G_END_DECLS
