/* SPDX-License-Identifier: Apache-2.0 */
/* The source of a template as tokens, with the blanks around its tags removed where they ask for it. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/template-private.h"
#include "engine/text/tokenizer-private.h"

typedef struct
{
  PlumbArena *arena;
  const char *start, *next, *end;
  guint line;
  GArray *tokens;
  gboolean line_starting; /* the tag before took the end of its line along */
  GError *error;
} Lexer;

static gboolean
fail (Lexer *lexer, const char *message)
{
  if (lexer->error == NULL)
    lexer->error = g_error_new (PLUMB_ERROR, PLUMB_ERROR_INVALID, "line %u: %s", lexer->line,
                                message);
  return FALSE;
}

static PlumbToken *
add (Lexer *lexer, PlumbTokenKind kind, const char *text, gsize length)
{
  PlumbToken token = { .kind = kind, .line = lexer->line };

  if (text != NULL)
    {
      token.text = plumb_arena_copy (lexer->arena, text, length);
      token.length = length;
    }
  g_array_append_val (lexer->tokens, token);
  return &g_array_index (lexer->tokens, PlumbToken, lexer->tokens->len - 1);
}

/* Moves to a place, counting lines. */
static void
move (Lexer *lexer, const char *to)
{
  for (; lexer->next < to; lexer->next++)
    lexer->line += *lexer->next == '\n';
}

static gboolean
is_space_at (const char *text)
{
  return plumb_char_class (g_utf8_get_char (text)) == PLUMB_CLASS_SPACE
         || (*text >= 0x1c && *text <= 0x1f);
}

static const char *
skip_blanks (const char *text, const char *end)
{
  while (text < end && is_space_at (text))
    text = g_utf8_next_char (text);
  return text;
}

static const char *
strip_end (const char *start, const char *end)
{
  while (end > start && is_space_at (g_utf8_prev_char (end)))
    end = g_utf8_prev_char (end);
  return end;
}

/* Text before a tag. A minus takes all blanks, a block or a comment those that begin its line. */
static void
add_data (Lexer *lexer, const char *end, char sign, gboolean is_output)
{
  const char *start = lexer->next, *stop = end;

  if (sign == '-')
    stop = strip_end (start, end);
  else if (sign != '+' && !is_output)
    {
      const char *line = end;

      while (line > start && line[-1] != '\n')
        line--;
      if ((line > start || lexer->line_starting) && skip_blanks (line, end) == end)
        stop = line;
    }
  if (stop > start)
    add (lexer, TOKEN_DATA, start, stop - start);
  move (lexer, end);
}

/* Behind the end of a tag: a minus takes all blanks, a block or a comment the end of its line. */
static void
finish_tag (Lexer *lexer, char sign, gboolean is_output)
{
  const char *next = lexer->next;

  if (sign == '-')
    next = skip_blanks (next, lexer->end);
  else if (sign != '+' && !is_output && next < lexer->end && *next == '\n')
    next++;
  lexer->line_starting = next > lexer->start && next[-1] == '\n';
  move (lexer, next);
}

static gboolean
add_string (Lexer *lexer)
{
  g_autoptr (GString) text = g_string_new (NULL);
  char quote = *lexer->next;
  const char *c = lexer->next + 1;

  for (; c < lexer->end && *c != quote; c++)
    {
      static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
      const char *known;
      guint digits = 0;
      gunichar u = 0;

      if (*c != '\\' || c + 1 == lexer->end)
        {
          g_string_append_c (text, *c);
          continue;
        }
      c++;
      if (*c == '\n')
        continue;
      known = strchr (from, *c);
      if (known != NULL && *c != '\0')
        {
          g_string_append_c (text, to[known - from]);
          continue;
        }
      if (*c >= '0' && *c <= '7')
        {
          for (; digits < 3 && c < lexer->end && *c >= '0' && *c <= '7'; digits++)
            u = u * 8 + (*c++ - '0');
          c--;
          if (u == 0)
            return fail (lexer, "a string holds a NUL");
        }
      else if (*c == 'x' || *c == 'u' || *c == 'U')
        {
          guint n = *c == 'x' ? 2 : *c == 'u' ? 4 : 8;

          for (; digits < n && c + 1 < lexer->end && g_ascii_isxdigit (c[1]); digits++)
            u = u * 16 + g_ascii_xdigit_value (*++c);
          if (digits < n || u == 0 || !g_unichar_validate (u))
            return fail (lexer, "an escape in a string is cut short, or of no character");
        }
      else
        {
          g_string_append_c (text, '\\');
          g_string_append_c (text, *c);
          continue;
        }
      g_string_append_unichar (text, u);
    }
  if (c == lexer->end)
    return fail (lexer, "a string has no end");
  add (lexer, TOKEN_STRING, text->str, text->len);
  move (lexer, c + 1);
  return TRUE;
}

