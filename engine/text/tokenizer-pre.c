/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers and pre-tokenizers: what happens to a text before its pieces are merged. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

#define GPT2_PATTERN                                                                               \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* GPT-2's table: printable bytes stand for themselves, the others for characters from 256 on. */
static gboolean
is_printable (guint byte)
{
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

gunichar
plumb_byte_to_char (guint8 byte)
{
  guint hidden = 0;

  if (is_printable (byte))
    return byte;
  for (guint b = 0; b < byte; b++)
    hidden += !is_printable (b);
  return 256 + hidden;
}

int
plumb_char_to_byte (gunichar c)
{
  static gsize once;
  static gint16 bytes[512];

  if (g_once_init_enter (&once))
    {
      memset (bytes, -1, sizeof bytes);
      for (guint b = 0; b < 256; b++)
        bytes[plumb_byte_to_char (b)] = b;
      g_once_init_leave (&once, 1);
    }
  return c < G_N_ELEMENTS (bytes) ? bytes[c] : -1;
}

void
plumb_pre_step_clear (gpointer data)
{
  PlumbPreStep *step = data;

  g_free (step->pattern);
  g_free (step->content);
  g_clear_pointer (&step->regex, g_regex_unref);
}

static GRegex *
compile (const char *pattern, GError **error)
{
  g_autoptr (GError) local = NULL;
  GRegex *regex = g_regex_new (pattern, G_REGEX_OPTIMIZE, 0, &local);

  if (regex == NULL)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "its regular expression cannot be used: %s", local->message);
  return regex;
}

PlumbPreStep
plumb_pre_step_gpt2 (void)
{
  return (PlumbPreStep){ .kind = PRE_BYTE_LEVEL, .regex = compile (GPT2_PATTERN, NULL) };
}

/* What a normalizer or pre-tokenizer object may say; each kind uses some of it. */
typedef struct
{
  char *type, *pattern, *content, *prepend, *replacement, *behavior, *scheme;
  gboolean is_regex, prefix_space, use_regex, invert, individual, split;
} Options;

static void
options_clear (Options *options)
{
  g_free (options->type);
  g_free (options->pattern);
  g_free (options->content);
  g_free (options->prepend);
  g_free (options->replacement);
  g_free (options->behavior);
  g_free (options->scheme);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static void
read_text (PlumbJsonScan *scan, char **text)
{
  g_autoptr (GString) string = g_string_new (NULL);

  if (plumb_json_get_string (scan, string))
    {
      g_free (*text);
      *text = g_strdup (string->str);
    }
}

/* {"String": ...} or {"Regex": ...} */
static void
read_pattern (PlumbJsonScan *scan, Options *options)
{
  g_autoptr (GString) key = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return;
  while (plumb_json_next_member (scan, key))
    {
      options->is_regex = g_str_equal (key->str, "Regex");
      read_text (scan, &options->pattern);
    }
}

typedef gboolean (*ReadStage) (GArray *steps, PlumbJsonScan *scan, GError **error);

/* Reads one object; the members of a Sequence go back to `read_stage`. */
static gboolean
read_options (
    Options *options, GArray *steps, PlumbJsonScan *scan, ReadStage read_stage, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);

  *options = (Options){ .prefix_space = TRUE, .use_regex = TRUE, .split = TRUE };
  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "type"))
      read_text (scan, &options->type);
    else if (g_str_equal (key->str, "normalizers") || g_str_equal (key->str, "pretokenizers"))
      {
        if (!plumb_json_enter_array (scan))
          break;
        while (plumb_json_next_element (scan))
          if (!read_stage (steps, scan, error))
            return FALSE;
      }
    else if (g_str_equal (key->str, "pattern"))
      read_pattern (scan, options);
    else if (g_str_equal (key->str, "content"))
      read_text (scan, &options->content);
    else if (g_str_equal (key->str, "prepend"))
      read_text (scan, &options->prepend);
    else if (g_str_equal (key->str, "replacement"))
      read_text (scan, &options->replacement);
    else if (g_str_equal (key->str, "behavior"))
      read_text (scan, &options->behavior);
    else if (g_str_equal (key->str, "prepend_scheme"))
      read_text (scan, &options->scheme);
    else if (g_str_equal (key->str, "add_prefix_space"))
      plumb_json_get_boolean (scan, &options->prefix_space);
    else if (g_str_equal (key->str, "use_regex"))
      plumb_json_get_boolean (scan, &options->use_regex);
    else if (g_str_equal (key->str, "invert"))
      plumb_json_get_boolean (scan, &options->invert);
    else if (g_str_equal (key->str, "individual_digits"))
      plumb_json_get_boolean (scan, &options->individual);
    else if (g_str_equal (key->str, "split"))
      plumb_json_get_boolean (scan, &options->split);
    else
      plumb_json_skip (scan);
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

