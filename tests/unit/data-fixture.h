/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder with a byte tokenizer, which also holds the cache, and data sets opened in it. */
#pragma once

#include <string.h>

#include "engine/text/dataset.h"
#include "tests/unit/temporary.h"

typedef struct
{
  char *folder;
  PlumbTokenizer *tokenizer;
  PlumbTemplate *chat; /* owned, NULL without chat */
  GPtrArray *reports;  /* of the data set opened last */
  PlumbDataOptions options;
} Fixture;

static inline void
fixture_open (Fixture *fixture, int max_length)
{
  g_autofree char *cache = NULL;

  fixture->folder = temporary_folder ();
  cache = g_build_filename (fixture->folder, "cache", NULL);
  g_setenv ("XDG_CACHE_HOME", cache, TRUE);
  g_assert_true (plumb_tokenizer_write_bytes (fixture->folder, 260, NULL));
  fixture->tokenizer = plumb_tokenizer_load (fixture->folder, NULL);
  fixture->reports = plumb_problems_new ();
  fixture->options = (PlumbDataOptions){ .max_length = max_length, .seed = 1 };
}

/* The report of this index is on this line, and says so. */
static inline void
assert_report (Fixture *fixture, guint index, guint line, const char *message)
{
  const PlumbProblem *problem;

  g_assert_cmpuint (fixture->reports->len, >, index);
  problem = g_ptr_array_index (fixture->reports, index);
  g_assert_cmpuint (problem->line, ==, line);
  if (strstr (problem->message, message) == NULL)
    g_error ("line %u: %s", line, problem->message);
}

static inline void
tear_down (Fixture *fixture, gconstpointer data)
{
  plumb_data_options_clear (&fixture->options);
  g_ptr_array_unref (fixture->reports);
  g_clear_pointer (&fixture->chat, plumb_template_unref);
  plumb_tokenizer_unref (fixture->tokenizer);
  remove_folder (fixture->folder);
  g_free (fixture->folder);
}

static inline char *
write_data (Fixture *fixture, const char *name, const char *data, gssize length)
{
  char *path = g_build_filename (fixture->folder, name, NULL);

  g_assert_true (g_file_set_contents (path, data, length, NULL));
  return path;
}

/* Opens the files or folders of `paths`, which commas part. */
static inline PlumbDataSet *
open_paths (Fixture *fixture, const char *paths, GError **error)
{
  g_strfreev (fixture->options.paths);
  fixture->options.paths = g_strsplit (paths, ",", -1);
  g_ptr_array_set_size (fixture->reports, 0);
  return plumb_data_set_open (&fixture->options, fixture->tokenizer, fixture->reports, error);
}

static inline PlumbDataRow *
row_of (PlumbDataSet *set, gsize index)
{
  g_autoptr (GError) error = NULL;
  PlumbDataRow *row = plumb_data_set_get (set, index, &error);

  g_assert_no_error (error);
  return row;
}
