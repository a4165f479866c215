/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/text/data-json.h"
#include "engine/text/dataset-private.h"

#define MOST_ROWS (1u << 31)

typedef enum
{
  OVERLONG_DROP,
  OVERLONG_TRUNCATE_LEFT,
  OVERLONG_TRUNCATE_RIGHT,
} Overlong;

typedef struct
{
  guint32 source, row;
} Place;

struct _PlumbDataSet
{
  gatomicrefcount refs;
  PlumbTokenizer *tokenizer;
  GPtrArray *sources; /* of PlumbDataSource */
  GArray *weights;    /* double, one per source */
  GArray *places;     /* of Place: usable rows, source by source */
  char *template;
  Overlong on_overlong;
  gsize max_prompt, max_length;
  gboolean whole_text, shuffle;
  guint64 seed;
  PlumbDataCounts counts;
};

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
            || g_str_equal (plumb_spec_get_text (spec, "data.train_on"), "response");
    }
  options->keys.need_pair = offline && PLUMB_IS_ON (algorithm, PLUMB_ON_PAIRS);
  options->keys.need_label = offline && PLUMB_IS_ON (algorithm, PLUMB_ON_KTO);
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
  g_ptr_array_unref (set->sources);
  g_array_unref (set->weights);
  g_array_unref (set->places);
  g_free (set->template);
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
  return set->places->len;
}

void
plumb_data_row_free (PlumbDataRow *row)
{
  g_free (row->prompt);
  g_free (row->answer);
  g_free (row->response);
  g_free (row->rejected);
  g_clear_pointer (&row->prompt_ids, g_array_unref);
  g_clear_pointer (&row->response_ids, g_array_unref);
  g_clear_pointer (&row->rejected_ids, g_array_unref);
  g_free (row);
}

/* The prompt within its template. */
static GString *
fill_template (PlumbDataSet *set, const GString *prompt)
{
  GString *text = g_string_new (NULL);
  const char *next = set->template, *hit;

  if (next == NULL)
    return g_string_append_len (text, prompt->str, prompt->len);
  while ((hit = strstr (next, "{prompt}")) != NULL)
    {
      g_string_append_len (text, next, hit - next);
      g_string_append_len (text, prompt->str, prompt->len);
      next = hit + strlen ("{prompt}");
    }
  return g_string_append (text, next);
}

/* Takes from a text that is far too long what cannot be among the kept tokens, so that a line of
 * many megabytes costs no more than a short one. TRUE if it was cut. */
static gboolean
cut_text (PlumbDataSet *set, GString *text)
{
  gsize most = (set->max_prompt + 16) * plumb_tokenizer_longest_token (set->tokenizer);

  if (text->len <= most)
    return FALSE;
  if (set->on_overlong == OVERLONG_TRUNCATE_LEFT)
    {
      const char *start = text->str + text->len - most;

      while ((*start & 0xc0) == 0x80)
        start++;
      g_string_erase (text, 0, start - text->str);
    }
  else
    {
      const char *end = text->str + most;

      while ((*end & 0xc0) == 0x80)
        end--;
      g_string_truncate (text, end - text->str);
    }
  return TRUE;
}

/* Cuts ids to the length, keeping what stands before the text (BOS). */
static void
cut_ids (PlumbDataSet *set, GArray *ids)
{
  gsize extra = ids->len - set->max_prompt;
  gint32 bos = plumb_tokenizer_bos (set->tokenizer);
  guint kept = ids->len > 0 && bos >= 0 && g_array_index (ids, gint32, 0) == bos ? 1 : 0;

  if (set->on_overlong == OVERLONG_TRUNCATE_LEFT)
    g_array_remove_range (ids, kept, extra);
  else
    g_array_set_size (ids, set->max_prompt);
}

typedef enum
{
  FIT_WELL,
  FIT_CUT,
  FIT_NOT,
} Fit;

