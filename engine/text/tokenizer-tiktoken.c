/* SPDX-License-Identifier: Apache-2.0 */
/* tiktoken files: a line for each token, its bytes in base64 and its rank, which is its id too. How a text is cut
 * and which special tokens there are is not in the file; it follows from its name. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

#define O200K_TAIL "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define O200K_PATTERN                                                                              \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"      \
  O200K_TAIL                                                                                       \
  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"     \
  O200K_TAIL "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef struct
{
  gint32 id;
  const char *text;
} Special;

typedef struct
{
  const char *name; /* how the file's name begins */
  const char *pattern;
  Special specials[16];
  gint32 reserved_from, reserved_to; /* <|reserved_special_token_N|> fills the gaps up to here */
} Encoding;

static const Encoding encodings[] = {
  { "cl100k",
    PLUMB_CL100K_PATTERN,
    { { 100257, "<|endoftext|>" },
      { 100258, "<|fim_prefix|>" },
      { 100259, "<|fim_middle|>" },
      { 100260, "<|fim_suffix|>" },
      { 100276, "<|endofprompt|>" } } },
  { "o200k", O200K_PATTERN, { { 199999, "<|endoftext|>" }, { 200018, "<|endofprompt|>" } } },
  { "p50k", PLUMB_GPT2_PATTERN, { { 50256, "<|endoftext|>" } } },
  { "r50k", PLUMB_GPT2_PATTERN, { { 50256, "<|endoftext|>" } } },
  { "gpt2", PLUMB_GPT2_PATTERN, { { 50256, "<|endoftext|>" } } },
  { "qwen",
    PLUMB_QWEN2_PATTERN,
    { { 151643, "<|endoftext|>" }, { 151644, "<|im_start|>" }, { 151645, "<|im_end|>" } } },
  { "tokenizer.model", /* Llama 3 */
    PLUMB_CL100K_PATTERN,
    { { 128000, "<|begin_of_text|>" },
      { 128001, "<|end_of_text|>" },
      { 128004, "<|finetune_right_pad_id|>" },
      { 128006, "<|start_header_id|>" },
      { 128007, "<|end_header_id|>" },
      { 128008, "<|eom_id|>" },
      { 128009, "<|eot_id|>" },
      { 128010, "<|python_tag|>" } },
    128002,
    128255 },
};

static const Encoding *
find_encoding (PlumbTokenizer *tokenizer, GError **error)
{
  g_autofree char *name = g_path_get_basename (tokenizer->file);

  for (gsize i = 0; i < G_N_ELEMENTS (encodings); i++)
    if (g_ascii_strncasecmp (name, encodings[i].name, strlen (encodings[i].name)) == 0)
      return &encodings[i];
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "a tiktoken file does not say how text is cut into words; its name must begin with"
               " cl100k, o200k, p50k, r50k, gpt2 or qwen, or be tokenizer.model for Llama 3");
  return NULL;
}

/* One line: its end is returned, or NULL when it is none. */
static const char *
parse_line (const char *line, const char *end, GString *base64, gint64 *rank)
{
  const char *stop = memchr (line, '\n', end - line);
  const char *blank;
  guint digits = 0;

  if (stop == NULL)
    stop = end;
  blank = memchr (line, ' ', stop - line);
  if (blank == NULL || blank == line)
    return NULL;
  g_string_truncate (base64, 0);
  g_string_append_len (base64, line, blank - line);
  if (base64->len % 4 != 0)
    return NULL;
  for (const char *c = line; c < blank; c++)
    if (!g_ascii_isalnum (*c) && *c != '+' && *c != '/' && *c != '=')
      return NULL;
  *rank = 0;
  for (const char *c = blank + 1; c < stop && *c != '\r'; c++, digits++)
    {
      if (!g_ascii_isdigit (*c) || digits > 9)
        return NULL;
      *rank = *rank * 10 + g_ascii_digit_value (*c);
    }
  return digits > 0 ? stop : NULL;
}

gboolean
plumb_tokenizer_is_ranks (GBytes *bytes)
{
  const char *start = g_bytes_get_data (bytes, NULL);
  gsize length = g_bytes_get_size (bytes);
  g_autoptr (GString) base64 = g_string_new (NULL);
  gint64 rank;

  return length > 0 && parse_line (start, start + MIN (length, 4096), base64, &rank) != NULL;
}

static gboolean
read_lines (PlumbTokenizer *tokenizer, GBytes *bytes, GError **error)
{
  const char *next = g_bytes_get_data (bytes, NULL);
  const char *end = next + g_bytes_get_size (bytes);
  g_autoptr (GString) base64 = g_string_new (NULL);

  for (guint line = 1; next < end; line++)
    {
      gsize length;
      gint64 rank;

      if (*next == '\n')
        {
          next++;
          continue;
        }
      next = parse_line (next, end, base64, &rank);
      if (next == NULL)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "line %u: a token in base64, a blank and its rank are expected", line);
          return FALSE;
        }
      g_base64_decode_inplace (base64->str, &length);
      if (!plumb_vocab_add (tokenizer->vocab, base64->str, length, rank, error))
        {
          g_prefix_error (error, "line %u: ", line);
          return FALSE;
        }
    }
  return TRUE;
}

static void
add_special (PlumbTokenizer *tokenizer, gint32 id, const char *text)
{
  PlumbAddedToken token = { .id = id, .special = TRUE };

  if (plumb_vocab_token (tokenizer->vocab, id, NULL) != NULL)
    return; /* a file of another size than the name tells */
  token.content = g_strdup (text);
  token.length = strlen (text);
  plumb_added_tokens_take (&tokenizer->added, &token);
}

static void
add_specials (PlumbTokenizer *tokenizer, const Encoding *encoding)
{
  guint reserved = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (encoding->specials); i++)
    if (encoding->specials[i].text != NULL)
      add_special (tokenizer, encoding->specials[i].id, encoding->specials[i].text);
  for (gint32 id = encoding->reserved_from; id > 0 && id <= encoding->reserved_to; id++)
    {
      g_autofree char *text = g_strdup_printf ("<|reserved_special_token_%u|>", reserved);

      if (g_hash_table_contains (tokenizer->added.by_id, GINT_TO_POINTER (id)))
        continue;
      add_special (tokenizer, id, text);
      reserved++;
    }
  if (encoding->reserved_to > 0)
    {
      tokenizer->bos = encoding->specials[0].id;
      g_array_append_val (tokenizer->prefix, tokenizer->bos);
    }
}

gboolean
plumb_tokenizer_read_ranks (PlumbTokenizer *tokenizer, GBytes *bytes, GError **error)
{
  const Encoding *encoding = find_encoding (tokenizer, error);
  g_autofree gint32 *ranks = NULL;
  guint size;

  if (encoding == NULL || !plumb_pre_add_split (tokenizer->pre_tokenizer, encoding->pattern, error)
      || !read_lines (tokenizer, bytes, error))
    return FALSE;
  tokenizer->raw = TRUE;
  tokenizer->bpe = plumb_bpe_new (tokenizer->vocab);
  plumb_bpe_set_bytes (tokenizer->bpe, FALSE);
  size = plumb_vocab_size (tokenizer->vocab);
  ranks = g_new (gint32, MAX (size, 1));
  for (guint id = 0; id < size; id++)
    ranks[id] = id;
  plumb_bpe_use_ranks (tokenizer->bpe, ranks);
  if (!plumb_tokenizer_read_added (tokenizer, error))
    return FALSE;
  add_specials (tokenizer, encoding);
  return TRUE;
}
