/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/text/data-json.h"
#include "engine/text/dataset-private.h"

#define MOST_ROWS (1u << 31)
/* Rows that are made to tokens when a set is opened, so that faults are told before a run; a file of millions is not
 * gone through for that. */
#define CHECKED_ROWS 50000
#define CHECKED_BYTES (32 << 20)
#define MOST_READY 256
#define NOTES_OF_A_KIND 5 /* rows that are named one by one */

static char *
key_of (PlumbSpec *spec, const char *setting)
{
  return g_strdup (plumb_spec_get_text (spec, setting));
}

void
plumb_data_options_from_spec (PlumbDataOptions *options,
                              PlumbSpec *spec,
                              const char *paths_key,
                              PlumbDataPurpose purpose)
{
  PlumbAlgorithm algorithm = plumb_spec_algorithm (spec);
  gboolean offline = purpose != PLUMB_DATA_WARMUP && !PLUMB_IS_ON (algorithm, PLUMB_ON_ONLINE);

  *options = (PlumbDataOptions){
    .paths = plumb_spec_get_list (spec, paths_key),
    .purpose = purpose,
    .seed = plumb_spec_get_integer (spec, "run.seed"),
    .prompt_template = plumb_spec_get_text (spec, "data.prompt_template"),
    .max_samples
    = purpose == PLUMB_DATA_EVAL ? 0 : plumb_spec_get_integer (spec, "data.max_samples"),
    .max_prompt_length = plumb_spec_get_integer (spec, "data.max_prompt_length"),
    .max_length = plumb_spec_get_integer (spec, "model.max_length"),
    .on_overlong = plumb_spec_get_choice (spec, "data.on_overlong"),
    .shuffle = plumb_spec_get_boolean (spec, "data.shuffle"),
  };
  /* Supervised rows need a response, unless whole texts are trained on. Rows of a text file have
   * none: they are whole texts always. */
  if (purpose == PLUMB_DATA_WARMUP || algorithm == PLUMB_ALGORITHM_SFT)
    {
      options->whole_text = TRUE;
      options->keys.need_response
          = purpose == PLUMB_DATA_WARMUP
            || plumb_spec_get_choice (spec, "data.train_on") != PLUMB_TRAIN_ON_ALL;
      options->train_on
          = purpose == PLUMB_DATA_WARMUP ? PLUMB_TRAIN_ON_RESPONSE : plumb_spec_get_choice (spec, "data.train_on");
    }
  options->keys.need_pair = offline && PLUMB_IS_ON (algorithm, PLUMB_ON_PAIRS);
  options->keys.need_label = offline && PLUMB_IS_ON (algorithm, PLUMB_ON_KTO);
  options->system = plumb_spec_get_text (spec, "data.system");
  options->keys.format = plumb_spec_get_choice (spec, "data.format");
  options->keys.prompts_only = !options->whole_text && !options->keys.need_pair && !options->keys.need_label;
  options->keys.messages = key_of (spec, "data.messages_key");
  options->keys.prompt = key_of (spec, "data.prompt_key");
  options->keys.answer = key_of (spec, "data.answer_key");
  options->keys.response = key_of (spec, options->keys.need_pair ? "data.chosen_key" : "data.response_key");
  options->keys.rejected = key_of (spec, "data.rejected_key");
  options->keys.margin = key_of (spec, "data.margin_key");
  options->keys.label = key_of (spec, "data.label_key");
}

void
plumb_data_options_clear (PlumbDataOptions *options)
{
  g_clear_pointer (&options->paths, g_strfreev);
  plumb_data_keys_clear (&options->keys);
}

PlumbDataSet *
plumb_data_set_ref (PlumbDataSet *set)
{
  g_atomic_ref_count_inc (&set->refs);
  return set;
}

void
plumb_data_set_unref (PlumbDataSet *set)
{
  if (!g_atomic_ref_count_dec (&set->refs))
    return;
  plumb_tokenizer_unref (set->tokenizer);
  g_ptr_array_unref (set->parts);
  g_hash_table_unref (set->ready);
  plumb_data_late_clear (&set->late);
  g_mutex_clear (&set->lock);
  g_ptr_array_unref (set->notes);
  g_clear_pointer (&set->chat, plumb_template_unref);
  g_free (set->template);
  g_free (set->system);
  g_free (set);
}

const PlumbDataCounts *
plumb_data_set_counts (PlumbDataSet *set)
{
  return &set->counts;
}

gsize
plumb_data_set_n_rows (PlumbDataSet *set)
{
  return set->n_rows;
}

