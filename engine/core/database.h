/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sqlite3.h>

G_BEGIN_DECLS

/* What the telemetry writer and reader share: opening, errors, small queries. Internal to core. */

#define PLUMB_DATABASE_VERSION 1

/* Sequence number of the last row of telemetry.db. */
#define PLUMB_LAST_SEQ_SQL                                                                         \
  "SELECT max (ifnull ((SELECT max (seq) FROM attempt), 0),"                                       \
  " ifnull ((SELECT max (seq) FROM attempt_end), 0), ifnull ((SELECT max (seq) FROM metric), 0),"  \
  " ifnull ((SELECT max (seq) FROM point), 0), ifnull ((SELECT max (seq) FROM event), 0),"         \
  " ifnull ((SELECT max (seq) FROM phase), 0))"

typedef sqlite3 PlumbDatabase;
typedef sqlite3_stmt PlumbStatement;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDatabase, sqlite3_close_v2)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbStatement, sqlite3_finalize)

/* Opens for writing; a new file gets the schema (data/SCHEMA), a store row, and WAL. */
PlumbDatabase *plumb_database_open (const char *path, const char *schema, GError **error);
PlumbDatabase *plumb_database_open_readonly (const char *path, GError **error);

/* Sets `error` from the database's last one: full disk, damaged file, ... Returns FALSE. */
gboolean plumb_database_fail (PlumbDatabase *db, GError **error);
gboolean plumb_database_exec (PlumbDatabase *db, const char *sql, GError **error);
PlumbStatement *plumb_database_prepare (PlumbDatabase *db, const char *sql, GError **error);
/* Runs a statement to its end and resets it. */
gboolean plumb_database_step (PlumbDatabase *db, PlumbStatement *statement, GError **error);
/* The single integer that a query gives; 0 for NULL or no row. */
gboolean plumb_database_integer (PlumbDatabase *db, const char *sql, gint64 *value, GError **error);

void plumb_bind_text (PlumbStatement *statement, int index, const char *text); /* NULL binds NULL */
void plumb_bind_bytes (PlumbStatement *statement, int index, GBytes *bytes);
char *plumb_column_text (PlumbStatement *statement,
                         int column); /* (transfer full), NULL for NULL */
GBytes *plumb_column_bytes (PlumbStatement *statement, int column);

G_END_DECLS
