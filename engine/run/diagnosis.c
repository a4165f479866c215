/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/run/diagnosis.h"

#define KEPT 64 /* latest values of a metric */

/* The latest values of one metric, the oldest first. */
typedef struct
{
  double values[KEPT];
  int n;
  double first; /* mean of the first values, for comparing */
  int first_n;
} Track;

typedef struct _Check Check;

struct _PlumbDiagnosis
{
  GHashTable *tracks; /* name -> Track */
  gboolean *told;     /* by check */
};

static const Track *
find (const PlumbDiagnosis *d, const char *metric)
{
  return g_hash_table_lookup (d->tracks, metric);
}

/* Whether the last n values are there and all lie in low .. high. */
static gboolean
lasts (const PlumbDiagnosis *d, const char *metric, int n, double low, double high)
{
  const Track *t = find (d, metric);
  if (!t || t->n < n)
    return FALSE;
  for (int i = t->n - n; i < t->n; i++)
    if (!(t->values[i] >= low && t->values[i] <= high))
      return FALSE;
  return TRUE;
}

static double
mean_of_last (const Track *t, int n)
{
  double sum = 0;
  for (int i = t->n - n; i < t->n; i++)
    sum += t->values[i];
  return sum / n;
}

static gboolean
dead_and_cut (const PlumbDiagnosis *d)
{
  return lasts (d, "reward/mean", 5, -1e-9, 1e-9) && lasts (d, "reward/max", 5, -1e-9, 1e-9)
         && lasts (d, "length/truncated", 5, 0.95, 1);
}

static gboolean
dead (const PlumbDiagnosis *d)
{
  return lasts (d, "reward/mean", 10, -1e-9, 1e-9) && lasts (d, "reward/max", 10, -1e-9, 1e-9)
         && !lasts (d, "length/truncated", 5, 0.95, 1);
}

static gboolean
flat_groups (const PlumbDiagnosis *d)
{
  return lasts (d, "reward/flat_groups", 5, 0.98, 1) && !dead_and_cut (d) && !dead (d);
}

static gboolean
kl_runs_away (const PlumbDiagnosis *d)
{
  const Track *t = find (d, "kl/reference");
  if (!t || t->n < 10)
    return FALSE;
  double now = mean_of_last (t, 5), before = 2 * mean_of_last (t, 10) - now;
  return now > 1 && now > 2 * before;
}

static gboolean
kl_is_large (const PlumbDiagnosis *d)
{
  return lasts (d, "kl/reference", 5, 5, INFINITY);
}

static gboolean
entropy_collapses (const PlumbDiagnosis *d)
{
  const Track *t = find (d, "policy/entropy"), *reward = find (d, "reward/mean");
  gboolean gained = reward && reward->n >= 5 && mean_of_last (reward, 5) > reward->first + 0.1;
  return t && t->first_n >= 5 && t->n >= 10 && t->first > 0.1 && mean_of_last (t, 5) < 0.05 * t->first && !gained;
}

static gboolean
length_explodes (const PlumbDiagnosis *d)
{
  const Track *t = find (d, "length/response_mean");
  return t && t->first_n >= 5 && t->n >= 10 && mean_of_last (t, 5) > 3 * t->first
         && lasts (d, "length/truncated", 3, 0.5, 1);
}

static gboolean
apart (const PlumbDiagnosis *d)
{
  return lasts (d, "policy/logprob_gap_mean", 3, 0.05, INFINITY);
}

static gboolean
clips_much (const PlumbDiagnosis *d)
{
  const Track *low = find (d, "policy/clip_low"), *high = find (d, "policy/clip_high");
  return low && high && low->n >= 5 && high->n >= 5 && mean_of_last (low, 5) + mean_of_last (high, 5) > 0.3;
}

static gboolean
rewards_fail (const PlumbDiagnosis *d)
{
  return lasts (d, "reward/failed", 3, 0.2, 1);
}

static gboolean
gradient_vanishes (const PlumbDiagnosis *d)
{
  return lasts (d, "policy/grad_norm", 10, -1e-12, 1e-12) && !dead_and_cut (d) && !dead (d) && !flat_groups (d);
}

static gboolean
gradient_explodes (const PlumbDiagnosis *d)
{
  const Track *t = find (d, "policy/grad_norm");
  return t && t->first_n >= 5 && t->n >= 10 && mean_of_last (t, 3) > 100 * MAX (t->first, 0.01);
}

struct _Check
{
  gboolean (*holds) (const PlumbDiagnosis *);
  PlumbFinding finding;
};

