/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* What a person at a terminal sees: a bar that is redrawn in place, or plain lines elsewhere. */
typedef struct _PlumbProgress PlumbProgress;

/* Lines that stay also go to the log at `log_path` (NULL: none, standard output is the log already). */
PlumbProgress *plumb_progress_new (const char *log_path);
void plumb_progress_free (PlumbProgress *progress);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbProgress, plumb_progress_free)

/* A line that stays. */
void plumb_progress_say (PlumbProgress *progress, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* The bar: step of total (0: unknown), seconds left (< 0: unknown) and a few words. Elsewhere a line, at most every
 * few seconds and whenever `keep` is set. */
void plumb_progress_show (PlumbProgress *progress, gint64 step, gint64 total, double eta, gboolean keep,
                          const char *format, ...) G_GNUC_PRINTF (6, 7);

G_END_DECLS
