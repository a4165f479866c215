/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "core-resources.h" /* plumb_core_get_resource: data/presets, compiled in */
#include "engine/core/error.h"
#include "engine/core/presets.h"

#define FOLDER "/io/github/plumbline/core/presets/"
#define SUFFIX ".spec"

static void
preset_free (gpointer data)
{
  PlumbPreset *preset = data;

  g_free (preset->name);
  g_free (preset->title);
  g_free (preset->description);
  g_free (preset);
}

/* The comment lines at the top: the first is the title, the rest the description. A line without
 * words ends them. */
static PlumbPreset *
read_preset (const char *name, const char *text)
{
  PlumbPreset *preset = g_new0 (PlumbPreset, 1);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr (GString) description = g_string_new (NULL);

  preset->name = g_strdup (name);
  for (gsize i = 0; lines[i] != NULL && lines[i][0] == '#'; i++)
    {
      const char *words = lines[i] + strspn (lines[i], "# ");

      if (preset->title == NULL)
        preset->title = g_strdup (words);
      else
        g_string_append_printf (description, "%s%s", description->len > 0 ? " " : "", words);
    }
  if (preset->title == NULL)
    preset->title = g_strdup (name);
  preset->description = g_string_free (g_steal_pointer (&description), FALSE);
  return preset;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *)a, *(char *const *)b);
}

/* Names of all presets, sorted: the quick start comes first by its own name. */
static char **
preset_names (void)
{
  g_auto (GStrv) files = g_resource_enumerate_children (plumb_core_get_resource (), FOLDER,
                                                        G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  for (gsize i = 0; files != NULL && files[i] != NULL; i++)
    if (g_str_has_suffix (files[i], SUFFIX))
      g_ptr_array_add (names, g_strndup (files[i], strlen (files[i]) - strlen (SUFFIX)));
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (char **)g_ptr_array_free (g_steal_pointer (&names), FALSE);
}

char *
plumb_preset_text (const char *name, GError **error)
{
  g_autofree char *path = g_strconcat (FOLDER, name, SUFFIX, NULL);
  g_autoptr (GBytes) bytes = g_resource_lookup_data (plumb_core_get_resource (), path,
                                                     G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  g_auto (GStrv) names = NULL;
  g_autofree char *all = NULL;

  if (bytes != NULL)
    return g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  names = preset_names ();
  all = g_strjoinv (", ", names);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "there is no preset %s; there are: %s", name,
               all);
  return NULL;
}

GPtrArray *
plumb_presets_list (void)
{
  GPtrArray *presets = g_ptr_array_new_with_free_func (preset_free);
  g_auto (GStrv) names = preset_names ();

  for (gsize i = 0; names[i] != NULL; i++)
    {
      g_autofree char *text = plumb_preset_text (names[i], NULL);

      if (text != NULL)
        g_ptr_array_add (presets, read_preset (names[i], text));
    }
  return presets;
}

PlumbSpec *
plumb_preset_load (const char *name, GError **error)
{
  g_autofree char *text = plumb_preset_text (name, error);
  g_autofree char *file = g_strconcat (name, SUFFIX, NULL);
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();

  if (text == NULL)
    return NULL;
  plumb_spec_load_data (spec, text, strlen (text), file, NULL, problems);
  if (!plumb_problems_to_error (problems, error))
    return NULL;
  return g_steal_pointer (&spec);
}
