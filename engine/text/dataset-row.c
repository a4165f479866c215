/* SPDX-License-Identifier: Apache-2.0 */
/* A row of text as tokens. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/data-json.h"
#include "engine/text/dataset-private.h"

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
gboolean
plumb_data_cut_text (PlumbDataSet *set, GString *text)
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
void
plumb_data_cut_prompt (PlumbDataSet *set, GArray *ids)
{
  gsize extra = ids->len - set->max_prompt;
  gint32 bos = plumb_tokenizer_bos (set->tokenizer);
  guint kept = ids->len > 0 && bos >= 0 && g_array_index (ids, gint32, 0) == bos ? 1 : 0;

  if (set->on_overlong == OVERLONG_TRUNCATE_LEFT)
    g_array_remove_range (ids, kept, extra);
  else
    g_array_set_size (ids, set->max_prompt);
}

static gboolean
encode_prompt (PlumbDataSet *set, GString *text, GArray *ids, PlumbDataFit *fit, GError **error)
{
  gboolean cut = plumb_data_cut_text (set, text);

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
        plumb_data_cut_prompt (set, ids);
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
char *
plumb_data_shown (const GString *text)
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
build_answer (PlumbDataSet *set, const PlumbDataRow *row, const GString *prompt, GString *text, PlumbDataFit *fit, GError **error)
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
build_prompt (PlumbDataSet *set, PlumbDataRow *row, GString *prompt, PlumbDataFit *fit, GError **error)
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
    row->prompt = plumb_data_shown (prompt);
  return TRUE;
}

/* The same for a row without a chat template. */
static gboolean
build_plain (PlumbDataSet *set, PlumbDataRow *row, PlumbDataText *text, PlumbDataFit *fit, GError **error)
{
  g_autoptr (GString) prompt = NULL;

  if (text->prompt == NULL && text->response == NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s:%u: the row is a conversation and the model has no chat template; set model.chat_template to"
                   " a template file",
                   row->file, row->line);
      return FALSE;
    }
  if (text->prompt == NULL || (set->whole_text && text->response == NULL))
    {
      if (text->response == NULL)
        text->response = g_steal_pointer (&text->prompt);
      prompt = g_string_new (NULL);
    }
  else
    prompt = fill_template (set, text->prompt);
  if (!build_prompt (set, row, prompt, fit, error))
    return FALSE;
  if (text->response == NULL || *fit == FIT_NOT)
    return TRUE;
  row->response = plumb_data_shown (text->response);
  row->response_ids = build_answer (set, row, prompt, text->response, fit, error);
  if (row->response_ids == NULL || text->rejected == NULL)
    return row->response_ids != NULL;
  row->rejected = plumb_data_shown (text->rejected);
  row->rejected_ids = build_answer (set, row, prompt, text->rejected, fit, error);
  return row->rejected_ids != NULL;
}

/* Conversations go through the template, and texts too where there is one, unless the spec gives the words around
 * a prompt. Whole texts are trained as they are. */
static gboolean
is_chat (PlumbDataSet *set, const PlumbDataText *text)
{
  if (set->chat == NULL || (set->template != NULL && text->prompt != NULL))
    return FALSE;
  if (text->turns != NULL || text->response_turns != NULL)
    return TRUE;
  return text->prompt != NULL && (text->response != NULL || !set->whole_text);
}

PlumbDataRow *
plumb_data_row_build (PlumbDataSet *set,
                      PlumbDataSource *source,
                      gsize index,
                      PlumbDataFit *fit,
                      PlumbConversationNotes *notes,
                      GError **error)
{
  g_autoptr (PlumbDataRow) row = g_new0 (PlumbDataRow, 1);
  g_auto (PlumbDataText) text = { NULL };

  *notes = (PlumbConversationNotes){ .rewritten = -1, .control = -1 };
  *fit = FIT_WELL;
  if (!plumb_data_source_get (source, index, &text, error))
    return NULL;
  row->file = plumb_data_source_name (source);
  row->line = plumb_data_source_line (source, index);
  row->margin = text.margin != NULL ? plumb_data_number (text.margin->str) : 0;
  row->answer = text.answer != NULL ? plumb_data_shown (text.answer) : NULL;
  row->row = text.row != NULL ? plumb_data_shown (text.row) : NULL;
  if (text.label != NULL)
    row->labelled = plumb_data_label (text.label->str, &row->liked);
  if (is_chat (set, &text)
          ? plumb_data_chat_build (set, row, &text, plumb_data_source_keys (source), fit, notes, error)
          : build_plain (set, row, &text, fit, error))
    return g_steal_pointer (&row);
  return NULL;
}
