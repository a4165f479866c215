/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <brotli/decode.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>

#include "engine/text/data-parquet-private.h"

enum
{
  CODEC_NONE = 0,
  CODEC_SNAPPY = 1,
  CODEC_GZIP = 2,
  CODEC_BROTLI = 4,
  CODEC_LZ4 = 5,
  CODEC_ZSTD = 6,
  CODEC_LZ4_RAW = 7,
};

static gboolean
read_length (const guint8 **next, const guint8 *end, guint64 *length)
{
  *length = 0;
  for (guint shift = 0; shift < 35 && *next < end; shift += 7)
    {
      guint8 byte = *(*next)++;

      *length |= (guint64)(byte & 0x7f) << shift;
      if (byte < 0x80)
        return TRUE;
    }
  return FALSE;
}

/* Little-endian number of `n` bytes; the caller knows that they are there. */
static guint32
read_bytes (const guint8 *data, guint n)
{
  guint32 value = 0;

  for (guint i = 0; i < n; i++)
    value |= (guint32)data[i] << (8 * i);
  return value;
}

/* Snappy's raw format: literals and copies of what was written before. */
static gboolean
unpack_snappy (const guint8 *next, gsize n, guint8 *to, gsize room)
{
  const guint8 *end = next + n;
  guint64 whole;
  gsize at = 0;

  if (!read_length (&next, end, &whole) || whole != room)
    return FALSE;
  while (next < end)
    {
      guint8 tag = *next++;
      guint kind = tag & 3, extra = 0;
      guint64 length, back;

      if (kind == 0)
        {
          length = tag >> 2;
          extra = length >= 60 ? length - 59 : 0;
          if ((gsize)(end - next) < extra)
            return FALSE;
          if (extra > 0)
            length = read_bytes (next, extra);
          next += extra;
          length++;
          if (length > (guint64)(end - next) || length > room - at)
            return FALSE;
          memcpy (to + at, next, length);
          next += length;
          at += length;
          continue;
        }
      extra = kind == 1 ? 1 : kind == 2 ? 2 : 4;
      if ((gsize)(end - next) < extra)
        return FALSE;
      length = kind == 1 ? 4 + (tag >> 2 & 7) : 1 + (tag >> 2);
      back = read_bytes (next, extra) | (kind == 1 ? (guint64)(tag >> 5) << 8 : 0);
      next += extra;
      if (back == 0 || back > at || length > room - at)
        return FALSE;
      for (; length > 0; length--, at++)
        to[at] = to[at - back];
    }
  return at == room;
}

static gboolean
unpack_gzip (const guint8 *data, gsize n, guint8 *to, gsize room)
{
  g_autoptr (GZlibDecompressor) zlib = g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP);
  gsize in = 0, out = 0, read, written;
  guint8 spare; /* room for more than there should be */
  GConverterResult result;

  do
    {
      gboolean full = out == room;

      result = g_converter_convert (G_CONVERTER (zlib), data + in, n - in, full ? &spare : to + out,
                                    full ? 1 : room - out, G_CONVERTER_INPUT_AT_END, &read, &written, NULL);
      if (result == G_CONVERTER_ERROR || (full && written > 0))
        return FALSE;
      in += read;
      out += written;
    }
  while (result != G_CONVERTER_FINISHED);
  return out == room;
}

static gboolean
unpack_brotli (const guint8 *data, gsize n, guint8 *to, gsize room)
{
  size_t written = room;

  return BrotliDecoderDecompress (n, data, &written, to) == BROTLI_DECODER_RESULT_SUCCESS && written == room;
}

static gboolean
unpack_lz4_block (const guint8 *data, gsize n, guint8 *to, gsize room)
{
  if (n > G_MAXINT || room > G_MAXINT)
    return FALSE;
  return LZ4_decompress_safe ((const char *)data, (char *)to, (int)n, (int)room) == (int)room;
}

static guint32
read_big_endian (const guint8 *data)
{
  return (guint32)data[0] << 24 | (guint32)data[1] << 16 | (guint32)data[2] << 8 | data[3];
}

/* Blocks as Hadoop frames them: the unpacked and the packed size before each, highest byte first. */
static gboolean
unpack_lz4_hadoop (const guint8 *data, gsize n, guint8 *to, gsize room)
{
  while (n >= 8)
    {
      gsize unpacked = read_big_endian (data), packed = read_big_endian (data + 4);

      if (packed > n - 8 || unpacked > room || !unpack_lz4_block (data + 8, packed, to, unpacked))
        return FALSE;
      data += 8 + packed;
      n -= 8 + packed;
      to += unpacked;
      room -= unpacked;
    }
  return n == 0 && room == 0;
}

const char *
plumb_parquet_unpack (int codec, const guint8 *data, gsize n, guint8 *to, gsize length)
{
  gboolean fine = FALSE;

  switch (codec)
    {
    case CODEC_NONE:
      fine = n == length;
      if (fine && n > 0)
        memcpy (to, data, n);
      break;
    case CODEC_SNAPPY:
      fine = unpack_snappy (data, n, to, length);
      break;
    case CODEC_GZIP:
      fine = unpack_gzip (data, n, to, length);
      break;
    case CODEC_ZSTD:
      fine = ZSTD_decompress (to, length, data, n) == length;
      break;
    case CODEC_BROTLI:
      fine = unpack_brotli (data, n, to, length);
      break;
    case CODEC_LZ4: /* some writers leave the frames away */
      fine = unpack_lz4_hadoop (data, n, to, length) || unpack_lz4_block (data, n, to, length);
      break;
    case CODEC_LZ4_RAW:
      fine = unpack_lz4_block (data, n, to, length);
      break;
    default:
      return "it is packed by a method that is not read (LZO, or one that is newer than this program); write it with"
             " snappy, gzip, brotli, lz4 or zstd";
    }
  return fine ? NULL : "a page cannot be unpacked";
}
