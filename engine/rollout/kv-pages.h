/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Pages of the KV cache with reference counts: samples of one prompt share the pages that its prefill
 * filled. */
typedef struct _PlumbKvPages PlumbKvPages;

PlumbKvPages *plumb_kv_pages_new (int pages);
void plumb_kv_pages_free (PlumbKvPages *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbKvPages, plumb_kv_pages_free)

/* A page with one reference, or -1 when none is free. */
int plumb_kv_pages_take (PlumbKvPages *self);
void plumb_kv_pages_share (PlumbKvPages *self, int page);
void plumb_kv_pages_release (PlumbKvPages *self, int page);

int plumb_kv_pages_total (PlumbKvPages *self);
int plumb_kv_pages_used (PlumbKvPages *self);
/* Most pages that were in use together, since the start or the last plumb_kv_pages_forget_peak(). */
int plumb_kv_pages_peak (PlumbKvPages *self);
void plumb_kv_pages_forget_peak (PlumbKvPages *self);
int plumb_kv_pages_references (PlumbKvPages *self, int page);

G_END_DECLS
