/* SPDX-License-Identifier: Apache-2.0 */

/* `verify losses`: estimators, losses and samplers against stored values. Rows of the file are padded; the masked
 * places of a row simply do not count here, so a row is a sequence of COLUMNS tokens. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/algo/advantage.h"
#include "engine/algo/policy-loss.h"
#include "engine/algo/preference-loss.h"
#include "engine/algo/sampling.h"
#include "engine/algo/shaping.h"
#include "engine/algo/value-loss.h"
#include "engine/core/error.h"
#include "engine/model/device.h"
#include "engine/run/verify.h"

enum
{
  ROWS = 12,
  GROUP = 4,
  COLUMNS = 24,
  TOKENS = ROWS * COLUMNS,
  EXTREME = 4,
  PAIRS = 10,
  LOGITS = 6,
  VOCABULARY = 300,
  CONTEXT = 12,
};

#define EXACT 1e-6   /* relative */
#define ROUNDED 1e-5 /* where the stored values went through float32, */
#define ROUNDING 1e-6 /* which leaves an absolute error too */
#define WORKSPACE (64 << 20)

typedef struct
{
  PlumbVerify *verify;
  guint8 mask[TOKENS], holes[TOKENS];
  double log_probs[TOKENS], old[TOKENS], rollout[TOKENS], reference[TOKENS], values[TOKENS], rewards[ROWS];
  double advantages[TOKENS]; /* that the policy losses were given */
  gint32 offsets[ROWS + 1];
} Stored;

/* Stored values of a key, zeros where it is missing, which the verification counts. */
static void
take (PlumbVerify *verify, double *to, gsize n, const char *key)
{
  const PlumbTensor *tensor = plumb_verify_expect (verify, n, "%s", key);
  for (gsize i = 0; i < n; i++)
    to[i] = tensor ? plumb_tensor_get (tensor, i) : 0;
}

static void
take_bytes (PlumbVerify *verify, guint8 *to, gsize n, const char *key)
{
  g_autofree double *values = g_new (double, n);
  int others = 0;
  take (verify, values, n, key);
  for (gsize i = 0; i < n; i++)
    {
      to[i] = values[i] != 0;
      others += values[i] != 0 && values[i] != 1;
    }
  plumb_verify_record (verify, key, "not 0 or 1", others, 0);
}

static void
compare (PlumbVerify *verify, const double *have, gsize n, double bound, const char *format, ...)
    G_GNUC_PRINTF (5, 6);

static void
compare (PlumbVerify *verify, const double *have, gsize n, double bound, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *key = g_strdup_vprintf (format, args);
  va_end (args);
  plumb_verify_near (verify, plumb_verify_expect (verify, n, "%s", key), have, bound,
                     bound == ROUNDED ? ROUNDING : 1e-9);
}

static void
stored_read (Stored *s)
{
  PlumbVerify *v = s->verify;
  gint32 lengths[ROWS] = { 0 };
  take_bytes (v, s->mask, TOKENS, "mask");
  take_bytes (v, s->holes, TOKENS, "holes.mask");
  for (int t = 0; t < TOKENS; t++)
    lengths[t / COLUMNS] += s->mask[t];
  plumb_verify_integers (v, plumb_verify_expect (v, ROWS, "lengths"), lengths);
  take (v, s->log_probs, TOKENS, "log_probs");
  take (v, s->old, TOKENS, "old_log_probs");
  take (v, s->rollout, TOKENS, "rollout_log_probs");
  take (v, s->reference, TOKENS, "ref_log_probs");
  take (v, s->values, TOKENS, "values");
  take (v, s->rewards, ROWS, "rewards");
  take (v, s->advantages, TOKENS, "policy.advantages");
  for (int r = 0; r < ROWS; r++)
    s->offsets[r + 1] = (r + 1) * COLUMNS;
}

