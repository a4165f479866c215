/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A program of the user that answers lines with lines. It is kept alive between calls, ended as a group when it is
 * late, and started again for the next call. */
typedef struct _PlumbLineProgram PlumbLineProgram;

/* Starts a shell command (without a shell); `timeout` in seconds per answer. */
PlumbLineProgram *plumb_line_program_new (const char *command, double timeout, GError **error);
void plumb_line_program_free (PlumbLineProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbLineProgram, plumb_line_program_free)

/* Sends a line (without its end) and waits for the next line of the program, which goes to `answer`. NULL, or why there
 * is none (transfer full); the program has then been ended. *ended (may be NULL) tells whether it ended by itself, so that
 * asking again may help. */
char *plumb_line_program_ask (PlumbLineProgram *program, const char *line, GString *answer, gboolean *ended);
/* Ends it, with all that it started; the next call starts it again. */
void plumb_line_program_end (PlumbLineProgram *program);
/* May be called from another thread: a call that waits fails at once, and so do later ones. */
void plumb_line_program_cancel (PlumbLineProgram *program);

G_END_DECLS
