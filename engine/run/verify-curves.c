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

enum
{
  SEQUENCES = 8,
  GROUP = 4,
  PAIRS = 4,
  STEPS = 6,
};

#define LEARNING_RATE 5e-4
#define WORKSPACE (256 << 20)

/* One algorithm being replayed. */
typedef struct
{
  PlumbVerify *verify;
  PlumbDevice *device;
  const char *dir;
  const char *name;
  PlumbModel *model;
  PlumbTrainer *trainer;
  struct plumb_experience *experience;
  PlumbLossSpec loss;
  int order[SEQUENCES], n; /* sequences of an update, pairs side by side */
  double rates[STEPS];
  float *before; /* weights */
} Replay;

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
compare_final (Replay *r, PlumbWeightRole role, int block, const char *key, const float *after)
{
  const PlumbWeight *row = plumb_weight_table_find (r->model->table, role, block);
  const PlumbTensor *want = row ? plumb_verify_expect (r->verify, row->count, "%s.%s", r->name, key) : NULL;
  double difference = 0, change = 0;
  for (gsize k = 0; want && k < row->count; k++)
    {
      double target = plumb_tensor_get (want, k);
      difference += (after[row->first + k] - target) * (after[row->first + k] - target);
      change += (r->before[row->first + k] - target) * (r->before[row->first + k] - target);
    }
  if (want)
    plumb_verify_record (r->verify, want->name, "of its change", sqrt (difference / change), 2e-3);
}

/* Values of a key into an array; FALSE where it is missing, which the verification counts. */
static gboolean
take (Replay *r, gsize n, double *to, const char *format, int i)
{
  g_autofree char *key = g_strdup_printf ("%s.%s", r->name, format);
  g_autofree char *whole = i >= 0 ? g_strdup_printf ("%s.%d", key, i) : g_strdup (key);
  const PlumbTensor *tensor = plumb_verify_expect (r->verify, n, "%s", whole);
  for (gsize k = 0; tensor && k < n; k++)
    to[k] = plumb_tensor_get (tensor, k);
  return tensor != NULL;
}

/* Token values of every response, laid at their places. */
static gboolean
take_tokens (Replay *r, double *to, const char *name)
{
  struct plumb_experience *e = r->experience;
  gboolean ok = TRUE;
  for (int s = 0; s < SEQUENCES; s++)
    {
      int length = plumb_experience_response_length (e, s);
      ok = take (r, (gsize) length, to + e->offsets[s + 1] - length, name, s) && ok;
    }
  return ok;
}

/* The sequences of the stored pairs: chosen, rejected, and so on. */
static gboolean
take_pairs (Replay *r)
{
  const PlumbTensor *pairs = plumb_verify_expect (r->verify, SEQUENCES, "dpo.pairs");
  for (int i = 0; pairs && i < SEQUENCES; i++)
    r->order[i] = CLAMP ((int) plumb_tensor_get (pairs, i), 0, SEQUENCES - 1);
  return pairs != NULL;
}

/* Lowers the reference by `shift` per response token, and compares the sums that it then has. */
static void
shift_reference (Replay *r, double shift)
{
  struct plumb_experience *e = r->experience;
  float sums[SEQUENCES];
  for (int s = 0; s < SEQUENCES; s++)
    {
      double sum = 0;
      for (int t = e->offsets[s]; t < e->offsets[s + 1]; t++)
        if (e->mask[t])
          sum += e->reference_logp[t] -= (float) shift;
      sums[s] = (float) sum;
    }
  plumb_verify_absolute (r->verify, plumb_verify_expect (r->verify, SEQUENCES, "kto.ref_sums"), sums, 1e-3);
}

/* Log-probs before any update are also those of the reference. */
static gboolean
fill_log_probs (Replay *r, GError **error)
{
  struct plumb_experience *e = r->experience;
  if (!plumb_trainer_log_probs (r->trainer, r->model, e, 1.0, e->old_logp, NULL, error))
    return FALSE;
  memcpy (e->reference_logp, e->old_logp, e->tokens * sizeof (float));
  return TRUE;
}