static void
verify_kl (Stored *s)
{
  static const char *const names[] = { "k1", "k2", "k3" };
  double far_a[EXTREME], far_b[EXTREME], found[TOKENS], adapted[6], current[6], coefficient = 0.2;
  take (s->verify, far_a, EXTREME, "extreme.log_probs");
  take (s->verify, far_b, EXTREME, "extreme.old_log_probs");
  for (int k = 0; k < 3; k++)
    {
      for (int i = 0; i < TOKENS; i++)
        found[i] = plumb_kl (k, s->old[i] - s->reference[i], NULL);
      compare (s->verify, found, TOKENS, ROUNDED, "kl.%s", names[k]);
      for (int i = 0; i < EXTREME; i++)
        found[i] = plumb_kl (k, far_a[i] - far_b[i], NULL);
      compare (s->verify, found, EXTREME, ROUNDED, "extreme.kl.%s", names[k]);
    }
  take (s->verify, current, 6, "klctl.current");
  for (int i = 0; i < 6; i++)
    adapted[i] = coefficient = plumb_kl_adapt (coefficient, current[i], 6, 256, 10000);
  compare (s->verify, adapted, 6, EXACT, "klctl.value");
}

static struct plumb_experience *
experience_of (const Stored *s)
{
  struct plumb_experience *e = plumb_experience_new (ROWS, TOKENS);
  memcpy (e->offsets, s->offsets, sizeof s->offsets);
  memcpy (e->mask, s->mask, sizeof s->mask);
  memcpy (e->value, s->values, sizeof s->values);
  memcpy (e->reward, s->rewards, sizeof s->rewards);
  for (int t = 0; t < TOKENS; t++)
    {
      e->old_logp[t] = (float) s->old[t];
      e->reference_logp[t] = (float) s->reference[t];
    }
  for (int r = 0; r < ROWS; r++)
    {
      e->scored[r] = 1;
      e->group[r] = r / GROUP;
    }
  return e;
}

/* Of one estimator of the file. */
typedef struct
{
  const char *key;
  gboolean returns; /* are stored too */
  struct plumb_advantage_options options;
} Estimator;

#define LIMITS .lambda = 0.95, .clip_low = -10, .clip_high = 10, .kl_in_reward = 1
#define WITH_KL LIMITS, .kl_coefficient = 0.05, .gamma = 1

static const Estimator estimators[] = {
  { "gae", TRUE, { WITH_KL, .critic = 1, .whiten = PLUMB_NORMALIZE_MEAN_STD } },
  { "reinforce", TRUE, { WITH_KL, .whiten = PLUMB_NORMALIZE_MEAN_STD } },
  { "rloo", TRUE, { WITH_KL, .baseline = PLUMB_BASELINE_LEAVE_ONE_OUT } },
  { "reinforce_baseline", TRUE,
    { WITH_KL, .baseline = PLUMB_BASELINE_GROUP_MEAN, .whiten = PLUMB_NORMALIZE_MEAN_STD } },
  { "dr_grpo", TRUE, { WITH_KL, .baseline = PLUMB_BASELINE_GROUP_MEAN } },
  { "group_norm", TRUE, { WITH_KL, .baseline = PLUMB_BASELINE_GROUP_MEAN, .scale_by_deviation = 1 } },
  { "gae_clip_gamma99_lambda90", TRUE,
    { .critic = 1, .whiten = PLUMB_NORMALIZE_MEAN_STD, .gamma = 0.99, .lambda = 0.9, .clip_low = -0.5,
      .clip_high = 0.9, .kl_in_reward = 1, .kl_coefficient = 0.05 } },
  { "reinforce_nostd_gamma98", FALSE, { LIMITS, .gamma = 0.98, .whiten = PLUMB_NORMALIZE_MEAN } },
};

static void
verify_advantages (Stored *s)
{
  for (gsize i = 0; i < G_N_ELEMENTS (estimators); i++)
    {
      struct plumb_experience *e = experience_of (s);
      struct plumb_group_statistics groups;
      plumb_advantages (e, &estimators[i].options, &groups);
      compare (s->verify, e->advantage, TOKENS, ROUNDED, "adv.%s.advantages", estimators[i].key);
      if (estimators[i].returns)
        compare (s->verify, e->returns, TOKENS, ROUNDED, "adv.%s.returns", estimators[i].key);
      plumb_experience_free (e);
    }
}

