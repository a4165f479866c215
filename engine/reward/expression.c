/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an answer by recursive descent, and writes it in one spelling. A value is a sum of terms,
 * each an exact coefficient times symbols above and below a fraction bar. Symbols keep their order
 * within a product, because matrices do not commute. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/reward/answer-text.h"
#include "engine/reward/expression.h"

#define LONGEST_TEXT 1000
#define LONGEST_NAME 32
#define DEEPEST 40
#define MOST_TERMS 200
#define LARGEST_EXPONENT 64

typedef struct
{
  gint64 above, below; /* the coefficient: coprime, below > 0 */
  const char *up;      /* symbols above the bar; "" for none */
  const char *down;    /* and below */
} Term;

typedef struct
{
  Term *terms;
  guint n;
} Sum;

typedef struct
{
  const char *next;
  guint depth;
  gboolean failed;
  GPtrArray *memory; /* all that terms and strings were allocated from */
} Reader;

static Sum read_relation (Reader *reader);
static Sum read_power (Reader *reader);

static Sum
fail (Reader *reader)
{
  reader->failed = TRUE;
  return (Sum){ NULL, 0 };
}

static const char *
keep (Reader *reader, char *text)
{
  g_ptr_array_add (reader->memory, text);
  return text;
}

/* --- values */

static Term *
new_terms (Reader *reader, guint n)
{
  Term *terms = g_new0 (Term, n);

  g_ptr_array_add (reader->memory, terms);
  return terms;
}

static Sum
of_term (Reader *reader, gint64 above, gint64 below, const char *up, const char *down)
{
  Sum sum = { new_terms (reader, 1), 1 };

  sum.terms[0] = (Term){ above, below, up, down };
  return sum;
}

static Sum
of_symbol (Reader *reader, const char *symbol)
{
  return of_term (reader, 1, 1, symbol, "");
}

static gboolean
is_number (Sum sum)
{
  return sum.n == 0 || (sum.n == 1 && *sum.terms[0].up == '\0' && *sum.terms[0].down == '\0');
}

static gint64
common_divisor (gint64 a, gint64 b)
{
  while (b != 0)
    {
      gint64 rest = a % b;

      a = b;
      b = rest;
    }
  return MAX (ABS (a), 1);
}

/* (a / b) * (c / d); FALSE when it does not fit. */
static gboolean
multiply (gint64 a, gint64 b, gint64 c, gint64 d, gint64 *above, gint64 *below)
{
  gint64 x = common_divisor (a, d), y = common_divisor (c, b);

  if (__builtin_mul_overflow (a / x, c / y, above) || __builtin_mul_overflow (b / y, d / x, below))
    return FALSE;
  return *above != G_MININT64;
}

static gboolean
add (gint64 a, gint64 b, gint64 c, gint64 d, gint64 *above, gint64 *below)
{
  gint64 x, y, sum, product, shared;

  if (__builtin_mul_overflow (a, d, &x) || __builtin_mul_overflow (c, b, &y)
      || __builtin_add_overflow (x, y, &sum) || __builtin_mul_overflow (b, d, &product)
      || sum == G_MININT64)
    return FALSE;
  shared = common_divisor (sum, product);
  *above = sum / shared;
  *below = product / shared;
  return TRUE;
}

static int
compare_terms (gconstpointer a, gconstpointer b)
{
  const Term *left = a, *right = b;
  int order = strcmp (left->up, right->up);

  return order != 0 ? order : strcmp (left->down, right->down);
}

static Sum
plus (Reader *reader, Sum a, Sum b)
{
  Sum sum = { NULL, 0 };
  guint n = a.n + b.n, kept = 0;

  if (reader->failed || n > MOST_TERMS)
    return fail (reader);
  sum.terms = new_terms (reader, n + 1);
  if (a.n > 0)
    memcpy (sum.terms, a.terms, a.n * sizeof (Term));
  if (b.n > 0)
    memcpy (sum.terms + a.n, b.terms, b.n * sizeof (Term));
  qsort (sum.terms, n, sizeof (Term), compare_terms);
  for (guint i = 0; i < n; i++)
    {
      Term *last = kept > 0 ? &sum.terms[kept - 1] : NULL;
      Term term = sum.terms[i];

      if (last == NULL || compare_terms (last, &term) != 0)
        sum.terms[kept++] = term;
      else if (!add (last->above, last->below, term.above, term.below, &last->above, &last->below))
        return fail (reader);
      else if (last->above == 0)
        kept--;
    }
  sum.n = kept;
  return sum;
}

