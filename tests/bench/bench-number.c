/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the number verifier in a second, on answers of each kind. */
#include "config.h"

#include <stdio.h>

#include "engine/reward/reward.h"

#define CHECKS 10000
#define GOAL 10000.0 /* in a second */

static const struct
{
  const char *response, *answer;
} cases[] = {
  { "She eats 3 and bakes with 4, so 16 - 3 - 4 = 9 are left.\nShe makes 9 * 2 = $<<9*2=18>>18.\n#### 18", "18" },
  { "Half of the 1,480 apples are 740, and with 5% more that makes 777.", "777" },
  { "So the integral is \\boxed{\\frac{\\pi}{2}}.", "\\dfrac{1}{2}\\pi" },
  { "Hence \\boxed{\\left( \\frac{1}{2}, 3\\sqrt{2} + 2 \\right]}.", "(0.5, 2+3\\sqrt{2}]" },
  { "\\boxed{\\dfrac{7}{7 + 3e^3}}", "\\frac{7}{3e^{3}+7}" },
};

int
main (void)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (PlumbReward) reward = NULL;
  double right = 0, seconds;
  gint64 start;

  plumb_spec_set (spec, "reward.functions", "number", NULL);
  reward = plumb_reward_new (spec, NULL);
  start = g_get_monotonic_time ();
  for (int i = 0; i < CHECKS; i++)
    {
      PlumbRewardInput input = { .prompt = "",
                                 .response = cases[i % G_N_ELEMENTS (cases)].response,
                                 .answer = cases[i % G_N_ELEMENTS (cases)].answer };
      PlumbRewardScore result;

      plumb_reward_score (reward, &input, &result, NULL);
      right += result.value;
      plumb_reward_score_clear (&result);
    }
  seconds = (double)(g_get_monotonic_time () - start) / G_USEC_PER_SEC;
  printf ("number: %d checks in %.3f s, %.0f in a second, %.1f times the goal\n", CHECKS, seconds,
          CHECKS / seconds, CHECKS / seconds / GOAL);
  return right == CHECKS ? 0 : 1;
}
