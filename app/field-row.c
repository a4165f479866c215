/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "app/accessible.h"
#include "app/field-row.h"

#define SPIN_LIMIT 1e9 /* ranges beyond it have no use for buttons that add one */

struct _PlumbFieldRow
{
  AdwPreferencesRow parent_instance;

  GtkLabel *title;
  GtkLabel *help;
  GtkBox *beside;
  GtkBox *below;
  GtkButton *reset;
  GtkLabel *problem;

  PlumbSpec *spec;
  const PlumbField *field;
  GtkWidget *editor; /* GtkSwitch, GtkDropDown, GtkSpinButton, GtkEntry or GtkTextView */
  gboolean filling;  /* the editor is being filled: no change of the user's */
  gboolean fault;
  gboolean outside; /* the problem shown came from elsewhere */
};

enum
{
  CHANGED,
  N_SIGNALS,
};
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (PlumbFieldRow, plumb_field_row, ADW_TYPE_PREFERENCES_ROW)

static const char *
default_text (PlumbFieldRow *self)
{
  return plumb_field_default (self->field, plumb_spec_algorithm (self->spec));
}

/* What the user set, else NULL. */
static const char *
set_text (PlumbFieldRow *self)
{
  return plumb_spec_is_set (self->spec, self->field->key)
             ? plumb_spec_get_text (self->spec, self->field->key)
             : NULL;
}

static void
show_problem (PlumbFieldRow *self, const char *message, const char *remedy)
{
  g_autofree char *text = NULL;

  if (message != NULL && remedy != NULL)
    text = g_strdup_printf ("%s: %s", message, remedy);
  else
    text = g_strdup (message);
  gtk_widget_set_visible (GTK_WIDGET (self->problem), text != NULL);
  gtk_label_set_text (self->problem, text != NULL ? text : "");
  if (text != NULL)
    gtk_widget_add_css_class (GTK_WIDGET (self->title), "error");
  else
    gtk_widget_remove_css_class (GTK_WIDGET (self->title), "error");
  gtk_accessible_update_state (
      GTK_ACCESSIBLE (self->editor), GTK_ACCESSIBLE_STATE_INVALID,
      text != NULL ? GTK_ACCESSIBLE_INVALID_TRUE : GTK_ACCESSIBLE_INVALID_FALSE, -1);
  gtk_accessible_update_property (GTK_ACCESSIBLE (self->editor),
                                  GTK_ACCESSIBLE_PROPERTY_DESCRIPTION,
                                  text != NULL ? text : _ (self->field->help), -1);
}

static void
update_reset (PlumbFieldRow *self)
{
  gboolean changed = plumb_field_row_is_changed (self) || self->fault;

  /* Kept in place, so that rows do not shift while one types. */
  gtk_widget_set_opacity (GTK_WIDGET (self->reset), changed ? 1 : 0);
  gtk_widget_set_sensitive (GTK_WIDGET (self->reset), changed);
}

/* Takes the editor's text over into the spec; an empty one means the default. */
static void
apply (PlumbFieldRow *self, const char *text)
{
  g_autofree char *message = NULL, *remedy = NULL, *normal = NULL;

  if (self->filling)
    return;
  self->outside = FALSE;
  self->fault = FALSE;
  if (text == NULL || *text == '\0')
    plumb_spec_unset (self->spec, self->field->key);
  else if (plumb_field_check (self->field, text, &normal, &message, &remedy))
    plumb_spec_set (self->spec, self->field->key, normal, NULL);
  else
    self->fault = TRUE;
  show_problem (self, message, remedy);
  update_reset (self);
  g_signal_emit (self, signals[CHANGED], 0);
}

static void
switch_cb (PlumbFieldRow *self)
{
  const char *text = gtk_switch_get_active (GTK_SWITCH (self->editor)) ? "yes" : "no";

  apply (self, g_strcmp0 (text, default_text (self)) == 0 ? NULL : text);
}

static void
combo_cb (PlumbFieldRow *self)
{
  GtkStringObject *item = gtk_drop_down_get_selected_item (GTK_DROP_DOWN (self->editor));
  const char *text = item != NULL ? gtk_string_object_get_string (item) : NULL;

  apply (self, g_strcmp0 (text, default_text (self)) == 0 ? NULL : text);
}

