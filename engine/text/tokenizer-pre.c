/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers: cut a text into the pieces that the model takes one by one. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

#define MARK "\xe2\x96\x81"

PlumbPreStep
plumb_pre_step_gpt2 (void)
{
  return (PlumbPreStep){ .kind = PRE_BYTE_LEVEL, .scanner = plumb_scanner_find (PLUMB_GPT2_PATTERN) };
}

/* --- reading */

static gboolean
read_behavior (const char *name, PlumbSplitBehavior *behavior)
{
  static const char *const names[]
      = { "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous" };

  for (gsize i = 0; name != NULL && i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i], name))
      {
        *behavior = (PlumbSplitBehavior)i;
        return TRUE;
      }
  return FALSE;
}

gboolean
plumb_pre_add_split (GArray *steps, const char *pattern, GError **error)
{
  PlumbPreStep step = { .kind = PRE_SPLIT, .scanner = plumb_scanner_find (pattern) };

  if (step.scanner == NULL)
    {
      step.regex = plumb_pre_regex (pattern, error);
      if (step.regex == NULL)
        return FALSE;
    }
  g_array_append_val (steps, step);
  return TRUE;
}

static gboolean
add_split (GArray *steps, const PlumbPreOptions *options, const char *pattern, GError **error)
{
  PlumbPreStep step = { .kind = PRE_SPLIT, .invert = options->invert };

  if (!read_behavior (options->behavior, &step.behavior))
    return plumb_tokenizer_unsupported (error, "behaviour of a Split", options->behavior);
  if (options->is_regex && !step.invert && step.behavior == SPLIT_ISOLATED)
    return plumb_pre_add_split (steps, pattern, error);
  step.regex = plumb_pre_regex (pattern, error);
  if (step.regex == NULL)
    return FALSE;
  g_array_append_val (steps, step);
  return TRUE;
}

static gboolean
read_split (GArray *steps, const PlumbPreOptions *options, GError **error)
{
  g_autofree char *escaped = NULL;

  if (options->pattern == NULL)
    return plumb_tokenizer_unsupported (error, "pre-tokenizer", "Split without a pattern");
  escaped = options->is_regex ? g_strdup (options->pattern)
                              : g_regex_escape_string (options->pattern, -1);
  return add_split (steps, options, escaped, error);
}

static gboolean
read_delimiter (GArray *steps, PlumbPreOptions *options, GError **error)
{
  g_autofree char *escaped = NULL;

  if (options->delimiter == NULL || *options->delimiter == '\0')
    return plumb_tokenizer_unsupported (error, "pre-tokenizer", "CharDelimiterSplit");
  g_free (options->behavior);
  options->behavior = g_strdup ("Removed");
  escaped = g_regex_escape_string (options->delimiter, -1);
  return add_split (steps, options, escaped, error);
}

static gboolean
read_byte_level (GArray *steps, const PlumbPreOptions *options, GError **error)
{
  PlumbPreStep step = { .kind = PRE_BYTE_LEVEL, .prefix_space = options->prefix_space };

  if (options->use_regex)
    step.scanner = plumb_scanner_find (PLUMB_GPT2_PATTERN);
  g_array_append_val (steps, step);
  return TRUE;
}

/* Metaspace: write a mark for every space, put one in front, and start a piece at each. */
static gboolean
read_metaspace (GArray *steps, const PlumbPreOptions *options, GError **error)
{
  const char *mark = options->replacement != NULL ? options->replacement : MARK;
  const char *scheme = options->scheme != NULL ? options->scheme
                       : options->prefix_space ? "always"
                                               : "never";
  PlumbPreStep replace
      = { .kind = PRE_REPLACE, .pattern = g_strdup (" "), .content = g_strdup (mark) };

  g_array_append_val (steps, replace);
  if (!g_str_equal (scheme, "never"))
    {
      PlumbPreStep prepend = { .kind = PRE_PREPEND,
                               .content = g_strdup (mark),
                               .first_only = g_str_equal (scheme, "first"),
                               .unless_there = TRUE };

      g_array_append_val (steps, prepend);
    }
  if (options->split && *mark != '\0')
    {
      PlumbPreStep split = { .kind = PRE_MARKS, .content = g_strdup (mark) };

      g_array_append_val (steps, split);
    }
  return TRUE;
}

