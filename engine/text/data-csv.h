/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Tables of RFC 4180, with a comma or a tab between cells; the first record names the columns. */

/* The cells of a record, each with `quoted` kept apart by plumb_csv_to_json alone: (transfer full) array of strings.
 * NULL with `wrong` (static) when quotes are out of place. */
GPtrArray *plumb_csv_cells (const char *record, gsize length, char separator, const char **wrong);

/* A record as an object of JSON; an empty cell without quotes is null. FALSE with `wrong` (transfer full). */
gboolean plumb_csv_to_json (GPtrArray *columns,
                            const char *record,
                            gsize length,
                            char separator,
                            GString *json,
                            char **wrong);

/* Appends a text as a string of JSON, bytes as they are. */
void plumb_json_append_text (GString *json, const char *text, gsize length);

G_END_DECLS
