/* SPDX-License-Identifier: Apache-2.0 */

/* A run goes on with other settings: what may differ, and what may not. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/core/run-dir.h"
#include "engine/run/run.h"

/* Settings that a checkpoint stands on; a star stands for any text. */
static const struct
{
  const char *pattern, *why;
} fixed[] = {
  { "run.algorithm", "the optimizer and the position belong to it" },
  { "run.seed", "the order of the data and the random numbers follow from it" },
  { "model.policy", "the checkpoint holds the weights of that model" },
  { "model.new.*", "the checkpoint holds weights of that shape" },
  { "model.precision", "the checkpoint holds weights of that type" },
  { "model.critic", "the checkpoint holds the weights of that critic" },
  { "data.train", "the checkpoint remembers a place in that data" },
  { "rollout.async", "prompts of the checkpoint were given out ahead, or none" },
  { "warmup.data", "the checkpoint remembers a place in that data" },
};

static const char *
why_fixed (const char *key)
{
  for (gsize i = 0; i < G_N_ELEMENTS (fixed); i++)
    if (g_pattern_match_simple (fixed[i].pattern, key))
      return fixed[i].why;
  return NULL;
}

/* The model's context may have cut the longest sequence: then it was more than what was resolved. */
static gboolean
is_cut_length (const PlumbSpecChange *change)
{
  return g_str_equal (change->key, "model.max_length") && change->before && change->after
         && g_ascii_strtod (change->before, NULL) < g_ascii_strtod (change->after, NULL);
}

gboolean
plumb_run_check_resume (const char *dir, PlumbSpec *spec, GPtrArray *changes, GError **error)
{
  g_autofree char *path = g_build_filename (dir, PLUMB_RUN_RESOLVED, NULL);
  g_autoptr (PlumbSpec) before = plumb_spec_new ();
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return TRUE; /* it died before it was resolved: there is nothing to differ from */
  if (!plumb_spec_load_file (before, path, problems, error))
    return FALSE;
  g_autoptr (GPtrArray) differences = plumb_spec_diff (before, spec);
  for (guint i = 0; i < differences->len; i++)
    {
      const PlumbSpecChange *change = g_ptr_array_index (differences, i);
      const char *why = why_fixed (change->key);
      /* What was automatic is resolved again; what was left out follows from the rest; and the model's context may
       * have cut the longest sequence. */
      if (is_cut_length (change) || !change->after || plumb_spec_is_auto (spec, change->key)
          || (!plumb_spec_is_set (spec, change->key) && !change->before))
        continue;
      if (why)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "%s was %s when the run began and is %s now; it cannot change, since %s. Set it back, or start a "
                       "new run from the export", change->key, change->before ? change->before : "not set",
                       change->after, why);
          return FALSE;
        }
      g_ptr_array_add (changes, g_strdup_printf ("%s: %s -> %s", change->key,
                                                 change->before ? change->before : "not set", change->after));
    }
  return TRUE;
}
