/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a spec: read, checked, written and read again. */
#include "config.h"

#include <string.h>

#include "engine/core/spec.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new (), again = plumb_spec_new ();
  g_autoptr (GPtrArray) problems = plumb_problems_new (), later = plumb_problems_new ();
  g_autoptr (GPtrArray) changes = NULL;
  g_autofree char *text = NULL, *listing = NULL;

  plumb_spec_load_data (spec, (const char *)data, size, "fuzz.spec", "/base", problems);
  plumb_spec_validate (spec, problems);
  listing = plumb_problems_to_text (problems);
  text = plumb_spec_to_text (spec);
  plumb_spec_load_data (again, text, strlen (text), "again.spec", "/base", later);
  changes = plumb_spec_diff (spec, again);
  /* What was accepted must be written so that it is accepted as the same. */
  if (later->len > 0 || changes->len > 0)
    g_error ("written otherwise than it was read:\n%s", text);
  return 0;
}
