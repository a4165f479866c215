/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: found in a text before anything else is done to it. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/tokenizer-private.h"

static void
token_clear (gpointer data)
{
  g_free (((PlumbAddedToken *)data)->content);
}

static gboolean
read_token (PlumbAddedToken *token, PlumbJsonScan *scan)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) content = g_string_new (NULL);
  gint64 id = -1;

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
  if (scan->message == NULL && (id < 0 || id > G_MAXINT32 - 1))
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
      PlumbAddedToken token = { 0 };

      if (!read_token (&token, scan) || token.length == 0)
        token_clear (&token);
      else
        g_array_append_val (added->tokens, token);
    }
  return scan->message == NULL;
}

static int
longest_first (gconstpointer a, gconstpointer b)
{
  const PlumbAddedToken *p = a, *q = b;

  if (p->length != q->length)
    return p->length < q->length ? 1 : -1;
  return (p->id > q->id) - (p->id < q->id);
}

void
plumb_added_tokens_prepare (PlumbAddedTokens *added)
{
  g_array_set_clear_func (added->tokens, token_clear);
  g_array_sort (added->tokens, longest_first);
  for (guint i = 0; i < added->tokens->len; i++)
    {
      const PlumbAddedToken *token = &g_array_index (added->tokens, PlumbAddedToken, i);

      added->first_byte[!!token->normalized][(guchar)token->content[0]] = TRUE;
    }
}

void
plumb_added_tokens_clear (PlumbAddedTokens *added)
{
  if (added->tokens == NULL)
    return;
  g_array_set_clear_func (added->tokens, token_clear);
  g_array_unref (added->tokens);
}

static gboolean
is_word (gunichar c)
{
  return g_unichar_isalnum (c) || c == '_' || g_unichar_ismark (c);
}

static gboolean
stands_alone (const char *text, gsize length, gsize start, gsize end)
{
  const char *before = start > 0 ? g_utf8_find_prev_char (text, text + start) : NULL;

  return !(before != NULL && is_word (g_utf8_get_char (before)))
         && !(end < length && is_word (g_utf8_get_char_validated (text + end, length - end)));
}

/* The longest token that stands at `place`. */
static const PlumbAddedToken *
token_at (
    const PlumbAddedTokens *added, gboolean normalized, const char *text, gsize length, gsize place)
{
  for (guint i = 0; i < added->tokens->len; i++)
    {
      const PlumbAddedToken *token = &g_array_index (added->tokens, PlumbAddedToken, i);

      if (!!token->normalized == normalized && token->length <= length - place
          && memcmp (text + place, token->content, token->length) == 0
          && (!token->single_word || stands_alone (text, length, place, place + token->length)))
        return token;
    }
  return NULL;
}

const PlumbAddedToken *
plumb_added_tokens_find (const PlumbAddedTokens *added,
                         gboolean normalized,
                         const char *text,
                         gsize length,
                         gsize from,
                         gsize *start,
                         gsize *end)
{
  for (gsize place = from; place < length; place++)
    {
      const PlumbAddedToken *token;

      if (!added->first_byte[!!normalized][(guchar)text[place]])
        continue;
      token = token_at (added, !!normalized, text, length, place);
      if (token == NULL)
        continue;
      *start = place;
      *end = place + token->length;
      while (token->lstrip && *start > from)
        {
          const char *before = g_utf8_find_prev_char (text + from, text + *start);

          if (before == NULL || !g_unichar_isspace (g_utf8_get_char (before)))
            break;
          *start = before - text;
        }
      while (token->rstrip && *end < length && g_unichar_isspace (g_utf8_get_char (text + *end)))
        *end = g_utf8_next_char (text + *end) - text;
      return token;
    }
  return NULL;
}
