/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "app/plot-track.h"

struct _PlumbTrack
{
  gatomicrefcount refs;
  GMutex lock;
  PlumbSeries *series;
};

PlumbTrack *
plumb_track_new (void)
{
  PlumbTrack *self = g_new0 (PlumbTrack, 1);

  g_atomic_ref_count_init (&self->refs);
  g_mutex_init (&self->lock);
  self->series = plumb_series_new ();
  return self;
}

PlumbTrack *
plumb_track_ref (PlumbTrack *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  g_atomic_ref_count_inc (&self->refs);
  return self;
}

void
plumb_track_unref (PlumbTrack *self)
{
  g_return_if_fail (self != NULL);

  if (!g_atomic_ref_count_dec (&self->refs))
    return;
  plumb_series_free (self->series);
  g_mutex_clear (&self->lock);
  g_free (self);
}

void
plumb_track_add_attempt (PlumbTrack *self, gint64 attempt, gint64 from_step)
{
  g_return_if_fail (self != NULL);

  g_mutex_lock (&self->lock);
  plumb_series_add_attempt (self->series, attempt, from_step);
  g_mutex_unlock (&self->lock);
}

void
plumb_track_add_points (PlumbTrack *self, const PlumbPoint *points, gsize n)
{
  gsize n_current;

  g_return_if_fail (self != NULL);

  g_mutex_lock (&self->lock);
  plumb_series_add_points (self->series, points, n);
  plumb_series_current (self->series,
                        &n_current); /* sorts them in now, rather than all at once later */
  g_mutex_unlock (&self->lock);
}

gboolean
plumb_track_get_last (PlumbTrack *self, PlumbPoint *last)
{
  const PlumbPoint *points;
  gsize n;

  g_return_val_if_fail (self != NULL && last != NULL, FALSE);

  g_mutex_lock (&self->lock);
  points = plumb_series_current (self->series, &n);
  if (n > 0)
    *last = points[n - 1];
  g_mutex_unlock (&self->lock);
  return n > 0;
}

PlumbPoint *
plumb_track_copy_current (PlumbTrack *self, gsize *n)
{
  PlumbPoint *copy;

  g_return_val_if_fail (self != NULL && n != NULL, NULL);

  g_mutex_lock (&self->lock);
  copy = (PlumbPoint *)plumb_series_current (self->series, n);
  copy = g_memdup2 (copy, *n * sizeof *copy);
  g_mutex_unlock (&self->lock);
  return copy;
}

PlumbPoint *
plumb_track_copy_superseded (PlumbTrack *self, gsize *n)
{
  PlumbPoint *copy;

  g_return_val_if_fail (self != NULL && n != NULL, NULL);

  g_mutex_lock (&self->lock);
  copy = (PlumbPoint *)plumb_series_superseded (self->series, n);
  copy = g_memdup2 (copy, *n * sizeof *copy);
  g_mutex_unlock (&self->lock);
  return copy;
}
