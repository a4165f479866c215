/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/telemetry.h"

G_BEGIN_DECLS

/* Power, memory and load of the GPUs of a run, told as hw/HOST/DEVICE/... */
typedef struct _PlumbHardware PlumbHardware;

PlumbHardware *plumb_hardware_new (void);
void plumb_hardware_free (PlumbHardware *hardware);
/* Adds a device of this machine, once; those that are no GPU, or NULL, are left out. */
void plumb_hardware_watch (PlumbHardware *hardware, const char *device);
/* To be called often: records every few seconds. */
void plumb_hardware_tick (PlumbHardware *hardware, PlumbTelemetry *telemetry, gint64 step);

G_END_DECLS
