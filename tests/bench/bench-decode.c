/* SPDX-License-Identifier: Apache-2.0 */

/* Decoding against memory bandwidth: bench-decode SHAPE [NEW_TOKENS]. A token of a single sequence reads every
 * weight once; the limit is that many bytes at the bandwidth measured in the same run. */

#include <stdio.h>
#include <stdlib.h>

#include "engine/rollout/rollout.h"
#include "tests/bench/shapes.h"

#define PROMPT 16

/* Tokens per second of `samples` completions of one prompt. */
static double
decode_rate (PlumbModel *model, int samples, int new_tokens)
{
  g_autoptr (GError) error = NULL;
  gint32 prompt[PROMPT];
  PlumbRolloutPlan plan = { .max_running = samples, .max_prompt = PROMPT, .max_new_tokens = new_tokens };
  PlumbSampling sampling = { .temperature = 1, .max_new_tokens = new_tokens, .seed = 1, .purpose = 3 };
  for (int i = 0; i < PROMPT; i++)
    prompt[i] = i + 1;
  PlumbRollout *rollout = plumb_rollout_new (model, &plan, &error);
  double best = 0;
  for (int round = 0; rollout && round < 3; round++)
    {
      if (!plumb_rollout_begin (rollout, &sampling, &error)
          || !plumb_rollout_submit (rollout, prompt, PROMPT, samples, 0, &error))
        break;
      gboolean idle = FALSE;
      plumb_rollout_advance (rollout, &idle, &error); /* prefill and first token */
      double start = now_seconds ();
      while (!idle && !error)
        plumb_rollout_advance (rollout, &idle, &error);
      best = MAX (best, samples * (new_tokens - 1) / (now_seconds () - start));
      for (PlumbCompletion *c; (c = plumb_rollout_take (rollout));)
        plumb_completion_free (c);
    }
  if (error)
    g_error ("%s", error->message);
  plumb_rollout_free (rollout);
  return best;
}

int
main (int argc, char **argv)
{
  const Shape *s = shape_find (argc > 1 ? argv[1] : "135M");
  int new_tokens = argc > 2 ? atoi (argv[2]) : 48;
  PlumbDevice *device;
  PlumbModel *model = shape_open (s, &device);
  double bandwidth = measure_read_bandwidth ();
  double bytes = (double) model->table->elements * dev_type_size (s->type);
  double one = decode_rate (model, 1, new_tokens), many = decode_rate (model, 64, new_tokens);
  printf ("decode %s: batch 1 %.1f tokens/s, %.1f GB/s of weights: %.0f %% of the %.1f GB/s measured\n",
          s->name, one, one * bytes / 1e9, 100 * one * bytes / bandwidth, bandwidth / 1e9);
  printf ("  batch 64 %.1f tokens/s: %.1f times batch 1\n", many, many / one);
  plumb_model_free (model);
  plumb_device_close (device);
  return 0;
}
