/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "app/reward-options-row.h"

struct _PlumbRewardOptionsRow
{
  AdwPreferencesRow parent_instance;

  GtkTextView *text_view;
  GtkLabel *problem;
  PlumbSpec *spec;
};

enum
{
  CHANGED,
  N_SIGNALS,
};
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (PlumbRewardOptionsRow, plumb_reward_options_row, ADW_TYPE_PREFERENCES_ROW)

static char *
options_text (PlumbSpec *spec)
{
  g_auto (GStrv) functions = plumb_spec_get_list (spec, "reward.functions");
  double weight;
  g_autoptr (GString) text = g_string_new (NULL);

  for (gsize i = 0; functions[i] != NULL; i++)
    {
      g_autofree char *name = plumb_spec_split_weight (functions[i], &weight);
      g_auto (GStrv) options = plumb_spec_list_reward_options (spec, name);

      for (gsize k = 0; options[k] != NULL; k++)
        g_string_append_printf (text, "%s%s.%s = %s", text->len > 0 ? "\n" : "", name, options[k],
                                plumb_spec_get_reward_option (spec, name, options[k]));
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
clear_options (PlumbSpec *spec)
{
  g_auto (GStrv) functions = plumb_spec_get_list (spec, "reward.functions");
  double weight;

  for (gsize i = 0; functions[i] != NULL; i++)
    {
      g_autofree char *name = plumb_spec_split_weight (functions[i], &weight);
      g_auto (GStrv) options = plumb_spec_list_reward_options (spec, name);

      for (gsize k = 0; options[k] != NULL; k++)
        {
          g_autofree char *key = g_strdup_printf ("reward.%s.%s", name, options[k]);

          plumb_spec_unset (spec, key);
        }
    }
}

/* FALSE where a line is no "name.option = value". */
static gboolean
take_line (PlumbSpec *spec, const char *line)
{
  g_autofree char *copy = g_strdup (line);
  char *equals = strchr (copy, '='), *dot;

  if (*g_strstrip (copy) == '\0')
    return TRUE;
  if (equals == NULL)
    return FALSE;
  *equals = '\0';
  g_strchomp (copy);
  dot = strchr (copy, '.');
  if (dot == NULL || dot == copy || dot[1] == '\0')
    return FALSE;
  *dot = '\0';
  return plumb_spec_set_reward_option (spec, copy, dot + 1, g_strstrip (equals + 1), NULL);
}

static void
changed_cb (PlumbRewardOptionsRow *self)
{
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  gboolean good = TRUE;

  g_object_get (gtk_text_view_get_buffer (self->text_view), "text", &text, NULL);
  lines = g_strsplit (text, "\n", -1);
  clear_options (self->spec);
  for (gsize i = 0; lines[i] != NULL; i++)
    good = take_line (self->spec, lines[i]) && good;
  gtk_widget_set_visible (GTK_WIDGET (self->problem), !good);
  g_signal_emit (self, signals[CHANGED], 0);
}

static void
plumb_reward_options_row_dispose (GObject *object)
{
  PlumbRewardOptionsRow *self = PLUMB_REWARD_OPTIONS_ROW (object);

  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_REWARD_OPTIONS_ROW);
  g_clear_pointer (&self->spec, plumb_spec_unref);
  G_OBJECT_CLASS (plumb_reward_options_row_parent_class)->dispose (object);
}

static void
plumb_reward_options_row_class_init (PlumbRewardOptionsRowClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_reward_options_row_dispose;
  signals[CHANGED] = g_signal_new ("changed", PLUMB_TYPE_REWARD_OPTIONS_ROW, G_SIGNAL_RUN_LAST, 0,
                                   NULL, NULL, NULL, G_TYPE_NONE, 0);
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/reward-options-row.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbRewardOptionsRow, text_view);
  gtk_widget_class_bind_template_child (widget_class, PlumbRewardOptionsRow, problem);
}

static void
plumb_reward_options_row_init (PlumbRewardOptionsRow *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
}

GtkWidget *
plumb_reward_options_row_new (PlumbSpec *spec)
{
  PlumbRewardOptionsRow *self;
  g_autofree char *text = NULL;
  GtkTextBuffer *buffer;

  g_return_val_if_fail (spec != NULL, NULL);

  self = g_object_new (PLUMB_TYPE_REWARD_OPTIONS_ROW, NULL);
  self->spec = plumb_spec_ref (spec);
  text = options_text (spec);
  buffer = gtk_text_view_get_buffer (self->text_view);
  gtk_text_buffer_set_text (buffer, text, -1);
  g_signal_connect_object (buffer, "changed", G_CALLBACK (changed_cb), self, G_CONNECT_SWAPPED);
  return GTK_WIDGET (self);
}