static gboolean
read_punctuation (GArray *steps, const PlumbPreOptions *options, GError **error)
{
  PlumbPreStep step = { .kind = PRE_PUNCTUATION };

  if (options->behavior != NULL && !read_behavior (options->behavior, &step.behavior))
    return plumb_tokenizer_unsupported (error, "behaviour of Punctuation", options->behavior);
  g_array_append_val (steps, step);
  return TRUE;
}

gboolean
plumb_pre_tokenizer_read (GArray *steps, PlumbJsonScan *scan, GError **error)
{
  g_auto (PlumbPreOptions) options = { 0 };
  PlumbPreStep step = { 0 };
  const char *type;

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (!plumb_pre_options_read (&options, steps, scan, plumb_pre_tokenizer_read, error))
    return FALSE;
  type = options.type != NULL ? options.type : "";
  if (g_str_equal (type, "Sequence"))
    return TRUE;
  if (g_str_equal (type, "Split"))
    return read_split (steps, &options, error);
  if (g_str_equal (type, "ByteLevel"))
    return read_byte_level (steps, &options, error);
  if (g_str_equal (type, "Metaspace"))
    return read_metaspace (steps, &options, error);
  if (g_str_equal (type, "CharDelimiterSplit"))
    return read_delimiter (steps, &options, error);
  if (g_str_equal (type, "Punctuation"))
    return read_punctuation (steps, &options, error);
  if (g_str_equal (type, "Digits"))
    step = (PlumbPreStep){ .kind = PRE_DIGITS, .individual = options.individual };
  else if (g_str_equal (type, "Whitespace") || g_str_equal (type, "WhitespaceSplit"))
    step = (PlumbPreStep){ .kind = PRE_CLASSES, .words = g_str_equal (type, "Whitespace") };
  else
    return plumb_tokenizer_unsupported (error, "pre-tokenizer", options.type);
  g_array_append_val (steps, step);
  return TRUE;
}

/* --- applying: each step cuts the spans that the one before left */

void
plumb_pieces_clear (PlumbPieces *pieces)
{
  if (pieces->buffer != NULL)
    g_string_free (pieces->buffer, TRUE);
  g_clear_pointer (&pieces->spans, g_array_unref);
  pieces->buffer = NULL;
}

static inline void
add_span (GArray *spans, gsize start, gsize end)
{
  PlumbSpan span = { start, end - start };

  if (end > start)
    g_array_append_val (spans, span);
}

static void
scan_words (PlumbScanner scanner, const char *text, PlumbSpan span, GArray *finer)
{
  gsize at = span.start, end = span.start + span.length;

  while (at < end)
    {
      gsize size = scanner (text + at, end - at);

      add_span (finer, at, at + size);
      at += size;
    }
}

/* A stretch of a split: a match or what stands between two. */
typedef struct
{
  gsize start, end;
  gboolean match;
} Stretch;

static gboolean
find_matches (GRegex *regex, const char *text, gsize length, GArray *stretches, GError **error)
{
  g_autoptr (GMatchInfo) match = NULL;
  g_autoptr (GError) local = NULL;
  gsize done = 0;
  int start, end;

  g_regex_match_full (regex, text, length, 0, 0, &match, &local);
  while (local == NULL && g_match_info_matches (match)
         && g_match_info_fetch_pos (match, 0, &start, &end))
    {
      Stretch between = { done, start }, hit = { start, end, TRUE };

      if (start > done)
        g_array_append_val (stretches, between);
      if (end > start)
        g_array_append_val (stretches, hit);
      done = end;
      g_match_info_next (match, &local);
    }
  if (local != NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "the text cannot be split into words: %s", local->message);
      return FALSE;
    }
  if (done < length)
    {
      Stretch rest = { done, length };

      g_array_append_val (stretches, rest);
    }
  return TRUE;
}

