/* SPDX-License-Identifier: Apache-2.0 */
/* Values of Parquet files that JSON has no type for, as text: dates, times, decimals; and 16-bit floats. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/text/data-parquet-private.h"

#define DAY 86400              /* seconds */
#define JULIAN_1970 2440588    /* the day number of 1970-01-01 */
#define MOST_DECIMAL_BYTES 64

/* Rounds down, as the remainder that stays is never negative. */
static gint64
divide (gint64 value, gint64 by, gint64 *rest)
{
  gint64 whole = value / by;

  *rest = value % by;
  if (*rest >= 0)
    return whole;
  *rest += by;
  return whole - 1;
}

void
plumb_parquet_write_date (GString *text, gint64 days)
{
  /* Eras of 400 years have 146,097 days each; years are counted from March, so that a leap day comes last. */
  gint64 day, era = divide (days + 719468, 146097, &day);
  gint64 year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
  gint64 day_of_year = day - (365 * year + year / 4 - year / 100);
  gint64 month = (5 * day_of_year + 2) / 153, day_of_month = day_of_year - (153 * month + 2) / 5 + 1;

  month += month < 10 ? 3 : -9;
  year += era * 400 + (month <= 2);
  if (year < 0)
    g_string_append_c (text, '-');
  g_string_append_printf (text, "%04" G_GINT64_FORMAT "-%02d-%02d", ABS (year), (int)month, (int)day_of_month);
}

static gint64
parts_of_second (guint digits)
{
  return digits == 3 ? 1000 : digits == 6 ? 1000000 : 1000000000;
}

void
plumb_parquet_write_time (GString *text, gint64 value, guint digits)
{
  gint64 part, seconds = divide (value, parts_of_second (digits), &part);

  divide (seconds, DAY, &seconds);
  g_string_append_printf (text, "%02d:%02d:%02d", (int)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60));
  if (part > 0)
    g_string_append_printf (text, ".%0*" G_GINT64_FORMAT, (int)digits, part);
}

void
plumb_parquet_write_timestamp (GString *text, gint64 value, guint digits, gboolean utc)
{
  gint64 within, days = divide (value, DAY * parts_of_second (digits), &within);

  plumb_parquet_write_date (text, days);
  g_string_append_c (text, 'T');
  plumb_parquet_write_time (text, within, digits);
  if (utc)
    g_string_append_c (text, 'Z');
}

void
plumb_parquet_write_int96 (GString *text, const guint8 *data)
{
  gint64 within, over;
  gint32 day;

  memcpy (&within, data, sizeof within);
  memcpy (&day, data + sizeof within, sizeof day);
  over = divide (GINT64_FROM_LE (within), DAY * parts_of_second (9), &within);
  plumb_parquet_write_date (text, (gint64)GINT32_FROM_LE (day) - JULIAN_1970 + over);
  g_string_append_c (text, 'T');
  plumb_parquet_write_time (text, within, 9);
}

/* Divides the number by ten, highest byte first; the digit that remains. */
static guint
take_digit (guint8 *number, gsize length)
{
  guint rest = 0;

  for (gsize i = 0; i < length; i++)
    {
      rest = rest << 8 | number[i];
      number[i] = rest / 10;
      rest %= 10;
    }
  return rest;
}

static gboolean
is_zero (const guint8 *number, gsize length)
{
  for (gsize i = 0; i < length; i++)
    if (number[i] != 0)
      return FALSE;
  return TRUE;
}

static void
negate (guint8 *number, gsize length)
{
  guint carry = 1;

  for (gsize i = length; i > 0; i--)
    {
      carry += (guint8)~number[i - 1];
      number[i - 1] = carry & 0xff;
      carry >>= 8;
    }
}

gboolean
plumb_parquet_write_decimal (GString *text, const guint8 *data, gsize length, guint scale)
{
  guint8 number[MOST_DECIMAL_BYTES];
  g_autoptr (GString) digits = g_string_new (NULL); /* the last first */
  gboolean negative = length > 0 && data[0] & 0x80;

  if (length == 0 || length > sizeof number)
    return FALSE;
  memcpy (number, data, length);
  if (negative)
    negate (number, length);
  while (digits->len <= scale || !is_zero (number, length))
    g_string_append_c (digits, '0' + take_digit (number, length));
  if (negative)
    g_string_append_c (text, '-');
  for (gsize i = digits->len; i > 0; i--)
    {
      g_string_append_c (text, digits->str[i - 1]);
      if (i - 1 == scale && scale > 0)
        g_string_append_c (text, '.');
    }
  return TRUE;
}

double
plumb_parquet_half (const guint8 *data)
{
  guint bits = data[0] | data[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  double sign = bits >> 15 ? -1 : 1;

  if (exponent == 31)
    return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent > 0 ? ldexp (1024 + fraction, (int)exponent - 25) : ldexp (fraction, -24));
}
