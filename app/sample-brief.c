/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>

#include "app/sample-brief.h"
#include "app/sample-card.h"

#define LONGEST 300 /* characters that are laid out */

struct _PlumbSampleBrief
{
  GtkBox parent_instance;

  GtkLabel *reward;
  GtkInscription *facts;
  GtkInscription *prompt;
  GtkInscription *response;
  const char *style;
};

G_DEFINE_FINAL_TYPE (PlumbSampleBrief, plumb_sample_brief, GTK_TYPE_BOX)

static void
plumb_sample_brief_dispose (GObject *object)
{
  gtk_widget_dispose_template (GTK_WIDGET (object), PLUMB_TYPE_SAMPLE_BRIEF);
  G_OBJECT_CLASS (plumb_sample_brief_parent_class)->dispose (object);
}

static void
plumb_sample_brief_class_init (PlumbSampleBriefClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_sample_brief_dispose;
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/sample-brief.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleBrief, reward);
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleBrief, facts);
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleBrief, prompt);
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleBrief, response);
}

static void
plumb_sample_brief_init (PlumbSampleBrief *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
}

GtkWidget *
plumb_sample_brief_new (void)
{
  return g_object_new (PLUMB_TYPE_SAMPLE_BRIEF, NULL);
}

/* One paragraph: line breaks would take the few lines there are. */
static void
set_text (GtkInscription *inscription, const char *text)
{
  g_autofree char *line = plumb_sample_one_line (text, LONGEST);

  gtk_inscription_set_text (inscription, *line != '\0' ? line : _ ("(empty)"));
}

void
plumb_sample_brief_set_sample (PlumbSampleBrief *self, const PlumbSample *sample)
{
  g_autofree char *facts = NULL, *reward = NULL;
  const char *style = plumb_sample_reward_style (sample);

  g_return_if_fail (PLUMB_IS_SAMPLE_BRIEF (self) && sample != NULL);

  reward = plumb_sample_reward_text (sample);
  if (g_strcmp0 (reward, gtk_label_get_text (self->reward)) != 0)
    gtk_label_set_text (self->reward, reward);
  if (self->style != NULL && self->style != style)
    gtk_widget_remove_css_class (GTK_WIDGET (self->reward), self->style);
  gtk_widget_add_css_class (GTK_WIDGET (self->reward), style);
  self->style = style;

  facts = plumb_sample_facts (sample);
  gtk_inscription_set_text (self->facts, facts);
  set_text (self->prompt, sample->prompt_text);
  set_text (self->response, sample->response_text);
}
