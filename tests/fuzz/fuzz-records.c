/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of rows: the first says of which kind. Records lie within the file, one behind the other, and
 * what a table gives is sound JSON but for its characters. */
#include "config.h"

#include <string.h>

#include "engine/core/json-scan.h"
#include "engine/text/data-csv.h"
#include "engine/text/data-records.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_table (GPtrArray **columns, const PlumbRecord *record, char separator)
{
  g_autoptr (GString) json = g_string_new (NULL);
  g_autofree char *wrong = NULL;
  const char *fault;
  PlumbJsonScan scan;

  if (*columns == NULL)
    {
      *columns = plumb_csv_cells (record->data, record->place.length, separator, &fault);
      return;
    }
  if (!plumb_csv_to_json (*columns, record->data, record->place.length, separator, json, &wrong))
    {
      if (wrong == NULL)
        g_error ("refused without a reason");
      return;
    }
  plumb_json_scan_init (&scan, json->str, json->len);
  plumb_json_skip (&scan);
  if (!plumb_json_finish (&scan) && strstr (scan.message, "UTF-8") == NULL)
    g_error ("%s at %" G_GSIZE_FORMAT " of %s", scan.message, scan.at, json->str);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (PlumbDataFile) file = NULL;
  g_autoptr (PlumbRecords) records = NULL;
  g_autoptr (GPtrArray) columns = NULL;
  g_autoptr (GError) error = NULL;
  PlumbRecord record;
  PlumbRecordKind kind;
  guint64 last = 0;

  if (size == 0)
    return 0;
  kind = data[0] % 4;
  file = plumb_data_file_new ("fuzz", NULL);
  if (file == NULL)
    return 0;
  plumb_data_file_append (file, (const char *)data + 1, size - 1, NULL);
  plumb_data_file_flush (file, NULL);
  records = plumb_records_new (file, kind);
  while (plumb_records_next (records, &record, &error))
    {
      if (record.place.offset < last || record.place.offset + record.place.length > size - 1)
        g_error ("a record lies outside");
      last = record.place.offset + record.place.length;
      if (memcmp (record.data, data + 1 + record.place.offset, record.place.length) != 0)
        g_error ("a record is not what stands at its place");
      if (record.fault == NULL && kind >= PLUMB_RECORD_CSV)
        check_table (&columns, &record, kind == PLUMB_RECORD_TSV ? '\t' : ',');
    }
  return 0;
}
