/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/json-scan.h"

static gboolean
fail_at (PlumbJsonScan *scan, const char *place, const char *message)
{
  if (scan->message == NULL)
    {
      scan->message = message;
      scan->at = place - scan->data;
      scan->next = scan->end;
    }
  return FALSE;
}

static gboolean
fail (PlumbJsonScan *scan, const char *message)
{
  return fail_at (scan, scan->next, scan->next == scan->end ? "the text ends too early" : message);
}

void
plumb_json_scan_init (PlumbJsonScan *scan, const char *data, gsize length)
{
  if (data == NULL)
    data = ""; /* an empty file */
  *scan = (PlumbJsonScan){ .data = data, .end = data + length, .next = data };
}

static void
skip_blanks (PlumbJsonScan *scan)
{
  while (
      scan->next < scan->end
      && (*scan->next == ' ' || *scan->next == '\t' || *scan->next == '\n' || *scan->next == '\r'))
    scan->next++;
}

static gboolean
take (PlumbJsonScan *scan, char c)
{
  skip_blanks (scan);
  if (scan->next == scan->end || *scan->next != c)
    return FALSE;
  scan->next++;
  return TRUE;
}

PlumbJsonType
plumb_json_peek (PlumbJsonScan *scan)
{
  skip_blanks (scan);
  if (scan->next == scan->end)
    return PLUMB_JSON_NOTHING;
  switch (*scan->next)
    {
    case '{':
      return PLUMB_JSON_OBJECT;
    case '[':
      return PLUMB_JSON_ARRAY;
    case '"':
      return PLUMB_JSON_STRING;
    case 't':
    case 'f':
      return PLUMB_JSON_BOOLEAN;
    case 'n':
      return PLUMB_JSON_NULL;
    default:
      return *scan->next == '-' || g_ascii_isdigit (*scan->next) ? PLUMB_JSON_NUMBER
                                                                 : PLUMB_JSON_NOTHING;
    }
}

const char *
plumb_json_type_name (PlumbJsonType type)
{
  static const char *const names[]
      = { "nothing", "an object", "an array", "a string", "a number", "a boolean", "null" };

  return names[type];
}

static gboolean
enter (PlumbJsonScan *scan, char bracket, const char *message)
{
  if (scan->message != NULL)
    return FALSE;
  if (scan->depth == PLUMB_JSON_MAX_DEPTH)
    return fail (scan, "the values are nested too deeply");
  if (!take (scan, bracket))
    return fail (scan, message);
  scan->open[scan->depth++] = 0;
  return TRUE;
}

gboolean
plumb_json_enter_object (PlumbJsonScan *scan)
{
  return enter (scan, '{', "an object is expected here");
}

gboolean
plumb_json_enter_array (PlumbJsonScan *scan)
{
  return enter (scan, '[', "an array is expected here");
}

/* Moves over the comma, or leaves the level at its closing bracket. */
static gboolean
advance (PlumbJsonScan *scan, char bracket)
{
  guint8 *open;

  if (scan->message != NULL)
    return FALSE;
  g_return_val_if_fail (scan->depth > 0, FALSE);
  open = &scan->open[scan->depth - 1];
  if (take (scan, bracket))
    {
      scan->depth--;
      return FALSE;
    }
  if (*open != 0 && !take (scan, ','))
    return fail (scan, "a comma or a closing bracket is expected here");
  *open = 1;
  return TRUE;
}

gboolean
plumb_json_next_element (PlumbJsonScan *scan)
{
  return advance (scan, ']');
}

gboolean
plumb_json_next_member (PlumbJsonScan *scan, GString *key)
{
  if (!advance (scan, '}'))
    return FALSE;
  if (plumb_json_peek (scan) != PLUMB_JSON_STRING)
    return fail (scan, "a key in double quotes is expected here");
  if (!plumb_json_get_string (scan, key))
    return FALSE;
  return take (scan, ':') || fail (scan, "a colon is expected here");
}

