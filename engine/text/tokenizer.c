/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

PlumbTokenizer *
plumb_tokenizer_ref (PlumbTokenizer *tokenizer)
{
  g_atomic_ref_count_inc (&tokenizer->refs);
  return tokenizer;
}

void
plumb_tokenizer_unref (PlumbTokenizer *tokenizer)
{
  if (!g_atomic_ref_count_dec (&tokenizer->refs))
    return;
  g_free (tokenizer->dir);
  g_free (tokenizer->file);
  plumb_added_tokens_clear (&tokenizer->added);
  g_array_unref (tokenizer->normalizer);
  g_array_unref (tokenizer->pre_tokenizer);
  g_clear_pointer (&tokenizer->bpe, plumb_bpe_free);
  g_clear_pointer (&tokenizer->unigram, plumb_unigram_free);
  plumb_vocab_free (tokenizer->vocab);
  g_array_unref (tokenizer->prefix);
  g_array_unref (tokenizer->suffix);
  g_array_unref (tokenizer->decoder);
  g_array_unref (tokenizer->eos);
  g_free (tokenizer);
}

guint
plumb_tokenizer_vocab_size (PlumbTokenizer *tokenizer)
{
  return tokenizer->vocab_size;
}

gsize
plumb_tokenizer_longest_token (PlumbTokenizer *tokenizer)
{
  return tokenizer->longest;
}

gint32
plumb_tokenizer_bos (PlumbTokenizer *tokenizer)
{
  return tokenizer->bos;
}

const gint32 *
plumb_tokenizer_eos (PlumbTokenizer *tokenizer, gsize *n)
{
  *n = tokenizer->eos->len;
  return (gpointer)tokenizer->eos->data;
}

static const PlumbAddedToken *
added_token (PlumbTokenizer *tokenizer, gint32 id)
{
  const PlumbAddedTokens *added = &tokenizer->added;
  guint index = added->tokens != NULL ? GPOINTER_TO_UINT (g_hash_table_lookup (
                                            added->by_id, GINT_TO_POINTER (id)))
                                      : 0;

  return index > 0 ? &g_array_index (added->tokens, PlumbAddedToken, index - 1) : NULL;
}

gint32
plumb_tokenizer_find (PlumbTokenizer *tokenizer, const char *token)
{
  const GArray *added = tokenizer->added.tokens;

  for (guint i = 0; added != NULL && i < added->len; i++)
    if (g_str_equal (g_array_index (added, PlumbAddedToken, i).content, token))
      return g_array_index (added, PlumbAddedToken, i).id;
  return plumb_vocab_find (tokenizer->vocab, token, strlen (token));
}

const char *
plumb_tokenizer_spelling (PlumbTokenizer *tokenizer, gint32 id, gsize *length, gboolean *added)
{
  const PlumbAddedToken *token = added_token (tokenizer, id);

  *added = token != NULL;
  if (token == NULL)
    return plumb_vocab_token (tokenizer->vocab, id, length);
  *length = token->length;
  return token->content;
}

const char *
plumb_tokenizer_token (PlumbTokenizer *tokenizer, gint32 id)
{
  gboolean added;
  gsize length;

  return plumb_tokenizer_spelling (tokenizer, id, &length, &added);
}

gboolean
plumb_tokenizer_is_special (PlumbTokenizer *tokenizer, gint32 id)
{
  const PlumbAddedToken *added = added_token (tokenizer, id);

  return added != NULL && added->special;
}

gboolean
plumb_tokenizer_rewrites (PlumbTokenizer *tokenizer)
{
  for (guint i = 0; i < tokenizer->normalizer->len; i++)
    {
      const PlumbPreStep *step = &g_array_index (tokenizer->normalizer, PlumbPreStep, i);

      if (step->kind == PRE_SENTENCE && !plumb_sentence_rewrites (step->sentence))
        continue;
      if (step->kind == PRE_UNICODE ? step->mode != G_NORMALIZE_NFC
                                    : step->kind != PRE_PREPEND && step->kind != PRE_VISIBLE
                                          && !(step->kind == PRE_REPLACE && step->regex == NULL))
        return TRUE;
    }
  return FALSE;
}

