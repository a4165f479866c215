/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* A file of data that is read in pieces and never mapped: one that is cut meanwhile is an error of the read, not the
 * end of the process. What is packed (.gz, .zst) or of another form is unpacked to a nameless file in the cache
 * folder. May be read by several threads at once. Errors name the file. */
typedef struct _PlumbDataFile PlumbDataFile;

#define PLUMB_DATA_FILE_MOST (G_GUINT64_CONSTANT (1) << 40) /* bytes of an unpacked file */

typedef struct
{
  guint64 size, changed, inode; /* bytes; ns since 1970 */
} PlumbFileStamp;

PlumbDataFile *plumb_data_file_open (const char *path, GError **error);
/* An empty nameless file that stands for `path`, to be filled by append. */
PlumbDataFile *plumb_data_file_new (const char *path, GError **error);
void plumb_data_file_free (PlumbDataFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDataFile, plumb_data_file_free)

const char *plumb_data_file_path (PlumbDataFile *file);
guint64 plumb_data_file_size (PlumbDataFile *file);
/* Of the file as it was opened; packed files: of the packed one. */
const PlumbFileStamp *plumb_data_file_stamp (PlumbDataFile *file);
/* FALSE for nameless files. */
gboolean plumb_data_file_is_plain (PlumbDataFile *file);

/* Reads exactly `length` bytes at `offset`. */
gboolean plumb_data_file_read (PlumbDataFile *file, guint64 offset, gsize length, char *to, GError **error);
/* Reads at most `length` bytes: as many as there are. -1 with an error. */
gssize plumb_data_file_read_some (PlumbDataFile *file, guint64 offset, gsize length, char *to, GError **error);
/* Adds to a nameless file; what is added can be read after flush. */
gboolean plumb_data_file_append (PlumbDataFile *file, const char *data, gsize length, GError **error);
gboolean plumb_data_file_flush (PlumbDataFile *file, GError **error);

/* $XDG_CACHE_HOME/plumbline, made if it is missing. (transfer full) */
char *plumb_data_cache_folder (void);

G_END_DECLS
