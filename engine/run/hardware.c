/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>

#include "engine/model/gpu-monitor.h"
#include "engine/run/hardware.h"

#define INTERVAL (5 * G_USEC_PER_SEC)

struct _PlumbHardware
{
  PlumbGpuMonitor *monitor; /* opened with the first GPU; NULL: none, or no driver that tells */
  GPtrArray *devices;       /* of char * */
  gint64 last;              /* monotonic, microseconds */
};

PlumbHardware *
plumb_hardware_new (void)
{
  PlumbHardware *self = g_new0 (PlumbHardware, 1);
  self->devices = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
plumb_hardware_free (PlumbHardware *self)
{
  if (!self)
    return;
  plumb_gpu_monitor_close (self->monitor);
  g_ptr_array_unref (self->devices);
  g_free (self);
}

void
plumb_hardware_watch (PlumbHardware *self, const char *device)
{
  if (!device || !g_str_has_prefix (device, "cuda:")
      || g_ptr_array_find_with_equal_func (self->devices, device, g_str_equal, NULL))
    return;
  g_ptr_array_add (self->devices, g_strdup (device));
  if (!self->monitor)
    self->monitor = plumb_gpu_monitor_open ();
}

static void
record (PlumbTelemetry *telemetry, gint64 step, const char *device, const PlumbGpuReading *r)
{
  const struct
  {
    const char *name;
    double value;
  } values[] = { { "utilization", r->utilization },
                 { "memory", r->memory },
                 { "power", r->power },
                 { "temperature", r->temperature },
                 { "clock", r->clock } };
  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    if (isfinite (values[i].value)) /* what the driver does not tell is not recorded */
      {
        g_autofree char *metric = g_strdup_printf ("hw/%s/%s/%s", g_get_host_name (), device, values[i].name);
        plumb_telemetry_point (telemetry, metric, step, values[i].value);
      }
}

void
plumb_hardware_tick (PlumbHardware *self, PlumbTelemetry *telemetry, gint64 step)
{
  gint64 now = g_get_monotonic_time ();
  if (!self->monitor || (self->last && now - self->last < INTERVAL))
    return;
  self->last = now;
  for (guint i = 0; i < self->devices->len; i++)
    {
      PlumbGpuReading reading;
      const char *device = g_ptr_array_index (self->devices, i);
      if (plumb_gpu_monitor_read (self->monitor, device, &reading))
        record (telemetry, step, device, &reading);
    }
}
