/* SPDX-License-Identifier: Apache-2.0 */
/* The splits of GPT-2, cl100k (Llama 3) and Qwen 2, written out: what their regular expressions match,
 * without a regular expression. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/tokenizer-private.h"

typedef struct
{
  const char *text;
  gsize length;
} Text;

/* Class of the character at a place, and its size; OTHER of size 0 at the end. */
static inline PlumbCharClass
look (const Text *text, gsize at, gsize *size)
{
  *size = 0;
  if (at >= text->length)
    return PLUMB_CLASS_OTHER;
  return plumb_char_class (plumb_char_at (text->text + at, size));
}

/* The end of the run of one class that starts at a place, or of `most` characters of it. */
static gsize
run_end (const Text *text, gsize at, PlumbCharClass class, gsize most)
{
  gsize size;

  for (; most > 0 && look (text, at, &size) == class && size > 0; most--)
    at += size;
  return at;
}

/* Bytes of 's 't 're 've 'm 'll 'd at the start, or 0; the long s (U+017F) is an s where case does not
 * matter. */
static gsize
contraction (const Text *text, gboolean any_case)
{
  static const char *const tails[] = { "s", "t", "re", "ve", "m", "ll", "d" };
  const char *tail = text->text + 1;
  gsize room = text->length - 1;

  if (text->length < 2 || text->text[0] != '\'')
    return 0;
  for (gsize i = 0; i < G_N_ELEMENTS (tails); i++)
    {
      gsize size = strlen (tails[i]);

      if (room >= size
          && (any_case ? g_ascii_strncasecmp (tail, tails[i], size)
                       : memcmp (tail, tails[i], size))
                 == 0)
        return 1 + size;
    }
  return any_case && room >= 2 && memcmp (tail, "\xc5\xbf", 2) == 0 ? 3 : 0;
}

/* A run of blanks; the last one is left to the word behind it. */
static gsize
blanks (const Text *text)
{
  gsize end = 0, last = 0, size;

  while (look (text, end, &size) == PLUMB_CLASS_SPACE)
    {
      last = end;
      end += size;
    }
  return end < text->length && last > 0 ? last : end;
}

static gsize
scan_gpt2 (const char *bytes, gsize length)
{
  Text text = { bytes, length };
  gsize start = contraction (&text, FALSE), size;
  PlumbCharClass class;

  if (start > 0)
    return start;
  start = *bytes == ' ';
  class = look (&text, start, &size);
  if (size > 0 && class != PLUMB_CLASS_SPACE)
    return run_end (&text, start, class, G_MAXSIZE);
  return blanks (&text);
}

static gboolean
is_newline (char c)
{
  return c == '\r' || c == '\n';
}

/* Blanks up to the last end of line among them, or 0. */
static gsize
lines (const Text *text)
{
  gsize end = 0, size;

  for (gsize at = 0; look (text, at, &size) == PLUMB_CLASS_SPACE; at += size)
    if (is_newline (text->text[at]))
      end = at + 1;
  return end;
}

static gsize
scan_cl100k (const char *bytes, gsize length, gsize digits)
{
  Text text = { bytes, length };
  gsize end = contraction (&text, TRUE), size, next;
  PlumbCharClass first, second;

  if (end > 0)
    return end;
  first = look (&text, 0, &size);
  if (first == PLUMB_CLASS_LETTER)
    return run_end (&text, 0, PLUMB_CLASS_LETTER, G_MAXSIZE);
  if (first == PLUMB_CLASS_NUMBER)
    return run_end (&text, 0, PLUMB_CLASS_NUMBER, digits);
  second = look (&text, size, &next);
  if (!is_newline (*bytes) && next > 0 && second == PLUMB_CLASS_LETTER)
    return run_end (&text, size, PLUMB_CLASS_LETTER, G_MAXSIZE);
  if (first == PLUMB_CLASS_OTHER || (*bytes == ' ' && next > 0 && second == PLUMB_CLASS_OTHER))
    {
      end = run_end (&text, *bytes == ' ', PLUMB_CLASS_OTHER, G_MAXSIZE);
      while (end < length && is_newline (bytes[end]))
        end++;
      return end;
    }
  end = lines (&text);
  return end > 0 ? end : blanks (&text);
}

static gsize
scan_three_digits (const char *text, gsize length)
{
  return scan_cl100k (text, length, 3);
}

static gsize
scan_one_digit (const char *text, gsize length)
{
  return scan_cl100k (text, length, 1);
}

PlumbScanner
plumb_scanner_find (const char *pattern)
{
  static const struct
  {
    const char *pattern;
    PlumbScanner scanner;
  } known[] = {
    { PLUMB_GPT2_PATTERN, scan_gpt2 },
    { PLUMB_CL100K_PATTERN, scan_three_digits },
    { PLUMB_QWEN2_PATTERN, scan_one_digit },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (known); i++)
    if (g_str_equal (known[i].pattern, pattern))
      return known[i].scanner;
  return NULL;
}
