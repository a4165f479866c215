/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-file.h"

G_BEGIN_DECLS

/* The rows of a Parquet file as lines of JSON in a nameless file: lists and structs as they nest; decimals, dates, times
 * and UUIDs as text; binary that is no text as PLUMB_DATA_NO_TEXT, which faults a row that uses it. Reads pages of version 1 and
 * 2 in every encoding, uncompressed or packed by Snappy, gzip, Brotli, LZ4 or Zstandard. Errors name the file and the
 * column. */
PlumbDataFile *plumb_parquet_to_lines (PlumbDataFile *file, GError **error);

G_END_DECLS
