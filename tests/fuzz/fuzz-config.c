/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a model's config.json: refused, or a config whose table and frequencies can be made. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gstdio.h>
#include <math.h>

#include "engine/model/weights.h"

#define LARGEST_TABLE 64 /* layers; a table of more only takes time */

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static char *folder, *path;
  double frequencies[128];
  if (!folder)
    {
      folder = g_dir_make_tmp ("plumbline-fuzz-XXXXXX", NULL);
      path = g_build_filename (folder, "config.json", NULL);
    }
  if (!g_file_set_contents_full (path, (const char *) data, (gssize) size, G_FILE_SET_CONTENTS_NONE, 0600, NULL))
    return 0;
  g_autoptr (PlumbModelConfig) config = plumb_model_config_load (folder, NULL);
  g_unlink (path);
  if (!config)
    return 0;
  g_assert_cmpint (config->heads % config->groups, ==, 0);
  g_assert_cmpint (config->head_size, <=, 256);
  plumb_rope_frequencies (&config->rope, config->head_size, frequencies);
  for (int i = 0; i < config->head_size / 2; i++)
    g_assert_true (isfinite (frequencies[i]));
  if (config->layers <= LARGEST_TABLE)
    {
      g_autoptr (PlumbWeightTable) table = plumb_weight_table_new (config);
      g_assert_cmpuint (table->rows->len, >, 0);
    }
  return 0;
}
