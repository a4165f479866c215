/* SPDX-License-Identifier: Apache-2.0 */

/* A checkpoint is complete or absent: written aside, synced, renamed. It holds the policy as a Hugging Face
 * folder, the optimizer's state, and where the run stands. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/core/stop-rules.h"
#include "engine/model/export.h"
#include "engine/run/ahead.h"
#include "engine/run/run-private.h"

#define POSITION_FILE "position.json"
#define MAX_POSITION_BYTES (16 << 20)

char *
plumb_run_checkpoint_path (const char *dir, gint64 step)
{
  g_autofree char *name = g_strdup_printf ("step-%06" G_GINT64_FORMAT, step);
  return g_build_filename (dir, PLUMB_RUN_CHECKPOINTS, name, NULL);
}

/* The integers of a position by name: one list for writing and reading. */
typedef struct
{
  const char *key;
  gint64 *value;
} PositionField;

#define N_POSITION 14

static void
position_fields (PlumbPosition *p, PositionField fields[N_POSITION])
{
  const PositionField all[N_POSITION] = {
    { "step", &p->step },       { "stage_step", &p->stage_step },   { "updates", &p->updates },
    { "ordinal", &p->ordinal }, { "tokens", &p->tokens },           { "samples", &p->samples },
    { "epoch", (gint64 *) &p->epoch }, { "row", (gint64 *) &p->row },
    { "critic_updates", &p->critic_updates }, { "round", &p->round }, { "bad_steps", &p->bad_steps },
    { "best_step", &p->best_step },
    { "critic_bad_steps", &p->critic_bad_steps }, { "reference_step", &p->reference_step },
  };
  for (int i = 0; i < N_POSITION; i++)
    fields[i] = all[i];
}

static void
add_showpieces (JsonBuilder *builder, GPtrArray *showpieces)
{
  json_builder_set_member_name (builder, "before");
  json_builder_begin_array (builder);
  for (guint i = 0; i < showpieces->len; i++)
    {
      PlumbShowpiece *piece = g_ptr_array_index (showpieces, i);
      json_builder_add_string_value (builder, piece->before ? piece->before : "");
    }
  json_builder_end_array (builder);
}

/* How far the conditions of schedule.stop_if are fulfilled, by their texts. */
static void
add_stop_rules (JsonBuilder *builder, PlumbRun *run)
{
  g_auto (GStrv) texts = plumb_spec_get_list (run->spec, "schedule.stop_if");
  json_builder_set_member_name (builder, "stop_if");
  json_builder_begin_object (builder);
  for (guint i = 0; i < run->stop_rules->len; i++)
    {
      json_builder_set_member_name (builder, texts[i]);
      json_builder_add_int_value (builder, ((PlumbStopRule *) g_ptr_array_index (run->stop_rules, i))->seen);
    }
  json_builder_end_object (builder);
}

static void
read_stop_rules (PlumbRun *run, JsonObject *object)
{
  g_auto (GStrv) texts = plumb_spec_get_list (run->spec, "schedule.stop_if");
  JsonNode *node = json_object_get_member (object, "stop_if");
  JsonObject *seen = node && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  for (guint i = 0; seen && i < run->stop_rules->len; i++)
    ((PlumbStopRule *) g_ptr_array_index (run->stop_rules, i))->seen
        = (guint) CLAMP (json_object_get_int_member_with_default (seen, texts[i], 0), 0, G_MAXINT);
}

