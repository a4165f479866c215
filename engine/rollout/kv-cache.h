/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"

G_BEGIN_DECLS

typedef struct
{
  int pages;       /* that are given out */
  int page_tokens; /* a multiple of DEV_KEY_TILE */
  gboolean coded;  /* e4m3 codes, a byte each, with a scale per token and group, in place of the model's type */
} PlumbKvShape;

/* The memory behind the pages of the KV cache: keys and values of every layer. */
typedef struct _PlumbKvCache PlumbKvCache;

/* Bytes of a page, of all layers; of the whole cache. */
gsize plumb_kv_cache_page_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbKvShape *shape);
gsize plumb_kv_cache_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbKvShape *shape);

/* For a model, which is borrowed. */
PlumbKvCache *plumb_kv_cache_new (PlumbModel *model, const PlumbKvShape *shape, GError **error);
void plumb_kv_cache_free (PlumbKvCache *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbKvCache, plumb_kv_cache_free)

/* (layers), each with one page more than are given out, for rows whose keys nobody reads. */
const struct dev_kv *plumb_kv_cache_layers (PlumbKvCache *self);
/* Queues the copy of a page to another, in all layers. */
void plumb_kv_cache_copy_page (PlumbKvCache *self, int to, int from);
/* Gives the memory back until it is woken; what was in it is lost, where it lies stays. */
void plumb_kv_cache_sleep (PlumbKvCache *self);
gboolean plumb_kv_cache_wake (PlumbKvCache *self, GError **error);

G_END_DECLS
