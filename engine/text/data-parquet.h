/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-file.h"

G_BEGIN_DECLS

/* The rows of a Parquet file as lines of JSON in a nameless file: lists and structs as they nest, binary that is no
 * text and types without a counterpart as null. Reads pages of version 1 and 2, plain, dictionary, run-length and delta
 * encodings, uncompressed or packed by Snappy, gzip or Zstandard. Errors name the file and the column. */
PlumbDataFile *plumb_parquet_to_lines (PlumbDataFile *file, GError **error);

G_END_DECLS
