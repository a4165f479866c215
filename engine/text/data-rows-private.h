/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/arithmetic.h"
#include "engine/text/data-index.h"
#include "engine/text/data-json.h"

G_BEGIN_DECLS

typedef enum
{
  SOURCE_JSONL,
  SOURCE_JSON, /* an array, or lines after all */
  SOURCE_CSV,
  SOURCE_TSV,
  SOURCE_PARQUET,
  SOURCE_TEXT,
  SOURCE_ARITHMETIC,
} SourceKind;

struct _PlumbDataSource
{
  SourceKind kind;
  char *name;
  PlumbDataFile *file;
  PlumbRecordKind records;
  GPtrArray *columns; /* of a CSV file */
  PlumbDataKeys keys;
  PlumbDataIndex *index;
  gsize n_broken;
  PlumbArithmetic *arithmetic;
};

/* Rows up to here in a file are read when it is opened; of those behind only the places are found, and each is read
 * when it is taken, so that ten gigabytes begin in seconds. */
#define PLUMB_DATA_READ_CLOSELY (256 << 20)

/* A record as a row; FALSE with `fault`. */
gboolean plumb_data_record_read (PlumbDataSource *source,
                                 const PlumbRecord *record,
                                 PlumbDataText *text,
                                 PlumbRowFault *fault);
/* The record as an object of JSON: itself, or `json` filled with it. */
gboolean plumb_data_record_to_json (
    PlumbDataSource *source, const char **data, gsize *length, GString *json, PlumbRowFault *fault);
/* Goes over the records, behind the names of columns. NULL with an error. */
PlumbRecords *plumb_data_source_records (PlumbDataSource *source, GError **error);

/* data-rows-index.c: chooses the keys that are not given and finds the usable rows; what is wrong with others is
 * reported. */
gboolean plumb_data_source_index (PlumbDataSource *source, GPtrArray *reports, GError **error);

G_END_DECLS
