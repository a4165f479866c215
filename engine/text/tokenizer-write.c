/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tokenizer files: copies for an export, and a byte tokenizer made from nothing. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <string.h>

#include <glib/gstdio.h>

#include "engine/core/error.h"
#include "engine/core/paths.h"
#include "engine/text/text-file.h"
#include "engine/text/tokenizer-private.h"

static gboolean
make_folder (const char *dir, GError **error)
{
  if (g_mkdir_with_parents (dir, 0755) == 0)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "%s: cannot make the folder: %s", dir,
               g_strerror (errno));
  return FALSE;
}

/* A file of the tokenizer's folder, unpacked; one that is not there is none to copy. */
static gboolean
copy_file (PlumbTokenizer *tokenizer, const char *name, const char *to_dir, GError **error)
{
  g_autofree char *from = plumb_text_file_find (tokenizer->dir, name);
  g_autofree char *to = g_build_filename (to_dir, name, NULL);
  g_autoptr (GBytes) bytes = NULL;

  if (from == NULL)
    return TRUE;
  bytes = plumb_text_file_read (from, error);
  return bytes != NULL
         && plumb_path_replace (to, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), error);
}

gboolean
plumb_tokenizer_copy_files (PlumbTokenizer *tokenizer, const char *to_dir, GError **error)
{
  static const char *const names[]
      = { "tokenizer.json",    "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
          "merges.txt",        "added_tokens.json",     "chat_template.jinja",     "tokenizer.model",
          "generation_config.json", NULL };
  g_autofree char *own = g_path_get_basename (tokenizer->file);

  if (!make_folder (to_dir, error))
    return FALSE;
  for (gsize i = 0; names[i] != NULL; i++)
    if (!copy_file (tokenizer, names[i], to_dir, error))
      return FALSE;
  if (g_str_has_suffix (own, ".gz"))
    own[strlen (own) - 3] = '\0';
  return g_strv_contains (names, own) || copy_file (tokenizer, own, to_dir, error);
}

static char *
spare_name (guint id)
{
  if (id == 256)
    return g_strdup ("<bos>");
  if (id == 257)
    return g_strdup ("<eos>");
  return g_strdup_printf ("<spare%u>", id - 258);
}

static void
append_vocab (GString *json)
{
  for (guint byte = 0; byte < 256; byte++)
    {
      char visible[8] = { 0 };

      g_unichar_to_utf8 (plumb_byte_to_char (byte), visible);
      g_string_append_printf (json, "%s\n      \"%s%s\": %u", byte > 0 ? "," : "",
                              *visible == '"' || *visible == '\\' ? "\\" : "", visible, byte);
    }
}

static void
append_added (GString *json, guint vocab_size)
{
  for (guint id = 256; id < vocab_size; id++)
    {
      g_autofree char *name = spare_name (id);

      g_string_append_printf (json,
                              "%s\n    {\"id\": %u, \"content\": \"%s\", \"single_word\": false, "
                              "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                              "\"special\": true}",
                              id > 256 ? "," : "", id, name);
    }
}

static char *
byte_tokenizer_json (guint vocab_size)
{
  GString *json = g_string_new ("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                                "  \"padding\": null,\n  \"added_tokens\": [");

  append_added (json, vocab_size);
  g_string_append (
      json,
      "\n  ],\n  \"normalizer\": null,\n"
      "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
      "\"trim_offsets\": true, \"use_regex\": false},\n"
      "  \"post_processor\": {\"type\": \"TemplateProcessing\",\n"
      "    \"single\": [{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}, "
      "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}],\n"
      "    \"pair\": [{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}, "
      "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
      "{\"Sequence\": {\"id\": \"B\", \"type_id\": 0}}],\n"
      "    \"special_tokens\": {\"<bos>\": {\"id\": \"<bos>\", \"ids\": [256], "
      "\"tokens\": [\"<bos>\"]}}},\n"
      "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
      "\"trim_offsets\": true, \"use_regex\": false},\n"
      "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
      "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
      "    \"vocab\": {");
  append_vocab (json);
  g_string_append (json, "\n    },\n    \"merges\": []\n  }\n}\n");
  return g_string_free (json, FALSE);
}

gboolean
plumb_tokenizer_write_bytes (const char *dir, guint vocab_size, GError **error)
{
  static const char config[] = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                               "  \"bos_token\": \"<bos>\",\n  \"eos_token\": \"<eos>\",\n"
                               "  \"clean_up_tokenization_spaces\": false\n}\n";
  g_autofree char *tokenizer = g_build_filename (dir, "tokenizer.json", NULL);
  g_autofree char *tokenizer_config = g_build_filename (dir, "tokenizer_config.json", NULL);
  g_autofree char *json = NULL;

  g_return_val_if_fail (vocab_size >= 258, FALSE);
  if (!make_folder (dir, error))
    return FALSE;
  json = byte_tokenizer_json (vocab_size);
  return plumb_path_replace (tokenizer, json, -1, error)
         && plumb_path_replace (tokenizer_config, config, -1, error);
}