static gboolean
write_position (PlumbRun *run, const char *dir, GError **error)
{
  PlumbPosition position = run->position;
  position.epoch = plumb_data_cursor_epoch (run->cursor);
  position.row = plumb_data_cursor_position (run->cursor);
  PositionField fields[N_POSITION];
  position_fields (&position, fields);
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  for (int i = 0; i < N_POSITION; i++)
    {
      json_builder_set_member_name (builder, fields[i].key);
      json_builder_add_int_value (builder, *fields[i].value);
    }
  json_builder_set_member_name (builder, "stage");
  json_builder_add_string_value (builder,
                                 position.stage == PLUMB_STAGE_ONLINE ? "online" : "supervised");
  json_builder_set_member_name (builder, "pass1");
  json_builder_add_double_value (builder, position.pass1);
  json_builder_set_member_name (builder, "best_value");
  json_builder_add_double_value (builder, position.best_value);
  json_builder_set_member_name (builder, "kl_coefficient");
  json_builder_add_double_value (builder, position.kl_coefficient);
  json_builder_set_member_name (builder, "kl_start");
  json_builder_add_double_value (builder, plumb_spec_get_real (run->spec, "algorithm.kl.coefficient"));
  json_builder_set_member_name (builder, "seed");
  json_builder_add_int_value (builder, plumb_spec_get_integer (run->spec, "run.seed"));
  json_builder_set_member_name (builder, "rollbacks");
  json_builder_add_int_value (builder, position.rollbacks);
  add_stop_rules (builder, run);
  add_showpieces (builder, run->showpieces);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  g_autofree char *text = json_to_string (root, TRUE);
  g_autofree char *path = g_build_filename (dir, POSITION_FILE, NULL);
  return g_file_set_contents_full (path, text, -1, G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE,
                                   0644, error);
}

static GVariant *
folder_body (const char *folder, const char *model_only)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_variant_dict_insert (body, "folder", "s", folder);
  g_variant_dict_insert (body, "model-only", "b", model_only != NULL);
  if (model_only)
    g_variant_dict_insert (body, "name", "s", model_only);
  return g_variant_dict_end (body);
}

/* The first worker writes what those that train hold, and a critic with a worker of its own what it holds. */
static gboolean
save_folder (PlumbRun *run, const char *folder, GError **error)
{
  guint32 critic = plumb_crew_worker_of (run->crew, PLUMB_ROLE_CRITIC);
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  g_ptr_array_add (requests, plumb_crew_request_new (1, PLUMB_MESSAGE_SAVE, folder_body (folder, NULL)));
  if (critic)
    g_ptr_array_add (requests, plumb_crew_request_new (critic, PLUMB_MESSAGE_SAVE, folder_body (folder, NULL)));
  return plumb_crew_ask_together (run->crew, requests, error);
}

static gboolean
load_folder (PlumbRun *run, const char *folder, GError **error)
{
  guint32 critic = plumb_crew_worker_of (run->crew, PLUMB_ROLE_CRITIC);
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  for (int i = 0; i < plumb_crew_size (run->crew); i++)
    g_ptr_array_add (requests, plumb_crew_request_new ((guint32) i + 1, PLUMB_MESSAGE_LOAD, folder_body (folder, NULL)));
  if (critic)
    g_ptr_array_add (requests, plumb_crew_request_new (critic, PLUMB_MESSAGE_LOAD, folder_body (folder, NULL)));
  return plumb_crew_ask_together (run->crew, requests, error);
}

/* The first worker writes a checkpoint for all: so the others must hold the same bits. */
static gboolean
check_workers (PlumbRun *run, GError **error)
{
  int n = plumb_crew_size (run->crew), differs = 0;
  if (n == 1)
    return TRUE;
  g_autofree GVariant **bodies = g_new0 (GVariant *, n), **answers = g_new0 (GVariant *, n);
  for (int i = 0; i < n; i++)
    bodies[i] = g_variant_new ("a{sv}", NULL);
  if (!plumb_crew_ask_each (run->crew, PLUMB_MESSAGE_CHECK, bodies, answers, error))
    return FALSE;
  for (int i = 1; i < n && !differs; i++)
    differs = g_variant_equal (answers[i], answers[0]) ? 0 : i + 1;
  plumb_crew_clear_answers (run->crew, answers);
  if (differs)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                 "worker %d does not hold the same weights as worker 1 at step %" G_GINT64_FORMAT
                 "; continue from the last checkpoint, and suspect the memory of this machine",
                 differs, run->position.step);
  return !differs;
}

gboolean
plumb_run_save_model (PlumbRun *run, const char *folder, const char *name, GError **error)
{
  g_autoptr (GVariant) answer = plumb_crew_ask (run->crew, PLUMB_MESSAGE_SAVE, folder_body (folder, name), error);
  return answer != NULL;
}

