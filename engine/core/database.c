/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <gio/gio.h>

#include "core-resources.h" /* plumb_core_get_resource: the schemas */
#include "engine/core/database.h"
#include "engine/core/error.h"

#define BUSY_MS 5000

gboolean
plumb_database_fail (PlumbDatabase *db, GError **error)
{
  const char *path = sqlite3_db_filename (db, "main");
  int code = sqlite3_extended_errcode (db);
  PlumbError kind = PLUMB_ERROR_ENVIRONMENT;
  const char *remedy = "";

  switch (code & 0xff)
    {
    case SQLITE_FULL:
      remedy = "; free some space on that disk";
      break;
    case SQLITE_IOERR:
      remedy = "; check the disk and the space on it";
      break;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      kind = PLUMB_ERROR_INVALID;
      remedy = "; move the file away, or restore it from a copy";
      break;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      remedy = "; check that the folder exists and may be written";
      break;
    default:
      break;
    }
  g_set_error (error, PLUMB_ERROR, kind, "%s: %s%s", path != NULL ? path : "database",
               sqlite3_errmsg (db), remedy);
  return FALSE;
}

gboolean
plumb_database_exec (PlumbDatabase *db, const char *sql, GError **error)
{
  if (sqlite3_exec (db, sql, NULL, NULL, NULL) != SQLITE_OK)
    return plumb_database_fail (db, error);
  return TRUE;
}

PlumbStatement *
plumb_database_prepare (PlumbDatabase *db, const char *sql, GError **error)
{
  PlumbStatement *statement = NULL;

  if (sqlite3_prepare_v2 (db, sql, -1, &statement, NULL) != SQLITE_OK)
    plumb_database_fail (db, error);
  return statement;
}

gboolean
plumb_database_step (PlumbDatabase *db, PlumbStatement *statement, GError **error)
{
  int result;

  while ((result = sqlite3_step (statement)) == SQLITE_ROW)
    continue;
  if (result != SQLITE_DONE)
    plumb_database_fail (db, error);
  sqlite3_reset (statement);
  return result == SQLITE_DONE;
}

gboolean
plumb_database_integer (PlumbDatabase *db, const char *sql, gint64 *value, GError **error)
{
  g_autoptr (PlumbStatement) statement = plumb_database_prepare (db, sql, error);
  int result;

  if (statement == NULL)
    return FALSE;
  result = sqlite3_step (statement);
  if (result != SQLITE_ROW && result != SQLITE_DONE)
    return plumb_database_fail (db, error);
  *value = result == SQLITE_ROW ? sqlite3_column_int64 (statement, 0) : 0;
  return TRUE;
}

static PlumbDatabase *
open_file (const char *path, int flags, GError **error)
{
  g_autoptr (PlumbDatabase) db = NULL;

  if (sqlite3_open_v2 (path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL)
      != SQLITE_OK)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "%s: cannot open the database: %s",
                   path, db != NULL ? sqlite3_errmsg (db) : "out of memory");
      return NULL;
    }
  sqlite3_extended_result_codes (db, 1);
  sqlite3_busy_timeout (db, BUSY_MS);
  return g_steal_pointer (&db);
}

static gboolean
check_version (PlumbDatabase *db, GError **error)
{
  gint64 version;

  if (!plumb_database_integer (db, "SELECT version FROM store", &version, error))
    return FALSE;
  if (version == PLUMB_DATABASE_VERSION)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "%s: the database is of version %" G_GINT64_FORMAT
               ", this program reads version %d; use the program that wrote it",
               sqlite3_db_filename (db, "main"), version, PLUMB_DATABASE_VERSION);
  return FALSE;
}

static gboolean
make_store (PlumbDatabase *db, const char *schema, GError **error)
{
  g_autofree char *resource = g_strconcat ("/io/github/plumbline/core/", schema, NULL);
  g_autoptr (GBytes) sql = g_resource_lookup_data (plumb_core_get_resource (), resource,
                                                   G_RESOURCE_LOOKUP_FLAGS_NONE, error);
  g_autofree char *id = g_uuid_string_random ();
  g_autofree char *row = NULL;

  if (sql == NULL)
    return FALSE;
  row = g_strdup_printf ("INSERT INTO store VALUES ('%s', %d, %" G_GINT64_FORMAT ")", id,
                         PLUMB_DATABASE_VERSION, g_get_real_time () / G_USEC_PER_SEC);
  /* Resource data ends with a NUL of its own. */
  return plumb_database_exec (db, "BEGIN IMMEDIATE", error)
         && plumb_database_exec (db, g_bytes_get_data (sql, NULL), error)
         && plumb_database_exec (db, row, error) && plumb_database_exec (db, "COMMIT", error);
}

PlumbDatabase *
plumb_database_open (const char *path, const char *schema, GError **error)
{
  g_autoptr (PlumbDatabase) db
      = open_file (path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);
  gint64 tables;

  if (db == NULL
      || !plumb_database_exec (db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", error)
      || !plumb_database_integer (db, "SELECT count(*) FROM sqlite_schema", &tables, error)
      || (tables == 0 && !make_store (db, schema, error)) || !check_version (db, error))
    return NULL;
  return g_steal_pointer (&db);
}

PlumbDatabase *
plumb_database_open_readonly (const char *path, GError **error)
{
  g_autoptr (PlumbDatabase) db = NULL;

  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT, "%s: there is no such file", path);
      return NULL;
    }
  db = open_file (path, SQLITE_OPEN_READONLY, error);
  if (db == NULL || !check_version (db, error))
    return NULL;
  return g_steal_pointer (&db);
}

void
plumb_bind_text (PlumbStatement *statement, int index, const char *text)
{
  if (text != NULL)
    sqlite3_bind_text (statement, index, text, -1, SQLITE_STATIC);
  else
    sqlite3_bind_null (statement, index);
}

void
plumb_bind_bytes (PlumbStatement *statement, int index, GBytes *bytes)
{
  gsize size = 0;
  gconstpointer data = bytes != NULL ? g_bytes_get_data (bytes, &size) : NULL;

  if (bytes != NULL)
    sqlite3_bind_blob64 (statement, index, data != NULL ? data : "", size, SQLITE_STATIC);
  else
    sqlite3_bind_null (statement, index);
}

char *
plumb_column_text (PlumbStatement *statement, int column)
{
  return g_strdup ((const char *)sqlite3_column_text (statement, column));
}

GBytes *
plumb_column_bytes (PlumbStatement *statement, int column)
{
  gconstpointer data = sqlite3_column_blob (statement, column);

  if (sqlite3_column_type (statement, column) == SQLITE_NULL)
    return NULL;
  return g_bytes_new (data, sqlite3_column_bytes (statement, column));
}
