/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/model/device.h"
#include "engine/model/gpu-monitor.h"

#define MOST_DEVICES 64

/* What the driver tells of a GPU; nothing where it tells nothing. */
static void
print_reading (const PlumbGpuReading *r)
{
  g_print ("         %.0f %% busy, %.0f W, %.0f degrees, %.2f GHz, %.1f GB in use\n", 100 * r->utilization, r->power,
           r->temperature, r->clock / 1e9, r->memory / 1e9);
}

static void
build_reading (JsonBuilder *builder, const PlumbGpuReading *r)
{
  const struct
  {
    const char *name;
    double value;
  } values[] = { { "utilization", r->utilization },
                 { "power", r->power },
                 { "temperature", r->temperature },
                 { "clock", r->clock },
                 { "memory_in_use", r->memory } };
  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    if (isfinite (values[i].value))
      {
        json_builder_set_member_name (builder, values[i].name);
        json_builder_add_double_value (builder, values[i].value);
      }
}

static void
print_device (const char *name, const struct dev_info *info, const char *attention)
{
  g_print ("%-8s %s\n         %d %s, %.1f of %.1f GB free, bf16 products %s, products by %s\n", name, info->name,
           info->cores, info->asynchronous ? "multiprocessors" : "threads", info->memory_available / 1e9,
           info->memory_total / 1e9, info->native_bf16 ? "in hardware" : "emulated", info->matmul_path);
  if (*attention)
    g_print ("         attention of whole sequences by %s\n", attention);
}

static void
build_device (JsonBuilder *builder, const char *name, const struct dev_info *info, const char *attention,
              const PlumbGpuReading *reading)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "device");
  json_builder_add_string_value (builder, name);
  json_builder_set_member_name (builder, "name");
  json_builder_add_string_value (builder, info->name);
  json_builder_set_member_name (builder, "cores");
  json_builder_add_int_value (builder, info->cores);
  json_builder_set_member_name (builder, "memory_total");
  json_builder_add_int_value (builder, (gint64) info->memory_total);
  json_builder_set_member_name (builder, "memory_available");
  json_builder_add_int_value (builder, (gint64) info->memory_available);
  json_builder_set_member_name (builder, "native_bf16");
  json_builder_add_boolean_value (builder, info->native_bf16);
  json_builder_set_member_name (builder, "products");
  json_builder_add_string_value (builder, info->matmul_path);
  json_builder_set_member_name (builder, "attention");
  json_builder_add_string_value (builder, attention);
  if (reading)
    build_reading (builder, reading);
  json_builder_end_object (builder);
}

/* One device; FALSE with the reason where it cannot be opened. */
static gboolean
show (const char *name, PlumbGpuMonitor *monitor, JsonBuilder *builder, GError **error)
{
  PlumbGpuReading reading;
  struct dev_info info = { 0 };
  g_autoptr (PlumbDevice) device = plumb_device_open (name, 1 << 20, error);
  if (!device)
    return FALSE;
  device->ops->info (device->context, &info);
  const char *attention = device->ops->attention_path (device->context);
  gboolean told = monitor && plumb_gpu_monitor_read (monitor, name, &reading);
  if (builder)
    build_device (builder, name, &info, attention, told ? &reading : NULL);
  else
    print_device (name, &info, attention);
  if (told && !builder)
    print_reading (&reading);
  return TRUE;
}

/* devices [--json]: what models can run on, and why there is no more. */
int
plumb_cmd_devices (int argc, char **argv, GError **error)
{
  gboolean json = FALSE;
  const GOptionEntry options[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, N_ ("answer as JSON"), NULL },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, options, "", N_ ("list the devices that models can run on"), 0, 0, error))
    return PLUMB_ERROR_USAGE;
  g_autoptr (JsonBuilder) builder = json ? json_builder_new () : NULL;
  g_autoptr (GError) reason = NULL;
  g_autoptr (PlumbGpuMonitor) monitor = plumb_gpu_monitor_open ();
  if (builder)
    {
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "devices");
      json_builder_begin_array (builder);
    }
  if (!show ("cpu", NULL, builder, error))
    return PLUMB_ERROR_ENVIRONMENT;
  int found = 0;
  for (; found < MOST_DEVICES; found++)
    {
      g_autofree char *name = g_strdup_printf ("cuda:%d", found);
      g_clear_error (&reason);
      if (!show (name, monitor, builder, &reason))
        break;
    }
  const char *why = found == 0 && reason ? reason->message : NULL;
  if (!builder)
    {
      if (why)
        g_print ("no GPU: %s\n", why);
      return 0;
    }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "no_gpu");
  json_builder_add_string_value (builder, why ? why : "");
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  plumb_command_print_json (root, FALSE);
  return 0;
}
