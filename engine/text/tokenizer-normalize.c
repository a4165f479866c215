/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers: what happens to a text before it is cut into pieces. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

void
plumb_pre_step_clear (gpointer data)
{
  PlumbPreStep *step = data;

  g_free (step->pattern);
  g_free (step->content);
  g_clear_pointer (&step->regex, g_regex_unref);
  g_clear_pointer (&step->map, plumb_charsmap_free);
  g_clear_pointer (&step->sentence, plumb_sentence_free);
}

GRegex *
plumb_pre_regex (const char *pattern, GError **error)
{
  g_autoptr (GError) local = NULL;
  GRegex *regex = g_regex_new (
      pattern, G_REGEX_OPTIMIZE | G_REGEX_MULTILINE | G_REGEX_NEWLINE_LF, 0, &local);

  if (regex == NULL)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                 "its regular expression cannot be used: %s", local->message);
  return regex;
}

/* --- options */

void
plumb_pre_options_clear (PlumbPreOptions *options)
{
  g_free (options->type);
  g_free (options->pattern);
  g_free (options->content);
  g_free (options->prepend);
  g_free (options->replacement);
  g_free (options->behavior);
  g_free (options->scheme);
  g_free (options->charsmap);
  g_free (options->delimiter);
}

static void
read_text (PlumbJsonScan *scan, char **text)
{
  g_autoptr (GString) string = g_string_new (NULL);

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    plumb_json_skip (scan);
  else if (plumb_json_get_string (scan, string))
    {
      g_free (*text);
      *text = g_strdup (string->str);
    }
}

/* {"String": ...} or {"Regex": ...} */
static void
read_pattern (PlumbJsonScan *scan, PlumbPreOptions *options)
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

static void
read_member (PlumbPreOptions *options, PlumbJsonScan *scan, const char *key)
{
  const struct
  {
    const char *key;
    char **text;
    gboolean *flag;
  } members[] = {
    { "type", &options->type },
    { "content", &options->content },
    { "prepend", &options->prepend },
    { "replacement", &options->replacement },
    { "behavior", &options->behavior },
    { "prepend_scheme", &options->scheme },
    { "precompiled_charsmap", &options->charsmap },
    { "delimiter", &options->delimiter },
    { "add_prefix_space", NULL, &options->prefix_space },
    { "use_regex", NULL, &options->use_regex },
    { "invert", NULL, &options->invert },
    { "individual_digits", NULL, &options->individual },
    { "split", NULL, &options->split },
    { "strip_left", NULL, &options->left },
    { "strip_right", NULL, &options->right },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (members); i++)
    if (g_str_equal (members[i].key, key))
      {
        if (members[i].text != NULL)
          read_text (scan, members[i].text);
        else
          plumb_json_get_boolean (scan, members[i].flag);
        return;
      }
  plumb_json_skip (scan);
}

gboolean
plumb_pre_options_read (PlumbPreOptions *options,
                        GArray *steps,
                        PlumbJsonScan *scan,
                        PlumbReadStage read_stage,
                        GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);

  *options = (PlumbPreOptions){
    .prefix_space = TRUE, .use_regex = TRUE, .split = TRUE, .left = TRUE, .right = TRUE
  };
  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "pattern"))
      read_pattern (scan, options);
    else if (g_str_equal (key->str, "normalizers") || g_str_equal (key->str, "pretokenizers"))
      {
        if (!plumb_json_enter_array (scan))
          break;
        while (plumb_json_next_element (scan))
          if (!read_stage (steps, scan, error))
            return FALSE;
      }
    else
      read_member (options, scan, key->str);
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

/* --- reading */

static const struct
{
  const char *type;
  PlumbPreKind kind;
  GNormalizeMode mode;
} simple[] = {
  { "NFC", PRE_UNICODE, G_NORMALIZE_NFC },    { "NFD", PRE_UNICODE, G_NORMALIZE_NFD },
  { "NFKC", PRE_UNICODE, G_NORMALIZE_NFKC },  { "NFKD", PRE_UNICODE, G_NORMALIZE_NFKD },
  { "Lowercase", PRE_LOWERCASE },             { "StripAccents", PRE_STRIP_ACCENTS },
  { "Strip", PRE_STRIP },                     { "Nmt", PRE_NMT },
  { "ByteLevel", PRE_VISIBLE },
};

