/* SPDX-License-Identifier: Apache-2.0 */

/* One step of online reinforcement learning, in the order of the algorithm. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/algo/shaping.h"
#include "engine/core/error.h"
#include "engine/run/ahead.h"
#include "engine/run/experience-message.h"
#include "engine/run/run-private.h"

#define MOST_ROUNDS 20 /* of asking for prompts that teach something, in one step */

/* Random order of units for the passes over a batch: Fisher and Yates with a generator of its own, seeded by
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

/* The rewards of greedy answers to the same prompts, as baselines. */
static gboolean
ask_greedy (PlumbRun *run, const PlumbAsk *asked, PlumbBatch *batch, GError **error)
{
  PlumbAsk ask = *asked;
  ask.samples = 1;
  ask.temperature = 0;
  g_autoptr (PlumbBatch) greedy = plumb_run_generate (run, &ask, error);
  if (!greedy)
    return FALSE;
  for (int s = 0; s < batch->experience->sequences; s++)
    {
      int prompt = s / batch->samples;
      batch->experience->baseline[s] = greedy->experience->reward[prompt];
      /* Without its baseline an answer has no advantage. */
      batch->experience->scored[s] = batch->experience->scored[s] && greedy->experience->scored[prompt];
    }
  return TRUE;
}

/* Whether a reward model of another worker may score beside the log-probs: where all that is generated is trained. */
static gboolean
may_probe_early (PlumbRun *run)
{
  return plumb_crew_worker_of (run->crew, PLUMB_ROLE_REWARD) && !run->recipe->greedy
         && !plumb_spec_get_boolean (run->spec, "algorithm.dynamic_sampling");
}

static PlumbBatch *
take_and_generate (PlumbRun *run, int prompts, GError **error)
{
  PlumbAsk ask = {
    .set = run->train,
    .prompts = prompts,
    .samples = (int) plumb_spec_get_integer (run->spec, "rollout.samples"),
    .first_ordinal = run->position.ordinal,
    .temperature = plumb_spec_get_real (run->spec, "rollout.temperature"),
    .purpose = PLUMB_RANDOM_ROLLOUT,
    .early = may_probe_early (run),
  };
  g_autofree gsize *rows = g_new (gsize, ask.prompts);
  g_autoptr (PlumbBatch) batch = NULL;
  ask.rows = rows;
  if (run->ahead)
    batch = plumb_run_ahead_take (run, prompts, rows, &ask.first_ordinal, error);
  else
    {
      for (int p = 0; p < ask.prompts; p++)
        rows[p] = plumb_data_cursor_next (run->cursor);
      batch = plumb_run_generate (run, &ask, error);
    }
  if (!batch || (run->recipe->greedy && !ask_greedy (run, &ask, batch, error)))
    return NULL;
  run->position.ordinal += run->ahead ? 0 : ask.prompts;
  run->position.samples += (gint64) ask.prompts * ask.samples;
  batch->asked = ask.prompts;
  return g_steal_pointer (&batch);
}

/* How many groups teach nothing since nothing is left to improve. */
static int
count_mastered (PlumbRun *run, const PlumbBatch *batch)
{
  double high = plumb_spec_get_real (run->spec, "algorithm.dynamic_sampling.high");
  int n = 0;
  for (int p = 0; p < batch->prompts; p++)
    {
      int first = p * batch->samples, last = first + batch->samples;
      n += plumb_group_teaches (batch->experience, first, last, -INFINITY, INFINITY)
           && !plumb_group_teaches (batch->experience, first, last, -INFINITY, high);
    }
  return n;
}

/* Moves the groups that teach something, as many as are wanted. */
static void
accept_groups (PlumbRun *run, PlumbBatch *to, PlumbBatch *from, int wanted)
{
  double low = plumb_spec_get_real (run->spec, "algorithm.dynamic_sampling.low");
  double high = plumb_spec_get_real (run->spec, "algorithm.dynamic_sampling.high");
  g_autofree int *groups = g_new (int, from->prompts + 1);
  int n = 0;
  for (int p = 0; p < from->prompts && n < wanted; p++)
    if (plumb_group_teaches (from->experience, p * from->samples, (p + 1) * from->samples, low, high))
      groups[n++] = p;
  plumb_batch_take (to, from, groups, n);
}

