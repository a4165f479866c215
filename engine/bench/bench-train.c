/* SPDX-License-Identifier: Apache-2.0 */

/* A training step over packed sequences. The limit: products with the head's recomputation at the rate of products,
 * attention at half of it, elementwise traffic and the update at the bandwidth. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/bench/bench.h"
#include "engine/train/trainer.h"

static double
limit_seconds (const PlumbBench *b, const PlumbBenchOptions *o)
{
  const PlumbModelConfig *c = b->model->config;
  PlumbWork work = { 0 };
  for (int s = 0; s < o->sequences; s++)
    plumb_work_add (&work, o->length, o->length);
  return plumb_limit_train (&b->limits, c, o->type, &work) + plumb_limit_update (&b->limits, c, o->type);
}

static struct plumb_experience *
make_batch (const PlumbBenchOptions *o, int vocabulary)
{
  struct plumb_experience *e = plumb_experience_new (o->sequences, o->sequences * o->length);
  GRand *random = g_rand_new_with_seed (1);
  for (int i = 0; i < o->sequences; i++)
    {
      e->offsets[i + 1] = (i + 1) * o->length;
      for (int t = 0; t < o->length; t++)
        {
          e->ids[i * o->length + t] = g_rand_int_range (random, 0, vocabulary);
          e->mask[i * o->length + t] = t > 0;
        }
    }
  g_rand_free (random);
  return e;
}

/* Seconds of accumulation and of the update. */
static gboolean
train_step (PlumbTrainer *trainer, const struct plumb_experience *e, const int *all, double seconds[2], GError **error)
{
  PlumbLossSpec loss = { .id = PLUMB_LOSS_SFT, .temperature = 1 };
  struct plumb_loss_statistics statistics = { 0 };
  PlumbStepResult result;
  double norm, start = plumb_bench_now ();
  plumb_denominators_add (&loss.denominators, e->sequences, e->offsets, e->mask);
  if (!plumb_trainer_accumulate (trainer, e, all, e->sequences, &loss, &statistics, error))
    return FALSE;
  double middle = plumb_bench_now ();
  if (!plumb_trainer_step (trainer, 1e-5, &result, &norm, error))
    return FALSE;
  seconds[0] = middle - start;
  seconds[1] = plumb_bench_now () - middle;
  return TRUE;
}

gboolean
plumb_bench_train (const PlumbBenchOptions *o, GError **error)
{
  g_auto (PlumbBench) bench = { 0 };
  PlumbTrainerOptions optimizer = { 0.9, 0.95, 1e-8, 0.01, 1.0, o->recompute, o->offload };
  int t = o->sequences * o->length, rounds = 5;
  if (!plumb_bench_open (&bench, o, o->length, error))
    return FALSE;
  g_autoptr (PlumbTrainer) trainer = plumb_trainer_new (bench.model, &optimizer, t, error);
  if (!trainer)
    return FALSE;
  struct plumb_experience *e = make_batch (o, bench.model->config->vocabulary);
  g_autofree int *all = g_new (int, o->sequences);
  double best[2] = { 1e9, 1e9 };
  gboolean ok = TRUE;
  for (int i = 0; i < o->sequences; i++)
    all[i] = i;
  for (int round = 0; ok && round < rounds; round++)
    {
      double seconds[2];
      ok = train_step (trainer, e, all, seconds, error);
      if (ok && round > 0 && seconds[0] + seconds[1] < best[0] + best[1])
        memcpy (best, seconds, sizeof best);
    }
  plumb_experience_free (e);
  double step = best[0] + best[1], limit = limit_seconds (&bench, o);
  if (ok)
    g_print ("train %d x %d: %.0f tokens/s, %.1f ms a step (update %.1f ms), %.0f model TFLOP/s: %.0f %% of the limit of "
             "%.0f tokens/s; activations %.1f GB\n",
             o->sequences, o->length, t / step, step * 1e3, best[1] * 1e3,
             6 * (bench.blocks + bench.head) * t / step / 1e12, 100 * limit / step, t / limit,
             (double) plumb_trainer_activation_bytes (bench.model->config, o->type, o->length, t, TRUE, o->recompute) / 1e9);
  return ok;
}
