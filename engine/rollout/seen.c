/* SPDX-License-Identifier: Apache-2.0 */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/rollout/seen.h"

struct _PlumbSeen
{
  PlumbModel *model;
  struct dev_arena *arena;
  int samples;
  int stride;   /* words of a row */
  GArray *free; /* of int: rows */
};

PlumbSeen *
plumb_seen_new (PlumbModel *model, int samples, GError **error)
{
  g_autoptr (PlumbSeen) self = g_new0 (PlumbSeen, 1);
  self->model = model;
  self->samples = samples;
  self->stride = (model->config->vocabulary + 31) / 32;
  self->free = g_array_new (FALSE, FALSE, sizeof (int));
  gsize bytes = ((gsize) samples + 1) * self->stride * sizeof (guint32);
  self->arena = plumb_device_allocate (model->device, bytes, "the ids that samples have seen", error);
  if (!self->arena)
    return NULL;
  plumb_seen_release_all (self);
  return g_steal_pointer (&self);
}

void
plumb_seen_free (PlumbSeen *self)
{
  if (!self)
    return;
  self->model->device->ops->arena_free (self->arena);
  g_array_unref (self->free);
  g_free (self);
}

guint32 *
plumb_seen_base (PlumbSeen *self)
{
  return self->model->device->ops->arena_base (self->arena);
}

int
plumb_seen_stride (PlumbSeen *self)
{
  return self->stride;
}

int
plumb_seen_take (PlumbSeen *self, const GArray *prompt)
{
  g_assert (self->free->len > 0);
  PlumbDevice *device = self->model->device;
  int row = g_array_index (self->free, int, self->free->len - 1);
  g_autofree guint32 *bits = g_new0 (guint32, self->stride);
  g_array_set_size (self->free, self->free->len - 1);
  for (guint i = 0; i < prompt->len; i++)
    {
      gint32 id = g_array_index (prompt, gint32, i);
      if (id >= 0 && id < self->model->config->vocabulary)
        bits[id / 32] |= 1u << id % 32;
    }
  device->ops->upload (device->context, plumb_seen_base (self) + (gsize) row * self->stride, bits,
                       self->stride * sizeof (guint32));
  return row;
}

void
plumb_seen_release (PlumbSeen *self, int row)
{
  g_array_append_val (self->free, row);
}

void
plumb_seen_release_all (PlumbSeen *self)
{
  g_array_set_size (self->free, 0);
  for (int i = self->samples - 1; i >= 0; i--)
    g_array_append_val (self->free, i);
}
