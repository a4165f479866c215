/* SPDX-License-Identifier: Apache-2.0 */
/* The map of characters that SentencePiece models carry: a double-array prefix tree whose values are offsets
 * of NUL-terminated replacements. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/tokenizer-private.h"

#define LONGEST_KEY 64 /* bytes */

struct _PlumbCharsmap
{
  guint32 *units;
  gsize n_units;
  char *texts; /* a NUL stands at its end */
  gsize n_texts;
};

PlumbCharsmap *
plumb_charsmap_new (const guint8 *bytes, gsize length, GError **error)
{
  PlumbCharsmap *map;
  guint32 size;

  if (length >= 4)
    memcpy (&size, bytes, 4);
  if (length < 4 || GUINT32_FROM_LE (size) > length - 4 || size % 4 != 0 || size == 0)
    {
      plumb_tokenizer_invalid (error, "the sizes of the map of characters do not fit",
                               "precompiled_charsmap");
      return NULL;
    }
  map = g_new0 (PlumbCharsmap, 1);
  size = GUINT32_FROM_LE (size);
  map->n_units = size / 4;
  map->units = g_memdup2 (bytes + 4, size);
  for (gsize i = 0; i < map->n_units; i++)
    map->units[i] = GUINT32_FROM_LE (map->units[i]);
  map->n_texts = length - 4 - size;
  map->texts = g_malloc (map->n_texts + 1);
  memcpy (map->texts, bytes + 4 + size, map->n_texts);
  map->texts[map->n_texts] = '\0';
  return map;
}

void
plumb_charsmap_free (PlumbCharsmap *map)
{
  g_free (map->units);
  g_free (map->texts);
  g_free (map);
}

/* A unit: label in bits 0 to 7, bit 8 says that a value hangs on it, bit 9 widens the offset above it; a value
 * has bit 31. */
static gsize
offset_of (guint32 unit)
{
  return (gsize)(unit >> 10) << (unit >> 6 & 8);
}

/* The replacement of the longest key that the text starts with, or NULL. */
static const char *
find_key (const PlumbCharsmap *map, const char *text, gsize length, gsize *size)
{
  gsize place = offset_of (map->units[0]);
  const char *found = NULL;

  for (gsize i = 0; i < MIN (length, LONGEST_KEY); i++)
    {
      guint32 unit, value;

      place ^= (guchar)text[i];
      if (place >= map->n_units)
        break;
      unit = map->units[place];
      if ((unit & 0x800000ff) != (guchar)text[i])
        break;
      place ^= offset_of (unit);
      if ((unit >> 8 & 1) == 0 || place >= map->n_units)
        continue;
      value = map->units[place] & 0x7fffffff;
      if (value >= map->n_texts)
        continue;
      found = map->texts + value;
      *size = i + 1;
    }
  return found;
}

const char *
plumb_charsmap_find (const PlumbCharsmap *map, const char *text, gsize length, gsize *size)
{
  const char *content = find_key (map, text, length, size);

  return content != NULL && g_utf8_validate (content, -1, NULL)
                 && (*size == length || ((guchar)text[*size] & 0xc0) != 0x80)
             ? content
             : NULL;
}

void
plumb_charsmap_apply (const PlumbCharsmap *map, const char *text, gsize length, GString *out)
{
  gsize size = 0;

  for (gsize at = 0; at < length; at += size)
    {
      const char *content = plumb_charsmap_find (map, text + at, length - at, &size);

      if (content != NULL)
        g_string_append (out, content);
      else
        {
          size = plumb_char_size (text[at]);
          g_string_append_len (out, text + at, size);
        }
    }
}
