/* SPDX-License-Identifier: Apache-2.0 */
/* Which ids begin and end a text: tokenizer_config.json, generation_config.json, config.json. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/text-file.h"
#include "engine/text/tokenizer-private.h"

static void
add_eos (PlumbTokenizer *tokenizer, gint64 id)
{
  gint32 value = id;

  if (id < 0 || id >= tokenizer->vocab_size)
    return;
  for (guint i = 0; i < tokenizer->eos->len; i++)
    if (g_array_index (tokenizer->eos, gint32, i) == value)
      return;
  g_array_append_val (tokenizer->eos, value);
}

static void
set_bos (PlumbTokenizer *tokenizer, gint64 id)
{
  if (tokenizer->bos < 0 && id >= 0 && id < tokenizer->vocab_size)
    tokenizer->bos = id;
}

/* A token is named by its text, or by an object with its content. */
static gint32
read_token_name (PlumbTokenizer *tokenizer, PlumbJsonScan *scan)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) name = g_string_new (NULL);

  switch (plumb_json_peek (scan))
    {
    case PLUMB_JSON_STRING:
      plumb_json_get_string (scan, name);
      break;
    case PLUMB_JSON_OBJECT:
      plumb_json_enter_object (scan);
      while (plumb_json_next_member (scan, key))
        if (g_str_equal (key->str, "content"))
          plumb_json_get_string (scan, name);
        else
          plumb_json_skip (scan);
      break;
    case PLUMB_JSON_NOTHING:
    case PLUMB_JSON_ARRAY:
    case PLUMB_JSON_NUMBER:
    case PLUMB_JSON_BOOLEAN:
    case PLUMB_JSON_NULL:
      plumb_json_skip (scan);
      return -1;
    }
  return name->len > 0 ? plumb_tokenizer_find (tokenizer, name->str) : -1;
}

static void
read_ids (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, gboolean eos)
{
  gint64 id = -1;

  if (plumb_json_peek (scan) == PLUMB_JSON_NUMBER)
    {
      plumb_json_get_integer (scan, &id);
      if (eos)
        add_eos (tokenizer, id);
      else
        set_bos (tokenizer, id);
    }
  else if (plumb_json_peek (scan) == PLUMB_JSON_ARRAY && plumb_json_enter_array (scan))
    while (plumb_json_next_element (scan))
      read_ids (tokenizer, scan, eos);
  else
    plumb_json_skip (scan);
}

static void
read_member (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, const char *key)
{
  if (g_str_equal (key, "bos_token"))
    set_bos (tokenizer, read_token_name (tokenizer, scan));
  else if (g_str_equal (key, "eos_token"))
    add_eos (tokenizer, read_token_name (tokenizer, scan));
  else if (g_str_equal (key, "bos_token_id"))
    read_ids (tokenizer, scan, FALSE);
  else if (g_str_equal (key, "eos_token_id"))
    read_ids (tokenizer, scan, TRUE);
  else
    plumb_json_skip (scan);
}

static gboolean
read_file (PlumbTokenizer *tokenizer, const char *name, GError **error)
{
  g_autofree char *path = plumb_text_file_find (tokenizer->dir, name);
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GBytes) bytes = NULL;
  PlumbJsonScan scan;

  if (path == NULL)
    return TRUE;
  bytes = plumb_text_file_read (path, error);
  if (bytes == NULL)
    return FALSE;
  plumb_json_scan_init (&scan, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  if (plumb_json_enter_object (&scan))
    while (plumb_json_next_member (&scan, key))
      read_member (tokenizer, &scan, key->str);
  if (plumb_json_finish (&scan))
    return TRUE;
  plumb_tokenizer_malformed (error, &scan);
  g_prefix_error (error, "%s: ", path);
  return FALSE;
}

gboolean
plumb_tokenizer_read_special (PlumbTokenizer *tokenizer, GError **error)
{
  /* In this order: the first id that ends a text is the one to train, and a chat model's
   * tokenizer_config.json names the end of its turn. */
  return read_file (tokenizer, "tokenizer_config.json", error)
         && read_file (tokenizer, "generation_config.json", error)
         && read_file (tokenizer, "config.json", error);
}

