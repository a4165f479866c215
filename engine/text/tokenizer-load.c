/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of a tokenizer. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/text-file.h"
#include "engine/text/tokenizer-private.h"

#define MOST_TEMPLATE_IDS 256

gboolean
plumb_tokenizer_unsupported (GError **error, const char *what, const char *name)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "the %s \"%s\" is not supported; tokenizers of BPE kind, byte-level or with byte"
               " fallback, are",
               what, name != NULL ? name : "without a type");
  return FALSE;
}

gboolean
plumb_tokenizer_malformed (GError **error, PlumbJsonScan *scan)
{
  guint line = 1;

  for (const char *c = scan->data; c < scan->data + scan->at; c++)
    line += *c == '\n';
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "line %u, byte %" G_GSIZE_FORMAT ": %s",
               line, scan->at, scan->message);
  return FALSE;
}

static PlumbTokenizer *
tokenizer_new (const char *dir)
{
  PlumbTokenizer *tokenizer = g_new0 (PlumbTokenizer, 1);

  g_atomic_ref_count_init (&tokenizer->refs);
  tokenizer->dir = g_strdup (dir);
  tokenizer->added.tokens = g_array_new (FALSE, FALSE, sizeof (PlumbAddedToken));
  tokenizer->normalizer = g_array_new (FALSE, FALSE, sizeof (PlumbPreStep));
  g_array_set_clear_func (tokenizer->normalizer, plumb_pre_step_clear);
  tokenizer->pre_tokenizer = g_array_new (FALSE, FALSE, sizeof (PlumbPreStep));
  g_array_set_clear_func (tokenizer->pre_tokenizer, plumb_pre_step_clear);
  tokenizer->bpe = plumb_bpe_new ();
  tokenizer->prefix = g_array_new (FALSE, FALSE, sizeof (gint32));
  tokenizer->suffix = g_array_new (FALSE, FALSE, sizeof (gint32));
  tokenizer->decoder = g_array_new (FALSE, FALSE, sizeof (PlumbDecodeStep));
  g_array_set_clear_func (tokenizer->decoder, plumb_decode_step_clear);
  tokenizer->added_by_id = g_hash_table_new (NULL, NULL);
  tokenizer->bos = -1;
  tokenizer->eos = g_array_new (FALSE, FALSE, sizeof (gint32));
  return tokenizer;
}

/* --- the template: what stands before and after a text */

typedef struct
{
  GPtrArray *names; /* of special tokens in order; NULL stands for the text */
  GHashTable *ids;  /* name -> GArray of gint32 */
} Template;

static gboolean
read_template_ids (Template *template, PlumbJsonScan *scan)
{
  g_autoptr (GString) name = g_string_new (NULL);
  g_autoptr (GString) key = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return FALSE;
  while (plumb_json_next_member (scan, name))
    {
      GArray *ids = g_array_new (FALSE, FALSE, sizeof (gint32));

      g_hash_table_replace (template->ids, g_strdup (name->str), ids);
      if (!plumb_json_enter_object (scan))
        return FALSE;
      while (plumb_json_next_member (scan, key))
        if (!g_str_equal (key->str, "ids"))
          plumb_json_skip (scan);
        else if (plumb_json_enter_array (scan))
          while (plumb_json_next_element (scan))
            {
              gint64 value = 0;
              gint32 id;

              plumb_json_get_integer (scan, &value);
              id = CLAMP (value, -1, G_MAXINT32);
              g_array_append_val (ids, id);
            }
    }
  return scan->message == NULL;
}