static void
verify_shaping (Stored *s)
{
  struct plumb_experience *e = experience_of (s);
  plumb_shape_overlong (e, COLUMNS, 8, 1);
  compare (s->verify, e->reward, ROWS, EXACT, "overlong.rewards");
  memcpy (e->reward, s->rewards, sizeof s->rewards);
  for (int r = 0; r < ROWS; r++)
    e->truncated[r] = plumb_experience_response_length (e, r) == COLUMNS;
  plumb_shape_truncated (e, 0.5);
  compare (s->verify, e->reward, ROWS, EXACT, "stop_properly_05.rewards");
  plumb_experience_free (e);
}

/* Tokens skipped by masks with holes. */
static void
verify_holes (Stored *s)
{
  double values[TOKENS], rewards[TOKENS], advantages[TOKENS], returns[TOKENS];
  static const struct
  {
    const char *key;
    double gamma, lambda;
  } cases[] = { { "gae_g99_l95", 0.99, 0.95 }, { "gae_g1_l1", 1, 1 } };
  take (s->verify, values, TOKENS, "holes.values");
  take (s->verify, rewards, TOKENS, "holes.token_rewards");
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      for (int at = 0; at < TOKENS; at += COLUMNS)
        plumb_gae (COLUMNS, s->holes + at, rewards + at, values + at, cases[i].gamma, cases[i].lambda,
                   advantages + at, returns + at);
      compare (s->verify, advantages, TOKENS, ROUNDED, "holes.%s.advantages", cases[i].key);
      compare (s->verify, returns, TOKENS, ROUNDED, "holes.%s.returns", cases[i].key);
    }
  for (int at = 0; at < TOKENS; at += COLUMNS)
    plumb_discounted_returns (COLUMNS, s->holes + at, rewards + at, 0.97, returns + at);
  compare (s->verify, returns, TOKENS, ROUNDED, "holes.reinforce_g97.returns");
}

typedef struct
{
  const char *key;
  gboolean rollout; /* the divergence from the sampler is stored too */
  struct plumb_policy_options options;
} Policy;

#define CLIP .clip_low = 0.2, .clip_high = 0.2
#define SEQUENCE_CLIP .surrogate = PLUMB_SURROGATE_GSPO, .clip_low = 3e-4, .clip_high = 4e-4

static const Policy policies[] = {
  { "policy.ppo", FALSE, { CLIP } },
  { "policy.ppo_asym_dual", FALSE, { .clip_low = 0.2, .clip_high = 0.28, .dual_clip = 3 } },
  { "policy.ppo_seqmean", FALSE, { CLIP, .aggregate = PLUMB_AGGREGATE_SEQUENCE } },
  { "policy.gspo", FALSE, { SEQUENCE_CLIP } },
  { "policy.tis", TRUE,
    { CLIP, .correction = PLUMB_CORRECTION_TIS, .correction_low = 0.5, .correction_high = 2 } },
  { "policy.icepop", TRUE,
    { CLIP, .correction = PLUMB_CORRECTION_ICEPOP, .correction_low = 0.8, .correction_high = 1.25 } },
  { "policy.seq_mask_tis", TRUE,
    { CLIP, .correction = PLUMB_CORRECTION_SEQUENCE_MASK, .correction_low = 0.95, .correction_high = 1.05 } },
  { "holes.ppo", FALSE, { CLIP } },
  { "holes.ppo_seqmean", FALSE, { CLIP, .aggregate = PLUMB_AGGREGATE_SEQUENCE } },
  { "holes.gspo", FALSE, { SEQUENCE_CLIP } },
};