static gboolean
fill_replace (PlumbPreStep *step, PlumbPreOptions *options, GError **error)
{
  step->kind = PRE_REPLACE;
  step->content = g_steal_pointer (&options->content);
  if (options->is_regex)
    {
      step->regex = plumb_pre_regex (options->pattern, error);
      return step->regex != NULL;
    }
  step->pattern = g_steal_pointer (&options->pattern);
  return TRUE;
}

static gboolean
fill_charsmap (PlumbPreStep *step, const PlumbPreOptions *options, GError **error)
{
  gsize length;
  g_autofree guchar *bytes = g_base64_decode (options->charsmap, &length);

  step->kind = PRE_CHARSMAP;
  step->map = plumb_charsmap_new (bytes, length, error);
  return step->map != NULL;
}

static gboolean
fill_step (PlumbPreStep *step, PlumbPreOptions *options, GError **error)
{
  const char *type = options->type != NULL ? options->type : "";

  for (gsize i = 0; i < G_N_ELEMENTS (simple); i++)
    if (g_str_equal (type, simple[i].type))
      {
        step->kind = simple[i].kind;
        step->mode = simple[i].mode;
        step->left = options->left;
        step->right = options->right;
        return TRUE;
      }
  if (g_str_equal (type, "Replace") && options->pattern != NULL && *options->pattern != '\0'
      && options->content != NULL)
    return fill_replace (step, options, error);
  if (g_str_equal (type, "Precompiled") && options->charsmap != NULL)
    return fill_charsmap (step, options, error);
  if (g_str_equal (type, "Prepend") && options->prepend != NULL)
    {
      step->kind = PRE_PREPEND;
      step->content = g_steal_pointer (&options->prepend);
      return TRUE;
    }
  return plumb_tokenizer_unsupported (error, "normalizer", options->type);
}

gboolean
plumb_normalizer_read (GArray *steps, PlumbJsonScan *scan, GError **error)
{
  g_auto (PlumbPreOptions) options = { 0 };
  PlumbPreStep step = { 0 };

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (!plumb_pre_options_read (&options, steps, scan, plumb_normalizer_read, error))
    return FALSE;
  if (g_strcmp0 (options.type, "Sequence") == 0
      /* A map without content changes nothing. */
      || (g_strcmp0 (options.type, "Precompiled") == 0
          && (options.charsmap == NULL || *options.charsmap == '\0')))
    return TRUE;
  if (!fill_step (&step, &options, error))
    {
      plumb_pre_step_clear (&step);
      return FALSE;
    }
  g_array_append_val (steps, step);
  return TRUE;
}

/* --- applying */

static gboolean
is_latin (const char *text, gsize length)
{
  /* Up to U+02FF nothing composes; 0xcc begins U+0300. */
  for (gsize i = 0; i < length; i++)
    if ((guchar)text[i] >= 0xcc)
      return FALSE;
  return TRUE;
}

static gboolean
is_ascii (const char *text, gsize length)
{
  for (gsize i = 0; i < length; i++)
    if ((guchar)text[i] >= 0x80)
      return FALSE;
  return TRUE;
}

