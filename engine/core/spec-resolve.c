/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/core/spec-private.h"

#define LONGEST_NAME 80

static void
resolve (PlumbSpec *spec, const char *key, const char *value)
{
  g_autoptr (GError) error = NULL;

  if (plumb_spec_has_value (spec, key) && !plumb_spec_is_auto (spec, key))
    return;
  if (!plumb_spec_resolve (spec, key, value, &error))
    g_debug ("%s",
             error->message); /* an impossible size: the check of the setting itself reports it */
}

static void
resolve_count (PlumbSpec *spec, const char *key, gint64 value)
{
  g_autofree char *text = g_strdup_printf ("%" G_GINT64_FORMAT, value);

  resolve (spec, key, text);
}

/* "grpo-stories260K"; "grpo-new-128x4" for a model made from nothing. */
static void
resolve_name (PlumbSpec *spec)
{
  const char *policy = plumb_spec_get_text (spec, "model.policy");
  const char *algorithm = plumb_algorithm_name (plumb_spec_algorithm (spec));
  g_autofree char *model = NULL, *name = NULL, *shown = NULL;

  if (policy != NULL)
    model = g_path_get_basename (policy);
  else
    model = g_strdup_printf ("new-%sx%s", plumb_spec_get_text (spec, "model.new.width"),
                             plumb_spec_get_text (spec, "model.new.layers"));
  name = g_strdup_printf ("%s-%s", algorithm, model);
  shown = g_utf8_substring (name, 0, MIN (g_utf8_strlen (name, -1), LONGEST_NAME));
  resolve (spec, "run.name", shown);
}

void
plumb_spec_resolve_settings (PlumbSpec *spec)
{
  const char *where = plumb_spec_get_text (spec, "algorithm.kl.where");

  resolve_name (spec);
  resolve (spec, "algorithm.kl.estimator", g_str_equal (where, "reward") ? "k1" : "k3");
  if (!plumb_spec_is_set (spec, "model.new.width"))
    return;
  resolve_count (spec, "model.new.kv_heads", plumb_spec_get_integer (spec, "model.new.heads"));
  resolve_count (spec, "model.new.mlp", 3 * plumb_spec_get_integer (spec, "model.new.width"));
  resolve_count (spec, "model.new.vocab", 260);
}
