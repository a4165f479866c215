/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/model/safetensors.h"

#define MAX_HEADER (100u << 20) /* the format's own limit */

struct _PlumbSafetensors
{
  GPtrArray *files;  /* of GMappedFile */
  GPtrArray *paths;  /* of char * */
  GPtrArray *list;   /* of PlumbTensor, by name */
  GHashTable *index; /* name -> PlumbTensor */
  GHashTable *metadata; /* text -> text */
};

static const struct
{
  const char *name;
  gsize size;
} types[] = {
  [PLUMB_TENSOR_F32] = { "F32", 4 }, [PLUMB_TENSOR_BF16] = { "BF16", 2 }, [PLUMB_TENSOR_F16] = { "F16", 2 },
  [PLUMB_TENSOR_F64] = { "F64", 8 }, [PLUMB_TENSOR_I32] = { "I32", 4 },   [PLUMB_TENSOR_I64] = { "I64", 8 },
};

const char *
plumb_tensor_type_name (PlumbTensorType type)
{
  return types[type].name;
}

gsize
plumb_tensor_type_size (PlumbTensorType type)
{
  return types[type].size;
}

static void
tensor_free (gpointer data)
{
  PlumbTensor *tensor = data;
  g_free (tensor->name);
  g_free (tensor);
}

static float
float_from_half (guint16 half)
{
  guint32 sign = (guint32) (half & 0x8000) << 16, exponent = (half >> 10) & 31, mantissa = half & 1023;
  guint32 bits;
  if (exponent == 31)
    bits = sign | 0x7f800000 | mantissa << 13;
  else if (exponent)
    bits = sign | (exponent + 112) << 23 | mantissa << 13;
  else
    {
      float value = (float) mantissa * 0x1p-24f;
      return sign ? -value : value;
    }
  float value;
  memcpy (&value, &bits, sizeof value);
  return value;
}

double
plumb_tensor_get (const PlumbTensor *tensor, gsize i)
{
  const guint8 *at = tensor->data + i * types[tensor->type].size;
  float f;
  double d;
  gint32 i32;
  gint64 i64;
  guint16 half;
  guint32 bits;
  switch (tensor->type)
    {
    case PLUMB_TENSOR_F32:
      memcpy (&f, at, sizeof f);
      return f;
    case PLUMB_TENSOR_BF16:
      memcpy (&half, at, sizeof half);
      bits = (guint32) half << 16;
      memcpy (&f, &bits, sizeof f);
      return f;
    case PLUMB_TENSOR_F16:
      memcpy (&half, at, sizeof half);
      return float_from_half (half);
    case PLUMB_TENSOR_F64:
      memcpy (&d, at, sizeof d);
      return d;
    case PLUMB_TENSOR_I32:
      memcpy (&i32, at, sizeof i32);
      return i32;
    case PLUMB_TENSOR_I64:
      memcpy (&i64, at, sizeof i64);
      return (double) i64;
    }
  g_assert_not_reached ();
}

void
plumb_tensor_to_floats (const PlumbTensor *tensor, gsize first, gsize n, float *to)
{
  if (tensor->type == PLUMB_TENSOR_F32)
    {
      memcpy (to, tensor->data + first * sizeof (float), n * sizeof (float));
      return;
    }
  for (gsize i = 0; i < n; i++)
    to[i] = (float) plumb_tensor_get (tensor, first + i);
}

G_GNUC_PRINTF (3, 4)
static gboolean
fail (GError **error, const char *path, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: %s", path, message);
  return FALSE;
}

static gboolean
read_type (PlumbTensor *tensor, JsonObject *object, const char *path, GError **error)
{
  const char *word = plumb_json_node_text (json_object_get_member (object, "dtype"));
  for (gsize i = 0; word && i < G_N_ELEMENTS (types); i++)
    if (g_str_equal (word, types[i].name))
      {
        tensor->type = (PlumbTensorType) i;
        return TRUE;
      }
  return fail (error, path, "tensor %s has dtype %s, which is not supported; known are F32, BF16, F16, "
                            "F64, I32 and I64", tensor->name, word ? word : "(none)");
}