/* Dynamic sampling (Yu et al. 2025): asks on until enough groups teach something; what was accepted is kept. */
static PlumbBatch *
generate_batch (PlumbRun *run, GError **error)
{
  int prompts = (int) plumb_spec_get_integer (run->spec, "rollout.prompts_per_step");
  if (!plumb_spec_get_boolean (run->spec, "algorithm.dynamic_sampling"))
    return take_and_generate (run, prompts, error);
  g_autoptr (PlumbBatch) kept = g_new0 (PlumbBatch, 1);
  int mastered = 0;
  for (int round = 0; kept->prompts < prompts && round < MOST_ROUNDS; round++)
    {
      /* What was generated ahead is taken as it is needed, and nothing thrown away. */
      int asked = run->ahead ? prompts - kept->prompts : prompts, before = kept->prompts;
      g_autoptr (PlumbBatch) more = take_and_generate (run, asked, error);
      if (!more)
        return NULL;
      mastered += count_mastered (run, more);
      accept_groups (run, kept, more, prompts - kept->prompts);
      if (run->ahead)
        plumb_run_ahead_reject (run, asked - (kept->prompts - before));
    }
  if (kept->prompts == 0)
    {
      run->mastered = 2 * mastered > kept->asked && run->position.stage_step > 0;
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                   "none of %d prompts had a mean reward between algorithm.dynamic_sampling.low and .high; the "
                   "problems are all too hard or too easy for this model, or the reward does not fit them",
                   kept->asked);
      return NULL;
    }
  return g_steal_pointer (&kept);
}

/* Log-probs by the trainer before any update, where the policy is asked; by the frozen reference where a term needs them; and
 * values. */
static gboolean
fill_log_probs (PlumbRun *run, struct plumb_experience *e, gboolean policy, GError **error)
{
  PlumbProbe probes[PLUMB_TRAINING_PROBES];
  int n = plumb_run_training_probes (run, e, policy, probes);
  if (n == 0)
    return TRUE;
  plumb_run_begin_phase (run, "logprob");
  gboolean ok = plumb_run_probe (run, e, probes, n, error);
  if (ok)
    plumb_run_end_phase (run);
  return ok;
}

/* Counts the steps in a row whose rewards all failed: such a step teaches nothing. */
static void
count_failed_steps (PlumbRun *run, const PlumbBatch *batch)
{
  const struct plumb_experience *e = batch->experience;
  g_clear_pointer (&run->failure, g_free);
  for (int s = 0; s < e->sequences; s++)
    {
      if (e->scored[s])
        {
          run->failed_steps = 0;
          return;
        }
      if (!run->failure)
        run->failure = g_strdup (batch->scores[s].reason);
    }
  run->failed_steps++;
}

/* What happens to the raw rewards before the advantages: overlong and cut responses. An evaluation measures the raw
 * ones, and so does dynamic sampling. */
static void
shape_rewards (PlumbRun *run, PlumbBatch *batch)
{
  struct plumb_experience *e = batch->experience;
  batch->raw = g_memdup2 (e->reward, MAX (1, (gsize) e->sequences) * sizeof *e->reward);
  int buffer = (int) plumb_spec_get_integer (run->spec, "reward.overlong_buffer");
  if (buffer > 0)
    plumb_shape_overlong (e, (int) plumb_spec_get_integer (run->spec, "rollout.max_new_tokens"), buffer,
                          plumb_spec_get_real (run->spec, "reward.overlong_factor"));
  if (plumb_spec_is_set (run->spec, "reward.truncated")
      && g_strcmp0 (plumb_spec_get_text (run->spec, "reward.truncated"), "off") != 0)
    plumb_shape_truncated (e, plumb_spec_get_real (run->spec, "reward.truncated"));
}

static int
updates_per_step (PlumbRun *run)
{
  gint64 sequences = plumb_spec_get_integer (run->spec, "rollout.prompts_per_step");
  gint64 batch = plumb_spec_get_integer (run->spec, "train.batch");
  gint64 epochs = plumb_spec_get_integer (run->spec, "algorithm.epochs");
  if (run->recipe->loss == PLUMB_LOSS_POLICY)
    sequences *= plumb_spec_get_integer (run->spec, "rollout.samples");
  return (int) (epochs * ((sequences + batch - 1) / batch));
}

