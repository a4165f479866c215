/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a row of JSONL: what is accepted must be valid UTF-8. */
#include "config.h"

#include "engine/text/data-json.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_auto (PlumbDataText) text = { NULL };
  g_auto (PlumbRowFault) fault = { NULL };
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  PlumbDataKeys keys = { .prompt = (char *)"prompt", .answer = (char *)"answer" };

  plumb_data_json_keys ((const char *)data, size, seen);
  if (!plumb_data_json_read ((const char *)data, size, 0, &keys, &text, &fault))
    {
      if (fault.message == NULL)
        g_error ("refused without a reason");
      return 0;
    }
  for (gsize i = 0; i < text.prompt->len; i++)
    if (text.prompt->str[i] == '\0')
      text.prompt->str[i] = ' ';
  if (!g_utf8_validate (text.prompt->str, text.prompt->len, NULL))
    g_error ("accepted invalid UTF-8");
  return 0;
}
