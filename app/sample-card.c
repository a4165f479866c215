/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <math.h>

#include "app/plot-format.h"
#include "app/sample-card.h"

struct _PlumbSampleCard
{
  GtkBox parent_instance;

  GtkLabel *reward;
  GtkLabel *facts;
  GtkLabel *prompt;
  GtkLabel *response;
};

G_DEFINE_FINAL_TYPE (PlumbSampleCard, plumb_sample_card, GTK_TYPE_BOX)

const char *
plumb_sample_finish_text (const PlumbSample *sample)
{
  if (g_strcmp0 (sample->finish, "length") == 0)
    return _ ("cut at the limit");
  if (g_strcmp0 (sample->finish, "eos") == 0)
    return _ ("ended by itself");
  if (g_strcmp0 (sample->finish, "stop") == 0)
    return _ ("stopped at a stop text");
  return sample->finish != NULL ? sample->finish : "";
}

static void
append_fact (GString *facts, const char *text)
{
  if (*text != '\0')
    g_string_append_printf (facts, "%s%s", facts->len > 0 ? " · " : "", text);
}

static char *
format_facts (const PlumbSample *sample)
{
  g_autoptr (GString) facts = g_string_new (NULL);

  for (gsize i = 0; i < sample->n_parts && sample->n_parts > 1; i++)
    {
      g_autofree char *value = plumb_format_value (sample->part_values[i], "");
      g_autofree char *part = g_strdup_printf ("%s %s", sample->part_names[i],
                                               isnan (sample->part_values[i]) ? _ ("failed") : value);

      append_fact (facts, part);
    }
  if (isfinite (sample->advantage))
    {
      g_autofree char *advantage = g_strdup_printf (_ ("advantage %+.3g"), sample->advantage);

      append_fact (facts, advantage);
    }
  if (sample->response_ids != NULL)
    {
      guint n = g_bytes_get_size (sample->response_ids) / sizeof (gint32);
      g_autofree char *tokens = g_strdup_printf (ngettext ("%u token", "%u tokens", n), n);

      append_fact (facts, tokens);
    }
  append_fact (facts, plumb_sample_finish_text (sample));
  if (sample->failed && sample->reason != NULL)
    append_fact (facts, sample->reason);
  return g_string_free (g_steal_pointer (&facts), FALSE);
}

static void
show_reward (PlumbSampleCard *self, const PlumbSample *sample)
{
  g_autofree char *reward = NULL;

  if (sample->failed)
    reward = g_strdup (_ ("failed"));
  else
    reward = g_strdup_printf ("%.3g", sample->reward);
  gtk_label_set_text (self->reward, reward);
  gtk_widget_add_css_class (GTK_WIDGET (self->reward),
                            sample->failed ? "warning" : sample->reward > 0 ? "success" : "dim-label");
  gtk_widget_set_tooltip_text (GTK_WIDGET (self->reward), _ ("Reward"));
}

static void
plumb_sample_card_dispose (GObject *object)
{
  gtk_widget_dispose_template (GTK_WIDGET (object), PLUMB_TYPE_SAMPLE_CARD);
  G_OBJECT_CLASS (plumb_sample_card_parent_class)->dispose (object);
}

static void
plumb_sample_card_class_init (PlumbSampleCardClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_sample_card_dispose;
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/sample-card.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleCard, reward);
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleCard, facts);
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleCard, prompt);
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleCard, response);
}

static void
plumb_sample_card_init (PlumbSampleCard *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
}

/* Labels lay out their whole text even when they show four lines of it. */
static char *
shorten (const char *text, glong limit)
{
  g_autofree char *start = NULL;

  if (text == NULL)
    return g_strdup ("");
  if (g_utf8_strlen (text, -1) <= limit)
    return g_strdup (text);
  start = g_utf8_substring (text, 0, limit);
  return g_strconcat (start, "…", NULL);
}

GtkWidget *
plumb_sample_card_new (const PlumbSample *sample, gboolean brief)
{
  PlumbSampleCard *self;
  g_autofree char *facts = NULL, *prompt = NULL, *response = NULL;

  g_return_val_if_fail (sample != NULL, NULL);

  self = g_object_new (PLUMB_TYPE_SAMPLE_CARD, NULL);
  show_reward (self, sample);
  facts = format_facts (sample);
  gtk_label_set_text (self->facts, facts);
  prompt = shorten (sample->prompt_text, 300);
  response = shorten (sample->response_text, brief ? 400 : 20000);
  g_strchomp (response);
  gtk_label_set_text (self->prompt, prompt);
  gtk_label_set_text (self->response, *response != '\0' ? response : _ ("(empty)"));
  gtk_widget_set_visible (GTK_WIDGET (self->prompt), brief);
  if (brief)
    {
      gtk_label_set_lines (self->response, 4);
      gtk_label_set_ellipsize (self->response, PANGO_ELLIPSIZE_END);
      gtk_label_set_selectable (self->response, FALSE);
    }
  return GTK_WIDGET (self);
}
