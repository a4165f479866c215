/* SPDX-License-Identifier: Apache-2.0 */
/* A prefix tree: one open hash table from (node, byte) to the node below. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/text/tokenizer-private.h"

typedef struct
{
  gint32 node; /* -1: an empty slot */
  gint32 below;
  guint8 byte;
} Edge;

struct _PlumbTrie
{
  Edge *edges;
  gsize mask;
  GArray *values; /* gint32 of each node */
};

PlumbTrie *
plumb_trie_new (void)
{
  PlumbTrie *trie = g_new0 (PlumbTrie, 1);
  gint32 none = -1;

  trie->mask = 63;
  trie->edges = g_new (Edge, trie->mask + 1);
  for (gsize i = 0; i <= trie->mask; i++)
    trie->edges[i].node = -1;
  trie->values = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_array_append_val (trie->values, none);
  return trie;
}

void
plumb_trie_free (PlumbTrie *trie)
{
  g_free (trie->edges);
  g_array_unref (trie->values);
  g_free (trie);
}

static gsize
slot_of (gint32 node, guint8 byte)
{
  guint64 key = ((guint64)node << 8 | byte) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  return key ^ key >> 32;
}

static Edge *
find_slot (const PlumbTrie *trie, gint32 node, guint8 byte)
{
  for (gsize slot = slot_of (node, byte);; slot++)
    {
      Edge *edge = &trie->edges[slot & trie->mask];

      if (edge->node < 0 || (edge->node == node && edge->byte == byte))
        return edge;
    }
}

static void
grow (PlumbTrie *trie)
{
  g_autofree Edge *old = trie->edges;
  gsize n = trie->mask + 1;

  trie->mask = 2 * n - 1;
  trie->edges = g_new (Edge, 2 * n);
  for (gsize i = 0; i < 2 * n; i++)
    trie->edges[i].node = -1;
  for (gsize i = 0; i < n; i++)
    if (old[i].node >= 0)
      *find_slot (trie, old[i].node, old[i].byte) = old[i];
}

gint32
plumb_trie_step (const PlumbTrie *trie, gint32 node, guint8 byte)
{
  const Edge *edge = find_slot (trie, node, byte);

  return edge->node < 0 ? -1 : edge->below;
}

gint32
plumb_trie_value (const PlumbTrie *trie, gint32 node)
{
  return g_array_index (trie->values, gint32, node);
}

void
plumb_trie_add (PlumbTrie *trie, const char *bytes, gsize length, gint32 value)
{
  gint32 node = 0, none = -1;

  for (gsize i = 0; i < length; i++)
    {
      Edge *edge = find_slot (trie, node, bytes[i]);

      if (edge->node < 0)
        {
          *edge = (Edge){ node, trie->values->len, bytes[i] };
          node = edge->below;
          g_array_append_val (trie->values, none);
          if (trie->values->len * (gsize)2 > trie->mask)
            grow (trie);
        }
      else
        node = edge->below;
    }
  if (g_array_index (trie->values, gint32, node) < 0)
    g_array_index (trie->values, gint32, node) = value;
}

gint32
plumb_trie_longest (const PlumbTrie *trie, const char *text, gsize length, gsize *size)
{
  gint32 node = 0, best = -1;

  for (gsize i = 0; i < length; i++)
    {
      node = plumb_trie_step (trie, node, text[i]);
      if (node < 0)
        break;
      if (plumb_trie_value (trie, node) >= 0)
        {
          best = plumb_trie_value (trie, node);
          *size = i + 1;
        }
    }
  return best;
}
