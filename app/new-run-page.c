/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <glib/gi18n.h>
#include <string.h>

#include "app/accessible.h"
#include "app/data-preview.h"
#include "app/engine-client.h"
#include "app/new-run-page.h"
#include "app/spec-file.h"
#include "app/spec-form.h"
#include "engine/core/error.h"
#include "engine/core/presets.h"

#define CHECK_DELAY 600 /* ms of rest before the engine is asked */
#define MOST_NOTES 200  /* of an import that are listed */

struct _PlumbNewRunPage
{
  GtkBox parent_instance;

  AdwHeaderBar *header;
  GtkWidget *back;
  GtkWidget *open;
  GtkWidget *preview;
  GtkWidget *preview_icon; /* in its place where there is little room */
  GtkButton *start;
  GtkLabel *start_label;
  GtkDropDown *presets_box;
  GtkLabel *description;
  GtkWidget *notes_group;
  GtkListBox *notes;
  PlumbSpecForm *form;
  GtkWidget *problems_group;
  GtkListBox *problems_list;
  GtkLabel *summary;
  GtkButton *go_to;
  GtkLabel *command;

  GPtrArray *presets; /* PlumbPreset */
  char *other;        /* title of what was opened instead of a preset; NULL: none */
  GCancellable *checking;
  guint check_timeout;
  gboolean filling;
  gboolean starting;
  gboolean folded;
};

enum
{
  PROP_0,
  PROP_FOLDED,
  PROP_CAN_START,
  N_PROPS,
};
static GParamSpec *properties[N_PROPS];

enum
{
  STARTED,
  N_SIGNALS,
};
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (PlumbNewRunPage, plumb_new_run_page, GTK_TYPE_BOX)

static char *
spec_path (PlumbNewRunPage *self)
{
  return plumb_spec_file_path (plumb_spec_form_get_spec (self->form));
}

/* Writes the spec as it is now; the callback gets the page as its source. */
static void
save_async (PlumbNewRunPage *self,
            const char *path,
            GCancellable *cancellable,
            GAsyncReadyCallback callback)
{
  plumb_spec_file_save_async (self, plumb_spec_form_get_spec (self->form), path, cancellable,
                              callback, NULL);
}

static void
show_command (PlumbNewRunPage *self)
{
  g_autofree char *path = spec_path (self);
  g_autofree char *quoted = g_shell_quote (path);
  g_autofree char *text = g_strdup_printf ("plumbline-engine run %s --detach", quoted);

  gtk_label_set_text (self->command, text);
}

static void
clear_problems_list (PlumbNewRunPage *self)
{
  GtkListBoxRow *row;

  while ((row = gtk_list_box_get_row_at_index (self->problems_list, 0)) != NULL)
    gtk_list_box_remove (self->problems_list, GTK_WIDGET (row));
}

/* A problem that has no row of the form stands in the list on top. */
static void
add_problem (PlumbNewRunPage *self, const char *message, const char *detail)
{
  GtkWidget *row = adw_action_row_new ();
  GtkWidget *icon = gtk_image_new_from_icon_name ("dialog-error-symbolic");
  g_autofree char *title = g_markup_escape_text (message, -1);

  gtk_widget_add_css_class (icon, "error");
  adw_preferences_row_set_title (ADW_PREFERENCES_ROW (row), title);
  if (detail != NULL)
    {
      g_autofree char *subtitle = g_markup_escape_text (detail, -1);

      adw_action_row_set_subtitle (ADW_ACTION_ROW (row), subtitle);
    }
  adw_action_row_add_prefix (ADW_ACTION_ROW (row), icon);
  gtk_list_box_append (self->problems_list, row);
}

