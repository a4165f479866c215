/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include <glib/gi18n-lib.h>

#include "engine/core/metrics.h"

#define UP PLUMB_BETTER_UP
#define DOWN PLUMB_BETTER_DOWN
#define NEITHER PLUMB_BETTER_NEITHER

/* clang-format off */
/* name, unit, help, better, smoothing. A star stands for one part of a name. */
static const PlumbMetric metrics[] = {
  { "reward/mean", "", N_("Mean reward of the step's completions"), UP, 0.6 },
  { "reward/std", "", N_("Standard deviation of the rewards"), NEITHER, 0.6 },
  { "reward/min", "", N_("Lowest reward of the step"), UP, 0 },
  { "reward/max", "", N_("Highest reward of the step"), UP, 0 },
  { "reward/part/*", "", N_("Mean of one reward function"), UP, 0.6 },
  { "reward/return", "", N_("Mean reward after KL and shaping"), UP, 0.6 },
  { "reward/group_std", "", N_("Mean deviation within the groups of a prompt"), NEITHER, 0.6 },
  { "reward/flat_groups", N_("share"), N_("Groups in which every reward is the same, so that they teach nothing"), DOWN, 0.6 },
  { "reward/failed", N_("share"), N_("Calls of a reward function that gave no score"), DOWN, 0 },
  { "reward/latency_p50", N_("s"), N_("Median time of a reward call"), DOWN, 0 },
  { "reward/latency_p99", N_("s"), N_("Time that 99 of 100 reward calls stay under"), DOWN, 0 },

  { "kl/reference", N_("nats"), N_("Mean per token of policy against reference, by the estimator in use"), DOWN, 0.6 },
  { "kl/coefficient", "", N_("Weight of the KL term"), NEITHER, 0 },
  { "kl/update", N_("nats"), N_("Mean of old minus new log-probability per optimizer step"), DOWN, 0.6 },
  { "kl/rollout_trainer", N_("nats"), N_("Rollout against trainer on the same tokens"), DOWN, 0 },

  { "loss/policy", "", N_("Loss of the policy"), NEITHER, 0.6 },
  { "loss/kl", "", N_("KL term of the loss"), DOWN, 0.6 },
  { "loss/entropy", "", N_("Entropy term of the loss"), NEITHER, 0.6 },
  { "loss/total", "", N_("Sum of the terms of the loss"), DOWN, 0.6 },
  { "loss/sft", N_("nats"), N_("Mean negative log-likelihood per trained token"), DOWN, 0.6 },

  { "loss/value", "", N_("Loss of the critic"), DOWN, 0.6 },
  { "loss/rm", "", N_("Loss of the reward model"), DOWN, 0.6 },
  { "loss/dpo", "", N_("Loss over pairs of answers"), DOWN, 0.6 },
  { "loss/kto", "", N_("Loss over liked and disliked answers"), DOWN, 0.6 },

  { "policy/clip_low", N_("share"), N_("Tokens whose ratio was clipped from below"), NEITHER, 0.6 },
  { "policy/clip_high", N_("share"), N_("Tokens whose ratio was clipped from above"), NEITHER, 0.6 },
  { "policy/ratio_mean", "", N_("Mean probability ratio of new to old policy"), NEITHER, 0 },
  { "policy/ratio_max", "", N_("Largest probability ratio"), NEITHER, 0 },
  { "policy/ess", N_("share"), N_("Effective sample size of the importance weights"), UP, 0 },
  { "policy/entropy", N_("nats"), N_("Mean entropy per token"), NEITHER, 0.6 },
  { "policy/grad_norm", "", N_("Norm of the gradient before clipping"), NEITHER, 0.6 },
  { "policy/learning_rate", "", N_("Learning rate of the last update"), NEITHER, 0 },
  { "policy/update_norm", "", N_("Norm of the last change of the weights"), NEITHER, 0.6 },
  { "policy/logprob_gap_max", N_("nats"), N_("Largest difference of rollout and trainer log-probabilities"), DOWN, 0 },
  { "policy/logprob_gap_mean", N_("nats"), N_("Mean difference of rollout and trainer log-probabilities"), DOWN, 0 },

  { "policy/correction", "", N_("Mean weight of the rollout correction"), NEITHER, 0.6 },

  { "critic/explained_variance", N_("share"), N_("Share of the returns' variance that the critic explains"), UP, 0.6 },
  { "critic/value_mean", "", N_("Mean value that the critic predicts"), NEITHER, 0.6 },
  { "critic/clipped", N_("share"), N_("Values that the clip held back"), NEITHER, 0.6 },
  { "critic/grad_norm", "", N_("Norm of the critic's gradient before clipping"), NEITHER, 0.6 },
  { "critic/learning_rate", "", N_("Learning rate of the critic's last update"), NEITHER, 0 },

  { "dpo/accuracy", N_("share"), N_("Pairs whose chosen answer has the higher implicit reward"), UP, 0.6 },
  { "dpo/margin", "", N_("Implicit reward of the chosen answers minus that of the rejected ones"), UP, 0.6 },
  { "dpo/chosen", "", N_("Implicit reward of the chosen answers"), UP, 0.6 },
  { "dpo/rejected", "", N_("Implicit reward of the rejected answers"), DOWN, 0.6 },
  { "dpo/nll", N_("nats"), N_("Negative log-likelihood of the chosen answers per token"), DOWN, 0.6 },
  { "kto/kl", N_("nats"), N_("Divergence from the reference over mismatched answers"), NEITHER, 0.6 },
  { "kto/chosen", "", N_("Implicit reward of the liked answers"), UP, 0.6 },
  { "kto/rejected", "", N_("Implicit reward of the disliked answers"), DOWN, 0.6 },
  { "kto/margin", "", N_("Implicit reward of liked minus that of disliked answers"), UP, 0.6 },
  { "rm/accuracy", N_("share"), N_("Pairs whose chosen answer gets the higher score"), UP, 0.6 },
  { "rm/margin", "", N_("Score of the chosen answers minus that of the rejected ones"), UP, 0.6 },
  { "rm/chosen", "", N_("Mean score of the chosen answers"), UP, 0.6 },
  { "rm/rejected", "", N_("Mean score of the rejected answers"), DOWN, 0.6 },

  { "length/response_mean", N_("tokens"), N_("Mean length of the responses"), NEITHER, 0.6 },
  { "length/response_max", N_("tokens"), N_("Longest response"), NEITHER, 0 },
  { "length/response_p95", N_("tokens"), N_("Length that 95 of 100 responses stay under"), NEITHER, 0.6 },
  { "length/truncated", N_("share"), N_("Responses that were cut at the limit"), DOWN, 0.6 },
  { "length/eos", N_("share"), N_("Responses that ended by themselves"), UP, 0.6 },
  { "length/prompt_mean", N_("tokens"), N_("Mean length of the prompts"), NEITHER, 0 },

  { "throughput/rollout", N_("tokens/s"), N_("Tokens generated per second of generating"), UP, 0.6 },
  { "throughput/train", N_("tokens/s"), N_("Tokens trained per second of training"), UP, 0.6 },
  { "throughput/total", N_("tokens/s"), N_("Prompt and response tokens per second of the whole step"), UP, 0.6 },
  { "throughput/rollout_of_limit", N_("share"), N_("Rollout speed against the measured limit of this machine"), UP, 0.6 },
  { "throughput/train_of_limit", N_("share"), N_("Training speed against the measured limit of this machine"), UP, 0.6 },
  { "throughput/total_of_limit", N_("share"), N_("Speed of the whole step against the measured limit of this machine"), UP, 0.6 },
  { "throughput/mfu", N_("share"), N_("Model operations against the peak of the datasheet"), UP, 0.6 },

  { "time/step", N_("s"), N_("Whole step"), DOWN, 0.6 },
  { "time/generate", N_("s"), N_("Generating completions"), DOWN, 0.6 },
  { "time/score", N_("s"), N_("Waiting for rewards"), DOWN, 0.6 },
  { "time/logprob", N_("s"), N_("Log-probabilities of policy and reference"), DOWN, 0.6 },
  { "time/train", N_("s"), N_("Forward, backward and optimizer"), DOWN, 0.6 },
  { "time/sync", N_("s"), N_("Handing new weights to the rollout"), DOWN, 0.6 },
  { "time/switch", N_("s"), N_("Giving memory from generation to training and back"), DOWN, 0.6 },
  { "time/idle", N_("s"), N_("Nothing of the above"), DOWN, 0.6 },

  { "rollout/running", N_("sequences"), N_("Mean number of sequences decoded at once"), UP, 0 },
  { "rollout/queued", N_("sequences"), N_("Mean number of sequences that waited"), NEITHER, 0 },
  { "rollout/kv_used", N_("share"), N_("Largest part of the key-value cache that was in use"), NEITHER, 0 },
  { "rollout/prefix_hits", N_("share"), N_("Prompt tokens that came from the cache"), UP, 0 },
  { "rollout/ready", N_("prompts"), N_("Prompts that were generated ahead and wait for their step"), NEITHER, 0 },
  { "rollout/renewed", N_("prompts"), N_("Prompts generated again since their completions were too old"), DOWN, 0 },
  { "rollout/busy", N_("s"), N_("Time in which the worker that generates ahead was at work"), NEITHER, 0.6 },
  { "rollout/idle", N_("s"), N_("Time in which the worker that generates ahead had nothing to do"), DOWN, 0.6 },
  { "rollout/old_tokens", N_("share"), N_("Tokens that older weights than the present ones sampled"), DOWN, 0 },
  { "rollout/staleness_mean", N_("versions"), N_("Mean age of the weights that generated"), DOWN, 0 },
  { "rollout/staleness_max", N_("versions"), N_("Greatest age of the weights that generated"), DOWN, 0 },

  { "data/epoch", "", N_("Passes over the training data so far"), NEITHER, 0 },
  { "data/dropped", N_("rows"), N_("Rows left out: overlong or broken"), DOWN, 0 },
  { "data/accepted", N_("share"), N_("Prompts that were kept after filtering"), UP, 0 },

  { "memory/device_peak", N_("bytes"), N_("Most memory in use on the device"), DOWN, 0 },
  { "memory/device_planned", N_("bytes"), N_("What the plan at the start predicted"), NEITHER, 0 },
  { "memory/host", N_("bytes"), N_("Resident memory of the engine"), DOWN, 0 },

  { "hw/*/*/utilization", N_("share"), N_("Share of the time in which the device works"), UP, 0 },
  { "hw/*/*/memory", N_("bytes"), N_("Memory of the device in use"), NEITHER, 0 },
  { "hw/*/*/power", N_("W"), N_("Power draw"), NEITHER, 0 },
  { "hw/*/*/temperature", N_("°C"), N_("Temperature"), DOWN, 0 },
  { "hw/*/*/clock", N_("Hz"), N_("Clock of the processor"), UP, 0 },

  { "eval/*/pass1", N_("share"), N_("Right answers of one sample"), UP, 0 },
  { "eval/*/passk", N_("share"), N_("Prompts of which at least one sample is right"), UP, 0 },
  { "eval/*/length", N_("tokens"), N_("Mean length of the responses"), NEITHER, 0 },
  { "eval/*/loss", N_("nats"), N_("Loss on held-out data"), DOWN, 0 },
  { "eval/*/accuracy", N_("share"), N_("Held-out pairs whose chosen answer wins"), UP, 0 },
  { "eval/*/margin", "", N_("By how much the chosen answers of held-out pairs win"), UP, 0 },

  { "progress/step", N_("steps"), N_("Steps done"), NEITHER, 0 },
  { "progress/updates", N_("updates"), N_("Optimizer steps done"), NEITHER, 0 },
  { "progress/tokens", N_("tokens"), N_("Tokens trained so far"), NEITHER, 0 },
  { "progress/samples", N_("sequences"), N_("Sequences trained so far"), NEITHER, 0 },
  { "progress/eta", N_("s"), N_("Predicted time to the end"), DOWN, 0 },
};

