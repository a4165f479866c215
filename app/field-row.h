/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <adwaita.h>

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* One setting, made from its row of the table of fields: label, help, an editor for its type, a
 * button that takes it back to the default, and what is wrong with it. It writes into the spec as
 * the user types; "changed" is emitted after each change. */
#define PLUMB_TYPE_FIELD_ROW (plumb_field_row_get_type ())
G_DECLARE_FINAL_TYPE (PlumbFieldRow, plumb_field_row, PLUMB, FIELD_ROW, AdwPreferencesRow)

GtkWidget *plumb_field_row_new (PlumbSpec *spec, const PlumbField *field);
const PlumbField *plumb_field_row_get_field (PlumbFieldRow *self);

/* TRUE when the user set it (it is not at its default). */
gboolean plumb_field_row_is_changed (PlumbFieldRow *self);
/* TRUE when what the editor holds is no value for the field. */
gboolean plumb_field_row_has_fault (PlumbFieldRow *self);
/* Puts a text into the editor as if the user had typed it. */
void plumb_field_row_enter (PlumbFieldRow *self, const char *text);

/* Puts the focus into the editor. */
/* Takes over what was typed but not finished: a number counts once its field is left. */
void plumb_field_row_commit (PlumbFieldRow *self);
void plumb_field_row_focus_editor (PlumbFieldRow *self);

/* Shows a problem that was found elsewhere; NULL takes it away. */
void plumb_field_row_set_problem (PlumbFieldRow *self, const PlumbProblem *problem);
gboolean plumb_field_row_has_problem (PlumbFieldRow *self);

G_END_DECLS
