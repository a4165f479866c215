/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/model/device.h"

PlumbDevice *
plumb_device_open (const char *name, gsize workspace, GError **error)
{
  if (g_strcmp0 (name, "cpu") != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "device %s is not known; use cpu", name);
      return NULL;
    }
  PlumbDevice *device = g_new0 (PlumbDevice, 1);
  device->ops = dev_cpu ();
  char message[256] = "";
  if (device->ops->open (0, workspace, &device->context, message, sizeof message))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "device %s: %s", name, message);
      g_free (device);
      return NULL;
    }
  return device;
}

void
plumb_device_close (PlumbDevice *device)
{
  if (!device)
    return;
  device->ops->close (device->context);
  g_free (device);
}

gboolean
plumb_device_check (PlumbDevice *device, GError **error)
{
  char message[256] = "";
  int status = device->ops->status (device->context, message, sizeof message);
  if (status == DEV_OK)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "device %s: %s", device->ops->name, message);
  return FALSE;
}

struct dev_arena *
plumb_device_allocate (PlumbDevice *device, gsize bytes, const char *what, GError **error)
{
  struct dev_arena *arena = device->ops->arena_reserve (device->context, bytes);
  if (arena && device->ops->arena_commit (arena, 0, bytes) == DEV_OK)
    return arena;
  device->ops->arena_free (arena);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "out of memory: %.1f MB for %s on device %s; lower train.tokens_per_micro_batch or "
               "rollout.kv_memory", bytes / 1e6, what, device->ops->name);
  return NULL;
}
