/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that turn out to be of no use, or to be cut, when they are taken: the first are kept one by one until somebody
 * asks, all are counted by kind of reason. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/dataset-private.h"

#define MOST_KINDS 16
#define MOST_PLACES (1 << 20) /* rows that are remembered not to be of use */
#define LONGEST_KIND 160      /* bytes */

typedef struct
{
  char *reason;
  gsize n;
} Kind;

static void
kind_clear (gpointer kind)
{
  g_free (((Kind *)kind)->reason);
}

void
plumb_data_late_init (PlumbDataLate *late)
{
  late->fresh = plumb_problems_new ();
  late->kinds = g_array_new (FALSE, FALSE, sizeof (Kind));
  g_array_set_clear_func (late->kinds, kind_clear);
  late->places = g_hash_table_new (NULL, NULL);
}

void
plumb_data_late_clear (PlumbDataLate *late)
{
  g_ptr_array_unref (late->fresh);
  g_array_unref (late->kinds);
  g_hash_table_unref (late->places);
}

/* A reason without what differs from row to row: numbers, and what is quoted. */
static char *
kind_of (const char *message)
{
  GString *kind = g_string_new (NULL);
  const char *end;

  for (const char *at = message; *at != '\0' && kind->len < LONGEST_KIND; at++)
    if (*at == '"' && (end = strchr (at + 1, '"')) != NULL)
      {
        g_string_append (kind, "\"...\"");
        at = end;
      }
    else if (!g_ascii_isdigit (*at))
      g_string_append_c (kind, *at);
    else if (kind->len == 0 || kind->str[kind->len - 1] != '#')
      g_string_append_c (kind, '#');
  return g_string_free (kind, FALSE);
}

static void
count (PlumbDataLate *late, const char *reason)
{
  const char *name = late->kinds->len < MOST_KINDS - 1 ? reason : "other reasons";
  Kind kind;

  for (guint i = 0; i < late->kinds->len; i++)
    {
      Kind *known = &g_array_index (late->kinds, Kind, i);

      if (!g_str_equal (known->reason, reason) && !g_str_equal (known->reason, name))
        continue;
      known->n++;
      return;
    }
  kind = (Kind){ g_strdup (name), 1 };
  g_array_append_val (late->kinds, kind);
}

gboolean
plumb_data_late_knows (PlumbDataLate *late, gsize index)
{
  return g_hash_table_contains (late->places, GSIZE_TO_POINTER (index));
}

void
plumb_data_late_note (PlumbDataLate *late, gsize index, const char *file, guint line, const char *message,
                      const char *remedy, gboolean differs)
{
  g_autofree char *place = g_strdup_printf ("%s:%u: ", file, line), *kind = NULL;

  if (g_str_has_prefix (message, place))
    message += strlen (place);
  kind = differs ? kind_of (message) : g_strdup (message);
  count (late, kind);
  if (g_hash_table_size (late->places) < MOST_PLACES)
    g_hash_table_add (late->places, GSIZE_TO_POINTER (index));
  if (late->told++ < PLUMB_DATA_MOST_LATE)
    g_ptr_array_add (late->fresh, plumb_problem_new (NULL, NULL, file, line, message, remedy));
}

GPtrArray *
plumb_data_set_take_late (PlumbDataSet *set)
{
  GPtrArray *fresh;

  g_mutex_lock (&set->lock);
  fresh = g_steal_pointer (&set->late.fresh);
  set->late.fresh = plumb_problems_new ();
  g_mutex_unlock (&set->lock);
  return fresh;
}

gsize
plumb_data_set_passed_over (PlumbDataSet *set)
{
  gsize n;

  g_mutex_lock (&set->lock);
  n = set->late.passed;
  g_mutex_unlock (&set->lock);
  return n;
}

char *
plumb_data_set_describe_late (PlumbDataSet *set)
{
  GString *text = g_string_new (NULL);

  g_mutex_lock (&set->lock);
  for (guint i = 0; i < set->late.kinds->len; i++)
    {
      const Kind *kind = &g_array_index (set->late.kinds, Kind, i);

      g_string_append_printf (text, "%s%" G_GSIZE_FORMAT " x %s", i > 0 ? "; " : "", kind->n, kind->reason);
    }
  g_mutex_unlock (&set->lock);
  return g_string_free (text, text->len == 0);
}