static gboolean
read_hex (PlumbJsonScan *scan, gunichar *value)
{
  *value = 0;
  if (scan->end - scan->next < 4)
    return fail_at (scan, scan->end, "the text ends too early");
  for (int i = 0; i < 4; i++, scan->next++)
    {
      int digit = g_ascii_xdigit_value (*scan->next);

      if (digit < 0)
        return fail (scan, "\\u needs four hexadecimal digits");
      *value = *value << 4 | digit;
    }
  return TRUE;
}

static gboolean
read_unicode_escape (PlumbJsonScan *scan, GString *string)
{
  const char *start = scan->next - 2;
  gunichar c, low;

  if (!read_hex (scan, &c))
    return FALSE;
  if (c >= 0xdc00 && c <= 0xdfff)
    return fail_at (scan, start, "a low surrogate stands without a high one");
  if (c >= 0xd800 && c <= 0xdbff)
    {
      if (scan->end - scan->next < 2 || scan->next[0] != '\\' || scan->next[1] != 'u')
        return fail_at (scan, start, "a high surrogate stands without a low one");
      scan->next += 2;
      if (!read_hex (scan, &low))
        return FALSE;
      if (low < 0xdc00 || low > 0xdfff)
        return fail_at (scan, start, "a high surrogate stands without a low one");
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
  if (string != NULL)
    g_string_append_unichar (string, c); /* a NUL too */
  return TRUE;
}

static gboolean
read_escape (PlumbJsonScan *scan, GString *string)
{
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  const char *letter;

  if (scan->next == scan->end)
    return fail (scan, "");
  if (*scan->next == 'u')
    {
      scan->next++;
      return read_unicode_escape (scan, string);
    }
  letter = *scan->next != '\0' ? strchr (letters, *scan->next) : NULL;
  if (letter == NULL)
    return fail (scan, "there is no such escape");
  scan->next++;
  if (string != NULL)
    g_string_append_c (string, meanings[letter - letters]);
  return TRUE;
}

/* Reads from behind the opening quote; `string` may be NULL. */
static gboolean
read_string (PlumbJsonScan *scan, GString *string)
{
  for (;;)
    {
      const char *start = scan->next, *bad;

      while (scan->next < scan->end && *scan->next != '"' && *scan->next != '\\'
             && (guchar)*scan->next >= 0x20)
        scan->next++;
      if (!g_utf8_validate (start, scan->next - start, &bad))
        return fail_at (scan, bad, "this byte is not valid UTF-8");
      if (string != NULL)
        g_string_append_len (string, start, scan->next - start);
      if (scan->next == scan->end)
        return fail (scan, "");
      if ((guchar)*scan->next < 0x20)
        return fail (scan, "a control character stands in a string; write it as an escape");
      if (*scan->next++ == '"')
        return TRUE;
      if (!read_escape (scan, string))
        return FALSE;
    }
}

gboolean
plumb_json_get_string (PlumbJsonScan *scan, GString *string)
{
  if (string != NULL)
    g_string_truncate (string, 0);
  if (scan->message != NULL)
    return FALSE;
  if (!take (scan, '"'))
    return fail (scan, "a string is expected here");
  return read_string (scan, string);
}

static gsize
skip_digits (PlumbJsonScan *scan)
{
  const char *start = scan->next;

  while (scan->next < scan->end && g_ascii_isdigit (*scan->next))
    scan->next++;
  return scan->next - start;
}

gboolean
plumb_json_get_number (PlumbJsonScan *scan, const char **text, gsize *length)
{
  const char *start;

  if (scan->message != NULL)
    return FALSE;
  skip_blanks (scan);
  start = scan->next;
  if (scan->next < scan->end && *scan->next == '-')
    scan->next++;
  if (scan->next + 1 < scan->end && scan->next[0] == '0' && g_ascii_isdigit (scan->next[1]))
    return fail (scan, "a number starts with a needless 0");
  if (skip_digits (scan) == 0)
    return fail (scan, "a number is expected here");
  if (scan->next < scan->end && *scan->next == '.')
    {
      scan->next++;
      if (skip_digits (scan) == 0)
        return fail (scan, "a digit is expected behind the point");
    }
  if (scan->next < scan->end && (*scan->next == 'e' || *scan->next == 'E'))
    {
      scan->next++;
      if (scan->next < scan->end && (*scan->next == '+' || *scan->next == '-'))
        scan->next++;
      if (skip_digits (scan) == 0)
        return fail (scan, "a digit is expected in the exponent");
    }
  if (text != NULL)
    *text = start;
  if (length != NULL)
    *length = scan->next - start;
  return TRUE;
}

gboolean
plumb_json_get_integer (PlumbJsonScan *scan, gint64 *value)
{
  const char *text;
  gsize length;
  char digits[24];

  if (!plumb_json_get_number (scan, &text, &length))
    return FALSE;
  if (length >= sizeof digits || memchr (text, '.', length) != NULL
      || memchr (text, 'e', length) != NULL || memchr (text, 'E', length) != NULL)
    return fail_at (scan, text, "a whole number is expected here");
  memcpy (digits, text, length);
  digits[length] = '\0';
  return g_ascii_string_to_signed (digits, 10, G_MININT64, G_MAXINT64, value, NULL)
         || fail_at (scan, text, "the number is out of range");
}

static gboolean
take_word (PlumbJsonScan *scan, const char *word)
{
  gsize length = strlen (word);

  skip_blanks (scan);
  if ((gsize)(scan->end - scan->next) < length || memcmp (scan->next, word, length) != 0)
    return FALSE;
  scan->next += length;
  return TRUE;
}

gboolean
plumb_json_get_boolean (PlumbJsonScan *scan, gboolean *value)
{
  gboolean is_true;

  if (scan->message != NULL)
    return FALSE;
  is_true = take_word (scan, "true");
  if (!is_true && !take_word (scan, "false"))
    return fail (scan, "true or false is expected here");
  if (value != NULL)
    *value = is_true;
  return TRUE;
}

/* Opens what opens a level, reads what is a leaf. */
static gboolean
skip_one (PlumbJsonScan *scan, guint64 *is_object)
{
  switch (plumb_json_peek (scan))
    {
    case PLUMB_JSON_OBJECT:
      *is_object |= G_GUINT64_CONSTANT (1) << (scan->depth % 64);
      return plumb_json_enter_object (scan);
    case PLUMB_JSON_ARRAY:
      *is_object &= ~(G_GUINT64_CONSTANT (1) << (scan->depth % 64));
      return plumb_json_enter_array (scan);
    case PLUMB_JSON_STRING:
      return plumb_json_get_string (scan, NULL);
    case PLUMB_JSON_NUMBER:
      return plumb_json_get_number (scan, NULL, NULL);
    case PLUMB_JSON_BOOLEAN:
      return plumb_json_get_boolean (scan, NULL);
    case PLUMB_JSON_NULL:
      return take_word (scan, "null") || fail (scan, "a value is expected here");
    case PLUMB_JSON_NOTHING:
      break;
    }
  return fail (scan, "a value is expected here");
}

gboolean
plumb_json_skip (PlumbJsonScan *scan)
{
  guint level = scan->depth;
  guint64 is_object = 0; /* a bit per level */

  if (scan->message != NULL || !skip_one (scan, &is_object))
    return FALSE;
  while (scan->depth > level)
    {
      gboolean object = (is_object >> (scan->depth - 1)) & 1;

      if (object ? plumb_json_next_member (scan, NULL) : plumb_json_next_element (scan))
        skip_one (scan, &is_object);
      if (scan->message != NULL)
        return FALSE;
    }
  return TRUE;
}

gboolean
plumb_json_finish (PlumbJsonScan *scan)
{
  if (scan->message != NULL)
    return FALSE;
  skip_blanks (scan);
  if (scan->next < scan->end)
    return fail (scan, "something follows the value");
  return TRUE;
}
