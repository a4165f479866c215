/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine spec: a spec to start from, or the list of settings. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/presets.h"

static void
add_text (JsonBuilder *builder, const char *name, const char *value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_string_value (builder, value);
}

static void
list_presets (GPtrArray *presets, gboolean json)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "presets");
  json_builder_begin_array (builder);
  for (guint i = 0; i < presets->len; i++)
    {
      const PlumbPreset *preset = g_ptr_array_index (presets, i);

      json_builder_begin_object (builder);
      add_text (builder, "name", preset->name);
      add_text (builder, "title", preset->title);
      add_text (builder, "description", preset->description);
      json_builder_end_object (builder);
      if (!json)
        g_print ("%-12s %s\n", preset->name, preset->title);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  if (json)
    plumb_command_print_json (root, TRUE);
}

static void
list_fields (gboolean json)
{
  g_autoptr (JsonNode) node = NULL;
  g_autofree char *text = NULL;

  if (json)
    {
      node = plumb_fields_to_json ();
      plumb_command_print_json (node, TRUE);
      return;
    }
  text = plumb_fields_to_text ();
  g_print ("%s", text);
}

int
plumb_cmd_spec (int argc, char **argv, GError **error)
{
  g_autofree char *preset = NULL;
  gboolean fields = FALSE, presets = FALSE, json = FALSE;
  const GOptionEntry options[] = {
    { "preset", 'p', 0, G_OPTION_ARG_STRING, &preset, N_ ("the preset to start from"),
      N_ ("NAME") },
    { "presets", 0, 0, G_OPTION_ARG_NONE, &presets, N_ ("list the presets"), NULL },
    { "fields", 0, 0, G_OPTION_ARG_NONE, &fields, N_ ("list every setting"), NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, N_ ("list as JSON"), NULL },
    { NULL },
  };
  g_autoptr (PlumbSpec) spec = NULL;
  g_autoptr (GPtrArray) all = NULL;
  g_autofree char *text = NULL;

  if (!plumb_command_parse (&argc, &argv, options, "",
                            _ ("Prints a commented spec to start from, or lists every setting."), 0,
                            0, error))
    return PLUMB_ERROR_USAGE;
  if (fields)
    {
      list_fields (json);
      return 0;
    }
  if (presets || (preset == NULL && json))
    {
      all = plumb_presets_list ();
      list_presets (all, json);
      return 0;
    }
  if (preset == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                   "spec: give --preset NAME, --presets or --fields");
      return PLUMB_ERROR_USAGE;
    }
  spec = plumb_preset_load (preset, error);
  if (spec == NULL)
    return PLUMB_ERROR_USAGE;
  text = plumb_spec_to_commented_text (spec);
  g_print ("%s", text);
  return 0;
}
