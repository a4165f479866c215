/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and estimators against the values of another implementation, and against finite differences. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/algo/advantage.h"
#include "engine/algo/loss.h"
#include "engine/algo/schedule.h"
#include "engine/model/safetensors.h"

#define BOUND 2e-6 /* log-probs are floats here */

static PlumbSafetensors *stored;

/* The stored values of a key; `n` of them. */
static double *
values (const char *key, gsize n)
{
  const PlumbTensor *tensor = plumb_safetensors_find (stored, key);
  double *copy = g_new (double, n);
  if (!tensor || tensor->count != n)
    g_error ("%s is not there with %d values", key, (int) n);
  for (gsize i = 0; i < n; i++)
    copy[i] = plumb_tensor_get (tensor, i);
  return copy;
}

static double
value (const char *key)
{
  g_autofree double *one = values (key, 1);
  return one[0];
}

static void
assert_near (double have, double want, double bound, const char *what)
{
  if (!(fabs (have - want) <= bound * MAX (1, fabs (want))))
    g_error ("%s: %.12g where %.12g is right", what, have, want);
}

/* The stored batch: 12 rows of up to 24 tokens, padded; here ragged, with one token of prompt before each. */
enum
{
  ROWS = 12,
  COLUMNS = 24,
  PADDED = ROWS * COLUMNS,
};

static int
place (int row, int column)
{
  return row * (COLUMNS + 1) + 1 + column;
}

static struct plumb_experience *
load_batch (const char *mask_key)
{
  struct plumb_experience *e = plumb_experience_new (ROWS, ROWS * (COLUMNS + 1));
  g_autofree double *mask = values (mask_key, PADDED), *old = values ("old_log_probs", PADDED);
  g_autofree double *reference = values ("ref_log_probs", PADDED), *rewards = values ("rewards", ROWS);
  for (int r = 0; r < ROWS; r++)
    {
      e->offsets[r + 1] = (r + 1) * (COLUMNS + 1);
      e->reward[r] = rewards[r];
      e->scored[r] = 1;
      e->group[r] = r / 4;
      for (int c = 0; c < COLUMNS; c++)
        {
          int from = r * COLUMNS + c, to = place (r, c);
          e->mask[to] = mask[from] != 0;
          e->old_logp[to] = (float) old[from];
          e->reference_logp[to] = (float) reference[from];
        }
    }
  return e;
}

static void
test_kl (void)
{
  static const char *const names[] = { "kl.k1", "kl.k2", "kl.k3" };
  static const char *const extreme[] = { "extreme.kl.k1", "extreme.kl.k2", "extreme.kl.k3" };
  g_autofree double *a = values ("old_log_probs", PADDED), *b = values ("ref_log_probs", PADDED);
  g_autofree double *far_a = values ("extreme.log_probs", 4), *far_b = values ("extreme.old_log_probs", 4);
  for (int k = 0; k < 3; k++)
    {
      g_autofree double *want = values (names[k], PADDED), *far_want = values (extreme[k], 4);
      for (int i = 0; i < PADDED; i++)
        assert_near (plumb_kl (k, a[i] - b[i], NULL), want[i], BOUND, names[k]);
      for (int i = 0; i < 4; i++)
        assert_near (plumb_kl (k, far_a[i] - far_b[i], NULL), far_want[i], BOUND, extreme[k]);
      for (double d = -3; d < 3; d += 0.37)
        {
          double slope, step = 1e-6;
          plumb_kl (k, d, &slope);
          assert_near (slope, (plumb_kl (k, d + step, NULL) - plumb_kl (k, d - step, NULL)) / (2 * step), 1e-6,
                       "slope");
        }
    }
}

