/* SPDX-License-Identifier: Apache-2.0 */

/* A whole step of GRPO on one device, with its time per phase: prompts in groups, completions with log-probs, the loss with its
 * backward pass, the update; before them, where it is asked for, the log-probs of the trainer (as several updates a step need
 * them, or as a reference gives them). The rewards are random numbers: they cost nothing here. Weights are shared by rollout and
 * trainer, so nothing is copied between. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/bench/bench.h"
#include "engine/rollout/rollout.h"
#include "engine/train/trainer.h"

#define MICRO_BATCH 8192
#define ROUNDS 2

typedef enum
{
  PHASE_GENERATE,
  PHASE_LOG_PROBS,
  PHASE_TRAIN,
  PHASE_UPDATE,
  N_PHASES,
} Phase;

static const char *const phase_names[N_PHASES] = { "generate", "log-probs", "train", "update" };

typedef struct
{
  const PlumbBenchOptions *o;
  PlumbBench bench;
  PlumbRollout *rollout;
  PlumbTrainer *trainer;
  gint32 *prompts; /* (requests, prompt) */
  double seconds[N_PHASES], began;
} Step;

static void
step_clear (Step *s)
{
  plumb_rollout_free (s->rollout);
  plumb_trainer_free (s->trainer);
  plumb_bench_clear (&s->bench);
  g_free (s->prompts);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Step, step_clear)

static void
end_phase (Step *s, Phase phase)
{
  s->bench.device->ops->status (s->bench.device->context, NULL, 0);
  double now = plumb_bench_now ();
  s->seconds[phase] = now - s->began;
  s->began = now;
}

/* What each phase takes at the limits of the device, in seconds. */
static void
find_limits (const Step *s, double limits[N_PHASES])
{
  const PlumbBenchOptions *o = s->o;
  const PlumbBench *b = &s->bench;
  const PlumbModelConfig *c = b->model->config;
  double rows = (double) o->requests * o->samples, passes = o->new_tokens - 1;
  PlumbGenerated done = { .prefill_tokens = (double) o->prompt * o->requests, .decode_passes = passes,
                          .decode_rows = passes * rows,
                          .context_tokens = rows * (passes * o->prompt + passes * (passes + 1) / 2),
                          .weight_codes = o->weight_codes, .kv_codes = o->kv_codes };
  PlumbWork work = { 0 };
  for (int i = 0; i < o->requests * o->samples; i++)
    plumb_work_add (&work, o->prompt + o->new_tokens, o->new_tokens);
  limits[PHASE_GENERATE] = plumb_limit_generate (&b->limits, c, o->type, &done);
  limits[PHASE_LOG_PROBS] = plumb_limit_forward (&b->limits, c, &work);
  limits[PHASE_TRAIN] = plumb_limit_train (&b->limits, c, o->type, &work);
  limits[PHASE_UPDATE] = plumb_limit_update (&b->limits, c, o->type);
}

/* A completion of each sample, behind its prompt. */
static gboolean
generate (Step *s, guint64 seed, struct plumb_experience **experience, GError **error)
{
  const PlumbBenchOptions *o = s->o;
  PlumbSampling sampling = { .temperature = 1, .max_new_tokens = o->new_tokens, .seed = seed,
                             .purpose = PLUMB_RANDOM_ROLLOUT };
  int rows = o->requests * o->samples, length = o->prompt + o->new_tokens;
  if (!plumb_rollout_begin (s->rollout, &sampling, error))
    return FALSE;
  for (int p = 0; p < o->requests; p++)
    if (!plumb_rollout_submit (s->rollout, s->prompts + (gsize) p * o->prompt, o->prompt, o->samples, p, error))
      return FALSE;
  for (gboolean idle = FALSE; !idle;)
    if (!plumb_rollout_advance (s->rollout, &idle, error))
      return FALSE;
  struct plumb_experience *e = plumb_experience_new (rows, rows * length);
  *experience = e;
  for (PlumbCompletion *c; (c = plumb_rollout_take (s->rollout));)
    {
      int row = (int) c->ordinal * o->samples + c->sample, at = row * length;
      memcpy (e->ids + at, s->prompts + (gsize) c->ordinal * o->prompt, o->prompt * sizeof (gint32));
      memcpy (e->ids + at + o->prompt, c->ids->data, c->ids->len * sizeof (gint32));
      memcpy (e->rollout_logp + at + o->prompt, c->log_probs->data, c->log_probs->len * sizeof (float));
      memset (e->mask + at + o->prompt, 1, c->ids->len);
      e->offsets[row + 1] = (row + 1) * length;
      e->scored[row] = 1;
      plumb_completion_free (c);
    }
  return TRUE;
}

/* Random rewards; each token's advantage is its reward less the mean of the group. */
static void
reward (const PlumbBenchOptions *o, struct plumb_experience *e, guint32 seed)
{
  GRand *random = g_rand_new_with_seed (seed);
  for (int p = 0; p < o->requests; p++)
    {
      double sum = 0;
      for (int k = 0; k < o->samples; k++)
        sum += e->reward[p * o->samples + k] = g_rand_int_range (random, 0, 2);
      for (int s = p * o->samples; s < (p + 1) * o->samples; s++)
        for (int t = e->offsets[s]; t < e->offsets[s + 1]; t++)
          e->advantage[t] = e->mask[t] ? e->reward[s] - sum / o->samples : 0;
    }
  g_rand_free (random);
}