static struct plumb_schedule
rate_schedule (PlumbRun *run, const char *rate)
{
  int updates = (int) MIN (G_MAXINT, run->steps[PLUMB_STAGE_ONLINE] * updates_per_step (run));
  return (struct plumb_schedule){
    .kind = plumb_spec_get_choice (run->spec, "train.schedule"),
    .rate = plumb_spec_get_real (run->spec, rate),
    .floor = 0.1,
    .warmup = plumb_schedule_warmup (plumb_spec_get_real (run->spec, "train.warmup"), updates),
    .updates = updates,
  };
}

/* Where the log-probs before the update come from: the choices of algorithm.old_logprobs, but that auto is decided. */
typedef enum
{
  OLD_OF_UPDATE, /* its own forward pass */
  OLD_OF_PASS,
  OLD_OF_SAMPLER,
} OldLogProbs;

/* What a step trains with. */
typedef struct
{
  PlumbLossSpec loss, value_loss;
  struct plumb_schedule schedule, value_schedule;
  gboolean policy, critic; /* which of them is trained now */
  OldLogProbs old;
  PlumbUpdateSums sums, value_sums;
} Training;

static void
training_init (PlumbRun *run, Training *t)
{
  *t = (Training){ .critic = run->recipe->critic };
  t->loss = plumb_recipe_loss (run->spec, run->position.kl_coefficient);
  t->schedule = rate_schedule (run, "train.learning_rate");
  t->policy = !t->critic
              || run->position.stage_step > plumb_spec_get_integer (run->spec, "algorithm.critic_warmup_steps");
  if (!t->critic)
    return;
  t->value_loss = plumb_recipe_value_loss (run->spec);
  t->value_schedule = rate_schedule (run, "train.critic_learning_rate");
}

/* Where a step makes one update of the policy, its own forward pass comes before any change, and nothing asks for its log-probs
 * earlier. */
static OldLogProbs
choose_old (PlumbRun *run, const PlumbBatch *batch, const Training *t)
{
  OldLogProbs wanted = plumb_spec_get_choice (run->spec, "algorithm.old_logprobs");
  gboolean one_update = plumb_spec_get_integer (run->spec, "algorithm.epochs") == 1
                        && batch->experience->sequences <= plumb_spec_get_integer (run->spec, "train.batch");
  gboolean kl_in_reward = plumb_recipe_needs_reference (run->spec)
                          && plumb_recipe_advantages (run->spec, run->position.kl_coefficient).kl_in_reward;
  if (run->recipe->loss != PLUMB_LOSS_POLICY)
    return OLD_OF_PASS;
  if (wanted == OLD_OF_UPDATE && (batch->probed || !one_update || kl_in_reward || !t->policy))
    return OLD_OF_PASS;
  return wanted;
}

static gboolean
train_mini_batch (PlumbRun *run, const struct plumb_experience *e, const int *sequences, int n, Training *t,
                  GError **error)
{
  PlumbUpdate updates[2];
  int n_updates = 0;
  if (t->critic)
    updates[n_updates++] = (PlumbUpdate){ &t->value_loss, &t->value_schedule, &t->value_sums };
  if (t->policy)
    updates[n_updates++] = (PlumbUpdate){ &t->loss, &t->schedule, &t->sums };
  return plumb_run_update (run, e, sequences, n, updates, n_updates, error);
}

/* Some epochs of mini-batches over the units (sequences, or pairs) that are still in the loss. */
static gboolean
train (PlumbRun *run, const struct plumb_experience *e, Training *t, GError **error)
{
  int unit = run->recipe->pairs ? 2 : 1, kept = 0;
  int batch = (int) plumb_spec_get_integer (run->spec, "train.batch");
  gint64 epochs = plumb_spec_get_integer (run->spec, "algorithm.epochs");
  g_autofree int *order = g_new (int, e->sequences + 1), *sequences = g_new (int, e->sequences + 1);
  plumb_run_begin_phase (run, "train");
  for (int s = 0; s < e->sequences; s += unit)
    if (plumb_experience_response_length (e, s) > 0)
      order[kept++] = s;
  if (kept == 0)
    plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "no-update", run->position.step,
                           "none of the %d answers of step %" G_GINT64_FORMAT " could be trained on: their rewards failed, or "
                           "nobody was left to compare with; the step made no update", e->sequences, run->position.step);
  for (gint64 epoch = 0; epoch < epochs; epoch++)
    {
      if (kept > batch)
        shuffle (order, kept, (guint64) plumb_spec_get_integer (run->spec, "run.seed"),
                 (guint64) (run->position.updates + run->position.critic_updates));
      for (int i = 0; i < kept * unit; i++)
        sequences[i] = order[i / unit] + i % unit;
      for (int first = 0; first < kept; first += batch)
        if (!train_mini_batch (run, e, sequences + first * unit, unit * MIN (batch, kept - first), t, error))
          return FALSE;
    }
  plumb_run_end_phase (run);
  return TRUE;
}

