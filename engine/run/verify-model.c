/* SPDX-License-Identifier: Apache-2.0 */

/* `verify model`: logits, log-probs, gradients, greedy text and a training curve against stored values. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/algo/schedule.h"
#include "engine/core/error.h"
#include "engine/rollout/rollout.h"
#include "engine/run/verify-golden.h"
#include "engine/run/verify.h"
#include "engine/train/trainer.h"
#include "kernels/cpu/vector.h"

#define SEQUENCES 3
#define GREEDY_TOKENS 48
#define LOGIT_BOUND 5e-5
#define TEMPERATURE 0.7
#define CURVE_STEPS 8

/* The stored sequences: row s of ids uses its first lengths[s] tokens. */
typedef struct
{
  int sequences;
  gint32 *offsets; /* (sequences + 1) */
  gint32 *ids;     /* end to end */
} Sequences;

static void
sequences_clear (Sequences *s)
{
  g_free (s->offsets);
  g_free (s->ids);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sequences, sequences_clear)

/* Cuts the rows of `ids` (..., rows, stride) starting at row `first`. */
static void
sequences_fill (Sequences *s, const PlumbTensor *ids, const PlumbTensor *lengths, gsize first)
{
  gsize stride = (gsize) ids->shape[ids->dimensions - 1];
  s->sequences = (int) lengths->count;
  s->offsets = g_new0 (gint32, s->sequences + 1);
  s->ids = g_new0 (gint32, lengths->count * stride);
  for (int i = 0; i < s->sequences; i++)
    {
      int length = (int) CLAMP (plumb_tensor_get (lengths, i), 0, (double) stride);
      s->offsets[i + 1] = s->offsets[i] + length;
      for (int t = 0; t < length; t++)
        s->ids[s->offsets[i] + t] = (gint32) plumb_tensor_get (ids, (first + i) * stride + t);
    }
}

typedef struct
{
  PlumbVerify *verify;
  PlumbDevice *device;
  const char *dir;
  PlumbModel *model; /* fp32 */
  Sequences sequences;
} Check;

static PlumbBuffers *
open_buffers (PlumbModel *model, int tokens, GError **error)
{
  PlumbBufferPlan plan = { .tokens = tokens, .sequences = SEQUENCES + 5 };
  return plumb_buffers_new (model, &plan, error);
}

static float *
all_logits (PlumbModel *model, const Sequences *s, GError **error)
{
  int tokens = s->offsets[s->sequences];
  g_autoptr (PlumbBuffers) buffers = open_buffers (model, tokens, error);
  PlumbPass pass = { .sequences = s->sequences, .ids = s->ids, .offsets = s->offsets };
  if (!buffers || !plumb_model_forward (model, buffers, &pass, error))
    return NULL;
  g_autofree gint32 *rows = g_new (gint32, tokens);
  for (int i = 0; i < tokens; i++)
    rows[i] = i;
  g_autofree float *logits = g_new (float, (gsize) tokens * model->config->vocabulary);
  if (!plumb_model_logits (model, buffers, rows, tokens, logits, error))
    return NULL;
  return g_steal_pointer (&logits);
}

static void
compare_logits (Check *c, const float *logits, const char *prefix, double bound)
{
  const Sequences *s = &c->sequences;
  gsize vocabulary = (gsize) c->model->config->vocabulary;
  for (int i = 0; i < s->sequences; i++)
    {
      gsize count = (gsize) (s->offsets[i + 1] - s->offsets[i]) * vocabulary;
      plumb_verify_absolute (c->verify, plumb_verify_expect (c->verify, count, "%s.%d", prefix, i),
                             logits + s->offsets[i] * vocabulary, bound);
    }
}

static double
distance (const PlumbTensor *from, const PlumbTensor *tensor, const float *values)
{
  double difference = 0, size = 0;
  for (gsize i = 0; i < from->count; i++)
    {
      double base = plumb_tensor_get (from, i);
      double value = tensor ? plumb_tensor_get (tensor, i) : values[i];
      difference += (value - base) * (value - base);
      size += base * base;
    }
  return sqrt (difference / size);
}