static void
spin_cb (PlumbFieldRow *self)
{
  g_autofree char *text = NULL;

  text = g_strdup_printf ("%" G_GINT64_FORMAT,
                          (gint64)gtk_spin_button_get_value (GTK_SPIN_BUTTON (self->editor)));
  apply (self, g_strcmp0 (text, default_text (self)) == 0 ? NULL : text);
}

static void
entry_cb (PlumbFieldRow *self)
{
  g_autofree char *text = g_strdup (gtk_editable_get_text (GTK_EDITABLE (self->editor)));

  apply (self, g_strstrip (text));
}

static void
buffer_cb (PlumbFieldRow *self)
{
  GtkTextBuffer *buffer = gtk_text_view_get_buffer (GTK_TEXT_VIEW (self->editor));
  g_autofree char *text = NULL;

  g_object_get (buffer, "text", &text, NULL);
  apply (self, text);
}

static void
select_choice (PlumbFieldRow *self, const char *text)
{
  GListModel *model = gtk_drop_down_get_model (GTK_DROP_DOWN (self->editor));

  for (guint i = 0; i < g_list_model_get_n_items (model); i++)
    if (g_strcmp0 (gtk_string_list_get_string (GTK_STRING_LIST (model), i), text) == 0)
      gtk_drop_down_set_selected (GTK_DROP_DOWN (self->editor), i);
}

/* Puts the spec's value into the editor. */
static void
fill (PlumbFieldRow *self)
{
  const char *set = set_text (self);
  const char *text = set != NULL ? set : default_text (self);

  self->filling = TRUE;
  if (GTK_IS_SWITCH (self->editor))
    gtk_switch_set_active (GTK_SWITCH (self->editor), g_strcmp0 (text, "yes") == 0);
  else if (GTK_IS_DROP_DOWN (self->editor))
    select_choice (self, text);
  else if (GTK_IS_SPIN_BUTTON (self->editor))
    gtk_spin_button_set_value (GTK_SPIN_BUTTON (self->editor),
                               text != NULL ? g_ascii_strtod (text, NULL) : 0);
  else if (GTK_IS_TEXT_VIEW (self->editor))
    gtk_text_buffer_set_text (gtk_text_view_get_buffer (GTK_TEXT_VIEW (self->editor)),
                              set != NULL ? set : "", -1);
  else
    gtk_editable_set_text (GTK_EDITABLE (self->editor), set != NULL ? set : "");
  self->filling = FALSE;
  self->fault = FALSE;
  show_problem (self, NULL, NULL);
  update_reset (self);
}

static void
reset_cb (PlumbFieldRow *self)
{
  plumb_spec_unset (self->spec, self->field->key);
  fill (self);
  g_signal_emit (self, signals[CHANGED], 0);
}

static GtkWidget *
new_combo (PlumbFieldRow *self)
{
  static const char *const switch_choices[] = { "yes", "no", NULL };
  const char *const *choices = self->field->choices;
  GtkStringList *list = gtk_string_list_new (NULL);
  GtkWidget *editor;

  if (self->field->type == PLUMB_FIELD_BOOLEAN)
    choices = switch_choices;
  if (self->field->flags & PLUMB_FIELD_AUTO)
    gtk_string_list_append (list, "auto");
  for (gsize i = 0; choices != NULL && choices[i] != NULL; i++)
    gtk_string_list_append (list, choices[i]);
  editor = gtk_drop_down_new (G_LIST_MODEL (list), NULL);
  g_signal_connect_object (editor, "notify::selected", G_CALLBACK (combo_cb), self,
                           G_CONNECT_SWAPPED);
  return editor;
}

static GtkWidget *
new_spin (PlumbFieldRow *self)
{
  GtkWidget *editor;

  editor = gtk_spin_button_new_with_range (self->field->minimum,
                                           MIN (self->field->maximum, SPIN_LIMIT), 1);
  gtk_spin_button_set_numeric (GTK_SPIN_BUTTON (editor), TRUE);
  gtk_editable_set_width_chars (GTK_EDITABLE (editor), 7);
  g_signal_connect_object (editor, "value-changed", G_CALLBACK (spin_cb), self, G_CONNECT_SWAPPED);
  return editor;
}