/* One policy loss: its value, gradient and the diagnostics that are stored. */
static void
compare_policy (PlumbVerify *verify, const Policy *policy, const struct plumb_loss_batch *batch, gsize tokens)
{
  g_autofree double *by_logp = g_new0 (double, tokens), *by_entropy = g_new0 (double, tokens);
  struct plumb_slopes slopes = { .logp = by_logp, .entropy = by_entropy };
  struct plumb_denominators d = { 0 };
  struct plumb_loss_statistics st = { 0 };
  plumb_denominators_add (&d, batch->sequences, batch->offsets, batch->mask);
  plumb_policy_loss (&policy->options, &d, batch, &slopes, &st);
  double clipped = (st.clipped_low + st.clipped_high) / st.tokens, update = st.kl_update / st.tokens;
  double rollout = st.kl_rollout / st.tokens;
  g_autofree char *has_clip = g_strdup_printf ("%s.clip_ratio", policy->key);
  compare (verify, &st.loss, 1, EXACT, "%s.loss", policy->key);
  compare (verify, by_logp, tokens, EXACT, "%s.grad_log_probs", policy->key);
  if (!plumb_verify_has (verify, has_clip) && g_str_has_prefix (policy->key, "holes."))
    return;
  compare (verify, &clipped, 1, ROUNDED, "%s.clip_ratio", policy->key);
  compare (verify, &update, 1, EXACT, "%s.ppo_kl", policy->key);
  if (policy->rollout)
    compare (verify, &rollout, 1, EXACT, "%s.rollout_kl", policy->key);
}

static void
verify_policies (Stored *s)
{
  for (gsize i = 0; i < G_N_ELEMENTS (policies); i++)
    {
      gboolean holes = g_str_has_prefix (policies[i].key, "holes.");
      struct plumb_loss_batch batch = {
        .sequences = ROWS, .offsets = s->offsets,      .mask = holes ? s->holes : s->mask,
        .logp = s->log_probs, .old_logp = s->old, .advantage = s->advantages,
        .rollout_logp = s->rollout,
      };
      compare_policy (s->verify, &policies[i], &batch, TOKENS);
    }
}

static void
verify_extremes (Stored *s)
{
  static const Policy extremes[] = {
    { "extreme.ppo", FALSE, { CLIP } },
    { "extreme.dual3", FALSE, { CLIP, .dual_clip = 3 } },
  };
  static const gint32 offsets[] = { 0, EXTREME };
  static const guint8 mask[EXTREME] = { 1, 1, 1, 1 };
  double logp[EXTREME], old[EXTREME], advantage[EXTREME];
  take (s->verify, logp, EXTREME, "extreme.log_probs");
  take (s->verify, old, EXTREME, "extreme.old_log_probs");
  take (s->verify, advantage, EXTREME, "extreme.advantages");
  struct plumb_loss_batch batch = { .sequences = 1, .offsets = offsets, .mask = mask,
                                    .logp = logp,   .old_logp = old,    .advantage = advantage };
  for (gsize i = 0; i < G_N_ELEMENTS (extremes); i++)
    compare_policy (s->verify, &extremes[i], &batch, EXTREME);
}

static void
verify_values (Stored *s)
{
  static const struct
  {
    const char *key;
    struct plumb_value_options options;
  } cases[] = {
    { "clip05", { .clip = 0.5, .weight = 1 } },
    { "noclip", { .weight = 1 } },
    { "clip02_seqmean", { .clip = 0.2, .weight = 1, .aggregate = PLUMB_AGGREGATE_SEQUENCE } },
  };
  double returns[TOKENS], values[TOKENS], slope[TOKENS];
  take (s->verify, returns, TOKENS, "value.returns");
  take (s->verify, values, TOKENS, "value.new_values");
  struct plumb_loss_batch batch = { .sequences = ROWS, .offsets = s->offsets,    .mask = s->mask,
                                    .value = values,   .old_value = s->values, .returns = returns };
  struct plumb_slopes slopes = { .value = slope };
  struct plumb_denominators d = { 0 };
  plumb_denominators_add (&d, ROWS, s->offsets, s->mask);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      struct plumb_loss_statistics st = { 0 };
      plumb_value_loss (&cases[i].options, &d, &batch, &slopes, &st);
      compare (s->verify, &st.loss, 1, EXACT, "value.%s.loss", cases[i].key);
      compare (s->verify, slope, TOKENS, EXACT, "value.%s.grad_values", cases[i].key);
    }
}

