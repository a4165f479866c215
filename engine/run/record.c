/* SPDX-License-Identifier: Apache-2.0 */

/* What a step writes into the telemetry. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/reward/batch.h"
#include "engine/run/run-private.h"

void
plumb_run_point (PlumbRun *run, const char *metric, double value)
{
  PlumbLatest now = { value, run->position.step }, *latest = g_hash_table_lookup (run->latest, metric);
  plumb_telemetry_point (run->telemetry, metric, run->position.step, value);
  /* Where generation runs ahead, sampler and trainer differ by design. */
  if (!run->ahead || !g_str_has_prefix (metric, "policy/logprob_gap"))
    plumb_diagnosis_see (run->diagnosis, metric, value);
  plumb_run_see_metric (run, metric, value);
  if (latest)
    *latest = now;
  else
    g_hash_table_insert (run->latest, g_strdup (metric), g_memdup2 (&now, sizeof now));
}

static int
compare_integers (gconstpointer a, gconstpointer b)
{
  return *(const int *) a - *(const int *) b;
}

static void
record_lengths (PlumbRun *run, const PlumbBatch *batch)
{
  const struct plumb_experience *e = batch->experience;
  int n = e->sequences, cut = 0, longest = 0;
  double sum = 0, prompts = 0;
  g_autofree int *lengths = g_new (int, (gsize) MAX (n, 1));
  for (int s = 0; s < n; s++)
    {
      int prompt = (int) batch->data[s / batch->samples]->prompt_ids->len;
      lengths[s] = e->offsets[s + 1] - e->offsets[s] - prompt;
      longest = MAX (longest, lengths[s]);
      sum += lengths[s];
      prompts += prompt;
      cut += e->truncated[s];
    }
  qsort (lengths, n, sizeof *lengths, compare_integers);
  plumb_run_point (run, "length/response_mean", sum / n);
  plumb_run_point (run, "length/response_max", longest);
  plumb_run_point (run, "length/response_p95", lengths[(int) (0.95 * (n - 1))]);
  plumb_run_point (run, "length/truncated", (double) cut / n);
  plumb_run_point (run, "length/eos", 1 - (double) cut / n);
  plumb_run_point (run, "length/prompt_mean", prompts / n);
}

static const double *
raw_rewards (const PlumbBatch *batch)
{
  return batch->raw ? batch->raw : batch->experience->reward;
}

static void
record_rewards (PlumbRun *run, const PlumbBatch *batch)
{
  const struct plumb_experience *e = batch->experience;
  const double *raw = raw_rewards (batch);
  double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
  int scored = 0;
  for (int s = 0; s < e->sequences; s++)
    {
      if (!e->scored[s])
        continue;
      sum += raw[s];
      squares += raw[s] * raw[s];
      least = MIN (least, raw[s]);
      most = MAX (most, raw[s]);
      scored++;
    }
  if (!run->reward && !run->environment)
    return; /* not measured */
  plumb_run_point (run, "reward/failed", 1 - (double) scored / e->sequences);
  if (batch->reward_seconds)
    {
      gsize n = (gsize) e->sequences;
      plumb_run_point (run, "reward/latency_p50", plumb_reward_quantile (batch->reward_seconds, n, 0.5));
      plumb_run_point (run, "reward/latency_p99", plumb_reward_quantile (batch->reward_seconds, n, 0.99));
    }
  run->last_reward = NAN;
  if (scored == 0)
    return;
  double mean = sum / scored;
  plumb_run_point (run, "reward/mean", mean);
  run->last_reward = mean;
  plumb_run_point (run, "reward/std", sqrt (MAX (0, squares / scored - mean * mean)));
  plumb_run_point (run, "reward/min", least);
  plumb_run_point (run, "reward/max", most);
}

void
plumb_run_record_gap (PlumbRun *run, const struct plumb_experience *e)
{
  double gap, worst = 0, sum = 0, entropy = 0, kl = 0;
  gint64 n = 0;
  for (int t = 0; t < e->tokens; t++)
    {
      if (!e->mask[t])
        continue;
      gap = fabs ((double) e->rollout_logp[t] - e->old_logp[t]);
      worst = MAX (worst, gap);
      sum += gap;
      kl += (double) e->rollout_logp[t] - e->old_logp[t];
      entropy += e->entropy[t];
      n++;
    }
  if (n == 0)
    return;
  plumb_run_point (run, "policy/logprob_gap_max", worst);
  plumb_run_point (run, "policy/logprob_gap_mean", sum / n);
  plumb_run_point (run, "kl/rollout_trainer", kl / n);
  plumb_run_point (run, "policy/entropy", entropy / n);
}

