/* SPDX-License-Identifier: Apache-2.0 */
/* The number verifier: is the answer that a response states the reference's number? */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/reward/answer-text.h"
#include "engine/reward/expression.h"
#include "engine/reward/functions.h"
#include "engine/reward/rational.h"

#define LONGEST_UNIT 60

typedef struct
{
  PlumbRational value;
  gboolean percent;
} Number;

static const char *
skip_blanks (const char *c)
{
  while (g_ascii_isspace (*c) || *c == PLUMB_ANSWER_TEXT_MARK)
    c++;
  return c;
}

/* $, US$, euro, pound, yen */
static const char *
skip_currency (const char *c)
{
  static const char *const signs[]
      = { "US$", "$", "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5", "\\pounds", "\\euro" };

  for (gsize i = 0; i < G_N_ELEMENTS (signs); i++)
    if (g_str_has_prefix (c, signs[i]))
      return c + strlen (signs[i]);
  return c;
}

/* Signs and currency in front, in any order; one sign at most. */
static const char *
read_sign (const char *c, gboolean *negative)
{
  gboolean signed_already = FALSE;

  *negative = FALSE;
  for (;;)
    {
      const char *next = skip_blanks (c);

      next = skip_currency (next);
      if ((*next == '-' || *next == '+') && !signed_already)
        {
          *negative = *next == '-';
          signed_already = TRUE;
          next++;
        }
      if (next == c)
        return c;
      c = next;
    }
}

/* {digits} or one digit, as \frac takes them. */
static const char *
read_braced (const char *c, PlumbRational *number)
{
  char digit[2] = { *c, '\0' };
  gboolean negative;
  gsize length;

  if (g_ascii_isdigit (*c))
    return plumb_rational_read (digit, number) == 1 ? c + 1 : NULL;
  if (*c != '{')
    return NULL;
  c = read_sign (c + 1, &negative);
  length = plumb_rational_read (c, number);
  number->negative = negative;
  c = skip_blanks (c + length);
  return length > 0 && *c == '}' ? c + 1 : NULL;
}

/* \frac{a}{b} */
static const char *
read_fraction (const char *c, PlumbRational *number)
{
  g_auto (PlumbRational) above = { 0 }, below = { 0 };

  if (!g_str_has_prefix (c, "\\frac"))
    return NULL;
  c = read_braced (skip_blanks (c + strlen ("\\frac")), &above);
  if (c != NULL)
    c = read_braced (skip_blanks (c), &below);
  if (c == NULL || !plumb_rational_divide (&above, &below, number))
    return NULL;
  return c;
}

/* The part behind a whole number: "b/c" or \frac{b}{c}, a blank or not in front. NULL: none. */
static const char *
read_mixed_part (const char *end, PlumbRational *part)
{
  g_auto (PlumbRational) above = { 0 }, below = { 0 };
  const char *next = skip_blanks (end), *fraction = read_fraction (next, part);
  gsize length;

  if (fraction != NULL || next == end)
    return fraction;
  length = plumb_rational_read (next, &above);
  if (length == 0 || next[length] != '/')
    return NULL;
  next += length + 1;
  length = plumb_rational_read (next, &below);
  return length > 0 && plumb_rational_divide (&above, &below, part) ? next + length : NULL;
}

/* a, a/b, a b/c, \frac{a}{b}, a\frac{b}{c}, without a sign. Returns its end, NULL for no number. */
static const char *
read_magnitude (const char *c, PlumbRational *number)
{
  g_auto (PlumbRational) whole = { 0 }, other = { 0 };
  const char *end = read_fraction (c, number), *next;
  gsize length;

  if (end != NULL)
    return end;
  length = plumb_rational_read (c, &whole);
  if (length == 0)
    return NULL;
  end = c + length;
  next = read_mixed_part (end, &other);
  if (next != NULL)
    {
      plumb_rational_add (&whole, &other, number);
      return next;
    }
  next = skip_blanks (end);
  if (*next == '/')
    {
      next = skip_blanks (next + 1);
      length = plumb_rational_read (next, &other);
      if (length > 0 && plumb_rational_divide (&whole, &other, number))
        return next + length;
    }
  *number = whole;
  whole = (PlumbRational){ 0 };
  return end;
}

static gboolean
is_connector (const char *word, gsize length)
{
  return (length == 2 && strncmp (word, "or", 2) == 0)
         || (length == 3 && strncmp (word, "and", 3) == 0);
}

/* Letters that are units of their own; others alone are variables. */
#define UNIT_LETTERS "msghlLNJVWAKCF"

