/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/comm/shared-memory.h"
#include "engine/core/error.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct _PlumbSharedMemory
{
  int file;
  void *base;
  gsize size;
  char *path;
};

static PlumbSharedMemory *
fail (const char *what, GError **error)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "shared memory between workers: %s: %s", what,
               g_strerror (errno));
  return NULL;
}

static gboolean
map (PlumbSharedMemory *self)
{
  self->base = mmap (NULL, self->size, PROT_READ | PROT_WRITE, MAP_SHARED, self->file, 0);
  if (self->base == MAP_FAILED)
    self->base = NULL;
  return self->base != NULL;
}

PlumbSharedMemory *
plumb_shared_memory_new (gsize bytes, GError **error)
{
  g_autoptr (PlumbSharedMemory) self = g_new0 (PlumbSharedMemory, 1);
  self->size = MAX (bytes, 1);
  self->file = memfd_create ("plumbline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (self->file < 0)
    return fail ("cannot be made", error);
  /* Nobody can cut it under a process that reads it. */
  if (ftruncate (self->file, (off_t) self->size) != 0 || fcntl (self->file, F_ADD_SEALS, SEALS) != 0)
    return fail ("cannot get its size", error);
  if (!map (self))
    return fail ("cannot be mapped", error);
  self->path = g_strdup_printf ("/proc/%d/fd/%d", (int) getpid (), self->file);
  return g_steal_pointer (&self);
}

PlumbSharedMemory *
plumb_shared_memory_open (const char *path, gsize least, GError **error)
{
  g_autoptr (PlumbSharedMemory) self = g_new0 (PlumbSharedMemory, 1);
  struct stat info;
  self->file = open (path, O_RDWR | O_CLOEXEC);
  if (self->file < 0 || fstat (self->file, &info) != 0)
    return fail ("cannot be opened", error);
  int seals = fcntl (self->file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || info.st_size <= 0 || (guint64) info.st_size < least)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s is not the memory that workers share", path);
      return NULL;
    }
  self->size = (gsize) info.st_size;
  if (!map (self))
    return fail ("cannot be mapped", error);
  self->path = g_strdup (path);
  return g_steal_pointer (&self);
}

void
plumb_shared_memory_free (PlumbSharedMemory *self)
{
  if (!self)
    return;
  if (self->base)
    munmap (self->base, self->size);
  if (self->file >= 0)
    close (self->file);
  g_free (self->path);
  g_free (self);
}

void *
plumb_shared_memory_base (PlumbSharedMemory *self)
{
  return self->base;
}

gsize
plumb_shared_memory_size (PlumbSharedMemory *self)
{
  return self->size;
}

const char *
plumb_shared_memory_path (PlumbSharedMemory *self)
{
  return self->path;
}