void
plumb_run_record_reference (PlumbRun *run, const struct plumb_experience *e)
{
  double coefficient = run->position.kl_coefficient, sum = 0;
  enum plumb_kl_estimator estimator = plumb_spec_get_choice (run->spec, "algorithm.kl.estimator");
  gint64 n = 0;
  if (PLUMB_IS_ON (run->algorithm, PLUMB_ON_POLICY))
    plumb_run_point (run, "kl/coefficient", coefficient);
  if (!plumb_recipe_needs_reference (run->spec))
    return; /* not measured */
  for (int t = 0; t < e->tokens; t++)
    if (e->mask[t])
      {
        sum += plumb_kl (estimator, (double) e->old_logp[t] - e->reference_logp[t], NULL);
        n++;
      }
  if (n > 0)
    plumb_run_point (run, "kl/reference", sum / n);
}

void
plumb_run_record_batch (PlumbRun *run, const PlumbBatch *batch, const struct plumb_group_statistics *groups)
{
  record_rewards (run, batch);
  record_lengths (run, batch);
  if (run->reward || run->environment)
    plumb_run_point (run, "reward/return", groups->mean_return);
  if (groups->groups > 0 && (run->reward || run->environment))
    {
      plumb_run_point (run, "reward/group_std", groups->mean_std);
      plumb_run_point (run, "reward/flat_groups", (double) groups->flat / groups->groups);
    }
  plumb_run_point (run, "rollout/running", batch->running);
  plumb_run_point (run, "rollout/queued", batch->queued);
  plumb_run_point (run, "rollout/kv_used", batch->kv_used);
  plumb_run_point (run, "rollout/prefix_hits",
                   (double) batch->shared / MAX (1, batch->shared + batch->prefill));
  if (batch->seconds > 0)
    plumb_run_point (run, "throughput/rollout", batch->generated / batch->seconds);
  if (batch->seconds > 0 && batch->limit > 0)
    plumb_run_point (run, "throughput/rollout_of_limit", batch->limit / batch->seconds);
}

static void
record_parts (PlumbRun *run, const PlumbBatch *batch)
{
  guint n_parts = batch->n_parts;
  for (guint p = 0; p < n_parts; p++)
    {
      double sum = 0;
      int n = 0;
      for (int s = 0; s < batch->experience->sequences; s++)
        if (isfinite (batch->parts[(gsize) s * n_parts + p]))
          {
            sum += batch->parts[(gsize) s * n_parts + p];
            n++;
          }
      g_autofree char *metric
          = g_strconcat ("reward/part/", plumb_reward_part_name (run->reward, p), NULL);
      if (n > 0)
        plumb_run_point (run, metric, sum / n);
    }
}

static GBytes *
float_blob (const float *values, gsize n)
{
  return g_bytes_new (values, n * sizeof *values);
}

static void
add_token_detail (PlumbRun *run, const PlumbBatch *batch, int s, PlumbSample *sample)
{
  const struct plumb_experience *e = batch->experience;
  int first = e->offsets[s] + (int) batch->data[s / batch->samples]->prompt_ids->len;
  gsize n = (gsize) (e->offsets[s + 1] - first);
  g_autofree float *kl = g_new (float, n + 1), *advantages = g_new (float, n + 1);
  for (gsize i = 0; i < n; i++)
    {
      kl[i] = e->old_logp[first + i] - e->reference_logp[first + i];
      advantages[i] = (float) e->advantage[first + i];
    }
  sample->logprobs = float_blob (e->rollout_logp + first, n);
  sample->advantages = float_blob (advantages, n);
  if (plumb_recipe_needs_reference (run->spec))
    sample->kl = float_blob (kl, n);
}

/* Runs of response tokens of one version each; NULL: all are of the last one's. */
static GBytes *
version_runs (const struct plumb_experience *e, int first, int last)
{
  g_autoptr (GArray) runs = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (int t = first; t < last; t++)
    {
      gint32 version = e->mask[t] ? e->version[t] : -1, one = 1;
      if (runs->len > 0 && g_array_index (runs, gint32, runs->len - 1) == version)
        {
          g_array_index (runs, gint32, runs->len - 2)++;
          continue;
        }
      g_array_append_val (runs, one);
      g_array_append_val (runs, version);
    }
  return runs->len > 2 ? g_bytes_new (runs->data, runs->len * sizeof (gint32)) : NULL;
}

