/* SPDX-License-Identifier: Apache-2.0 */
/* state.json: what the controller says about itself. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/core/paths.h"
#include "engine/core/process.h"
#include "engine/core/run-dir.h"

#define LARGEST_STATE (1 << 20)

static void
worker_free (gpointer data)
{
  PlumbRunWorker *worker = data;

  g_free (worker->role);
  g_free (worker->device);
  g_free (worker);
}

PlumbRunStatus *
plumb_run_status_new (void)
{
  PlumbRunStatus *status = g_new0 (PlumbRunStatus, 1);

  status->eta = -1;
  status->tokens_per_second = -1;
  status->workers = g_ptr_array_new_with_free_func (worker_free);
  return status;
}

void
plumb_run_status_add_worker (PlumbRunStatus *status, const char *role, const char *device, gint64 pid)
{
  PlumbRunWorker *worker = g_new0 (PlumbRunWorker, 1);

  worker->role = g_strdup (role);
  worker->device = g_strdup (device);
  worker->pid = pid;
  g_ptr_array_add (status->workers, worker);
}

void
plumb_run_status_free (PlumbRunStatus *status)
{
  g_free (status->id);
  g_free (status->name);
  g_free (status->algorithm);
  g_free (status->host);
  g_free (status->boot_id);
  g_free (status->phase);
  g_free (status->database);
  g_free (status->samples);
  g_free (status->message);
  g_ptr_array_unref (status->workers);
  g_free (status);
}

gboolean
plumb_run_status_set_self (PlumbRunStatus *status, GError **error)
{
  g_free (status->host);
  g_free (status->boot_id);
  status->host = g_strdup (g_get_host_name ());
  status->boot_id = plumb_boot_id ();
  status->pid = getpid ();
  status->start_time = plumb_process_start_time (getpid ());
  if (status->start_time == 0 || status->boot_id == NULL)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                           "/proc cannot be read; mount it, so that runs can be told apart");
      return FALSE;
    }
  return TRUE;
}

/* One list of members serves reading and writing. */
typedef enum
{
  MEMBER_TEXT,
  MEMBER_INTEGER,
  MEMBER_REAL,
} MemberType;

static const struct
{
  const char *name;
  MemberType type;
  gsize offset;
} members[] = {
  { "id", MEMBER_TEXT, G_STRUCT_OFFSET (PlumbRunStatus, id) },
  { "name", MEMBER_TEXT, G_STRUCT_OFFSET (PlumbRunStatus, name) },
  { "algorithm", MEMBER_TEXT, G_STRUCT_OFFSET (PlumbRunStatus, algorithm) },
  { "host", MEMBER_TEXT, G_STRUCT_OFFSET (PlumbRunStatus, host) },
  { "pid", MEMBER_INTEGER, G_STRUCT_OFFSET (PlumbRunStatus, pid) },
  { "start_time", MEMBER_INTEGER, G_STRUCT_OFFSET (PlumbRunStatus, start_time) },
  { "boot_id", MEMBER_TEXT, G_STRUCT_OFFSET (PlumbRunStatus, boot_id) },
  { "attempt", MEMBER_INTEGER, G_STRUCT_OFFSET (PlumbRunStatus, attempt) },
  { "phase", MEMBER_TEXT, G_STRUCT_OFFSET (PlumbRunStatus, phase) },
  { "step", MEMBER_INTEGER, G_STRUCT_OFFSET (PlumbRunStatus, step) },
  { "total_steps", MEMBER_INTEGER, G_STRUCT_OFFSET (PlumbRunStatus, total_steps) },
  { "started", MEMBER_REAL, G_STRUCT_OFFSET (PlumbRunStatus, started) },
  { "spent", MEMBER_REAL, G_STRUCT_OFFSET (PlumbRunStatus, spent) },
  { "updated", MEMBER_REAL, G_STRUCT_OFFSET (PlumbRunStatus, updated) },
  { "progressed", MEMBER_REAL, G_STRUCT_OFFSET (PlumbRunStatus, progressed) },
  { "median_phase", MEMBER_REAL, G_STRUCT_OFFSET (PlumbRunStatus, median_phase) },
  { "eta", MEMBER_REAL, G_STRUCT_OFFSET (PlumbRunStatus, eta) },
  { "tokens_per_second", MEMBER_REAL, G_STRUCT_OFFSET (PlumbRunStatus, tokens_per_second) },
  { "database", MEMBER_TEXT, G_STRUCT_OFFSET (PlumbRunStatus, database) },
  { "samples", MEMBER_TEXT, G_STRUCT_OFFSET (PlumbRunStatus, samples) },
};

