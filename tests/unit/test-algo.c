/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and estimators against values found by hand, against finite differences, and cut in parts. The stored
 * values of another implementation are compared by `verify losses`, which tests/parity runs. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/algo/advantage.h"
#include "engine/algo/schedule.h"
#include "engine/algo/sampling.h"
#include "engine/algo/shaping.h"
#include "engine/train/micro-batch.h"

static void
assert_near (double have, double want, double bound, const char *what)
{
  if (!(fabs (have - want) <= bound * MAX (1, fabs (want))))
    g_error ("%s: %.12g where %.12g is right", what, have, want);
}

static void
test_kl (void)
{
  for (int k = 0; k < 3; k++)
    for (double d = -3; d < 3; d += 0.37)
      {
        double slope, step = 1e-6;
        plumb_kl (k, d, &slope);
        assert_near (slope, (plumb_kl (k, d + step, NULL) - plumb_kl (k, d - step, NULL)) / (2 * step), 1e-6,
                     "slope");
      }
  assert_near (plumb_kl_adapt (0.2, 9, 6, 256, 10000), 0.2 * (1 + 0.2 * 0.0256), 1e-15, "held at 0.2");
  assert_near (plumb_kl_adapt (0.2, 6.6, 6, 1000, 10000), 0.2 * 1.01, 1e-15, "in proportion");
}

/* Two groups: rewards 1, 0, 0, 1 with mean 0.5 and deviation 1 / sqrt (3); and a pair whose second failed. Every
 * sequence is one token of prompt and one of response. */
static struct plumb_experience *
six_answers (void)
{
  static const double rewards[] = { 1, 0, 0, 1, 7, 3 };
  struct plumb_experience *e = plumb_experience_new (6, 12);
  for (int s = 0; s < 6; s++)
    {
      e->offsets[s + 1] = 2 * (s + 1);
      e->mask[2 * s + 1] = 1;
      e->reward[s] = rewards[s];
      e->scored[s] = s != 5;
      e->group[s] = s / 4;
    }
  return e;
}

static struct plumb_group_statistics
advantages_of (struct plumb_experience *e, struct plumb_advantage_options options)
{
  struct plumb_group_statistics statistics;
  options.gamma = options.lambda = 1;
  options.clip_low = -10;
  options.clip_high = options.clip_high ? options.clip_high : 10;
  plumb_advantages (e, &options, &statistics);
  return statistics;
}

static void
test_group_baselines (void)
{
  struct plumb_experience *e = six_answers ();
  struct plumb_group_statistics st = advantages_of (
      e, (struct plumb_advantage_options){ .baseline = PLUMB_BASELINE_GROUP_MEAN, .scale_by_deviation = 1 });
  assert_near (e->advantage[1], 0.5 * sqrt (3), 1e-8, "better half");
  assert_near (e->advantage[3], -0.5 * sqrt (3), 1e-8, "worse half");
  g_assert_cmpint (e->mask[9], ==, 0); /* its partner failed: there is nobody to compare with */
  g_assert_cmpint (e->mask[11], ==, 0);
  g_assert_cmpint (st.groups, ==, 1);
  g_assert_cmpint (st.dropped, ==, 2);
  advantages_of (e, (struct plumb_advantage_options){ .baseline = PLUMB_BASELINE_GROUP_MEAN, .clip_high = 0.4 });
  g_assert_cmpfloat (e->advantage[1], ==, 0.4);
  g_assert_cmpfloat (e->advantage[3], ==, -0.5);
  advantages_of (e, (struct plumb_advantage_options){ .baseline = PLUMB_BASELINE_LEAVE_ONE_OUT });
  assert_near (e->advantage[1], 1 - 1.0 / 3, 1e-15, "one against the mean of three");
  assert_near (e->advantage[3], -2.0 / 3, 1e-15, "the same for a worse one");
  plumb_experience_free (e);
}

