/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <glib/gi18n.h>

#include "app/plot-format.h"

/* "%.*g" without its exponents in the range that people read as plain digits. */
static char *
significant (double value, int digits)
{
  int exponent;

  if (value == 0)
    return g_strdup ("0");
  if (!isfinite (value))
    return g_strdup (isnan (value) ? "NaN" : value > 0 ? "∞" : "−∞");

  exponent = (int)floor (log10 (fabs (value)));
  if (exponent < -4 || exponent > 9)
    return g_strdup_printf ("%.*g", digits, value);
  return g_strdup_printf ("%.*f", MAX (0, digits - 1 - exponent), value);
}

static const struct
{
  double factor;
  const char *suffix;
} thousands[] = { { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e3, "k" } };

/* "12.3k": the factor is taken off from ten thousand on, since step counts read better in full. */
static char *
with_suffix (double value, int digits)
{
  if (isfinite (value) && fabs (value) >= 1e4)
    for (guint i = 0; i < G_N_ELEMENTS (thousands); i++)
      if (fabs (value) >= thousands[i].factor)
        {
          g_autofree char *number = significant (value / thousands[i].factor, digits);

          return g_strconcat (number, thousands[i].suffix, NULL);
        }
  return significant (value, digits);
}

static char *
format_bytes (double bytes)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
  guint i = 0;
  g_autofree char *number = NULL;

  while (fabs (bytes) >= 1024 && i + 1 < G_N_ELEMENTS (units))
    {
      bytes /= 1024;
      i++;
    }
  number = significant (bytes, 3);
  return g_strdup_printf ("%s %s", number, units[i]);
}

char *
plumb_format_duration (double seconds)
{
  guint64 whole;

  if (!isfinite (seconds) || seconds < 0)
    return g_strdup ("–");
  if (seconds == 0)
    return g_strdup_printf (_ ("%d s"), 0);
  if (seconds < 1e-3)
    return g_strdup_printf (_ ("%.3g µs"), seconds * 1e6);
  if (seconds < 1)
    return g_strdup_printf (_ ("%.3g ms"), seconds * 1000);
  if (seconds < 10)
    return g_strdup_printf (_ ("%.3g s"), seconds);

  whole = (guint64)(seconds + 0.5);
  if (whole < 60)
    return g_strdup_printf (_ ("%d s"), (int)whole);
  if (whole < 3600 && whole % 60 == 0)
    return g_strdup_printf (_ ("%d min"), (int)(whole / 60));
  if (whole < 3600)
    return g_strdup_printf (_ ("%d min %d s"), (int)(whole / 60), (int)(whole % 60));
  if (whole < 86400 && whole / 60 % 60 == 0)
    return g_strdup_printf (_ ("%d h"), (int)(whole / 3600));
  if (whole < 86400)
    return g_strdup_printf (_ ("%d h %d min"), (int)(whole / 3600), (int)(whole / 60 % 60));
  return g_strdup_printf (_ ("%d d %d h"), (int)MIN (whole / 86400, 99999),
                          (int)(whole / 3600 % 24));
}

char *
plumb_format_value (double value, const char *unit)
{
  g_autofree char *number = NULL;

  if (g_strcmp0 (unit, "share") == 0)
    {
      number = significant (100 * value, 3);
      return g_strdup_printf ("%s %%", number);
    }
  if (g_strcmp0 (unit, "bytes") == 0)
    return format_bytes (value);
  if (g_strcmp0 (unit, "s") == 0 && value >= 0)
    return plumb_format_duration (value);

  number = with_suffix (value, fabs (value) >= 1e4 ? 3 : 4);
  if (g_strcmp0 (unit, "tokens/s") == 0)
    return g_strdup_printf (_ ("%s tok/s"), number);
  return g_steal_pointer (&number);
}

char *
plumb_format_exact (double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  if (!isfinite (value))
    return significant (value, 1);
  for (int digits = 1; digits <= 17; digits++)
    {
      char format[8];

      g_snprintf (format, sizeof format, "%%.%dg", digits);
      g_ascii_formatd (buffer, sizeof buffer, format, value);
      if (g_ascii_strtod (buffer, NULL) == value)
        break;
    }
  return g_strdup (buffer);
}

static char *
decimals (double value, double step)
{
  int digits = step > 0 ? MAX (0, (int)-floor (log10 (step) + 1e-9)) : 0;

  if (digits > 6 || fabs (value) >= 1e12)
    return value == 0 ? g_strdup ("0") : g_strdup_printf ("%.3g", value);
  return g_strdup_printf ("%.*f", digits, value);
}

static char *
tick_bytes (double value)
{
  return value == 0 ? g_strdup ("0") : format_bytes (value);
}

char *
plumb_format_tick (double value, double step, const char *unit)
{
  g_autofree char *number = NULL;

  if (g_strcmp0 (unit, "bytes") == 0)
    return tick_bytes (value);
  if (g_strcmp0 (unit, "share") == 0)
    {
      number = decimals (100 * value, 100 * step);
      return g_strdup_printf ("%s %%", number);
    }
  if (g_strcmp0 (unit, "s") == 0 && step > 0 && step < 0.01 && value >= 0)
    return value > 0 ? plumb_format_duration (value) : g_strdup ("0");
  for (guint i = 0; i < G_N_ELEMENTS (thousands); i++)
    if (fabs (value) >= thousands[i].factor && fabs (value) >= 1e4)
      {
        number = decimals (value / thousands[i].factor, step / thousands[i].factor);
        return g_strconcat (number, thousands[i].suffix, NULL);
      }
  return decimals (value, step);
}

char *
plumb_format_duration_tick (double seconds, double step)
{
  guint64 whole = seconds > 0 ? (guint64)(seconds + 0.5) : 0;

  if (seconds == 0)
    return g_strdup ("0");
  if (step >= 86400)
    return g_strdup_printf (_ ("%d d"), (int)(whole / 86400));
  if (whole >= 3600 || step >= 3600)
    return g_strdup_printf (_ ("%d:%02d h"), (int)(whole / 3600), (int)(whole / 60 % 60));
  if (step >= 60)
    return g_strdup_printf (_ ("%d min"), (int)(whole / 60));
  if (step >= 1)
    return whole >= 60 ? g_strdup_printf ("%d:%02d", (int)(whole / 60), (int)(whole % 60))
                       : g_strdup_printf (_ ("%d s"), (int)whole);
  return g_strdup_printf (_ ("%.3g s"), seconds);
}
