/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A strict JSON reader that builds no tree: for large files, and for rows whose numbers, NULs and
 * duplicate keys must not be lost on the way. It goes over the text once; the first fault stops it
 * for good and is kept in `message` with its offset in `at`. Every function returns FALSE from then
 * on.
 *
 *   plumb_json_scan_init (&scan, data, length);
 *   if (plumb_json_enter_object (&scan))
 *     while (plumb_json_next_member (&scan, key))
 *       ... one of get_string, get_number, skip, enter_...
 *   if (!plumb_json_finish (&scan))
 *     report (scan.message, scan.at);
 */

#define PLUMB_JSON_MAX_DEPTH 64

typedef enum
{
  PLUMB_JSON_NOTHING, /* the end of the text, or a character that starts no value */
  PLUMB_JSON_OBJECT,
  PLUMB_JSON_ARRAY,
  PLUMB_JSON_STRING,
  PLUMB_JSON_NUMBER,
  PLUMB_JSON_BOOLEAN,
  PLUMB_JSON_NULL,
} PlumbJsonType;

typedef struct
{
  const char *data, *end;
  const char *next;
  guint depth;
  guint8 open[PLUMB_JSON_MAX_DEPTH]; /* of each level: 0 nothing read yet, 1 something */
  const char *message;               /* static; NULL: no fault */
  gsize at;                          /* its offset in bytes */
} PlumbJsonScan;

void plumb_json_scan_init (PlumbJsonScan *scan, const char *data, gsize length);

/* Type of the value that comes next. */
PlumbJsonType plumb_json_peek (PlumbJsonScan *scan);
const char *plumb_json_type_name (PlumbJsonType type); /* "an object", "a number", ... */

gboolean plumb_json_enter_object (PlumbJsonScan *scan);
/* Moves to the next member and reads its key; FALSE at the end of the object, which is then left.
 */
gboolean plumb_json_next_member (PlumbJsonScan *scan, GString *key);
gboolean plumb_json_enter_array (PlumbJsonScan *scan);
/* Moves to the next element; FALSE at the end of the array, which is then left. */
gboolean plumb_json_next_element (PlumbJsonScan *scan);

/* The string, decoded to valid UTF-8; it may hold NULs. */
gboolean plumb_json_get_string (PlumbJsonScan *scan, GString *string);
/* The number as it is spelled: no digit is lost. */
gboolean plumb_json_get_number (PlumbJsonScan *scan, const char **text, gsize *length);
/* A whole number within the range of gint64. */
gboolean plumb_json_get_integer (PlumbJsonScan *scan, gint64 *value);
gboolean plumb_json_get_boolean (PlumbJsonScan *scan, gboolean *value);
/* Any value, checked as strictly as the others. */
gboolean plumb_json_skip (PlumbJsonScan *scan);

/* TRUE if there was no fault and only blanks are left. */
gboolean plumb_json_finish (PlumbJsonScan *scan);

G_END_DECLS
