/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of other trainers that are ours under another name: so a run of theirs has an overview, is compared with our
 * own, and is looked through for the ways in which runs fail. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/core/history.h"

static const struct
{
  const char *theirs, *ours;
} names[] = {
  /* verl */
  { "critic/rewards/mean", "reward/mean" },
  { "critic/rewards/max", "reward/max" },
  { "critic/rewards/min", "reward/min" },
  { "response_length/mean", "length/response_mean" },
  { "response_length/max", "length/response_max" },
  { "response_length/clip_ratio", "length/truncated" },
  { "prompt_length/mean", "length/prompt_mean" },
  { "actor/entropy", "policy/entropy" },
  { "actor/entropy_loss", "policy/entropy" },
  { "actor/grad_norm", "policy/grad_norm" },
  { "actor/lr", "policy/learning_rate" },
  { "actor/pg_loss", "loss/policy" },
  { "actor/kl_loss", "loss/kl" },
  { "actor/pg_clipfrac", "policy/clip_high" },
  { "actor/pg_clipfrac_lower", "policy/clip_low" },
  { "actor/ppo_kl", "kl/update" },
  { "critic/vf_loss", "loss/value" },
  { "critic/vf_explained_var", "critic/explained_variance" },
  { "timing_s/gen", "time/generate" },
  { "timing_s/step", "time/step" },
  { "timing_s/old_log_prob", "time/logprob" },
  { "timing_s/update_actor", "time/train" },
  { "perf/mfu/actor", "throughput/mfu" },
  { "perf/throughput", "throughput/total" },
  /* OpenRLHF */
  { "train/policy_loss", "loss/policy" },
  { "train/critic_loss", "loss/value" },
  { "train/reward", "reward/mean" },
  { "train/return", "reward/return" },
  { "train/group_reward_std", "reward/group_std" },
  { "train/kl", "kl/reference" },
  { "train/ppo_kl", "kl/update" },
  { "train/vllm_kl", "kl/rollout_trainer" },
  { "train/response_length", "length/response_mean" },
  { "train/truncated", "length/truncated" },
  { "train/actor_lr", "policy/learning_rate" },
  { "train/actor_grad_norm", "policy/grad_norm" },
  { "train/critic_grad_norm", "critic/grad_norm" },
  { "train/gpt_loss", "loss/sft" },
  { "train/acc_mean", "rm/accuracy" },
  { "timing/generation", "time/generate" },
  { "timing/ppo_train", "time/train" },
  { "timing/step_total", "time/step" },
  /* TRL */
  { "train/loss", "loss/total" },
  { "train/learning_rate", "policy/learning_rate" },
  { "train/grad_norm", "policy/grad_norm" },
  { "train/entropy", "policy/entropy" },
  { "train/reward_std", "reward/group_std" },
  { "train/frac_reward_zero_std", "reward/flat_groups" },
  { "train/completions/mean_length", "length/response_mean" },
  { "train/completions/max_length", "length/response_max" },
  { "train/completions/clipped_ratio", "length/truncated" },
  { "train/clip_ratio/low_mean", "policy/clip_low" },
  { "train/clip_ratio/high_mean", "policy/clip_high" },
  { "train/rewards/accuracies", "dpo/accuracy" },
  { "train/rewards/margins", "dpo/margin" },
  { "train/rewards/chosen", "dpo/chosen" },
  { "train/rewards/rejected", "dpo/rejected" },
};

const char *
plumb_history_our_name (const char *metric)
{
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i].theirs, metric))
      return names[i].ours;
  return metric;
}

void
plumb_history_rename (PlumbHistory *history)
{
  g_autoptr (GHashTable) told = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < history->points->len; i++)
    {
      PlumbHistoryPoint *point = &g_array_index (history->points, PlumbHistoryPoint, i);
      const char *ours = plumb_history_our_name (point->metric);

      if (g_str_equal (ours, point->metric))
        continue;
      if (g_hash_table_add (told, (gpointer)point->metric))
        plumb_history_note (history, "%s is shown as %s", point->metric, ours);
      point->metric = g_string_chunk_insert_const (history->names, ours);
    }
}