static Sum
scaled (Reader *reader, Sum sum, gint64 above, gint64 below)
{
  Sum result = { new_terms (reader, sum.n + 1), sum.n };

  if (above == 0)
    result.n = 0;
  for (guint i = 0; i < result.n; i++)
    {
      result.terms[i] = sum.terms[i];
      if (!multiply (sum.terms[i].above, sum.terms[i].below, above, below, &result.terms[i].above,
                     &result.terms[i].below))
        return fail (reader);
    }
  return result;
}

/* One spelling of a value. */
static const char *
spell (Reader *reader, Sum sum)
{
  GString *text = g_string_new (sum.n == 0 ? "0" : NULL);

  for (guint i = 0; i < sum.n; i++)
    {
      const Term *term = &sum.terms[i];

      g_string_append_printf (text, "%s%" G_GINT64_FORMAT, term->above < 0 ? "" : "+", term->above);
      if (term->below != 1)
        g_string_append_printf (text, "/%" G_GINT64_FORMAT, term->below);
      if (*term->up != '\0')
        g_string_append_printf (text, "*%s", term->up);
      if (*term->down != '\0')
        g_string_append_printf (text, "/%s", term->down);
    }
  return keep (reader, g_string_free (text, FALSE));
}

/* A sum of several terms becomes one symbol, so that it can be a factor. */
static Sum
as_factor (Reader *reader, Sum sum)
{
  if (sum.n <= 1)
    return sum;
  return of_symbol (reader, keep (reader, g_strdup_printf ("(%s)", spell (reader, sum))));
}

static const char *
join (Reader *reader, const char *a, const char *b)
{
  if (*a == '\0' || *b == '\0')
    return *a == '\0' ? b : a;
  return keep (reader, g_strdup_printf ("%s.%s", a, b));
}

static Sum
times (Reader *reader, Sum a, Sum b)
{
  gint64 above, below;

  if (reader->failed)
    return fail (reader);
  if (a.n == 0 || b.n == 0)
    return (Sum){ NULL, 0 };
  if (is_number (a))
    return scaled (reader, b, a.terms[0].above, a.terms[0].below);
  if (is_number (b))
    return scaled (reader, a, b.terms[0].above, b.terms[0].below);
  a = as_factor (reader, a);
  b = as_factor (reader, b);
  if (!multiply (a.terms[0].above, a.terms[0].below, b.terms[0].above, b.terms[0].below, &above,
                 &below))
    return fail (reader);
  return of_term (reader, above, below, join (reader, a.terms[0].up, b.terms[0].up),
                  join (reader, a.terms[0].down, b.terms[0].down));
}

static Sum
inverse (Reader *reader, Sum sum)
{
  gint64 above, below;

  if (reader->failed || sum.n == 0)
    return fail (reader);
  sum = as_factor (reader, sum);
  above = sum.terms[0].above < 0 ? -sum.terms[0].below : sum.terms[0].below;
  below = ABS (sum.terms[0].above);
  return of_term (reader, above, below, sum.terms[0].down, sum.terms[0].up);
}

/* A number to a whole power; FALSE when it does not fit. */
static gboolean
number_power (Sum base, gint64 exponent, gint64 *above, gint64 *below)
{
  *above = *below = 1;
  if (base.n == 0)
    *above = exponent == 0;
  for (gint64 i = 0; i < exponent && base.n > 0; i++)
    if (!multiply (*above, *below, base.terms[0].above, base.terms[0].below, above, below))
      return FALSE;
  return base.n > 0 || exponent > 0;
}

/* The root of a number that is a square; FALSE for others. */
static gboolean
number_root (Sum base, gint64 *above, gint64 *below)
{
  if (base.n == 0 || base.terms[0].above < 0)
    return FALSE;
  *above = llround (sqrt ((double)base.terms[0].above));
  *below = llround (sqrt ((double)base.terms[0].below));
  return *above < G_MAXINT32 && *below < G_MAXINT32 && *above * *above == base.terms[0].above
         && *below * *below == base.terms[0].below;
}

