/* SPDX-License-Identifier: Apache-2.0 */
/* From the spelling of tokens back to a text. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
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

void
plumb_decoder_add_metaspace (GArray *steps, const char *mark, gboolean strip)
{
  PlumbDecodeStep replace
      = { .kind = DECODE_REPLACE, .pattern = g_strdup (mark), .content = g_strdup (" ") };
  PlumbDecodeStep fuse = { .kind = DECODE_FUSE };
  PlumbDecodeStep strip_one = { .kind = DECODE_STRIP, .start = 1 };

  g_array_append_val (steps, replace);
  g_array_append_val (steps, fuse);
  if (!strip)
    return;
  strip_one.content = g_strdup (" ");
  g_array_append_val (steps, strip_one);
}

/* What a decoder object says. */
typedef struct
{
  GString *type, *pattern, *content, *scheme;
  gboolean is_string, prefix;
  gint64 start, stop;
} Options;

static gboolean
add_step (GArray *steps, const Options *options, GError **error)
{
  const char *type = options->type->str;
  PlumbDecodeStep step = { 0 };

  if (g_str_equal (type, "Sequence"))
    return TRUE;
  if (g_str_equal (type, "Metaspace"))
    {
      plumb_decoder_add_metaspace (
          steps, options->content->len > 0 ? options->content->str : "\xe2\x96\x81",
          options->scheme->len > 0 ? !g_str_equal (options->scheme->str, "never")
                                   : options->prefix);
      return TRUE;
    }
  if (g_str_equal (type, "ByteLevel"))
    step.kind = DECODE_BYTE_LEVEL;
  else if (g_str_equal (type, "ByteFallback"))
    step.kind = DECODE_BYTE_FALLBACK;
  else if (g_str_equal (type, "Fuse"))
    step.kind = DECODE_FUSE;
  else if (g_str_equal (type, "Replace") && options->is_string && options->pattern->len > 0)
    step.kind = DECODE_REPLACE;
  else if (g_str_equal (type, "Strip") && g_utf8_strlen (options->content->str, -1) == 1
           && options->start >= 0 && options->stop >= 0)
    step.kind = DECODE_STRIP;
  else
    return plumb_tokenizer_unsupported (error, "decoder", type);
  step.pattern = g_strdup (options->pattern->str);
  step.content = g_strdup (options->content->str);
  step.start = MIN (options->start, G_MAXINT);
  step.stop = MIN (options->stop, G_MAXINT);
  g_array_append_val (steps, step);
  return TRUE;
}

static gboolean
read_options (GArray *steps, PlumbJsonScan *scan, Options *options, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "type"))
      plumb_json_get_string (scan, options->type);
    else if (g_str_equal (key->str, "decoders"))
      {
        if (!plumb_json_enter_array (scan))
          break;
        while (plumb_json_next_element (scan))
          if (!plumb_decoder_read (steps, scan, error))
            return FALSE;
      }
    else if (g_str_equal (key->str, "pattern"))
      read_pattern (scan, options->pattern, &options->is_string);
    else if (g_str_equal (key->str, "content") || g_str_equal (key->str, "replacement"))
      plumb_json_get_string (scan, options->content);
    else if (g_str_equal (key->str, "prepend_scheme"))
      plumb_json_get_string (scan, options->scheme);
    else if (g_str_equal (key->str, "add_prefix_space"))
      plumb_json_get_boolean (scan, &options->prefix);
    else if (g_str_equal (key->str, "start"))
      plumb_json_get_integer (scan, &options->start);
    else if (g_str_equal (key->str, "stop"))
      plumb_json_get_integer (scan, &options->stop);
    else
      plumb_json_skip (scan);
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

gboolean
plumb_decoder_read (GArray *steps, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) type = g_string_new (NULL);
  g_autoptr (GString) pattern = g_string_new (NULL);
  g_autoptr (GString) content = g_string_new (NULL);
  g_autoptr (GString) scheme = g_string_new (NULL);
  Options options = { type, pattern, content, scheme, .prefix = TRUE };

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  return read_options (steps, scan, &options, error) && add_step (steps, &options, error);
}

