/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Real data beside the project, of which none is part of it: the path of a file of that folder, or
 * NULL after marking the test as skipped. (transfer full) */
static inline char *
shared_file (const char *name)
{
  const char *fixtures = g_getenv ("PLUMB_TEST_FIXTURES");
  g_autofree char *path = g_build_filename (fixtures != NULL ? fixtures : "tests/fixtures", "..",
                                            "..", "..", "shared", "data", name, NULL);
  g_autofree char *message = NULL;

  if (g_file_test (path, G_FILE_TEST_EXISTS))
    return g_steal_pointer (&path);
  message = g_strdup_printf ("there is no ../shared/data/%s", name);
  g_test_skip (message);
  return NULL;
}
