/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "engine/core/telemetry.h"

G_BEGIN_DECLS

/* One completion with its reward, its parts, advantage, length and the way it ended. */
#define PLUMB_TYPE_SAMPLE_CARD (plumb_sample_card_get_type ())
G_DECLARE_FINAL_TYPE (PlumbSampleCard, plumb_sample_card, PLUMB, SAMPLE_CARD, GtkBox)

/* With `brief`, prompt and completion in a few lines; else the completion alone, whole. Copies what
 * it shows. */
GtkWidget *plumb_sample_card_new (const PlumbSample *sample, gboolean brief);

/* "cut at the limit", "ended by itself", ...; (transfer none) */
const char *plumb_sample_finish_text (const PlumbSample *sample);

G_END_DECLS
