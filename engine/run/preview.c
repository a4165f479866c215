/* SPDX-License-Identifier: Apache-2.0 */

/* Rows of data as the model will see them. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/model/export.h"
#include "engine/run/prepare.h"
#include "engine/run/preview.h"

static void
add_text (JsonObject *to, const char *name, const char *text)
{
  if (text)
    json_object_set_string_member (to, name, text);
  else
    json_object_set_null_member (to, name);
}

static void
add_segment (JsonArray *segments, GString *text, gboolean trained)
{
  if (text->len == 0)
    return;
  JsonObject *segment = json_object_new ();
  json_object_set_string_member (segment, "text", text->str);
  json_object_set_boolean_member (segment, "trained", trained);
  json_array_add_object_element (segments, segment);
  g_string_truncate (text, 0);
}

/* The text of ids, divided where it begins or ends to be trained. */
static JsonArray *
segments_of (PlumbTokenizer *tokenizer, const GArray *ids, const GArray *mask)
{
  g_autoptr (PlumbDetokenizer) stream = plumb_detokenizer_new (tokenizer, FALSE);
  g_autoptr (GString) text = g_string_new (NULL);
  JsonArray *segments = json_array_new ();
  gboolean trained = FALSE;
  for (guint i = 0; i < ids->len; i++)
    {
      if (g_array_index (mask, guint8, i) != trained)
        {
          plumb_detokenizer_finish (stream, text);
          add_segment (segments, text, trained);
          trained = !trained;
        }
      plumb_detokenizer_push (stream, g_array_index (ids, gint32, i), text, NULL);
    }
  plumb_detokenizer_finish (stream, text);
  add_segment (segments, text, trained);
  return segments;
}

static void
add_numbers (JsonObject *to, const GArray *ids, const GArray *mask)
{
  JsonArray *numbers = json_array_sized_new (ids->len), *marks = json_array_sized_new (ids->len);
  gint64 trained = 0;
  for (guint i = 0; i < ids->len; i++)
    {
      json_array_add_int_element (numbers, g_array_index (ids, gint32, i));
      json_array_add_int_element (marks, g_array_index (mask, guint8, i));
      trained += g_array_index (mask, guint8, i);
    }
  json_object_set_int_member (to, "tokens", ids->len);
  json_object_set_int_member (to, "trained_tokens", trained);
  json_object_set_array_member (to, "ids", numbers);
  json_object_set_array_member (to, "mask", marks);
}

/* A prompt with an answer (NULL: alone), of which those tokens are trained that `trained` marks (NULL: each). */
static JsonObject *
sequence_of (PlumbTokenizer *tokenizer, const char *kind, const GArray *prompt, const GArray *answer,
             const GArray *trained, gboolean all)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GArray) mask = g_array_new (FALSE, FALSE, sizeof (guint8));
  JsonObject *sequence = json_object_new ();
  g_array_append_vals (ids, prompt->data, prompt->len);
  if (answer)
    g_array_append_vals (ids, answer->data, answer->len);
  for (guint i = 0; i < ids->len; i++)
    {
      guint8 mark = i >= prompt->len && (!trained || g_array_index (trained, guint8, i - prompt->len));
      mark = i > 0 && answer && (mark || all); /* nothing foretells the first token */
      g_array_append_val (mask, mark);
    }
  json_object_set_string_member (sequence, "kind", kind);
  json_object_set_int_member (sequence, "prompt_tokens", prompt->len);
  add_numbers (sequence, ids, mask);
  json_object_set_array_member (sequence, "segments", segments_of (tokenizer, ids, mask));
  return sequence;
}

static JsonArray *
sequences_of (const PlumbRunInputs *in, const PlumbDataRow *row)
{
  PlumbAlgorithm algorithm = plumb_spec_algorithm (in->spec);
  const PlumbRecipe *recipe = plumb_recipe (algorithm);
  gboolean pairs = recipe->pairs && !recipe->online, turns = row->next != NULL;
  gboolean all = algorithm == PLUMB_ALGORITHM_SFT
                 && g_str_equal (plumb_spec_get_text (in->spec, "data.train_on"), "all");
  JsonArray *sequences = json_array_new ();
  for (; row; row = row->next)
    {
      const char *kind = recipe->online ? "prompt" : pairs ? "chosen" : turns ? "turn" : "response";
      json_array_add_object_element (
          sequences, sequence_of (in->tokenizer, kind, row->prompt_ids, recipe->online ? NULL : row->response_ids,
                                  row->response_trained, all));
      if (pairs && row->rejected_ids)
        json_array_add_object_element (sequences, sequence_of (in->tokenizer, "rejected", row->prompt_ids,
                                                               row->rejected_ids, row->rejected_trained, FALSE));
    }
  return sequences;
}