/* The rope frequencies of a model whose buffers were converted to bf16 as well, as the stored values are. */
static void
round_rope (PlumbModel *model, gboolean rounded)
{
  int half = model->config->head_size / 2;
  g_autofree double *frequencies = g_new (double, half);
  plumb_rope_frequencies (&model->config->rope, model->config->head_size, frequencies);
  for (int i = 0; i < half && rounded; i++)
    {
      float exact = (float) frequencies[i], back;
      guint16 typed;
      cpu_row_store (&typed, &exact, 1, DEV_BF16);
      cpu_row_load (&back, &typed, 1, DEV_BF16);
      frequencies[i] = back;
    }
  plumb_model_set_rope (model, frequencies);
}

/* fp32 arithmetic on weights rounded to bf16, and a bf16 model, which may be 1.2 times as far from it as
 * another bf16 implementation. */
static gboolean
check_bf16 (Check *c, GError **error)
{
  const Sequences *s = &c->sequences;
  const struct dev_ops *ops = c->device->ops;
  g_autoptr (PlumbModel) rounded = plumb_model_load (c->device, c->dir, DEV_BF16, 0, error);
  if (!rounded)
    return FALSE;
  round_rope (rounded, TRUE);
  g_autofree float *logits = all_logits (rounded, s, error);
  if (!logits)
    return FALSE;
  gsize elements = c->model->table->elements;
  g_autofree float *kept = g_new (float, elements);
  float *weights = plumb_model_weights (c->model);
  ops->download (c->device->context, kept, weights, elements * sizeof (float));
  ops->convert (c->device->context, weights, DEV_F32, plumb_model_weights (rounded), DEV_BF16, elements);
  plumb_model_touch (c->model);
  round_rope (c->model, TRUE);
  g_autofree float *exact = all_logits (c->model, s, error);
  round_rope (c->model, FALSE);
  ops->upload (c->device->context, weights, kept, elements * sizeof (float));
  plumb_model_touch (c->model);
  if (!exact)
    return FALSE;
  compare_logits (c, exact, "logits_bf16_weights", LOGIT_BOUND);
  gsize vocabulary = (gsize) c->model->config->vocabulary;
  for (int i = 0; i < s->sequences; i++)
    {
      gsize count = (gsize) (s->offsets[i + 1] - s->offsets[i]) * vocabulary;
      const PlumbTensor *base = plumb_verify_expect (c->verify, count, "logits_bf16_weights.%d", i);
      const PlumbTensor *other = plumb_verify_expect (c->verify, count, "logits_bf16.%d", i);
      if (base && other)
        plumb_verify_record (c->verify, other->name, "distance",
                             distance (base, NULL, logits + s->offsets[i] * vocabulary),
                             1.2 * distance (base, other, NULL));
    }
  return TRUE;
}

/* Every token after the first of each sequence counts. */
static struct plumb_experience *
experience_of (const Sequences *s)
{
  int tokens = s->offsets[s->sequences];
  struct plumb_experience *e = plumb_experience_new (s->sequences, tokens);
  memcpy (e->offsets, s->offsets, (s->sequences + 1) * sizeof (gint32));
  memcpy (e->ids, s->ids, tokens * sizeof (gint32));
  for (int i = 0; i < s->sequences; i++)
    for (int t = s->offsets[i] + 1; t < s->offsets[i + 1]; t++)
      e->mask[t] = 1;
  return e;
}

static void
compare_tokens (Check *c, const float *values, const char *prefix)
{
  for (int i = 0; i < c->sequences.sequences; i++)
    {
      int first = c->sequences.offsets[i] + 1, n = c->sequences.offsets[i + 1] - first;
      plumb_verify_absolute (c->verify, plumb_verify_expect (c->verify, n, "%s.%d", prefix, i),
                             values + first, LOGIT_BOUND);
    }
}

static gboolean
check_log_probs (Check *c, PlumbTrainer *trainer, GError **error)
{
  struct plumb_experience *e = experience_of (&c->sequences);
  g_autofree float *log_probs = g_new (float, e->tokens);
  g_autofree float *entropies = g_new (float, e->tokens);
  gboolean ok = plumb_trainer_log_probs (trainer, c->model, e, 1.0, log_probs, entropies, error);
  if (ok)
    compare_tokens (c, log_probs, "next_token_logprobs");
  ok = ok && plumb_trainer_log_probs (trainer, c->model, e, TEMPERATURE, log_probs, entropies, error);
  if (ok)
    {
      compare_tokens (c, log_probs, "next_token_logprobs_t07");
      compare_tokens (c, entropies, "entropy_t07");
    }
  plumb_experience_free (e);
  return ok;
}

