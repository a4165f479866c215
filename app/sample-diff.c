/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <glib/gi18n.h>

#include "app/background.h"
#include "app/large-window.h"
#include "app/sample-card.h"
#include "app/sample-diff.h"
#include "app/text-diff.h"

#define LONGEST 20000 /* characters of each text: a label lays out all of them */

/* What the search came from: the page may have moved on when it ends. */
typedef struct
{
  GtkWidget *from;
  gint64 step;
  char *prompt, *text, *reward;
} Query;

static void
query_free (Query *self)
{
  g_object_unref (self->from);
  g_free (self->prompt);
  g_free (self->text);
  g_free (self->reward);
  g_free (self);
}

static char *
tidy (const char *text)
{
  char *valid = g_utf8_make_valid (text != NULL ? text : "", -1);

  if (g_utf8_strlen (valid, -1) > LONGEST)
    *g_utf8_offset_to_pointer (valid, LONGEST) = '\0';
  return g_strchomp (valid);
}

char *
plumb_sample_diff_markup (const char *old_text, const char *new_text)
{
  static const char *const before[] = { "", "<span alpha=\"60%\" strikethrough=\"true\">",
                                        "<span weight=\"bold\" underline=\"single\">" };
  g_autofree char *old_tidy = tidy (old_text), *new_tidy = tidy (new_text);
  g_autoptr (GArray) pieces = plumb_text_diff (old_tidy, new_tidy);
  GString *markup = g_string_new (NULL);

  for (guint i = 0; i < pieces->len; i++)
    {
      const PlumbDiffPiece *piece = &g_array_index (pieces, PlumbDiffPiece, i);
      g_autofree char *escaped = g_markup_escape_text (piece->text, piece->length);

      g_string_append_printf (markup, "%s%s%s", before[piece->kind], escaped,
                              piece->kind != PLUMB_DIFF_SAME ? "</span>" : "");
    }
  return g_string_free (markup, FALSE);
}

static GtkWidget *
new_label (const char *text, const char *style)
{
  GtkWidget *label = plumb_sample_label_new (text, style);

  gtk_label_set_selectable (GTK_LABEL (label), TRUE);
  return label;
}

static void
show (const Query *query, const PlumbSample *earlier)
{
  GtkWidget *scrolled = gtk_scrolled_window_new ();
  GtkWidget *box = gtk_box_new (GTK_ORIENTATION_VERTICAL, 12);
  GtkWidget *diff = new_label (NULL, "monospace");
  g_autofree char *old_reward = plumb_sample_reward_text (earlier);
  g_autofree char *facts = NULL, *title = NULL;
  g_autofree char *markup = plumb_sample_diff_markup (earlier->response_text, query->text);

  title = g_strdup_printf (_ ("Step %d against Step %d"), (int)query->step, (int)earlier->step);
  if (g_strcmp0 (earlier->response_text, query->text) == 0)
    facts = g_strdup_printf (_ ("Reward %s, then %s. The answer is the same."), old_reward,
                             query->reward);
  else
    facts = g_strdup_printf (_ ("Reward %s, then %s. What is gone is struck out, what is new is "
                                "underlined."),
                             old_reward, query->reward);
  gtk_label_set_markup (GTK_LABEL (diff), markup);
  gtk_box_append (GTK_BOX (box), new_label (query->prompt, "prompt"));
  gtk_box_append (GTK_BOX (box), new_label (facts, "dim-label"));
  gtk_box_append (GTK_BOX (box), diff);
  gtk_widget_set_margin_top (box, 12);
  gtk_scrolled_window_set_policy (GTK_SCROLLED_WINDOW (scrolled), GTK_POLICY_NEVER,
                                  GTK_POLICY_AUTOMATIC);
  gtk_scrolled_window_set_child (GTK_SCROLLED_WINDOW (scrolled), box);
  plumb_large_window_present (scrolled, title, GTK_WINDOW (gtk_widget_get_root (query->from)));
}

static void
found_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Query *query = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSample) earlier = plumb_sample_find_earlier_finish (result, &error);

  if (GTK_IS_WINDOW (gtk_widget_get_root (query->from)))
    {
      if (earlier != NULL)
        show (query, earlier);
      else
        gtk_widget_activate_action (
            query->from, "win.show-message", "s",
            error != NULL ? error->message : _ ("No earlier step kept an answer to this prompt"));
    }
  query_free (query);
}

void
plumb_sample_diff_show (GtkWidget *from, PlumbRun *run, const PlumbSample *sample)
{
  Query *query;

  g_return_if_fail (GTK_IS_WIDGET (from) && PLUMB_IS_RUN (run) && sample != NULL);

  query = g_new0 (Query, 1);
  query->from = g_object_ref (from);
  query->step = sample->step;
  query->prompt = tidy (sample->prompt_text);
  query->text = g_strdup (sample->response_text);
  query->reward = plumb_sample_reward_text (sample);
  plumb_sample_find_earlier_async (run, sample, NULL, found_cb, query);
}
