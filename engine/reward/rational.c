/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/reward/rational.h"

#define MOST_DIGITS 2000
#define MOST_EXPONENT 400

void
plumb_rational_clear (PlumbRational *number)
{
  g_clear_pointer (&number->numerator, g_free);
  g_clear_pointer (&number->denominator, g_free);
  number->negative = FALSE;
}

static char *
without_zeros (char *digits)
{
  gsize zeros = strspn (digits, "0");

  memmove (digits, digits + zeros, strlen (digits) - zeros + 1);
  return digits;
}

static char *
times (const char *a, const char *b)
{
  gsize n = strlen (a), m = strlen (b);
  g_autofree guint32 *sums = g_new0 (guint32, n + m + 1);
  char *product = g_malloc (n + m + 1);
  guint64 carry = 0;

  for (gsize i = 0; i < n; i++)
    for (gsize j = 0; j < m; j++)
      sums[i + j + 1] += (a[i] - '0') * (b[j] - '0');
  for (gsize i = n + m; i-- > 0;)
    {
      carry += sums[i];
      product[i] = '0' + carry % 10;
      carry /= 10;
    }
  product[n + m] = '\0';
  return without_zeros (product);
}

static char *
plus (const char *a, const char *b)
{
  gsize n = strlen (a), m = strlen (b), most = MAX (n, m) + 1;
  char *sum = g_malloc (most + 1);
  guint carry = 0;

  for (gsize i = 0; i < most; i++)
    {
      carry += (i < n ? a[n - 1 - i] - '0' : 0) + (i < m ? b[m - 1 - i] - '0' : 0);
      sum[most - 1 - i] = '0' + carry % 10;
      carry /= 10;
    }
  sum[most] = '\0';
  return without_zeros (sum);
}

static void
append_zeros (char **digits, gsize n)
{
  g_autofree char *zeros = g_strnfill (n, '0');
  char *longer = g_strconcat (*digits, zeros, NULL);

  g_free (*digits);
  *digits = without_zeros (longer);
}

/* "1,480" is grouped by threes; in "1,2" the comma divides two numbers. */
static gsize
whole_part (const char *text, GString *digits)
{
  gsize n = strspn (text, "0123456789");

  g_string_append_len (digits, text, n);
  if (n == 0 || n > 3)
    return n;
  while (text[n] == ',' && strspn (text + n + 1, "0123456789") == 3)
    {
      g_string_append_len (digits, text + n + 1, 3);
      n += 4;
    }
  return n;
}

/* Bytes of an exponent; 0: there is none. One that is too large to be worth comparing gives more
 * than MOST_EXPONENT. */
static gsize
exponent_part (const char *text, int *exponent)
{
  gsize n = 1, digits;

  if (*text != 'e' && *text != 'E')
    return 0;
  if (text[n] == '+' || text[n] == '-')
    n++;
  digits = strspn (text + n, "0123456789");
  if (digits == 0 || g_ascii_isalpha (text[n + digits]))
    return 0;
  *exponent = CLAMP (g_ascii_strtoll (text + 1 + (text[1] == '+'), NULL, 10), -MOST_EXPONENT - 1,
                     MOST_EXPONENT + 1);
  return n + digits;
}

gsize
plumb_rational_read (const char *text, PlumbRational *number)
{
  g_autoptr (GString) digits = g_string_new (NULL);
  gsize length = whole_part (text, digits), fraction = 0;
  int exponent = 0;

  if (text[length] == '.' && g_ascii_isdigit (text[length + 1]))
    {
      fraction = strspn (text + length + 1, "0123456789");
      g_string_append_len (digits, text + length + 1, fraction);
      length += 1 + fraction;
    }
  if (digits->len == 0 || digits->len > MOST_DIGITS)
    return 0;
  length += exponent_part (text + length, &exponent);
  if (ABS (exponent) > MOST_EXPONENT)
    return 0;
  plumb_rational_clear (number);
  number->numerator = without_zeros (g_strdup (digits->str));
  number->denominator = g_strdup ("1");
  append_zeros (&number->denominator, fraction + (exponent < 0 ? -exponent : 0));
  append_zeros (&number->numerator, exponent > 0 ? exponent : 0);
  return length;
}

gboolean
plumb_rational_divide (const PlumbRational *a, const PlumbRational *b, PlumbRational *number)
{
  if (*b->numerator == '\0')
    return FALSE;
  number->negative = a->negative != b->negative;
  number->numerator = times (a->numerator, b->denominator);
  number->denominator = times (a->denominator, b->numerator);
  return TRUE;
}

void
plumb_rational_add (const PlumbRational *a, const PlumbRational *b, PlumbRational *number)
{
  g_autofree char *left = times (a->numerator, b->denominator);
  g_autofree char *right = times (b->numerator, a->denominator);

  number->negative = FALSE;
  number->numerator = plus (left, right);
  number->denominator = times (a->denominator, b->denominator);
}

void
plumb_rational_percent (PlumbRational *number)
{
  append_zeros (&number->denominator, 2);
}

gboolean
plumb_rational_equal (const PlumbRational *a, const PlumbRational *b)
{
  g_autofree char *left = times (a->numerator, b->denominator);
  g_autofree char *right = times (b->numerator, a->denominator);

  if (!g_str_equal (left, right))
    return FALSE;
  return *left == '\0' || a->negative == b->negative;
}
