/* SPDX-License-Identifier: Apache-2.0 */

/* Generation of a batch of requests with log-probs. The limit: prefill at the rate of products; each decode step
 * reads every weight and every key once, or multiplies at that rate, whichever takes longer. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/bench/bench.h"
#include "engine/rollout/rollout.h"

/* Bytes of weights that a decode step reads. */
static double
weight_bytes (const PlumbBench *b, const PlumbBenchOptions *o)
{
  double size = (double) dev_type_size (o->type);
  return b->blocks * (o->weight_codes ? 1 : size) + b->head * size;
}

static double
limit_seconds (const PlumbBench *b, const PlumbBenchOptions *o)
{
  double rows = o->requests, passes = o->new_tokens - 1;
  PlumbGenerated done = { .prefill_tokens = o->prompt * rows, .decode_passes = passes, .decode_rows = passes * rows,
                          .context_tokens = rows * (passes * o->prompt + passes * (passes + 1) / 2),
                          .weight_codes = o->weight_codes, .kv_codes = o->kv_codes };
  return plumb_limit_generate (&b->limits, b->model->config, o->type, &done);
}

static gboolean
submit_all (PlumbRollout *rollout, const PlumbBenchOptions *o, int vocabulary, GError **error)
{
  g_autofree gint32 *prompt = g_new (gint32, o->prompt);
  GRand *random = g_rand_new_with_seed (3);
  gboolean ok = TRUE;
  for (int i = 0; i < o->requests && ok; i++)
    {
      for (int t = 0; t < o->prompt; t++)
        prompt[t] = g_rand_int_range (random, 0, vocabulary);
      ok = plumb_rollout_submit (rollout, prompt, o->prompt, 1, i, error);
    }
  g_rand_free (random);
  return ok;
}

/* One generation of all requests; seconds until the first decode-only pass, and in all. */
static gboolean
generate (PlumbRollout *rollout, const PlumbBenchOptions *o, int vocabulary, double *prefill, double *total,
          GError **error)
{
  PlumbSampling sampling = { .temperature = 1, .max_new_tokens = o->new_tokens, .seed = 1,
                             .purpose = PLUMB_RANDOM_ROLLOUT };
  PlumbRolloutStatistics s;
  gboolean idle = FALSE;
  double start = plumb_bench_now ();
  *prefill = 0;
  if (!plumb_rollout_begin (rollout, &sampling, error) || !submit_all (rollout, o, vocabulary, error))
    return FALSE;
  while (!idle)
    {
      if (!plumb_rollout_advance (rollout, &idle, error))
        return FALSE;
      plumb_rollout_statistics (rollout, &s);
      if (*prefill == 0 && s.prefill_tokens >= (gint64) o->requests * o->prompt)
        *prefill = plumb_bench_now () - start;
    }
  *total = plumb_bench_now () - start;
  for (PlumbCompletion *c; (c = plumb_rollout_take (rollout));)
    plumb_completion_free (c);
  return TRUE;
}

/* The time of `n` requests of which o->requests run at once. Their lengths go round evenly from the shortest to `spread` times
 * that, in an order that looks like chance; 1: all have the mean. */
static gboolean
time_lengths (PlumbRollout *rollout, const PlumbBenchOptions *o, int vocabulary, int n, int spread, double *seconds,
              gint64 *tokens, GError **error)
{
  PlumbSampling sampling = { .temperature = 1, .max_new_tokens = 2 * o->new_tokens, .seed = 1,
                             .purpose = PLUMB_RANDOM_ROLLOUT };
  g_autofree gint32 *prompt = g_new0 (gint32, o->prompt);
  double shortest = 2.0 * o->new_tokens / (1 + spread);
  PlumbRolloutStatistics s;
  gboolean idle = FALSE;
  if (!plumb_rollout_begin (rollout, &sampling, error))
    return FALSE;
  for (int i = 0; i < n; i++)
    {
      double place = spread > 1 ? (double) (i * 37 % 64) / 63 : 0;
      for (int t = 0; t < o->prompt; t++)
        prompt[t] = (gint32) (((gint64) i * 7919 + t * 104729) % vocabulary);
      plumb_rollout_limit (rollout, MAX (1, (int) (shortest * (1 + place * (spread - 1)) + 0.5)));
      if (!plumb_rollout_submit (rollout, prompt, o->prompt, 1, i, error))
        return FALSE;
    }
  double start = plumb_bench_now ();
  while (!idle)
    if (!plumb_rollout_advance (rollout, &idle, error))
      return FALSE;
  *seconds = plumb_bench_now () - start;
  plumb_rollout_statistics (rollout, &s);
  *tokens = s.tokens;
  for (PlumbCompletion *c; (c = plumb_rollout_take (rollout));)
    plumb_completion_free (c);
  return TRUE;
}

