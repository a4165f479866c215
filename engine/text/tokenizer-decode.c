/* SPDX-License-Identifier: Apache-2.0 */
/* From the spelling of tokens back to a text. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/tokenizer-private.h"

#define REPLACEMENT "\xef\xbf\xbd"

void
plumb_decode_step_clear (gpointer data)
{
  PlumbDecodeStep *step = data;

  g_free (step->pattern);
  g_free (step->content);
}

static gboolean
read_pattern (PlumbJsonScan *scan, GString *pattern, gboolean *is_string)
{
  g_autoptr (GString) key = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return FALSE;
  while (plumb_json_next_member (scan, key))
    {
      *is_string = g_str_equal (key->str, "String");
      plumb_json_get_string (scan, pattern);
    }
  return scan->message == NULL;
}

/* Metaspace: a mark is a space, and the one in front of the text was put there by the encoder. */
static void
add_metaspace (GArray *steps, const char *mark, gboolean strip)
{
  PlumbDecodeStep replace
      = { .kind = DECODE_REPLACE, .pattern = g_strdup (mark), .content = g_strdup (" ") };
  PlumbDecodeStep fuse = { .kind = DECODE_FUSE };
  PlumbDecodeStep strip_one = { .kind = DECODE_STRIP, .content = g_strdup (" "), .start = 1 };

  g_array_append_val (steps, replace);
  g_array_append_val (steps, fuse);
  if (strip)
    g_array_append_val (steps, strip_one);
  else
    plumb_decode_step_clear (&strip_one);
}

static gboolean
add_step (GArray *steps,
          const char *type,
          GString *pattern,
          GString *content,
          gboolean is_string,
          gint64 start,
          gint64 stop,
          gboolean prefix,
          GError **error)
{
  PlumbDecodeStep step = { 0 };

  if (g_str_equal (type, "Sequence"))
    return TRUE;
  if (g_str_equal (type, "Metaspace"))
    {
      add_metaspace (steps, content->len > 0 ? content->str : "\xe2\x96\x81", prefix);
      return TRUE;
    }
  if (g_str_equal (type, "ByteLevel"))
    step.kind = DECODE_BYTE_LEVEL;
  else if (g_str_equal (type, "ByteFallback"))
    step.kind = DECODE_BYTE_FALLBACK;
  else if (g_str_equal (type, "Fuse"))
    step.kind = DECODE_FUSE;
  else if (g_str_equal (type, "Replace") && is_string && pattern->len > 0)
    step.kind = DECODE_REPLACE;
  else if (g_str_equal (type, "Strip") && content->len > 0 && start >= 0 && stop >= 0)
    step.kind = DECODE_STRIP;
  else
    return plumb_tokenizer_unsupported (error, "decoder", type);
  step.pattern = g_strdup (pattern->str);
  step.content = g_strdup (content->str);
  step.start = MIN (start, G_MAXINT);
  step.stop = MIN (stop, G_MAXINT);
  g_array_append_val (steps, step);
  return TRUE;
}

gboolean
plumb_decoder_read (GArray *steps, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) type = g_string_new (NULL);
  g_autoptr (GString) pattern = g_string_new (NULL);
  g_autoptr (GString) content = g_string_new (NULL);
  g_autoptr (GString) scheme = g_string_new (NULL);
  gboolean is_string = FALSE, prefix = TRUE;
  gint64 start = 0, stop = 0;

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "type"))
      plumb_json_get_string (scan, type);
    else if (g_str_equal (key->str, "decoders"))
      {
        if (!plumb_json_enter_array (scan))
          break;
        while (plumb_json_next_element (scan))
          if (!plumb_decoder_read (steps, scan, error))
            return FALSE;
      }
    else if (g_str_equal (key->str, "pattern"))
      read_pattern (scan, pattern, &is_string);
    else if (g_str_equal (key->str, "content") || g_str_equal (key->str, "replacement"))
      plumb_json_get_string (scan, content);
    else if (g_str_equal (key->str, "prepend_scheme"))
      plumb_json_get_string (scan, scheme);
    else if (g_str_equal (key->str, "add_prefix_space"))
      plumb_json_get_boolean (scan, &prefix);
    else if (g_str_equal (key->str, "start"))
      plumb_json_get_integer (scan, &start);
    else if (g_str_equal (key->str, "stop"))
      plumb_json_get_integer (scan, &stop);
    else
      plumb_json_skip (scan);
  if (scan->message != NULL)
    return plumb_tokenizer_malformed (error, scan);
  if (scheme->len > 0)
    prefix = !g_str_equal (scheme->str, "never");
  return add_step (steps, type->str, pattern, content, is_string, start, stop, prefix, error);
}

/* Appends bytes as UTF-8: one U+FFFD for each longest stretch that starts a character and does not
 * finish it, and for each byte that starts none. */