/* g_utf8_normalize() ends at a NUL, so that each stretch between NULs is normalized alone. */
static GString *
to_normal_form (const GString *text, GNormalizeMode mode)
{
  GString *result = g_string_sized_new (text->len);
  const char *next = text->str, *end = text->str + text->len;

  while (next <= end)
    {
      const char *stop = memchr (next, '\0', end - next);
      g_autofree char *normal = NULL;

      if (stop == NULL)
        stop = end;
      normal = g_utf8_normalize (next, stop - next, mode);
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
replace_matches (const GString *text, GRegex *regex, const char *content)
{
  GString *result = g_string_sized_new (text->len);
  g_autoptr (GMatchInfo) match = NULL;
  int done = 0, start, end;

  /* Where the expression gives up, the rest of the text stays as it is. */
  g_regex_match_full (regex, text->str, text->len, 0, 0, &match, NULL);
  while (g_match_info_matches (match) && g_match_info_fetch_pos (match, 0, &start, &end))
    {
      g_string_append_len (result, text->str + done, start - done);
      g_string_append (result, content);
      done = end;
      g_match_info_next (match, NULL);
    }
  g_string_append_len (result, text->str + done, text->len - done);
  return result;
}

static gboolean
is_nmt_control (gunichar c)
{
  return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f
         || c == 0x9f;
}

static gboolean
is_nmt_blank (gunichar c)
{
  return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680
         || (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581
         || c == 0xfeff || c == 0xfffd;
}

/* Steps that look at one character after the other. */
static GString *
map_characters (const GString *text, PlumbPreKind kind)
{
  GString *result = g_string_sized_new (text->len);
  gsize size;

  for (gsize at = 0; at < text->len; at += size)
    {
      gunichar c = plumb_char_at (text->str + at, &size);

      if (kind == PRE_LOWERCASE)
        {
          if (c == 0x130)
            g_string_append (result, "i\xcc\x87");
          else
            g_string_append_unichar (result, plumb_char_lower (c));
        }
      else if (kind == PRE_STRIP_ACCENTS)
        {
          if (!g_unichar_ismark (c))
            g_string_append_len (result, text->str + at, size);
        }
      else if (is_nmt_blank (c))
        g_string_append_c (result, ' ');
      else if (!is_nmt_control (c))
        g_string_append_len (result, text->str + at, size);
    }
  return result;
}

static GString *
strip (const GString *text, gboolean left, gboolean right)
{
  gsize start = 0, end = 0, size;

  for (gsize at = 0; at < text->len; at += size)
    if (plumb_char_class (plumb_char_at (text->str + at, &size)) != PLUMB_CLASS_SPACE)
      end = at + size;
    else if (left && end == 0)
      start = at + size;
  if (!right)
    end = text->len;
  return g_string_new_len (text->str + start, end > start ? end - start : 0);
}

static GString *
to_visible (const GString *text)
{
  GString *result = g_string_sized_new (text->len * 2);

  for (gsize i = 0; i < text->len; i++)
    g_string_append_unichar (result, plumb_byte_to_char (text->str[i]));
  return result;
}

static GString *
map_by_table (const PlumbPreStep *step, const GString *text)
{
  GString *result = g_string_sized_new (text->len);

  plumb_charsmap_apply (step->map, text->str, text->len, result);
  return result;
}

GString *
plumb_normalize_step (const PlumbPreStep *step, GString *text, gboolean at_start)
{
  GString *result;

  switch (step->kind)
    {
    case PRE_UNICODE:
      if (is_ascii (text->str, text->len)
          || (step->mode == G_NORMALIZE_NFC && is_latin (text->str, text->len)))
        return text;
      result = to_normal_form (text, step->mode);
      break;
    case PRE_LOWERCASE:
    case PRE_STRIP_ACCENTS:
    case PRE_NMT:
      result = map_characters (text, step->kind);
      break;
    case PRE_STRIP:
      result = strip (text, step->left, step->right);
      break;
    case PRE_SENTENCE:
      result = plumb_sentence_normalize (step->sentence, text->str, text->len, at_start);
      break;
    case PRE_CHARSMAP:
      result = map_by_table (step, text);
      break;
    case PRE_VISIBLE:
      result = to_visible (text);
      break;
    case PRE_REPLACE:
      result = step->regex != NULL ? replace_matches (text, step->regex, step->content)
                                   : replace_all (text, step->pattern, step->content);
      break;
    case PRE_PREPEND:
      if (text->len > 0 && (at_start || !step->first_only)
          && !(step->unless_there && g_str_has_prefix (text->str, step->content)))
        g_string_prepend (text, step->content);
      return text;
    case PRE_SPLIT:
    case PRE_DIGITS:
    case PRE_CLASSES:
    case PRE_PUNCTUATION:
    case PRE_MARKS:
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
  GString *result;
  guint first = 0;

  /* Most texts are in their normal form, and need no copy. */
  while (first < steps->len
         && g_array_index (steps, PlumbPreStep, first).kind == PRE_UNICODE
         && (is_ascii (text, length)
             || (g_array_index (steps, PlumbPreStep, first).mode == G_NORMALIZE_NFC
                 && is_latin (text, length))))
    first++;
  if (first == steps->len)
    return NULL;
  result = g_string_new_len (text, length);
  for (guint i = first; i < steps->len; i++)
    result = plumb_normalize_step (&g_array_index (steps, PlumbPreStep, i), result, at_start);
  return result;
}