/* The best answers of the groups, or the best and the worst as pairs; a group without spread gives neither pair. */
static struct plumb_experience *
choose_answers (const PlumbBatch *batch, gboolean pairs)
{
  const struct plumb_experience *e = batch->experience;
  g_autofree int *chosen = g_new (int, e->sequences + 1);
  int n = 0;
  for (int p = 0; p < batch->prompts; p++)
    {
      int first = p * batch->samples, last = first + batch->samples;
      int best = plumb_group_extreme (e, first, last, 1), worst = plumb_group_extreme (e, first, last, -1);
      if (best < 0 || (pairs && e->reward[best] == e->reward[worst]))
        continue;
      chosen[n++] = best;
      if (pairs)
        chosen[n++] = worst;
    }
  return plumb_experience_select (e, chosen, n);
}

/* Keeps the KL per token near its target. */
static void
adapt_kl (PlumbRun *run, const struct plumb_experience *e)
{
  double target = plumb_spec_get_real (run->spec, "algorithm.kl.target"), sum = 0, n = 0;
  if (target <= 0 || !plumb_recipe_needs_reference (run->spec))
    return;
  for (int t = 0; t < e->tokens; t++)
    if (e->mask[t])
      {
        sum += (double) e->old_logp[t] - e->reference_logp[t];
        n++;
      }
  run->position.kl_coefficient
      = plumb_kl_adapt (run->position.kl_coefficient, n > 0 ? sum / n : target, target, e->sequences,
                        (double) plumb_spec_get_integer (run->spec, "algorithm.kl.horizon"));
}

/* Reward, log-probs and advantages of a batch; the experience that is trained on, owned by the caller where it is
 * not the batch's own. */
static struct plumb_experience *
make_experience (PlumbRun *run, PlumbBatch *batch, struct plumb_group_statistics *groups, Training *t, GError **error)
{
  struct plumb_advantage_options options = plumb_recipe_advantages (run->spec, run->position.kl_coefficient);
  struct plumb_experience *chosen;
  t->old = choose_old (run, batch, t);
  t->loss.on_policy = t->old == OLD_OF_UPDATE;
  if (!batch->probed && !fill_log_probs (run, batch->experience, t->old == OLD_OF_PASS, error))
    return NULL;
  /* The update tells nothing of an answer that is left out: there they stay the sampler's. */
  if (t->old != OLD_OF_PASS)
    memcpy (batch->experience->old_logp, batch->experience->rollout_logp,
            batch->experience->tokens * sizeof *batch->experience->old_logp);
  if (run->recipe->loss == PLUMB_LOSS_POLICY)
    {
      plumb_advantages (batch->experience, &options, groups);
      return batch->experience;
    }
  chosen = choose_answers (batch, run->recipe->pairs);
  /* For what is recorded: the groups as they are. */
  options.baseline = PLUMB_BASELINE_NONE;
  options.whiten = PLUMB_NORMALIZE_NONE;
  options.kl_in_reward = 0;
  plumb_advantages (batch->experience, &options, groups);
  if (chosen->sequences > 0 && !plumb_run_prepare_preferences (run, chosen, &t->loss, error))
    g_clear_pointer (&chosen, plumb_experience_free);
  return chosen;
}

/* Iterative DPO: at the start of a round a moving reference becomes the policy. */
static gboolean
begin_round (PlumbRun *run, GError **error)
{
  gint64 rounds = plumb_spec_get_integer (run->spec, "algorithm.iterative.rounds");
  gint64 length = MAX (1, (run->steps[PLUMB_STAGE_ONLINE] + rounds - 1) / rounds);
  gint64 round = run->position.stage_step / length;
  if (run->algorithm != PLUMB_ALGORITHM_ITERATIVE_DPO || round == run->position.round)
    return TRUE;
  run->position.round = round;
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "round", run->position.step,
                         "round %" G_GINT64_FORMAT " begins", round + 1);
  if (!g_str_equal (plumb_spec_get_text (run->spec, "algorithm.iterative.reference"), "moving"))
    return TRUE;
  return plumb_run_renew_reference (run, TRUE, error);
}