static void
append_lossy (GString *text, const char *bytes, gsize length)
{
  while (length > 0)
    {
      const char *bad;
      gsize cut;

      /* g_utf8_validate_len() would refuse NULs, which are text here. */
      if (*bytes == '\0')
        {
          g_string_append_c (text, '\0');
          bytes++;
          length--;
          continue;
        }
      if (g_utf8_validate (bytes, length, &bad) || bad > bytes)
        {
          g_string_append_len (text, bytes, bad - bytes);
          length -= bad - bytes;
          bytes = bad;
          continue;
        }
      for (cut = 1; cut < length && cut < 4; cut++)
        if (g_utf8_get_char_validated (bytes, cut + 1) != (gunichar)-2)
          break;
      if (g_utf8_get_char_validated (bytes, 1) != (gunichar)-2)
        cut = 1;
      g_string_append (text, REPLACEMENT);
      bytes += cut;
      length -= cut;
    }
}

static void
replace_in (GString *token, const PlumbDecodeStep *step)
{
  g_string_replace (token, step->pattern, step->content, 0);
}

static void
strip (GString *token, const PlumbDecodeStep *step)
{
  gsize size = strlen (step->content);

  for (guint i = 0;
       i < step->start && token->len >= size && memcmp (token->str, step->content, size) == 0; i++)
    g_string_erase (token, 0, size);
  for (guint i = 0; i < step->stop && token->len >= size
                    && memcmp (token->str + token->len - size, step->content, size) == 0;
       i++)
    g_string_truncate (token, token->len - size);
}

static void
string_free (gpointer string)
{
  g_string_free (string, TRUE);
}

static GPtrArray *
single (GString *text)
{
  GPtrArray *array = g_ptr_array_new_with_free_func (string_free);

  g_ptr_array_add (array, text);
  return array;
}

static GString *
fuse (GPtrArray *tokens)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < tokens->len; i++)
    {
      GString *token = g_ptr_array_index (tokens, i);

      g_string_append_len (text, token->str, token->len);
    }
  return text;
}

/* A token whose characters all stand for bytes is those bytes; another is its own text. */
static void
append_visible (GString *bytes, const GString *token)
{
  gsize before = bytes->len;
  const char *end = token->str + token->len;

  for (const char *c = token->str; c < end; c = g_utf8_next_char (c))
    {
      int byte = plumb_char_to_byte (g_utf8_get_char (c));

      if (byte < 0)
        {
          g_string_truncate (bytes, before);
          g_string_append_len (bytes, token->str, token->len);
          return;
        }
      g_string_append_c (bytes, byte);
    }
}

static GString *
from_visible (GPtrArray *tokens)
{
  g_autoptr (GString) bytes = g_string_new (NULL);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < tokens->len; i++)
    append_visible (bytes, g_ptr_array_index (tokens, i));
  append_lossy (text, bytes->str, bytes->len);
  return text;
}

static int
byte_of (const GString *token)
{
  int high, low;

  if (token->len != 6 || strncmp (token->str, "<0x", 3) != 0 || token->str[5] != '>')
    return -1;
  high = g_ascii_xdigit_value (token->str[3]);
  low = g_ascii_xdigit_value (token->str[4]);
  return high >= 0 && low >= 0 ? high * 16 + low : -1;
}

/* Runs of byte tokens become text. */
static GPtrArray *
byte_fallback (GPtrArray *tokens)
{
  GPtrArray *result = g_ptr_array_new_with_free_func (string_free);
  g_autoptr (GString) run = g_string_new (NULL);

  for (guint i = 0; i <= tokens->len; i++)
    {
      GString *token = i < tokens->len ? g_ptr_array_index (tokens, i) : NULL;
      int byte = token != NULL ? byte_of (token) : -1;

      if (byte >= 0)
        {
          g_string_append_c (run, byte);
          continue;
        }
      if (run->len > 0)
        {
          GString *text = g_string_new (NULL);

          append_lossy (text, run->str, run->len);
          g_ptr_array_add (result, text);
          g_string_truncate (run, 0);
        }
      if (token != NULL)
        g_ptr_array_add (result, g_string_new_len (token->str, token->len));
    }
  return result;
}

static GPtrArray *
apply (const PlumbDecodeStep *step, GPtrArray *tokens)
{
  switch (step->kind)
    {
    case DECODE_FUSE:
      return single (fuse (tokens));
    case DECODE_BYTE_LEVEL:
      return single (from_visible (tokens));
    case DECODE_BYTE_FALLBACK:
      return byte_fallback (tokens);
    case DECODE_REPLACE:
      g_ptr_array_foreach (tokens, (GFunc)replace_in, (gpointer)step);
      break;
    case DECODE_STRIP:
      g_ptr_array_foreach (tokens, (GFunc)strip, (gpointer)step);
      break;
    }
  return g_ptr_array_ref (tokens);
}

GString *
plumb_decode (GArray *steps, GPtrArray *tokens)
{
  g_autoptr (GPtrArray) current = g_ptr_array_ref (tokens);

  for (guint i = 0; i < steps->len; i++)
    {
      GPtrArray *next = apply (&g_array_index (steps, PlumbDecodeStep, i), current);

      g_ptr_array_unref (current);
      current = next;
    }
  return fuse (current);
}
