/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine score: the rewards of a spec over a file of prompts and responses. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/reward/batch.h"
#include "engine/text/dataset.h"
#include "engine/text/tokenizer.h"

#define ROWS_AT_ONCE 1024

typedef struct
{
  PlumbReward *reward;
  PlumbTokenizer *tokenizer; /* NULL: no function counts tokens */
  PlumbDataOptions options;
  GPtrArray *reports; /* of PlumbProblem: rows that cannot be read */
  gsize rows, scored;
  double sum;
  GHashTable *failures; /* kind -> count */
} Session;

static void
session_clear (Session *session)
{
  g_clear_pointer (&session->reward, plumb_reward_free);
  g_clear_pointer (&session->tokenizer, plumb_tokenizer_unref);
  g_clear_pointer (&session->reports, g_ptr_array_unref);
  g_clear_pointer (&session->failures, g_hash_table_unref);
  plumb_data_options_clear (&session->options);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Session, session_clear)

static gboolean
has_part (PlumbReward *reward, const char *name)
{
  for (guint i = 0; i < plumb_reward_n_parts (reward); i++)
    if (g_str_equal (plumb_reward_part_name (reward, i), name))
      return TRUE;
  return FALSE;
}

/* What is wrong with data.* and reward.*: a spec for scoring needs nothing else. */
static gboolean
check_problems (GPtrArray *problems, gboolean file_given, GError **error)
{
  g_autoptr (GPtrArray) ours = plumb_problems_new ();
  for (guint i = 0; i < problems->len; i++)
    {
      const PlumbProblem *p = g_ptr_array_index (problems, i);
      if (file_given && g_strcmp0 (p->key, "data.train") == 0)
        continue;
      if (!p->key || g_str_has_prefix (p->key, "reward.") || g_str_has_prefix (p->key, "data."))
        plumb_problems_add (ours, p->key, p->value, p->file, p->line, p->remedy, "%s", p->message);
    }
  if (ours->len == 0)
    return TRUE;
  g_autofree char *text = plumb_problems_to_text (ours);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s", g_strchomp (text));
  return FALSE;
}

static gboolean
open_session (Session *session, PlumbSpec *spec, GError **error)
{
  session->reports = plumb_problems_new ();
  session->failures = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  plumb_data_options_from_spec (&session->options, spec, "data.train", PLUMB_DATA_TRAIN);
  if (!session->options.paths || !session->options.paths[0])
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "data.train is not set: name the file with the responses,"
                                                            " in the spec or behind it");
      return FALSE;
    }
  session->reward = plumb_reward_new (spec, error);
  if (!session->reward)
    return FALSE;
  if (plumb_reward_needs_model (session->reward))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "reward.functions: a reward model scores within a run only; leave model out with --set");
      return FALSE;
    }
  PlumbDataKeys *keys = &session->options.keys;
  keys->need_answer = plumb_reward_needs_answer (session->reward);
  keys->need_response = keys->scored = TRUE;
  keys->prompts_only = keys->need_pair = keys->need_label = FALSE;
  keys->keep_row = plumb_reward_needs_row (session->reward);
  if (has_part (session->reward, "length"))
    {
      const char *policy = plumb_spec_get_text (spec, "model.policy");
      session->tokenizer = policy ? plumb_tokenizer_load (policy, error) : NULL;
      if (!policy)
        g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                     "model.policy is not set: the reward function length counts the tokens of that model");
      return session->tokenizer != NULL;
    }
  return TRUE;
}

static void
count_failure (Session *session, const PlumbRewardFailure *failure)
{
  guint before = GPOINTER_TO_UINT (g_hash_table_lookup (session->failures, failure->example));
  g_hash_table_insert (session->failures, g_strdup (failure->example), GUINT_TO_POINTER (before + failure->count));
}

/* One line for a row: {"row", "reward", "parts", "failed", "reason"}. */
static void
print_score (Session *session, guint row, const PlumbRewardScore *score, const double *parts)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "row");
  json_builder_add_int_value (builder, row);
  json_builder_set_member_name (builder, "reward");
  if (score->failed)
    json_builder_add_null_value (builder);
  else
    json_builder_add_double_value (builder, score->value);
  json_builder_set_member_name (builder, "parts");
  json_builder_begin_object (builder);
  for (guint p = 0; p < plumb_reward_n_parts (session->reward); p++)
    {
      json_builder_set_member_name (builder, plumb_reward_part_name (session->reward, p));
      if (isfinite (parts[p]))
        json_builder_add_double_value (builder, parts[p]);
      else
        json_builder_add_null_value (builder);
    }
  json_builder_end_object (builder);
  json_builder_set_member_name (builder, "failed");
  json_builder_add_boolean_value (builder, score->failed);
  json_builder_set_member_name (builder, "reason");
  if (score->reason)
    json_builder_add_string_value (builder, score->reason);
  else
    json_builder_add_null_value (builder);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  plumb_command_print_json (root, FALSE);
}

static const char *
text_or_nothing (const GString *text)
{
  return text ? text->str : NULL;
}