static const PlumbChart grpo_charts[] = {
  { N_("Reward"), { "reward/mean", "reward/std", "reward/part/*" }, FALSE, NULL, NULL },
  { N_("Evaluation"), { "eval/*/pass1", "eval/*/passk" }, FALSE, NULL, NULL },
  { N_("Groups without spread"), { "reward/flat_groups" }, FALSE, NULL, NULL },
  { N_("Response length"), { "length/response_mean", "length/response_p95" }, FALSE, NULL, NULL },
  { N_("Responses cut"), { "length/truncated" }, FALSE, NULL, NULL },
  { N_("KL to the reference"), { "kl/reference" }, FALSE, NULL, "algorithm.kl.coefficient" },
  { N_("Entropy"), { "policy/entropy" }, FALSE, NULL, NULL },
  { N_("Clipped tokens"), { "policy/clip_low", "policy/clip_high" }, FALSE, NULL, NULL },
  { N_("Rollout against trainer"), { "policy/logprob_gap_max" }, FALSE, NULL, NULL },
  { N_("Gradient norm"), { "policy/grad_norm" }, FALSE, NULL, NULL },
  { N_("Throughput"), { "throughput/total", "throughput/rollout", "throughput/train" }, FALSE, NULL, NULL },
  { N_("Share of the limit"), { "throughput/total_of_limit", "throughput/rollout_of_limit", "throughput/train_of_limit" }, FALSE, NULL, NULL },
  { N_("Time of a step"), { "time/generate", "time/score", "time/logprob", "time/train", "time/sync", "time/idle" }, TRUE, NULL, NULL },
  { N_("Age of the weights"), { "rollout/staleness_mean", "rollout/staleness_max" }, FALSE, NULL, "rollout.async" },
  { N_("Warm-up loss"), { "loss/sft" }, FALSE, NULL, "warmup.steps" },
  { N_("Loss"), { "loss/policy" }, FALSE, N_("On-policy, this loss is near 0 by construction; it does not show progress."), NULL },
};