/* Loss over all tokens of the sequences, with its gradient left in the trainer. */
static gboolean
sft_gradient (PlumbTrainer *trainer, const Sequences *s, double *loss, GError **error)
{
  struct plumb_experience *e = experience_of (s);
  PlumbLossSpec spec = { .id = PLUMB_LOSS_SFT, .temperature = 1 };
  struct plumb_loss_statistics statistics = { 0 };
  g_autofree int *all = g_new (int, s->sequences);
  for (int i = 0; i < s->sequences; i++)
    all[i] = i;
  plumb_denominators_add (&spec.denominators, e->sequences, e->offsets, e->mask);
  gboolean ok = plumb_trainer_accumulate (trainer, e, all, s->sequences, &spec, &statistics, error);
  *loss = statistics.loss;
  plumb_experience_free (e);
  return ok;
}

static gboolean
check_gradients (Check *c, PlumbTrainer *trainer, GError **error)
{
  const PlumbWeightTable *table = c->model->table;
  double loss, squares = 0;
  if (!sft_gradient (trainer, &c->sequences, &loss, error))
    return FALSE;
  float loss_value = (float) loss;
  plumb_verify_absolute (c->verify, plumb_verify_expect (c->verify, 1, "loss"), &loss_value, LOGIT_BOUND);
  g_autofree float *gradients = g_new (float, table->elements);
  if (!plumb_trainer_gradients (trainer, gradients, error))
    return FALSE;
  for (guint i = 0; i < table->rows->len; i++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, i);
      plumb_verify_relative (c->verify,
                             plumb_verify_expect (c->verify, row->count, "grad.%s", row->name),
                             gradients + row->first, 1e-3);
      for (gsize k = 0; k < row->count; k++)
        squares += (double) gradients[row->first + k] * gradients[row->first + k];
    }
  double norm = sqrt (squares);
  plumb_verify_each_relative (c->verify, plumb_verify_expect (c->verify, 1, "grad_norm"), &norm, 1e-3);
  plumb_trainer_reset_state (trainer);
  return TRUE;
}

/* Greedy text through the paged cache and the scheduler, as a run generates it. */
static gboolean
check_greedy (Check *c, GError **error)
{
  const Sequences *s = &c->sequences;
  PlumbRolloutPlan plan = { .max_running = 8, .page_tokens = 16, .max_prompt = 64, .prefill_tokens = 32 };
  plan.max_new_tokens = GREEDY_TOKENS;
  PlumbSampling sampling = { .temperature = 0, .max_new_tokens = GREEDY_TOKENS };
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (c->model, &plan, error);
  if (!rollout || !plumb_rollout_begin (rollout, &sampling, error))
    return FALSE;
  for (int i = 0; i < s->sequences; i++)
    if (!plumb_rollout_submit (rollout, s->ids + s->offsets[i], s->offsets[i + 1] - s->offsets[i], 1, i,
                               error))
      return FALSE;
  for (gboolean idle = FALSE; !idle;)
    if (!plumb_rollout_advance (rollout, &idle, error))
      return FALSE;
  for (PlumbCompletion *next; (next = plumb_rollout_take (rollout));)
    {
      g_autoptr (PlumbCompletion) completion = next;
      plumb_verify_integers (c->verify,
                             plumb_verify_expect (c->verify, completion->ids->len, "greedy.%d",
                                                  (int) completion->ordinal),
                             (gint32 *) (void *) completion->ids->data);
    }
  return TRUE;
}

static void
compare_final (Check *c, const float *before, const float *after)
{
  const PlumbWeightTable *table = c->model->table;
  for (guint i = 0; i < table->rows->len; i++)
    {
      const PlumbWeight *row = plumb_weight_table_row (table, i);
      g_autofree char *key = g_strconcat ("sft.final.", row->name, NULL);
      const PlumbTensor *want
          = plumb_verify_has (c->verify, key) ? plumb_verify_expect (c->verify, row->count, "%s", key) : NULL;
      double difference = 0, change = 0;
      for (gsize k = 0; want && k < row->count; k++)
        {
          double target = plumb_tensor_get (want, k);
          difference += (after[row->first + k] - target) * (after[row->first + k] - target);
          change += (before[row->first + k] - target) * (before[row->first + k] - target);
        }
      if (want)
        plumb_verify_record (c->verify, key, "of its change", sqrt (difference / change), 2e-3);
    }
}