/* Twenty sequences of one token each; pair i is 2i and 2i + 1, or for KTO answer i is sequence i. */
typedef struct
{
  gint32 offsets[2 * PAIRS + 1];
  guint8 mask[2 * PAIRS], desirable[PAIRS];
  double policy[2 * PAIRS], reference[2 * PAIRS], margin[2 * PAIRS], slope[2 * PAIRS];
} Answers;

static void
answers_init (Answers *a)
{
  memset (a, 0, sizeof *a);
  for (int i = 0; i < 2 * PAIRS; i++)
    {
      a->offsets[i + 1] = i + 1;
      a->mask[i] = 1;
    }
}

static void
interleave (PlumbVerify *verify, double *to, const char *even, const char *odd)
{
  double first[PAIRS], second[PAIRS];
  take (verify, first, PAIRS, even);
  take (verify, second, PAIRS, odd);
  for (int i = 0; i < PAIRS; i++)
    {
      to[2 * i] = first[i];
      to[2 * i + 1] = second[i];
    }
}

/* Both sides' values, every other one, times a factor. */
static void
compare_sides (PlumbVerify *verify, const double *values, const char *prefix, const char *chosen,
               const char *rejected)
{
  double sides[2][PAIRS];
  for (int i = 0; i < 2 * PAIRS; i++)
    sides[i % 2][i / 2] = values[i];
  compare (verify, sides[0], PAIRS, EXACT, "%s.%s", prefix, chosen);
  compare (verify, sides[1], PAIRS, EXACT, "%s.%s", prefix, rejected);
}

static void
verify_reward_models (Stored *s)
{
  static const struct
  {
    const char *key;
    enum plumb_reward_loss loss;
    int margin;
  } cases[] = {
    { "rm.pairwise", PLUMB_REWARD_SIGMOID, 0 },
    { "rm.pairwise_margin", PLUMB_REWARD_SIGMOID, 1 },
    { "rm.logexp", PLUMB_REWARD_LOGEXP, 0 },
  };
  Answers a;
  answers_init (&a);
  interleave (s->verify, a.policy, "rm.chosen", "rm.rejected");
  interleave (s->verify, a.margin, "rm.margin", "rm.margin");
  struct plumb_loss_batch batch = { .sequences = 2 * PAIRS, .offsets = a.offsets, .mask = a.mask,
                                    .value = a.policy,      .margin = a.margin };
  struct plumb_slopes slopes = { .value = a.slope };
  struct plumb_denominators d = { .sequences = 2 * PAIRS };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      struct plumb_loss_statistics st = { 0 };
      plumb_reward_loss (cases[i].loss, cases[i].margin, &d, &batch, &slopes, &st);
      compare (s->verify, &st.loss, 1, EXACT, "%s.loss", cases[i].key);
      compare_sides (s->verify, a.slope, cases[i].key, "grad_chosen", "grad_rejected");
    }
}

