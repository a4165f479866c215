/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Exact numbers: a decimal or a fraction of decimals, of any number of digits up to a bound. No
 * double is involved, so that 20 digits are compared as 20 digits. */
typedef struct
{
  gboolean negative;
  char *numerator, *denominator; /* digits without leading zeros; "" is zero */
} PlumbRational;

void plumb_rational_clear (PlumbRational *number);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbRational, plumb_rational_clear)

/* Reads an unsigned number: digits with thousands commas, a point, an exponent. Returns the bytes
 * read, 0 for none (or more digits than are worth comparing). */
gsize plumb_rational_read (const char *text, PlumbRational *number);

/* a / b; FALSE when b is zero. `number` may be neither. */
gboolean
plumb_rational_divide (const PlumbRational *a, const PlumbRational *b, PlumbRational *number);
/* a + b of numbers that are not negative. */
void plumb_rational_add (const PlumbRational *a, const PlumbRational *b, PlumbRational *number);
/* Divides by 100. */
void plumb_rational_percent (PlumbRational *number);

gboolean plumb_rational_equal (const PlumbRational *a, const PlumbRational *b);

G_END_DECLS