static const PlumbChart sft_charts[] = {
  { N_("Loss"), { "loss/sft" }, FALSE, NULL, NULL },
  { N_("Evaluation"), { "eval/*/loss", "eval/*/pass1" }, FALSE, NULL, NULL },
  { N_("Gradient norm"), { "policy/grad_norm" }, FALSE, NULL, NULL },
  { N_("Learning rate"), { "policy/learning_rate" }, FALSE, NULL, NULL },
  { N_("Entropy"), { "policy/entropy" }, FALSE, NULL, NULL },
  { N_("Throughput"), { "throughput/total", "throughput/train" }, FALSE, NULL, NULL },
  { N_("Share of the limit"), { "throughput/total_of_limit", "throughput/train_of_limit" }, FALSE, NULL, NULL },
  { N_("Time of a step"), { "time/train", "time/idle" }, TRUE, NULL, NULL },
};

static const PlumbChart ppo_charts[] = {
  { N_("Reward"), { "reward/mean", "reward/std", "reward/part/*" }, FALSE, NULL, NULL },
  { N_("Evaluation"), { "eval/*/pass1", "eval/*/passk" }, FALSE, NULL, NULL },
  { N_("Response length"), { "length/response_mean", "length/response_p95" }, FALSE, NULL, NULL },
  { N_("Responses cut"), { "length/truncated" }, FALSE, NULL, NULL },
  { N_("KL to the reference"), { "kl/reference" }, FALSE, NULL, "algorithm.kl.coefficient" },
  { N_("Variance explained"), { "critic/explained_variance" }, FALSE, NULL, NULL },
  { N_("Loss of the critic"), { "loss/value" }, FALSE, NULL, NULL },
  { N_("Entropy"), { "policy/entropy" }, FALSE, NULL, NULL },
  { N_("Clipped tokens"), { "policy/clip_low", "policy/clip_high" }, FALSE, NULL, NULL },
  { N_("Rollout against trainer"), { "policy/logprob_gap_max" }, FALSE, NULL, NULL },
  { N_("Gradient norm"), { "policy/grad_norm", "critic/grad_norm" }, FALSE, NULL, NULL },
  { N_("Throughput"), { "throughput/total", "throughput/rollout", "throughput/train" }, FALSE, NULL, NULL },
  { N_("Time of a step"), { "time/generate", "time/score", "time/logprob", "time/train", "time/sync", "time/idle" }, TRUE, NULL, NULL },
  { N_("Age of the weights"), { "rollout/staleness_mean", "rollout/staleness_max" }, FALSE, NULL, "rollout.async" },
  { N_("Loss"), { "loss/policy" }, FALSE, N_("On-policy, this loss is near 0 by construction; it does not show progress."), NULL },
};

