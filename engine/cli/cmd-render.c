/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine render: JSON lines of messages to the text that a chat template makes of them. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/text/template.h"

typedef struct
{
  PlumbTemplate *template;
  PlumbTokenizer *tokenizer; /* NULL: text only */
  guint line;
} Session;

static JsonNode *
messages_of (JsonObject *row, GError **error)
{
  JsonNode *messages = json_object_get_member (row, "messages");
  if (plumb_json_node_array (messages))
    return messages;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "the row has no list \"messages\"");
  return NULL;
}

static void
add_spans (JsonBuilder *builder, const GArray *spans)
{
  json_builder_set_member_name (builder, "spans");
  json_builder_begin_array (builder);
  for (guint i = 0; i < spans->len; i++)
    {
      PlumbTextSpan span = g_array_index (spans, PlumbTextSpan, i);
      json_builder_begin_array (builder);
      json_builder_add_int_value (builder, (gint64) span.start);
      json_builder_add_int_value (builder, (gint64) span.end);
      json_builder_end_array (builder);
    }
  json_builder_end_array (builder);
}

static void
print (JsonBuilder *builder)
{
  g_autoptr (JsonNode) root = NULL;
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  plumb_command_print_json (root, FALSE);
}

static gboolean
render_row (Session *session, JsonObject *row, GError **error)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (GArray) spans = g_array_new (FALSE, FALSE, sizeof (PlumbTextSpan));
  JsonNode *messages = messages_of (row, error);
  JsonNode *prompt = json_object_get_member (row, "add_generation_prompt");
  gboolean add = prompt && JSON_NODE_HOLDS_VALUE (prompt) && json_node_get_boolean (prompt);
  g_autofree char *text = NULL;
  if (messages)
    text = plumb_template_render (session->template, messages, add,
                                  plumb_json_node_object (json_object_get_member (row, "variables")), spans, error);
  if (!text)
    return FALSE;
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "text");
  json_builder_add_string_value (builder, text);
  if (plumb_template_has_generation (session->template))
    add_spans (builder, spans);
  print (builder);
  return TRUE;
}

static void
add_numbers (JsonBuilder *builder, const char *name, const PlumbConversation *c, gboolean ids)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; i < c->ids->len; i++)
    json_builder_add_int_value (builder,
                                ids ? g_array_index (c->ids, gint32, i) : g_array_index (c->trained, guint8, i));
  json_builder_end_array (builder);
}

static void
print_conversation (const PlumbConversation *c, const PlumbConversationNotes *notes)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "text");
  json_builder_add_string_value (builder, c->text);
  add_spans (builder, c->spans);
  add_numbers (builder, "ids", c, TRUE);
  add_numbers (builder, "trained", c, FALSE);
  if (notes->rewritten >= 0)
    {
      json_builder_set_member_name (builder, "rewritten_message");
      json_builder_add_int_value (builder, notes->rewritten);
      json_builder_set_member_name (builder, "rewritten_at");
      json_builder_add_int_value (builder, (gint64) notes->rewritten_at);
    }
  if (notes->control >= 0)
    {
      json_builder_set_member_name (builder, "control_message");
      json_builder_add_int_value (builder, notes->control);
      json_builder_set_member_name (builder, "control_token");
      json_builder_add_string_value (builder, notes->control_token);
    }
  print (builder);
}

/* With --ids: the rows that training would see. */
static gboolean
encode_row (Session *session, JsonObject *row, GError **error)
{
  PlumbConversationNotes notes = { 0 };
  JsonNode *messages = messages_of (row, error);
  g_autoptr (GPtrArray) rows = NULL;
  if (messages)
    rows = plumb_conversation_encode (session->template, session->tokenizer, messages,
                                      plumb_json_node_object (json_object_get_member (row, "variables")),
                                      PLUMB_TRAIN_ALL_TURNS, &notes, error);
  for (guint i = 0; rows && i < rows->len; i++)
    print_conversation (g_ptr_array_index (rows, i), &notes);
  plumb_conversation_notes_clear (&notes);
  return rows != NULL;
}

static gboolean
convert_line (Session *session, const char *line, gsize length, GError **error)
{
  g_autoptr (JsonParser) parser = plumb_json_parse ("standard input", line, (gssize) length, error);
  JsonObject *row = parser ? plumb_json_top (parser, "standard input", error) : NULL;
  if (!row)
    return FALSE;
  return session->tokenizer ? encode_row (session, row, error) : render_row (session, row, error);
}

static gboolean
convert_input (Session *session, GError **error)
{
  char *line = NULL;
  size_t room = 0;
  ssize_t length;
  gboolean fine = TRUE;
  while (fine && (length = getline (&line, &room, stdin)) >= 0)
    {
      session->line++;
      if (length > 0 && line[length - 1] == '\n')
        length--;
      if (length > 0)
        fine = convert_line (session, line, (gsize) length, error);
    }
  free (line);
  if (!fine)
    g_prefix_error (error, "standard input, line %u: ", session->line);
  return fine;
}

int
plumb_cmd_render (int argc, char **argv, GError **error)
{
  g_autofree char *model = NULL;
  g_autofree char *file = NULL;
  gboolean ids = FALSE, fine = TRUE;
  Session session = { NULL };
  const GOptionEntry options[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &model, N_ ("folder with the model's template and tokenizer"), N_ ("DIR") },
    { "template", 't', 0, G_OPTION_ARG_FILENAME, &file, N_ ("a template file instead of the model's"), N_ ("FILE") },
    { "ids", 0, 0, G_OPTION_ARG_NONE, &ids, N_ ("print the ids too, with marks on those that are trained"), NULL },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, options, "",
                            _ ("Reads lines {\"messages\", \"add_generation_prompt\", \"variables\"}, prints lines"
                               " {\"text\"}."),
                            0, 0, error))
    return PLUMB_ERROR_USAGE;
  if ((!model && !file) || (ids && !model))
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                           ids ? "--ids needs the folder of the tokenizer: --model DIR"
                               : "give the folder of a model with --model DIR, or a template with --template FILE");
      return PLUMB_ERROR_USAGE;
    }
  session.template = plumb_template_load (file ? file : model, error);
  if (session.template && ids)
    session.tokenizer = plumb_tokenizer_load (model, error);
  fine = session.template && (!ids || session.tokenizer) && convert_input (&session, error);
  g_clear_pointer (&session.template, plumb_template_unref);
  g_clear_pointer (&session.tokenizer, plumb_tokenizer_unref);
  return fine ? 0 : PLUMB_ERROR_INVALID;
}