static GtkWidget *
new_entry (PlumbFieldRow *self, gboolean number)
{
  GtkWidget *editor = gtk_entry_new ();
  const char *standard = default_text (self);

  if (standard == NULL && (self->field->flags & PLUMB_FIELD_AUTO))
    standard = "auto";
  gtk_entry_set_placeholder_text (GTK_ENTRY (editor), standard != NULL ? standard : _ ("not set"));
  if (number)
    {
      gtk_editable_set_width_chars (GTK_EDITABLE (editor), 12);
      gtk_editable_set_max_width_chars (GTK_EDITABLE (editor), 12);
      gtk_editable_set_alignment (GTK_EDITABLE (editor), 1);
    }
  else
    gtk_widget_set_hexpand (editor, TRUE);
  g_signal_connect_object (editor, "changed", G_CALLBACK (entry_cb), self, G_CONNECT_SWAPPED);
  return editor;
}

static GtkWidget *
new_text (PlumbFieldRow *self)
{
  GtkWidget *editor = gtk_text_view_new ();

  gtk_text_view_set_wrap_mode (GTK_TEXT_VIEW (editor), GTK_WRAP_WORD_CHAR);
  gtk_text_view_set_accepts_tab (GTK_TEXT_VIEW (editor), FALSE);
  gtk_widget_set_size_request (editor, -1, 60);
  gtk_widget_set_hexpand (editor, TRUE);
  gtk_widget_add_css_class (editor, "field-text");
  g_signal_connect_object (gtk_text_view_get_buffer (GTK_TEXT_VIEW (editor)), "changed",
                           G_CALLBACK (buffer_cb), self, G_CONNECT_SWAPPED);
  return editor;
}

static gboolean
is_folder (PlumbFieldRow *self)
{
  return self->field->widget == PLUMB_WIDGET_FOLDER;
}

/* Chosen files join those that are there; a chosen folder takes the old one's place. */
static void
choose_response_cb (GtkNativeDialog *dialog, int response, gpointer user_data)
{
  g_autoptr (PlumbFieldRow) self = user_data;
  g_autoptr (GListModel) files = NULL;
  g_autoptr (GString) text = NULL;

  if (response == GTK_RESPONSE_ACCEPT && self->editor != NULL)
    {
      files = gtk_file_chooser_get_files (GTK_FILE_CHOOSER (dialog));
      text = g_string_new (self->field->type == PLUMB_FIELD_PATHS
                               ? gtk_editable_get_text (GTK_EDITABLE (self->editor))
                               : NULL);
      for (guint i = 0; i < g_list_model_get_n_items (files); i++)
        {
          g_autoptr (GFile) file = g_list_model_get_item (files, i);
          g_autofree char *path = g_file_get_path (file);

          if (path != NULL)
            g_string_append_printf (text, "%s%s", text->len > 0 ? ", " : "", path);
        }
      gtk_editable_set_text (GTK_EDITABLE (self->editor), text->str);
    }
  g_object_unref (dialog);
}

static void
choose_cb (PlumbFieldRow *self)
{
  GtkFileChooserNative *dialog;

  dialog = gtk_file_chooser_native_new (
      _ (self->field->label), GTK_WINDOW (gtk_widget_get_root (GTK_WIDGET (self))),
      is_folder (self) ? GTK_FILE_CHOOSER_ACTION_SELECT_FOLDER : GTK_FILE_CHOOSER_ACTION_OPEN, NULL,
      NULL);
  gtk_file_chooser_set_select_multiple (GTK_FILE_CHOOSER (dialog),
                                        self->field->widget == PLUMB_WIDGET_FILES);
  gtk_native_dialog_set_modal (GTK_NATIVE_DIALOG (dialog), TRUE);
  g_signal_connect (dialog, "response", G_CALLBACK (choose_response_cb), g_object_ref (self));
  gtk_native_dialog_show (GTK_NATIVE_DIALOG (dialog));
}