gboolean
plumb_normalizer_read (GArray *steps, PlumbJsonScan *scan, GError **error)
{
  g_auto (Options) options = { 0 };
  PlumbPreStep step = { 0 };

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (!read_options (&options, steps, scan, plumb_normalizer_read, error))
    return FALSE;
  if (g_strcmp0 (options.type, "Sequence") == 0)
    return TRUE;
  if (g_strcmp0 (options.type, "NFC") == 0)
    step.kind = PRE_NFC;
  else if (g_strcmp0 (options.type, "Prepend") == 0 && options.prepend != NULL)
    {
      step.kind = PRE_PREPEND;
      step.content = g_steal_pointer (&options.prepend);
    }
  else if (g_strcmp0 (options.type, "Replace") == 0 && options.pattern != NULL
           && *options.pattern != '\0' && !options.is_regex && options.content != NULL)
    {
      step.kind = PRE_REPLACE;
      step.pattern = g_steal_pointer (&options.pattern);
      step.content = g_steal_pointer (&options.content);
    }
  else
    return plumb_tokenizer_unsupported (error, "normalizer", options.type);
  g_array_append_val (steps, step);
  return TRUE;
}

static gboolean
add_split (GArray *steps, Options *options, GError **error)
{
  PlumbPreStep step = { .kind = PRE_SPLIT, .invert = options->invert };
  g_autofree char *escaped = NULL;

  if (options->pattern == NULL || options->behavior == NULL)
    return plumb_tokenizer_unsupported (error, "pre-tokenizer", "Split without a pattern");
  step.removed = g_str_equal (options->behavior, "Removed");
  if (!step.removed && !g_str_equal (options->behavior, "Isolated"))
    return plumb_tokenizer_unsupported (error, "behaviour of a Split", options->behavior);
  escaped = options->is_regex ? g_strdup (options->pattern)
                              : g_regex_escape_string (options->pattern, -1);
  step.regex = compile (escaped, error);
  if (step.regex == NULL)
    return FALSE;
  g_array_append_val (steps, step);
  return TRUE;
}

static gboolean
add_byte_level (GArray *steps, const Options *options, GError **error)
{
  PlumbPreStep step = { .kind = PRE_BYTE_LEVEL, .prefix_space = options->prefix_space };

  if (options->use_regex)
    {
      step.regex = compile (GPT2_PATTERN, error);
      if (step.regex == NULL)
        return FALSE;
    }
  g_array_append_val (steps, step);
  return TRUE;
}

/* Metaspace as its older spelling: prepend a mark, and write it for every space. */
static gboolean
add_metaspace (GArray *steps, const Options *options, GError **error)
{
  const char *mark = options->replacement != NULL ? options->replacement : "\xe2\x96\x81";
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
  if (options->split)
    {
      g_autofree char *escaped = g_regex_escape_string (mark, -1);
      g_autofree char *pattern = g_strdup_printf ("%s[^%s]*", escaped, escaped);
      PlumbPreStep split = { .kind = PRE_SPLIT, .regex = compile (pattern, error) };

      if (split.regex == NULL)
        return FALSE;
      g_array_append_val (steps, split);
    }
  return TRUE;
}

