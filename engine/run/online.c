/* SPDX-License-Identifier: Apache-2.0 */

/* One step of online reinforcement learning, in the order of the algorithm. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/run/experience-message.h"
#include "engine/run/run-private.h"

/* Random order of sequences for the passes over a batch: Fisher and Yates with a generator of its own, seeded by
 * the run and the update. */
static void
shuffle (int *order, int n, guint64 seed, guint64 update)
{
  guint64 state = seed * 0x9E3779B97F4A7C15u + update + 1;
  for (int i = n - 1; i > 0; i--)
    {
      state += 0x9E3779B97F4A7C15u; /* splitmix64 */
      guint64 z = state;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
      z = (z ^ z >> 27) * 0x94D049BB133111EBu;
      z ^= z >> 31;
      int j = (int) (z % (guint64) (i + 1)), kept = order[i];
      order[i] = order[j];
      order[j] = kept;
    }
}

static PlumbBatch *
take_and_generate (PlumbRun *run, GError **error)
{
  PlumbAsk ask = {
    .set = run->train,
    .prompts = (int) plumb_spec_get_integer (run->spec, "rollout.prompts_per_step"),
    .samples = (int) plumb_spec_get_integer (run->spec, "rollout.samples"),
    .first_ordinal = run->position.ordinal,
    .temperature = plumb_spec_get_real (run->spec, "rollout.temperature"),
    .purpose = PLUMB_RANDOM_ROLLOUT,
  };
  g_autofree gsize *rows = g_new (gsize, ask.prompts);
  for (int p = 0; p < ask.prompts; p++)
    rows[p] = plumb_data_cursor_next (run->cursor);
  ask.rows = rows;
  PlumbBatch *batch = plumb_run_generate (run, &ask, error);
  if (!batch)
    return NULL;
  run->position.ordinal += ask.prompts;
  run->position.samples += (gint64) ask.prompts * ask.samples;
  return batch;
}

static gboolean
ask_log_probs (PlumbRun *run, const struct plumb_experience *e, gboolean reference, float *log_probs,
               float *entropies, GError **error)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  plumb_body_add_experience (body, e, FALSE);
  g_variant_dict_insert (body, "of-reference", "b", reference);
  g_variant_dict_insert (body, "temperature", "d",
                         plumb_spec_get_real (run->spec, "rollout.temperature"));
  g_autoptr (GVariant) answer
      = plumb_crew_ask (run->crew, PLUMB_MESSAGE_LOG_PROBS, g_variant_dict_end (body), error);
  gsize n = 0;
  const void *found = answer ? plumb_body_get_array (answer, "log-probs", sizeof (float), &n) : NULL;
  if (!found || n != (gsize) e->tokens)
    {
      if (answer)
        g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "the worker returned no log-probs");
      return FALSE;
    }
  memcpy (log_probs, found, n * sizeof (float));
  found = plumb_body_get_array (answer, "entropies", sizeof (float), &n);
  if (entropies && found && n == (gsize) e->tokens)
    memcpy (entropies, found, n * sizeof (float));
  return TRUE;
}

/* Log-probs by the trainer before any update, and by the frozen reference where a KL term needs them. */
static gboolean
fill_log_probs (PlumbRun *run, struct plumb_experience *e, GError **error)
{
  plumb_run_begin_phase (run, "logprob");
  gboolean ok = ask_log_probs (run, e, FALSE, e->old_logp, e->entropy, error);
  if (ok && plumb_spec_get_real (run->spec, "algorithm.kl.coefficient") > 0)
    ok = ask_log_probs (run, e, TRUE, e->reference_logp, NULL, error);
  plumb_run_end_phase (run);
  return ok;
}

static gboolean
kl_in_reward (PlumbRun *run)
{
  return g_str_equal (plumb_spec_get_text (run->spec, "algorithm.kl.where"), "reward");
}

static void
fill_advantages (PlumbRun *run, struct plumb_experience *e, struct plumb_group_statistics *groups)
{
  g_autoptr (GArray) clip = plumb_spec_get_reals (run->spec, "reward.clip");
  struct plumb_advantage_options options = {
    .clip_low = clip->len > 0 ? g_array_index (clip, double, 0) : -10,
    .clip_high = clip->len > 1 ? g_array_index (clip, double, 1) : 10,
    .kl_coefficient = plumb_spec_get_real (run->spec, "algorithm.kl.coefficient"),
    .kl_estimator = plumb_spec_get_choice (run->spec, "algorithm.kl.estimator"),
    .kl_in_reward = kl_in_reward (run),
    .gamma = 1,
  };
  int normalize = plumb_spec_get_choice (run->spec, "algorithm.advantage.normalize");
  options.baseline = normalize == PLUMB_NORMALIZE_NONE ? PLUMB_BASELINE_NONE : PLUMB_BASELINE_GROUP_MEAN;
  options.scale_by_deviation = normalize == PLUMB_NORMALIZE_MEAN_STD;
  plumb_advantages (e, &options, groups);
}

