/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include "engine/cli/command.h"
#include "engine/cli/model-session.h"
#include "engine/core/error.h"
#include "engine/core/json-tree.h"

/* Ids of a line: a JSON array, or an object with "ids". NULL with an error naming the line. */
static GArray *
parse_line (const char *line, const char *name, guint number, GError **error)
{
  g_autofree char *place = g_strdup_printf ("%s: line %u", name, number);
  g_autoptr (JsonParser) parser = plumb_json_parse (place, line, strlen (line), error);
  if (!parser)
    return NULL;
  JsonNode *root = json_parser_get_root (parser);
  JsonObject *object = plumb_json_node_object (root);
  JsonArray *array = plumb_json_node_array (object ? json_object_get_member (object, "ids") : root);
  if (!array)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s:%u: neither a list of ids nor an object with \"ids\"", name, number);
      return NULL;
    }
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      gint64 id;
      if (!plumb_json_node_integer (json_array_get_element (array, i), &id) || id < 0 || id > G_MAXINT32)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s:%u: entry %u is not a token id", name,
                       number, i + 1);
          return NULL;
        }
      gint32 value = (gint32) id;
      g_array_append_val (ids, value);
    }
  return g_steal_pointer (&ids);
}

static gboolean
print_line (PlumbModelSession *session, PlumbBuffers *buffers, GArray *ids, double temperature,
            GError **error)
{
  const gint32 *values = (const gint32 *) (void *) ids->data;
  int n = (int) ids->len;
  gint32 offsets[2] = { 0, n };
  PlumbPass pass = { .sequences = 1, .ids = values, .offsets = offsets };
  g_autofree gint32 *rows = g_new (gint32, n + 1);
  g_autofree float *log_probs = g_new (float, n + 1), *entropies = g_new (float, n + 1);
  for (int i = 0; i < n; i++)
    rows[i] = i;
  if (n > 1
      && (!plumb_model_forward (session->model, buffers, &pass, error)
          || !plumb_model_log_probs (session->model, buffers, rows, values + 1, n - 1, temperature, log_probs,
                                     entropies, error)))
    return FALSE;
  double sum = 0;
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "log_probs");
  json_builder_begin_array (builder);
  for (int i = 0; i + 1 < n; i++)
    {
      sum += log_probs[i];
      json_builder_add_double_value (builder, log_probs[i]);
    }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "sum");
  json_builder_add_double_value (builder, sum);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  plumb_command_print_json (root, FALSE);
  return TRUE;
}

static gboolean
run_lines (PlumbModelSession *session, const char *name, double temperature, GError **error)
{
  g_autoptr (GIOChannel) channel = g_str_equal (name, "-") ? g_io_channel_unix_new (fileno (stdin))
                                                           : g_io_channel_new_file (name, "r", error);
  if (!channel)
    {
      g_prefix_error (error, "%s: ", name);
      return FALSE;
    }
  PlumbBufferPlan plan = { .tokens = session->model->positions, .sequences = 1 };
  g_autoptr (PlumbBuffers) buffers = plumb_buffers_new (session->model, &plan, error);
  if (!buffers)
    return FALSE;
  for (guint number = 1;; number++)
    {
      g_autofree char *line = NULL;
      GIOStatus status = g_io_channel_read_line (channel, &line, NULL, NULL, error);
      if (status == G_IO_STATUS_EOF)
        return TRUE;
      if (status != G_IO_STATUS_NORMAL)
        return FALSE;
      if (*g_strstrip (line) == '\0')
        continue;
      g_autoptr (GArray) ids = parse_line (line, name, number, error);
      if (!ids || !print_line (session, buffers, ids, temperature, error))
        return FALSE;
    }
}

int
plumb_cmd_logprobs (int argc, char **argv, GError **error)
{
  g_autofree char *model = NULL, *ids = NULL, *precision = NULL, *device = NULL;
  double temperature = 1;
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &model, N_ ("model folder"), N_ ("DIR") },
    { "ids", 'i', 0, G_OPTION_ARG_FILENAME, &ids, N_ ("JSON lines of token ids; - is standard input"),
      N_ ("FILE") },
    { "temperature", 't', 0, G_OPTION_ARG_DOUBLE, &temperature, N_ ("default 1"), "T" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, N_ ("fp32 (default) or bf16"), "NAME" },
    { "device", 'd', 0, G_OPTION_ARG_STRING, &device, N_ ("auto (default), cpu or cuda:N"), "NAME" },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, entries, "", N_ ("log-probs of given tokens, a line each"), 0, 0,
                            error))
    return PLUMB_ERROR_USAGE;
  if (!model || !ids || temperature <= 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                   "logprobs needs --model DIR and --ids FILE, and a temperature above 0");
      return PLUMB_ERROR_USAGE;
    }
  g_auto (PlumbModelSession) session = { 0 };
  if (!plumb_model_session_open (&session, model, precision, device, FALSE, error)
      || !run_lines (&session, ids, temperature, error))
    return PLUMB_ERROR_FAILED;
  return 0;
}
