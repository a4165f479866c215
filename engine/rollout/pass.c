/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/rollout/pass.h"

#define N_INTEGERS 8

static void
list_integers (PlumbPassDraft *d, GArray **arrays[N_INTEGERS])
{
  GArray **all[N_INTEGERS]
      = { &d->ids, &d->source, &d->offsets, &d->contexts, &d->slots, &d->pages, &d->rows, &d->seen_rows };
  for (int i = 0; i < N_INTEGERS; i++)
    arrays[i] = all[i];
}

void
plumb_pass_draft_init (PlumbPassDraft *d, int stride, int page_tokens)
{
  GArray **arrays[N_INTEGERS];
  gint32 zero = 0;
  list_integers (d, arrays);
  for (int i = 0; i < N_INTEGERS; i++)
    *arrays[i] = g_array_new (FALSE, FALSE, sizeof (gint32));
  d->random = g_array_new (FALSE, FALSE, sizeof (struct dev_random));
  d->ban = g_array_new (FALSE, FALSE, 1);
  d->stride = stride;
  d->page_tokens = page_tokens;
  g_array_append_val (d->offsets, zero);
}

void
plumb_pass_draft_clear (PlumbPassDraft *d)
{
  GArray **arrays[N_INTEGERS];
  list_integers (d, arrays);
  for (int i = 0; i < N_INTEGERS; i++)
    g_clear_pointer (arrays[i], g_array_unref);
  g_clear_pointer (&d->random, g_array_unref);
  g_clear_pointer (&d->ban, g_array_unref);
}

void
plumb_pass_draft_add (PlumbPassDraft *d, const gint32 *ids, gint32 source, int first, int n, GArray *pages)
{
  for (int i = 0; i < n; i++)
    {
      int page = g_array_index (pages, int, (first + i) / d->page_tokens);
      gint32 slot = page * d->page_tokens + (first + i) % d->page_tokens;
      gint32 id = ids ? ids[i] : 0, from = ids ? -1 : source;
      g_array_append_val (d->ids, id);
      g_array_append_val (d->source, from);
      g_array_append_val (d->slots, slot);
    }
  gint32 context = first + n, end = (gint32) d->ids->len;
  g_array_append_val (d->contexts, context);
  g_array_append_val (d->offsets, end);
  for (int i = 0; i < d->stride; i++)
    {
      gint32 page = i < (int) pages->len ? g_array_index (pages, int, i) : 0;
      g_array_append_val (d->pages, page);
    }
}

int
plumb_pass_draft_ask (PlumbPassDraft *d, const struct dev_random *random, gboolean ban, int seen)
{
  gint32 row = (gint32) d->ids->len - 1;
  gint32 seen_row = seen;
  guint8 banned = ban != FALSE;
  g_array_append_val (d->rows, row);
  g_array_append_vals (d->random, random, 1);
  g_array_append_val (d->ban, banned);
  g_array_append_val (d->seen_rows, seen_row);
  return (int) d->rows->len - 1;
}

void
plumb_pass_draft_pad (PlumbPassDraft *d, int rows, int page, int seen)
{
  const struct dev_random random = { { 0, 0, 0 } };
  const gint32 id = 0;
  g_autoptr (GArray) pages = g_array_new (FALSE, FALSE, sizeof (int));
  g_array_append_val (pages, page);
  while ((int) d->rows->len < rows)
    {
      plumb_pass_draft_add (d, &id, -1, 0, 1, pages);
      plumb_pass_draft_ask (d, &random, FALSE, seen);
    }
}

static gint32 *
integers (const GArray *array)
{
  return (gint32 *) (void *) array->data;
}

PlumbPass
plumb_pass_draft_pass (const PlumbPassDraft *d, const struct dev_kv *kv)
{
  return (PlumbPass){
    .sequences = (int) d->contexts->len,
    .ids = integers (d->ids),
    .offsets = integers (d->offsets),
    .contexts = integers (d->contexts),
    .slots = integers (d->slots),
    .pages = integers (d->pages),
    .table_stride = d->stride,
    .page_tokens = d->page_tokens,
    .kv = kv,
  };
}

PlumbWanted
plumb_pass_draft_asked (const PlumbPassDraft *d, double temperature, guint64 seed)
{
  return (PlumbWanted){
    .source = integers (d->source),
    .rows = integers (d->rows),
    .random = (struct dev_random *) (void *) d->random->data,
    .ban = (guint8 *) d->ban->data,
    .seen_rows = integers (d->seen_rows),
    .n = (int) d->rows->len,
    .temperature = temperature,
    .seed = seed,
  };
}
