/* SPDX-License-Identifier: Apache-2.0 */

/* Two GPUs for test-gpu-monitor, under the name and with the calls of NVML. The first one does not tell its power. */

#include <string.h>

#include "tests/unit/fake-nvml.h"

#define FAILED 3

struct memory
{
  unsigned long long total, free, used;
};

static int places[2];

int
nvmlInit_v2 (void)
{
  return 0;
}

int
nvmlShutdown (void)
{
  return 0;
}

int
nvmlDeviceGetHandleByIndex_v2 (unsigned index, void **device)
{
  *device = index < 2 ? &places[index] : NULL;
  return index < 2 ? 0 : FAILED;
}

int
nvmlDeviceGetHandleByUUID (const char *uuid, void **device)
{
  *device = &places[1];
  return strcmp (uuid, "GPU-second") == 0 ? 0 : FAILED;
}

int
nvmlDeviceGetUtilizationRates (void *device, unsigned rates[2])
{
  rates[0] = device == &places[1] ? 75 : 10;
  rates[1] = 1;
  return 0;
}

int
nvmlDeviceGetMemoryInfo (void *device, struct memory *memory)
{
  *memory = (struct memory){ 100, 60, 40 };
  return 0;
}

int
nvmlDeviceGetPowerUsage (void *device, unsigned *milliwatts)
{
  *milliwatts = 250500;
  return device == &places[1] ? 0 : FAILED;
}

int
nvmlDeviceGetTemperature (void *device, int sensor, unsigned *degrees)
{
  *degrees = 40;
  return sensor == 0 ? 0 : FAILED;
}

int
nvmlDeviceGetClockInfo (void *device, int which, unsigned *megahertz)
{
  *megahertz = 1980;
  return which == 1 ? 0 : FAILED;
}
