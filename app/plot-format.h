/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Numbers as the window shows them, in the user's locale. Units are those of the metric table:
 * "share", "tokens/s", "tokens", "s", "bytes", "nats" or "". All return new strings. */

/* Four digits and the unit: "0.6154", "34.2 %", "12.1k tok/s", "1.50 GiB", "2 min 10 s". */
char *plumb_format_value (double value, const char *unit);

/* The shortest digits that read back as the same number, without a unit. */
char *plumb_format_exact (double value);

/* A tick's label, with the digits that its distance to the next tick asks for. */
char *plumb_format_tick (double value, double step, const char *unit);

/* A tick of an axis of elapsed time: "30 s", "5 min", "1:30 h", "2 d". */
char *plumb_format_duration_tick (double seconds, double step);

/* "850 ms", "41 s", "2 min 10 s", "3 h 5 min", "2 d 4 h". */
char *plumb_format_duration (double seconds);

G_END_DECLS
