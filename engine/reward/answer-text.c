/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/reward/answer-text.h"

static gsize
box_command (const char *text)
{
  if (g_str_has_prefix (text, "\\boxed"))
    return strlen ("\\boxed");
  if (g_str_has_prefix (text, "\\fbox"))
    return strlen ("\\fbox");
  return 0;
}

typedef struct
{
  const char *content; /* NULL: a brace that opens no box */
} Brace;

/* "\boxed 42": the word behind it. */
static gsize
bare_word (const char *text)
{
  gsize length = 0;

  if (!g_ascii_isdigit (*text) && !(*text == '-' && g_ascii_isdigit (text[1])))
    return 0;
  while (text[length] != '\0' && !g_ascii_isspace (text[length]) && text[length] != '$')
    length++;
  return length;
}

PlumbBox
plumb_answer_find_box (const char *text, const char **start, gsize *length)
{
  g_autoptr (GArray) braces = g_array_new (FALSE, FALSE, sizeof (Brace));
  PlumbBox result = PLUMB_BOX_NONE;

  for (const char *c = text; *c != '\0'; c++)
    {
      gsize command = *c == '\\' ? box_command (c) : 0;
      Brace brace = { NULL };

      if (command > 0)
        {
          const char *after = c + command;

          while (g_ascii_isspace (*after))
            after++;
          if (*after != '{' && bare_word (after) > 0)
            {
              *start = after;
              *length = bare_word (after);
              result = PLUMB_BOX_FOUND;
            }
          if (*after == '{')
            {
              brace.content = after + 1;
              g_array_append_val (braces, brace);
              if (result == PLUMB_BOX_NONE)
                result = PLUMB_BOX_CUT_OFF;
              c = after;
            }
          else
            c += command - 1;
        }
      else if (*c == '\\' && c[1] != '\0')
        c++; /* an escaped brace is a character like others */
      else if (*c == '{')
        g_array_append_val (braces, brace);
      else if (*c == '}' && braces->len > 0)
        {
          brace = g_array_index (braces, Brace, braces->len - 1);
          g_array_set_size (braces, braces->len - 1);
          if (brace.content != NULL)
            {
              *start = brace.content;
              *length = c - brace.content;
              result = PLUMB_BOX_FOUND;
            }
        }
    }
  return result;
}

gboolean
plumb_answer_find_hashes (const char *text, gboolean last, const char **start, gsize *length)
{
  const char *hashes = last ? g_strrstr (text, "####") : strstr (text, "####");

  if (hashes == NULL)
    return FALSE;
  *start = hashes + strlen ("####");
  *length = strcspn (*start, "\n");
  return TRUE;
}

/* Commands whose braces hold plain words. */
static gsize
text_command (const char *text)
{
  static const char *const commands[]
      = { "\\text{",   "\\textbf{", "\\textit{", "\\textrm{",       "\\mathrm{", "\\mathbf{",
          "\\mathit{", "\\mbox{",   "\\rm{",     "\\operatorname{", "\\boxed{",  "\\fbox{" };

  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    if (g_str_has_prefix (text, commands[i]))
      return strlen (commands[i]);
  return 0;
}

/* What is dropped where it stands, and what is written instead. */
static const struct
{
  const char *from, *to;
} replacements[] = {
  { "\\left", "" },
  { "\\right", "" },
  { "\\,", " " },
  { "\\;", " " },
  { "\\:", " " },
  { "\\!", "" },
  { "\\ ", " " },
  { "\\quad", " " },
  { "\\$", "$" },
  { "\\%", "%" },
  { "\\dfrac", "\\frac" },
  { "\\tfrac", "\\frac" },
  { "^\\circ", "" },
  { "^{\\circ}", "" },
  { "\\degree", "" },
  { "\xc2\xb0", "" },
  { "\xe2\x88\x92", "-" },
  { "\xc2\xa0", " " },
  { "\xe2\x80\xaf", " " },
  { "~", " " },
  { "\\(", "" },
  { "\\)", "" },
  { "\\[", "" },
  { "\\]", "" },
  { "**", "" },
};

