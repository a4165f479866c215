/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as an answer in TeX: no crash, and the same form each time. */
#include "config.h"

#include <string.h>

#include "engine/reward/answer-text.h"
#include "engine/reward/expression.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *raw = g_strndup ((const char *)data, size);
  g_autofree char *text = g_utf8_make_valid (raw, -1);
  g_autofree char *clean = plumb_answer_clean (text, strlen (text));
  g_autofree char *form = plumb_expression_normal (clean), *again = plumb_expression_normal (clean);

  if (g_strcmp0 (form, again) != 0)
    g_error ("two forms of one text");
  return 0;
}