static char *
place_of (const PlumbProblem *problem)
{
  g_autofree char *place = NULL;

  if (problem->file != NULL && problem->line > 0)
    place = g_strdup_printf (_ ("%s, line %u"), problem->file, problem->line);
  else if (problem->file != NULL)
    place = g_strdup (problem->file);
  else
    place = g_strdup (problem->key);
  if (place != NULL && problem->remedy != NULL)
    return g_strdup_printf ("%s: %s", place, problem->remedy);
  return place != NULL ? g_steal_pointer (&place) : g_strdup (problem->remedy);
}

static void
show_problems (PlumbNewRunPage *self, GPtrArray *problems)
{
  g_autoptr (GPtrArray) others = plumb_spec_form_show_problems (self->form, problems);
  guint n = problems->len + plumb_spec_form_count_faults (self->form);
  g_autofree char *text = NULL;

  clear_problems_list (self);
  for (guint i = 0; i < others->len; i++)
    {
      const PlumbProblem *problem = others->pdata[i];
      g_autofree char *detail = place_of (problem);

      add_problem (self, problem->message, detail);
    }
  gtk_widget_set_visible (GTK_WIDGET (self->problems_list), others->len > 0);
  gtk_widget_set_visible (self->problems_group, n > 0);
  gtk_widget_set_visible (GTK_WIDGET (self->go_to), n > others->len);
  text = g_strdup_printf (ngettext ("%u problem", "%u problems", n), n);
  gtk_label_set_text (self->summary, text);
}

static void
show_trouble (PlumbNewRunPage *self, const char *message)
{
  clear_problems_list (self);
  add_problem (self, _ ("The run could not be started"), message);
  gtk_widget_show (GTK_WIDGET (self->problems_list));
  gtk_widget_show (self->problems_group);
  gtk_widget_hide (GTK_WIDGET (self->go_to));
  gtk_label_set_text (self->summary, _ ("Not started"));
}

/* What can be seen from the settings alone, at once. */
static GPtrArray *
check_settings (PlumbNewRunPage *self)
{
  GPtrArray *problems = plumb_problems_new ();

  plumb_spec_validate (plumb_spec_form_get_spec (self->form), problems);
  return problems;
}

static void
checked_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (PlumbNewRunPage) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbEngineReply) reply = plumb_engine_call_finish (result, &error);
  g_autoptr (GPtrArray) problems = NULL;

  /* Nothing is said of an engine that is missing until it is needed. */
  if (reply == NULL || self->starting)
    return;
  problems = plumb_engine_reply_problems (reply);
  show_problems (self, problems);
}

static void
saved_to_check_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  PlumbNewRunPage *self = PLUMB_NEW_RUN_PAGE (source);
  const char *arguments[]
      = { "validate", plumb_spec_file_save_finish (result, NULL), "--json", NULL };

  if (arguments[1] != NULL && self->checking != NULL)
    plumb_engine_call_async (arguments, self->checking, checked_cb, g_object_ref (self));
}

/* Files and models, which the engine looks at. The text goes through a file of its own, so that the
 * saved spec is not touched before Start. */
static gboolean
check_timeout_cb (gpointer user_data)
{
  PlumbNewRunPage *self = user_data;
  g_autofree char *path
      = g_build_filename (g_get_user_runtime_dir (), "plumbline-check.spec", NULL);

  self->check_timeout = 0;
  self->checking = g_cancellable_new ();
  save_async (self, path, self->checking, saved_to_check_cb);
  return G_SOURCE_REMOVE;
}

static void
stop_checking (PlumbNewRunPage *self)
{
  g_clear_handle_id (&self->check_timeout, g_source_remove);
  if (self->checking != NULL)
    g_cancellable_cancel (self->checking);
  g_clear_object (&self->checking);
}

static void
form_changed_cb (PlumbNewRunPage *self)
{
  g_autoptr (GPtrArray) problems = check_settings (self);

  show_problems (self, problems);
  show_command (self);
  stop_checking (self);
  self->check_timeout = g_timeout_add (CHECK_DELAY, check_timeout_cb, self);
}

