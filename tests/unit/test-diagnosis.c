/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which runs fail are seen and explained; a sound run is left alone. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/history.h"
#include "engine/run/diagnosis.h"
#include "tests/unit/shared.h"

/* Counts the findings of a kind, and of others. */
typedef struct
{
  const char *kind;
  int step; /* at which it was told first; -1: never */
  int told, others;
} Count;

static void
count_step (PlumbDiagnosis *d, int step, Count *count)
{
  for (const PlumbFinding *f; (f = plumb_diagnosis_next (d));)
    {
      gboolean here = g_strcmp0 (f->kind, count->kind) == 0;
      g_assert_cmpuint (strlen (f->message), >, 20);
      g_assert_cmpuint (strlen (f->remedy), >, 20);
      if (here && count->step < 0)
        count->step = step;
      count->told += here;
      count->others += !here;
      if (!here)
        g_test_message ("step %d: %s", step, f->kind);
    }
}

/* Metrics of a step as a function of the step. */
typedef double (*Curve) (int step);

static double zero (int step) { return 0; }
static double one (int step) { return 1; }
static double rising (int step) { return 0.1 + 0.8 * step / 40; }
static double doubling (int step) { return 0.05 * pow (1.3, step); }
static double falling (int step) { return step < 10 ? 1.5 : 0.02; }
static double growing (int step) { return 50 + 20 * step; }
static double cut_later (int step) { return step < 10 ? 0 : 0.8; }
static double half (int step) { return 0.5; }
static double much (int step) { return step == 20 ? 1e4 : step > 20 ? 1e3 : 1; }
static double quarter (int step) { return 0.25; }

static void
test_checks (void)
{
  static const struct
  {
    const char *kind;
    struct
    {
      const char *metric;
      Curve curve;
    } metrics[4];
    int by; /* step at which it must be told */
  } cases[] = {
    { "dead-reward", { { "reward/mean", zero }, { "reward/max", zero }, { "length/truncated", one } }, 5 },
    { "zero-reward", { { "reward/mean", zero }, { "reward/max", zero }, { "length/truncated", quarter } }, 10 },
    { "flat-groups", { { "reward/mean", half }, { "reward/flat_groups", one } }, 5 },
    { "kl-runs-away", { { "kl/reference", doubling } }, 20 },
    { "entropy-collapse", { { "policy/entropy", falling }, { "reward/mean", quarter } }, 15 },
    { "length-explosion", { { "length/response_mean", growing }, { "length/truncated", cut_later } }, 20 },
    { "rollout-apart", { { "policy/logprob_gap_mean", half } }, 3 },
    { "clip-fraction", { { "policy/clip_low", quarter }, { "policy/clip_high", quarter } }, 5 },
    { "reward-failures", { { "reward/failed", half } }, 3 },
    { "no-gradient", { { "policy/grad_norm", zero } }, 10 },
    { "gradient-explosion", { { "policy/grad_norm", much } }, 23 },
    { NULL, { { "reward/mean", rising }, { "policy/entropy", one }, { "policy/grad_norm", half } }, 0 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PlumbDiagnosis) d = plumb_diagnosis_new ();
      Count count = { .kind = cases[i].kind, .step = -1 };
      for (int step = 1; step <= 30; step++)
        {
          for (int m = 0; m < 4 && cases[i].metrics[m].metric; m++)
            plumb_diagnosis_see (d, cases[i].metrics[m].metric, cases[i].metrics[m].curve (step));
          count_step (d, step, &count);
        }
      if (!cases[i].kind)
        g_assert_cmpint (count.others, ==, 0);
      else if (count.step < 0 || count.step > cases[i].by)
        g_error ("%s was told at step %d", cases[i].kind, count.step);
    }
}

/* Replays a real log; FALSE where it is not there. */
static gboolean
replay (const char *file, Count *count)
{
  g_autofree char *relative = g_build_filename ("runlogs", file, NULL);
  g_autofree char *path = shared_file (relative);
  g_autoptr (PlumbHistory) history = path ? plumb_history_load (path, NULL) : NULL;
  if (!path)
    return FALSE;
  g_assert_nonnull (history);
  plumb_history_rename (history);
  g_autoptr (PlumbDiagnosis) d = plumb_diagnosis_new ();
  for (guint i = 0; i < history->points->len; i++)
    {
      const PlumbHistoryPoint *point = &g_array_index (history->points, PlumbHistoryPoint, i);
      plumb_diagnosis_see (d, point->metric, point->value);
      if (i + 1 == history->points->len || g_array_index (history->points, PlumbHistoryPoint, i + 1).step != point->step)
        count_step (d, (int) point->step, count);
    }
  return TRUE;
}

static void
test_dead_run (void)
{
  Count count = { .kind = "dead-reward", .step = -1 };
  if (!replay ("verl_grpo_gsm8k_qwen3_0p6b_zero_reward.jsonl", &count))
    return;
  g_assert_cmpint (count.step, ==, 5);
  g_assert_cmpint (count.told, ==, 1);
  g_assert_cmpint (count.others, ==, 0);
}

static void
test_good_run (void)
{
  Count count = { .kind = NULL };
  if (!replay ("verl_grpo_gsm8k_qwen3_30b_a3b.jsonl", &count))
    return;
  g_assert_cmpint (count.others, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/diagnosis/checks", test_checks);
  g_test_add_func ("/diagnosis/dead-run", test_dead_run);
  g_test_add_func ("/diagnosis/good-run", test_good_run);
  return g_test_run ();
}