/* Loss, gradient norm and learning rate of one step of the stored curve. */
static gboolean
curve_step (Check *c, PlumbTrainer *trainer, const PlumbTensor *ids, const PlumbTensor *lengths, int step,
            double rate, double *loss, double *norm, GError **error)
{
  g_auto (Sequences) batch = { 0 };
  PlumbStepResult result;
  sequences_fill (&batch, ids, lengths, (gsize) step * lengths->count);
  return sft_gradient (trainer, &batch, loss, error)
         && plumb_trainer_step (trainer, rate, &result, norm, error);
}

static gboolean
check_curve (Check *c, PlumbTrainer *trainer, const PlumbTensor *lengths, GError **error)
{
  const PlumbTensor *ids = plumb_verify_expect (c->verify, 0, "sft.input_ids");
  const PlumbTensor *losses = plumb_verify_expect (c->verify, CURVE_STEPS, "sft.loss");
  const PlumbTensor *norms = plumb_verify_expect (c->verify, CURVE_STEPS, "sft.grad_norm");
  const PlumbTensor *rates = plumb_verify_expect (c->verify, CURVE_STEPS, "sft.lr");
  if (!ids || !losses || !norms || !rates || ids->dimensions != 3 || ids->shape[0] != CURVE_STEPS
      || ids->shape[1] != (gint64) lengths->count)
    return TRUE; /* told already, or caught by the count of keys */
  struct plumb_schedule schedule = { PLUMB_SCHEDULE_COSINE_FLOOR, 2e-3, 0.1, 2, CURVE_STEPS };
  gsize elements = c->model->table->elements;
  g_autofree float *before = g_new (float, elements);
  g_autofree float *after = g_new (float, elements);
  const struct dev_ops *ops = c->device->ops;
  ops->download (c->device->context, before, plumb_model_weights (c->model), elements * sizeof (float));
  double worst_loss = 0, worst_norm = 0, worst_rate = 0;
  for (int step = 0; step < CURVE_STEPS; step++)
    {
      double loss, norm, rate = plumb_schedule_rate (&schedule, step);
      if (!curve_step (c, trainer, ids, lengths, step, rate, &loss, &norm, error))
        return FALSE;
      double want = plumb_tensor_get (losses, step), want_norm = plumb_tensor_get (norms, step);
      worst_loss = fmax (worst_loss, fabs (loss - want) / (fmin (5e-4, 0.02 * fabs (want)) + 1e-6));
      worst_norm = fmax (worst_norm, fabs (norm - want_norm) / want_norm);
      worst_rate = fmax (worst_rate, fabs (rate - plumb_tensor_get (rates, step)));
    }
  plumb_verify_record (c->verify, "sft.loss", "of its bound", worst_loss, 1);
  plumb_verify_record (c->verify, "sft.grad_norm", "relative", worst_norm, 0.01);
  plumb_verify_record (c->verify, "sft.lr", "absolute", worst_rate, 1e-9);
  ops->download (c->device->context, after, plumb_model_weights (c->model), elements * sizeof (float));
  compare_final (c, before, after);
  return TRUE;
}

static gboolean
check_language_model (Check *c, const PlumbTensor *lengths, GError **error)
{
  g_autofree float *logits = all_logits (c->model, &c->sequences, error);
  if (!logits)
    return FALSE;
  compare_logits (c, logits, "logits", LOGIT_BOUND);
  PlumbTrainerOptions options = { 0.9, 0.95, 1e-8, 0.1, 1.0 };
  g_autoptr (PlumbTrainer) trainer = plumb_trainer_new (c->model, &options, 0, error);
  return trainer && check_bf16 (c, error) && check_log_probs (c, trainer, error)
         && check_gradients (c, trainer, error) && check_greedy (c, error)
         && check_curve (c, trainer, lengths, error);
}

