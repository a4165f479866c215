/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/core/error.h"
#include "engine/text/text-file.h"

#define BLOCK (1 << 20)

static GBytes *
unpack (GInputStream *stream, const char *path, GError **error)
{
  g_autoptr (GByteArray) content = g_byte_array_new ();
  g_autofree guint8 *block = g_malloc (BLOCK);

  for (;;)
    {
      gssize n = g_input_stream_read (stream, block, BLOCK, NULL, error);

      if (n < 0)
        {
          g_prefix_error (error, "%s: cannot unpack it: ", path);
          return NULL;
        }
      if (n == 0)
        return g_byte_array_free_to_bytes (g_steal_pointer (&content));
      if (content->len + n > PLUMB_TEXT_FILE_MAX)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "%s: it unfolds to more than 2 GiB; unpack it and split it", path);
          return NULL;
        }
      g_byte_array_append (content, block, n);
    }
}

static GBytes *
read_packed (const char *path, GError **error)
{
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileInputStream) packed = g_file_read (file, NULL, error);
  g_autoptr (GZlibDecompressor) zlib = NULL;
  g_autoptr (GInputStream) stream = NULL;

  if (packed == NULL)
    return NULL;
  zlib = g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP);
  stream = g_converter_input_stream_new (G_INPUT_STREAM (packed), G_CONVERTER (zlib));
  return unpack (stream, path, error);
}

GBytes *
plumb_text_file_read (const char *path, GError **error)
{
  g_autoptr (GMappedFile) mapped = NULL;
  g_autoptr (GError) local = NULL;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: this is a folder, not a file",
                   path);
      return NULL;
    }
  if (g_str_has_suffix (path, ".gz"))
    {
      GBytes *bytes = read_packed (path, &local);

      if (bytes == NULL && local->domain != PLUMB_ERROR)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: %s", path, local->message);
          return NULL;
        }
      if (bytes == NULL)
        g_propagate_error (error, g_steal_pointer (&local));
      return bytes;
    }
  mapped = g_mapped_file_new (path, FALSE, &local);
  if (mapped == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: cannot read it: %s", path,
                   local->message);
      return NULL;
    }
  return g_mapped_file_get_bytes (mapped);
}

char *
plumb_text_file_find (const char *folder, const char *name)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *packed = g_strconcat (path, ".gz", NULL);

  if (g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return g_steal_pointer (&path);
  if (g_file_test (packed, G_FILE_TEST_IS_REGULAR))
    return g_steal_pointer (&packed);
  return NULL;
}
