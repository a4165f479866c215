/* SPDX-License-Identifier: Apache-2.0 */
/* Batches in which tools are known to go wrong: groups whose rewards failed in part, and batches that are cut in
 * micro-batches and among workers. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib.h>
#include <math.h>

#include "engine/algo/advantage.h"
#include "engine/algo/loss.h"

#define FAILED NAN
#define GROUP 4

typedef struct
{
  double rewards[GROUP];  /* FAILED: the reward function gave none */
  double grpo[GROUP], rloo[GROUP]; /* advantages; FAILED: the sample leaves */
  int dropped;
} Group;

static const Group groups[] = {
  { { FAILED, FAILED, 1, FAILED }, { FAILED, FAILED, FAILED, FAILED }, { FAILED, FAILED, FAILED, FAILED }, 4 },
  { { FAILED, 1, 0, 1 }, { FAILED, 0.57735, -1.154701, 0.57735 }, { FAILED, 0.5, -1, 0.5 }, 1 },
  { { FAILED, FAILED, FAILED, FAILED }, { FAILED, FAILED, FAILED, FAILED }, { FAILED, FAILED, FAILED, FAILED }, 4 },
  { { FAILED, 1, 0, 0 }, { FAILED, 1.154701, -0.57735, -0.57735 }, { FAILED, 1, -0.5, -0.5 }, 1 },
  { { FAILED, 0, 1, 1 }, { FAILED, -1.154701, 0.57735, 0.57735 }, { FAILED, -1, 0.5, 0.5 }, 1 },
  { { 0.5, FAILED, 0.5, FAILED }, { 0, FAILED, 0, FAILED }, { 0, FAILED, 0, FAILED }, 2 },
};

/* A group of answers of one token each, after one token of prompt. */
static struct plumb_experience *
answers_of (const Group *group)
{
  struct plumb_experience *e = plumb_experience_new (GROUP, 2 * GROUP);
  for (int s = 0; s < GROUP; s++)
    {
      e->offsets[s + 1] = 2 * (s + 1);
      e->mask[2 * s + 1] = 1;
      e->scored[s] = !isnan (group->rewards[s]);
      e->reward[s] = e->scored[s] ? group->rewards[s] : 0;
    }
  return e;
}

static void
check_group (const Group *group, enum plumb_baseline baseline, const double *advantages)
{
  struct plumb_experience *e = answers_of (group);
  struct plumb_group_statistics statistics;
  struct plumb_denominators counts = { 0 };
  int kept = 0;
  plumb_advantages (e,
                    &(struct plumb_advantage_options){ .baseline = baseline,
                                                       .scale_by_deviation = baseline == PLUMB_BASELINE_GROUP_MEAN,
                                                       .gamma = 1,
                                                       .lambda = 1,
                                                       .clip_low = -10,
                                                       .clip_high = 10 },
                    &statistics);
  for (int s = 0; s < GROUP; s++)
    {
      g_assert_cmpint (e->mask[2 * s + 1], ==, !isnan (advantages[s]));
      if (!isnan (advantages[s]))
        g_assert_cmpfloat_with_epsilon (e->advantage[2 * s + 1], advantages[s], 1e-6);
      kept += !isnan (advantages[s]);
    }
  g_assert_cmpint (statistics.dropped, ==, group->dropped);
  plumb_denominators_add (&counts, GROUP, e->offsets, e->mask);
  g_assert_cmpfloat (counts.tokens, ==, kept);
  g_assert_cmpfloat (counts.sequences, ==, kept);
  plumb_experience_free (e);
}

static void
test_failed_rewards (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (groups); i++)
    {
      check_group (&groups[i], PLUMB_BASELINE_GROUP_MEAN, groups[i].grpo);
      check_group (&groups[i], PLUMB_BASELINE_LEAVE_ONE_OUT, groups[i].rloo);
    }
}

/* Losses per token of eight sequences, end to end, and ways to cut them. */
#define SEQUENCES 8
#define TOKENS 71
static const int lengths[SEQUENCES] = { 1, 2, 4, 8, 16, 32, 3, 5 };
static const double token_losses[TOKENS] = {
  0.501, 0.799, 0.226, -0.391, 0.045, -0.492, 0.56, 1.84, 0.008, -0.12, 0.99, 0.857, 0.605, -0.43, 0.471, 1.195,
  -0.844, 0.042, -1.401, -0.79, -1.342, 0.265, -0.767, 0.771, 0.657, 0.313, -2.017, -0.039, 0.451, 0.613, -1.03, 0.022,
  -0.479, -0.309, 1.561, -0.308, 0.467, 1.384, -0.084, 0.388, 0.61, 0.564, -0.725, 0.576, 1.859, -1.047, 1.359, 0.619,
  -0.141, 2.5, 1.262, -0.699, 0.575, 1.077, 0.311, 1.183, 0.433, 1.167, 1.939, -0.176, 0.703, 0.037, 0.627, -0.687,
  -0.079, 0.304, 1.399, 1.645, -0.824, -0.295, 1.147,
};

