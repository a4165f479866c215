/* SPDX-License-Identifier: Apache-2.0 */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/rollout/kv-cache.h"

struct _PlumbKvCache
{
  PlumbModel *model;
  struct dev_arena *arena;
  struct dev_kv *layers;
  gsize bytes;
  gsize part_bytes;  /* of a page: k or v of one layer */
  gsize scale_bytes; /* of the scales of such a part; 0: there are none */
  gboolean asleep;
};

static gsize
part_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbKvShape *shape)
{
  return (gsize) shape->page_tokens * config->groups * config->head_size * (shape->coded ? 1 : dev_type_size (type));
}

static gsize
scale_bytes (const PlumbModelConfig *config, const PlumbKvShape *shape)
{
  return shape->coded ? (gsize) shape->page_tokens * config->groups * sizeof (float) : 0;
}

gsize
plumb_kv_cache_page_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbKvShape *shape)
{
  return 2 * (gsize) config->layers * (part_bytes (config, type, shape) + scale_bytes (config, shape));
}

gsize
plumb_kv_cache_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbKvShape *shape)
{
  gsize pages = shape->pages + 1;
  return 2 * (gsize) config->layers
         * (dev_align (part_bytes (config, type, shape) * pages) + dev_align (scale_bytes (config, shape) * pages));
}

static void
deal (PlumbKvCache *self, gsize pages)
{
  PlumbCutter cutter = { self->model->device->ops->arena_base (self->arena), 0 };
  int layers = self->model->config->layers;
  self->layers = g_new0 (struct dev_kv, layers);
  for (int i = 0; i < layers; i++)
    {
      struct dev_kv *kv = &self->layers[i];
      kv->k = plumb_cut (&cutter, self->part_bytes * pages);
      kv->v = plumb_cut (&cutter, self->part_bytes * pages);
      if (self->scale_bytes == 0)
        continue;
      kv->k_scales = plumb_cut (&cutter, self->scale_bytes * pages);
      kv->v_scales = plumb_cut (&cutter, self->scale_bytes * pages);
    }
}

PlumbKvCache *
plumb_kv_cache_new (PlumbModel *model, const PlumbKvShape *shape, GError **error)
{
  g_autoptr (PlumbKvCache) self = g_new0 (PlumbKvCache, 1);
  self->model = model;
  self->part_bytes = part_bytes (model->config, model->type, shape);
  self->scale_bytes = scale_bytes (model->config, shape);
  self->bytes = plumb_kv_cache_bytes (model->config, model->type, shape);
  self->arena = plumb_device_allocate (model->device, self->bytes, "the KV cache", error);
  if (!self->arena)
    return NULL;
  deal (self, (gsize) shape->pages + 1);
  return g_steal_pointer (&self);
}

void
plumb_kv_cache_free (PlumbKvCache *self)
{
  if (!self)
    return;
  self->model->device->ops->arena_free (self->arena);
  g_free (self->layers);
  g_free (self);
}

const struct dev_kv *
plumb_kv_cache_layers (PlumbKvCache *self)
{
  return self->layers;
}

void
plumb_kv_cache_copy_page (PlumbKvCache *self, int to, int from)
{
  const struct dev_ops *ops = self->model->device->ops;
  for (int i = 0; i < self->model->config->layers; i++)
    {
      const struct dev_kv *kv = &self->layers[i];
      void *const parts[] = { kv->k, kv->v, kv->k_scales, kv->v_scales };
      for (int part = 0; part < 4 && parts[part]; part++)
        {
          gsize bytes = part < 2 ? self->part_bytes : self->scale_bytes;
          char *at = parts[part];
          ops->copy (self->model->device->context, at + to * bytes, at + from * bytes, bytes);
        }
    }
}

void
plumb_kv_cache_sleep (PlumbKvCache *self)
{
  if (!self->asleep)
    plumb_device_sleep (self->model->device, self->arena, self->bytes);
  self->asleep = TRUE;
}

gboolean
plumb_kv_cache_wake (PlumbKvCache *self, GError **error)
{
  if (self->asleep && !plumb_device_wake (self->model->device, self->arena, self->bytes, "the KV cache", error))
    return FALSE;
  self->asleep = FALSE;
  return TRUE;
}