/* [{"SpecialToken": {"id": ...}}, {"Sequence": {...}}] */
static gboolean
read_template_single (Template *template, PlumbJsonScan *scan)
{
  g_autoptr (GString) kind = g_string_new (NULL);
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) id = g_string_new (NULL);

  if (!plumb_json_enter_array (scan))
    return FALSE;
  while (plumb_json_next_element (scan))
    {
      if (!plumb_json_enter_object (scan))
        return FALSE;
      while (plumb_json_next_member (scan, kind))
        {
          if (!plumb_json_enter_object (scan))
            return FALSE;
          while (plumb_json_next_member (scan, key))
            if (g_str_equal (key->str, "id"))
              plumb_json_get_string (scan, id);
            else
              plumb_json_skip (scan);
          g_ptr_array_add (template->names,
                           g_str_equal (kind->str, "Sequence") ? NULL : g_strdup (id->str));
        }
    }
  return scan->message == NULL;
}

static gboolean
apply_template (PlumbTokenizer *tokenizer, const Template *template, GError **error)
{
  GArray *side = tokenizer->prefix;

  for (guint i = 0; i < template->names->len; i++)
    {
      const char *name = g_ptr_array_index (template->names, i);
      GArray *ids = name != NULL ? g_hash_table_lookup (template->ids, name) : NULL;

      if (name == NULL)
        side = tokenizer->suffix;
      else if (ids == NULL || side->len + ids->len > MOST_TEMPLATE_IDS)
        return plumb_tokenizer_unsupported (error, "template token without ids", name);
      else
        g_array_append_vals (side, ids->data, ids->len);
    }
  return TRUE;
}

static gboolean
read_post_processor (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) type = g_string_new (NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GHashTable) ids
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_array_unref);
  Template template = { names, ids };

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "type"))
      plumb_json_get_string (scan, type);
    else if (g_str_equal (key->str, "single"))
      read_template_single (&template, scan);
    else if (g_str_equal (key->str, "special_tokens")
             && plumb_json_peek (scan) == PLUMB_JSON_OBJECT)
      read_template_ids (&template, scan);
    else if (g_str_equal (key->str, "processors"))
      {
        if (!plumb_json_enter_array (scan))
          break;
        while (plumb_json_next_element (scan))
          if (!read_post_processor (tokenizer, scan, error))
            return FALSE;
      }
    else
      plumb_json_skip (scan);
  if (scan->message != NULL)
    return plumb_tokenizer_malformed (error, scan);
  if (g_str_equal (type->str, "TemplateProcessing"))
    return apply_template (tokenizer, &template, error);
  if (g_str_equal (type->str, "ByteLevel") || g_str_equal (type->str, "Sequence"))
    return TRUE; /* ByteLevel only moves offsets, which nobody asks for here */
  return plumb_tokenizer_unsupported (error, "post-processor", type->str);
}

/* --- the whole file */

static gboolean
read_tokenizer (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  gboolean fine = TRUE, has_model = FALSE;

  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (fine && plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "added_tokens"))
      fine = plumb_added_tokens_read (&tokenizer->added, scan)
             || plumb_tokenizer_malformed (error, scan);
    else if (g_str_equal (key->str, "normalizer"))
      fine = plumb_normalizer_read (tokenizer->normalizer, scan, error);
    else if (g_str_equal (key->str, "pre_tokenizer"))
      fine = plumb_pre_tokenizer_read (tokenizer->pre_tokenizer, scan, error);
    else if (g_str_equal (key->str, "post_processor"))
      fine = read_post_processor (tokenizer, scan, error);
    else if (g_str_equal (key->str, "decoder"))
      fine = plumb_decoder_read (tokenizer->decoder, scan, error);
    else if (g_str_equal (key->str, "model"))
      {
        has_model = TRUE;
        fine = plumb_bpe_read (tokenizer->bpe, scan, error);
      }
    else
      plumb_json_skip (scan);
  if (!fine)
    return FALSE;
  if (!plumb_json_finish (scan))
    return plumb_tokenizer_malformed (error, scan);
  if (!has_model)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "it has no \"model\"");
      return FALSE;
    }
  return TRUE;
}