static JsonObject *
row_to_json (const PlumbRunInputs *in, const PlumbDataRow *row)
{
  PlumbAlgorithm algorithm = plumb_spec_algorithm (in->spec);
  JsonObject *object = json_object_new ();
  json_object_set_string_member (object, "file", row->file);
  json_object_set_int_member (object, "line", row->line);
  add_text (object, "prompt", row->prompt);
  add_text (object, "answer", row->answer);
  if (PLUMB_IS_ON (algorithm, PLUMB_ON_KTO))
    json_object_set_boolean_member (object, "label", row->liked);
  if (PLUMB_IS_ON (algorithm, PLUMB_ON_PAIRS))
    json_object_set_double_member (object, "margin", row->margin);
  json_object_set_array_member (object, "sequences", sequences_of (in, row));
  return object;
}

static JsonObject *
counts_to_json (PlumbDataSet *set)
{
  const PlumbDataCounts *counts = plumb_data_set_counts (set);
  JsonObject *object = json_object_new ();
  json_object_set_int_member (object, "rows", (gint64) counts->rows);
  json_object_set_int_member (object, "broken", (gint64) counts->broken);
  json_object_set_int_member (object, "dropped", (gint64) counts->dropped);
  json_object_set_int_member (object, "truncated", (gint64) counts->truncated);
  json_object_set_int_member (object, "unchecked", (gint64) counts->unchecked);
  json_object_set_int_member (object, "rewritten", (gint64) counts->rewritten);
  json_object_set_int_member (object, "control", (gint64) counts->control);
  return object;
}

static void
add_problems (JsonObject *to, const char *name, GPtrArray *problems)
{
  g_autoptr (JsonNode) node = plumb_problems_to_json (problems);
  json_object_set_member (to, name, json_node_copy (json_object_get_member (json_node_get_object (node), "problems")));
}

static JsonNode *
make_preview (const PlumbRunInputs *in, guint n, GError **error)
{
  g_autoptr (JsonNode) node = json_node_new (JSON_NODE_OBJECT);
  JsonObject *object = json_object_new ();
  JsonArray *rows = json_array_new ();
  json_node_take_object (node, object);
  add_text (object, "algorithm", plumb_algorithm_name (plumb_spec_algorithm (in->spec)));
  json_object_set_boolean_member (object, "chat_template", in->chat != NULL);
  json_object_set_object_member (object, "counts", counts_to_json (in->train));
  add_problems (object, "notes", plumb_data_set_notes (in->train));
  add_problems (object, "left_out", in->reports);
  json_object_set_array_member (object, "rows", rows);
  for (gsize i = 0; i < MIN ((gsize) n, plumb_data_set_n_rows (in->train)); i++)
    {
      g_autoptr (PlumbDataRow) row = plumb_data_set_get (in->train, i, error);
      if (!row)
        return NULL;
      json_array_add_object_element (rows, row_to_json (in, row));
    }
  return g_steal_pointer (&node);
}

JsonNode *
plumb_preview (PlumbSpec *spec, guint n, GPtrArray *left_out, GError **error)
{
  g_autofree char *scratch = g_dir_make_tmp ("plumbline-preview-XXXXXX", error);
  g_autoptr (PlumbSpec) copy = plumb_spec_copy (spec);
  g_auto (PlumbRunInputs) inputs = { 0 };
  if (!scratch)
    return NULL;
  JsonNode *node = plumb_run_inputs_open_data (&inputs, copy, scratch, error) ? make_preview (&inputs, n, error) : NULL;
  plumb_remove_tree (scratch, NULL);
  if (!node && inputs.reports)
    g_ptr_array_extend_and_steal (left_out, g_steal_pointer (&inputs.reports));
  return node;
}
