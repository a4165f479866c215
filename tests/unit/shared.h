/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Real models and data, of which none is part of the project: the path of a file in the folder that
 * PLUMB_TEST_DATA names, or in one beside the project; NULL after marking the test as skipped.
 * (transfer full) */
static inline char *
shared_file (const char *name)
{
  const char *fixtures = g_getenv ("PLUMB_TEST_FIXTURES");
  const char *folder = g_getenv ("PLUMB_TEST_DATA");
  g_autofree char *beside = g_build_filename (fixtures != NULL ? fixtures : "tests/fixtures", "..",
                                              "..", "..", "shared", "data", NULL);
  g_autofree char *path = g_build_filename (folder != NULL ? folder : beside, name, NULL);
  g_autofree char *message = NULL;

  if (g_file_test (path, G_FILE_TEST_EXISTS))
    return g_steal_pointer (&path);
  message = g_strdup_printf ("there is no %s; PLUMB_TEST_DATA may name a folder with it", name);
  g_test_skip (message);
  return NULL;
}
