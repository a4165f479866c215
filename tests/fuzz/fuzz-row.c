/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a row of JSONL, for each use of rows: what is accepted is valid UTF-8, and has what was asked for. */
#include "config.h"

#include "engine/text/data-json.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_text (const GString *text)
{
  g_autofree char *copy = NULL;

  if (text == NULL)
    return;
  copy = g_memdup2 (text->str, text->len + 1);
  for (gsize i = 0; i < text->len; i++)
    if (copy[i] == '\0')
      copy[i] = ' ';
  if (!g_utf8_validate (copy, text->len, NULL))
    g_error ("accepted invalid UTF-8");
}

static void
read_as (const guint8 *data, gsize size, PlumbDataKeys *keys)
{
  g_auto (PlumbDataText) text = { NULL };
  g_auto (PlumbRowFault) fault = { NULL };

  if (!plumb_data_json_read ((const char *)data, size, 0, keys, &text, &fault))
    {
      if (fault.message == NULL)
        g_error ("refused without a reason");
      return;
    }
  check_text (text.prompt);
  check_text (text.response);
  check_text (text.rejected);
  if (keys->need_pair && (text.response == NULL && text.response_turns == NULL))
    g_error ("a pair without its better answer");
  if (text.prompt == NULL && text.turns == NULL && text.response == NULL && text.response_turns == NULL)
    g_error ("a row without anything");
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  for (int use = 0; use < 5; use++)
    {
      g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      g_autofree char *message = NULL;
      PlumbDataKeys keys = { .need_response = use == 1, .need_pair = use == 2, .need_label = use == 3,
                             .prompts_only = use == 0, .format = use == 4 ? PLUMB_DATA_MESSAGES : PLUMB_DATA_AUTO };

      if (!plumb_data_json_keys ((const char *)data, size, seen))
        {
          keys.prompt = g_strdup ("prompt");
          read_as (data, size, &keys);
        }
      else if ((message = plumb_data_json_choose (&keys, seen)) == NULL)
        read_as (data, size, &keys);
      plumb_data_keys_clear (&keys);
    }
  return 0;
}