static gboolean
run_step (Step *s, guint64 seed, GError **error)
{
  struct plumb_experience *e = NULL;
  PlumbLossSpec loss = { .id = PLUMB_LOSS_POLICY, .temperature = 1 };
  struct plumb_loss_statistics statistics = { 0 };
  PlumbStepResult result;
  double norm;
  int rows = s->o->requests * s->o->samples;
  g_autofree int *all = g_new (int, rows);
  for (int i = 0; i < rows; i++)
    all[i] = i;
  loss.policy.clip_low = loss.policy.clip_high = 0.2;
  loss.on_policy = !s->o->old_pass;
  s->began = plumb_bench_now ();
  gboolean ok = generate (s, seed, &e, error);
  end_phase (s, PHASE_GENERATE);
  if (ok)
    reward (s->o, e, (guint32) seed);
  if (s->o->old_pass)
    ok = ok && plumb_trainer_log_probs (s->trainer, s->bench.model, e, 1, e->old_logp, e->entropy, error);
  end_phase (s, PHASE_LOG_PROBS);
  if (ok)
    plumb_denominators_add (&loss.denominators, e->sequences, e->offsets, e->mask);
  ok = ok && plumb_trainer_accumulate (s->trainer, e, all, rows, &loss, &statistics, error);
  end_phase (s, PHASE_TRAIN);
  ok = ok && plumb_trainer_step (s->trainer, 1e-6, &result, &norm, error);
  end_phase (s, PHASE_UPDATE);
  plumb_experience_free (e);
  return ok;
}

static void
report (const Step *s, const double best[N_PHASES])
{
  double limits[N_PHASES], total = 0, limit = 0, tokens = (double) s->o->requests * s->o->samples * s->o->new_tokens;
  find_limits (s, limits);
  for (int i = 0; i < N_PHASES; i++)
    {
      if (i == PHASE_LOG_PROBS && !s->o->old_pass)
        continue;
      total += best[i];
      limit += limits[i];
      g_print ("  %-10s %9.3f s, %3.0f %% of the limit\n", phase_names[i], best[i], 100 * limits[i] / best[i]);
    }
  g_print ("step of %d x %d completions, %d + %d tokens: %.2f s, %.0f generated tokens/s over all: %.0f %% of the limit\n",
           s->o->requests, s->o->samples, s->o->prompt, s->o->new_tokens, total, tokens / total, 100 * limit / total);
}

gboolean
plumb_bench_step (const PlumbBenchOptions *o, GError **error)
{
  g_auto (Step) s = { .o = o };
  PlumbTrainerOptions optimizer = { 0.9, 0.95, 1e-8, 0.01, 1.0, o->recompute, o->offload };
  int length = o->prompt + o->new_tokens;
  double best[N_PHASES] = { 0 };
  if (!plumb_bench_open (&s.bench, o, length, error))
    return FALSE;
  PlumbRolloutPlan plan = { .max_running = o->requests * o->samples, .max_prompt = o->prompt,
                            .max_new_tokens = o->new_tokens,
                            .prefill_tokens = s.bench.device->asynchronous ? 8192 : 0, .kv_codes = o->kv_codes,
                            .weight_codes = o->weight_codes };
  s.rollout = plumb_rollout_new (s.bench.model, &plan, error);
  s.trainer = s.rollout ? plumb_trainer_new (s.bench.model, &optimizer, MAX (MICRO_BATCH, length), error) : NULL;
  if (!s.trainer)
    return FALSE;
  s.prompts = g_new (gint32, (gsize) o->requests * o->prompt);
  GRand *random = g_rand_new_with_seed (3);
  for (int i = 0; i < o->requests * o->prompt; i++)
    s.prompts[i] = g_rand_int_range (random, 0, s.bench.model->config->vocabulary);
  g_rand_free (random);
  for (int round = 0; round <= ROUNDS; round++) /* the first one chooses algorithms and records */
    {
      if (!run_step (&s, (guint64) round, error))
        return FALSE;
      for (int i = 0; i < N_PHASES && round > 0; i++)
        best[i] = round == 1 ? s.seconds[i] : MIN (best[i], s.seconds[i]);
    }
  report (&s, best);
  return TRUE;
}

/* Weights into the layout of the rollout, and as a whole to another place of the same device. */
gboolean
plumb_bench_sync (const PlumbBenchOptions *o, GError **error)
{
  g_auto (PlumbBench) bench = { 0 };
  if (!plumb_bench_open (&bench, o, 1024, error))
    return FALSE;
  const struct dev_ops *ops = bench.device->ops;
  struct dev_context *context = bench.device->context;
  PlumbModel *model = bench.model;
  gsize bytes = model->table->elements * dev_type_size (o->type);
  struct dev_arena *copy = plumb_device_allocate (bench.device, bytes, "a copy of the weights", error);
  double pack = 1e9, whole = 1e9;
  gboolean ok = copy != NULL;
  for (int round = 0; ok && round < 5; round++)
    {
      plumb_model_touch (model);
      double start = plumb_bench_now ();
      ok = plumb_model_pack (model, error) && plumb_device_check (bench.device, error);
      double middle = plumb_bench_now ();
      ops->copy (context, ops->arena_base (copy), plumb_model_weights (model), bytes);
      ok = ok && plumb_device_check (bench.device, error);
      pack = MIN (pack, middle - start);
      whole = MIN (whole, plumb_bench_now () - middle);
    }
  ops->arena_free (copy);
  if (!ok)
    return FALSE;
  if (model->packed)
    g_print ("sync: weights into the layout of the rollout %.2f ms\n", pack * 1e3);
  else
    g_print ("sync: the rollout reads the trainer's weights in place: %.3f ms\n", pack * 1e3);
  g_print ("  %.2f GB from one place of the device to another: %.2f ms, %.0f %% of the bandwidth\n", bytes / 1e9,
           whole * 1e3, 100 * 2 * bytes / whole / bench.limits.bandwidth);
  return TRUE;
}
