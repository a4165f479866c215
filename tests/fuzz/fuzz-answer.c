/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a response and as a reference of the verifiers: no crash, and a score of 0 or 1. */
#include "config.h"

#include <string.h>

#include "engine/reward/reward.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static PlumbReward *
make_reward (const char *name)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();

  plumb_spec_set (spec, "reward.functions", name, NULL);
  return plumb_reward_new (spec, NULL);
}

static void
check (PlumbReward *reward, const char *response, const char *answer)
{
  PlumbRewardInput input = { .prompt = "", .response = response, .answer = answer };
  PlumbRewardScore score;

  plumb_reward_score (reward, &input, &score, NULL);
  if (!score.failed && score.value != 0 && score.value != 1)
    g_error ("scored %g", score.value);
  plumb_reward_score_clear (&score);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static PlumbReward *number, *choice;
  g_autofree char *raw = g_strndup ((const char *)data, size);
  g_autofree char *text = g_utf8_make_valid (raw, -1);

  if (number == NULL)
    {
      number = make_reward ("number");
      choice = make_reward ("choice");
    }
  check (number, text, "5");
  check (number, "5", text);
  check (number, text, text);
  check (choice, text, "B");
  return 0;
}