static void
set_starting (PlumbNewRunPage *self, gboolean starting)
{
  self->starting = starting;
  gtk_label_set_text_with_mnemonic (self->start_label, starting ? _ ("Starting…") : _ ("_Start"));
  plumb_accessible_set_label (GTK_WIDGET (self->start), starting ? _ ("Starting…") : _ ("Start"));
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CAN_START]);
}

static const char *
run_of_reply (const PlumbEngineReply *reply)
{
  JsonObject *object;

  if (reply->exit_code != 0 || reply->json == NULL || !JSON_NODE_HOLDS_OBJECT (reply->json))
    return NULL;
  object = json_node_get_object (reply->json);
  return json_object_get_string_member_with_default (object, "run", NULL);
}

static void
started_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (PlumbNewRunPage) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbEngineReply) reply = plumb_engine_call_finish (result, &error);
  g_autoptr (GPtrArray) problems = NULL;
  g_autofree char *summary = NULL;

  set_starting (self, FALSE);
  if (reply == NULL)
    {
      show_trouble (self, error->message);
      return;
    }
  if (run_of_reply (reply) != NULL)
    {
      g_signal_emit (self, signals[STARTED], 0, run_of_reply (reply));
      return;
    }
  problems = plumb_engine_reply_problems (reply);
  if (problems->len > 0)
    {
      show_problems (self, problems);
      plumb_spec_form_go_to_problem (self->form);
      return;
    }
  summary = plumb_engine_reply_summary (reply);
  show_trouble (self, summary);
}

static void
saved_to_start_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  PlumbNewRunPage *self = PLUMB_NEW_RUN_PAGE (source);
  g_autoptr (GError) error = NULL;
  const char *arguments[]
      = { "run", plumb_spec_file_save_finish (result, &error), "--detach", "--json", NULL };

  if (arguments[1] == NULL)
    {
      set_starting (self, FALSE);
      show_trouble (self, error->message);
      return;
    }
  plumb_engine_call_async (arguments, NULL, started_cb, g_object_ref (self));
}

void
plumb_new_run_page_start (PlumbNewRunPage *self)
{
  g_autofree char *path = NULL;
  g_autoptr (GPtrArray) problems = NULL;

  g_return_if_fail (PLUMB_IS_NEW_RUN_PAGE (self));

  if (self->starting)
    return;
  plumb_spec_form_commit (self->form);
  stop_checking (self);
  problems = check_settings (self);
  if (problems->len + plumb_spec_form_count_faults (self->form) > 0)
    {
      show_problems (self, problems);
      plumb_spec_form_go_to_problem (self->form);
      return;
    }
  set_starting (self, TRUE);
  path = spec_path (self);
  save_async (self, path, NULL, saved_to_start_cb);
}

gboolean
plumb_new_run_page_can_start (PlumbNewRunPage *self)
{
  g_return_val_if_fail (PLUMB_IS_NEW_RUN_PAGE (self), FALSE);

  return !self->starting;
}

static void
go_to_cb (PlumbNewRunPage *self)
{
  plumb_spec_form_go_to_problem (self->form);
}

static void
saved_to_copy_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  PlumbNewRunPage *self = PLUMB_NEW_RUN_PAGE (source);
  g_autoptr (GError) error = NULL;

  if (plumb_spec_file_save_finish (result, &error) == NULL)
    {
      gtk_widget_activate_action (GTK_WIDGET (self), "win.show-message", "s", error->message);
      return;
    }
  gdk_clipboard_set_text (gtk_widget_get_clipboard (GTK_WIDGET (self)),
                          gtk_label_get_text (self->command));
  gtk_widget_activate_action (GTK_WIDGET (self), "win.show-message", "s", _ ("Command copied"));
}

/* The command in the clipboard works: its spec is there. */
static void
copy_cb (PlumbNewRunPage *self)
{
  g_autofree char *path = NULL;

  plumb_spec_form_commit (self->form);
  path = spec_path (self);
  save_async (self, path, NULL, saved_to_copy_cb);
}