/* Is one over it the same as its power of -1? Not for matrices and functions. */
static gboolean
is_scalar (Sum base)
{
  for (guint i = 0; i < base.n; i++)
    if (strpbrk (base.terms[i].up, "ABCDEFGHIJKLMNOPQRSTUVWXYZfgh") != NULL)
      return FALSE;
  return TRUE;
}

static Sum
power (Reader *reader, Sum base, Sum exponent)
{
  gboolean numeric = is_number (exponent) && exponent.n > 0;
  gint64 above = numeric ? exponent.terms[0].above : 0;
  gint64 below = numeric ? exponent.terms[0].below : 1, a, b;

  if (reader->failed)
    return fail (reader);
  if (numeric && above == 1 && below == 1)
    return base;
  if (numeric && above < 0 && is_scalar (base))
    return inverse (reader, power (reader, base, scaled (reader, exponent, -1, 1)));
  if (numeric && is_number (base) && below == 1 && above <= LARGEST_EXPONENT
      && number_power (base, above, &a, &b))
    return a == 0 ? (Sum){ NULL, 0 } : of_term (reader, a, b, "", "");
  if (numeric && is_number (base) && above == 1 && below == 2 && number_root (base, &a, &b))
    return of_term (reader, a, b, "", "");
  return of_symbol (reader, keep (reader, g_strdup_printf ("(%s)^(%s)", spell (reader, base),
                                                           spell (reader, exponent))));
}

/* --- words */

static void
skip_blanks (Reader *reader)
{
  for (;;)
    if (g_ascii_isspace (*reader->next))
      reader->next++;
    else if (reader->next[0] == '{' && reader->next[1] == '}')
      reader->next += 2;
    else
      return;
}

/* Length of \name at a place; 0 for another thing. */
static gsize
command_length (const char *text)
{
  gsize length = 1;

  if (*text != '\\')
    return 0;
  while (g_ascii_isalpha (text[length]))
    length++;
  return length > 1 ? length : 0;
}

static gboolean
take (Reader *reader, const char *word)
{
  gsize length = strlen (word);

  skip_blanks (reader);
  if (!g_str_has_prefix (reader->next, word)
      || (*word == '\\' && g_ascii_isalpha (word[1]) && command_length (reader->next) != length))
    return FALSE;
  reader->next += length;
  return TRUE;
}

/* Different words for the same; the first is what is written. */
static const char *const synonyms[][2] = {
  { "\\leq", "\\le" },         { "\\geq", "\\ge" },          { "\\neq", "\\ne" },
  { "\\to", "\\rightarrow" },  { "\\leq", "\\leqslant" },    { "\\geq", "\\geqslant" },
  { "\\emptyset", "\\varnothing" }, { "\\implies", "\\Rightarrow" }, { "\\mid", "\\vert" },
  { "\\iff", "\\Leftrightarrow" }, { "\\land", "\\wedge" },  { "\\lor", "\\vee" },
  { "\\neg", "\\lnot" },       { "\\epsilon", "\\varepsilon" }, { "\\phi", "\\varphi" },
  { "\\bar", "\\overline" },   { "\\setminus", "\\backslash" },
};

static const char *
first_synonym (Reader *reader, const char *word)
{
  for (gsize i = 0; i < G_N_ELEMENTS (synonyms); i++)
    if (g_str_equal (word, synonyms[i][1]))
      return synonyms[i][0];
  return keep (reader, g_strdup (word));
}

static const char *const relations[]
    = { "=",      "<",        ">",       ":",        ";",        "\\leq",     "\\le",    "\\geq",
        "\\ge",   "\\neq",    "\\ne",    "\\in",     "\\notin",  "\\to",      "\\rightarrow",
        "\\mid",  "\\subset", "\\cup",   "\\cap",    "\\equiv",  "\\approx",  "\\sim",   "\\mapsto",
        "\\cong", "\\subseteq", "\\implies", "\\Rightarrow", "\\iff", "\\leqslant", "\\geqslant",
        "\\setminus", "\\land", "\\lor", "\\oplus", "\\otimes", "\\circ", "\\propto", "\\ll", "\\gg",
        "\xe2\x89\xa4", "\xe2\x89\xa5", "\xe2\x89\xa0" };

