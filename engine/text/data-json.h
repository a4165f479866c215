/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/json-scan.h"
#include "engine/text/data-rows.h"

G_BEGIN_DECLS

/* One line of JSONL as a row. Internal to the data sources. */

typedef struct
{
  char *message; /* what is wrong */
  char *remedy;  /* NULL: nothing special */
} PlumbRowFault;

void plumb_row_fault_clear (PlumbRowFault *fault);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbRowFault, plumb_row_fault_clear)

/* Whether a label's text says yes or no; FALSE: neither. A margin's text as a number; NaN: none. */
gboolean plumb_data_label (const char *text, gboolean *liked);
double plumb_data_number (const char *text);

/* How a reader of another format writes bytes that are no text (a format of their gsize number): a row that asks for them as
 * a text is at fault. No row of a user has such a key. */
#define PLUMB_DATA_NO_TEXT_START "{\"\\u0000no text\":"
#define PLUMB_DATA_NO_TEXT PLUMB_DATA_NO_TEXT_START "%" G_GSIZE_FORMAT "}"

/* Reads the texts of a line. FALSE with `fault`. `offset`: of the line in its file. */
gboolean plumb_data_json_read (const char *line,
                               gsize length,
                               gsize offset,
                               const PlumbDataKeys *keys,
                               PlumbDataText *text,
                               PlumbRowFault *fault);

#define OUTER_KEY 1
#define INNER_KEY 2

/* Collects the keys of a line into `seen` (key -> OUTER_KEY, or INNER_KEY for one below another: "a.0.b"); FALSE if
 * it is no sound object. */
gboolean plumb_data_json_keys (const char *line, gsize length, GHashTable *seen);

/* data-keys.c: fills the keys that are not given from those that rows have; a message (transfer full) where one is
 * needed and not there. */
char *plumb_data_json_choose (PlumbDataKeys *keys, GHashTable *seen);

G_END_DECLS
