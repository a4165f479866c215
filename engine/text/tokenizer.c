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
  plumb_added_tokens_clear (&tokenizer->added);
  g_array_unref (tokenizer->normalizer);
  g_array_unref (tokenizer->pre_tokenizer);
  plumb_bpe_free (tokenizer->bpe);
  g_array_unref (tokenizer->prefix);
  g_array_unref (tokenizer->suffix);
  g_array_unref (tokenizer->decoder);
  g_hash_table_unref (tokenizer->added_by_id);
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
  guint index
      = GPOINTER_TO_UINT (g_hash_table_lookup (tokenizer->added_by_id, GINT_TO_POINTER (id)));

  return index > 0 ? &g_array_index (tokenizer->added.tokens, PlumbAddedToken, index - 1) : NULL;
}

gint32
plumb_tokenizer_find (PlumbTokenizer *tokenizer, const char *token)
{
  for (guint i = 0; i < tokenizer->added.tokens->len; i++)
    {
      const PlumbAddedToken *added = &g_array_index (tokenizer->added.tokens, PlumbAddedToken, i);

      if (g_str_equal (added->content, token))
        return added->id;
    }
  return plumb_bpe_find (tokenizer->bpe, token);
}

const char *
plumb_tokenizer_token (PlumbTokenizer *tokenizer, gint32 id)
{
  const PlumbAddedToken *added = added_token (tokenizer, id);

  return added != NULL ? added->content : plumb_bpe_token (tokenizer->bpe, id);
}

gboolean
plumb_tokenizer_is_special (PlumbTokenizer *tokenizer, gint32 id)
{
  const PlumbAddedToken *added = added_token (tokenizer, id);

  return added != NULL && added->special;
}

/* A stretch without added tokens, already normalized. */
static gboolean
encode_plain (
    PlumbTokenizer *tokenizer, const char *text, gsize length, GArray *ids, GError **error)
{
  g_autoptr (GPtrArray) pieces = plumb_pre_tokenize (tokenizer->pre_tokenizer, text, length, error);

  if (pieces == NULL)
    return FALSE;
  for (guint i = 0; i < pieces->len; i++)
    {
      const GString *piece = g_ptr_array_index (pieces, i);

      if (!plumb_bpe_encode (tokenizer->bpe, piece->str, piece->len, ids, error))
        return FALSE;
    }
  return TRUE;
}

typedef gboolean (*EncodeRest) (PlumbTokenizer *tokenizer,
                                const char *text,
                                gsize length,
                                gboolean at_start,
                                GArray *ids,
                                GError **error);

/* Takes the added tokens of one kind out of a text and hands what is between them on. */
static gboolean
encode_between (PlumbTokenizer *tokenizer,
                gboolean normalized,
                const char *text,
                gsize length,
                gboolean at_start,
                EncodeRest rest,
                GArray *ids,
                GError **error)
{
  gsize from = 0, start, end;
  const PlumbAddedToken *token;

  while ((token = plumb_added_tokens_find (&tokenizer->added, normalized, text, length, from,
                                           &start, &end))
         != NULL)
    {
      if (start > from
          && !rest (tokenizer, text + from, start - from, at_start && from == 0, ids, error))
        return FALSE;
      g_array_append_val (ids, token->id);
      from = end;
    }
  return from == length
         || rest (tokenizer, text + from, length - from, at_start && from == 0, ids, error);
}

static gboolean
encode_normalized (PlumbTokenizer *tokenizer,
                   const char *text,
                   gsize length,
                   gboolean at_start,
                   GArray *ids,
                   GError **error)
{
  return encode_plain (tokenizer, text, length, ids, error);
}

static gboolean
encode_raw (PlumbTokenizer *tokenizer,
            const char *text,
            gsize length,
            gboolean at_start,
            GArray *ids,
            GError **error)
{
  GString *normal = plumb_normalize (tokenizer->normalizer, text, length, at_start);
  gboolean fine = encode_between (tokenizer, TRUE, normal->str, normal->len, at_start,
                                  encode_normalized, ids, error);

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

gboolean
plumb_tokenizer_encode (PlumbTokenizer *tokenizer,
                        const char *text,
                        gssize length,
                        gboolean add_special,
                        GArray *ids,
                        GError **error)
{
  gsize bytes = length < 0 ? strlen (text) : (gsize)length;
  guint before = ids->len;

  g_return_val_if_fail (g_array_get_element_size (ids) == sizeof (gint32), FALSE);
  if (!check_utf8 (text, bytes, error))
    return FALSE;
  if (add_special)
    g_array_append_vals (ids, tokenizer->prefix->data, tokenizer->prefix->len);
  if (!encode_between (tokenizer, FALSE, text, bytes, TRUE, encode_raw, ids, error))
    {
      g_array_set_size (ids, before);
      return FALSE;
    }
  if (add_special)
    g_array_append_vals (ids, tokenizer->suffix->data, tokenizer->suffix->len);
  return TRUE;
}

static void
string_free (gpointer string)
{
  g_string_free (string, TRUE);
}

char *
plumb_tokenizer_decode_full (PlumbTokenizer *tokenizer,
                             const gint32 *ids,
                             gsize n,
                             gboolean skip_special,
                             gsize *length,
                             GError **error)
{
  g_autoptr (GPtrArray) tokens = g_ptr_array_new_with_free_func (string_free);
  GString *text;

  for (gsize i = 0; i < n; i++)
    {
      const char *token = plumb_tokenizer_token (tokenizer, ids[i]);

      if (token == NULL)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "id %d is not of the vocabulary, which ends at %u", ids[i],
                       tokenizer->vocab_size - 1);
          return NULL;
        }
      if (!skip_special || !plumb_tokenizer_is_special (tokenizer, ids[i]))
        g_ptr_array_add (tokens, g_string_new (token));
    }
  text = plumb_decode (tokenizer->decoder, tokens);
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