/* --- added tokens beside a vocabulary */

/* {"32000": {"content": "<|end|>", ...}, ...} */
static void
read_decoder (PlumbTokenizer *tokenizer, PlumbJsonScan *scan)
{
  g_autoptr (GString) key = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return;
  while (plumb_json_next_member (scan, key))
    {
      guint64 id = G_MAXUINT64;
      PlumbAddedToken token = { 0 };

      g_ascii_string_to_unsigned (key->str, 10, 0, PLUMB_MOST_IDS - 1, &id, NULL);
      token.id = id == G_MAXUINT64 ? -1 : (gint32)id;
      if (plumb_added_token_read (&token, scan))
        plumb_added_tokens_take (&tokenizer->added, &token);
      else
        g_free (token.content);
    }
}

/* {"<|end|>": 32000, ...} */
static void
read_names (PlumbTokenizer *tokenizer, PlumbJsonScan *scan)
{
  g_autoptr (GString) key = g_string_new (NULL);
  gint64 id;

  if (!plumb_json_enter_object (scan))
    return;
  while (plumb_json_next_member (scan, key) && plumb_json_get_integer (scan, &id))
    {
      PlumbAddedToken token = { .id = CLAMP (id, 0, PLUMB_MOST_IDS - 1), .special = TRUE };

      token.content = g_strdup (key->str);
      token.length = strlen (token.content);
      plumb_added_tokens_take (&tokenizer->added, &token);
    }
}

/* Whether BOS and EOS stand around a text: -1 when the file does not say. */
typedef struct
{
  int bos, eos;
} Ends;

static void
read_config (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, Ends *ends)
{
  g_autoptr (GString) key = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return;
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "added_tokens_decoder"))
      read_decoder (tokenizer, scan);
    else if (plumb_json_peek (scan) == PLUMB_JSON_BOOLEAN
             && g_str_equal (key->str, "add_bos_token"))
      plumb_json_get_boolean (scan, &ends->bos);
    else if (plumb_json_peek (scan) == PLUMB_JSON_BOOLEAN
             && g_str_equal (key->str, "add_eos_token"))
      plumb_json_get_boolean (scan, &ends->eos);
    else
      plumb_json_skip (scan);
}

static void
set_ends (PlumbTokenizer *tokenizer, const Ends *ends)
{
  if (ends->bos == FALSE)
    g_array_set_size (tokenizer->prefix, 0);
  if (ends->bos == TRUE && tokenizer->prefix->len == 0 && tokenizer->bos >= 0)
    g_array_append_val (tokenizer->prefix, tokenizer->bos);
  if (ends->eos == FALSE)
    g_array_set_size (tokenizer->suffix, 0);
  if (ends->eos == TRUE && tokenizer->suffix->len == 0 && tokenizer->eos->len > 0)
    g_array_append_vals (tokenizer->suffix, tokenizer->eos->data, 1);
}

gboolean
plumb_tokenizer_read_added (PlumbTokenizer *tokenizer, GError **error)
{
  static const char *const names[] = { "tokenizer_config.json", "added_tokens.json" };
  Ends ends = { -1, -1 };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = plumb_text_file_find (tokenizer->dir, names[i]);
      g_autoptr (GBytes) bytes = NULL;
      PlumbJsonScan scan;

      if (path == NULL)
        continue;
      bytes = plumb_text_file_read (path, error);
      if (bytes == NULL)
        return FALSE;
      plumb_json_scan_init (&scan, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
      if (i == 0)
        read_config (tokenizer, &scan, &ends);
      else
        read_names (tokenizer, &scan);
      if (!plumb_json_finish (&scan))
        {
          plumb_tokenizer_malformed (error, &scan);
          g_prefix_error (error, "%s: ", path);
          return FALSE;
        }
    }
  set_ends (tokenizer, &ends);
  return TRUE;
}
