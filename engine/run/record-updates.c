/* SPDX-License-Identifier: Apache-2.0 */

/* What the optimizer updates of a step write into the telemetry, by their loss. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/run/run-private.h"

static void
record_policy (PlumbRun *run, const struct plumb_loss_statistics *s, double updates)
{
  double tokens = MAX (1, s->tokens);
  plumb_run_point (run, "loss/policy", s->policy / updates);
  plumb_run_point (run, "loss/kl", s->kl_loss / updates);
  plumb_run_point (run, "loss/entropy", s->entropy_loss / updates);
  plumb_run_point (run, "policy/clip_low", s->clipped_low / tokens);
  plumb_run_point (run, "policy/clip_high", s->clipped_high / tokens);
  plumb_run_point (run, "policy/ratio_mean", s->ratio / tokens);
  plumb_run_point (run, "policy/ratio_max", s->ratio_max);
  plumb_run_point (run, "policy/ess", s->ratio_squared > 0 ? s->ratio * s->ratio / (tokens * s->ratio_squared) : 1);
  plumb_run_point (run, "kl/update", s->kl_update / tokens);
  if (plumb_spec_get_choice (run->spec, "algorithm.correction") != PLUMB_CORRECTION_OFF)
    plumb_run_point (run, "policy/correction", s->correction / tokens);
}

static void
record_value (PlumbRun *run, const PlumbUpdateSums *sums)
{
  const struct plumb_loss_statistics *s = &sums->statistics;
  double tokens = MAX (1, s->tokens), updates = MAX (1, sums->updates);
  plumb_run_point (run, "critic/explained_variance", plumb_explained_variance (s));
  plumb_run_point (run, "critic/value_mean", s->value / tokens);
  plumb_run_point (run, "critic/clipped", s->value_clipped / tokens);
  plumb_run_point (run, "critic/grad_norm", sums->gradient_norm / updates);
  plumb_run_point (run, "critic/learning_rate", sums->learning_rate);
}

/* Means of the implicit rewards, or of the scores; `prefix` is dpo, kto or rm. */
static void
record_preference (PlumbRun *run, const struct plumb_loss_statistics *s, const char *prefix)
{
  const struct
  {
    const char *name;
    double sum, n;
  } values[] = {
    { "chosen", s->chosen, s->n_chosen },
    { "rejected", s->rejected, s->n_rejected },
  };
  double means[2] = { 0 };
  for (int i = 0; i < 2; i++)
    {
      g_autofree char *metric = g_strdup_printf ("%s/%s", prefix, values[i].name);
      if (values[i].n == 0)
        return; /* a batch of one kind has no margin */
      means[i] = values[i].sum / values[i].n;
      plumb_run_point (run, metric, means[i]);
    }
  g_autofree char *margin = g_strdup_printf ("%s/margin", prefix);
  plumb_run_point (run, margin, means[0] - means[1]);
}

static void
record_pairs (PlumbRun *run, const struct plumb_loss_statistics *s, const char *prefix)
{
  g_autofree char *accuracy = g_strdup_printf ("%s/accuracy", prefix);
  plumb_run_point (run, accuracy, s->accurate / MAX (1, s->answers));
  record_preference (run, s, prefix);
}

void
plumb_run_record_updates (PlumbRun *run, const PlumbUpdateSums *sums, const PlumbLossSpec *loss, const char *metric)
{
  const struct plumb_loss_statistics *s = &sums->statistics;
  double updates = MAX (1, sums->updates);
  plumb_run_point (run, metric, s->loss / updates);
  if (loss->id == PLUMB_LOSS_VALUE)
    {
      record_value (run, sums);
      return;
    }
  run->last_loss = s->loss / updates;
  plumb_run_point (run, "policy/grad_norm", sums->gradient_norm / updates);
  plumb_run_point (run, "policy/learning_rate", sums->learning_rate);
  switch (loss->id)
    {
    case PLUMB_LOSS_SFT:
      plumb_run_point (run, "policy/entropy", s->entropy / MAX (1, s->tokens));
      break;
    case PLUMB_LOSS_POLICY:
      record_policy (run, s, updates);
      break;
    case PLUMB_LOSS_PAIR:
      record_pairs (run, s, "dpo");
      plumb_run_point (run, "dpo/nll", s->nll / MAX (1, s->n_chosen));
      break;
    case PLUMB_LOSS_KTO:
      record_preference (run, s, "kto");
      plumb_run_point (run, "kto/kl", loss->kto.kl_desirable);
      break;
    case PLUMB_LOSS_REWARD:
      record_pairs (run, s, "rm");
      break;
    case PLUMB_LOSS_VALUE:
    case PLUMB_N_LOSSES:
      break;
    }
}