/* What needs the log-probs before the update. */
static void
record_policy (PlumbRun *run, const PlumbBatch *batch, const Training *t)
{
  if (t->old != OLD_OF_SAMPLER)
    plumb_run_record_gap (run, batch->experience);
  plumb_run_record_reference (run, batch->experience);
}

/* Whether samples can only be recorded with what the update finds. */
static gboolean
samples_wait (PlumbRun *run, const Training *t)
{
  return t->old == OLD_OF_UPDATE && plumb_spec_get_boolean (run->spec, "telemetry.token_detail")
         && plumb_recipe_needs_reference (run->spec);
}

static void
record_phase (PlumbRun *run, const char *phase, const char *metric)
{
  double seconds = plumb_run_take_phase (run, phase);
  if (seconds > 0)
    plumb_run_point (run, metric, seconds);
}

static void
record_step (PlumbRun *run, const PlumbBatch *batch, const Training *t, double start, double trained)
{
  double end = plumb_telemetry_now (run->telemetry);
  if (t->sums.updates > 0)
    plumb_run_record_updates (run, &t->sums, &t->loss, run->recipe->metric);
  if (t->old == OLD_OF_SAMPLER && t->sums.statistics.tokens > 0)
    plumb_run_point (run, "policy/entropy", t->sums.statistics.entropy / t->sums.statistics.tokens);
  if (t->value_sums.updates > 0)
    plumb_run_record_updates (run, &t->value_sums, &t->value_loss, "loss/value");
  plumb_run_point (run, "data/epoch", (double) plumb_data_cursor_epoch (run->cursor));
  if (batch->asked > batch->prompts || plumb_spec_get_boolean (run->spec, "algorithm.dynamic_sampling"))
    plumb_run_point (run, "data/accepted", (double) batch->prompts / batch->asked);
  plumb_run_point (run, "throughput/train", batch->experience->tokens / MAX (1e-9, end - trained));
  plumb_run_record_shares (run, batch->limit, end - trained, end - start);
  plumb_run_record_step (run, end - start, batch->experience->tokens);
  /* What was generated ahead took no time of the step. */
  if (!run->ahead)
    plumb_run_point (run, "time/generate", batch->seconds);
  record_phase (run, "score", "time/score");
  record_phase (run, "logprob", "time/logprob");
  plumb_run_point (run, "time/train", end - trained);
  if (plumb_spec_get_boolean (run->spec, "placement.together"))
    plumb_run_point (run, "time/switch", plumb_crew_take_switched (run->crew));
  run->step_seconds = end - start;
}

gboolean
plumb_run_online_step (PlumbRun *run, GError **error)
{
  double start = plumb_telemetry_now (run->telemetry);
  struct plumb_group_statistics groups = { 0 };
  plumb_run_forget_work (run);
  if (!begin_round (run, error))
    return FALSE;
  g_autoptr (PlumbBatch) batch = generate_batch (run, error);
  if (!batch)
    return FALSE;
  count_failed_steps (run, batch);
  shape_rewards (run, batch);
  run->position.step++;
  run->position.stage_step++;
  Training t;
  training_init (run, &t);
  struct plumb_experience *e = make_experience (run, batch, &groups, &t, error);
  if (!e)
    return FALSE;
  plumb_run_record_batch (run, batch, &groups);
  if (run->ahead)
    plumb_run_ahead_record (run, batch->experience);
  if (t.old != OLD_OF_UPDATE)
    record_policy (run, batch, &t);
  if (!samples_wait (run, &t))
    plumb_run_record_samples (run, batch, FALSE, NULL);
  double trained = plumb_telemetry_now (run->telemetry);
  gboolean ok = train (run, e, &t, error) && (!run->ahead || plumb_run_ahead_go_on (run, error));
  if (ok && t.old == OLD_OF_UPDATE)
    record_policy (run, batch, &t);
  if (ok && samples_wait (run, &t))
    plumb_run_record_samples (run, batch, FALSE, NULL);
  if (ok)
    {
      record_step (run, batch, &t, start, trained);
      adapt_kl (run, batch->experience);
    }
  if (e != batch->experience)
    plumb_experience_free (e);
  return ok;
}