static gboolean
encode_prompt (PlumbDataSet *set, GString *text, GArray *ids, Fit *fit, GError **error)
{
  gboolean cut = cut_text (set, text);

  *fit = FIT_WELL;
  if (cut && set->on_overlong == OVERLONG_DROP)
    {
      *fit = FIT_NOT;
      return TRUE;
    }
  if (!plumb_tokenizer_encode (set->tokenizer, text->str, text->len, TRUE, ids, error))
    return FALSE;
  if (ids->len > set->max_prompt)
    {
      *fit = set->on_overlong == OVERLONG_DROP ? FIT_NOT : FIT_CUT;
      if (*fit == FIT_CUT)
        cut_ids (set, ids);
    }
  return TRUE;
}

/* Tokens of a response as they would follow the prompt: encoded together where the tokens of the
 * prompt stay the same, else alone. */
static gboolean
encode_response (PlumbDataSet *set,
                 const GString *prompt,
                 const GString *response,
                 const GArray *prompt_ids,
                 GArray *ids,
                 GError **error)
{
  g_autoptr (GString) both = g_string_new_len (prompt->str, prompt->len);
  gsize n = prompt_ids->len;

  g_string_append_len (both, response->str, response->len);
  if (!plumb_tokenizer_encode (set->tokenizer, both->str, both->len, TRUE, ids, error))
    return FALSE;
  if (ids->len > n && memcmp (ids->data, prompt_ids->data, n * sizeof (gint32)) == 0)
    {
      g_array_remove_range (ids, 0, n);
      return TRUE;
    }
  g_array_set_size (ids, 0);
  return plumb_tokenizer_encode (set->tokenizer, response->str, response->len, FALSE, ids, error);
}

static void
end_response (PlumbDataSet *set, GArray *ids)
{
  gsize n;
  const gint32 *eos = plumb_tokenizer_eos (set->tokenizer, &n);

  /* A text may end with the token already; it is trained once. */
  if (n > 0 && (ids->len == 0 || g_array_index (ids, gint32, ids->len - 1) != eos[0]))
    g_array_append_val (ids, eos[0]);
}

/* A C string for showing: NULs would end it. */
static char *
shown (const GString *text)
{
  char *copy = g_malloc (text->len + 1);

  memcpy (copy, text->str, text->len + 1);
  for (gsize i = 0; i < text->len; i++)
    if (copy[i] == '\0')
      copy[i] = ' ';
  return copy;
}

/* An answer to the row's prompt as ids that end with EOS, cut to what the longest sequence leaves. */
static GArray *
build_answer (PlumbDataSet *set, const PlumbDataRow *row, const GString *prompt, GString *text, Fit *fit, GError **error)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  gsize length = (set->max_length + 1) * plumb_tokenizer_longest_token (set->tokenizer);

  if (text->len > length)
    {
      *fit = set->on_overlong == OVERLONG_DROP ? FIT_NOT : FIT_CUT;
      while ((text->str[length] & 0xc0) == 0x80)
        length--;
      g_string_truncate (text, length);
    }
  if (!encode_response (set, prompt, text, row->prompt_ids, ids, error))
    {
      g_prefix_error (error, "%s:%u: ", row->file, row->line);
      return NULL;
    }
  end_response (set, ids);
  if (row->prompt_ids->len + ids->len > set->max_length)
    {
      *fit = set->on_overlong == OVERLONG_DROP ? FIT_NOT : FIT_CUT;
      g_array_set_size (ids, MIN (ids->len, set->max_length - row->prompt_ids->len));
    }
  return g_steal_pointer (&ids);
}

static gboolean
build_prompt (PlumbDataSet *set, PlumbDataRow *row, GString *prompt, Fit *fit, GError **error)
{
  row->prompt_ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (!encode_prompt (set, prompt, row->prompt_ids, fit, error))
    {
      g_prefix_error (error, "%s:%u: ", row->file, row->line);
      return FALSE;
    }
  if (*fit == FIT_CUT)
    row->prompt = plumb_tokenizer_decode (set->tokenizer, (gpointer)row->prompt_ids->data,
                                          row->prompt_ids->len, TRUE, NULL);
  if (row->prompt == NULL)
    row->prompt = shown (prompt);
  return TRUE;
}