static void
saved_to_preview_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (PlumbDataPreview) preview = user_data;
  g_autoptr (GError) error = NULL;
  const char *path = plumb_spec_file_save_finish (result, &error);

  if (path != NULL)
    plumb_data_preview_load (preview, path);
  else
    plumb_data_preview_show_trouble (preview, error->message);
}

/* The spec as it is now goes through a file of its own. */
void
plumb_new_run_page_preview (PlumbNewRunPage *self)
{
  g_autofree char *path
      = g_build_filename (g_get_user_runtime_dir (), "plumbline-preview.spec", NULL);
  GtkRoot *root;
  PlumbDataPreview *preview;

  g_return_if_fail (PLUMB_IS_NEW_RUN_PAGE (self));

  plumb_spec_form_commit (self->form);
  root = gtk_widget_get_root (GTK_WIDGET (self));
  preview = plumb_data_preview_new (GTK_IS_WINDOW (root) ? GTK_WINDOW (root) : NULL);
  plumb_spec_file_save_async (self, plumb_spec_form_get_spec (self->form), path, NULL,
                              saved_to_preview_cb, g_object_ref (preview));
  gtk_window_present (GTK_WINDOW (preview));
}

/* The presets, and after them what was opened instead, if anything. */
static void
fill_presets (PlumbNewRunPage *self, guint selected)
{
  g_autoptr (GtkStringList) list = gtk_string_list_new (NULL);

  for (guint i = 0; i < self->presets->len; i++)
    gtk_string_list_append (list, ((PlumbPreset *)self->presets->pdata[i])->title);
  if (self->other != NULL)
    gtk_string_list_append (list, self->other);
  self->filling = TRUE;
  gtk_drop_down_set_model (self->presets_box, G_LIST_MODEL (list));
  gtk_drop_down_set_selected (self->presets_box, selected);
  self->filling = FALSE;
}

/* Titles of presets are longer than a narrow window is wide. */
static void
setup_preset_cb (GtkSignalListItemFactory *factory, GtkListItem *item)
{
  GtkWidget *label = gtk_label_new (NULL);

  gtk_label_set_xalign (GTK_LABEL (label), 0);
  gtk_label_set_ellipsize (GTK_LABEL (label), PANGO_ELLIPSIZE_END);
  gtk_list_item_set_child (item, label);
}

static void
bind_preset_cb (GtkSignalListItemFactory *factory, GtkListItem *item)
{
  const char *title = gtk_string_object_get_string (gtk_list_item_get_item (item));

  gtk_label_set_text (GTK_LABEL (gtk_list_item_get_child (item)), title);
  gtk_widget_set_tooltip_text (gtk_list_item_get_child (item), title);
}

static void
set_preset_factory (PlumbNewRunPage *self)
{
  g_autoptr (GtkListItemFactory) factory = gtk_signal_list_item_factory_new ();

  g_signal_connect (factory, "setup", G_CALLBACK (setup_preset_cb), NULL);
  g_signal_connect (factory, "bind", G_CALLBACK (bind_preset_cb), NULL);
  gtk_drop_down_set_factory (self->presets_box, factory);
}

static void
set_description (PlumbNewRunPage *self, const char *text)
{
  gtk_label_set_text (self->description, text != NULL ? text : "");
  gtk_widget_set_visible (GTK_WIDGET (self->description), text != NULL && *text != '\0');
}

