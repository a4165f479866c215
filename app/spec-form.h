/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* The settings of a spec, generated from the table of fields: groups of basic ones, with expanders
 * for More and Expert, and only those that the chosen algorithm uses. "changed" is emitted when the
 * user has changed something. */
#define PLUMB_TYPE_SPEC_FORM (plumb_spec_form_get_type ())
G_DECLARE_FINAL_TYPE (PlumbSpecForm, plumb_spec_form, PLUMB, SPEC_FORM, GtkWidget)

void plumb_spec_form_set_spec (PlumbSpecForm *self, PlumbSpec *spec);
/* Takes over what was typed but not finished. */
void plumb_spec_form_commit (PlumbSpecForm *self);
PlumbSpec *plumb_spec_form_get_spec (PlumbSpecForm *self);

/* Shows problems at their rows; those without a row of this algorithm are returned (array of
 * PlumbProblem, not owned). */
GPtrArray *plumb_spec_form_show_problems (PlumbSpecForm *self, GPtrArray *problems);
/* Rows with a value that the spec could not take over. */
guint plumb_spec_form_count_faults (PlumbSpecForm *self);
/* Settings that differ from their default. */
guint plumb_spec_form_count_changed (PlumbSpecForm *self);

/* Opens what hides the first row with a problem, scrolls to it and focuses it. */
void plumb_spec_form_go_to_problem (PlumbSpecForm *self);
/* Enters a value as the user would. FALSE: no such row. */
gboolean plumb_spec_form_enter (PlumbSpecForm *self, const char *key, const char *value);

G_END_DECLS