#define ROUNDS_OF_REQUESTS 32 /* as many times more requests than run at once: few run alone at the end */

/* Lengths that differ against lengths that do not, with the same number running. */
static gboolean
bench_spread (PlumbRollout *rollout, const PlumbBenchOptions *o, int vocabulary, GError **error)
{
  double seconds[2], best[2] = { 0, 0 };
  gint64 tokens[2];
  int n = ROUNDS_OF_REQUESTS * o->requests;
  for (int round = 0; round < 3; round++)
    for (int k = 0; k < 2; k++)
      {
        if (!time_lengths (rollout, o, vocabulary, n, k == 0 ? 1 : o->spread, &seconds[k], &tokens[k], error))
          return FALSE;
        best[k] = MAX (best[k], tokens[k] / seconds[k]);
      }
  g_print ("rollout of %d requests, %d at once, %d prompt tokens, %d new ones on average: %.0f tokens/s\n"
           "  lengths from 1 to %d: %.0f tokens/s, %.0f %% of that\n",
           n, o->requests, o->prompt, o->new_tokens, best[0], o->spread, best[1], 100 * best[1] / best[0]);
  return TRUE;
}

gboolean
plumb_bench_rollout (const PlumbBenchOptions *o, GError **error)
{
  g_auto (PlumbBench) bench = { 0 };
  int longest = o->spread > 0 ? 2 * o->new_tokens : o->new_tokens;
  if (!plumb_bench_open (&bench, o, o->prompt + longest, error))
    return FALSE;
  PlumbRolloutPlan plan = { .max_running = o->requests, .max_prompt = o->prompt, .max_new_tokens = longest,
                            .prefill_tokens = bench.device->asynchronous ? 8192 : 0, .kv_codes = o->kv_codes,
                            .weight_codes = o->weight_codes };
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (bench.model, &plan, error);
  if (rollout && o->spread > 0)
    return bench_spread (rollout, o, bench.model->config->vocabulary, error);
  double best = 0, best_prefill = 0, limit = limit_seconds (&bench, o);
  for (int round = 0; rollout && round < 3; round++)
    {
      double prefill, total;
      if (!generate (rollout, o, bench.model->config->vocabulary, &prefill, &total, error))
        return FALSE;
      if (round > 0 && (best == 0 || total < best))
        {
          best = total;
          best_prefill = prefill;
        }
    }
  if (!rollout)
    return FALSE;
  double tokens = (double) o->requests * o->new_tokens;
  g_print ("rollout %d x (%d + %d): %.0f tokens/s, %.1f ms (prefill queued in %.1f ms): %.0f %% of the limit of %.0f "
           "tokens/s\n",
           o->requests, o->prompt, o->new_tokens, tokens / best, best * 1e3, best_prefill * 1e3, 100 * limit / best,
           tokens / limit);
  if (o->requests == 1)
    g_print ("  a decode step reads %.2f GB of weights: %.0f %% of the bandwidth\n",
             weight_bytes (&bench, o) / 1e9,
             100 * weight_bytes (&bench, o) * (o->new_tokens - 1) / (best - best_prefill) / bench.limits.bandwidth);
  return TRUE;
}
