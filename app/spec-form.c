/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <adwaita.h>
#include <glib/gi18n.h>
#include <string.h>

#include "app/accessible.h"
#include "app/field-row.h"
#include "app/reward-options-row.h"
#include "app/spec-form.h"

#define SCROLL_DELAY 300 /* ms: an expander has opened by then */

/* Of one level of one group: the expander that holds its rows, or NULL for the basic ones. */
typedef struct
{
  AdwExpanderRow *expander;
  GPtrArray *rows;
} Section;

struct _PlumbSpecForm
{
  GtkWidget parent_instance;

  GtkWidget *box;
  PlumbSpec *spec;
  GPtrArray *rows;     /* PlumbFieldRow */
  GPtrArray *sections; /* Section */
  PlumbAlgorithm algorithm;
  guint rebuild;
};

enum
{
  CHANGED,
  N_SIGNALS,
};
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (PlumbSpecForm, plumb_spec_form, GTK_TYPE_WIDGET)

static void build (PlumbSpecForm *self);

static void
section_free (gpointer data)
{
  Section *self = data;

  g_ptr_array_unref (self->rows);
  g_free (self);
}

/* "9 settings, 2 changed" under the name of an expander. */
static void
update_section (Section *section)
{
  guint changed = 0, n = section->rows->len;
  g_autofree char *all = g_strdup_printf (ngettext ("%u setting", "%u settings", n), n);
  g_autofree char *text = NULL;

  if (section->expander == NULL)
    return;
  for (guint i = 0; i < n; i++)
    changed += plumb_field_row_is_changed (section->rows->pdata[i]);
  if (changed > 0)
    text = g_strdup_printf (_ ("%s, %u changed"), all, changed);
  adw_expander_row_set_subtitle (section->expander, text != NULL ? text : all);
}

static gboolean
rebuild_cb (gpointer user_data)
{
  PlumbSpecForm *self = user_data;

  self->rebuild = 0;
  build (self);
  g_signal_emit (self, signals[CHANGED], 0);
  return G_SOURCE_REMOVE;
}

/* Another algorithm has other fields; the row that said so must not be destroyed meanwhile. */
static void
row_changed_cb (PlumbSpecForm *self)
{
  for (guint i = 0; i < self->sections->len; i++)
    update_section (self->sections->pdata[i]);
  if (plumb_spec_algorithm (self->spec) != self->algorithm)
    {
      if (self->rebuild == 0)
        self->rebuild = g_idle_add (rebuild_cb, self);
      return;
    }
  g_signal_emit (self, signals[CHANGED], 0);
}

static gboolean
belongs (const PlumbField *field, const PlumbFieldGroup *group, PlumbAlgorithm algorithm)
{
  return (field->algorithms & (1 << algorithm)) != 0
         && plumb_field_group_length (field->key) == strlen (group->name)
         && strncmp (field->key, group->name, strlen (group->name)) == 0;
}

static AdwExpanderRow *
new_expander (const PlumbFieldGroup *group, PlumbFieldLevel level)
{
  GtkWidget *expander = adw_expander_row_new ();
  const char *title = level == PLUMB_LEVEL_MORE ? _ ("More") : _ ("Expert");
  /* translators: "Rollout: More", the rarer settings of a group */
  g_autofree char *name = g_strdup_printf (_ ("%s: %s"), _ (group->label), title);

  adw_preferences_row_set_title (ADW_PREFERENCES_ROW (expander), title);
  plumb_accessible_set_label (expander, name);
  return ADW_EXPANDER_ROW (expander);
}

/* The fields of one level; nothing where the group has none. */
static void
add_section (PlumbSpecForm *self,
             AdwPreferencesGroup *widget,
             const PlumbFieldGroup *group,
             PlumbFieldLevel level)
{
  Section *section = g_new0 (Section, 1);
  gsize n;
  const PlumbField *fields = plumb_fields (&n);

  section->rows = g_ptr_array_new ();
  g_ptr_array_add (self->sections, section);
  for (gsize i = 0; i < n; i++)
    {
      GtkWidget *row;

      if (fields[i].level != level || !belongs (&fields[i], group, self->algorithm))
        continue;
      row = plumb_field_row_new (self->spec, &fields[i]);
      g_signal_connect_object (row, "changed", G_CALLBACK (row_changed_cb), self,
                               G_CONNECT_SWAPPED);
      g_ptr_array_add (section->rows, row);
      g_ptr_array_add (self->rows, row);
      if (level == PLUMB_LEVEL_BASIC)
        {
          adw_preferences_group_add (widget, row);
          continue;
        }
      if (section->expander == NULL)
        {
          section->expander = new_expander (group, level);
          adw_preferences_group_add (widget, GTK_WIDGET (section->expander));
        }
      adw_expander_row_add_row (section->expander, row);
    }
  update_section (section);
}

