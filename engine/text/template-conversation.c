/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation as ids, with a mark on each that the assistant said. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/text/template-private.h"
#include "engine/text/tokenizer-private.h"

void
plumb_conversation_free (PlumbConversation *conversation)
{
  g_free (conversation->text);
  g_array_unref (conversation->spans);
  g_array_unref (conversation->ids);
  g_array_unref (conversation->trained);
  g_free (conversation);
}

void
plumb_conversation_notes_clear (PlumbConversationNotes *notes)
{
  g_clear_pointer (&notes->control_token, g_free);
}

/* Takes the text over. */
static PlumbConversation *
conversation_new (char *text)
{
  PlumbConversation *conversation = g_new0 (PlumbConversation, 1);

  conversation->text = text;
  conversation->spans = g_array_new (FALSE, FALSE, sizeof (PlumbTextSpan));
  conversation->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  conversation->trained = g_array_new (FALSE, FALSE, sizeof (guint8));
  return conversation;
}

/* --- from text to ids */

/* The spans' borders as borders of tokens: each stretch is encoded alone. */
static gboolean
encode_stretches (PlumbConversation *c, PlumbTokenizer *tokenizer, GError **error)
{
  gsize at = 0, length = strlen (c->text);

  for (guint i = 0; i <= c->spans->len; i++)
    {
      PlumbTextSpan span = { length, length };
      const guint8 no = 0, yes = 1;

      if (i < c->spans->len)
        span = g_array_index (c->spans, PlumbTextSpan, i);
      if (!plumb_tokenizer_encode (tokenizer, c->text + at, span.start - at, FALSE, c->ids, error))
        return FALSE;
      while (c->trained->len < c->ids->len)
        g_array_append_val (c->trained, no);
      if (!plumb_tokenizer_encode (tokenizer, c->text + span.start, span.end - span.start, FALSE, c->ids, error))
        return FALSE;
      while (c->trained->len < c->ids->len)
        g_array_append_val (c->trained, yes);
      at = span.end;
    }
  return TRUE;
}

static gboolean
is_in_span (const GArray *spans, gsize at)
{
  for (guint i = 0; i < spans->len; i++)
    {
      PlumbTextSpan span = g_array_index (spans, PlumbTextSpan, i);

      if (at >= span.start && at < span.end)
        return TRUE;
    }
  return FALSE;
}

/* Marks the ids of the whole text by the places at which their own text begins; FALSE when the ids do not give
 * the text back. */
static gboolean
mark_by_place (PlumbConversation *c, PlumbTokenizer *tokenizer, const GArray *ids)
{
  g_autoptr (PlumbDetokenizer) stream = plumb_detokenizer_new (tokenizer, FALSE);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GArray) trained = g_array_new (FALSE, FALSE, sizeof (guint8));

  for (guint i = 0; i < ids->len; i++)
    {
      guint8 mark = is_in_span (c->spans, text->len);

      g_array_append_val (trained, mark);
      if (!plumb_detokenizer_push (stream, g_array_index (ids, gint32, i), text, NULL))
        return FALSE;
    }
  plumb_detokenizer_finish (stream, text);
  if (!g_str_equal (text->str, c->text))
    return FALSE;
  g_array_set_size (c->ids, 0);
  g_array_append_vals (c->ids, ids->data, ids->len);
  g_array_set_size (c->trained, 0);
  g_array_append_vals (c->trained, trained->data, trained->len);
  return TRUE;
}

static gboolean
encode_marked (PlumbConversation *c, PlumbTokenizer *tokenizer, GError **error)
{
  g_autoptr (GArray) whole = g_array_new (FALSE, FALSE, sizeof (gint32));

  if (!plumb_tokenizer_encode (tokenizer, c->text, -1, FALSE, whole, error)
      || !encode_stretches (c, tokenizer, error))
    return FALSE;
  /* Where a token spans a border, the whole counts; where the whole cannot be traced, the stretches. */
  if (whole->len != c->ids->len || memcmp (whole->data, c->ids->data, whole->len * sizeof (gint32)) != 0)
    mark_by_place (c, tokenizer, whole);
  for (guint i = 0; i < c->trained->len; i++)
    c->n_trained += g_array_index (c->trained, guint8, i);
  return TRUE;
}

/* --- what is trained, from rendering prefixes */

typedef struct
{
  PlumbTemplate *template;
  PlumbTokenizer *tokenizer;
  JsonArray *messages;
  JsonObject *variables;
  PlumbConversationNotes *notes;
} Work;

