/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-file.h"

G_BEGIN_DECLS

/* Goes over a file and finds where each record is, holding no more than one at a time. */

typedef enum
{
  PLUMB_RECORD_LINES, /* end at \n alone: other separators of Unicode may stand inside a string */
  PLUMB_RECORD_ARRAY, /* the elements of a JSON array */
  PLUMB_RECORD_CSV,   /* RFC 4180 */
  PLUMB_RECORD_TSV,
} PlumbRecordKind;

#define PLUMB_DATA_LONGEST_LINE (64 << 20) /* bytes; longer ones are refused */

typedef struct
{
  guint64 offset;
  guint32 length; /* bytes, without the line end */
  guint32 line;   /* at which it begins, from 1 */
} PlumbRecordPlace;

typedef struct
{
  PlumbRecordPlace place;
  const char *data;  /* until the next call; NULL: too long */
  guint64 length;    /* of one that is too long as well */
  const char *fault; /* static; NULL: none */
} PlumbRecord;

typedef struct _PlumbRecords PlumbRecords;

PlumbRecords *plumb_records_new (PlumbDataFile *file, PlumbRecordKind kind);
void plumb_records_free (PlumbRecords *records);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbRecords, plumb_records_free)

/* Moves to the next record that is not blank. FALSE at the end, or with an error. */
gboolean plumb_records_next (PlumbRecords *records, PlumbRecord *record, GError **error);

G_END_DECLS