static const PlumbChart pair_charts[] = {
  { N_("Accuracy"), { "dpo/accuracy" }, FALSE, NULL, NULL },
  { N_("Evaluation"), { "eval/*/accuracy", "eval/*/loss" }, FALSE, NULL, NULL },
  { N_("Margin"), { "dpo/margin" }, FALSE, NULL, NULL },
  { N_("Implicit rewards"), { "dpo/chosen", "dpo/rejected" }, FALSE, NULL, NULL },
  { N_("Loss"), { "loss/dpo" }, FALSE, NULL, NULL },
  { N_("Reward"), { "reward/mean" }, FALSE, NULL, "reward.functions" },
  { N_("Gradient norm"), { "policy/grad_norm" }, FALSE, NULL, NULL },
  { N_("Learning rate"), { "policy/learning_rate" }, FALSE, NULL, NULL },
  { N_("Throughput"), { "throughput/total", "throughput/train" }, FALSE, NULL, NULL },
  { N_("Time of a step"), { "time/generate", "time/score", "time/logprob", "time/train", "time/idle" }, TRUE, NULL, NULL },
};

static const PlumbChart kto_charts[] = {
  { N_("Margin"), { "kto/margin" }, FALSE, NULL, NULL },
  { N_("Evaluation"), { "eval/*/margin", "eval/*/loss" }, FALSE, NULL, NULL },
  { N_("Implicit rewards"), { "kto/chosen", "kto/rejected" }, FALSE, NULL, NULL },
  { N_("KL to the reference"), { "kto/kl" }, FALSE, NULL, NULL },
  { N_("Loss"), { "loss/kto" }, FALSE, NULL, NULL },
  { N_("Gradient norm"), { "policy/grad_norm" }, FALSE, NULL, NULL },
  { N_("Learning rate"), { "policy/learning_rate" }, FALSE, NULL, NULL },
  { N_("Throughput"), { "throughput/total", "throughput/train" }, FALSE, NULL, NULL },
  { N_("Time of a step"), { "time/logprob", "time/train", "time/idle" }, TRUE, NULL, NULL },
};

