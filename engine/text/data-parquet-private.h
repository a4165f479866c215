/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-parquet.h"

G_BEGIN_DECLS

/* --- data-parquet-meta.c: what the footer says */

typedef enum
{
  PARQUET_BOOLEAN,
  PARQUET_INT32,
  PARQUET_INT64,
  PARQUET_INT96,
  PARQUET_FLOAT,
  PARQUET_DOUBLE,
  PARQUET_BYTES,
  PARQUET_FIXED,
  PARQUET_GROUP,
} PlumbParquetType;

typedef enum
{
  PARQUET_REQUIRED,
  PARQUET_OPTIONAL,
  PARQUET_REPEATED,
} PlumbParquetRepetition;

/* What a value stands for, as far as it changes how it is written. */
typedef enum
{
  PARQUET_AS_IT_IS,
  PARQUET_UNSIGNED,
  PARQUET_LIST,
  PARQUET_DECIMAL,
  PARQUET_DATE,
  PARQUET_TIME,
  PARQUET_TIMESTAMP,
  PARQUET_UUID,
  PARQUET_HALF,
  PARQUET_INTERVAL,
} PlumbParquetMeaning;

typedef struct
{
  PlumbParquetType type;
  PlumbParquetRepetition repetition;
  PlumbParquetMeaning meaning;
  char *name;
  guint width;             /* bytes of a FIXED value */
  guint scale;             /* digits of a decimal behind the point; of times: 3, 6 or 9 digits of a second */
  gboolean utc;            /* of timestamps */
  guint children;          /* which follow, each with its own */
  guint end;               /* behind the last of them */
  guint depth;             /* of nesting */
  guint8 max_def, max_rep; /* levels at which a value is there */
  guint first_leaf, n_leaves;
} PlumbParquetNode;

typedef struct
{
  int codec;
  gint64 n_values, offset, dictionary, packed_size; /* dictionary: 0 none */
} PlumbParquetChunk;

typedef struct
{
  GArray *nodes;  /* PlumbParquetNode; the first is the row */
  guint n_leaves;
  GArray *chunks; /* PlumbParquetChunk: n_leaves for each group of rows */
  GArray *n_rows; /* gint64 for each group of rows */
} PlumbParquetMeta;

PlumbParquetMeta *plumb_parquet_meta_read (PlumbDataFile *file, GError **error);
void plumb_parquet_meta_free (PlumbParquetMeta *meta);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbParquetMeta, plumb_parquet_meta_free)

typedef struct
{
  int type; /* 0 data, 2 dictionary, 3 data of version 2 */
  gint64 unpacked, packed; /* bytes */
  gint64 n_values;
  int encoding;
  gint64 def_bytes, rep_bytes; /* version 2 */
  gboolean is_packed;          /* version 2 */
} PlumbParquetPage;

/* Reads a page header; `used` gets its bytes. FALSE when it is not sound or not whole. */
gboolean plumb_parquet_page_read (const guint8 *data, gsize length, PlumbParquetPage *page, gsize *used);

/* --- data-parquet-values.c: what a page holds */

/* Numbers of some bits, in runs and in packs; or of any size in packs of differences. */
typedef struct
{
  const guint8 *next, *end;
  guint width;    /* bits */
  guint64 left;   /* of the run or pack */
  gboolean packed;
  guint64 value;  /* of the run */
  guint64 bits;   /* read and not yet given */
  guint n_bits;
} PlumbParquetRuns;

void plumb_parquet_runs_init (PlumbParquetRuns *runs, const guint8 *data, gsize length, guint width);
gboolean plumb_parquet_runs_next (PlumbParquetRuns *runs, guint64 *value);

/* DELTA_BINARY_PACKED. */
typedef struct
{
  const guint8 *next, *end;
  guint64 total, given, per_mini;
  guint n_mini, mini;
  guint64 left; /* of the miniblock */
  guint8 widths[256];
  gint64 least, value;
  guint64 offset; /* bits into the miniblock */
  gboolean begun;
} PlumbParquetDeltas;

gboolean plumb_parquet_deltas_init (PlumbParquetDeltas *deltas, const guint8 *data, gsize length);
gboolean plumb_parquet_deltas_next (PlumbParquetDeltas *deltas, gint64 *value);
/* Goes to the end: where what follows begins. NULL when it is not sound. */
const guint8 *plumb_parquet_deltas_end (PlumbParquetDeltas deltas);

typedef struct
{
  const guint8 *data; /* of bytes; else of a number, little-endian */
  gsize length;
  gint64 number; /* of booleans, and of numbers from differences */
  gboolean is_number;
} PlumbParquetValue;

/* The values of a page, one after the other. */
typedef struct
{
  PlumbParquetType type;
  guint width;
  int encoding;
  const guint8 *next, *end;
  guint bit;
  PlumbParquetRuns runs;
  PlumbParquetDeltas deltas, prefixes;
  GByteArray *text;            /* of DELTA_BYTE_ARRAY and BYTE_STREAM_SPLIT: the present value */
  gsize stride, at;            /* of BYTE_STREAM_SPLIT: values of the page, and those given */
  const GArray *dictionary;    /* PlumbParquetValue; NULL: none */
} PlumbParquetValues;

/* FALSE for an encoding that is not known, or when it is not sound. */
gboolean plumb_parquet_values_init (PlumbParquetValues *values, const guint8 *data, gsize length);
gboolean plumb_parquet_values_next (PlumbParquetValues *values, PlumbParquetValue *value);

/* --- data-parquet-time.c: values that are written as text */

/* Days or parts of a second since 1970, and parts of a second since midnight, as ISO 8601 has them. */
void plumb_parquet_write_date (GString *text, gint64 days);
void plumb_parquet_write_timestamp (GString *text, gint64 value, guint digits, gboolean utc);
void plumb_parquet_write_time (GString *text, gint64 value, guint digits);
/* The 12 bytes of an INT96 timestamp. */
void plumb_parquet_write_int96 (GString *text, const guint8 *data);
/* A whole number in two's complement, highest byte first, with the point before its last `scale` digits. FALSE: it has more than
 * 64 bytes, or none. */
gboolean plumb_parquet_write_decimal (GString *text, const guint8 *data, gsize length, guint scale);
double plumb_parquet_half (const guint8 *data);

/* --- data-parquet-codec.c */

/* Unpacks to exactly `length` bytes; the message of a failure is static. */
const char *plumb_parquet_unpack (int codec, const guint8 *data, gsize n, guint8 *to, gsize length);

G_END_DECLS