/* GPT-2's two files: a vocabulary, and merges of one line each. */
static gboolean
read_two_files (PlumbTokenizer *tokenizer,
                const char *vocab_path,
                const char *merges_path,
                GError **error)
{
  g_autoptr (GBytes) vocab = plumb_text_file_read (vocab_path, error);
  g_autoptr (GBytes) merges = vocab != NULL ? plumb_text_file_read (merges_path, error) : NULL;
  g_auto (GStrv) lines = NULL;
  g_autofree char *text = NULL;
  PlumbPreStep pre = plumb_pre_step_gpt2 ();
  PlumbDecodeStep decode = { .kind = DECODE_BYTE_LEVEL };
  PlumbJsonScan scan;

  g_array_append_val (tokenizer->pre_tokenizer, pre);
  g_array_append_val (tokenizer->decoder, decode);
  if (merges == NULL)
    return FALSE;
  plumb_json_scan_init (&scan, g_bytes_get_data (vocab, NULL), g_bytes_get_size (vocab));
  if (!plumb_bpe_read_vocab (tokenizer->bpe, &scan, error))
    return FALSE;
  text = g_strndup (g_bytes_get_data (merges, NULL), g_bytes_get_size (merges));
  lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; lines[i] != NULL; i++)
    {
      char *blank = strchr (g_strchomp (lines[i]), ' ');

      if ((i == 0 && g_str_has_prefix (lines[i], "#version")) || blank == NULL)
        continue;
      *blank = '\0';
      if (!plumb_bpe_add_merge (tokenizer->bpe, lines[i], blank + 1, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
prepare (PlumbTokenizer *tokenizer, GError **error)
{
  GArray *tokens = tokenizer->added.tokens;

  plumb_added_tokens_prepare (&tokenizer->added);
  if (!plumb_bpe_prepare (tokenizer->bpe, error))
    return FALSE;
  tokenizer->vocab_size = plumb_bpe_size (tokenizer->bpe);
  tokenizer->longest = 1;
  for (guint i = 0; i < tokens->len; i++)
    {
      const PlumbAddedToken *token = &g_array_index (tokens, PlumbAddedToken, i);

      g_hash_table_insert (tokenizer->added_by_id, GINT_TO_POINTER (token->id),
                           GUINT_TO_POINTER (i + 1));
      tokenizer->vocab_size = MAX (tokenizer->vocab_size, (guint)token->id + 1);
      tokenizer->longest = MAX (tokenizer->longest, token->length);
    }
  for (guint id = 0; id < plumb_bpe_size (tokenizer->bpe); id++)
    {
      const char *token = plumb_bpe_token (tokenizer->bpe, id);

      if (token != NULL)
        tokenizer->longest = MAX (tokenizer->longest, strlen (token));
    }
  return TRUE;
}

PlumbTokenizer *
plumb_tokenizer_load (const char *dir, GError **error)
{
  g_autoptr (PlumbTokenizer) tokenizer = tokenizer_new (dir);
  g_autofree char *path = plumb_text_file_find (dir, "tokenizer.json");
  g_autofree char *vocab = plumb_text_file_find (dir, "vocab.json");
  g_autofree char *merges = plumb_text_file_find (dir, "merges.txt");
  g_autoptr (GBytes) bytes = NULL;
  PlumbJsonScan scan;
  gboolean fine;

  if (path == NULL && (vocab == NULL || merges == NULL))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: there is no tokenizer.json in this folder; it belongs to every Hugging Face"
                   " model with a fast tokenizer",
                   dir);
      return NULL;
    }
  if (path == NULL)
    {
      fine = read_two_files (tokenizer, vocab, merges, error);
      path = g_steal_pointer (&vocab);
    }
  else
    {
      bytes = plumb_text_file_read (path, error);
      if (bytes == NULL)
        return NULL;
      plumb_json_scan_init (&scan, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
      fine = read_tokenizer (tokenizer, &scan, error);
    }
  if (!fine || !prepare (tokenizer, error))
    {
      g_prefix_error (error, "%s: ", path);
      return NULL;
    }
  if (!plumb_tokenizer_read_special (tokenizer, error))
    return NULL;
  return g_steal_pointer (&tokenizer);
}