const char *
plumb_tokenizer_find_control (PlumbTokenizer *tokenizer, const char *text, gssize length, gboolean special)
{
  gsize bytes = length < 0 ? strlen (text) : (gsize)length;

  for (guint normalized = 0; normalized < 2; normalized++)
    {
      PlumbAddedSearch search = { 0 };
      const PlumbAddedToken *token;

      while ((token = plumb_added_tokens_find (&tokenizer->added, normalized, FALSE, text, bytes,
                                               &search))
             != NULL)
        if (special ? token->special : token->control)
          return token->content;
    }
  return NULL;
}

/* --- encoding */

typedef struct
{
  PlumbTokenizer *tokenizer;
  gboolean plain; /* control tokens are text */
  GArray *ids;
} Encoding;

static gboolean
encode_piece (Encoding *e, const char *piece, gsize length, GError **error)
{
  if (e->tokenizer->unigram != NULL)
    return plumb_unigram_encode (e->tokenizer->unigram, piece, length, e->ids, error);
  return plumb_bpe_encode (e->tokenizer->bpe, piece, length, e->ids, error);
}

/* A piece is cut in front of each mark that follows another character. */
static gboolean
encode_words (Encoding *e, const char *piece, gsize length, GError **error)
{
  static const char mark[] = "\xe2\x96\x81";
  gsize start = 0, at = 0;

  while (at < length)
    {
      while (length - at >= 3 && memcmp (piece + at, mark, 3) == 0)
        at += 3;
      while (at < length && !(length - at >= 3 && memcmp (piece + at, mark, 3) == 0))
        at++;
      if (!encode_piece (e, piece + start, at - start, error))
        return FALSE;
      start = at;
    }
  return TRUE;
}

/* A stretch without added tokens, already normalized. */
static gboolean
encode_plain (Encoding *e, const char *text, gsize length, gboolean at_start, GError **error)
{
  g_auto (PlumbPieces) pieces = { 0 };

  if (!plumb_pre_tokenize (e->tokenizer->pre_tokenizer, text, length, at_start, &pieces, error))
    return FALSE;
  for (guint i = 0; i < pieces.spans->len; i++)
    {
      PlumbSpan span = g_array_index (pieces.spans, PlumbSpan, i);
      const char *piece = pieces.text + span.start;

      if (!(e->tokenizer->words ? encode_words (e, piece, span.length, error)
                                : encode_piece (e, piece, span.length, error)))
        return FALSE;
    }
  return TRUE;
}

typedef gboolean (*EncodeRest) (
    Encoding *e, const char *text, gsize length, gboolean at_start, GError **error);

/* Takes the added tokens of one kind out of a text and hands what is between them on. */
static gboolean
encode_between (Encoding *e,
                gboolean normalized,
                const char *text,
                gsize length,
                gboolean at_start,
                EncodeRest rest,
                GError **error)
{
  PlumbAddedSearch search = { 0 };
  const PlumbAddedToken *token;

  while ((token = plumb_added_tokens_find (&e->tokenizer->added, normalized, e->plain, text,
                                           length, &search))
         != NULL)
    {
      if (search.start > search.from
          && !rest (e, text + search.from, search.start - search.from,
                    at_start && search.from == 0, error))
        return FALSE;
      g_array_append_val (e->ids, token->id);
      search.from = search.end;
    }
  return search.from >= length
         || rest (e, text + search.from, length - search.from, at_start && search.from == 0,
                  error);
}

static gboolean
encode_raw (Encoding *e, const char *text, gsize length, gboolean at_start, GError **error)
{
  GString *normal = plumb_normalize (e->tokenizer->normalizer, text, length, at_start);
  gboolean fine;

  if (normal == NULL)
    return encode_between (e, TRUE, text, length, at_start, encode_plain, error);
  fine = encode_between (e, TRUE, normal->str, normal->len, at_start, encode_plain, error);
  g_string_free (normal, TRUE);
  return fine;
}

/* g_utf8_validate_len() refuses NULs, which a text may hold. */
static gboolean
check_utf8 (const char *text, gsize length, GError **error)
{
  const char *next = text, *end = text + length, *bad;

  while (next < end && !g_utf8_validate (next, end - next, &bad))
    {
      if (*bad != '\0')
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "the text is not valid UTF-8 at byte %" G_GSIZE_FORMAT, (gsize)(bad - text));
          return FALSE;
        }
      next = bad + 1;
    }
  return TRUE;
}

