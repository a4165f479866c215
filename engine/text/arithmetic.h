/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-rows.h"

G_BEGIN_DECLS

/* builtin:arithmetic: sums of two two-digit numbers, "12+34=" with the answer "46". The 8,100
 * problems are dealt by the seed to three purposes that share none. */

#define PLUMB_ARITHMETIC_PROBLEMS 8100
#define PLUMB_ARITHMETIC_EVAL 500    /* held out */
#define PLUMB_ARITHMETIC_WARMUP 2500 /* for supervised steps */

typedef struct _PlumbArithmetic PlumbArithmetic;

PlumbArithmetic *plumb_arithmetic_new (guint64 seed, PlumbDataPurpose purpose);
void plumb_arithmetic_free (PlumbArithmetic *arithmetic);
gsize plumb_arithmetic_n_rows (PlumbArithmetic *arithmetic);
void plumb_arithmetic_get (PlumbArithmetic *arithmetic, gsize row, PlumbDataText *text);

G_END_DECLS
