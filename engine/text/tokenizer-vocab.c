/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary: spellings to ids and back. Spellings are bytes and may hold NULs. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

typedef struct
{
  gsize offset; /* in `text` */
  guint32 length;
  gboolean used;
} Token;

typedef struct
{
  guint32 tag; /* part of the hash */
  gint32 id;   /* -1: an empty slot */
} Slot;

struct _PlumbVocab
{
  GString *text;
  GArray *tokens; /* of Token, by id */
  Slot *slots;
  gsize mask;
  guint count;
};

PlumbVocab *
plumb_vocab_new (void)
{
  PlumbVocab *vocab = g_new0 (PlumbVocab, 1);

  vocab->text = g_string_new (NULL);
  vocab->tokens = g_array_new (FALSE, TRUE, sizeof (Token));
  vocab->mask = 255;
  vocab->slots = g_new (Slot, vocab->mask + 1);
  for (gsize i = 0; i <= vocab->mask; i++)
    vocab->slots[i].id = -1;
  return vocab;
}

void
plumb_vocab_free (PlumbVocab *vocab)
{
  g_string_free (vocab->text, TRUE);
  g_array_unref (vocab->tokens);
  g_free (vocab->slots);
  g_free (vocab);
}

static guint64
hash_bytes (const char *bytes, gsize length)
{
  const guint64 factor = G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  guint64 hash = length * factor, word;

  for (; length >= 8; bytes += 8, length -= 8)
    {
      memcpy (&word, bytes, 8);
      hash = (hash ^ word) * factor;
      hash ^= hash >> 29;
    }
  word = 0;
  for (gsize i = 0; i < length; i++)
    word |= (guint64)(guchar)bytes[i] << (8 * i);
  hash = (hash ^ word) * factor;
  return hash ^ hash >> 29;
}

static gboolean
spells (const PlumbVocab *vocab, gint32 id, const char *bytes, gsize length)
{
  const Token *token = &g_array_index (vocab->tokens, Token, id);

  return token->length == length && memcmp (vocab->text->str + token->offset, bytes, length) == 0;
}

static Slot *
find_slot (const PlumbVocab *vocab, guint64 hash, const char *bytes, gsize length)
{
  for (gsize i = hash;; i++)
    {
      Slot *slot = &vocab->slots[i & vocab->mask];

      if (slot->id < 0
          || (slot->tag == (guint32)(hash >> 32) && spells (vocab, slot->id, bytes, length)))
        return slot;
    }
}

gint32
plumb_vocab_find (const PlumbVocab *vocab, const char *bytes, gsize length)
{
  return find_slot (vocab, hash_bytes (bytes, length), bytes, length)->id;
}

static void
grow (PlumbVocab *vocab)
{
  g_free (vocab->slots);
  vocab->mask = 2 * vocab->mask + 1;
  vocab->slots = g_new (Slot, vocab->mask + 1);
  for (gsize i = 0; i <= vocab->mask; i++)
    vocab->slots[i].id = -1;
  for (guint id = 0; id < vocab->tokens->len; id++)
    {
      const Token *token = &g_array_index (vocab->tokens, Token, id);
      const char *bytes = vocab->text->str + token->offset;
      guint64 hash;

      if (!token->used)
        continue;
      hash = hash_bytes (bytes, token->length);
      *find_slot (vocab, hash, bytes, token->length) = (Slot){ hash >> 32, id };
    }
}

gboolean
plumb_vocab_add (PlumbVocab *vocab, const char *bytes, gsize length, gint64 id, GError **error)
{
  guint64 hash = hash_bytes (bytes, length);
  Slot *slot = find_slot (vocab, hash, bytes, length);
  g_autofree char *name = NULL;
  const char *fault = NULL;
  Token *token;

  if (id < 0 || id >= PLUMB_MOST_IDS || length > G_MAXUINT16)
    fault = "the id of this token is out of range, or it is too long";
  else if (slot->id >= 0)
    fault = "this token is twice in the vocabulary";
  else if (id < vocab->tokens->len && g_array_index (vocab->tokens, Token, id).used)
    fault = "this token has the id of another";
  if (fault != NULL)
    {
      name = g_utf8_make_valid (bytes, MIN (length, 100));
      return plumb_tokenizer_invalid (error, fault, name);
    }
  if (id >= vocab->tokens->len)
    g_array_set_size (vocab->tokens, id + 1);
  token = &g_array_index (vocab->tokens, Token, id);
  *token = (Token){ vocab->text->len, length, TRUE };
  g_string_append_len (vocab->text, bytes, length);
  g_string_append_c (vocab->text, '\0');
  *slot = (Slot){ hash >> 32, id };
  if (++vocab->count * (gsize)2 > vocab->mask)
    grow (vocab);
  return TRUE;
}

const char *
plumb_vocab_token (const PlumbVocab *vocab, gint32 id, gsize *length)
{
  const Token *token;

  if (id < 0 || id >= vocab->tokens->len)
    return NULL;
  token = &g_array_index (vocab->tokens, Token, id);
  if (!token->used)
    return NULL;
  if (length != NULL)
    *length = token->length;
  return vocab->text->str + token->offset;
}

guint
plumb_vocab_size (const PlumbVocab *vocab)
{
  return vocab->tokens->len;
}

guint
plumb_vocab_count (const PlumbVocab *vocab)
{
  return vocab->count;
}

gboolean
plumb_vocab_read (PlumbVocab *vocab, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  gint64 id;

  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    {
      if (!plumb_json_get_integer (scan, &id))
        break;
      if (!plumb_vocab_add (vocab, key->str, key->len, id, error))
        return FALSE;
    }
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}