/* Score head: values of all tokens, scores at the last ones, a pairwise loss and its gradient. */
static gboolean
check_reward_model (Check *c, GError **error)
{
  const Sequences *s = &c->sequences;
  int tokens = s->offsets[s->sequences];
  PlumbBufferPlan plan = { .tokens = tokens, .sequences = s->sequences, .training = TRUE };
  g_autoptr (PlumbBuffers) buffers = plumb_buffers_new (c->model, &plan, error);
  PlumbPass pass = { .sequences = s->sequences, .ids = s->ids, .offsets = s->offsets };
  g_autofree gint32 *rows = g_new (gint32, tokens);
  g_autofree float *values = g_new (float, tokens);
  for (int i = 0; i < tokens; i++)
    rows[i] = i;
  if (!buffers || !plumb_model_forward (c->model, buffers, &pass, error)
      || !plumb_model_values (c->model, buffers, rows, tokens, values, error))
    return FALSE;
  float scores[SEQUENCES], derivatives[2];
  gint32 last[SEQUENCES];
  for (int i = 0; i < s->sequences && i < SEQUENCES; i++)
    {
      int n = s->offsets[i + 1] - s->offsets[i];
      plumb_verify_absolute (c->verify, plumb_verify_expect (c->verify, n, "token_values.%d", i),
                             values + s->offsets[i], LOGIT_BOUND);
      last[i] = s->offsets[i + 1] - 1;
      scores[i] = values[last[i]];
    }
  plumb_verify_absolute (c->verify, plumb_verify_expect (c->verify, SEQUENCES, "scores"), scores,
                         LOGIT_BOUND);
  double z = (double) scores[0] - scores[1];
  float loss = (float) log1p (exp (-z));
  derivatives[0] = (float) (-1 / (1 + exp (z)));
  derivatives[1] = -derivatives[0];
  plumb_verify_absolute (c->verify, plumb_verify_expect (c->verify, 1, "pairwise_loss_0_over_1"), &loss,
                         LOGIT_BOUND);
  gsize elements = c->model->table->elements;
  struct dev_arena *arena
      = plumb_device_allocate (c->device, elements * sizeof (float), "gradients", error);
  if (!arena)
    return FALSE;
  float *gradients = c->device->ops->arena_base (arena);
  const PlumbWeight *score = plumb_weight_table_find (c->model->table, PLUMB_WEIGHT_SCORE, -1);
  g_autofree float *host = g_new (float, score->count);
  gboolean ok = plumb_model_values (c->model, buffers, last, 2, values, error)
                && plumb_model_backward_values (c->model, buffers, gradients, TRUE, derivatives, error);
  c->device->ops->download (c->device->context, host, gradients + score->first,
                            score->count * sizeof (float));
  if (ok)
    plumb_verify_relative (c->verify,
                           plumb_verify_expect (c->verify, score->count, "grad.score.weight"), host, 1e-3);
  c->device->ops->arena_free (arena);
  return ok;
}

static gboolean
check_expected (PlumbDevice *device, const char *dir, const char *file, gboolean quiet, gboolean *passed,
                GError **error)
{
  g_autoptr (PlumbSafetensors) expected = plumb_safetensors_open (file, error);
  g_autoptr (PlumbModel) model = expected ? plumb_model_load (device, dir, DEV_F32, 0, error) : NULL;
  if (!model)
    return FALSE;
  g_autoptr (PlumbVerify) verify = plumb_verify_new (expected, quiet);
  Check check = { .verify = verify, .device = device, .dir = dir, .model = model };
  const PlumbTensor *ids = plumb_verify_expect (verify, 0, "input_ids");
  const PlumbTensor *lengths = plumb_verify_expect (verify, SEQUENCES, "lengths");
  gboolean ok = TRUE;
  if (ids && lengths && ids->dimensions == 2 && ids->shape[0] == SEQUENCES)
    {
      sequences_fill (&check.sequences, ids, lengths, 0);
      ok = model->config->score ? check_reward_model (&check, error)
                                : check_language_model (&check, lengths, error);
      sequences_clear (&check.sequences);
    }
  if (ok)
    *passed = plumb_verify_finish (verify);
  return ok;
}

#define WORKSPACE (256 << 20)

gboolean
plumb_verify_model (const char *dir, const char *device_name, gboolean quiet, gboolean *passed, GError **error)
{
  g_autofree char *expected = g_build_filename (dir, "expected.safetensors", NULL);
  g_autofree char *golden = g_build_filename (dir, "golden.json", NULL);
  g_autoptr (PlumbDevice) device = plumb_device_open (device_name, WORKSPACE, error);
  if (!device)
    return FALSE;
  *passed = FALSE;
  if (g_file_test (expected, G_FILE_TEST_EXISTS))
    return check_expected (device, dir, expected, quiet, passed, error);
  if (g_file_test (golden, G_FILE_TEST_EXISTS))
    return plumb_verify_golden (device, dir, golden, quiet, passed, error);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "%s has neither expected.safetensors nor golden.json to compare with", dir);
  return FALSE;
}