static gboolean
train (Replay *r, struct plumb_loss_statistics *s, double rate, double *norm, GError **error)
{
  PlumbStepResult result;
  struct plumb_experience *e = r->experience;
  r->loss.denominators = (struct plumb_denominators){ 0 };
  plumb_denominators_add (&r->loss.denominators, e->sequences, e->offsets, e->mask);
  return plumb_trainer_accumulate (r->trainer, e, r->order, r->n, &r->loss, s, error)
         && plumb_trainer_step (r->trainer, rate, &result, norm, error);
}

/* What is compared at each step beside loss and gradient norm, by name; NULL: nothing more. */
typedef double (*Measure) (const struct plumb_loss_statistics *);

static double
kl_of (const struct plumb_loss_statistics *s)
{
  return s->kl_reference / s->tokens;
}

static double
clipped_of (const struct plumb_loss_statistics *s)
{
  return (s->clipped_low + s->clipped_high) / s->tokens;
}

static double
entropy_of (const struct plumb_loss_statistics *s)
{
  return s->entropy / s->tokens;
}

static double
accuracy_of (const struct plumb_loss_statistics *s)
{
  return s->accurate / s->answers;
}

static double
margin_of (const struct plumb_loss_statistics *s)
{
  return s->margin / s->answers;
}

/* GRPO: six updates over the same rollouts, clip 0.2, token mean, k3 in the loss with beta 0.04. */
static gboolean
prepare_grpo (Replay *r, GError **error)
{
  struct plumb_experience *e = r->experience;
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
  plumb_verify_absolute (r->verify, plumb_verify_expect (r->verify, SEQUENCES, "grpo.advantages"), advantages,
                         1e-5);
  r->loss.policy.kl_coefficient = 0.04;
  r->loss.policy.kl_estimator = PLUMB_KL_K3;
  r->rates[0] = 0; /* one warm-up update */
  return fill_log_probs (r, error);
}

static gboolean
prepare_ppo (Replay *r, GError **error)
{
  r->loss.policy.entropy = 0.01;
  take_tokens (r, r->experience->advantage, "token_advantages");
  return fill_log_probs (r, error);
}

static gboolean
prepare_dpo (Replay *r, GError **error)
{
  r->loss.pair.beta = 0.1;
  take_pairs (r);
  return fill_log_probs (r, error);
}

/* KTO: desirable are rewards above 0.4; the reference lies below the model. */
static gboolean
prepare_kto (Replay *r, GError **error)
{
  double shift = 0, desirable[SEQUENCES] = { 0 };
  take (r, 1, &shift, "ref_shift_per_token", -1);
  take (r, SEQUENCES, desirable, "desirable", -1);
  for (int s = 0; s < SEQUENCES; s++)
    {
      r->experience->desirable[s] = desirable[s] != 0;
      r->rates[MIN (s, STEPS - 1)] = 2e-4;
    }
  r->loss.kto.beta = 0.1;
  r->loss.kto.desirable = r->loss.kto.undesirable = 1;
  if (!fill_log_probs (r, error))
    return FALSE;
  shift_reference (r, shift);
  return TRUE;
}

/* Puts stored values into the score head, and takes them as the state before. */
static void
set_score (Replay *r)
{
  const PlumbWeight *row = plumb_weight_table_find (r->model->table, PLUMB_WEIGHT_SCORE, -1);
  float *weights = plumb_model_weights (r->model);
  g_autofree double *values = g_new0 (double, row->count);
  take (r, row->count, values, "score_init", -1);
  for (gsize i = 0; i < row->count; i++)
    r->before[row->first + i] = (float) values[i];
  r->device->ops->upload (r->device->context, weights + row->first, r->before + row->first,
                          row->count * sizeof (float));
  plumb_model_touch (r->model);
}

static gboolean
prepare_rm (Replay *r, GError **error)
{
  take_pairs (r);
  set_score (r);
  for (int i = 0; i < STEPS; i++)
    r->rates[i] = 5e-5;
  return TRUE;
}

static gboolean
prepare_critic (Replay *r, GError **error)
{
  struct plumb_experience *e = r->experience;
  g_autofree float *values = g_new (float, e->tokens + 1);
  set_score (r);
  take_tokens (r, e->returns, "returns");
  if (!plumb_trainer_values (r->trainer, r->model, e, FALSE, values, error))
    return FALSE;
  for (int s = 0; s < SEQUENCES; s++)
    {
      int length = plumb_experience_response_length (e, s), first = e->offsets[s + 1] - length;
      g_autofree char *key = g_strdup_printf ("critic.old_values.%d", s);
      plumb_verify_absolute (r->verify, plumb_verify_expect (r->verify, (gsize) length, "%s", key), values + first,
                             5e-5);
    }
  for (int t = 0; t < e->tokens; t++)
    e->value[t] = values[t];
  r->loss.value.clip = 0.5;
  r->loss.value.weight = 1;
  return TRUE;
}

