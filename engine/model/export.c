/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/model/export.h"

#define MAX_CONFIG_BYTES (16 << 20)

gboolean
plumb_remove_tree (const char *path, GError **error)
{
  g_autoptr (GDir) dir = NULL;
  const char *name;
  if (g_file_test (path, G_FILE_TEST_IS_DIR) && !g_file_test (path, G_FILE_TEST_IS_SYMLINK))
    {
      dir = g_dir_open (path, 0, error);
      if (!dir)
        return FALSE;
      while ((name = g_dir_read_name (dir)))
        {
          g_autofree char *child = g_build_filename (path, name, NULL);
          if (!plumb_remove_tree (child, error))
            return FALSE;
        }
    }
  if (g_remove (path) == 0 || errno == ENOENT)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: cannot remove: %s", path, g_strerror (errno));
  return FALSE;
}

gboolean
plumb_sync_folder (const char *path, GError **error)
{
  int fd = g_open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  gboolean ok = fd >= 0 && fsync (fd) == 0;
  int saved = errno;
  if (fd >= 0)
    close (fd);
  if (!ok)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: cannot sync: %s", path, g_strerror (saved));
  return ok;
}

/* A causal model's config becomes that of a sequence classifier with one label. */
static void
make_classifier (JsonObject *object)
{
  JsonArray *old = plumb_json_node_array (json_object_get_member (object, "architectures"));
  const char *name = old && json_array_get_length (old) ? plumb_json_node_text (json_array_get_element (old, 0)) : NULL;
  const char *suffix = name ? strstr (name, "ForCausalLM") : NULL;
  if (!suffix)
    return;
  JsonArray *architectures = json_array_new ();
  g_autofree char *stem = g_strndup (name, (gsize) (suffix - name));
  g_autofree char *classifier = g_strconcat (stem, "ForSequenceClassification", NULL);
  json_array_add_string_element (architectures, classifier);
  json_object_set_array_member (object, "architectures", architectures);
  json_object_set_int_member (object, "num_labels", 1);
}

/* config.json as it is, but for the head, and for the type of the weights in the key that it already uses. */
static gboolean
copy_config (const char *source, const char *dir, enum dev_type type, gboolean score, GError **error)
{
  g_autofree char *from = g_build_filename (source, "config.json", NULL);
  g_autofree char *to = g_build_filename (dir, "config.json", NULL);
  g_autoptr (JsonParser) parser = plumb_json_parse_file (from, MAX_CONFIG_BYTES, error);
  JsonObject *object = parser ? plumb_json_top (parser, from, error) : NULL;
  if (!object)
    return FALSE;
  if (score)
    make_classifier (object);
  const char *name = type == DEV_BF16 ? "bfloat16" : "float32";
  if (json_object_has_member (object, "dtype"))
    json_object_set_string_member (object, "dtype", name);
  if (json_object_has_member (object, "torch_dtype") || !json_object_has_member (object, "dtype"))
    json_object_set_string_member (object, "torch_dtype", name);
  g_autofree char *text = json_to_string (json_parser_get_root (parser), TRUE);
  return g_file_set_contents (to, text, -1, error);
}