void
plumb_data_row_free (PlumbDataRow *row)
{
  g_free (row->prompt);
  g_free (row->answer);
  g_free (row->response);
  g_free (row->row);
  g_free (row->rejected);
  g_clear_pointer (&row->prompt_ids, g_array_unref);
  g_clear_pointer (&row->response_ids, g_array_unref);
  g_clear_pointer (&row->rejected_ids, g_array_unref);
  g_clear_pointer (&row->response_trained, g_array_unref);
  g_clear_pointer (&row->rejected_trained, g_array_unref);
  g_clear_pointer (&row->next, plumb_data_row_free);
  g_free (row);
}

/* Where a row of the set is. */
static PlumbDataPart *
find_row (PlumbDataSet *set, gsize index, gsize *row, gboolean *checked)
{
  for (guint i = 0; i < set->parts->len; i++)
    {
      PlumbDataPart *part = g_ptr_array_index (set->parts, i);
      gsize n = part->kept->len + part->n - part->checked;

      if (index < n)
        {
          *checked = index < part->kept->len;
          *row = *checked ? g_array_index (part->kept, guint32, index) : part->checked + index - part->kept->len;
          return part;
        }
      index -= n;
    }
  return NULL;
}

static PlumbDataRow *
build (PlumbDataSet *set, gsize index, PlumbDataFit *fit, GError **error)
{
  PlumbConversationNotes notes;
  gboolean checked;
  gsize at;
  PlumbDataPart *part = find_row (set, index, &at, &checked);
  PlumbDataRow *row = plumb_data_row_build (set, part->source, at, fit, &notes, error);

  plumb_conversation_notes_clear (&notes);
  return row;
}

PlumbDataRow *
plumb_data_set_get (PlumbDataSet *set, gsize index, GError **error)
{
  gpointer row = NULL, key;
  PlumbDataFit fit;

  g_return_val_if_fail (index < set->n_rows, NULL);
  g_mutex_lock (&set->lock);
  g_hash_table_steal_extended (set->ready, GSIZE_TO_POINTER (index), &key, &row);
  g_mutex_unlock (&set->lock);
  return row != NULL ? row : build (set, index, &fit, error);
}

static void
note_late (PlumbDataSet *set, const PlumbDataPart *part, gsize index, gsize at, const GError *error)
{
  guint line = plumb_data_source_line (part->source, at);
  g_autofree char *overlong = NULL;

  if (error == NULL)
    overlong = g_strdup_printf ("the row is longer than %" G_GSIZE_FORMAT " tokens, or its prompt than %" G_GSIZE_FORMAT
                                ": it is left out",
                                set->max_length, set->max_prompt);
  plumb_data_late_note (&set->late, index, plumb_data_source_name (part->source), line,
                        error != NULL ? error->message : overlong,
                        error != NULL ? NULL : "raise model.max_length or data.max_prompt_length, or see data.on_overlong",
                        error != NULL);
}

gboolean
plumb_data_set_is_usable (PlumbDataSet *set, gsize index)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataRow) row = NULL;
  gboolean checked, usable, known;
  PlumbDataFit fit = FIT_NOT;
  gsize at;
  PlumbDataPart *part = find_row (set, index, &at, &checked);

  if (part == NULL || checked)
    return TRUE;
  g_mutex_lock (&set->lock);
  known = plumb_data_late_knows (&set->late, index);
  set->late.passed += known;
  g_mutex_unlock (&set->lock);
  if (known)
    return FALSE;
  row = build (set, index, &fit, &error);
  usable = row != NULL && fit != FIT_NOT;
  g_mutex_lock (&set->lock);
  set->counts.broken += row == NULL;
  set->counts.dropped += row != NULL && fit == FIT_NOT;
  set->counts.truncated += usable && fit == FIT_CUT;
  set->late.passed += !usable;
  if (!usable)
    note_late (set, part, index, at, error);
  if (g_hash_table_size (set->ready) >= MOST_READY)
    g_hash_table_remove_all (set->ready);
  if (usable)
    g_hash_table_replace (set->ready, GSIZE_TO_POINTER (index), g_steal_pointer (&row));
  g_mutex_unlock (&set->lock);
  return usable;
}

static void
note (PlumbDataSet *set, PlumbDataSource *source, guint line, const char *message, const char *remedy)
{
  g_ptr_array_add (set->notes,
                   plumb_problem_new (NULL, NULL, plumb_data_source_name (source), line, message, remedy));
}