static void
join_stretches (PlumbSplitBehavior behavior, const GArray *stretches, gsize offset, GArray *finer)
{
  const Stretch *all = (gconstpointer)stretches->data;
  guint n = stretches->len;

  for (guint i = 0; i < n; i++)
    {
      gsize start = offset + all[i].start, end = offset + all[i].end;

      if (all[i].match && behavior == SPLIT_REMOVED)
        continue;
      if (behavior == SPLIT_WITH_PREVIOUS && !all[i].match && i + 1 < n && all[i + 1].match)
        end = offset + all[++i].end;
      else if (behavior == SPLIT_WITH_NEXT && all[i].match && i + 1 < n && !all[i + 1].match)
        end = offset + all[++i].end;
      else if (behavior == SPLIT_CONTIGUOUS)
        while (i + 1 < n && all[i + 1].match == all[i].match)
          end = offset + all[++i].end;
      add_span (finer, start, end);
    }
}

static gboolean
split_span (
    const PlumbPreStep *step, const char *text, PlumbSpan span, GArray *finer, GError **error)
{
  g_autoptr (GArray) stretches = NULL;

  if (step->scanner != NULL)
    {
      scan_words (step->scanner, text, span, finer);
      return TRUE;
    }
  if (span.length > G_MAXINT)
    return plumb_tokenizer_invalid (error, "the text is too long to be split", "2 GiB at most");
  stretches = g_array_new (FALSE, FALSE, sizeof (Stretch));
  if (!find_matches (step->regex, text + span.start, span.length, stretches, error))
    return FALSE;
  for (guint i = 0; step->invert && i < stretches->len; i++)
    g_array_index (stretches, Stretch, i).match ^= TRUE;
  join_stretches (step->behavior, stretches, span.start, finer);
  return TRUE;
}

static gboolean
is_punctuation (gunichar c)
{
  GUnicodeType type = g_unichar_type (c);

  return c < 0x80 ? g_ascii_ispunct (c)
                  : type >= G_UNICODE_CONNECT_PUNCTUATION && type <= G_UNICODE_OPEN_PUNCTUATION;
}

/* Kinds of characters that a step tells apart; 0 is dropped. */
static int
kind_of (const PlumbPreStep *step, gunichar c)
{
  PlumbCharClass class = plumb_char_class (c);

  if (step->kind == PRE_DIGITS)
    return class == PLUMB_CLASS_NUMBER ? 1 : 2;
  if (class == PLUMB_CLASS_SPACE)
    return 0;
  if (!step->words)
    return 1;
  return plumb_char_is_word (c) ? 1 : 2;
}

static void
split_kinds (const PlumbPreStep *step, const char *text, PlumbSpan span, GArray *finer)
{
  gsize end = span.start + span.length, start = span.start, size;
  int before = -1;

  for (gsize at = span.start; at < end; at += size)
    {
      int kind = kind_of (step, plumb_char_at (text + at, &size));

      if (before >= 0 && (kind != before || (kind == 1 && step->individual)))
        {
          if (before > 0)
            add_span (finer, start, at);
          start = at;
        }
      before = kind;
    }
  if (before > 0)
    add_span (finer, start, end);
}

static void
split_punctuation (const PlumbPreStep *step, const char *text, PlumbSpan span, GArray *finer)
{
  g_autoptr (GArray) stretches = g_array_new (FALSE, FALSE, sizeof (Stretch));
  gsize size;

  for (gsize at = 0; at < span.length; at += size)
    {
      gboolean hit = is_punctuation (plumb_char_at (text + span.start + at, &size));
      Stretch *last
          = stretches->len > 0 ? &g_array_index (stretches, Stretch, stretches->len - 1) : NULL;
      Stretch next = { at, at + size, hit };

      if (last != NULL && !hit && !last->match)
        last->end = at + size;
      else
        g_array_append_val (stretches, next);
    }
  join_stretches (step->behavior, stretches, span.start, finer);
}