static char *
render_prefix (const Work *w, guint n, gboolean prompt, GError **error)
{
  g_autoptr (JsonArray) prefix = json_array_new ();
  g_autoptr (JsonNode) node = json_node_new (JSON_NODE_ARRAY);

  for (guint i = 0; i < n; i++)
    json_array_add_element (prefix, json_node_copy (json_array_get_element (w->messages, i)));
  json_node_set_array (node, prefix);
  return plumb_template_render (w->template, node, prompt, w->variables, NULL, error);
}

static gsize
common_length (const char *a, const char *b)
{
  gsize n = 0;

  while (a[n] != '\0' && a[n] == b[n])
    n++;
  while (n > 0 && ((guchar)a[n] & 0xc0) == 0x80)
    n--;
  return n;
}

/* Where a turn ends: behind its last special token, for what the template writes after it is never sampled. */
static gsize
end_of_turn (PlumbTokenizer *tokenizer, const char *text, gsize start)
{
  gsize length = strlen (text), end = length;

  for (guint normalized = 0; normalized < 2; normalized++)
    {
      PlumbAddedSearch search = { .from = start, .next = start };
      const PlumbAddedToken *token;
      gsize last = 0;

      while ((token = plumb_added_tokens_find (&tokenizer->added, normalized, FALSE, text, length, &search)) != NULL)
        {
          search.from = search.end;
          if (token->special)
            last = search.start + token->length;
        }
      if (last > 0 && text[last + strspn (text + last, " \t\r\n")] == '\0')
        end = MIN (end, last);
    }
  return end;
}

static gboolean
is_assistant (const Work *w, guint i)
{
  JsonObject *message = plumb_json_node_object (json_array_get_element (w->messages, i));
  const char *role = message != NULL ? plumb_json_node_text (json_object_get_member (message, "role")) : NULL;

  return g_strcmp0 (role, "assistant") == 0;
}

/* The turn of message i: the text up to its end, with the span that is trained. */
static PlumbConversation *
render_turn (const Work *w, guint i, GError **error)
{
  g_autofree char *prompt = render_prefix (w, i, TRUE, error);
  g_autofree char *full = prompt != NULL ? render_prefix (w, i + 1, FALSE, error) : NULL;
  PlumbConversation *turn;
  PlumbTextSpan span;

  if (full == NULL)
    {
      g_prefix_error (error, "messages up to number %u: ", i + 1);
      return NULL;
    }
  span.start = common_length (prompt, full);
  if (prompt[span.start] != '\0')
    {
      /* A prompt may end in more than a turn begins with, like an opened <think>. */
      g_autofree char *before = render_prefix (w, i, FALSE, error);

      if (before == NULL)
        return NULL;
      if (!g_str_has_prefix (full, before) || span.start < strlen (before))
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "message %u: the template renders what stands before this assistant turn otherwise with it"
                       " than without; use a template with {%% generation %%} marks",
                       i + 1);
          return NULL;
        }
      w->notes->other_prompt = TRUE;
    }
  span.end = end_of_turn (w->tokenizer, full, span.start);
  full[span.end] = '\0';
  turn = conversation_new (g_steal_pointer (&full));
  if (span.end > span.start)
    g_array_append_val (turn->spans, span);
  return turn;
}

static void
note_rewrite (const Work *w, guint i, const char *whole, const char *turn)
{
  gsize at = common_length (whole, turn);

  if (turn[at] == '\0' || w->notes->rewritten >= 0)
    return;
  w->notes->rewritten = i;
  w->notes->rewritten_at = g_utf8_strlen (whole, at);
}

/* The turns that are asked for: earlier ones are not looked at when the last alone is trained. */
static GPtrArray *
render_turns (const Work *w, PlumbTrainedTurns which, const char *whole, GError **error)
{
  g_autoptr (GPtrArray) turns = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_conversation_free);
  guint n = json_array_get_length (w->messages), first = which == PLUMB_TRAIN_LAST_TURN ? n : 0;

  while (first > 0 && (first == n || !is_assistant (w, first)))
    first--;
  for (guint i = first; i < n; i++)
    {
      PlumbConversation *turn;

      if (!is_assistant (w, i))
        continue;
      turn = render_turn (w, i, error);
      if (turn == NULL)
        return NULL;
      g_ptr_array_add (turns, turn);
      note_rewrite (w, i, whole, turn->text);
    }
  return g_steal_pointer (&turns);
}

/* One row of the whole text with the spans of all turns; or of each turn, where history is rewritten. */
static GPtrArray *
rows_of_turns (const Work *w, GPtrArray *turns, PlumbTrainedTurns which, char *whole)
{
  GPtrArray *rows = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_conversation_free);
  guint first = which == PLUMB_TRAIN_LAST_TURN && turns->len > 0 ? turns->len - 1 : 0;
  PlumbConversation *row;

  if (w->notes->rewritten >= 0)
    {
      g_free (whole);
      while (turns->len > first)
        g_ptr_array_add (rows, g_ptr_array_steal_index (turns, first));
      return rows;
    }
  row = conversation_new (whole);
  for (guint i = first; i < turns->len; i++)
    {
      PlumbConversation *turn = g_ptr_array_index (turns, i);

      g_array_append_vals (row->spans, turn->spans->data, turn->spans->len);
    }
  g_ptr_array_add (rows, row);
  return rows;
}

