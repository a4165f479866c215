/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: loading and rendering. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/text/template-private.h"
#include "engine/text/text-file.h"

#define LONGEST_SOURCE (4 << 20)

struct _PlumbTemplate
{
  gatomicrefcount refs;
  char *name;
  PlumbArena arena; /* of the nodes */
  PlumbNode *nodes;
  gboolean has_generation;
  JsonObject *variables; /* special tokens of the model folder */
};

PlumbTemplate *
plumb_template_ref (PlumbTemplate *self)
{
  g_atomic_ref_count_inc (&self->refs);
  return self;
}

void
plumb_template_unref (PlumbTemplate *self)
{
  if (!g_atomic_ref_count_dec (&self->refs))
    return;
  g_free (self->name);
  plumb_arena_clear (&self->arena);
  json_object_unref (self->variables);
  g_free (self);
}

gboolean
plumb_template_has_generation (PlumbTemplate *self)
{
  return self->has_generation;
}

PlumbTemplate *
plumb_template_new (const char *name, const char *source, gssize length, GError **error)
{
  g_autoptr (PlumbTemplate) self = g_new0 (PlumbTemplate, 1);
  gsize bytes = length < 0 ? strlen (source) : (gsize)length;
  g_autoptr (GArray) tokens = NULL;
  PlumbParser parser = { .name = name };

  g_atomic_ref_count_init (&self->refs);
  self->name = g_strdup (name);
  self->variables = json_object_new ();
  plumb_arena_init (&self->arena);
  if (bytes > LONGEST_SOURCE)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: a template of more than %d MiB is none",
                   name, LONGEST_SOURCE >> 20);
      return NULL;
    }
  tokens = plumb_template_lex (&self->arena, source, bytes, error);
  if (tokens != NULL)
    {
      parser.arena = &self->arena;
      parser.token = (gconstpointer)tokens->data;
      self->nodes = plumb_template_parse (&parser, error);
      self->has_generation = parser.has_generation;
    }
  if (self->nodes == NULL)
    {
      g_prefix_error (error, "%s: ", name);
      return NULL;
    }
  return g_steal_pointer (&self);
}

/* --- of a model folder */

static PlumbTemplate *
new_from_file (const char *path, GError **error)
{
  g_autoptr (GBytes) bytes = plumb_text_file_read (path, error);
  gsize length;
  const char *source = bytes != NULL ? g_bytes_get_data (bytes, &length) : NULL;

  if (bytes == NULL)
    return NULL;
  return plumb_template_new (path, source != NULL ? source : "", source != NULL ? (gssize)length : 0, error);
}

/* "chat_template": a text, or a list of {"name", "template"} of which "default" is taken. */
static const char *
find_source (JsonObject *config)
{
  JsonNode *node = json_object_get_member (config, "chat_template");
  JsonArray *list = plumb_json_node_array (node);
  const char *first = NULL;

  if (list == NULL)
    return plumb_json_node_text (node);
  for (guint i = 0; i < json_array_get_length (list); i++)
    {
      JsonObject *item = plumb_json_node_object (json_array_get_element (list, i));
      const char *name = item != NULL ? plumb_json_node_text (json_object_get_member (item, "name")) : NULL;
      const char *source = item != NULL ? plumb_json_node_text (json_object_get_member (item, "template")) : NULL;

      if (source != NULL && g_strcmp0 (name, "default") == 0)
        return source;
      if (first == NULL)
        first = source;
    }
  return first;
}

/* bos_token and its like: a text, or an object with its content. */
static void
take_tokens (JsonObject *variables, JsonObject *config)
{
  static const char *const names[]
      = { "bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token" };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      JsonNode *node = json_object_get_member (config, names[i]);
      JsonObject *object = plumb_json_node_object (node);
      const char *text = plumb_json_node_text (object != NULL ? json_object_get_member (object, "content") : node);

      if (text != NULL && !json_object_has_member (variables, names[i]))
        json_object_set_string_member (variables, names[i], text);
    }
}

static JsonParser *
read_config (const char *dir, const char *name, GError **error)
{
  g_autofree char *path = plumb_text_file_find (dir, name);
  g_autoptr (GBytes) bytes = path != NULL ? plumb_text_file_read (path, error) : NULL;
  gsize length;
  const char *text;

  if (bytes == NULL)
    return NULL;
  text = g_bytes_get_data (bytes, &length);
  return plumb_json_parse (path, text != NULL ? text : "", text != NULL ? (gssize)length : 0, error);
}

static PlumbTemplate *
no_template (const char *dir, GError **error)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "%s: this model has no chat template: there is no chat_template.jinja, and no \"chat_template\" in"
               " tokenizer_config.json; name a template file",
               dir);
  return NULL;
}