/* What an imported file set and the form does not. */
static void
show_notes (PlumbNewRunPage *self, GPtrArray *notes)
{
  guint n = notes != NULL ? MIN (notes->len, MOST_NOTES) : 0;
  GtkListBoxRow *row;

  while ((row = gtk_list_box_get_row_at_index (self->notes, 0)) != NULL)
    gtk_list_box_remove (self->notes, GTK_WIDGET (row));
  gtk_widget_set_visible (self->notes_group, n > 0);
  for (guint i = 0; i < n; i++)
    {
      const PlumbImportNote *note = notes->pdata[i];
      GtkWidget *action_row = adw_action_row_new ();
      g_autofree char *flag = g_markup_escape_text (note->flag, -1);
      g_autofree char *reason = g_markup_escape_text (note->reason, -1);

      adw_preferences_row_set_title (ADW_PREFERENCES_ROW (action_row), flag);
      adw_action_row_set_subtitle (ADW_ACTION_ROW (action_row), reason);
      gtk_list_box_append (self->notes, action_row);
    }
}

gboolean
plumb_new_run_page_load_preset (PlumbNewRunPage *self, const char *name)
{
  g_return_val_if_fail (PLUMB_IS_NEW_RUN_PAGE (self) && name != NULL, FALSE);

  for (guint i = 0; i < self->presets->len; i++)
    {
      const PlumbPreset *preset = self->presets->pdata[i];
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbSpec) spec = NULL;

      if (!g_str_equal (preset->name, name))
        continue;
      spec = plumb_preset_load (name, &error);
      if (spec == NULL)
        {
          show_trouble (self, error->message);
          return FALSE;
        }
      g_clear_pointer (&self->other, g_free);
      fill_presets (self, i);
      set_description (self, preset->description);
      show_notes (self, NULL);
      plumb_spec_form_set_spec (self->form, spec);
      return TRUE;
    }
  return FALSE;
}

/* What did not come from a preset stands below the presets with its own title. */
static void
take_spec (PlumbNewRunPage *self, PlumbSpec *spec, const char *title, const char *description)
{
  g_free (self->other);
  self->other = g_strdup (title);
  fill_presets (self, self->presets->len);
  set_description (self, description);
  show_notes (self, NULL);
  plumb_spec_form_set_spec (self->form, spec);
}

gboolean
plumb_new_run_page_load_file (PlumbNewRunPage *self,
                              const char *path,
                              const char *title,
                              GError **error)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (GPtrArray) problems = plumb_problems_new ();

  g_return_val_if_fail (PLUMB_IS_NEW_RUN_PAGE (self) && path != NULL, FALSE);

  if (!plumb_spec_load_file (spec, path, problems, error))
    return FALSE;
  take_spec (self, spec, title, path);
  if (problems->len > 0)
    {
      stop_checking (self);
      show_problems (self, problems);
    }
  return TRUE;
}

void
plumb_new_run_page_load_import (PlumbNewRunPage *self,
                                PlumbSpec *spec,
                                GPtrArray *notes,
                                const char *path)
{
  g_autofree char *name = g_path_get_basename (path);
  g_autofree char *title = g_strdup_printf (_ ("Imported from %s"), name);

  g_return_if_fail (PLUMB_IS_NEW_RUN_PAGE (self) && spec != NULL);

  take_spec (self, spec, title, path);
  show_notes (self, notes);
}

gboolean
plumb_new_run_page_enter (PlumbNewRunPage *self, const char *assignment)
{
  const char *equals;
  g_autofree char *key = NULL;

  g_return_val_if_fail (PLUMB_IS_NEW_RUN_PAGE (self) && assignment != NULL, FALSE);

  equals = strchr (assignment, '=');
  if (equals == NULL)
    return FALSE;
  key = g_strndup (assignment, equals - assignment);
  return plumb_spec_form_enter (self->form, key, equals + 1);
}

static void
preset_cb (PlumbNewRunPage *self)
{
  guint selected = gtk_drop_down_get_selected (self->presets_box);

  if (!self->filling && selected < self->presets->len)
    {
      const PlumbPreset *preset = self->presets->pdata[selected];
      g_autofree char *name = g_strdup (preset->name);

      plumb_new_run_page_load_preset (self, name);
    }
}