gboolean
plumb_model_copy_files (const char *source, const char *dir, enum dev_type type, gboolean score, GError **error)
{
  static const char *const names[]
      = { "generation_config.json", "tokenizer.json",          "tokenizer.json.gz", "tokenizer_config.json",
          "special_tokens_map.json", "tokenizer.model",        "vocab.json",        "merges.txt",
          "added_tokens.json",       "chat_template.jinja" };
  if (!copy_config (source, dir, type, score, error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *from = g_build_filename (source, names[i], NULL);
      g_autofree char *to = g_build_filename (dir, names[i], NULL);
      g_autoptr (GFile) source_file = g_file_new_for_path (from);
      g_autoptr (GFile) target = g_file_new_for_path (to);
      if (g_file_test (from, G_FILE_TEST_EXISTS)
          && !g_file_copy (source_file, target, G_FILE_COPY_OVERWRITE | G_FILE_COPY_TARGET_DEFAULT_PERMS, NULL,
                           NULL, NULL, error))
        return FALSE;
    }
  return TRUE;
}

/* Whether the folder holds exactly the model's weights. */
static gboolean
compare_saved (PlumbModel *model, const char *dir, GError **error)
{
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open_model (dir, error);
  if (!tensors)
    return FALSE;
  gsize size = dev_type_size (model->type);
  for (guint i = 0; i < model->table->rows->len; i++)
    {
      const PlumbWeight *row = plumb_weight_table_row (model->table, i);
      const PlumbTensor *tensor = plumb_safetensors_find (tensors, row->name);
      g_autofree char *host = g_malloc (row->count * size);
      char *weights = plumb_model_weights (model);
      model->device->ops->download (model->device->context, host, weights + row->first * size,
                                    row->count * size);
      if (!tensor || tensor->count != row->count || plumb_tensor_type_size (tensor->type) != size
          || memcmp (host, tensor->data, row->count * size) != 0)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                       "%s: tensor %s differs from the model after writing; the disk or the memory is at fault",
                       dir, row->name);
          return FALSE;
        }
    }
  return TRUE;
}

gboolean
plumb_model_export (PlumbModel *model, const char *source, const char *dir, GError **error)
{
  g_autofree char *aside = g_strconcat (dir, ".new", NULL);
  g_autofree char *weights = g_build_filename (aside, "model.safetensors", NULL);
  g_autofree char *parent = g_path_get_dirname (dir);
  if (!plumb_remove_tree (aside, error))
    return FALSE;
  if (g_mkdir_with_parents (aside, 0755) != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: cannot make the folder: %s", aside,
                   g_strerror (errno));
      return FALSE;
    }
  gboolean ok = plumb_weights_save (model->device, model->table, plumb_model_weights (model), model->type,
                                    weights, error)
                && plumb_model_copy_files (source, aside, model->type, model->config->score, error)
                && compare_saved (model, aside, error) && plumb_sync_folder (aside, error);
  if (ok && (!plumb_remove_tree (dir, error) || g_rename (aside, dir) != 0))
    {
      if (error && !*error)
        g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: cannot rename into place: %s", dir,
                     g_strerror (errno));
      ok = FALSE;
    }
  if (!ok)
    plumb_remove_tree (aside, NULL);
  return ok && plumb_sync_folder (parent, error);
}

gboolean
plumb_model_store_statistics (const char *dir, double mean, double deviation, GError **error)
{
  g_autofree char *path = g_build_filename (dir, "config.json", NULL);
  g_autoptr (JsonParser) parser = plumb_json_parse_file (path, MAX_CONFIG_BYTES, error);
  JsonObject *object = parser ? plumb_json_top (parser, path, error) : NULL;
  if (!object)
    return FALSE;
  json_object_set_double_member (object, "mean", mean);
  json_object_set_double_member (object, "std", deviation);
  g_autofree char *text = json_to_string (json_parser_get_root (parser), TRUE);
  return g_file_set_contents (path, text, -1, error);
}

gboolean
plumb_model_read_statistics (const char *dir, double *mean, double *deviation, GError **error)
{
  g_autofree char *path = g_build_filename (dir, "config.json", NULL);
  g_autoptr (JsonParser) parser = plumb_json_parse_file (path, MAX_CONFIG_BYTES, error);
  JsonObject *object = parser ? plumb_json_top (parser, path, error) : NULL;
  if (!object)
    return FALSE;
  *mean = json_object_get_double_member_with_default (object, "mean", NAN);
  *deviation = json_object_get_double_member_with_default (object, "std", NAN);
  if (isfinite (*mean) && *deviation > 0)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "%s has no mean and std of its rewards; a reward model trained here stores them, or set reward.normalize = no",
               path);
  return FALSE;
}
