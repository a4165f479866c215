/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a Parquet file: its rows are sound JSON, or it is refused with a reason. */
#include "config.h"

#include <string.h>

#include "engine/core/json-scan.h"
#include "engine/text/data-parquet.h"
#include "engine/text/data-records.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

#define MOST_CHECKED 1000 /* rows */

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (PlumbDataFile) file = plumb_data_file_new ("fuzz", NULL);
  g_autoptr (PlumbDataFile) lines = NULL;
  g_autoptr (PlumbRecords) records = NULL;
  g_autoptr (GError) error = NULL;
  PlumbRecord record;

  if (file == NULL)
    return 0;
  plumb_data_file_append (file, (const char *)data, size, NULL);
  plumb_data_file_flush (file, NULL);
  lines = plumb_parquet_to_lines (file, &error);
  if (lines == NULL)
    {
      if (error == NULL)
        g_error ("refused without a reason");
      return 0;
    }
  records = plumb_records_new (lines, PLUMB_RECORD_LINES);
  for (int i = 0; i < MOST_CHECKED && plumb_records_next (records, &record, NULL); i++)
    {
      PlumbJsonScan scan;

      plumb_json_scan_init (&scan, record.data, record.place.length);
      plumb_json_skip (&scan);
      if (!plumb_json_finish (&scan) && strstr (scan.message, "deep") == NULL)
        g_error ("%s at %" G_GSIZE_FORMAT, scan.message, scan.at);
    }
  return 0;
}
