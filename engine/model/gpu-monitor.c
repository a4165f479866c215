/* SPDX-License-Identifier: Apache-2.0 */

/* Power, memory and load of GPUs by NVML. The library is looked for at run time and its few calls are declared here, so that
 * one program runs with and without it. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include <gmodule.h>

#include "engine/model/gpu-monitor.h"

typedef void *NvmlDevice;

typedef struct
{
  unsigned gpu, memory; /* percent */
} NvmlUtilization;

typedef struct
{
  unsigned long long total, free, used; /* bytes */
} NvmlMemory;

#define NVML_TEMPERATURE_GPU 0
#define NVML_CLOCK_SM 1

struct _PlumbGpuMonitor
{
  GModule *module;
  int (*init) (void);
  int (*shutdown) (void);
  int (*by_index) (unsigned, NvmlDevice *);
  int (*by_uuid) (const char *, NvmlDevice *);
  int (*utilization) (NvmlDevice, NvmlUtilization *);
  int (*memory) (NvmlDevice, NvmlMemory *);
  int (*power) (NvmlDevice, unsigned *milliwatts);
  int (*temperature) (NvmlDevice, int sensor, unsigned *);
  int (*clock) (NvmlDevice, int which, unsigned *megahertz);
};

PlumbGpuMonitor *
plumb_gpu_monitor_open (void)
{
  PlumbGpuMonitor *self = g_new0 (PlumbGpuMonitor, 1);
  const struct
  {
    const char *name;
    gpointer function;
  } calls[] = {
    { "nvmlInit_v2", &self->init },
    { "nvmlShutdown", &self->shutdown },
    { "nvmlDeviceGetHandleByIndex_v2", &self->by_index },
    { "nvmlDeviceGetHandleByUUID", &self->by_uuid },
    { "nvmlDeviceGetUtilizationRates", &self->utilization },
    { "nvmlDeviceGetMemoryInfo", &self->memory },
    { "nvmlDeviceGetPowerUsage", &self->power },
    { "nvmlDeviceGetTemperature", &self->temperature },
    { "nvmlDeviceGetClockInfo", &self->clock },
  };
  self->module = g_module_open ("libnvidia-ml.so.1", G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
  gboolean complete = self->module != NULL;
  for (gsize i = 0; complete && i < G_N_ELEMENTS (calls); i++)
    complete = g_module_symbol (self->module, calls[i].name, calls[i].function);
  if (complete && self->init () == 0)
    return self;
  if (self->module)
    g_module_close (self->module);
  g_free (self);
  return NULL;
}

void
plumb_gpu_monitor_close (PlumbGpuMonitor *self)
{
  if (!self)
    return;
  self->shutdown ();
  g_module_close (self->module);
  g_free (self);
}

/* The driver's device of a CUDA number. */
static gboolean
find_device (PlumbGpuMonitor *self, guint64 number, NvmlDevice *device)
{
  const char *visible = g_getenv ("CUDA_VISIBLE_DEVICES");
  guint64 index = number;
  if (visible && *visible)
    {
      g_auto (GStrv) names = g_strsplit (visible, ",", -1);
      if (number >= g_strv_length (names))
        return FALSE;
      const char *name = g_strstrip (names[number]);
      if (g_str_has_prefix (name, "GPU-"))
        return self->by_uuid (name, device) == 0;
      if (!g_ascii_string_to_unsigned (name, 10, 0, 1023, &index, NULL))
        return FALSE;
    }
  return self->by_index ((unsigned) index, device) == 0;
}

gboolean
plumb_gpu_monitor_read (PlumbGpuMonitor *self, const char *device, PlumbGpuReading *reading)
{
  guint64 number = 0;
  NvmlDevice found;
  NvmlUtilization utilization;
  NvmlMemory memory;
  unsigned value;
  if (!g_str_has_prefix (device, "cuda:")
      || !g_ascii_string_to_unsigned (device + strlen ("cuda:"), 10, 0, 1023, &number, NULL)
      || !find_device (self, number, &found))
    return FALSE;
  reading->utilization = self->utilization (found, &utilization) == 0 ? utilization.gpu / 100.0 : NAN;
  reading->memory = self->memory (found, &memory) == 0 ? (double) memory.used : NAN;
  reading->power = self->power (found, &value) == 0 ? value / 1000.0 : NAN;
  reading->temperature = self->temperature (found, NVML_TEMPERATURE_GPU, &value) == 0 ? value : NAN;
  reading->clock = self->clock (found, NVML_CLOCK_SM, &value) == 0 ? value * 1e6 : NAN;
  return TRUE;
}