/* Without a group baseline, one scored answer is enough; only the failed one leaves. */
static void
test_other_baselines (void)
{
  struct plumb_experience *e = six_answers ();
  struct plumb_group_statistics st = advantages_of (e, (struct plumb_advantage_options){ 0 });
  g_assert_cmpint (st.dropped, ==, 1);
  g_assert_cmpfloat (e->advantage[9], ==, 7);
  e->baseline[4] = 2;
  advantages_of (e, (struct plumb_advantage_options){ .baseline = PLUMB_BASELINE_GREEDY });
  g_assert_cmpfloat (e->advantage[9], ==, 5);
  plumb_experience_free (e);

  /* OPO weighs by length: rewards 1 and 0 of 3 and 1 tokens have the baseline 3/4. */
  e = plumb_experience_new (2, 6);
  e->offsets[1] = 4;
  e->offsets[2] = 6;
  e->mask[1] = e->mask[2] = e->mask[3] = e->mask[5] = 1;
  e->reward[0] = 1;
  e->scored[0] = e->scored[1] = 1;
  advantages_of (e, (struct plumb_advantage_options){ .baseline = PLUMB_BASELINE_LENGTH });
  g_assert_cmpfloat (e->advantage[3], ==, 0.25);
  g_assert_cmpfloat (e->advantage[5], ==, -0.75);
  plumb_experience_free (e);
}

/* A tool's token in the middle: value and credit pass over it. */
static void
test_gae_over_holes (void)
{
  static const guint8 mask[] = { 0, 1, 0, 1 };
  static const double rewards[] = { 5, 0, 5, 1 }, values[] = { 9, 0.5, 9, 0.25 };
  double advantages[4], returns[4];
  plumb_gae (4, mask, rewards, values, 0.9, 0.5, advantages, returns);
  assert_near (advantages[3], 0.75, 1e-15, "last");
  assert_near (advantages[1], 0.9 * 0.25 - 0.5 + 0.45 * 0.75, 1e-15, "across the hole");
  assert_near (returns[1], advantages[1] + 0.5, 1e-15, "return");
  g_assert_cmpfloat (advantages[2], ==, 0);
  plumb_discounted_returns (4, mask, rewards, 0.5, returns);
  g_assert_cmpfloat (returns[1], ==, 0.5);
}

static void
test_shaping (void)
{
  struct plumb_experience *e = six_answers ();
  g_assert_true (plumb_group_teaches (e, 0, 4, 0, 1));
  g_assert_false (plumb_group_teaches (e, 0, 4, 0.5, 1));
  g_assert_false (plumb_group_teaches (e, 4, 6, 0, 10)); /* one is left */
  g_assert_cmpint (plumb_group_extreme (e, 0, 4, 1), ==, 0);
  g_assert_cmpint (plumb_group_extreme (e, 0, 4, -1), ==, 1);
  g_assert_cmpint (plumb_group_extreme (e, 5, 6, 1), ==, -1);
  e->truncated[0] = e->truncated[5] = 1;
  plumb_shape_truncated (e, -2);
  g_assert_cmpfloat (e->reward[0], ==, -2);
  g_assert_cmpfloat (e->reward[5], ==, 3); /* it failed: there is no reward to shape */
  plumb_shape_standardize (e, 1, 2);
  g_assert_cmpfloat (e->reward[4], ==, 3);
  plumb_experience_free (e);
}

static void
test_sampling (void)
{
  static const float logits[] = { 2, 1, 0, -1 };
  static const gint32 context[] = { 0, 0, 3, 77 };
  double p[4], e2 = exp (2.0), e1 = exp (1.0);
  struct plumb_sampling_options o = { 1, 1, 0, 1, 0 };
  g_assert_false (plumb_sampling_is_filtered (&o));
  o.top_k = 2;
  g_assert_true (plumb_sampling_is_filtered (&o));
  plumb_sampling_distribution (&o, 4, logits, NULL, 0, p);
  assert_near (p[0], e2 / (e2 + e1), 1e-12, "top-k");
  g_assert_cmpfloat (p[2], ==, 0);
  o = (struct plumb_sampling_options){ 2, 1, 0, 1, 0 };
  plumb_sampling_distribution (&o, 4, logits, context, 4, p);
  assert_near (p[0] / p[1], 1, 1e-12, "a repeated id is halved");
  assert_near (p[3] / p[2], exp (-2.0), 1e-12, "a negative one is doubled");
  o = (struct plumb_sampling_options){ 1, 1, 0, 0.5, 0 };
  plumb_sampling_distribution (&o, 4, logits, NULL, 0, p);
  g_assert_cmpfloat (p[0], ==, 1);
}

