/* SPDX-License-Identifier: Apache-2.0 */
/* A row as a conversation: through the chat template to tokens, with a mark on each that is trained. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/dataset-private.h"

/* What a row is being made of. */
typedef struct
{
  PlumbDataSet *set;
  PlumbDataRow *row;
  PlumbDataText *text;
  JsonArray *messages;   /* that lead up to the answers, with the system message */
  JsonObject *variables; /* NULL: none */
  PlumbConversationNotes *notes;
} Making;

static gboolean
fail (const Making *m, GError **error, const char *message)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s:%u: %s", m->row->file, m->row->line, message);
  return FALSE;
}

static void
add_message (JsonArray *messages, const char *role, const char *content)
{
  JsonObject *message = json_object_new ();

  json_object_set_string_member (message, "role", role);
  json_object_set_string_member (message, "content", content);
  json_array_add_object_element (messages, message);
}

static void
add_messages (JsonArray *messages, JsonArray *more)
{
  for (guint i = 0; i < json_array_get_length (more); i++)
    json_array_add_element (messages, json_node_copy (json_array_get_element (more, i)));
}

static gboolean
begins_with_system (JsonArray *turns)
{
  JsonObject *first = json_array_get_object_element (turns, 0);

  return g_strcmp0 (json_object_get_string_member_with_default (first, "role", NULL), "system") == 0;
}

static gboolean
has_nul (const GString *text)
{
  return text != NULL && strlen (text->str) != text->len;
}

static JsonArray *
lead_up (PlumbDataSet *set, const PlumbDataText *text)
{
  JsonArray *messages = json_array_new ();
  const char *system = text->system != NULL && text->system->len > 0 ? text->system->str : set->system;

  if (system != NULL && (text->turns == NULL || !begins_with_system (text->turns)))
    add_message (messages, "system", system);
  if (text->turns != NULL)
    add_messages (messages, text->turns);
  else if (text->prompt != NULL)
    add_message (messages, "user", text->prompt->str);
  return messages;
}

/* Tools as a list; a text that holds one is read. */
static JsonObject *
variables_of (const PlumbDataText *text)
{
  JsonObject *variables;

  if (text->tools == NULL || !JSON_NODE_HOLDS_ARRAY (text->tools)
      || json_array_get_length (json_node_get_array (text->tools)) == 0)
    return NULL;
  variables = json_object_new ();
  json_object_set_member (variables, "tools", json_node_copy (text->tools));
  return variables;
}

/* The conversations that training on one answer takes: more than one where the template rewrites history. */
static GPtrArray *
encode (const Making *m, JsonArray *answer_turns, const GString *answer, gboolean last, GError **error)
{
  g_autoptr (JsonNode) node = json_node_new (JSON_NODE_ARRAY);
  JsonArray *messages = json_array_new ();
  PlumbConversationNotes notes;
  GPtrArray *rows;

  json_node_take_array (node, messages);
  add_messages (messages, m->messages);
  if (answer_turns != NULL)
    add_messages (messages, answer_turns);
  else if (answer != NULL)
    add_message (messages, "assistant", answer->str);
  rows = plumb_conversation_encode (m->set->chat, m->set->tokenizer, node, m->variables,
                                    last ? PLUMB_TRAIN_LAST_TURN : PLUMB_TRAIN_ALL_TURNS, &notes, error);
  if (m->notes->rewritten < 0 && m->notes->control < 0)
    {
      plumb_conversation_notes_clear (m->notes);
      *m->notes = notes;
    }
  else
    plumb_conversation_notes_clear (&notes);
  if (rows == NULL)
    g_prefix_error (error, "%s:%u: ", m->row->file, m->row->line);
  return rows;
}

/* [first, end) of what is trained; FALSE if nothing is. */
static gboolean
trained_range (const PlumbConversation *c, guint *first, guint *end)
{
  *end = 0;
  for (guint i = 0; i < c->trained->len; i++)
    if (g_array_index (c->trained, guint8, i))
      {
        *first = *end == 0 ? i : *first;
        *end = i + 1;
      }
  return *end > 0;
}

/* A template that writes nothing behind an answer does not end it: the EOS does. */
static void
end_answer (PlumbDataSet *set, GArray *ids, GArray *trained)
{
  gsize n;
  const gint32 *eos = plumb_tokenizer_eos (set->tokenizer, &n);
  gint32 last = g_array_index (ids, gint32, ids->len - 1);
  guint8 yes = 1;

  if (n == 0 || plumb_tokenizer_is_special (set->tokenizer, last))
    return;
  g_array_append_val (ids, eos[0]);
  g_array_append_val (trained, yes);
}

