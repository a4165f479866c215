/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <adwaita.h>

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* The options of reward functions, which have no rows of their own: one line for each, such as
 * "program.command = ./score". "changed" is emitted after each change. */
#define PLUMB_TYPE_REWARD_OPTIONS_ROW (plumb_reward_options_row_get_type ())
G_DECLARE_FINAL_TYPE (
    PlumbRewardOptionsRow, plumb_reward_options_row, PLUMB, REWARD_OPTIONS_ROW, AdwPreferencesRow)

GtkWidget *plumb_reward_options_row_new (PlumbSpec *spec);

G_END_DECLS
