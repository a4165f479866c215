/* SPDX-License-Identifier: Apache-2.0 */

/* `verify curves`: replays stored training curves on a model. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/algo/advantage.h"
#include "engine/core/error.h"
#include "engine/run/verify.h"
#include "engine/train/trainer.h"

#define SEQUENCES 8
#define GROUP 4
#define STEPS 6
#define KL_COEFFICIENT 0.04
#define LEARNING_RATE 5e-4
#define WORKSPACE (256 << 20)

typedef struct
{
  PlumbVerify *verify;
  PlumbDevice *device;
  PlumbModel *model;
  struct plumb_experience *experience;
} Curves;

/* The stored rollouts: sequences, prompt lengths and rewards; two groups of four. NULL when a key is missing or
 * does not fit, which the verification has counted. */
static struct plumb_experience *
read_rollouts (PlumbVerify *verify)
{
  const PlumbTensor *sequences[SEQUENCES];
  const PlumbTensor *prompts = plumb_verify_expect (verify, SEQUENCES, "prompt_lengths");
  const PlumbTensor *rewards = plumb_verify_expect (verify, SEQUENCES, "rewards");
  gsize tokens = 0;
  gboolean complete = prompts && rewards;
  for (int i = 0; i < SEQUENCES; i++)
    {
      sequences[i] = plumb_verify_expect (verify, 0, "seq.%d", i);
      complete = complete && sequences[i] && sequences[i]->count < 4096;
      tokens += complete ? sequences[i]->count : 0;
    }
  if (!complete)
    return NULL;
  struct plumb_experience *e = plumb_experience_new (SEQUENCES, (int) tokens);
  for (int i = 0; i < SEQUENCES; i++)
    {
      int first = e->offsets[i], length = (int) sequences[i]->count;
      int prompt = (int) CLAMP (plumb_tensor_get (prompts, i), 1, length);
      e->offsets[i + 1] = first + length;
      for (int t = 0; t < length; t++)
        {
          e->ids[first + t] = (gint32) plumb_tensor_get (sequences[i], t);
          e->mask[first + t] = t >= prompt;
        }
      e->reward[i] = plumb_tensor_get (rewards, i);
      e->scored[i] = 1;
      e->group[i] = i / GROUP;
    }
  return e;
}

/* Largest error of a curve's values relative to a bound that may depend on the value. */
static double
worst_of (const PlumbTensor *want, const double *have, double absolute, double relative)
{
  double worst = 0;
  for (gsize i = 0; i < want->count; i++)
    {
      double value = plumb_tensor_get (want, i);
      double bound = absolute > 0 ? absolute : relative * fabs (value);
      if (absolute > 0 && relative > 0)
        bound = fmin (absolute, relative * fabs (value)) + 1e-6;
      double error = fabs (have[i] - value) / bound;
      worst = isnan (error) ? INFINITY : fmax (worst, error);
    }
  return worst;
}

static void
compare_curve (PlumbVerify *verify, const char *key, const double *have, double absolute, double relative)
{
  const PlumbTensor *want = plumb_verify_expect (verify, STEPS, "%s", key);
  if (want)
    plumb_verify_record (verify, key, "of its bound", worst_of (want, have, absolute, relative), 1);
}

static void
compare_final (Curves *c, const char *name, PlumbWeightRole role, int block, const float *before,
               const float *after)
{
  const PlumbWeight *row = plumb_weight_table_find (c->model->table, role, block);
  const PlumbTensor *want
      = row ? plumb_verify_expect (c->verify, row->count, "%s.final.%s", name, row->name) : NULL;
  double difference = 0, change = 0;
  for (gsize k = 0; want && k < row->count; k++)
    {
      double target = plumb_tensor_get (want, k);
      difference += (after[row->first + k] - target) * (after[row->first + k] - target);
      change += (before[row->first + k] - target) * (before[row->first + k] - target);
    }
  if (want)
    plumb_verify_record (c->verify, want->name, "of its change", sqrt (difference / change), 2e-3);
}

static void
compare_advantages (Curves *c)
{
  struct plumb_experience *e = c->experience;
  struct plumb_advantage_options options = { .baseline = PLUMB_BASELINE_GROUP_MEAN,
                                             .scale_by_deviation = 1,
                                             .gamma = 1,
                                             .clip_low = -10,
                                             .clip_high = 10 };
  struct plumb_group_statistics statistics;
  float advantages[SEQUENCES];
  plumb_advantages (e, &options, &statistics);
  for (int i = 0; i < SEQUENCES; i++)
    advantages[i] = (float) e->advantage[e->offsets[i + 1] - 1];
  plumb_verify_absolute (c->verify, plumb_verify_expect (c->verify, SEQUENCES, "grpo.advantages"),
                         advantages, 1e-5);
}

