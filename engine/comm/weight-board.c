/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <stdatomic.h>

#include "engine/comm/checksum.h"
#include "engine/comm/weight-board.h"
#include "engine/core/error.h"

#define MAGIC 0x64726f62u /* "bord" */
#define PLACES 2
#define HEADER_BYTES 4096
#define TRIES 3 /* a writer that is two versions ahead writes where one reads */

typedef struct
{
  _Atomic guint64 serial; /* of the writing: 0 while it goes on */
  guint64 version, checksum;
} Place;

typedef struct
{
  guint32 magic;
  guint64 bytes;
  _Atomic guint64 latest; /* serial of the last complete writing; 0: none */
  Place places[PLACES];
} Header;

G_STATIC_ASSERT (sizeof (Header) <= HEADER_BYTES);

struct _PlumbWeightBoard
{
  PlumbSharedMemory *memory;
  Header *header;
  gsize bytes;
};

static gsize
memory_bytes (gsize bytes)
{
  return HEADER_BYTES + PLACES * dev_align (bytes);
}

PlumbSharedMemory *
plumb_weight_board_memory_new (gsize bytes, GError **error)
{
  PlumbSharedMemory *memory = plumb_shared_memory_new (memory_bytes (bytes), error);
  if (memory)
    {
      Header *header = plumb_shared_memory_base (memory);
      header->bytes = bytes;
      header->magic = MAGIC;
    }
  return memory;
}

PlumbWeightBoard *
plumb_weight_board_open (const char *path, gsize bytes, GError **error)
{
  g_autoptr (PlumbWeightBoard) self = g_new0 (PlumbWeightBoard, 1);
  self->bytes = bytes;
  self->memory = plumb_shared_memory_open (path, memory_bytes (bytes), error);
  if (!self->memory)
    return NULL;
  self->header = plumb_shared_memory_base (self->memory);
  if (self->header->magic == MAGIC && self->header->bytes == bytes)
    return g_steal_pointer (&self);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "%s does not hold weights of %" G_GSIZE_FORMAT " bytes: trainer and rollout have different models", path,
               bytes);
  return NULL;
}

void
plumb_weight_board_free (PlumbWeightBoard *self)
{
  if (!self)
    return;
  plumb_shared_memory_free (self->memory);
  g_free (self);
}

static char *
place_data (PlumbWeightBoard *self, guint64 serial)
{
  return (char *) self->header + HEADER_BYTES + (gsize) (serial % PLACES) * dev_align (self->bytes);
}

gboolean
plumb_weight_board_write (PlumbWeightBoard *self, PlumbDevice *device, const void *weights, guint64 version,
                          GError **error)
{
  guint64 serial = atomic_load (&self->header->latest) + 1;
  Place *place = &self->header->places[serial % PLACES];
  char *data = place_data (self, serial);
  atomic_store (&place->serial, 0);
  device->ops->download (device->context, data, weights, self->bytes);
  if (!plumb_device_check (device, error))
    return FALSE;
  place->version = version;
  place->checksum = plumb_checksum (data, self->bytes, version);
  atomic_store (&place->serial, serial);
  atomic_store (&self->header->latest, serial);
  return TRUE;
}

/* One try; the checksum is taken after the copy, of what still lies there under the same number. */
static gboolean
read_place (PlumbWeightBoard *self, PlumbDevice *device, void *weights, guint64 serial, guint64 *version)
{
  Place *place = &self->header->places[serial % PLACES];
  const char *data = place_data (self, serial);
  guint64 checksum = place->checksum;
  *version = place->version;
  if (atomic_load (&place->serial) != serial)
    return FALSE;
  device->ops->upload (device->context, weights, data, self->bytes);
  return plumb_device_check (device, NULL) && plumb_checksum (data, self->bytes, *version) == checksum
         && atomic_load (&place->serial) == serial;
}

gboolean
plumb_weight_board_read (PlumbWeightBoard *self, PlumbDevice *device, void *weights, guint64 *version, GError **error)
{
  *version = 0;
  for (int i = 0; i < TRIES; i++)
    {
      guint64 latest = atomic_load (&self->header->latest);
      if (latest > 0 && read_place (self, device, weights, latest, version))
        return TRUE;
    }
  if (plumb_device_check (device, error))
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                 "the weights of version %" G_GUINT64_FORMAT " do not have the checksum that the trainer told; nothing is "
                 "sampled with them", *version);
  return FALSE;
}