static const struct
{
  const char *name;
  int part[SEQUENCES]; /* that each sequence belongs to */
} splits[] = {
  { "whole", { 0, 0, 0, 0, 0, 0, 0, 0 } },        { "halves", { 0, 0, 0, 0, 1, 1, 1, 1 } },
  { "quarters", { 0, 0, 1, 1, 2, 2, 3, 3 } },     { "one by one", { 0, 1, 2, 3, 4, 5, 6, 7 } },
  { "by tokens", { 2, 2, 2, 1, 1, 0, 2, 2 } },    { "two workers", { 0, 1, 0, 1, 0, 1, 0, 1 } },
};

/* Adds one part's loss, and its derivatives at their places in the whole. */
static void
add_part (enum plumb_aggregate aggregate, const struct plumb_denominators *counts, const int *part, int number,
          struct plumb_loss_statistics *sum, double *slopes)
{
  double logp[TOKENS] = { 0 }, slope[TOKENS] = { 0 };
  int places[TOKENS] = { 0 }, n = 0, sequences = 0;
  gint32 offsets[SEQUENCES + 1] = { 0 };
  guint8 mask[TOKENS] = { 0 };
  for (int s = 0, at = 0; s < SEQUENCES; at += lengths[s++])
    {
      if (part[s] != number)
        continue;
      for (int t = 0; t < lengths[s]; t++, n++)
        {
          logp[n] = -token_losses[at + t];
          mask[n] = 1;
          places[n] = at + t;
        }
      offsets[++sequences] = n;
    }
  struct plumb_loss_statistics statistics = { 0 };
  plumb_sft_loss (aggregate, counts,
                  &(struct plumb_loss_batch){ .sequences = sequences, .offsets = offsets, .mask = mask, .logp = logp },
                  &(struct plumb_slopes){ .logp = slope }, &statistics);
  plumb_loss_statistics_add (sum, &statistics);
  for (int i = 0; i < n; i++)
    slopes[places[i]] = slope[i];
}

static void
check_splits (enum plumb_aggregate aggregate, double loss)
{
  const struct plumb_denominators counts = { TOKENS, SEQUENCES, 32 };
  double whole[TOKENS] = { 0 };
  for (gsize i = 0; i < G_N_ELEMENTS (splits); i++)
    {
      double slopes[TOKENS] = { 0 };
      struct plumb_loss_statistics sum = { 0 };
      for (int part = 0; part < SEQUENCES; part++) /* parts without a sequence, too: they change nothing */
        add_part (aggregate, &counts, splits[i].part, part, &sum, i == 0 ? whole : slopes);
      g_test_message ("%s: %.9f", splits[i].name, sum.loss);
      g_assert_cmpfloat_with_epsilon (sum.loss, loss, 1e-9);
      for (int t = 0; t < TOKENS && i > 0; t++)
        g_assert_cmpfloat (slopes[t], ==, whole[t]);
    }
  if (aggregate == PLUMB_AGGREGATE_TOKEN)
    g_assert_cmpfloat_with_epsilon (whole[0], -1.0 / TOKENS, 1e-15);
}

static void
test_splits (void)
{
  check_splits (PLUMB_AGGREGATE_TOKEN, 0.30156338028);
  check_splits (PLUMB_AGGREGATE_SEQUENCE, 0.278257031);
  check_splits (PLUMB_AGGREGATE_CONSTANT, 0.083636719);
}

/* A part of which nothing counts gives no NaN. */
static void
test_nothing_counts (void)
{
  const struct plumb_denominators counts = { TOKENS, SEQUENCES, 32 };
  const gint32 offsets[] = { 0, 2 };
  const guint8 mask[] = { 0, 0 };
  const double logp[] = { -1, -2 };
  for (int aggregate = PLUMB_AGGREGATE_TOKEN; aggregate <= PLUMB_AGGREGATE_CONSTANT; aggregate++)
    {
      double slope[] = { 9, 9 };
      struct plumb_loss_statistics statistics = { 0 };
      plumb_sft_loss (aggregate, &counts,
                      &(struct plumb_loss_batch){ .sequences = 1, .offsets = offsets, .mask = mask, .logp = logp },
                      &(struct plumb_slopes){ .logp = slope }, &statistics);
      g_assert_cmpfloat (statistics.loss, ==, 0);
      g_assert_cmpfloat (slope[0], ==, 0);
      g_assert_cmpfloat (slope[1], ==, 0);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/numerics/failed-rewards", test_failed_rewards);
  g_test_add_func ("/numerics/splits", test_splits);
  g_test_add_func ("/numerics/nothing-counts", test_nothing_counts);
  return g_test_run ();
}