static const char *
take_relation (Reader *reader)
{
  for (gsize i = 0; i < G_N_ELEMENTS (relations); i++)
    if (take (reader, relations[i]))
      switch (relations[i][0] == '\xe2' ? relations[i][2] & 0xff : 0)
        {
        case 0xa4:
          return "\\leq";
        case 0xa5:
          return "\\geq";
        case 0xa0:
          return "\\neq";
        default:
          return first_synonym (reader, relations[i]);
        }
  return NULL;
}

/* Functions whose argument needs no brackets. */
static const char *const functions[]
    = { "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin",  "cos", "tan",
        "cot",    "sec",    "csc",    "log",  "ln",   "exp",  "gcd",  "lcm", "det",
        "dim",    "ker",    "max",    "min",  "sup",  "inf",  "deg",  "arg" };

static const char *
take_function (Reader *reader)
{
  for (gsize i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      const char *start = reader->next;
      gsize length = strlen (functions[i]);

      if (*start == '\\' && command_length (start) != length + 1)
        continue;
      start += *start == '\\';
      if (!g_str_has_prefix (start, functions[i])
          || (reader->next == start && g_ascii_isalpha (start[length])))
        continue;
      reader->next = start + length;
      return functions[i];
    }
  return NULL;
}

/* --- reading */

static gboolean
enter (Reader *reader)
{
  if (++reader->depth > DEEPEST)
    reader->failed = TRUE;
  return !reader->failed;
}

/* The content of {...}, which is read to its end. */
static Sum
read_braces (Reader *reader)
{
  Sum sum = read_relation (reader);

  return take (reader, "}") ? sum : fail (reader);
}

/* What a command or ^ takes: {...}, one digit, one letter, or one command. */
static Sum
read_argument (Reader *reader)
{
  skip_blanks (reader);
  if (take (reader, "{"))
    return read_braces (reader);
  if (g_ascii_isdigit (*reader->next))
    {
      int digit = g_ascii_digit_value (*reader->next++);

      return digit == 0 ? (Sum){ NULL, 0 } : of_term (reader, digit, 1, "", "");
    }
  if (g_ascii_isalpha (*reader->next))
    return of_symbol (reader, keep (reader, g_strndup (reader->next++, 1)));
  if (command_length (reader->next) > 0 && enter (reader))
    {
      gsize length = command_length (reader->next);
      const char *name = keep (reader, g_strndup (reader->next, length));

      reader->depth--;
      reader->next += length;
      return g_str_has_prefix (name, "\\frac") || g_str_equal (name, "\\sqrt")
                 ? fail (reader)
                 : of_symbol (reader, first_synonym (reader, name));
    }
  if (take (reader, "*"))
    return of_symbol (reader, "*");
  return fail (reader);
}

/* "and", within \text or not, between two elements. */
static gboolean
take_and (Reader *reader)
{
  const char *start = reader->next, *c;
  gboolean marked;

  skip_blanks (reader);
  c = reader->next;
  marked = *c == PLUMB_ANSWER_TEXT_MARK;
  for (c += marked; g_ascii_isspace (*c); c++)
    continue;
  if (g_str_has_prefix (c, "and") && !g_ascii_isalpha (c[3]))
    {
      for (c += 3; g_ascii_isspace (*c); c++)
        continue;
      reader->next = c + (marked && *c == PLUMB_ANSWER_TEXT_MARK);
      if (!marked || *c == PLUMB_ANSWER_TEXT_MARK)
        return TRUE;
    }
  reader->next = start;
  return FALSE;
}

static gboolean
take_separator (Reader *reader)
{
  gboolean comma = take (reader, ",");

  return take_and (reader) || comma;
}

/* Elements between brackets or at the top, divided by commas or "and": spelled and in order. */
static GPtrArray *
read_elements (Reader *reader, Sum *last)
{
  GPtrArray *elements = g_ptr_array_new ();
  Sum element;

  do
    {
      element = read_relation (reader);
      g_ptr_array_add (elements, (gpointer)spell (reader, element));
      if (last != NULL)
        *last = element;
    }
  while (!reader->failed && take_separator (reader));
  return elements;
}

static const char *
spell_elements (Reader *reader, GPtrArray *elements, const char *open, const char *close)
{
  GString *text = g_string_new (open);

  for (guint i = 0; i < elements->len; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? "," : "",
                            (const char *)g_ptr_array_index (elements, i));
  g_string_append (text, close);
  return keep (reader, g_string_free (text, FALSE));
}

