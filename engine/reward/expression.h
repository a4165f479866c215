/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A normal form of an answer that is more than one number: what is written in TeX or plain, with
 * sums in any order, fractions in any spelling, sets as sets. Two texts with the same form are
 * equal; two that are equal may have different forms, since no algebra is done beyond exact numbers,
 * like terms and powers of numbers. NULL: the text cannot be read without guessing. `text` is an
 * answer that plumb_answer_clean() has cleaned. (transfer full) */
char *plumb_expression_normal (const char *text);

G_END_DECLS
