/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/rollout/kv-pages.h"

struct _PlumbKvPages
{
  int total, free_count, peak;
  int *free_list; /* (total) the first free_count are free */
  int *references; /* (total) */
};

PlumbKvPages *
plumb_kv_pages_new (int pages)
{
  PlumbKvPages *self = g_new0 (PlumbKvPages, 1);
  self->total = self->free_count = pages;
  self->free_list = g_new (int, pages);
  self->references = g_new0 (int, pages);
  for (int i = 0; i < pages; i++)
    self->free_list[i] = pages - 1 - i;
  return self;
}

void
plumb_kv_pages_free (PlumbKvPages *self)
{
  if (!self)
    return;
  g_free (self->free_list);
  g_free (self->references);
  g_free (self);
}

int
plumb_kv_pages_take (PlumbKvPages *self)
{
  if (self->free_count == 0)
    return -1;
  int page = self->free_list[--self->free_count];
  self->references[page] = 1;
  self->peak = MAX (self->peak, self->total - self->free_count);
  return page;
}

void
plumb_kv_pages_share (PlumbKvPages *self, int page)
{
  g_return_if_fail (page >= 0 && page < self->total && self->references[page] > 0);
  self->references[page]++;
}

void
plumb_kv_pages_release (PlumbKvPages *self, int page)
{
  g_return_if_fail (page >= 0 && page < self->total && self->references[page] > 0);
  if (--self->references[page] == 0)
    self->free_list[self->free_count++] = page;
}

int
plumb_kv_pages_total (PlumbKvPages *self)
{
  return self->total;
}

int
plumb_kv_pages_used (PlumbKvPages *self)
{
  return self->total - self->free_count;
}

int
plumb_kv_pages_peak (PlumbKvPages *self)
{
  return self->peak;
}

void
plumb_kv_pages_forget_peak (PlumbKvPages *self)
{
  self->peak = plumb_kv_pages_used (self);
}

int
plumb_kv_pages_references (PlumbKvPages *self, int page)
{
  g_return_val_if_fail (page >= 0 && page < self->total, 0);
  return self->references[page];
}
