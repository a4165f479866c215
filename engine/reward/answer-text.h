/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Where a response states its answer, and the answer without its typesetting. Shared by the
 * verifiers. */

typedef enum
{
  PLUMB_BOX_NONE, /* no \boxed or \fbox */
  PLUMB_BOX_FOUND,
  PLUMB_BOX_CUT_OFF, /* one begins and none is complete */
} PlumbBox;

/* The content of the last complete box, braces balanced, escaped braces not counted. */
PlumbBox plumb_answer_find_box (const char *text, const char **start, gsize *length);

/* The rest of the line behind "####": the first of a response, the last of a reference. */
gboolean
plumb_answer_find_hashes (const char *text, gboolean last, const char **start, gsize *length);

/* Marks where the content of \text{...} begins and ends in a cleaned answer. */
#define PLUMB_ANSWER_TEXT_MARK '\x01'

/* Takes off typesetting: $...$, \left, thin spaces, \text{...} (its content stays, between marks),
 * degree signs, nested boxes, one "x =" in front, a period at the end; U+2212 becomes "-".
 * (transfer full) */
char *plumb_answer_clean (const char *text, gsize length);

/* Same text but for blanks and marks, and not empty? */
gboolean plumb_answer_same_text (const char *a, const char *b);

G_END_DECLS
