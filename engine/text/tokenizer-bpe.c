/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding: vocabulary, merges, and the merging of a piece. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

#define MOST_IDS (1 << 24)
#define SHORT_PIECE 48 /* up to here a plain search for the best merge is faster than a heap */

typedef struct
{
  gint32 left, right; /* -1 in `left`: an empty slot */
  gint32 rank, result;
} Merge;

struct _PlumbBpe
{
  GHashTable *ids;   /* spelling -> id + 1; spellings are owned by `tokens` */
  GPtrArray *tokens; /* id -> spelling, NULL for gaps */
  GArray *pending;   /* of Merge, in order of rank */
  Merge *merges;     /* open hash table by (left, right) */
  gsize mask;
  gint32 bytes[256]; /* <0xNN>, -1: none */
  gint32 unknown;    /* -1: none */
  char *unknown_token;
  gboolean byte_fallback, fuse_unknown, ignore_merges;
};

PlumbBpe *
plumb_bpe_new (void)
{
  PlumbBpe *bpe = g_new0 (PlumbBpe, 1);

  bpe->ids = g_hash_table_new (g_str_hash, g_str_equal);
  bpe->tokens = g_ptr_array_new_with_free_func (g_free);
  bpe->pending = g_array_new (FALSE, FALSE, sizeof (Merge));
  bpe->unknown = -1;
  return bpe;
}

void
plumb_bpe_free (PlumbBpe *bpe)
{
  g_hash_table_unref (bpe->ids);
  g_ptr_array_unref (bpe->tokens);
  g_array_unref (bpe->pending);
  g_free (bpe->merges);
  g_free (bpe->unknown_token);
  g_free (bpe);
}

gint32
plumb_bpe_find (PlumbBpe *bpe, const char *token)
{
  return GPOINTER_TO_INT (g_hash_table_lookup (bpe->ids, token)) - 1;
}

const char *
plumb_bpe_token (PlumbBpe *bpe, gint32 id)
{
  return id >= 0 && (guint)id < bpe->tokens->len ? g_ptr_array_index (bpe->tokens, id) : NULL;
}

guint
plumb_bpe_size (PlumbBpe *bpe)
{
  return bpe->tokens->len;
}

static gboolean
invalid (GError **error, const char *what, const char *name)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: %s", what, name);
  return FALSE;
}