static gboolean
has_trained (const GArray *trained)
{
  return trained->len > 0 && memchr (trained->data, 1, trained->len) != NULL;
}

/* The ids behind the first `prompt` ones, as far as they are trained; cut or given up where they do not fit. */
static void
take_answer (const Making *m,
             const PlumbConversation *c,
             guint prompt,
             const GArray *prompt_ids,
             GArray **ids,
             GArray **trained,
             PlumbDataFit *fit)
{
  PlumbDataSet *set = m->set;
  guint first = 0, end = 0, room;

  trained_range (c, &first, &end);
  *ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  *trained = g_array_new (FALSE, FALSE, sizeof (guint8));
  g_array_append_vals (*ids, &g_array_index (c->ids, gint32, prompt), end - prompt);
  g_array_append_vals (*trained, &g_array_index (c->trained, guint8, prompt), end - prompt);
  if (end == c->ids->len)
    end_answer (set, *ids, *trained);
  room = prompt_ids->len < set->max_length ? set->max_length - prompt_ids->len : 0;
  if ((*ids)->len > room)
    {
      *fit = set->on_overlong == OVERLONG_DROP ? FIT_NOT : MAX (*fit, FIT_CUT);
      g_array_set_size (*ids, room);
      g_array_set_size (*trained, room);
      if (!has_trained (*trained))
        *fit = FIT_NOT;
    }
}

static void
take_prompt (PlumbDataSet *set, PlumbDataRow *row, const gint32 *ids, guint n, PlumbDataFit *fit)
{
  row->prompt_ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_array_append_vals (row->prompt_ids, ids, n);
  if (n <= set->max_prompt)
    return;
  *fit = set->on_overlong == OVERLONG_DROP ? FIT_NOT : MAX (*fit, FIT_CUT);
  plumb_data_cut_prompt (set, row->prompt_ids);
}

/* What is shown as the prompt and the answer. */
static void
show (const Making *m, PlumbDataRow *row)
{
  PlumbTokenizer *tokenizer = m->set->tokenizer;

  if (m->text->prompt != NULL)
    row->prompt = plumb_data_shown (m->text->prompt);
  else
    row->prompt = plumb_tokenizer_decode (tokenizer, (gpointer)row->prompt_ids->data, row->prompt_ids->len, FALSE, NULL);
  if (m->text->response != NULL)
    row->response = plumb_data_shown (m->text->response);
  else if (row->response_ids != NULL)
    row->response = plumb_tokenizer_decode (tokenizer, (gpointer)row->response_ids->data, row->response_ids->len,
                                            TRUE, NULL);
  if (m->text->rejected != NULL)
    row->rejected = plumb_data_shown (m->text->rejected);
  else if (row->rejected_ids != NULL)
    row->rejected = plumb_tokenizer_decode (tokenizer, (gpointer)row->rejected_ids->data, row->rejected_ids->len,
                                            TRUE, NULL);
}

static gboolean
build_prompt (const Making *m, PlumbDataFit *fit, GError **error)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (JsonNode) node = json_node_new (JSON_NODE_ARRAY);

  json_node_set_array (node, m->messages);
  if (!plumb_conversation_prompt (m->set->chat, m->set->tokenizer, node, m->variables, ids, error))
    {
      g_prefix_error (error, "%s:%u: ", m->row->file, m->row->line);
      return FALSE;
    }
  take_prompt (m->set, m->row, (gpointer)ids->data, ids->len, fit);
  show (m, m->row);
  return TRUE;
}

/* One conversation as a row. */
static gboolean
fill_row (const Making *m, PlumbDataRow *row, const PlumbConversation *c, PlumbDataFit *fit, GError **error)
{
  guint first = 0, end = 0;

  if (!trained_range (c, &first, &end))
    return fail (m, error, "no token of this conversation is trained: the assistant says nothing in it");
  row->file = m->row->file;
  row->line = m->row->line;
  take_prompt (m->set, row, (gpointer)c->ids->data, first, fit);
  take_answer (m, c, first, row->prompt_ids, &row->response_ids, &row->response_trained, fit);
  show (m, row);
  return TRUE;
}

static gboolean
build_supervised (const Making *m, gboolean last, PlumbDataFit *fit, GError **error)
{
  g_autoptr (GPtrArray) rows = encode (m, m->text->response_turns, m->text->response, last, error);
  PlumbDataRow *row = m->row;
  guint first;

  if (rows == NULL)
    return FALSE;
  /* The whole of a conversation stands in the last of its rows. */
  first = m->set->train_on == PLUMB_TRAIN_ON_ALL && rows->len > 0 ? rows->len - 1 : 0;
  if (rows->len == 0)
    return fail (m, error, "the conversation has no assistant turn: there is nothing to train");
  for (guint i = first; i < rows->len; i++)
    {
      if (i > first)
        row = row->next = g_new0 (PlumbDataRow, 1);
      if (!fill_row (m, row, g_ptr_array_index (rows, i), fit, error))
        return FALSE;
    }
  return TRUE;
}

