/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/data-records.h"

G_BEGIN_DECLS

/* Where the usable rows of a file are. A short list is held in memory, a long one in a nameless file, so that ten
 * gigabytes of rows cost no memory; that of a large file is kept in the cache folder, and taken from there while the
 * file is the same. May be read by several threads at once. */
typedef struct _PlumbDataIndex PlumbDataIndex;

PlumbDataIndex *plumb_data_index_new (void);
void plumb_data_index_free (PlumbDataIndex *index);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDataIndex, plumb_data_index_free)

gboolean plumb_data_index_append (PlumbDataIndex *index, const PlumbRecordPlace *place, GError **error);
/* Once all are appended, before any is asked for. */
gboolean plumb_data_index_finish (PlumbDataIndex *index, GError **error);
gsize plumb_data_index_n_rows (PlumbDataIndex *index);
gboolean plumb_data_index_get (PlumbDataIndex *index, gsize row, PlumbRecordPlace *place, GError **error);

/* Files from this size on are worth keeping the index of. */
#define PLUMB_DATA_INDEX_WORTH (64 << 20)

/* Keeps an index with how it was made (`recipe`: all that the choice of rows depends on) and what else was learnt,
 * `notes`. Failing to is no error: it is made anew. */
void plumb_data_index_keep (PlumbDataIndex *index, PlumbDataFile *file, const char *recipe, const char *notes);
/* The kept one of a file that has not changed; NULL: none. (transfer full) */
PlumbDataIndex *plumb_data_index_find (PlumbDataFile *file, const char *recipe, char **notes);

G_END_DECLS