/* --- what is trained, from the template's own marks */

static GPtrArray *
row_of_marks (char *text, GArray *spans, PlumbTrainedTurns which)
{
  GPtrArray *rows = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_conversation_free);
  PlumbConversation *row = conversation_new (text);
  guint first = which == PLUMB_TRAIN_LAST_TURN && spans->len > 0 ? spans->len - 1 : 0;

  if (spans->len > 0)
    g_array_append_vals (row->spans, &g_array_index (spans, PlumbTextSpan, first), spans->len - first);
  g_ptr_array_add (rows, row);
  return rows;
}

/* --- control tokens in messages */

static const char *
find_control (PlumbTokenizer *tokenizer, JsonNode *content, gboolean special)
{
  JsonArray *parts = plumb_json_node_array (content);
  const char *text = plumb_json_node_text (content), *found = NULL;

  if (text != NULL)
    return plumb_tokenizer_find_control (tokenizer, text, -1, special);
  for (guint i = 0; parts != NULL && found == NULL && i < json_array_get_length (parts); i++)
    {
      JsonObject *part = plumb_json_node_object (json_array_get_element (parts, i));

      text = part != NULL ? plumb_json_node_text (json_object_get_member (part, "text")) : NULL;
      if (text != NULL)
        found = plumb_tokenizer_find_control (tokenizer, text, -1, special);
    }
  return found;
}

static void
note_controls (const Work *w)
{
  for (guint i = 0; i < json_array_get_length (w->messages) && w->notes->control < 0; i++)
    {
      JsonObject *message = plumb_json_node_object (json_array_get_element (w->messages, i));
      const char *token
          = message != NULL && json_object_has_member (message, "content")
                ? find_control (w->tokenizer, json_object_get_member (message, "content"), is_assistant (w, i))
                : NULL;

      if (token == NULL)
        continue;
      w->notes->control = i;
      w->notes->control_token = g_strdup (token);
    }
}

/* --- the whole */

static JsonArray *
check_messages (JsonNode *messages, GError **error)
{
  JsonArray *array = plumb_json_node_array (messages);

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonObject *message = plumb_json_node_object (json_array_get_element (array, i));

      if (message != NULL && plumb_json_node_text (json_object_get_member (message, "role")) != NULL)
        continue;
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "message %u is no object with a \"role\"", i + 1);
      return NULL;
    }
  if (array == NULL)
    g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                         "messages are a list of objects with \"role\" and \"content\"");
  return array;
}

GPtrArray *
plumb_conversation_encode (PlumbTemplate *self,
                           PlumbTokenizer *tokenizer,
                           JsonNode *messages,
                           JsonObject *variables,
                           PlumbTrainedTurns which,
                           PlumbConversationNotes *notes,
                           GError **error)
{
  Work w = { self, tokenizer, check_messages (messages, error), variables, notes };
  g_autoptr (GArray) spans = g_array_new (FALSE, FALSE, sizeof (PlumbTextSpan));
  g_autoptr (GPtrArray) turns = NULL, rows = NULL;
  g_autofree char *whole = NULL;

  *notes = (PlumbConversationNotes){ .rewritten = -1, .control = -1 };
  if (w.messages != NULL)
    whole = plumb_template_render (self, messages, FALSE, variables, spans, error);
  if (whole == NULL)
    return NULL;
  note_controls (&w);
  if (plumb_template_has_generation (self))
    rows = row_of_marks (g_steal_pointer (&whole), spans, which);
  else
    {
      turns = render_turns (&w, which, whole, error);
      if (turns == NULL)
        return NULL;
      rows = rows_of_turns (&w, turns, which, g_steal_pointer (&whole));
    }
  for (guint i = 0; i < rows->len; i++)
    if (!encode_marked (g_ptr_array_index (rows, i), tokenizer, error))
      return NULL;
  return g_steal_pointer (&rows);
}

gboolean
plumb_conversation_prompt (PlumbTemplate *self,
                           PlumbTokenizer *tokenizer,
                           JsonNode *messages,
                           JsonObject *variables,
                           GArray *ids,
                           GError **error)
{
  g_autofree char *text = NULL;

  if (check_messages (messages, error) == NULL)
    return FALSE;
  text = plumb_template_render (self, messages, TRUE, variables, NULL, error);
  return text != NULL && plumb_tokenizer_encode (tokenizer, text, -1, FALSE, ids, error);
}
