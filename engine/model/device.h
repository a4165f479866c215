/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "kernels/device.h"

G_BEGIN_DECLS

/* A backend and one open context of it. */
typedef struct
{
  const struct dev_ops *ops;
  struct dev_context *context;
  gboolean asynchronous; /* dev_info's */
} PlumbDevice;

/* The table of the backend of a device's name, without opening it. */
const struct dev_ops *plumb_device_backend (const char *name, GError **error);
/* What "auto" (or NULL) means on this machine: "cuda:0" where it can be opened, else "cpu" with the reason
 * (transfer full; may be NULL). Another name stays as it is. */
char *plumb_device_choose (const char *name, char **reason);
/* Opens "cpu" or "cuda:N" with a workspace of so many bytes. A device that is unknown or not there is
 * PLUMB_ERROR_ENVIRONMENT. */
PlumbDevice *plumb_device_open (const char *name, gsize workspace, GError **error);
void plumb_device_close (PlumbDevice *device);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDevice, plumb_device_close)

/* Waits for the queue; FALSE with what went wrong. */
gboolean plumb_device_check (PlumbDevice *device, GError **error);

/* An arena with all of its bytes committed. */
struct dev_arena *plumb_device_allocate (PlumbDevice *device, gsize bytes, const char *what,
                                         GError **error);

/* Memory of the host that the device reaches, zeroed; freed by the backend's host_free. */
void *plumb_device_allocate_host (PlumbDevice *device, gsize bytes, const char *what, GError **error);

/* Gives the memory of an arena back, but for a last part of a page, and takes it again at the same addresses; what is in it
 * then is not to be relied on. */
void plumb_device_sleep (PlumbDevice *device, struct dev_arena *arena, gsize bytes);
gboolean plumb_device_wake (PlumbDevice *device, struct dev_arena *arena, gsize bytes, const char *what, GError **error);

/* Cuts an arena into aligned parts; with base NULL it only measures. */
typedef struct
{
  char *base;
  gsize used;
} PlumbCutter;

static inline void *
plumb_cut (PlumbCutter *cutter, gsize bytes)
{
  void *part = cutter->base ? cutter->base + cutter->used : NULL;
  cutter->used += dev_align (bytes);
  return part;
}

G_END_DECLS