typedef struct
{
  const char *name;
  PlumbLossId loss;
  gboolean (*prepare) (Replay *, GError **);
  struct
  {
    const char *key;
    Measure measure;
  } measures[2];
} Curve;

static const Curve curves[] = {
  { "grpo", PLUMB_LOSS_POLICY, prepare_grpo, { { "kl", kl_of }, { "clip_ratio", clipped_of } } },
  { "ppo", PLUMB_LOSS_POLICY, prepare_ppo, { { "entropy", entropy_of } } },
  { "dpo", PLUMB_LOSS_PAIR, prepare_dpo, { { "accuracy", accuracy_of }, { "margin", margin_of } } },
  { "kto", PLUMB_LOSS_KTO, prepare_kto, { { NULL, NULL } } },
  { "rm", PLUMB_LOSS_REWARD, prepare_rm, { { "accuracy", accuracy_of } } },
  { "critic", PLUMB_LOSS_VALUE, prepare_critic, { { NULL, NULL } } },
};

/* The mismatched answers of KTO: prompt i with the response to prompt i + 1. */
static struct plumb_experience *
mismatch (const struct plumb_experience *e)
{
  struct plumb_experience *m = plumb_experience_new (SEQUENCES, 2 * e->tokens);
  for (int s = 0; s < SEQUENCES; s++)
    {
      int next = (s + 1) % SEQUENCES, response = plumb_experience_response_length (e, next);
      int prompt = e->offsets[s + 1] - e->offsets[s] - plumb_experience_response_length (e, s);
      int at = m->offsets[s];
      memcpy (m->ids + at, e->ids + e->offsets[s], prompt * sizeof *m->ids);
      memcpy (m->ids + at + prompt, e->ids + e->offsets[next + 1] - response, response * sizeof *m->ids);
      memset (m->mask + at + prompt, 1, response);
      m->offsets[s + 1] = at + prompt + response;
    }
  m->tokens = m->offsets[SEQUENCES];
  return m;
}

/* KTO's estimate before an update: mean of policy minus reference over the mismatched answers, at least 0. */
static gboolean
estimate_kl (Replay *r, double *estimate, GError **error)
{
  double sums[SEQUENCES] = { 0 }, mean = 0;
  struct plumb_experience *m = mismatch (r->experience);
  g_autofree float *log_probs = g_new (float, m->tokens + 1);
  take (r, SEQUENCES, sums, "ref_mismatched_sums", -1);
  gboolean ok = plumb_trainer_log_probs (r->trainer, r->model, m, 1.0, log_probs, NULL, error);
  for (int t = 0; t < m->tokens && ok; t++)
    mean += log_probs[t] / (double) SEQUENCES;
  for (int s = 0; s < SEQUENCES; s++)
    mean -= sums[s] / SEQUENCES;
  r->loss.kto.kl_desirable = r->loss.kto.kl_undesirable = *estimate = fmax (0, mean);
  plumb_experience_free (m);
  return ok;
}

static gboolean
run_updates (Replay *r, const Curve *curve, GError **error)
{
  double losses[STEPS], norms[STEPS], measured[2][STEPS], estimates[STEPS] = { 0 };
  for (int step = 0; step < STEPS; step++)
    {
      struct plumb_loss_statistics s = { 0 };
      if ((curve->loss == PLUMB_LOSS_KTO && !estimate_kl (r, &estimates[step], error))
          || !train (r, &s, r->rates[step], &norms[step], error))
        return FALSE;
      losses[step] = s.loss;
      for (int m = 0; m < 2 && curve->measures[m].key; m++)
        measured[m][step] = curve->measures[m].measure (&s);
    }
  g_autofree char *loss = g_strdup_printf ("%s.loss", r->name), *norm = g_strdup_printf ("%s.grad_norm", r->name);
  compare_curve (r->verify, loss, losses, 5e-4, 0.02);
  compare_curve (r->verify, norm, norms, 0, 0.01);
  for (int m = 0; m < 2 && curve->measures[m].key; m++)
    {
      g_autofree char *key = g_strdup_printf ("%s.%s", r->name, curve->measures[m].key);
      compare_curve (r->verify, key, measured[m], 1e-3, 0);
    }
  if (curve->loss == PLUMB_LOSS_KTO)
    compare_curve (r->verify, "kto.kl", estimates, 1e-3, 0);
  return TRUE;
}

