/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and reads the files of a tokenizer. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/text-file.h"
#include "engine/text/tokenizer-private.h"

gboolean
plumb_tokenizer_unsupported (GError **error, const char *what, const char *name)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "the %s \"%s\" is not supported; tokenizers of BPE and Unigram kind are",
               what, name != NULL ? name : "without a type");
  return FALSE;
}

gboolean
plumb_tokenizer_invalid (GError **error, const char *what, const char *name)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: %s", what, name);
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
  tokenizer->normalizer = g_array_new (FALSE, FALSE, sizeof (PlumbPreStep));
  g_array_set_clear_func (tokenizer->normalizer, plumb_pre_step_clear);
  tokenizer->pre_tokenizer = g_array_new (FALSE, FALSE, sizeof (PlumbPreStep));
  g_array_set_clear_func (tokenizer->pre_tokenizer, plumb_pre_step_clear);
  tokenizer->vocab = plumb_vocab_new ();
  tokenizer->prefix = g_array_new (FALSE, FALSE, sizeof (gint32));
  tokenizer->suffix = g_array_new (FALSE, FALSE, sizeof (gint32));
  tokenizer->decoder = g_array_new (FALSE, FALSE, sizeof (PlumbDecodeStep));
  g_array_set_clear_func (tokenizer->decoder, plumb_decode_step_clear);
  tokenizer->bos = -1;
  tokenizer->eos = g_array_new (FALSE, FALSE, sizeof (gint32));
  return tokenizer;
}

/* --- GPT-2's two files: a vocabulary, and merges of one line each */

static gboolean
read_merge_lines (PlumbTokenizer *tokenizer, GBytes *merges, GError **error)
{
  gsize length;
  const char *next = g_bytes_get_data (merges, &length);
  const char *end = next != NULL ? next + length : NULL;

  for (gboolean first = TRUE; next != NULL && next < end; first = FALSE)
    {
      const char *stop = memchr (next, '\n', end - next);
      const char *after = stop != NULL ? stop + 1 : end;
      const char *blank;

      if (stop == NULL)
        stop = end;
      while (stop > next && g_ascii_isspace (stop[-1]))
        stop--;
      blank = memchr (next, ' ', stop - next);
      if (blank != NULL && !(first && stop - next >= 8 && memcmp (next, "#version", 8) == 0)
          && !plumb_bpe_add_merge (tokenizer->bpe, next, blank - next, blank + 1,
                                   stop - blank - 1, error))
        return FALSE;
      next = after;
    }
  return TRUE;
}

static gboolean
read_two_files (PlumbTokenizer *tokenizer, const char *merges_path, GBytes *vocab, GError **error)
{
  g_autoptr (GBytes) merges = plumb_text_file_read (merges_path, error);
  PlumbPreStep pre = plumb_pre_step_gpt2 ();
  PlumbDecodeStep decode = { .kind = DECODE_BYTE_LEVEL };
  PlumbJsonScan scan;

  g_array_append_val (tokenizer->pre_tokenizer, pre);
  g_array_append_val (tokenizer->decoder, decode);
  tokenizer->bpe = plumb_bpe_new (tokenizer->vocab);
  if (merges == NULL)
    return FALSE;
  plumb_json_scan_init (&scan, g_bytes_get_data (vocab, NULL), g_bytes_get_size (vocab));
  return plumb_vocab_read (tokenizer->vocab, &scan, error)
         && read_merge_lines (tokenizer, merges, error)
         && plumb_tokenizer_read_added (tokenizer, error);
}

/* --- what was read is put in order */

/* The model takes bytes when nothing comes behind the step that makes them visible; else the step does so. */
static void
settle_bytes (PlumbTokenizer *tokenizer)
{
  GArray *steps = tokenizer->pre_tokenizer;
  gboolean bytes = FALSE;

  for (guint i = 0; i < steps->len; i++)
    {
      PlumbPreStep visible = { .kind = PRE_VISIBLE };

      if (g_array_index (steps, PlumbPreStep, i).kind != PRE_BYTE_LEVEL)
        continue;
      if (i + 1 == steps->len && tokenizer->bpe != NULL && !bytes)
        {
          plumb_bpe_set_bytes (tokenizer->bpe, TRUE);
          return;
        }
      bytes = TRUE;
      g_array_insert_val (steps, i + 1, visible);
      i++;
    }
}