/* GRPO: six updates over the same rollouts, clip 0.2, token mean, k3 in the loss with beta 0.04, one
 * warm-up update at rate 0. */
static gboolean
replay_grpo (Curves *c, GError **error)
{
  struct plumb_experience *e = c->experience;
  PlumbOptimizerOptions options = { 0.9, 0.95, 1e-8, 0.01, 1.0 };
  g_autoptr (PlumbTrainer) trainer = plumb_trainer_new (c->model, &options, 0, error);
  if (!trainer || !plumb_trainer_log_probs (trainer, c->model, e, 1.0, e->old_logp, NULL, error))
    return FALSE;
  memcpy (e->reference_logp, e->old_logp, e->tokens * sizeof (float));
  compare_advantages (c);
  PlumbLossSpec loss = { .id = PLUMB_LOSS_POLICY, .temperature = 1 };
  loss.policy = (struct plumb_policy_options){ .clip_low = 0.2, .clip_high = 0.2,
                                               .kl_coefficient = KL_COEFFICIENT,
                                               .kl_estimator = PLUMB_KL_K3 };
  plumb_denominators_add (&loss.denominators, e->sequences, e->offsets, e->mask);
  double losses[STEPS], norms[STEPS], kl[STEPS], clipped[STEPS];
  int all[SEQUENCES];
  for (int i = 0; i < SEQUENCES; i++)
    all[i] = i;
  gsize elements = c->model->table->elements;
  g_autofree float *before = g_new (float, elements);
  g_autofree float *after = g_new (float, elements);
  const struct dev_ops *ops = c->device->ops;
  ops->download (c->device->context, before, plumb_model_weights (c->model), elements * sizeof (float));
  for (int step = 0; step < STEPS; step++)
    {
      struct plumb_loss_statistics s = { 0 };
      PlumbStepResult result;
      if (!plumb_trainer_accumulate (trainer, e, all, SEQUENCES, &loss, &s, error)
          || !plumb_trainer_step (trainer, step == 0 ? 0 : LEARNING_RATE, &result, &norms[step], error))
        return FALSE;
      losses[step] = s.loss;
      kl[step] = s.kl_reference / s.tokens;
      clipped[step] = (s.clipped_low + s.clipped_high) / s.tokens;
    }
  ops->download (c->device->context, after, plumb_model_weights (c->model), elements * sizeof (float));
  compare_curve (c->verify, "grpo.loss", losses, 5e-4, 0.02);
  compare_curve (c->verify, "grpo.grad_norm", norms, 0, 0.01);
  compare_curve (c->verify, "grpo.kl", kl, 1e-3, 0);
  compare_curve (c->verify, "grpo.clip_ratio", clipped, 1e-3, 0);
  compare_final (c, "grpo", PLUMB_WEIGHT_FINAL_NORM, -1, before, after);
  compare_final (c, "grpo", PLUMB_WEIGHT_Q, 1, before, after);
  return TRUE;
}

gboolean
plumb_verify_curves (const char *file, const char *dir, const char *device_name, const char *algorithm,
                     gboolean quiet, gboolean *passed, GError **error)
{
  if (algorithm && !g_str_equal (algorithm, "grpo"))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                   "curves of %s cannot be replayed; grpo can", algorithm);
      return FALSE;
    }
  g_autoptr (PlumbSafetensors) expected = plumb_safetensors_open (file, error);
  g_autoptr (PlumbDevice) device = expected ? plumb_device_open (device_name, WORKSPACE, error) : NULL;
  g_autoptr (PlumbModel) model = device ? plumb_model_load (device, dir, DEV_F32, 0, error) : NULL;
  if (!model)
    return FALSE;
  g_autoptr (PlumbVerify) verify = plumb_verify_new (expected, quiet);
  if (algorithm)
    plumb_verify_restrict (verify, algorithm);
  Curves curves = { verify, device, model, read_rollouts (verify) };
  gboolean ok = !curves.experience || replay_grpo (&curves, error);
  plumb_experience_free (curves.experience);
  if (ok)
    *passed = plumb_verify_finish (verify);
  return ok;
}