static int
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* \{...\}: neither order nor repetition counts. */
static Sum
read_set (Reader *reader)
{
  g_autoptr (GPtrArray) elements = NULL;

  if (take (reader, "\\}"))
    return of_symbol (reader, "\\emptyset");
  elements = read_elements (reader, NULL);
  if (!take (reader, "\\}"))
    return fail (reader);
  g_ptr_array_sort (elements, compare_texts);
  for (guint i = elements->len; i-- > 1;)
    if (g_str_equal (g_ptr_array_index (elements, i), g_ptr_array_index (elements, i - 1)))
      g_ptr_array_remove_index (elements, i);
  return of_symbol (reader, spell_elements (reader, elements, "\\{", "\\}"));
}

/* (...) and [...], closed by either: a value in brackets, a tuple, an interval. */
static Sum
read_brackets (Reader *reader, const char *open)
{
  Sum last;
  g_autoptr (GPtrArray) elements = read_elements (reader, &last);
  const char *close = take (reader, ")") ? ")" : take (reader, "]") ? "]" : NULL;

  if (close == NULL)
    return fail (reader);
  if (elements->len == 1 && *open == '(' && *close == ')')
    return last;
  return of_symbol (reader, spell_elements (reader, elements, open, close));
}

/* Digits with a point. Leading zeros are not guessed about ("1,000" is read elsewhere). */
static Sum
read_digits (Reader *reader)
{
  const char *c = reader->next;
  gint64 above = 0, below = 1, shared;
  gboolean fraction = FALSE;

  if (c[0] == '0' && g_ascii_isdigit (c[1]))
    return fail (reader);
  for (; g_ascii_isdigit (*c) || (*c == '.' && !fraction && g_ascii_isdigit (c[1])); c++)
    if (*c == '.')
      fraction = TRUE;
    else if (__builtin_mul_overflow (above, 10, &above)
             || __builtin_add_overflow (above, *c - '0', &above)
             || (fraction && __builtin_mul_overflow (below, 10, &below)))
      return fail (reader);
  reader->next = c;
  shared = common_divisor (above, below);
  return above == 0 ? (Sum){ NULL, 0 }
                    : of_term (reader, above / shared, below / shared, "", "");
}

/* \frac{a}{b}, \sqrt[n]{a}, and names of which nothing is known but their arguments. */
static Sum
read_command (Reader *reader, const char *name)
{
  /* What stands below and above these is no power. */
  static const char *const bounded[] = { "\\begin", "\\end",  "\\int", "\\iint", "\\oint",
                                         "\\sum",   "\\prod", "\\lim", NULL };
  Sum a, b;
  GString *text;

  if (g_str_equal (name, "\\frac"))
    {
      a = read_argument (reader);
      b = read_argument (reader);
      return times (reader, a, inverse (reader, b));
    }
  if (g_str_equal (name, "\\sqrt"))
    {
      b = of_term (reader, 2, 1, "", "");
      if (take (reader, "["))
        {
          b = read_relation (reader);
          if (!take (reader, "]"))
            return fail (reader);
        }
      return power (reader, read_argument (reader), inverse (reader, b));
    }
  if (g_strv_contains (bounded, name))
    return fail (reader);
  text = g_string_new (first_synonym (reader, name));
  while (!reader->failed && *reader->next == '{')
    {
      reader->next++;
      g_string_append_printf (text, "{%s}", spell (reader, read_braces (reader)));
    }
  return of_symbol (reader, keep (reader, g_string_free (text, FALSE)));
}

/* The words of \text{...}. */
static Sum
read_words (Reader *reader)
{
  const char *end = strchr (reader->next, PLUMB_ANSWER_TEXT_MARK);
  g_autofree char *words = NULL, *lower = NULL;
  gsize length;

  if (end == NULL)
    return fail (reader);
  words = g_strstrip (g_strndup (reader->next, end - reader->next));
  length = strlen (words);
  reader->next = end + 1;
  if (length == 0)
    return fail (reader);
  return of_symbol (reader, keep (reader, length == 1 ? g_strdup (words)
                                                      : g_strdup_printf ("<%s>", words)));
}