static void
test_group_norm (void)
{
  struct plumb_experience *e = load_batch ("mask");
  struct plumb_advantage_options options = { .clip_low = -10, .clip_high = 10, .kl_coefficient = 0.05,
                                             .kl_estimator = PLUMB_KL_K1, .kl_in_reward = 1,
                                             .normalize = PLUMB_NORMALIZE_MEAN_STD };
  struct plumb_group_statistics statistics;
  g_autofree double *want = values ("adv.group_norm.advantages", PADDED);
  plumb_advantage_group_norm (e, &options, &statistics);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      if (e->mask[place (r, c)])
        assert_near (e->advantage[place (r, c)], want[r * COLUMNS + c], BOUND, "adv.group_norm.advantages");
  g_assert_cmpint (statistics.groups, ==, 3);
  g_assert_cmpint (statistics.flat, ==, 1); /* rewards 4 to 7 are all 1 */
  g_assert_cmpint (statistics.dropped, ==, 0);
  plumb_experience_free (e);
}

/* By hand: rewards 1, 0, 0, 1 have mean 0.5 and deviation 1 / sqrt (3). */
static void
test_group_norm_by_hand (void)
{
  struct plumb_experience *e = plumb_experience_new (6, 12);
  struct plumb_advantage_options options = { .clip_low = -10, .clip_high = 10, .normalize = PLUMB_NORMALIZE_MEAN_STD };
  struct plumb_group_statistics statistics;
  static const double rewards[] = { 1, 0, 0, 1, 7, 3 };
  for (int s = 0; s < 6; s++)
    {
      e->offsets[s + 1] = 2 * (s + 1);
      e->mask[2 * s + 1] = 1;
      e->reward[s] = rewards[s];
      e->scored[s] = s != 5; /* its partner is alone in its group */
      e->group[s] = s / 4;
    }
  plumb_advantage_group_norm (e, &options, &statistics);
  assert_near (e->advantage[1], 0.5 * sqrt (3), 1e-8, "better half");
  assert_near (e->advantage[3], -0.5 * sqrt (3), 1e-8, "worse half");
  g_assert_cmpint (e->mask[9], ==, 0);
  g_assert_cmpint (e->mask[11], ==, 0);
  g_assert_cmpint (statistics.groups, ==, 1);
  g_assert_cmpint (statistics.dropped, ==, 2);
  options.normalize = PLUMB_NORMALIZE_MEAN;
  options.clip_high = 0.4;
  plumb_advantage_group_norm (e, &options, &statistics);
  g_assert_cmpfloat (e->advantage[1], ==, 0.4);
  g_assert_cmpfloat (e->advantage[3], ==, -0.5);
  plumb_experience_free (e);
}

/* A loss and what stands in the file under its name. */
typedef struct
{
  const char *name, *mask;
  struct plumb_policy_options options;
} Variant;

static const Variant variants[] = {
  { "policy.ppo", "mask", { .clip_low = 0.2, .clip_high = 0.2 } },
  { "policy.ppo_asym_dual", "mask", { .clip_low = 0.2, .clip_high = 0.28, .dual_clip = 3 } },
  { "policy.ppo_seqmean", "mask", { .clip_low = 0.2, .clip_high = 0.2, .aggregate = PLUMB_AGGREGATE_SEQUENCE } },
  { "holes.ppo", "holes.mask", { .clip_low = 0.2, .clip_high = 0.2 } },
  { "holes.ppo_seqmean", "holes.mask", { .clip_low = 0.2, .clip_high = 0.2, .aggregate = PLUMB_AGGREGATE_SEQUENCE } },
};

static char *
key_of (const Variant *variant, const char *what)
{
  return g_strdup_printf ("%s.%s", variant->name, what);
}

/* Evaluates on sequences first..last-1 with denominators of the whole batch. */
static void
evaluate (const Variant *variant, const struct plumb_experience *e, const float *logp, int first, int last,
          double *dlogp, double *dentropy, struct plumb_policy_statistics *statistics)
{
  struct plumb_denominators denominators = { 0 };
  plumb_denominators_add (&denominators, e->sequences, e->offsets, e->mask);
  struct plumb_loss_batch batch = { .sequences = last - first, .offsets = e->offsets + first, .mask = e->mask,
                                    .logp = logp, .old_logp = e->old_logp, .advantage = e->advantage };
  plumb_policy_loss (&variant->options, &denominators, &batch, dlogp, dentropy, statistics);
}

