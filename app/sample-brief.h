/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gtk/gtk.h>

#include "engine/core/telemetry.h"

G_BEGIN_DECLS

/* A completion in a few lines. It takes a new one without a new layout of the page. */
#define PLUMB_TYPE_SAMPLE_BRIEF (plumb_sample_brief_get_type ())
G_DECLARE_FINAL_TYPE (PlumbSampleBrief, plumb_sample_brief, PLUMB, SAMPLE_BRIEF, GtkBox)

GtkWidget *plumb_sample_brief_new (void);
/* Copies what it shows. */
void plumb_sample_brief_set_sample (PlumbSampleBrief *self, const PlumbSample *sample);

G_END_DECLS
