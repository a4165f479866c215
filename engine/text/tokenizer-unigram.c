/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram: of all ways to spell a piece in tokens, the one with the highest sum of scores. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

#define UNKNOWN_PENALTY 10.0 /* an unknown character scores this much below the worst token */

struct _PlumbUnigram
{
  PlumbVocab *vocab; /* the tokenizer's */
  PlumbTrie *trie;
  GArray *scores; /* double, by id; NAN: not found in text */
  double unknown_score;
  gint64 unknown;
  gint32 fallback[256];
  gboolean byte_fallback;
  gboolean narrow; /* sums are float, as SentencePiece has them */
};

PlumbUnigram *
plumb_unigram_new (PlumbVocab *vocab)
{
  PlumbUnigram *unigram = g_new0 (PlumbUnigram, 1);

  unigram->vocab = vocab;
  unigram->trie = plumb_trie_new ();
  unigram->scores = g_array_new (FALSE, FALSE, sizeof (double));
  unigram->unknown = -1;
  return unigram;
}

void
plumb_unigram_free (PlumbUnigram *unigram)
{
  plumb_trie_free (unigram->trie);
  g_array_unref (unigram->scores);
  g_free (unigram);
}

gboolean
plumb_unigram_read_option (PlumbUnigram *unigram,
                           PlumbJsonScan *scan,
                           const char *key,
                           GError **error)
{
  if (g_str_equal (key, "unk_id") && plumb_json_peek (scan) == PLUMB_JSON_NUMBER)
    plumb_json_get_integer (scan, &unigram->unknown);
  else if (g_str_equal (key, "byte_fallback"))
    plumb_json_get_boolean (scan, &unigram->byte_fallback);
  else
    plumb_json_skip (scan);
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

/* [["token", score], ...] */
gboolean
plumb_unigram_read_vocab (PlumbUnigram *unigram, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) token = g_string_new (NULL);
  double least = INFINITY;

  if (!plumb_json_enter_array (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_element (scan))
    {
      g_autofree char *number = NULL;
      const char *text;
      gsize length;
      double score;

      if (!plumb_json_enter_array (scan) || !plumb_json_next_element (scan)
          || !plumb_json_get_string (scan, token) || !plumb_json_next_element (scan)
          || !plumb_json_get_number (scan, &text, &length))
        break;
      number = g_strndup (text, MIN (length, 64));
      score = g_ascii_strtod (number, NULL);
      if (!isfinite (score) || plumb_json_next_element (scan))
        return plumb_tokenizer_invalid (error, "this token has no usable score", token->str);
      if (!plumb_vocab_add (unigram->vocab, token->str, token->len, unigram->scores->len, error))
        return FALSE;
      g_array_append_val (unigram->scores, score);
      least = MIN (least, score);
    }
  unigram->unknown_score = least - UNKNOWN_PENALTY;
  if (scan->message != NULL)
    return plumb_tokenizer_malformed (error, scan);
  return unigram->scores->len == plumb_vocab_count (unigram->vocab)
         || plumb_tokenizer_invalid (error, "a token has no score", token->str);
}

void
plumb_unigram_set_scores (PlumbUnigram *unigram,
                          const float *scores,
                          float least,
                          gint32 unknown,
                          gboolean byte_fallback)
{
  for (guint id = 0; id < plumb_vocab_size (unigram->vocab); id++)
    {
      double score = scores[id];

      g_array_append_val (unigram->scores, score);
    }
  unigram->unknown_score = (float)(least - UNKNOWN_PENALTY);
  unigram->unknown = unknown;
  unigram->byte_fallback = byte_fallback;
  unigram->narrow = TRUE;
}

void
plumb_unigram_set_defined (PlumbUnigram *unigram, gint32 id, float each)
{
  gsize length;

  if (plumb_vocab_token (unigram->vocab, id, &length) != NULL)
    g_array_index (unigram->scores, double, id) = (float)length * each - 0.1;
}

gboolean
plumb_unigram_prepare (PlumbUnigram *unigram, GError **error)
{
  guint size = plumb_vocab_size (unigram->vocab);

  if (size == 0)
    return plumb_tokenizer_invalid (error, "the vocabulary is empty", "model.vocab");
  if (unigram->unknown >= size)
    return plumb_tokenizer_invalid (error, "the id of unknown characters is not of the vocabulary",
                                    "model.unk_id");
  for (guint id = 0; id < size; id++)
    {
      gsize length;
      const char *token = plumb_vocab_token (unigram->vocab, id, &length);

      if (token != NULL && length > 0 && !isnan (g_array_index (unigram->scores, double, id)))
        plumb_trie_add (unigram->trie, token, length, id);
    }
  for (guint i = 0; i < 256; i++)
    {
      char name[8];

      unigram->fallback[i] = plumb_vocab_find (
          unigram->vocab, name, g_snprintf (name, sizeof name, "<0x%02X>", i));
    }
  return TRUE;
}

typedef struct
{
  double score;
  gint64 from; /* -1: not reached */
  gint32 id;   /* -1: an unknown character */
} Best;

static void
offer (const PlumbUnigram *unigram, Best *best, gsize from, gsize to, double score, gint32 id)
{
  double sum = score + best[from].score;

  if (unigram->narrow)
    sum = (float)sum;
  if (best[to].from < 0 || sum > best[to].score)
    best[to] = (Best){ sum, from, id };
}

static void
search (const PlumbUnigram *unigram, const char *piece, gsize length, Best *best)
{
  gsize size;

  for (gsize at = 0; at < length; at += size)
    {
      gboolean alone = FALSE;
      gint32 node = 0;

      size = MIN (plumb_char_size (piece[at]), length - at);
      for (gsize end = at; end < length; end++)
        {
          gint32 id;

          node = plumb_trie_step (unigram->trie, node, piece[end]);
          if (node < 0)
            break;
          id = plumb_trie_value (unigram->trie, node);
          if (id < 0)
            continue;
          offer (unigram, best, at, end + 1, g_array_index (unigram->scores, double, id), id);
          alone = alone || end + 1 - at == size;
        }
      if (!alone)
        offer (unigram, best, at, at + size, unigram->unknown_score, -1);
    }
}

static gboolean
append_unknown (
    PlumbUnigram *unigram, const char *text, gsize length, GArray *ids, GError **error)
{
  gboolean all = unigram->byte_fallback;
  gint32 unknown = unigram->unknown;

  for (gsize i = 0; i < length; i++)
    all = all && unigram->fallback[(guchar)text[i]] >= 0;
  if (!all && unknown < 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "the vocabulary has no token for the character \"%.*s\" and none for unknown"
                   " ones",
                   (int)plumb_char_size (*text), text);
      return FALSE;
    }
  for (gsize i = 0; all && i < length; i++)
    g_array_append_val (ids, unigram->fallback[(guchar)text[i]]);
  if (!all)
    g_array_append_val (ids, unknown);
  return TRUE;
}