/* A small batch for every loss: four sequences of four tokens, the first of each a prompt's, with a hole. */
enum
{
  SEQUENCES = 4,
  LENGTH = 4,
  TOKENS = SEQUENCES * LENGTH,
};

static struct plumb_experience *
small_batch (void)
{
  struct plumb_experience *e = plumb_experience_new (SEQUENCES, TOKENS);
  for (int t = 0; t < TOKENS; t++)
    {
      e->mask[t] = t % LENGTH != 0 && t != 6;
      e->old_logp[t] = (float) (-1.2 + 0.3 * sin (t));
      e->rollout_logp[t] = (float) (e->old_logp[t] + 0.1 * cos (3 * t));
      e->reference_logp[t] = (float) (e->old_logp[t] + 0.2 * cos (2 * t));
      e->advantage[t] = sin (5 * t + 1);
      e->value[t] = 0.3 * cos (t);
      e->returns[t] = sin (t);
    }
  for (int s = 0; s < SEQUENCES; s++)
    {
      e->offsets[s + 1] = (s + 1) * LENGTH;
      e->margin[s] = 0.2;
      e->desirable[s] = s % 2 == 0;
    }
  return e;
}

/* Rows of a whole batch, and a loss over some of its sequences. */
static double
loss_of (const struct plumb_experience *e, const PlumbLossSpec *loss, const double *outputs, int first, int last,
         double *slopes)
{
  struct plumb_loss_statistics statistics = { 0 };
  g_auto (PlumbMicroBatch) b = { 0 };
  int sequences[SEQUENCES];
  float rows[TOKENS], entropies[TOKENS];
  for (int s = first; s < last; s++)
    sequences[s - first] = s;
  plumb_micro_batch_fill (&b, e, sequences, last - first, plumb_loss_is_of_last (loss->id));
  for (int r = 0; r < b.n; r++)
    {
      rows[r] = (float) outputs[b.origins[b.places[r]]];
      entropies[r] = 0.5f;
    }
  plumb_micro_batch_evaluate (&b, e, loss, rows, plumb_loss_is_scalar (loss->id) ? NULL : entropies, &statistics);
  for (int r = 0; r < b.n && slopes; r++)
    slopes[b.origins[b.places[r]]] = rows[r];
  return statistics.loss;
}

#define POLICY(name, ...) { name, { .id = PLUMB_LOSS_POLICY, .policy = { .clip_low = 0.2, .clip_high = 0.25, __VA_ARGS__ } } }
#define PAIR(name, ...) { name, { .id = PLUMB_LOSS_PAIR, .pair = { .beta = 0.3, __VA_ARGS__ } } }
#define KTO(name, ...) { name, { .id = PLUMB_LOSS_KTO, .kto = { .beta = 0.3, .desirable = 1, .undesirable = 1.3, __VA_ARGS__ } } }