static gboolean
has_fields (const PlumbFieldGroup *group, PlumbAlgorithm algorithm)
{
  gsize n;
  const PlumbField *fields = plumb_fields (&n);

  for (gsize i = 0; i < n; i++)
    if (belongs (&fields[i], group, algorithm))
      return TRUE;
  return FALSE;
}

static void
add_group (PlumbSpecForm *self, const PlumbFieldGroup *group)
{
  GtkWidget *widget = adw_preferences_group_new ();
  g_autofree char *title = g_markup_escape_text (_ (group->label), -1);

  adw_preferences_group_set_title (ADW_PREFERENCES_GROUP (widget), title);
  adw_preferences_group_set_description (ADW_PREFERENCES_GROUP (widget), _ (group->help));
  gtk_box_append (GTK_BOX (self->box), widget);
  add_section (self, ADW_PREFERENCES_GROUP (widget), group, PLUMB_LEVEL_BASIC);
  if (g_str_equal (group->name, "reward"))
    {
      GtkWidget *row = plumb_reward_options_row_new (self->spec);

      g_signal_connect_object (row, "changed", G_CALLBACK (row_changed_cb), self,
                               G_CONNECT_SWAPPED);
      adw_preferences_group_add (ADW_PREFERENCES_GROUP (widget), row);
    }
  add_section (self, ADW_PREFERENCES_GROUP (widget), group, PLUMB_LEVEL_MORE);
  add_section (self, ADW_PREFERENCES_GROUP (widget), group, PLUMB_LEVEL_EXPERT);
}

static void
build (PlumbSpecForm *self)
{
  GtkWidget *child;
  gsize n;
  const PlumbFieldGroup *groups = plumb_field_groups (&n);

  g_ptr_array_set_size (self->rows, 0);
  g_ptr_array_set_size (self->sections, 0);
  while ((child = gtk_widget_get_first_child (self->box)) != NULL)
    gtk_box_remove (GTK_BOX (self->box), child);
  self->algorithm = plumb_spec_algorithm (self->spec);
  for (gsize i = 0; i < n; i++)
    if (has_fields (&groups[i], self->algorithm))
      add_group (self, &groups[i]);
}

static void
plumb_spec_form_dispose (GObject *object)
{
  PlumbSpecForm *self = PLUMB_SPEC_FORM (object);

  g_clear_handle_id (&self->rebuild, g_source_remove);
  g_ptr_array_set_size (self->rows, 0);
  g_ptr_array_set_size (self->sections, 0);
  g_clear_pointer (&self->box, gtk_widget_unparent);
  g_clear_pointer (&self->spec, plumb_spec_unref);
  G_OBJECT_CLASS (plumb_spec_form_parent_class)->dispose (object);
}

static void
plumb_spec_form_finalize (GObject *object)
{
  PlumbSpecForm *self = PLUMB_SPEC_FORM (object);

  g_ptr_array_unref (self->rows);
  g_ptr_array_unref (self->sections);
  G_OBJECT_CLASS (plumb_spec_form_parent_class)->finalize (object);
}

static void
plumb_spec_form_class_init (PlumbSpecFormClass *klass)
{
  G_OBJECT_CLASS (klass)->dispose = plumb_spec_form_dispose;
  G_OBJECT_CLASS (klass)->finalize = plumb_spec_form_finalize;
  signals[CHANGED] = g_signal_new ("changed", PLUMB_TYPE_SPEC_FORM, G_SIGNAL_RUN_LAST, 0, NULL,
                                   NULL, NULL, G_TYPE_NONE, 0);
  gtk_widget_class_set_layout_manager_type (GTK_WIDGET_CLASS (klass), GTK_TYPE_BIN_LAYOUT);
}

static void
plumb_spec_form_init (PlumbSpecForm *self)
{
  self->rows = g_ptr_array_new ();
  self->sections = g_ptr_array_new_with_free_func (section_free);
  self->box = gtk_box_new (GTK_ORIENTATION_VERTICAL, 24);
  gtk_widget_set_parent (self->box, GTK_WIDGET (self));
}

void
plumb_spec_form_set_spec (PlumbSpecForm *self, PlumbSpec *spec)
{
  g_return_if_fail (PLUMB_IS_SPEC_FORM (self) && spec != NULL);

  plumb_spec_ref (spec);
  g_clear_pointer (&self->spec, plumb_spec_unref);
  self->spec = spec;
  g_clear_handle_id (&self->rebuild, g_source_remove);
  build (self);
  g_signal_emit (self, signals[CHANGED], 0);
}

