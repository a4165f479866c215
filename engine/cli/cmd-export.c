/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/run-dir.h"
#include "engine/model/export.h"
#include "engine/model/safetensors.h"

/* The type in which a checkpoint keeps its weights: that of its first tensor. */
static gboolean
find_type (const char *dir, enum dev_type *type, GError **error)
{
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open_model (dir, error);
  if (!tensors)
    return FALSE;
  GPtrArray *list = plumb_safetensors_list (tensors);
  const PlumbTensor *first = list->len ? g_ptr_array_index (list, 0) : NULL;
  *type = first && first->type == PLUMB_TENSOR_BF16 ? DEV_BF16 : DEV_F32;
  return TRUE;
}

static gboolean
export_checkpoint (const char *run, gint64 step, const char *to, GError **error)
{
  g_autofree char *name = g_strdup_printf ("step-%06" G_GINT64_FORMAT, step);
  g_autofree char *model_dir = g_build_filename (run, PLUMB_RUN_CHECKPOINTS, name, "model", NULL);
  enum dev_type type;
  if (g_file_test (to, G_FILE_TEST_EXISTS))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s exists already; name another folder", to);
      return FALSE;
    }
  if (!g_file_test (model_dir, G_FILE_TEST_IS_DIR))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s has no checkpoint of step %" G_GINT64_FORMAT,
                   run, step);
      return FALSE;
    }
  if (!find_type (model_dir, &type, error))
    return FALSE;
  g_autoptr (PlumbDevice) device = plumb_device_open ("cpu", 1 << 20, error);
  g_autoptr (PlumbModel) model = device ? plumb_model_load (device, model_dir, type, 0, error) : NULL;
  if (!model || !plumb_model_export (model, model_dir, to, error))
    return FALSE;
  g_print ("step %" G_GINT64_FORMAT " exported to %s, reloaded and compared\n", step, to);
  return TRUE;
}

int
plumb_cmd_export (int argc, char **argv, GError **error)
{
  g_autofree char *to = NULL;
  gint64 step = -1;
  const GOptionEntry entries[] = {
    { "step", 0, 0, G_OPTION_ARG_INT64, &step, N_ ("checkpoint (default: the last)"), "N" },
    { "to", 't', 0, G_OPTION_ARG_FILENAME, &to, N_ ("folder to make"), N_ ("DIR") },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, entries, "RUN", N_ ("write a checkpoint as a Hugging Face folder"), 1,
                            1, error))
    return PLUMB_ERROR_USAGE;
  if (!to)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "export needs --to DIR");
      return PLUMB_ERROR_USAGE;
    }
  g_autofree char *run = plumb_run_find (argv[1], error);
  g_autofree char *folder = g_canonicalize_filename (to, NULL);
  if (!run)
    return PLUMB_ERROR_INVALID;
  if (step < 0)
    step = plumb_run_last_checkpoint (run);
  if (step < 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s has no checkpoint yet", run);
      return PLUMB_ERROR_INVALID;
    }
  return export_checkpoint (run, step, folder, error) ? 0 : PLUMB_ERROR_FAILED;
}