static void
plumb_new_run_page_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  PlumbNewRunPage *self = PLUMB_NEW_RUN_PAGE (object);

  switch (id)
    {
    case PROP_FOLDED:
      g_value_set_boolean (value, self->folded);
      break;
    case PROP_CAN_START:
      g_value_set_boolean (value, plumb_new_run_page_can_start (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_new_run_page_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  PlumbNewRunPage *self = PLUMB_NEW_RUN_PAGE (object);

  switch (id)
    {
    case PROP_FOLDED:
      self->folded = g_value_get_boolean (value);
      gtk_widget_set_visible (self->back, self->folded);
      gtk_widget_set_visible (self->open, !self->folded);
      gtk_widget_set_visible (self->preview, !self->folded);
      gtk_widget_set_visible (self->preview_icon, self->folded);
      adw_header_bar_set_show_start_title_buttons (self->header, self->folded);
      g_object_notify_by_pspec (object, pspec);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_new_run_page_dispose (GObject *object)
{
  PlumbNewRunPage *self = PLUMB_NEW_RUN_PAGE (object);

  stop_checking (self);
  gtk_widget_dispose_template (GTK_WIDGET (self), PLUMB_TYPE_NEW_RUN_PAGE);
  G_OBJECT_CLASS (plumb_new_run_page_parent_class)->dispose (object);
}

static void
plumb_new_run_page_finalize (GObject *object)
{
  PlumbNewRunPage *self = PLUMB_NEW_RUN_PAGE (object);

  g_ptr_array_unref (self->presets);
  g_free (self->other);
  G_OBJECT_CLASS (plumb_new_run_page_parent_class)->finalize (object);
}

static void
bind_template (GtkWidgetClass *klass)
{
  g_type_ensure (PLUMB_TYPE_SPEC_FORM);
  gtk_widget_class_set_template_from_resource (klass,
                                               "/org/plumbline/Plumbline/ui/new-run-page.ui");
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, header);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, back);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, open);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, preview);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, preview_icon);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, start);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, start_label);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, presets_box);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, description);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, notes_group);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, notes);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, form);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, problems_group);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, problems_list);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, summary);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, go_to);
  gtk_widget_class_bind_template_child (klass, PlumbNewRunPage, command);
  gtk_widget_class_bind_template_callback (klass, go_to_cb);
  gtk_widget_class_bind_template_callback (klass, copy_cb);
  gtk_widget_class_bind_template_callback (klass, preset_cb);
}

static void
plumb_new_run_page_class_init (PlumbNewRunPageClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

  object_class->get_property = plumb_new_run_page_get_property;
  object_class->set_property = plumb_new_run_page_set_property;
  object_class->dispose = plumb_new_run_page_dispose;
  object_class->finalize = plumb_new_run_page_finalize;
  properties[PROP_FOLDED]
      = g_param_spec_boolean ("folded", NULL, NULL, FALSE, G_PARAM_READWRITE | flags);
  properties[PROP_CAN_START]
      = g_param_spec_boolean ("can-start", NULL, NULL, TRUE, G_PARAM_READABLE | flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
  signals[STARTED] = g_signal_new ("started", PLUMB_TYPE_NEW_RUN_PAGE, G_SIGNAL_RUN_LAST, 0, NULL,
                                   NULL, NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
  bind_template (GTK_WIDGET_CLASS (klass));
}

static void
plumb_new_run_page_init (PlumbNewRunPage *self)
{
  gtk_widget_init_template (GTK_WIDGET (self));
  self->presets = plumb_presets_list ();
  set_preset_factory (self);
  g_signal_connect_object (self->form, "changed", G_CALLBACK (form_changed_cb), self,
                           G_CONNECT_SWAPPED);
  if (self->presets->len > 0)
    plumb_new_run_page_load_preset (self, ((PlumbPreset *)self->presets->pdata[0])->name);
  else
    {
      g_autoptr (PlumbSpec) spec = plumb_spec_new ();

      plumb_spec_form_set_spec (self->form, spec);
    }
}
