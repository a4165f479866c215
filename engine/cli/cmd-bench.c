/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gi18n.h>

#include "engine/bench/bench.h"
#include "engine/cli/command.h"
#include "engine/core/error.h"

static gboolean
choose (const char *what, const PlumbBenchOptions *o, GError **error)
{
  if (g_str_equal (what, "ops"))
    return plumb_bench_ops (o, error);
  if (g_str_equal (what, "rollout"))
    return plumb_bench_rollout (o, error);
  if (g_str_equal (what, "train"))
    return plumb_bench_train (o, error);
  if (g_str_equal (what, "step"))
    return plumb_bench_step (o, error);
  if (g_str_equal (what, "sync"))
    return plumb_bench_sync (o, error);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "bench what? There are ops, rollout, train, step and sync");
  return FALSE;
}

static gboolean
check_numbers (const PlumbBenchOptions *o, const char *precision, GError **error)
{
  const int numbers[] = { o->requests, o->samples, o->prompt, o->new_tokens, o->sequences, o->length };
  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (numbers[i] < 1 || numbers[i] > 1 << 20)
      {
        g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "numbers of requests and tokens go from 1 to %d", 1 << 20);
        return FALSE;
      }
  if (o->spread < 0 || o->spread > 64)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "--spread goes from 1 to 64");
      return FALSE;
    }
  if (precision == NULL || g_str_equal (precision, "bf16") || g_str_equal (precision, "fp32"))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "precision %s is not known; there are fp32 and bf16", precision);
  return FALSE;
}

static gboolean
find_recompute (const char *name, PlumbRecompute *recompute, GError **error)
{
  *recompute = PLUMB_RECOMPUTE_NONE;
  for (int i = 0; i < PLUMB_N_RECOMPUTE; i++)
    if (!name || g_str_equal (name, plumb_recompute_names[i]))
      {
        *recompute = (PlumbRecompute) i;
        return TRUE;
      }
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "--recompute %s is not known; there are none, selective and full", name);
  return FALSE;
}

/* bench ops|rollout|train|step|sync: speed with random weights, and its share of what the device can do. */
int
plumb_cmd_bench (int argc, char **argv, GError **error)
{
  g_autofree char *shape = NULL, *device = NULL, *precision = NULL, *recompute = NULL;
  PlumbBenchOptions o = { .requests = 256, .samples = 8, .prompt = 256, .new_tokens = 256, .sequences = 8, .length = 1024 };
  const GOptionEntry options[] = {
    { "shape", 's', 0, G_OPTION_ARG_STRING, &shape, N_ ("1.5M, 135M (default), qwen2.5-0.5b, qwen2.5-1.5b or 7b"), "NAME" },
    { "device", 'd', 0, G_OPTION_ARG_STRING, &device, N_ ("auto (default), cpu or cuda:N"), "NAME" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, N_ ("bf16 (default) or fp32"), "NAME" },
    { "deterministic", 0, 0, G_OPTION_ARG_NONE, &o.deterministic, N_ ("rows do not depend on their batch"), NULL },
    { "requests", 0, 0, G_OPTION_ARG_INT, &o.requests, N_ ("rollout: requests at once, default 256"), "N" },
    { "samples", 0, 0, G_OPTION_ARG_INT, &o.samples, N_ ("step: completions of a request, default 8"), "N" },
    { "prompt", 0, 0, G_OPTION_ARG_INT, &o.prompt, N_ ("rollout: tokens of a prompt, default 256"), "N" },
    { "new", 0, 0, G_OPTION_ARG_INT, &o.new_tokens, N_ ("rollout: tokens generated, default 256"), "N" },
    { "spread", 0, 0, G_OPTION_ARG_INT, &o.spread, N_ ("rollout: lengths from 1 to N around --new, against equal ones"), "N" },
    { "sequences", 0, 0, G_OPTION_ARG_INT, &o.sequences, N_ ("train: sequences of a step, default 8"), "N" },
    { "length", 0, 0, G_OPTION_ARG_INT, &o.length, N_ ("train: tokens of a sequence, default 1024"), "N" },
    { "recompute", 0, 0, G_OPTION_ARG_STRING, &recompute, N_ ("train, step: none (default), selective or full"), "WHAT" },
    { "offload", 0, 0, G_OPTION_ARG_NONE, &o.offload, N_ ("train, step: optimizer state in the host's memory"), NULL },
    { "old-pass", 0, 0, G_OPTION_ARG_NONE, &o.old_pass, N_ ("step: log-probs before the update by a pass of their own"), NULL },
    { "fp8-cache", 0, 0, G_OPTION_ARG_NONE, &o.kv_codes, N_ ("rollout, step: keys and values in fp8"), NULL },
    { "fp8-weights", 0, 0, G_OPTION_ARG_NONE, &o.weight_codes, N_ ("rollout, step: the blocks' weights in fp8"), NULL },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, options, "ops|rollout|train|step|sync", N_ ("measure speed with random weights"), 1, 1,
                            error)
      || !check_numbers (&o, precision, error) || !find_recompute (recompute, &o.recompute, error))
    return PLUMB_ERROR_USAGE;
  o.shape = shape ? shape : "135M";
  o.device = device ? device : "auto";
  o.type = g_strcmp0 (precision, "fp32") == 0 ? DEV_F32 : DEV_BF16;
  return choose (argv[1], &o, error) ? 0 : PLUMB_ERROR_FAILED;
}