static GtkWidget *
new_choose_button (PlumbFieldRow *self)
{
  GtkWidget *button = gtk_button_new_from_icon_name (is_folder (self) ? "folder-open-symbolic"
                                                                      : "document-open-symbolic");
  g_autofree char *name = NULL;

  name = g_strdup_printf (is_folder (self) ? _ ("Choose a Folder: %s") : _ ("Choose Files: %s"),
                          _ (self->field->label));
  gtk_widget_set_tooltip_text (button,
                               is_folder (self) ? _ ("Choose a Folder") : _ ("Choose Files"));
  plumb_accessible_set_label (button, name);
  g_signal_connect_object (button, "clicked", G_CALLBACK (choose_cb), self, G_CONNECT_SWAPPED);
  return button;
}

static gboolean
is_number (const PlumbField *field)
{
  return field->type == PLUMB_FIELD_INTEGER || field->type == PLUMB_FIELD_REAL
         || field->type == PLUMB_FIELD_REALS;
}

/* Integers within a common range get buttons; numbers with words for values ("auto", "off") or a
 * wide range are written. */
static gboolean
fits_spin (PlumbFieldRow *self)
{
  const PlumbField *field = self->field;

  return field->widget == PLUMB_WIDGET_SPIN && field->type == PLUMB_FIELD_INTEGER
         && (field->flags & (PLUMB_FIELD_AUTO | PLUMB_FIELD_OFF)) == 0
         && default_text (self) != NULL && field->maximum <= SPIN_LIMIT;
}

static void
make_editor (PlumbFieldRow *self)
{
  PlumbFieldWidget widget = self->field->widget;

  if (widget == PLUMB_WIDGET_SWITCH && !(self->field->flags & PLUMB_FIELD_AUTO))
    {
      self->editor = gtk_switch_new ();
      g_signal_connect_object (self->editor, "notify::active", G_CALLBACK (switch_cb), self,
                               G_CONNECT_SWAPPED);
    }
  else if (widget == PLUMB_WIDGET_SWITCH || widget == PLUMB_WIDGET_COMBO)
    self->editor = new_combo (self);
  else if (fits_spin (self))
    self->editor = new_spin (self);
  else if (widget == PLUMB_WIDGET_TEXT)
    self->editor = new_text (self);
  else
    self->editor = new_entry (self, is_number (self->field));

  gtk_widget_set_valign (self->editor, GTK_ALIGN_CENTER);
  if (widget == PLUMB_WIDGET_TEXT || (GTK_IS_ENTRY (self->editor) && !is_number (self->field)))
    {
      gtk_box_append (self->below, self->editor);
      if (widget == PLUMB_WIDGET_FILE || widget == PLUMB_WIDGET_FOLDER
          || widget == PLUMB_WIDGET_FILES)
        gtk_box_append (self->below, new_choose_button (self));
      gtk_widget_show (GTK_WIDGET (self->below));
    }
  else
    gtk_box_append (self->beside, self->editor);
}

/* "Longest sequence (tokens)", but "Steps" alone: the unit is not said twice. */
static char *
title_of (const PlumbField *field)
{
  const char *label = _ (field->label), *unit = field->unit != NULL ? _ (field->unit) : NULL;
  g_autofree char *folded = g_utf8_casefold (label, -1);
  g_autofree char *folded_unit = g_utf8_casefold (unit != NULL ? unit : "", -1);

  /* A unit of one letter is found in any word. */
  if (unit == NULL || (strlen (folded_unit) > 2 && strstr (folded, folded_unit) != NULL))
    return g_strdup (label);
  /* translators: a setting and its unit */
  return g_strdup_printf (_ ("%s (%s)"), label, unit);
}

static void
describe (PlumbFieldRow *self)
{
  const PlumbField *field = self->field;
  g_autofree char *title = title_of (field), *reset = NULL;

  gtk_label_set_text (self->title, title);
  gtk_label_set_text (self->help, _ (field->help));
  gtk_widget_set_tooltip_text (GTK_WIDGET (self->title), field->key);
  gtk_accessible_update_property (GTK_ACCESSIBLE (self->editor), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                  title, GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, _ (field->help), -1);
  reset = g_strdup_printf (_ ("Reset to Default: %s"), _ (field->label));
  plumb_accessible_set_label (GTK_WIDGET (self->reset), reset);
  plumb_accessible_set_label (GTK_WIDGET (self), title);
}

