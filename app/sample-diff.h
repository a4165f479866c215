/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/run.h"

#include <gtk/gtk.h>

G_BEGIN_DECLS

/* Looks for what the model answered to the prompt of a sample at an earlier step, and shows in a
 * window of its own what has changed since. Where there is none a message of the window says so. */
void plumb_sample_diff_show (GtkWidget *from, PlumbRun *run, const PlumbSample *sample);

/* The new text as Pango markup, what is only in the old one struck out, what is only in the new one
 * underlined. (transfer full) */
char *plumb_sample_diff_markup (const char *old_text, const char *new_text);

G_END_DECLS
