/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/kl.h"

#include <math.h>   // defines: exp
#include <stddef.h> // defines: NULL

#define LIMIT 10.0
#define ADAPTION_LIMIT 0.2

double
plumb_kl (enum plumb_kl_estimator estimator, double d, double *derivative)
{
  double value = d, slope = 1;
  if (estimator == PLUMB_KL_K2)
    {
      value = d * d / 2;
      slope = d;
    }
  else if (estimator == PLUMB_KL_K3)
    {
      value = exp (-d) - 1 + d;
      slope = 1 - exp (-d);
    }
  if (value > LIMIT || value < -LIMIT)
    {
      value = value > 0 ? LIMIT : -LIMIT;
      slope = 0;
    }
  if (derivative)
    *derivative = slope;
  return value;
}

double
plumb_kl_adapt (double coefficient, double kl, double target, double samples, double horizon)
{
  double error = kl / target - 1;
  if (error > ADAPTION_LIMIT)
    error = ADAPTION_LIMIT;
  else if (error < -ADAPTION_LIMIT)
    error = -ADAPTION_LIMIT;
  double share = samples < horizon ? samples / horizon : 1; // more would overshoot, and change the sign
  return coefficient * (1 + error * share);
}
