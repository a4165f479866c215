/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atspi/atspi.h>
#include <glib.h>

G_BEGIN_DECLS

/* Drives a program as a screen reader sees it: by roles, names, descriptions and actions alone.
 * Names are patterns with * and ?. What does not appear in time ends the test with a list of all
 * that is there. */

/* FALSE where assistive technology has no bus here. */
gboolean reader_start (void);

/* Waits for the program of that name; all that follows is about its windows. */
void reader_attach (const char *name, double seconds);
void reader_detach (void);

gboolean reader_sees (AtspiRole role, const char *name);

/* These wait: for the first one in the order of reading, until none is left, or until one is
 * described so too. */
void reader_wait (AtspiRole role, const char *name, double seconds);
void reader_wait_gone (AtspiRole role, const char *name, double seconds);
void reader_wait_described (AtspiRole role, const char *name, const char *text, double seconds);
void reader_wait_state (AtspiRole role, const char *name, AtspiStateType state, gboolean set);
void reader_wait_text (AtspiRole role, const char *name, const char *text, double seconds);

/* Wait for it, and do the action of that name ("click", "toggle"); press a button; fill a field. */
void reader_act (AtspiRole role, const char *name, const char *action);
void reader_press (const char *name);
void reader_write (AtspiRole role, const char *name, const char *text);

/* Complains about each thing one can focus that has no name, or one that only a program would give
 * it. Returns their number. */
guint reader_count_nameless (void);

G_END_DECLS
