/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "engine/core/telemetry.h"

G_BEGIN_DECLS

/* One completion with its reward, its parts, advantage, length and the way it ended. */
#define PLUMB_TYPE_SAMPLE_CARD (plumb_sample_card_get_type ())
G_DECLARE_FINAL_TYPE (PlumbSampleCard, plumb_sample_card, PLUMB, SAMPLE_CARD, GtkBox)

/* Copies what it shows. */
GtkWidget *plumb_sample_card_new (const PlumbSample *sample);

/* A text of a sample, wrapped; style: a class, or NULL. */
GtkWidget *plumb_sample_label_new (const char *text, const char *style);

/* "cut at the limit", "ended by itself", ...; (transfer none) */
const char *plumb_sample_finish_text (const PlumbSample *sample);
/* Parts of the reward, advantage, length and end, in one line; new. */
char *plumb_sample_facts (const PlumbSample *sample);
/* "0.5" or "failed"; new. */
char *plumb_sample_reward_text (const PlumbSample *sample);
/* The style class of its reward. */
const char *plumb_sample_reward_style (const PlumbSample *sample);
/* A text's first characters as one line of valid UTF-8; new. */
char *plumb_sample_one_line (const char *text, glong limit);

G_END_DECLS