static gboolean
read_shape (PlumbTensor *tensor, JsonObject *object, const char *path, GError **error)
{
  JsonArray *array = plumb_json_node_array (json_object_get_member (object, "shape"));
  guint n = array ? json_array_get_length (array) : 0;
  if (!array || n > PLUMB_TENSOR_MAX_DIMENSIONS)
    return fail (error, path, "tensor %s has no shape of at most %d numbers", tensor->name,
                 PLUMB_TENSOR_MAX_DIMENSIONS);
  tensor->dimensions = (int) n;
  tensor->count = 1;
  for (guint i = 0; i < n; i++)
    {
      gint64 size;
      if (!plumb_json_node_integer (json_array_get_element (array, i), &size) || size < 0
          || (size && tensor->count > G_MAXSIZE / 16 / (gsize) size))
        return fail (error, path, "tensor %s has an impossible shape", tensor->name);
      tensor->shape[i] = size;
      tensor->count *= (gsize) size;
    }
  return TRUE;
}

/* Checks data_offsets against the shape and the file before the pointer is made. */
static gboolean
read_place (PlumbTensor *tensor, JsonObject *object, const guint8 *data, gsize length, const char *path,
            GError **error)
{
  JsonArray *array = plumb_json_node_array (json_object_get_member (object, "data_offsets"));
  gint64 start, end;
  if (!array || json_array_get_length (array) != 2
      || !plumb_json_node_integer (json_array_get_element (array, 0), &start)
      || !plumb_json_node_integer (json_array_get_element (array, 1), &end))
    return fail (error, path, "tensor %s has no data_offsets of two whole numbers", tensor->name);
  gsize needed = tensor->count * types[tensor->type].size;
  if (start < 0 || end < start || (guint64) (end - start) != needed)
    return fail (error, path,
                 "tensor %s needs %" G_GSIZE_FORMAT " bytes for its shape and dtype %s, but its offsets %"
                 G_GINT64_FORMAT "..%" G_GINT64_FORMAT " do not fit",
                 tensor->name, needed, types[tensor->type].name, start, end);
  if ((guint64) end > length)
    return fail (error, path, "the file ends before tensor %s (byte %" G_GINT64_FORMAT " of %" G_GSIZE_FORMAT
                 "): it is truncated; fetch it again", tensor->name, end, length);
  tensor->data = data + start;
  return TRUE;
}

static gboolean
add_tensor (PlumbSafetensors *self, const char *name, JsonNode *node, const guint8 *data, gsize length,
            const char *path, GError **error)
{
  PlumbTensor *tensor = g_new0 (PlumbTensor, 1);
  tensor->name = g_strdup (name);
  tensor->file = path;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      fail (error, path, "the header's entry %s is not an object", name);
      tensor_free (tensor);
      return FALSE;
    }
  JsonObject *object = json_node_get_object (node);
  if (!read_type (tensor, object, path, error) || !read_shape (tensor, object, path, error)
      || !read_place (tensor, object, data, length, path, error))
    {
      tensor_free (tensor);
      return FALSE;
    }
  if (g_hash_table_contains (self->index, name))
    {
      fail (error, path, "tensor %s stands in two files", name);
      tensor_free (tensor);
      return FALSE;
    }
  g_hash_table_insert (self->index, tensor->name, tensor);
  g_ptr_array_add (self->list, tensor);
  return TRUE;
}

static void
add_metadata (PlumbSafetensors *self, JsonNode *object)
{
  if (!JSON_NODE_HOLDS_OBJECT (object))
    return;
  JsonObjectIter iter;
  const char *key;
  JsonNode *node;
  json_object_iter_init (&iter, json_node_get_object (object));
  while (json_object_iter_next (&iter, &key, &node))
    if (plumb_json_node_text (node))
      g_hash_table_insert (self->metadata, g_strdup (key), g_strdup (plumb_json_node_text (node)));
}

static int
compare_places (gconstpointer a, gconstpointer b)
{
  const PlumbTensor *left = *(const PlumbTensor *const *) a, *right = *(const PlumbTensor *const *) b;
  gsize left_bytes = left->count * types[left->type].size, right_bytes = right->count * types[right->type].size;
  if (left->data != right->data)
    return left->data < right->data ? -1 : 1;
  return (left_bytes > right_bytes) - (left_bytes < right_bytes);
}

/* The format allows neither overlaps nor holes: the tensors of a file from list entry `first` on fill its data
 * exactly. */
static gboolean
check_tiling (PlumbSafetensors *self, guint first, const guint8 *data, gsize length, const char *path,
              GError **error)
{
  g_autoptr (GPtrArray) places = g_ptr_array_new ();
  const guint8 *at = data;
  for (guint i = first; i < self->list->len; i++)
    g_ptr_array_add (places, g_ptr_array_index (self->list, i));
  g_ptr_array_sort (places, compare_places);
  for (guint i = 0; i < places->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (places, i);
      if (tensor->data != at)
        return fail (error, path, "tensor %s starts at byte %" G_GSIZE_FORMAT " of the data where %" G_GSIZE_FORMAT
                     " is next: tensors overlap or leave a hole; the file is damaged, fetch it again",
                     tensor->name, (gsize) (tensor->data - data), (gsize) (at - data));
      at += tensor->count * types[tensor->type].size;
    }
  if (at != data + length)
    return fail (error, path, "%" G_GSIZE_FORMAT " bytes behind the last tensor belong to none; the file is damaged, "
                 "fetch it again", (gsize) (data + length - at));
  return TRUE;
}

