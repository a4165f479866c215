/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Memory that processes of this machine see together. It has no name in any file system: it is gone with the last
 * process that maps it, however that ends. */
typedef struct _PlumbSharedMemory PlumbSharedMemory;

/* Zeroed memory of a fixed size; pages are taken when they are first written. */
PlumbSharedMemory *plumb_shared_memory_new (gsize bytes, GError **error);
/* Maps the memory that another process of this user made and still holds, by its path; at least `least` bytes. */
PlumbSharedMemory *plumb_shared_memory_open (const char *path, gsize least, GError **error);
void plumb_shared_memory_free (PlumbSharedMemory *memory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbSharedMemory, plumb_shared_memory_free)

void *plumb_shared_memory_base (PlumbSharedMemory *memory);
gsize plumb_shared_memory_size (PlumbSharedMemory *memory);
/* By which another process opens it while this one lives. */
const char *plumb_shared_memory_path (PlumbSharedMemory *memory);

G_END_DECLS