gboolean
plumb_bpe_read_vocab (PlumbBpe *bpe, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  gint64 id;

  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    {
      char *token;

      if (!plumb_json_get_integer (scan, &id))
        break;
      if (id < 0 || id >= MOST_IDS)
        return invalid (error, "the id of this token is out of range", key->str);
      if (g_hash_table_contains (bpe->ids, key->str))
        return invalid (error, "this token is twice in the vocabulary", key->str);
      if ((guint)id >= bpe->tokens->len)
        g_ptr_array_set_size (bpe->tokens, id + 1);
      if (g_ptr_array_index (bpe->tokens, id) != NULL)
        return invalid (error, "this token has the id of another", key->str);
      token = g_strdup (key->str);
      g_ptr_array_index (bpe->tokens, id) = token;
      g_hash_table_insert (bpe->ids, token, GINT_TO_POINTER (id + 1));
    }
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

gboolean
plumb_bpe_add_merge (PlumbBpe *bpe, const char *left, const char *right, GError **error)
{
  g_autofree char *whole = g_strconcat (left, right, NULL);
  Merge merge = { .left = plumb_bpe_find (bpe, left),
                  .right = plumb_bpe_find (bpe, right),
                  .rank = bpe->pending->len,
                  .result = plumb_bpe_find (bpe, whole) };

  if (merge.left < 0 || merge.right < 0 || merge.result < 0)
    return invalid (error, "a merge needs a token that the vocabulary lacks", whole);
  g_array_append_val (bpe->pending, merge);
  return TRUE;
}

/* "a b" or ["a", "b"] */
static gboolean
read_merge (PlumbBpe *bpe, PlumbJsonScan *scan, GString *left, GString *right, GError **error)
{
  char *blank;

  if (plumb_json_peek (scan) == PLUMB_JSON_ARRAY)
    {
      if (!plumb_json_enter_array (scan) || !plumb_json_next_element (scan)
          || !plumb_json_get_string (scan, left) || !plumb_json_next_element (scan)
          || !plumb_json_get_string (scan, right))
        {
          if (scan->message == NULL)
            return invalid (error, "a merge is no pair", left->str);
          return plumb_tokenizer_malformed (error, scan);
        }
      if (plumb_json_next_element (scan))
        return invalid (error, "a merge has more than two parts", left->str);
      return plumb_bpe_add_merge (bpe, left->str, right->str, error);
    }
  if (!plumb_json_get_string (scan, left))
    return plumb_tokenizer_malformed (error, scan);
  blank = strchr (left->str, ' ');
  if (blank == NULL)
    return invalid (error, "a merge is no pair", left->str);
  *blank = '\0';
  return plumb_bpe_add_merge (bpe, left->str, blank + 1, error);
}

static gboolean
read_merges (PlumbBpe *bpe, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) left = g_string_new (NULL);
  g_autoptr (GString) right = g_string_new (NULL);

  if (!plumb_json_enter_array (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_element (scan))
    if (!read_merge (bpe, scan, left, right, error))
      return FALSE;
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

/* Options that would change the result and that no model in use has. */
static gboolean
refuse_option (PlumbJsonScan *scan, const char *key, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  PlumbJsonType type = plumb_json_peek (scan);

  if (type == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (type == PLUMB_JSON_STRING && plumb_json_get_string (scan, text) && text->len == 0)
    return TRUE;
  return plumb_tokenizer_unsupported (error, "BPE option", key);
}

static gboolean
read_member (
    PlumbBpe *bpe, PlumbJsonScan *scan, const char *key, const char **merges_at, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);

  if (g_str_equal (key, "type"))
    {
      if (plumb_json_get_string (scan, text) && !g_str_equal (text->str, "BPE"))
        return plumb_tokenizer_unsupported (error, "tokenizer model", text->str);
    }
  else if (g_str_equal (key, "vocab"))
    return plumb_bpe_read_vocab (bpe, scan, error);
  else if (g_str_equal (key, "merges"))
    {
      /* They need the vocabulary, which may stand behind them. */
      *merges_at = scan->next;
      plumb_json_skip (scan);
    }
  else if (g_str_equal (key, "unk_token") && plumb_json_peek (scan) == PLUMB_JSON_STRING)
    {
      plumb_json_get_string (scan, text);
      g_free (bpe->unknown_token);
      bpe->unknown_token = g_strdup (text->str);
    }
  else if (g_str_equal (key, "byte_fallback"))
    plumb_json_get_boolean (scan, &bpe->byte_fallback);
  else if (g_str_equal (key, "fuse_unk"))
    plumb_json_get_boolean (scan, &bpe->fuse_unknown);
  else if (g_str_equal (key, "ignore_merges"))
    plumb_json_get_boolean (scan, &bpe->ignore_merges);
  else if (g_str_equal (key, "continuing_subword_prefix") || g_str_equal (key, "end_of_word_suffix")
           || g_str_equal (key, "dropout"))
    return refuse_option (scan, key, error);
  else
    plumb_json_skip (scan);
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

gboolean
plumb_bpe_read (PlumbBpe *bpe, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  const char *merges_at = NULL;
  PlumbJsonScan merges;

  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    if (!read_member (bpe, scan, key->str, &merges_at, error))
      return FALSE;
  if (scan->message != NULL)
    return plumb_tokenizer_malformed (error, scan);
  if (merges_at == NULL)
    return TRUE;
  plumb_json_scan_init (&merges, scan->data, scan->end - scan->data);
  merges.next = merges_at;
  return read_merges (bpe, &merges, error);
}

static gsize
slot_of (gint32 left, gint32 right)
{
  guint64 key = (guint64)(guint32)left << 32 | (guint32)right;

  key *= G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  return key ^ key >> 29;
}

static const Merge *
find_merge (const PlumbBpe *bpe, gint32 left, gint32 right)
{
  for (gsize slot = slot_of (left, right);; slot++)
    {
      const Merge *merge = &bpe->merges[slot & bpe->mask];

      if (merge->left < 0)
        return NULL;
      if (merge->left == left && merge->right == right)
        return merge;
    }
}

static void
index_merges (PlumbBpe *bpe)
{
  gsize size = 16;

  while (size < (gsize)bpe->pending->len * 2)
    size *= 2;
  bpe->mask = size - 1;
  bpe->merges = g_new (Merge, size);
  for (gsize i = 0; i < size; i++)
    bpe->merges[i].left = -1;
  for (guint i = 0; i < bpe->pending->len; i++)
    {
      const Merge *merge = &g_array_index (bpe->pending, Merge, i);
      gsize slot = slot_of (merge->left, merge->right);

      if (find_merge (bpe, merge->left, merge->right) != NULL)
        continue; /* named twice: the first rank counts */
      while (bpe->merges[slot & bpe->mask].left >= 0)
        slot++;
      bpe->merges[slot & bpe->mask] = *merge;
    }
  g_array_set_size (bpe->pending, 0);
}

gboolean
plumb_bpe_prepare (PlumbBpe *bpe, GError **error)
{
  if (g_hash_table_size (bpe->ids) == 0)
    return invalid (error, "the vocabulary is empty", "model.vocab");
  index_merges (bpe);
  for (guint i = 0; i < 256; i++)
    {
      char name[8];

      g_snprintf (name, sizeof name, "<0x%02X>", i);
      bpe->bytes[i] = plumb_bpe_find (bpe, name);
    }
  if (bpe->unknown_token != NULL)
    bpe->unknown = plumb_bpe_find (bpe, bpe->unknown_token);
  return TRUE;
}

static gboolean
append_unknown (PlumbBpe *bpe, const char *c, gsize size, GArray *symbols, GError **error)
{
  gboolean all = bpe->byte_fallback;

  for (gsize i = 0; i < size; i++)
    all = all && bpe->bytes[(guchar)c[i]] >= 0;
  if (all)
    {
      for (gsize i = 0; i < size; i++)
        g_array_append_val (symbols, bpe->bytes[(guchar)c[i]]);
      return TRUE;
    }
  if (bpe->unknown < 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "the vocabulary has no token for the character \"%.*s\" and none for unknown"
                   " ones",
                   (int)size, c);
      return FALSE;
    }
  if (!bpe->fuse_unknown || symbols->len == 0
      || g_array_index (symbols, gint32, symbols->len - 1) != bpe->unknown)
    g_array_append_val (symbols, bpe->unknown);
  return TRUE;
}

/* One symbol per character. */
static gboolean
to_symbols (PlumbBpe *bpe, const char *piece, gsize length, GArray *symbols, GError **error)
{
  const char *end = piece + length;

  while (piece < end)
    {
      gsize size = g_utf8_next_char (piece) - piece;
      char c[8] = { 0 };
      gint32 id;

      memcpy (c, piece, MIN (size, sizeof c - 1));
      id = plumb_bpe_find (bpe, c);
      if (*piece == '\0')
        id = -1; /* a NUL is no empty token */
      if (id >= 0)
        g_array_append_val (symbols, id);
      else if (!append_unknown (bpe, piece, size, symbols, error))
        return FALSE;
      piece += size;
    }
  return TRUE;
}

static void
merge_short (const PlumbBpe *bpe, GArray *array)
{
  gint32 *symbols = (gpointer)array->data;
  guint n = array->len;

  for (;;)
    {
      const Merge *best = NULL;
      guint place = 0;

      for (guint i = 0; i + 1 < n; i++)
        {
          const Merge *merge = find_merge (bpe, symbols[i], symbols[i + 1]);

          if (merge != NULL && (best == NULL || merge->rank < best->rank))
            {
              best = merge;
              place = i;
            }
        }
      if (best == NULL)
        break;
      symbols[place] = best->result;
      memmove (symbols + place + 1, symbols + place + 2, (n - place - 2) * sizeof *symbols);
      n--;
    }
  g_array_set_size (array, n);
}

typedef struct
{
  gint32 rank, place;
  gint32 left, right; /* the symbols when it was queued: stale if they have changed */
} Candidate;

static gboolean
comes_before (const Candidate *a, const Candidate *b)
{
  return a->rank < b->rank || (a->rank == b->rank && a->place < b->place);
}

static void
heap_push (GArray *heap, Candidate candidate)
{
  guint child = heap->len;
  Candidate *items;

  g_array_append_val (heap, candidate);
  items = (gpointer)heap->data;
  while (child > 0 && comes_before (&candidate, &items[(child - 1) / 2]))
    {
      items[child] = items[(child - 1) / 2];
      child = (child - 1) / 2;
    }
  items[child] = candidate;
}

static Candidate
heap_pop (GArray *heap)
{
  Candidate *items = (gpointer)heap->data;
  Candidate top = items[0], last = items[heap->len - 1];
  guint parent = 0, n = heap->len - 1;

  for (guint child = 1; child < n; child = 2 * parent + 1)
    {
      if (child + 1 < n && comes_before (&items[child + 1], &items[child]))
        child++;
      if (!comes_before (&items[child], &last))
        break;
      items[parent] = items[child];
      parent = child;
    }
  items[parent] = last;
  g_array_set_size (heap, n);
  return top;
}

static void
queue_pair (const PlumbBpe *bpe, GArray *heap, const gint32 *symbols, gint32 place, gint32 after)
{
  const Merge *merge;

  if (place < 0 || after < 0)
    return;
  merge = find_merge (bpe, symbols[place], symbols[after]);
  if (merge != NULL)
    heap_push (heap, (Candidate){ merge->rank, place, symbols[place], symbols[after] });
}

/* The same for long pieces: a linked list of symbols and a heap of candidates. */
static void
merge_long (const PlumbBpe *bpe, GArray *array)
{
  gint32 *symbols = (gpointer)array->data;
  gint32 n = array->len, kept = 0;
  g_autofree gint32 *before = g_new (gint32, n);
  g_autofree gint32 *after = g_new (gint32, n);
  g_autoptr (GArray) heap = g_array_new (FALSE, FALSE, sizeof (Candidate));

  for (gint32 i = 0; i < n; i++)
    {
      before[i] = i - 1;
      after[i] = i + 1 < n ? i + 1 : -1;
      queue_pair (bpe, heap, symbols, i, after[i]);
    }
  while (heap->len > 0)
    {
      Candidate candidate = heap_pop (heap);
      gint32 place = candidate.place, next = after[place];

      if (next < 0 || symbols[place] != candidate.left || symbols[next] != candidate.right)
        continue;
      symbols[place] = find_merge (bpe, candidate.left, candidate.right)->result;
      symbols[next] = -1;
      after[place] = after[next];
      if (after[place] >= 0)
        before[after[place]] = place;
      after[next] = -1;
      queue_pair (bpe, heap, symbols, before[place], place);
      queue_pair (bpe, heap, symbols, place, after[place]);
    }
  for (gint32 i = 0; i < n; i++)
    if (symbols[i] >= 0)
      symbols[kept++] = symbols[i];
  g_array_set_size (array, kept);
}

gboolean
plumb_bpe_encode (PlumbBpe *bpe, const char *piece, gsize length, GArray *ids, GError **error)
{
  g_autoptr (GArray) symbols = NULL;

  if (bpe->ignore_merges && memchr (piece, '\0', length) == NULL)
    {
      gint32 id = plumb_bpe_find (bpe, piece);

      if (id >= 0)
        {
          g_array_append_val (ids, id);
          return TRUE;
        }
    }
  symbols = g_array_sized_new (FALSE, FALSE, sizeof (gint32), MIN (length, 1 << 20));
  if (!to_symbols (bpe, piece, length, symbols, error))
    return FALSE;
  if (symbols->len <= SHORT_PIECE)
    merge_short (bpe, symbols);
  else
    merge_long (bpe, symbols);
  g_array_append_vals (ids, symbols->data, symbols->len);
  return TRUE;
}