static gboolean
add_file (PlumbSafetensors *self, const char *given, GError **error)
{
  GMappedFile *file = g_mapped_file_new (given, FALSE, error);
  if (!file)
    return FALSE;
  char *path = g_strdup (given);
  g_ptr_array_add (self->files, file);
  g_ptr_array_add (self->paths, path);
  const guint8 *bytes = (const guint8 *) g_mapped_file_get_contents (file);
  gsize length = g_mapped_file_get_length (file);
  guint64 header = 0;
  if (length >= 8)
    memcpy (&header, bytes, 8);
  header = GUINT64_FROM_LE (header);
  if (length < 8 || header > MAX_HEADER || header > length - 8)
    return fail (error, path, "not a safetensors file, or truncated: %" G_GSIZE_FORMAT
                 " bytes with a header of %" G_GUINT64_FORMAT, length, header);
  g_autofree char *what = g_strdup_printf ("%s: header", path);
  g_autoptr (JsonParser) parser = plumb_json_parse (what, (const char *) bytes + 8, (gsize) header, error);
  JsonObject *top = parser ? plumb_json_top (parser, what, error) : NULL;
  if (!top)
    return FALSE;
  const guint8 *data = bytes + 8 + header;
  gsize data_length = length - 8 - (gsize) header;
  guint first = self->list->len;
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;
  json_object_iter_init (&iter, top);
  while (json_object_iter_next (&iter, &name, &node))
    if (g_str_equal (name, "__metadata__"))
      add_metadata (self, node);
    else if (!add_tensor (self, name, node, data, data_length, path, error))
      return FALSE;
  return check_tiling (self, first, data, data_length, path, error);
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  const PlumbTensor *left = *(const PlumbTensor *const *) a, *right = *(const PlumbTensor *const *) b;
  return strcmp (left->name, right->name);
}

static PlumbSafetensors *
safetensors_new (void)
{
  PlumbSafetensors *self = g_new0 (PlumbSafetensors, 1);
  self->files = g_ptr_array_new_with_free_func ((GDestroyNotify) g_mapped_file_unref);
  self->paths = g_ptr_array_new_with_free_func (g_free);
  self->list = g_ptr_array_new_with_free_func (tensor_free);
  self->index = g_hash_table_new (g_str_hash, g_str_equal);
  self->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  return self;
}

PlumbSafetensors *
plumb_safetensors_open (const char *path, GError **error)
{
  g_autoptr (PlumbSafetensors) self = safetensors_new ();
  if (!add_file (self, path, error))
    return NULL;
  g_ptr_array_sort (self->list, compare_names);
  return g_steal_pointer (&self);
}