PlumbSpec *
plumb_spec_form_get_spec (PlumbSpecForm *self)
{
  g_return_val_if_fail (PLUMB_IS_SPEC_FORM (self), NULL);

  return self->spec;
}

void
plumb_spec_form_commit (PlumbSpecForm *self)
{
  g_return_if_fail (PLUMB_IS_SPEC_FORM (self));

  for (guint i = 0; i < self->rows->len; i++)
    plumb_field_row_commit (self->rows->pdata[i]);
}

static PlumbFieldRow *
find_row (PlumbSpecForm *self, const char *key)
{
  for (guint i = 0; i < self->rows->len && key != NULL; i++)
    if (g_str_equal (plumb_field_row_get_field (self->rows->pdata[i])->key, key))
      return self->rows->pdata[i];
  return NULL;
}

GPtrArray *
plumb_spec_form_show_problems (PlumbSpecForm *self, GPtrArray *problems)
{
  GPtrArray *others = g_ptr_array_new ();

  g_return_val_if_fail (PLUMB_IS_SPEC_FORM (self), others);

  for (guint i = 0; i < self->rows->len; i++)
    plumb_field_row_set_problem (self->rows->pdata[i], NULL);
  for (guint i = 0; i < problems->len; i++)
    {
      const PlumbProblem *problem = problems->pdata[i];
      PlumbFieldRow *row = find_row (self, problem->key);

      if (row != NULL)
        plumb_field_row_set_problem (row, problem);
      else
        g_ptr_array_add (others, problems->pdata[i]);
    }
  return others;
}

guint
plumb_spec_form_count_faults (PlumbSpecForm *self)
{
  guint n = 0;

  g_return_val_if_fail (PLUMB_IS_SPEC_FORM (self), 0);

  for (guint i = 0; i < self->rows->len; i++)
    n += plumb_field_row_has_fault (self->rows->pdata[i]);
  return n;
}

guint
plumb_spec_form_count_changed (PlumbSpecForm *self)
{
  guint n = 0;

  g_return_val_if_fail (PLUMB_IS_SPEC_FORM (self), 0);

  for (guint i = 0; i < self->rows->len; i++)
    n += plumb_field_row_is_changed (self->rows->pdata[i]);
  return n;
}

static void
open_section_of (PlumbSpecForm *self, gpointer row)
{
  for (guint i = 0; i < self->sections->len; i++)
    {
      Section *section = self->sections->pdata[i];

      if (section->expander != NULL && g_ptr_array_find (section->rows, row, NULL))
        adw_expander_row_set_expanded (section->expander, TRUE);
    }
}

/* The row's place is known once its section has been laid out. */
static gboolean
scroll_cb (gpointer user_data)
{
  GtkWidget *row = user_data;
  GtkWidget *scrolled = gtk_widget_get_ancestor (row, GTK_TYPE_SCROLLED_WINDOW);
  GtkAdjustment *adjustment;
  graphene_point_t point;

  if (scrolled == NULL
      || !gtk_widget_compute_point (row, scrolled, &GRAPHENE_POINT_INIT (0, 0), &point))
    return G_SOURCE_REMOVE;
  adjustment = gtk_scrolled_window_get_vadjustment (GTK_SCROLLED_WINDOW (scrolled));
  gtk_adjustment_set_value (adjustment, gtk_adjustment_get_value (adjustment) + point.y - 48);
  return G_SOURCE_REMOVE;
}

void
plumb_spec_form_go_to_problem (PlumbSpecForm *self)
{
  g_return_if_fail (PLUMB_IS_SPEC_FORM (self));

  for (guint i = 0; i < self->rows->len; i++)
    if (plumb_field_row_has_problem (self->rows->pdata[i]))
      {
        open_section_of (self, self->rows->pdata[i]);
        plumb_field_row_focus_editor (self->rows->pdata[i]);
        g_timeout_add_full (G_PRIORITY_LOW, SCROLL_DELAY, scroll_cb,
                            g_object_ref (self->rows->pdata[i]), g_object_unref);
        return;
      }
}

gboolean
plumb_spec_form_enter (PlumbSpecForm *self, const char *key, const char *value)
{
  PlumbFieldRow *row;

  g_return_val_if_fail (PLUMB_IS_SPEC_FORM (self) && value != NULL, FALSE);

  row = find_row (self, key);
  if (row == NULL)
    return FALSE;
  open_section_of (self, row);
  plumb_field_row_enter (row, value);
  return TRUE;
}