static void
split_marks (const char *mark, const char *text, PlumbSpan span, GArray *finer)
{
  gsize size = strlen (mark), end = span.start + span.length, start = span.start;

  while (start < end)
    {
      const char *next
          = end - start > 1 ? memmem (text + start + 1, end - start - 1, mark, size) : NULL;
      gsize stop = next != NULL ? (gsize)(next - text) : end;

      add_span (finer, start, stop);
      start = stop;
    }
}

static gboolean
changes_text (const PlumbPreStep *step)
{
  return step->kind < PRE_SPLIT || (step->kind == PRE_BYTE_LEVEL && step->prefix_space);
}

/* Puts every span through a step that changes text; the new ones lie end to end in a buffer of their own. */
static void
rewrite (const PlumbPreStep *step, PlumbPieces *pieces, gboolean at_start)
{
  GString *buffer = g_string_sized_new (pieces->length + 16);

  for (guint i = 0; i < pieces->spans->len; i++)
    {
      PlumbSpan *span = &g_array_index (pieces->spans, PlumbSpan, i);
      const char *text = pieces->text + span->start;
      gsize start = buffer->len;

      if (step->kind == PRE_BYTE_LEVEL)
        {
          if (span->length > 0 && *text != ' ')
            g_string_append_c (buffer, ' ');
          g_string_append_len (buffer, text, span->length);
        }
      else
        {
          GString *piece = plumb_normalize_step (step, g_string_new_len (text, span->length),
                                                 at_start && span->start == 0);

          g_string_append_len (buffer, piece->str, piece->len);
          g_string_free (piece, TRUE);
        }
      *span = (PlumbSpan){ start, buffer->len - start };
    }
  if (pieces->buffer != NULL)
    g_string_free (pieces->buffer, TRUE);
  pieces->buffer = buffer;
  pieces->text = buffer->str;
  pieces->length = buffer->len;
}

static gboolean
cut (const PlumbPreStep *step, PlumbPieces *pieces, GError **error)
{
  g_autoptr (GArray) finer
      = g_array_sized_new (FALSE, FALSE, sizeof (PlumbSpan), pieces->length / 4 + 1);

  for (guint i = 0; i < pieces->spans->len; i++)
    {
      PlumbSpan span = g_array_index (pieces->spans, PlumbSpan, i);

      if (step->kind == PRE_SPLIT)
        {
          if (!split_span (step, pieces->text, span, finer, error))
            return FALSE;
        }
      else if (step->kind == PRE_BYTE_LEVEL)
        scan_words (step->scanner, pieces->text, span, finer);
      else if (step->kind == PRE_MARKS)
        split_marks (step->content, pieces->text, span, finer);
      else if (step->kind == PRE_PUNCTUATION)
        split_punctuation (step, pieces->text, span, finer);
      else
        split_kinds (step, pieces->text, span, finer);
    }
  g_array_unref (pieces->spans);
  pieces->spans = g_steal_pointer (&finer);
  return TRUE;
}

gboolean
plumb_pre_tokenize (GArray *steps,
                    const char *text,
                    gsize length,
                    gboolean at_start,
                    PlumbPieces *pieces,
                    GError **error)
{
  *pieces = (PlumbPieces){ .text = text, .length = length };
  pieces->spans = g_array_new (FALSE, FALSE, sizeof (PlumbSpan));
  add_span (pieces->spans, 0, length);
  for (guint i = 0; i < steps->len; i++)
    {
      const PlumbPreStep *step = &g_array_index (steps, PlumbPreStep, i);

      if (changes_text (step))
        rewrite (step, pieces, at_start);
      if (step->kind > PRE_VISIBLE && (step->kind != PRE_BYTE_LEVEL || step->scanner != NULL)
          && !cut (step, pieces, error))
        return FALSE;
    }
  return TRUE;
}