static void
verify_pairs (Stored *s)
{
  static const struct
  {
    const char *key;
    struct plumb_pair_options options;
  } cases[] = {
    { "dpo.beta01", { .beta = 0.1 } },
    { "dpo.beta05_ls01", { .beta = 0.5, .label_smoothing = 0.1 } },
    { "dpo.ipo", { .loss = PLUMB_PAIR_IPO, .beta = 0.1 } },
  };
  Answers a;
  answers_init (&a);
  interleave (s->verify, a.policy, "dpo.policy_chosen", "dpo.policy_rejected");
  interleave (s->verify, a.reference, "dpo.ref_chosen", "dpo.ref_rejected");
  struct plumb_loss_batch batch = { .sequences = 2 * PAIRS, .offsets = a.offsets, .mask = a.mask,
                                    .logp = a.policy,       .reference = a.reference };
  struct plumb_slopes slopes = { .logp = a.slope };
  struct plumb_denominators d = { .sequences = 2 * PAIRS };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      struct plumb_loss_statistics st = { 0 };
      double rewards[2 * PAIRS];
      plumb_pair_loss (&cases[i].options, &d, &batch, &slopes, &st);
      compare (s->verify, &st.loss, 1, EXACT, "%s.loss", cases[i].key);
      compare_sides (s->verify, a.slope, cases[i].key, "grad_chosen", "grad_rejected");
      for (int k = 0; k < 2 * PAIRS; k++)
        rewards[k] = cases[i].options.beta * (a.policy[k] - a.reference[k]);
      compare_sides (s->verify, rewards, cases[i].key, "chosen_rewards", "rejected_rewards");
    }
}

static void
verify_kto (Stored *s)
{
  static const struct
  {
    const char *key;
    double beta, desirable, undesirable;
  } cases[] = { { "kto.beta01", 0.1, 1, 1 }, { "kto.beta03_w133", 0.3, 1, 1.33 } };
  Answers a;
  double policy_kl[PAIRS], reference_kl[PAIRS], estimate = 0;
  answers_init (&a);
  take_bytes (s->verify, a.desirable, PAIRS, "kto.desirable");
  take (s->verify, policy_kl, PAIRS, "kto.policy_kl_logps");
  take (s->verify, reference_kl, PAIRS, "kto.ref_kl_logps");
  take (s->verify, a.policy, PAIRS, "dpo.policy_chosen");
  take (s->verify, a.reference, PAIRS, "dpo.ref_chosen");
  for (int i = 0; i < PAIRS; i++)
    estimate += (policy_kl[i] - reference_kl[i]) / PAIRS;
  estimate = fmax (estimate, 0);
  struct plumb_loss_batch batch = { .sequences = PAIRS, .offsets = a.offsets, .mask = a.mask, .logp = a.policy,
                                    .reference = a.reference, .desirable = a.desirable };
  struct plumb_slopes slopes = { .logp = a.slope };
  struct plumb_denominators d = { .sequences = PAIRS };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      struct plumb_kto_options options = { .beta = cases[i].beta,
                                           .desirable = cases[i].desirable,
                                           .undesirable = cases[i].undesirable,
                                           .kl_desirable = estimate,
                                           .kl_undesirable = estimate };
      struct plumb_loss_statistics st = { 0 };
      plumb_kto_loss (&options, &d, &batch, &slopes, &st);
      compare (s->verify, &st.loss, 1, EXACT, "%s.loss", cases[i].key);
      compare (s->verify, &estimate, 1, EXACT, "%s.kl", cases[i].key);
      compare (s->verify, a.slope, PAIRS, EXACT, "%s.grad_policy", cases[i].key);
    }
}

static void
verify_samplers (Stored *s, const float *logits)
{
  static const struct
  {
    const char *key;
    struct plumb_sampling_options options;
  } cases[] = {
    { "t07_k50_p09", { 1, 0.7, 50, 0.9, 0 } },
    { "t1_p095", { 1, 1, 0, 0.95, 0 } },
    { "t12_minp01", { 1, 1.2, 0, 1, 0.1 } },
    { "rep13", { 1.3, 1, 0, 1, 0 } },
  };
  double context[LOGITS * CONTEXT];
  gint32 ids[LOGITS * CONTEXT];
  g_autofree double *found = g_new (double, LOGITS * VOCABULARY);
  take (s->verify, context, G_N_ELEMENTS (context), "sampler.context");
  for (gsize i = 0; i < G_N_ELEMENTS (ids); i++)
    ids[i] = (gint32) context[i];
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      for (int r = 0; r < LOGITS; r++)
        plumb_sampling_distribution (&cases[i].options, VOCABULARY, logits + r * VOCABULARY, ids + r * CONTEXT,
                                     CONTEXT, found + r * VOCABULARY);
      compare (s->verify, found, LOGITS * VOCABULARY, ROUNDED, "sampler.%s", cases[i].key);
    }
}

