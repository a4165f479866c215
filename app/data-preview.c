/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "app/accessible.h"
#include "app/data-preview.h"

#define ROWS "20"
#define LONGEST 6000     /* characters of a sequence that are laid out */
#define MOST_LEFT_OUT 50 /* rows that are named */

struct _PlumbDataPreview
{
  AdwWindow parent_instance;

  GtkStack *stack;
  AdwStatusPage *trouble;
  GtkLabel *counts;
  GtkLabel *legend;
  AdwPreferencesGroup *notes_group;
  GtkListBox *notes;
  GtkBox *rows;
  AdwPreferencesGroup *left_out_group;
  GtkListBox *left_out;

  GCancellable *loading;
};

G_DEFINE_FINAL_TYPE (PlumbDataPreview, plumb_data_preview, ADW_TYPE_WINDOW)

/* --- access that a wrong type cannot trip */

static const char *
text_of (JsonObject *object, const char *name)
{
  JsonNode *node = object != NULL ? json_object_get_member (object, name) : NULL;

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
}

static gint64
number_of (JsonObject *object, const char *name)
{
  JsonNode *node = object != NULL ? json_object_get_member (object, name) : NULL;

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_int (node) : 0;
}

static JsonObject *
object_of (JsonObject *object, const char *name)
{
  JsonNode *node = object != NULL ? json_object_get_member (object, name) : NULL;

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

static JsonArray *
list_of (JsonObject *object, const char *name)
{
  JsonNode *node = object != NULL ? json_object_get_member (object, name) : NULL;

  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

static guint
length_of (JsonArray *list)
{
  return list != NULL ? json_array_get_length (list) : 0;
}

static JsonObject *
element_of (JsonArray *list, guint i)
{
  JsonNode *node = json_array_get_element (list, i);

  return JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

/* --- rows */

static const char *
kind_title (const char *kind)
{
  static const struct
  {
    const char *kind, *title;
  } titles[] = { { "prompt", N_ ("Prompt") },
                 { "response", N_ ("Prompt and answer") },
                 { "chosen", N_ ("Chosen") },
                 { "rejected", N_ ("Rejected") },
                 { "turn", N_ ("One turn") } };

  for (gsize i = 0; i < G_N_ELEMENTS (titles); i++)
    if (g_strcmp0 (kind, titles[i].kind) == 0)
      return _ (titles[i].title);
  return kind != NULL ? kind : "";
}

/* Trained text has a tinted ground and a line below, so that it shows without colours as well. */
static void
mark (PangoAttrList *attributes, guint start, guint end)
{
  PangoAttribute *all[] = { pango_attr_background_new (0x3535, 0x8484, 0xe4e4),
                            pango_attr_background_alpha_new (0x4000),
                            pango_attr_underline_new (PANGO_UNDERLINE_SINGLE) };

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    {
      all[i]->start_index = start;
      all[i]->end_index = end;
      pango_attr_list_insert (attributes, all[i]);
    }
}

/* At most `room` characters of a text, which are taken from it. */
static void
append_clipped (GString *to, const char *text, glong *room)
{
  glong n = g_utf8_strlen (text, -1);
  const char *end = n > *room ? g_utf8_offset_to_pointer (text, *room) : text + strlen (text);

  g_string_append_len (to, text, end - text);
  *room -= MIN (n, *room);
}

static GtkWidget *
new_text (JsonArray *segments)
{
  GtkWidget *label = gtk_label_new (NULL);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (PangoAttrList) attributes = pango_attr_list_new ();
  glong room = LONGEST;

  for (guint i = 0; i < length_of (segments) && room > 0; i++)
    {
      JsonObject *segment = element_of (segments, i);
      const char *part = text_of (segment, "text");
      guint start = text->len;

      if (part == NULL)
        continue;
      append_clipped (text, part, &room);
      if (number_of (segment, "trained") != 0
          || json_object_get_boolean_member_with_default (segment, "trained", FALSE))
        mark (attributes, start, text->len);
    }
  if (room == 0)
    g_string_append (text, "…");
  gtk_label_set_text (GTK_LABEL (label), text->str);
  gtk_label_set_attributes (GTK_LABEL (label), attributes);
  gtk_label_set_wrap (GTK_LABEL (label), TRUE);
  gtk_label_set_wrap_mode (GTK_LABEL (label), PANGO_WRAP_WORD_CHAR);
  gtk_label_set_selectable (GTK_LABEL (label), TRUE);
  gtk_label_set_xalign (GTK_LABEL (label), 0);
  gtk_widget_add_css_class (label, "monospace");
  return label;
}

static GtkWidget *
new_line (const char *text, const char *style)
{
  GtkWidget *label = gtk_label_new (text);

  gtk_label_set_xalign (GTK_LABEL (label), 0);
  gtk_label_set_wrap (GTK_LABEL (label), TRUE);
  gtk_label_set_wrap_mode (GTK_LABEL (label), PANGO_WRAP_WORD_CHAR);
  gtk_widget_add_css_class (label, style);
  return label;
}

static void
add_sequence (GtkBox *card, JsonObject *sequence)
{
  gint64 tokens = number_of (sequence, "tokens"), trained = number_of (sequence, "trained_tokens");
  g_autofree char *counted
      = g_strdup_printf (g_dngettext (NULL, "%d token", "%d tokens", tokens), (int)tokens);
  g_autofree char *title = NULL;

  if (g_strcmp0 (text_of (sequence, "kind"), "prompt") == 0)
    title = g_strdup_printf ("%s · %s", kind_title ("prompt"), counted);
  else
    /* Translators: kind of text · its tokens, of which so many are trained. */
    title = g_strdup_printf (_ ("%s · %s, %d trained"), kind_title (text_of (sequence, "kind")),
                             counted, (int)trained);
  gtk_box_append (card, new_line (title, "heading"));
  gtk_box_append (card, new_text (list_of (sequence, "segments")));
}

static void
add_row (PlumbDataPreview *self, JsonObject *row)
{
  GtkWidget *card = gtk_box_new (GTK_ORIENTATION_VERTICAL, 6);
  JsonArray *sequences = list_of (row, "sequences");
  g_autofree char *file
      = text_of (row, "file") != NULL ? g_path_get_basename (text_of (row, "file")) : g_strdup ("");
  g_autofree char *place
      = g_strdup_printf (_ ("%s, line %u"), file, (guint)number_of (row, "line"));
  g_autofree char *with_label = NULL, *answer = NULL;

  if (row != NULL && json_object_has_member (row, "label"))
    with_label = g_strdup_printf ("%s · %s", place,
                                  json_object_get_boolean_member (row, "label") ? _ ("liked")
                                                                                : _ ("disliked"));
  gtk_widget_add_css_class (card, "card");
  gtk_widget_add_css_class (card, "sample-card");
  gtk_box_append (GTK_BOX (card), new_line (with_label != NULL ? with_label : place, "dim-label"));
  for (guint i = 0; i < length_of (sequences); i++)
    add_sequence (GTK_BOX (card), element_of (sequences, i));
  if (text_of (row, "answer") != NULL)
    {
      g_autoptr (GString) text = g_string_new (NULL);
      glong room = LONGEST;

      append_clipped (text, text_of (row, "answer"), &room);
      answer = g_strdup_printf (_ ("Right answer: %s"), text->str);
      gtk_box_append (GTK_BOX (card), new_line (answer, "dim-label"));
    }
  gtk_box_append (self->rows, card);
}

/* --- notes */

static void
add_problem (GtkListBox *list, JsonObject *problem)
{
  GtkWidget *row = adw_action_row_new ();
  const char *message = text_of (problem, "message"), *remedy = text_of (problem, "remedy");
  g_autofree char *title = g_markup_escape_text (message != NULL ? message : "", -1);
  g_autofree char *file
      = text_of (problem, "file") != NULL ? g_path_get_basename (text_of (problem, "file")) : NULL;
  guint line = (guint)number_of (problem, "line");
  g_autofree char *place = file != NULL && line > 0
                               ? g_strdup_printf (_ ("%s, line %u"), file, line)
                               : g_strdup (file);
  g_autofree char *detail = place != NULL && remedy != NULL
                                ? g_strdup_printf ("%s: %s", place, remedy)
                                : g_strdup (place != NULL ? place : remedy);
  g_autofree char *subtitle = detail != NULL ? g_markup_escape_text (detail, -1) : NULL;

  adw_preferences_row_set_title (ADW_PREFERENCES_ROW (row), title);
  if (subtitle != NULL)
    adw_action_row_set_subtitle (ADW_ACTION_ROW (row), subtitle);
  gtk_list_box_append (list, row);
}

static void
fill_problems (AdwPreferencesGroup *group, GtkListBox *list, JsonArray *problems, guint most)
{
  GtkListBoxRow *row;

  while ((row = gtk_list_box_get_row_at_index (list, 0)) != NULL)
    gtk_list_box_remove (list, GTK_WIDGET (row));
  for (guint i = 0; i < MIN (most, length_of (problems)); i++)
    add_problem (list, element_of (problems, i));
  gtk_widget_set_visible (GTK_WIDGET (group), length_of (problems) > 0);
}

static void
set_counts (PlumbDataPreview *self, JsonObject *counts)
{
  g_autofree char *text
      = g_strdup_printf (_ ("%d rows used, %d broken, %d too long, %d cut"),
                         (int)number_of (counts, "rows"), (int)number_of (counts, "broken"),
                         (int)number_of (counts, "dropped"), (int)number_of (counts, "truncated"));

  gtk_label_set_text (self->counts, text);
}

/* The word for what is marked, marked. */
static void
set_legend (PlumbDataPreview *self)
{
  g_autoptr (PangoAttrList) attributes = pango_attr_list_new ();
  const char *text = _ ("Marked text is trained");

  mark (attributes, 0, strlen (text));
  gtk_label_set_text (self->legend, text);
  gtk_label_set_attributes (self->legend, attributes);
}

void
plumb_data_preview_show_trouble (PlumbDataPreview *self, const char *message)
{
  g_autofree char *description = NULL;

  g_return_if_fail (PLUMB_IS_DATA_PREVIEW (self) && message != NULL);

  description = g_markup_escape_text (message, -1);
  adw_status_page_set_description (self->trouble, description);
  gtk_stack_set_visible_child_name (self->stack, "trouble");
}

void
plumb_data_preview_show (PlumbDataPreview *self, const PlumbEngineReply *reply)
{
  JsonObject *top = reply->json != NULL && JSON_NODE_HOLDS_OBJECT (reply->json)
                        ? json_node_get_object (reply->json)
                        : NULL;
  JsonArray *rows = list_of (top, "rows"), *problems = list_of (top, "problems");
  GtkWidget *child;

  g_return_if_fail (PLUMB_IS_DATA_PREVIEW (self));

  if (rows == NULL)
    {
      JsonObject *last
          = length_of (problems) > 0 ? element_of (problems, length_of (problems) - 1) : NULL;
      g_autofree char *summary = plumb_engine_reply_summary (reply);

      plumb_data_preview_show_trouble (
          self, text_of (last, "message") != NULL ? text_of (last, "message") : summary);
      return;
    }
  while ((child = gtk_widget_get_first_child (GTK_WIDGET (self->rows))) != NULL)
    gtk_box_remove (self->rows, child);
  set_counts (self, object_of (top, "counts"));
  fill_problems (self->notes_group, self->notes, list_of (top, "notes"), G_MAXUINT);
  fill_problems (self->left_out_group, self->left_out, list_of (top, "left_out"), MOST_LEFT_OUT);
  for (guint i = 0; i < length_of (rows); i++)
    add_row (self, element_of (rows, i));
  gtk_stack_set_visible_child_name (self->stack, "rows");
}

/* --- loading */

static void
stop_loading (PlumbDataPreview *self)
{
  if (self->loading != NULL)
    g_cancellable_cancel (self->loading);
  g_clear_object (&self->loading);
}

static void
loaded_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (PlumbDataPreview) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbEngineReply) reply = plumb_engine_call_finish (result, &error);

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED) || self->stack == NULL)
    return;
  if (reply == NULL)
    plumb_data_preview_show_trouble (self, error->message);
  else
    plumb_data_preview_show (self, reply);
}