/* \ln 2, \log_2 n, \sin^2 x: without brackets the argument is what stands close behind. */
static Sum
read_application (Reader *reader, const char *function)
{
  g_autoptr (GString) text = g_string_new (function);
  Sum argument;

  for (;;)
    if (take (reader, "^"))
      g_string_append_printf (text, "^(%s)", spell (reader, read_argument (reader)));
    else if (take (reader, "_"))
      g_string_append_printf (text, "_(%s)", spell (reader, read_argument (reader)));
    else
      break;
  skip_blanks (reader);
  if (reader->failed)
    return fail (reader);
  if (*reader->next == '(')
    argument = read_brackets (reader, (reader->next++, "("));
  else
    {
      argument = read_power (reader);
      for (skip_blanks (reader); !reader->failed && g_ascii_isalpha (*reader->next);
           skip_blanks (reader))
        argument = times (reader, argument, read_power (reader));
    }
  g_string_append_printf (text, "(%s)", spell (reader, argument));
  return of_symbol (reader, keep (reader, g_strdup (text->str)));
}

/* f(x), n!, x_1, f'. What stands in brackets behind a name is its argument: a(b + c) is left alone
 * as well, as nobody can know. */
static Sum
read_name (Reader *reader)
{
  g_autoptr (GString) name = g_string_new (NULL);
  gsize length = command_length (reader->next);
  const char *function = take_function (reader);
  Sum symbol;

  if (function != NULL)
    return read_application (reader, function);
  if (length > 0)
    {
      g_autofree char *command = g_strndup (reader->next, length);

      reader->next += length;
      symbol = read_command (reader, command);
    }
  else if (g_str_has_prefix (reader->next, "pi") && !g_ascii_isalpha (reader->next[2]))
    {
      reader->next += 2;
      symbol = of_symbol (reader, "\\pi");
    }
  else
    symbol = of_symbol (reader, keep (reader, g_strndup (reader->next++, 1)));
  if (reader->failed || symbol.n != 1 || symbol.terms[0].above != 1 || symbol.terms[0].below != 1
      || *symbol.terms[0].down != '\0' || *symbol.terms[0].up == '\0'
      || *symbol.terms[0].up == '(')
    return symbol;
  g_string_assign (name, symbol.terms[0].up);
  while (!reader->failed && *reader->next != '\0')
    if (*reader->next == '\'')
      g_string_append_c (name, *reader->next++);
    else if (take (reader, "_"))
      g_string_append_printf (name, "_(%s)", spell (reader, read_argument (reader)));
    else if (*reader->next == '(')
      {
        g_autoptr (GPtrArray) elements = NULL;

        reader->next++;
        elements = read_elements (reader, NULL);
        if (!take (reader, ")"))
          return fail (reader);
        g_string_append (name, spell_elements (reader, elements, "(", ")"));
      }
    else
      break;
  return of_symbol (reader, keep (reader, g_strdup (name->str)));
}

static Sum
read_atom (Reader *reader)
{
  skip_blanks (reader);
  if (g_ascii_isdigit (*reader->next) || (*reader->next == '.' && g_ascii_isdigit (reader->next[1])))
    return read_digits (reader);
  if (take (reader, "("))
    return read_brackets (reader, "(");
  if (take (reader, "["))
    return read_brackets (reader, "[");
  if (take (reader, "\\{") || take (reader, "\\lbrace"))
    return read_set (reader);
  if (take (reader, "{"))
    return read_braces (reader);
  if (*reader->next == PLUMB_ANSWER_TEXT_MARK)
    {
      reader->next++;
      return read_words (reader);
    }
  if (take (reader, "|"))
    {
      Sum inner = read_relation (reader);

      if (!take (reader, "|"))
        return fail (reader);
      return of_symbol (reader, keep (reader, g_strdup_printf ("|%s|", spell (reader, inner))));
    }
  if (g_ascii_isalpha (*reader->next) || command_length (reader->next) > 0)
    return read_name (reader);
  return fail (reader);
}

static Sum
read_power (Reader *reader)
{
  Sum base;

  if (!enter (reader))
    return fail (reader);
  base = read_atom (reader);
  while (!reader->failed)
    if (take (reader, "^"))
      base = power (reader, base, read_argument (reader));
    else if (take (reader, "!"))
      base = of_symbol (reader, keep (reader, g_strdup_printf ("(%s)!", spell (reader, base))));
    else if (take (reader, "\\%") || take (reader, "%"))
      base = scaled (reader, base, 1, 100);
    else
      break;
  reader->depth--;
  return reader->failed ? fail (reader) : base;
}