static void
check_variant (const Variant *variant)
{
  struct plumb_experience *e = load_batch (variant->mask);
  g_autofree double *logp = values ("log_probs", PADDED), *advantages = values ("policy.advantages", PADDED);
  g_autofree char *loss_key = key_of (variant, "loss"), *slope_key = key_of (variant, "grad_log_probs");
  g_autofree double *slopes = values (slope_key, PADDED);
  g_autofree float *now = g_new0 (float, e->tokens);
  g_autofree double *dlogp = g_new0 (double, e->tokens), *dentropy = g_new0 (double, e->tokens);
  struct plumb_policy_statistics whole = { 0 }, parts = { 0 };
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      {
        now[place (r, c)] = (float) logp[r * COLUMNS + c];
        e->advantage[place (r, c)] = advantages[r * COLUMNS + c];
      }
  evaluate (variant, e, now, 0, ROWS, dlogp, dentropy, &whole);
  assert_near (whole.loss, value (loss_key), BOUND, loss_key);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      assert_near (dlogp[place (r, c)], slopes[r * COLUMNS + c], BOUND, slope_key);
  /* However the batch is cut, the sum is the same. */
  evaluate (variant, e, now, 0, 5, dlogp, dentropy, &parts);
  evaluate (variant, e, now, 5, 6, dlogp, dentropy, &parts);
  evaluate (variant, e, now, 6, ROWS, dlogp, dentropy, &parts);
  assert_near (parts.loss, whole.loss, 1e-12, "the loss in parts");
  assert_near (parts.tokens, whole.tokens, 0, "the tokens in parts");
  plumb_experience_free (e);
}

static void
test_policy (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (variants); i++)
    check_variant (&variants[i]);
}

/* Log-ratios beyond the limit of twenty, and advantages of both signs. */
static void
test_policy_extreme (void)
{
  static const struct
  {
    const char *name;
    double dual;
  } cases[] = { { "extreme.ppo", 0 }, { "extreme.dual3", 3 } };
  g_autofree double *logp = values ("extreme.log_probs", 4), *old = values ("extreme.old_log_probs", 4);
  g_autofree double *advantage = values ("extreme.advantages", 4);
  const guint8 mask[4] = { 1, 1, 1, 1 };
  const gint32 offsets[2] = { 0, 4 };
  float now[4], before[4];
  for (int i = 0; i < 4; i++)
    {
      now[i] = (float) logp[i];
      before[i] = (float) old[i];
    }
  for (gsize k = 0; k < G_N_ELEMENTS (cases); k++)
    {
      struct plumb_policy_options options = { .clip_low = 0.2, .clip_high = 0.2, .dual_clip = cases[k].dual };
      struct plumb_denominators denominators = { 4, 1, 0 };
      struct plumb_loss_batch batch = { 1, offsets, mask, now, NULL, before, NULL, advantage };
      struct plumb_policy_statistics statistics = { 0 };
      double dlogp[4], dentropy[4];
      g_autofree char *loss = g_strconcat (cases[k].name, ".loss", NULL);
      g_autofree char *slope = g_strconcat (cases[k].name, ".grad_log_probs", NULL);
      g_autofree double *slopes = values (slope, 4);
      plumb_policy_loss (&options, &denominators, &batch, dlogp, dentropy, &statistics);
      assert_near (statistics.loss, value (loss), BOUND, loss);
      for (int i = 0; i < 4; i++)
        assert_near (dlogp[i], slopes[i], BOUND, slope);
    }
}