/* --- a stream of ids becomes a stream of text; a whole text is a stream that ends */

struct _PlumbDetokenizer
{
  PlumbTokenizer *tokenizer;
  gboolean skip_special;
  GString *bytes; /* an incomplete character, at most 3 bytes between two ids */
  GString *token; /* the spelling at work */
  GString *held;  /* text that a step on the whole text needs to its end */
  guint first_whole; /* index of the first step on the whole text */
  guint strips;      /* characters that may yet be stripped from the start */
  const char *strip;
  gboolean holds;
  gboolean sentence; /* as SentencePiece decodes */
  guint marks;       /* that may yet vanish from the start */
};

static gboolean
has_step (const PlumbTokenizer *tokenizer, PlumbDecodeKind kind)
{
  for (guint i = 0; i < tokenizer->decoder->len; i++)
    if (g_array_index (tokenizer->decoder, PlumbDecodeStep, i).kind == kind)
      return TRUE;
  return FALSE;
}

PlumbDetokenizer *
plumb_detokenizer_new (PlumbTokenizer *tokenizer, gboolean skip_special)
{
  PlumbDetokenizer *d = g_new0 (PlumbDetokenizer, 1);
  const GArray *steps = tokenizer->decoder;

  d->tokenizer = plumb_tokenizer_ref (tokenizer);
  d->skip_special = skip_special;
  d->bytes = g_string_new (NULL);
  d->token = g_string_new (NULL);
  d->held = g_string_new (NULL);
  while (d->first_whole < steps->len
         && g_array_index (steps, PlumbDecodeStep, d->first_whole).kind != DECODE_FUSE)
    d->first_whole++;
  for (guint i = 0; i < d->first_whole; i++)
    if (g_array_index (steps, PlumbDecodeStep, i).kind == DECODE_SENTENCE)
      {
        d->sentence = TRUE;
        d->marks = g_array_index (steps, PlumbDecodeStep, i).start;
      }
  for (guint i = d->first_whole; i < steps->len; i++)
    {
      const PlumbDecodeStep *step = &g_array_index (steps, PlumbDecodeStep, i);

      if (step->kind == DECODE_STRIP && step->stop == 0 && d->strip == NULL && !d->holds)
        {
          d->strip = step->content;
          d->strips = step->start;
        }
      else if (step->kind != DECODE_FUSE)
        d->holds = TRUE;
    }
  return d;
}

void
plumb_detokenizer_free (PlumbDetokenizer *d)
{
  plumb_tokenizer_unref (d->tokenizer);
  g_string_free (d->bytes, TRUE);
  g_string_free (d->token, TRUE);
  g_string_free (d->held, TRUE);
  g_free (d);
}

/* Bytes at the start of which nothing is known to be wrong, but which end within a character. */
static gboolean
is_incomplete (const char *bytes, gsize length)
{
  return length < 4 && *bytes != '\0'
         && g_utf8_get_char_validated (bytes, length) == (gunichar)-2;
}

/* Moves what is complete from `bytes` to `text`: one U+FFFD for each longest stretch that starts a
 * character and does not finish it, and for each byte that starts none; or one for each byte that is of no character. `all`:
 * nothing more comes. */