/* What a user should know of a conversation: the first of a kind are named, all are counted. */
static void
note_row (PlumbDataSet *set, PlumbDataSource *source, guint line, const PlumbConversationNotes *notes)
{
  g_autofree char *rewritten = NULL, *control = NULL;

  if (notes->rewritten >= 0 && ++set->counts.rewritten <= NOTES_OF_A_KIND)
    {
      rewritten = g_strdup_printf ("the chat template renders message %d otherwise once later ones follow (from"
                                   " character %" G_GSIZE_FORMAT "): each assistant turn becomes a sequence of its own",
                                   notes->rewritten + 1, notes->rewritten_at);
      note (set, source, line, rewritten, NULL);
    }
  if (notes->control >= 0 && ++set->counts.control <= NOTES_OF_A_KIND)
    {
      control = g_strdup_printf ("content of message %d spells the control token %s, which counts as one",
                                 notes->control + 1, notes->control_token);
      note (set, source, line, control, "remove it from the data if it shall not end or forge a turn");
    }
}

/* An overlong row, with its size; the first are named, all are counted. */
static void
note_overlong (PlumbDataSet *set, PlumbDataSource *source, gsize row, gboolean dropped)
{
  g_autofree char *message = NULL;

  if (set->counts.dropped + set->counts.truncated > NOTES_OF_A_KIND)
    return;
  message = g_strdup_printf ("the row has %" G_GSIZE_FORMAT " bytes and is longer than %" G_GSIZE_FORMAT
                             " tokens, or its prompt than %" G_GSIZE_FORMAT ": it is %s",
                             plumb_data_source_row_bytes (source, row), set->max_length, set->max_prompt,
                             dropped ? "left out" : "cut");
  note (set, source, plumb_data_source_line (source, row), message,
        "raise model.max_length or data.max_prompt_length, or see data.on_overlong");
}

/* Totals, once all rows were seen. */
static void
note_totals (PlumbDataSet *set)
{
  const struct
  {
    gsize n;
    const char *what;
  } totals[] = { { set->counts.dropped, "are too long and left out" },
                 { set->counts.truncated, "are too long and cut" },
                 { set->counts.control, "spell control tokens in their content" },
                 { set->counts.rewritten, "have turns that the chat template rewrites later" } };

  for (gsize i = 0; i < G_N_ELEMENTS (totals); i++)
    if (totals[i].n > 0)
      {
        g_autofree char *message = g_strdup_printf ("%" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " rows %s", totals[i].n,
                                                    set->counts.rows + set->counts.dropped, totals[i].what);

        g_ptr_array_add (set->notes, plumb_problem_new (NULL, NULL, NULL, 0, message, NULL));
      }
}

static void
note_keys (PlumbDataSet *set, PlumbDataSource *source)
{
  g_autofree char *keys = plumb_data_keys_describe (plumb_data_source_keys (source));

  if (keys[0] != '\0')
    note (set, source, 0, keys, NULL);
}

GPtrArray *
plumb_data_set_notes (PlumbDataSet *set)
{
  return set->notes;
}

static void
report_row (GPtrArray *reports, gsize *reported, PlumbDataSource *source, guint line, const char *message)
{
  const char *name = plumb_data_source_name (source);
  g_autofree char *place = g_strdup_printf ("%s:%u: ", name, line);

  if (++*reported > PLUMB_DATA_MOST_REPORTS)
    return;
  if (g_str_has_prefix (message, place))
    message += strlen (place);
  g_ptr_array_add (reports, plumb_problem_new (NULL, NULL, name, line, message, NULL));
}

/* Looks at a row; TRUE if it can be used. */
static gboolean
check_row (PlumbDataSet *set, PlumbDataPart *part, gsize row, GPtrArray *reports, gsize *reported)
{
  PlumbDataFit fit;
  PlumbConversationNotes notes;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataRow) made = plumb_data_row_build (set, part->source, row, &fit, &notes, &error);
  gboolean usable = made != NULL && fit != FIT_NOT;

  set->counts.broken += made == NULL;
  set->counts.dropped += made != NULL && fit == FIT_NOT;
  if (made == NULL)
    report_row (reports, reported, part->source, plumb_data_source_line (part->source, row), error->message);
  if (usable)
    set->counts.truncated += fit == FIT_CUT;
  if (made != NULL && fit != FIT_WELL)
    note_overlong (set, part->source, row, !usable);
  if (usable)
    {
      note_row (set, part->source, made->line, &notes);
    }
  plumb_conversation_notes_clear (&notes);
  return usable;
}

/* Keeps the rows of a source that fit, among those that are looked at now. */
static void
keep_rows (PlumbDataSet *set, PlumbDataPart *part, gint64 most, GPtrArray *reports)
{
  gsize n = plumb_data_source_n_rows (part->source), reported = 0;
  guint64 bytes = 0;

  set->counts.broken += plumb_data_source_n_broken (part->source);
  note_keys (set, part->source);
  for (guint32 i = 0; i < n && (most <= 0 || set->n_rows + part->kept->len < (gsize)most); i++)
    {
      bytes += plumb_data_source_row_bytes (part->source, i);
      if (i >= CHECKED_ROWS || bytes > CHECKED_BYTES)
        {
          part->n = most > 0 ? MIN (n, i + (gsize)most - set->n_rows - part->kept->len) : n;
          break;
        }
      if (check_row (set, part, i, reports, &reported))
        g_array_append_val (part->kept, i);
      part->n = part->checked = i + 1;
    }
  set->n_rows += part->kept->len + part->n - part->checked;
  set->counts.unchecked += part->n - part->checked;
  set->counts.rows = set->n_rows;
}

