/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/text/data-file.h"

#define BLOCK (1 << 20)

struct _PlumbDataFile
{
  char *path;
  int fd;
  gboolean plain;
  guint64 size;
  PlumbFileStamp stamp;
  GByteArray *pending; /* appended and not yet written */
};

static gboolean
fail (const char *path, const char *what, int number, GError **error)
{
  g_set_error (error, PLUMB_ERROR, number == ENOSPC ? PLUMB_ERROR_ENVIRONMENT : PLUMB_ERROR_INVALID,
               "%s: cannot %s: %s", path, what, g_strerror (number));
  return FALSE;
}

char *
plumb_data_cache_folder (void)
{
  const char *folder = g_getenv ("XDG_CACHE_HOME");
  char *path = folder != NULL && g_path_is_absolute (folder)
                   ? g_build_filename (folder, "plumbline", NULL)
                   : g_build_filename (g_get_home_dir (), ".cache", "plumbline", NULL);

  g_mkdir_with_parents (path, 0700);
  return path;
}

/* A file that goes away with its descriptor: in the cache folder, or where temporary files lie. */
static int
open_nameless (void)
{
  g_autofree char *cache = plumb_data_cache_folder ();
  const char *folders[] = { cache, g_get_tmp_dir () };

  for (gsize i = 0; i < G_N_ELEMENTS (folders); i++)
    {
      g_autofree char *name = g_build_filename (folders[i], "data-XXXXXX", NULL);
      int fd = mkostemp (name, O_CLOEXEC);

      if (fd < 0)
        continue;
      g_unlink (name);
      return fd;
    }
  return -1;
}

static PlumbDataFile *
file_new (const char *path, int fd)
{
  PlumbDataFile *file = g_new0 (PlumbDataFile, 1);

  file->path = g_strdup (path);
  file->fd = fd;
  return file;
}

PlumbDataFile *
plumb_data_file_new (const char *path, GError **error)
{
  int fd = open_nameless ();
  PlumbDataFile *file;

  if (fd < 0)
    {
      fail (path, "make a temporary file to unpack it into", errno, error);
      return NULL;
    }
  file = file_new (path, fd);
  file->pending = g_byte_array_new ();
  return file;
}

void
plumb_data_file_free (PlumbDataFile *file)
{
  if (file->fd >= 0)
    close (file->fd);
  g_clear_pointer (&file->pending, g_byte_array_unref);
  g_free (file->path);
  g_free (file);
}

const char *
plumb_data_file_path (PlumbDataFile *file)
{
  return file->path;
}

guint64
plumb_data_file_size (PlumbDataFile *file)
{
  return file->size;
}

const PlumbFileStamp *
plumb_data_file_stamp (PlumbDataFile *file)
{
  return &file->stamp;
}

gboolean
plumb_data_file_is_plain (PlumbDataFile *file)
{
  return file->plain;
}

gssize
plumb_data_file_read_some (PlumbDataFile *file, guint64 offset, gsize length, char *to, GError **error)
{
  gsize done = 0;

  while (done < length)
    {
      gssize n = pread (file->fd, to + done, MIN (length - done, 1 << 30), offset + done);

      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        {
          fail (file->path, "read it", errno, error);
          return -1;
        }
      if (n == 0)
        break;
      done += n;
    }
  return done;
}

gboolean
plumb_data_file_read (PlumbDataFile *file, guint64 offset, gsize length, char *to, GError **error)
{
  gssize n = plumb_data_file_read_some (file, offset, length, to, error);

  if (n < 0 || (gsize)n == length)
    return n >= 0;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "%s: there is no byte %" G_GUINT64_FORMAT " any more: the file was cut while it was in use", file->path,
               offset + n);
  return FALSE;
}

gboolean
plumb_data_file_flush (PlumbDataFile *file, GError **error)
{
  gsize done = 0;

  while (done < file->pending->len)
    {
      gssize n = write (file->fd, file->pending->data + done, file->pending->len - done);

      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return fail (file->path, "unpack it into the cache folder", errno, error);
      done += n;
    }
  g_byte_array_set_size (file->pending, 0);
  return TRUE;
}

gboolean
plumb_data_file_append (PlumbDataFile *file, const char *data, gsize length, GError **error)
{
  if (file->size + length > PLUMB_DATA_FILE_MOST)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: it unfolds to more than %" G_GUINT64_FORMAT " GiB",
                   file->path, PLUMB_DATA_FILE_MOST >> 30);
      return FALSE;
    }
  file->size += length;
  g_byte_array_append (file->pending, (const guint8 *)data, length);
  return file->pending->len < BLOCK || plumb_data_file_flush (file, error);
}