static void
add_member (JsonBuilder *builder, const PlumbRunStatus *status, gsize index)
{
  gconstpointer place = G_STRUCT_MEMBER_P (status, members[index].offset);
  double real;

  json_builder_set_member_name (builder, members[index].name);
  switch (members[index].type)
    {
    case MEMBER_TEXT:
      if (*(char *const *)place != NULL)
        json_builder_add_string_value (builder, *(char *const *)place);
      else
        json_builder_add_null_value (builder);
      break;
    case MEMBER_INTEGER:
      json_builder_add_int_value (builder, *(const gint64 *)place);
      break;
    case MEMBER_REAL:
      real = *(const double *)place;
      json_builder_add_double_value (builder, isfinite (real) ? real : -1);
      break;
    }
}

static void
add_workers (JsonBuilder *builder, const PlumbRunStatus *status)
{
  json_builder_set_member_name (builder, "workers");
  json_builder_begin_array (builder);
  for (guint i = 0; i < status->workers->len; i++)
    {
      const PlumbRunWorker *worker = g_ptr_array_index (status->workers, i);

      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "role");
      json_builder_add_string_value (builder, worker->role);
      json_builder_set_member_name (builder, "device");
      json_builder_add_string_value (builder, worker->device);
      json_builder_set_member_name (builder, "pid");
      json_builder_add_int_value (builder, worker->pid);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

JsonNode *
plumb_run_status_to_json (const PlumbRunStatus *status)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  for (gsize i = 0; i < G_N_ELEMENTS (members); i++)
    add_member (builder, status, i);
  add_workers (builder, status);
  json_builder_set_member_name (builder, "exit");
  if (status->outcome == PLUMB_OUTCOME_NONE)
    json_builder_add_null_value (builder);
  else
    {
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "outcome");
      json_builder_add_string_value (builder, plumb_outcome_name (status->outcome));
      json_builder_set_member_name (builder, "code");
      json_builder_add_int_value (builder, status->exit_code);
      json_builder_set_member_name (builder, "message");
      json_builder_add_string_value (builder, status->message != NULL ? status->message : "");
      json_builder_end_object (builder);
    }
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}

gboolean
plumb_run_status_write (const char *run, const PlumbRunStatus *status, GError **error)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_STATE, NULL);
  g_autoptr (JsonNode) root = plumb_run_status_to_json (status);
  g_autofree char *text = json_to_string (root, TRUE);

  return plumb_path_replace (path, text, -1, error);
}

static JsonNode *
value_member (JsonObject *object, const char *name)
{
  JsonNode *node = json_object_get_member (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? node : NULL;
}

static char *
text_member (JsonObject *object, const char *name)
{
  JsonNode *node = value_member (object, name);

  return node != NULL ? json_node_dup_string (node) : NULL;
}

static void
read_member (PlumbRunStatus *status, JsonObject *object, gsize index)
{
  gpointer place = G_STRUCT_MEMBER_P (status, members[index].offset);
  JsonNode *node = value_member (object, members[index].name);

  if (node == NULL)
    return;
  switch (members[index].type)
    {
    case MEMBER_TEXT:
      *(char **)place = json_node_dup_string (node);
      break;
    case MEMBER_INTEGER:
      *(gint64 *)place = json_node_get_int (node);
      break;
    case MEMBER_REAL:
      *(double *)place = json_node_get_double (node);
      break;
    }
}

static void
read_workers (PlumbRunStatus *status, JsonObject *object)
{
  JsonArray *array = plumb_json_node_array (json_object_get_member (object, "workers"));

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonNode *node = json_array_get_element (array, i);
      JsonObject *worker = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
      g_autofree char *role = worker != NULL ? text_member (worker, "role") : NULL;
      g_autofree char *device = worker != NULL ? text_member (worker, "device") : NULL;
      JsonNode *pid = worker != NULL ? value_member (worker, "pid") : NULL;

      if (role != NULL && device != NULL)
        plumb_run_status_add_worker (status, role, device, pid != NULL ? json_node_get_int (pid) : 0);
    }
}

PlumbRunStatus *
plumb_run_status_read (const char *run, GError **error)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_STATE, NULL);
  g_autoptr (PlumbRunStatus) status = plumb_run_status_new ();
  g_autoptr (GError) local = NULL;
  g_autoptr (JsonParser) parser = plumb_json_parse_file (path, LARGEST_STATE, &local);
  JsonObject *object = parser != NULL ? plumb_json_top (parser, path, &local) : NULL;
  JsonObject *end = NULL;

  if (local != NULL && local->domain == G_FILE_ERROR)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return NULL;
    }
  if (object == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "the state is damaged: %s; remove the file to see the run without it",
                   local->message);
      return NULL;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (members); i++)
    read_member (status, object, i);
  read_workers (status, object);
  if (json_object_has_member (object, "exit")
      && JSON_NODE_HOLDS_OBJECT (json_object_get_member (object, "exit")))
    end = json_object_get_object_member (object, "exit");
  if (end != NULL)
    {
      g_autofree char *outcome = text_member (end, "outcome");
      JsonNode *code = value_member (end, "code");

      status->outcome = plumb_outcome_from_name (outcome);
      status->exit_code = code != NULL ? json_node_get_int (code) : 0;
      status->message = text_member (end, "message");
    }
  return g_steal_pointer (&status);
}