static void
drain (GString *bytes, gboolean each, gboolean all, GString *text)
{
  const char *next = bytes->str, *end = bytes->str + bytes->len, *bad;

  while (next < end)
    {
      gsize cut = 1;

      if (*next == '\0')
        {
          g_string_append_c (text, '\0');
          next++;
          continue;
        }
      if (g_utf8_validate (next, end - next, &bad) || bad > next)
        {
          g_string_append_len (text, next, bad - next);
          next = bad;
          continue;
        }
      if (!all && is_incomplete (next, end - next))
        break;
      while (!each && next + cut < end && is_incomplete (next, cut + 1))
        cut++;
      g_string_append (text, REPLACEMENT);
      next += cut;
    }
  g_string_erase (bytes, 0, next - bytes->str);
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
apply (const PlumbDecodeStep *step, GString *text)
{
  if (step->kind == DECODE_REPLACE)
    g_string_replace (text, step->pattern, step->content, 0);
  else if (step->kind == DECODE_STRIP)
    strip (text, step);
}

static int
byte_of (const char *token, gsize length)
{
  int high, low;

  if (length != 6 || strncmp (token, "<0x", 3) != 0 || token[5] != '>')
    return -1;
  high = g_ascii_xdigit_value (token[3]);
  low = g_ascii_xdigit_value (token[4]);
  return high >= 0 && low >= 0 ? high * 16 + low : -1;
}

/* A token as SentencePiece spells it: while there is no text yet, the mark that it starts with vanishes. */
static void
drop_mark (PlumbDetokenizer *d, const char **token, gsize *length)
{
  static const char mark[] = "\xe2\x96\x81";

  if (d->bytes->len > 0)
    d->marks = 0;
  if (d->marks == 0 || *length < 3 || memcmp (*token, mark, 3) != 0)
    return;
  *token += 3;
  *length -= 3;
  d->marks -= d->marks < G_MAXUINT;
}

/* The bytes that a token of the vocabulary stands for. */
static void
append_token (PlumbDetokenizer *d, const char *token, gsize length)
{
  const GArray *steps = d->tokenizer->decoder;
  int byte = byte_of (token, length);

  if (byte >= 0 && has_step (d->tokenizer, DECODE_BYTE_FALLBACK))
    {
      g_string_append_c (d->bytes, byte);
      return;
    }
  if (d->tokenizer->raw)
    {
      g_string_append_len (d->bytes, token, length);
      return;
    }
  if (has_step (d->tokenizer, DECODE_BYTE_LEVEL))
    {
      if (!plumb_append_visible (d->bytes, token, length))
        g_string_append_len (d->bytes, token, length);
      return;
    }
  drop_mark (d, &token, &length);
  g_string_truncate (d->token, 0);
  g_string_append_len (d->token, token, length);
  for (guint i = 0; i < d->first_whole; i++)
    apply (&g_array_index (steps, PlumbDecodeStep, i), d->token);
  g_string_append_len (d->bytes, d->token->str, d->token->len);
}

/* What the steps on the whole text do to what comes now at its end. */
static void
finish_text (PlumbDetokenizer *d, gsize before, gboolean all, GString *text)
{
  gsize size = d->strip != NULL ? strlen (d->strip) : 0;
  const GArray *steps = d->tokenizer->decoder;

  if (d->holds)
    {
      g_string_append_len (d->held, text->str + before, text->len - before);
      g_string_truncate (text, before);
      for (guint i = d->first_whole; all && i < steps->len; i++)
        apply (&g_array_index (steps, PlumbDecodeStep, i), d->held);
      if (all)
        g_string_append_len (text, d->held->str, d->held->len);
      return;
    }
  while (d->strips > 0 && text->len > before)
    if (text->len - before >= size && memcmp (text->str + before, d->strip, size) == 0)
      {
        g_string_erase (text, before, size);
        d->strips--;
      }
    else
      d->strips = 0;
}

gboolean
plumb_detokenizer_push (PlumbDetokenizer *d, gint32 id, GString *text, GError **error)
{
  gboolean added = FALSE;
  gsize length, before = text->len;
  const char *token = plumb_tokenizer_spelling (d->tokenizer, id, &length, &added);

  if (token == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "id %d is not of the vocabulary, which ends at %u", id,
                   d->tokenizer->vocab_size - 1);
      return FALSE;
    }
  if (d->skip_special && plumb_tokenizer_is_special (d->tokenizer, id))
    return TRUE;
  /* An added token is its own text, but it may be of the vocabulary, with a mark for a blank. */
  if (added && (d->tokenizer->raw || has_step (d->tokenizer, DECODE_BYTE_LEVEL)))
    g_string_append_len (d->bytes, token, length);
  else
    append_token (d, token, length);
  drain (d->bytes, d->sentence, FALSE, text);
  if (text->len > before)
    d->marks = 0;
  finish_text (d, before, FALSE, text);
  return TRUE;
}

void
plumb_detokenizer_finish (PlumbDetokenizer *d, GString *text)
{
  gsize before = text->len;

  drain (d->bytes, d->sentence, TRUE, text);
  finish_text (d, before, TRUE, text);
}