static void
add_part (PlumbDataSet *set, PlumbDataSource *source, double weight)
{
  PlumbDataPart *part = g_new0 (PlumbDataPart, 1);

  part->source = source;
  part->weight = weight;
  part->kept = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_ptr_array_add (set->parts, part);
}

static void
part_free (gpointer data)
{
  PlumbDataPart *part = data;

  plumb_data_source_free (part->source);
  g_array_unref (part->kept);
  g_free (part);
}

static gboolean
open_sources (PlumbDataSet *set,
              const PlumbDataOptions *options,
              GPtrArray *reports,
              GError **error)
{
  for (gsize i = 0; options->paths[i] != NULL; i++)
    {
      double weight;
      g_autofree char *path = plumb_spec_split_weight (options->paths[i], &weight);
      g_auto (GStrv) files = plumb_data_expand (path, error);

      if (files == NULL)
        return FALSE;
      if (!(weight > 0) || weight > 1000)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "%s: the weight must be above 0 and at most 1000", options->paths[i]);
          return FALSE;
        }
      for (gsize j = 0; files[j] != NULL; j++)
        {
          PlumbDataSource *source = plumb_data_source_open (
              files[j], options->purpose, options->seed, &options->keys, reports, error);

          if (source == NULL)
            return FALSE;
          add_part (set, source, weight);
        }
    }
  if (set->parts->len > 0)
    return TRUE;
  g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "there is no data file");
  return FALSE;
}

PlumbDataSet *
plumb_data_set_open (const PlumbDataOptions *options,
                     PlumbTokenizer *tokenizer,
                     GPtrArray *reports,
                     GError **error)
{
  g_autoptr (PlumbDataSet) set = g_new0 (PlumbDataSet, 1);

  g_return_val_if_fail (options->max_length >= 2, NULL);
  g_atomic_ref_count_init (&set->refs);
  set->tokenizer = plumb_tokenizer_ref (tokenizer);
  set->parts = g_ptr_array_new_with_free_func (part_free);
  g_mutex_init (&set->lock);
  set->ready = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify)plumb_data_row_free);
  plumb_data_late_init (&set->late);
  set->notes = plumb_problems_new ();
  set->chat = options->chat != NULL ? plumb_template_ref (options->chat) : NULL;
  set->template = g_strdup (options->prompt_template);
  set->system = g_strdup (options->system);
  set->train_on = options->train_on;
  set->trains = options->whole_text || options->keys.need_response || options->keys.need_pair || options->keys.need_label;
  set->on_overlong = options->on_overlong;
  set->max_length = options->max_length;
  set->max_prompt = options->max_length - 1;
  if (options->max_prompt_length > 0)
    set->max_prompt = MIN (set->max_prompt, (gsize)options->max_prompt_length);
  set->whole_text = options->whole_text;
  set->shuffle = options->shuffle;
  set->seed = options->seed;
  if (!open_sources (set, options, reports, error))
    return NULL;
  for (guint i = 0; i < set->parts->len; i++)
    keep_rows (set, g_ptr_array_index (set->parts, i), options->max_samples, reports);
  note_totals (set);
  if (set->n_rows == 0 || set->n_rows >= MOST_ROWS)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: no row is left: %" G_GSIZE_FORMAT " are broken, %" G_GSIZE_FORMAT
                   " longer than %" G_GSIZE_FORMAT " tokens; raise data.max_prompt_length or"
                   " model.max_length, or set data.on_overlong = truncate_right",
                   options->paths[0], set->counts.broken, set->counts.dropped, set->max_prompt);
      return NULL;
    }
  return g_steal_pointer (&set);
}

gboolean
plumb_data_set_shuffles (PlumbDataSet *set, guint64 *seed)
{
  *seed = set->seed;
  return set->shuffle;
}

gboolean
plumb_data_set_share (PlumbDataSet *set, guint source, gsize *first, gsize *n, gsize *taken)
{
  *first = 0;
  for (guint i = 0; i < set->parts->len; i++)
    {
      const PlumbDataPart *part = g_ptr_array_index (set->parts, i);

      *n = part->kept->len + part->n - part->checked;
      *taken = *n > 0 ? MAX (1, (gsize)llround (*n * part->weight)) : 0;
      if (i == source)
        return TRUE;
      *first += *n;
    }
  return FALSE;
}