static const Check checks[] = {
  { dead_and_cut,
    { "dead-reward",
      "every reward is 0 and nearly every answer is cut at the limit: no answer is finished, so none can be right, and "
      "nothing is learnt",
      "raise rollout.max_new_tokens, or ask for shorter answers in the prompt; check with `generate` how long the "
      "model's answers are" } },
  { dead,
    { "zero-reward",
      "every reward has been 0 for ten steps: the policy never does what is rewarded, and nothing is learnt",
      "look at some completions and their reasons in Rollouts; start from an easier task, a warm-up, or a reward that "
      "also gives part of the credit" } },
  { flat_groups,
    { "flat-groups",
      "in nearly every group all answers get the same reward: there is no difference to learn from",
      "use algorithm.dynamic_sampling, a higher rollout.temperature, more rollout.samples, or problems that are neither "
      "too easy nor too hard" } },
  { kl_runs_away,
    { "kl-runs-away",
      "the divergence from the reference has doubled within ten steps: the policy leaves the language of its start",
      "lower train.learning_rate or raise algorithm.kl.coefficient; read the latest completions" } },
  { kl_is_large,
    { "kl-large",
      "the policy is more than 5 nats per token away from the reference",
      "go back to an earlier checkpoint with a lower train.learning_rate or a higher algorithm.kl.coefficient" } },
  { entropy_collapses,
    { "entropy-collapse",
      "the entropy has fallen below a twentieth of what it was and the reward has not risen: the policy has settled on "
      "one way to answer",
      "raise algorithm.clip_high or algorithm.entropy, or lower train.learning_rate" } },
  { length_explodes,
    { "length-explosion",
      "answers are three times as long as at the start, and half of them are cut",
      "set reward.overlong_buffer, or reward.truncated below 1; see whether the reward likes length" } },
  { apart,
    { "rollout-apart",
      "rollout and trainer disagree about the log-probabilities of the same tokens by more than 0.05 nats on average",
      "set run.deterministic = yes, or algorithm.correction = tis; check that the model's files are not changed while "
      "it runs" } },
  { clips_much,
    { "clip-fraction",
      "more than 30 % of the tokens are clipped: an update moves the policy further than the loss allows",
      "lower train.learning_rate or algorithm.epochs, or raise train.batch" } },
  { rewards_fail,
    { "reward-failures",
      "more than a fifth of the reward calls give no score; their answers are left out",
      "the samples in Rollouts name the reasons; mend the reward function, or raise reward.timeout" } },
  { gradient_vanishes,
    { "no-gradient",
      "the gradient has been 0 for ten steps: nothing is learnt",
      "see whether all samples are dropped, or algorithm.clip_low and clip_high are 0" } },
  { gradient_explodes,
    { "gradient-explosion",
      "the gradient is more than a hundred times as long as at the start",
      "lower train.learning_rate, keep train.max_grad_norm at 1, and go on from an earlier checkpoint" } },
};

PlumbDiagnosis *
plumb_diagnosis_new (void)
{
  PlumbDiagnosis *d = g_new0 (PlumbDiagnosis, 1);
  d->tracks = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  d->told = g_new0 (gboolean, G_N_ELEMENTS (checks));
  return d;
}

void
plumb_diagnosis_free (PlumbDiagnosis *d)
{
  g_hash_table_unref (d->tracks);
  g_free (d->told);
  g_free (d);
}

void
plumb_diagnosis_see (PlumbDiagnosis *d, const char *metric, double value)
{
  Track *t = g_hash_table_lookup (d->tracks, metric);
  if (!isfinite (value))
    return;
  if (!t)
    {
      t = g_new0 (Track, 1);
      g_hash_table_insert (d->tracks, g_strdup (metric), t);
    }
  if (t->n == KEPT)
    memmove (t->values, t->values + 1, (KEPT - 1) * sizeof *t->values);
  else
    t->n++;
  t->values[t->n - 1] = value;
  if (t->first_n < 5)
    t->first = (t->first * t->first_n + value) / (t->first_n + 1);
  t->first_n++;
}

const PlumbFinding *
plumb_diagnosis_next (PlumbDiagnosis *d)
{
  for (gsize i = 0; i < G_N_ELEMENTS (checks); i++)
    {
      gboolean holds = checks[i].holds (d);
      if (holds && !d->told[i])
        {
          d->told[i] = TRUE;
          return &checks[i].finding;
        }
      d->told[i] = holds;
    }
  return NULL;
}
