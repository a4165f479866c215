/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "app/pins.h"
#include "app/settings.h"

#define MOST 64

struct _PlumbPins
{
  GObject parent_instance;

  GStrv names;
};

G_DEFINE_FINAL_TYPE (PlumbPins, plumb_pins, G_TYPE_OBJECT)

enum
{
  CHANGED,
  N_SIGNALS,
};
static guint signals[N_SIGNALS];

static void
plumb_pins_finalize (GObject *object)
{
  g_strfreev (PLUMB_PINS (object)->names);
  G_OBJECT_CLASS (plumb_pins_parent_class)->finalize (object);
}

static void
plumb_pins_class_init (PlumbPinsClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = plumb_pins_finalize;
  signals[CHANGED] = g_signal_new ("changed", PLUMB_TYPE_PINS, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                   NULL, G_TYPE_NONE, 0);
}

static void
plumb_pins_init (PlumbPins *self)
{
  GSettings *settings = plumb_settings_get ();

  self->names = settings != NULL ? g_settings_get_strv (settings, "pinned") : g_new0 (char *, 1);
}

PlumbPins *
plumb_pins_get_default (void)
{
  static PlumbPins *pins;

  if (pins == NULL)
    pins = g_object_new (PLUMB_TYPE_PINS, NULL);
  return pins;
}

gboolean
plumb_pins_contain (PlumbPins *self, const char *metric)
{
  g_return_val_if_fail (PLUMB_IS_PINS (self) && metric != NULL, FALSE);

  return g_strv_contains ((const char *const *)self->names, metric);
}

void
plumb_pins_set (PlumbPins *self, const char *metric, gboolean pinned)
{
  GSettings *settings = plumb_settings_get ();
  g_autoptr (GStrvBuilder) names = NULL;

  g_return_if_fail (PLUMB_IS_PINS (self) && metric != NULL);

  if (plumb_pins_contain (self, metric) == !!pinned
      || (pinned && g_strv_length (self->names) >= MOST))
    return;
  names = g_strv_builder_new ();
  for (gsize i = 0; self->names[i] != NULL; i++)
    if (!g_str_equal (self->names[i], metric))
      g_strv_builder_add (names, self->names[i]);
  if (pinned)
    g_strv_builder_add (names, metric);
  g_strfreev (self->names);
  self->names = g_strv_builder_end (names);
  if (settings != NULL)
    g_settings_set_strv (settings, "pinned", (const char *const *)self->names);
  g_signal_emit (self, signals[CHANGED], 0);
}

const char *const *
plumb_pins_list (PlumbPins *self)
{
  g_return_val_if_fail (PLUMB_IS_PINS (self), NULL);

  return (const char *const *)self->names;
}
