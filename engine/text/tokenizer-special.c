/* SPDX-License-Identifier: Apache-2.0 */
/* Which ids begin and end a text: tokenizer_config.json, generation_config.json, config.json. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

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
