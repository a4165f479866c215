/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* What a GPU does at this moment, as its driver tells. */
typedef struct
{
  double utilization; /* share of the time in which it worked, 0 .. 1 */
  double memory;      /* bytes in use, by all programs */
  double power;       /* W */
  double temperature; /* degrees Celsius */
  double clock;       /* Hz, of the multiprocessors */
} PlumbGpuReading;

typedef struct _PlumbGpuMonitor PlumbGpuMonitor;

/* Opens NVML (libnvidia-ml.so.1), found at run time; NULL where the machine has none. */
PlumbGpuMonitor *plumb_gpu_monitor_open (void);
void plumb_gpu_monitor_close (PlumbGpuMonitor *monitor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbGpuMonitor, plumb_gpu_monitor_close)
/* Reads "cuda:N", numbered as CUDA_VISIBLE_DEVICES tells (else as the driver's list); what the driver does not tell is NaN.
 * FALSE where there is no such GPU. */
gboolean plumb_gpu_monitor_read (PlumbGpuMonitor *monitor, const char *device, PlumbGpuReading *reading);

G_END_DECLS