static gboolean
add_number (Lexer *lexer)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const char *c = lexer->next;
  gboolean is_float = FALSE;
  guint64 value;
  PlumbToken *token;

  for (; c < lexer->end; c++)
    if (g_ascii_isdigit (*c))
      g_string_append_c (text, *c);
    else if (*c == '.' && !is_float && c + 1 < lexer->end && g_ascii_isdigit (c[1]))
      {
        is_float = TRUE;
        g_string_append_c (text, *c);
      }
    else if ((*c == 'e' || *c == 'E') && c + 1 < lexer->end
             && (g_ascii_isdigit (c[1])
                 || ((c[1] == '-' || c[1] == '+') && c + 2 < lexer->end && g_ascii_isdigit (c[2]))))
      {
        is_float = TRUE;
        g_string_append_c (text, *c++);
        g_string_append_c (text, *c);
      }
    else if (*c != '_')
      break;
  if (!is_float && !g_ascii_string_to_unsigned (text->str, 10, 0, G_MAXINT64, &value, NULL))
    return fail (lexer, "a number is too large");
  token = add (lexer, is_float ? TOKEN_FLOAT : TOKEN_INT, text->str, text->len);
  token->number = g_ascii_strtod (text->str, NULL);
  token->integer = is_float ? 0 : (gint64)value;
  move (lexer, c);
  return TRUE;
}

static gboolean
add_operator (Lexer *lexer)
{
  static const char *const operators[]
      = { "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "[", "]",
          "(",  ")",  "{",  "}",  "<",  ">",  "=", ".", ":", "|", ",", ";" };
  gsize room = lexer->end - lexer->next;

  for (gsize i = 0; i < G_N_ELEMENTS (operators); i++)
    {
      gsize length = strlen (operators[i]);

      if (length <= room && memcmp (lexer->next, operators[i], length) == 0)
        {
          add (lexer, TOKEN_OPERATOR, operators[i], length);
          lexer->next += length;
          return TRUE;
        }
    }
  return fail (lexer, "a character has no meaning in a tag");
}

static gboolean
is_name_char (const char *c, gboolean first)
{
  gunichar u = g_utf8_get_char (c);

  return u == '_' || g_unichar_isalpha (u) || (!first && (g_unichar_isdigit (u) || g_unichar_ismark (u)));
}

/* Tokens up to the end of the tag; brackets must be balanced before the end counts. */
static gboolean
lex_tag (Lexer *lexer, const char *close, PlumbTokenKind end_kind)
{
  gsize open = 0;

  for (;;)
    {
      const char *c = skip_blanks (lexer->next, lexer->end);
      char sign = 0;

      move (lexer, c);
      if (c == lexer->end)
        return fail (lexer, "a tag has no end");
      if (open == 0 && lexer->end - c >= 3 && (*c == '-' || *c == '+') && memcmp (c + 1, close, 2) == 0)
        sign = *c++;
      if (open == 0 && lexer->end - c >= 2 && memcmp (c, close, 2) == 0)
        {
          add (lexer, end_kind, NULL, 0);
          lexer->next = c + 2;
          finish_tag (lexer, sign, end_kind == TOKEN_OUTPUT_END);
          return TRUE;
        }
      if (is_name_char (c, TRUE))
        {
          while (c < lexer->end && is_name_char (c, FALSE))
            c = g_utf8_next_char (c);
          add (lexer, TOKEN_NAME, lexer->next, c - lexer->next);
          lexer->next = c;
        }
      else if (*c == '\'' || *c == '"' ? !add_string (lexer)
               : g_ascii_isdigit (*c)  ? !add_number (lexer)
                                       : !add_operator (lexer))
        return FALSE;
      else if (strchr ("([{", *c) != NULL)
        open++;
      else if (strchr (")]}", *c) != NULL)
        open -= open > 0;
    }
}

static gboolean
skip_comment (Lexer *lexer)
{
  const char *stop = memmem (lexer->next, lexer->end - lexer->next, "#}", 2);
  char sign;

  if (stop == NULL)
    return fail (lexer, "a comment has no end");
  sign = stop > lexer->next ? stop[-1] : 0;
  move (lexer, stop + 2);
  finish_tag (lexer, sign, FALSE);
  return TRUE;
}

