/* SPDX-License-Identifier: Apache-2.0 */

/* The best checkpoint by a metric: told in checkpoints/best.json, and spared when old ones are removed. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <json-glib/json-glib.h>
#include <math.h>

#include "engine/core/metrics.h"
#include "engine/run/run-private.h"

/* Metrics by which a run is judged where the spec names none, the better ones first; a star stands for a set. A run
 * that is evaluated is judged by that alone. */
static const char *const evaluated[] = { "eval/*/pass1", "eval/*/accuracy", "eval/*/margin", "eval/*/loss", NULL };
static const char *const trained[]
    = { "reward/mean", "dpo/accuracy", "rm/accuracy", "kto/margin", "loss/sft", NULL };

/* The metric in force and its value of this step; NULL: it was not measured now. */
static const char *
find_metric (PlumbRun *run, double *value)
{
  gboolean automatic = plumb_spec_is_auto (run->spec, "checkpoint.best_metric");
  const char *named = plumb_spec_get_text (run->spec, "checkpoint.best_metric");
  const char *const one[] = { named, NULL };
  const char *const *patterns = !automatic ? one
                                : run->eval && plumb_spec_get_integer (run->spec, "eval.every") > 0 ? evaluated
                                                                                                    : trained;
  GHashTableIter iter;
  gpointer name, latest;
  /* Of several sets of held-out data the first one decides. */
  g_autofree char *first = run->evals->len
                               ? g_strdup_printf ("eval/%s/*", ((PlumbEvalSet *) g_ptr_array_index (run->evals, 0))->name)
                               : g_strdup ("eval/*");
  for (gsize i = 0; patterns[i]; i++)
    {
      g_hash_table_iter_init (&iter, run->latest);
      while (g_hash_table_iter_next (&iter, &name, &latest))
        if (g_pattern_match_simple (patterns[i], name)
            && (!g_str_has_prefix (name, "eval/") || !automatic || g_pattern_match_simple (first, name)))
          {
            *value = ((PlumbLatest *) latest)->value;
            return ((PlumbLatest *) latest)->step == run->position.step ? name : NULL;
          }
    }
  return NULL;
}

void
plumb_run_tell_best (PlumbRun *run)
{
  double value;
  const char *metric = find_metric (run, &value);
  if (!metric || run->position.best_step != run->position.step)
    return;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (run->dir, PLUMB_RUN_CHECKPOINTS, "best.json", NULL);
  g_autofree char *text
      = g_strdup_printf ("{\"step\": %" G_GINT64_FORMAT ", \"metric\": \"%s\", \"value\": %.9g}\n",
                         run->position.best_step, metric, run->position.best_value);
  if (!g_file_set_contents (path, text, -1, &error))
    g_warning ("%s", error->message);
}

void
plumb_run_note_best (PlumbRun *run)
{
  double value = NAN;
  const char *metric = find_metric (run, &value);
  const PlumbMetric *row = metric ? plumb_metric_find (metric) : NULL;
  int sign = row && row->better == PLUMB_BETTER_DOWN ? -1 : 1;
  if (!metric || !isfinite (value) || plumb_run_is_warmup (run))
    return;
  if (run->position.best_step > 0 && sign * value <= sign * run->position.best_value)
    return;
  run->position.best_step = run->position.step;
  run->position.best_value = value;
}
