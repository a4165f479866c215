/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/text/arithmetic.h"
#include "engine/text/shuffle.h"

#define SHUFFLE_PURPOSE 0x617269746800 /* keeps this permutation apart from others of the seed */

struct _PlumbArithmetic
{
  guint32 problems[PLUMB_ARITHMETIC_PROBLEMS]; /* 90 (a - 10) + (b - 10), shuffled */
  gsize first, n;
};

PlumbArithmetic *
plumb_arithmetic_new (guint64 seed, PlumbDataPurpose purpose)
{
  PlumbArithmetic *arithmetic = g_new0 (PlumbArithmetic, 1);
  const gsize warmup_end = PLUMB_ARITHMETIC_EVAL + PLUMB_ARITHMETIC_WARMUP;

  for (guint32 i = 0; i < PLUMB_ARITHMETIC_PROBLEMS; i++)
    arithmetic->problems[i] = i;
  plumb_shuffle (arithmetic->problems, PLUMB_ARITHMETIC_PROBLEMS,
                 plumb_shuffle_key (seed, SHUFFLE_PURPOSE, 0));
  switch (purpose)
    {
    case PLUMB_DATA_EVAL:
      arithmetic->n = PLUMB_ARITHMETIC_EVAL;
      break;
    case PLUMB_DATA_WARMUP:
      arithmetic->first = PLUMB_ARITHMETIC_EVAL;
      arithmetic->n = PLUMB_ARITHMETIC_WARMUP;
      break;
    case PLUMB_DATA_TRAIN:
      arithmetic->first = warmup_end;
      arithmetic->n = PLUMB_ARITHMETIC_PROBLEMS - warmup_end;
      break;
    }
  return arithmetic;
}

void
plumb_arithmetic_free (PlumbArithmetic *arithmetic)
{
  g_free (arithmetic);
}

gsize
plumb_arithmetic_n_rows (PlumbArithmetic *arithmetic)
{
  return arithmetic->n;
}

void
plumb_arithmetic_get (PlumbArithmetic *arithmetic, gsize row, PlumbDataText *text)
{
  guint32 problem = arithmetic->problems[arithmetic->first + row];
  guint a = 10 + problem / 90, b = 10 + problem % 90;

  text->prompt = g_string_new (NULL);
  g_string_printf (text->prompt, "%u+%u=", a, b);
  text->answer = g_string_new (NULL);
  g_string_printf (text->answer, "%u", a + b);
  text->response = g_string_new_len (text->answer->str, text->answer->len);
}