static const PlumbChart rm_charts[] = {
  { N_("Accuracy"), { "rm/accuracy" }, FALSE, NULL, NULL },
  { N_("Evaluation"), { "eval/*/accuracy", "eval/*/loss" }, FALSE, NULL, NULL },
  { N_("Margin"), { "rm/margin" }, FALSE, NULL, NULL },
  { N_("Scores"), { "rm/chosen", "rm/rejected" }, FALSE, NULL, NULL },
  { N_("Loss"), { "loss/rm" }, FALSE, NULL, NULL },
  { N_("Gradient norm"), { "policy/grad_norm" }, FALSE, NULL, NULL },
  { N_("Learning rate"), { "policy/learning_rate" }, FALSE, NULL, NULL },
  { N_("Throughput"), { "throughput/total", "throughput/train" }, FALSE, NULL, NULL },
  { N_("Time of a step"), { "time/train", "time/idle" }, TRUE, NULL, NULL },
};
/* clang-format on */

const PlumbMetric *
plumb_metrics (gsize *n)
{
  *n = G_N_ELEMENTS (metrics);
  return metrics;
}

/* A star matches one part: at least one character, up to the next slash. */
static gboolean
matches (const char *pattern, const char *name)
{
  while (*pattern != '\0')
    {
      if (*pattern == '*')
        {
          gsize length = strcspn (name, "/");

          if (length == 0)
            return FALSE;
          name += length;
          pattern++;
        }
      else if (*pattern++ != *name++)
        return FALSE;
    }
  return *name == '\0';
}

const PlumbMetric *
plumb_metric_find (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (metrics); i++)
    if (matches (metrics[i].name, name))
      return &metrics[i];
  return NULL;
}

const char *
plumb_better_name (PlumbBetter better)
{
  static const char *const names[] = { "neither", "up", "down" };

  return names[better];
}

gboolean
plumb_metric_is_deterministic (const char *name)
{
  static const char *const prefixes[]
      = { "time/", "throughput/", "hw/", "memory/", "reward/latency_", "progress/eta" };

  for (gsize i = 0; i < G_N_ELEMENTS (prefixes); i++)
    if (g_str_has_prefix (name, prefixes[i]))
      return FALSE;
  return TRUE;
}

#define CHARTS(name) { name##_charts, G_N_ELEMENTS (name##_charts) }

const PlumbChart *
plumb_charts (PlumbAlgorithm algorithm, gsize *n)
{
  static const struct
  {
    const PlumbChart *charts;
    gsize n;
  } sets[PLUMB_N_ALGORITHMS] = {
    [PLUMB_ALGORITHM_SFT] = CHARTS (sft),     [PLUMB_ALGORITHM_RM] = CHARTS (rm),
    [PLUMB_ALGORITHM_DPO] = CHARTS (pair),    [PLUMB_ALGORITHM_KTO] = CHARTS (kto),
    [PLUMB_ALGORITHM_ORPO] = CHARTS (pair),   [PLUMB_ALGORITHM_SIMPO] = CHARTS (pair),
    [PLUMB_ALGORITHM_PPO] = CHARTS (ppo),     [PLUMB_ALGORITHM_ITERATIVE_DPO] = CHARTS (pair),
    [PLUMB_ALGORITHM_GRPO] = CHARTS (grpo), /* and those without a set of their own */
  };
  PlumbAlgorithm own = algorithm < PLUMB_N_ALGORITHMS && sets[algorithm].n > 0 ? algorithm : PLUMB_ALGORITHM_GRPO;

  *n = sets[own].n;
  return sets[own].charts;
}