/* Units that may stand close behind a number: "5cm", but 2ab is a product. */
static gboolean
is_close_unit (const char *word, gsize length)
{
  static const char *const units[]
      = { "cm",  "mm",  "km", "kg", "mg", "ml", "mL", "ft", "lb",  "lbs", "oz",  "hr", "hrs",
          "min", "sec", "ms", "Hz", "kW", "mi", "in", "yd", "mph", "am",  "pm",  "AM", "PM",
          "rad", "th",  "st", "nd", "rd", "GB", "MB", "dm", "gal", "deg", "kWh", "cents" };

  for (gsize i = 0; i < G_N_ELEMENTS (units); i++)
    if (strlen (units[i]) == length && strncmp (units[i], word, length) == 0)
      return TRUE;
  return length > 4; /* a word */
}

/* Is one letter a unit, or the "a" of "5 cups a day"? */
static gboolean
is_unit_letter (char letter, gboolean words)
{
  return strchr (UNIT_LETTERS, letter) != NULL || (words && letter == 'a');
}

/* The exponent of a unit: ^2, ^{2}, or a raised digit. Returns its end; `c` when there is none. */
static const char *
skip_exponent (const char *c)
{
  if (g_str_has_prefix (c, "\xc2\xb2") || g_str_has_prefix (c, "\xc2\xb3"))
    return c + 2;
  if (c[0] != '^')
    return c;
  if (c[1] == '{' && strchr (c, '}') != NULL)
    return strchr (c, '}') + 1;
  return c[1] != '\0' ? c + 2 : c;
}

/* Is what follows a number its unit: words and exponents, but no further number, operator or
 * variable? */
static gboolean
is_unit (const char *text, gboolean *percent)
{
  const char *c = text;
  gboolean words = FALSE;

  *percent = FALSE;
  if (strlen (text) > LONGEST_UNIT)
    return FALSE;
  while (*(c = skip_blanks (c)) != '\0')
    {
      const char *start = c;
      gsize length;

      *percent |= *c == '%';
      if (*c == '%' || (words && (*c == '/' || *c == '.')))
        c++;
      else
        c = words ? skip_exponent (c) : c;
      c = skip_currency (c);
      if (c > start)
        continue;
      while (g_unichar_isalpha (g_utf8_get_char (c)) || *c == '\'')
        c = g_utf8_next_char (c);
      length = c - start;
      /* 2x and 2 x are products, but 5\text{m} and 5 m have a unit. */
      if (length == 0 || is_connector (start, length)
          || (length == 1 && ((!words && start == text) || !is_unit_letter (*start, words)))
          || (!words && start == text && !is_close_unit (start, length)))
        return FALSE;
      words = TRUE;
    }
  return TRUE;
}

/* The whole text as one number with an optional unit. */
static gboolean
read_number (const char *text, Number *number)
{
  gboolean negative;
  const char *c = read_sign (text, &negative);

  c = read_magnitude (c, &number->value);
  if (c == NULL || !is_unit (c, &number->percent))
    {
      plumb_rational_clear (&number->value);
      return FALSE;
    }
  number->value.negative = number->value.negative != negative;
  return TRUE;
}

/* Does a number begin here, and is it none that belongs to a word (x2) or a unit (cm^2)? */
static gboolean
begins_number (const char *text, const char *c)
{
  char before = c > text ? c[-1] : ' ';

  if (!g_ascii_isdigit (*c) && !(*c == '.' && g_ascii_isdigit (c[1])))
    return FALSE;
  if (before == '^' || (before == '{' && c > text + 1 && c[-2] == '^'))
    return FALSE;
  return !g_ascii_isalnum (before) && before != '_' && before != '.';
}

/* A minus in front is a sign where no number or word stands before it. */
static gboolean
has_minus (const char *text, const char *c)
{
  if (c > text && c[-1] == '$')
    c--;
  if (c == text || c[-1] != '-')
    return FALSE;
  c--;
  if (c > text && c[-1] == '$')
    c--;
  return c == text || !(g_ascii_isalnum (c[-1]) || c[-1] == ')' || c[-1] == '.');
}

/* The last number of a text. */
static gboolean
last_number (const char *response, Number *number)
{
  g_autofree char *text = plumb_answer_clean (response, strlen (response));
  gboolean found = FALSE;

  for (const char *c = text; *c != '\0';)
    {
      PlumbRational value = { 0 };
      const char *end = begins_number (text, c) ? read_magnitude (c, &value) : NULL;

      if (end == NULL && g_str_has_prefix (c, "\\frac"))
        end = read_fraction (c, &value);
      if (end == NULL)
        {
          c++;
          continue;
        }
      plumb_rational_clear (&number->value);
      number->value = value;
      number->value.negative = number->value.negative != has_minus (text, c);
      number->percent = *skip_blanks (end) == '%';
      found = TRUE;
      c = end;
    }
  return found;
}