/* "{%", an optional sign, blanks and a word: the place behind it, or NULL. */
static const char *
match_block (const char *c, const char *end, const char *word, char *sign)
{
  gsize length = strlen (word);

  if (end - c < 2 || memcmp (c, "{%", 2) != 0)
    return NULL;
  c += 2;
  *sign = c < end && (*c == '-' || *c == '+') ? *c++ : 0;
  c = skip_blanks (c, end);
  if ((gsize)(end - c) < length || memcmp (c, word, length) != 0)
    return NULL;
  return skip_blanks (c + length, end);
}

/* The "%}" of a block; its sign is told. */
static const char *
match_close (const char *c, const char *end, char *sign)
{
  *sign = c < end && (*c == '-' || *c == '+') ? *c++ : 0;
  return end - c >= 2 && memcmp (c, "%}", 2) == 0 ? c + 2 : NULL;
}

/* {% raw %} ... {% endraw %}: text in which nothing is a tag. FALSE when there is no raw block here. */
static gboolean
lex_raw (Lexer *lexer)
{
  char sign, close_sign, end_sign;
  const char *c = match_block (lexer->next, lexer->end, "raw", &sign);
  const char *stop;

  if (c == NULL || (c = match_close (c, lexer->end, &close_sign)) == NULL)
    return FALSE;
  move (lexer, c);
  finish_tag (lexer, close_sign, FALSE);
  for (stop = lexer->next; stop < lexer->end; stop++)
    if ((c = match_block (stop, lexer->end, "endraw", &sign)) != NULL
        && (c = match_close (c, lexer->end, &end_sign)) != NULL)
      {
        add_data (lexer, stop, sign, FALSE);
        move (lexer, c);
        finish_tag (lexer, end_sign, FALSE);
        return TRUE;
      }
  fail (lexer, "a raw block has no end");
  return TRUE;
}

static const char *
find_tag (Lexer *lexer)
{
  for (const char *c = lexer->next; c + 1 < lexer->end; c++)
    if (*c == '{' && (c[1] == '{' || c[1] == '%' || c[1] == '#'))
      return c;
  return lexer->end;
}

static gboolean
lex_all (Lexer *lexer)
{
  while (lexer->next < lexer->end && lexer->error == NULL)
    {
      const char *tag = find_tag (lexer);
      char kind, sign;

      if (tag == lexer->end)
        {
          add_data (lexer, tag, '+', FALSE);
          break;
        }
      kind = tag[1];
      sign = tag + 2 < lexer->end && (tag[2] == '-' || tag[2] == '+') ? tag[2] : 0;
      add_data (lexer, tag, sign, kind == '{');
      if (kind == '%' && lex_raw (lexer))
        continue;
      lexer->next += sign != 0 ? 3 : 2;
      if (kind == '#')
        skip_comment (lexer);
      else
        {
          add (lexer, kind == '{' ? TOKEN_OUTPUT_BEGIN : TOKEN_BLOCK_BEGIN, NULL, 0);
          lex_tag (lexer, kind == '{' ? "}}" : "%}",
                   kind == '{' ? TOKEN_OUTPUT_END : TOKEN_BLOCK_END);
        }
    }
  add (lexer, TOKEN_END, NULL, 0);
  return lexer->error == NULL;
}

/* Ends of lines become \n, and the one at the very end is dropped. */
static GString *
unify_lines (const char *source, gsize length)
{
  GString *text = g_string_sized_new (length);

  for (gsize i = 0; i < length; i++)
    if (source[i] != '\r')
      g_string_append_c (text, source[i]);
    else if (i + 1 == length || source[i + 1] != '\n')
      g_string_append_c (text, '\n');
  if (text->len > 0 && text->str[text->len - 1] == '\n')
    g_string_truncate (text, text->len - 1);
  return text;
}

GArray *
plumb_template_lex (PlumbArena *arena, const char *source, gsize length, GError **error)
{
  g_autoptr (GString) text = NULL;
  Lexer lexer = { .arena = arena, .line = 1, .line_starting = TRUE };

  if (!g_utf8_validate_len (source, length, NULL))
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "it is not valid UTF-8");
      return NULL;
    }
  text = unify_lines (source, length);
  lexer.start = lexer.next = text->str;
  lexer.end = text->str + text->len;
  lexer.tokens = g_array_new (FALSE, FALSE, sizeof (PlumbToken));
  if (lex_all (&lexer))
    return lexer.tokens;
  g_array_unref (lexer.tokens);
  g_propagate_error (error, lexer.error);
  return NULL;
}