static void
plumb_field_row_dispose (GObject *object)
{
  PlumbFieldRow *self = PLUMB_FIELD_ROW (object);

  self->editor = NULL;
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_FIELD_ROW);
  g_clear_pointer (&self->spec, plumb_spec_unref);
  G_OBJECT_CLASS (plumb_field_row_parent_class)->dispose (object);
}

static void
plumb_field_row_class_init (PlumbFieldRowClass *klass)
{
  GtkWidgetClass *widget_class = GTK_WIDGET_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = plumb_field_row_dispose;
  signals[CHANGED] = g_signal_new ("changed", PLUMB_TYPE_FIELD_ROW, G_SIGNAL_RUN_LAST, 0, NULL,
                                   NULL, NULL, G_TYPE_NONE, 0);
  gtk_widget_class_set_template_from_resource (widget_class,
                                               "/org/plumbline/Plumbline/ui/field-row.ui");
  gtk_widget_class_bind_template_child (widget_class, PlumbFieldRow, title);
  gtk_widget_class_bind_template_child (widget_class, PlumbFieldRow, help);
  gtk_widget_class_bind_template_child (widget_class, PlumbFieldRow, beside);
  gtk_widget_class_bind_template_child (widget_class, PlumbFieldRow, below);
  gtk_widget_class_bind_template_child (widget_class, PlumbFieldRow, reset);
  gtk_widget_class_bind_template_child (widget_class, PlumbFieldRow, problem);
  gtk_widget_class_bind_template_callback (widget_class, reset_cb);
}

static void
plumb_field_row_init (PlumbFieldRow *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
}

GtkWidget *
plumb_field_row_new (PlumbSpec *spec, const PlumbField *field)
{
  PlumbFieldRow *self;

  g_return_val_if_fail (spec != NULL && field != NULL, NULL);

  self = g_object_new (PLUMB_TYPE_FIELD_ROW, NULL);
  self->spec = plumb_spec_ref (spec);
  self->field = field;
  make_editor (self);
  describe (self);
  fill (self);
  return GTK_WIDGET (self);
}

const PlumbField *
plumb_field_row_get_field (PlumbFieldRow *self)
{
  g_return_val_if_fail (PLUMB_IS_FIELD_ROW (self), NULL);

  return self->field;
}

gboolean
plumb_field_row_is_changed (PlumbFieldRow *self)
{
  g_return_val_if_fail (PLUMB_IS_FIELD_ROW (self), FALSE);

  return set_text (self) != NULL && g_strcmp0 (set_text (self), default_text (self)) != 0;
}

gboolean
plumb_field_row_has_fault (PlumbFieldRow *self)
{
  g_return_val_if_fail (PLUMB_IS_FIELD_ROW (self), FALSE);

  return self->fault;
}

void
plumb_field_row_enter (PlumbFieldRow *self, const char *text)
{
  g_return_if_fail (PLUMB_IS_FIELD_ROW (self) && text != NULL);

  if (GTK_IS_ENTRY (self->editor))
    gtk_editable_set_text (GTK_EDITABLE (self->editor), text);
  else
    {
      apply (self, text);
      if (!self->fault)
        fill (self);
    }
}

void
plumb_field_row_commit (PlumbFieldRow *self)
{
  g_return_if_fail (PLUMB_IS_FIELD_ROW (self));

  if (GTK_IS_SPIN_BUTTON (self->editor))
    gtk_spin_button_update (GTK_SPIN_BUTTON (self->editor));
}

void
plumb_field_row_focus_editor (PlumbFieldRow *self)
{
  g_return_if_fail (PLUMB_IS_FIELD_ROW (self));

  gtk_widget_grab_focus (self->editor);
}

void
plumb_field_row_set_problem (PlumbFieldRow *self, const PlumbProblem *problem)
{
  g_return_if_fail (PLUMB_IS_FIELD_ROW (self));

  if (self->fault || (problem == NULL && !self->outside))
    return;
  self->outside = problem != NULL;
  show_problem (self, problem != NULL ? problem->message : NULL,
                problem != NULL ? problem->remedy : NULL);
}

gboolean
plumb_field_row_has_problem (PlumbFieldRow *self)
{
  g_return_val_if_fail (PLUMB_IS_FIELD_ROW (self), FALSE);

  return gtk_widget_get_visible (GTK_WIDGET (self->problem));
}