static const struct
{
  const char *name;
  PlumbLossSpec loss;
} losses[] = {
  { "sft", { .id = PLUMB_LOSS_SFT } },
  { "sft by sequence", { .id = PLUMB_LOSS_SFT, .policy.aggregate = PLUMB_AGGREGATE_SEQUENCE } },
  { "sft by a constant", { .id = PLUMB_LOSS_SFT, .policy.aggregate = PLUMB_AGGREGATE_CONSTANT } },
  POLICY ("ppo", .entropy = 0.01),
  POLICY ("dual clip", .dual_clip = 1.5),
  POLICY ("kl k1", .kl_coefficient = 0.3),
  POLICY ("kl k2", .kl_coefficient = 0.3, .kl_estimator = PLUMB_KL_K2),
  POLICY ("kl k3", .kl_coefficient = 0.3, .kl_estimator = PLUMB_KL_K3),
  POLICY ("kl unbiased", .kl_coefficient = 0.3, .kl_estimator = PLUMB_KL_K3, .kl_unbiased = 1),
  POLICY ("gspo", .surrogate = PLUMB_SURROGATE_GSPO),
  POLICY ("sapo", .surrogate = PLUMB_SURROGATE_SAPO),
  POLICY ("gmpo", .surrogate = PLUMB_SURROGATE_GMPO),
  POLICY ("tis", .correction = PLUMB_CORRECTION_TIS, .correction_low = 0.95, .correction_high = 1.05),
  POLICY ("icepop", .correction = PLUMB_CORRECTION_ICEPOP, .correction_low = 0.95, .correction_high = 1.05),
  POLICY ("sequence mask", .correction = PLUMB_CORRECTION_SEQUENCE_MASK_CLAMPED, .correction_low = 0.9,
          .correction_high = 1.05),
  { "value", { .id = PLUMB_LOSS_VALUE, .value = { .clip = 0.2, .weight = 0.7 } } },
  { "reward", { .id = PLUMB_LOSS_REWARD, .reward_margin = 1 } },
  { "reward log-exp", { .id = PLUMB_LOSS_REWARD, .reward = PLUMB_REWARD_LOGEXP } },
  PAIR ("dpo", .nll = 0.2),
  PAIR ("cdpo", .label_smoothing = 0.1),
  PAIR ("ipo", .loss = PLUMB_PAIR_IPO),
  PAIR ("ipo by means", .loss = PLUMB_PAIR_IPO_MEAN),
  PAIR ("hinge", .loss = PLUMB_PAIR_HINGE),
  PAIR ("robust", .loss = PLUMB_PAIR_ROBUST, .label_smoothing = 0.1),
  PAIR ("apo zero", .loss = PLUMB_PAIR_APO_ZERO),
  PAIR ("apo down", .loss = PLUMB_PAIR_APO_DOWN),
  PAIR ("sppo", .loss = PLUMB_PAIR_SPPO),
  PAIR ("orpo", .loss = PLUMB_PAIR_ORPO),
  PAIR ("simpo", .loss = PLUMB_PAIR_SIMPO, .margin = 0.5),
  KTO ("kto", .kl_desirable = 0.1, .kl_undesirable = 0.1),
};

/* Slopes by finite differences, and the loss cut in two: pairs stay whole. */
static void
check_loss (const char *name, PlumbLossSpec loss)
{
  struct plumb_experience *e = small_batch ();
  double outputs[TOKENS], slopes[TOKENS] = { 0 }, step = 0x1p-9;
  loss.temperature = 1;
  loss.denominators.limit = 7;
  plumb_denominators_add (&loss.denominators, SEQUENCES, e->offsets, e->mask);
  for (int t = 0; t < TOKENS; t++)
    outputs[t] = e->old_logp[t] + 0.4 * sin (7 * t);
  double whole = loss_of (e, &loss, outputs, 0, SEQUENCES, slopes);
  double parts = loss_of (e, &loss, outputs, 0, 2, NULL) + loss_of (e, &loss, outputs, 2, SEQUENCES, NULL);
  assert_near (parts, whole, 1e-12, name);
  for (int t = 0; t < TOKENS; t++)
    {
      double kept = outputs[t];
      outputs[t] = kept + step;
      double up = loss_of (e, &loss, outputs, 0, SEQUENCES, NULL);
      outputs[t] = kept - step;
      double down = loss_of (e, &loss, outputs, 0, SEQUENCES, NULL);
      outputs[t] = kept;
      if (fabs (slopes[t] - (up - down) / (2 * step)) > 2e-4)
        g_error ("%s: the slope of token %d is %.9g, by differences %.9g", name, t, slopes[t],
                 (up - down) / (2 * step));
    }
  plumb_experience_free (e);
}

