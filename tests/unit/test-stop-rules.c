/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions and times that end a run. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/stop-rules.h"

static void
test_rule (void)
{
  g_autoptr (GError) error = NULL;
  PlumbStopRule *rule = plumb_stop_rule_parse (" reward/mean  >= 0.95 for 3 ", &error);

  g_assert_no_error (error);
  g_assert_cmpstr (rule->metric, ==, "reward/mean");
  g_assert_false (plumb_stop_rule_see (rule, "reward/mean", 0.95));
  g_assert_false (plumb_stop_rule_see (rule, "reward/mean", 1));
  g_assert_false (plumb_stop_rule_see (rule, "reward/mean", 0.9)); /* begins again */
  g_assert_false (plumb_stop_rule_see (rule, "reward/max", 1));
  g_assert_false (plumb_stop_rule_see (rule, "reward/mean", 1));
  g_assert_false (plumb_stop_rule_see (rule, "reward/mean", 1));
  g_assert_true (plumb_stop_rule_see (rule, "reward/mean", 1));
  plumb_stop_rule_free (rule);
  rule = plumb_stop_rule_parse ("loss/sft < 1e-2", &error);
  g_assert_no_error (error);
  g_assert_false (plumb_stop_rule_see (rule, "loss/sft", 0.01));
  g_assert_true (plumb_stop_rule_see (rule, "loss/sft", 0.009));
  plumb_stop_rule_free (rule);
}

static void
test_bad_rules (void)
{
  static const struct
  {
    const char *text, *message;
  } cases[] = {
    { "reward/mean", "no condition" },        { "reward/mean = 1", "no condition" },
    { "reward/maen > 1", "reward/mean?" },    { "reward/mean > much", "much" },
    { "reward/mean > 1 for 0", "0 is no" },   { "reward/mean > 1 since 3", "no condition" },
    { "reward/mean > nan", "nan is no" },     { "", "no condition" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (plumb_stop_rule_parse (cases[i].text, &error));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
      if (strstr (error->message, cases[i].message) == NULL)
        g_error ("%s: %s", cases[i].text, error->message);
    }
}

static void
test_times (void)
{
  static const char *const bad[] = { "", "18", "18:60", "25:00", "2026-02-30 10:00", "tomorrow" };
  gint64 noon = 1796126400, when; /* 2026-12-01 12:00 UTC, the zone of the tests */

  g_assert_true (plumb_stop_time_parse ("18:00", noon, &when, NULL));
  g_assert_cmpint (when - noon, ==, 6 * 3600);
  g_assert_true (plumb_stop_time_parse ("6:30", noon, &when, NULL));
  g_assert_cmpint (when - noon, ==, 18 * 3600 + 1800); /* tomorrow */
  g_assert_true (plumb_stop_time_parse ("2026-12-03 12:00", noon, &when, NULL));
  g_assert_cmpint (when - noon, ==, 48 * 3600);
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_false (plumb_stop_time_parse (bad[i], noon, &when, &error));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/stop-rules/rule", test_rule);
  g_test_add_func ("/stop-rules/bad", test_bad_rules);
  g_test_add_func ("/stop-rules/times", test_times);
  return g_test_run ();
}