static gboolean
encode (Encoding *e, const char *text, gssize length, gboolean add_special, GError **error)
{
  gsize bytes = length < 0 ? strlen (text) : (gsize)length;
  guint before = e->ids->len;

  g_return_val_if_fail (g_array_get_element_size (e->ids) == sizeof (gint32), FALSE);
  if (!check_utf8 (text, bytes, error))
    return FALSE;
  if (add_special)
    g_array_append_vals (e->ids, e->tokenizer->prefix->data, e->tokenizer->prefix->len);
  if (!encode_between (e, FALSE, text, bytes, TRUE, encode_raw, error))
    {
      g_array_set_size (e->ids, before);
      return FALSE;
    }
  if (add_special)
    g_array_append_vals (e->ids, e->tokenizer->suffix->data, e->tokenizer->suffix->len);
  return TRUE;
}

gboolean
plumb_tokenizer_encode (PlumbTokenizer *tokenizer,
                        const char *text,
                        gssize length,
                        gboolean add_special,
                        GArray *ids,
                        GError **error)
{
  Encoding e = { tokenizer, FALSE, ids };

  return encode (&e, text, length, add_special, error);
}

gboolean
plumb_tokenizer_encode_plain (
    PlumbTokenizer *tokenizer, const char *text, gssize length, GArray *ids, GError **error)
{
  Encoding e = { tokenizer, TRUE, ids };

  return encode (&e, text, length, FALSE, error);
}

char *
plumb_tokenizer_decode_full (PlumbTokenizer *tokenizer,
                             const gint32 *ids,
                             gsize n,
                             gboolean skip_special,
                             gsize *length,
                             GError **error)
{
  g_autoptr (PlumbDetokenizer) stream = plumb_detokenizer_new (tokenizer, skip_special);
  GString *text = g_string_sized_new (n * 4);

  for (gsize i = 0; i < n; i++)
    if (!plumb_detokenizer_push (stream, ids[i], text, error))
      {
        g_string_free (text, TRUE);
        return NULL;
      }
  plumb_detokenizer_finish (stream, text);
  *length = text->len;
  return g_string_free (text, FALSE);
}

char *
plumb_tokenizer_decode (
    PlumbTokenizer *tokenizer, const gint32 *ids, gsize n, gboolean skip_special, GError **error)
{
  gsize length;
  g_autofree char *text
      = plumb_tokenizer_decode_full (tokenizer, ids, n, skip_special, &length, error);
  GString *safe;

  if (text == NULL || memchr (text, '\0', length) == NULL)
    return g_steal_pointer (&text);
  safe = g_string_sized_new (length);
  for (gsize i = 0; i < length; i++)
    if (text[i] == '\0')
      g_string_append (safe, "\xef\xbf\xbd");
    else
      g_string_append_c (safe, text[i]);
  return g_string_free (safe, FALSE);
}

/* Tokens of the text before that decide how the next one is spelled: tokenizers of sentences strip a blank at the
 * very start of what they decode. */
#define LOOK_BACK 8

char *
plumb_tokenizer_decode_after (PlumbTokenizer *tokenizer,
                              const gint32 *before,
                              gsize n_before,
                              const gint32 *ids,
                              gsize n,
                              gboolean skip_special,
                              GError **error)
{
  gsize kept = MIN (n_before, LOOK_BACK);
  g_autofree gint32 *both = g_new (gint32, kept + n);
  g_autofree char *start = NULL, *whole = NULL;

  if (kept > 0)
    memcpy (both, before + n_before - kept, kept * sizeof (gint32));
  if (n > 0)
    memcpy (both + kept, ids, n * sizeof (gint32));
  start = plumb_tokenizer_decode (tokenizer, both, kept, skip_special, error);
  if (start == NULL)
    return NULL;
  whole = plumb_tokenizer_decode (tokenizer, both, kept + n, skip_special, error);
  if (whole == NULL)
    return NULL;
  if (g_str_has_prefix (whole, start))
    return g_strdup (whole + strlen (start));
  /* A character that begins before the ids: theirs are decoded alone. */
  return plumb_tokenizer_decode (tokenizer, ids, n, skip_special, error);
}