static void
test_slopes (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (losses); i++)
    check_loss (losses[i].name, losses[i].loss);
}

/* CISPO's ratio is a weight without gradient: the slope is -clip (ratio) A, and no token's is lost. */
static void
test_cispo (void)
{
  struct plumb_experience *e = small_batch ();
  PlumbLossSpec loss = { .id = PLUMB_LOSS_POLICY,
                         .policy = { .surrogate = PLUMB_SURROGATE_CISPO, .clip_low = 0.2, .clip_high = 0.25 } };
  double outputs[TOKENS], slopes[TOKENS] = { 0 };
  plumb_denominators_add (&loss.denominators, SEQUENCES, e->offsets, e->mask);
  for (int t = 0; t < TOKENS; t++)
    outputs[t] = e->old_logp[t] + (t % 2 ? 1 : 0.1);
  loss_of (e, &loss, outputs, 0, SEQUENCES, slopes);
  assert_near (slopes[1], -1.25 * e->advantage[1] / loss.denominators.tokens, 1e-6, "held");
  assert_near (slopes[2], -exp (0.1) * e->advantage[2] / loss.denominators.tokens, 1e-6, "free");
  plumb_experience_free (e);
}

/* Paired KTO: the estimates have a gradient of their own, which the prepared slopes stand for. */
static double
paired_kto (const struct plumb_experience *e, const double *outputs, double *slopes)
{
  PlumbLossSpec loss = { .id = PLUMB_LOSS_KTO, .kto = { .beta = 0.3, .desirable = 1, .undesirable = 1.3, .paired = 1 } };
  double x[SEQUENCES] = { 0 };
  for (int t = 0; t < TOKENS; t++)
    if (e->mask[t])
      x[t / LENGTH] += (double) (float) outputs[t] - e->reference_logp[t];
  plumb_kto_pair_estimates (&loss.kto, SEQUENCES, x, e->desirable);
  plumb_denominators_add (&loss.denominators, SEQUENCES, e->offsets, e->mask);
  return loss_of (e, &loss, outputs, 0, SEQUENCES, slopes);
}

static void
test_paired_kto (void)
{
  struct plumb_experience *e = small_batch ();
  double outputs[TOKENS], slopes[TOKENS] = { 0 }, step = 0x1p-9;
  for (int t = 0; t < TOKENS; t++)
    outputs[t] = e->old_logp[t] + 0.5 + 0.2 * sin (7 * t);
  paired_kto (e, outputs, slopes);
  for (int t = 0; t < TOKENS; t++)
    {
      double kept = outputs[t];
      outputs[t] = kept + step;
      double up = paired_kto (e, outputs, NULL);
      outputs[t] = kept - step;
      double down = paired_kto (e, outputs, NULL);
      outputs[t] = kept;
      assert_near (slopes[t], (up - down) / (2 * step), 2e-4, "slope of paired KTO");
    }
  plumb_experience_free (e);
}

/* By hand: a batch of two sequences, three tokens that count. */
static void
test_sft (void)
{
  struct plumb_denominators denominators = { 0 };
  static const guint8 mask[6] = { 0, 1, 1, 0, 0, 1 };
  static const gint32 offsets[3] = { 0, 3, 6 };
  static const double logp[6] = { 9, -1, -2, 9, 9, -4 };
  static const double right[] = { 7.0 / 3, (1.5 + 4) / 2, 0.7 };
  struct plumb_loss_batch batch = { .sequences = 2, .offsets = offsets, .mask = mask, .logp = logp };
  plumb_denominators_add (&denominators, 2, offsets, mask);
  denominators.limit = 5;
  for (int aggregate = 0; aggregate < 3; aggregate++)
    {
      double dlogp[6];
      struct plumb_slopes slopes = { .logp = dlogp };
      struct plumb_loss_statistics st = { 0 };
      plumb_sft_loss (aggregate, &denominators, &batch, &slopes, &st);
      assert_near (st.loss, right[aggregate], 1e-15, "loss");
      g_assert_cmpfloat (dlogp[0], ==, 0);
    }
}