gboolean
plumb_pre_tokenizer_read (GArray *steps, PlumbJsonScan *scan, GError **error)
{
  g_auto (Options) options = { 0 };

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (!read_options (&options, steps, scan, plumb_pre_tokenizer_read, error))
    return FALSE;
  if (g_strcmp0 (options.type, "Sequence") == 0)
    return TRUE;
  if (g_strcmp0 (options.type, "Split") == 0)
    return add_split (steps, &options, error);
  if (g_strcmp0 (options.type, "ByteLevel") == 0)
    return add_byte_level (steps, &options, error);
  if (g_strcmp0 (options.type, "Metaspace") == 0)
    return add_metaspace (steps, &options, error);
  if (g_strcmp0 (options.type, "Digits") == 0)
    {
      PlumbPreStep step = { .kind = PRE_DIGITS, .individual = options.individual };

      g_array_append_val (steps, step);
      return TRUE;
    }
  return plumb_tokenizer_unsupported (error, "pre-tokenizer", options.type);
}

/* g_utf8_normalize() ends at a NUL, so that each stretch between NULs is normalized alone. */
static GString *
to_nfc (const GString *text)
{
  GString *result = g_string_sized_new (text->len);
  const char *next = text->str, *end = text->str + text->len;

  while (next <= end)
    {
      const char *stop = memchr (next, '\0', end - next);
      g_autofree char *normal = NULL;

      if (stop == NULL)
        stop = end;
      normal = g_utf8_normalize (next, stop - next, G_NORMALIZE_NFC);
      if (normal != NULL)
        g_string_append (result, normal);
      if (stop < end)
        g_string_append_c (result, '\0');
      next = stop + 1;
    }
  return result;
}

static GString *
replace_all (const GString *text, const char *pattern, const char *content)
{
  GString *result = g_string_sized_new (text->len);
  gsize length = strlen (pattern);
  const char *next = text->str, *end = text->str + text->len;

  while (next < end)
    {
      const char *hit = memmem (next, end - next, pattern, length);

      g_string_append_len (result, next, (hit != NULL ? hit : end) - next);
      if (hit == NULL)
        break;
      g_string_append (result, content);
      next = hit + length;
    }
  return result;
}

static GString *
apply_normal (const PlumbPreStep *step, GString *text, gboolean at_start)
{
  GString *result;

  switch (step->kind)
    {
    case PRE_NFC:
      result = to_nfc (text);
      break;
    case PRE_REPLACE:
      result = replace_all (text, step->pattern, step->content);
      break;
    case PRE_PREPEND:
      if (text->len > 0 && (at_start || !step->first_only)
          && !(step->unless_there && g_str_has_prefix (text->str, step->content)))
        g_string_prepend (text, step->content);
      return text;
    case PRE_SPLIT:
    case PRE_DIGITS:
    case PRE_BYTE_LEVEL:
    default:
      return text;
    }
  g_string_free (text, TRUE);
  return result;
}

GString *
plumb_normalize (GArray *steps, const char *text, gsize length, gboolean at_start)
{
  GString *result = g_string_new_len (text, length);

  for (guint i = 0; i < steps->len; i++)
    result = apply_normal (&g_array_index (steps, PlumbPreStep, i), result, at_start);
  return result;
}

static void
string_free (gpointer string)
{
  g_string_free (string, TRUE);
}

static void
add_piece (GPtrArray *pieces, const char *text, gsize length)
{
  if (length > 0)
    g_ptr_array_add (pieces, g_string_new_len (text, length));
}

static gboolean
split_piece (const PlumbPreStep *step, const GString *text, GPtrArray *pieces, GError **error)
{
  g_autoptr (GMatchInfo) match = NULL;
  g_autoptr (GError) local = NULL;
  gsize done = 0;

  g_regex_match_full (step->regex, text->str, text->len, 0, 0, &match, &local);
  while (local == NULL && g_match_info_matches (match))
    {
      int start, end;

      g_match_info_fetch_pos (match, 0, &start, &end);
      if (!(step->removed && step->invert))
        add_piece (pieces, text->str + done, start - done);
      if (!step->removed || step->invert)
        add_piece (pieces, text->str + start, end - start);
      done = end;
      g_match_info_next (match, &local);
    }
  if (local != NULL)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "the text cannot be split into words: %s", local->message);
      return FALSE;
    }
  if (!(step->removed && step->invert))
    add_piece (pieces, text->str + done, text->len - done);
  return TRUE;
}

