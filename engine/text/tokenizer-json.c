/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json: the parts of a tokenizer as Hugging Face spells them. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

/* The model object is gone through several times: its type decides how its vocabulary is read, and merges need
 * the vocabulary, which may stand behind them. */
static void
scan_at (PlumbJsonScan *scan, const PlumbJsonScan *whole, const char *at)
{
  plumb_json_scan_init (scan, whole->data, whole->end - whole->data);
  scan->next = at;
}

typedef struct
{
  const char *vocab, *merges;
  gboolean unigram;
} Model;

static gboolean
find_parts (Model *model, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) type = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    {
      if (g_str_equal (key->str, "type"))
        {
          plumb_json_get_string (scan, type);
          continue;
        }
      if (g_str_equal (key->str, "vocab"))
        {
          plumb_json_peek (scan);
          model->vocab = scan->next;
          model->unigram = plumb_json_peek (scan) == PLUMB_JSON_ARRAY;
        }
      else if (g_str_equal (key->str, "merges"))
        model->merges = scan->next;
      plumb_json_skip (scan);
    }
  if (scan->message != NULL)
    return plumb_tokenizer_malformed (error, scan);
  if (type->len > 0 && !g_str_equal (type->str, model->unigram ? "Unigram" : "BPE"))
    return plumb_tokenizer_unsupported (error, "tokenizer model", type->str);
  if (model->vocab == NULL)
    return plumb_tokenizer_invalid (error, "the vocabulary is empty", "model.vocab");
  return TRUE;
}

static gboolean
read_options (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  gboolean fine = TRUE;

  plumb_json_enter_object (scan);
  while (fine && plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "type") || g_str_equal (key->str, "vocab")
        || g_str_equal (key->str, "merges"))
      plumb_json_skip (scan);
    else if (tokenizer->bpe != NULL)
      fine = plumb_bpe_read_option (tokenizer->bpe, scan, key->str, error);
    else
      fine = plumb_unigram_read_option (tokenizer->unigram, scan, key->str, error);
  return fine;
}

static gboolean
read_model (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, GError **error)
{
  Model model = { NULL };
  PlumbJsonScan again;
  const char *start = scan->next;

  if (tokenizer->bpe != NULL || tokenizer->unigram != NULL)
    return plumb_tokenizer_invalid (error, "it is there twice", "model");
  if (!find_parts (&model, scan, error))
    return FALSE;
  if (model.unigram)
    tokenizer->unigram = plumb_unigram_new (tokenizer->vocab);
  else
    tokenizer->bpe = plumb_bpe_new (tokenizer->vocab);
  scan_at (&again, scan, model.vocab);
  if (model.unigram ? !plumb_unigram_read_vocab (tokenizer->unigram, &again, error)
                    : !plumb_vocab_read (tokenizer->vocab, &again, error))
    return FALSE;
  scan_at (&again, scan, start);
  if (!read_options (tokenizer, &again, error))
    return FALSE;
  if (model.merges == NULL || model.unigram)
    return TRUE;
  scan_at (&again, scan, model.merges);
  return plumb_bpe_read_merges (tokenizer->bpe, &again, error);
}

static gboolean
read_member (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, const char *key, GError **error)
{
  if (g_str_equal (key, "added_tokens"))
    return plumb_json_peek (scan) == PLUMB_JSON_NULL ? plumb_json_skip (scan)
           : plumb_added_tokens_read (&tokenizer->added, scan)
               || plumb_tokenizer_malformed (error, scan);
  if (g_str_equal (key, "normalizer"))
    return plumb_normalizer_read (tokenizer->normalizer, scan, error);
  if (g_str_equal (key, "pre_tokenizer"))
    return plumb_pre_tokenizer_read (tokenizer->pre_tokenizer, scan, error);
  if (g_str_equal (key, "post_processor"))
    return plumb_post_processor_read (tokenizer, scan, error);
  if (g_str_equal (key, "decoder"))
    return plumb_decoder_read (tokenizer->decoder, scan, error);
  if (g_str_equal (key, "model"))
    return read_model (tokenizer, scan, error);
  plumb_json_skip (scan);
  return TRUE;
}

gboolean
plumb_tokenizer_read_json (PlumbTokenizer *tokenizer, GBytes *bytes, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  PlumbJsonScan scan;

  plumb_json_scan_init (&scan, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  if (!plumb_json_enter_object (&scan))
    return plumb_tokenizer_malformed (error, &scan);
  while (plumb_json_next_member (&scan, key))
    if (!read_member (tokenizer, &scan, key->str, error))
      return FALSE;
  if (!plumb_json_finish (&scan))
    return plumb_tokenizer_malformed (error, &scan);
  if (tokenizer->bpe == NULL && tokenizer->unigram == NULL)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "it has no \"model\"");
      return FALSE;
    }
  return TRUE;
}