/* The different file names of weight_map, which must be plain names inside DIR. */
static GPtrArray *
read_index (const char *path, GError **error)
{
  g_autoptr (JsonParser) parser = plumb_json_parse_file (path, MAX_HEADER, error);
  JsonObject *object = parser ? plumb_json_top (parser, path, error) : NULL;
  if (!object)
    return NULL;
  JsonObject *map = plumb_json_node_object (json_object_get_member (object, "weight_map"));
  if (!map)
    {
      fail (error, path, "key weight_map is missing");
      return NULL;
    }
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  JsonObjectIter iter;
  const char *tensor;
  JsonNode *node;
  json_object_iter_init (&iter, map);
  while (json_object_iter_next (&iter, &tensor, &node))
    {
      const char *name = plumb_json_node_text (node);
      if (!name || strchr (name, '/'))
        {
          fail (error, path, "weight_map names no plain file for tensor %s", tensor);
          return NULL;
        }
      if (!g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
        g_ptr_array_add (names, g_strdup (name));
    }
  return g_steal_pointer (&names);
}

PlumbSafetensors *
plumb_safetensors_open_model (const char *dir, GError **error)
{
  g_autofree char *single = g_build_filename (dir, "model.safetensors", NULL);
  g_autofree char *index = g_build_filename (dir, "model.safetensors.index.json", NULL);
  if (g_file_test (single, G_FILE_TEST_EXISTS) || !g_file_test (index, G_FILE_TEST_EXISTS))
    {
      if (g_file_test (index, G_FILE_TEST_EXISTS))
        g_message ("%s has an index as well; the single file is used", single);
      return plumb_safetensors_open (single, error);
    }
  g_autoptr (GPtrArray) names = read_index (index, error);
  if (!names)
    return NULL;
  g_autoptr (PlumbSafetensors) self = safetensors_new ();
  for (guint i = 0; i < names->len; i++)
    {
      g_autofree char *path = g_build_filename (dir, g_ptr_array_index (names, i), NULL);
      if (!add_file (self, path, error))
        return NULL;
    }
  g_ptr_array_sort (self->list, compare_names);
  return g_steal_pointer (&self);
}

void
plumb_safetensors_free (PlumbSafetensors *self)
{
  if (!self)
    return;
  g_hash_table_unref (self->index);
  g_hash_table_unref (self->metadata);
  g_ptr_array_unref (self->list);
  g_ptr_array_unref (self->files);
  g_ptr_array_unref (self->paths);
  g_free (self);
}

const PlumbTensor *
plumb_safetensors_find (PlumbSafetensors *self, const char *name)
{
  return g_hash_table_lookup (self->index, name);
}

const char *
plumb_safetensors_metadata (PlumbSafetensors *self, const char *key)
{
  return g_hash_table_lookup (self->metadata, key);
}

GPtrArray *
plumb_safetensors_list (PlumbSafetensors *self)
{
  return self->list;
}

static gsize
out_bytes (const PlumbTensorOut *tensor)
{
  gsize count = 1;
  for (int i = 0; i < tensor->dimensions; i++)
    count *= (gsize) tensor->shape[i];
  return count * types[tensor->type].size;
}

static char *
build_header (const PlumbTensorOut *tensors, gsize n, const char *const *metadata)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  if (metadata)
    {
      json_builder_set_member_name (builder, "__metadata__");
      json_builder_begin_object (builder);
      for (gsize i = 0; metadata[i]; i += 2)
        {
          json_builder_set_member_name (builder, metadata[i]);
          json_builder_add_string_value (builder, metadata[i + 1]);
        }
      json_builder_end_object (builder);
    }
  gint64 offset = 0;
  for (gsize i = 0; i < n; i++)
    {
      json_builder_set_member_name (builder, tensors[i].name);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "dtype");
      json_builder_add_string_value (builder, types[tensors[i].type].name);
      json_builder_set_member_name (builder, "shape");
      json_builder_begin_array (builder);
      for (int d = 0; d < tensors[i].dimensions; d++)
        json_builder_add_int_value (builder, tensors[i].shape[d]);
      json_builder_end_array (builder);
      json_builder_set_member_name (builder, "data_offsets");
      json_builder_begin_array (builder);
      json_builder_add_int_value (builder, offset);
      offset += (gint64) out_bytes (&tensors[i]);
      json_builder_add_int_value (builder, offset);
      json_builder_end_array (builder);
      json_builder_end_object (builder);
    }
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

static gboolean
write_all (int fd, const void *data, gsize length)
{
  const char *at = data;
  while (length > 0)
    {
      gssize done = write (fd, at, MIN (length, (gsize) 1 << 30));
      if (done < 0 && errno == EINTR)
        continue;
      if (done <= 0)
        return FALSE;
      at += done;
      length -= (gsize) done;
    }
  return TRUE;
}

gboolean
plumb_safetensors_write (const char *path, const PlumbTensorOut *tensors, gsize n,
                         const char *const *metadata, GError **error)
{
  g_autofree char *json = build_header (tensors, n, metadata);
  gsize used = strlen (json), padded = (used + 7) / 8 * 8;
  guint64 length = GUINT64_TO_LE ((guint64) padded);
  g_autofree char *aside = g_strconcat (path, ".new", NULL);
  int fd = g_open (aside, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  gboolean ok = fd >= 0 && write_all (fd, &length, 8) && write_all (fd, json, used)
                && write_all (fd, "       ", padded - used);
  for (gsize i = 0; ok && i < n; i++)
    ok = write_all (fd, tensors[i].data, out_bytes (&tensors[i]));
  ok = ok && fsync (fd) == 0;
  int saved = errno;
  if (fd >= 0)
    ok = close (fd) == 0 && ok;
  if (ok && g_rename (aside, path) == 0)
    return TRUE;
  saved = ok ? errno : saved;
  g_unlink (aside);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: cannot write: %s", path, g_strerror (saved));
  return FALSE;
}