static PlumbLossSpec
policy_loss (PlumbRun *run)
{
  PlumbSpec *spec = run->spec;
  PlumbLossSpec loss = { .id = PLUMB_LOSS_POLICY };
  loss.temperature = plumb_spec_get_real (spec, "rollout.temperature");
  loss.policy.clip_low = plumb_spec_get_real (spec, "algorithm.clip_low");
  loss.policy.clip_high = plumb_spec_get_real (spec, "algorithm.clip_high");
  loss.policy.kl_coefficient
      = kl_in_reward (run) ? 0 : plumb_spec_get_real (spec, "algorithm.kl.coefficient");
  loss.policy.kl_estimator = plumb_spec_get_choice (spec, "algorithm.kl.estimator");
  loss.policy.entropy = plumb_spec_get_real (spec, "algorithm.entropy");
  loss.policy.aggregate = plumb_spec_get_choice (spec, "algorithm.aggregate");
  loss.denominators.limit = (double) plumb_spec_get_integer (spec, "rollout.max_new_tokens");
  return loss;
}

static int
updates_per_step (PlumbRun *run)
{
  gint64 sequences = plumb_spec_get_integer (run->spec, "rollout.prompts_per_step")
                     * plumb_spec_get_integer (run->spec, "rollout.samples");
  gint64 batch = plumb_spec_get_integer (run->spec, "train.batch");
  gint64 epochs = plumb_spec_get_integer (run->spec, "algorithm.epochs");
  return (int) (epochs * ((sequences + batch - 1) / batch));
}

static struct plumb_schedule
rate_schedule (PlumbRun *run)
{
  int updates = (int) MIN (G_MAXINT, run->steps[PLUMB_STAGE_ONLINE] * updates_per_step (run));
  return (struct plumb_schedule){
    .kind = plumb_spec_get_choice (run->spec, "train.schedule"),
    .rate = plumb_spec_get_real (run->spec, "train.learning_rate"),
    .floor = 0.1,
    .warmup = plumb_schedule_warmup (plumb_spec_get_real (run->spec, "train.warmup"), updates),
    .updates = updates,
  };
}

/* Some epochs of mini-batches over the sequences that are still in the loss. */
static gboolean
train_policy (PlumbRun *run, const struct plumb_experience *e, PlumbUpdateSums *sums, GError **error)
{
  PlumbLossSpec loss = policy_loss (run);
  struct plumb_schedule schedule = rate_schedule (run);
  int batch = (int) plumb_spec_get_integer (run->spec, "train.batch"), kept = 0;
  gint64 epochs = plumb_spec_get_integer (run->spec, "algorithm.epochs");
  g_autofree int *order = g_new (int, e->sequences + 1);
  plumb_run_begin_phase (run, "train");
  for (int s = 0; s < e->sequences; s++)
    if (plumb_experience_response_length (e, s) > 0)
      order[kept++] = s;
  for (gint64 epoch = 0; epoch < epochs; epoch++)
    {
      if (kept > batch)
        shuffle (order, kept, (guint64) plumb_spec_get_integer (run->spec, "run.seed"),
                 (guint64) run->position.updates);
      for (int first = 0; first < kept; first += batch)
        if (!plumb_run_update (run, e, order + first, MIN (batch, kept - first), &loss, &schedule, sums, error))
          return FALSE;
    }
  plumb_run_end_phase (run);
  return TRUE;
}

gboolean
plumb_run_online_step (PlumbRun *run, GError **error)
{
  double start = plumb_telemetry_now (run->telemetry), trained;
  struct plumb_group_statistics groups;
  PlumbUpdateSums sums = { 0 };
  g_autoptr (PlumbBatch) batch = take_and_generate (run, error);
  if (!batch || !fill_log_probs (run, batch->experience, error))
    return FALSE;
  fill_advantages (run, batch->experience, &groups);
  run->position.step++;
  run->position.stage_step++;
  plumb_run_record_batch (run, batch, &groups);
  plumb_run_record_samples (run, batch, FALSE, NULL);
  trained = plumb_telemetry_now (run->telemetry);
  if (!train_policy (run, batch->experience, &sums, error))
    return FALSE;
  double end = plumb_telemetry_now (run->telemetry);
  if (sums.updates > 0)
    plumb_run_record_updates (run, &sums, "loss/total");
  plumb_run_point (run, "data/epoch", (double) plumb_data_cursor_epoch (run->cursor));
  plumb_run_point (run, "throughput/train", batch->experience->tokens / MAX (1e-9, end - trained));
  plumb_run_record_step (run, end - start, batch->experience->tokens);
  plumb_run_point (run, "time/generate", batch->seconds);
  plumb_run_point (run, "time/train", end - trained);
  run->step_seconds = end - start;
  return TRUE;
}