static gboolean
prepare (PlumbTokenizer *tokenizer, GError **error)
{
  const GArray *tokens = tokenizer->added.tokens;
  gsize length;

  plumb_added_tokens_prepare (&tokenizer->added, tokenizer->normalizer);
  if (!tokenizer->raw)
    settle_bytes (tokenizer);
  if (tokenizer->bpe != NULL ? !plumb_bpe_prepare (tokenizer->bpe, error)
                             : !plumb_unigram_prepare (tokenizer->unigram, error))
    return FALSE;
  tokenizer->words = tokenizer->bpe != NULL && plumb_bpe_marks_start_words (tokenizer->bpe);
  tokenizer->vocab_size = plumb_vocab_size (tokenizer->vocab);
  tokenizer->longest = 1;
  for (guint i = 0; tokens != NULL && i < tokens->len; i++)
    {
      const PlumbAddedToken *token = &g_array_index (tokens, PlumbAddedToken, i);

      tokenizer->vocab_size = MAX (tokenizer->vocab_size, (guint)token->id + 1);
      tokenizer->longest = MAX (tokenizer->longest, token->length);
    }
  for (guint id = 0; id < plumb_vocab_size (tokenizer->vocab); id++)
    if (plumb_vocab_token (tokenizer->vocab, id, &length) != NULL)
      tokenizer->longest = MAX (tokenizer->longest, length);
  return TRUE;
}

/* --- finding the file */

static gboolean
is_model_name (const char *name)
{
  return strstr (name, ".tiktoken") != NULL || strstr (name, ".model") != NULL;
}

/* Names of SentencePiece and tiktoken files differ: one that begins like the usual ones is taken, or one that
 * stands alone. NULL with an error when there is none, or more than one. */
static char *
find_single (const char *dir, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (GDir) folder = g_dir_open (dir, 0, &local);
  g_autofree char *found = NULL, *other = NULL;
  const char *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      gboolean usual = g_str_has_prefix (name, "tokenizer.");

      if (!is_model_name (name)
          || (found != NULL && !usual && g_str_has_prefix (found, "tokenizer.")))
        continue;
      g_free (other);
      other = found != NULL && usual == g_str_has_prefix (found, "tokenizer.")
                  ? g_steal_pointer (&found)
                  : NULL;
      g_free (found);
      found = g_strdup (name);
    }
  if (found != NULL && other == NULL)
    return g_build_filename (dir, found, NULL);
  if (found != NULL)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "%s: there are several tokenizers in this folder (%s, %s); name the file", dir,
                 other, found);
  else
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "%s: there is no tokenizer.json in this folder, nor vocab.json with merges.txt,"
                 " tokenizer.model or a .tiktoken file",
                 dir);
  return NULL;
}

static char *
find_file (const char *dir, GError **error)
{
  g_autofree char *json = plumb_text_file_find (dir, "tokenizer.json");
  g_autofree char *vocab = plumb_text_file_find (dir, "vocab.json");
  g_autofree char *merges = plumb_text_file_find (dir, "merges.txt");
  g_autofree char *model = plumb_text_file_find (dir, "tokenizer.model");

  if (json != NULL)
    return g_steal_pointer (&json);
  if (vocab != NULL && merges != NULL)
    return g_steal_pointer (&vocab);
  if (model != NULL)
    return g_steal_pointer (&model);
  return find_single (dir, error);
}

static gboolean
read_file (PlumbTokenizer *tokenizer, GError **error)
{
  g_autoptr (GBytes) bytes = plumb_text_file_read (tokenizer->file, error);
  g_autofree char *name = g_path_get_basename (tokenizer->file);
  g_autofree char *merges = plumb_text_file_find (tokenizer->dir, "merges.txt");
  gboolean fine;

  if (bytes == NULL)
    return FALSE;
  if (g_str_has_prefix (name, "vocab.json") && merges != NULL)
    fine = read_two_files (tokenizer, merges, bytes, error);
  else if (!is_model_name (name))
    fine = plumb_tokenizer_read_json (tokenizer, bytes, error);
  else if (plumb_tokenizer_is_ranks (bytes))
    fine = plumb_tokenizer_read_ranks (tokenizer, bytes, error);
  else
    fine = plumb_tokenizer_read_model (tokenizer, bytes, error);
  if (fine && prepare (tokenizer, error))
    return TRUE;
  g_prefix_error (error, "%s: ", tokenizer->file);
  return FALSE;
}

PlumbTokenizer *
plumb_tokenizer_load (const char *path, GError **error)
{
  gboolean is_file = g_file_test (path, G_FILE_TEST_IS_REGULAR);
  g_autofree char *dir = is_file ? g_path_get_dirname (path) : g_strdup (path);
  g_autoptr (PlumbTokenizer) tokenizer = tokenizer_new (dir);

  tokenizer->file = is_file ? g_strdup (path) : find_file (dir, error);
  if (tokenizer->file == NULL || !read_file (tokenizer, error)
      || !plumb_tokenizer_read_special (tokenizer, error))
    return NULL;
  return g_steal_pointer (&tokenizer);
}