/* Does a factor follow without a sign in between? */
static gboolean
factor_follows (Reader *reader)
{
  const char *start = reader->next;
  const char *relation = take_relation (reader);
  gboolean follows;

  reader->next = start;
  if (relation != NULL)
    return FALSE;
  if (take_and (reader))
    {
      reader->next = start;
      return FALSE;
    }
  skip_blanks (reader);
  follows = g_ascii_isalpha (*reader->next) || strchr ("([{\x01", *reader->next) != NULL
            || command_length (reader->next) > 0 || g_str_has_prefix (reader->next, "\\{");
  if (*reader->next == '\0' || take (reader, "\\pm") || take (reader, "\\mp")
      || take (reader, "\\rbrace"))
    follows = FALSE;
  reader->next = start;
  return follows;
}

static gboolean
next_is_fraction (Reader *reader)
{
  skip_blanks (reader);
  return g_str_has_prefix (reader->next, "\\frac");
}

static Sum
read_product (Reader *reader)
{
  Sum product = read_power (reader);
  gboolean divided = FALSE;

  while (!reader->failed)
    if (take (reader, "\\cdot") || take (reader, "\\times") || take (reader, "*")
        || take (reader, "\xc2\xb7") || take (reader, "\xc3\x97"))
      product = times (reader, product, read_power (reader));
    else if (take (reader, "/") || take (reader, "\\div"))
      {
        product = times (reader, product, inverse (reader, read_power (reader)));
        divided = TRUE;
      }
    else if (factor_follows (reader))
      {
        /* 1/2x may mean two things, and 1\frac{1}{2} is no product. */
        if (divided || (is_number (product) && next_is_fraction (reader)))
          return fail (reader);
        product = times (reader, product, read_power (reader));
      }
    else
      break;
  return product;
}

static Sum
read_signed_product (Reader *reader)
{
  if (take (reader, "\\pm") || take (reader, "\xc2\xb1"))
    return of_symbol (reader, keep (reader, g_strdup_printf (
                                                "\\pm(%s)", spell (reader, read_product (reader)))));
  if (take (reader, "-"))
    return scaled (reader, read_product (reader), -1, 1);
  take (reader, "+");
  return read_product (reader);
}

static Sum
read_sum (Reader *reader)
{
  Sum sum = read_signed_product (reader);

  for (skip_blanks (reader);
       !reader->failed
       && (strchr ("+-", *reader->next) != NULL || g_str_has_prefix (reader->next, "\\pm")
           || g_str_has_prefix (reader->next, "\xc2\xb1"))
       && *reader->next != '\0';
       skip_blanks (reader))
    sum = plus (reader, sum, read_signed_product (reader));
  return sum;
}

/* a = b < c: sides in order. */
static Sum
read_relation (Reader *reader)
{
  Sum left;
  const char *relation;

  if (!enter (reader))
    return fail (reader);
  left = read_sum (reader);
  while (!reader->failed && (relation = take_relation (reader)) != NULL)
    {
      const char *one = spell (reader, left), *other = spell (reader, read_sum (reader));
      gboolean either = g_str_equal (relation, "\\cup") || g_str_equal (relation, "\\cap");
      gboolean swap = either && strcmp (one, other) > 0;

      left = of_symbol (reader, keep (reader, g_strdup_printf ("[%s %s %s]", swap ? other : one,
                                                               relation, swap ? one : other)));
    }
  reader->depth--;
  return left;
}

char *
plumb_expression_normal (const char *text)
{
  Reader reader = { .next = text };
  g_autoptr (GPtrArray) elements = NULL;
  char *result = NULL;

  if (strlen (text) > LONGEST_TEXT)
    return NULL;
  reader.memory = g_ptr_array_new_with_free_func (g_free);
  elements = read_elements (&reader, NULL);
  skip_blanks (&reader);
  if (!reader.failed && *reader.next == '\0')
    result = g_strdup (elements->len == 1 ? g_ptr_array_index (elements, 0)
                                          : spell_elements (&reader, elements, "", ""));
  g_ptr_array_unref (reader.memory);
  return result;
}
