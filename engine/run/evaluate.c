/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/run/run-private.h"

#define SHOWPIECES 6

/* The first rows of a set; the random numbers of an evaluation depend on the row alone, so that two
 * evaluations differ by the weights only. */
static PlumbBatch *
answer_rows (PlumbRun *run, PlumbDataSet *set, int prompts, int samples, double temperature, GError **error)
{
  g_autofree gsize *rows = g_new (gsize, prompts);
  for (int p = 0; p < prompts; p++)
    rows[p] = (gsize) p;
  PlumbAsk ask = { .set = set,
                   .rows = rows,
                   .prompts = prompts,
                   .samples = samples,
                   .temperature = temperature,
                   .purpose = PLUMB_RANDOM_EVAL };
  return plumb_run_generate (run, &ask, error);
}

static void
record_evaluation (PlumbRun *run, const PlumbBatch *batch, const char *name, double *pass1)
{
  const struct plumb_experience *e = batch->experience;
  double sum = 0, best_sum = 0, length = 0;
  int prompts = 0;
  for (int p = 0; p < batch->prompts; p++)
    {
      double best = 0, own = 0;
      int n = 0;
      gboolean any = FALSE;
      for (int s = p * batch->samples; s < (p + 1) * batch->samples; s++)
        {
          length += e->offsets[s + 1] - e->offsets[s] - (double) batch->data[p]->prompt_ids->len;
          if (!e->scored[s])
            continue;
          best = any ? MAX (best, e->reward[s]) : e->reward[s];
          any = TRUE;
          own += e->reward[s];
          n++;
        }
      best_sum += best;
      sum += any ? own / n : 0;
      prompts += any;
    }
  if (prompts == 0)
    return; /* nothing was scored: not measured, not 0 */
  *pass1 = sum / prompts;
  g_autofree char *first = g_strdup_printf ("eval/%s/pass1", name);
  g_autofree char *any_of = g_strdup_printf ("eval/%s/passk", name);
  g_autofree char *lengths = g_strdup_printf ("eval/%s/length", name);
  plumb_run_point (run, first, *pass1);
  if (batch->samples > 1)
    plumb_run_point (run, any_of, best_sum / prompts);
  plumb_run_point (run, lengths, length / e->sequences);
}

gboolean
plumb_run_evaluate (PlumbRun *run, PlumbDataSet *set, const char *name, int prompts, int samples,
                    double temperature, double *pass1, GError **error)
{
  prompts = (int) MIN ((gsize) prompts, plumb_data_set_n_rows (set));
  g_autoptr (PlumbBatch) batch = answer_rows (run, set, prompts, samples, temperature, error);
  if (!batch)
    return FALSE;
  record_evaluation (run, batch, name, pass1);
  plumb_run_record_samples (run, batch, TRUE, name);
  return TRUE;
}

/* Greedy answers to the same few prompts, before the training and after it. */
gboolean
plumb_run_show (PlumbRun *run, gboolean after, GError **error)
{
  PlumbDataSet *set = run->eval ? run->eval : run->train;
  int prompts = (int) MIN ((gsize) SHOWPIECES, plumb_data_set_n_rows (set));
  g_autoptr (PlumbBatch) batch = answer_rows (run, set, prompts, 1, 0, error);
  if (!batch)
    return FALSE;
  for (int p = 0; p < prompts; p++)
    {
      if ((guint) p >= run->showpieces->len)
        g_ptr_array_add (run->showpieces, g_new0 (PlumbShowpiece, 1));
      PlumbShowpiece *piece = g_ptr_array_index (run->showpieces, p);
      char **place = after ? &piece->after : &piece->before;
      g_free (*place);
      *place = g_strescape (g_strstrip (batch->responses[p]), "\"\\");
      if (!piece->prompt)
        piece->prompt = g_strdup (batch->data[p]->prompt);
      if (!piece->answer)
        piece->answer = g_strdup (batch->data[p]->answer);
    }
  return TRUE;
}