static gsize
replacement_at (const char *text, const char **to)
{
  if (strchr ("\\^~*\xc2\xe2", *text) == NULL) /* what they begin with */
    return 0;
  for (gsize i = 0; i < G_N_ELEMENTS (replacements); i++)
    if (g_str_has_prefix (text, replacements[i].from))
      {
        gsize length = strlen (replacements[i].from);

        /* \left must not eat the head of \leftarrow. */
        if (g_ascii_isalpha (text[length - 1]) && text[0] == '\\' && replacements[i].to[0] != '\\'
            && g_ascii_isalpha (text[length]))
          continue;
        *to = replacements[i].to;
        return length;
      }
  return 0;
}

/* Unwraps \text{...} and writes replacements, in one pass. */
static GString *
unwrap (const char *text)
{
  GString *result = g_string_new (NULL);
  g_autoptr (GArray) braces = g_array_new (FALSE, FALSE, sizeof (gboolean));

  for (const char *c = text; *c != '\0'; c++)
    {
      gsize command = *c == '\\' ? text_command (c) : 0, length;
      const char *to;
      gboolean wrapped = TRUE;

      if (command > 0)
        {
          g_array_append_val (braces, wrapped);
          g_string_append_c (result, PLUMB_ANSWER_TEXT_MARK);
          c += command - 1;
        }
      else if ((length = replacement_at (c, &to)) > 0)
        {
          g_string_append (result, to);
          c += length - 1;
        }
      else if (*c == '\\' && c[1] != '\0')
        {
          g_string_append_len (result, c, 2);
          c++;
        }
      else if (*c == '{')
        {
          wrapped = FALSE;
          g_array_append_val (braces, wrapped);
          g_string_append_c (result, *c);
        }
      else if (*c == '}' && braces->len > 0)
        {
          wrapped = g_array_index (braces, gboolean, braces->len - 1);
          g_array_set_size (braces, braces->len - 1);
          g_string_append_c (result, wrapped ? PLUMB_ANSWER_TEXT_MARK : '}');
        }
      else
        g_string_append_c (result, *c);
    }
  return result;
}

static gboolean
is_blank (char c)
{
  return g_ascii_isspace (c) || c == PLUMB_ANSWER_TEXT_MARK;
}

/* "x = 12" -> "12", when the left side is one letter with an index at most. */
static void
drop_name (GString *text)
{
  const char *c = text->str;

  while (is_blank (*c))
    c++;
  if (!g_ascii_isalpha (*c))
    return;
  c++;
  if (*c == '_')
    {
      c++;
      if (*c == '{')
        c += strcspn (c, "}") + (strchr (c, '}') != NULL);
      else if (*c != '\0')
        c++;
    }
  while (is_blank (*c))
    c++;
  if (*c == '=' && c[1] != '=' && strchr (c + 1, '=') == NULL)
    g_string_erase (text, 0, c + 1 - text->str);
}

/* Takes off blanks, dollar signs at both ends, and one period. */
static void
trim (GString *text)
{
  for (;;)
    {
      gsize n = text->len;

      while (n > 0 && is_blank (text->str[0]) && is_blank (text->str[n - 1]) && n > 1)
        {
          g_string_erase (text, n - 1, 1);
          g_string_erase (text, 0, 1);
          n -= 2;
        }
      while (n > 0 && g_ascii_isspace (text->str[0]))
        {
          g_string_erase (text, 0, 1);
          n--;
        }
      while (n > 0 && g_ascii_isspace (text->str[n - 1]))
        g_string_truncate (text, --n);
      if (n > 1 && text->str[0] == '$' && text->str[n - 1] == '$')
        {
          g_string_truncate (text, n - 1);
          g_string_erase (text, 0, 1);
          continue;
        }
      if (n > 1 && text->str[n - 1] == '.')
        {
          g_string_truncate (text, n - 1);
          continue;
        }
      return;
    }
}

char *
plumb_answer_clean (const char *text, gsize length)
{
  g_autofree char *copy = g_strndup (text, length);
  GString *result = unwrap (copy);

  trim (result);
  drop_name (result);
  trim (result);
  return g_string_free (result, FALSE);
}

gboolean
plumb_answer_same_text (const char *a, const char *b)
{
  gsize n = 0;

  for (;; a++, b++, n++)
    {
      while (is_blank (*a))
        a++;
      while (is_blank (*b))
        b++;
      if (*a != *b)
        return FALSE;
      if (*a == '\0')
        return n > 0;
    }
}