/* 50 % is one half as well as the number of percents. */
static gboolean
equal_share (const Number *percent, const Number *plain)
{
  g_auto (PlumbRational) share = { percent->value.negative, g_strdup (percent->value.numerator),
                                   g_strdup (percent->value.denominator) };

  plumb_rational_percent (&share);
  return plumb_rational_equal (&share, &plain->value);
}

static gboolean
equal_numbers (const Number *a, const Number *b)
{
  if (plumb_rational_equal (&a->value, &b->value))
    return TRUE;
  if (a->percent == b->percent)
    return FALSE;
  return a->percent ? equal_share (a, b) : equal_share (b, a);
}

/* Yes and yes, True and true: these words have no case. */
static gboolean
same_verdict (const char *reference, const char *answer)
{
  static const char *const words[] = { "yes", "no", "true", "false" };

  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    {
      g_autofree char *a = g_ascii_strdown (reference, -1), *b = g_ascii_strdown (answer, -1);

      if (plumb_answer_same_text (words[i], a))
        return plumb_answer_same_text (words[i], b);
    }
  return FALSE;
}

static gboolean
same_form (const char *reference, const char *answer)
{
  g_autofree char *right = plumb_expression_normal (reference);
  g_autofree char *given = right != NULL ? plumb_expression_normal (answer) : NULL;

  return given != NULL && g_str_equal (right, given);
}

/* A stated answer against the reference, both cleaned. */
static gboolean
same_answer (const char *reference, const char *answer)
{
  Number right = { 0 }, given = { 0 };
  gboolean same, numbers;

  if (plumb_answer_same_text (reference, answer))
    return TRUE;
  numbers = read_number (reference, &right) && read_number (answer, &given);
  same = numbers ? equal_numbers (&right, &given)
                 : same_verdict (reference, answer) || same_form (reference, answer);
  plumb_rational_clear (&right.value);
  plumb_rational_clear (&given.value);
  return same;
}

static char *
reference_of (const char *answer)
{
  const char *start;
  gsize length;

  if (plumb_answer_find_hashes (answer, TRUE, &start, &length)
      || plumb_answer_find_box (answer, &start, &length) == PLUMB_BOX_FOUND)
    return plumb_answer_clean (start, length);
  return plumb_answer_clean (answer, strlen (answer));
}

/* Behind "####" words may stand around one number: "#### The answer is 5". */
static gboolean
judge_line (const char *reference, const char *line, gsize length)
{
  g_autofree char *answer = plumb_answer_clean (line, length);
  Number right = { 0 }, given = { 0 };
  gboolean same;

  if (same_answer (reference, answer))
    return TRUE;
  if (read_number (answer, &given) || strstr (answer, " or ") != NULL
      || strstr (answer, " and ") != NULL || strchr (answer, ',') != NULL)
    {
      plumb_rational_clear (&given.value);
      return FALSE;
    }
  same = read_number (reference, &right) && last_number (answer, &given)
         && equal_numbers (&right, &given);
  plumb_rational_clear (&right.value);
  plumb_rational_clear (&given.value);
  return same;
}

static gboolean
judge_last_number (const char *reference, const char *response)
{
  Number right = { 0 }, given = { 0 };
  gboolean same = FALSE;

  if (read_number (reference, &right))
    same = last_number (response, &given) && equal_numbers (&right, &given);
  else
    {
      g_autofree char *answer = plumb_answer_clean (response, strlen (response));

      same = plumb_answer_same_text (reference, answer);
    }
  plumb_rational_clear (&right.value);
  plumb_rational_clear (&given.value);
  return same;
}

static gboolean
judge (const char *answer, const char *response)
{
  g_autofree char *reference = reference_of (answer);
  const char *start;
  gsize length;

  switch (plumb_answer_find_box (response, &start, &length))
    {
    case PLUMB_BOX_FOUND:
      {
        g_autofree char *stated = plumb_answer_clean (start, length);

        return same_answer (reference, stated);
      }
    case PLUMB_BOX_CUT_OFF:
      return FALSE;
    case PLUMB_BOX_NONE:
      break;
    }
  if (plumb_answer_find_hashes (response, FALSE, &start, &length))
    return judge_line (reference, start, length);
  return judge_last_number (reference, response);
}

static void
score_number (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  score->value = judge (input->answer, input->response) ? 1 : 0;
}

static const char *const no_options[] = { NULL };

const PlumbRewardFunction plumb_reward_number = {
  .name = "number",
  .options = no_options,
  .needs_answer = TRUE,
  .score = score_number,
};