/* Loads a fresh model, trains it as the stored run did, and compares. */
static gboolean
replay (Replay *r, const Curve *curve, GError **error)
{
  gboolean scalar = curve->loss == PLUMB_LOSS_REWARD || curve->loss == PLUMB_LOSS_VALUE;
  PlumbTrainerOptions options = { 0.9, 0.95, 1e-8, 0.01, 1.0 };
  g_autoptr (PlumbModel) model = scalar ? plumb_model_load_scalar (r->device, r->dir, DEV_F32, 0, 0, error)
                                        : plumb_model_load (r->device, r->dir, DEV_F32, 0, error);
  g_autoptr (PlumbTrainer) trainer
      = model ? plumb_trainer_new (model, &options, r->experience->tokens, error) : NULL;
  if (!trainer)
    return FALSE;
  gsize elements = model->table->elements;
  g_autofree float *before = g_new (float, elements), *after = g_new (float, elements);
  const struct dev_ops *ops = r->device->ops;
  r->model = model;
  r->trainer = trainer;
  r->before = before;
  r->loss = (PlumbLossSpec){ .id = curve->loss, .temperature = 1,
                             .policy = { .clip_low = 0.2, .clip_high = 0.2 } };
  r->n = SEQUENCES;
  for (int i = 0; i < SEQUENCES; i++)
    r->order[i] = i;
  for (int i = 0; i < STEPS; i++)
    r->rates[i] = LEARNING_RATE;
  ops->download (r->device->context, before, plumb_model_weights (model), elements * sizeof (float));
  if (!curve->prepare (r, error) || !run_updates (r, curve, error))
    return FALSE;
  ops->download (r->device->context, after, plumb_model_weights (model), elements * sizeof (float));
  compare_final (r, PLUMB_WEIGHT_FINAL_NORM, -1, "final.model.norm.weight", after);
  compare_final (r, PLUMB_WEIGHT_Q, 1, "final.model.layers.1.self_attn.q_proj.weight", after);
  if (scalar)
    compare_final (r, PLUMB_WEIGHT_SCORE, -1, "score_final", after);
  return TRUE;
}

static gboolean
replay_all (Replay *r, const char *algorithm, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (curves); i++)
    {
      if (algorithm && !g_str_equal (algorithm, curves[i].name))
        continue;
      r->name = curves[i].name;
      r->experience = read_rollouts (r->verify);
      gboolean ok = !r->experience || replay (r, &curves[i], error);
      plumb_experience_free (r->experience);
      if (!ok)
        return FALSE;
    }
  return TRUE;
}

static gboolean
is_known (const char *algorithm)
{
  for (gsize i = 0; i < G_N_ELEMENTS (curves); i++)
    if (g_str_equal (algorithm, curves[i].name))
      return TRUE;
  return FALSE;
}

gboolean
plumb_verify_curves (const char *file, const char *dir, const char *device_name, const char *algorithm,
                     gboolean quiet, gboolean *passed, GError **error)
{
  if (algorithm && !is_known (algorithm))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                   "there are no curves of %s; there are grpo, ppo, dpo, kto, rm and critic", algorithm);
      return FALSE;
    }
  g_autoptr (PlumbSafetensors) expected = plumb_safetensors_open (file, error);
  g_autoptr (PlumbDevice) device = expected ? plumb_device_open (device_name, WORKSPACE, error) : NULL;
  if (!device)
    return FALSE;
  g_autoptr (PlumbVerify) verify = plumb_verify_new (expected, quiet);
  if (algorithm)
    plumb_verify_restrict (verify, algorithm);
  Replay run = { .verify = verify, .device = device, .dir = dir };
  if (!replay_all (&run, algorithm, error))
    return FALSE;
  *passed = plumb_verify_finish (verify);
  return TRUE;
}