/* --- packed files */

static gboolean
unpack_gzip (PlumbDataFile *from, PlumbDataFile *to, GError **error)
{
  g_autoptr (GZlibDecompressor) zlib = g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP);
  g_autofree char *in = g_malloc (BLOCK), *out = g_malloc (BLOCK);
  guint64 offset = 0;

  for (;;)
    {
      gssize have = plumb_data_file_read_some (from, offset, BLOCK, in, error);
      gboolean last = have < BLOCK;
      gsize at = 0;

      if (have < 0)
        return FALSE;
      while (at < (gsize)have || last)
        {
          gsize read = 0, written = 0;
          g_autoptr (GError) local = NULL;
          GConverterResult result
              = g_converter_convert (G_CONVERTER (zlib), in + at, have - at, out, BLOCK,
                                     last ? G_CONVERTER_INPUT_AT_END : G_CONVERTER_NO_FLAGS, &read, &written, &local);

          at += read;
          if (g_error_matches (local, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT) && !last)
            break;
          if (result == G_CONVERTER_ERROR)
            {
              g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: cannot unpack it: %s", from->path,
                           local->message);
              return FALSE;
            }
          if (!plumb_data_file_append (to, out, written, error))
            return FALSE;
          if (result != G_CONVERTER_FINISHED)
            continue;
          /* Several packed parts may stand one behind the other. */
          if (at == (gsize)have && last)
            return TRUE;
          g_converter_reset (G_CONVERTER (zlib));
          if (at == (gsize)have)
            break;
        }
      offset += have;
      if (last)
        return TRUE;
    }
}

static gboolean
unpack_zstd (PlumbDataFile *from, PlumbDataFile *to, GError **error)
{
  ZSTD_DStream *stream = ZSTD_createDStream ();
  g_autofree char *in = g_malloc (BLOCK), *out = g_malloc (BLOCK);
  guint64 offset = 0;
  gsize left = 0;
  gssize have;
  gboolean fine = TRUE;

  ZSTD_initDStream (stream);
  while (fine && (have = plumb_data_file_read_some (from, offset, BLOCK, in, error)) > 0)
    {
      ZSTD_inBuffer input = { in, have, 0 };
      gboolean full = TRUE;

      while (fine && (input.pos < input.size || full))
        {
          ZSTD_outBuffer output = { out, BLOCK, 0 };

          left = ZSTD_decompressStream (stream, &output, &input);
          full = output.pos == BLOCK;
          fine = !ZSTD_isError (left) && plumb_data_file_append (to, out, output.pos, error);
          if (ZSTD_isError (left))
            g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: cannot unpack it: %s", from->path,
                         ZSTD_getErrorName (left));
        }
      offset += have;
    }
  ZSTD_freeDStream (stream);
  if (fine && have == 0 && left != 0)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: cannot unpack it: it is cut short", from->path);
  return fine && have == 0 && left == 0;
}

static PlumbDataFile *
unpack (PlumbDataFile *from, gboolean (*method) (PlumbDataFile *, PlumbDataFile *, GError **), GError **error)
{
  g_autoptr (PlumbDataFile) to = plumb_data_file_new (from->path, error);

  if (to == NULL || !method (from, to, error) || !plumb_data_file_flush (to, error))
    return NULL;
  to->stamp = from->stamp;
  return g_steal_pointer (&to);
}

PlumbDataFile *
plumb_data_file_open (const char *path, GError **error)
{
  /* A pipe must not block the opening. */
  g_autoptr (PlumbDataFile) file = file_new (path, g_open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0));
  g_autofree char *lower = g_ascii_strdown (path, -1);
  struct stat st;

  if (file->fd < 0 || fstat (file->fd, &st) < 0)
    {
      fail (path, "read it", errno, error);
      return NULL;
    }
  if (!S_ISREG (st.st_mode))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: this is %s, not a file", path,
                   S_ISDIR (st.st_mode) ? "a folder" : "a device or pipe");
      return NULL;
    }
  file->plain = TRUE;
  file->size = st.st_size;
  file->stamp = (PlumbFileStamp){ st.st_size, st.st_mtim.tv_sec * G_GUINT64_CONSTANT (1000000000) + st.st_mtim.tv_nsec,
                                  st.st_ino };
  if (g_str_has_suffix (lower, ".gz"))
    return unpack (file, unpack_gzip, error);
  if (g_str_has_suffix (lower, ".zst"))
    return unpack (file, unpack_zstd, error);
  return g_steal_pointer (&file);
}
