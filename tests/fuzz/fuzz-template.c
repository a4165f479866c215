/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a chat template; if it parses, it is rendered within the limits, to valid UTF-8. */
#include "config.h"

#include "engine/text/template.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static JsonNode *messages;
  g_autoptr (PlumbTemplate) template = NULL;
  g_autoptr (GArray) spans = g_array_new (FALSE, FALSE, sizeof (PlumbTextSpan));
  g_autofree char *text = NULL;

  if (messages == NULL)
    messages = json_from_string ("[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b \xc3\xa9\"},"
                                 "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
                                 "\"arguments\":{\"x\":[1,2.5,true]}}}]}]",
                                 NULL);
  template = plumb_template_new ("fuzz", (const char *)data, size, NULL);
  if (template == NULL)
    return 0;
  text = plumb_template_render (template, messages, size % 2 != 0, NULL, spans, NULL);
  if (text != NULL && !g_utf8_validate (text, -1, NULL))
    g_error ("rendered to invalid UTF-8");
  return 0;
}
