/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  PLUMB_DIFF_SAME,
  PLUMB_DIFF_REMOVED, /* only in the old text */
  PLUMB_DIFF_ADDED,   /* only in the new one */
} PlumbDiffKind;

/* A piece of one of the two texts, which it points into. */
typedef struct
{
  PlumbDiffKind kind;
  const char *text;
  gsize length; /* in bytes */
} PlumbDiffPiece;

/* What makes the new text of the old one, by words: the pieces that are not added are the old text,
 * those that are not removed the new one. Texts that differ in too many words count as exchanged
 * where they differ. (transfer full) */
GArray *plumb_text_diff (const char *old_text, const char *new_text);

G_END_DECLS
