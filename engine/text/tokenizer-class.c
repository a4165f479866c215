/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of characters, and the characters that stand for bytes. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/tokenizer-private.h"

#define TABLE 0x3400 /* characters below are looked up */

static PlumbCharClass
find_class (gunichar c)
{
  switch (g_unichar_type (c))
    {
    case G_UNICODE_LOWERCASE_LETTER:
    case G_UNICODE_MODIFIER_LETTER:
    case G_UNICODE_OTHER_LETTER:
    case G_UNICODE_TITLECASE_LETTER:
    case G_UNICODE_UPPERCASE_LETTER:
      return PLUMB_CLASS_LETTER;
    case G_UNICODE_DECIMAL_NUMBER:
    case G_UNICODE_LETTER_NUMBER:
    case G_UNICODE_OTHER_NUMBER:
      return PLUMB_CLASS_NUMBER;
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
    case G_UNICODE_SPACE_SEPARATOR:
      return PLUMB_CLASS_SPACE;
    case G_UNICODE_CONTROL:
      return (c >= '\t' && c <= '\r') || c == 0x85 ? PLUMB_CLASS_SPACE : PLUMB_CLASS_OTHER;
    default:
      return PLUMB_CLASS_OTHER;
    }
}

static const guint8 *
class_table (void)
{
  static gsize once;
  static guint8 table[TABLE];

  if (g_once_init_enter (&once))
    {
      for (gunichar c = 0; c < TABLE; c++)
        table[c] = find_class (c);
      g_once_init_leave (&once, 1);
    }
  return table;
}

PlumbCharClass
plumb_char_class (gunichar c)
{
  return c < TABLE ? class_table ()[c] : find_class (c);
}

gboolean
plumb_char_is_word (gunichar c)
{
  switch (g_unichar_type (c))
    {
    case G_UNICODE_DECIMAL_NUMBER:
    case G_UNICODE_LETTER_NUMBER:
    case G_UNICODE_CONNECT_PUNCTUATION:
      return TRUE;
    default:
      return plumb_char_class (c) == PLUMB_CLASS_LETTER || g_unichar_ismark (c)
             || (c >= 0x24b6 && c <= 0x24e9) || c == 0x200c || c == 0x200d;
    }
}

gunichar
plumb_char_lower (gunichar c)
{
  if (c >= 0x2160 && c <= 0x216f)
    return c + 16;
  return c >= 0x24b6 && c <= 0x24cf ? c + 26 : g_unichar_tolower (c);
}

gsize
plumb_char_size (char first)
{
  guchar byte = first;

  return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

gunichar
plumb_char_at (const char *text, gsize *size)
{
  *size = plumb_char_size (*text);
  return *size == 1 ? (guchar)*text : g_utf8_get_char (text);
}

/* GPT-2's table: printable bytes stand for themselves, the others for characters from 256 on. */
static gboolean
is_printable (guint byte)
{
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

gunichar
plumb_byte_to_char (guint8 byte)
{
  guint hidden = 0;

  if (is_printable (byte))
    return byte;
  for (guint b = 0; b < byte; b++)
    hidden += !is_printable (b);
  return 256 + hidden;
}

int
plumb_char_to_byte (gunichar c)
{
  static gsize once;
  static gint16 bytes[512];

  if (g_once_init_enter (&once))
    {
      memset (bytes, -1, sizeof bytes);
      for (guint b = 0; b < 256; b++)
        bytes[plumb_byte_to_char (b)] = b;
      g_once_init_leave (&once, 1);
    }
  return c < G_N_ELEMENTS (bytes) ? bytes[c] : -1;
}

gboolean
plumb_append_visible (GString *bytes, const char *spelling, gsize length)
{
  gsize before = bytes->len, size;

  for (gsize at = 0; at < length; at += size)
    {
      int byte = plumb_char_to_byte (plumb_char_at (spelling + at, &size));

      if (byte < 0)
        {
          g_string_truncate (bytes, before);
          return FALSE;
        }
      g_string_append_c (bytes, byte);
    }
  return TRUE;
}
