/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "app/engine-client.h"
#include "engine/core/error.h"
#include "engine/core/spec.h"

#define PROGRAM "plumbline-engine"

void
plumb_engine_reply_free (PlumbEngineReply *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->json, json_node_unref);
  g_free (self->complaint);
  g_free (self);
}

static char *
find_from (const char *folder, const char *name)
{
  g_autofree char *path = g_build_filename (folder, name, PROGRAM, NULL);

  return g_file_test (path, G_FILE_TEST_IS_EXECUTABLE) ? g_canonicalize_filename (path, NULL)
                                                       : NULL;
}

char *
plumb_engine_find (GError **error)
{
  const char *named = g_getenv ("PLUMBLINE_ENGINE");
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *folder = self != NULL ? g_path_get_dirname (self) : g_strdup (".");
  char *path;

  if (named != NULL && *named != '\0')
    {
      if (g_file_test (named, G_FILE_TEST_IS_EXECUTABLE))
        return g_strdup (named);
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   _ ("PLUMBLINE_ENGINE names “%s”, which is no program."), named);
      return NULL;
    }
  path = find_from (folder, ".");
  if (path == NULL)
    path = find_from (folder, "../engine");
  if (path == NULL)
    path = g_find_program_in_path (PROGRAM);
  if (path == NULL)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                 _ ("The program “%s” was not found. Install it, or name it in the environment "
                    "variable PLUMBLINE_ENGINE."),
                 PROGRAM);
  return path;
}

/* The engine prints one JSON object; anything else on stdout is not for this program. */
static JsonNode *
parse_output (const char *text)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();

  if (text == NULL || *text == '\0' || !json_parser_load_from_data (parser, text, -1, NULL))
    return NULL;
  return json_parser_steal_root (parser);
}

static void
communicate_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GSubprocess *process = G_SUBPROCESS (source);
  g_autoptr (GTask) task = user_data;
  g_autofree char *output = NULL;
  g_autofree char *complaint = NULL;
  g_autoptr (GError) error = NULL;
  PlumbEngineReply *reply;

  if (!g_subprocess_communicate_utf8_finish (process, result, &output, &complaint, &error))
    {
      g_task_return_error (task, g_steal_pointer (&error));
      return;
    }
  reply = g_new0 (PlumbEngineReply, 1);
  reply->exit_code = g_subprocess_get_if_exited (process) ? g_subprocess_get_exit_status (process)
                                                          : PLUMB_ERROR_FAILED;
  reply->json = parse_output (output);
  reply->complaint = g_strchomp (g_steal_pointer (&complaint));
  g_task_return_pointer (task, reply, (GDestroyNotify)plumb_engine_reply_free);
}

void
plumb_engine_call_async (const char *const *arguments,
                         GCancellable *cancellable,
                         GAsyncReadyCallback callback,
                         gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (NULL, cancellable, callback, user_data);
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GPtrArray) command = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) error = NULL;
  char *program;

  g_task_set_source_tag (task, plumb_engine_call_async);
  program = plumb_engine_find (&error);
  if (program == NULL)
    {
      g_task_return_error (task, g_steal_pointer (&error));
      return;
    }
  g_ptr_array_add (command, program);
  for (gsize i = 0; arguments[i] != NULL; i++)
    g_ptr_array_add (command, g_strdup (arguments[i]));
  g_ptr_array_add (command, NULL);

  process
      = g_subprocess_newv ((const char *const *)command->pdata,
                           G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE, &error);
  if (process == NULL)
    {
      g_task_return_error (task, g_steal_pointer (&error));
      return;
    }
  g_subprocess_communicate_utf8_async (process, NULL, cancellable, communicate_cb,
                                       g_steal_pointer (&task));
}

PlumbEngineReply *
plumb_engine_call_finish (GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

static const char *
member_text (JsonObject *object, const char *name)
{
  JsonNode *node = json_object_get_member (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
}

static guint
member_line (JsonObject *object)
{
  JsonNode *node = json_object_get_member (object, "line");

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? MAX (0, json_node_get_int (node)) : 0;
}

GPtrArray *
plumb_engine_reply_problems (const PlumbEngineReply *self)
{
  GPtrArray *problems = plumb_problems_new ();
  JsonNode *node = NULL;
  JsonArray *list;

  if (self->json != NULL && JSON_NODE_HOLDS_OBJECT (self->json))
    node = json_object_get_member (json_node_get_object (self->json), "problems");
  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node))
    return problems;

  list = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (list); i++)
    {
      JsonNode *element = json_array_get_element (list, i);
      JsonObject *object;
      const char *message;

      if (!JSON_NODE_HOLDS_OBJECT (element))
        continue;
      object = json_node_get_object (element);
      message = member_text (object, "message");
      g_ptr_array_add (
          problems,
          plumb_problem_new (member_text (object, "key"), member_text (object, "value"),
                             member_text (object, "file"), member_line (object),
                             message != NULL ? message : "?", member_text (object, "remedy")));
    }
  return problems;
}

char *
plumb_engine_reply_summary (const PlumbEngineReply *self)
{
  const char *message = NULL;

  if (self->json != NULL && JSON_NODE_HOLDS_OBJECT (self->json))
    message = member_text (json_node_get_object (self->json), "error");
  if (message == NULL && self->complaint != NULL && *self->complaint != '\0')
    message = self->complaint;
  if (message != NULL)
    return g_strdup (message);
  return g_strdup_printf (_ ("The engine ended with exit code %d and said nothing."),
                          self->exit_code);
}