/* KL in the loss and the entropy bonus, by finite differences in double steps of a float. */
static void
test_policy_terms (void)
{
  struct plumb_policy_options options = { .clip_low = 0.2, .clip_high = 0.2, .kl_coefficient = 0.3,
                                          .kl_estimator = PLUMB_KL_K3, .entropy = 0.07 };
  struct plumb_denominators denominators = { 2, 1, 0 };
  const guint8 mask[3] = { 0, 1, 1 };
  const gint32 offsets[2] = { 0, 3 };
  const float old[3] = { 0, -1.1f, -2.1f }, reference[3] = { 0, -1.5f, -1.75f };
  const double advantage[3] = { 0, 0.7, -0.4 };
  float logp[3] = { 0, -1, -2 }, entropy[3] = { 9, 1.25f, 0.5f };
  double dlogp[3], dentropy[3], unused[3], nothing[3];
  struct plumb_loss_batch batch = { 1, offsets, mask, logp, entropy, old, reference, advantage };
  struct plumb_policy_statistics statistics = { 0 };
  plumb_policy_loss (&options, &denominators, &batch, dlogp, dentropy, &statistics);
  assert_near (statistics.entropy_loss, -0.07 * (1.25 + 0.5) / 2, 1e-12, "entropy bonus");
  assert_near (statistics.kl_loss,
               0.3 * (plumb_kl (PLUMB_KL_K3, 0.5, NULL) + plumb_kl (PLUMB_KL_K3, -0.25, NULL)) / 2, 1e-12, "kl loss");
  g_assert_cmpfloat (dlogp[0], ==, 0);
  g_assert_cmpfloat (dentropy[0], ==, 0);
  assert_near (dentropy[1], -0.035, 1e-12, "slope of the entropy");
  for (int t = 1; t < 3; t++)
    {
      struct plumb_policy_statistics up = { 0 }, down = { 0 };
      float kept = logp[t];
      logp[t] = kept + 0x1p-10f;
      plumb_policy_loss (&options, &denominators, &batch, unused, nothing, &up);
      logp[t] = kept - 0x1p-10f;
      plumb_policy_loss (&options, &denominators, &batch, unused, nothing, &down);
      logp[t] = kept;
      assert_near (dlogp[t], (up.loss - down.loss) / 0x1p-9, 1e-5, "slope of the log-prob");
    }
}

static void
test_sft (void)
{
  struct plumb_denominators denominators = { 0 };
  const guint8 mask[6] = { 0, 1, 1, 0, 0, 1 };
  const gint32 offsets[3] = { 0, 3, 6 };
  const float logp[6] = { 9, -1, -2, 9, 9, -4 };
  double dlogp[6];
  struct plumb_loss_batch batch = { .sequences = 2, .offsets = offsets, .mask = mask, .logp = logp };
  plumb_denominators_add (&denominators, 2, offsets, mask);
  g_assert_cmpfloat (denominators.tokens, ==, 3);
  g_assert_cmpfloat (denominators.sequences, ==, 2);
  assert_near (plumb_sft_loss (PLUMB_AGGREGATE_TOKEN, &denominators, &batch, dlogp), 7.0 / 3, 1e-15, "token mean");
  assert_near (dlogp[1], -1.0 / 3, 1e-15, "its slope");
  g_assert_cmpfloat (dlogp[0], ==, 0);
  assert_near (plumb_sft_loss (PLUMB_AGGREGATE_SEQUENCE, &denominators, &batch, dlogp), (1.5 + 4) / 2, 1e-15,
               "sequence mean");
  assert_near (dlogp[5], -0.5, 1e-15, "its slope");
  denominators.limit = 5;
  assert_near (plumb_sft_loss (PLUMB_AGGREGATE_CONSTANT, &denominators, &batch, dlogp), 0.7, 1e-15, "constant");
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
  g_autofree char *path = g_build_filename (g_getenv ("PLUMB_TEST_FIXTURES"), "losses.safetensors", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSafetensors) file = plumb_safetensors_open (path, &error);
  g_assert_no_error (error);
  stored = file;
  g_test_add_func ("/algo/kl", test_kl);
  g_test_add_func ("/algo/group-norm", test_group_norm);
  g_test_add_func ("/algo/group-norm/by-hand", test_group_norm_by_hand);
  g_test_add_func ("/algo/policy", test_policy);
  g_test_add_func ("/algo/policy/extreme", test_policy_extreme);
  g_test_add_func ("/algo/policy/terms", test_policy_terms);
  g_test_add_func ("/algo/sft", test_sft);
  g_test_add_func ("/algo/schedule", test_schedule);
  return g_test_run ();
}
