/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the answer of a reward server or of a judge: no crash, and a number within bounds or
 * a reason. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/reward/remote.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *)data, size);
  double reward = NAN, score = NAN;
  g_autofree char *wrong = plumb_http_read_reward (text, strlen (text), &reward);
  g_autofree char *silent = plumb_judge_read_score (text, strlen (text), &score);

  if (wrong == NULL && !(fabs (reward) <= 1e6))
    g_error ("a reward of %g", reward);
  if (silent == NULL && !isfinite (score))
    g_error ("a score of %g", score);
  return 0;
}