static guint
common_ids (const GArray *a, const GArray *b, guint most)
{
  guint n = 0;

  while (n < most && n < a->len && n < b->len && g_array_index (a, gint32, n) == g_array_index (b, gint32, n))
    n++;
  return n;
}

/* Both answers continue the ids that they share, up to the first that is trained in one. */
static gboolean
build_pair (const Making *m, PlumbDataFit *fit, GError **error)
{
  g_autoptr (GPtrArray) chosen = encode (m, m->text->response_turns, m->text->response, TRUE, error);
  g_autoptr (GPtrArray) rejected
      = chosen != NULL ? encode (m, m->text->rejected_turns, m->text->rejected, TRUE, error) : NULL;
  const PlumbConversation *a, *b;
  guint first_a = 0, first_b = 0, end, n;

  if (rejected == NULL)
    return FALSE;
  if (chosen->len == 0 || rejected->len == 0)
    return fail (m, error, "an answer of the pair has no assistant turn");
  a = g_ptr_array_index (chosen, chosen->len - 1);
  b = g_ptr_array_index (rejected, rejected->len - 1);
  if (!trained_range (a, &first_a, &end) || !trained_range (b, &first_b, &end))
    return fail (m, error, "no token of an answer is trained: the assistant says nothing in it");
  n = common_ids (a->ids, b->ids, MIN (first_a, first_b));
  take_prompt (m->set, m->row, (gpointer)a->ids->data, n, fit);
  take_answer (m, a, n, m->row->prompt_ids, &m->row->response_ids, &m->row->response_trained, fit);
  take_answer (m, b, n, m->row->prompt_ids, &m->row->rejected_ids, &m->row->rejected_trained, fit);
  show (m, m->row);
  return TRUE;
}

/* A row of many megabytes is dropped before it is rendered: its tokens cannot fit. */
static gboolean
is_hopeless (PlumbDataSet *set, const PlumbDataText *text)
{
  gsize most = (set->max_length + 16) * plumb_tokenizer_longest_token (set->tokenizer), length = 0;
  JsonArray *lists[] = { text->turns, text->response_turns, text->rejected_turns };

  for (gsize i = 0; i < G_N_ELEMENTS (lists); i++)
    for (guint j = 0; lists[i] != NULL && j < json_array_get_length (lists[i]); j++)
      {
        JsonObject *message = json_array_get_object_element (lists[i], j);
        JsonNode *content = json_object_get_member (message, "content");

        if (content != NULL && JSON_NODE_HOLDS_VALUE (content) && json_node_get_string (content) != NULL)
          length += strlen (json_node_get_string (content));
      }
  if (text->response != NULL)
    length += text->response->len;
  if (text->rejected != NULL)
    length = MAX (length, text->rejected->len);
  return length > most;
}

gboolean
plumb_data_chat_build (PlumbDataSet *set,
                       PlumbDataRow *row,
                       PlumbDataText *text,
                       const PlumbDataKeys *keys,
                       PlumbDataFit *fit,
                       PlumbConversationNotes *notes,
                       GError **error)
{
  Making m = { set, row, text, NULL, NULL, notes };
  g_autoptr (JsonArray) messages = NULL;
  g_autoptr (JsonObject) variables = variables_of (text);
  gboolean cut = text->turns == NULL && text->prompt != NULL && plumb_data_cut_text (set, text->prompt);

  if (has_nul (text->prompt) || has_nul (text->response) || has_nul (text->rejected) || has_nul (text->system))
    return fail (&m, error, "a text holds a NUL character, which a chat template cannot take");
  if ((cut && set->on_overlong == OVERLONG_DROP) || is_hopeless (set, text))
    {
      *fit = FIT_NOT;
      row->prompt_ids = g_array_new (FALSE, FALSE, sizeof (gint32));
      return TRUE;
    }
  if (cut)
    *fit = FIT_CUT;
  m.messages = messages = lead_up (set, text);
  m.variables = variables;
  if (!set->trains)
    return build_prompt (&m, fit, error);
  if (keys->need_pair)
    return build_pair (&m, fit, error);
  return build_supervised (&m, keys->need_label || set->train_on == PLUMB_TRAIN_ON_LAST_TURN, fit, error);
}
