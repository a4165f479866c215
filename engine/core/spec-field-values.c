/* SPDX-License-Identifier: Apache-2.0 */
/* What may stand as the value of a field: its types, its one spelling, and the nearest known word.
 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "engine/core/spec-fields.h"
#include "engine/core/spec-private.h" /* plumb_list_split */

#define LONGEST_WORD 128
#define LONGEST_LIST 4096

const char *
plumb_field_type_name (PlumbFieldType type)
{
  static const char *const names[]
      = { "text", "integer", "real", "yes/no", "choice", "path", "texts", "paths", "reals" };
  return names[type];
}

const char *
plumb_field_level_name (PlumbFieldLevel level)
{
  static const char *const names[] = { "basic", "more", "expert" };
  return names[level];
}

const char *
plumb_field_widget_name (PlumbFieldWidget widget)
{
  static const char *const names[]
      = { "entry", "text", "spin", "switch", "combo", "file", "folder", "files" };
  return names[widget];
}

/* Edits (insert, delete, change, swap of neighbours) that turn a into b. */
static guint
edit_distance (const char *a, const char *b)
{
  guint rows[3][LONGEST_WORD + 1];
  gsize n = strlen (a), m = strlen (b);

  if (n > LONGEST_WORD || m > LONGEST_WORD)
    return G_MAXUINT;
  for (gsize j = 0; j <= m; j++)
    rows[0][j] = j;
  for (gsize i = 1; i <= n; i++)
    {
      guint *row = rows[i % 3], *up = rows[(i + 2) % 3], *above = rows[(i + 1) % 3];

      row[0] = i;
      for (gsize j = 1; j <= m; j++)
        {
          row[j] = MIN (MIN (up[j], row[j - 1]) + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
          if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
            row[j] = MIN (row[j], above[j - 2] + 1);
        }
    }
  return rows[n % 3][m];
}

const char *
plumb_nearest_word (const char *word, const char *const *words, gsize n)
{
  const char *best = NULL;
  guint smallest = G_MAXUINT;

  for (gsize i = 0; i < n; i++)
    {
      guint distance = edit_distance (word, words[i]);

      if (distance < smallest)
        {
          smallest = distance;
          best = words[i];
        }
    }
  return best != NULL && smallest <= MAX (2, strlen (word) / 3) ? best : NULL;
}

const char *
plumb_field_nearest (const char *key)
{
  gsize n;
  const PlumbField *fields = plumb_fields (&n);
  g_autofree const char **keys = g_new (const char *, n);
  const char *name = strchr (key, '.');

  for (gsize i = 0; i < n; i++)
    {
      keys[i] = fields[i].key;
      /* The right name in the wrong group is the likeliest slip. */
      if (name != NULL && g_strcmp0 (strchr (keys[i], '.'), name) == 0)
        return keys[i];
    }
  return plumb_nearest_word (key, keys, n);
}

/* "5", "5.5": shortest text that reads back as the same number. */
static char *
format_number (double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  for (int digits = 1; digits <= 17; digits++)
    {
      char format[] = "%.00g";

      format[2] = '0' + digits / 10;
      format[3] = '0' + digits % 10;
      g_ascii_formatd (buffer, sizeof buffer, format, value);
      if (g_ascii_strtod (buffer, NULL) == value)
        break;
    }
  return g_strdup (buffer);
}

/* Multiplier of a byte suffix: "GiB", "MB", "k", ... 0 if it is none. */
static double
byte_suffix (const char *text)
{
  static const struct
  {
    const char *suffix;
    double factor;
  } suffixes[] = {
    { "B", 1 },          { "k", 1024 },         { "kB", 1e3 },      { "KiB", 1024 },
    { "MB", 1e6 },       { "M", 1048576 },      { "MiB", 1048576 }, { "GB", 1e9 },
    { "G", 1073741824 }, { "GiB", 1073741824 }, { "TB", 1e12 },     { "TiB", 1099511627776.0 }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (suffixes); i++)
    if (g_ascii_strcasecmp (text, suffixes[i].suffix) == 0)
      return suffixes[i].factor;
  return 0;
}

gboolean
plumb_parse_number (const char *text, gboolean whole, gboolean bytes, double *value)
{
  char *end = NULL;
  double number;

  /* strtod takes hexadecimal, "inf" and "nan" too. */
  if (strspn (text, "+-.0123456789eE") == 0 || strpbrk (text, "xX") != NULL)
    return FALSE;
  number = g_ascii_strtod (text, &end);
  if (end == text)
    return FALSE;
  if (bytes && *end != '\0')
    {
      double factor = byte_suffix (end + strspn (end, " "));

      if (factor == 0)
        return FALSE;
      number *= factor;
      end = (char *)"";
    }
  if (*end != '\0' || !isfinite (number) || (whole && number != floor (number)))
    return FALSE;
  *value = number;
  return TRUE;
}

static gboolean
check_range (const PlumbField *field, double number, char **message, char **remedy)
{
  gboolean open = (field->flags & PLUMB_FIELD_MIN_OPEN) != 0;
  g_autofree char *low = format_number (field->minimum);
  g_autofree char *high = format_number (field->maximum);

  if ((open ? number > field->minimum : number >= field->minimum) && number <= field->maximum)
    return TRUE;
  *message = g_strdup ("the number is out of range");
  if (field->maximum >= 9007199254740992.0)
    *remedy = g_strdup_printf ("use a number %s %s", open ? "above" : "of at least", low);
  else
    *remedy = g_strdup_printf ("use a number %s %s and at most %s", open ? "above" : "of at least",
                               low, high);
  return FALSE;
}

static gboolean
check_number (
    const PlumbField *field, const char *value, char **normal, char **message, char **remedy)
{
  gboolean whole = field->type == PLUMB_FIELD_INTEGER;
  double number;

  if (!plumb_parse_number (value, whole, g_strcmp0 (field->unit, "bytes") == 0, &number))
    {
      *message = g_strdup (whole ? "this is not a whole number" : "this is not a finite number");
      *remedy
          = g_strdup (whole ? "write digits alone, like 128" : "write a number like 0.5 or 1e-6");
      return FALSE;
    }
  if (!check_range (field, number, message, remedy))
    return FALSE;
  /* A real keeps its spelling: 1e-6 is what a person wrote and wants to see. */
  *normal = whole ? g_strdup_printf ("%.0f", number) : g_strdup (value);
  return TRUE;
}

static gboolean
check_boolean (const char *value, char **normal, char **message, char **remedy)
{
  static const char *const yes[] = { "yes", "true", "on", "1", NULL };
  static const char *const no[] = { "no", "false", "off", "0", NULL };
  g_autofree char *lower = g_ascii_strdown (value, -1);

  if (g_strv_contains (yes, lower) || g_strv_contains (no, lower))
    {
      *normal = g_strdup (g_strv_contains (yes, lower) ? "yes" : "no");
      return TRUE;
    }
  *message = g_strdup ("this is neither yes nor no");
  *remedy = g_strdup ("write yes or no");
  return FALSE;
}

static gboolean
check_choice (const PlumbField *field, const char *value, char **message, char **remedy)
{
  g_autofree char *all = NULL;
  const char *nearest;

  if (g_strv_contains (field->choices, value))
    return TRUE;
  nearest = plumb_nearest_word (value, field->choices, g_strv_length ((char **)field->choices));
  all = g_strjoinv (", ", (char **)field->choices);
  *message = g_strdup ("there is no such choice");
  if (nearest != NULL)
    *remedy = g_strdup_printf ("did you mean %s? The choices are: %s", nearest, all);
  else
    *remedy = g_strdup_printf ("choose one of: %s", all);
  return FALSE;
}

static gboolean
check_text (const PlumbField *field, const char *value, char **message, char **remedy)
{
  glong length;

  if (!g_utf8_validate (value, -1, NULL))
    {
      *message = g_strdup ("the text is not valid UTF-8");
      *remedy = g_strdup ("save the file as UTF-8");
      return FALSE;
    }
  length = g_utf8_strlen (value, -1);
  if (length >= field->minimum && length <= field->maximum)
    return TRUE;
  *message = g_strdup (length == 0 ? "the text is empty" : "the text is too long");
  *remedy
      = g_strdup_printf ("use between %.0f and %.0f characters", field->minimum, field->maximum);
  return FALSE;
}

static gboolean
check_list (const PlumbField *field, const char *value, char **message, char **remedy)
{
  g_auto (GStrv) items = plumb_list_split (value);
  gsize n = g_strv_length (items);

  if (n > LONGEST_LIST)
    {
      *message = g_strdup_printf ("the list has %" G_GSIZE_FORMAT " entries", n);
      *remedy = g_strdup_printf ("use at most %d", LONGEST_LIST);
      return FALSE;
    }
  if (field->type == PLUMB_FIELD_REALS && n != 2)
    {
      *message = g_strdup ("this is not a pair of numbers");
      *remedy = g_strdup_printf ("write two numbers with a comma, like %s", field->standard);
      return FALSE;
    }
  for (gsize i = 0; i < n; i++)
    {
      double weight;
      g_autofree char *bare = plumb_spec_split_weight (items[i], &weight);
      g_autofree char *ignored = NULL;
      gboolean fine;

      if (field->type == PLUMB_FIELD_REALS)
        fine = check_number (field, items[i], &ignored, message, remedy);
      else if (field->choices != NULL)
        fine = check_choice (field, bare, message, remedy);
      else
        fine = check_text (field, items[i], message, remedy);
      if (!fine)
        return FALSE;
    }
  return TRUE;
}

gboolean
plumb_field_check (
    const PlumbField *field, const char *value, char **normal, char **message, char **remedy)
{
  g_autofree char *spelling = NULL, *why = NULL, *what = NULL;
  gboolean fine = TRUE;

  if (((field->flags & PLUMB_FIELD_AUTO) && g_str_equal (value, "auto"))
      || ((field->flags & PLUMB_FIELD_OFF) && g_str_equal (value, "off")))
    fine = TRUE;
  else
    switch (field->type)
      {
      case PLUMB_FIELD_INTEGER:
      case PLUMB_FIELD_REAL:
        fine = check_number (field, value, &spelling, &why, &what);
        break;
      case PLUMB_FIELD_BOOLEAN:
        fine = check_boolean (value, &spelling, &why, &what);
        break;
      case PLUMB_FIELD_CHOICE:
        fine = check_choice (field, value, &why, &what);
        break;
      case PLUMB_FIELD_TEXT:
      case PLUMB_FIELD_PATH:
        fine = check_text (field, value, &why, &what);
        break;
      case PLUMB_FIELD_TEXTS:
      case PLUMB_FIELD_PATHS:
      case PLUMB_FIELD_REALS:
        fine = check_list (field, value, &why, &what);
        break;
      }
  if (fine && normal != NULL)
    *normal = spelling != NULL ? g_steal_pointer (&spelling) : g_strdup (value);
  if (!fine && message != NULL)
    *message = g_steal_pointer (&why);
  if (!fine && remedy != NULL)
    *remedy = g_steal_pointer (&what);
  return fine;
}
