/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: found in a text before anything else is done to it. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/tokenizer-private.h"

static void
token_clear (PlumbAddedToken *token)
{
  g_clear_pointer (&token->content, g_free);
}

gboolean
plumb_added_token_read (PlumbAddedToken *token, PlumbJsonScan *scan)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) content = g_string_new (NULL);
  gint64 id = token->id;

  if (!plumb_json_enter_object (scan))
    return FALSE;
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "id"))
      plumb_json_get_integer (scan, &id);
    else if (g_str_equal (key->str, "content"))
      plumb_json_get_string (scan, content);
    else if (g_str_equal (key->str, "special"))
      plumb_json_get_boolean (scan, &token->special);
    else if (g_str_equal (key->str, "normalized"))
      plumb_json_get_boolean (scan, &token->normalized);
    else if (g_str_equal (key->str, "lstrip"))
      plumb_json_get_boolean (scan, &token->lstrip);
    else if (g_str_equal (key->str, "rstrip"))
      plumb_json_get_boolean (scan, &token->rstrip);
    else if (g_str_equal (key->str, "single_word"))
      plumb_json_get_boolean (scan, &token->single_word);
    else
      plumb_json_skip (scan);
  if (scan->message == NULL && (id < 0 || id >= PLUMB_MOST_IDS))
    {
      scan->message = "an added token has no usable id";
      scan->at = scan->next - scan->data;
    }
  token->id = id;
  token->content = g_strndup (content->str, content->len);
  token->length = strlen (token->content);
  return scan->message == NULL;
}

gboolean
plumb_added_tokens_read (PlumbAddedTokens *added, PlumbJsonScan *scan)
{
  if (!plumb_json_enter_array (scan))
    return FALSE;
  while (plumb_json_next_element (scan))
    {
      PlumbAddedToken token = { .id = -1 };

      if (!plumb_added_token_read (&token, scan))
        {
          token_clear (&token);
          return FALSE;
        }
      plumb_added_tokens_take (added, &token);
    }
  return scan->message == NULL;
}

static gboolean
is_blank (const PlumbAddedToken *token)
{
  for (const char *c = token->content; *c != '\0'; c++)
    if (!g_ascii_isspace (*c))
      return FALSE;
  return TRUE;
}

void
plumb_added_tokens_take (PlumbAddedTokens *added, PlumbAddedToken *token)
{
  if (added->tokens == NULL)
    {
      added->tokens = g_array_new (FALSE, FALSE, sizeof (PlumbAddedToken));
      g_array_set_clear_func (added->tokens, (GDestroyNotify)token_clear);
      added->by_id = g_hash_table_new (NULL, NULL);
    }
  if (token->length == 0 || g_hash_table_contains (added->by_id, GINT_TO_POINTER (token->id)))
    {
      token_clear (token);
      return;
    }
  /* Runs of blanks and what SentencePiece's users defined are text; <tool_call> and its like are not. */
  token->control = token->special || (!token->normalized && !is_blank (token));
  g_array_append_val (added->tokens, *token);
  g_hash_table_insert (added->by_id, GINT_TO_POINTER (token->id),
                       GUINT_TO_POINTER (added->tokens->len));
}

static void
index_token (PlumbAddedTokens *added, const char *text, gsize length, gboolean normalized, guint i)
{
  guint pair;

  if (length == 0)
    return;
  plumb_trie_add (added->trie[normalized], text, length, i);
  if (length == 1)
    added->one_byte[normalized][(guchar)*text] = TRUE;
  else
    {
      pair = (guchar)text[0] << 8 | (guchar)text[1];
      added->first_two[normalized][pair / 8] |= 1 << pair % 8;
    }
}

void
plumb_added_tokens_prepare (PlumbAddedTokens *added, GArray *normalizer)
{
  for (guint i = 0; i < 2; i++)
    added->trie[i] = plumb_trie_new ();
  for (guint i = 0; added->tokens != NULL && i < added->tokens->len; i++)
    {
      const PlumbAddedToken *token = &g_array_index (added->tokens, PlumbAddedToken, i);
      GString *normal = NULL;

      if (token->normalized && !token->fixed)
        normal = plumb_normalize (normalizer, token->content, token->length, TRUE);
      if (normal != NULL)
        {
          index_token (added, normal->str, normal->len, TRUE, i);
          g_string_free (normal, TRUE);
        }
      else
        index_token (added, token->content, token->length, !!token->normalized, i);
    }
}

void
plumb_added_tokens_clear (PlumbAddedTokens *added)
{
  g_clear_pointer (&added->tokens, g_array_unref);
  g_clear_pointer (&added->by_id, g_hash_table_unref);
  g_clear_pointer (&added->trie[0], plumb_trie_free);
  g_clear_pointer (&added->trie[1], plumb_trie_free);
}

static gboolean
is_space_at (const char *text, gsize length, gsize at)
{
  gsize size;

  return at < length && plumb_char_class (plumb_char_at (text + at, &size)) == PLUMB_CLASS_SPACE;
}

static gsize
previous (const char *text, gsize at)
{
  do
    at--;
  while (at > 0 && ((guchar)text[at] & 0xc0) == 0x80);
  return at;
}

static gboolean
stands_alone (const char *text, gsize length, gsize start, gsize end)
{
  gsize size;

  return !(start > 0 && plumb_char_is_word (plumb_char_at (text + previous (text, start), &size)))
         && !(end < length && plumb_char_is_word (plumb_char_at (text + end, &size)));
}

/* The next place at which a token may start, or `length`. */
static gsize
next_candidate (
    const PlumbAddedTokens *added, gboolean normalized, const char *text, gsize length, gsize at)
{
  const guint8 *first_two = added->first_two[normalized];
  const gboolean *one_byte = added->one_byte[normalized];

  for (; at < length; at++)
    {
      guint pair = (guchar)text[at] << 8 | (at + 1 < length ? (guchar)text[at + 1] : 0);

      if (one_byte[pair >> 8] || (first_two[pair / 8] >> pair % 8 & 1))
        return at;
    }
  return length;
}

const PlumbAddedToken *
plumb_added_tokens_find (const PlumbAddedTokens *added,
                         gboolean normalized,
                         gboolean plain,
                         const char *text,
                         gsize length,
                         PlumbAddedSearch *search)
{
  normalized = !!normalized;
  if (added->tokens == NULL)
    return NULL;
  while ((search->next = next_candidate (added, normalized, text, length, search->next)) < length)
    {
      gsize start = search->next, size;
      gint32 index
          = plumb_trie_longest (added->trie[normalized], text + start, length - start, &size);
      const PlumbAddedToken *token;

      if (index < 0)
        {
          search->next++;
          continue;
        }
      token = &g_array_index (added->tokens, PlumbAddedToken, index);
      search->next = start + size;
      if ((plain && token->control)
          || (token->single_word && !stands_alone (text, length, start, start + size)))
        continue;
      search->start = start;
      search->end = start + size;
      while (token->lstrip && search->start > search->from
             && is_space_at (text, length, previous (text, search->start)))
        search->start = previous (text, search->start);
      while (token->rstrip && is_space_at (text, length, search->end))
        search->end += plumb_char_size (text[search->end]);
      /* Blanks that the token before swallowed are not used twice. */
      search->start = MAX (search->start, search->from);
      return token;
    }
  return NULL;
}