static PlumbSample *
make_sample (PlumbRun *run, const PlumbBatch *batch, int s, gboolean evaluation, const char *set)
{
  const struct plumb_experience *e = batch->experience;
  int prompt = s / batch->samples;
  const PlumbDataRow *row = batch->data[prompt];
  gsize length = row->prompt_ids->len, whole = (gsize) (e->offsets[s + 1] - e->offsets[s]);
  PlumbSample *sample = plumb_sample_new ();
  guint n_parts = batch->n_parts;
  sample->step = run->position.step;
  sample->attempt = plumb_telemetry_attempt (run->telemetry);
  sample->prompt = batch->ordinals[prompt];
  sample->sample = s % batch->samples;
  sample->eval = evaluation;
  sample->set = g_strdup (set);
  sample->prompt_text = g_strdup (row->prompt);
  sample->answer = g_strdup (row->answer);
  sample->response_text = g_strdup (batch->responses[s]);
  sample->reward = raw_rewards (batch)[s];
  sample->failed = !e->scored[s];
  sample->reason = g_strdup (batch->scores[s].reason);
  sample->n_parts = n_parts;
  sample->part_names = g_new0 (char *, n_parts + 1);
  sample->part_values
      = g_memdup2 (batch->parts + (gsize) s * n_parts, MAX (1, n_parts) * sizeof (double));
  for (guint p = 0; p < n_parts; p++)
    sample->part_names[p] = g_strdup (plumb_reward_part_name (run->reward, p));
  sample->advantage = evaluation || !e->scored[s] ? NAN : e->advantage[e->offsets[s + 1] - 1];
  sample->finish = g_strdup (batch->finish[s] == PLUMB_FINISH_LENGTH        ? "length"
                             : plumb_spec_is_set (run->spec, "rollout.stop") ? "stop"
                                                                             : "eos");
  sample->policy_version = e->version[e->offsets[s + 1] - 1];
  if (!evaluation)
    sample->versions = version_runs (e, e->offsets[s] + (int) length, e->offsets[s + 1]);
  sample->prompt_ids = g_bytes_new (e->ids + e->offsets[s], length * sizeof (gint32));
  sample->response_ids
      = g_bytes_new (e->ids + e->offsets[s] + length, (whole - length) * sizeof (gint32));
  if (!evaluation && plumb_spec_get_boolean (run->spec, "telemetry.token_detail"))
    add_token_detail (run, batch, s, sample);
  return sample;
}

void
plumb_run_record_samples (PlumbRun *run, const PlumbBatch *batch, gboolean evaluation, const char *set)
{
  gint64 most = plumb_spec_get_integer (run->spec, "telemetry.samples_per_step");
  int n = batch->experience->sequences;
  if (most >= 0)
    n = (int) MIN ((gint64) n, (most + batch->samples - 1) / batch->samples * batch->samples);
  for (int s = 0; s < n; s++)
    plumb_telemetry_sample (run->telemetry, make_sample (run, batch, s, evaluation, set));
  if (!evaluation)
    record_parts (run, batch);
}

void
plumb_run_forget_work (PlumbRun *run)
{
  g_hash_table_remove_all (run->phase_sums);
  run->limits.probe = run->limits.train = run->limits.operations = 0;
}

void
plumb_run_record_shares (PlumbRun *run, double limit, double train_seconds, double step_seconds)
{
  double train = run->limits.train, operations = run->limits.operations, total = limit + run->limits.probe + train;
  if (train > 0 && train_seconds > 0)
    plumb_run_point (run, "throughput/train_of_limit", train / train_seconds);
  if (operations > 0 && train_seconds > 0 && run->limits.peak > 0)
    plumb_run_point (run, "throughput/mfu", operations / train_seconds / run->limits.peak);
  /* What was generated ahead took no time of the step. */
  if (total > 0 && step_seconds > 0 && !run->ahead)
    plumb_run_point (run, "throughput/total_of_limit", total / step_seconds);
}

void
plumb_run_record_step (PlumbRun *run, double seconds, gint64 tokens)
{
  struct rusage usage;
  run->position.tokens += tokens;
  plumb_run_point (run, "time/step", seconds);
  plumb_run_point (run, "throughput/total", tokens / MAX (1e-9, seconds));
  plumb_run_point (run, "progress/step", run->position.step);
  plumb_run_point (run, "progress/updates", run->position.updates);
  plumb_run_point (run, "progress/tokens", run->position.tokens);
  plumb_run_point (run, "progress/samples", run->position.samples);
  if (getrusage (RUSAGE_SELF, &usage) == 0)
    plumb_run_point (run, "memory/host", usage.ru_maxrss * 1024.0 + (double) plumb_crew_memory (run->crew));
  plumb_run_point (run, "memory/device_planned", run->memory_planned);
  if (run->memory_peak > 0)
    plumb_run_point (run, "memory/device_peak", run->memory_peak);
  run->status->tokens_per_second = tokens / MAX (1e-9, seconds);
}
