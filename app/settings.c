/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "app/application.h"
#include "app/settings.h"

GSettings *
plumb_settings_get (void)
{
  static GSettings *settings;
  GSettingsSchemaSource *source = g_settings_schema_source_get_default ();
  g_autoptr (GSettingsSchema) schema = NULL;

  if (settings != NULL || source == NULL)
    return settings;
  schema = g_settings_schema_source_lookup (source, PLUMB_APPLICATION_ID, TRUE);
  if (schema != NULL)
    settings = g_settings_new (PLUMB_APPLICATION_ID);
  return settings;
}