/* The device's vocabulary head on logits that are given: with the identity for its input, a row of the
 * product is a column of the table. */
static gboolean
verify_entropy (Stored *s, PlumbDevice *device, const float *logits, GError **error)
{
  const struct dev_ops *ops = device->ops;
  gsize bytes = dev_align (LOGITS * LOGITS * sizeof (float)) + dev_align (LOGITS * VOCABULARY * sizeof (float))
                + 4 * dev_align (LOGITS * sizeof (float));
  struct dev_arena *arena = plumb_device_allocate (device, bytes, "logits", error);
  if (!arena)
    return FALSE;
  float identity[LOGITS * LOGITS] = { 0 }, entropy[LOGITS];
  double found[LOGITS];
  g_autofree float *table = g_new (float, LOGITS * VOCABULARY);
  for (int r = 0; r < LOGITS; r++)
    {
      identity[r * LOGITS + r] = 1;
      for (int v = 0; v < VOCABULARY; v++)
        table[v * LOGITS + r] = logits[r * VOCABULARY + v];
    }
  PlumbCutter cutter = { ops->arena_base (arena), 0 };
  float *h = plumb_cut (&cutter, sizeof identity);
  float *w = plumb_cut (&cutter, LOGITS * VOCABULARY * sizeof (float));
  float *logp = plumb_cut (&cutter, LOGITS * sizeof (float)), *h_out = plumb_cut (&cutter, LOGITS * sizeof (float));
  float *lse = plumb_cut (&cutter, LOGITS * sizeof (float));
  gint32 *targets = plumb_cut (&cutter, LOGITS * sizeof (gint32));
  struct dev_matrix matrix = { .data = w, .rows = VOCABULARY, .cols = LOGITS };
  ops->upload (device->context, h, identity, sizeof identity);
  ops->upload (device->context, w, table, LOGITS * VOCABULARY * sizeof (float));
  ops->zero (device->context, targets, LOGITS * sizeof (gint32));
  ops->head_forward (device->context, logp, h_out, lse, h, &matrix, targets, 1, LOGITS, DEV_F32);
  ops->download (device->context, entropy, h_out, sizeof entropy);
  gboolean ok = plumb_device_check (device, error);
  ops->arena_free (arena);
  for (int r = 0; r < LOGITS; r++)
    found[r] = entropy[r];
  if (ok)
    compare (s->verify, found, LOGITS, ROUNDED, "entropy.value");
  return ok;
}

gboolean
plumb_verify_losses (const char *file, const char *device_name, gboolean quiet, gboolean *passed, GError **error)
{
  g_autoptr (PlumbSafetensors) expected = plumb_safetensors_open (file, error);
  g_autoptr (PlumbDevice) device = expected ? plumb_device_open (device_name, WORKSPACE, error) : NULL;
  if (!device)
    return FALSE;
  g_autoptr (PlumbVerify) verify = plumb_verify_new (expected, quiet);
  g_autofree Stored *stored = g_new0 (Stored, 1);
  g_autofree double *exact = g_new (double, LOGITS * VOCABULARY);
  g_autofree float *logits = g_new (float, LOGITS * VOCABULARY);
  stored->verify = verify;
  stored_read (stored);
  take (verify, exact, LOGITS * VOCABULARY, "entropy.logits");
  for (int i = 0; i < LOGITS * VOCABULARY; i++)
    logits[i] = (float) exact[i];
  verify_kl (stored);
  verify_advantages (stored);
  verify_shaping (stored);
  verify_holes (stored);
  verify_policies (stored);
  verify_extremes (stored);
  verify_values (stored);
  verify_reward_models (stored);
  verify_pairs (stored);
  verify_kto (stored);
  verify_samplers (stored, logits);
  if (!verify_entropy (stored, device, logits, error))
    return FALSE;
  *passed = plumb_verify_finish (verify);
  return TRUE;
}
