/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <gmodule.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/model/device.h"

#define MODULE "plumbline-cuda.so"

/* Folders where the module may be: told by the environment, beside the program, installed, in the build. */
static GPtrArray *
list_folders (void)
{
  GPtrArray *folders = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  const char *told = g_getenv ("PLUMB_MODULE_DIR");
  if (told)
    g_ptr_array_add (folders, g_strdup (told));
  if (program)
    g_ptr_array_add (folders, g_path_get_dirname (program));
  g_ptr_array_add (folders, g_strdup (PLUMB_BUILD_MODULEDIR));
  g_ptr_array_add (folders, g_strdup (PLUMB_MODULEDIR));
  return folders;
}

static const struct dev_ops *
open_module (const char *path, char **reason)
{
  GModule *module = g_module_open (path, G_MODULE_BIND_LOCAL);
  dev_backend_function function = NULL;
  if (!module)
    {
      *reason = g_strdup (g_module_error ());
      return NULL;
    }
  g_module_make_resident (module);
  if (!g_module_symbol (module, "dev_backend", (gpointer *) (void *) &function))
    {
      *reason = g_strdup_printf ("%s exports no dev_backend", path);
      return NULL;
    }
  const struct dev_ops *ops = function ();
  if (ops->version == DEV_VERSION && ops->layout == DEV_LAYOUT)
    return ops;
  *reason = g_strdup_printf ("%s is of another build of Plumbline; install it together with this program", path);
  return NULL;
}

/* The table of the CUDA module, loaded once; or why there is none. */
static const struct dev_ops *
find_cuda (const char **reason)
{
  static gsize once;
  static const struct dev_ops *ops;
  static char *why;
  if (g_once_init_enter (&once))
    {
      g_autoptr (GPtrArray) folders = list_folders ();
      GModule *driver = g_module_open ("libcuda.so.1", G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
      if (driver)
        g_module_close (driver);
      else
        why = g_strdup ("this machine has no NVIDIA driver (libcuda.so.1)");
      for (guint i = 0; i < folders->len && !ops && !why; i++)
        {
          g_autofree char *path = g_build_filename (folders->pdata[i], MODULE, NULL);
          if (g_file_test (path, G_FILE_TEST_EXISTS))
            ops = open_module (path, &why);
        }
      if (!ops && !why)
        why = g_strdup ("this build of Plumbline has no CUDA module (" MODULE ")");
      g_once_init_leave (&once, 1);
    }
  *reason = why;
  return ops;
}

/* Splits a device's name into its backend's table and ordinal; NULL with the reason. */
static const struct dev_ops *
find_backend (const char *name, int *ordinal, GError **error)
{
  const char *reason = NULL;
  guint64 number = 0;
  *ordinal = 0;
  if (g_strcmp0 (name, "cpu") == 0)
    return dev_cpu ();
  gboolean cuda = g_strcmp0 (name, "cuda") == 0
                  || (name && g_str_has_prefix (name, "cuda:")
                      && g_ascii_string_to_unsigned (name + strlen ("cuda:"), 10, 0, 1023, &number, NULL));
  if (!cuda)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT,
                   "device %s is not known; use auto, cpu or cuda:N", name ? name : "(none)");
      return NULL;
    }
  *ordinal = (int) number;
  const struct dev_ops *ops = find_cuda (&reason);
  if (!ops)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "device %s: %s", name, reason);
  return ops;
}

const struct dev_ops *
plumb_device_backend (const char *name, GError **error)
{
  int ordinal;
  return find_backend (name, &ordinal, error);
}

char *
plumb_device_choose (const char *name, char **reason)
{
  if (name && !g_str_equal (name, "auto"))
    return g_strdup (name);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDevice) device = plumb_device_open ("cuda:0", 1 << 20, &error);
  if (reason)
    *reason = error ? g_strdup (error->message) : NULL;
  return g_strdup (device ? "cuda:0" : "cpu");
}

PlumbDevice *
plumb_device_open (const char *name, gsize workspace, GError **error)
{
  int ordinal;
  const struct dev_ops *ops = find_backend (name, &ordinal, error);
  if (!ops)
    return NULL;
  PlumbDevice *device = g_new0 (PlumbDevice, 1);
  device->ops = ops;
  char message[256] = "";
  if (device->ops->open (ordinal, workspace, &device->context, message, sizeof message))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "device %s: %s", name, message);
      g_free (device);
      return NULL;
    }
  struct dev_info info;
  device->ops->info (device->context, &info);
  device->asynchronous = info.asynchronous;
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

static void
set_no_memory (PlumbDevice *device, gsize bytes, const char *what, GError **error)
{
  struct dev_info info = { 0 };
  device->ops->info (device->context, &info);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "out of memory: %.1f MB for %s on device %s, which has %.1f MB free; lower "
               "train.tokens_per_micro_batch or rollout.max_running",
               bytes / 1e6, what, device->ops->name, info.memory_available / 1e6);
}

struct dev_arena *
plumb_device_allocate (PlumbDevice *device, gsize bytes, const char *what, GError **error)
{
  struct dev_arena *arena = device->ops->arena_reserve (device->context, bytes);
  if (arena && device->ops->arena_commit (arena, 0, bytes) == DEV_OK)
    return arena;
  device->ops->arena_free (arena);
  set_no_memory (device, bytes, what, error);
  return NULL;
}

void *
plumb_device_allocate_host (PlumbDevice *device, gsize bytes, const char *what, GError **error)
{
  void *memory = device->ops->host_allocate (device->context, bytes);
  if (!memory)
    g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "out of memory: %.1f MB of the host's memory for %s", bytes / 1e6,
                 what);
  return memory;
}

void
plumb_device_sleep (PlumbDevice *device, struct dev_arena *arena, gsize bytes)
{
  device->ops->status (device->context, NULL, 0); /* what is queued may still read it */
  device->ops->arena_decommit (arena, 0, bytes);
}

gboolean
plumb_device_wake (PlumbDevice *device, struct dev_arena *arena, gsize bytes, const char *what, GError **error)
{
  if (device->ops->arena_commit (arena, 0, bytes) == DEV_OK)
    return TRUE;
  set_no_memory (device, bytes, what, error);
  return FALSE;
}
