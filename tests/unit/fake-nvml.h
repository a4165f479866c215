/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct memory;

int nvmlInit_v2 (void);
int nvmlShutdown (void);
int nvmlDeviceGetHandleByIndex_v2 (unsigned index, void **device);
int nvmlDeviceGetHandleByUUID (const char *uuid, void **device);
int nvmlDeviceGetUtilizationRates (void *device, unsigned rates[2]);
int nvmlDeviceGetMemoryInfo (void *device, struct memory *memory);
int nvmlDeviceGetPowerUsage (void *device, unsigned *milliwatts);
int nvmlDeviceGetTemperature (void *device, int sensor, unsigned *degrees);
int nvmlDeviceGetClockInfo (void *device, int which, unsigned *megahertz);