static void
split_digits (const PlumbPreStep *step, const GString *text, GPtrArray *pieces)
{
  const char *end = text->str + text->len, *start = text->str, *next = start;

  while (next < end)
    {
      gboolean digit = g_unichar_type (g_utf8_get_char (next)) == G_UNICODE_DECIMAL_NUMBER
                       || g_unichar_type (g_utf8_get_char (next)) == G_UNICODE_LETTER_NUMBER
                       || g_unichar_type (g_utf8_get_char (next)) == G_UNICODE_OTHER_NUMBER;
      const char *after = g_utf8_next_char (next);

      if (digit && step->individual)
        {
          add_piece (pieces, start, next - start);
          add_piece (pieces, next, after - next);
          start = after;
        }
      else if (next > start)
        {
          GUnicodeType before = g_unichar_type (g_utf8_get_char (g_utf8_prev_char (next)));
          gboolean was = before == G_UNICODE_DECIMAL_NUMBER || before == G_UNICODE_LETTER_NUMBER
                         || before == G_UNICODE_OTHER_NUMBER;

          if (was != digit)
            {
              add_piece (pieces, start, next - start);
              start = next;
            }
        }
      next = after;
    }
  add_piece (pieces, start, end - start);
}

static GString *
to_visible (const GString *text)
{
  GString *result = g_string_sized_new (text->len * 2);

  for (gsize i = 0; i < text->len; i++)
    g_string_append_unichar (result, plumb_byte_to_char (text->str[i]));
  return result;
}

static gboolean
byte_level (const PlumbPreStep *step, GString *text, GPtrArray *pieces, GError **error)
{
  guint first = pieces->len;

  if (step->prefix_space && text->len > 0 && text->str[0] != ' ')
    g_string_prepend_c (text, ' ');
  if (step->regex == NULL)
    add_piece (pieces, text->str, text->len);
  else if (!split_piece (step, text, pieces, error))
    return FALSE;
  for (guint i = first; i < pieces->len; i++)
    {
      GString *visible = to_visible (g_ptr_array_index (pieces, i));

      string_free (g_ptr_array_index (pieces, i));
      g_ptr_array_index (pieces, i) = visible;
    }
  return TRUE;
}

static gboolean
apply_pre (
    const PlumbPreStep *step, GString *text, gboolean at_start, GPtrArray *pieces, GError **error)
{
  GString *normal;

  switch (step->kind)
    {
    case PRE_SPLIT:
      return split_piece (step, text, pieces, error);
    case PRE_DIGITS:
      split_digits (step, text, pieces);
      return TRUE;
    case PRE_BYTE_LEVEL:
      return byte_level (step, text, pieces, error);
    case PRE_NFC:
    case PRE_PREPEND:
    case PRE_REPLACE:
    default:
      normal = apply_normal (step, g_string_new_len (text->str, text->len), at_start);
      g_ptr_array_add (pieces, normal);
      return TRUE;
    }
}

GPtrArray *
plumb_pre_tokenize (GArray *steps, const char *text, gsize length, GError **error)
{
  g_autoptr (GPtrArray) pieces = g_ptr_array_new_with_free_func (string_free);

  add_piece (pieces, text, length);
  for (guint i = 0; i < steps->len; i++)
    {
      const PlumbPreStep *step = &g_array_index (steps, PlumbPreStep, i);
      g_autoptr (GPtrArray) finer = g_ptr_array_new_with_free_func (string_free);

      for (guint j = 0; j < pieces->len; j++)
        if (!apply_pre (step, g_ptr_array_index (pieces, j), j == 0, finer, error))
          return NULL;
      g_ptr_array_unref (pieces);
      pieces = g_steal_pointer (&finer);
    }
  return g_steal_pointer (&pieces);
}