static gboolean
fill_inputs (Session *session, PlumbDataSource *source, gsize first, PlumbDataText *texts, PlumbRewardInput *inputs,
             gsize n, GError **error)
{
  for (gsize i = 0; i < n; i++)
    {
      PlumbDataText *text = &texts[i];
      if (!plumb_data_source_get (source, first + i, text, error))
        return FALSE;
      inputs[i] = (PlumbRewardInput) { .prompt = text->prompt ? text->prompt->str : "",
                                       .response = text->response ? text->response->str : "",
                                       .answer = text_or_nothing (text->answer),
                                       .row = text_or_nothing (text->row),
                                       .model_score = NAN };
      if (!session->tokenizer || !text->response)
        continue;
      g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
      if (!plumb_tokenizer_encode (session->tokenizer, text->response->str, text->response->len, FALSE, ids, error))
        return FALSE;
      inputs[i].n_tokens = ids->len;
    }
  return TRUE;
}

static gboolean
score_rows (Session *session, PlumbDataSource *source, gsize first, gsize n, GError **error)
{
  g_autofree PlumbDataText *texts = g_new0 (PlumbDataText, n);
  g_autofree PlumbRewardInput *inputs = g_new0 (PlumbRewardInput, n);
  g_autofree PlumbRewardScore *scores = g_new0 (PlumbRewardScore, n);
  guint n_parts = plumb_reward_n_parts (session->reward);
  g_autofree double *parts = g_new0 (double, n * n_parts);
  PlumbRewardBatch batch = { n, inputs, scores, parts, NULL };
  gboolean fine = fill_inputs (session, source, first, texts, inputs, n, error);
  if (fine)
    plumb_reward_score_batch (session->reward, &batch, NULL, NULL);
  for (gsize i = 0; fine && i < n; i++)
    {
      print_score (session, plumb_data_source_line (source, first + i), &scores[i], parts + i * n_parts);
      session->rows++;
      session->scored += !scores[i].failed;
      session->sum += scores[i].failed ? 0 : scores[i].value;
    }
  g_autoptr (GPtrArray) failures = plumb_reward_failures (scores, fine ? n : 0);
  for (guint i = 0; i < failures->len; i++)
    count_failure (session, g_ptr_array_index (failures, i));
  for (gsize i = 0; i < n; i++)
    {
      plumb_data_text_clear (&texts[i]);
      plumb_reward_score_clear (&scores[i]);
    }
  return fine;
}

static gboolean
score_path (Session *session, const char *path, GError **error)
{
  g_auto (GStrv) files = plumb_data_expand (path, error);
  for (gsize i = 0; files && files[i]; i++)
    {
      g_autoptr (PlumbDataSource) source
          = plumb_data_source_open (files[i], PLUMB_DATA_TRAIN, session->options.seed, &session->options.keys,
                                    session->reports, error);
      if (!source)
        return FALSE;
      gsize n = plumb_data_source_n_rows (source);
      for (gsize at = 0; at < n; at += ROWS_AT_ONCE)
        if (!score_rows (session, source, at, MIN (n - at, ROWS_AT_ONCE), error))
          return FALSE;
    }
  return files != NULL;
}

/* What a person wants to know beside the rows; on standard error, which scripts need not read. */
static void
print_summary (Session *session)
{
  GHashTableIter iter;
  gpointer reason, count;
  if (session->reports->len > 0)
    {
      g_autofree char *text = plumb_problems_to_text (session->reports);
      g_printerr ("%s", text);
    }
  g_printerr (_ ("%zu rows, %zu scored, mean %g, %zu failed, %u left out\n"), session->rows, session->scored,
              session->scored ? session->sum / (double) session->scored : NAN, session->rows - session->scored,
              session->reports->len);
  g_hash_table_iter_init (&iter, session->failures);
  while (g_hash_table_iter_next (&iter, &reason, &count))
    g_printerr (_ ("  %u failed: %s\n"), GPOINTER_TO_UINT (count), (const char *) reason);
}

int
plumb_cmd_score (int argc, char **argv, GError **error)
{
  g_auto (GStrv) assignments = NULL;
  gboolean json = FALSE;
  const GOptionEntry options[] = {
    { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &assignments, N_ ("change a setting of the spec"), N_ ("KEY=VALUE") },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, N_ ("print nothing beside the JSON lines"), NULL },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, options, "SPEC [FILE]",
                            _ ("Scores rows with a prompt, a response and an answer (keys as in [data]); prints a"
                               " JSON line for each."),
                            1, 2, error))
    return PLUMB_ERROR_USAGE;
  g_autoptr (GPtrArray) problems = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = plumb_command_load_spec (argv[1], assignments, problems, error);
  if (!spec || (argc > 2 && !plumb_spec_set (spec, "data.train", argv[2], error)) || !check_problems (problems, argc > 2, error))
    return PLUMB_ERROR_INVALID;
  g_auto (Session) session = { NULL };
  if (!open_session (&session, spec, error))
    return PLUMB_ERROR_INVALID;
  for (gsize i = 0; session.options.paths[i]; i++)
    {
      double weight;
      g_autofree char *path = plumb_spec_split_weight (session.options.paths[i], &weight);
      if (!score_path (&session, path, error))
        return PLUMB_ERROR_INVALID;
    }
  if (!json)
    print_summary (&session);
  return 0;
}