/* `none` is set where a folder has no template at all. */
static PlumbTemplate *
load (const char *path, gboolean *none, GError **error)
{
  g_autofree char *file = NULL;
  g_autoptr (JsonParser) config = NULL, map = NULL;
  g_autoptr (PlumbTemplate) self = NULL;
  g_autoptr (GError) local = NULL;
  JsonObject *top = NULL;
  const char *source;

  if (!g_file_test (path, G_FILE_TEST_IS_DIR))
    return new_from_file (path, error);
  file = plumb_text_file_find (path, "chat_template.jinja");
  config = read_config (path, "tokenizer_config.json", &local);
  map = local == NULL ? read_config (path, "special_tokens_map.json", &local) : NULL;
  if (local != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return NULL;
    }
  if (config != NULL)
    top = plumb_json_node_object (json_parser_get_root (config));
  source = top != NULL ? find_source (top) : NULL;
  if (file != NULL)
    self = new_from_file (file, error);
  else if (source != NULL)
    {
      g_autofree char *name = g_build_filename (path, "tokenizer_config.json: chat_template", NULL);

      self = plumb_template_new (name, source, -1, error);
    }
  else
    {
      *none = TRUE;
      return no_template (path, error);
    }
  if (self == NULL)
    return NULL;
  if (top != NULL)
    take_tokens (self->variables, top);
  top = map != NULL ? plumb_json_node_object (json_parser_get_root (map)) : NULL;
  if (top != NULL)
    take_tokens (self->variables, top);
  return g_steal_pointer (&self);
}

PlumbTemplate *
plumb_template_load (const char *path, GError **error)
{
  gboolean none = FALSE;

  return load (path, &none, error);
}

gboolean
plumb_template_find (const char *folder, PlumbTemplate **found, GError **error)
{
  gboolean none = FALSE;
  g_autoptr (GError) local = NULL;

  *found = load (folder, &none, &local);
  if (*found != NULL || none)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* --- rendering */

static void
set_variables (PlumbEval *e, JsonObject *variables)
{
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;

  if (variables == NULL)
    return;
  json_object_iter_init_ordered (&iter, variables);
  while (json_object_iter_next_ordered (&iter, &name, &node))
    plumb_frame_set (e, e->frame, plumb_arena_copy (e->arena, name, strlen (name)),
                     plumb_value_from_json (e->arena, node));
}

/* Reasoning goes by three names; templates find it under the two that they read, whichever the data has. */
static void
name_reasoning (PlumbArena *arena, PlumbValue *messages)
{
  static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };

  for (gsize i = 0; messages->kind == VALUE_LIST && i < messages->list->n; i++)
    {
      PlumbValue *message = &messages->list->items[i];
      const PlumbValue *found = NULL;
      PlumbValue reasoning;

      for (gsize j = 0; message->kind == VALUE_DICT && j < G_N_ELEMENTS (names); j++)
        if (found == NULL || found->kind == VALUE_NONE)
          found = plumb_dict_get_text (message->dict, names[j]);
      if (found == NULL || found->kind == VALUE_NONE)
        continue;
      reasoning = *found;
      if (plumb_dict_get_text (message->dict, "thinking") == NULL)
        plumb_dict_set (arena, message->dict, PLUMB_TEXT ("thinking", 8), reasoning);
      plumb_dict_set (arena, message->dict, PLUMB_TEXT ("reasoning_content", 17), reasoning);
    }
}

char *
plumb_template_render (PlumbTemplate *self,
                       JsonNode *messages,
                       gboolean add_generation_prompt,
                       JsonObject *variables,
                       GArray *spans,
                       GError **error)
{
  static const char *const nothing[] = { "tools", "documents" };
  PlumbArena arena;
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  GString *out = g_string_new (NULL);
  PlumbValue conversation;
  PlumbEval e = { .arena = &arena, .name = self->name, .out = out, .main = out, .spans = spans, .now = now };

  plumb_arena_init (&arena);
  plumb_frame_push (&e, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (nothing); i++)
    plumb_frame_set (&e, e.frame, nothing[i], PLUMB_NONE);
  set_variables (&e, self->variables);
  conversation = plumb_value_from_json (&arena, messages);
  name_reasoning (&arena, &conversation);
  plumb_frame_set (&e, e.frame, "messages", conversation);
  plumb_frame_set (&e, e.frame, "add_generation_prompt", PLUMB_BOOL (add_generation_prompt));
  set_variables (&e, variables);
  plumb_eval_statements (&e, self->nodes);
  plumb_eval_spend (&e, 0);
  plumb_arena_clear (&arena);
  if (e.error == NULL)
    return g_string_free (out, FALSE);
  g_string_free (out, TRUE);
  g_propagate_error (error, e.error);
  return NULL;
}