static int
compare_steps (gconstpointer a, gconstpointer b)
{
  gint64 left = *(const gint64 *) a, right = *(const gint64 *) b;
  return (left > right) - (left < right);
}

/* Steps of the complete checkpoints, oldest first. */
static GArray *
list_checkpoints (const char *dir)
{
  GArray *steps = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autofree char *folder = g_build_filename (dir, PLUMB_RUN_CHECKPOINTS, NULL);
  g_autoptr (GDir) entries = g_dir_open (folder, 0, NULL);
  const char *name;
  while (entries && (name = g_dir_read_name (entries)))
    {
      gint64 step;
      if (g_str_has_prefix (name, "step-")
          && g_ascii_string_to_signed (name + strlen ("step-"), 10, 0, G_MAXINT64, &step, NULL))
        g_array_append_val (steps, step);
    }
  g_array_sort (steps, compare_steps);
  return steps;
}

gint64
plumb_run_checkpoint_before (const char *dir, gint64 step)
{
  g_autoptr (GArray) steps = list_checkpoints (dir);
  gint64 found = 0;
  for (guint i = 0; i < steps->len; i++)
    if (g_array_index (steps, gint64, i) < step)
      found = g_array_index (steps, gint64, i);
  return found;
}

gboolean
plumb_run_drop_checkpoints (const char *dir, gint64 after, GError **error)
{
  g_autoptr (GArray) steps = list_checkpoints (dir);
  for (guint i = 0; i < steps->len; i++)
    {
      g_autofree char *path = plumb_run_checkpoint_path (dir, g_array_index (steps, gint64, i));
      if (g_array_index (steps, gint64, i) > after && !plumb_remove_tree (path, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
rotate (PlumbRun *run, GError **error)
{
  gint64 keep = plumb_spec_get_integer (run->spec, "checkpoint.keep");
  g_autoptr (GArray) steps = list_checkpoints (run->dir);
  for (guint i = 0; i + keep < steps->len; i++)
    {
      if (g_array_index (steps, gint64, i) == run->position.best_step)
        continue;
      g_autofree char *path = plumb_run_checkpoint_path (run->dir, g_array_index (steps, gint64, i));
      if (!plumb_remove_tree (path, error))
        return FALSE;
    }
  return TRUE;
}

/* What was recorded up to a checkpoint is on disk before it: a run that dies right after goes on without a hole. */
static void
flush_telemetry (PlumbRun *run)
{
  g_autoptr (GError) error = NULL;
  if (!plumb_telemetry_flush (run->telemetry, &error))
    plumb_run_tell_telemetry (run, error);
}

gboolean
plumb_run_save_checkpoint (PlumbRun *run, GError **error)
{
  g_autofree char *path = plumb_run_checkpoint_path (run->dir, run->position.step);
  g_autofree char *aside = g_strconcat (path, ".new", NULL);
  g_autofree char *parent = g_path_get_dirname (path);
  if (g_file_test (path, G_FILE_TEST_EXISTS))
    return TRUE; /* this step is saved already */
  plumb_run_begin_phase (run, "checkpoint");
  plumb_run_note_best (run);
  if (!plumb_remove_tree (aside, error))
    return FALSE;
  if (g_mkdir_with_parents (aside, 0755) != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: cannot make the folder: %s", aside,
                   g_strerror (errno));
      return FALSE;
    }
  gboolean ok = check_workers (run, error) && save_folder (run, aside, error) && write_position (run, aside, error)
                && plumb_run_ahead_save (run, aside, error) && plumb_sync_folder (aside, error);
  if (ok)
    flush_telemetry (run);
  if (ok && g_rename (aside, path) != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s: cannot rename into place: %s", path,
                   g_strerror (errno));
      ok = FALSE;
    }
  if (ok)
    {
      plumb_run_tell_best (run);
      plumb_run_measure_checkpoint (run, path);
    }
  ok = ok && plumb_sync_folder (parent, error) && rotate (run, error);
  if (ok)
    plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "checkpoint", run->position.step,
                           "checkpoint of step %" G_GINT64_FORMAT, run->position.step);
  else
    plumb_remove_tree (aside, NULL);
  if (ok)
    plumb_run_end_phase (run);
  return ok;
}

static gboolean
read_integers (JsonObject *object, PlumbPosition *position)
{
  PositionField fields[N_POSITION];
  position_fields (position, fields);
  for (int i = 0; i < N_POSITION; i++)
    {
      JsonNode *node = json_object_get_member (object, fields[i].key);
      if (!node || !JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64
          || json_node_get_int (node) < 0)
        return FALSE;
      *fields[i].value = json_node_get_int (node);
    }
  return TRUE;
}

static void
read_showpieces (PlumbRun *run, JsonObject *object)
{
  JsonArray *array = plumb_json_node_array (json_object_get_member (object, "before"));
  for (guint i = 0; array && i < json_array_get_length (array); i++)
    {
      PlumbShowpiece *piece = g_new0 (PlumbShowpiece, 1);
      const char *text = plumb_json_node_text (json_array_get_element (array, i));
      piece->before = text && *text ? g_strdup (text) : NULL;
      g_ptr_array_add (run->showpieces, piece);
    }
}

static gboolean
read_position (PlumbRun *run, const char *dir, GError **error)
{
  g_autofree char *path = g_build_filename (dir, POSITION_FILE, NULL);
  g_autoptr (JsonParser) parser = plumb_json_parse_file (path, MAX_POSITION_BYTES, error);
  JsonObject *object = parser ? plumb_json_top (parser, path, error) : NULL;
  PlumbPosition position = { 0 };
  if (!object)
    return FALSE;
  if (!read_integers (object, &position))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: not a position of a run; continue from an older checkpoint by removing this one", path);
      return FALSE;
    }
  const char *stage = json_object_get_string_member_with_default (object, "stage", "");
  position.stage = g_str_equal (stage, "online") ? PLUMB_STAGE_ONLINE : PLUMB_STAGE_SUPERVISED;
  position.rollbacks = MAX (0, json_object_get_int_member_with_default (object, "rollbacks", 0));
  position.pass1 = json_object_get_double_member_with_default (object, "pass1", -1);
  position.best_value = json_object_get_double_member_with_default (object, "best_value", 0);
  /* What it had adapted to holds, unless it begins from another value now. */
  double start = plumb_spec_get_real (run->spec, "algorithm.kl.coefficient");
  position.kl_coefficient = run->position.kl_coefficient;
  if (json_object_get_double_member_with_default (object, "kl_start", start) == start)
    position.kl_coefficient
        = json_object_get_double_member_with_default (object, "kl_coefficient", run->position.kl_coefficient);
  gint64 seed = json_object_get_int_member_with_default (object, "seed", -1);
  if (seed != plumb_spec_get_integer (run->spec, "run.seed"))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "run.seed was %" G_GINT64_FORMAT " when %s was made; a run cannot go on with another seed",
                   seed, dir);
      return FALSE;
    }
  read_stop_rules (run, object);
  read_showpieces (run, object);
  run->position = position;
  return TRUE;
}

gboolean
plumb_run_read_reference_step (const char *dir, gint64 step, gint64 *reference, GError **error)
{
  g_autofree char *folder = plumb_run_checkpoint_path (dir, step);
  g_autofree char *path = g_build_filename (folder, POSITION_FILE, NULL);
  g_autoptr (JsonParser) parser = plumb_json_parse_file (path, MAX_POSITION_BYTES, error);
  JsonObject *object = parser ? plumb_json_top (parser, path, error) : NULL;
  if (object)
    *reference = json_object_get_int_member_with_default (object, "reference_step", 0);
  return object != NULL;
}

gboolean
plumb_run_load_checkpoint (PlumbRun *run, gint64 step, GError **error)
{
  g_autofree char *path = plumb_run_checkpoint_path (run->dir, step);
  return read_position (run, path, error) && load_folder (run, path, error);
}
