/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of GPUs from a library that stands for NVML: units, numbering, and what is not told. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>

#include "engine/model/gpu-monitor.h"
#include "tests/unit/fake-nvml.h"

static void
test_readings (void)
{
  PlumbGpuReading r;
  g_assert_cmpint (nvmlInit_v2 (), ==, 0); /* the library is there before it is looked for */
  g_autoptr (PlumbGpuMonitor) monitor = plumb_gpu_monitor_open ();
  g_assert_nonnull (monitor);
  g_unsetenv ("CUDA_VISIBLE_DEVICES");
  g_assert_true (plumb_gpu_monitor_read (monitor, "cuda:1", &r));
  g_assert_cmpfloat (r.utilization, ==, 0.75);
  g_assert_cmpfloat (r.memory, ==, 40);
  g_assert_cmpfloat (r.power, ==, 250.5);
  g_assert_cmpfloat (r.temperature, ==, 40);
  g_assert_cmpfloat (r.clock, ==, 1.98e9);
  g_assert_true (plumb_gpu_monitor_read (monitor, "cuda:0", &r));
  g_assert_cmpfloat (r.utilization, ==, 0.1);
  g_assert_true (isnan (r.power));
  g_assert_false (plumb_gpu_monitor_read (monitor, "cuda:2", &r));
  g_assert_false (plumb_gpu_monitor_read (monitor, "cpu", &r));
  g_assert_false (plumb_gpu_monitor_read (monitor, "cuda:x", &r));
}

/* cuda:0 is the first that is visible, by number or by name. */
static void
test_visible (void)
{
  static const char *const visible[] = { "1,0", " 1", "GPU-second" };
  PlumbGpuReading r;
  g_autoptr (PlumbGpuMonitor) monitor = plumb_gpu_monitor_open ();
  for (gsize i = 0; i < G_N_ELEMENTS (visible); i++)
    {
      g_setenv ("CUDA_VISIBLE_DEVICES", visible[i], TRUE);
      g_assert_true (plumb_gpu_monitor_read (monitor, "cuda:0", &r));
      g_assert_cmpfloat (r.utilization, ==, 0.75);
      g_assert_true (plumb_gpu_monitor_read (monitor, "cuda:1", &r) == (i == 0));
    }
  g_setenv ("CUDA_VISIBLE_DEVICES", "GPU-third", TRUE);
  g_assert_false (plumb_gpu_monitor_read (monitor, "cuda:0", &r));
  g_unsetenv ("CUDA_VISIBLE_DEVICES");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/gpu-monitor/readings", test_readings);
  g_test_add_func ("/gpu-monitor/visible", test_visible);
  return g_test_run ();
}