static PlumbDataRow *
build_row (PlumbDataSet *set, const Place *place, Fit *fit, GError **error)
{
  PlumbDataSource *source = g_ptr_array_index (set->sources, place->source);
  g_autoptr (PlumbDataRow) row = g_new0 (PlumbDataRow, 1);
  g_auto (PlumbDataText) text = { NULL };
  g_autoptr (GString) prompt = NULL;

  plumb_data_source_get (source, place->row, &text);
  row->file = plumb_data_source_name (source);
  row->line = plumb_data_source_line (source, place->row);
  row->margin = text.margin != NULL ? plumb_data_number (text.margin->str) : 0;
  if (text.label != NULL)
    plumb_data_label (text.label->str, &row->liked);
  if (set->whole_text && text.response == NULL)
    {
      text.response = g_steal_pointer (&text.prompt);
      prompt = g_string_new (NULL);
    }
  else
    prompt = fill_template (set, text.prompt);
  if (!build_prompt (set, row, prompt, fit, error))
    return NULL;
  row->answer = text.answer != NULL ? shown (text.answer) : NULL;
  if (text.response == NULL || *fit == FIT_NOT)
    return g_steal_pointer (&row);

  row->response = shown (text.response);
  row->response_ids = build_answer (set, row, prompt, text.response, fit, error);
  if (row->response_ids == NULL)
    return NULL;
  if (text.rejected == NULL)
    return g_steal_pointer (&row);
  row->rejected = shown (text.rejected);
  row->rejected_ids = build_answer (set, row, prompt, text.rejected, fit, error);
  return row->rejected_ids != NULL ? g_steal_pointer (&row) : NULL;
}

PlumbDataRow *
plumb_data_set_get (PlumbDataSet *set, gsize index, GError **error)
{
  Fit fit;

  g_return_val_if_fail (index < set->places->len, NULL);
  return build_row (set, &g_array_index (set->places, Place, index), &fit, error);
}

static void
report_row (GPtrArray *reports,
            gsize *reported,
            const PlumbDataRow *row,
            const char *message,
            const char *remedy)
{
  if (++*reported <= PLUMB_DATA_MOST_REPORTS)
    g_ptr_array_add (reports,
                     plumb_problem_new (NULL, NULL, row->file, row->line, message, remedy));
}

/* Keeps the rows of a source that fit. */
static void
keep_rows (PlumbDataSet *set, guint32 index, gint64 most, GPtrArray *reports)
{
  PlumbDataSource *source = g_ptr_array_index (set->sources, index);
  gsize n = plumb_data_source_n_rows (source), reported = 0;

  set->counts.broken += plumb_data_source_n_broken (source);
  for (gsize i = 0; i < n && (most <= 0 || set->places->len < most); i++)
    {
      Place place = { index, i };
      Fit fit;
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbDataRow) row = build_row (set, &place, &fit, &error);

      if (row == NULL)
        {
          PlumbDataRow where = { .file = plumb_data_source_name (source),
                                 .line = plumb_data_source_line (source, i) };

          set->counts.broken++;
          report_row (reports, &reported, &where, error->message, NULL);
        }
      else if (fit == FIT_NOT)
        set->counts.dropped++;
      else
        {
          set->counts.truncated += fit == FIT_CUT;
          g_array_append_val (set->places, place);
        }
    }
  set->counts.rows = set->places->len;
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
          g_ptr_array_add (set->sources, source);
          g_array_append_val (set->weights, weight);
        }
    }
  if (set->sources->len > 0)
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
  set->sources = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_data_source_free);
  set->weights = g_array_new (FALSE, FALSE, sizeof (double));
  set->places = g_array_new (FALSE, FALSE, sizeof (Place));
  set->template = g_strdup (options->prompt_template);
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
  for (guint i = 0; i < set->sources->len; i++)
    keep_rows (set, i, options->max_samples, reports);
  if (set->places->len == 0 || set->places->len >= MOST_ROWS)
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
  if (source >= set->sources->len)
    return FALSE;
  *first = 0;
  *n = 0;
  for (guint i = 0; i < set->places->len; i++)
    {
      guint32 its = g_array_index (set->places, Place, i).source;

      *first += its < source;
      *n += its == source;
    }
  *taken = *n > 0 ? MAX (1, (gsize)llround (*n * g_array_index (set->weights, double, source))) : 0;
  return TRUE;
}