/* The ends of the best way, last first, become ids; unknown neighbours are one. */
static gboolean
append_way (PlumbUnigram *unigram,
            const char *piece,
            const Best *best,
            const GArray *ends,
            GArray *ids,
            GError **error)
{
  for (guint i = ends->len; i > 0; i--)
    {
      gsize end = g_array_index (ends, gsize, i - 1), start = best[end].from;

      if (best[end].id >= 0 && best[end].id != unigram->unknown)
        {
          g_array_append_val (ids, best[end].id);
          continue;
        }
      for (; i > 1 && best[g_array_index (ends, gsize, i - 2)].id < 0; i--)
        end = g_array_index (ends, gsize, i - 2);
      if (!append_unknown (unigram, piece + start, end - start, ids, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
plumb_unigram_encode (
    PlumbUnigram *unigram, const char *piece, gsize length, GArray *ids, GError **error)
{
  g_autofree Best *best = g_new (Best, length + 1);
  g_autoptr (GArray) ends = g_array_new (FALSE, FALSE, sizeof (gsize));

  best[0] = (Best){ 0, 0, -1 };
  for (gsize i = 1; i <= length; i++)
    best[i].from = -1;
  search (unigram, piece, length, best);
  for (gsize end = length; end > 0; end = best[end].from)
    g_array_append_val (ends, end);
  return append_way (unigram, piece, best, ends, ids, error);
}
