/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/json-tree.h"
#include "engine/text/data-chat.h"

#define HUMAN "\n\nHuman:"
#define ASSISTANT "\n\nAssistant:"

static const char *const role_names[] = { "role", "from", "speaker" };
static const char *const content_names[] = { "content", "value", "text" };

static const char *
role_of (JsonObject *message)
{
  for (gsize i = 0; i < G_N_ELEMENTS (role_names); i++)
    {
      const char *role = plumb_json_node_text (json_object_get_member (message, role_names[i]));

      if (role != NULL)
        return role;
    }
  return NULL;
}

static JsonNode *
content_of (JsonObject *message)
{
  for (gsize i = 0; i < G_N_ELEMENTS (content_names); i++)
    if (json_object_has_member (message, content_names[i]))
      return json_object_get_member (message, content_names[i]);
  return NULL;
}

gboolean
plumb_chat_is_assistant (JsonArray *messages, guint i)
{
  JsonObject *message = plumb_json_node_object (json_array_get_element (messages, i));

  return message != NULL && g_strcmp0 (role_of (message), "assistant") == 0;
}

gboolean
plumb_chat_is_messages (JsonNode *value)
{
  JsonArray *array = plumb_json_node_array (value);
  JsonObject *message = plumb_json_node_object (value);

  if (array != NULL)
    {
      if (json_array_get_length (array) == 0)
        return FALSE;
      message = plumb_json_node_object (json_array_get_element (array, 0));
    }
  return message != NULL && role_of (message) != NULL;
}

