/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <math.h>

#include "app/plot-format.h"
#include "app/sample-card.h"

#define LONGEST 20000 /* characters that are shown: a label lays out all of them */

struct _PlumbSampleCard
{
  GtkBox parent_instance;

  GtkLabel *reward;
  GtkLabel *facts;
  GtkLabel *response;
};

G_DEFINE_FINAL_TYPE (PlumbSampleCard, plumb_sample_card, GTK_TYPE_BOX)

GtkWidget *
plumb_sample_label_new (const char *text, const char *style)
{
  GtkWidget *label = gtk_label_new (text);

  gtk_label_set_xalign (GTK_LABEL (label), 0);
  gtk_label_set_wrap (GTK_LABEL (label), TRUE);
  gtk_label_set_wrap_mode (GTK_LABEL (label), PANGO_WRAP_WORD_CHAR);
  if (style != NULL)
    gtk_widget_add_css_class (label, style);
  return label;
}

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

/* The oldest and the newest weights that sampled tokens of it. */
static char *
versions_text (const PlumbSample *sample)
{
  gsize bytes = 0;
  const gint32 *runs = g_bytes_get_data (sample->versions, &bytes);
  gint32 oldest = G_MAXINT32, newest = 0;

  for (gsize i = 1; i < bytes / sizeof (gint32); i += 2)
    if (runs[i] >= 0)
      {
        oldest = MIN (oldest, runs[i]);
        newest = MAX (newest, runs[i]);
      }
  return newest > oldest ? g_strdup_printf (_ ("weights of steps %d to %d"), oldest, newest) : g_strdup ("");
}

char *
plumb_sample_facts (const PlumbSample *sample)
{
  g_autoptr (GString) facts = g_string_new (NULL);

  for (gsize i = 0; i < sample->n_parts && sample->n_parts > 1; i++)
    {
      g_autofree char *value = plumb_format_value (sample->part_values[i], "");
      g_autofree char *part = g_strdup_printf (
          "%s %s", sample->part_names[i], isnan (sample->part_values[i]) ? _ ("failed") : value);

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
  if (sample->versions != NULL)
    {
      g_autofree char *versions = versions_text (sample);

      append_fact (facts, versions);
    }
  append_fact (facts, plumb_sample_finish_text (sample));
  if (sample->failed && sample->reason != NULL)
    append_fact (facts, sample->reason);
  return g_string_free (g_steal_pointer (&facts), FALSE);
}

char *
plumb_sample_reward_text (const PlumbSample *sample)
{
  return sample->failed ? g_strdup (_ ("failed")) : g_strdup_printf ("%.3g", sample->reward);
}

const char *
plumb_sample_reward_style (const PlumbSample *sample)
{
  return sample->failed ? "warning" : sample->reward > 0 ? "success" : "dim-label";
}

char *
plumb_sample_one_line (const char *text, glong limit)
{
  g_autofree char *start = g_utf8_make_valid (text != NULL ? text : "", -1);

  if (g_utf8_strlen (start, -1) > limit)
    *g_utf8_offset_to_pointer (start, limit) = '\0';
  g_strdelimit (start, "\n\t\r", ' ');
  return g_strdup (g_strstrip (start));
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
  gtk_widget_class_bind_template_child (widget_class, PlumbSampleCard, response);
}

static void
plumb_sample_card_init (PlumbSampleCard *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
}

GtkWidget *
plumb_sample_card_new (const PlumbSample *sample)
{
  PlumbSampleCard *self;
  g_autofree char *facts = NULL, *reward = NULL, *response = NULL;

  g_return_val_if_fail (sample != NULL, NULL);

  self = g_object_new (PLUMB_TYPE_SAMPLE_CARD, NULL);
  reward = plumb_sample_reward_text (sample);
  gtk_label_set_text (self->reward, reward);
  gtk_widget_add_css_class (GTK_WIDGET (self->reward), plumb_sample_reward_style (sample));
  facts = plumb_sample_facts (sample);
  gtk_label_set_text (self->facts, facts);
  response = g_utf8_make_valid (sample->response_text != NULL ? sample->response_text : "", -1);
  if (g_utf8_strlen (response, -1) > LONGEST)
    *g_utf8_offset_to_pointer (response, LONGEST) = '\0';
  g_strchomp (response);
  gtk_label_set_text (self->response, *response != '\0' ? response : _ ("(empty)"));
  return GTK_WIDGET (self);
}
