/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which rows are taken. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/text/dataset-private.h"
#include "engine/text/shuffle.h"

#define WITHIN_SOURCES 1 /* purposes of the seed; the second is offset by the source */
#define ACROSS_SOURCES 2

struct _PlumbDataCursor
{
  PlumbDataSet *set;
  guint64 epoch, position;
  GArray *order; /* guint32 rows of `epoch` */
};

/* The rows that one source gives to an epoch: all of them, a part, or some several times. */
static void
append_share (PlumbDataCursor *cursor, guint source, gsize first, gsize n, gsize taken)
{
  g_autofree guint32 *rows = NULL;
  guint64 seed;

  if (plumb_data_set_shuffles (cursor->set, &seed) && taken % n != 0)
    {
      rows = g_new (guint32, n);
      for (gsize i = 0; i < n; i++)
        rows[i] = first + i;
      plumb_shuffle (
          rows, n, plumb_shuffle_key (seed, WITHIN_SOURCES + ((guint64)source << 8), cursor->epoch));
    }
  for (gsize i = 0; i < taken; i++)
    {
      guint32 row = rows != NULL ? rows[i % n] : first + i % n;

      g_array_append_val (cursor->order, row);
    }
}

static void
make_order (PlumbDataCursor *cursor)
{
  gsize first, n, taken;
  guint64 seed;

  g_array_set_size (cursor->order, plumb_data_set_epoch_rows (cursor->set)); /* grows once */
  g_array_set_size (cursor->order, 0);
  for (guint source = 0; plumb_data_set_share (cursor->set, source, &first, &n, &taken); source++)
    if (n > 0)
      append_share (cursor, source, first, n, taken);
  if (plumb_data_set_shuffles (cursor->set, &seed))
    plumb_shuffle ((gpointer)cursor->order->data, cursor->order->len,
                   plumb_shuffle_key (seed, ACROSS_SOURCES, cursor->epoch));
}

gsize
plumb_data_set_epoch_rows (PlumbDataSet *set)
{
  gsize first, n, taken, total = 0;

  for (guint source = 0; plumb_data_set_share (set, source, &first, &n, &taken); source++)
    total += taken;
  return total;
}

PlumbDataCursor *
plumb_data_cursor_new (PlumbDataSet *set)
{
  PlumbDataCursor *cursor = g_new0 (PlumbDataCursor, 1);

  cursor->set = plumb_data_set_ref (set);
  cursor->order = g_array_new (FALSE, FALSE, sizeof (guint32));
  make_order (cursor);
  return cursor;
}

void
plumb_data_cursor_free (PlumbDataCursor *cursor)
{
  plumb_data_set_unref (cursor->set);
  g_array_unref (cursor->order);
  g_free (cursor);
}

gsize
plumb_data_cursor_next (PlumbDataCursor *cursor)
{
  /* Rows that turn out to be of no use are passed over; a position counts them too. */
  for (gsize tries = 0;; tries++)
    {
      gsize row;

      if (cursor->position == cursor->order->len)
        {
          cursor->epoch++;
          cursor->position = 0;
          make_order (cursor);
        }
      row = g_array_index (cursor->order, guint32, cursor->position++);
      if (tries >= cursor->order->len || plumb_data_set_is_usable (cursor->set, row))
        return row;
    }
}

guint64
plumb_data_cursor_epoch (PlumbDataCursor *cursor)
{
  return cursor->epoch;
}

guint64
plumb_data_cursor_position (PlumbDataCursor *cursor)
{
  return cursor->position;
}

gboolean
plumb_data_cursor_seek (PlumbDataCursor *cursor, guint64 epoch, guint64 position)
{
  if (position > cursor->order->len)
    return FALSE;
  cursor->epoch = epoch;
  cursor->position = position;
  make_order (cursor);
  return TRUE;
}