static void
test_explained_variance (void)
{
  static const guint8 mask[] = { 1, 1 };
  static const gint32 offsets[] = { 0, 2 };
  static const double value[] = { 1, 2 }, exact[] = { 1, 2 }, apart[] = { 2, 1 };
  double slope[2];
  struct plumb_slopes slopes = { .value = slope };
  struct plumb_denominators d = { 2, 1, 0 };
  struct plumb_value_options options = { .weight = 1 };
  struct plumb_loss_batch batch = { .sequences = 1, .offsets = offsets, .mask = mask,
                                    .value = value, .old_value = value, .returns = exact };
  struct plumb_loss_statistics right = { 0 }, wrong = { 0 };
  plumb_value_loss (&options, &d, &batch, &slopes, &right);
  assert_near (plumb_explained_variance (&right), 1, 1e-12, "a critic that knows");
  batch.returns = apart;
  plumb_value_loss (&options, &d, &batch, &slopes, &wrong);
  assert_near (plumb_explained_variance (&wrong), -3, 1e-12, "a critic that errs");
}

static void
test_schedule (void)
{
  struct plumb_schedule s = { .kind = PLUMB_SCHEDULE_CONSTANT, .rate = 2, .warmup = 4, .updates = 12 };
  g_assert_cmpfloat (plumb_schedule_rate (&s, 0), ==, 0);
  g_assert_cmpfloat (plumb_schedule_rate (&s, 2), ==, 1);
  g_assert_cmpfloat (plumb_schedule_rate (&s, 4), ==, 2);
  g_assert_cmpfloat (plumb_schedule_rate (&s, 999), ==, 2);
  s.kind = PLUMB_SCHEDULE_LINEAR;
  assert_near (plumb_schedule_rate (&s, 8), 1, 1e-15, "linear");
  g_assert_cmpfloat (plumb_schedule_rate (&s, 12), ==, 0);
  s.kind = PLUMB_SCHEDULE_COSINE;
  assert_near (plumb_schedule_rate (&s, 6), 2 * 0.5 * (1 + cos (G_PI / 4)), 1e-15, "cosine");
  s.kind = PLUMB_SCHEDULE_COSINE_FLOOR;
  s.floor = 0.1;
  assert_near (plumb_schedule_rate (&s, 12), 0.2, 1e-15, "floor");
  assert_near (plumb_schedule_rate (&s, 100), 0.2, 1e-15, "beyond the end");
  g_assert_cmpint (plumb_schedule_warmup (0.03, 100), ==, 3);
  g_assert_cmpint (plumb_schedule_warmup (0.03, 10), ==, 1);
  g_assert_cmpint (plumb_schedule_warmup (20, 10), ==, 20);
  g_assert_cmpint (plumb_schedule_warmup (0, 10), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/algo/kl", test_kl);
  g_test_add_func ("/algo/baselines/group", test_group_baselines);
  g_test_add_func ("/algo/baselines/other", test_other_baselines);
  g_test_add_func ("/algo/gae/holes", test_gae_over_holes);
  g_test_add_func ("/algo/shaping", test_shaping);
  g_test_add_func ("/algo/sampling", test_sampling);
  g_test_add_func ("/algo/slopes", test_slopes);
  g_test_add_func ("/algo/cispo", test_cispo);
  g_test_add_func ("/algo/kto/paired", test_paired_kto);
  g_test_add_func ("/algo/sft", test_sft);
  g_test_add_func ("/algo/explained-variance", test_explained_variance);
  g_test_add_func ("/algo/schedule", test_schedule);
  return g_test_run ();
}