/* What other tools call the three roles. */
static const char *
usual_role (const char *role)
{
  static const struct
  {
    const char *name, *usual;
  } names[] = {
    { "human", "user" },         { "prompter", "user" },         { "gpt", "assistant" },
    { "chatgpt", "assistant" },  { "bard", "assistant" },        { "bot", "assistant" },
    { "model", "assistant" },    { "function_call", "assistant" }, { "observation", "tool" },
    { "function_response", "tool" }, { "tool_response", "tool" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_ascii_strcasecmp (role, names[i].name) == 0)
      return names[i].usual;
  return role;
}

static JsonNode *
parse_object (const char *text)
{
  g_autoptr (JsonParser) parser = plumb_json_parse ("arguments", text, strlen (text), NULL);

  if (parser == NULL || plumb_json_node_object (json_parser_get_root (parser)) == NULL)
    return NULL;
  return json_parser_steal_root (parser);
}

/* Arguments that are written as a text of JSON become what they say: templates write them out again. */
static void
open_arguments (JsonObject *message)
{
  JsonArray *calls = plumb_json_node_array (json_object_get_member (message, "tool_calls"));

  for (guint i = 0; calls != NULL && i < json_array_get_length (calls); i++)
    {
      JsonObject *call = plumb_json_node_object (json_array_get_element (calls, i));
      JsonObject *function
          = call != NULL ? plumb_json_node_object (json_object_get_member (call, "function")) : NULL;
      const char *text;
      JsonNode *arguments;

      if (function == NULL)
        function = call;
      if (function == NULL)
        continue;
      text = plumb_json_node_text (json_object_get_member (function, "arguments"));
      arguments = text != NULL ? parse_object (text) : NULL;
      if (arguments != NULL)
        json_object_set_member (function, "arguments", arguments);
    }
}

/* A message that is a call: {"from": "function_call", "value": "{\"name\", \"arguments\"}"}. */
static void
make_call (JsonObject *message, const char *text)
{
  g_autoptr (JsonNode) function = text != NULL ? parse_object (text) : NULL;
  JsonObject *call;
  JsonArray *calls;

  if (function == NULL)
    return;
  call = json_object_new ();
  json_object_set_string_member (call, "type", "function");
  json_object_set_member (call, "function", json_node_copy (function));
  calls = json_array_new ();
  json_array_add_object_element (calls, call);
  json_object_set_array_member (message, "tool_calls", calls);
  json_object_set_string_member (message, "content", "");
}

/* The message under its usual names; all else that it has stays. */
static JsonNode *
usual_message (JsonObject *message)
{
  g_autoptr (JsonNode) node = json_node_new (JSON_NODE_OBJECT);
  JsonObject *made = json_object_new ();
  const char *role = role_of (message);
  JsonNode *content = content_of (message);
  JsonObjectIter iter;
  const char *name;
  JsonNode *value;

  json_object_set_string_member (made, "role", usual_role (role));
  if (content != NULL)
    json_object_set_member (made, "content", json_node_copy (content));
  json_object_iter_init_ordered (&iter, message);
  while (json_object_iter_next_ordered (&iter, &name, &value))
    {
      gboolean taken = json_object_has_member (made, name);

      for (gsize i = 0; i < G_N_ELEMENTS (role_names); i++)
        taken |= g_str_equal (name, role_names[i]) || g_str_equal (name, content_names[i]);
      if (!taken)
        json_object_set_member (made, name, json_node_copy (value));
    }
  if (g_ascii_strcasecmp (role, "function_call") == 0)
    make_call (made, content != NULL ? plumb_json_node_text (content) : NULL);
  open_arguments (made);
  json_node_take_object (node, made);
  return g_steal_pointer (&node);
}

static JsonNode *
check_message (JsonNode *node, guint number, char **wrong)
{
  JsonObject *message = plumb_json_node_object (node);
  JsonNode *content = message != NULL ? content_of (message) : NULL;

  if (message == NULL || role_of (message) == NULL)
    *wrong = g_strdup_printf ("message %u is no object with role and content", number);
  else if (!json_object_has_member (message, "tool_calls")
           && (content == NULL || (plumb_json_node_text (content) == NULL && plumb_json_node_array (content) == NULL)))
    *wrong = g_strdup_printf ("message %u, of \"%s\", has no content", number, role_of (message));
  else
    return usual_message (message);
  return NULL;
}

JsonArray *
plumb_chat_messages (JsonNode *value, char **wrong)
{
  g_autoptr (JsonArray) messages = json_array_new ();
  JsonArray *array = plumb_json_node_array (value);
  guint n = array != NULL ? json_array_get_length (array) : 1;

  *wrong = NULL;
  for (guint i = 0; i < n; i++)
    {
      JsonNode *made = check_message (array != NULL ? json_array_get_element (array, i) : value, i + 1, wrong);

      if (made == NULL)
        return NULL;
      json_array_add_element (messages, made);
    }
  if (n == 0)
    {
      *wrong = g_strdup ("the list of messages is empty");
      return NULL;
    }
  return g_steal_pointer (&messages);
}

/* --- dividing a row */

static gboolean
fault_at (PlumbRowFault *fault, char *message, const char *remedy)
{
  plumb_row_fault_clear (fault);
  fault->message = message;
  fault->remedy = g_strdup (remedy);
  return FALSE;
}

static JsonArray *
slice (JsonArray *messages, guint first, guint last)
{
  JsonArray *part = json_array_new ();

  for (guint i = first; i < last; i++)
    json_array_add_element (part, json_node_copy (json_array_get_element (messages, i)));
  return part;
}

static void
set_turns (JsonArray **to, JsonArray *messages)
{
  g_clear_pointer (to, json_array_unref);
  *to = messages;
}

static guint
common_turns (JsonArray *a, JsonArray *b)
{
  guint n = 0, most = MIN (json_array_get_length (a), json_array_get_length (b));

  while (n < most && json_node_equal (json_array_get_element (a, n), json_array_get_element (b, n)))
    n++;
  return n;
}

static gboolean
same_answers (const PlumbDataText *text)
{
  if (text->response_turns != NULL && text->rejected_turns != NULL)
    {
      guint n = json_array_get_length (text->response_turns);

      return n == json_array_get_length (text->rejected_turns)
             && common_turns (text->response_turns, text->rejected_turns) == n;
    }
  return text->response != NULL && text->rejected != NULL && g_string_equal (text->response, text->rejected);
}

/* Both answers begin with the conversation: it is taken from them. */
static gboolean
divide_turns (PlumbDataText *text, PlumbRowFault *fault)
{
  guint n = common_turns (text->response_turns, text->rejected_turns);

  while (n > 0
         && (n == json_array_get_length (text->response_turns) || n == json_array_get_length (text->rejected_turns)
             || !plumb_chat_is_assistant (text->response_turns, n)
             || !plumb_chat_is_assistant (text->rejected_turns, n)))
    n--;
  if (n == 0)
    return fault_at (fault, g_strdup ("the two conversations do not begin with the same messages"),
                     "give the prompt under a key of its own");
  set_turns (&text->turns, slice (text->response_turns, 0, n));
  set_turns (&text->response_turns, slice (text->response_turns, n, json_array_get_length (text->response_turns)));
  set_turns (&text->rejected_turns, slice (text->rejected_turns, n, json_array_get_length (text->rejected_turns)));
  return TRUE;
}

/* Adds to what the same speaker said before. */
static gboolean
continue_turn (JsonArray *turns, const char *role, const char *start, const char *end)
{
  guint n = json_array_get_length (turns);
  JsonObject *last = n > 0 ? json_array_get_object_element (turns, n - 1) : NULL;
  g_autofree char *content = NULL;

  if (last == NULL || !g_str_equal (json_object_get_string_member (last, "role"), role))
    return FALSE;
  content = g_strdup_printf ("%s\n\n%.*s", json_object_get_string_member (last, "content"), (int)(end - start), start);
  json_object_set_string_member (last, "content", content);
  return TRUE;
}

static void
append_turn (JsonArray *turns, const char *role, const char *start, const char *end)
{
  g_autofree char *content = g_strndup (start, end - start);
  JsonObject *message = json_object_new ();

  json_object_set_string_member (message, "role", role);
  json_object_set_string_member (message, "content", content);
  json_array_add_object_element (turns, message);
}

/* A dialog written as one text: "\n\nHuman: ... \n\nAssistant: ..."; NULL if it is none. */
static JsonArray *
read_dialog (const GString *text)
{
  g_autoptr (JsonArray) turns = json_array_new ();
  const char *next = text->str;

  if (strlen (text->str) != text->len || !g_str_has_prefix (next, HUMAN))
    return NULL;
  while (*next != '\0')
    {
      gboolean human = g_str_has_prefix (next, HUMAN);
      const char *start = next + strlen (human ? HUMAN : ASSISTANT);
      const char *a = strstr (start, HUMAN), *b = strstr (start, ASSISTANT);
      const char *end = a != NULL && (b == NULL || a < b) ? a : b;

      if (end == NULL)
        end = start + strlen (start);
      next = end;
      while (start < end && g_ascii_isspace (*start))
        start++;
      while (end > start && g_ascii_isspace (end[-1]))
        end--;
      if (!continue_turn (turns, human ? "user" : "assistant", start, end))
        append_turn (turns, human ? "user" : "assistant", start, end);
    }
  return g_steal_pointer (&turns);
}

/* The last place up to which both texts are the same and at which an assistant begins. */
static gsize
shared_beginning (const GString *a, const GString *b)
{
  gsize n = 0, most = MIN (a->len, b->len);
  const char *last = NULL, *next;

  while (n < most && a->str[n] == b->str[n])
    n++;
  for (next = a->str; (next = strstr (next, ASSISTANT)) != NULL && next + strlen (ASSISTANT) <= a->str + n; next++)
    last = next;
  return last != NULL ? last + strlen (ASSISTANT) - a->str : 0;
}

/* Two texts without a prompt: dialogs with the same beginning, or answers to nothing. */
static gboolean
divide_texts (PlumbDataText *text, PlumbRowFault *fault)
{
  g_autoptr (JsonArray) chosen = read_dialog (text->response), rejected = read_dialog (text->rejected);
  gsize n = shared_beginning (text->response, text->rejected);

  if (same_answers (text))
    return TRUE; /* told by the caller */
  if (chosen != NULL && rejected != NULL && n > 0)
    {
      text->response_turns = g_steal_pointer (&chosen);
      text->rejected_turns = g_steal_pointer (&rejected);
      if (!divide_turns (text, fault))
        return FALSE;
    }
  text->prompt = g_string_new_len (text->response->str, n);
  g_string_erase (text->response, 0, n);
  g_string_erase (text->rejected, 0, n);
  if (text->response->len == 0 || text->rejected->len == 0)
    return fault_at (fault, g_strdup ("one of the two answers is empty behind what they share"), NULL);
  return TRUE;
}

static void
text_to_turns (const GString *text, JsonArray **turns)
{
  if (*turns != NULL || text == NULL)
    return;
  *turns = json_array_new ();
  append_turn (*turns, "assistant", text->str, text->str + strlen (text->str));
}

static gboolean
divide_pair (PlumbDataText *text, PlumbRowFault *fault)
{
  gboolean lists = text->response_turns != NULL || text->rejected_turns != NULL;
  gboolean led = FALSE;

  if (lists)
    {
      text_to_turns (text->response, &text->response_turns);
      text_to_turns (text->rejected, &text->rejected_turns);
      led = !plumb_chat_is_assistant (text->response_turns, 0) && !plumb_chat_is_assistant (text->rejected_turns, 0);
    }
  if (same_answers (text))
    return fault_at (fault, g_strdup ("chosen equals rejected"), "give two different answers");
  if (lists)
    return led ? divide_turns (text, fault) : TRUE;
  if (text->prompt == NULL && text->turns == NULL)
    {
      if (!divide_texts (text, fault))
        return FALSE;
      return !same_answers (text) || fault_at (fault, g_strdup ("chosen equals rejected"), NULL);
    }
  return TRUE;
}

static gboolean
has_assistant (JsonArray *turns)
{
  for (guint i = 0; i < json_array_get_length (turns); i++)
    if (plumb_chat_is_assistant (turns, i))
      return TRUE;
  return FALSE;
}

/* A conversation as a prompt: what the assistant says last is what the model shall say. */
static gboolean
divide_prompt (PlumbDataText *text, PlumbRowFault *fault)
{
  guint n = json_array_get_length (text->turns);

  while (n > 0 && plumb_chat_is_assistant (text->turns, n - 1))
    n--;
  if (n == 0)
    return fault_at (fault, g_strdup ("the conversation has nothing but assistant turns"), NULL);
  if (n < json_array_get_length (text->turns))
    set_turns (&text->turns, slice (text->turns, 0, n));
  return TRUE;
}

gboolean
plumb_chat_divide (const PlumbDataKeys *keys, PlumbDataText *text, PlumbRowFault *fault)
{
  gboolean answered;

  if (keys->need_pair)
    return divide_pair (text, fault);
  if (text->turns == NULL && text->prompt == NULL)
    text->turns = g_steal_pointer (&text->response_turns);
  if (text->turns == NULL)
    return TRUE;
  answered = text->response != NULL || text->response_turns != NULL;
  if (keys->prompts_only)
    return divide_prompt (text, fault);
  if (!answered && !has_assistant (text->turns))
    return fault_at (fault, g_strdup ("the conversation has no assistant turn: there is nothing to train"), NULL);
  return TRUE;
}