void
plumb_data_preview_load (PlumbDataPreview *self, const char *spec_path)
{
  const char *arguments[] = { "preview", spec_path, "--json", "-n", ROWS, NULL };

  g_return_if_fail (PLUMB_IS_DATA_PREVIEW (self) && spec_path != NULL);

  stop_loading (self);
  self->loading = g_cancellable_new ();
  gtk_stack_set_visible_child_name (self->stack, "loading");
  plumb_engine_call_async (arguments, self->loading, loaded_cb, g_object_ref (self));
}

static void
plumb_data_preview_dispose (GObject *object)
{
  PlumbDataPreview *self = PLUMB_DATA_PREVIEW (object);

  stop_loading (self);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_DATA_PREVIEW);
  G_OBJECT_CLASS (plumb_data_preview_parent_class)->dispose (object);
}

static void
plumb_data_preview_class_init (PlumbDataPreviewClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_data_preview_dispose;
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/data-preview.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, stack);
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, trouble);
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, counts);
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, legend);
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, notes_group);
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, notes);
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, rows);
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, left_out_group);
  gtk_widget_class_bind_template_child (widget_class, PlumbDataPreview, left_out);
  gtk_widget_class_add_binding_action (widget_class, GDK_KEY_Escape, 0, "window.close", NULL);
}

static void
plumb_data_preview_init (PlumbDataPreview *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
  plumb_accessible_follow_pages (GTK_WIDGET (self->stack));
  set_legend (self);
}

PlumbDataPreview *
plumb_data_preview_new (GtkWindow *parent)
{
  return g_object_new (PLUMB_TYPE_DATA_PREVIEW, "transient-for", parent, NULL);
}
